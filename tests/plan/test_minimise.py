"""Methods on functions whose minimum is known, and runs that are broken off and go on."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import pullback as pb
from pullback.plan import CMA, LBFGS, REACHED, SGD, SPENT, STALLED, Adam, Found, minimise

GRADIENT_METHODS = {"sgd": SGD(rate=1e-3, momentum=0.9), "adam": Adam(rate=0.05, decay=3000), "lbfgs": LBFGS()}


def rosenbrock(points, wants_gradients):
    x, y = points.T
    losses = (1 - x) ** 2 + 100 * (y - x * x) ** 2
    gradients = np.stack([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)], axis=1)
    return Found(losses, gradients if wants_gradients else None, np.hypot(x - 1, y - 1))


@pytest.mark.parametrize("method", [*GRADIENT_METHODS.values(), CMA(spread=0.5)], ids=[*GRADIENT_METHODS, "cma"])
def test_every_method_finds_the_minimum(method):
    found = minimise(rosenbrock, np.array([-1.2, 1.0]), method, iterations=5000, target=1e-3)
    assert found.stopped == REACHED
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-3)
    assert found.metrics[-1] <= 1e-3 and found.losses[found.best] == found.losses.min()


def test_lbfgs_is_quick():
    found = minimise(rosenbrock, np.array([-1.2, 1.0]), LBFGS(), iterations=100, target=1e-6)
    assert found.stopped == REACHED and found.evaluations <= 60


def test_lbfgs_at_kinks():
    """|x| + 10 |y - x²|: no gradient at the minimum, nor along the valley that leads there."""

    def problem(points, wants_gradients):
        x, y = points.T
        off = y - x * x
        gradients = np.stack([np.sign(x) - 20 * x * np.sign(off), 10 * np.sign(off)], axis=1)
        return Found(np.abs(x) + 10 * np.abs(off), gradients, np.hypot(x, y))

    found = minimise(problem, np.array([1.3, -0.7]), LBFGS(), iterations=400, target=1e-3)
    assert found.stopped == REACHED


@pytest.mark.parametrize("method", [*GRADIENT_METHODS.values(), CMA(spread=0.3)], ids=[*GRADIENT_METHODS, "cma"])
def test_bounds(method):
    """The minimum of the square lies outside; the nearest allowed point is a corner and the rest of an edge."""
    goal = np.array([2.0, -1.0, 0.3])
    low, high = np.array([-1.0, -0.5, -1.0]), np.array([1.5, 1.0, np.inf])

    def problem(points, wants_gradients):
        assert np.all(points >= low) and np.all(points <= high)
        away = points - goal
        return Found((away**2).sum(axis=1), 2 * away, np.zeros(len(points)))

    found = minimise(problem, np.zeros(3), method, iterations=3000, low=low, high=high)
    np.testing.assert_allclose(found.x, [1.5, -0.5, 0.3], atol=2e-3)


@pytest.mark.parametrize("method", [*GRADIENT_METHODS.values(), CMA(spread=0.5)], ids=[*GRADIENT_METHODS, "cma"])
def test_points_that_cannot_be_evaluated_are_stepped_back_from(method):
    """Simulations that blow up beyond x = 0.4, short of which the minimum lies."""

    def problem(points, wants_gradients):
        x = points[:, 0]
        losses = np.where(x > 0.4, np.nan, -100 * x + 1.0 / np.maximum(0.401 - x, 1e-9) * 1e-3)
        gradients = np.where(x > 0.4, np.nan, -100 + 1e-3 / np.maximum(0.401 - x, 1e-9) ** 2)[:, None]
        return Found(losses, np.concatenate([gradients, points[:, 1:] * 0], axis=1), np.abs(x - 0.4))

    found = minimise(problem, np.array([0.0, 0.0]), method, iterations=400)
    assert np.isfinite(found.losses[found.best]) and 0.3 < found.x[0] <= 0.4


def test_a_first_guess_that_cannot_be_evaluated():
    def bad(points, wants_gradients):
        nothing = np.full(points.shape, np.nan)
        return Found(nothing[:, 0], nothing, nothing[:, 0])

    for method in GRADIENT_METHODS.values():
        with pytest.raises(pb.PullbackError, match="first guess cannot be evaluated"):
            minimise(bad, np.zeros(2), method, iterations=5)


def test_why_it_stops():
    assert minimise(rosenbrock, np.array([-1.2, 1.0]), SGD(rate=1e-4), iterations=7).stopped == SPENT
    stuck = minimise(rosenbrock, np.array([1.0, 1.0]), Adam(rate=0.1), iterations=100, patience=9)
    assert stuck.stopped == STALLED and stuck.iterations == 10


@pytest.mark.parametrize("x", [np.zeros((2, 2)), np.zeros(0), np.array([np.nan])])
def test_first_guesses_of_the_wrong_kind(x):
    with pytest.raises(pb.PullbackError, match="first guess"):
        minimise(rosenbrock, x, LBFGS(), iterations=3)


def test_bounds_that_exclude_each_other():
    with pytest.raises(pb.PullbackError, match="variable 1"):
        minimise(rosenbrock, np.zeros(2), LBFGS(), iterations=3, low=[0, 2], high=[1, 1])


@pytest.mark.parametrize("make", [lambda: SGD(rate=-1), lambda: Adam(beta1=2), lambda: LBFGS(memory=0)])
def test_settings_are_checked(make):
    with pytest.raises(pb.PullbackError, match="must be a number in"):
        make()


# going on


def test_one_cma_serves_two_minimisations_at_once():
    """What it knows is in the memory it is given, not in itself."""

    def steps(method, seed):
        memory = method.begin(np.ones(3), np.full(3, -np.inf), np.full(3, np.inf), seed)
        for _ in range(4):
            points = method.ask(memory)
            yield points
            memory = method.tell(memory, np.where(points[:, 0] > 0, np.sum(points**2, axis=1), np.nan), None)

    shared = CMA(spread=0.5)
    for together in zip(steps(shared, 1), steps(shared, 2), steps(CMA(spread=0.5), 1), strict=True):
        np.testing.assert_array_equal(together[0], together[2])
        assert not np.array_equal(together[0], together[1])


@pytest.mark.parametrize("make", [*(lambda m=m: m for m in GRADIENT_METHODS.values()), lambda: CMA(spread=0.5)])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(make, tmp_path, monkeypatch):
    monkeypatch.setattr("pullback.plan.loop.SAVE_AFTER", 0.0)
    start = np.array([-1.2, 1.0])
    whole = minimise(rosenbrock, start, make(), iterations=40)

    left = iter(range(17))

    def broken(points, wants_gradients):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return rosenbrock(points, wants_gradients)

    path = tmp_path / "state.npz"
    with pytest.raises(KeyboardInterrupt):
        minimise(broken, start, make(), iterations=40, checkpoint=path)
    again = minimise(rosenbrock, start, make(), iterations=40, checkpoint=path)
    np.testing.assert_array_equal(again.losses, whole.losses)
    np.testing.assert_array_equal(again.x, whole.x)
    assert again.evaluations == whole.evaluations
    more = minimise(rosenbrock, start, make(), iterations=45, checkpoint=path)  # asked for later
    np.testing.assert_array_equal(more.losses, minimise(rosenbrock, start, make(), iterations=45).losses)


def test_a_checkpoint_of_another_method_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    minimise(rosenbrock, np.zeros(2), LBFGS(), iterations=3, checkpoint=path)
    with pytest.raises(pb.PullbackError, match="another method"):
        minimise(rosenbrock, np.zeros(2), Adam(), iterations=3, checkpoint=path)
    path.write_bytes(b"nonsense")
    with pytest.raises(pb.PullbackError, match="cannot be read"):
        minimise(rosenbrock, np.zeros(2), Adam(), iterations=3, checkpoint=path)


WORKER = """
import sys, time
import numpy as np
import pullback.plan.loop as m
from pullback.plan import Adam, Found
m.SAVE_AFTER = 0.0
def problem(points, wants):
    time.sleep(0.002)
    x, y = points.T
    g = np.stack([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)], axis=1)
    return Found((1 - x) ** 2 + 100 * (y - x * x) ** 2, g, np.hypot(x - 1, y - 1))
