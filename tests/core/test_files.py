"""Files are written whole or not at all, whoever writes them."""

import os
import re
import resource
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.cli.common import write_json
from pullback.core.files import whole_file
from pullback.plan.loop import Progress, save_checkpoint
from pullback.view import draw_run, export, plot_curve, save_motion, write_page

SOURCES = Path(pb.__file__).parent
LABELS = {"title": "", "xlabel": "", "ylabel": ""}
NUMBERS = np.random.default_rng(0).standard_normal(5000)


@pytest.fixture
def full_disk():
    """No file may become larger than this, which fails as a full disk does: in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def drawing():
    system = pb.Articulated(pb.load(pb.robots.cartpole()), contact=None)
    return draw_run(pb.rollout(system, system.state(np.array([0.0, 0.3])), steps=20))


def save_map(path):
    poses = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    pb.reach.ReachabilityMap("R2").fit(poses, np.linalg.norm(poses, axis=1) < 0.7).save(path)


def save_vtk(path):
    mesh = pb.thermal.block((1.0, 1.0, 1.0), (9, 9, 9))
    pb.thermal.write_vtk(path, mesh, [0.0], np.random.default_rng(0).standard_normal((1, len(mesh.nodes))))


PICTURES = {"size": (64, 48), "frames": 2}
WRITERS = {
    "motion.npz": lambda path, drawing: save_motion(path, drawing, numbers=NUMBERS),
    "replay.html": lambda path, drawing: write_page(path, drawing),
    "strip.png": lambda path, drawing: export(drawing, path, **PICTURES),
    "film.gif": lambda path, drawing: export(drawing, path, **PICTURES),
    "film.mp4": lambda path, drawing: export(drawing, path, **PICTURES),
    "page.html": lambda path, drawing: export(drawing, path),
    "loss.png": lambda path, drawing: plot_curve(path, NUMBERS[:9] ** 2, **LABELS),
    "state.npz": lambda path, _: save_checkpoint(
        path, Progress(NUMBERS, *NUMBERS[None, :2], NUMBERS[:2], 1, 0.0), {}, {}
    ),
    "bench.json": lambda path, _: write_json(path, NUMBERS.tolist()),
    "map.npz": lambda path, _: save_map(path),
    "heat.pvd": lambda path, _: save_vtk(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_what_was_there(tmp_path, drawing, full_disk, name):
    """The old file to the last byte, nothing beside it, and one line that names it."""
    path = tmp_path / name
    path.write_bytes(b"what was there before")
    with pytest.raises(pb.PullbackError, match="cannot write '.*(File too large|ffmpeg ended)") as caught:
        WRITERS[name](path, drawing)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"what was there before"
    left = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert left == [path]
    if name != "heat.pvd":  # which fails in one of its parts
        assert repr(str(path)) in str(caught.value)


@pytest.mark.parametrize("name", WRITERS)
def test_with_room_it_is_replaced(tmp_path, drawing, name):
    path = tmp_path / name
    path.write_bytes(b"what was there before")
    WRITERS[name](path, drawing)
    assert path.stat().st_size > 100
    assert {file.name for file in tmp_path.iterdir()} <= {name, "heat"}
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask  # not private to this user


def test_nothing_else_opens_files_to_write():
    """Of the package: what writes a file uses whole_file."""
    writes = re.compile(r"""\.write_text\(|write_bytes\(|\bopen\([^)]*["'][wax]b?\+?["']|\.open\(["'][wax]|savefig\(""")
    found = [
        f"{file.relative_to(SOURCES)}: {line.strip()}"
        for file in SOURCES.rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if writes.search(line) and not re.search(r"open\(partial|partial\.write|os\.devnull", line)
    ]
    assert found == []


def test_a_reader_never_sees_half_of_it(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("old")
    with whole_file(path) as partial:
        partial.write_text("ne")
        assert path.read_text() == "old" and partial.parent == tmp_path and partial.suffix == ".txt"
        partial.write_text("new")
    assert path.read_text() == "new"
    with pytest.raises(KeyboardInterrupt), whole_file(path) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_writers_at_once_do_not_meet(tmp_path):
    path = tmp_path / "numbers.txt"
    with whole_file(path) as one, whole_file(path) as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one" and list(tmp_path.iterdir()) == [path]


def test_places_that_are_no_files(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    with whole_file(tmp_path / "link.txt") as partial:
        partial.write_text("new")
    assert (tmp_path / "real.txt").read_text() == "new" and (tmp_path / "link.txt").is_symlink()
    with whole_file(os.devnull) as partial:
        partial.write_text("gone")
    assert not Path(os.devnull).is_file()
    for wrong in (
        tmp_path,
        tmp_path / "no" / "folder.txt",
        tmp_path / "real.txt" / "below.txt",
        "",
        ".",
        "a\0b",
        tmp_path / ("x" * 300),
    ):
        with pytest.raises(pb.PullbackError) as caught, whole_file(wrong) as partial:
            partial.write_text("x")
        assert "\n" not in str(caught.value)
