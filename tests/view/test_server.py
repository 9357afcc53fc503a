"""The viewer, and what a real browser shows of it."""

from __future__ import annotations

import subprocess
import sys
import urllib.request

import numpy as np
import pytest
from chromium import Browser, centre, needs_chromium, share, wait_for

import pullback as pb
from pullback.view import Viewer, draw, draw_run

# A green slider on a blue rail, and an orange ball that lies on the floor.
SCENE = """
<mujoco model="slider">
  <worldbody>
    <geom type="plane" size="0 0 1" rgba="0.8 0.8 0.8 1"/>
    <geom type="box" size="0.8 0.02 0.02" pos="0 0.1 0.5" rgba="0.1 0.2 0.8 1"/>
    <body pos="0 0 0.5"><joint type="slide" axis="1 0 0"/>
      <geom type="box" size="0.15 0.05 0.15" rgba="0.05 0.7 0.1 1" contype="0" conaffinity="0"/></body>
    <body pos="0 0 0.06"><freejoint/><geom type="sphere" size="0.06" rgba="0.9 0.5 0.05 1"/></body>
  </worldbody>
</mujoco>
"""
# Of a page of 1100 x 400 pixels: a note about slow WebGL covers the left, and the panel the right.
MIDDLE = (slice(None), slice(312, 764))
FROM_THE_FRONT = ((0.0, -5.0, 0.4), (0.0, 0.0, 0.4))


@pytest.fixture(scope="module")
def model():
    return pb.load(SCENE)


@pytest.fixture(scope="module")
def drawing(model):
    """The slider goes from left to right within 1 s; the ball lies; the target is in the middle."""
    system = pb.Articulated(model)
    v = np.zeros(model.nv)
    v[0] = 1.2
    q = model.q0.copy()
    q[0] = -0.6
    run = pb.rollout(system, system.state(q, v), steps=500)
    return draw_run(run, camera=FROM_THE_FRONT, bars={"q_bar": np.eye(1, model.nq)})


def green(picture) -> np.ndarray:
    return (picture[..., 1] > 1.3 * picture[..., 0]) & (picture[..., 1] > 1.3 * picture[..., 2])


def violet(picture) -> np.ndarray:
    r, g, b = np.moveaxis(picture, -1, 0)
    return (b > 1.15 * r) & (r > 1.2 * g) & (b > 1.5 * g)


def crimson(picture) -> np.ndarray:
    r, g, b = np.moveaxis(picture, -1, 0)
    return (r > 1.3 * g) & (r > 1.2 * b) & (b > 0.95 * g)  # forces, and not the orange ball


def orange(picture) -> np.ndarray:
    r, g, b = np.moveaxis(picture, -1, 0)
    return (r > 1.2 * g) & (g > 1.15 * b)


@needs_chromium
def test_a_browser_shows_the_motion(drawing, model, tmp_path):
    with Viewer(drawing, port=8110) as viewer, Browser(tmp_path, (1100, 400)) as browser:
        viewer.go(False, at=0.0)
        browser.go(viewer.url)

        there = lambda view: share(green(view)) > 0.005 and share(orange(view)) > 0.002  # noqa: E731
        first = browser.until(there, "the robot", MIDDLE)
        assert centre(green(first))[0] < 0.35  # on the left, above the ball in the middle
        assert centre(orange(first))[0] == pytest.approx(0.5, abs=0.05)
        assert centre(green(first))[1] < centre(orange(first))[1]
        assert share(violet(first)) == 0.0  # gradients are shown when asked for

        viewer.go(False, at=1.0)
        moved = lambda view: there(view) and centre(green(view))[0] > 0.6  # noqa: E731
        last = browser.until(moved, "the slider to have moved", MIDDLE)
        assert centre(green(last))[0] == pytest.approx(1 - centre(green(first))[0], abs=0.06)  # as far as it came from
        np.testing.assert_allclose(centre(orange(last)), centre(orange(first)), atol=0.02)  # what lies still

        # The floor holds the ball up. Then with hands: the switches of forces and gradients.
        viewer.go(False, at=0.5)
        pushed = browser.until(lambda view: share(crimson(view)) > 0.0003, "the force", MIDDLE)
        assert centre(crimson(pushed))[0] == pytest.approx(0.5, abs=0.03)
        assert centre(crimson(pushed))[1] < centre(orange(pushed))[1]
        for name, label in (
            ("gradients", "Loss gradient"),
            ("forces", "Contact forces"),
            ("contacts", "Contact points"),
        ):
            found = f"[...document.querySelectorAll('label')].find(label => label.textContent.includes('{label}'))"
            before = viewer._switches[name].value
            browser.click(f"document.getElementById({found}.htmlFor)")
            # One at a time: the page sends only the last of several clicks within a moment.
            wait_for(lambda name=name, before=before: viewer._switches[name].value != before, f"the switch {label!r}")
        switched = lambda view: share(violet(view)) > 0.0003 and not crimson(view).any()  # noqa: E731
        arrow = browser.until(switched, "the gradient, and no force", MIDDLE)
        assert centre(violet(arrow))[0] < centre(green(arrow))[0]  # downhill is where the slider came from


