"""Small scenes with contacts, limits and friction loss, states that their motion passes through, and what comes next.

States are taken from MuJoCo's own motion under random controls and kicks, so that bodies lie, slide, roll and lift off
as they do in use; MuJoCo's next state is found with a solver that goes on until rounding stops it.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium
import mujoco
import numpy as np
from oracles import precise

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"

# A ball, two capsules, a box, a cylinder and an ellipsoid above a floor. Bits: the floor meets all, balls and capsules
# meet each other, balls meet boxes and cylinders.
OBJECTS = """
  <geom name="floor" type="plane" size="5 5 1" pos="0 0 0.02" euler="3 -2 0" contype="1" conaffinity="0" {floor}/>
  <body name="ball" pos="0 0 0.15"><freejoint/><geom name="ball" size="0.1" {body} contype="2" conaffinity="3"/></body>
  <body name="rod" pos="0.05 0.1 0.4" euler="80 20 0"><freejoint/>
    <geom name="rod" type="capsule" size="0.05 0.15" {body} contype="4" conaffinity="7"/></body>
  <body name="bar" pos="-0.1 0 0.6" euler="10 70 0"><freejoint/>
    <geom name="bar" type="capsule" size="0.06 0.1" pos="0.02 0.01 0" {body} contype="4" conaffinity="7"/></body>
  <body name="box" pos="0.25 0 0.3"><freejoint/>
    <geom name="box" type="box" size="0.1 0.08 0.06" {body} contype="0" conaffinity="3"/></body>
  <body name="can" pos="-0.3 0 0.3" euler="30 0 0"><freejoint/>
    <geom name="can" type="cylinder" size="0.08 0.07" {body} contype="0" conaffinity="3"/></body>
  <body name="egg" pos="0 -0.4 0.3"><freejoint/>
    <geom name="egg" type="ellipsoid" size="0.1 0.07 0.05" {body} contype="0" conaffinity="1"/></body>"""

# Two arms of capsules that reach for the same place, one hand a ball joint, and a ball lying between them.
ARMS = """
  <geom type="plane" size="5 5 1"/>
  <body pos="-0.3 0 0.3"><joint axis="0 1 0" damping="0.3"/><joint axis="0 0 1" damping="0.1"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.05" friction="0.8"/>
    <body pos="0.3 0 0"><joint type="ball" damping="0.05"/><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.04"/>
    </body></body>
  <body pos="0.35 0.05 0.25"><joint type="slide" axis="0 0 1" damping="0.5"/><joint axis="0 1 0.2" damping="0.2"/>
    <geom type="capsule" fromto="0 0 0 -0.25 0 0" size="0.05" friction="0.7"/>
    <body pos="-0.25 0 0"><joint axis="0 1 0"/><joint axis="1 0 0"/>
      <geom type="capsule" fromto="0 0 0 -0.2 0 0" size="0.04"/></body></body>
  <body pos="0 0 0.1"><freejoint/><geom size="0.1" friction="0.6"/></body>"""

BOXES = """
  <geom type="plane" size="5 5 1" friction="0.9"/>
  <body pos="0 0 0.1" euler="1 2 3"><freejoint/><geom type="box" size="0.1 0.12 0.1"/></body>
  <body pos="0.03 0.02 0.31" euler="2 -1 30"><freejoint/><geom type="box" size="0.1 0.07 0.1"/></body>
  <body pos="0 0.02 0.5" euler="2 -1 60"><freejoint/><geom type="box" size="0.05 0.07 0.08" friction="0.4"/></body>
  <body pos="0.25 0.02 0.2" euler="80 -10 60"><freejoint/><geom type="capsule" size="0.05 0.17"/></body>"""

# Joints at their limits, of every kind that has any; nothing touches.
LIMITS = """
  <body><joint name="hip" axis="0 1 0" range="-20 30" {joint}/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
    <body pos="0.3 0 0"><joint name="reach" type="slide" axis="1 0 0" range="-0.05 0.1" {joint}/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03"/>
      <body pos="0.2 0 0"><joint name="wrist" type="ball" range="0 40" {joint}/>
        <geom type="capsule" fromto="0 0 0 0.1 0.1 0" size="0.03"/>
        <body pos="0.1 0.1 0"><joint name="finger" axis="0 0 1" range="-15 15" ref="5" {joint}/>
          <geom type="capsule" fromto="0 0 0 0.1 0 0.1" size="0.02"/></body></body></body></body>"""


def scene(world: str, *, option: str = "", flag: str = "", default: str = "", rest: str = "", timestep=0.004) -> str:
    return f"""<mujoco><option timestep="{timestep}" {option}><flag {flag}/></option><default>{default}</default>
  <worldbody>{world}</worldbody>{rest}</mujoco>"""


def objects(*, body: str = "", floor: str = "", **rest) -> str:
    return scene(OBJECTS.format(body=body, floor=floor), **rest)


def limits(joint: str = "", **rest) -> str:
    return scene(LIMITS.format(joint=joint), default='<geom contype="0" conaffinity="0"/>', **rest)


def gymnasium_robot(name: str) -> Path:
    return ASSETS / f"{name}.xml"


# MuJoCo


def next_states(m: mujoco.MjModel, q: np.ndarray, v: np.ndarray, controls: np.ndarray):
    """MuJoCo's next q and v of each world, and how many constraint rows of each were active."""
    m = precise(m)
    data = mujoco.MjData(m)
    qs, vs, active = np.empty_like(q), np.empty_like(v), []
    for world in range(len(q)):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = q[world], v[world], controls[world]
        mujoco.mj_forward(m, data)
        active.append(int(np.count_nonzero(data.efc_force)))
        mujoco.mj_step(m, data)
        qs[world], vs[world] = data.qpos, data.qvel
    return qs, vs, np.array(active)


def worst_world(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Of all worlds, the largest difference over the largest entry."""
    assert ours.shape == theirs.shape
    return float(np.max(np.abs(ours - theirs).max(axis=1) / np.abs(theirs).max(axis=1)))
