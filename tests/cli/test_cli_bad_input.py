"""Whatever is given, the command line ends with one line and exit code 2, and never with a traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pullback.cli import main

FILES = {
    "empty.xml": b"",
    "binary.xml": bytes(range(256)),
    "text.xml": b"a robot",
    "broken.json": b'{"robot": 1',
    "wrong.py": b"def task(:",
    "huge.py": b"import numpy as np\ndef task(): return np.zeros((10**7, 10**7))",
}
REFUSED = {
    "fly": "there is no command 'fly'; there are tasks, optimize",
    "": "give a command: tasks, optimize",
    "optimise throw": "there is no command 'optimise'; did you mean 'optimize'?",
    "optimize trow": "there is no task 'trow'; did you mean 'throw'?",
    "simulate Quadruped": "no sample robot 'Quadruped'; did you mean 'quadruped'?",
    "simulate throw": "'throw' is no robot but a task: solve it with 'pullback optimize throw'",
    "check motion.npz": "'motion.npz' is no robot but a motion: look at it with 'pullback view motion.npz'",
    "optimize quadruped": "'quadruped' is no task but a robot: try 'pullback simulate quadruped'",
    "compile quadrupde": "did you mean 'quadruped'?",
    "compile --contact impulse": "--contact is for robots",
    "simulate cartpole --secnds 3": "there is no option '--secnds'; did you mean '--seconds'?",
    "optimize throw --methd=adam": "there is no option '--methd'; did you mean '--method'?",
    "--fresh optimize throw": "--fresh must stand after the command",
    "check arm --contact complaint": "there is no --contact 'complaint'; did you mean 'compliant'?",
    "view arm --keyframe hom": "there is no keyframe 'hom'; did you mean 'home'?",
    "view arm --layers force": "there is no layer 'force'; did you mean 'forces'?",
    "simulate": "required: ROBOT",
    "simulate cartpole more": "unrecognized arguments: more",
    "bench cartpole --speed 3": "(see 'pullback bench --help')",
    "check cartpole --steps x": "(see 'pullback check --help')",
    "view robot": "there is no file 'robot'",
    "view nowhere.urdf": "there is no file nowhere.urdf",
    "view arm --keyframe attic": "there is no keyframe 'attic'",
    "view broken.json --keyframe home": "--keyframe and --anywhere are for robots",
    "simulate empty.xml": "empty.xml is empty",
    "check binary.xml": "binary.xml is not XML",
    "bench text.xml": "text.xml is not XML",
    "simulate broken.json": "broken.json is not XML",
    "check folder": "folder is a folder",
    "bench nowhere.xml": "nowhere.xml",
    "optimize wrong.py": "wrong.py cannot be run: SyntaxError",
    "optimize huge.py": "MemoryError",
    "optimize folder": "there is no task 'folder'",
    "tasks --device tpu": "device 'tpu' is not available",
    "optimize golf --device tpu": "device 'tpu' is not available",
    "bench cartpole --device tpu": "device 'tpu' is not available",
    "tasks --out empty.xml": "cannot write to 'empty.xml'",
    "bench cartpole --out empty.xml/out": "cannot write to 'empty.xml/out'",
    "check cartpole --out empty.xml/out": "cannot write to 'empty.xml/out'",
    "optimize racecar --out empty.xml/out": "cannot write to 'empty.xml/out'",
    "optimize racecar --iterations 0": "0 is less than 1",
    "check cartpole --seed -1": "-1 is less than 0",
    "optimize racecar --method cma --seed 4294967296": "4294967296 is more than 4294967295",
    "simulate cartpole --seconds 1e300": "GiB: ask for less",
    "check cartpole --settle 1e300": "GiB: ask for less",
    "check cartpole --steps 1000000000000": "GiB: ask for less",
    "bench cartpole --steps 1000000000000": "GiB: ask for less",
    "bench cartpole --worlds 1000000000": "GiB: ask for less",
    "bench cartpole --worlds 1": "1 is less than 2",
    "--completion csh": "there is no --completion 'csh'",
    "--completion": "expected one argument",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    Path("folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("command", REFUSED)
def test_one_line_and_exit_code_2(folder, capsys, command):
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("pullback: ")
    assert REFUSED[command] in err


def test_ctrl_c_is_one_line(folder):
    """While it works: the folder is there, the result is not."""
    command = [sys.executable, "-m", "pullback.cli", "optimize", "throw", "--method", "adam", "--iterations", "100000"]
    worker = subprocess.Popen([*command, "--all", "--out", "here"], stdout=-1, stderr=-1, text=True)
    deadline = time.monotonic() + 120
    while not Path("here").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(worker.pid, signal.SIGINT)
    out, err = worker.communicate(timeout=60)
    lines = [line for line in err.splitlines() if "Compiling kernels" not in line]
    assert (worker.returncode, out, lines) == (130, "", ["pullback: stopped"])
    assert not Path("here/result.npz").exists()


@pytest.mark.parametrize("verb", ["tasks", "optimize", "envs", "train", "evaluate", "simulate", "check", "bench"])
def test_every_verb_that_computes_has_the_common_options(verb, capsys):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: pullback {verb} ")
    assert all(f"{option} " in text for option in ("--seed", "--device", "--out", "--json"))
