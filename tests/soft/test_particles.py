"""Particles: what is conserved, what is refused, and that the way of computing changes nothing."""

import math
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import soft

SOLID = {"young": 100.0, "poisson": 0.3, "density": 2.0}


def jelly(dim=2, material=None, **options):
    """A block off the walls of a grid of unit size."""
    material = material or soft.NeoHookean(**SOLID)
    bodies = [soft.block([0.3] * dim, [0.7] * dim, [9] * dim, material, name="jelly")]
    settings = {"dx": 1 / 16, "cells": (17,) * dim, "dt": 2e-3, "gravity": np.zeros(dim), "threads": 1}
    return soft.Particles(bodies, **settings | options)


def moved(system, seed=0, speed=0.3):
    """A start that turns, shears and vibrates."""
    random = np.random.default_rng(seed)
    start = system.state()
    spin = random.normal(size=(system.dim, system.dim))
    v = speed * (start.x - 0.5) @ (spin - spin.T) + 0.05 * random.normal(size=start.v.shape)
    return start._replace(v=v, F=start.F + 0.05 * random.normal(size=start.F.shape))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("kind", [soft.NeoHookean, soft.Corotated])
def test_momentum_of_a_free_body_stays(dim, kind):
    """Linear and angular, over 1,000 steps; the angular one counts the velocity gradients too."""
    system = jelly(dim, kind(**SOLID))
    steps = 1000
    states = system.steps(moved(system, speed=1.0), np.zeros((steps, 1, 0)), keep_every=steps)
    mass = np.repeat(2.0 * system.bodies[0].volume[None], 2, axis=0)[..., None]

    def momenta(x, v, C):
        linear = np.sum(mass * v[:, 0], axis=1)
        moment = mass[..., None] * (x[:, 0, :, :, None] * v[:, 0, :, None, :])
        inertia = mass[..., None] * system.dx**2 / 4  # of a particle's share of the grid
        moment = np.sum(moment + inertia * C[:, 0].swapaxes(-1, -2), axis=1)
        return linear, moment - moment.swapaxes(-1, -2)

    linear, angular = momenta(states.x, states.v, states.C)
    assert np.abs(angular[0]).max() > 1e-3
    np.testing.assert_allclose(linear[1], linear[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(angular[1], angular[0], rtol=0, atol=1e-12)
    assert np.abs(states.x[1] - states.x[0]).max() > 1e-2


def test_a_free_body_falls_as_it_should():
    """Symplectic Euler: after n steps the velocity is n h g and the height has lost h² g n (n + 1)/2."""
    system = jelly(2, gravity=(0.0, -2.0))
    states = system.steps(system.state(), np.zeros((50, 1, 0)), keep_every=50)
    fall = 2.0 * system.dt**2 * 50 * 51 / 2
    np.testing.assert_allclose(states.x[1], states.x[0] - [0, fall], atol=1e-12)
    np.testing.assert_allclose(states.v[1], np.broadcast_to([0, -0.2], states.v[1].shape), atol=1e-12)
    np.testing.assert_allclose(states.F[1], states.F[0], atol=1e-11)


def test_a_step_is_the_reference():
    """One step of a few particles, written out with loops."""
    system = jelly(2, dt=1e-3)
    start = moved(system, seed=3)
    after = system.step(start)
    shear, lame = soft.NeoHookean(**SOLID).lame
    dx, h, volume = system.dx, system.dt, system.bodies[0].volume[0]
    momentum, mass = np.zeros((17, 17, 2)), np.zeros((17, 17))
    weights = []
    for x, v, C, F in zip(*(field[0] for field in start[:4]), strict=True):
        F = (np.eye(2) + h * C) @ F
        tau = shear * (F @ F.T - np.eye(2)) + lame * np.log(np.linalg.det(F)) * np.eye(2)
        A = 2.0 * volume * C - h * volume * 4 / dx**2 * tau
        base = np.floor(x / dx - 0.5).astype(int)
        f = x / dx - base
        w = np.array([0.5 * (1.5 - f) ** 2, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2])
        around = [(base[0] + i, base[1] + j, w[i, 0] * w[j, 1]) for i in range(3) for j in range(3)]
        weights.append(around)
        for i, j, share in around:
            momentum[i, j] += share * (2.0 * volume * v + A @ (np.array([i, j]) * dx - x))
            mass[i, j] += share * 2.0 * volume
    flow = momentum / np.where(mass > 0, mass, 1.0)[..., None]
    for p, around in enumerate(weights):
        v = sum(share * flow[i, j] for i, j, share in around)
        C = sum(
            4 / dx**2 * share * np.outer(flow[i, j], np.array([i, j]) * dx - start.x[0, p]) for i, j, share in around
        )
        np.testing.assert_allclose(after.v[0, p], v, atol=1e-13)
        np.testing.assert_allclose(after.C[0, p], C, atol=1e-11)
        np.testing.assert_allclose(after.x[0, p], start.x[0, p] + h * v, atol=1e-14)


@pytest.mark.parametrize("every", [7, "sqrt"])
def test_checkpoints_change_nothing(every):
    muscle = soft.Muscle((0.0, 1.0), 20.0)
    body = soft.block((0.3, 0.3), (0.6, 0.6), (7, 7), soft.Corotated(**SOLID), muscle=muscle)
    system = soft.Particles([body], dx=1 / 16, cells=(17, 17), dt=2e-3, walls=soft.room((0.25,) * 2, (0.8,) * 2))
    controls = np.random.default_rng(1).normal(size=(40, 1, 1))
    x_bar = np.random.default_rng(2).normal(size=(41, 1, 49, 2))  # at every state
    kept = [pb.rollout(system, moved(system), controls, checkpoint_every=k) for k in (1, every)]
    bars = [run.pullback(x_bar=x_bar) for run in kept]
    assert np.abs(bars[0].controls).max() > 1e-6
    for a, b in zip((*bars[0].state, bars[0].controls, *bars[0].params.values()),
                    (*bars[1].state, bars[1].controls, *bars[1].params.values()), strict=True):  # fmt: skip
        np.testing.assert_array_equal(a, b)


def test_cores_and_worlds_change_rounding_alone():
    """Two cores share a world, or have a world each."""
    found = []
    for threads, worlds in ((1, 1), (2, 1), (1, 2), (2, 2)):
        system = jelly(2, material=soft.Corotated(**SOLID), threads=threads, worlds=worlds)
        block = soft.block((0.2, 0.2), (0.7, 0.7), (30, 30), soft.Corotated(**SOLID))
        system = soft.Particles([block], dx=1 / 16, cells=(17, 17), dt=2e-3, threads=threads, worlds=worlds)
        assert system._stepper.lanes == threads
        start = system.state(v=np.random.default_rng(0).normal(size=(900, 2)))
        run = pb.rollout(system, start, steps=10)
        grads = run.pullback(x_bar=np.ones((worlds, 900, 2)), F_bar=np.ones((worlds, 900, 2, 2)))
        found.append((run.x[-1][-1], grads.state.v[-1], grads.params.shear / worlds))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())
    assert np.abs(found[0][2]).max() > 0


def test_a_run_repeats_bit_for_bit():
    system = jelly(2, threads=2)
    runs = [system.steps(moved(system), np.zeros((30, 1, 0))) for _ in range(2)]
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)


