"""Forces applied from outside: against MuJoCo's qfrc_applied and xfrc_applied, and their cotangents."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch
from trees import random_states, random_tree

import pullback as pb
import pullback.jax as pbj
import pullback.torch as pbt
from pullback.core.trees import tree_map
from pullback.rollout import linearize_run

jax.config.update("jax_enable_x64", True)

CONTACTS = {
    "convex": pb.ContactConvex(),
    "impulse": pb.ContactImpulse(),
    "compliant": pb.ContactCompliant(),
}


def tree(integrator: str = "Euler", worlds: int = 2, seed: int = 5):
    """Free, ball, hinge and slide joints, with a state and forces for each world."""
    model = pb.load(random_tree(seed, bodies=5, integrator=integrator))
    rng = np.random.default_rng(seed)
    q, v = random_states(model.mujoco, rng, worlds)
    system = pb.Articulated(model, contact=None, worlds=worlds)
    inputs = {"force": rng.normal(size=(worlds, system.nv)), "wrench": rng.normal(size=(worlds, model.nbody, 6))}
    return system, system.state(q, v), rng.normal(size=(worlds, system.nu)), inputs


def standing(contact, worlds: int = 2):
    """A quadruped on its feet, leaned on."""
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=contact, worlds=worlds)
    rng = np.random.default_rng(0)
    q = np.tile(system.model.home.q, (worlds, 1))
    q[:, 2] -= 1e-3
    v = 0.05 * rng.normal(size=(worlds, system.nv))
    inputs = {"force": rng.normal(size=(worlds, system.nv)), "wrench": rng.normal(size=(worlds, system.model.nbody, 6))}
    return system, system.state(q, v), np.zeros((worlds, system.nu)), inputs


def mujoco_step(model, q, v, control, inputs):
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, control
    data.qfrc_applied[:] = inputs["force"]
    data.xfrc_applied[:, :3], data.xfrc_applied[:, 3:] = inputs["wrench"][:, 3:], inputs["wrench"][:, :3]
    mujoco.mj_step(model, data)
    return data.qpos.copy(), data.qvel.copy()


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_against_mujoco(integrator):
    system, state, control, inputs = tree(integrator)
    after = system.step(state, control, inputs=inputs)
    plain = system.step(state, control)
    for world in range(2):
        given = {name: x[world] for name, x in inputs.items()}
        q, v = mujoco_step(system.model.mujoco, state.q[world], state.v[world], control[world], given)
        moved = np.abs(v - plain.v[world]).max()
        assert moved > 1e-3
        np.testing.assert_allclose(after.v[world], v, atol=1e-11 * np.abs(v).max())
        np.testing.assert_allclose(after.q[world], q, atol=1e-11 * np.abs(q).max())


def test_against_mujoco_with_contact():
    system, state, control, inputs = standing(pb.ContactConvex())
    after = system.step(state, control, inputs=inputs)
    for world in range(2):
        given = {name: x[world] for name, x in inputs.items()}
        _, v = mujoco_step(system.model.mujoco, state.q[world], state.v[world], control[world], given)
        np.testing.assert_allclose(after.v[world], v, atol=1e-9)
    forces = [system.contacts(state, control, inputs=given)[0].force for given in (None, inputs)]
    assert np.abs(forces[0] - forces[1]).max() > 1e-2


def gradients_agree(system, state, control, inputs, tolerance: float):
    """Of a random pairing of three steps' end, by forces, wrenches, velocities and centres of mass."""
    rng = np.random.default_rng(3)
    controls = np.stack([control] * 3)
    inputs = {name: np.stack([x, 0.5 * x, -x]) for name, x in inputs.items()}
    v_bar = rng.normal(size=state.v.shape)
    found = pb.rollout(system, state, controls, inputs=inputs).pullback(v_bar=v_bar)

    def loss(inputs=inputs, state=state, params=None):
        return float(np.sum(v_bar * pb.rollout(system, state, controls, inputs=inputs, params=params).v[-1]))

    com = system.params["com"]
    for name, value, bar, at in (
        ("force", inputs["force"], found.inputs.force, lambda x: loss(inputs={**inputs, "force": x})),
        ("wrench", inputs["wrench"], found.inputs.wrench, lambda x: loss(inputs={**inputs, "wrench": x})),
        ("v", state.v, found.state.v, lambda x: loss(state=pb.State(state.q, x))),
        ("com", com, found.params.com, lambda x: loss(params={"com": x})),
    ):
        assert bar.shape == value.shape and np.abs(bar).max() > 1e-6, name
        direction = rng.normal(size=value.shape)
        if name in ("wrench", "com"):
            direction[..., 0, :] = 0  # the world is not moved
        exact, errors = float(np.sum(bar * direction)), []
        for h in (1e-3, 1e-4, 1e-5, 1e-6):
            errors.append(abs((at(value + h * direction) - at(value - h * direction)) / (2 * h) - exact))
        assert min(errors) <= tolerance * max(abs(exact), 1e-2 * np.abs(bar).max()), (name, exact, errors)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_gradients(integrator):
    gradients_agree(*tree(integrator), 1e-8)


