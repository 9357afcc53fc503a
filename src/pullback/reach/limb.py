"""A chain of joints as something that reaches for poses in a space: targets, starts, and what counts as reached."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pullback.core.checks import check_seed, check_whole
from pullback.model import Model
from pullback.reach.chain import Chain
from pullback.reach.spaces import Space
from pullback.reach.spaces import space as space_of
from pullback.reach.touch import SelfCollision
from pullback.spatial import quat_conj, quat_exp, quat_matrix, quat_mul

# A pose is reached if position [m] and orientation [rad], taken together, are off by less than this.
TOLERANCE = 2e-3
# Configurations that a search may start from: of so many random ones, the one whose tip is nearest. New ones each time.
KNOWN = 512
STARTS = 10  # searches before a pose is given up
ITERATIONS = 50  # of one search


class Solutions(NamedTuple):
    """What inverse kinematics found for n poses."""

    q: np.ndarray  # (n, nq) coordinates of the model, at home but for the joints between base and tip
    reached: np.ndarray  # (n,) bool: within the limits, near enough, and free of collisions
    error: np.ndarray  # (n,) [m and rad, together] of the best that was found


class Limb:
    """The joints from ``base`` to ``tip``, and the space in which the tip's poses are of interest.

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
        self.chain = Chain(model, base, tip, through=through, dtype=dtype, device=device)
        self.touch = SelfCollision(self.chain) if collisions else None
        home = self.chain.forward(self.chain.home[None])
        self.level = space_of("SE3").check(home if level is None else np.reshape(level, (1, -1)), "level")[0].copy()
        self.level[3:] /= np.linalg.norm(self.level[3:])
        self.wants = {"position": self.space.dimensions > 0, "orientation": self.space.rotation != "none"}
        # what a planar space leaves out is held, and has to be looked for
        self.holds = self.space.name in ("R2", "SO2", "SE2")

    # --- between poses of the space and poses in full ----------------------------------------------

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
        turn = yaw(quat_mul(full[:, 3:], quat_conj(self._tilt())))
        return np.concatenate([position, turn[:, None]], axis=1)

    def _tilt(self) -> np.ndarray:
        """The orientation of ``level`` without its yaw."""
        return quat_mul(yaw_quat(-yaw(self.level[3:])), self.level[3:])

    # --- reaching ----------------------------------------------------------------------------------

    def random(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Reachable poses, at most n (m, sample size), and their joint coordinates (m, nq of the chain).

        Forward kinematics of random joint coordinates; in a planar space, the nearest configuration whose tip is level.
        """
        q = self.chain.random(n, rng)
        poses = self.project(self.chain.forward(q))
        good = np.ones(n, bool)
        if self.holds:
            q, error = self.chain.inverse(self.lift(poses), q, **self.wants, tolerance=TOLERANCE, iterations=ITERATIONS)
            good &= error < TOLERANCE
        if self.touch is not None:
            good[good] = self.touch.are_free(q[good])
        return poses[good], q[good]

    def solve(
        self, poses, *, starts: int = STARTS, rng: np.random.Generator | None = None, advance=lambda done: None
    ) -> Solutions:
        """Looks for joint coordinates for poses (n, sample size), from several starts each.

        advance:  called with the number of poses that are done since it was last called
        """
        poses, starts = self.space.check(poses), check_whole(starts, "starts")
        rng = np.random.default_rng(0) if rng is None else rng
        full = self.lift(poses)
        n = len(full)
        q, error, reached = np.tile(self.chain.home, (n, 1)), np.full(n, np.inf), np.zeros(n, bool)
        left = np.arange(n)
        for _ in range(starts):
            if not len(left):
                break
            known, at = self._known(rng)
            found, off = self.chain.inverse(
                full[left],
                known,
                poses=at,
                **self.wants,
                tolerance=TOLERANCE,
                iterations=ITERATIONS,
            )
            done = off < TOLERANCE
            if self.touch is not None:
                done[done] = self.touch.are_free(found[done])
            better = done | (off < error[left])
            q[left[better]], error[left[better]] = found[better], off[better]
            reached[left[done]] = True
            advance(int(done.sum()))
            left = left[~done]
        advance(len(left))
        return Solutions(self.chain.whole(q), reached, error)

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
