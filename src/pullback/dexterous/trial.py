"""Trying a policy where contacts are real: position servos follow it, and nothing knows what it proposed.

Three ways to execute a policy:

    measured    it sees the measured states, of hand and object
    replay      it sees its own model's states, which know of the simulator what was measured at the start
    corrected   the same, and in each frame the model's object is moved by a share of the way to the measured one

The servos' targets are the joint positions of the model, or the measured ones plus the proposed rates. A **squeeze**
moves the targets of tips that propose a force inwards along the normal: a proposed force of 0.1 N moves a servo of
200 N/m by half a millimetre, less than the distance that is left between the proposed points, so that without it
nothing need touch.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Protocol

import mujoco
import numpy as np

from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.dexterous.hand import FIRM
from pullback.dexterous.objects import Objects
from pullback.dexterous.policy import ContactPolicy
from pullback.dexterous.scene import Scene, States
from pullback.dexterous.shapes import Shape
from pullback.dexterous.task import Manipulation
from pullback.dynamics import Articulated
from pullback.spatial import quat_conj, quat_exp, quat_log, quat_mul, unit_quat_matrix

MODES = ("measured", "replay", "corrected")
CORRECTION = 0.2  # share of the way to the measured object, per frame
WHOLE_SQUEEZE = 0.3  # of the object's weight: a proposed force from which on the whole squeeze acts
TOGETHER = 0.005  # how far apart the points of a contact may be for a grip to be held [m]
PUSH_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The results of a number of trials.

    held:      whether the object was near enough to its goal after the hold (starts,)
    distance, angle:  from the goal then (starts,) [m], [rad]
    q:         the simulator's coordinates, frame by frame (frames, starts, nq)
    u:         what the policy put out (frames, starts, nu)
    at:        where the object was at the start (starts, 3) [m]
    dt:        between two rows [s]
    things:    the object of each start, where it is not that of the file
    """

    held: np.ndarray
    distance: np.ndarray
    angle: np.ndarray
    q: np.ndarray
    u: np.ndarray
    at: np.ndarray
    dt: float
    things: Objects | None = None

    @property
    def rate(self) -> float:
        return float(np.mean(self.held))


class Plant(Protocol):
    """What simulates: many starts side by side."""

    def begin(self, q: np.ndarray, at: np.ndarray) -> None:
        """At rest at coordinates (starts, nq), the object's place (starts, 3) being that of its hinge if it has one."""

    def advance(self, targets: np.ndarray, push: np.ndarray) -> None:
        """By one timestep each for targets (timesteps, starts, nu), with a force on the object (starts, 3) [N]."""

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates (starts, nq) and velocities (starts, nv)."""


class MuJoCo:
    """MuJoCo's own mj_step."""

    def __init__(self, scene: Scene, *, mass: float = 1.0, friction: float = 1.0):
        self.model, self.body, self.free = copy(scene.model.mujoco), scene.model.mujoco.nbody - 1, scene.free
        self.model.body_mass[self.body] *= mass
        self.model.body_inertia[self.body] *= mass
        self.model.geom_friction *= friction
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
        self.models: list[mujoco.MjModel] = []
        self.data: list[mujoco.MjData] = []

    def begin(self, q, at):
        self.models = [self.model if self.free else copy(self.model) for _ in q]
        self.data = [mujoco.MjData(self.model) for _ in q]
        for model, data, row, place in zip(self.models, self.data, q, at, strict=True):
            data.qpos[:] = row
            if not self.free:
                model.body_pos[self.body] = place

    def advance(self, targets, push):
        for k, (model, data) in enumerate(zip(self.models, self.data, strict=True)):
            data.xfrc_applied[self.body, :3] = push[k]
            for row in targets[:, k]:
                data.ctrl[:] = row
                mujoco.mj_step(model, data)

    def read(self):
        return np.array([d.qpos for d in self.data]), np.array([d.qvel for d in self.data])


