"""The public interface as its users write it. mypy reads this file (``make lint``); tests/test_interface.py runs it."""

from collections.abc import Mapping
from typing import assert_type

import numpy as np
import torch

import pullback as pb
import pullback.torch as pbt
from pullback import plan, tasks


class Spring(pb.System):
    """A System of a user: a mass on a spring, in plain NumPy."""

    worlds, nu, dtype, device = 1, 1, "float64", "cpu"
    h = 0.1  # [s]

    def __init__(self) -> None:
        self.params = {"k": np.array(2.0)}  # [N/m]

    def step(self, state: pb.State, control: np.ndarray, params: Mapping | None = None) -> pb.State:
        v = state.v + self.h * (control - {**self.params, **(params or {})}["k"] * state.q)
        return pb.State(state.q + self.h * v, v)

    def pullback(
        self, state: pb.State, control: np.ndarray, next_bar: pb.State, params: Mapping | None = None
    ) -> pb.Bars:
        k = {**self.params, **(params or {})}["k"]
        v_bar = next_bar.v + self.h * next_bar.q
        bars = {"k": -self.h * np.sum(v_bar * state.q)}
        return pb.Bars(pb.State(next_bar.q - self.h * k * v_bar, v_bar), self.h * v_bar, bars)


def robot_and_gradient() -> float:
    model = assert_type(pb.load(pb.robots.cartpole()), pb.Model)
    system = assert_type(pb.Articulated(model, contact=None, worlds=2, dtype="float64"), pb.Articulated)
    start = assert_type(system.state(q=[0.0, 0.3]), pb.State)
    run = assert_type(pb.rollout(system, start, np.zeros((5, 2, 1)), checkpoint_every="sqrt"), pb.Run)
    bars = assert_type(run.pullback(q_bar=np.ones((2, system.nq))), pb.Bars)
    mass_bar: np.ndarray = bars.params["mass"]
    return float(np.abs(mass_bar).max())


def own_system() -> float:
    report = pb.check_system(Spring(), pb.State(np.ones((1, 1)), np.ones((1, 1))))
    return report["k"].error


def planned() -> plan.Progress:
    """A pendulum is turned by a radian."""
    system = pb.Articulated(pb.load(pb.robots.pendulum()), contact=None)
    goal = tasks.StateGoal(q=[1.0])
    task = tasks.Task(
        name="turn",
        about="by a radian",
        system=system,
        start=system.state(),
        find=tasks.Controls(20, hold=5),
        loss=goal + 1e-3 * tasks.Effort(),
        metric=goal.distance,
        target=0.1,
    )
    x, low, high = task.begin()
    return plan.minimise(task, x, plan.LBFGS(), iterations=3, low=low, high=high)


def by_torch() -> torch.Tensor:
    system = pb.Articulated(pb.load(pb.robots.cartpole()), contact=None)
    controls = torch.zeros((5, 1, 1), dtype=torch.float64, requires_grad=True)
    q, v = pbt.rollout(system, torch.zeros((1, 2)).double(), torch.zeros((1, 2)).double(), controls)
    (q[-1].sum() + v[-1].sum()).backward()
    assert controls.grad is not None
    return controls.grad
