"""Controls held for several timesteps: the same trajectory and gradients as with every control written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from swarm import Swarm

import pullback as pb
import pullback.jax as pbj
import pullback.torch as pbt
from pullback.core.trees import leaves, tree_map
from pullback.rollout import linearize_run
from pullback.rollout import run as run_module

jax.config.update("jax_enable_x64", True)

STEPS, HOLD, WORLDS = 6, 3, 2


def robot():
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None, worlds=WORLDS)
    rng = np.random.default_rng(0)
    return (
        system,
        system.state(v=0.3 * rng.normal(size=(WORLDS, system.nv))),
        rng.normal(size=(STEPS, WORLDS, system.nu)),
    )


def random_bars(states, seed: int = 1) -> dict:
    rng = np.random.default_rng(seed)
    return {f"{name}_bar": rng.normal(size=x.shape) for name, x in states._asdict().items()}


def written_out(system, start, controls):
    return pb.rollout(system, start, np.repeat(controls, HOLD, axis=0))


def compare(system, start, controls, **close):
    """Values bit for bit, gradients against those of the run that is written out, for cotangents of every form."""
    fine = written_out(system, start, controls)
    for every in (1, 2, 5, (4, 2)):
        run = pb.rollout(system, start, controls, hold=HOLD, checkpoint_every=every)
        for mine, all_of_them in zip(run.states, fine.states, strict=True):
            np.testing.assert_array_equal(mine, all_of_them[HOLD * run.kept])
        for rows in ("every", "last", "function"):
            bars = random_bars(pb.rollout(system, start, controls, hold=HOLD).states)
            spread = {name: np.zeros((HOLD * STEPS + 1, *bar.shape[1:])) for name, bar in bars.items()}
            for name, bar in bars.items():
                spread[name][::HOLD] = bar
                if rows == "last":
                    spread[name][:-1] = 0
            given = bars
            if rows == "last":
                given = {name: bar[-1] for name, bar in bars.items()}
            if rows == "function":
                given = {name: (lambda steps, states, bar=bar: bar[steps]) for name, bar in bars.items()}
            found, wanted = run.pullback(**given), fine.pullback(**spread)
            for mine, theirs in zip(leaves(found.state), leaves(wanted.state), strict=True):
                np.testing.assert_array_equal(mine, theirs)
            summed = wanted.controls.reshape(STEPS, HOLD, *controls.shape[1:]).sum(axis=1)
            np.testing.assert_allclose(found.controls, summed, rtol=1e-12, atol=1e-14 * np.abs(summed).max())
            assert np.abs(found.controls).max() > 0 and np.abs(leaves(found.state)[0]).max() > 0
            for name, bar in found.params.items():
                np.testing.assert_array_equal(bar, wanted.params[name], err_msg=name)


def test_a_robot():
    compare(*robot())


def test_pieces_of_a_long_run(monkeypatch):
    """A backward pass in one piece or in many gives the same bits."""
    system, start, controls = robot()
    run = pb.rollout(system, start, controls, hold=HOLD)
    bars = random_bars(run.states)
    whole = run.pullback(**bars)
    monkeypatch.setattr(run_module, "HELD_TIMESTEPS", 1)
    pieces = run.pullback(**bars)
    for mine, theirs in zip((*whole.state, whole.controls), (*pieces.state, pieces.controls), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_system_of_ones_own():
    system = Swarm()
    controls = np.random.default_rng(0).normal(size=(STEPS, 2, 3))
    run, fine = pb.rollout(system, system.state(), controls, hold=HOLD), written_out(system, system.state(), controls)
    np.testing.assert_array_equal(run.points.x, fine.points.x[::HOLD])
    bar = np.ones(2)
    found, wanted = run.pullback(heat_bar=bar), fine.pullback(heat_bar=bar)
    np.testing.assert_array_equal(found.state.points.x, wanted.state.points.x)
    np.testing.assert_allclose(found.controls, wanted.controls.reshape(STEPS, HOLD, 2, 3).sum(axis=1), rtol=1e-13)
    assert np.abs(found.controls).min() > 0


def test_jacobians_and_pushforward():
    system, start, controls = robot()
    run, fine = pb.rollout(system, start, controls, hold=HOLD), written_out(system, start, controls)
    tangents = np.random.default_rng(0).normal(size=(*controls.shape, 2))
    pushed = run.pushforward(controls=tangents)
    np.testing.assert_allclose(pushed, fine.pushforward(controls=np.repeat(tangents, HOLD, axis=0))[::HOLD], rtol=1e-12)
    A, B = linearize_run(run)
    assert A.shape[0] == STEPS
    by_hand = np.zeros_like(pushed[0])
    for t in range(STEPS):
        by_hand = A[t] @ by_hand + B[t] @ tangents[t]
    np.testing.assert_allclose(by_hand, pushed[-1], rtol=1e-9, atol=1e-12)
    assert np.abs(by_hand).max() > 1e-3


@pytest.mark.parametrize("every", [1, 2])
def test_bindings(every):
    system, start, controls = robot()
    run = pb.rollout(system, start, controls, hold=HOLD, checkpoint_every=every)
    bars = random_bars(run.states)
    wanted = run.pullback(**bars)
    u = torch.tensor(controls, requires_grad=True)
    states = pbt.rollout(system, tree_map(torch.tensor, start), u, hold=HOLD, checkpoint_every=every)
    sum((x * torch.tensor(bar)).sum() for x, bar in zip(states, bars.values(), strict=True)).backward()
    np.testing.assert_allclose(u.grad, wanted.controls, rtol=1e-12)

    def loss(u):
        states = pbj.rollout(system, tree_map(jnp.asarray, start), u, hold=HOLD, checkpoint_every=every)
        return sum(jnp.sum(x * bar) for x, bar in zip(states, bars.values(), strict=True))

    np.testing.assert_allclose(jax.grad(loss)(jnp.asarray(controls)), wanted.controls, rtol=1e-12)
    one = pbt.step(system, tree_map(torch.tensor, start), u[0], hold=HOLD)
    np.testing.assert_array_equal(one.q.detach(), pb.rollout(system, start, controls, hold=HOLD).q[1])


def test_bad_holds():
    system, start, controls = robot()
    for hold in (0, -1, 1.5):
        with pytest.raises(pb.PullbackError, match="hold must be a whole number of at least 1"):
            pb.rollout(system, start, controls, hold=hold)
    with pytest.raises(pb.PullbackError, match="checkpoint_every=1 and hold=1"):
        pb.rollout(system, start, controls, hold=2).adjoints([0], q_bar=np.ones((WORLDS, system.nq)))
