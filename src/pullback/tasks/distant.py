"""What tasks share in which something that touches nothing at first moves objects to their goals."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
from mujoco import mjtDisableBit as Disable

from pullback.contact import ContactConvex, ContactImpulse
from pullback.core.arrays import to_numpy
from pullback.core.checks import unknown
from pullback.core.errors import PullbackError
from pullback.core.system import State
from pullback.dynamics import Articulated
from pullback.model import Model, load
from pullback.model.robots.scene import Stage, Vector, add, capsule, stage
from pullback.plan import Receding
from pullback.rollout import Run
from pullback.tasks.loss import Loss
from pullback.tasks.task import Task

CONTACTS = ("longrange", "convex")  # that tasks may have
FINER = 10  # timesteps of MuJoCo's contact for one of long range
MOST = 500  # contacts that its workspace holds: ten cubes in a heap touch more often than shapes suggest
SLOWER = 3  # by which the last part of a search is, at which the loss is close to its minimum
FORCES = [getattr(Disable, f"mjDSBL_{kind}") for kind in ("GRAVITY", "SPRING", "DAMPER", "ACTUATION", "LIMIT")]

Range = tuple[float, float]

AXES = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}
UPWARDS = (1000, 60)  # stiffness [N/m] and damping [N·s/m] of a rod's springs, so that it does not climb
SOLID = {"contype": 1, "conaffinity": 1}  # touches the floor and its like
THICK = 0.05  # radius of a rod [m]
COARSE = 0.25  # substep_share of the contact: objects are pushed, and time counts [1]
SLIPPERY, ROUGH = (0.2, 0, 0), (0.4, 0, 0)  # friction of a rod, of a cube [1]


def at_goals(
    entries: Sequence[Sequence[int]], goals: np.ndarray, near: float, *, over: int = 1
) -> tuple[Callable[[Run], Loss], Callable[[Run], np.ndarray]]:
    """The loss Σ max(0, |x - goal|² - near²) [m²] of objects, and the largest distance from a goal at the end [m].

    entries:  of q, the coordinates x of each object (objects, n)
    goals:    (objects, n) [m]
    near:     the distance at which an object is at its goal [m]
    over:     the last states of a run, over which the mean of the loss is taken
    """
    entries = np.asarray(entries)

    def loss(run: Run) -> Loss:
        first = max(len(run.q) - over, 1)
        off = run.q[first:][..., entries] - goals  # (states, worlds, objects, n)
        beyond = (off**2).sum(axis=-1) - near**2
        q_bar = np.zeros_like(run.q)
        q_bar[first:][..., entries] = np.where(beyond[..., None] > 0, 2 * off / len(off), 0.0)
        return Loss(np.maximum(beyond, 0.0).sum(axis=2).mean(axis=0), {"q_bar": q_bar})

    def metric(run: Run) -> np.ndarray:
        return np.linalg.norm(run.q[-1][:, entries] - goals, axis=2).max(axis=1)

    return loss, metric


def floor(about: Stage) -> tuple[ET.Element, ET.Element, ET.Element]:
    """A stage, for steps of 20 ms and more. With ContactConvex friction is the same in all directions, and hard."""
    root, world, actuators = stage(about)
    for name, value in {"integrator": "implicitfast", "cone": "elliptic", "impratio": "10"}.items():
        root.find("option").set(name, value)  # type: ignore[union-attr]
    return root, world, actuators


def add_rod(
    world: ET.Element, actuators: ET.Element, pos: Vector, corners: Sequence[Vector], ranges: Mapping[str, Range],
    *, stiffness: float, damping: float,
) -> None:  # fmt: skip
    """A rod of 1 kg, whose joints ("x" a slide, "rx" a hinge, ...) are pulled to their controls by damped springs.

    corners:    from one end to the other [m], two where it is straight
    ranges:     of the controls, by joint, [m] or [rad] from where the rod is
    stiffness:  of its springs along x and y [N/m]; ``damping`` likewise [N·s/m]
    """
    rod = add(world, "body", name="rod", pos=pos, gravcomp=1)
    for name, limits in ranges.items():
        kind = "hinge" if name.startswith("r") else "slide"
        spring = UPWARDS if name == "z" else (stiffness, damping) if kind == "slide" else (4, 2)
        add(rod, "joint", name=name, type=kind, axis=AXES[name[-1]])
        add(actuators, "position", name=name, joint=name, kp=spring[0], kv=spring[1], ctrlrange=limits)
    for start, end in pairwise(corners):
        mass = 1 / (len(corners) - 1)
        capsule(rod, start, end, THICK, "dark", mass=mass, friction=SLIPPERY, **SOLID)


def add_cube(world: ET.Element, name: str, half: float, mass: float, gap: float, material: str) -> None:
    """A free cube with sides of 2 ``half`` [m] that stands on the floor."""
    cube = add(world, "body", name=name, pos=(1, 0, half + gap))
    add(cube, "freejoint")
    add(cube, "geom", name=name, type="box", size=(half, half, half), mass=mass, friction=ROUGH, material=material,
        **SOLID)  # fmt: skip


def scattered(
    random: np.random.Generator, count: int, low: Sequence[float], high: Sequence[float], apart: float
) -> np.ndarray:
    """Random places (count, 2) in a rectangle, no two of them nearer than ``apart`` [m]."""
    places = np.zeros((0, 2))
    while len(places) < count:
        place = random.uniform(low, high)
        if np.all(np.linalg.norm(places - place, axis=1) > apart):
            places = np.concatenate([places, [place]])
    return places


def standing(place: np.ndarray, yaw: float, half: float, gap: float) -> np.ndarray:
    """Coordinates (7,) of a free cube that stands at a place (2,) [m], turned by ``yaw`` [rad]."""
    return np.array([*place, half + gap, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)])


class Apart:
    """Moves bodies apart that touch or overlap, until their surfaces are at least half a gap from each other.

    ContactLongRange begins where bodies are apart, and in MuJoCo's contact they rest slightly in each other. Spheres,
    capsules, cylinders and boxes are grown by the gap, and :class:`ContactImpulse` undoes the depth without gravity,
    springs and friction. Where nothing is that near, nothing moves, and velocities stay.

    model:  of the bodies
    gap:    of the contact [m]
    """

    STEPS = 20  # at most: depths are undone to first order
    LEFT = 0.5  # share of the gap that may be missing in the end: the potential does the rest

    def __init__(self, model: Model, gap: float):
        m = copy(model.mujoco)
        for flag in FORCES:
            m.opt.disableflags |= int(flag)
        m.geom_condim[:] = 1
        self.gap = gap
        self.system = Articulated(load(m, timestep=1.0), ContactImpulse(erp=1.0, slop=0.0, max_contacts=MOST))
        size = np.asarray(self.system.params["geom_size"])
        self.grown = {"geom_size": np.where(size > 0, size + gap, 0.0)}

    def __call__(self, state: State) -> State:
        q = to_numpy(state.q)
        for _ in range(self.STEPS):
            still = self.system.state(q)
            dist = self.system.contacts(still, params=self.grown)[0].dist
            if not np.any(dist < -self.LEFT * self.gap):
                return state._replace(q=q)
            q = to_numpy(self.system.step(still, params=self.grown).q)
        raise PullbackError(f"bodies overlap, and {self.STEPS} steps of ContactImpulse do not part them")


def with_contact(of: Task, contact: str) -> Task:
    """A task of ContactLongRange as it is, or with contact="convex" in MuJoCo's contact and steps FINER times shorter.

    Controls that are planned window by window are planned with long range, and done in MuJoCo's contact: each window
    begins where that has led to, bodies moved apart. What else is sought is sought with long range first, and from
    there with the exact gradient of MuJoCo's steps.
    """
    if contact not in CONTACTS:
        raise PullbackError(unknown("contact", contact, CONTACTS))
    if contact == "longrange":
        return of
    model, gap = of.system.model, of.system.contact.gap
    fine = load(model.mujoco, timestep=model.timestep / FINER)
    system = Articulated(fine, ContactConvex(max_contacts=MOST), device=of.system.device)
    if isinstance(of.method, Receding):
        find = replace(of.find, steps=FINER * of.find.steps, hold=FINER * of.find.hold)
        changes = {"find": find, "method": replace(of.method, ahead=of, seen=Apart(model, gap))}
    else:
        find = replace(of.find, steps=FINER * of.find.steps, timestep=fine.timestep)
        method = replace(of.method, rate=of.method.rate / SLOWER)
        changes = {"find": find, "method": method, "easier": (of.but(until_solved=True),)}
    name, start = f"{of.name}-{contact}", system.state(to_numpy(of.start.q), to_numpy(of.start.v))
    return of.but(name=name, system=system, start=start, checkpoint_every=FINER, **changes)
