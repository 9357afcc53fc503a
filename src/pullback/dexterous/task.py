"""A manipulation that a policy is to learn, and what it sees of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pullback.core.errors import PullbackError
from pullback.dexterous.consistency import Consistency, Goal, Weights
from pullback.dexterous.objects import Assortment
from pullback.dexterous.policy import ContactPolicy
from pullback.dexterous.scene import Batch, Scene, States
from pullback.spatial import cross_matrix, quat_conj, quat_log, quat_mul, unit_quat_matrix

TURN_COLUMNS = 2  # of the object's rotation matrix that a policy sees
SEEN_SPEED, SEEN_SPIN = 0.3, 5.0  # what a policy sees as one [m/s], [rad/s]


class Wanted(NamedTuple):
    """Where an object shall be: (..., 3) [m], (..., 4)."""

    at: np.ndarray
    quat: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Manipulation:
    """A task in which contacts move an object.

    name, about:  of the task; ``about`` in one line
    scene:        hand, object and table
    frames:       how many, of ``scene.dt`` each
    starts:       (random, samples): random States at rest
    things:       (random, samples): random Objects, which the policy sees; None if the object is that of the file
    wanted:       (start, phase): where the object shall be at phases (frames + 1,) from 0 to 1: Wanted (frames + 1,
                  samples, ...)
    least_grip:   normal force of each tip by phase (frames,), in weights of the object
    let_go:       phase from which on the tips put no force on the object
    facing:       horizontal directions (tips, 3) from the object's middle in which the tips touch it at first; where
                  each is at home if None
    weights:      of the residuals
    friction:     of the cone of proposed forces [1]
    mass_spread:  the mass of samples is that of the file times 1 ± this [1]
    noise:        deviation of what moves joints [m or rad] and the object [m] behind each frame while training
    close, aligned:  how near to its goal the object must come at the end [m], [rad]
    iterations, samples:  of training, and starts per iteration
    ramp:         iterations until the weights of consistency are whole: what has to learn a long way takes more
    tries:        how many first weights are tried at most, until one of them holds as often as it should
    mode, squeeze: how the policy does best where contacts are real: see :func:`try_policy`
    target, unit: it is solved if the object is held at its goal in so many of 100 unseen starts, in MuJoCo
    camera:       for pictures: what has ``eye`` and ``target`` [m]
    """

    name: str
    about: str
    scene: Scene
    frames: int
    starts: Callable[[np.random.Generator, int], States]
    wanted: Callable[[States, np.ndarray], Wanted]
    least_grip: Callable[[np.ndarray], np.ndarray] = np.zeros_like
    let_go: float = 2.0
    facing: Any = None
    weights: Weights = field(default_factory=Weights)
    things: Assortment | None = None
    friction: float = 0.7
    mass_spread: float = 0.0
    noise: tuple[float, float] = (3e-4, 1.5e-4)
    close: float = 0.015
    aligned: float = 0.2
    iterations: int = 80
    samples: int = 16
    ramp: int = 25
    tries: int = 1
    mode: str = "replay"
    squeeze: float = 0.004
    target: float = 0.9
    unit: str = "of the trials"
    camera: Any = None

    RATE = 0.3  # what one unit of the network's output stands for [m/s]; ten times as much [rad/s]

    def __post_init__(self):
        if self.frames < 2:
            raise PullbackError(f"frames of {self.name!r} is {self.frames}: a motion needs two at least")

    @property
    def phases(self) -> np.ndarray:
        return np.linspace(0, 1, self.frames + 1)

    def goal(self, start: States) -> Goal:
        wanted = self.wanted(start, self.phases)
        frames = self.phases[:-1]
        grip = np.asarray(self.least_grip(frames), dtype=float)
        return Goal(at=wanted.at, quat=wanted.quat, least_grip=grip, let_go=(frames >= self.let_go).astype(float))

    def batch(self, random: np.random.Generator, samples: int, *, noisy: bool = True) -> Batch:
        """Random samples."""
        scene, start = self.scene, self.starts(random, samples)
        things = None if self.things is None else self.things(random, samples)
        if things is not None:
            start = start._replace(at=np.concatenate([start.at[:, :2], things.half[:, 2:]], axis=-1))
        mass = 1 + self.mass_spread * random.uniform(-1, 1, samples)
        deviation = np.concatenate([np.full(scene.n, self.noise[0]), np.full(3, self.noise[1]), np.zeros(3)])
        noise = noisy * deviation * random.standard_normal((self.frames, samples, scene.n + 6))
        return Batch(start, mass, noise, things)

    # --- what a policy sees and says ----------------------------------------------------------------------------------

    @property
    def features(self) -> int:
        return self.scene.n + 3 + 3 * TURN_COLUMNS + 6 + 2 + (0 if self.things is None else self.things.SEEN)

    def see(self, x: States, frame: int, batch: Batch) -> np.ndarray:
        """Features (..., features) of about one: joints, place and two axes of the object, the phase, and what the
        object is where that is not always the same.

        Without the phase a policy would time itself by the object, and wait where that does not move.
        """
        joints = (x.q - self.scene.hand.home) / self._joint_scale
        columns = unit_quat_matrix(x.quat)[..., :, :TURN_COLUMNS]
        columns = np.swapaxes(columns, -1, -2).reshape(*x.q.shape[:-1], 3 * TURN_COLUMNS)
        phase = frame / self.frames
        clock = np.broadcast_to([2 * phase - 1, np.cos(2 * np.pi * phase)], (*x.q.shape[:-1], 2))
        moves = x.v / SEEN_SPEED, x.omega / SEEN_SPIN
        things = () if batch.things is None else (batch.things.seen,)
        return np.concatenate([joints, 10 * (x.at - self.scene.home[0]), columns, *moves, clock, *things], axis=-1)

    def see_slopes(self, x: States) -> np.ndarray:
        """By tangents of states (..., features, nx)."""
        n, nx = self.scene.n, self.scene.nx
        F = np.zeros((*x.q.shape[:-1], self.features, nx))
        F[..., :n, :n] = np.diag(1 / self._joint_scale)
        F[..., n : n + 3, n : n + 3] = 10 * np.eye(3)
        turn = unit_quat_matrix(x.quat)
        for k in range(TURN_COLUMNS):
            rows = slice(n + 3 + 3 * k, n + 6 + 3 * k)
            F[..., rows, n + 3 : n + 6] = -turn @ cross_matrix(np.eye(3)[k])
        for scale, columns in ((SEEN_SPEED, slice(n + 6, n + 9)), (SEEN_SPIN, slice(n + 9, n + 12))):
            F[..., columns.start + 3 * TURN_COLUMNS - 3 : columns.stop + 3 * TURN_COLUMNS - 3, columns] = (
                np.eye(3) / scale
            )
        return F

    @property
    def _joint_scale(self) -> np.ndarray:
        return np.where(self.scene.hand.slides, 0.1, 1.0)

    def usual(self) -> np.ndarray:
        """What a policy puts out at first: points where the object's surface faces each tip from the side, and the
        weight of the object on the table. From zero instead, the object would fall through it."""
        scene, hand = self.scene, self.scene.hand
        u = np.zeros(scene.nu)
        pose = hand.pose(hand.home)
        for k, body in enumerate(hand.tip_bodies):
            p, s, _ = scene.columns(k)
            towards = pose.at[body] - self.scene.home[0] if self.facing is None else np.array(self.facing[k])
            towards = towards * (1.0, 1.0, 0.0)
            towards = towards / max(np.linalg.norm(towards), 1e-9)
            u[p] = 0.99 * scene.shape.surface_towards(towards)
        for k, support in enumerate(scene.supports, start=len(hand.tips)):
            p, s, f = scene.columns(k)
            u[p] = scene.shape.surface_towards(np.array([0.0, 0.0, -1.0]))
            if support.name == "table":
                u[s] = self.scene.home[0] * (1.0, 1.0, 0.0)
                u[f] = (0.0, 0.0, scene.weight)
            else:
                u[s] = support.shape.surface_towards(np.array([0.0, 0.0, 1.0]))
        return u

    def fresh_policy(self, seed: int, hidden: int = 64) -> ContactPolicy:
        scene = self.scene
        contact = np.repeat([0.02, 0.01, scene.weight], 3)  # points [m] and forces [N] for one unit
        rates = self.RATE * np.where(scene.hand.slides, 1.0, 10.0)
        scale = np.concatenate([rates, np.tile(contact, scene.contacts)])
        random = np.random.default_rng(seed)
        return ContactPolicy.fresh(self.name, self.features, hidden, self.usual(), scale, random)

    # --- rollouts -----------------------------------------------------------------------------------------------------

    def rollout(self, policy: ContactPolicy, batch: Batch) -> tuple[States, np.ndarray, np.ndarray]:
        """The model's motion: states (frames + 1, samples, ...), outputs (frames, samples, nu), and features."""
        x, states, outputs, seen = batch.start, [batch.start], [], []
        for frame in range(self.frames):
            seen.append(self.see(x, frame, batch))
            outputs.append(policy(seen[-1]))
            x = self.scene.step(x, outputs[-1], batch, frame)
            states.append(x)
        stacked = States(*(np.stack(part) for part in zip(*states, strict=True)))
        return stacked, np.stack(outputs), np.stack(seen)

    def consistency(self, batch: Batch, share: float = 1.0) -> Consistency:
        """Of the objects of a batch."""
        return Consistency(scene=self.scene, shape=self.scene.shape_of(batch), weights=self.weights.ramped(share),
                           friction=self.friction, usual=self.usual())  # fmt: skip

    def errors(self, x: States, start: States) -> tuple[np.ndarray, np.ndarray]:
        """Of the object against its last goal: (...) [m] and (...) [rad]."""
        wanted = self.wanted(start, np.ones(1))
        turn = quat_log(quat_mul(quat_conj(wanted.quat[0]), x.quat))
        return np.linalg.norm(x.at - wanted.at[0], axis=-1), np.linalg.norm(turn, axis=-1)
