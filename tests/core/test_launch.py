"""Threads that launch kernels at the same time, and kernels that wait for each other."""

import threading

import numpy as np
import pytest

import pullback as pb
from pullback import thermal
from pullback.core.launch import CLOSED, Crew


def start_only(monkeypatch, times: int) -> None:
    """Threads can be started only so many times more, as where a process has all that it may have."""
    left, start = iter(range(times)), threading.Thread.start

    def start_or_fail(thread):
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)


@pytest.mark.parametrize("started", [0, 1])
@pytest.mark.parametrize("method", ["explicit", "implicit"])
def test_a_core_that_cannot_start_leaves_nobody_waiting(monkeypatch, method, started):
    """The error comes back, those that had started are done, and the next call works."""
    mesh = thermal.block((10e-3, 10e-3, 8e-3), (10, 10, 8))
    path = thermal.follow([(2e-3, 2e-3, 8e-3), (8e-3, 7e-3, 8e-3)], speed=5e-3)
    heat = thermal.Heat(mesh, thermal.steel_316l(), path, dt=0.02, method=method, threads=2)
    assert len(heat._stepper.shares) == 2
    start, controls = heat.state(), heat.default_controls(3)
    wanted = pb.rollout(heat, start, controls)
    crew = heat._stepper.crew
    bar = np.ones((1, heat.n))
    expected = wanted.pullback(T_bar=bar)
    for call in (lambda: pb.rollout(heat, start, controls), lambda: wanted.pullback(T_bar=bar)):
        crew._pool.shutdown()
        crew.renew()
        before = set(threading.enumerate())
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="start new thread"):
            start_only(patch, started)
            call()
        assert heat._stepper.gate.numpy()[0] <= CLOSED + started
        assert set(threading.enumerate()) <= before and not crew.lock.locked()  # those of others may end meanwhile
        np.testing.assert_array_equal(pb.rollout(heat, start, controls).T, wanted.T)
        np.testing.assert_array_equal(wanted.pullback(T_bar=bar).state.T, expected.state.T)


def test_what_was_started_is_done_before_the_error_is_out():
    """Also of kernels that do not wait for each other: their workspace is in use until then."""
    crew, release, done = Crew(), threading.Event(), []

    class Slow:
        def launch(self):
            release.wait(10)
            done.append(True)

    class Broken:
        def launch(self):
            release.set()
            raise RuntimeError("broken")

    with crew.lock, pytest.raises(RuntimeError, match="broken"):
        crew.launch([Broken(), Slow(), Slow()])
    assert done == [True, True]
