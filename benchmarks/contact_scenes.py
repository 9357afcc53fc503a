"""Scenes with contacts, and states that their motion passes through; part of contact.py."""

import copy
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import mujoco
import numpy as np
from common import Result
from trees import shaken

import pullback as pb

MUJOCO = f"MuJoCo {mujoco.__version__}"
MODELS = {"convex": pb.ContactConvex(), "impulse": pb.ContactImpulse(), "compliant": pb.ContactCompliant()}
FLOOR = '<geom name="floor" type="plane" size="9 9 1"/>'


def attempt(title: str, figures: Callable[[str], Iterable[Result]], must: str) -> Iterator[Result]:
    """The figures of one case; if the System refuses it, a figure that was not measured, and why."""
    try:
        yield from figures(title)
    except pb.PullbackError as error:
        yield Result(title, None, "", must, "", f"error: {error}")


def scene(world: str, *, timestep: float = 0.002, gravity=(0, 0, -9.81), option: str = "", rest: str = "") -> str:
    return f"""<mujoco><option timestep="{timestep}" gravity="{" ".join(f"{g:.17g}" for g in gravity)}" {option}/>
  <worldbody>{world}</worldbody>{rest}</mujoco>"""


def free_body(name: str, geom: str, pos="0 0 0", more: str = "") -> str:
    return f'<body name="{name}" pos="{pos}" {more}><freejoint/><geom name="{name}" {geom}/></body>'


def plate(side: int) -> str:
    """One body of side × side small balls, 10 kg, that lies on the floor with all of them."""
    geom = f'<geom size="0.01" pos="{{:.3f}} {{:.3f}} 0" mass="{10 / side**2:.17g}"/>'
    balls = "".join(geom.format(0.03 * i, 0.03 * j) for i in range(side) for j in range(side))
    return scene(f'<geom type="plane" size="9 9 1"/><body pos="0 0 0.0099"><freejoint/>{balls}</body>')


# --- robots -----------------------------------------------------------------------------------------------------------


def gymnasium_model(name: str) -> pb.Model | None:
    """None where Gymnasium is not installed."""
    try:
        import gymnasium
    except ImportError:
        return None
    return pb.load(Path(gymnasium.__file__).parent / "envs/mujoco/assets" / f"{name}.xml")


def quadruped(*, servos: bool = False, feet_only: bool = False, limits: bool = True, robots: int = 1) -> str:
    """The sample quadruped: with position servos for motors, with no other shapes than its feet, without limits.

    Several stand in one scene side by side; they touch the floor, not each other.
    """
    root = ET.fromstring(pb.robots.quadruped())
    home = root.find("keyframe/key").get("qpos").split()
    if feet_only:
        for geom in root.iter("geom"):
            if geom.get("type") not in ("sphere", "plane"):
                geom.set("contype", "0")
                geom.set("conaffinity", "0")
    if not limits:
        for joint in root.iter("joint"):
            joint.attrib.pop("range", None)
    if servos:
        for motor in root.findall("actuator/motor"):
            motor.tag = "position"
            motor.set("kp", "600")
            motor.set("kv", "10")
            low, high = motor.attrib.pop("ctrlrange").split()
            motor.set("forcerange", f"{low} {high}")
            motor.attrib.pop("ctrllimited", None)
    if robots > 1:
        _repeat(root, robots, home)
    return ET.tostring(root, encoding="unicode")


def _repeat(root: ET.Element, robots: int, home: list[str]) -> None:
    """More copies of the one robot in a scene, two metres apart."""
    world, actuators = root.find("worldbody"), root.find("actuator")
    trunk, motors = world.find("body"), list(actuators)
    poses = list(home)
    for number in range(1, robots):
        another = copy.deepcopy(trunk)
        for element in another.iter():
            if "name" in element.attrib:
                element.set("name", f"{element.get('name')} {number}")
        x, y, z = (float(part) for part in another.get("pos").split())
        another.set("pos", f"{x!r} {y + 2 * number!r} {z!r}")
        world.append(another)
        for motor in motors:
            twin = copy.deepcopy(motor)
            for key in ("name", "joint"):
                if key in twin.attrib:
                    twin.set(key, f"{twin.get(key)} {number}")
            actuators.append(twin)
        poses += [home[0], repr(float(home[1]) + 2 * number), *home[2:]]
    root.find("keyframe/key").set("qpos", " ".join(poses))
    for key in ("ctrl", "qvel"):
        root.find("keyframe/key").attrib.pop(key, None)


