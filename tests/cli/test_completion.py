"""``pullback --completion``: a shell that has read the script completes what can stand there."""

import contextlib
import io
import shutil
import subprocess

import pytest

from pullback.cli import main
from pullback.cli.completion import SHELLS
from pullback.cli.optimize import METHODS
from pullback.envs import ENVS
from pullback.model.robots import SAMPLES
from pullback.tasks import TASKS


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The script for bash, in a folder with a few files."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    folder = tmp_path_factory.mktemp("completion")
    for name in ("my_robot.xml", "my_robot.urdf", "my_task.py", "my_motion.npz", "notes.txt"):
        (folder / name).touch()
    (folder / "models").mkdir()
    path = folder / "pullback.bash"
    path.write_text(shown("bash"), encoding="utf-8")
    return path


def shown(shell: str) -> str:
    text = io.StringIO()
    with pytest.raises(SystemExit) as end, contextlib.redirect_stdout(text):
        main(["--completion", shell])
    assert end.value.code == 0
    return text.getvalue()


def offered(script, *words: str) -> set[str]:
    """What bash offers for the last of these words, as it does when the tabulator is pressed."""
    program = f"""
        source {script}
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
        _shtab_pullback
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    command = ["bash", "--noprofile", "--norc", "-c", program]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


VERBS = {"tasks", "optimize", "envs", "train", "evaluate", "simulate", "view", "check", "bench", "compile"}
ROBOT_FILES = {"my_robot.xml", "my_robot.urdf", "models"}


def test_verbs(script):
    assert offered(script, "pullback", "") >= VERBS
    assert offered(script, "pullback", "opt") == {"optimize"}
    assert {"--version", "--completion", "--help"} <= offered(script, "pullback", "--")
    assert offered(script, "pullback", "--completion", "") == set(SHELLS)


@pytest.mark.parametrize("verb", ["simulate", "check", "bench"])
def test_robots_and_files(script, verb):
    assert offered(script, "pullback", verb, "") == set(SAMPLES) | ROBOT_FILES
    assert offered(script, "pullback", verb, "quad") == {"quadruped"}
    assert offered(script, "pullback", verb, "my_") == {"my_robot.xml", "my_robot.urdf"}
    assert offered(script, "pullback", verb, "arm", "--contact", "co") == {"convex", "compliant"}
    assert offered(script, "pullback", verb, "arm", "--out", "mo") == {"models"}
    options = {"--seed", "--device", "--out", "--json", "--contact", "--steps", "--seconds"}
    assert options <= offered(script, "pullback", verb, "--")


def test_robots_to_compile_for(script):
    assert offered(script, "pullback", "compile", "") == set(SAMPLES) | ROBOT_FILES
    assert offered(script, "pullback", "compile", "arm", "quad") == {"quadruped"}
    assert {"--jobs", "--device", "--contact"} <= offered(script, "pullback", "compile", "--")


def test_tasks_and_methods(script):
    assert offered(script, "pullback", "optimize", "") == set(TASKS) | {"my_task.py", "models"}
    assert offered(script, "pullback", "optimize", "my_") == {"my_task.py"}
    assert offered(script, "pullback", "optimize", "golf", "--method", "") == set(METHODS)


def test_environments_and_policies(script):
    assert offered(script, "pullback", "train", "") == set(ENVS) | {"my_task.py", "models"}
    assert offered(script, "pullback", "train", "ant", "--out", "mo") == {"models"}
    assert offered(script, "pullback", "evaluate", "") == {"my_motion.npz", "models"}
    assert offered(script, "pullback", "evaluate", "models", "--plant", "") == {"pullback", "mujoco"}
    assert offered(script, "pullback", "evaluate", "models", "--env", "hop") == {"hopper"}


def test_motions_and_robots_to_view(script):
    assert offered(script, "pullback", "view", "") == {"my_motion.npz"} | set(SAMPLES) | ROBOT_FILES
    assert offered(script, "pullback", "view", "my_motion.npz", "--export", "no") == {"notes.txt"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_the_same_words(shell):
    text = shown(shell)
    assert all(word in text for word in (*VERBS, *SAMPLES, *TASKS, "contact", "compliant"))
    if shutil.which(shell):  # and can read the script
        subprocess.run([shell, "-n", "/dev/stdin"], input=text, text=True, check=True)
