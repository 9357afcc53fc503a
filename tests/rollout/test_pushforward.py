"""Forward sensitivities: against central differences, with every joint type and with contact; the pullback's transpose.

Tangents of states are compared in the tangent space, also of quaternions.
"""

import numpy as np
import pytest
from trees import random_states, random_tree

import pullback as pb
from pullback.core.errors import GradientOverflow
from pullback.dynamics import linearize as linearize_module
from pullback.model.tangent import difference, integrate, tangent_of_coordinates

DIFFERENCES = (1e-4, 1e-5, 1e-6)  # lengths of steps; the best counts


def moved(system, start, controls, tangents: dict, column: int, length: float):
    """The run after everything that went in was moved along one column of its tangents."""
    state = tangents.get("state")
    if state is not None:
        q = integrate(system.model, start.q, length * state[:, : system.nv, column])
        start = pb.State(q, start.v + length * state[:, system.nv :, column])
    if "controls" in tangents:
        controls = controls + length * tangents["controls"][..., column]
    params = {n: system.params[n] + length * t[..., column] for n, t in tangents.get("params", {}).items()}
    return pb.rollout(system, start, controls, params=params)


def assert_is_the_derivative(system, start, controls, tangents: dict, tolerance: float) -> None:
    pushed = pb.rollout(system, start, controls).pushforward(**tangents)
    assert pushed.shape[:3] == (len(controls) + 1, system.worlds, 2 * system.nv)
    for column in range(pushed.shape[3]):
        errors = []
        for length in DIFFERENCES:
            up, down = (moved(system, start, controls, tangents, column, sign * length) for sign in (1, -1))
            by = np.concatenate([difference(system.model, down.q, up.q), up.v - down.v], axis=2) / (2 * length)
            errors.append(np.abs(by - pushed[..., column]).max() / np.abs(by).max())
        assert np.abs(pushed[..., column]).max() > 1e-4
        assert min(errors) < tolerance, (column, errors)


def random_tangents(system, steps: int, names, rng, count: int = 3) -> dict:
    params = {n: system.params[n][..., None] * rng.uniform(-1, 1, (*system.params[n].shape, count)) for n in names}
    return {
        "state": rng.normal(size=(system.worlds, 2 * system.nv, count)),
        "controls": rng.normal(size=(steps, system.worlds, system.nu, count)),
        "params": params,
    }


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("kind", ["state", "controls", "params"])
def test_central_differences_of_every_joint_type(integrator, kind):
    joints = ("ball", "hinge", "slide") if integrator == "implicitfast" else ("free", "ball", "hinge", "slide")
    model = pb.load(random_tree(8, bodies=6, joints=joints, integrator=integrator, limits=False))
    rng = np.random.default_rng(0)
    q, v = random_states(model.mujoco, rng, 2)
    system = pb.Articulated(model, worlds=2)
    tangents = random_tangents(system, 12, ("mass", "com", "inertia", "damping", "gravity"), rng)
    assert_is_the_derivative(
        system, system.state(q, v), rng.normal(size=(12, 2, model.nu)), {kind: tangents[kind]}, 1e-7
    )


@pytest.mark.parametrize("contact", [pb.ContactConvex(), pb.ContactCompliant(), pb.ContactImpulse()])
def test_central_differences_of_feet_that_slide(contact):
    """A quadruped on its four feet, pushed along the floor."""
    model = pb.load(pb.robots.quadruped())
    system = pb.Articulated(model, contact)
    rng = np.random.default_rng(1)
    system.params["spring_ref"] = model.home.q
    system.params["stiffness"] = np.append(0.0, np.full(12, 200.0))  # which hold the trunk up
    q, v = model.home.q.copy(), 0.02 * rng.normal(size=model.nv)
    q[2] -= 2e-3
    v[:3] = 0.6, 0.3, -0.05
    feet = [model.geoms.names.index(f"{leg}_foot") for leg in ("FR", "FL", "RR", "RL")]
    friction = np.zeros((*system.params["friction"].shape, 2))
    friction[feet, 0, 0] = 1.0
    friction[model.geoms.names.index("floor"), 0, :] = 1.0
    mass, damping = (x[:, None] * rng.uniform(0.5, 1, (len(x), 2)) for x in (model.body_mass, model.dof_damping))
    tangents = {"params": {"friction": friction, "mass": mass, "damping": damping}}
    controls = np.tile(rng.normal(size=(1, 1, model.nu)), (20, 1, 1))
    run = pb.rollout(system, system.state(q, v), controls)
    assert all(len(run.contacts(step)[0]) >= 2 for step in (0, 10, 19))
    assert_is_the_derivative(system, system.state(q, v), controls, tangents, 1e-5)


