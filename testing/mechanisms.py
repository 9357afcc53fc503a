"""Robots whose joints depend on each other, as machines have them, from round numbers; each closes in its home pose.

``mechanism("gripper", integrator="implicitfast")`` is the XML of one. All have an actuator at least, and something that
holds them: gravity alone would pull none of them far from home within a tenth of a second.
"""

from __future__ import annotations

import mujoco
import numpy as np

# A crank of 0.1 m, a coupler of 0.4 m and a rocker between pivots 0.3 m apart; the coupler's end is the rocker's.
FOUR_BAR = """<mujoco model="four-bar linkage"><compiler angle="radian"/><option {option}/>
<default><geom contype="0" conaffinity="0" type="capsule" size="0.01"/></default>
<worldbody>
 <body name="crank" pos="0 0 1"><joint name="drive" axis="0 1 0" damping="0.02" armature="0.001"/>
  <geom fromto="0 0 0 0 0 0.1" mass="0.1"/>
  <body name="coupler" pos="0 0 0.1"><joint name="pin" axis="0 1 0" damping="0.001"/>
   <geom fromto="0 0 0 0.4 0 0" mass="0.4"/></body></body>
 <body name="rocker" pos="0.3 0 0.85"><joint name="rock" axis="0 1 0" frictionloss="0.01" range="-1.5 1.5"/>
  <geom fromto="0 0 0 0.1 0 0.25" mass="0.3"/></body></worldbody>
<equality><connect name="joint" body1="coupler" body2="rocker" anchor="0.4 0 0" solref="0.01 1"/></equality>
<actuator><motor name="drive" joint="drive" gear="0.3" ctrlrange="-1 1"/></actuator></mujoco>"""


def _finger(name: str, y: float, length: float) -> tuple[str, str, str, str]:
    """Body, tendons, equalities and actuators of a finger whose last two joints a tendon curls together."""
    body = f"""<body name="{name}" pos="0.09 {y} 0"><joint name="{name} side" axis="0 0 1" range="-0.3 0.3"/>
   <geom type="sphere" size="0.009" mass="0.02"/>
   <body name="{name} near"><joint name="{name} 1" axis="0 1 0" range="-0.3 1.6"/>
    <geom fromto="0 0 0 {length} 0 0" mass="0.03"/>
    <body name="{name} middle" pos="{length} 0 0"><joint name="{name} 2" axis="0 1 0" range="0 1.6"/>
     <geom fromto="0 0 0 {0.6 * length} 0 0" mass="0.02"/>
     <body name="{name} tip" pos="{0.6 * length} 0 0"><joint name="{name} 3" axis="0 1 0" range="0 1.6"/>
      <geom name="{name} pad" fromto="0 0 0 {0.5 * length} 0 0" mass="0.01"/></body></body></body></body>"""
    tendon = f"""<fixed name="{name} curl" range="-0.1 2.8" frictionloss="0.002" damping="0.001">
   <joint joint="{name} 2" coef="1"/><joint joint="{name} 3" coef="0.8"/></fixed>"""
    equality = f"""<joint name="{name} coupling" joint1="{name} 3" joint2="{name} 2" polycoef="0 0.8 0.1 0 0"/>"""
    actuator = f"""<position joint="{name} side" kp="0.5" kv="0.01" ctrlrange="-0.3 0.3"/>
  <position joint="{name} 1" kp="1" kv="0.02" forcerange="-1 1" ctrlrange="-0.3 1.6"/>
  <general tendon="{name} curl" dyntype="filter" dynprm="0.03" gainprm="0.5" biastype="affine" biasprm="0 -0.5 -0.01"
   ctrlrange="0 2.5"/>"""
    return body, tendon, equality, actuator


_FINGERS = [_finger(*each) for each in (("index", 0.03, 0.045), ("middle", 0.0, 0.05), ("ring", -0.03, 0.045))]

