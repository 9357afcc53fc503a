"""Pictures made without a browser: what is where in them, and how bright."""

from __future__ import annotations

from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
from chromium import centre, share

from pullback.view import draw
from pullback.view.camera import HALF_VIEW
from pullback.view.render import Renderer, _clipped, _Triangles

BALLS = """
<mujoco>
  <worldbody>
    {floor}
    <body pos="0 0 {height}"><joint type="slide" axis="1 0 0"/>
      <geom type="sphere" size="0.3" rgba="0.9 0.1 0.1 1"/></body>
    <body pos="0 {behind} {height}"><joint type="slide" axis="1 0 0"/>
      <geom type="{kind}" size="0.2 0.2 0.2" rgba="0.1 0.1 0.9 1"/></body>
  </worldbody>
</mujoco>
"""
FROM_THE_FRONT = ((0.0, -5.0, 1.0), (0.0, 0.0, 1.0))


def scene(q, *, behind=1.0, height=1.0, floor="", kind="sphere", ghost=None, camera=FROM_THE_FRONT):
    m = mujoco.MjModel.from_xml_string(BALLS.format(behind=behind, height=height, floor=floor, kind=kind))
    return draw(SimpleNamespace(mujoco=m, nq=m.nq), np.atleast_2d(q), dt=0.1, ghost=ghost, camera=camera)


def red(picture) -> np.ndarray:
    r, g, b = np.moveaxis(picture.astype(float), -1, 0)
    return (r > 1.6 * g) & (r > 1.6 * b)


def blue(picture) -> np.ndarray:
    r, g, b = np.moveaxis(picture.astype(float), -1, 0)
    return (b > 1.6 * g) & (b > 1.6 * r)


def expected(view, point, radius, size) -> tuple[np.ndarray, float]:
    """Where a ball is in the picture, as shares of width and height, and which share of it is covered."""
    x, y, z = (point - view.eye) @ view.axes.T
    width, height = size
    scale = 0.5 * height / HALF_VIEW
    at = np.array([0.5 + x / -z * scale / width, 0.5 - y / -z * scale / height])
    outline = np.pi * (radius * scale) ** 2 / (z**2 - radius**2)  # seen in the middle of the picture
    return at, outline / (width * height)


def test_balls_are_where_they_belong():
    size = (240, 160)
    renderer = Renderer(scene([[-1.0, 0.5], [1.0, 0.5]]), size)
    for frame, x in ((0, -1.0), (1, 1.0)):
        picture = renderer.frame(frame)
        assert picture.shape == (160, 240, 3) and picture.dtype == np.uint8
        for mask, point, radius in ((red, (x, 0, 1), 0.3), (blue, (0.5, 1, 1), 0.2)):
            at, covered = expected(renderer.view, point, radius, size)
            np.testing.assert_allclose(centre(mask(picture)), at, atol=0.01)
            assert share(mask(picture)) == pytest.approx(covered, rel=0.08)


def test_what_is_nearer_hides_what_is_behind():
    hidden = Renderer(scene([[0.0, 0.0], [1.0, 0.0]], behind=1.0), (120, 90)).frame(0)
    shown = Renderer(scene([[0.0, 0.0], [1.0, 0.0]], behind=-1.0), (120, 90)).frame(0)
    assert share(blue(hidden)) == 0.0 and share(red(hidden)) > 0.02
    assert share(blue(shown)) > 0.01


