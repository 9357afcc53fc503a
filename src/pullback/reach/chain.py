"""The joints between a base and a tip: forward and inverse kinematics for many poses at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS, check_device, check_precision, to_device, to_numpy
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.core.launch import Crew, cores_to_use, launch
from pullback.dynamics.tree import zeros_struct
from pullback.kernels import specialise
from pullback.model import BALL, FREE, HINGE, SLIDE, Model
from pullback.spatial import quat_conj, quat_matrix, quat_mul

NO_TURN = np.array([1.0, 0.0, 0.0, 0.0])
MOST_SLOTS = 1 << 16  # poses worked on at a time on CUDA


@dataclass(frozen=True)
class Transform:
    """A frame in another."""

    pos: np.ndarray  # (3,) its origin [m]
    quat: np.ndarray  # (4,) its orientation

    def __matmul__(self, other: Transform) -> Transform:
        return Transform(self.pos + quat_matrix(self.quat) @ other.pos, quat_mul(self.quat, other.quat))

    @property
    def inverse(self) -> Transform:
        back = quat_conj(self.quat)
        return Transform(-(quat_matrix(back) @ self.pos), back)

    @staticmethod
    def shift(pos: np.ndarray) -> Transform:
        return Transform(np.asarray(pos, dtype=float), NO_TURN)


class Chain:
    """The joints from ``base`` to ``tip``, two sites or bodies of a model by name (sites are looked up first).

    The tip must hang from the base. Where it does not, as one foot of a humanoid seen from the other, ``through`` names
    the body that both hang from: the chain then goes up from the base to that body, and down to the tip.
    """

    def __init__(
        self,
        model: Model,
        base: str,
        tip: str,
        *,
        through: str | None = None,
        dtype: str = "float64",
        device: str = "cpu",
    ):
        if not isinstance(model, Model):
            raise PullbackError(f"model must come from pullback.load, not {type(model).__name__}")
        self.model, self.base, self.tip = model, base, tip
        self.dtype, self.device = check_precision(dtype), check_device(device)
        base_body, base_frame = frame_of(model, base)
        tip_body, tip_frame = frame_of(model, tip)
        up, down = path(model, base, base_body, tip, tip_body, through)
        self._walk(base_frame, up, down, tip_frame)
        if not self.joints:
            raise PullbackError(f"there is no joint between {base!r} and {tip!r}: nothing can move")
        self.nq = sum(4 if kind == BALL else 1 for kind in self.kinds)
        self.nv = sum(3 if kind == BALL else 1 for kind in self.kinds)
        self.home = model.home.q[self.in_model]
        self._check_limits()
        self._crew = Crew()
        self._rooms: list | None = None

    def _walk(self, base_frame: Transform, up: list[int], down: list[int], tip_frame: Transform) -> None:
        """Joints along the way, each with the fixed transform before it."""
        model = self.model
        self.joints, self.kinds, self.signs, fixed = [], [], [], []
        now = base_frame.inverse

        def pass_joint(j: int, sign: int) -> None:
            nonlocal now
            if model.joint_type[j] == FREE:
                raise PullbackError(
                    f"{self.tip!r} does not hang from {self.base!r}: between them is the free joint "
                    f"{model.joint_names[j]!r}, with which anything can be reached"
                )
            anchor = Transform.shift(model.joint_pos[j])
            self.joints.append(j)
            self.kinds.append(int(model.joint_type[j]))
            self.signs.append(sign)
            fixed.append(now @ anchor)
            now = anchor.inverse

        for body in up:
            for j in reversed(np.flatnonzero(model.joint_body == body)):
                pass_joint(int(j), -1)
            now = now @ Transform(model.body_pos[body], model.body_quat[body]).inverse
        for body in down:
            now = now @ Transform(model.body_pos[body], model.body_quat[body])
            for j in np.flatnonzero(model.joint_body == body):
                pass_joint(int(j), 1)
        self.fixed = [*fixed, now @ tip_frame]
        sizes = [4 if kind == BALL else 1 for kind in self.kinds]
        starts = model.joint_q[self.joints] if self.joints else []
        self.in_model = np.concatenate(
            [np.arange(q, q + n) for q, n in zip(starts, sizes, strict=True)] or [np.zeros(0, int)]
        ).astype(int)  # where the chain's coordinates are in the model's q

    def _check_limits(self) -> None:
        m = self.model.mujoco
        low, high = [], []
        for j, kind in zip(self.joints, self.kinds, strict=True):
            limited = bool(m.jnt_limited[j])
            if kind == SLIDE and not limited:
                raise PullbackError(f"joint {self.model.joint_names[j]!r} slides without end: give it a range")
            low.append(m.jnt_range[j, 0] if limited else -np.inf)
            high.append(m.jnt_range[j, 1] if limited else np.inf)
        self.low, self.high = np.array(low), np.array(high)

    # --- joint angles ------------------------------------------------------------------------------

    def random(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Joint coordinates (n, nq), evenly within the limits; a hinge without any turns all the way round."""
        columns = []
        for j, kind, low, high in zip(self.joints, self.kinds, self.low, self.high, strict=True):
            if kind == BALL:
                columns.append(random_turns(n, min(high, np.pi), rng))
            else:
                q0 = self.model.q0[self.model.joint_q[j]]
                low, high = (q0 - np.pi, q0 + np.pi) if np.isinf(low) else (low, high)
                columns.append(rng.uniform(low, high, (n, 1)))
        return np.concatenate(columns, axis=1)

    def whole(self, q: np.ndarray) -> np.ndarray:
        """Coordinates of the model (n, nq of the model): at home, but for the joints of the chain."""
        full = np.tile(self.model.home.q, (len(q), 1))
        full[:, self.in_model] = q
        return full

    # --- kinematics --------------------------------------------------------------------------------

    def forward(self, q: np.ndarray) -> np.ndarray:
        """Poses (n, 7) of the tip in the frame of the base, at joint coordinates q (n, nq)."""
        poses = wp.empty((len(q), 7), dtype=PRECISIONS[self.dtype], device=self.device)
        self._launch("chain_poses", self._struct(True, True), (self._put(q),), (poses,), len(q))
        return to_numpy(poses).astype(float)

    def inverse(
        self,
        targets: np.ndarray,
        starts: np.ndarray,
        *,
        poses: np.ndarray | None = None,
        position: bool = True,
        orientation: bool = True,
        tolerance: float = 2e-3,
        iterations: int = 50,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Joint coordinates (n, nq) for poses ``targets`` (n, 7), and how far off they are (n,) [m and rad, together].

        starts: joint coordinates to begin with, one for each target; or any number of them, if ``poses`` (7 each) says
        where they lead to: each target then begins with the nearest. What is less than ``tolerance`` off is not
        improved.
        """
        n = len(targets)
        real = PRECISIONS[self.dtype]
        own = poses is None
        known = self._put(np.zeros((0, 7)) if own else poses)
        q = wp.empty((n, self.nq), dtype=real, device=self.device)
        error = wp.empty(n, dtype=real, device=self.device)
        before = (self._put(targets), self._put(starts), known, 0, len(starts), int(own), real(tolerance), iterations)
        self._launch("chain_inverse", self._struct(position, orientation), before, (q, error), n)
        return to_numpy(q).astype(float), to_numpy(error).astype(float)

    # --- underneath --------------------------------------------------------------------------------

    def _put(self, x: np.ndarray) -> wp.array:
        return to_device(np.ascontiguousarray(x, self.dtype), self.dtype, self.device)

    def _struct(self, position: bool, orientation: bool):
        kernels, tree = specialise(self.dtype, "reach.chain"), specialise(self.dtype, "tree.structs")
        ints = lambda x: wp.array(np.asarray(x, np.int32), dtype=wp.int32, device=self.device)  # noqa: E731
        reals = lambda x, kind: wp.array(np.asarray(x, self.dtype), dtype=kind, device=self.device)  # noqa: E731
        real = PRECISIONS[self.dtype]
        chain = kernels.Chain()
        types = {BALL: int(tree.BALL), SLIDE: int(tree.SLIDE), HINGE: int(tree.HINGE)}
        chain.kind = ints([types[kind] for kind in self.kinds])
        chain.sign = reals(self.signs, real)
        chain.axis = reals(self.model.joint_axis[self.joints], kernels.vec3)
        chain.pos = reals([f.pos for f in self.fixed], kernels.vec3)
        chain.quat = reals([f.quat for f in self.fixed], kernels.vec4)
        ball = np.array(self.kinds) == BALL
        chain.q = ints(np.cumsum(np.where(ball, 4, 1)) - np.where(ball, 4, 1))
        chain.v = ints(np.cumsum(np.where(ball, 3, 1)) - np.where(ball, 3, 1))
        chain.q0 = reals(np.where(ball, 0.0, self.model.q0[self.model.joint_q[self.joints]]), real)
        chain.low, chain.high = reals(self.low, real), reals(self.high, real)
        chain.nq, chain.nv = self.nq, self.nv
        chain.wants_pos, chain.wants_turn = int(position), int(orientation)
        return chain

    def _launch(self, kernel: str, chain, before: tuple, after: tuple, n: int) -> None:
        """Runs a kernel over n poses: (chain, room, *before, first, end, *after), on all cores."""
        if not n:
            return
        kernels = specialise(self.dtype, "reach.chain")
        if self._rooms is None:
            count, slots = (cores_to_use(None), 1) if self.device == "cpu" else (1, MOST_SLOTS)
            sizes = {"q": self.nq, "trial": self.nq, "step": self.nv, "S": self.nv, "trial_S": self.nv}
            shapes = {name: (size, slots) for name, size in sizes.items()}
            self._rooms = [zeros_struct(kernels.ChainRoom, shapes, self.device) for _ in range(count)]
        bounds = np.linspace(0, n, len(self._rooms) + 1).astype(int)
        slots = self._rooms[0].q.shape[1]
        commands = [
            launch(
                getattr(kernels, kernel),
                min(slots, n),
                [chain, room, *before, int(first), int(end), *after],
                self.device,
                record_cmd=True,
            )
            for room, first, end in zip(self._rooms, bounds[:-1], bounds[1:], strict=True)
        ]
        with self._crew.lock:
            self._crew.launch(commands)


def frame_of(model: Model, name: str) -> tuple[int, Transform]:
    """The body that a site or body is fixed to, and the frame in it."""
    check_kind(name, str, "the name of a site or body")
    if name in model.sites.names:
        i = model.sites.names.index(name)
        return int(model.sites.body[i]), Transform(model.sites.pos[i], model.sites.quat[i])
    if name in model.body_names:
        return model.body_names.index(name), Transform(np.zeros(3), NO_TURN)
    known = ", ".join((*model.sites.names, *model.body_names))
    raise PullbackError(f"there is no site or body {name!r}; there are {known}")


def path(
    model: Model, base: str, base_body: int, tip: str, tip_body: int, through: str | None
) -> tuple[list[int], list[int]]:
    """Bodies to climb from the base, and bodies to go down to the tip: each one's joints lead to its parent."""
    above_base, above_tip = ancestors(model, base_body), ancestors(model, tip_body)
    top = base_body
    if through is not None:
        top, _ = frame_of(model, through)
        common = next(body for body in above_base if body in above_tip)
        if top != common:
            raise PullbackError(
                f"the way from {base!r} to {tip!r} goes through {model.body_names[common]!r}, not through {through!r}"
            )
    elif top not in above_tip:
        common = next(body for body in above_base if body in above_tip)
        hint = (
            f"; both hang from {model.body_names[common]!r}: pass through={model.body_names[common]!r} to go that way"
        )
        raise PullbackError(f"{tip!r} does not hang from {base!r}" + (hint if common else ""))
    return above_base[: above_base.index(top)], above_tip[: above_tip.index(top)][::-1]


def ancestors(model: Model, body: int) -> list[int]:
    """A body and all that carry it, down to the world."""
    found = [body]
    while found[-1]:
        found.append(int(model.body_parent[found[-1]]))
    return found


def random_turns(n: int, largest: float, rng: np.random.Generator) -> np.ndarray:
    """Quaternions (n, 4), evenly among the rotations by at most ``largest`` [rad]."""
    # The density of the angle is proportional to 1 - cos(angle): turns of a uniform number by its inverse integral.
    angles = np.linspace(0.0, largest, 4097)
    share = angles - np.sin(angles)
    angle = np.interp(rng.uniform(0.0, share[-1], n), share, angles)[:, None]
    axis = rng.standard_normal((n, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    return np.concatenate([np.cos(angle / 2), np.sin(angle / 2) * axis], axis=1)
