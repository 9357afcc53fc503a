"""Every Python block of the README and of the pages of docs/ runs as printed, and so do the commands of tutorials."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = r"^```{}\n(.*?)^```$"
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if re.search(BLOCK.format("python"), page.read_text(encoding="utf-8"), re.M | re.S)
]
# Pages whose commands are run too, after their Python; those of tasks take minutes.
COMMANDS = [page for page in PAGES if page.startswith("docs/tutorials/")]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_as_printed(page, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    # Blank lines in between keep the page's line numbers, so that an error shows where it stands.
    program = ""
    for block in re.finditer(BLOCK.format("python"), text, re.M | re.S):
        program += "\n" * (text.count("\n", 0, block.start(1)) - program.count("\n")) + block[1]
    script = tmp_path / "page.py"
    script.write_text(program, encoding="utf-8")
    # A process of its own: the JAX block changes the precision for all of it.
    run([sys.executable, script], tmp_path)
    for command in re.findall(r"^pullback .*", text, re.M) if page in COMMANDS else ():
        words, code = shlex.split(command, comments=True)[1:], int("# exit code 1" in command)
        run([sys.executable, "-m", "pullback.cli", *words], tmp_path, code)


def run(command: list, folder: Path, code: int = 0) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{command}: {done.stderr or done.stdout}"


def test_pages_that_are_run():
    """A block that is spelled otherwise would be left out in silence."""
    assert {"README.md", "docs/index.md", "docs/extending.md", "docs/choose-a-contact-model.md"} <= set(PAGES)
    assert {page.name for page in (ROOT / "docs/tutorials").glob("*.md")} == {Path(page).name for page in COMMANDS}


# Measured results that pages quote: the page, its words around the number, and the metric of docs/benchmarks.md.
QUOTED = [
    ("README.md", "takes {:.2f} times as long as MuJoCo's `mj_step` without", "rollout step, one world, quadruped"),
    ("README.md", "and {:.2f} times with contact", "rollout step, quadruped on its feet, convex"),
    ("README.md", "`mj_step` | {:.2f} |", "rollout step, one world, quadruped"),
    ("README.md", "| {:.2f} (Newton) |", "rollout step, quadruped on its feet, convex"),
    ("README.md", "| {:.2f} (PGS, 50 iterations) |", "rollout step, quadruped on its feet, impulse"),
    ("README.md", "`mj_step` | | {:.1f} |", "forward + backward / mj_step, quadruped on its feet, convex"),
    ("README.md", "MJX 3.17's | {:.2g} |", "gradient step / MJX's"),
    ("README.md", "Newton 1.7's | {:.2g} |", "gradient step / Newton's"),
    ("README.md", "adds {:.1f} MB of memory", "peak memory added by a 5000-step gradient, quadruped"),
    ("README.md", "takes {:.0f} s without contact", "cold start, from import to the first gradient"),
    ("docs/index.md", "takes {:.0f} s without contact", "cold start, from import to the first gradient"),
    ("docs/tutorials/from-mujoco.md", "rollout takes {:.2f} times", "rollout step, quadruped on its feet, convex"),
    (
        "docs/tutorials/from-mujoco.md",
        "all gradients {:.1f} times as long",
        "forward + backward / mj_step, quadruped on its feet, convex",
    ),
    ("docs/tutorials/from-mujoco.md", "gradient step takes {:.2f} times", "gradient step with contact, convex / MJX's"),
    ("docs/tasks/throw.md", "reached after {:.0f} motions", "throw: gradient steps until within 0.02 m"),
    ("docs/tasks/golf.md", "reached after {:.0f} motions", "golf: gradient steps until within 0.05 m"),
    ("docs/tasks/hop.md", "each solved in {:.0f} iterations", "hop: iterations, median"),
]


@pytest.mark.parametrize(("page", "words", "metric"), QUOTED)
def test_quoted_results_are_those_of_the_benchmarks(page, words, metric):
    rows = re.findall(r"^\| (.+?) \| ([\d.e+-]+)", (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8"), re.M)
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert words.format(float(dict(rows)[metric])) in text
