"""What Ray Tune runs: the same as a run of a sweep, reported after every iteration."""

import os
import sys
from pathlib import Path

import pytest
import sweep_targets

import pullback as pb
from pullback.scale import sweep, trainable

ray = pytest.importorskip("ray")

from ray import tune  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    patch = pytest.MonkeyPatch()  # workers import what their node has
    folders = [str(Path(sweep_targets.__file__).parent), os.environ.get("PYTHONPATH", "")]
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))
    patch.setenv("RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS", "0")
    ray.init(address="local", num_cpus=2, include_dashboard=False)
    yield
    ray.shutdown()
    patch.undo()


def tried(space: dict, folder: Path, **options):
    return tune.Tuner(
        trainable(sweep_targets.warm_up, iterations=4),
        param_space=space,
        tune_config=tune.TuneConfig(metric="metric", mode="min", **options),
        run_config=tune.RunConfig(storage_path=str(folder), verbose=0),
    ).fit()


def test_a_trial_is_a_run_of_a_sweep(tmp_path):
    """With the same numbers; the best of the search is the best of the grid."""
    rates = [0.05, 0.1]
    grid = sweep(sweep_targets.warm_up, {"method.rate": rates}, iterations=4, out=tmp_path / "grid", workers=1)
    found = tried({"method.rate": tune.grid_search(rates)}, tmp_path / "tune")
    rows = {result.config["method.rate"]: result for result in found}
    for row in grid.rows:
        result = rows[row["method.rate"]]
        assert result.metrics["metric"] == row["metric"] and result.metrics["loss"] == row["loss"] > 0
        told = result.metrics_dataframe
        assert len(told) == row["iterations"] + 1 == 5 and (told["loss"].diff().dropna() <= 0).all()
    assert found.get_best_result().config["method.rate"] == grid.best["method.rate"]


def test_a_setting_that_does_not_exist_is_named(tmp_path):
    (result,) = tried({"method.speed": 1.0}, tmp_path)
    assert "no setting of" in str(result.error) and "speed" in str(result.error)


def test_without_ray_tune(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(pb.PullbackError, match=r'pip install "pullback\[tune\]"'):
        trainable("throw", iterations=3)