def test_it_serves_a_page_and_plays(drawing):
    with Viewer(drawing) as viewer, Viewer(drawing) as other:
        assert viewer.url != other.url  # the next port, if one is taken
        taken = int(other.url.rsplit(":", 1)[1].strip("/"))
        with pytest.raises(pb.PullbackError, match=f"cannot serve on 127.0.0.1, port {taken}"):
            Viewer(drawing, port=taken)
        with urllib.request.urlopen(viewer.url, timeout=30) as page:
            assert b"<html" in page.read().lower()
        before = viewer._time.value
        wait_for(lambda: viewer._time.value != before, "it to play")
        viewer.go(False, at=0.25)
        wait_for(lambda: viewer._shown == 125, "the frame at 0.25 s")
        node = viewer._bodies[0, 1]
        np.testing.assert_allclose(node.position, drawing.poses[125, 0, 1, :3], atol=1e-6)


def test_states_are_shown_live(model):
    system = pb.Articulated(model, worlds=2)
    with Viewer(model, port=8130) as viewer:
        state = system.state()
        for _ in range(3):
            state = system.step(state)
            viewer.show(state, system.contacts(state)[0])
        assert viewer._drawing.worlds == 2 and (1, 1) in viewer._bodies
        q = model.q0.copy()
        q[0] = 0.4
        viewer.show(q)
        assert viewer._bodies[0, 1].position[0] == pytest.approx(0.4)
        with pytest.raises(pb.PullbackError, match="q must have shape"):
            viewer.show(np.zeros(3))
        with pytest.raises(pb.PullbackError, match="q must have shape"):
            viewer.show(np.full(model.nq, np.nan))


def test_sliders_move_joints():
    model = pb.load(pb.robots.arm())
    with Viewer(model, port=8135) as viewer:
        viewer.add_sliders()
        sliders = {handle.label: handle for handle in viewer._server.gui._gui_input_handle_from_uuid.values()}
        first = sliders[model.joint_names[0]]
        assert (first.min, first.max) == pytest.approx(tuple(model.mujoco.jnt_range[0]))
        before = viewer._drawing.poses.copy()
        for update in first._impl.update_cb:  # as when a user drags it
            first.value = 0.5
            update(type("Event", (), {"target": first})())
        assert np.abs(viewer._drawing.poses - before).max() > 0.1
        viewer.show(model.home.q)
        with pytest.raises(pb.PullbackError, match="q is not finite"):
            viewer.add_sliders(np.full(model.nq, np.nan))


def test_bad_input(drawing, model, monkeypatch):
    with pytest.raises(pb.PullbackError, match="a Model or a Drawing, not str"):
        Viewer("robot.xml")
    with Viewer(drawing, port=8140) as viewer, pytest.raises(pb.PullbackError, match=r"Viewer\(model\)"):
        viewer.show(model.q0)
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(pb.PullbackError, match=r'pip install "pullback\[view\]"'):
        Viewer(drawing)


def test_a_ghost_can_be_switched_off(model):
    still = draw(model, np.stack([model.q0, model.q0]), dt=0.1, ghost=model.q0)
    with Viewer(still, port=8150) as viewer:
        assert viewer._switches["ghost"].visible and not viewer._switches["gradients"].visible
        viewer._switches["ghost"].value = False
        wait_for(lambda: not viewer._copies[1].visible, "the ghost to go")
        assert viewer._copies[0].visible


def test_a_robot_that_travels_is_followed(model):
    q = np.tile(model.q0, (81, 1))
    q[:, 0] = q[:, 1] = np.linspace(0, 30, 81)
    with Viewer(draw(model, q, dt=0.01), port=8180) as viewer:
        assert viewer._follow.visible
        viewer.go(False, at=0.8)
        wait_for(lambda: viewer._shown == 80, "the last frame")
        assert viewer._world.position[0] == pytest.approx(-30, abs=1.0)
        viewer._follow.value = False
        wait_for(lambda: viewer._world.position[0] == 0.0, "the camera to stay")


def test_nothing_is_imported_before_it_is_needed():
    """Neither what draws nor what serves: a program that only simulates should start at once."""
    script = (
        "import sys, pullback, pullback.view; print(*{'viser', 'PIL', 'matplotlib', 'websockets'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
