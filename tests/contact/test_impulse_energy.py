"""Bounces with friction: impulses that would add energy are held back, island by island, and so are gradients."""

import numpy as np
import pytest
from gradients import STATE, check

import pullback as pb

OPTION = '<option timestep="0.001" gravity="0 0 0"/>'
FLOOR = '<geom type="plane" size="9 9 1" friction="0.5"/>'
BOX = '<body pos="{} 0 .0995"><freejoint/><geom type="box" size=".1 .1 .1" mass="{}" friction="{}"/></body>'
INERTIA = np.array([1, 1, 1, *(3 * [0.2**2 / 6])])  # of a box of 1 kg


def boxes(*places: float, worlds: int = 1, restitution: float = 0.9, **settings) -> pb.Articulated:
    """Boxes that lie on the floor at x = places, each heavier than the one before."""
    bodies = "".join(BOX.format(x, 1 + 0.5 * i, 0.6 + 0.05 * i) for i, x in enumerate(places))
    model = pb.load(f"<mujoco>{OPTION}<worldbody>{FLOOR}{bodies}</worldbody></mujoco>")
    contact = pb.ContactImpulse(**{"erp": 0.0, "restitution": restitution, **settings})
    return pb.Articulated(model, contact, worlds=worlds)


def thrown(worlds: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(worlds, 6)) * [1, 1, 1, 5, 5, 5]


def energy(v) -> np.ndarray:
    """Twice that of a box of 1 kg and a ball of 2 kg."""
    return (np.concatenate([INERTIA, 2 * np.array([1, 1, 1, *(3 * [0.4 * 0.1**2])])]) * v**2).sum(axis=-1)


def gained(before, after) -> np.ndarray:
    """Energy that boxes of 1 kg have won, against what they had."""
    return (INERTIA * after**2).sum(axis=-1) / (INERTIA * before**2).sum(axis=-1) - 1


def held_back() -> np.ndarray:
    """Velocities of boxes that hit and lose nothing: restitution and friction would take something."""
    system, v = boxes(0.0, worlds=400), thrown(400)
    after = system.step(system.state(v=v)).v
    return v[(np.abs(gained(v, after)) < 1e-5) & (np.abs(after - v).max(axis=1) > 0.1)]


@pytest.mark.parametrize("restitution", [0.5, 0.8, 0.9, 1.0])
def test_bounces_with_friction_add_no_energy(restitution):
    system, v = boxes(0.0, worlds=400, restitution=restitution), thrown(400)
    after = system.step(system.state(v=v)).v
    assert gained(v, after).max() < 1e-5
    assert np.abs(after - v).max() > 1


def test_some_are_held_back():
    assert len(held_back()) > 5


def test_friction_stays_within_its_bound():
    v = held_back()
    system = boxes(0.0, worlds=len(v))
    for contacts in system.contacts(system.state(v=v)):
        normal = contacts.force[:, 2]
        assert np.all(np.hypot(*contacts.force[:, :2].T) <= 0.6 * normal * (1 + 1e-9)) and normal.max() > 0


def test_the_reported_forces_are_those_that_acted():
    v = held_back()
    system = boxes(0.0, worlds=len(v))
    change = system.step(system.state(v=v)).v - v
    forces = [contacts.force.sum(axis=0) for contacts in system.contacts(system.state(v=v))]
    np.testing.assert_allclose(1e-3 * np.array(forces), change[:, :3], atol=1e-12)


def test_what_does_not_touch_is_not_held_back():
    """A box far away moves as if it were alone, whatever happens to others."""
    held, free = held_back()[0], np.array([0.1, 0.2, -1.0, 0.3, 0.2, 0.1])
    both = boxes(0.0, 5.0, sweeps=500)
    after = both.step(both.state(v=np.concatenate([held, free])[None])).v[0]
    alone = boxes(5.0, sweeps=500)
    alone.params.mass = alone.params.mass * 1.5
    alone.params.inertia = alone.params.inertia * 1.5
    alone.params.friction = np.array([[0.5, 0.005, 1e-4], [0.65, 0.005, 1e-4]])
    np.testing.assert_allclose(after[6:], alone.step(alone.state(v=free[None])).v[0], atol=1e-6)
    alone = boxes(0.0, sweeps=500)
    np.testing.assert_allclose(after[:6], alone.step(alone.state(v=held[None])).v[0], atol=1e-6)


MATTER = (*STATE, "restitution", "friction", "mass", "com", "inertia", "geom_size", "geom_pos")


@pytest.mark.parametrize("sweeps", [3, 50])
def test_gradients_of_what_is_held_back(sweeps):
    v = held_back()[[3, 5]]
    system = boxes(0.0, worlds=2, sweeps=sweeps, cfm=0.01)
    system.params.restitution = [0.9, 0.85]
    assert np.all(np.abs(gained(v, system.step(system.state(v=v)).v)) < 1e-5)
    check(system, system.state(v=v), matter=MATTER)


def test_gradients_of_an_island_of_two():
    """A ball touches the box and the floor: what the box would win is taken from both."""
    ball = '<body pos=".1995 0.02 .0995"><freejoint/><geom size=".1" mass="2" friction="0.7"/></body>'
    world = f"{FLOOR}{BOX.format(0, 1, 0.6)}{ball}"
    model = pb.load(f"<mujoco>{OPTION}<worldbody>{world}</worldbody></mujoco>")
    box = held_back()[[1, 3, 5]]
    v = np.concatenate([box, thrown(3, seed=1)], axis=1)
    systems = [pb.Articulated(model, pb.ContactImpulse(erp=0.0, restitution=e), worlds=3) for e in (0.9, 0.5)]
    for system in systems:
        # the larger of two that are the same is a kink
        system.params["restitution"] = system.params["restitution"] * (1.0, 0.99, 0.98)
        check(system, system.state(v=v), matter=MATTER)
    held = [np.abs(energy(s.step(s.state(v=v)).v) - energy(v)) < 1e-5 * energy(v) for s in systems]
    assert np.any(held[0]) and not np.any(held[1])