# A palm that looks up with three fingers and a thumb against them, and a ball that lies in it.
HAND = f"""<mujoco model="hand"><compiler angle="radian"/><option {{option}}/>
<default><geom type="capsule" size="0.008" friction="0.8 0.01 0.001" condim="4" contype="1" conaffinity="2"/>
 <joint damping="0.003" armature="0.0002"/></default>
<worldbody><body name="palm" pos="0 0 0.3" euler="0 3.141592653589793 0">
  <joint name="wrist" axis="0 1 0" range="-0.5 0.5" damping="0.1"/>
  <geom type="box" size="0.09 0.05 0.01" mass="0.3"/>{"".join(finger[0] for finger in _FINGERS)}
  <body name="thumb" pos="0.02 0.06 0" euler="0 0 0.6"><joint name="thumb turn" axis="1 0 0" range="-0.8 0.8"/>
   <geom fromto="0 0 0 0.045 0 0" mass="0.03"/>
   <body name="thumb tip" pos="0.045 0 0"><joint name="thumb bend" axis="0 1 0" range="-0.2 1.5" stiffness="0.05"/>
    <geom name="thumb pad" fromto="0 0 0 0.035 0 0" mass="0.02"/></body></body></body>
 <body name="ball" pos="-0.05 0 0.345"><freejoint/>
  <geom type="sphere" size="0.035" mass="0.06" contype="2" conaffinity="1"/></body>
</worldbody>
<tendon>{"".join(finger[1] for finger in _FINGERS)}
 <fixed name="spread" stiffness="0.2" springlength="-0.05 0.05"><joint joint="index side" coef="1"/>
  <joint joint="ring side" coef="-1"/></fixed></tendon>
<equality>{"".join(finger[2] for finger in _FINGERS)}</equality>
<actuator><position joint="wrist" kp="5" kv="0.2" ctrlrange="-0.5 0.5"/>{"".join(finger[3] for finger in _FINGERS)}
 <position joint="thumb turn" kp="0.5" kv="0.01" ctrlrange="-0.8 0.8"/>
 <position joint="thumb bend" kp="0.5" kv="0.01" ctrlrange="-0.2 1.5"/></actuator></mujoco>"""


def _rotor(name: str, x: float, y: float, spin: float) -> tuple[str, str]:
    """Site and actuator of a rotor whose thrust follows the command within some 50 ms."""
    site = f'<site name="{name}" pos="{x} {y} 0.02"/>'
    site += f'<geom type="cylinder" pos="{x} {y} 0.01" size="0.04 0.005" mass="0.03"/>'
    actuator = f"""<general name="{name}" site="{name}" gear="0 0 1 0 0 {spin}" dyntype="filterexact" dynprm="0.05"
   gainprm="5" ctrlrange="0 1" actrange="0 1"/>"""
    return site, actuator


_ROTORS = [
    _rotor(*each)
    for each in (
        ("front", 0.15, 0, 0.02),
        ("left", 0, 0.15, -0.02),
        ("back", -0.15, 0, 0.02),
        ("right", 0, -0.15, -0.02),
    )
]

# Four rotors on a frame that stands on skids, in air; a camera hangs below on a gimbal, and a motor pulls at its site.
DRONE = f"""<mujoco model="drone"><compiler angle="radian"/>
<option {{option}} density="1.2" viscosity="2e-5" wind="1 0 0"/>
<worldbody><geom name="floor" type="plane" size="5 5 0.1"/>
 <body name="frame" pos="0 0 0.099"><freejoint/><geom type="box" size="0.06 0.06 0.02" mass="0.5"/>
  {"".join(rotor[0] for rotor in _ROTORS)}
  <geom type="capsule" fromto="-0.1 0.08 -0.09 0.1 0.08 -0.09" size="0.01" mass="0.03"/>
  <geom type="capsule" fromto="-0.1 -0.08 -0.09 0.1 -0.08 -0.09" size="0.01" mass="0.03"/>
  <body name="gimbal" pos="0.05 0 -0.03"><joint name="gimbal" type="ball" damping="0.001" stiffness="0.01"/>
   <geom type="sphere" size="0.02" mass="0.05"/><site name="camera" pos="0.02 0 0"/></body></body></worldbody>
<actuator>{"".join(rotor[1] for rotor in _ROTORS)}
 <motor name="aim" site="camera" gear="0 0 0.01 0 0.02 0" ctrlrange="-1 1"/></actuator>
<keyframe><key name="hover" qpos="0 0 1 1 0 0 0 1 0 0 0"
  act="0.37 0.37 0.37 0.37" ctrl="0.37 0.37 0.37 0.37 0"/></keyframe></mujoco>"""

