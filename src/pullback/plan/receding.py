"""Model predictive control: plan ahead, apply the first part of the plan, and plan again from the state reached.

:func:`receding` controls a plant for any length of time. :class:`Receding` finds the controls of one long trajectory in
the same way, as a :class:`~pullback.plan.Method`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_number, check_whole
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.trees import leaves, tree_map
from pullback.plan.loop import Progress, minimise
from pullback.plan.methods import Memory, Method, ranked
from pullback.plan.problem import ControlProblem, HeldControls
from pullback.rollout import Run, rollout


@dataclass(frozen=True)
class Driven:
    """The motion of a plant under receding-horizon control.

    run:    its trajectory, which can be pulled back like any other
    plans:  one per tick, as :func:`minimise` returned them
    """

    run: Run
    plans: tuple[Progress, ...]


def receding(
    task: ControlProblem | Callable[[int], ControlProblem],
    method: Method,
    *,
    ticks: int,
    apply: int,
    iterations: int,
    plant: System | None = None,
    watch: Callable[[int, Progress], None] | None = None,
) -> Driven:
    """Controls ``plant`` by repeatedly planning ``task`` from the current state (model predictive control).

    task:        a :class:`~pullback.tasks.Task` that finds Controls. If the goal moves, a function of the step at which
                 a plan begins (0, apply, 2 apply, ...) that returns the task from there on:
                 ``lambda first: task.but(loss=Position("tip", path[first : first + steps + 1], when="path"))``
    method:      of planning: LBFGS, Adam, ILQR, ...
    ticks:       number of plans
    apply:       steps of each plan that are executed; a multiple of the steps for which the task holds a control
    iterations:  of the method per tick; each plan starts from the rest of the one before
    plant:       the controlled System, in one world; None: the task's own
    watch:       called after every tick
    """
    task_at = (lambda first: task) if isinstance(task, ControlProblem) or not callable(task) else task
    ahead = task_at(0)
    if not isinstance(ahead, ControlProblem) or not isinstance(ahead.find, HeldControls):
        raise PullbackError("only controls can be planned again and again: give a task that finds Controls")
    find, plant = ahead.find, ahead.system if plant is None else plant
    for name, value in {"ticks": ticks, "apply": apply, "iterations": iterations}.items():
        check_whole(value, name)
    if apply > find.steps:
        raise PullbackError(f"apply is {apply}, but the task looks only {find.steps} steps ahead")
    if plant.worlds != 1 or plant.nu != ahead.system.nu:
        raise PullbackError(f"the plant must have one world and {ahead.system.nu} controls")
    x, low, high = ahead.begin()
    find.shifted(x, apply)  # raises an error now rather than after the first plan
    start = state = ahead.start
    controls, plans = [], []
    for tick in range(ticks):
        ahead = task_at(tick * apply).starting(state)
        found = minimise(ahead, x, method, iterations=iterations, low=low, high=high)
        planned = find.decode(ahead.system, found.x[None])[0][:apply]
        states = plant.steps(state, planned)
        state = tree_map(lambda field: to_numpy(field)[-1], states)
        x = find.shifted(found.x, apply)
        controls.append(planned)
        plans.append(found)
        if watch is not None:
            watch(tick, found)
    return Driven(rollout(plant, start, np.concatenate(controls)), tuple(plans))


@dataclass(frozen=True)
class Receding(Method):
    """The controls of a long trajectory, window by window: each is planned from the state that the last one led to.

    For tasks that find Controls and whose loss can be evaluated on any part of the trajectory. In an iteration
    ``ticks`` windows are planned, and then the whole trajectory is evaluated, in which the last control of the last
    window is held to the end. It has converged when there is nothing left to plan.

    The model of the plans may differ from the System that moves: with ``ahead``, windows are planned with that task and
    executed by the System of the task being solved, so that the next plan corrects the errors of the one before.

    method:      that plans a window
    window:      steps that are planned at a time, of ``ahead`` if given
    apply:       steps of each plan that are kept; the others are the initial guess for the next
    iterations:  of ``method`` per window
    ticks:       windows that are planned in an iteration
    guesses:     to escape local minima: if a plan gained little, the next one starts from the best of this many random
                 guesses, each a control within bounds that is held for the window; 0: always from the rest of the plan
                 before
    least_gain:  fraction of the loss that a plan must gain for the next one to start from its rest
    ahead:       the task to plan with: one with the same variables, e.g. with coarser steps or a contact model that has
                 gradients without contact; None: the task being solved
    seen:        maps a state that was reached to one of ``ahead``; None: the same state
    """

    method: Method
    window: int
    apply: int
    iterations: int
    ticks: int = 1
    guesses: int = 0
    least_gain: float = 0.02
    ahead: Any = field(default=None, repr=False, compare=False)  # a ControlProblem
    seen: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)
    problem: Any = field(default=None, repr=False, compare=False)  # a ControlProblem, set by ``bound``

    wants_gradients = False

    def __post_init__(self):
        for name in ("window", "apply", "iterations", "ticks"):
            check_whole(getattr(self, name), f"{name} of Receding")
        check_whole(self.guesses, "guesses of Receding", least=0)
        check_number(self.least_gain, "least_gain of Receding", least=0.0)
        if self.apply > self.window:
            raise PullbackError(f"apply of Receding is {self.apply}, but its window has only {self.window} steps")

    def bound(self, problem) -> Receding:
        if not isinstance(problem, ControlProblem) or not isinstance(problem.find, HeldControls):
            raise PullbackError("Receding plans controls: give it a task that finds pullback.tasks.Controls")
        ahead = problem if self.ahead is None else self.ahead
        if not _same_variables(ahead, problem):
            raise PullbackError(
                "ahead of Receding must be a task that finds Controls, with as many knots as those of the task that is "
                "solved, of the same scale, each held for as many steps or a fraction of them"
            )
        if self.window % ahead.find.hold or self.apply % ahead.find.hold:
            raise PullbackError(f"window and apply of Receding must be multiples of hold, {ahead.find.hold}")
        if self.guesses and not all(np.all(np.isfinite(bound)) for bound in problem.begin()[1:]):
            raise PullbackError(
                "guesses of Receding are drawn between the bounds of controls, and a control has none: give its "
                "actuator a ctrlrange, or leave guesses=0"
            )
        return replace(self, problem=problem, ahead=ahead)

    def begin(self, x, low, high, seed):
        size = self._size(self.window)
        states = {f"state{k}": to_numpy(leaf) for k, leaf in enumerate(leaves(self.problem.start))}
        counts = {"planned": np.array(0), "seed": np.array(seed), "done": np.array(False), "stuck": np.array(False)}
        return {"x": x, "low": low, "high": high, "plan": x[:size]} | counts | states

    def tell(self, memory, losses, gradients, *curvatures):
        if memory["planned"] >= self.ahead.find.steps:  # all windows are planned, and the result has been evaluated
            return {**memory, "done": np.array(True)}
        for _ in range(self.ticks):
            if memory["planned"] < self.ahead.find.steps:
                memory = self._tick(memory)
        return memory

    def done(self, memory):
        return bool(memory["done"])

    def _size(self, steps: int) -> int:
        """The number of variables of so many steps."""
        return min(steps // self.ahead.find.hold, self.ahead.find.knots) * self.problem.system.nu

    def _tick(self, memory: Memory) -> Memory:
        """Plans one window, and keeps the first part of the plan."""
        problem, model, planned = self.problem, self.ahead, int(memory["planned"])
        kept = iter([memory[f"state{k}"] for k in range(len(leaves(problem.start)))])
        state = tree_map(lambda _: next(kept), problem.start)
        seen = state if self.seen is None else self.seen(state)
        ahead = model.window(seen, min(self.window, model.find.steps - planned))
        at, size = self._size(planned), len(ahead.begin()[0])
        low, high = (memory[name][at : at + size] for name in ("low", "high"))
        seed, guess = int(memory["seed"]), memory["plan"][:size]
        if memory["stuck"]:
            guess = self._best_guess(ahead, low, high, np.random.default_rng([seed, planned]))
        found = minimise(ahead, guess, self.method, iterations=self.iterations, low=low, high=high, seed=seed)
        first = ranked(found.losses)[0]
        gained = first == 0 or ranked(found.losses)[found.best] < (1 - self.least_gain) * first
        # After a random guess the plan is continued, whatever it gained: it may not have reached the gain yet.
        stuck = np.array(self.guesses > 0 and not gained and not memory["stuck"])
        applied = ahead.find.decode(problem.system, found.x[None])[0][: self.apply]
        states = problem.system.steps(state, np.repeat(applied, problem.find.hold // model.find.hold, axis=0))
        x, last = memory["x"].copy(), found.x[-problem.system.nu :]
        x[at:] = np.resize(last, len(x) - at)
        x[at : at + size] = found.x
        reached = {f"state{k}": to_numpy(leaf)[-1] for k, leaf in enumerate(leaves(states))}
        plan = ahead.find.shifted(found.x, self.apply)
        return {**memory, **reached, "x": x, "plan": plan, "planned": np.array(planned + self.apply), "stuck": stuck}

    def _best_guess(self, ahead, low: np.ndarray, high: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """The best of several random controls, each held for the window."""
        nu = self.problem.system.nu
        guesses = np.tile(random.uniform(low[:nu], high[:nu], (self.guesses, nu)), len(low) // nu)
        return guesses[np.argmin(ranked(ahead(guesses, False).losses))]


def _same_variables(ahead: Any, problem: ControlProblem) -> bool:
    if not isinstance(ahead, ControlProblem) or not isinstance(ahead.find, HeldControls):
        return False
    finds, same = (ahead.find, problem.find), problem.find.hold % ahead.find.hold == 0
    scales = [one.find.scale_in(one.system) for one in (ahead, problem)]
    return same and finds[0].knots == finds[1].knots and np.array_equal(*scales)
