"""Closed-loop rollouts with a policy, and resets of worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.core.status import Status
from pullback.core.system import System
from pullback.core.trees import is_state, start_of, tree_map, where, world_mask
from pullback.torch.functions import check_control, prepare
from pullback.torch.tensors import take


def closed_loop(
    system: System,
    policy: Callable,
    *start,
    steps: int,
    observe: Callable | None = None,
    params: Mapping | None = None,
    inputs: Mapping | None = None,
    hold: int = 1,
    detach_every: int | None = None,
    status: Status | None = None,
):
    """States and controls under a policy: ``states, controls = closed_loop(system, policy, state, steps=100)``.

    The states are those of :func:`rollout`, q (steps + 1, worlds, nq) and v (steps + 1, worlds, nv) for a robot, and
    the controls (steps, worlds, nu). Gradients flow to the policy's parameters, the initial state, ``params`` and
    ``inputs``. The fields of the initial state may also be given one by one; then states is a plain tuple: ``(q, v),
    controls = closed_loop(system, policy, q0, v0, steps=100)``.

    policy:    a torch.nn.Module or any function that maps the result of ``observe`` to a control (worlds, nu)
    steps:     number of calls of the policy; each control is held for ``hold`` timesteps
    observe:   maps a state to the policy's input; None: the state itself
    params, inputs: as for :func:`rollout`
    detach_every: n: gradients do not flow through the states at steps n, 2n, ..., for short-horizon policy gradients
    status:    a ``pullback.Status()`` to be filled in: worlds that fail keep their last state, and their states and
               controls have no gradient. Its steps count timesteps. Without one, failure is an error.
    """
    if not start:
        raise PullbackError("give a state to start from: closed_loop(system, policy, state, steps=100)")
    state, _ = start_of(system, (*start, None))
    if not callable(policy):
        raise PullbackError(f"policy must be a function, such as a torch.nn.Module, not {type(policy).__name__}")
    steps = check_whole(steps, "steps")
    every = steps if detach_every is None else check_whole(detach_every, "detach_every")
    call = prepare(system, state, params, inputs, hold=hold, last=True)
    for name, x in (inputs or {}).items():
        if x.shape[:1] != (steps,):
            raise PullbackError(
                f"input {name!r} has shape {tuple(x.shape)}, but (steps={steps}, worlds, ...) is needed"
            )
    failures = None if status is None else _Failures(system.worlds, call.hold)
    rows, controls = [state], []
    for t in range(steps):
        if t and t % every == 0:
            state = tree_map(torch.Tensor.detach, state)
        control = _act(policy, state) if observe is None else policy(observe(state))
        control = check_control(system, control, "the policy's control")
        given = {name: x[t] for name, x in (inputs or {}).items()}
        if failures is None:
            state = call(state, control, given)
        else:
            one = Status()
            state = failures.mask(one, state, call._replace(status=one)(state, control, given))
        rows.append(state)
        controls.append(control)
    states = tree_map(lambda *x: torch.stack(x), *rows)
    controls = torch.stack(controls)
    if failures is not None and status is not None:
        states, controls = tree_map(failures.without_gradient, states), failures.without_gradient(controls)
        status.set(failures.codes, failures.describe)
    return (states if is_state(start[0]) else tuple(states)), controls


def _act(policy: Callable, state):
    """The policy's output for a state without ``observe``; a clear error if a module needs a tensor instead."""
    try:
        return policy(state)
    except TypeError as error:
        kind = type(state).__name__
        if not isinstance(policy, torch.nn.Module) or f"not {kind}" not in str(error):
            raise
        fields = ", ".join(f"state.{name}" for name in state._fields)
        example = f"observe=lambda state: torch.cat([{fields}], dim=1)"
        raise PullbackError(f"the policy was given a {kind}, not a tensor: say what it sees, as {example}") from error


class _Failures:
    """The worlds of a loop that have failed so far, with step and reason."""

    def __init__(self, worlds: int, hold: int):
        self.hold = hold
        self.steps: list[Status] = []
        self.codes = torch.full((worlds, 2), -1)

    def mask(self, step: Status, before, after):
        """The state after a step; worlds that had failed before keep their state, detached like those that fail now."""
        codes = take(step.codes)
        gone = self.failed.to(codes.device)
        codes = torch.stack([codes[:, 0], codes[:, 1] + self.hold * len(self.steps)], dim=1)
        new = (take(step.codes)[:, 1] >= 0) & ~gone
        self.codes = torch.where(new[:, None], codes, self.codes.to(codes))
        self.steps.append(step)
        after = where(gone, before, after, select=torch.where)
        return where(self.failed, tree_map(torch.Tensor.detach, after), after, select=torch.where)

    @property
    def failed(self) -> torch.Tensor:
        return self.codes[:, 1] >= 0

    def without_gradient(self, x: torch.Tensor) -> torch.Tensor:
        """x (steps, worlds, ...), detached in worlds that failed."""
        return torch.where(self.failed.reshape(1, -1, *(1,) * (x.ndim - 2)), x.detach(), x)

    def describe(self, world: int, code: int, step: int) -> str:
        return f"in call {step // self.hold} of the policy: {self.steps[step // self.hold].reasons[world]}"


def reset(system: System, state, worlds, start=None):
    """The state with some worlds set to a start state. Gradients flow to the other worlds as before, and to ``start``.

    state:  of tensors (worlds, ...), or a plain tuple of its fields; the result has the same form
    worlds: (worlds,) booleans, such as ``status.failed``, or indices of worlds
    start:  a state of all worlds, from which the chosen worlds are taken; ``system.state()`` if None
    """
    named = state if is_state(state) else system.state_type(*state)
    start = start if start is None or is_state(start) else system.state_type(*start)
    start = tree_map(_tensor_like, system.start_like(named, start), named)
    mask = torch.as_tensor(world_mask(worlds, system.worlds), device=system.device)
    chosen = where(mask, start, named, select=torch.where)
    return chosen if is_state(state) else tuple(chosen)


def _tensor_like(x, like: torch.Tensor) -> torch.Tensor:
    return (x if isinstance(x, torch.Tensor) else take(x)).to(like)