# An arm in a plane with a shoulder and an elbow, two muscles at each, and two that cross both.
ARM = """<mujoco model="arm with muscles"><compiler angle="radian"/><option {option}/>
<default><geom contype="0" conaffinity="0" type="capsule" size="0.03"/>
 <muscle ctrlrange="0 1" force="600" range="0.75 1.05" timeconst="0.01 0.04"/></default>
<worldbody><site name="chest" pos="0.04 0.05 1"/><site name="back" pos="-0.04 0.05 1"/>
 <body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" range="-1.5 1" damping="0.2" armature="0.01"/>
  <geom fromto="0 0 0 0 0 -0.3" mass="2"/>
  <site name="upper front" pos="0.04 0 -0.12"/><site name="upper rear" pos="-0.04 0 -0.12"/>
  <site name="elbow front" pos="0.035 0 -0.26"/><site name="elbow rear" pos="-0.035 0 -0.3"/>
  <body name="fore" pos="0 0 -0.3"><joint name="elbow" axis="0 1 0" range="-2.3 -0.1" damping="0.1" armature="0.01"/>
   <geom fromto="0 0 0 0 0 -0.25" mass="1"/>
   <site name="fore front" pos="0.03 0 -0.06"/><site name="fore rear" pos="-0.03 0 -0.03"/></body></body></worldbody>
<tendon>
 <spatial name="deltoid"><site site="chest"/><site site="upper front"/></spatial>
 <spatial name="dorsal"><site site="back"/><site site="upper rear"/></spatial>
 <spatial name="brachialis"><site site="elbow front"/><site site="fore front"/></spatial>
 <spatial name="anconeus"><site site="elbow rear"/><site site="fore rear"/></spatial>
 <spatial name="biceps"><site site="chest"/><site site="upper front"/><site site="fore front"/></spatial>
 <spatial name="triceps"><site site="back"/><site site="elbow rear"/><site site="fore rear"/></spatial></tendon>
<actuator>
 <muscle name="deltoid" tendon="deltoid" lengthrange="0.08 0.17"/>
 <muscle name="dorsal" tendon="dorsal" lengthrange="0.08 0.17"/>
 <muscle name="brachialis" tendon="brachialis" lengthrange="0.05 0.12"/>
 <muscle name="anconeus" tendon="anconeus" lengthrange="0.02 0.07"/>
 <muscle name="biceps" tendon="biceps" lengthrange="0.28 0.42"/>
 <muscle name="triceps" tendon="triceps" lengthrange="0.28 0.4"/></actuator>
<keyframe><key name="home" qpos="-0.3 -0.8" act="0.1 0.1 0.1 0.1 0.1 0.1"
  ctrl="0.1 0.1 0.1 0.1 0.1 0.1"/></keyframe></mujoco>"""


