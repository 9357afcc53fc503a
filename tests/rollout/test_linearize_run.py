"""Jacobians of every step of a motion, and steps from states that do not follow from each other."""

import numpy as np
import pytest
from trees import random_states, random_tree

import pullback as pb
from pullback.model.tangent import integrate
from pullback.rollout import Run, linearize_run, side_by_side


def motion(seed: int, steps: int) -> Run:
    system = pb.Articulated(pb.load(random_tree(seed, timestep=0.005)), contact=None)
    rng = np.random.default_rng(seed)
    q, v = random_states(system.model.mujoco, rng, 1)
    return pb.rollout(system, system.state(q, 0.3 * v), 0.3 * rng.normal(size=(steps, 1, system.nu)))


def moved(run: Run, t: int, move: np.ndarray):
    """Where a step leads after a small move of its state and control."""
    system, nv = run.system, run.system.nv
    q = integrate(system.model, np.array(run.q[t]), move[None, :nv])
    state = pb.State(q, run.v[t] + move[nv : 2 * nv])
    return system.step(state, np.asarray(run.controls)[t] + move[2 * nv :])


@pytest.mark.parametrize("seed", [0, 3])
def test_against_central_differences(seed):
    """With a quaternion or two among the joints."""
    run = motion(seed, 40)
    A, B = (jacobian[:, 0] for jacobian in linearize_run(run))
    n = 2 * run.system.nv
    assert A.shape == (run.steps, n, n) and B.shape == (run.steps, n, run.system.nu)
    both = np.concatenate([A, B], axis=-1)
    rng = np.random.default_rng(0)
    for t in (0, 17, run.steps - 1):
        direction = rng.normal(size=n + run.system.nu)
        exact = both[t] @ direction
        errors = []
        for h in (1e-4, 1e-5, 1e-6):
            ends = [moved(run, t, s * h * direction) for s in (-1, 1)]
            slope = run.system.difference(*ends)[0] / (2 * h)
            errors.append(np.abs(slope - exact).max())
        assert min(errors) < 1e-6 * np.abs(exact).max()


def test_steps_side_by_side():
    """They lead where the motion goes, with the same Jacobians; from a state that was moved, elsewhere."""
    run = motion(1, 12)
    system, t = run.system.in_worlds(run.steps), 5
    apart = side_by_side(system, run.states, run.controls)
    np.testing.assert_allclose(apart.final.q, run.q[1:, 0], atol=1e-13)
    for found, exact in zip(linearize_run(apart), linearize_run(run), strict=True):
        np.testing.assert_allclose(found[0], exact[:, 0], atol=1e-10)
    move = 1e-3 * np.random.default_rng(0).normal(size=run.system.nv)
    states = pb.State(np.array(run.q), np.array(run.v))
    states.q[t] = integrate(run.system.model, states.q[t], move[None])
    moved = side_by_side(system, states, run.controls)
    off = system.difference(apart.final, moved.final)
    A, _ = linearize_run(run)
    np.testing.assert_allclose(off[t], A[t, 0] @ np.append(move, 0 * move), atol=1e-5)
    assert np.abs(off[t]).max() > 1e-4
    np.testing.assert_allclose(np.delete(off, t, axis=0), 0, atol=1e-13)


def test_bad_input():
    run = motion(1, 6)
    with pytest.raises(pb.PullbackError, match="no steps"):
        linearize_run(pb.rollout(run.system, run.final, steps=0))