def slid(friction, steps=200):
    """First and last state of a block that is thrown along a floor at 0.5 m/s."""
    floor = soft.Wall((0.0, 0.25), (0.0, 1.0), friction)
    body = soft.block((0.2, 0.25), (0.4, 0.35), (8, 8), soft.NeoHookean(young=1e3, poisson=0.3, density=1.0))
    system = soft.Particles([body], dx=1 / 32, cells=(33, 17), dt=5e-4, gravity=(0, -2.0), walls=[floor])
    return system.steps(system.state(v=(0.5, 0.0)), np.zeros((steps, 1, 0)), keep_every=steps)


@pytest.mark.parametrize("friction", [0.0, 0.1])
def test_a_block_slides_on_a_floor_by_coulombs_law(friction):
    """After 0.1 s it has lost friction g t."""
    assert slid(friction).v[1, 0, :, 0].mean() == pytest.approx(0.5 - friction * 2.0 * 0.1, abs=0.025)


@pytest.mark.parametrize("friction", [5.0, math.inf])
def test_a_block_sticks_to_a_floor(friction):
    """It trips, hops and comes to rest near where it was; free, it would be 20 cm away."""
    states = slid(friction, 800)
    assert np.abs((states.x[1] - states.x[0]).mean(axis=1)[0, 0]) < 0.02
    assert np.abs(states.v[1].mean(axis=1)).max() < 0.01


def test_what_is_clamped_does_not_move():
    body = soft.block((0.2, 0.4), (0.8, 0.6), (24, 8), soft.NeoHookean(young=1e3, poisson=0.3, density=1.0))
    walls = [soft.Wall((0.4, 0.0), (1.0, 0.0), clamped=True)]
    system = soft.Particles([body], dx=1 / 32, cells=(33, 33), dt=5e-4, gravity=(3.0, -2.0), walls=walls)
    states = system.steps(system.state(), np.zeros((100, 1, 0)), keep_every=100)
    deep = system.state().x[0, :, 0] < 0.4 - 1.5 / 32
    np.testing.assert_array_equal(states.x[1, 0, deep], states.x[0, 0, deep])
    assert np.abs(states.x[1, 0, ~deep] - states.x[0, 0, ~deep]).max() > 1e-3


# --- what is refused --------------------------------------------------------------------------------------------------


