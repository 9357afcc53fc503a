"""The replay page: what is packed into it, what is kept out of it, and whether a real browser draws it."""

from __future__ import annotations

import base64
import html
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
from chromium import Browser, centre, needs_chromium, share

from pullback.core.errors import PullbackError
from pullback.drawing import robot
from pullback.drawing.robot import height_field
from pullback.drawing.surfaces import crease_normals
from pullback.view import draw, write_page, write_replay

# Every kind of shape, on a floating body with limbs, beside things fixed to the world.
ROBOT = """
<mujoco model="robot">
  <option timestep="0.01"><flag contact="disable"/></option>
  <asset>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.2 0.3 0.4" rgb2="0.6 0.7 0.8" width="64" height="64"/>
    <material name="tiles" texture="tiles"/>
    <material name="shell" rgba="0.1 0.5 0.6 1"/>
    <mesh name="wedge" vertex="-.1 -.1 0  .1 -.1 0  .1 .1 0  -.1 .1 0  -.1 -.1 .1  -.1 .1 .1"/>
    <hfield name="hills" nrow="3" ncol="4" size="1 1 0.2 0.1" elevation="0 1 0 1  0 0 0 0  1 0 1 0"/>
  </asset>
  <worldbody>
    <geom type="plane" size="0 0 1" material="tiles"/>
    <geom type="box" size="0.1 0.2 0.05" pos="-0.7 0.5 0.05" euler="0 0 30"/>
    <geom type="hfield" hfield="hills" pos="3 0 0"/>
    <body pos="0 0 0.8">
      <freejoint/>
      <geom type="box" size="0.25 0.1 0.06" rgba="0.9 0.1 0.1 1"/>
      <geom type="ellipsoid" size="0.12 0.1 0.08" pos="0.3 0 0.05" material="shell"/>
      <geom type="mesh" mesh="wedge" pos="-0.1 0 0.06" euler="0 0 20"/>
      <geom type="sphere" size="0.05" group="3"/>
      <geom type="sphere" size="0.05" rgba="1 1 1 0"/>
      <body pos="0.2 0.1 0">
        <joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.1 0 -0.3" size="0.03"/>
        <geom type="cylinder" size="0.05 0.04" euler="90 0 0"/>
        <body pos="0.1 0 -0.3">
          <joint type="ball"/>
          <geom type="sphere" size="0.04" pos="0 0 -0.1"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
HINGE = """
<mujoco>
  <worldbody>
    <body pos="0 0 1">
      <joint axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.06" rgba="0.9 0.1 0.1 1"/>
    </body>
  </worldbody>
</mujoco>
"""


def compiled(xml: str) -> SimpleNamespace:
    """The part of a Model that the replay uses."""
    mj_model = mujoco.MjModel.from_xml_string(xml)
    return SimpleNamespace(mujoco=mj_model, nq=mj_model.nq)


def tumbling(model, rows: int, seed: int = 0) -> np.ndarray:
    """A motion (rows, nq) in which everything moves."""
    data = mujoco.MjData(model.mujoco)
    data.qvel[:] = np.random.default_rng(seed).normal(size=model.mujoco.nv)
    motion = []
    for _ in range(rows):
        motion.append(data.qpos.copy())
        mujoco.mj_step(model.mujoco, data)
    return np.array(motion)


def scene_of(path) -> dict:
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script id="scene" type="application/json">(.*?)</script>', text, re.DOTALL)[1])


def unpacked(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def poses_of(scene: dict) -> np.ndarray:
    copies = scene["worlds"] + scene["ghosts"]
    return unpacked(scene["poses"], "<f4").reshape(scene["frames"], copies, scene["bodies"], 7)


def page_geom_poses(scene: dict, frame: int, copy: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Position and rotation matrix of each geom, put together as the page does it."""
    found = []
    for geom in scene["geoms"]:
        pos, quat = np.array(geom["pos"]), np.array(geom["quat"])
        if geom["body"] >= 0:
            body = poses_of(scene)[frame, copy, geom["body"]].astype(np.float64)
            turned, product = np.empty(3), np.empty(4)
            mujoco.mju_rotVecQuat(turned, pos, body[3:])
            mujoco.mju_mulQuat(product, body[3:], quat)
            pos, quat = body[:3] + turned, product
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, quat)
        found.append((pos, matrix))
    return found


# What is in the file