@pytest.mark.parametrize("contact", ["convex", "impulse", "compliant"])
def test_gradients_with_contact(contact):
    gradients_agree(*standing(CONTACTS[contact]), 1e-6)


def test_a_force_is_what_a_motor_would_do():
    """Motors of gear one on the hinges of a quadruped: value and gradient, held for two timesteps."""
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None)
    rng = np.random.default_rng(0)
    gear = np.zeros((system.nu, 6))
    gear[:, 0] = 1.0
    system.params["gear"] = gear
    controls = 0.5 * rng.uniform(-1, 1, size=(4, 1, system.nu))
    force = np.zeros((4, 1, system.nv))
    force[..., system.model.joint_v[system.model.actuator_joint]] = controls * system.params["gain"][:, 0]
    by_motor = pb.rollout(system, system.state(), controls, hold=2)
    by_force = pb.rollout(system, system.state(), np.zeros_like(controls), hold=2, inputs={"force": force})
    np.testing.assert_allclose(by_force.q, by_motor.q, atol=1e-13)
    q_bar = rng.normal(size=by_motor.q.shape)
    motor, hand = by_motor.pullback(q_bar=q_bar), by_force.pullback(q_bar=q_bar)
    wanted = motor.controls / system.params["gain"][:, 0]
    np.testing.assert_allclose(
        hand.inputs.force[..., system.model.joint_v[system.model.actuator_joint]], wanted, rtol=1e-9, atol=1e-14
    )
    assert np.abs(wanted).max() > 1e-6


@pytest.mark.parametrize("every", [1, 2])
def test_checkpoints_and_bindings(every):
    system, state, control, inputs = tree()
    controls = np.stack([control] * 5)
    inputs = {name: np.stack([x] * 5) for name, x in inputs.items()}
    rng = np.random.default_rng(1)
    whole = pb.rollout(system, state, controls, inputs=inputs)
    run = pb.rollout(system, state, controls, inputs=inputs, checkpoint_every=every)
    q_bar = rng.normal(size=run.q.shape)
    padded = np.zeros(whole.q.shape)
    padded[run.kept] = q_bar
    found, wanted = run.pullback(q_bar=q_bar), whole.pullback(q_bar=padded)
    for name in inputs:
        np.testing.assert_array_equal(found.inputs[name], wanted.inputs[name])

    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in inputs.items()}
    options = {"checkpoint_every": every}
    start = tree_map(torch.tensor, state)
    q, _ = pbt.rollout(system, start, torch.tensor(controls), inputs=tensors, **options)
    (q * torch.tensor(q_bar)).sum().backward()
    start = tree_map(jnp.asarray, state)

    def loss(inputs):
        return jnp.sum(pbj.rollout(system, start, jnp.asarray(controls), inputs=inputs, **options).q * q_bar)

    by_jax = jax.grad(loss)({name: jnp.asarray(x) for name, x in inputs.items()})
    for name in inputs:
        np.testing.assert_allclose(tensors[name].grad, wanted.inputs[name], rtol=1e-12)
        np.testing.assert_allclose(by_jax[name], wanted.inputs[name], rtol=1e-12)
        assert np.abs(wanted.inputs[name]).max() > 1e-6


def test_bad_inputs_are_named():
    system, state, control, inputs = tree()
    with pytest.raises(pb.PullbackError, match="no input 'push': use force, wrench"):
        pb.rollout(system, state, control[None], inputs={"push": inputs["force"][None]})
    with pytest.raises(pb.PullbackError, match=r"input 'force' has shape \(2, \d+\), but \(step=1, worlds=2"):
        pb.rollout(system, state, control[None], inputs={"force": inputs["force"]})
    inputs["wrench"][1, 2, 3] = np.nan
    with pytest.raises(pb.PullbackError, match="input 'wrench' is not finite at step 0, worlds 1, axis 2 2"):
        system.step(state, control, inputs=inputs)


def test_jacobians_of_steps_know_of_no_inputs():
    """They would be wrong without a word."""
    system, state, control, inputs = tree()
    run = pb.rollout(system, state, control[None], inputs={name: x[None] for name, x in inputs.items()})
    with pytest.raises(pb.PullbackError, match=r"pushforward of a run with inputs \(force, wrench\) is not supported"):
        run.pushforward(controls=np.ones((1, *control.shape, 1)))
    with pytest.raises(pb.PullbackError, match="linearize_run of a run with inputs"):
        linearize_run(run)
