"""Tasks and samples on many workers: the same numbers as here."""

import json

import numpy as np
import pytest
from sweep_targets import two_masses, warm_up

import pullback as pb
from pullback.cli import main
from pullback.plan import LBFGS, GaussNewton, minimise
from pullback.scale import Spread, sample
from pullback.tasks import TASKS


def test_identification_from_many_recordings():
    """Sums over recordings to rounding, and the same bits on one worker and two."""
    task, x = two_masses(), np.array([0.05, -0.1])
    here, found = task(x[None], True, True), []
    for workers in (1, 2):
        with Spread(task, two_masses, method=LBFGS(), workers=workers) as spread:
            found.append(spread(x[None], True, True))
            solved = minimise(spread, x, GaussNewton(), iterations=2) if workers == 2 else None
    one, two = found
    for name in ("losses", "gradients", "metrics", "curvatures"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
        size = np.abs(getattr(here, name)).max()
        assert size > 0 and np.abs(getattr(one, name) - getattr(here, name)).max() < 1e-10 * size, name
    assert solved.losses[-1] < 0.9 * solved.losses[0] == 0.9 * one.losses[0]


def test_parts_of_a_task():
    identify = TASKS["identify"]()
    part = identify.part(slice(2, 4))
    assert part.motions == 2 and np.array_equal(part.loss.scale(), identify.loss.scale())
    with pytest.raises(pb.PullbackError, match="the loss of 'warm-up' cannot be divided by trajectories"):
        warm_up().part(slice(0, 1))


def test_a_population_is_shared_out():
    task = warm_up()
    points = np.random.default_rng(0).normal(size=(21, len(task.begin()[0])))
    here = task(points, True)
    with Spread(task, warm_up, workers=2) as spread:
        found = spread(points, True)
        assert np.array_equal(spread(points[:1], False).losses, here.losses[:1])  # most shards have none
    with pytest.raises(pb.PullbackError, match="Adam asks for one point after the other"):
        Spread(task, method=task.method, workers=1)
    for name in ("losses", "gradients", "metrics"):
        assert np.array_equal(getattr(found, name), getattr(here, name)), name
    assert np.abs(here.gradients).min() > 0


def test_samples_of_a_reach():
    """The same poses from one worker and two, half of them reachable, as inverse kinematics here says."""
    model = pb.load(pb.robots.arm())
    names = model.body_names[1], model.body_names[-1]
    one, two = (sample(model, *names, "R3", n=401, shards=3, workers=workers) for workers in (1, 2))
    assert np.array_equal(one.poses, two.poses) and np.array_equal(one.reachable, two.reachable)
    assert len(one) == 401 and 198 <= one.reachable.sum() <= 203
    assert len(np.unique(one.poses, axis=0)) == 401
    limb = pb.reach.sampling.Limb(model, *names, "R3")
    reached = limb.solve(one.poses, starts=10, rng=np.random.default_rng(0)).reached
    assert np.mean(reached == one.reachable) > 0.98


def test_from_the_command_line(tmp_path, capsys):
    """A file's task, made again on each worker; the same result with one and two."""
    file = tmp_path / "my_task.py"
    file.write_text("from sweep_targets import two_masses as task")
    found = []
    for workers in ("1", "2"):
        out = ["--workers", workers, "--out", str(tmp_path / workers), "--json", "--all"]
        assert main(["optimize", str(file), "--method", "gauss-newton", "--iterations", "3", *out]) in (0, 1)
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["loss"] == found[1]["loss"] > 0 and found[0]["estimates"] == found[1]["estimates"]
    assert main(["optimize", "throw", "--workers", "2", "--out", str(tmp_path / "throw")]) == 2
    assert "workers do not help" in capsys.readouterr().err