print("ready", flush=True)
found = m.minimise(problem, np.array([-1.2, 1.0]), Adam(rate=0.02), iterations=300, checkpoint=sys.argv[1])
print(found.x.tobytes().hex(), found.iterations)
"""


def test_killed_again_and_again(tmp_path):
    """kill -9 at moments of its choosing: what is left is always a whole file, and the end is the same."""
    path = tmp_path / "state.npz"
    whole = subprocess.run([sys.executable, "-c", WORKER, tmp_path / "whole.npz"], capture_output=True, text=True)
    rng = np.random.default_rng(0)
    for _ in range(4):
        worker = subprocess.Popen([sys.executable, "-c", WORKER, path], stdout=subprocess.PIPE, text=True)
        worker.stdout.readline()
        time.sleep(rng.uniform(0.05, 0.25))
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
    end = subprocess.run([sys.executable, "-c", WORKER, path], capture_output=True, text=True)
    assert end.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]
    assert end.stdout.split()[-1] == "300"


def test_a_problem_that_was_changed_is_not_gone_on_with(tmp_path):
    """The answer to the old problem would look like one to the new."""
    at = tmp_path / "state.npz"
    minimise(rosenbrock, np.array([-1.2, 1.0]), LBFGS(), iterations=3, checkpoint=at)

    def other(points, wants_gradients):
        found = rosenbrock(points - 0.5, wants_gradients)
        return Found(found.losses, found.gradients, found.metrics)

    with pytest.raises(pb.PullbackError, match="the problem was changed.*--fresh"):
        minimise(other, np.array([-1.2, 1.0]), LBFGS(), iterations=6, checkpoint=at)


@pytest.mark.parametrize("broken", [b"PK\x03\x04junk", b"", "half", "array"])
def test_broken_checkpoints(tmp_path, broken):
    at = tmp_path / "state.npz"
    minimise(rosenbrock, np.array([-1.2, 1.0]), LBFGS(), iterations=3, checkpoint=at)
    if broken == "half":
        broken = at.read_bytes()[:500]
    if broken == "array":
        with open(at, "wb") as file:
            np.save(file, np.zeros(3))
    else:
        at.write_bytes(broken)
    with pytest.raises(pb.PullbackError, match="cannot be read as a checkpoint"):
        minimise(rosenbrock, np.array([-1.2, 1.0]), LBFGS(), iterations=6, checkpoint=at)


@pytest.mark.parametrize("given", [{"iterations": 0}, {"iterations": 2.5}, {"iterations": None}, {"method": LBFGS}])
def test_bad_arguments(given):
    given = {"method": LBFGS(), "iterations": 3, **given}
    with pytest.raises(pb.PullbackError, match="must be"):
        minimise(rosenbrock, np.zeros(2), given.pop("method"), **given)
