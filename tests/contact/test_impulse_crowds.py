"""Many contacts on one body: sweeps by velocity, without lists of neighbours, and the same sweeps among neighbours."""

import numpy as np
import pytest
from gradients import STATE, check, uneven
from impulses import impulse

import pullback as pb
from pullback.contact import models


def plate(rows: int, columns: int, settings=None, worlds=1) -> pb.Articulated:
    """A body of so many small balls on a floor that leans; 10 kg."""
    geom = f'<geom size="0.01" pos="{{:.3f}} {{:.3f}} 0" mass="{10 / (rows * columns)}" friction="0.4"/>'
    balls = "".join(geom.format(0.03 * i, 0.03 * j) for i in range(rows) for j in range(columns))
    world = f'<geom type="plane" size="9 9 1" friction="0.3"/><body><freejoint/>{balls}</body>'
    settings = {"max_contacts": rows * columns, **(settings or {})}
    return impulse(world, option='gravity="1.5 0 -9.81"', timestep=0.002, worlds=worlds, **settings)


def is_crowded(system: pb.Articulated) -> bool:
    return system._lanes[0].rows.crowded.numpy()[0, 0] == 1


def among_neighbours(monkeypatch, *args) -> pb.Articulated:
    with monkeypatch.context() as patch:
        patch.setattr(models, "CROWD", 10**6)
        return plate(*args)


def tilted(system: pb.Articulated) -> pb.State:
    """Half a millimetre into the floor on average, and turned so little that all balls touch."""
    q = np.array([0, 0, 0.0095, 1, 2e-4, -1e-4, 0.1])
    return system.state(q, [0.3, -0.2, -0.1, 0.05, -0.04, 0.2])


def test_two_hundred_contacts_carry_the_weight():
    system = plate(14, 15)
    state = system.state([0, 0, 0.0099, 1, 0, 0, 0])
    for _ in range(20):
        state = system.step(state)
    (found,) = system.contacts(state)
    assert is_crowded(system) and len(found.force) == 210
    np.testing.assert_allclose(found.force.sum(axis=0), [-15, 0, 98.1], atol=0.05)
    assert np.all(found.force[:, 2] > 0) and np.abs(state.v).max() < 1e-4


def test_memory_does_not_grow_with_the_square_of_contacts():
    few, many = (plate(5, 20, {"max_contacts": most})._lanes[0].rows for most in (100, 10_000))
    size = lambda rows: sum(getattr(rows, n).size for n in rows._cls.vars)  # noqa: E731
    assert size(many) < 101 * size(few)
    assert many.A.shape[0] <= 12


@pytest.mark.parametrize("sweeps", [1, 2, 50])
def test_both_ways_give_the_same_impulses_and_gradients(monkeypatch, sweeps):
    settings = {"sweeps": sweeps, "restitution": 0.2}
    one, other = plate(8, 8, settings), among_neighbours(monkeypatch, 8, 8, settings)
    q_bar, v_bar = np.random.default_rng(0).normal(size=(2, 7))
    found = []
    for system in (one, other):
        state = tilted(system)
        bars = system.pullback(state, None, pb.State(q_bar[None], v_bar[None, :6]))
        found.append((system.step(state).v, system.contacts(state)[0].force, bars))
    assert is_crowded(one) and not is_crowded(other)
    (v, force, bars), (v2, force2, bars2) = found
    np.testing.assert_allclose(v, v2, atol=1e-12)
    np.testing.assert_allclose(force, force2, atol=1e-9 * np.abs(force2).max())
    for ours, theirs in zip(
        (*bars.state, *vars(bars.params).values()), (*bars2.state, *vars(bars2.params).values()), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-9 * max(np.abs(theirs).max(), 1e-12))
    assert np.abs(bars.params.friction).max() > 1e-6 and np.abs(bars.params.mass).max() > 1e-6


@pytest.mark.parametrize("sweeps", [1, 5, 50])
def test_gradients(sweeps):
    system = uneven(plate(4, 5, {"sweeps": sweeps, "cfm": 0.05, "erp": 0.1, "restitution": 0.3}))
    state = tilted(system)
    system.step(state)
    assert is_crowded(system)
    names = ["q", "v", "mass", "com", "inertia", "friction", "erp", "cfm", "gravity"]
    check(system, state, names=names, matter=(*STATE, "mass", "com", "inertia", "friction", "cfm"))


def test_worlds_choose_for_themselves():
    """One world of two has many contacts."""
    system, alone = plate(4, 5, worlds=2), plate(4, 5)
    q = np.tile([0, 0, 0.0095, 1, 0, 0, 0], (2, 1)).astype(float)
    q[1, 3:] = np.cos(0.3), 0, np.sin(0.3), 0  # on an edge
    q[1, 2] = 0.0095 + 0.03 * 3 * np.sin(0.6)
    both = system.step(system.state(q))
    for world in (0, 1):
        np.testing.assert_array_equal(alone.step(alone.state(q[world])).v[0], both.v[world])
    assert len(alone.contacts(alone.state(q[1]))[0].force) == 5
