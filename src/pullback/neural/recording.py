"""Measured motions: checked against a System, cut into windows, saved in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pullback.core.archives import read_arrays
from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_kind, check_names, check_path
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file
from pullback.core.system import State, System
from pullback.core.trees import is_real, is_state, leaf_names, leaves, tree_map, with_leaves

# Relative tolerance of even spacing of rows, and of the ratio of their spacing to the timestep. [1]
JITTER = 0.02
# Tolerance of the length of a recorded quaternion. [1]
UNIT = 1e-2


@dataclass(frozen=True)
class Recording:
    """A measured motion of a robot, or of any System: evenly spaced states, and the controls between them.

    states:    a state whose arrays have rows instead of worlds: ``pb.State(q, v)`` with q (rows, nq), v (rows, nv)
    controls:  (rows - 1, nu), each held until the next row; None: zero
    times:     (rows,) [s]; None: rows are one timestep of the System apart
    joints:    names of the joints in the order of q, which are compared with the model's; None: not compared
    name:      for messages
    """

    states: Any
    controls: Any = None
    times: Any = None
    joints: Sequence[str] | None = None
    name: str = "recording"

    def __post_init__(self):
        if not is_state(self.states):
            raise PullbackError(
                f"{self.name}: states must be a state, such as pb.State(q, v), not {type(self.states).__name__}"
            )
        names = with_leaves(self.states, leaf_names(self.states))
        arrays = tree_map(lambda x, name: to_numbers(x, f"{name} of {self.name}"), self.states, names)
        object.__setattr__(self, "states", arrays)
        for name, given in {"controls": self.controls, "times": self.times}.items():
            if given is not None:
                object.__setattr__(self, name, to_numbers(given, f"{name} of {self.name}").astype(float))
        if self.joints is not None:
            names = self.joints.tolist() if isinstance(self.joints, np.ndarray) else self.joints  # as files give them
            object.__setattr__(self, "joints", check_names(names, f"joints of {self.name}"))

    @property
    def rows(self) -> int:
        return len(leaves(self.states)[0])

    def fitted(self, system: System) -> tuple[Any, np.ndarray, int]:
        """States (rows, ...), controls (rows - 1, nu) and timesteps per row for a System; or an error that names the
        field and row that do not fit."""
        self._check_joints(system)
        form = system.state()
        check_kind(self.states, type(form), f"states of {self.name}")
        for name, x, like in zip(leaf_names(form), leaves(self.states), leaves(form), strict=True):
            if x.shape[1:] != np.shape(like)[1:] or len(x) != self.rows or self.rows < 2:
                wanted = (self.rows if self.rows > 1 else "2 or more", *np.shape(like)[1:])
                raise PullbackError(f"{name} of {self.name} has shape {x.shape}, but {wanted} is needed")
            self._check_finite(name, x)
        controls = np.zeros((self.rows - 1, system.nu)) if self.controls is None else self.controls
        if controls.shape != (self.rows - 1, system.nu):
            wanted = (self.rows - 1, system.nu)
            raise PullbackError(
                f"controls of {self.name} has shape {controls.shape}, but (rows - 1, nu) = {wanted} is needed"
            )
        self._check_finite("controls", controls)
        self._check_rotations(system)
        cast = lambda x: x.astype(system.dtype) if is_real(x) else x  # noqa: E731
        return tree_map(cast, self.states), controls.astype(system.dtype), self._timesteps(system)

    def _check_joints(self, system: System) -> None:
        model = getattr(system, "model", None)
        if self.joints is None or model is None or self.joints == tuple(model.joint_names):
            return
        if sorted(self.joints) == sorted(model.joint_names):
            index = next(i for i, (a, b) in enumerate(zip(self.joints, model.joint_names, strict=True)) if a != b)
            what = (
                f"joint {self.joints[index]!r} in the place of {model.joint_names[index]!r}: put its columns in order"
            )
        else:
            odd = sorted(set(self.joints) ^ set(model.joint_names))
            what = f"other joints than the model: {', '.join(map(repr, odd[:4]))}"
        raise PullbackError(f"{self.name} has {what}")

    def _check_finite(self, name: str, x: np.ndarray) -> None:
        if is_real(x) and not np.all(np.isfinite(x)):
            row, *rest = (int(i) for i in np.argwhere(~np.isfinite(x))[0])
            raise PullbackError(
                f"{name} of {self.name} is {x[row, *rest]} at row {row}, entry {', '.join(map(str, rest))}: cut the "
                "recording in two there"
            )

    def _check_rotations(self, system: System) -> None:
        for start, joint in getattr(system, "_quaternions", ()):
            lengths = np.linalg.norm(self.states.q[:, start : start + 4], axis=1)
            if np.any(off := np.abs(lengths - 1) > UNIT):
                row = int(np.argmax(off))
                raise PullbackError(
                    f"the quaternion of joint {joint!r} in {self.name} has length {lengths[row]:.3g} at row {row}: "
                    "quaternions are unit, w x y z"
                )

    def _timesteps(self, system: System) -> int:
        """The number of the System's timesteps from one row to the next."""
        if self.times is None:
            return 1
        if self.times.shape != (self.rows,):
            raise PullbackError(f"times of {self.name} has shape {self.times.shape}, but ({self.rows},) is needed")
        self._check_finite("times", self.times[:, None])
        steps = np.diff(self.times)
        usual = float(np.median(steps))
        if usual < 0:
            raise PullbackError(f"times of {self.name} must grow, but rows are {usual:.6g} s apart: reverse the rows")
        if usual == 0 or np.any(np.abs(steps - usual) > JITTER * usual):
            row = int(np.argmax(np.abs(steps - usual)))
            raise PullbackError(
                f"{self.name} has a gap: {steps[row]:.6g} s between rows {row} and {row + 1}, but {usual:.6g} s "
                "elsewhere: cut it in two there"
            )
        dt = getattr(system, "dt", None)
        if dt is None:
            return 1
        every = round(usual / dt)
        if every < 1 or abs(usual / dt - every) > JITTER * every:
            raise PullbackError(
                f"rows of {self.name} are {usual:.6g} s apart, which is no multiple of the timestep {dt:.6g} s: load "
                f"the model with timestep={usual:.6g}, or resample the recording"
            )
        return every

    def save(self, path) -> None:
        """Writes the recording to an .npz file for :func:`read_recordings`."""
        arrays = dict(zip(leaf_names(self.states), leaves(self.states), strict=True))
        arrays |= {name: x for name, x in (("controls", self.controls), ("times", self.times)) if x is not None}
        if self.joints is not None:
            arrays["joints"] = np.array(self.joints)
        with whole_file(check_path(path)) as partial, open(partial, "wb") as file:
            np.savez(file, **arrays)


