"""Features that a network reads from a state and a control: named numbers, and the ranges seen in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_names
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.trees import is_real, leaf_names, leaves
from pullback.dynamics.driven import Feature
from pullback.model import BALL, FREE, HINGE
from pullback.neural.in_kernel import refuse

AXES = ("x", "y", "z")
ANGLES_ONLY = ("q", "position", "angles")


@dataclass(frozen=True)
class Ranges:
    """The ranges of the features (n,) that a network was trained on; outside of them it is unreliable.

    low, high:       (n,) minimum and maximum, in the features' own units
    centre, spread:  (n,) mean and standard deviation: the network gets features as (x - centre) / spread
    """

    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    FLAT = 1e-9  # a feature whose relative variation is smaller is constant, and is not scaled

    @classmethod
    def of(cls, rows: np.ndarray) -> Ranges:
        """The ranges of rows (k, n) of features; constant features keep a spread of one."""
        rows = np.asarray(rows, dtype=float)
        spread = rows.std(axis=0)
        flat = spread <= cls.FLAT * np.maximum(1.0, np.abs(rows).max(axis=0))
        return cls(rows.min(axis=0), rows.max(axis=0), rows.mean(axis=0), np.where(flat, 1.0, spread))

    def __post_init__(self):
        names = ("low", "high", "centre", "spread")
        for name in names:
            object.__setattr__(self, name, to_numbers(getattr(self, name), f"{name} of Ranges").astype(float))
        shapes = {np.shape(getattr(self, name)) for name in names}
        known = len(shapes) == 1 and all(np.isfinite(getattr(self, name)).all() for name in names)
        if not known or not np.all(np.asarray(self.spread) > 0) or np.any(self.low > self.high):
            raise PullbackError("Ranges needs finite low <= high, centre and positive spread of one shape (features,)")

    def outside(self, rows: np.ndarray) -> np.ndarray:
        """How far features (..., n) lie outside, in units of the range's width; zero inside."""
        width = np.maximum(np.asarray(self.high) - self.low, np.finfo(float).tiny)
        return np.maximum(np.maximum(self.low - rows, rows - self.high), 0.0) / width


@dataclass(frozen=True)
class Violations:
    """How often a motion left the ranges that a network was trained on.

    labels:  names of the features
    counts:  (n,) number of states in which each was outside, of ``states`` in all worlds
    worst:   (n,) largest distance outside, relative to the width of the range
    """

    labels: tuple[str, ...]
    counts: np.ndarray
    worst: np.ndarray
    states: int

    def __bool__(self) -> bool:
        return bool(np.any(self.counts))

    def __str__(self) -> str:
        found = [
            f"{label} {count} times, by {worst:.2g} of its range at worst"
            for label, count, worst in zip(self.labels, self.counts, self.worst, strict=True)
            if count
        ]
        return f"outside the range learned, in {self.states} states: {'; '.join(found) or 'none'}"


