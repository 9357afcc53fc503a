"""Tasks that are pickled have the same losses and gradients, bit for bit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import pullback as pb
from pullback.plan import Adam
from pullback.tasks import TASKS, Controls, Loss, Task

QUICK = ("racecar", "grasp", "identify", "heat-treatment", "identify-material")


def same(task: Task, twin: Task) -> None:
    x = task.begin()[0] + 0.01
    ours, theirs = (one(x[None], True) for one in (task, twin))
    for name in ("losses", "gradients", "metrics"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert np.any(ours.gradients)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_pickled(name):
    task = TASKS[name]()
    twin = pickle.loads(pickle.dumps(task))
    assert (type(twin), twin.name, twin.target, twin.camera) == (type(task), task.name, task.target, task.camera)
    if name in QUICK:
        same(task, twin)


def test_what_was_changed_since_a_task_was_made():
    """Fields, and parameters of its System; a part of a task; and the arguments it was made with."""
    task = replace(TASKS["grasp"](seed=3), iterations=7, method=Adam()).but(unit="m")
    task.system.params["mass"] = 1.5 * task.system.params["mass"]
    twin = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(task))))
    assert (twin.iterations, twin.method, twin.unit) == (7, Adam(), "m")
    assert np.array_equal(twin.system.params["mass"], task.system.params["mass"])
    same(task, twin)
    easier = TASKS["hop"]().easier[1]
    assert pickle.loads(pickle.dumps(easier)).iterations == 3


def fall(run) -> Loss:
    bar = np.zeros_like(run.q[-1])
    bar[:, 1] = run.q[-1][:, 1]
    return Loss(run.q[-1][:, 1] ** 2 / 2, {"q_bar": bar})


def angle(run) -> np.ndarray:
    return np.abs(run.q[-1][:, 1])


def test_a_task_of_ones_own():
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    task = Task(
        name="up", about="up", system=system, start=system.state([0.0, 1.0]), find=Controls(20), loss=fall,
        metric=angle, target=0.1,
    )  # fmt: skip
    same(task, pickle.loads(pickle.dumps(task)))
