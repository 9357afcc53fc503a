"""Robots whose joints are coupled: hands with tendons, mimic joints, closed loops; with states of them."""

from __future__ import annotations

import mujoco
import numpy as np
from oracles import mujoco_run
from scenes import next_states, worst_world

import pullback as pb

# A hand that slides up and down, with fingers of three joints and of two. One tendon joins the fingers, one runs along
# the first, one along the second; the latter two couple joints of which one carries the other.
HAND = """<mujoco><compiler angle="radian"/><option timestep="0.002" integrator="{integrator}"/>
<default><geom contype="0" conaffinity="0" type="capsule" size="0.01"/></default>
<worldbody><body name="palm" pos="0 0 1"><joint name="lift" type="slide" axis="0 0 1" damping="1"/>
  <geom type="sphere" size="0.05" mass="0.5"/>
  <body name="a" pos="0.05 0 0"><joint name="a1" axis="0 1 0" armature="0.001"/>
    <geom fromto="0 0 0 0.1 0 0" mass="0.1"/>
    <body name="b" pos="0.1 0 0"><joint name="b1" axis="0 1 0" range="-0.5 1.5" limited="true"/>
      <geom fromto="0 0 0 0.08 0 0.01" mass="0.05"/>
      <body name="c" pos="0.08 0 0"><joint name="c1" axis="0 1 0.1" ref="0.1"/>
        <geom fromto="0 0 0 0.06 0 0" mass="0.03"/></body></body></body>
  <body name="d" pos="-0.05 0 0"><joint name="d1" axis="0 -1 0" frictionloss="0.002"/>
    <geom fromto="0 0 0 -0.1 0 0" mass="0.1"/>
    <body name="e" pos="-0.1 0 0"><joint name="e1" axis="0 -1 0" actuatorfrcrange="-1 1"/>
      <geom fromto="0 0 0 -0.08 0 0.01" mass="0.05"/></body></body></body></worldbody>
<tendon>
  <fixed name="split" stiffness="1.5" damping="0.03" springlength="-0.1 0.2">
    <joint joint="a1" coef="1"/><joint joint="d1" coef="0.7"/></fixed>
  <fixed name="idle"><joint joint="a1" coef="1"/></fixed>
  <fixed name="curl" range="-0.4 0.9" margin="0.01" armature="0.0007" frictionloss="0.003"
    solreflimit="0.01 1.1" solimplimit="0.8 0.95 0.02 0.4 3">
    <joint joint="b1" coef="1"/><joint joint="c1" coef="-0.6"/><joint joint="a1" coef="0.3"/></fixed>
  <fixed name="other" damping="0.001"><joint joint="e1" coef="0.8"/><joint joint="d1" coef="0.5"/></fixed></tendon>
<equality>
  <joint name="mimic" joint1="c1" joint2="b1" polycoef="0.05 0.8 0.2 -0.1 0.05" solref="0.02 1"
    solimp="0.85 0.97 0.05 0.5 2"/>
  <joint name="hold" joint1="lift" polycoef="0.02 0 0 0 0" solref="-900 -40"/>
  <joint name="off" active="false" joint1="b1"/>
  <tendon name="pair" tendon1="other" tendon2="curl" polycoef="0.01 0.9 0.1 0 0.03"/></equality>
<actuator>
  <general tendon="split" gear="1.3" gainprm="2" biastype="affine" biasprm="0.1 -3 -0.2" ctrlrange="-1 1"
    forcerange="-1.5 1.5"/>
  <position tendon="curl" kp="1" kv="0.05"/>
  <general tendon="other" gaintype="affine" gainprm="0.5 0.2 0.005" biastype="affine" biasprm="0 -0.5 -0.02"/>
  <motor joint="lift" gear="3"/></actuator></mujoco>"""


def scattered(m: mujoco.MjModel, count: int, seed: int = 0, *, size: float = 0.5, speed: float = 1.0):
    """q (count, nq), v (count, nv) and controls (count, nu) at random about the file's pose."""
    rng = np.random.default_rng(seed)
    q = np.tile(m.qpos0, (count, 1))
    for row in q:
        mujoco.mj_integratePos(m, row, size * rng.normal(size=m.nv), 1.0)
    return q, speed * rng.normal(size=(count, m.nv)), rng.normal(size=(count, m.nu))


