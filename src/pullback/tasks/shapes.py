"""The motion of a shape among particles as decision variables, and how far particles are from a wanted shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.tasks.variables import Variables

TURNS_ABOUT = {"sphere": (0, 1, 2), "capsule": (2,), "cylinder": (2,)}  # own axes about which a shape is round


@dataclass(frozen=True)
class ShapePath(Variables):
    """The motion of a shape, linear between knots at equal distances in time. It begins where it was made.

    steps:   of the trajectory
    moves:   (c, 6) what a variable of one moves the shape by, in world axes: a turn [rad], then a shift [m]. Turns are
             those of round shapes about their axes: of a rolling pin, (0, 1/radius, 0, 1, 0, 0)
    guess:   (knots, c) the first guess of each variable at each knot, the last of which is the end
    shape:   which of the System's shapes; the others stand still
    low, high: bounds of each variable, (c,) or one number
    """

    steps: int
    moves: Sequence[Sequence[float]]
    guess: Sequence[Sequence[float]]
    shape: int = 0
    low: Sequence[float] | float = -np.inf
    high: Sequence[float] | float = np.inf

    def __post_init__(self):
        check_whole(self.steps, "steps of a ShapePath")
        check_whole(self.shape, "shape of a ShapePath", 0)
        moves, guess = self._moves(), to_numbers(self.guess, "guess of a ShapePath")
        if moves.ndim != 2 or moves.shape[1] != 6 or not np.all(np.isfinite(moves)):
            raise PullbackError(f"moves of a ShapePath must be finite, of shape (c, 6), not {moves.shape}")
        if guess.ndim != 2 or guess.shape[1] != len(moves) or not len(guess) or not np.all(np.isfinite(guess)):
            raise PullbackError(
                f"guess of a ShapePath must be finite, of shape (knots, c={len(moves)}), not {guess.shape}"
            )
        if len(guess) > self.steps:
            raise PullbackError(f"a ShapePath of {self.steps} steps has at most so many knots, not {len(guess)}")

    def _moves(self) -> np.ndarray:
        return to_numbers(self.moves, "moves of a ShapePath").astype(float)

    def _limit(self, name: str) -> np.ndarray:
        limit, count = to_numbers(getattr(self, name), f"{name} of a ShapePath").astype(float), len(self._moves())
        if limit.shape not in ((), (count,)) or np.any(np.isnan(limit)):
            raise PullbackError(f"{name} of a ShapePath must be one number, or one for each of its {count} moves")
        return limit

    def _weights(self) -> np.ndarray:
        """How much of each knot is in the place at the start of each step, and at the end (steps + 1, knots)."""
        knots = len(self.guess)
        at = np.linspace(0, self.steps, knots + 1)
        return np.stack([np.interp(np.arange(self.steps + 1), at, one) for one in np.eye(knots + 1)[1:]], axis=1)

    def begin(self, system):
        shapes = getattr(system, "shapes", ())
        if not self.shape < len(shapes):
            raise PullbackError(f"a ShapePath moves shape {self.shape}, but the System has {len(shapes)} shapes")
        shape = shapes[self.shape]
        others = np.delete(np.arange(3), TURNS_ABOUT.get(shape.kind, ()))
        turns = self._moves()[:, :3]
        if np.abs(turns @ shape.rotation[:, others]).max(initial=0) > 1e-9 * np.abs(turns).max(initial=1):
            raise PullbackError(
                f"a ShapePath turns shapes about axes that they are round about, and no {shape.kind} so"
            )
        x = to_numbers(self.guess, "guess of a ShapePath").astype(float)
        low, high = (np.broadcast_to(self._limit(name), x.shape) for name in ("low", "high"))
        return x.clip(low, high).ravel(), low.ravel(), high.ravel()

    def decode(self, system, points):
        return np.zeros((self.steps, len(points), system.nu), dtype=system.dtype), {}

    def inputs(self, system, points):
        knots = points.reshape(len(points), -1, len(self._moves()))
        moved = np.einsum("tk,wkc,cx->twx", self._weights(), knots, self._moves())
        rest = system.shapes_at_rest
        pose, twist = (np.tile(x, (self.steps, len(points), 1, 1)) for x in (rest["pose"], rest["twist"]))
        pose[:, :, self.shape, :3] += moved[:-1, :, 3:]
        twist[:, :, self.shape] = np.diff(moved, axis=0) / system.dt
        return {"pose": pose.astype(system.dtype), "twist": twist.astype(system.dtype)}

    def pull(self, system, points, bars):
        pose_bar, twist_bar = (
            to_numpy(bars.inputs[name])[:, :, self.shape].astype(float) for name in ("pose", "twist")
        )
        moved_bar = np.zeros((self.steps + 1, len(points), 6))
        moved_bar[:-1, :, 3:] = pose_bar[..., :3]
        moved_bar[1:] += twist_bar / system.dt
        moved_bar[:-1] -= twist_bar / system.dt
        return np.einsum("tk,twx,cx->wkc", self._weights(), moved_bar, self._moves()).reshape(len(points), -1)

    def push(self, system: System, points: np.ndarray):
        raise PullbackError("a ShapePath has no tangents: use a method that needs gradients alone, such as Adam")


class Lump:
    """How much of a body is where: its mass on a grid, smoothly spread, which is what shapes are compared by.

    low, high:  (d,) corners of the grid [m]; particles beyond its border count for its outermost cells
    cell:       size of a cell [m]; mass is spread over three of them along each axis
    """

    def __init__(self, low, high, cell: float):
        self.low, self.cell = np.asarray(low, dtype=float), cell
        self.counts = np.ceil((np.asarray(high, dtype=float) - self.low) / cell).astype(int) + 3

    def _spread(self, x: np.ndarray):
        """For each particle (n, d): numbers of cells, shares, and slopes of these by its place, (n, 3^d[, d])."""
        at = (x - self.low) / self.cell + 1.0
        base = np.clip(np.floor(at - 0.5).astype(int), 0, self.counts - 3)
        f = at - base
        w = np.stack([(1.5 - f) ** 2 / 2, 0.75 - (f - 1) ** 2, (f - 0.5) ** 2 / 2], axis=-1)  # (n, d, 3)
        dw = np.stack([f - 1.5, -2 * (f - 1), f - 0.5], axis=-1) / self.cell
        d = x.shape[1]
        offsets = np.indices((3,) * d).reshape(d, -1)
        cells = np.ravel_multi_index(tuple(base[:, i, None] + offsets[i] for i in range(d)), tuple(self.counts))
        each = np.stack([w[:, i][:, offsets[i]] for i in range(d)])
        slopes = np.stack(
            [np.prod([dw[:, i][:, offsets[i]] if i == j else each[i] for i in range(d)], axis=0) for j in range(d)],
            axis=-1,
        )
        return cells, np.prod(each, axis=0), slopes

    def mass(self, x: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """On the cells (cells,) of particles (n, d) [m] with masses (n,)."""
        cells, shares, _ = self._spread(x)
        return np.bincount(cells.ravel(), (shares * mass[:, None]).ravel(), minlength=int(np.prod(self.counts)))

    def pull(self, x: np.ndarray, mass: np.ndarray, mass_bar: np.ndarray) -> np.ndarray:
        """The cotangent (n, d) of places."""
        cells, _, slopes = self._spread(x)
        return mass[:, None] * np.einsum("nc,ncd->nd", mass_bar[cells], slopes)
