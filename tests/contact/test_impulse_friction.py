"""Friction under impulses, against closed forms: stopping, slopes, rolling.

The bound shortens the impulse of both tangents; where these two do not weigh the same, as at the corner of a box,
friction must still be opposite to sliding. It was not, once: blocks slid below their friction angle, and sideways.
"""

import mujoco
import numpy as np
import pytest
from impulses import BALL, BLOCK, FLOOR, STEADY, G, apart, impulse, run
from scenes import scene

import pullback as pb


def slide(mu: float, speed: float, angle: float, timestep: float = 0.004, **settings) -> np.ndarray:
    """Path of a block that slides to rest, (steps + 1, 2)."""
    system = impulse(STEADY.format(mu) + BLOCK.format(mu), timestep=timestep, **settings)
    v = np.array([speed * np.cos(angle), speed * np.sin(angle), 0, 0, 0, 0])
    motion = run(system, apart((0, 0, 0.02)), v, steps=int(1.5 * speed / (mu * G) / timestep))
    assert np.abs(motion.v[-1, 0]).max() < 1e-5  # at rest
    return motion.q[:, 0, :2]


@pytest.mark.parametrize(("mu", "speed"), [(0.5, 1.0), (0.2, 0.7), (1.0, 2.0)])
def test_stopping_distance(mu, speed):
    exact = speed**2 / (2 * mu * G)
    errors = [abs(np.linalg.norm(slide(mu, speed, 0.0, h)[-1]) - exact) for h in (0.004, 0.002)]
    assert errors[0] < speed * 0.004 and errors[1] < speed * 0.002
    assert errors[1] < 0.6 * errors[0]


def test_friction_is_the_same_in_every_direction():
    straight = np.linalg.norm(slide(0.4, 1.0, 0.0), axis=1)
    for angle in np.radians([20, 45, 70, 110, 225]):
        path = slide(0.4, 1.0, angle)
        np.testing.assert_allclose(np.linalg.norm(path, axis=1), straight, atol=1e-5)
        np.testing.assert_allclose(path[-1] / straight[-1], [np.cos(angle), np.sin(angle)], atol=1e-4)


def on_slope(angle: float, mu: float, **settings):
    """A block on a floor with gravity that leans by an angle, so that nothing but gravity is turned."""
    gravity = f'gravity="{G * np.sin(angle)} 0 {-G * np.cos(angle)}"'
    return impulse(STEADY.format(mu) + BLOCK.format(mu), option=gravity, **settings)


@pytest.mark.parametrize("mu", [0.3, 0.8])
def test_a_slope_below_and_above_the_friction_angle(mu):
    limit = np.arctan(mu)
    held = run(on_slope(limit - 0.02, mu, sweeps=200), apart((0, 0, 0.02)), steps=400)
    assert np.abs(held.q[-1, 0, :2] - held.q[100, 0, :2]).max() < 1e-7
    angle = limit + 0.05
    slid = run(on_slope(angle, mu), apart((0, 0, 0.02)), steps=400)
    exact = G * (np.sin(angle) - mu * np.cos(angle)) * 0.004 * 400
    np.testing.assert_allclose(slid.v[-1, 0, 0], exact, rtol=0.01)


def test_a_turned_floor_is_a_turned_gravity():
    """The slope itself leans: its contacts' frames are not the world's axes."""
    angle, mu = 0.5, 0.4
    world = FLOOR.format(mu).replace("<geom", f'<geom euler="0 {np.degrees(angle)} 20"') + BLOCK.format(mu)
    system = impulse(world)
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, system.model.mujoco.geom_quat[0])
    normal = R.reshape(3, 3)[:, 2]
    q = [*(0.02 * normal), *system.model.mujoco.geom_quat[0]]
    motion = run(system, q, steps=200)
    down = np.array([0, 0, -1]) + normal * normal[2]
    slope = np.arccos(normal[2])
    exact = G * (np.sin(slope) - mu * np.cos(slope)) * 0.004 * 200
    np.testing.assert_allclose(motion.v[-1, 0, :3], exact * down / np.linalg.norm(down), rtol=0.02, atol=0.01 * exact)


def test_a_rolling_ball():
    """Started without spin, a ball slides until it rolls at 5/7 of its speed, whatever the friction."""
    mu = 0.3
    system = impulse(FLOOR.format(mu) + BALL.format(1).replace("<geom", f'<geom friction="{mu}"'))
    motion = run(system, apart((0, 0, 0.1)), [1.0, 0, 0, 0, 0, 0], steps=200)
    np.testing.assert_allclose(motion.v[-1, 0, 0], 5 / 7, rtol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(motion.v[-1, 0, 3:]) * 0.1, 5 / 7, rtol=1e-3)


def test_without_friction_a_block_goes_on():
    for friction, condim in (("0", 3), ("1", 1)):
        world = (FLOOR + BLOCK).replace("{}", friction).replace("<geom", f'<geom condim="{condim}"')
        motion = run(impulse(world), apart((0, 0, 0.02)), [1.0, 0.5, 0, 0, 0, 0], steps=200)
        # 1e-5 is the least coefficient there is, as in MuJoCo
        np.testing.assert_allclose(motion.v[-1, 0, :2], [1.0, 0.5], atol=1e-4)


def test_sliding_agrees_with_the_convex_model():
    """Two models of the same block: the soft one creeps in a little, but both brake by friction times weight."""
    world = FLOOR.format(0.4) + BLOCK.format(0.4)
    model = pb.load(scene(world, option='cone="elliptic" impratio="100"', timestep=0.001))
    final = []
    for contact in (pb.ContactImpulse(), pb.ContactConvex()):
        system = pb.Articulated(model, contact)
        settled = run(system, apart((0, 0, 0.02)), steps=200)
        v = settled.v[-1, 0] + [1.0, 0.3, 0, 0, 0, 0]
        final.append(run(system, settled.q[-1, 0], v, steps=150).v[-1, 0, :2])
    np.testing.assert_allclose(final[0], final[1], rtol=0.06)