def worst_step(system: pb.Articulated, *, speed: float = 2.0) -> float:
    """Of a step from a state at random in each world, the largest difference of accelerations from MuJoCo's."""
    m, dt = system.model.mujoco, system.dt
    q, v, controls = scattered(m, system.worlds, speed=speed)
    ours, free = system.step(system.state(q, v), controls), system.contact is None
    theirs = mujoco_run(m, q, v, controls[None])[1][1] if free else next_states(m, q, v, controls)[1]
    return worst_world((ours.v - v) / dt, (theirs - v) / dt)


LOOPED = """<mujoco><compiler angle="radian"/><option timestep="{dt}" integrator="{integrator}"/>
<default><geom contype="0" conaffinity="0" type="capsule" size="0.02"/>
  <equality solref="0.02 1" solimp="0.9 0.95 0.2 0.5 2"/></default>
<worldbody>{world}</worldbody><equality>{equality}</equality><actuator>{actuator}</actuator></mujoco>"""

# Crank, coupler and rocker; the coupler's end is held to the rocker's.
FOUR_BAR = {
    "world": """
  <body name="crank" pos="0 0 1"><joint name="drive" axis="0 1 0"/><geom fromto="0 0 0 0 0 0.2" mass="0.3"/>
    <body name="coupler" pos="0 0 0.2"><joint name="pin" axis="0 1 0"/><geom fromto="0 0 0 0.5 0 0.1" mass="0.5"/>
    </body></body>
  <body name="rocker" pos="0.5 0 1"><joint name="rock" axis="0 1 0"/><geom fromto="0 0 0 0 0 0.3" mass="0.4"/></body>
  """,
    "equality": '<connect name="pin" body1="coupler" body2="rocker" anchor="0.5 0 0.1"/>',
    "actuator": '<motor joint="drive" gear="2"/>',
}

# Two fingers, each on two parallel links: pads stay parallel. A mimic joint couples the sides; the hand is free.
GRIPPER = {
    "world": """<body name="hand" pos="0 0 1"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/>
  <body name="inner" pos="0.03 0 0.05"><joint name="left" axis="0 1 0"/><geom fromto="0 0 0 0.03 0 0.08" mass="0.1"/>
    <body name="pad" pos="0.03 0 0.08"><joint name="left pad" axis="0 1 0"/>
      <geom fromto="-0.01 0 0 -0.01 0 0.05" mass="0.05"/><site name="heel" pos="0.02 0 0" euler="0 0.4 0.2"/></body>
  </body>
  <body name="outer" pos="0.05 0 0.05"><joint name="left link" axis="0 1 0"/>
    <geom fromto="0 0 0 0.03 0 0.08" mass="0.1"/><site name="tip" pos="0.03 0 0.08" euler="0.1 0 0"/></body>
  <body name="mirror" pos="-0.03 0 0.05"><joint name="right" axis="0 -1 0"/>
    <geom fromto="0 0 0 -0.03 0 0.08" mass="0.1"/></body></body>""",
    "equality": """<connect name="heel" site1="heel" site2="tip"/><joint joint1="right" joint2="left"/>""",
    "actuator": '<position joint="left" kp="2"/>',
}