def test_light_comes_from_above():
    picture = Renderer(scene([[0.0, 2.0]]), (160, 120)).frame(0)
    rows = np.flatnonzero(red(picture).any(axis=1))
    brightness = [picture[row][red(picture)[row]].mean() for row in (rows[len(rows) // 5], rows[4 * len(rows) // 5])]
    assert brightness[0] > 1.3 * brightness[1]


def test_a_floor_catches_a_shadow():
    floor = '<geom type="plane" size="0 0 1" rgba="0.8 0.8 0.8 1"/>'
    high = ((0.0, -4.0, 4.0), (0.0, 0.0, 0.0))
    renderer = Renderer(scene([[-1.0, 0.5], [1.0, 0.5]], height=0.5, floor=floor, camera=high), (160, 120))
    pictures = [renderer.frame(frame).astype(float) for frame in (0, 1)]
    darker = (pictures[0].mean(axis=-1) < 0.75 * pictures[1].mean(axis=-1)) & ~red(pictures[0]) & ~red(pictures[1])
    assert share(darker) > 0.005
    assert centre(darker)[0] < 0.5 < centre(red(pictures[1]))[0]  # on the side where the ball was


def test_a_ghost_is_seen_through():
    q = [[0.0, 0.5], [0.0, 0.5]]
    drawing = scene(q, behind=1.0, ghost=np.array([0.6, 0.5]))
    with_ghost, without = (Renderer(drawing, (160, 120), layers=layers).frame(0) for layers in (("ghost",), ()))
    changed = np.abs(with_ghost.astype(int) - without.astype(int)).max(axis=-1) > 10
    assert share(changed) > 0.01
    at, _ = expected(Renderer(drawing, (160, 120)).view, (0.6, 0, 1), 0.3, (160, 120))
    np.testing.assert_allclose(centre(changed), at, atol=0.06)
    assert with_ghost[changed][:, 2].mean() > with_ghost[changed][:, 0].mean() + 20  # bluish, not red


def test_a_robot_that_travels_is_followed():
    q = np.stack([np.linspace(0, 20, 81), np.linspace(0.5, 20.5, 81)], axis=1)
    floor = '<geom type="plane" size="0 0 1" rgba="0.8 0.8 0.8 1"/>'
    renderer = Renderer(scene(q, floor=floor), (160, 120))
    assert renderer.travel[-1, 0] == pytest.approx(20.0, abs=0.5)
    pictures = [renderer.frame(frame) for frame in (0, 13, 80)]
    assert min(share(red(picture)) for picture in pictures) > 0.03
    places = np.array([centre(red(picture)) for picture in pictures])
    np.testing.assert_allclose(places, np.tile(places[0], (3, 1)), atol=0.05)
    changed = np.abs(pictures[0].astype(int) - pictures[1].astype(int)).max(axis=-1) > 8
    assert share(changed[80:]) > 0.02  # while the floor goes by
    assert not Renderer(scene(q[:8], floor=floor), (160, 120)).travel.any()


def test_a_long_platform_does_not_push_the_robot_away():
    """It is seen as far as the motion goes; a target beside the motion is seen whole."""
    q = np.stack([np.linspace(-0.6, 0.6, 9), np.zeros(9)], axis=1)
    bare = Renderer(scene(q), (160, 120)).view
    platform = '<geom type="box" size="1.6 0.3 0.1" pos="{} 0 0.6"/>'
    long = Renderer(scene(q, floor=platform.format(-1.0) + platform.format(1.0)), (160, 120)).view
    distances = [np.linalg.norm(view.eye - view.target) for view in (bare, long)]
    assert distances[0] < distances[1] < 1.5 * distances[0]
    target = Renderer(scene(q, floor='<geom type="sphere" size="0.1" pos="1.9 0 1"/>'), (160, 120)).view
    at, _ = expected(target, (1.9, 0, 1), 0.1, (160, 120))
    assert 0.8 < at[0] < 1


def test_nothing_that_moves():
    m = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom type='box' size='1 1 1'/></worldbody></mujoco>")
    drawing = draw(SimpleNamespace(mujoco=m, nq=0), np.zeros((2, 0)), dt=0.1)
    assert len(np.unique(Renderer(drawing, (64, 48)).frame(1).reshape(-1, 3), axis=0)) > 10


def test_scenery_that_passes_the_camera_is_cut_and_not_dropped():
    """A red rail of 40 m, of which one end is far behind the camera, is seen from one edge of the picture to where it
    vanishes."""
    rail = '<mujoco><worldbody><geom type="capsule" fromto="-20 0 0.5 20 0 0.5" size="0.05" rgba="0.9 0 0 1"/>'
    body = '<body pos="0 0 0.5"><joint type="slide"/><geom type="box" size="0.2 0.2 0.2" rgba="0 0 0.9 1"/></body>'
    m = mujoco.MjModel.from_xml_string(f"{rail}{body}</worldbody></mujoco>")
    drawing = draw(SimpleNamespace(mujoco=m, nq=1), np.zeros((1, 1)), dt=0.1, camera=((2.0, -1.0, 1.0), (0, 0, 0.5)))
    columns = np.flatnonzero(red(Renderer(drawing, (160, 120), samples=1).frame(0)).any(axis=0))
    assert columns[0] < 80 and columns[-1] == 159


def test_triangles_are_cut_at_a_plane():
    """Areas above z = 0 of triangles with one, two and three corners there, and with none."""
    corners = np.array([[0, 0, 1], [2, 0, -1], [0, 2, -1]]), np.array([[0, 0, -1], [2, 0, 1], [0, 2, 1]])
    at = np.array([*corners, corners[0] + [0, 0, 5], corners[0] - [0, 0, 5]], dtype=float)
    cut = _clipped(_Triangles(at, 2 * at, np.eye(4)), at[..., 2])
    area = lambda x: np.linalg.norm(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]), axis=1)  # noqa: E731
    whole, found = area(at), area(cut.at)
    shares = [found[cut.colour[:, k] == 1].sum() / whole[k] for k in range(4)]
    np.testing.assert_allclose(shares, [0.25, 0.75, 1.0, 0.0], atol=1e-12)
    assert cut.at[..., 2].min() > -1e-12 and len(cut.at) == 4
    np.testing.assert_allclose(cut.normal, 2 * cut.at, atol=1e-12)
    signs = np.einsum("ij,ij->i", np.cross(cut.at[:, 1] - cut.at[:, 0], cut.at[:, 2] - cut.at[:, 0]), [[0, 0, 1]] * 4)
    assert np.all(signs > 0)  # they turn as before
