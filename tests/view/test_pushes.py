"""Gradients on bodies: against pushes that are really made."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.dynamics.drawing import record_contacts
from pullback.view import body_gradients

# A pendulum of two links hits a ball on the floor; a welded part and a slide see to it that bodies are not all alike.
SCENE = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    <body pos="0 0 0.8">
      <joint axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.1 0.05 -0.35" size="0.03"/>
      <body pos="0.1 0.05 -0.35">
        <joint type="slide" axis="0 0 1" stiffness="200" damping="2"/>
        <joint axis="1 2 0" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/>
        <body pos="0 0.02 -0.3"><geom type="sphere" size="0.05"/></body>
      </body>
    </body>
    <body pos="0.28 0 0.1"><freejoint/><geom type="sphere" size="0.1" mass="0.4"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def run():
    model = pb.load(SCENE)
    system = pb.Articulated(model, contact=pb.ContactCompliant(contact_stiffness=2e3, smoothing=5e-3))
    q, v = model.q0.copy(), np.zeros(model.nv)
    v[0] = -3.0
    return pb.rollout(system, system.state(q, v), steps=60)


def bars_of(q: np.ndarray) -> dict:
    """Of the loss below."""
    bar = np.zeros_like(q)
    bar[-1, 0, 3:6] = (1.0, 0.7, -0.4)
    bar[30, 0, 0] = 0.5
    return {"q_bar": bar}


def loss_of(q: np.ndarray) -> float:
    return float(q[-1, 0, 3:6] @ (1.0, 0.7, -0.4) + 0.5 * q[30, 0, 0])


def after_a_push(run, step: int, body: int, impulse: np.ndarray) -> float:
    """The loss after an impulse on a body, by MuJoCo's mass matrix and Jacobian."""
    m, data = run.system.model.mujoco, mujoco.MjData(run.system.model.mujoco)
    data.qpos[:] = run.q[step, 0]
    mujoco.mj_fwdPosition(m, data)
    jac, change = np.zeros((3, m.nv)), np.zeros((1, m.nv))
    mujoco.mj_jacBodyCom(m, data, jac, None, body)
    mujoco.mj_solveM(m, data, change, (jac.T @ impulse)[None])
    rest = pb.rollout(run.system, pb.State(run.q[step], run.v[step] + change), run.controls[step:])
    return loss_of(np.concatenate([run.q[:step], rest.q]))


def test_against_pushes(run):
    assert len(run.contacts(20)[0]) and run.q[-1, 0, 3] > 0.01  # the ball was hit
    steps = np.array([0, 10, 25, 40])
    found = body_gradients(run, steps, **bars_of(run.q))
    assert found.shape == (4, run.system.model.nbody, 3)
    assert not found[:, 0].any()  # the world cannot be pushed
    assert np.linalg.norm(found[0, 1:4], axis=1).min() > 1e-3 and np.linalg.norm(found[2, 4]) > 1e-3
    for row, step in enumerate(steps):
        for body in range(1, run.system.model.nbody):
            for axis in np.eye(3):
                exact, errors = found[row, body] @ axis, []
                for h in (1e-3, 1e-4, 1e-5):
                    sides = [after_a_push(run, step, body, sign * h * axis) for sign in (1, -1)]
                    errors.append(abs((sides[0] - sides[1]) / (2 * h) - exact))
                assert min(errors) < 1e-5 * max(1.0, abs(exact)), (step, body, axis, exact, errors)


def test_the_last_state_has_the_loss_to_itself(run):
    """A push after the last step moves nothing that this loss looks at."""
    assert not body_gradients(run, np.array([run.steps]), **bars_of(run.q)).any()


def test_many_steps_are_as_each_alone(run, monkeypatch):
    steps = np.arange(0, 60, 7)
    together = body_gradients(run, steps, **bars_of(run.q))
    monkeypatch.setattr("pullback.dynamics.drawing.TOGETHER", 4)
    np.testing.assert_array_equal(body_gradients(run, steps, **bars_of(run.q)), together)


def test_parameters_of_the_run_count(run):
    """Twice the mass everywhere, no gravity, nothing else that has a size: half of the gradient."""
    model = pb.load(SCENE.replace('stiffness="200" damping="2"', "").replace('damping="0.1"', ""))
    system = pb.Articulated(model, contact=None)
    start = system.state(model.q0, np.zeros(model.nv))
    found = []
    for scale in (1.0, 2.0):
        scaled = {name: scale * system.params[name] for name in ("mass", "inertia")}
        light = pb.rollout(system, start, steps=5, params={**scaled, "gravity": np.zeros(3)})
        found.append(body_gradients(light, np.array([0]), q_bar=np.ones_like(light.q[-1])))
    assert np.abs(found[0]).max() > 1e-3
    np.testing.assert_allclose(found[1], found[0] / 2, rtol=1e-9, atol=1e-15)


def test_contacts_are_forces_on_what_moves(run):
    steps = np.arange(run.steps + 1)
    found = record_contacts(run, steps)
    assert np.all(np.diff(found["contact_frame"]) >= 0) and found["contact_frame"][-1] <= run.steps
    floor = found["contact_pos"][:, 2] < 0.02
    assert floor.any() and np.all(found["contact_force"][floor, 2] >= 0)  # the floor holds the ball up
    bare = pb.Articulated(run.system.model, contact=None)
    assert record_contacts(pb.rollout(bare, pb.State(run.q[0], run.v[0]), steps=2), steps[:3]) == {}
