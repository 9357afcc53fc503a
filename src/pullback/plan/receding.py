"""Model predictive control: plan ahead, apply the first part of the plan, and plan again from the state reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.trees import tree_map
from pullback.plan.loop import Progress, minimise
from pullback.plan.methods import Method
from pullback.plan.problem import ControlProblem, HeldControls
from pullback.rollout import Run, rollout


@dataclass(frozen=True)
class Driven:
    """What a plant did.

    run:    its trajectory, which can be pulled back like any other
    plans:  one per tick, as :func:`minimise` left them
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
    """Drives ``plant`` by plans for ``task``, each from where the plant is, over the steps that the task looks ahead.

    task:        a :class:`~pullback.tasks.Task` that finds Controls. Where the goal moves, a function of the step
                 at which a plan begins (0, apply, 2 apply, ...) that gives the task from there on:
                 ``lambda first: task.but(loss=Position("tip", path[first : first + steps + 1], when="path"))``
    method:      that plans: LBFGS, Adam, ILQR, ...
    ticks:       how often to plan
    apply:       steps of each plan that are done; a multiple of the steps for which the task holds a control
    iterations:  of the method per tick; each starts from what is left of the plan before
    plant:       what really moves, a System in one world; the task's own if None
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
    find.shifted(x, apply)  # an error now rather than after the first plan
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
