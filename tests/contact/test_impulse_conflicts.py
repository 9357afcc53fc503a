"""Aims of impulses that exclude each other: what is pressed from two sides stays, with forces of a sensible size."""

import numpy as np
import pytest
from gradients import STATE, check, uneven
from impulses import FLOOR, G, impulse, run

import pullback as pb

# A ball of 1 kg on rails, held down by the limit of its vertical joint.
BALL_ON_RAILS = FLOOR.format(0.05) + (
    '<body pos="0 0 0.1"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1" range="-1 -0.003"/>'
    '<geom size="0.1" mass="1" friction="0.04"/></body>'
)
CEILING = '<geom type="box" size="1 1 0.1" pos="0 0 0.298"/>'
FREE_BALL = '<body pos="0 0 0.1"><freejoint/><geom size="0.1" mass="1"/></body>'
# A leg on a hinge whose limit presses its foot into the floor.
LEG = FLOOR.format(0.5) + (
    '<body pos="0 0 {}"><joint axis="0 1 0" range="{}"/><geom type="capsule" fromto="0 0 0 .4 0 -.2" size="0.03" '
    'mass="1" contype="0" conaffinity="0"/><geom size="0.05" pos=".4 0 -.2" mass="0.2"/></body>'
)
# Nothing that may move takes the foot of a hanging pendulum out of the floor.
HANGING = (
    FLOOR.format(0.5) + '<body pos="0 0 0.39"><joint axis="0 1 0"/><geom size="0.1" pos="0 0 -.3" mass="1"/></body>'
)

SQUEEZED = {
    "a limit against the floor": (BALL_ON_RAILS, [0, -0.002], 1.0, 0.003),
    "floor and ceiling": (FLOOR.format(0.5) + CEILING + FREE_BALL, None, 1.0, 0.002),
    "a leg with its limit in the floor": (LEG.format(0.24, "-0.1 45"), [0.0], 1.2, 0.01),
    "a foot that cannot be moved": (HANGING, [0.0], 1.0, 0.01),
}


# Were wrong: the two impulses grew against each other, in each sweep and in the first guess, and nothing but cfm
# stopped them. The forces in these scenes were 76,137, 47,273, 68,496 and 4.95e+08 N.
@pytest.mark.parametrize("name", SQUEEZED)
@pytest.mark.parametrize("sweeps", [50, 500])
def test_forces_are_no_more_than_what_stops_bodies_and_undoes_their_depth(name, sweeps):
    world, q, mass, depth = SQUEEZED[name]
    system = impulse(world, timestep=0.002, sweeps=sweeps)
    motion = run(system, q, steps=100)
    weight = mass * G
    out = mass * 0.2 * depth / 0.002**2  # to move all of it out by erp of its depth within a step
    for t in (0, 1, 2, 50, 99):
        (found,) = motion.contacts(t)
        speed = np.abs(motion.v[t]).max()
        assert np.abs(found.force).max() < 10 * (weight + mass * speed / 0.002) + 10 * out
    assert np.abs(found.force).max() > weight / 10  # it is held
    assert np.abs(motion.v[-1]).max() < 1e-3  # and at rest


def test_what_stops_bodies_has_no_bound():
    """A lever of a hundred to one: the contact near the pivot carries far more than all bodies weigh."""
    lever = FLOOR.format(0.5).replace("<geom", '<geom condim="1"') + (
        '<body pos="0 0 0.1"><joint axis="0 1 0"/><geom size="0.02" pos="0.02 0 -.0801" mass="1e-3" condim="1"/>'
        '<geom size="0.05" pos="2 0 0" mass="1" contype="0" conaffinity="0"/></body>'
    )
    system = impulse(lever, timestep=0.002)
    motion = run(system, [0.0], steps=500)
    (found,) = motion.contacts(-1)
    assert np.abs(motion.v[-1]).max() < 1e-3
    np.testing.assert_allclose(found.force[:, 2].sum(), 100 * G, rtol=0.02)


@pytest.mark.parametrize("restitution", [0.0, 0.3])
@pytest.mark.parametrize("speed", [-0.02, -0.3])
@pytest.mark.parametrize("sweeps", [2, 50])
def test_gradients_of_aims_that_are_given_up(speed, restitution, sweeps):
    """How much friction there is depends on what the squeezed ball is pressed with."""
    settings = {"sweeps": sweeps, "restitution": restitution, "erp": 0.1, "cfm": 1e-3}
    system = uneven(impulse(BALL_ON_RAILS.replace("mass", 'density="0" mass'), timestep=0.002, **settings))
    state = system.state([0.0, -0.002], [0.3, speed])
    system.step(state)
    rows = system._lanes[0].rows
    force, high, aim = rows.force.numpy()[:2, 0, 0], rows.high.numpy()[:2, 0], rows.aim.numpy()[:2, 0]
    assert np.any(force >= high) and np.all(aim > 0)
    names = ["q", "v", "mass", "friction", "joint_range", "erp", "geom_size", "gravity", "armature"]
    report = check(system, state, names=names, matter=(*STATE, "mass", "friction", "erp"))
    # the limit's aim or the floor's is what the ball is pressed with
    assert max(report["joint_range"].largest, report["geom_size"].largest) > 1e-3


def test_gradients_of_a_leg_between_its_limit_and_the_floor():
    body = '<body pos="0 0 0.24"><joint type="slide" axis="1 0 0" armature="1"/><geom size="0.01" mass="1"/>'
    world = LEG.format(0, "-0.1 45").replace('<body pos="0 0 0">', f"{body}<body>") + "</body>"
    system = uneven(impulse(world.replace('friction="0.5"', 'friction="0.05"'), timestep=0.002, cfm=1e-3))
    state = system.state([0.0, -0.004], [0.5, 0.1])
    system.step(state)
    rows = system._lanes[0].rows
    assert np.any(rows.force.numpy()[:2, 0, 0] >= rows.high.numpy()[:2, 0])
    names = ["q", "v", "mass", "com", "inertia", "joint_range", "erp", "geom_size", "gravity", "armature", "body_pos"]
    check(system, state, names=names, matter=(*STATE, "mass", "com", "joint_range", "erp", "geom_size", "armature"))


def test_a_free_robot_at_its_limits_stands_as_before():
    """Nothing is given up where aims can be met: a leg at its limit under a free body is lifted out of the floor."""
    world = FLOOR.format(0.9) + (
        '<body pos="0 0 0.3"><joint type="slide" axis="0 0 1"/><geom size="0.05" mass="5" contype="0" conaffinity="0"/>'
        '<body><joint axis="0 1 0" range="-45 30"/><geom type="capsule" fromto="0 0 0 .2 0 -.2" size="0.02" mass="0.3" '
        'contype="0" conaffinity="0"/><geom size="0.03" pos=".2 0 -.2" mass="0.05"/></body></body>'
    )
    system = impulse(world, timestep=0.002)
    motion = run(system, [-0.08, 0.52], steps=1500)
    (found,) = motion.contacts(-1)
    assert np.abs(motion.v[-1]).max() < 1e-4
    np.testing.assert_allclose(found.force[:, 2].sum(), 5.35 * G, rtol=1e-3)
    assert pb.ContactImpulse().slop == pytest.approx(-found.dist.min(), abs=5e-5)
