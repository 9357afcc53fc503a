"""Commands that write to one folder at once do not lose each other's files."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pullback.cli import main
from pullback.cli.common import held_folder
from pullback.core.errors import PullbackError
from pullback.core.files import PARTIAL

MY_TASK = Path(__file__).parents[2] / "examples" / "05_my_task.py"
HOLD = """
import sys, time
from pathlib import Path
from pullback.cli.common import held_folder
with held_folder(Path("out")):
    Path("out/.partial-1234.npz").touch()
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_three_at_once(folder, capsys):
    """One works. The others say at once, in one line, which process has the folder, and leave it alone."""
    options = ["optimize", str(MY_TASK), "--method", "adam", "--all", "--out", "here", "--iterations"]
    command = [sys.executable, "-m", "pullback.cli", *options, "1000000"]  # longer than anybody waits
    workers = [subprocess.Popen(command, stdout=-1, stderr=-1, text=True) for _ in range(3)]
    works = lambda: [worker for worker in workers if worker.poll() is None]  # noqa: E731
    wait_until(lambda: len(works()) == 1 and Path("here/state.npz").exists())
    for worker in set(workers) - set(works()):
        out, err = worker.communicate()
        assert worker.returncode == 2 and out == "" and err.count("\n") == 1
        assert f"'here' is in use by process {works()[0].pid}" in err and "--out" in err
    os.kill(works()[0].pid, signal.SIGKILL)
    for worker in workers:
        worker.communicate()
    assert main([*options, "1", "--json"]) in (0, 1)  # nothing is broken, and nothing still held
    out, err = capsys.readouterr()
    assert "resuming from here/state.npz" in err and json.loads(out)["iterations"] > 1
    assert {path.name for path in Path("here").iterdir()} == {
        *(".lock", "state.npz", "result.npz", "result.json", "loss.png", "replay.html"),
    }


def wait_until(done) -> None:
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_kill_leaves_no_lock(folder):
    """Nor does what was half written stay."""
    worker = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert worker.stdout.readline() == "held\n"
    with pytest.raises(PullbackError, match=f"'out' is in use by process {worker.pid}"), held_folder(Path("out")):
        pass
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert list(Path("out").glob(f"{PARTIAL}*"))
    with held_folder(Path("out")):
        assert [path.name for path in Path("out").iterdir()] == [".lock"]


@pytest.mark.parametrize("command", [["simulate", "pendulum", "--steps", "5"], ["optimize", str(MY_TASK)]])
def test_a_folder_in_use(folder, capsys, command):
    with held_folder(Path("here")):
        assert main([*command, "--out", "here"]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and f"in use by process {os.getpid()}" in err
    assert main([*command, "--out", "here"]) == 0
    with held_folder(Path("here")):  # and it is free again
        pass


def test_where_files_cannot_be_locked(folder, monkeypatch):
    """Some network file systems know no locks: the work is done all the same."""
    import fcntl

    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with held_folder(Path("out")), held_folder(Path("out")):
        pass


def test_a_full_disk_is_one_line(folder):
    """Of a whole command, in a process of its own: no file may become larger than this."""
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
    limited += "from pullback.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", limited, "simulate", "pendulum", "--contact", "none", "--steps", "200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if "Compiling kernels" not in line]
    assert lines == ["pullback: cannot write 'out/pendulum/motion.npz': File too large"]
    assert [path.name for path in Path("out/pendulum").iterdir()] == [".lock"]


def test_nowhere_to_keep_kernels(folder):
    """As in a container whose home folder cannot be written to."""
    (folder / "file").touch()
    environment = os.environ | {"WARP_CACHE_PATH": str(folder / "file" / "cache")}
    command = [sys.executable, "-m", "pullback.cli", "simulate", "pendulum", "--steps", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "compiled kernels cannot be kept" in done.stderr and "WARP_CACHE_PATH" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_output_that_cannot_be_written(folder):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "pullback.cli", "tasks"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No space left" in done.stderr
