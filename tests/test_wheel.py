"""The wheel holds all that the package needs, and works where it is installed."""

import os
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEPENDENCIES = next(path for path in site.getsitepackages() if (Path(path) / "numpy").exists())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that no build product is left in the tree; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation"]
    run([*command, "--wheel-dir", folder, source])
    return next(folder.glob("*.whl"))


def run(command: list, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stderr or done.stdout}"
    return done.stdout


def test_every_file_of_the_package_is_in_it(wheel):
    package = ROOT / "src" / "pullback"
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {"pullback/py.typed", "pullback/view/replay.html"} <= wanted
    assert wanted == {name for name in held if name.startswith("pullback/")}
    assert not any(name.startswith(("tests/", "testing/", "benchmarks/")) for name in held)


def test_it_is_installed_and_used(wheel, tmp_path):
    """In an environment of its own, which has the dependencies of this one on its path."""
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"])
    python = tmp_path / "venv" / "bin" / "python"
    folder = Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    run([sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel])
    assert not (Path(DEPENDENCIES) / "pullback").exists()  # what runs below is what was installed
    (folder / "dependencies.pth").write_text(f"{DEPENDENCIES}\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [tmp_path / "venv" / "bin" / "pullback", "simulate", "pendulum", "--steps", "5"]
    run(command, env=environment, cwd=tmp_path)
    replay = (tmp_path / "out/pendulum/motion.html").read_text(encoding="utf-8")
    assert (ROOT / "src/pullback/view/replay_scene.js").read_text(encoding="utf-8")[:200] in replay