def read_recordings(path, system: System | None = None) -> list[Recording]:
    """The recordings in an .npz file, or in all such files of a folder, sorted by name.

    Each has an array for every field of the state, ``q`` (rows, nq) and ``v`` (rows, nv) for a robot, and optionally
    ``controls`` (rows - 1, nu), ``times`` (rows,) [s] and ``joints``, their names.

    system:  the System whose states they are; None: a robot
    """
    path = check_path(path)
    if system is not None:
        check_kind(system, System, "system", "pb.Articulated(model)")
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    if not files:
        raise PullbackError(f"there is no .npz in {str(path)!r}")
    return [_read(file, system) for file in files]


def _read(path: Path, system: System | None) -> Recording:
    form = State(None, None) if system is None else system.state()
    try:
        arrays = read_arrays(path)
    except Exception as error:  # a broken archive can raise anything
        raise PullbackError(f"{str(path)!r} cannot be read as a recording: {error}") from error
    names = leaf_names(form)
    if missing := [name for name in names if name not in arrays]:
        raise PullbackError(f"{str(path)!r} has no {missing[0]!r}; it has {', '.join(arrays) or 'nothing'}")
    states = with_leaves(form, [arrays[name] for name in names])
    return Recording(states, *(arrays.get(name) for name in ("controls", "times", "joints")), name=path.stem)


@dataclass(frozen=True)
class Windows:
    """Windows of recordings, batched as worlds.

    states:    (rows + 1, worlds, ...) as recorded
    controls:  (rows, worlds, nu)
    """

    states: Any
    controls: np.ndarray

    @property
    def worlds(self) -> int:
        return self.controls.shape[1]


def cut(recordings: Iterable[tuple[Any, np.ndarray]], length: int, most: int) -> Windows | None:
    """Consecutive windows of ``length`` rows, and one at the end of each recording; at most ``most``, evenly spaced.

    recordings: states (rows, ...) and controls (rows - 1, nu) of each. Returns None if all are too short.
    """
    states, controls = [], []
    for recorded, given in recordings:
        firsts = list(range(0, len(given) - length + 1, length))
        if firsts and firsts[-1] + length < len(given):
            firsts.append(len(given) - length)
        for first in firsts:
            states.append(tree_map(lambda x, a=first: to_numpy(x)[a : a + length + 1], recorded))
            controls.append(given[first : first + length])
    if not states:
        return None
    chosen = np.unique(np.linspace(0, len(states) - 1, min(most, len(states))).round().astype(int))
    stacked = tree_map(lambda *x: np.stack(x, axis=1), *(states[i] for i in chosen))
    return Windows(stacked, np.stack([controls[i] for i in chosen], axis=1))
