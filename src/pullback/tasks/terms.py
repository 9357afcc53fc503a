"""Ready terms of a loss: where a site, a body or a state should be, and what controls should be like.

Each is half a sum of squares with exact cotangents, over the steps at which it counts:

    when="end"           the last state
    when="path"          every state
    when=[100, 200, -1]  the states at these steps

A goal is one for all of them, or a row for each: (steps + 1, n), or (k, n) for k steps that are listed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.trees import is_real, is_state, numbers, tree_map
from pullback.dynamics import jacobian, kinematics
from pullback.dynamics.inside import has_robot
from pullback.model.tangent import rotations
from pullback.rollout import Run
from pullback.spatial import log_jacobian, quat_bar_of_tangent, quat_conj, quat_log, quat_matrix, quat_mul
from pullback.tasks.loss import Expansion, Loss, Term

When = str | Sequence[int]


class StateTerm(Term):
    """½ Σ weights · away², where away (k, worlds, n) are tangents from a goal to the states at k steps."""

    def _away(self, run: Run) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray]:
        """Steps (k,), the states there, the tangents, and weights of their shape."""
        raise NotImplementedError

    def __call__(self, run: Run) -> Loss:
        steps, states, away, weights = self._away(run)
        bar = weights * away
        if type(run.system).difference_jacobian is not System.difference_jacobian:  # that one is the identity
            bar = np.einsum("twi,twij->twj", bar, run.system.difference_jacobian(away))
        bars = run.system.state_bar(states, bar)
        named = {f"{name}_bar": _placed(x, steps, run) for name, x in zip(bars._fields, bars, strict=True)}
        return Loss((weights * away**2).sum(axis=(0, 2)) / 2, named)

    def expand(self, run: Run) -> Expansion:
        steps, _, away, weights = self._away(run)
        return _expansion(run, steps, away[:, 0], run.system.difference_jacobian(away[:, 0]), weights[:, 0])

    def distance(self, run: Run) -> np.ndarray:
        """(worlds,): the largest number of the tangents that count, for the metric of a task."""
        _, _, away, weights = self._away(run)
        return np.abs(np.where(weights > 0, away, 0.0)).max(axis=(0, 2), initial=0.0)


class StateGoal(StateTerm):
    """½ Σ weights · away² of the difference between states and a goal, in the tangent space.

    fields:   the goal of each field of the state to penalise: ``StateGoal(q=[0.5, 0.0])``, or ``StateGoal(v=0.0)`` for
              a robot at rest. One number for all entries, (size,), or a row for each state. For some joints of a robot,
              by name: ``StateGoal(q={"elbow": 1.2})``
    weights:  one number, or (n,): one for each number of the state's tangent, which is [dq; dv] for a robot
    when:     the steps at which it applies: "end", "path" or a list

    ``distance(run)``, (worlds,), is the largest entry of the difference at these steps.
    """

    def __init__(self, *, weights=1.0, when: When = "end", **fields):
        if not fields:
            raise PullbackError("StateGoal needs a goal for a field of the state, such as q=[0.5, 0.0]")
        self.fields, self.when, self.weights = fields, when, checked_weights(weights, "StateGoal")

    def __repr__(self) -> str:
        return f"StateGoal({', '.join(self.fields)}, when={self.when!r})"

    def _away(self, run):
        system, steps = run.system, _steps(self.when, run)
        states = _states_at(run, steps)
        unknown = [name for name in self.fields if name not in states._fields]
        if unknown:
            raise PullbackError(f"a state has no field {unknown[0]!r}: it has {', '.join(states._fields)}")
        goals, counts = [], []
        for name, own in zip(states._fields, states, strict=True):
            counted = np.zeros(_tangent_size(system, name, own), dtype=bool)
            if name not in self.fields:  # what has no goal is where it should be
                goals.append(own)
                counts.append(counted)
                continue
            if is_state(own) or own.ndim != 3:
                raise PullbackError(f"StateGoal is for fields (worlds, n), and {name} is none: write a TorchLoss")
            goal = np.array(own, dtype=float)
            for entries, of_tangent, given in self._parts(system, name):
                size = goal[..., entries].shape[-1]
                given = np.full(size, given) if np.ndim(given) == 0 else given
                goal[..., entries] = _rows(given, steps, run, size, f"{name} of StateGoal")
                counted[of_tangent] = True
            goals.append(goal)
            counts.append(counted)
        if has_robot(system):
            _check_rotations(system, goals[states._fields.index("q")])
        away = system.difference(type(states)(*goals), states, leading=2)
        weights = np.where(np.concatenate(counts), _broadcast(self.weights, away.shape, "StateGoal"), 0.0)
        return steps, states, away, weights

    def _parts(self, system: System, name: str):
        """Entries of a field that have a goal, those of its tangent, and the goal."""
        given = self.fields.get(name)
        if given is None:
            return
        if not isinstance(given, Mapping):
            yield slice(None), slice(None), given
            return
        if not has_robot(system) or name not in ("q", "v"):
            raise PullbackError(f"goals by name are for q and v of a robot's joints, not for {name}")
        model = system.model
        ends = {"q": (*model.joint_q[1:], model.nq), "v": (*model.joint_v[1:], model.nv)}
        for joint, goal in given.items():
            if joint not in model.joint_names:
                raise PullbackError(f"there is no joint {joint!r}; there are {', '.join(model.joint_names)}")
            k = model.joint_names.index(joint)
            in_q, in_v = slice(model.joint_q[k], ends["q"][k]), slice(model.joint_v[k], ends["v"][k])
            yield in_q if name == "q" else in_v, in_v, goal


class Weighted(Term):
    """A term with weights, which are checked when it is made."""

    def __post_init__(self):
        object.__setattr__(self, "weights", checked_weights(self.weights, type(self).__name__))

    def _weights_like(self, x: np.ndarray) -> np.ndarray:
        """The weights in the shape of what they multiply."""
        return _broadcast(self.weights, x.shape, type(self).__name__)


@dataclass(frozen=True)
class FrameTerm(Weighted):
    """½ Σ weights · away², where away (k, worlds, 3) is how far a frame is from its goal at k steps."""

    name: str
    goal: Any
    of: str = "site"
    weights: Any = 1.0
    when: When = "end"

    entries: ClassVar[slice]  # of a pose [position, quaternion], that are compared

    def _poses(self, run: Run):
        """Steps (k,), configurations there, their poses, and how far (k, worlds, 3) these are from the goal."""
        if not has_robot(run.system):
            raise PullbackError(f"{type(self).__name__} is of a robot, not of {type(run.system).__name__}")
        steps = _steps(self.when, run)
        q = _states_at(run, steps).q
        found = kinematics(run.system, q, of=self.of, names=(self.name,), params=run.params)
        pose = to_numpy(found.value)[:, :, 0, self.entries].astype(float)
        goal = _rows(self.goal, steps, run, pose.shape[-1], f"goal of {type(self).__name__} of {self.name!r}")
        return steps, q, found, pose, self._difference(goal, pose)

    def __call__(self, run: Run) -> Loss:
        steps, _, found, pose, away = self._poses(run)
        weighted = self._weights_like(away) * away
        bar = np.zeros(found.value.shape)
        bar[:, :, 0, self.entries] = self._difference_bar(pose, away, weighted)
        q_bar = to_numpy(found.pullback(bar, wants_params=False).q)
        values = (weighted * away).sum(axis=(0, 2)) / 2
        return Loss(values, {"q_bar": _placed(q_bar, steps, run)}, params_bar=lambda: found.pullback(bar).params)

    def expand(self, run: Run) -> Expansion:
        steps, q, _, pose, away = self._poses(run)
        found = jacobian(run.system, q, of=self.of, names=(self.name,), params=run.params)
        rows = self._difference_rows(to_numpy(found.value)[:, 0, 0].astype(float), pose[:, 0], away[:, 0])
        return _expansion(run, steps, away[:, 0], rows, self._weights_like(away)[:, 0])

    def distance(self, run: Run) -> np.ndarray:
        """(worlds,): the largest distance from the goal [m] or [rad], for the metric of a task."""
        *_, away = self._poses(run)
        counted = self._weights_like(away) > 0
        return np.linalg.norm(np.where(counted, away, 0.0), axis=2).max(axis=0, initial=0.0)


class Position(FrameTerm):
    """½ Σ weights · (p - goal)² [m²] of the position p of a site, in the world.

    name:     of the site
    goal:     (3,) [m], or a row for each state
    of:       "site", "body", "geom" or "camera"
    weights:  one number, or (3,): (0, 0, 1) for the height only
    when:     the steps at which it applies: "end", "path" or a list

    ``distance(run)``, (worlds,), is the largest distance at these steps [m].
    """

    entries = slice(0, 3)

    def _difference(self, goal, pose):
        return pose - goal

    def _difference_bar(self, pose, away, away_bar):
        return away_bar

    def _difference_rows(self, jacobians, pose, away):
        return jacobians[:, 3:]


class Orientation(FrameTerm):
    """½ Σ weights · turn² [rad²] of the rotation vector from the goal to the orientation of a site.

    name:     of the site
    goal:     (4,) quaternion wxyz, in the world, of any length, or a row for each state
    of:       "site", "body", "geom" or "camera"
    weights:  one number, or (3,): (1, 1, 0) leaves the turn about the goal's z axis free, for small angles
    when:     the steps at which it counts: "end", "path" or a list

    ``distance(run)``, (worlds,), is the largest angle at these steps [rad].
    """

    entries = slice(3, 7)

    def __post_init__(self):
        super().__post_init__()
        if np.any(np.linalg.norm(np.atleast_1d(to_numbers(self.goal, "goal of Orientation")), axis=-1) < 1e-12):
            raise PullbackError("the goal of Orientation has zero length; no rotation is (1, 0, 0, 0)")

    def _difference(self, goal, pose):
        return quat_log(quat_mul(quat_conj(goal), pose))

    def _difference_bar(self, pose, away, away_bar):
        return quat_bar_of_tangent(pose, np.einsum("...ij,...i->...j", log_jacobian(away), away_bar))

    def _difference_rows(self, jacobians, pose, away):
        return log_jacobian(away) @ np.swapaxes(quat_matrix(pose), -1, -2) @ jacobians[:, :3]


@dataclass(frozen=True)
class Effort(Weighted):
    """½ Σ weights · u² of all controls, in the units of the actuators. weights: one number, or (nu,)."""

    weights: Any = 1.0

    def __call__(self, run: Run) -> Loss:
        controls = to_numpy(run.controls).astype(float)
        weights = self._weights_like(controls)
        return Loss((weights * controls**2).sum(axis=(0, 2)) / 2, {}, weights * controls)

    def expand(self, run: Run) -> Expansion:
        controls = to_numpy(run.controls)[:, 0].astype(float)
        weights = self._weights_like(controls)
        return _no_expansion(run)._replace(u=weights * controls, uu=weights)


@dataclass(frozen=True)
class Smoothness(Weighted):
    """½ Σ weights · (change of u from step to step)², in the units of the actuators. weights: one number, or (nu,)."""

    weights: Any = 1.0

    def __call__(self, run: Run) -> Loss:
        controls = to_numpy(run.controls).astype(float)
        change = np.diff(controls, axis=0)
        weighted = self._weights_like(change) * change
        bar = np.zeros(controls.shape)
        bar[1:] += weighted
        bar[:-1] -= weighted
        return Loss((weighted * change).sum(axis=(0, 2)) / 2, {}, bar)


# --- steps, goals, weights -------------------------------------------------------------------------


def _steps(when: When, run: Run) -> np.ndarray:
    """The steps (k,) at which a term counts."""
    if isinstance(when, str):
        if when not in ("end", "path"):
            raise PullbackError(f"when={when!r} is not known: use 'end', 'path' or a list of steps")
        return np.arange(run.steps + 1) if when == "path" else np.array([run.steps])
    steps = np.atleast_1d(to_numbers(when, "when"))
    if steps.ndim != 1 or steps.dtype.kind not in "iu" or np.any((steps > run.steps) | (steps < -run.steps - 1)):
        raise PullbackError(f"when={when!r} must be 'end', 'path' or steps from 0 to {run.steps}")
    steps = np.where(steps < 0, steps + run.steps + 1, steps)
    if len(np.unique(steps)) < len(steps):
        raise PullbackError(f"when={when!r} has a step twice")
    return steps


def _states_at(run: Run, steps: np.ndarray):
    """The states (k, worlds, n) at some steps."""
    if len(steps) == 1 and steps[0] == run.steps:
        return tree_map(lambda x: to_numpy(x)[None], run.final)
    return tree_map(lambda x: to_numpy(x)[steps], run.every_state())


def _placed(rows: np.ndarray, steps: np.ndarray, run: Run) -> np.ndarray:
    """Cotangents (k, worlds, n) at some steps, as ``run.pullback`` takes them."""
    if len(steps) == 1 and steps[0] == run.steps:
        return rows[0]
    every = np.zeros((run.steps + 1, *rows.shape[1:]))
    every[steps] = rows
    return every


def _rows(given, steps: np.ndarray, run: Run, size: int, what: str) -> np.ndarray:
    """A goal (size,), (steps + 1, size) or (k, size) at k steps: (k, 1, size), or (1, 1, size) for all alike."""
    goal = to_numbers(given, what).astype(float)
    if not np.all(np.isfinite(goal)):
        raise PullbackError(f"{what} is not finite")
    if goal.shape == (size,):
        return goal[None, None]
    if goal.shape == (run.steps + 1, size):
        return goal[steps][:, None]
    if goal.shape == (len(steps), size):
        return goal[:, None]
    rows = f" or ({len(steps)}, {size})" if len(steps) not in (1, run.steps + 1) else ""
    raise PullbackError(f"{what} has shape {goal.shape}, but ({size},), ({run.steps + 1}, {size}){rows} is needed")


def checked_weights(given, what: str) -> np.ndarray:
    """Finite numbers that are not negative, or an error."""
    weights = to_numbers(given, f"weights of {what}").astype(float)
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise PullbackError(f"weights of {what} must be finite and not negative")
    return weights


def _broadcast(weights: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    if weights.shape not in ((), shape[-1:]):
        raise PullbackError(f"weights of {what} have shape {weights.shape}, but one number or {shape[-1:]} is needed")
    return np.broadcast_to(weights, shape)


def _check_rotations(system: Any, q: np.ndarray) -> None:
    for start, _ in rotations(system.model):
        if np.any(np.linalg.norm(q[..., start : start + 4], axis=-1) < 1e-12):
            joint = system.model.joint_names[int(np.searchsorted(system.model.joint_q, start, side="right")) - 1]
            raise PullbackError(f"the goal of joint {joint!r} has a quaternion of zero length; none is (1, 0, 0, 0)")


def _tangent_size(system: System, name: str, field: np.ndarray) -> int:
    """How many numbers of the state's tangent belong to a field: as many as it has, but for quaternions."""
    if is_state(field):
        return numbers(field, 2).shape[-1]
    if not is_real(field):
        return 0
    return system.model.nv if has_robot(system) and name == "q" else math.prod(field.shape[2:])


def _no_expansion(run: Run) -> Expansion:
    """A loss of zero, around a trajectory."""
    n = run.system.difference(run.final, run.final).shape[-1]
    count, controls = run.steps + 1, (run.steps, run.system.nu)
    return Expansion(np.zeros((count, n)), np.zeros((count, n, n)), np.zeros(controls), np.zeros(controls))


def _expansion(run: Run, steps: np.ndarray, away: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> Expansion:
    """Of ½ Σ weights · away², with away (k, m) at k steps and its Jacobian (k, m, c) by the tangent's first c."""
    found, weighted = _no_expansion(run), weights[:, :, None] * rows
    columns = rows.shape[2]
    found.x[steps, :columns] = np.einsum("ti,tij->tj", away, weighted)
    found.xx[steps, :columns, :columns] = np.einsum("tij,tik->tjk", rows, weighted)
    return found
