"""An environment: a System plus start, observation, reward, termination and the meaning of actions, in torch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

import pullback.torch as pbt
from pullback.core.arrays import check_precision
from pullback.core.checks import check_number, check_whole
from pullback.core.errors import PullbackError
from pullback.core.status import Status
from pullback.core.system import System
from pullback.core.trees import leaf_names, leaves, tree_map, where
from pullback.core.wrapper import Wrapper
from pullback.dynamics import Articulated
from pullback.dynamics.inside import has_robot, robot_of
from pullback.envs.random import Random
from pullback.model import Model
from pullback.torch.tensors import take

WHOLE = 1e-3  # how far the timesteps of a control step may be from a whole number


class EnvState(NamedTuple):
    """The state of every world of an environment.

    physics:  the state of the System: q (worlds, nq) and v (worlds, nv) for a robot
    action:   the last action (worlds, actions), in [-1, 1]; zero at the start of an episode
    extra:    what the environment remembers besides, by name, (worlds, ...): commands, targets, phases
    age:      control steps since the episode began (worlds,)
    """

    physics: Any
    action: torch.Tensor
    extra: dict[str, torch.Tensor]
    age: torch.Tensor


class Transition(NamedTuple):
    """The result of a control step. Nothing is reset: where an episode has ended, ``state`` is its last.

    state:       an :class:`EnvState`
    reward:      (worlds,), the sum of ``terms``, zero where the simulation failed
    terms:       the terms of the reward by name, (worlds,) each
    terminated:  (worlds,) the episode has ended, and the value of the state is zero
    truncated:   (worlds,) the time limit is reached, and the value of the state still counts
    failed:      (worlds,) the simulation failed, and the state is the one before: part of ``terminated``
    """

    state: EnvState
    reward: torch.Tensor
    terms: dict[str, torch.Tensor]
    terminated: torch.Tensor
    truncated: torch.Tensor
    failed: torch.Tensor

    @property
    def done(self) -> torch.Tensor:
        return self.terminated | self.truncated


class Environment:
    """The base of all environments, in any number of worlds. A subclass defines:

    ``model()``                        the robot; or ``make_system``, for any other System
    ``start(random)``                  the physical state at the start of an episode, in all worlds
    ``observe(state)``                 (worlds, n), the observation of the policy
    ``reward(before, action, after)``  (worlds,), or named terms that are added
    ``terminated(state)``              (worlds,) booleans; default: never
    ``control(state, action)``         (worlds, nu); default: actions scaled to the range of controls
    ``begin(random)``, ``update(...)`` additional data in ``state.extra``, at the start and after each step
    ``disturb(state, random)``         disturbances between steps, in training only: pushes, new commands

    All are differentiable functions of tensors, in ``dtype`` on ``device``. Actions are in [-1, 1].

    hold:   timesteps for which an action is held
    timestep: of the physics [s], for ``model()`` to use. It can be chosen when an environment is made; ``hold`` is
            adapted so that control steps keep their length
    limit:  control steps of an episode
    timed:  the task ends at the time limit: learning values the state there at zero

    ``env.reset(random)`` starts episodes and ``env.step(state, action)`` takes one control step; both are pure
    functions, so gradients flow back through any number of steps.
    """

    name: ClassVar[str] = ""
    about: ClassVar[str] = ""
    hold: int = 1
    timestep: float | None = None
    limit: int = 1000
    timed: bool = False
    contact: Any = "model"
    # Options with which a method of :mod:`pullback.learn` does well here, by its name.
    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __init__(self, worlds: int = 1, *, dtype: str = "float32", device: str = "cpu", timestep: float | None = None):
        if timestep is not None:
            self._divide(check_number(timestep, "timestep"))
        check_whole(self.hold, "hold")
        check_whole(self.limit, "limit")
        self.system = self.make_system(check_whole(worlds, "worlds"), check_precision(dtype), device)
        self._tensors()
        self.observation_size = self._measure()

    def _divide(self, timestep: float) -> None:
        """Control steps into timesteps of another length."""
        if self.timestep is None:
            raise PullbackError(f"{self.name!r} has no other timestep than that of its robot")
        whole = self.hold * self.timestep
        self.hold = divided(whole, timestep)
        self.timestep = whole / self.hold

    # --- what an environment says ------------------------------------------------------------------

    def model(self) -> Model:
        raise NotImplementedError(f"{type(self).__name__} needs model(), which gives a robot: pullback.load(...)")

    def make_system(self, worlds: int, dtype: str, device: str) -> System:
        """The System in so many worlds."""
        return Articulated(self.model(), self.contact, worlds=worlds, dtype=dtype, device=device)

    def start(self, random: Random):
        raise NotImplementedError(f"{type(self).__name__} needs start(random), which gives a state of its System")

    def begin(self, random: Random) -> dict[str, torch.Tensor]:
        """What is remembered at the start of an episode, by name, (worlds, ...)."""
        return {}

    def observe(self, state: EnvState) -> torch.Tensor:
        raise NotImplementedError(f"{type(self).__name__} needs observe(state), which gives a tensor (worlds, n)")

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState):
        raise NotImplementedError(f"{type(self).__name__} needs reward(before, action, after), (worlds,)")

    def terminated(self, state: EnvState) -> torch.Tensor:
        return torch.zeros(self.worlds, dtype=torch.bool, device=self.device)

    def control(self, state: EnvState, action: torch.Tensor) -> torch.Tensor:
        """Actions in the range of controls: a control beyond it is clamped, and has no gradient."""
        if not has_robot(self.system):
            raise NotImplementedError(f"{type(self).__name__} needs control(state, action), since it is no robot")
        return self._control_middle + self._control_half * action

    def update(self, before: EnvState, action: torch.Tensor, after: EnvState, random: Random) -> dict:
        """What is remembered after a step, with gradients; ``after`` still has what was before."""
        return after.extra

    def disturb(self, state: EnvState, random: Random) -> EnvState:
        """The state after what happens at random between control steps in training, but not in evaluations, so that a
        policy learns to cope with it: pushes, other commands. Nothing, if left out."""
        return state

    def metrics(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        """What a person wants to know of a step, (worlds,) each by name; evaluations give the means."""
        return {}

    # --- what it offers ----------------------------------------------------------------------------

    @property
    def worlds(self) -> int:
        return self.system.worlds

    @property
    def dtype(self) -> torch.dtype:
        return getattr(torch, self.system.dtype)

    @property
    def device(self) -> torch.device:
        return torch.device(self.system.device)

    @property
    def action_size(self) -> int:
        return self.system.nu

    @property
    def control_dt(self) -> float:
        """Between two actions. [s]"""
        return self.hold * self.system.dt

    def in_worlds(self, worlds: int, *, dtype: str | None = None) -> Environment:
        """The same environment in another number of worlds, and maybe in another precision."""
        other = copy.copy(self)
        other.system = self.system.in_worlds(worlds, dtype=dtype)
        other._tensors()
        return other

    def random(self, seed: int) -> Random:
        """Random numbers in the precision and on the device of the environment, in as many rows as it has worlds."""
        return Random(seed, self.worlds, self.dtype, self.device)

    def tensor(self, x) -> torch.Tensor:
        """Numbers as a tensor in the precision and on the device: kept, since a copy would wait for the device."""
        array = np.asarray(x)
        key = (array.shape, array.dtype.str, array.tobytes())
        if key not in self._constants:
            self._constants[key] = torch.as_tensor(array.copy(), dtype=self.dtype, device=self.device)
        return self._constants[key]

    def home(self):
        """The robot's keyframe "home", or its reference pose, at rest, in all worlds."""
        home, form = self.system.model.home, robot_of(self.system)[0].state_type
        return self._whole(form(*(self.tensor(getattr(home, name)).expand(self.worlds, -1) for name in form._fields)))

    def _whole(self, start):
        """The start of an episode; where a System stands around a robot, it may be the robot's, and nothing else is
        remembered."""
        if isinstance(self.system, Wrapper) and isinstance(start, robot_of(self.system)[0].state_type):
            start = tree_map(lambda x: x if torch.is_tensor(x) else self.tensor(x), self.system.started(start))
        return start

    def reset(self, random: Random) -> EnvState:
        """New episodes in all worlds."""
        start = self._whole(self.start(random))
        if not isinstance(start, self.system.state_type) or not all(map(torch.is_tensor, leaves(start))):
            wanted = f"{self.system.state_type.__name__}({', '.join(self.system.state_type._fields)})"
            raise PullbackError(f"the start of environment {self._called} must be a {wanted} of torch tensors")
        physics = tree_map(lambda x: x.to(self.dtype) if x.is_floating_point() else x, start)
        action = torch.zeros(self.worlds, self.action_size, dtype=self.dtype, device=self.device)
        age = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
        return EnvState(physics, action, self._remembered("begin", self.begin(random)), age)

    def reset_where(self, done: torch.Tensor, state: EnvState, random: Random) -> EnvState:
        """The state, with new episodes in worlds that are ``done`` (worlds,); no gradient goes through these."""
        return select(done, self.reset(random), state)

    def step(self, state: EnvState, action: torch.Tensor, random: Random, *, plant=None) -> Transition:
        """One control step. Worlds whose simulation fails stay where they were and are ``terminated``.

        action:  (worlds, actions) in [-1, 1]
        plant:   what simulates, in place of the System: a function of physics, control and hold that gives the physics
                 after it, and in which worlds it failed, (worlds,)
        """
        if tuple(action.shape) != (self.worlds, self.action_size):
            raise PullbackError(
                f"actions of {self.name!r} have shape {tuple(action.shape)}, but (worlds={self.worlds}, "
                f"actions={self.action_size}) is needed"
            )
        physics, failed = (plant or self._simulate)(state.physics, self.control(state, action), self.hold)
        if failed.device.type != "cpu" or failed.any():
            # Zero times the infinite slope of a reward that overflowed would be NaN.
            state = select(failed, detached(state), state)
            action = torch.where(failed[:, None], action.detach(), action)
            physics = where(failed, tree_map(torch.Tensor.detach, physics), physics, select=torch.where)
        after = EnvState(physics, action, state.extra, state.age + 1)
        terms = self.reward(state, action, after)
        terms = terms if isinstance(terms, dict) else {"reward": terms}
        for name, term in terms.items():
            self._check_shape(f"reward {name!r}", term, (self.worlds,))
        extra = self._remembered("update", self.update(state, action, after, random))
        if extra.keys() != state.extra.keys():
            raise PullbackError(
                f"update of environment {self._called} must give what begin gave, {sorted(state.extra)}, not "
                f"{sorted(extra)}"
            )
        after = after._replace(extra=extra)
        with torch.no_grad():
            terminated = self.terminated(after)
            self._check_shape("termination", terminated, (self.worlds,), torch.bool)
            terminated = terminated | failed
        reward = sum(terms.values(), start=torch.zeros_like(failed, dtype=self.dtype))
        reward = torch.where(failed, torch.zeros_like(reward), reward)
        return Transition(after, reward, terms, terminated, (after.age >= self.limit) & ~terminated, failed)

    def _simulate(self, physics, control: torch.Tensor, hold: int):
        status = Status()
        after = pbt.step(self.system, physics, control, hold=hold, status=status)
        return after, take(status.codes)[:, 1] >= 0

    # --- checks ------------------------------------------------------------------------------------

    def _tensors(self) -> None:
        """What depends on the number of worlds, the precision and the device."""
        self._constants: dict[tuple, torch.Tensor] = {}
        if not has_robot(self.system):
            return
        robot: Any = self.system
        own = getattr(robot, "control_range", None)  # of a System around a robot that has other controls
        low, high = (_ranges(robot.model) if own is None else own).T
        self._control_middle, self._control_half = self.tensor((low + high) / 2), self.tensor((high - low) / 2)

    def _measure(self) -> int:
        """The size of an observation, from one; an error if start, observation or termination have another shape."""
        state = self.reset(self.random(0))
        wanted = self.system.state()
        for name, given, like in zip(leaf_names(wanted), leaves(state.physics), leaves(wanted), strict=True):
            self._check(f"start's {name}", given, tuple(like.shape))
        seen = self.observe(state)
        columns = seen.shape[-1] if torch.is_tensor(seen) and seen.ndim == 2 else "n"
        self._check("observation", seen, (self.worlds, columns), kind=self.dtype)
        self._check("termination", self.terminated(state), (self.worlds,), kind=torch.bool)
        return seen.shape[1]

    def check_reward(self, transition: Transition) -> None:
        """An error that names the part, the world and the step of a reward that is not finite or has a wrong shape."""
        for name, term in transition.terms.items():
            self._check(f"reward {name!r}", term, (self.worlds,), transition.failed, transition.state.age)

    def check_observation(self, seen: torch.Tensor) -> torch.Tensor:
        return self._check("observation", seen, (self.worlds, self.observation_size))

    def check_metrics(self, metrics: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        for name, x in metrics.items():
            self._check_shape(f"metric {name!r}", x, (self.worlds,))
        return metrics

    @property
    def _called(self) -> str:
        return repr(self.name or type(self).__name__)

    def _remembered(self, by: str, extra) -> dict[str, torch.Tensor]:
        """What ``begin`` or ``update`` gave, for ``state.extra``."""
        if not isinstance(extra, dict):
            given = type(extra).__name__
            raise PullbackError(f"{by} of environment {self._called} must give tensors by name, not {given}")
        for name, x in extra.items():
            self._check_shape(f"{name!r} of {by}", x, (self.worlds, ...))
        return extra

    def _check_shape(self, what: str, x, shape: tuple, kind: torch.dtype | None = None) -> None:
        """That x is a tensor of this shape, and of this kind of numbers; ``...`` stands for any further axes."""
        what = f"the {what} of environment {self._called}"
        if not torch.is_tensor(x):
            raise PullbackError(f"{what} must be a torch tensor, not {type(x).__name__}")
        given = (*x.shape[:1], ...) if shape[-1:] == (...,) else tuple(x.shape)
        if given != shape:
            needed = str(shape).replace("'", "").replace("Ellipsis", "...")
            raise PullbackError(f"{what} has shape {tuple(x.shape)}, but {needed} is needed")
        if kind is not None and x.dtype != kind:
            raise PullbackError(f"{what} is {str(x.dtype)[6:]}, but {str(kind)[6:]} is needed")

    def _check(self, what: str, x: torch.Tensor, shape: tuple, excused=None, age=None, kind=None) -> torch.Tensor:
        """The same, and that it is finite in all worlds that are not ``excused``."""
        self._check_shape(what, x, shape, kind)
        bad = ~torch.isfinite(x).reshape(self.worlds, -1).all(dim=1)
        bad = bad if excused is None else bad & ~excused
        if bad.any():
            world = int(bad.nonzero()[0])
            when = "" if age is None else f" at control step {int(age[world])} of an episode"
            raise PullbackError(f"the {what} of environment {self._called} is not finite in world {world}{when}")
        return x


def _ranges(model: Model) -> np.ndarray:
    """Of controls (nu, 2); from -1 to 1 where there is no limit."""
    return np.where(model.control_limited[:, None], model.control_range, (-1.0, 1.0))


def divided(control_step: float, timestep: float) -> int:
    """How many timesteps a control step has, both in seconds; an error if it is no multiple, but for rounding."""
    count = max(1, round(control_step / timestep))
    if abs(control_step / timestep - count) > WHOLE:
        raise PullbackError(
            f"a control step of {control_step:.7g} s is not a multiple of {timestep:g} s: try "
            f"{control_step / count:.7g} s"
        )
    return count


def select(mask: torch.Tensor, new: EnvState, old: EnvState) -> EnvState:
    """The one state where ``mask`` (worlds,) is true, and the other elsewhere."""
    pick = lambda x, y: torch.where(mask.reshape(-1, *(1,) * (y.ndim - 1)), x, y)  # noqa: E731
    extra = {name: pick(new.extra[name], value) for name, value in old.extra.items()}
    physics = where(mask, new.physics, old.physics, select=torch.where)
    return EnvState(physics, pick(new.action, old.action), extra, pick(new.age, old.age))


def detached(state: EnvState) -> EnvState:
    """The same numbers, detached from the gradient."""
    extra = {name: x.detach() for name, x in state.extra.items()}
    return EnvState(tree_map(torch.Tensor.detach, state.physics), state.action.detach(), extra, state.age)
