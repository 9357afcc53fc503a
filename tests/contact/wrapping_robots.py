"""Robots with tendons that wrap around spheres and cylinders."""

from __future__ import annotations

from tendon_robots import FLAP, PULLS

# Muscles over a shoulder and an elbow, with and without a side, and a rope over pulleys through a ring and around a
# drum, to a load that carries a flap.
WRAPPED_ARM = """<mujoco><compiler angle="radian"/><option timestep="0.002" integrator="{integrator}"/>
<default><geom contype="0" conaffinity="0" type="capsule" size="0.02"/></default>
<worldbody><site name="shelf" pos="0 0.1 1.3"/><site name="post" pos="-0.2 0.1 1.1"/>
<body name="torso" pos="0 0 1"><joint name="turn" axis="0 0 1" damping="0.1"/>
  <geom type="sphere" size="0.1" mass="2"/>
  <site name="back" pos="-0.05 0.06 0.1"/><site name="chest" pos="0.06 0.03 0.08"/>
  <geom name="hub" type="sphere" size="0.045" pos="0.01 0.15 0.01" mass="0.1"/>
  <site name="front" pos="0.07 0.15 -0.02"/>
  <body name="upper" pos="0 0.15 0"><joint name="shoulder" type="ball"/>
    <geom fromto="0 0 0 0 0 -0.3" mass="0.8"/>
    <site name="mid" pos="0.03 0 -0.2"/><site name="rear" pos="-0.035 0.01 -0.2"/>
    <geom name="drum" type="cylinder" size="0.035 0.03" pos="0 0 -0.3" euler="1.5 0.1 0.3" mass="0.05"/>
    <site name="behind" pos="-0.06 0 -0.3"/>
    <body name="fore" pos="0 0 -0.3"><joint name="elbow" axis="0 1 0" actuatorfrcrange="-9 9"/>
      <geom fromto="0 0 0 0.02 0 -0.25" mass="0.5"/>
      <site name="ulna" pos="0.045 0 -0.08"/><site name="heel" pos="-0.045 0.005 -0.08"/>
      <site name="wrist" pos="0 0.02 -0.22"/></body></body></body>
<body name="load" pos="0.3 0.1 0.6"><freejoint/><geom type="box" size="0.05 0.04 0.03" mass="0.3"/>
  <geom name="ring" type="cylinder" size="0.05 0.02" pos="0.02 0 0.1" euler="1 0.2 0" mass="0.02"/>
  <site name="inside" pos="0.025 0.005 0.11"/>
  <site name="hook" pos="0.01 0.02 0.03"/>{flap}</body></worldbody>
<tendon>
  <spatial name="biceps" stiffness="40" damping="0.7" springlength="0.2 0.3">
    <site site="chest"/><geom geom="hub" sidesite="front"/><site site="mid"/><geom geom="drum"/>
    <site site="ulna"/></spatial>
  <spatial name="triceps" frictionloss="0.3">
    <site site="back"/><geom geom="hub"/><site site="rear"/><geom geom="drum" sidesite="behind"/>
    <site site="heel"/></spatial>
  <fixed name="mixed" damping="0.05"><joint joint="turn" coef="0.4"/><joint joint="elbow" coef="0.7"/></fixed>
  <spatial name="rope" range="0.6 0.8" stiffness="5" damping="0.2" margin="0.01"
    solreflimit="0.01 1.1" solimplimit="0.8 0.95 0.02 0.4 3">
    <site site="shelf"/><site site="chest"/><pulley divisor="2"/><site site="shelf"/>
    <geom geom="ring" {side}/><site site="post"/>
    <pulley divisor="3"/><site site="wrist"/><geom geom="drum"/><site site="hook"/></spatial>
  <spatial name="looks" armature="0.02"><site site="back"/><site site="wrist"/></spatial></tendon>
{pulls}</actuator></mujoco>"""


def wrapped_arm(integrator: str = "Euler", *, flap: bool = True, inside: bool = True) -> str:
    """Without ``inside`` the rope goes around the ring and not through it."""
    side = 'sidesite="inside"' if inside else ""
    return WRAPPED_ARM.format(integrator=integrator, flap=FLAP if flap else "", side=side, pulls=PULLS)


# Two balls and what a string from one to the other may wrap around, all of them free.
STRING = """<mujoco><option gravity="0 0 0"/><worldbody>
<body><freejoint/><geom name="g" type="{kind}" size=".1 .3" mass="1" euler="10 20 30"/>
  <site name="s" pos="{side}"/></body>
<body><freejoint/><geom size=".01" mass="1"/><site name="p" pos="0 .01 0"/></body>
<body><freejoint/><geom size=".01" mass="1"/><site name="q"/></body></worldbody>
<tendon><spatial name="t"><site site="p"/><geom geom="g" {sidesite}/><site site="q"/></spatial></tendon>
<actuator><general tendon="t" gainprm="1" biastype="affine" biasprm="0 1 0"/></actuator></mujoco>"""
SIDES = {"none": "0 0 .2", "outside": ".15 .03 .02", "inside": ".02 .01 .015"}


def string(kind: str, side: str) -> str:
    return STRING.format(kind=kind, side=SIDES[side], sidesite="" if side == "none" else 'sidesite="s"')


# A wheel on the floor, over which a rope holds a weight; its end is pulled.
WHEEL = """<mujoco><option timestep="0.002"/><worldbody>
<geom type="plane" size="2 2 1"/><site name="anchor" pos="-.5 0 .1"/>
<body pos="0 0 .098"><freejoint/><geom name="wheel" size=".1" mass="1"/></body>
<body pos=".5 .05 .2"><joint type="slide" axis="0 0 1"/><joint type="slide" axis="0 1 0"/>
  <geom name="weight" size=".03" mass=".4"/><site name="eye"/></body></worldbody>
<tendon><spatial name="rope" stiffness="30" damping="1" springlength="0.8" range="0 1.011" limited="true">
  <site site="anchor"/><geom geom="wheel"/><site site="eye"/></spatial></tendon>
<actuator><motor tendon="rope"/></actuator></mujoco>"""
