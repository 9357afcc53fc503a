"""Heat whose failure is data: worlds that cannot go on are masked, and the others do not notice."""

import dataclasses

import numpy as np
import pytest
from parts import controls_near, crooked_part, warm_state

import pullback as pb
from pullback import thermal
from pullback.thermal import stepper

METHODS = ("explicit", "implicit")
STEPS, WORLDS, BAD, AT = 12, 4, 2, 5
OTHERS = np.arange(WORLDS) != BAD


def wild_controls(heat: thermal.Heat) -> tuple[np.ndarray, np.ndarray]:
    """Controls, and the same with so much power in one world, from a step on, that nothing stays finite."""
    controls = controls_near(heat, STEPS)
    wild = controls.copy()
    wild[AT:, BAD, 0] = 1e300
    return controls, wild


@pytest.mark.parametrize("every", [1, 4, (6, 2)])
@pytest.mark.parametrize("method", METHODS)
def test_the_others_are_the_same_to_the_last_bit(method, every):
    heat = crooked_part(method=method, worlds=WORLDS)
    start, (controls, wild) = warm_state(heat), wild_controls(heat)
    ambient = {"ambient": np.linspace(290.0, 320.0, WORLDS)}  # each world has its own gradient
    calm = pb.rollout(heat, start, controls, checkpoint_every=every, params=ambient)
    run = pb.rollout(heat, start, wild, checkpoint_every=every, params=ambient, on_failure="mask")
    assert list(np.flatnonzero(run.status.failed)) == [BAD] == list(run.status.reasons)
    assert run.status.step[BAD] == AT and np.all(run.status.step[OTHERS] == -1)
    assert "world 2" in run.status.reasons[BAD] and f"at step {AT}" in run.status.reasons[BAD]
    for found, wanted in zip(run.states, calm.states, strict=True):
        np.testing.assert_array_equal(found[:, OTHERS], wanted[:, OTHERS])
        late = run.kept > AT
        np.testing.assert_array_equal(found[~late, BAD], wanted[~late, BAD])
    # stopped where it was, whatever was kept
    alone = pb.rollout(heat, start, controls[:AT], params=ambient).final
    for found, last in zip(run.states, alone, strict=True):
        np.testing.assert_array_equal(found[late, BAD], np.stack([last[BAD]] * late.sum()))
    rng = np.random.default_rng(1)
    bars = {"T_bar": rng.normal(size=(STEPS + 1, WORLDS, heat.n)), "s_bar": rng.normal(size=(STEPS + 1, WORLDS, 2))}
    found, wanted = run.pullback(**bars), calm.pullback(**bars)
    for mine, theirs, axis in (
        (found.state.T, wanted.state.T, 0),
        (found.state.s, wanted.state.s, 0),
        (found.controls, wanted.controls, 1),
        (found.params.ambient, wanted.params.ambient, 0),
    ):
        np.testing.assert_array_equal(np.compress(OTHERS, mine, axis), np.compress(OTHERS, theirs, axis))
        assert not np.any(np.take(mine, BAD, axis)) and np.abs(mine).max() > 0
    assert list(np.flatnonzero(found.status.failed)) == [BAD] and found.status.step[BAD] == AT
    assert found.status.reasons == run.status.reasons
    # a parameter that all share has the sum of the others
    capacity = {**ambient, "capacity": np.tile(heat.params["capacity"], (WORLDS, 1))}
    each = pb.rollout(heat, start, controls, checkpoint_every=every, params=capacity).pullback(**bars).params.capacity
    np.testing.assert_allclose(found.params.capacity, each[OTHERS].sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_raising_names_the_same_step(method):
    """However many states are kept."""
    heat = crooked_part(method=method, worlds=WORLDS)
    start, (_, wild) = warm_state(heat), wild_controls(heat)
    for every in (1, 5):
        with pytest.raises(pb.SimulationError, match=f"world {BAD}") as caught:
            pb.rollout(heat, start, wild, checkpoint_every=every)
        assert (caught.value.world, caught.value.step) == (BAD, AT)
        assert len(caught.value.states.T) == 1 + AT // every


def test_a_step_that_is_not_solved_is_masked():
    """Latent heat within 1 mK is too steep for Newton's method; worlds that do not melt are solved all the same."""
    part = crooked_part()
    steep = dataclasses.replace(thermal.ti_6al_4v(), solidus=1899.9995, liquidus=1900.0005)
    settings = dict(born=part.born, dt=0.5, method="implicit", power=100.0)
    heat = thermal.Heat(part.mesh, steep, part.toolpath, worlds=2, **settings)
    T = np.full((2, heat.n), 400.0)
    T[1] = np.random.default_rng(0).uniform(1700.0, 2100.0, heat.n)
    start = heat.state(T, 0.5)
    with pytest.raises(pb.SimulationError, match="did not converge in world 1 at step"):
        pb.rollout(heat, start, steps=6)
    run = pb.rollout(heat, start, steps=6, on_failure="mask")
    step = run.status.step[1]
    assert list(run.status.failed) == [False, True] and "did not converge" in run.status.reasons[1]
    np.testing.assert_array_equal(run.T[step:, 1], np.stack([run.T[step, 1]] * (7 - step)))
    alone = pb.rollout(heat.in_worlds(1), thermal.HeatState(*(x[:1] for x in start)), steps=6)
    np.testing.assert_array_equal(run.T[:, 0], alone.T[:, 0])
    bars = run.pullback(T_bar=np.ones_like(run.T))
    assert not np.any(bars.state.T[1]) and np.all(bars.state.T[0] != 0) and list(bars.status.failed) == [False, True]


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_that_is_not_finite_is_masked(method):
    heat = crooked_part(method=method, worlds=2)
    run = pb.rollout(heat, warm_state(heat), controls_near(heat, 6), on_failure="mask")
    huge = np.ones((7, 2, heat.n))
    huge[:, 1] = 1.7e308  # sums of two overflow
    bars = run.pullback(T_bar=huge)
    assert list(bars.status.failed) == [False, True] and not run.status.failed.any()
    assert bars.status.reasons[1]
    for bar, axis in ((bars.state.T, 0), (bars.controls, 1)):
        assert not np.any(np.take(bar, 1, axis)) and np.any(np.take(bar, 0, axis))
    ones = pb.rollout(heat, warm_state(heat), controls_near(heat, 6)).pullback(T_bar=np.ones((7, 2, heat.n)))
    np.testing.assert_array_equal(bars.state.T[0], ones.state.T[0])


@pytest.mark.parametrize("method", METHODS)
def test_worlds_that_cores_share_stop_alike(method):
    """Two cores that work on the same worlds agree on when one of these stops."""
    mesh = thermal.block((10e-3, 10e-3, 8e-3), (10, 10, 8))
    path = thermal.follow([(2e-3, 2e-3, 8e-3), (8e-3, 7e-3, 8e-3)], speed=5e-3)
    found = []
    for threads in (1, 3):
        heat = thermal.Heat(mesh, thermal.steel_316l(), path, dt=0.02, method=method, worlds=2, threads=threads)
        assert len(heat._stepper.shares) == threads
        controls = heat.default_controls(6)
        controls[3:, 0, 0] = 1e300
        run = pb.rollout(heat, heat.state(), controls, on_failure="mask")
        assert list(run.status.failed) == [True, False] and run.status.step[0] == 3
        found.append(run)
    np.testing.assert_allclose(found[1].T, found[0].T, rtol=1e-9)
    np.testing.assert_array_equal(found[1].T[3:, 0], np.stack([found[1].T[3, 0]] * 4))


def test_phases_stop_at_the_same_step():
    """As on CUDA, but here."""
    heat = crooked_part(worlds=WORLDS)
    start, (_, wild) = warm_state(heat), wild_controls(heat)
    runs = []
    for one in (heat._stepper, stepper.Phases(heat)):
        heat._stepper = one
        runs.append(pb.rollout(heat, start, wild, checkpoint_every=4, on_failure="mask"))
    for found, wanted in zip(runs[1].states, runs[0].states, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert runs[0].status.reasons == runs[1].status.reasons and runs[0].status.step[BAD] == AT
    bar = np.ones((WORLDS, heat.n))
    grads = [run.pullback(T_bar=bar) for run in runs]
    np.testing.assert_allclose(grads[1].state.T, grads[0].state.T, rtol=1e-12)
    assert not np.any(grads[0].controls[:, BAD]) and np.any(grads[0].controls)
