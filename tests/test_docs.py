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
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    pytest.importorskip("viser")
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
    assert {"README.md", "docs/index.md", "docs/design.md", "docs/choose-a-contact-model.md"} <= set(PAGES)
    assert {page.name for page in (ROOT / "docs/tutorials").glob("*.md")} == {Path(page).name for page in COMMANDS}
