"""``pullback view``, and the motion files that the other commands write for it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pullback.cli import main
from pullback.model.robots import cartpole
from pullback.view import load_motion

MY_TASK = Path(__file__).parents[2] / "examples" / "05_my_task.py"


@pytest.fixture(scope="module")
def motion(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("quadruped")
    assert main(["simulate", "quadruped", "--seconds", "0.2", "--worlds", "2", "--out", str(folder)]) == 0
    return folder / "motion.npz"


def test_simulate_writes_a_motion_that_can_be_viewed(motion):
    drawing = load_motion(motion)
    assert drawing.worlds == drawing.copies == 2 and drawing.frames == 101 and drawing.title == "quadruped"
    assert len(drawing.contact_frame) and not len(drawing.body_gradients)
    with np.load(motion, allow_pickle=False) as file:  # as before there was anything to view
        assert file["q"].shape == (101, 2, 19) and file["v"].shape == (101, 2, 18)
        assert file["controls"].shape == (100, 2, 12) and file["dt"] == 0.002


def test_optimize_writes_gradients_and_a_camera(tmp_path, capsys):
    assert main(["optimize", "throw", "--iterations", "1", "--out", str(tmp_path)]) == 1
    drawing = load_motion(tmp_path / "result.npz")
    assert drawing.body_gradients.shape == (drawing.frames, len(drawing.body_moves), 3)
    assert np.abs(drawing.body_gradients).max() > 0 and drawing.camera.shape == (2, 3) and len(drawing.losses) == 1
    page = (tmp_path / "replay.html").read_text(encoding="utf-8")
    scene = json.loads(re.search(r'<script id="scene" type="application/json">(.*?)</script>', page, re.DOTALL)[1])
    assert scene["forces"] and scene["gradients"] and scene["camera"] and scene["loss"]


URDF = """<robot name="bare">{keep}
  <link name="base"/>
  <link name="upper"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><sphere radius="0.1"/></geometry></visual></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
</robot>"""


def test_a_robot_without_shapes_is_named(tmp_path, capsys):
    """As URDF with visuals alone has none, unless MuJoCo is told to keep them."""
    keep = '<mujoco><compiler discardvisual="false"/></mujoco>'
    for name, text in {"bare.urdf": "", "kept.urdf": keep}.items():
        (tmp_path / name).write_text(URDF.format(keep=text), encoding="utf-8")
        assert main(["view", str(tmp_path / name), "--export", str(tmp_path / "a.png"), "--size", "64x48"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("Compiling")]
    assert len(said) == 1 and "bare.urdf' has no shapes (geoms) to draw" in said[0] and keep in said[0]


@pytest.mark.parametrize("robot", ["arm", "robot.xml"])
def test_a_robot_can_be_looked_at(robot, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # A tendon that yields cannot be simulated, which is no reason not to look.
    tendon = '<tendon><fixed name="t" stiffness="1" springyield="9"><joint joint="slide" coef="1"/></fixed></tendon>'
    Path("robot.xml").write_text(cartpole().replace("</mujoco>", tendon + "</mujoco>"), encoding="utf-8")
    assert main(["view", robot, "--export", "picture.png"]) == 0
    assert capsys.readouterr().out.strip() == "picture.png"
    picture = np.asarray(Image.open("picture.png").convert("RGB"))
    assert picture.shape[0] * picture.shape[1] > 300_000  # one large picture, no strip
    assert picture.min() < 60 and picture.std() > 10


@pytest.mark.parametrize("name", ["strip.png", "film.gif", "film.mp4", "page.html"])
def test_exports(motion, tmp_path, capsys, name):
    out = tmp_path / name
    command = ["view", str(motion), "--export", str(out), "--size", "64x48", "--frames", "3", "--layers", "none"]
    assert main(command) == 0
    assert capsys.readouterr().out.strip() == str(out) and out.stat().st_size > 500
    if name == "strip.png":
        assert Image.open(out).size == (3 * 64 + 2 * 4, 48)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.npz"], "there is no file 'missing.npz'"),
        ([str(MY_TASK)], "is no motion file: those are the .npz that 'pullback simulate ROBOT'"),
        (["MOTION", "--export", "film.avi"], "its name must end in"),
        (["MOTION", "--export", "a.png", "--size", "640"], "'640' is not a size such as 640x480"),
        (["MOTION", "--export", "a.png", "--layers", "forces,smoke"], "there is no layer 'smoke'"),
        (["MOTION", "--export", "a.gif", "--frames", "0"], "0 is less than 1"),
    ],
)
def test_bad_input_is_one_line(motion, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["view", *(str(motion) if a == "MOTION" else a for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def page_of(command: list[str], folder: Path) -> tuple[int, str]:
    """The exit status of a command that shows a page until it is told to stop, after the page was read."""
    environment = {name: value for name, value in os.environ.items() if "DISPLAY" not in name}
    worker = subprocess.Popen(
        [sys.executable, "-m", "pullback.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    )
    try:
        address = re.search(r"http://\S+", worker.stdout.readline())
        with urllib.request.urlopen(address[0], timeout=60) as page:
            assert b"<html" in page.read().lower()
        said = ""
        while command[0] == "optimize" and "replay:" not in said:  # it goes on until it is solved
            said += worker.stdout.readline()
        time.sleep(0.5)  # from what it said last to where it waits
        worker.send_signal(signal.SIGINT)
        rest, errors = worker.communicate(timeout=60)
        assert "Traceback" not in errors
        return worker.returncode, said + rest
    finally:
        worker.kill()


def test_it_serves_until_ctrl_c(motion, tmp_path):
    assert page_of(["view", str(motion), "--no-browser", "--port", "8160"], tmp_path) == (0, "")


def test_a_robot_is_served_too(tmp_path):
    assert page_of(["view", "arm", "--no-browser", "--port", "8165"], tmp_path) == (0, "")


def test_optimize_can_be_watched(tmp_path):
    status, said = page_of(["optimize", str(MY_TASK), "--view", "--port", "8170"], tmp_path)
    assert status == 0 and "solved" in said
