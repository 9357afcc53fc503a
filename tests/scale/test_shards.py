"""Sums over shards: the same bits on any workers, and after any of them has died."""

import os
import signal
import time

import numpy as np
import pytest
import shard_problems

import pullback as pb
from pullback.scale import Shard, Shards
from pullback.scale.shards import added

X = np.linspace(-1, 1, 1000)
COUNT = 6


@pytest.fixture(scope="module")
def two():
    with Shards(shard_problems.any_of, shards=COUNT, workers=2, seed=3) as shards:
        yield shards


@pytest.fixture(scope="module")
def one():
    with Shards(shard_problems.any_of, shards=COUNT, workers=1, seed=3) as shards:
        yield shards


def here(seed=3):
    """The sum in order, in this process."""
    parts = [shard_problems.quadratic(Shard(k, COUNT, seed))(X) for k in range(COUNT)]
    loss, slope = parts[0]
    for more, other in parts[1:]:
        loss, slope = loss + more, slope + other
    assert not np.array_equal(sum(part[1] for part in parts[::-1]), slope)  # else bits would say nothing
    return loss, slope


def same(a, b) -> bool:
    return a[0] == b[0] and np.array_equal(a[1], b[1])


def test_the_same_bits_on_any_workers(one, two):
    assert all(same(shards.gradient("quadratic", X), here()) for shards in (one, two, two))
    assert not np.array_equal(here(seed=4)[1], here()[1])


def test_a_gradient_through_simulators(one, two):
    """By controls and by a parameter: the same bits on one worker and two, and the slope of the loss."""
    given = {"controls": np.full((20, 1), 0.3), "mass": np.array([0.0, 1.0, 1.2])}
    slopes, again = (shards.gradient("pendulums", *given.values()) for shards in (one, two))
    assert all(np.array_equal(slopes[name], again[name]) for name in slopes)
    for name, direction in (("controls", np.cos(np.arange(20))[:, None]), ("mass", np.array([0, 1, 0.5]))):
        slope, size = np.sum(slopes[name] * direction), 1e-5
        up, down = ({**given, name: given[name] + sign * size * direction} for sign in (1, -1))
        rise = two.gradient("pendulums", *up.values())["loss"] - two.gradient("pendulums", *down.values())["loss"]
        assert abs(slope) > 1e-3 and abs(rise / (2 * size) - slope) < 1e-7 * abs(slope)


def test_own_arguments_and_work_for_everybody(two):
    assert len(set(two.map("where"))) == 2
    assert two.map("scaled", 2.0, each=[10**k for k in range(COUNT)]) == [2.0 * 10**k for k in range(COUNT)]
    assert two.gradient("scaled", 2.0, each=[10**k for k in range(COUNT)]) == 222222.0


@pytest.mark.parametrize(
    "parts", [[np.ones(3), np.ones(1)], [{"a": 1.0}, {"a": 1.0, "b": 2.0}], [(1.0, 2.0), (1.0,)], [None, 1.0]]
)
def test_what_does_not_add_up(parts):
    """An array of one entry would be added to every entry of another, and a name that the first lacks be left out."""
    with pytest.raises(pb.PullbackError, match="cannot be added up: some return"):
        added(parts)


def test_arguments_for_another_number_of_shards(two):
    with pytest.raises(pb.PullbackError, match=f"each of {COUNT} shards, not {COUNT + 1}"):
        two.map(X, each=list(range(COUNT + 1)))


def test_builds_that_workers_cannot_use():
    with pytest.raises(pb.PullbackError, match="build must be a function that a worker can import"):
        Shards(lambda shard: abs, shards=1, workers=1)
    with Shards(shard_problems.nothing, shards=1, workers=1) as shards:
        with pytest.raises(pb.PullbackError, match="build must return a function, not NoneType"):
            shards.map()


@pytest.mark.parametrize("error", [pb.PullbackError("worlds are flat", worlds=[3]), ZeroDivisionError("of shards")])
def test_errors_come_back_and_the_shards_live_on(two, error):
    for _ in range(2):
        with pytest.raises(type(error), match=str(error)) as raised:
            two.gradient("broken", error)
        assert "in shard 2 of 6" in raised.value.__notes__
    assert raised.value.args == error.args and getattr(raised.value, "worlds", ()) == getattr(error, "worlds", ())
    assert same(two.gradient("quadratic", X), here())


def test_workers_that_die_are_replaced(two, tmp_path):
    assert same(two.gradient("deadly", X, str(tmp_path), (1, 4), 2), here())
    assert len(list(tmp_path.iterdir())) == 4


def test_a_worker_killed_between_two_calls(two):
    before = set(two.map("where"))
    os.kill(min(before), signal.SIGKILL)
    assert min(before) not in two.map("where")
    while len(set(two.map("where"))) < 2:  # the new one gets work as soon as it is there
        time.sleep(0.01)


def test_a_shard_that_kills_every_worker_is_given_up(one, tmp_path):
    with pytest.raises(pb.PullbackError, match="job 1 was given up: 3 workers died of it"):
        one.gradient("deadly", X, str(tmp_path), (1,), 3)
    assert same(one.gradient("quadratic", X), here())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shards": 0}, "shards must be a whole number of at least 1"),
        ({"workers": 0}, "workers must be"),
        ({"cpus": 0.5}, "cpus must be"),
        ({"address": 6379}, "address must be a str, such as"),
        ({"seed": -1}, "seed must be"),
        ({"build": 3}, "build must be a function of a Shard, not int"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(pb.PullbackError, match=message):
        Shards(**{"build": shard_problems.quadratic} | options)


def test_shards_that_were_closed(two):
    """The last test: no worker stays."""
    workers = set(two.map("where"))
    two.close()
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
    with pytest.raises(pb.PullbackError, match="closed"):
        two.map("where")