def test_steps_that_are_too_long_are_refused():
    with pytest.raises(pb.PullbackError, match="the longest for jelly is 0.00"):
        jelly(dt=1e-2)
    system = jelly()
    stiffness = system.params["lame"][0] + 2 * system.params["shear"][0]
    assert system.longest_dt == pytest.approx(0.75 / 16 / math.sqrt(stiffness / 2.0))
    with pytest.raises(pb.PullbackError, match="unstable"):
        pb.rollout(system, system.state(), steps=1, params={"shear": 1e6 * np.ones(1)})


def test_a_particle_that_leaves_is_named():
    system = jelly()
    start = system.state(v=(3.0, 0.0))
    with pytest.raises(
        pb.SimulationError, match=r"particle 7\d of jelly in world 0 left the grid at step \d+, to"
    ) as error:
        pb.rollout(system, start, steps=200)
    assert error.value.step == len(error.value.states.x) - 1


def test_two_cores_name_the_same_failure():
    """The first step, and of that the first particle, whichever core finds it."""
    body = soft.block((0.2, 0.2), (0.7, 0.7), (30, 30), soft.Corotated(**SOLID))
    said = []
    for threads in (1, 2):
        system = soft.Particles([body], dx=1 / 16, cells=(17, 17), dt=2e-3, threads=threads)
        with pytest.raises(pb.SimulationError) as error:
            pb.rollout(system, system.state(v=(0.5, 3.0)), steps=200)
        said.append((str(error.value), error.value.step, len(error.value.states.x)))
    assert said[0] == said[1] and "left the grid" in said[0][0]


def test_an_inverted_particle_is_named():
    system = jelly()
    F = np.tile(np.eye(2), (system.n, 1, 1))
    F[13] = np.diag([1.0, -1.0])
    with pytest.raises(pb.SimulationError, match="particle 13 of jelly in world 0 was turned inside out at step 0"):
        pb.rollout(system, system.state(F=F), steps=3)


def test_masked_worlds_stay_where_they_were():
    system = jelly(worlds=3)
    v = np.zeros((3, system.n, 2))
    v[1] = (3.0, 0.0)
    for every in (1, 10):
        run = pb.rollout(system, system.state(v=v), steps=200, checkpoint_every=every, on_failure="mask")
        assert run.status.failed.tolist() == [False, True, False]
        assert "left the grid" in run.status.reasons[1]
        grads = run.pullback(x_bar=np.ones((3, system.n, 2)))
        assert np.all(grads.state.v[1] == 0) and np.abs(grads.state.v[2]).max() > 0
        alone = pb.rollout(system.in_worlds(1), system.in_worlds(1).state(v=v[1]), steps=int(run.status.step[1]))
        np.testing.assert_array_equal(run.x[-1][1], alone.x[-1][0])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"cells": (17, 17, 17)}, "must all be of 2 axes"),
        ({"cells": (10**7, 10**7)}, "a grid of 100000000000000 nodes"),
        ({"gravity": (0, 0, -1)}, "gravity must be 2 finite numbers"),
        ({"device": "cuda:7"}, "device"),
        ({"walls": [3]}, "a wall must be a Wall"),
        ({"origin": (0.5, 0.5)}, None),
    ],
)
def test_bad_arguments(wrong, says):
    if says is None:
        with pytest.raises(pb.PullbackError, match="particle 0 in world 0 at .* is not within the grid"):
            pb.rollout(jelly(**wrong), jelly(**wrong).state(), steps=1)
    else:
        with pytest.raises(pb.PullbackError, match=says):
            jelly(**wrong)


def test_a_wall_that_is_nowhere():
    """It would be behind no node, and so no wall at all."""
    for point, normal in (((0.0, np.nan), (0.0, 1.0)), ((0.0, np.inf), (0.0, 1.0)), ((0.0, 0.0), (0.0, np.nan))):
        with pytest.raises(pb.PullbackError, match="2 or 3 finite numbers, the normal not zero"):
            soft.Wall(point, normal)


def test_one_body_and_one_wall_by_themselves():
    floor = soft.Wall((0.0, 0.2), (0.0, 1.0))
    body = soft.block((0.4, 0.4), (0.6, 0.6), (4, 4), soft.NeoHookean(young=20.0, density=1.0))
    one = soft.Particles(body, dx=1 / 16, cells=(17, 17), dt=2e-3, walls=floor)
    same = soft.Particles([body], dx=1 / 16, cells=(17, 17), dt=2e-3, walls=[floor])
    np.testing.assert_array_equal(one.step(one.state()).v, same.step(same.state()).v)


def test_pickles_keep_parameters():
    system = jelly()
    system.params["shear"] = 21.0
    other = pickle.loads(pickle.dumps(system))
    assert other.params["shear"] == 21.0
    np.testing.assert_array_equal(other.step(moved(other)).v, system.step(moved(system)).v)