class Reads:
    """The features (worlds, n) of a System's states and controls, as torch tensors.

    reads:  names, or a torch function f(state, control) that returns (worlds, n); the leaves of its state are tensors

    A name is a field of the state (flattened), "u" (the control), or for robots
    q:         coordinates, with rotations as the nine entries of their matrices, column by column; without the
               positions of free bodies
    angles:    as q, but with sine and cosine instead of each hinge's angle
    position:  positions of free bodies [m]
    v:         velocities
    """

    def __init__(self, system: System, reads: Sequence[str] | Callable):
        self.reads = reads
        if callable(reads):
            self.labels: tuple[str, ...] | None = None  # set by the first call
            return
        self.reads = reads = check_names(reads, "reads")
        self.model, self.controls = getattr(system, "model", None), system.nu
        known = ["u"] + (["q", "angles", "position", "v"] if self.model is not None else [])
        state = system.state() if hasattr(system, "state") else None
        names = [] if state is None else leaf_names(state)
        sizes = {} if state is None else {n: np.shape(to_numpy(x)) for n, x in zip(names, leaves(state), strict=True)}
        reals = {n for n, x in zip(names, leaves(state), strict=True) if is_real(to_numpy(x))} if state else set()
        labels: list[str] = []
        for name in reads:
            if name in known:
                labels += self._labels_of(name, system)
            elif name in reals:
                count = int(np.prod(sizes[name][1:], dtype=int))
                labels += [name] if count == 1 else [f"{name} {i}" for i in range(count)]
            else:
                every = dict.fromkeys([*known, *sorted(reals)])
                raise PullbackError(f"there is nothing called {name!r} to read; there are {', '.join(every)}")
        if not labels:
            raise PullbackError("a network must read something: reads is empty")
        self.labels = tuple(labels)

    def _joints(self):
        for kind, q, name in zip(self.model.joint_type, self.model.joint_q, self.model.joint_names, strict=True):
            yield kind, int(q), name

    def _labels_of(self, name: str, system: System) -> list[str]:
        if name == "u":
            model_names = getattr(self.model, "actuator_names", None) or [str(i) for i in range(system.nu)]
            return [f"u {each}" for each in model_names]
        if name == "v":
            return [f"v {i}" for i in range(self.model.nv)]
        found: list[str] = []
        for kind, _, joint in self._joints():
            if name == "position":
                found += [f"{axis} of {joint}" for axis in AXES] if kind == FREE else []
            elif kind in (FREE, BALL):
                found += [f"R{row}{column} of {joint}" for column in AXES for row in AXES]
            elif name == "angles" and kind == HINGE:
                found += [f"sin {joint}", f"cos {joint}"]
            else:
                found.append(f"q of {joint}")
        return found

    def __call__(self, state: Any, control: Any, rows: int = 2):
        """The features (worlds, n), or (worlds, entries, n) from a function that may return ``rows`` axes."""
        import torch

        if callable(self.reads):
            found = self.reads(state, control)
            if not isinstance(found, torch.Tensor) or not 2 <= found.ndim <= rows or len(found) != len(control):
                shape = tuple(getattr(found, "shape", ())) or type(found).__name__
                raise PullbackError(f"reads must return a tensor (worlds={len(control)}, features), not {shape}")
            if self.labels is None:
                self.labels = tuple(f"feature {i}" for i in range(found.shape[-1]))
            return found
        names = dict(zip(leaf_names(state), leaves(state), strict=True))
        parts = []
        for name in self.reads:
            if name == "u":
                parts.append(control)
            elif self.model is not None and name in ANGLES_ONLY:
                parts += self._coordinates(name, names["q"])
            else:
                parts.append(names[name].flatten(1) if names[name].ndim > 1 else names[name][:, None])
        return torch.cat(parts, dim=1)

    def wires(self) -> list[Feature]:
        """The same features in a form that a robot's kernels can read."""
        if callable(self.reads):
            raise refuse("a function that reads needs torch: give names")
        found = []
        for name in self.reads:
            if name in ANGLES_ONLY:
                found += self._wired_coordinates(name)
            else:
                kind, count = ("control", self.controls) if name == "u" else ("velocity", self.model.nv)
                found += [Feature(kind, i) for i in range(count)]
        return found

    def _wired_coordinates(self, name: str) -> list[Feature]:
        found = []
        for (kind, at, _), dof in zip(self._joints(), self.model.joint_v.tolist(), strict=True):
            if name == "position":
                found += [Feature("coordinate", at + i, dof + i) for i in range(3)] if kind == FREE else []
            elif kind in (FREE, BALL):
                moved = 3 * (kind == FREE)
                found += [Feature("rotation", at + moved, dof + moved, entry) for entry in range(9)]
            elif name == "angles" and kind == HINGE:
                found += [Feature("sine", at, dof), Feature("cosine", at, dof)]
            else:
                found.append(Feature("coordinate", at, dof))
        return found

    def _coordinates(self, name: str, q) -> list:
        import torch

        found = []
        for kind, at, _ in self._joints():
            if name == "position":
                found += [q[:, at : at + 3]] if kind == FREE else []
            elif kind in (FREE, BALL):
                found.append(rotation_columns(q[:, at + 3 * (kind == FREE) :][:, :4]))
            elif name == "angles" and kind == HINGE:
                found += [torch.sin(q[:, at : at + 1]), torch.cos(q[:, at : at + 1])]
            else:
                found.append(q[:, at : at + 1])
        return found


def rotation_columns(quat):
    """The rotation matrices of quaternions (worlds, 4) of any length, column by column, (worlds, 9)."""
    import torch

    w, x, y, z = (quat / torch.linalg.vector_norm(quat, dim=1, keepdim=True)).unbind(1)
    columns = [
        1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y),
        2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x),
        2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(columns, dim=1)
