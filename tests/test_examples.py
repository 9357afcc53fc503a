"""Every example runs as written, from anywhere, and says that it succeeded."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "01_first_gradient.py": r"d angle / d mass of pole: +-0\.3003 rad/kg",
    "02_swing_up.py": r"success: the pole stands",
    "03_identify_mass.py": r"success: every mass is within 5 %",
    "04_slide_a_box.py": r"success: within 2 cm and 0\.02 rad of the target",
    "05_my_task.py": r"success: target reached after \d+ motions: cart at 0\.\d+ m",
    "06_identify.py": r"undetermined: mass of link1\n(.*\n)+success: errors of \d\.\d% at most, 1[23] of 13",
    "08_reach.py": r"success: inverse kinematics reaches (19[7-9]|200) of 200",
    "07_mpc.py": r"success: planned anew every 50 ms, the pole stays within 0\.\d+ rad",
    "11_data_parallel.py": r"1 process, gradient 0\.36946\d+\n(.*\n)+success: the loss fell from 0\.109",
    "10_billiards.py": r"at rest \[0\. 0\.\] m·s\n(.*\n)+success: \d\.\d cm from the goal after \d+ iterations"
    r"(.*\n)+ContactConvex, surrogate(.*\n)+success: \d\.\d cm",
    "09_pareto.py": r"success: [23] of 3 solutions are on the front",
}
WRITES = {
    "02_swing_up.py": ("out/swing_up/loss.png", "out/swing_up/replay.html"),
    "09_pareto.py": ("out/pareto/front.png",),
}


def run(name: str, folder: Path) -> str:
    command = [sys.executable, str(EXAMPLES / name), "--quick"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(SAYS))
def test_example(name, tmp_path):
    text = run(name, tmp_path)
    assert re.search(SAYS[name], text), text
    for path in WRITES.get(name, ()):
        assert path in text and (tmp_path / path).stat().st_size > 1000


def test_two_processes_have_the_gradient_of_one(tmp_path):
    """DistributedDataParallel around pullback.torch, as torchrun starts it."""
    script, found = str(EXAMPLES / "11_data_parallel.py"), []
    for launcher in ([], ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]):
        command = [sys.executable, *launcher, script, "--quick"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        # PyTorch 2.13's gloo may end any program so, after all is done: a thread of it outlives what it belongs to.
        assert done.returncode == 0 or "terminate called without an active exception" in done.stderr, done.stderr
        found.append(re.search(r"(\d) process(?:es)?, gradient (\S+)\n(.*\n)+success", done.stdout))
    assert [one[1] for one in found] == ["1", "2"] and float(found[0][2]) > 0.1
    assert abs(float(found[0][2]) - float(found[1][2])) < 1e-9


def test_every_example_is_tested_and_short():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)
    for path in EXAMPLES.glob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) < 120, path.name
        assert not [line for line in lines if re.search(r"import.*\._|from pullback\.\w+\.\w+", line)], path.name
