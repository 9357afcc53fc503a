"""Decision variables of a task: the controls of a trajectory, its initial state, parameters of the System, or factors
of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.bars import Bars
from pullback.core.checks import check_kind, check_whole
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.rollout.entries import entry_name


class Variables(ABC):
    """A vector (n,) that stands for something in a trajectory. Points are several of them, (k, n): one per world."""

    steps: int  # of the trajectory

    @abstractmethod
    def begin(self, system: System) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first guess and the bounds, (n,) each."""

    @abstractmethod
    def decode(self, system: System, points: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Controls (steps, k, nu), and parameters by name, one set per world."""

    def initial_states(self, system: System, state: Any, points: np.ndarray) -> Any:
        """The initial states of points: those of the task, ``state``, with k worlds, unless they are what is found."""
        return state

    def inputs(self, system: System, points: np.ndarray) -> dict[str, np.ndarray]:
        """What acts besides the controls, by name (steps, k, ...), as ``system.inputs`` has it; mostly nothing."""
        return {}

    @abstractmethod
    def pull(self, system: System, points: np.ndarray, bars: Bars) -> np.ndarray:
        """Cotangents (k, n) of the points from those of initial states, controls and parameters."""

    @abstractmethod
    def push(self, system: System, points: np.ndarray) -> dict:
        """Tangents of controls and parameters by every variable, (..., n), as ``run.pushforward`` takes them."""

    def part(self, motions: slice) -> Variables:
        """The same variables for some of the trajectories that they make."""
        controls = getattr(self, "controls", None)
        return replace(self, controls=np.asarray(controls)[:, motions]) if np.ndim(controls) == 3 else self  # type: ignore

    def labels(self, system: System) -> tuple[str, ...]:
        """What the variables are called."""
        return tuple(f"x{i}" for i in range(len(self.begin(system)[0])))

    def natural(self, system: System, x: np.ndarray) -> np.ndarray:
        """The values that variables (n,) stand for."""
        return x

    wants_params = False


@dataclass(frozen=True)
class Controls(Variables):
    """The controls, held for a few steps each.

    steps:   of the trajectory
    hold:    steps for which each control is held
    scale:   value of a variable of one, (nu,) or one number, in the units of the controls; None: half of the range of
             each control, or 1 where it has none. Gradient methods change all variables by similar amounts.
    start:   the initial guess, (nu,) or (knots, nu), in the units of the controls
    until:   the step from which controls are zero; None for the last
    """

    steps: int
    hold: int = 1
    scale: np.ndarray | float | None = None
    start: np.ndarray | float = 0.0
    until: int | None = None

    def __post_init__(self):
        for name in ("steps", "hold"):
            check_whole(getattr(self, name), f"{name} of Controls")
        check_whole(self.driven, "until of Controls")

    @property
    def driven(self) -> int:
        """How many steps have controls."""
        return self.steps if self.until is None else min(self.until, self.steps)

    @property
    def knots(self) -> int:
        return -(-self.driven // self.hold)

    def _limits(self, system: System) -> tuple[np.ndarray, np.ndarray]:
        model = getattr(system, "model", None)
        if not hasattr(model, "control_limited") or hasattr(system, "control_range"):  # of targets, which may be any
            return np.full(system.nu, -np.inf), np.full(system.nu, np.inf)
        return tuple(np.where(model.control_limited[:, None], model.control_range, (-np.inf, np.inf)).T)

    def scale_in(self, system: System) -> np.ndarray:
        """What a variable of one stands for (nu,)."""
        if self.scale is not None:
            scale = to_numbers(self.scale, "scale of Controls").astype(float)
            if scale.shape not in ((), (system.nu,)) or not np.all((scale > 0) & (scale < np.inf)):
                raise PullbackError(
                    f"scale of Controls must be positive and finite, one number or ({system.nu},), not {self.scale!r}"
                )
            return np.broadcast_to(scale, system.nu)
        low, high = self._limits(system)
        return np.where(np.isfinite(high - low), (high - low) / 2, 1.0)

    def begin(self, system):
        scale = self.scale_in(system)
        start = to_numbers(self.start, "start of Controls").astype(float)
        if not np.all(np.isfinite(start)):
            raise PullbackError("start of Controls is not finite")
        try:
            first = np.broadcast_to(start, (self.knots, system.nu)) / scale
        except ValueError:
            shape = np.shape(self.start)
            raise PullbackError(
                f"start of Controls has shape {shape}, but ({system.nu},) or ({self.knots}, {system.nu}) is needed"
            ) from None
        low, high = (np.tile(limit / scale, (self.knots, 1)) for limit in self._limits(system))
        return tuple(np.array(x).ravel() for x in (first, low, high))

    def shifted(self, x: np.ndarray, steps: int) -> np.ndarray:
        """The variables of the trajectory from ``steps`` on: a first guess for when these steps have been done."""
        if steps % self.hold:
            raise PullbackError(f"controls are held for {self.hold} steps, and {steps} is not a multiple of that")
        knots = x.reshape(self.knots, -1)
        later = np.minimum(np.arange(self.knots) + steps // self.hold, self.knots - 1)
        return knots[later].ravel()

    def decode(self, system, points):
        knots = points.reshape(len(points), self.knots, system.nu) * self.scale_in(system)
        controls = np.zeros((self.steps, len(points), system.nu), dtype=system.dtype)
        controls[: self.driven] = np.repeat(knots.transpose(1, 0, 2), self.hold, axis=0)[: self.driven]
        return controls, {}

    def pull(self, system, points, bars):
        bar = np.asarray(bars.control, dtype=float)
        padded = np.zeros((self.knots * self.hold, *bar.shape[1:]))
        padded[: self.driven] = bar[: self.driven]
        knots = padded.reshape(self.knots, self.hold, *bar.shape[1:]).sum(axis=1)
        return (knots.transpose(1, 0, 2) * self.scale_in(system)).reshape(len(points), -1)

    def push(self, system, points):
        moves = np.zeros((self.steps, len(points), system.nu, self.knots, system.nu))
        for t in range(self.driven):
            moves[t, :, :, t // self.hold] = np.diag(self.scale_in(system))
        return {"controls": moves.reshape(self.steps, len(points), system.nu, -1)}


@dataclass(frozen=True)
class Parameters(Variables):
    """Entries of the System's parameters; variables are the logarithms of positive ones, so that steps are relative.

    steps:     of the trajectory
    entries:   by name of the parameter, a mask or an index of the entries to optimise; ``...`` for all
    start:     initial guesses by name; default: those of the System
    controls:  of the trajectory (steps, nu), or of each (steps, motions, nu); zero if None
    tied:      names of parameters whose entries all have the same value: one variable
    linear:    names of parameters whose variables are the entries themselves and not their logarithms
    low, high: bounds of the variables: one number, or one per variable
    """

    steps: int
    entries: Mapping[str, object]
    start: Mapping[str, object] = field(default_factory=dict)
    controls: np.ndarray | None = None
    tied: tuple[str, ...] = ()
    linear: tuple[str, ...] = ()
    low: np.ndarray | float = -np.inf
    high: np.ndarray | float = np.inf

    wants_params = True

    def __post_init__(self):
        check_whole(self.steps, "steps of Parameters")
        check_kind(self.entries, Mapping, "entries of Parameters", '{"mass": [1, 2]}')
        for name in (*self.start, *self.tied, *self.linear):
            if name not in self.entries:
                raise PullbackError(
                    f"start, tied and linear are of entries, and {name!r} is none of {list(self.entries)}"
                )
        if not np.all(np.less_equal(self.low, self.high)):
            raise PullbackError(f"low of Parameters must be at most high, not {self.low!r} and {self.high!r}")

    def _base(self, system: System, name: str, mask: np.ndarray) -> np.ndarray:
        base = np.array(system.params[name], dtype=float)
        if name in self.start:
            base[mask] = np.broadcast_to(np.asarray(self.start[name], dtype=float), base.shape)[mask]
        return base

    def begin(self, system):
        if not self.entries:
            raise PullbackError("Parameters needs at least one entry to optimise")
        _given(self.controls, self.steps, system)
        first = []
        for name, index in self.entries.items():
            mask = _mask_of(system, name, index)
            values = self._base(system, name, mask)[mask]
            if name not in self.linear and not np.all(values > 0):
                raise PullbackError(f"{name!r} is not positive everywhere: name it in linear=(...)")
            values = values if name in self.linear else np.log(values)
            first.append(values[:1] if name in self.tied else values)
        x = np.concatenate(first)
        for name in ("low", "high"):
            if np.shape(getattr(self, name)) not in ((), x.shape):
                raise PullbackError(f"{name} of Parameters must be one number or {len(x)}, one per variable")
        return x, np.full(x.shape, self.low), np.full(x.shape, self.high)

    def _parts(self, system: System, points: np.ndarray):
        """Name, mask and variables (k, count or 1) of each parameter."""
        at = 0
        for name, index in self.entries.items():
            mask = _mask_of(system, name, index)
            count = 1 if name in self.tied else int(mask.sum())
            yield name, mask, points[:, at : at + count], slice(at, at + count)
            at += count

    def decode(self, system, points):
        params = {}
        for name, mask, x, _ in self._parts(system, points):
            value = np.repeat(self._base(system, name, mask)[None], len(points), axis=0)
            value[:, mask] = x if name in self.linear else np.exp(x)
            params[name] = value
        return _repeated(self.controls, self.steps, system, len(points)), params

    def pull(self, system, points, bars):
        result = np.zeros(points.shape)
        for name, mask, x, where in self._parts(system, points):
            bar = np.asarray(bars.params[name], dtype=float)[:, mask]
            bar = bar if name in self.linear else bar * np.exp(x)
            result[:, where] = bar.sum(axis=1, keepdims=True) if name in self.tied else bar
        return result

    def push(self, system, points):
        tangents = {}
        for name, mask, x, where in self._parts(system, points):
            tangent = np.zeros((len(points), *mask.shape, points.shape[1]))
            rate = np.ones((len(points), int(mask.sum()))) * (1.0 if name in self.linear else np.exp(x))
            columns = np.arange(where.start, where.stop) + np.zeros(rate.shape[1], dtype=int)
            tangent[(slice(None), *np.nonzero(mask), columns)] = rate
            tangents[name] = tangent
        return {"params": tangents}

    def labels(self, system):
        found = []
        for name, mask, x, _ in self._parts(system, np.zeros((1, len(self.begin(system)[0])))):
            places = [tuple(int(i) for i in index) for index in np.argwhere(mask)]
            words = [f"{name} of {entry_name(system, name, at, kind='params', steps=1)}" for at in places]
            found += words if x.shape[1] == len(words) and name not in self.tied else [f"{name}, all of {len(words)}"]
        return tuple(found)

    def natural(self, system, x):
        values = [
            part[0] if name in self.linear else np.exp(part[0]) for name, _, part, _ in self._parts(system, x[None])
        ]
        return np.concatenate(values)


@dataclass(frozen=True)
class Factors(Variables):
    """Factors on the System's parameters, one per group of entries; variables are their logarithms, so zero at first.

    steps:     of the trajectory
    groups:    by label, the name of a parameter and a mask or an index of the entries that share the factor:
               {"mass of the trunk": ("mass", 1), "inertia of the trunk": ("inertia", 1)}. Several parameters can share
               a factor: {"stiffness": (("shear", "lame"), ...)}
    controls:  of the trajectory (steps, nu), or of each (steps, motions, nu); zero if None
    most:      the largest factor; the smallest is its inverse [1]
    """

    steps: int
    groups: Mapping[str, tuple[str | tuple[str, ...], object]]
    controls: np.ndarray | None = None
    most: float = np.inf

    wants_params = True

    def __post_init__(self):
        check_whole(self.steps, "steps of Factors")
        check_kind(self.groups, Mapping, "groups of Factors", '{"mass of the trunk": ("mass", 1)}')
        if not self.most > 1:
            raise PullbackError(f"most of Factors must be above 1, not {self.most!r}")

    def _weights(self, system: System) -> dict[str, np.ndarray]:
        """By name of the parameter, which entries each factor multiplies: (*shape, n)."""
        weights = {}
        for j, (label, group) in enumerate(self.groups.items()):
            if not isinstance(group, tuple) or len(group) != 2:
                raise PullbackError(f"{label!r} must be a pair such as ('mass', 1), not {group!r}")
            names, index = group
            for name in (names,) if isinstance(names, str) else names:
                mask = _mask_of(system, name, index)
                of = weights.setdefault(name, np.zeros((*mask.shape, len(self.groups))))
                if not np.any(system.params[name][mask]):
                    raise PullbackError(f"{label!r}: a factor of {name!r} changes nothing, since it is zero there")
                of[mask, j] = 1.0
        return weights

    def begin(self, system):
        if not self.groups:
            raise PullbackError("Factors needs at least one group to optimise")
        self._weights(system)
        _given(self.controls, self.steps, system)
        x = np.zeros(len(self.groups))
        return x, x - np.log(self.most), x + np.log(self.most)

    def _values(self, system: System, weights: dict[str, np.ndarray], points: np.ndarray) -> dict[str, np.ndarray]:
        return {
            name: system.params[name] * np.exp(np.einsum("...n,kn->k...", w, points)) for name, w in weights.items()
        }

    def decode(self, system, points):
        params = self._values(system, self._weights(system), points)
        return _repeated(self.controls, self.steps, system, len(points)), params

    def pull(self, system, points, bars):
        weights = self._weights(system)
        values = self._values(system, weights, points)
        flat = ((values[n] * bars.params[n]).reshape(len(points), -1) for n in weights)
        return sum(bar @ w.reshape(-1, w.shape[-1]) for bar, w in zip(flat, weights.values(), strict=True))

    def push(self, system, points):
        weights = self._weights(system)
        values = self._values(system, weights, points)
        return {"params": {name: values[name][..., None] * w for name, w in weights.items()}}

    def labels(self, system):
        return tuple(self.groups)

    def natural(self, system, x):
        return np.exp(x)


@dataclass(frozen=True)
class InitialState(Variables):
    """Entries of the initial state, such as the position and the velocity of a ball; the others are the task's start.

    steps:      of the trajectory
    entries:    by field of the state, indices of entries that may have any value: {"q": [0, 1], "v": [0, 1]}. Of a
                robot, those of slides and hinges
    guess:      the first guess by field, in the units of the state
    scale:      what a variable of one stands for, by field, in the units of the state; 1 where nothing is given
    low, high:  bounds by field, in the units of the state; none where nothing is given
    controls:   of the trajectory (steps, nu), or of each (steps, motions, nu); zero if None
    """

    steps: int
    entries: Mapping[str, Sequence[int]]
    guess: Mapping[str, Any]
    scale: Mapping[str, Any] = field(default_factory=dict)
    low: Mapping[str, Any] = field(default_factory=dict)
    high: Mapping[str, Any] = field(default_factory=dict)
    controls: np.ndarray | None = None

    def __post_init__(self):
        check_whole(self.steps, "steps of InitialState")
        check_kind(self.entries, Mapping, "entries of InitialState", '{"q": [0, 1]}')
        for name in (*self.scale, *self.low, *self.high, *self.guess):
            if name not in self.entries:
                raise PullbackError(f"{name!r} of InitialState is none of its entries, {list(self.entries)}")
        if set(self.guess) != set(self.entries):
            raise PullbackError(f"guess of InitialState must have {list(self.entries)}, not {list(self.guess)}")

    def _vector(self, values: Mapping[str, Any], otherwise: float) -> np.ndarray:
        """Values by field as one vector (n,)."""
        parts = [np.broadcast_to(values.get(name, otherwise), len(index)) for name, index in self.entries.items()]
        return np.concatenate(parts).astype(float)

    def begin(self, system):
        scale = self._vector(self.scale, 1.0)
        limits = (self.guess, 0.0), (self.low, -np.inf), (self.high, np.inf)
        return tuple(self._vector(values, otherwise) / scale for values, otherwise in limits)

    def _parts(self, points: np.ndarray):
        """Field, indices of its entries, and the variables (k, count) for them."""
        cuts = np.cumsum([len(index) for index in self.entries.values()])[:-1]
        parts = np.split(points, cuts, axis=1)
        for (name, index), part in zip(self.entries.items(), parts, strict=True):
            yield name, list(index), part

    def initial_states(self, system, state, points):
        fields = {}
        for name, index, values in self._parts(points * self._vector(self.scale, 1.0)):
            fields[name] = np.array(getattr(state, name))
            fields[name][:, index] = values
        return state._replace(**fields)

    def decode(self, system, points):
        return _repeated(self.controls, self.steps, system, len(points)), {}

    def pull(self, system, points, bars):
        found = [np.asarray(getattr(bars.state, name))[:, index] for name, index, _ in self._parts(points)]
        return np.concatenate(found, axis=1) * self._vector(self.scale, 1.0)

    def push(self, system, points):
        raise PullbackError("InitialState has no tangents: use a method that needs gradients alone, such as Adam")

    def labels(self, system):
        return tuple(f"{name}[{i}]" for name, index in self.entries.items() for i in index)

    def natural(self, system, x):
        return x * self._vector(self.scale, 1.0)


@dataclass(frozen=True)
class Launch(Variables):
    """The initial velocity of all particles of a System.

    steps:     of the trajectory
    guess:     the first guess (d,) [m/s]
    controls:  of the trajectory (steps, nu), or of each (steps, motions, nu); zero if None
    """

    steps: int
    guess: Sequence[float]
    controls: np.ndarray | None = None

    def __post_init__(self):
        check_whole(self.steps, "steps of a Launch")
        guess = to_numbers(self.guess, "guess of a Launch")
        if guess.ndim != 1 or not np.all(np.isfinite(guess)):
            raise PullbackError(f"guess of a Launch must be a velocity (d,), not {self.guess!r}")

    def begin(self, system):
        first = to_numbers(self.guess, "guess of a Launch").astype(float)
        return first, np.full(first.shape, -np.inf), np.full(first.shape, np.inf)

    def initial_states(self, system, state, points):
        if points.shape[1] != np.shape(state.v)[-1]:
            raise PullbackError(f"guess of a Launch needs {np.shape(state.v)[-1]} numbers, not {points.shape[1]}")
        return state._replace(v=np.broadcast_to(points[:, None], np.shape(state.v)))

    def decode(self, system, points):
        return _repeated(self.controls, self.steps, system, len(points)), {}

    def pull(self, system, points, bars):
        return np.asarray(bars.state.v, dtype=float).sum(axis=1)

    def push(self, system, points):
        raise PullbackError("a Launch has no tangents: use a method that needs gradients alone, such as Adam")

    def labels(self, system):
        return tuple(f"velocity[{i}]" for i in range(len(self.guess)))


def _mask_of(system: System, name: str, index) -> np.ndarray:
    """Which entries of a parameter an index means."""
    if name not in system.params:
        raise PullbackError(f"there is no parameter {name!r}; there are {', '.join(system.params)}")
    mask = np.zeros(system.params[name].shape, dtype=bool)
    try:
        mask[index] = True
    except IndexError:
        raise PullbackError(f"{index!r} is no index of {name!r}, which has shape {mask.shape}") from None
    return mask


def _given(controls: np.ndarray | None, steps: int, system: System) -> np.ndarray:
    """Given controls, (steps, nu) or (steps, motions, nu), as (steps, motions, nu)."""
    given = np.zeros((steps, system.nu)) if controls is None else to_numbers(controls, "controls")
    each = given[:, None] if given.ndim == 2 else given
    if each.ndim != 3 or each.shape[::2] != (steps, system.nu) or not each.shape[1]:
        raise PullbackError(
            f"controls has shape {given.shape}, but (steps={steps}, nu={system.nu}) or (steps, motions, nu) is needed"
        )
    return each


def _repeated(controls: np.ndarray | None, steps: int, system: System, worlds: int) -> np.ndarray:
    """Given controls for so many worlds."""
    each = _given(controls, steps, system)
    if worlds % each.shape[1]:
        raise PullbackError(f"controls are of {each.shape[1]} motions, but there are {worlds}")
    return np.ascontiguousarray(np.tile(each, (1, worlds // each.shape[1], 1)), dtype=system.dtype)
