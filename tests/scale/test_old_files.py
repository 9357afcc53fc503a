"""Files of every version so far can be read, and checkpoints go on from where they are; those of later ones say so."""

import json
import shutil

import numpy as np
import old_files
import pytest

import pullback as pb
from pullback.reach import ReachabilityMap
from pullback.view import load_motion

VERSIONS = sorted(path.name for path in old_files.FOLDER.iterdir())


@pytest.fixture(params=VERSIONS)
def folder(request, tmp_path):
    """A copy: checkpoints are written to."""
    return shutil.copytree(old_files.FOLDER / request.param, tmp_path / "old")


def test_there_are_files():
    assert "0.1.0" in VERSIONS


def test_a_checkpoint_of_an_optimisation(folder, tmp_path):
    (tmp_path / "new").mkdir()
    whole = old_files.minimised(tmp_path / "new", 8)
    found = old_files.minimised(folder, 8)
    assert np.array_equal(found.x, whole.x) and np.array_equal(found.losses, whole.losses) and len(whole.losses) == 8


def test_a_policy_and_its_training(folder):
    pytest.importorskip("torch")
    from pullback.learn import Policy

    policy = Policy.load(folder / "policy.npz")
    assert policy.env == "pendulum-1" and np.isfinite(policy.act(np.ones(policy.observations))).all()
    assert [row["update"] for row in old_files.trained(folder, 3).log] == [1, 2, 3]


def test_a_sweep(folder):
    """Nothing is run again."""
    before = {path: path.read_bytes() for path in folder.glob("sweep/*.csv")}
    assert len(old_files.swept(folder).rows) == 1
    assert before and all(path.read_bytes() == text for path, text in before.items())


def test_a_motion_and_a_map(folder):
    assert str(load_motion(folder / "motion.npz").title) == "old"
    poses, reachable = old_files.reached()
    assert ReachabilityMap.load(folder / "map.npz").score(poses, reachable) > 0.9


def test_checkpoints_of_another_version_say_so(folder):
    for name, read in (("state.npz", old_files.minimised), ("checkpoint.npz", old_files.trained)):
        with np.load(folder / name) as file:
            arrays = dict(file)
        if "header" in arrays:
            arrays["header"] = np.array(json.dumps(json.loads(str(arrays["header"])) | {"format": 99}))
        np.savez(folder / name, **arrays | {"format": np.array(99)})
        with pytest.raises(pb.PullbackError, match="it was written by another version"):
            read(folder, 9)