class Simulated:
    """Pullback with the contacts of the file, MuJoCo's convex ones.

    With another mass constraints keep the stiffness that the file's gives them, while MuJoCo is made as if its file had
    the other.
    """

    def __init__(self, scene: Scene, *, mass: float = 1.0, friction: float = 1.0, contact="model"):
        self.scene, self.contact, self.mass, self.friction = scene, contact, mass, friction

    def begin(self, q, at):
        self.system = Articulated(self.scene.model, self.contact, worlds=len(q))
        body = self.scene.model.mujoco.nbody - 1
        for name, factor, rows in (
            ("mass", self.mass, body),
            ("inertia", self.mass, body),
            ("friction", self.friction, ...),
        ):
            if factor != 1.0:
                values = np.array(self.system.params[name])
                values[rows] *= factor
                self.system.params[name] = values
        if not self.scene.free:
            places = np.tile(np.asarray(self.system.params["body_pos"]), (len(q), 1, 1))
            places[:, body] = at
            self.system.params["body_pos"] = places
        self.state = self.system.state(q)

    def advance(self, targets, push):
        wrench = np.zeros((*targets.shape[:2], self.scene.model.mujoco.nbody, 6))
        wrench[:, :, -1, 3:] = push
        states = self.system.steps(self.state, np.ascontiguousarray(targets), inputs={"wrench": wrench})
        self.state = type(self.state)(*(np.asarray(part)[-1] for part in states))

    def read(self):
        return np.asarray(self.state.q), np.asarray(self.state.v)


class Each:
    """A plant for every start, where each has an object of its own."""

    def __init__(self, plants: list[Plant]):
        self.plants = plants

    def begin(self, q, at):
        for k, plant in enumerate(self.plants):
            plant.begin(q[k : k + 1], at[k : k + 1])

    def advance(self, targets, push):
        for k, plant in enumerate(self.plants):
            plant.advance(targets[:, k : k + 1], push[k : k + 1])

    def read(self):
        q, v = zip(*(plant.read() for plant in self.plants), strict=True)
        return np.concatenate(q), np.concatenate(v)


PLANTS = {"mujoco": MuJoCo, "pullback": Simulated}