# Two legs below a free trunk, shins driven by rods from the hips; and welds of every kind: to the world, between
# branches that share ancestors, between trees, between sites.
BIPED = {
    "world": """<body name="trunk" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.15 0.1" mass="3"/>
  <body name="thigh" pos="0 0.1 -0.1"><joint name="hip x" axis="1 0 0"/><joint name="hip" axis="0 1 0"/>
    <geom fromto="0 0 0 0 0 -0.3" mass="1"/>
    <body name="shin" pos="0 0 -0.3"><joint name="knee" axis="0 1 0"/><geom fromto="0 0 0 0 0 -0.3" mass="0.7"/>
      <site name="heel" pos="-0.05 0 0" euler="0.3 0.2 0.1"/></body>
    <body name="lever" pos="0.02 0 -0.02"><joint name="motor" axis="0 1 0" armature="0.01"/>
      <geom fromto="0 0 0 -0.07 0 0" mass="0.1"/>
      <body name="rod" pos="-0.07 0 0"><joint name="end" type="ball" armature="0.001"/>
        <geom fromto="0 0 0 0 0 -0.28" mass="0.1"/></body></body></body>
  <body name="other" pos="0 -0.1 -0.1"><joint name="other hip" type="ball"/><geom fromto="0 0 0 0 0 -0.5" mass="1.5"/>
    <site name="sole" pos="0 0 -0.5" euler="0.2 0 0.3"/></body></body>
  <body name="cart" pos="0.3 0 0.5"><joint type="slide" axis="1 0 0"/><geom type="box" size="0.1 0.1 0.1" mass="1"/>
  </body><site name="mark" pos="0.1 -0.2 0.4" euler="0 0.3 0"/>""",
    "equality": """<connect name="rod" body1="rod" body2="shin" anchor="0 0 -0.28"/>
  <weld name="tow" body1="other" body2="cart" anchor="0.1 0 0.05" torquescale="0.3" solref="-300 -20"/>
  <weld name="stand" site1="sole" site2="mark" torquescale="0.7"/>
  <weld name="hang" body1="trunk" relpose="0.1 0 -1 0.9 0.1 0.2 0.1" torquescale="1.7" solimp="0.8 0.95 3 0.4 3"/>
  <connect name="idle" body1="shin" body2="cart" anchor="0 0 0" active="false"/>""",
    "actuator": '<motor joint="motor" gear="2"/><motor joint="hip"/>',
}
LOOPS = {"four-bar": FOUR_BAR, "gripper": GRIPPER, "biped": BIPED}


def looped(name: str, integrator: str = "Euler", dt: float = 0.002) -> str:
    return LOOPED.format(integrator=integrator, dt=dt, **LOOPS[name])


# A drone whose rotors push and turn at sites, two of which lean; one is on an arm that it carries.
DRONE = """<mujoco><compiler angle="radian"/><option timestep="0.004" integrator="{integrator}"/>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
<body name="frame" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.1 0.02" mass="1"/>
  <site name="left" pos="0.1 0.1 0.02" euler="0.1 0 0"/><site name="right" pos="0.1 -0.1 0.02" euler="0 0.2 0.3"/>
  <body name="arm" pos="-0.1 0 0"><joint name="tilt" axis="0 1 0" {joint}/>
    <geom type="capsule" fromto="0 0 0 -0.2 0 0" size="0.02" mass="0.2"/><site name="tail" pos="-0.2 0 0.02"/></body>
</body></worldbody><actuator>
<motor site="left" gear="0 0 1 0 0 0.02" ctrlrange="0 9"/><motor site="right" gear="0 0.1 1 0 0 -0.02"/>
<general site="tail" gear="0.3 0.1 1 0.02 0.05 0.01" gaintype="affine" gainprm="2 0 0.1" biastype="affine"
  biasprm="0.3 0 {feedback}" forcerange="-2 2"/><motor joint="tilt"/></actuator></mujoco>"""


# What acts on the tendons of an arm.
PULLS = """<equality>
  <tendon name="pair" tendon1="looks" tendon2="biceps" polycoef="0.01 0.9 0.1 0 0.03" solref="0.05 1"/>
</equality>
<actuator>
  <general tendon="biceps" gear="1.3" gainprm="-20" biastype="affine" biasprm="0.1 -3 -0.2" ctrlrange="-1 1"
    forcerange="-15 15"/>
  <position tendon="triceps" kp="10" kv="0.5"/>
  <general tendon="rope" gaintype="affine" gainprm="0.5 0.2 0.05" biastype="affine" biasprm="0 -0.5 -0.2"/>
  <motor joint="turn" gear="0.3"/>"""