def ant() -> str:
    """The ant of Gymnasium, from its published structure, for machines where Gymnasium is not installed."""
    legs, motors = "", ""
    for i, (x, y, ankle) in enumerate(((1, 1, 1), (-1, 1, -1), (-1, -1, -1), (1, -1, 1)), start=1):
        out, reach = f"{0.2 * x:g} {0.2 * y:g} 0", f"{0.4 * x:g} {0.4 * y:g} 0"
        axis = "-1 1 0" if x * y > 0 else "1 1 0"
        limits = "30 70" if ankle > 0 else "-70 -30"
        legs += f"""<body><geom type="capsule" fromto="0 0 0 {out}" size="0.08"/>
          <body pos="{out}"><joint name="hip_{i}" axis="0 0 1" range="-30 30"/>
            <geom type="capsule" fromto="0 0 0 {out}" size="0.08"/>
            <body pos="{out}"><joint name="ankle_{i}" axis="{axis}" range="{limits}"/>
              <geom type="capsule" fromto="0 0 0 {reach}" size="0.08"/></body></body></body>"""
    for i in (4, 1, 2, 3):
        motors += "".join(f'<motor joint="{part}_{i}" ctrlrange="-1 1" gear="150"/>' for part in ("hip", "ankle"))
    return f"""<mujoco model="ant"><option integrator="RK4" timestep="0.01"/>
      <default><joint armature="1" damping="1"/>
        <geom conaffinity="0" condim="3" density="5" friction="1 0.5 0.5" margin="0.01"/></default>
      <worldbody><geom type="plane" size="40 40 40" conaffinity="1"/>
        <body pos="0 0 0.75"><joint type="free" armature="0" damping="0" margin="0.01"/><geom size="0.25"/>{legs}</body>
      </worldbody><actuator>{motors}</actuator>
      <keyframe><key name="home" qpos="0 0 0.55 1 0 0 0 0 1 0 -1 0 -1 0 1"/></keyframe></mujoco>"""


def stance(model: pb.Model) -> np.ndarray:
    """(nu,) targets of servos, or zero torques: the joint angles at home."""
    return model.home.q[model.mujoco.jnt_qposadr[model.mujoco.actuator_trnid[:, 0]]]


# --- MuJoCo as the oracle -----------------------------------------------------------------------------------------


def contact_states(m: mujoco.MjModel, rng: np.random.Generator, count: int, *, least: int = 2, kick: float = 0.5):
    """q (count, nq), v (count, nv), controls (count, nu) of a motion under random controls, and contacts of each.

    Strong and weak controls, started again every two seconds. Only states with at least so many contacts that push are
    kept.
    """
    found, contacts = [], []
    every = max(1, round(0.02 / m.opt.timestep))
    for data in shaken(m, rng, 500 * count, every=every, restart=100, kick=kick, weaker=True):
        pushing = sum(bool(np.any(contact_force(m, data, i))) for i in range(data.ncon))
        if pushing >= least:
            found.append((data.qpos.copy(), data.qvel.copy(), data.ctrl.copy()))
            contacts.append(pushing)
        if len(found) == count:
            return (*(np.array(column) for column in zip(*found, strict=True)), np.array(contacts))
    raise RuntimeError(f"only {len(found)} of {count} states with contacts were found")


def contact_force(m: mujoco.MjModel, data: mujoco.MjData, contact: int) -> np.ndarray:
    force = np.zeros(6)
    mujoco.mj_contactForce(m, data, contact, force)
    return force
