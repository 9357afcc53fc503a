"""pullback.torch.Simulator: a module with physical parameters to learn."""

import numpy as np
import pytest
import torch

import pullback as pb
import pullback.torch as pbt


def make_system(**options) -> pb.Articulated:
    return pb.Articulated(pb.load(pb.robots.cartpole()), contact=None, worlds=2, threads=1, **options)


def some_motion(system, steps: int = 20):
    rng = np.random.default_rng(0)
    shapes = (system.worlds, system.nq), (system.worlds, system.nv), (steps, system.worlds, system.nu)
    return tuple(torch.tensor(rng.standard_normal(shape)) for shape in shapes)


def test_parameters_have_the_names_and_values_of_the_system():
    system = make_system()
    simulator = pbt.Simulator(system, learn=("mass", "damping"))
    assert [name for name, _ in simulator.named_parameters()] == ["mass", "damping"]
    np.testing.assert_array_equal(simulator.mass.detach(), system.params["mass"])
    motion = some_motion(system)
    for ours, plain in zip(simulator(*motion), pbt.rollout(system, *motion), strict=True):
        assert torch.equal(ours, plain)


def test_parameters_of_a_float32_system_are_float32():
    assert pbt.Simulator(make_system(dtype="float32"), "gravity").gravity.dtype == torch.float32


def test_state_dict():
    system = make_system()
    simulator, other = (pbt.Simulator(system, learn="mass") for _ in range(2))
    with torch.no_grad():
        simulator.mass *= 1.5
    assert list(simulator.state_dict()) == ["mass"]
    other.load_state_dict(simulator.state_dict())
    motion = some_motion(system)
    assert torch.equal(simulator(*motion)[0], other(*motion)[0])


def test_an_optimiser_finds_the_mass_of_the_cart():
    system = make_system()
    motion = some_motion(system)
    cart = system.model.body_names.index("cart")
    target, _ = pbt.rollout(system, *motion)
    simulator = pbt.Simulator(system, learn=("mass",))
    with torch.no_grad():
        simulator.mass[cart] *= 1.3
    # the pole's mass is known, and so is that of the world
    simulator.mass.register_hook(lambda grad: grad * (torch.arange(len(grad)) == cart))
    optimiser = torch.optim.Adam(simulator.parameters(), lr=0.02)
    for _ in range(100):
        optimiser.zero_grad()
        ((simulator(*motion)[0] - target) ** 2).sum().backward()
        optimiser.step()
    np.testing.assert_allclose(simulator.mass.detach(), system.params["mass"], rtol=1e-2)


def test_checkpoints_and_steps():
    system = make_system()
    simulator = pbt.Simulator(system, learn=("damping",))
    q0, v0, controls = some_motion(system)
    assert simulator(q0, v0, controls, checkpoint_every=6)[0].shape == (5, 2, 2)
    q, v = pbt.step(system, q0, v0, controls[0], params=simulator.params)
    (q.sum() + v.sum()).backward()
    assert simulator.damping.grad.abs().sum() > 0


def test_bad_names_are_refused():
    with pytest.raises(pb.PullbackError, match="there is no parameter 'weight'"):
        pbt.Simulator(make_system(), learn=("weight",))
    with pytest.raises(pb.PullbackError, match="twice"):
        pbt.Simulator(make_system(), learn=("mass", "mass"))


def test_an_impossible_mass_is_named():
    system = make_system()
    simulator = pbt.Simulator(system, learn="mass")
    with torch.no_grad():
        simulator.mass.neg_()
    with pytest.raises(pb.PullbackError, match="parameter 'mass' of .* must be positive"):
        simulator(*some_motion(system))