def _side(name: str, sign: int) -> tuple[str, str]:
    """A driver, the parallel link beside it, and the pad that both carry; the pad's heel is held to the link's end."""
    body = f"""<body name="{name} driver" pos="{0.03 * sign} 0 -0.02"><joint name="{name}" axis="0 {-sign} 0"
    range="-0.4 0.6" armature="0.002" damping="0.05"/>
   <geom fromto="0 0 0 {0.03 * sign} 0 -0.06" mass="0.05" class="rod"/>
   <body name="{name} pad" pos="{0.03 * sign} 0 -0.06"><joint name="{name} hinge" axis="0 {-sign} 0" damping="0.001"/>
    <geom type="box" pos="0 0 -0.03" size="0.006 0.012 0.03" mass="0.05"/>
    <site name="{name} heel" pos="{0.02 * sign} 0 0"/></body></body>
  <body name="{name} link" pos="{0.05 * sign} 0 -0.02"><joint name="{name} guide" axis="0 {-sign} 0" damping="0.001"/>
   <geom fromto="0 0 0 {0.03 * sign} 0 -0.06" mass="0.03" class="rod"/>
   <site name="{name} end" pos="{0.03 * sign} 0 -0.06"/></body>"""
    return body, f'<connect name="{name} loop" site1="{name} heel" site2="{name} end" solref="0.005 1"/>'


_SIDES = [_side("right", 1), _side("left", -1)]

# A parallel gripper: pads on parallelograms, one tendon closes both, the sides mirror each other. A cube is in between.
GRIPPER = f"""<mujoco model="parallel gripper"><compiler angle="radian"/><option {{option}}/>
<default><geom friction="1 0.01 0.001" condim="4" contype="1" conaffinity="2" solref="0.01 1"/>
 <default class="rod"><geom type="capsule" size="0.005" contype="0" conaffinity="0"/></default></default>
<worldbody><geom name="floor" type="plane" size="1 1 0.1" contype="2" conaffinity="3"/>
 <body name="hand" pos="0 0 0.16"><joint name="lift" type="slide" axis="0 0 1" range="-0.02 0.3" damping="5"/>
  <geom type="box" size="0.06 0.02 0.02" mass="0.5"/>{"".join(side[0] for side in _SIDES)}</body>
 <body name="cube" pos="0 0 0.03"><freejoint/><geom type="box" size="0.03 0.03 0.03" mass="0.1" contype="2"
   conaffinity="1"/></body></worldbody>
<tendon><fixed name="grip" stiffness="0.1"><joint joint="right" coef="0.5"/>
  <joint joint="left" coef="0.5"/></fixed></tendon>
<equality>{"".join(side[1] for side in _SIDES)}
 <joint name="mirror" joint1="right" joint2="left" polycoef="0 1 0 0 0" solref="0.005 1"/></equality>
<actuator><general name="grip" tendon="grip" gainprm="5" biastype="affine" biasprm="0 -5 -0.2" forcerange="-3 3"
  ctrlrange="-0.4 0.6"/><position name="lift" joint="lift" kp="500" kv="30" ctrlrange="0 0.2"/></actuator></mujoco>"""


def _leg(name: str, y: float) -> tuple[str, str, str]:
    """A leg whose shin a motor at the hip turns by a rod, and whose ankle follows the knee."""
    body = f"""<body name="{name} hip" pos="0 {y} -0.05"><joint name="{name} roll" axis="1 0 0" range="-0.5 0.5"/>
   <geom type="sphere" size="0.04" mass="0.5"/>
   <body name="{name} thigh"><joint name="{name} pitch" axis="0 1 0" range="-1.2 1.2"/>
    <geom fromto="0 0 0 0 0 -0.3" mass="1"/>
    <body name="{name} shin" pos="0 0 -0.3"><joint name="{name} knee" axis="0 1 0" range="-0.2 2"/>
     <geom fromto="0 0 0 0 0 -0.3" mass="0.6"/>
     <body name="{name} foot" pos="0 0 -0.3"><joint name="{name} ankle" axis="0 1 0" stiffness="5"/>
      <geom name="{name} toe" fromto="0.1 0 -0.03 0.1 0.04 -0.03" size="0.02" mass="0.1" contype="1"/>
      <geom name="{name} heel" fromto="-0.06 0 -0.03 -0.06 0.04 -0.03" size="0.02" mass="0.1" contype="1"/>
     </body></body>
    <body name="{name} crank"><joint name="{name} crank" axis="0 1 0" armature="0.02"/>
     <geom fromto="0 0 0 -0.06 0 0" mass="0.1"/>
     <body name="{name} rod" pos="-0.06 0 0"><joint name="{name} rod" axis="0 1 0" armature="0.0005"/>
      <geom fromto="0 0 0 0 0 -0.3" mass="0.1" size="0.008"/></body></body></body></body>"""
    equality = f"""<connect name="{name} knee loop" body1="{name} rod" body2="{name} shin" anchor="0 0 -0.3"/>
  <joint name="{name} level" joint1="{name} ankle" joint2="{name} knee" polycoef="0 -0.5 0 0 0" solref="0.02 1"/>"""
    actuator = f"""<position joint="{name} roll" kp="200" kv="5" ctrlrange="-0.3 0.3"/>
  <position joint="{name} pitch" kp="200" kv="5" ctrlrange="-0.6 0.6"/>
  <position joint="{name} crank" kp="200" kv="5" forcerange="-60 60" ctrlrange="-0.4 0.8"/>"""
    return body, equality, actuator


