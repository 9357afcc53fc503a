"""``pullback optimize`` of the tasks that plan: files, metrics, exit codes."""

import json

import numpy as np
import pytest
from stand_ins import foot_map, hand_map

from pullback.cli import main
from pullback.reach import check_place
from pullback.tasks import placement
from pullback.tasks.footsteps import random_footsteps
from pullback.tasks.locomanip import random_locomanip
from pullback.tasks.multicontact import random_multicontact
from pullback.tasks.placement import random_placement
from pullback.view import load_motion

CONTACTS = {"footsteps": 2 * 17, "multicontact": 2 + 3 * 12, "locomanip": 3 * 18, "placement": 10}


@pytest.mark.parametrize("name", CONTACTS)
def test_solved_checked_and_written(name, few_samples, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["optimize", name, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["solved"] and summary["contacts"] == summary["reached"] == CONTACTS[name]
    assert summary["metric"] <= summary["target"] == (2e-3 if name == "placement" else 5e-3)
    assert "solved in" in summary["report"]
    result = np.load(tmp_path / "out" / name / "result.npz", allow_pickle=False)
    assert np.isfinite(result["q"]).all() and len(result["postures"]) > 5
    drawing = load_motion(tmp_path / "out" / name)
    assert drawing.frames == len(result["q"]) > 50
    # What moves along: the map of the hand, the door.
    kinds = {"multicontact": {"mesh"}, "locomanip": {"mesh"}}.get(name, set())
    assert kinds <= set(drawing.shape_kind.tolist())
    assert b"<html" in (tmp_path / "out" / name / "replay.html").read_bytes().lower()


def test_a_plan_that_is_not_finished(few_samples, tmp_path, monkeypatch, capsys):
    """One iteration is not enough where the way is blocked; the report says for what. Exit code 1."""
    monkeypatch.chdir(tmp_path)
    assert main(["optimize", "footsteps", "--seed", "10", "--iterations", "1", "--out", "out/footsteps-10"]) == 1
    out = capsys.readouterr().out
    assert "not solved after 1 iterations" in out and "violated by" in out
    written = {path.name for path in (tmp_path / "out/footsteps-10").iterdir()}
    # maps are kept in the cache, wherever plans go
    assert written == {".lock", "result.npz", "result.json", "replay.html"}


def test_there_is_no_method_to_choose(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["optimize", "footsteps", "--method", "adam"]) == 2
    assert "leave out --method" in capsys.readouterr().err


@pytest.mark.parametrize("option", (["--device", "cuda"], ["--all"], ["--fresh"]))
def test_options_that_mean_nothing(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["optimize", "footsteps", *option]) == 2
    told = capsys.readouterr().err.strip()
    assert f"leave out {option[0]}" in told and "\n" not in told
    assert not (tmp_path / "out").exists()


def test_a_target_that_is_reached_through_the_arm_itself_is_not_reached(tmp_path, monkeypatch, capsys):

    def colliding(*given):
        found = check_place(*given)
        return found._replace(reached=found.reached & (np.arange(len(found.reached)) > 0))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(placement, "check_place", colliding)
    monkeypatch.setattr(placement, "SAMPLES", 1500)
    assert main(["optimize", "placement", "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert not summary["solved"] and summary["reached"] == 9


def test_seeds_choose_the_problem():
    class Maps:
        foot, hand = foot_map(), hand_map()

    for make, read in (
        (lambda seed: random_footsteps(foot_map(), seed), lambda problem: problem.goal),
        (lambda seed: random_multicontact(Maps, seed), lambda problem: problem.goal),
        (lambda seed: random_locomanip(Maps, seed), lambda problem: problem.start.left),
        (lambda seed: random_placement(hand_map(), seed), lambda problem: problem.targets),
    ):
        one, same, other = (np.asarray(read(make(seed))) for seed in (3, 3, 4))
        np.testing.assert_array_equal(one, same)
        assert np.abs(one - other).max() > 1e-3
