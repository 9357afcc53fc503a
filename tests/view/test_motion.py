"""Motion files: all that is drawn is in them, and nothing in them is believed."""

from __future__ import annotations

import shutil
from dataclasses import fields, replace

import numpy as np
import pytest

import pullback as pb
from pullback.cli import main
from pullback.core.errors import GradientOverflow
from pullback.drawing.drawing import MOST_FRAMES, Drawing
from pullback.view import draw, draw_run, load_motion, save_motion

TETRAHEDRON = """
v 0 0 0
v 0.2 0 0
v 0 0.2 0
v 0 0 0.2
f 1 3 2
f 1 2 4
f 1 4 3
f 2 3 4
"""
WITH_MESH = """
<mujoco model="stone">
  <asset><mesh name="stone" file="stone.obj"/></asset>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    <body pos="0 0 0.5"><freejoint/><geom type="mesh" mesh="stone" rgba="0.2 0.6 0.3 1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def run():
    system = pb.Articulated(pb.load(pb.robots.quadruped()))
    return pb.rollout(system, system.state(), steps=20)


def test_what_is_saved_is_loaded(run, tmp_path):
    losses, camera = np.array([3.0, 1.0]), ((1.0, 2.0, 3.0), (0.0, 0.0, 0.0))
    drawing = draw_run(
        run,
        title="a <b> ü",
        ghost=run.system.model.home.q,
        losses=losses,
        camera=camera,
        bars={"q_bar": np.ones_like(run.q[-1])},
    )
    assert len(drawing.contact_frame) and drawing.body_gradients.any()
    path = save_motion(tmp_path / "motion.npz", drawing, q=run.q, more=np.arange(3))
    again = load_motion(path)
    for field in fields(Drawing):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(drawing, field.name), err_msg=field.name)
    with np.load(path, allow_pickle=False) as file:  # every array, not only those that are drawn
        assert str(file["format"]) == "pullback motion 1" and file["more"].tolist() == [0, 1, 2]
        assert all(file[name].dtype != object for name in file.files)
    assert [entry.name for entry in tmp_path.iterdir()] == ["motion.npz"]


def test_a_robot_with_meshes_needs_no_files_any_more(tmp_path, capsys):
    home = tmp_path / "robot"
    home.mkdir()
    (home / "stone.obj").write_text(TETRAHEDRON)
    (home / "stone.xml").write_text(WITH_MESH)
    command = ["simulate", str(home / "stone.xml"), "--seconds", "0.05", "--contact", "none", "--out", str(tmp_path)]
    assert main(command) == 0
    shutil.rmtree(home)
    drawing = load_motion(tmp_path / "motion.npz")
    assert drawing.shape_kind.tolist() == ["plane", "mesh"]
    mesh = drawing.surface(1)
    a, b, c = mesh.vertices[mesh.faces].astype(float).transpose(1, 0, 2)
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6 == pytest.approx(0.2**3 / 6, rel=1e-5)
    np.testing.assert_allclose(drawing.shape_colours[1, 0], [0.2, 0.6, 0.3, 1.0], atol=1e-6)


def test_long_motions_leave_out_rows(run):
    model = run.system.model
    drawing = draw(model, np.repeat(model.home.q[None], 2 * MOST_FRAMES + 5, axis=0), dt=0.001)
    assert drawing.frames <= MOST_FRAMES + 1 and drawing.times[-1] == pytest.approx(0.001 * (2 * MOST_FRAMES + 4))


def test_gradients_that_overflow_do_not_hide_the_motion(run, monkeypatch):
    def overflow(*_, **__):
        raise GradientOverflow("too large")

    monkeypatch.setattr("pullback.dynamics.drawing.body_gradients", overflow)
    assert not len(draw_run(run, bars={"q_bar": np.ones_like(run.q[-1])}).body_gradients)


BROKEN = {
    "poses of no body": ({"poses": np.zeros((21, 1, 2, 7), dtype=np.float32)}, "draw_poses has shape"),
    "a shape too few": ({"shape_pos": np.zeros((1, 3))}, "draw_shape_pos has shape"),
    "not finite": ({"body_com": np.full((14, 3), np.nan)}, "draw_body_com is not finite"),
    "a body that is not there": ({"shape_body": "plus 100"}, "leads nowhere"),
    "a mesh that is not there": ({"shape_kind": "all mesh"}, "leads nowhere"),
    "a kind that is not known": ({"shape_kind": "all torus"}, "a shape is one of"),
    "frames that are not there": ({"contact_frame": "plus 100"}, "leads nowhere"),
    "faces without vertices": ({"mesh_faces": np.zeros((1, 3), np.int32)}, "leads nowhere"),
    "negative sizes": ({"mesh_sizes": np.array([[-1, -1]])}, "leads nowhere"),
    "time that stands still": ({"times": np.zeros(21)}, "times rising"),
    "no worlds": ({"worlds": 0}, "and worlds"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_refused(run, tmp_path, kind):
    drawing = draw_run(run)
    changes, message = BROKEN[kind]
    for name, value in changes.items():
        if isinstance(value, str):
            how, what = value.split()
            old = getattr(drawing, name)
            value = old + int(what) if how == "plus" else np.full(old.shape, what)
        drawing = replace(drawing, **{name: value})
    with pytest.raises(pb.PullbackError, match=message):
        load_motion(save_motion(tmp_path / "broken.npz", drawing))


@pytest.mark.parametrize("name", [field.name for field in fields(Drawing)])
def test_anything_in_any_field_is_refused_or_harmless(run, tmp_path, name):
    """Never an error of another kind: files come from anywhere."""
    drawing = draw_run(run, bars={"q_bar": np.ones_like(run.q[-1])})
    old = np.asarray(getattr(drawing, name))
    junk = [np.array("text"), np.array(-1), np.zeros(0), np.zeros((2, 2, 2)), np.full(old.shape, -7), old[..., None]]
    refused = 0
    for value in (*junk, np.full(old.shape, np.nan), np.full(old.shape, 1e300)):
        path = save_motion(tmp_path / "junk.npz", replace(drawing, **{name: value}))
        try:
            load_motion(path)
        except pb.PullbackError:
            refused += 1
    assert refused >= 3


def test_files_that_are_none(tmp_path, run):
    with pytest.raises(pb.PullbackError, match="there is no file"):
        load_motion(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "old.npz", q=np.zeros((3, 1)))
    np.savez(tmp_path / "part.npz", draw_title="x")
    np.savez(tmp_path / "pickle.npz", draw_title=np.array([{}], dtype=object))
    whole = save_motion(tmp_path / "whole.npz", draw_run(run)).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    spoiled = bytearray(whole)
    spoiled[len(whole) // 2] ^= 255
    (tmp_path / "spoiled.npz").write_bytes(spoiled)
    np.save(tmp_path / "one.npy", np.zeros(3))
    messages = {
        "text.npz": "is no motion file",
        "old.npz": "holds nothing to draw",
        "part.npz": "not a whole motion file",
        "pickle.npz": "motion file",
        "cut.npz": "is no motion file",
        "spoiled.npz": "cannot be read as a motion file",
        "one.npy": "is no motion file",
    }
    for name, message in messages.items():
        with pytest.raises(pb.PullbackError, match=message):
            load_motion(tmp_path / name)
    with pytest.raises(pb.PullbackError, match="cannot write"):
        save_motion(tmp_path / "missing" / "motion.npz", None, q=np.zeros(3))