_LEGS = [_leg("left", 0.1), _leg("right", -0.1)]

# A biped with a knee that a rod turns, in a closed loop, and an ankle that follows the knee.
BIPED = f"""<mujoco model="biped"><compiler angle="radian"/><option {{option}}/>
<default><geom type="capsule" size="0.025" contype="0" conaffinity="0"/>
 <joint damping="0.5" armature="0.005"/></default>
<worldbody><geom name="floor" type="plane" size="5 5 0.1" contype="0" conaffinity="1"/>
 <body name="trunk" pos="0 0 0.698"><freejoint/><geom type="box" size="0.08 0.12 0.1" pos="0 0 0.1" mass="6"/>
  {"".join(leg[0] for leg in _LEGS)}</body></worldbody>
<equality>{"".join(leg[1] for leg in _LEGS)}</equality>
<actuator>{"".join(leg[2] for leg in _LEGS)}</actuator></mujoco>"""

MECHANISMS = {
    "four-bar linkage": FOUR_BAR,
    "hand": HAND,
    "drone": DRONE,
    "arm with muscles": ARM,
    "parallel gripper": GRIPPER,
    "biped": BIPED,
}


def mechanism(name: str, *, option: str = "", integrator: str = "Euler", timestep: float = 0.002) -> str:
    """The XML of one; ``option`` are further attributes of its ``<option>``."""
    return MECHANISMS[name].format(option=f'timestep="{timestep}" integrator="{integrator}" {option}')


def along_a_motion(m: mujoco.MjModel, count: int, seed: int = 0, *, every: int = 5, anew: int = 20):
    """States (q, v, act, controls), each (count, ...), along motions of MuJoCo under random controls.

    A state is taken every so many steps, with a new control. After so many states a motion begins again near the file's
    pose, or near the first keyframe where there is one, in turn.
    """
    rng, data = np.random.default_rng(seed), mujoco.MjData(m)
    low, high = np.where(m.actuator_ctrllimited[:, None], m.actuator_ctrlrange, (-1.0, 1.0)).T
    kept = []
    while len(kept) < count:
        if len(kept) % anew == 0 or any(warning.number for warning in data.warning):
            mujoco.mj_resetData(m, data)
            if m.nkey and len(kept) // anew % 2:
                mujoco.mj_resetDataKeyframe(m, data, 0)
            mujoco.mj_integratePos(m, data.qpos, 0.02 * rng.normal(size=m.nv), 1.0)
            data.qvel[:] = 0.2 * rng.normal(size=m.nv)
        data.ctrl[:] = rng.uniform(low, high)
        for _ in range(every):
            mujoco.mj_step(m, data)
        kept.append((data.qpos.copy(), data.qvel.copy(), data.act.copy(), data.ctrl.copy()))
    return tuple(np.array(column) for column in zip(*kept, strict=True))
