"""The loss of iLQR: its gradient with rotations far from their goal, and its expansion."""

import numpy as np
import pytest

import pullback as pb
from pullback.model.tangent import integrate
from pullback.rollout import Run
from pullback.tasks import Tracking

TREE = """<mujoco><worldbody><body pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.15" mass="1"/>
    <body pos="0.3 0 0"><joint type="ball"/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" mass="0.5"/>
      <body pos="0.3 0 0"><joint name="hinge" axis="0 1 0"/><geom size="0.05" mass="0.2"/></body></body></body>
  </worldbody>
  <actuator><motor joint="hinge"/></actuator></mujoco>"""
STEPS = 4


def random_states(system, rng, worlds: int) -> pb.State:
    """Far from each other: turns of up to half a circle."""
    home = np.broadcast_to(system.model.home.q, (STEPS + 1, worlds, system.nq))
    q = integrate(system.model, home, rng.uniform(-1.5, 1.5, (STEPS + 1, worlds, system.nv)))
    return pb.State(q, rng.normal(size=(STEPS + 1, worlds, system.nv)))


def made(worlds: int, moving: bool):
    rng = np.random.default_rng(0)
    system = pb.Articulated(pb.load(TREE), contact=None, worlds=worlds)
    goal = pb.State(*(x[:, 0] if moving else x[0, 0] for x in random_states(system, rng, 1)))
    weights = rng.uniform(0.1, 2, ((STEPS + 1, 2 * system.nv) if moving else 2 * system.nv))
    loss = Tracking(goal, weights, np.array([0.3]))
    states, controls = random_states(system, rng, worlds), rng.normal(size=(STEPS, worlds, 1))
    return loss, Run(system, states, controls, 1, system.hold_params())


def slid(run: Run, moves: np.ndarray, control_moves: np.ndarray) -> Run:
    """The run with its states moved by tangents (steps + 1, worlds, 2 nv), and its controls."""
    nv = run.system.nv
    q = integrate(run.system.model, run.q, moves[..., :nv])
    return Run(run.system, pb.State(q, run.v + moves[..., nv:]), run.controls + control_moves, 1, run.params)


@pytest.mark.parametrize("moving", [True, False])
def test_gradient_in_the_stored_coordinates(moving):
    """A move of coordinates dq = dq/dtangent · tangent pairs with q_bar as the tangent does with the slope."""
    loss, run = made(3, moving)
    found = loss(run)
    rng = np.random.default_rng(1)
    moves, control_moves = rng.normal(size=(STEPS + 1, 3, 2 * run.system.nv)), rng.normal(size=run.controls.shape)
    errors = []
    for h in (1e-3, 1e-4, 1e-5):
        ends = [slid(run, s * h * moves, s * h * control_moves) for s in (-1, 1)]
        step = [np.asarray(b) - np.asarray(a) for a, b in zip(ends[0].states, ends[1].states, strict=True)]
        slope = (loss(ends[1]).values - loss(ends[0]).values) / (2 * h)
        paired = (found.bars["q_bar"] * step[0]).sum(axis=(0, 2)) + (found.bars["v_bar"] * step[1]).sum(axis=(0, 2))
        paired = paired / (2 * h) + (found.controls_bar * control_moves).sum(axis=(0, 2))
        errors.append(np.abs(paired - slope) / np.abs(slope))
    assert np.all(errors[2] < 1e-7) and np.all(errors[1] < 0.02 * errors[0] + 1e-9)
    assert np.all(np.abs(slope) > 0.1)


@pytest.mark.parametrize("moving", [True, False])
def test_expansion(moving):
    """Its slope is the gradient; its curvature is exact in directions that do not turn anything."""
    loss, run = made(1, moving)
    parts = loss.expand(run)
    rng = np.random.default_rng(2)
    moves, control_moves = rng.normal(size=(STEPS + 1, 2 * run.system.nv)), rng.normal(size=(STEPS, 1))
    zero = 0 * run.controls
    slope = (parts.x * moves).sum() + (parts.u * control_moves).sum()
    ends = [slid(run, s * 1e-5 * moves[:, None], s * 1e-5 * control_moves[:, None]) for s in (-1, 1)]
    np.testing.assert_allclose(slope, (loss(ends[1]).values - loss(ends[0]).values)[0] / 2e-5, rtol=1e-7)
    assert np.linalg.eigvalsh(parts.xx).min() > -1e-12

    moves[:, 3:9] = 0  # the free joint's rotation and the ball joint
    curve = np.einsum("ti,tij,tj", moves, parts.xx, moves)
    h = 1e-2
    losses = [loss(slid(run, s * h * moves[:, None], zero)).values[0] for s in (-1, 0, 1)]
    np.testing.assert_allclose(curve, (losses[0] - 2 * losses[1] + losses[2]) / h**2, rtol=1e-6)
    curve = (parts.uu * control_moves**2).sum()
    losses = [loss(slid(run, 0 * moves[:, None], s * h * control_moves[:, None])).values[0] for s in (-1, 0, 1)]
    np.testing.assert_allclose(curve, (losses[0] - 2 * losses[1] + losses[2]) / h**2, rtol=1e-6)


def test_at_the_goal_the_curvature_of_turns_is_exact_too():
    loss, run = made(1, True)
    run = Run(run.system, loss.goals(run), run.controls, 1, run.params)
    parts = loss.expand(run)
    moves, h = np.random.default_rng(3).normal(size=(STEPS + 1, 2 * run.system.nv)), 1e-3
    np.testing.assert_allclose(parts.x, 0, atol=1e-12)
    losses = [loss(slid(run, s * h * moves[:, None], 0 * run.controls)).values[0] for s in (-1, 0, 1)]
    curve = np.einsum("ti,tij,tj", moves, parts.xx, moves)
    np.testing.assert_allclose(curve, (losses[0] - 2 * losses[1] + losses[2]) / h**2, rtol=1e-5)


@pytest.mark.parametrize(
    "change, match",
    [
        ({"weights": np.ones(3)}, r"weights .* \(3,\)"),
        ({"weights": -np.ones(20)}, "negative"),
        ({"goal": pb.State(np.zeros(5), np.zeros(10))}, r"q of the goal has shape \(5,\)"),
    ],
)
def test_bad_input(change, match):
    loss, run = made(1, False)
    with pytest.raises(pb.PullbackError, match=match):
        Tracking(**{**vars(loss), **change})(run)