def transposed(run, tangents: dict, names) -> tuple[np.ndarray, np.ndarray]:
    """The pairing of random cotangents with what was pushed forward, and of what is pulled back with the tangents."""
    system, rng = run.system, np.random.default_rng(5)
    states = run.every_state()
    q_bar, v_bar = rng.normal(size=states.q.shape), rng.normal(size=states.v.shape)
    tangent_bar = np.concatenate([tangent_of_coordinates(system.model, states.q, q_bar), v_bar], axis=2)
    forth = np.einsum("twi,twin->n", tangent_bar, run.pushforward(**tangents))
    bars = run.pullback(q_bar=q_bar, v_bar=v_bar)
    start_bar = tangent_of_coordinates(system.model, states.q[0], bars.state.q)
    back = np.einsum("wi,win->n", np.concatenate([start_bar, bars.state.v], axis=1), tangents["state"])
    back += np.einsum("twi,twin->n", bars.controls, tangents["controls"])
    back += sum(np.tensordot(bars.params[n], tangents["params"][n], axes=bars.params[n].ndim) for n in names)
    return forth, back


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("per_world", [False, True])
def test_it_is_the_transpose_of_the_pullback(every, per_world):
    model = pb.load(random_tree(4, bodies=5))
    rng = np.random.default_rng(2)
    q, v = random_states(model.mujoco, rng, 3)
    system = pb.Articulated(model, worlds=3)
    if per_world:
        system.params["mass"] = model.body_mass * rng.uniform(0.5, 2, (3, model.nbody))
    names = ("mass", "armature", "gravity")
    tangents = random_tangents(system, 17, names, rng)
    run = pb.rollout(system, system.state(q, v), rng.normal(size=(17, 3, model.nu)), checkpoint_every=every)
    forth, back = transposed(run, tangents, names)
    assert np.abs(back).min() > 1e-3
    np.testing.assert_allclose(forth, back, rtol=1e-10)


def test_launches_of_any_size_give_the_same_bits(monkeypatch):
    model = pb.load(random_tree(4, bodies=5))
    rng = np.random.default_rng(2)
    q, v = random_states(model.mujoco, rng, 2)
    system = pb.Articulated(model, worlds=2)
    run = pb.rollout(system, system.state(q, v), rng.normal(size=(11, 2, model.nu)))
    tangents = {"params": {"mass": rng.normal(size=(model.nbody, 2))}}
    whole = run.pushforward(**tangents)
    for steps in (1, 4, 11):
        monkeypatch.setattr(linearize_module, "LAUNCH", steps * 2 * 2 * model.nv)
        np.testing.assert_array_equal(run.pushforward(**tangents), whole)
    assert len(system._wide_systems) <= 2


def test_parameters_that_were_given_to_the_run_count():
    """Also after the System's own have changed."""
    model = pb.load(pb.robots.cartpole())
    system = pb.Articulated(model)
    start, tangents = system.state([0.1, 0.4]), {"params": {"mass": np.eye(model.nbody)}}
    heavy = 3 * model.body_mass
    run = pb.rollout(system, start, steps=9, params={"mass": heavy})
    plain = pb.rollout(system, start, steps=9).pushforward(**tangents)
    pushed = run.pushforward(**tangents)
    system.params["mass"] = heavy
    np.testing.assert_array_equal(pb.rollout(system, start, steps=9).pushforward(**tangents), pushed)
    assert np.abs(plain - pushed).max() > 1e-6


def test_what_cannot_be_pushed_forward():
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    run = pb.rollout(system, system.state(), steps=5)
    for given, words in (
        ({}, "at least one of"),
        ({"state": np.zeros((1, 3, 2))}, "tangent of state"),
        ({"controls": np.zeros((5, 1, 1))}, "one more axis"),
        ({"params": {"mass": np.zeros((7, 2))}}, "tangent of mass"),
        ({"params": {"weight": np.zeros((3, 2))}}, "no parameter 'weight'"),
        ({"state": np.zeros((1, 4, 2)), "controls": np.zeros((5, 1, 1, 3))}, "tangent of controls"),
    ):
        with pytest.raises(pb.PullbackError, match=words):
            run.pushforward(**given)
    with pytest.raises(GradientOverflow, match="beyond the precision in world 0"):
        run.pushforward(state=np.full((1, 4, 1), 1.79e308))
