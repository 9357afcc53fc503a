"""Jacobians of every step of a motion, and the gaps between states that are none."""

import numpy as np
import pytest
from trees import random_states, random_tree

import pullback as pb
from pullback.model.tangent import integrate
from pullback.rollout import Run, gaps, linearize_run
from pullback.rollout.linearize import TOGETHER


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
    """Steps of the first lot, of the last, which is shorter, and a quaternion or two among the joints."""
    run = motion(seed, TOGETHER + 7)
    A, B = linearize_run(run)
    n = 2 * run.system.nv
    assert A.shape == (run.steps, n, n) and B.shape == (run.steps, n, run.system.nu)
    both = np.concatenate([A, B], axis=-1)
    rng = np.random.default_rng(0)
    for t in (0, TOGETHER - 1, TOGETHER, run.steps - 1):
        direction = rng.normal(size=n + run.system.nu)
        exact = both[t] @ direction
        errors = []
        for h in (1e-4, 1e-5, 1e-6):
            ends = [moved(run, t, s * h * direction) for s in (-1, 1)]
            slope = run.system.difference(*ends)[0] / (2 * h)
            errors.append(np.abs(slope - exact).max())
        assert min(errors) < 1e-6 * np.abs(exact).max()


def test_there_are_no_gaps_in_a_motion_and_there_are_where_states_were_moved():
    run = motion(1, TOGETHER + 3)
    np.testing.assert_allclose(gaps(run), 0, atol=1e-12)
    nv, t = run.system.nv, TOGETHER
    move = np.zeros((1, 2 * nv))
    move[0, :nv] = 1e-3 * np.random.default_rng(0).normal(size=nv)
    states = pb.State(np.array(run.q), np.array(run.v))
    states.q[t] = integrate(run.system.model, states.q[t], move[:, :nv])
    missed = gaps(Run(run.system, states, run.controls, 1, run.params))
    np.testing.assert_allclose(missed[t - 1], -move[0], atol=1e-9)  # from where it is now back to where the step leads
    A, _ = linearize_run(run)
    np.testing.assert_allclose(missed[t], A[t] @ move[0], atol=1e-5)
    others = np.delete(missed, [t - 1, t], axis=0)
    np.testing.assert_allclose(others, 0, atol=1e-12)
    assert np.abs(missed[t]).max() > 1e-4


def test_bad_input():
    run = motion(1, 6)
    with pytest.raises(pb.PullbackError, match="no steps"):
        linearize_run(pb.rollout(run.system, run.final, steps=0))
    with pytest.raises(pb.PullbackError, match="all states kept"):
        gaps(pb.rollout(run.system, run.final, steps=6, checkpoint_every=2))