def test_every_geom_is_where_mujoco_puts_it(tmp_path):
    model = compiled(ROBOT)
    q = np.stack([tumbling(model, 101, seed) for seed in range(2)], axis=1)
    ghost = tumbling(model, 41, seed=7)
    scene = scene_of(write_replay(tmp_path / "replay.html", model, q, dt=0.01, fps=60, ghost=ghost))

    assert (scene["worlds"], scene["ghosts"]) == (2, 1)
    assert scene["duration"] == pytest.approx(1.0)
    assert scene["frame_dt"] == pytest.approx(0.02)  # every second row comes nearest to 60 a second
    assert scene["frames"] == 51
    shown = [geom for geom in range(model.mujoco.ngeom) if geom not in (6, 7)]  # a collision group, an invisible one
    assert len(scene["geoms"]) == len(shown)

    data = mujoco.MjData(model.mujoco)
    for frame in (0, 1, 13, 50):
        row = 2 * frame
        for copy, coordinates in enumerate([q[row, 0], q[row, 1], ghost[min(row, 40)]]):  # the ghost ends and stays
            data.qpos[:] = coordinates
            mujoco.mj_kinematics(model.mujoco, data)
            for geom, (pos, matrix) in zip(shown, page_geom_poses(scene, frame, copy), strict=True):
                np.testing.assert_allclose(pos, data.geom_xpos[geom], atol=1e-5)
                np.testing.assert_allclose(matrix, data.geom_xmat[geom], atol=1e-5)


def test_last_row_is_kept_and_slow_motions_keep_every_row(tmp_path):
    model = compiled(HINGE)
    q = np.linspace(0.0, 1.0, 24)[:, None]
    scene = scene_of(write_replay(tmp_path / "a.html", model, q, dt=0.002, fps=60))
    assert scene["frames"] == 4  # rows 0, 8, 16 and 23
    assert scene["duration"] == pytest.approx(0.046)
    assert poses_of(scene)[-1, 0, 0, 3] == pytest.approx(np.cos(0.5), abs=1e-6)
    assert scene_of(write_replay(tmp_path / "b.html", model, q, dt=0.5))["frames"] == 24
    assert scene_of(write_replay(tmp_path / "c.html", model, q[:1], dt=0.5))["frames"] == 1


def test_shapes_and_colours_come_from_the_file(tmp_path):
    model = compiled(ROBOT)
    scene = scene_of(write_replay(tmp_path / "replay.html", model, tumbling(model, 2), dt=0.01))
    floor, crate, hills, trunk, head, wedge, thigh, hip, foot = scene["geoms"]
    assert [geom["shape"] for geom in scene["geoms"]] == [
        *["plane", "box", "mesh 0", "box", "sphere", "mesh 1", "capsule", "cylinder", "sphere"],
    ]
    np.testing.assert_allclose(sorted(c[0] for c in floor["colours"]), [0.2, 0.6], atol=0.01)
    assert crate["body"] == -1 and hills["body"] == -1 and trunk["body"] == 0
    assert trunk["colours"][0] == pytest.approx([0.9, 0.1, 0.1, 1.0])
    assert head["colours"][0] == pytest.approx([0.1, 0.5, 0.6, 1.0])  # of its material
    assert head["scale"] == pytest.approx([0.12, 0.1, 0.08])
    assert thigh["scale"] == pytest.approx([0.03] * 3) and thigh["stretch"] == pytest.approx(np.hypot(0.1, 0.3) / 2)
    assert hip["scale"] == pytest.approx([0.05, 0.05, 0.04])
    assert foot["scale"] == pytest.approx([0.04] * 3)
    # The wedge has flat faces: each corner's normal is that of its face.
    mesh = scene["meshes"][1]
    positions, normals = (
        unpacked(mesh["positions"], "<f4").reshape(-1, 3),
        unpacked(mesh["normals"], "i1").reshape(-1, 4),
    )
    for corners in unpacked(mesh["indices"], "<u4").reshape(-1, 3):
        a, b, c = positions[corners]
        across = np.cross(b - a, c - a)
        np.testing.assert_allclose(
            normals[corners, :3] / 127, np.tile(across / np.linalg.norm(across), (3, 1)), atol=0.02
        )