# An arm whose muscles' paths cross its joints, a rope over pulleys to a load that carries a flap, and a fixed tendon.
ARM = """<mujoco><compiler angle="radian"/><option timestep="0.002" integrator="{integrator}"/>
<default><geom contype="0" conaffinity="0" type="capsule" size="0.02"/></default>
<worldbody><site name="shelf" pos="0 0.1 1.3"/>
<body name="torso" pos="0 0 1"><joint name="turn" axis="0 0 1" damping="0.1"/>
  <geom type="sphere" size="0.1" mass="2"/>
  <site name="back" pos="-0.05 0.06 0.1"/><site name="chest" pos="0.06 0.03 0.08"/>
  <body name="upper" pos="0 0.15 0"><joint name="shoulder" type="ball"/>
    <geom fromto="0 0 0 0 0 -0.3" mass="0.8"/>
    <site name="mid" pos="0.03 0 -0.2"/><site name="rear" pos="-0.03 0.01 -0.22" euler="0.2 0 0.1"/>
    <body name="fore" pos="0 0 -0.3"><joint name="elbow" axis="0 1 0" actuatorfrcrange="-9 9"/>
      <geom fromto="0 0 0 0.02 0 -0.25" mass="0.5"/>
      <site name="ulna" pos="0.02 0 -0.05"/><site name="wrist" pos="0 0.02 -0.22"/></body></body></body>
<body name="load" pos="0.3 0.1 0.6"><freejoint/><geom type="box" size="0.05 0.04 0.03" mass="0.3"/>
  <site name="hook" pos="0.01 0.02 0.03"/>{flap}</body></worldbody>
<tendon>
  <spatial name="biceps" stiffness="40" damping="0.7" springlength="0.2 0.3">
    <site site="chest"/><site site="mid"/><site site="ulna"/></spatial>
  <spatial name="triceps" armature="0.05" frictionloss="0.3">
    <site site="back"/><site site="rear"/><site site="ulna"/></spatial>
  <fixed name="mixed" damping="0.05"><joint joint="turn" coef="0.4"/><joint joint="elbow" coef="0.7"/></fixed>
  <spatial name="rope" range="0.6 0.8" stiffness="5" damping="0.2" armature="0.02" margin="0.01"
    solreflimit="0.01 1.1" solimplimit="0.8 0.95 0.02 0.4 3">
    <site site="shelf"/><site site="chest"/><pulley divisor="2"/><site site="shelf"/><site site="hook"/>
    <pulley divisor="3"/><site site="wrist"/><site site="hook"/></spatial>
  <spatial name="looks"><site site="back"/><site site="wrist"/></spatial></tendon>
{pulls}{thruster}</actuator></mujoco>"""
FLAP = """<body name="flap" pos="0.05 0 0"><joint name="flap" axis="0 1 0" armature="0.001"/>
  <geom fromto="0 0 0 0.05 0 0" mass="0.05"/></body>"""
THRUSTER = '<motor site="rear" gear="0.3 0.1 1 0.02 0.05 0.01"/>'


def arm(integrator: str = "Euler", *, flap: bool = True, thruster: bool = False) -> str:
    """Without the flap its load is a free body that carries no joints."""
    parts = {"flap": FLAP if flap else "", "thruster": THRUSTER if thruster else "", "pulls": PULLS}
    return ARM.format(integrator=integrator, **parts)


# A cup on slides, and a ball on a string that may not be longer than it is. The ball may lie in the cup.
CUP = """<mujoco><option timestep="0.005" integrator="{integrator}"/><worldbody>
<body name="cup" pos="0 0 0.6"><joint name="x" type="slide" axis="1 0 0" damping="1"/>
  <joint name="z" type="slide" axis="0 0 1" damping="1"/>
  <geom type="capsule" fromto="-0.05 0 0 -0.03 0 -0.08" size="0.01"/>
  <geom type="capsule" fromto="0.05 0 0 0.03 0 -0.08" size="0.01"/><site name="handle" pos="0 0 -0.09"/></body>
<body name="ball" pos="0 0 0.3"><freejoint/><geom size="0.025" mass="0.05"/><site name="eye" pos="0 0 0.025"/></body>
</worldbody><tendon><spatial name="string" range="0 0.25"><site site="handle"/><site site="eye"/></spatial></tendon>
<actuator><motor joint="x" gear="5"/><motor joint="z" gear="20"/></actuator></mujoco>"""
