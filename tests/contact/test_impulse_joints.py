"""Joints under impulses: limits, friction loss, mechanisms that cannot move in every direction."""

import numpy as np
import pytest
from impulses import EXACT, FLOOR, impulse, run
from scenes import limits

import pullback as pb


def test_limits_hold():
    """A hinge, a slide, a ball joint and a hinge, swinging into their limits under their weight and random kicks."""
    system = pb.Articulated(pb.load(limits('damping="0.05" armature="0.01"', timestep=0.002)), pb.ContactImpulse())
    rng = np.random.default_rng(0)
    motion = run(system, None, rng.normal(size=6), steps=1500)
    q = motion.q[:, 0]
    angle = 2 * np.arctan2(np.linalg.norm(q[:, 3:6], axis=1), np.abs(q[:, 2]))
    ranges = system.model.mujoco.jnt_range
    slack = 0.01  # what a joint may sink in, in a step at these speeds
    for values, (low, high) in zip((q[:, 0], q[:, 1], angle, q[:, 6]), ranges, strict=True):
        assert values.min() > low - slack and values.max() < high + slack
        assert values.max() > high - 1e-3 or values.min() < low + 1e-3  # the limit was reached
    assert np.abs(motion.v[-1]).max() < 0.05  # and it comes to rest there
    assert np.abs(motion.q[-1] - motion.q[-200]).max() < 1e-2


PENDULUM = """<body><joint {}/><geom size="0.05" pos="0.5 0 0" mass="2" contype="0" conaffinity="0"/></body>"""


@pytest.mark.parametrize(
    "joint",
    ['axis="0 1 0" range="-30 20"', 'type="slide" axis="0 0 -1" range="-0.2 0.1"', 'type="ball" range="0 35"'],
    ids=["hinge", "slide", "ball"],
)
def test_a_joint_rests_on_its_limit(joint):
    system = impulse(PENDULUM.format(joint), timestep=0.002)
    motion = run(system, None, steps=1000)
    q = motion.q[-1, 0]
    value = 2 * np.arctan2(np.linalg.norm(q[1:]), q[0]) if len(q) == 4 else q[0]
    np.testing.assert_allclose(value, system.model.mujoco.jnt_range[0, 1], atol=1e-5)
    assert np.abs(motion.v[-1]).max() < 1e-6


def lossy(loss: float, **settings) -> pb.Articulated:
    world = (
        f'<body><joint name="j" axis="0 0 1" frictionloss="{loss}"/><geom size="0.1" pos="0.5 0 0" mass="2"/></body>'
    )
    return impulse(world, rest='<actuator><motor joint="j"/></actuator>', **settings)


def test_friction_loss_holds_and_brakes():
    system = lossy(1.5, **EXACT)
    inertia = 2 * (0.25 + 0.4 * 0.01)
    for torque in (0.5, -1.49):
        held = run(system, [0.3], steps=50, control=[torque])
        assert np.abs(held.v).max() < 1e-15 and np.all(held.q == 0.3)
    for torque, sign in ((2.0, 1), (-3.0, -1)):
        moved = run(system, [0.3], steps=50, control=[torque])
        exact = sign * (abs(torque) - 1.5) / inertia * 0.004 * 50
        np.testing.assert_allclose(moved.v[-1, 0, 0], exact, rtol=1e-10)
    # braked without a motor: a constant deceleration, then rest
    braked = run(system, [0.0], [1.0], steps=200).v[:, 0, 0]
    steps = np.arange(201)
    np.testing.assert_allclose(braked, np.maximum(0, 1 - 1.5 / inertia * 0.004 * steps), atol=1e-12)


def test_friction_loss_in_a_chain_with_contacts():
    """All rows are solved together: a leg whose joint is held by its friction loss carries the weight of a body."""
    world = """<geom type="plane" size="1 1 1"/><body><joint type="slide" axis="0 0 1"/>
      <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><geom size="0.05" mass="3"/>
      <body><joint axis="0 1 0" frictionloss="{}"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 -0.3" size="0.03" mass="0.1"/></body></body>"""
    height = {}
    for loss in (20.0, 1.0):
        system = impulse(world.format(loss))
        motion = run(system, [0.33, 0, 0, 0.0], steps=100)
        height[loss] = motion.q[-1, 0, 0]
    assert height[20.0] > 0.329 and height[1.0] < 0.31


# mechanisms that cannot move in every direction

FEW_JOINTS = {
    "a slide": ('<joint type="slide" axis="0 0 1"/>', [0.1], [-1.0]),
    "a plane": ('<joint type="slide" axis="0 0 1"/><joint type="slide" axis="1 0 0"/>', [0.1, 0], [-1.0, 0.5]),
    "a leg": ('<joint axis="0 1 0" pos="0 0 1"/>', [0.0], [0.5]),
}


# Was wrong: the 2×2 block of a contact's tangents is singular where nothing can slide in some direction, and dividing
# by its determinant gave NaN. Planar robots could not be simulated.
@pytest.mark.parametrize("kind", FEW_JOINTS)
def test_contacts_of_mechanisms_with_few_joints(kind):
    joints, q, v = FEW_JOINTS[kind]
    system = impulse(
        FLOOR.format(0.5) + f'<body>{joints}<geom size="0.1" mass="1" pos="0 0 {0.1 * (kind == "a leg")}"/></body>'
    )
    q = np.array(q) - (1e-3 if kind != "a leg" else 0)
    state = system.state(q, v)
    after = system.step(state)
    assert np.all(np.isfinite(after.v))
    # a fast landing is all but forgotten: of the velocity, 1e-7 is left by the softness of the contact
    report = pb.check_system(
        system, state, steps=(1e-2, 1e-3, 1e-4, 1e-5), names=("q", "v", "mass", "friction"), tolerance=1e-5
    )
    assert report["v"].largest > 0


# Was wrong: the chain of a joint's row was read from the nonzeros of the factor's row, where an ancestor is missing
# whose coupling with that joint happens to be zero, although others between them couple it.
@pytest.mark.parametrize("kind", ["hinge", "ball"])
def test_limits_where_a_coupling_is_exactly_zero(kind):
    point = '<geom size="0.1" mass="1" {} contype="0" conaffinity="0"/>'
    rod = '<geom type="capsule" fromto="0 0 0 1 0 0" size="0.1" mass="1" contype="0" conaffinity="0"/>'
    if kind == "hinge":
        world = f"""<body><joint type="slide" axis="1 0 0"/>{point.format("")}
          <body><joint type="slide" axis="1 0 1"/>{point.format("")}
          <body><joint axis="0 1 0" range="-30 -1"/>{point.format('pos="1 0 0"')}</body></body></body>"""
        q, v, nudge = [0.0, 0, 0], [0, 0, 1.0], [0, 0, 1e-9]
    else:
        world = f"""<body><joint axis="0 1 0"/>{rod}<body pos="1 0 0"><joint type="ball" range="0 30"/>{rod}</body>
          </body>"""
        q, v, nudge = [0, np.cos(0.4), 0, np.sin(0.4), 0], [0, 0, 2.0, 0], [0, 0, 0, 0, 1e-9]
    system = impulse(world)
    exactly, nearly = (system.step(system.state(np.add(q, x), v)).v for x in (np.zeros(len(q)), nudge))
    np.testing.assert_allclose(exactly, nearly, atol=1e-5)