def try_policy(
    task: Manipulation,
    policy: ContactPolicy,
    *,
    mode: str = "replay",
    squeeze: float = 0.008,
    starts: int = 100,
    seed: int = 1000,
    plant: str | Plant = "mujoco",
    mass: float = 1.0,
    friction: float = 1.0,
    push: float = 0.0,
    hold: float = 0.6,
    close: float = 0.03,
    aligned: float = 0.3,
) -> Trial:
    """Tests a policy by position servos from random initial states, which hold the last targets.

    mode:            one of MODES
    squeeze:         how far targets of tips that propose a force are moved inwards [m]
    plant:           "mujoco", "pullback", or your own
    mass, friction:  factors of those of the file
    push:            speed that a push in a random horizontal direction would give the object, half-way [m/s]
    hold:            how long the last targets are held [s]
    close, aligned:  how near to its goal the object must be after that [m], [rad]
    """
    if mode not in MODES:
        raise PullbackError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    check_number(squeeze, "squeeze", least=0.0)
    scene, m = task.scene, task.scene.model.mujoco
    if m.nu != scene.n or np.any(m.actuator_trnid[:, 0] != np.arange(scene.n)):
        raise PullbackError(
            "a policy is tried with one position servo per joint of the hand, in the order of the joints"
        )
    random = np.random.default_rng(seed)
    batch = task.batch(random, starts, noisy=False)
    batch = batch._replace(mass=np.ones(starts))  # what the policy believes
    if isinstance(plant, str):
        if plant not in PLANTS:
            raise PullbackError(f"plant is one of {', '.join(PLANTS)}, not {plant!r}")
        make = PLANTS[plant]
        if batch.things is None:
            plant = make(scene, mass=mass, friction=friction)
        else:
            scenes = (scene.with_thing(batch.things, k) for k in range(starts))
            plant = Each([make(one, mass=mass, friction=friction) for one in scenes])
    angle = random.uniform(0, 2 * np.pi, starts)
    force = push * scene.mass * mass / PUSH_SECONDS * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    pushed = range(task.frames // 2, task.frames // 2 + max(1, round(PUSH_SECONDS / scene.dt)))
    plant.begin(coordinates(scene, batch.start), batch.start.at)
    substeps = max(1, round(scene.dt / m.opt.timestep))
    ramp = np.arange(1, substeps + 1)[:, None, None] / substeps
    x, target, inward = batch.start, batch.start.q, np.zeros_like(batch.start.q)
    taken = np.zeros((starts, len(scene.hand.tips)))
    rows, outputs = [plant.read()[0]], []
    for frame in range(task.frames):
        seen = measured(scene, *plant.read(), batch.start.at) if mode == "measured" else x
        u = policy(task.see(seen, frame, batch))
        moved = scene.step(seen, u, batch, frame)
        goal = target - inward + scene.dt * scene.split(u).rates if mode == "measured" else moved.q
        taken, inward = squeezed(task, seen, u, squeeze, taken, scene.shape_of(batch))
        goal = goal + inward
        plant.advance(target + ramp * (goal - target), force if frame in pushed else 0 * force)
        target, x = goal, moved
        if mode == "corrected":
            x = _corrected(x, measured(scene, *plant.read(), batch.start.at))
        rows.append(plant.read()[0])
        outputs.append(u)
    for _ in range(round(hold / scene.dt)):
        plant.advance(np.broadcast_to(target, (substeps, *target.shape)), 0 * force)
        rows.append(plant.read()[0])
    end = measured(scene, *plant.read(), batch.start.at)
    distance, turned = task.errors(end, batch.start)
    held = (distance <= close) & (turned <= aligned)
    return Trial(held=held, distance=distance, angle=turned, q=np.stack(rows), u=np.stack(outputs),
                 at=batch.start.at, dt=scene.dt, things=batch.things)  # fmt: skip


def coordinates(scene: Scene, x: States) -> np.ndarray:
    """Of the whole file (..., nq)."""
    if scene.free:
        still = np.broadcast_to(scene.model.home.q[scene.n : scene.n + scene.between], (*x.q.shape[:-1], scene.between))
        return np.concatenate([x.q, still, x.at, x.quat], axis=-1)
    angle = quat_log(x.quat) @ scene.axis
    return np.concatenate([x.q, angle[..., None]], axis=-1)


def measured(scene: Scene, q: np.ndarray, v: np.ndarray, at: np.ndarray) -> States:
    """States of a scene from coordinates (..., nq) and velocities (..., nv) of the whole file.

    at:  (..., 3) where the hinge of an object is that has one [m]
    """
    n = scene.n
    if scene.free:
        at, quat, v, omega = q[..., -7:-4], q[..., -4:], v[..., -6:-3], v[..., -3:]
        return States(q[..., :n], at, quat, v, omega)
    turn, spin = q[..., n:] * scene.axis, v[..., n:] * scene.axis
    return States(q[..., :n], np.broadcast_to(at, spin.shape), quat_exp(turn), np.zeros_like(spin), spin)


def squeezed(
    task: Manipulation, x: States, u: np.ndarray, squeeze: float, taken: np.ndarray, shape: Shape
) -> tuple[np.ndarray, np.ndarray]:
    """Share of the squeeze of each tip (..., tips), and how far the joints' targets move inwards (..., n).

    taken:  share in the frame before: a grip is held as long as the two points of the contact stay together, also
            where the object moves by itself and no force is proposed
    shape:  of the object
    """
    scene, hand = task.scene, task.scene.hand
    given, tips = scene.split(u), len(hand.tips)
    normal = np.moveaxis(shape.normal(np.moveaxis(given.p[..., :tips, :], -2, 0))[0], 0, -2)
    pose, turn = hand.pose(x.q), np.swapaxes(unit_quat_matrix(x.quat), -1, -2)
    points = hand.points(pose, hand.tip_bodies, given.s[..., :tips, :])
    gap = np.linalg.norm(points - x.at[..., None, :] - given.p[..., :tips, :] @ turn, axis=-1)
    strength = np.linalg.norm(given.f[..., :tips, :], axis=-1)
    share = np.minimum(1.0, strength / (WHOLE_SQUEEZE * scene.weight))
    share = np.maximum(share, taken * (gap < TOGETHER))
    way = -squeeze * share[..., None] * normal @ turn
    J, _ = hand.jacobians(pose, hand.tip_bodies, points)
    J = J.reshape(*J.shape[:-3], 3 * tips, hand.n)
    way = way.reshape(*way.shape[:-2], 3 * tips, 1)
    Jt = np.swapaxes(J, -1, -2)
    return share, (Jt @ np.linalg.solve(J @ Jt + FIRM * np.eye(3 * tips), way))[..., 0]


def _corrected(x: States, seen: States) -> States:
    turn = quat_log(quat_mul(quat_conj(x.quat), seen.quat))
    at = x.at + CORRECTION * (seen.at - x.at)
    return x._replace(at=at, quat=quat_mul(x.quat, quat_exp(CORRECTION * turn)))
