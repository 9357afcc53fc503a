"""Inverse kinematics of a chain of joints in a space of poses: targets, starts, and what counts as reached."""

from __future__ import annotations

import numpy as np

from pullback.core.checks import check_seed
from pullback.model import Model
from pullback.reach.chain import Chain
from pullback.reach.ik import Solutions, from_starts
from pullback.reach.spaces import Space
from pullback.reach.spaces import space as space_of
from pullback.reach.touch import SelfCollision
from pullback.spatial import quat_conj, quat_exp, quat_matrix, quat_mul

# A pose is reached if position [m] and orientation [rad], taken together, are off by less than this.
TOLERANCE = 2e-3
SEARCH = {"tolerance": TOLERANCE, "iterations": 50}
# Configurations that a search may start from: of so many random ones, the one whose tip is nearest. New ones each time.
KNOWN = 512
STARTS = 10  # searches before a pose is given up


class Limb:
    """The joints from ``base`` to ``tip``, and the space of the tip's poses.

    model, base, tip, through:  see :class:`Chain`
    space:       "R2", "SO2", "SE2", "R3", "SO3" or "SE3"
    level:       (7,) a pose of the tip, position [m] and quaternion, in the frame of the base. In R2 and SE2 the tip
                 stays at its height, in SO2 and SE2 it keeps its tilt. The pose at home if None
    collisions:  whether shapes may not overlap that could touch by the rules of the file
    """

    def __init__(
        self,
        model: Model,
        base: str,
        tip: str,
        space: str | Space = "SE3",
        *,
        through: str | None = None,
        level=None,
        collisions: bool = True,
        dtype: str = "float64",
        device: str = "cpu",
    ):
        self.space = space_of(space)
        wants = {"position": self.space.dimensions > 0, "orientation": self.space.rotation != "none"}
        self.chain = Chain(model, base, tip, through=through, dtype=dtype, device=device, **wants)
        self.touch = SelfCollision(self.chain) if collisions else None
        home = self.chain.forward(self.chain.home[None])
        self.level = space_of("SE3").check(home if level is None else np.reshape(level, (1, -1)), "level")[0].copy()
        self.level[3:] /= np.linalg.norm(self.level[3:])
        # what a planar space leaves out is held, which takes inverse kinematics
        self.holds = self.space.name in ("R2", "SO2", "SE2")

    def lift(self, poses: np.ndarray) -> np.ndarray:
        """Poses in full (n, 7): what the space does not say is as in ``level``, or of no interest."""
        n = self.space.dimensions
        full = np.tile(self.level, (len(poses), 1))
        full[:, :n] = poses[:, :n]
        if self.space.rotation == "quaternion":
            full[:, 3:] = poses[:, n:]
        elif self.space.rotation == "angle":
            full[:, 3:] = quat_mul(yaw_quat(poses[:, n]), self._tilt())
        return full

    def project(self, full: np.ndarray) -> np.ndarray:
        """Poses of the space from poses in full (n, 7)."""
        position = full[:, : self.space.dimensions]
        if self.space.rotation == "none":
            return position.copy()
        if self.space.rotation == "quaternion":
            return np.concatenate([position, full[:, 3:]], axis=1)
        angle = yaw(quat_mul(full[:, 3:], quat_conj(self._tilt())))
        return np.concatenate([position, angle[:, None]], axis=1)

    def _tilt(self) -> np.ndarray:
        """The orientation of ``level`` without its yaw."""
        return quat_mul(yaw_quat(-yaw(self.level[3:])), self.level[3:])

    def random(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Reachable poses, at most n (m, sample size), and their joint coordinates (m, nq of the chain).

        Forward kinematics of random joint coordinates; in a planar space, the nearest configuration whose tip is level.
        """
        q = self.chain.random(n, rng)
        poses = self.project(self.chain.forward(q))
        good = np.ones(n, bool)
        if self.holds:
            q, error = self.chain.inverse(self.lift(poses), q, **SEARCH)
            good = error < TOLERANCE
        good = self._free(q, good)
        return poses[good], q[good]

    def _free(self, q: np.ndarray, good: np.ndarray) -> np.ndarray:
        """Which of the good ones (n,) are free of collisions."""
        if self.touch is not None:
            good[good] = self.touch.are_free(q[good])
        return good

    def solve(self, poses, *, starts: int = STARTS, rng: np.random.Generator | None = None) -> Solutions:
        """Joint coordinates for poses (n, sample size), from several starts each."""
        full = self.lift(self.space.check(poses))
        rng = np.random.default_rng(0) if rng is None else rng

        def search(_start: int, left: np.ndarray) -> Solutions:
            known, at = self._known(rng)
            q, error = self.chain.inverse(full[left], known, poses=at, **SEARCH)
            return Solutions(q, self._free(q, error < TOLERANCE), error)

        at_home = np.tile(self.chain.home, (len(full), 1))
        found = from_starts(at_home, np.full(len(full), np.inf), starts, search)
        return found._replace(q=self.chain.whole(found.q))

    def _known(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Configurations to start from, and the poses in full that they lead to: reachable ones, if there are any."""
        poses, q = self.random(KNOWN, rng)
        if len(q):
            return q, self.lift(poses)
        q = self.chain.random(KNOWN, rng)
        return q, self.chain.forward(q)

    def worst_pair(self, rng: np.random.Generator) -> str:
        """The two geoms that most often overlap, for an error message."""
        _, pair = self.touch.depth(self.chain.random(KNOWN, rng))
        names = self.touch.names(int(np.bincount(pair[pair >= 0]).argmax()))
        return f"{names[0]!r} and {names[1]!r}"


def inverse(
    model: Model,
    base: str,
    tip: str,
    poses,
    space: str | Space = "SE3",
    *,
    starts: int = STARTS,
    seed: int = 0,
    **options,
) -> Solutions:
    """Joint coordinates that bring ``tip`` to poses (n, sample size) in the frame of ``base``, for all at once.

    Levenberg-Marquardt within joint limits, from up to ``starts`` random starts each, until the tip is within 2e-3
    (metres and radians together) and shapes that may touch do not overlap. ``options`` are those of :class:`Limb`.
    """
    rng = np.random.default_rng(check_seed(seed))
    return Limb(model, base, tip, space, **options).solve(poses, starts=starts, rng=rng)


def yaw(quat: np.ndarray) -> np.ndarray:
    """The angle about z (...) [rad] that the x axis is seen at from above."""
    R = quat_matrix(quat)
    return np.arctan2(R[..., 1, 0], R[..., 0, 0])


def yaw_quat(angle: np.ndarray) -> np.ndarray:
    """The rotation about z (..., 4)."""
    angle = np.asarray(angle, dtype=float)
    zero = np.zeros_like(angle)
    return quat_exp(np.stack([zero, zero, angle], axis=-1))