def test_round_meshes_are_shaded_smoothly():
    turn = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    vertices = np.concatenate([np.column_stack([ring, np.full(24, z)]) for z in (-1.0, 1.0)])
    near = np.arange(24)
    far = (near + 1) % 24
    faces = np.concatenate([np.stack([near, far, far + 24], 1), np.stack([near, far + 24, near + 24], 1)])
    normals = crease_normals(vertices, faces)
    outward = vertices[faces.ravel()] * [1.0, 1.0, 0.0]
    assert (np.einsum("ij,ij->i", normals, outward) > 0.99).all()


def test_height_fields_have_the_height_mujoco_gives_them():
    model = compiled(ROBOT).mujoco
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    vertices, faces = height_field(model, 0)
    for triangle in vertices[faces]:
        below = triangle.mean(axis=0)
        start = data.geom_xpos[2] + [below[0], below[1], 5.0]
        struck = mujoco.mj_rayHfield(model, data, 2, start, np.array([0.0, 0.0, -1.0]), None)
        assert 5.0 - struck == pytest.approx(below[2], abs=1e-6)


def test_a_robot_of_collision_shapes_alone_is_still_shown(tmp_path):
    model = compiled(HINGE.replace("rgba=", 'group="4" rgba='))
    assert len(scene_of(write_replay(tmp_path / "replay.html", model, np.zeros((2, 1)), dt=0.1))["geoms"]) == 1


def test_loss_is_thinned_but_keeps_its_ends(tmp_path):
    model = compiled(HINGE)
    loss = np.geomspace(1.0, 1e-6, 5000)
    kept = scene_of(write_replay(tmp_path / "replay.html", model, np.zeros((2, 1)), dt=0.1, loss=loss))["loss"]
    assert len(kept) <= 1000
    assert kept[0] == [0, 1.0] and kept[-1] == [4999, pytest.approx(1e-6)]


# What is kept out of it


def test_nothing_is_loaded_from_anywhere(tmp_path):
    model = compiled(ROBOT)
    page = write_replay(tmp_path / "replay.html", model, tumbling(model, 5), dt=0.01).read_text(encoding="utf-8")
    assert not re.search(r"https?:|\bimport\b|@import|url\(|fetch\(|XMLHttpRequest|<iframe|<img", page)
    assert not re.search(r'\bsrc\s*=|href\s*=\s*"(?!data:,")', page)
    assert "default-src 'none'" in page
    assert "@@" not in page


@pytest.mark.parametrize(
    "title",
    [
        "</title><script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "<!-- & 'quotes' \"\u2028\ud800",
        "@@SCENE@@ @@TITLE@@ \\1 \\g<0>",
    ],
)
def test_titles_are_text(tmp_path, title):
    model = compiled(HINGE)
    path = write_replay(tmp_path / "replay.html", model, np.zeros((2, 1)), dt=0.1, title=title)
    plain = write_replay(tmp_path / "plain.html", model, np.zeros((2, 1)), dt=0.1, title="plain")
    escaped = html.escape(title).encode("utf-8", errors="replace").decode("utf-8")
    # But for the title, escaped, in its two places, the page is the one with a harmless title.
    assert path.read_text(encoding="utf-8") == re.sub(
        r"(<title>|<h1>)plain", lambda place: place[1] + escaped, plain.read_text(encoding="utf-8")
    )
    assert "<" not in escaped


def test_the_models_name_is_escaped_too(tmp_path):
    model = compiled(HINGE.replace("<mujoco>", '<mujoco model="&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;">'))
    page = write_replay(tmp_path / "replay.html", model, np.zeros((2, 1)), dt=0.1).read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in page and "<script>alert(1)" not in page


# Bad input

