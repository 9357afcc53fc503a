"""A viewer in the browser: a small web server on this machine, made with viser."""

from __future__ import annotations

import contextlib
import io
import math
import socket
import threading
import time
from dataclasses import replace

import mujoco
import numpy as np

from pullback.contact import ContactPoints
from pullback.core.arrays import checked, to_numbers
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.drawing.drawing import FORCE_COLOUR, GRADIENT_COLOUR, Arrows, Drawing
from pullback.drawing.robot import body_poses, draw
from pullback.drawing.surfaces import simple_surface
from pullback.model import Model
from pullback.view.camera import HALF_VIEW, camera_travel, fitted_view

PICTURES = 50  # sent per second [1/s]
SPEEDS = {"1/20": 0.05, "1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "4": 4.0}
ASPECT = 1.2  # of the part of the page that no panel covers, about
STEP_BACK = 1.25  # from where the motion would fill that part [1]
SQUARE = 0.5  # of the floor [m]
FIRST_PORT = 8080
# Of joints without limits [rad or m]. Others than these have no slider.
SLIDER_RANGES = {int(mujoco.mjtJoint.mjJNT_HINGE): (-math.pi, math.pi), int(mujoco.mjtJoint.mjJNT_SLIDE): (-1.0, 1.0)}


def free_port(host: str, port: int | None) -> int:
    """The port that was asked for, or the first free one from 8080 on. viser finds out only in a thread of its own."""
    family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    for trial in [port] if port is not None else range(FIRST_PORT, FIRST_PORT + 100):
        with socket.socket(family, socket.SOCK_STREAM) as trying:
            trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trying.bind((host, trial))
                return trial
            except OSError:
                if port is not None:
                    raise
    raise OSError(f"no port from {FIRST_PORT} on is free")


class Viewer:
    """Shows a robot in the browser, live or as a film that can be played and scrubbed.

        viewer = Viewer(model)              # open viewer.url in a browser
        for control in controls:
            state = system.step(state, control)
            viewer.show(state)

    what:  a :class:`pullback.Model` to show states of, or a :class:`Drawing` to play
    host:  "127.0.0.1" is seen from this machine alone; "0.0.0.0" from others too
    port:  to serve on; None for 8080, or the next that is free
    """

    def __init__(self, what: Model | Drawing, *, host: str = "127.0.0.1", port: int | None = None):
        try:
            import viser
        except ImportError:
            raise PullbackError('the viewer needs viser: pip install "pullback[view]"') from None
        self._model = what if isinstance(what, Model) else None
        drawing = draw(what, what.home.q[None], dt=what.timestep) if self._model else what
        if not isinstance(drawing, Drawing):
            raise PullbackError(f"a Viewer shows a Model or a Drawing, not {type(what).__name__}")
        try:
            port = free_port(host, port)
            with contextlib.redirect_stdout(io.StringIO()):  # its banner; whoever starts a viewer says where it is
                self._server = viser.ViserServer(host=host, port=port, label=drawing.title or "Replay", verbose=False)
        except (OSError, OverflowError) as error:
            raise PullbackError(f"cannot serve on {host}, port {port or FIRST_PORT}: {error}") from None
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._drawing: Drawing | None = None
        self._going = True
        self._make_panel()
        self.play(drawing)
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host = self._server.get_host()
        return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{self._server.get_port()}"

    def play(self, drawing: Drawing) -> None:
        """Shows another motion from now on, from its start."""
        check_kind(drawing, Drawing, "drawing", "draw_run(run)")
        with self._lock:
            before, self._drawing = self._drawing, drawing
            self._travel = camera_travel(drawing)
            self._follow.visible = bool(self._travel.any())
            with self._server.atomic():
                if before is None or not _same_shapes(before, drawing):
                    self._make_scene()
                self._make_arrows()
                moves = drawing.frames > 1
                for part in (self._time, self._play, self._speed):
                    part.visible = moves
                if moves:
                    self._time.max = drawing.duration
                    self._time.value = 0.0
                self._shown = None
                self._place(0)

    def show(self, state, contacts: ContactPoints | None = None) -> None:
        """Shows a state, or coordinates q, (nq,) or (worlds, nq), of the model that the viewer was made with.

        contacts: of the first world, as from ``system.contacts(state)[0]``
        """
        if self._model is None:
            raise PullbackError("show needs a viewer of a model: Viewer(model)")
        q = np.atleast_2d(to_numbers(getattr(state, "q", state), "q").astype(float))
        if q.shape[1:] != (self._model.nq,) or not np.isfinite(q).all():
            raise PullbackError(f"q must have shape (worlds, {self._model.nq}) and be finite, not {q.shape}")
        poses = body_poses(self._model.mujoco, [q[None]], np.zeros(1, dtype=int))
        found = {}
        if contacts is not None:
            check_kind(contacts, ContactPoints, "contacts", "system.contacts(state)[0]")
            found = {"contact_pos": contacts.pos, "contact_force": contacts.force}
            found["contact_frame"] = np.zeros(len(contacts), dtype=int)
        self.play(replace(self._drawing, times=np.zeros(1), poses=poses, worlds=len(q), **found))

    def add_sliders(self, q=None) -> None:
        """Sliders for all hinges and slides of the model, with which it can be posed from q (nq,) on; home if None."""
        if self._model is None:
            raise PullbackError("add_sliders needs a viewer of a model: Viewer(model)")
        nq = self._model.nq
        pose = checked(self._model.home.q if q is None else q, (nq,), "float64", "q", ("coordinate",)).copy()
        self.show(pose)
        joints = self._model.mujoco

        def move(coordinate: int, value: float) -> None:
            with self._lock:
                pose[coordinate] = value
                self.show(pose)

        with self._server.gui.add_folder("Joints [rad or m]"):
            for joint, name in enumerate(self._model.joint_names):
                usual = SLIDER_RANGES.get(int(joints.jnt_type[joint]))
                if usual is None:
                    continue
                at = int(joints.jnt_qposadr[joint])
                limits = joints.jnt_range[joint] if joints.jnt_limited[joint] else usual
                low, high = min(limits[0], pose[at]), max(limits[1], pose[at])
                slider = self._server.gui.add_slider(
                    name, min=float(low), max=float(high), step=0.001, initial_value=float(pose[at])
                )
                slider.on_update(lambda event, at=at: move(at, event.target.value))

    def go(self, going: bool = True, *, at: float | None = None) -> None:
        """Plays or stands still, from a time on [s]."""
        with self._lock:
            self._going = going
            self._play.label, self._play.icon = ("Pause", "player-pause") if going else ("Play", "player-play")
            if at is not None:
                self._time.value = min(float(at), self._drawing.duration)

    def close(self) -> None:
        """Ends the server."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._thread.join()
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()

    def wait(self) -> None:
        """Stays until Ctrl-C."""
        try:
            self._closed.wait()
        except KeyboardInterrupt:
            self.close()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # --- the panel ----------------------------------------------------------------------------------------------------

    def _make_panel(self) -> None:
        gui = self._server.gui
        gui.configure_theme(show_logo=False, show_share_button=False)
        self._play = gui.add_button("Pause", icon="player-pause")
        self._play.on_click(lambda _: self.go(not self._going))
        self._time = gui.add_slider("Time [s]", min=0.0, max=1.0, step=0.001, initial_value=0.0)
        self._speed = gui.add_dropdown("Speed", tuple(SPEEDS), initial_value="1")
        self._follow = gui.add_checkbox("Follow", True)
        pushes = "pushing a body this way makes the loss smaller"
        self._switches = {
            "contacts": gui.add_checkbox("Contact points", True),
            "forces": gui.add_checkbox("Contact forces", True),
            "gradients": gui.add_checkbox("Loss gradient", False, hint=pushes),
            "ghost": gui.add_checkbox("Target", True),
        }
        for switch in (self._follow, *self._switches.values()):
            switch.on_update(lambda _: self._switched())

    def _switched(self) -> None:
        with self._lock:
            self._shown = None  # drawn anew within the next moment
            for copy, node in enumerate(self._copies):
                node.visible = copy < self._drawing.worlds or self._switches["ghost"].value

    # --- the scene ----------------------------------------------------------------------------------------------------

    def _make_scene(self) -> None:
        drawing, scene = self._drawing, self._server.scene
        scene.reset()
        scene.set_up_direction("+z")
        # A plain sky lights what the lamps do not: viser's own is a picture, and takes many seconds without a GPU.
        scene.configure_environment_map(None)
        scene.add_light_hemisphere("/sky", sky_color=(255, 255, 255), ground_color=(190, 190, 195), intensity=2.2)
        view = fitted_view(drawing, ASPECT)
        camera = self._server.initial_camera
        camera.position, camera.look_at = view.target + STEP_BACK * (view.eye - view.target), view.target
        camera.fov = 2 * math.atan(HALF_VIEW)
        self._world = scene.add_frame("/world", show_axes=False)
        self._make_floors()
        self._copies, self._bodies, self._painted = [], {}, []
        for copy in range(drawing.copies):
            self._copies.append(scene.add_frame(f"/world/robot {copy}", show_axes=False))
            for body in np.unique(drawing.shape_body[drawing.moving]).tolist():
                self._bodies[copy, body] = scene.add_frame(f"/world/robot {copy}/{body}", show_axes=False)
            for shape in drawing.moving:
                self._add_shape(f"/world/robot {copy}/{drawing.shape_body[shape]}/{shape}", int(shape), copy)
        for shape in drawing.fixed:
            self._add_shape(f"/world/fixed/{shape}", int(shape), 0)
        self._points = None
        if len(drawing.points):
            self._points = scene.add_point_cloud(
                "/world/points",
                drawing.points[0],
                drawing.point_colours(0),
                point_size=2 * float(np.mean(drawing.point_radius)),
                point_shape="circle",
                precision="float32",
            )

    def _add_shape(self, name: str, shape: int, copy: int) -> None:
        drawing = self._drawing
        colour, (pos, quat) = drawing.colour(shape, copy), drawing.place(shape)
        mesh = drawing.surface(shape)
        if drawing.painted(shape) and copy == 0:  # made anew at every frame, with its colours
            self._painted.append((name, shape))
            return
        self._server.scene.add_mesh_simple(
            name,
            mesh.vertices,
            mesh.faces,
            color=_rgb(colour),
            opacity=float(colour[3]) if colour[3] < 0.999 else None,
            side="double" if drawing.shape_kind[shape] == "mesh" else "front",
            cast_shadow=bool(colour[3] > 0.999),
            position=pos,
            wxyz=quat,
        )

    def _make_floors(self) -> None:
        for plane in self._drawing.planes:
            at, quat = self._drawing.place(plane)
            even, odd = self._drawing.shape_colours[plane]
            width, height = 2 * self._drawing.shape_size[plane, :2]
            self._server.scene.add_grid(
                f"/world/floor/{plane}",
                width=float(width or 1.0),
                height=float(height or 1.0),
                infinite_grid=not (width and height),
                cell_size=SQUARE,
                section_size=2 * SQUARE,
                cell_color=_rgb(0.85 * odd),
                section_color=_rgb(0.7 * odd),
                plane_color=_rgb(even),
                plane_opacity=float(even[3]),
                fade_distance=40.0,
                position=at,
                wxyz=quat,
            )

    def _make_arrows(self) -> None:
        """As many as the busiest frame has; those a frame does not need have no size."""
        drawing = self._drawing
        contacts = int(np.bincount(drawing.contact_frame, minlength=1).max())
        bodies = len(drawing.body_moves) if len(drawing.body_gradients) else 0
        arrow, ball = simple_surface("arrow", (1.0, 1.0, 1.0)), simple_surface("sphere", (1.0, 1.0, 1.0))
        self._arrows = {
            "contacts": self._batch("contacts", ball, contacts, FORCE_COLOUR),
            "forces": self._batch("forces", arrow, contacts, FORCE_COLOUR),
            "gradients": self._batch("gradients", arrow, bodies, GRADIENT_COLOUR),
        }
        there = {"contacts": contacts, "forces": contacts, "gradients": bodies}
        there["ghost"] = drawing.copies - drawing.worlds
        for name, switch in self._switches.items():
            switch.visible = bool(there[name])

    def _batch(self, name: str, mesh, count: int, colour):
        if not count:
            return None
        return self._server.scene.add_batched_meshes_simple(
            f"/world/{name}",
            mesh.vertices,
            mesh.faces,
            batched_positions=np.zeros((count, 3)),
            batched_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
            batched_scales=np.full((count, 3), 1e-9),
            batched_colors=_rgb(colour),
            lod="off",
        )

    # --- frames -------------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        before = time.monotonic()
        while not self._closed.wait(1 / PICTURES):
            now = time.monotonic()
            passed, before = now - before, now
            with self._lock:
                if self._going and self._drawing.frames > 1:
                    at = self._time.value + passed * SPEEDS[self._speed.value]
                    self._time.value = at % self._drawing.duration
                frame = int(np.argmin(np.abs(self._drawing.times - self._time.value))) if self._time.visible else 0
                if frame != self._shown:
                    with self._server.atomic():
                        self._place(frame)

    def _place(self, frame: int) -> None:
        drawing = self._drawing
        for (copy, body), node in self._bodies.items():
            pose = drawing.poses[frame, copy, body]
            node.position, node.wxyz = pose[:3], pose[3:]
        forces = drawing.force_arrows(frame, self._shown)
        points, _ = drawing.contacts(frame, self._shown)
        radius = np.full((len(points), 3), drawing.ball_radius)
        self._set("contacts", Arrows(points, np.tile([1.0, 0, 0, 0], (len(points), 1)), radius))
        self._set("forces", forces)
        self._set("gradients", drawing.gradient_arrows(frame))
        # A robot that travels is followed by moving everything back, which leaves the camera to the user.
        self._world.position = -self._travel[frame] if self._follow.value else np.zeros(3)
        for name, shape in self._painted:
            self._add_painted(name, shape, frame)
        if self._points is not None:
            self._points.points = drawing.points[frame]
            self._points.colors = np.round(255 * drawing.point_colours(frame)).astype(np.uint8)
        self._shown = frame

    def _add_painted(self, name: str, shape: int, frame: int) -> None:
        import trimesh  # comes with viser

        drawing, mesh = self._drawing, self._drawing.surface_at(frame, shape)
        colours = np.round(255 * drawing.paint_at(frame, shape)).astype(np.uint8)
        part = trimesh.Trimesh(
            mesh.vertices, mesh.faces[drawing.faces_seen(frame, shape)], vertex_colors=colours,
            vertex_normals=mesh.normals / 127.0, process=False,
        )  # fmt: skip
        self._server.scene.add_mesh_trimesh(
            name, part, position=drawing.shape_pos[shape], wxyz=drawing.shape_quat[shape]
        )

    def _set(self, name: str, arrows: Arrows) -> None:
        node = self._arrows[name]
        if node is None:
            return
        spare = len(node.batched_positions) - len(arrows.pos)
        node.visible = self._switches[name].value
        node.batched_positions = np.pad(arrows.pos, ((0, spare), (0, 0))).astype(np.float32)
        turns = np.concatenate([arrows.quat, np.tile([1.0, 0.0, 0.0, 0.0], (spare, 1))])
        node.batched_wxyzs = turns.astype(np.float32)
        node.batched_scales = np.pad(arrows.scale, ((0, spare), (0, 0)), constant_values=1e-9).astype(np.float32)


def _same_shapes(a: Drawing, b: Drawing) -> bool:
    """Whether two drawings differ in nothing but the motion."""
    if (a.copies, a.worlds, a.title) != (b.copies, b.worlds, b.title):
        return False
    names = ("shape_kind", "shape_size", "shape_mesh", "shape_body", "shape_pos", "shape_quat", "shape_colours")
    names += ("mesh_vertices", "face_times", "point_radius")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def _rgb(colour) -> tuple[int, int, int]:
    return tuple(int(round(255 * float(c))) for c in colour[:3])
