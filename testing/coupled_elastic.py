"""Robots among elastic bodies, for checks of momentum and of gradients."""

import numpy as np

import pullback as pb
from pullback import soft

# Two bodies that nothing holds. Their inertia is that of a ball, about the origin of their frames.
FLOATING = """
<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body name="dumbbell" pos="0 0 0.118"><freejoint/>
    <inertial pos="0 0 0" mass="1" diaginertia="2e-3 2e-3 2e-3"/>
    <geom name="left" type="sphere" pos="-0.04 0 -0.02" size="0.045"/>
    <geom name="right" type="box" pos="0.06 0.02 0" size="0.03 0.04 0.03" euler="10 5 0"/>
  </body>
  <body name="ball" pos="0 -0.01 -0.092"><freejoint/>
    <geom name="ball" type="sphere" size="0.04" mass="0.5"/>
  </body>
</worldbody></mujoco>"""

# A finger of two links that lies on a block; a ball that floats beside it, and a floor.
FINGER = """
<mujoco><option timestep="0.01"/><compiler angle="radian"/><worldbody>
  <geom name="floor" type="plane" size="1 1 0.1" pos="0 0 -0.0515"/>
  <body name="palm" pos="-0.06 0 0.16">
    <joint name="lift" type="slide" axis="0 0.1 1" damping="0.1"/>
    <geom name="palm" type="box" size="0.02 0.02 0.02" mass="0.5"/>
    <body name="link" pos="0 0 -0.03">
      <joint name="swing" type="hinge" axis="0 1 0.2" stiffness="0.2" springref="0.3" damping="0.05"/>
      <geom name="link" type="capsule" fromto="0 0 0 0.04 0 -0.03" size="0.015" mass="0.2"/>
      <body name="tip" pos="0.05 0 -0.04">
        <joint name="wrist" type="ball" damping="0.01"/>
        <geom name="tip" type="box" size="0.023 0.03 0.015" pos="0.03 0 -0.0235" mass="0.3"/>
      </body>
    </body>
  </body>
  <body name="float" pos="0.077 0 0.05"><freejoint/>
    <geom name="float" type="sphere" size="0.03" pos="0.005 0 0" mass="0.2"/>
  </body>
</worldbody><actuator>
  <motor joint="lift" gear="2"/><position joint="swing" kp="0.5"/>
</actuator></mujoco>"""
FINGERS = ("tip", "float", "floor")
GAP = 4e-3


def block(cells=(2, 2, 2)) -> soft.Solid:
    material = soft.StableNeoHookean(young=3e4, poisson=0.3, density=500.0, viscosity=20.0)
    return soft.solid_block((-0.05, -0.05, -0.05), (0.05, 0.05, 0.05), cells, material, name="block")


def floating(steps_in_one: int = 2, **options) -> pb.Coupled:
    robot = pb.Articulated(pb.load(FLOATING), None)
    settings = {"dt": robot.dt / steps_in_one, "gap": GAP, "gravity": (0, 0, 0), "threads": 1}
    return pb.Coupled(
        robot, soft.Elastic(block(), **settings | options), shapes=("left", "right", "ball"), friction=0.4
    )


def finger(worlds: int = 1, steps_in_one: int = 2, dtype: str = "float64", **options) -> pb.Coupled:
    """The block has a handle too."""
    robot = pb.Articulated(pb.load(FINGER), None, worlds=worlds, dtype=dtype)
    settings = {"dt": robot.dt / steps_in_one, "gap": GAP, "threads": 1, "worlds": worlds, "dtype": dtype}
    body = block()
    handle = np.flatnonzero(np.all(np.isclose(body.points[:, :2], -0.05), axis=1))[:1]
    elastic = soft.Elastic(body, handles=[handle], **settings | options)
    return pb.Coupled(robot, elastic, shapes=FINGERS, friction=0.4)


def flying(coupled: pb.Coupled):
    """Of ``floating``: its bodies fly at the block from both sides, and turn."""
    v = np.array([0, 0, -0.3, 0.2, 0.3, -0.1, 0, 0, 0.3, 0.5, 0.1, 0.3])
    return coupled.state(coupled.robot.state(v=v))


def in_motion(coupled: pb.Coupled, seed: int = 0, speed: float = 0.1):
    """A state in which everything moves a little, and a control."""
    random = np.random.default_rng(seed)
    robot, elastic = coupled.robot, coupled.soft
    v = speed * random.normal(size=(coupled.worlds, robot.nv))
    moving = elastic.state(v=speed * random.normal(size=(coupled.worlds, elastic.n, 3)))
    control = 0.1 * random.normal(size=(coupled.worlds, coupled.nu))
    return coupled.state(robot.state(v=v), moving), control