NAN_AT_ROW_1 = np.array([[0.0], [np.nan], [0.0]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": np.zeros((3, 2))}, r"q must have shape .*nq = 1, not \(3, 2\)"),
        ({"q": np.zeros(1)}, "q must have shape"),
        ({"q": np.zeros((3, 1, 1, 1))}, "q must have shape"),
        ({"q": np.zeros((0, 1))}, "no rows"),
        ({"q": np.zeros((3, 0, 1))}, "no worlds"),
        ({"q": NAN_AT_ROW_1}, "q is not finite at row 1, world 0, coordinate 0"),
        ({"q": np.full((2, 1), np.inf)}, "not finite"),
        ({"q": [["a"]]}, "q cannot be read as an array of numbers"),
        ({"q": [[0.0], [0.0, 1.0]]}, "q cannot be read as an array of numbers"),
        ({"q": np.zeros((3, 1), dtype=complex)}, "q cannot be read as an array of numbers"),
        ({"q": None}, "q cannot be read as an array of numbers"),
        ({"dt": 0.0}, "dt must be a number above 0"),
        ({"dt": np.nan}, "dt must be a number above 0"),
        ({"dt": "fast"}, "dt must be a number"),
        ({"fps": -1}, "fps must be a number above 0"),
        ({"ghost": np.zeros((3, 2))}, "ghost must have shape"),
        ({"ghost": NAN_AT_ROW_1}, "ghost is not finite at row 1"),
        ({"loss": [1.0, np.nan]}, r"loss\[1\] is not finite"),
        ({"loss": []}, "loss must have shape"),
        ({"model": "robot.xml"}, "model must be a pullback Model, not str"),
    ],
)
def test_bad_input_is_named(tmp_path, changes, message):
    arguments = {"model": compiled(HINGE), "q": np.zeros((3, 1)), "dt": 0.01, **changes}
    with pytest.raises(PullbackError, match=message):
        write_replay(tmp_path / "replay.html", arguments.pop("model"), arguments.pop("q"), **arguments)
    assert not (tmp_path / "replay.html").exists()


@pytest.mark.parametrize("name", ["missing/replay.html", ".", "nul\0byte.html", "x" * 300])
def test_paths_that_cannot_be_written(tmp_path, name):
    with pytest.raises(PullbackError, match="cannot write"):
        write_replay(f"{tmp_path}/{name}", compiled(HINGE), np.zeros((2, 1)), dt=0.1)


def test_bodies_too_far_away_for_float32(tmp_path):
    model = compiled("<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>")
    q = np.tile([0.0, 0, 0, 1, 0, 0, 0], (3, 1))
    q[2, 0] = 1e39
    with pytest.raises(PullbackError, match="too far away to draw at row 2, world 0"):
        write_replay(tmp_path / "replay.html", model, q, dt=0.1)


def test_files_too_large_for_a_browser(tmp_path, monkeypatch):
    monkeypatch.setattr(robot, "MAX_POSE_BYTES", 1000)
    with pytest.raises(PullbackError, match="fewer worlds, or a lower fps"):
        write_replay(tmp_path / "replay.html", compiled(HINGE), np.zeros((100, 1)), dt=0.1)


# In a browser

STAGE = (slice(90, 480), slice(None))  # of the page, without title and bar


def red(view) -> np.ndarray:
    return (view[..., 0] > 0.4) & (view[..., 1] < 0.3) & (view[..., 2] < 0.3)


def violet(view) -> np.ndarray:
    return (view[..., 2] > 0.5) & (view[..., 0] > 1.3 * view[..., 1]) & (view[..., 2] > 1.3 * view[..., 0])


@needs_chromium
def test_a_browser_draws_the_motion(tmp_path):
    """A link that swings from one side to the other, seen from a side; and arrows, when they are asked for."""
    q = np.linspace(-1.2, 1.2, 201)[:, None]
    gradients = np.zeros((201, 2, 3))
    gradients[:, 1, 0] = -1.0  # downhill is to the right
    swing = replace(draw(compiled(HINGE), q, dt=0.01, camera=((0, -3, 1), (0, 0, 1))), body_gradients=gradients)
    page = write_page(tmp_path / "replay.html", swing)
    with Browser(tmp_path) as browser:
        places, views = [], []
        for time in (0.0, 1.0, 2.0):
            browser.go(f"{page.as_uri()}?{time}#t={time}")  # a new address: only then it is loaded anew
            view = browser.until(lambda view: share(red(view)) > 0.01, f"the link at {time} s", STAGE)
            assert len(np.unique((view * 255).round().astype(int).reshape(-1, 3), axis=0)) > 200
            places.append(centre(red(view)))
            views.append(view)
        # A positive turn about y moves what hangs to the left. It hangs lowest in the middle of the motion.
        (right, high, _), (middle, low, _), (left, also_high, _) = ((*place, 0) for place in places)
        assert right - middle == pytest.approx(middle - left, abs=0.02) and right - left > 0.2
        assert low > high + 0.05 and high == pytest.approx(also_high, abs=0.02)
        assert share(violet(views[2])) == 0.0
        browser.click("document.getElementById('gradients')")
        arrow = browser.until(lambda view: share(violet(view)) > 0.001, "the gradient", STAGE)
        assert centre(violet(arrow))[0] > left  # from the link to the right
        assert browser.value("document.getElementById('forces').hidden") is True  # there are none
        assert browser.value("document.body.dataset.state") == "ready"
