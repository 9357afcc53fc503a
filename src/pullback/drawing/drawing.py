"""What there is to draw, whatever draws it: shapes on bodies, the poses of the bodies at every frame, and arrows.

A System says what a run looks like by a method that returns a :class:`Drawing`. The page of a replay, the viewer in the
browser and the pictures are all made from one, and motion files hold one. It needs no robot file, no meshes beside it
and no MuJoCo: all that is known is triangles and numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.drawing.surfaces import CORNERS, Surface, moved_surface, simple_surface, surface
from pullback.spatial import quat_mul, unit_quat_matrix

KINDS = ("plane", "sphere", "capsule", "cylinder", "box", "mesh")
LAYERS = ("forces", "gradients", "ghost")  # what can be shown besides the robot
# RGBA, from 0 to 1; replay_draw.js has the same.
GHOST_COLOUR = (0.20, 0.47, 0.95, 0.38)
FORCE_COLOUR, GRADIENT_COLOUR = (0.86, 0.16, 0.22, 1.0), (0.49, 0.23, 0.86, 1.0)
OTHER_WORLD_ALPHA = 0.3
BALL_COLOUR = (0.19, 0.44, 0.87, 1.0)  # of points
# Longer motions leave out rows: scrubbing is no finer than this, and files stay small. [frames]
MOST_FRAMES = 3000
# Arrows: the length of a strong one against the size of the robot, how much longer the longest may be, and how wide.
ARROW_LENGTH, ARROW_LIMIT, ARROW_WIDTH = 0.4, 1.5, 0.02
STRONG = 75  # per cent of all arrows are shorter than a strong one
# A force this small against the strongest is a surface that is near, and does not touch. [1]
TOUCHING = 1e-4
HARDEST_WITHIN = 0.05  # so much earlier may be what is shown of contacts [s]
# Colours (256, 3) from cold to hot, from 0 to 1: steel, violet, red, orange, nearly white.
PALETTE = np.stack(
    [
        np.interp(np.linspace(0, 1, 256), (0, 0.25, 0.5, 0.75, 1), channel)
        for channel in ((0.42, 0.40, 0.80, 0.98, 1.0), (0.47, 0.18, 0.20, 0.62, 0.97), (0.54, 0.42, 0.17, 0.12, 0.78))
    ],
    axis=1,
)
BALL_SHARE = 0.6  # of an arrow's width: the radius of the ball that marks a contact [1]


def _array(*axes: str | int, kinds: str = "iuf", optional: bool = False):
    """A field of arrays with these axes, by name or length, and of a dtype of these kinds, as NumPy calls them.

    What is optional has no rows where it is not there.
    """
    about = {"axes": axes, "kinds": kinds, "optional": optional}
    if not optional:
        return field(metadata=about)
    shape = (0, *(0 if isinstance(axis, str) else axis for axis in axes[1:]))
    return field(metadata=about, default_factory=lambda: np.zeros(shape, float if "f" in kinds else int))


class Arrows(NamedTuple):
    """Arrows that start at pos and point along z, turned by quat; scale is the head's radius, twice, and the length."""

    pos: np.ndarray  # (n, 3) [m]
    quat: np.ndarray  # (n, 4) wxyz
    scale: np.ndarray  # (n, 3) [m]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A motion as plain arrays for drawing: shapes are fixed to bodies, and body 0 is the world. Copies of the robot:
    ``worlds`` first, then ghosts.

    What is optional has no rows where it is not there.
    """

    title: str = _array(kinds="U")
    times: np.ndarray = _array("frames")  # [s]
    worlds: int = _array(kinds="iu")

    body_moves: np.ndarray = _array("bodies", kinds="b")
    body_com: np.ndarray = _array("bodies", 3)  # centre of mass in the body's frame [m]
    poses: np.ndarray = _array("frames", "copies", "bodies", 7)  # float32: position [m], quaternion wxyz in the world

    shape_kind: np.ndarray = _array("shapes", kinds="U")  # some of KINDS
    shape_size: np.ndarray = _array("shapes", 3)  # as for simple_surface [m]; half sizes of a plane, zero if endless
    shape_mesh: np.ndarray = _array("shapes", kinds="iu")  # which mesh, or -1
    shape_body: np.ndarray = _array("shapes", kinds="iu")
    shape_pos: np.ndarray = _array("shapes", 3)  # in the body's frame [m]
    shape_quat: np.ndarray = _array("shapes", 4)  # in the body's frame
    shape_colours: np.ndarray = _array("shapes", 2, 4)  # RGBA from 0 to 1: of a plane's squares; else twice the same

    mesh_vertices: np.ndarray = _array("vertices", 3, optional=True)  # float32, of all meshes, one after the other [m]
    mesh_faces: np.ndarray = _array("faces", 3, kinds="iu", optional=True)  # counted from each mesh's first vertex
    mesh_sizes: np.ndarray = _array("meshes", 2, kinds="iu", optional=True)  # how many vertices and faces each has
    # Where the vertices of all meshes are at each frame, if they are deformed: float32, and those meshes have paint.
    mesh_motion: np.ndarray = _array("frames", "vertices", 3, optional=True)

    contact_frame: np.ndarray = _array("contacts", kinds="iu", optional=True)  # ascending; those of the first world
    contact_pos: np.ndarray = _array("contacts", 3, optional=True)  # [m]
    contact_force: np.ndarray = _array("contacts", 3, optional=True)  # on the body that moves, or the second of two [N]
    body_gradients: np.ndarray = _array("frames", "bodies", 3, optional=True)  # of a loss, by pushes: see docs/view.md
    losses: np.ndarray = _array("iterations", optional=True)
    camera: np.ndarray = _array(2, 3, optional=True)  # eye and what it looks at [m]

    # Meshes whose colour changes over their surface and with time, a part that is heated say, and grows.
    paint: np.ndarray = _array("frames", "vertices", kinds="iu", optional=True)  # uint8, along PALETTE
    paint_range: np.ndarray = _array(2, optional=True)  # what 0 and 255 stand for, in paint_unit
    paint_unit: str = field(default="", metadata={"axes": (), "kinds": "U", "optional": False})
    face_times: np.ndarray = _array("faces", 2, optional=True)  # from when and until when they are seen [s]

    # Particles of the first world, as balls, too many to be shapes on bodies; coloured along PALETTE and paint_range.
    points: np.ndarray = _array("frames", "points", 3, optional=True)  # float32 [m]
    point_radius: np.ndarray = _array("points", optional=True)  # [m]
    point_paint: np.ndarray = _array("frames", "points", kinds="iu", optional=True)  # uint8

    # --- whether it is sound ------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """All fields by name."""
        return {one.name: np.asarray(getattr(self, one.name)) for one in fields(self)}

    def problem(self, prefix: str = "") -> str:
        """What is wrong with a drawing from a stranger's file or a user's System, or "".

        prefix: what stands before the name of a field in the message
        """
        held, sizes = self.arrays(), {}
        for one in fields(self):
            array, axes, name = held[one.name], one.metadata["axes"], prefix + one.name
            if array.dtype.kind not in one.metadata["kinds"]:
                return f"{name} holds {array.dtype}"
            if array.ndim == len(axes):  # the first field that has an axis says how long it is
                sizes = dict(zip(axes, array.shape, strict=True)) | sizes
            shape = tuple(sizes.get(axis, axis) if isinstance(axis, str) else axis for axis in axes)
            may_be_absent = one.metadata["optional"] and axes[:1] != ("contacts",)  # which contact_frame counts
            absent = may_be_absent and array.ndim == len(axes) and not len(array)
            if array.shape != shape and not absent:
                return f"{name} has shape {array.shape}, not {shape}"
            if array.dtype.kind == "f" and not np.isfinite(array).all() and one.name != "losses":
                return f"{name} is not finite"
        if not sizes["frames"] or not 1 <= self.worlds <= sizes["copies"] or np.any(np.diff(self.times) <= 0):
            return "there must be frames, their times rising, and worlds"
        if not set(self.shape_kind.tolist()) <= set(KINDS):
            return f"a shape is one of {', '.join(KINDS)}"
        if (len(self.paint) or len(self.points)) and not len(self.paint_range):
            return "paint needs a paint_range"
        if len({len(x) for x in (self.points, self.point_paint)}) > 1 or len(self.points) > 0 == len(self.point_radius):
            return "points need a point_radius and point_paint"
        return "" if self._leads_somewhere() else "an index in it leads nowhere"

    def _leads_somewhere(self) -> bool:
        """Whether every index of a body, a mesh, a vertex or a frame is of one that there is."""
        vertices, faces = self.mesh_sizes.T
        return bool(
            _within(self.shape_body, len(self.body_moves))
            and _within(self.shape_mesh[self.shape_kind == "mesh"], len(self.mesh_sizes))
            and np.all(self.mesh_sizes >= 0)
            and (vertices.sum(), faces.sum()) == (len(self.mesh_vertices), len(self.mesh_faces))
            and _within(self.mesh_faces, np.repeat(vertices, faces)[:, None])
            and _within(self.contact_frame, self.frames)
            and np.all(np.diff(self.contact_frame) >= 0)
        )

    # --- shapes -------------------------------------------------------------------------------------------------------

    @property
    def frames(self) -> int:
        return len(self.times)

    @property
    def copies(self) -> int:
        return self.poses.shape[1]

    @property
    def duration(self) -> float:
        return float(self.times[-1])

    @cached_property
    def solids(self) -> np.ndarray:
        """Shapes that are not planes."""
        return np.flatnonzero(self.shape_kind != "plane")

    @cached_property
    def moving(self) -> np.ndarray:
        """Solids on bodies that move."""
        return self.solids[self.body_moves[self.shape_body[self.solids]]]

    @cached_property
    def fixed(self) -> np.ndarray:
        """Solids on bodies that do not move."""
        return np.setdiff1d(self.solids, self.moving)

    @cached_property
    def planes(self) -> np.ndarray:
        return np.flatnonzero(self.shape_kind == "plane")

    @cached_property
    def meshes(self) -> list[Surface]:
        ends = np.cumsum(self.mesh_sizes, axis=0)
        return [
            surface(self.mesh_vertices[v - n : v], self.mesh_faces[f - m : f])
            for (v, f), (n, m) in zip(ends, self.mesh_sizes, strict=True)
        ]

    def surface(self, shape: int) -> Surface:
        """Triangles of a shape that is no plane, in the shape's frame."""
        if self.shape_kind[shape] == "mesh":
            return self.meshes[self.shape_mesh[shape]]
        return simple_surface(str(self.shape_kind[shape]), tuple(map(float, self.shape_size[shape])))

    def surface_at(self, frame: int, shape: int) -> Surface:
        """The same at a frame, as it is deformed then."""
        mesh = self.surface(shape)
        if not len(self.mesh_motion) or self.shape_kind[shape] != "mesh":
            return mesh
        first = int(self.mesh_sizes[: self.shape_mesh[shape], 0].sum())
        return moved_surface(mesh, self.mesh_motion[frame, first + mesh.source])

    def painted(self, shape: int) -> bool:
        """Whether the colours of a shape are those of ``paint``."""
        return len(self.paint) > 0 and bool(self.shape_kind[shape] == "mesh")

    def paint_at(self, frame: int, shape: int) -> np.ndarray:
        """Colours (n, 3) from 0 to 1 of the vertices of a painted shape's surface."""
        first = int(self.mesh_sizes[: self.shape_mesh[shape], 0].sum())
        return PALETTE[self.paint[frame, first + self.surface(shape).source]]

    def faces_seen(self, frame: int, shape: int) -> np.ndarray:
        """Which faces of a painted shape are there (m,) bool."""
        first, count = int(self.mesh_sizes[: self.shape_mesh[shape], 1].sum()), len(self.surface(shape).faces)
        if not len(self.face_times):
            return np.ones(count, dtype=bool)
        since, until = self.face_times[first : first + count].T
        return (since <= self.times[frame]) & (self.times[frame] < until)

    def half_box(self, shape: int) -> tuple[np.ndarray, np.ndarray]:
        """Centre and half extents of the bounding box of a shape, in the shape's frame [m]."""
        if self.shape_kind[shape] == "mesh":
            at = self.surface(shape).vertices
            if len(self.mesh_motion):  # wherever it goes
                sizes = self.mesh_sizes[: self.shape_mesh[shape] + 1, 0]
                at = self.mesh_motion[:, sizes[:-1].sum() : sizes.sum()].reshape(-1, 3)
            low, high = (f(at, axis=0) for f in (np.min, np.max))
            return (low + high) / 2, (high - low) / 2
        extra = (0, 0, self.shape_size[shape, 0]) if self.shape_kind[shape] == "capsule" else (0, 0, 0)
        return np.zeros(3), self.shape_size[shape] + extra

    def shape_poses(self, frame: int, copy: int, shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions (n, 3) and rotation matrices (n, 3, 3) of shapes in the world."""
        body = self.poses[frame, copy, self.shape_body[shapes]].astype(float)
        turn = unit_quat_matrix(body[:, 3:])
        at = body[:, :3] + np.einsum("nij,nj->ni", turn, self.shape_pos[shapes])
        return at, turn @ unit_quat_matrix(self.shape_quat[shapes])

    def place(self, shape: int) -> tuple[np.ndarray, np.ndarray]:
        """Position (3,) and quaternion (4,) of a shape: on its body if that moves, else in the world."""
        pos, quat, body = self.shape_pos[shape], self.shape_quat[shape], self.shape_body[shape]
        if self.body_moves[body]:
            return pos, quat
        (at,), _ = self.shape_poses(0, 0, np.array([shape]))
        return at, quat_mul(self.poses[0, 0, body, 3:].astype(float), quat)

    def colour(self, shape: int, copy: int) -> np.ndarray:
        """RGBA (4,) from 0 to 1 of a shape of a copy: ghosts have one colour, and other worlds than the first are
        translucent."""
        if copy >= self.worlds:
            return np.array(GHOST_COLOUR)
        return self.shape_colours[shape, 0] * (1.0, 1.0, 1.0, OTHER_WORLD_ALPHA if copy else 1.0)

    # --- how large it is ----------------------------------------------------------------------------------------------

    def outline(self, frames: Sequence[int], *, copies: int | None = None) -> np.ndarray:
        """Corners (frames, n, 3) of the bounding boxes of all shapes that move or deform, and of all points [m]."""
        deformed = self.solids[(self.shape_kind[self.solids] == "mesh") & bool(len(self.mesh_motion))]
        shapes = np.union1d(self.moving, deformed)
        boxes = [self.half_box(shape) for shape in shapes]
        local = np.array([middle + half * CORNERS for middle, half in boxes]).reshape(-1, 8, 3)
        rows = []
        for frame in frames:
            poses = [self.shape_poses(frame, copy, shapes) for copy in range(copies or self.copies)]
            rows.append([at[:, None] + np.einsum("nij,nkj->nki", turn, local) for at, turn in poses])
        corners = np.array(rows).reshape(len(rows), -1, 3)
        if not len(self.points):
            return corners
        points, radius = self.points[np.asarray(frames)].astype(float), self.point_radius[:, None]
        low, high = (points - radius).min(axis=1), (points + radius).max(axis=1)
        boxes = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * CORNERS
        return np.concatenate([corners, boxes], axis=1)

    def point_colours(self, frame: int) -> np.ndarray:
        """Colours (points, 3) from 0 to 1."""
        return PALETTE[self.point_paint[frame]]

    @cached_property
    def robot_size(self) -> float:
        """Half of the diagonal of the bounding box of all that moves, at the first frame [m]."""
        corners = self.outline([0], copies=1)[0]
        return float(np.linalg.norm(np.ptp(corners, axis=0)) / 2) if len(corners) else 1.0

    # --- arrows -------------------------------------------------------------------------------------------------------

    @cached_property
    def _hardest(self) -> np.ndarray:
        """The sum of all contact forces of each frame (frames,) [N]."""
        strength = np.linalg.norm(self.contact_force, axis=1)
        return np.bincount(self.contact_frame, strength, minlength=self.frames)

    def contacts(self, frame: int, since: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Points and forces (n, 3) at a frame.

        since: the frame that was drawn before. If some were skipped, the hardest moment since then is shown, but none
        long ago: an impact is over within a step or two, and should not fall between two pictures of a film.
        """
        earliest = int(np.searchsorted(self.times, self.times[frame] - HARDEST_WITHIN))
        first = frame if since is None or since >= frame else max(since + 1, earliest)
        hardest = first + int(np.argmax(self._hardest[first : frame + 1]))
        begin, end = np.searchsorted(self.contact_frame, [hardest, hardest + 1])
        pos, force = self.contact_pos[begin:end], self.contact_force[begin:end]
        touching = np.linalg.norm(force, axis=1) > TOUCHING * self._hardest.max(initial=0.0)
        return pos[touching], force[touching]

    def force_arrows(self, frame: int, since: int | None = None) -> Arrows:
        """Contact forces."""
        pos, force = self.contacts(frame, since)
        return self._arrows(pos, force, self._strong_force)

    def gradient_arrows(self, frame: int) -> Arrows:
        """Downhill: a push on a body along its arrow reduces the loss, and the more the longer the arrow is.

        The push is on the centre of mass; the arrow starts where its line leaves the body, so that it can be seen.
        """
        if not len(self.body_gradients):
            return self._arrows(np.zeros((0, 3)), np.zeros((0, 3)), 1.0)
        shown = np.flatnonzero(self._pushed)
        body, downhill = self.poses[frame, 0, shown].astype(float), -self.body_gradients[frame, shown]
        turn = unit_quat_matrix(body[:, 3:])
        inside = np.einsum("nji,nj->ni", turn, downhill)  # in the bodies' own axes
        start = self.body_com[shown] + [self._to_surface(b, x) for b, x in zip(shown, inside, strict=True)]
        at = body[:, :3] + np.einsum("nij,nj->ni", turn, start)
        return self._arrows(at, downhill, self._strong_gradient)

    @cached_property
    def _pushed(self) -> np.ndarray:
        """Bodies that move and have shapes (bodies,) bool."""
        return self.body_moves & np.isin(np.arange(len(self.body_moves)), self.shape_body[self.solids])

    def _to_surface(self, body: int, direction: np.ndarray) -> np.ndarray:
        """From a body's centre of mass to where a ray leaves the boxes around its shapes (3,) [m]."""
        length, furthest = np.linalg.norm(direction), 0.0
        if not length:
            return np.zeros(3)
        for pos, turn, half in self._boxes[body]:
            start, along = (self.body_com[body] - pos) @ turn, direction @ turn / length
            if np.all(np.abs(start) < half):
                furthest = max(furthest, np.min((half - np.sign(along) * start) / np.maximum(np.abs(along), 1e-12)))
        return furthest * direction / length

    @cached_property
    def _boxes(self) -> dict[int, list]:
        """Centre, axes and half extents of the bounding box of each shape, by the body that it is fixed to."""
        found = {body: [] for body in range(len(self.body_moves))}
        for shape in self.solids:
            (middle, half), turn = self.half_box(shape), unit_quat_matrix(self.shape_quat[shape])
            found[int(self.shape_body[shape])].append((self.shape_pos[shape] + turn @ middle, turn, half))
        return found

    @cached_property
    def _strong_force(self) -> float:
        strength = np.linalg.norm(self.contact_force, axis=1)
        return _percentile(strength[strength > TOUCHING * strength.max(initial=0.0)])

    @cached_property
    def _strong_gradient(self) -> float:
        return _percentile(np.linalg.norm(self.body_gradients[:, self._pushed], axis=-1).ravel())

    @property
    def arrow_width(self) -> float:
        """Radius of an arrow's head [m]."""
        return ARROW_WIDTH * self.robot_size * 2

    @property
    def ball_radius(self) -> float:
        """Of the ball that marks a contact [m]."""
        return BALL_SHARE * self.arrow_width

    def _arrows(self, pos: np.ndarray, vector: np.ndarray, strong: float) -> Arrows:
        """Lengths are proportional, but for the few that would leave the picture."""
        strength = np.linalg.norm(vector, axis=1)
        length = ARROW_LENGTH * self.robot_size * np.minimum(strength / strong, ARROW_LIMIT)
        seen = length > 0.02 * ARROW_LENGTH * self.robot_size
        pos, vector, length, strength = pos[seen], vector[seen], length[seen], strength[seen]
        width = np.minimum(self.arrow_width, 0.25 * length)
        return Arrows(pos, turns_from_z(vector / strength[:, None]), np.stack([width, width, length], axis=1))

    # --- others like it -----------------------------------------------------------------------------------------------

    def labelled(self, *, title: str = "", losses=None, camera=None) -> Drawing:
        """The same with a title, losses (n,) of an optimiser over its iterations, and a camera (2, 3): eye and what it
        looks at [m]. What is not given stays."""
        given = {"title": str(title)} if title else {}
        if losses is not None:
            given["losses"] = losses = to_numbers(losses, "loss").astype(float)
            if losses.ndim != 1 or not losses.size:
                raise PullbackError(f"loss must have shape (n,) with n >= 1, not {losses.shape}")
            if not np.isfinite(losses).all():
                raise PullbackError(f"loss[{int(np.argmin(np.isfinite(losses)))}] is not finite")
        if camera is not None:
            given["camera"] = camera = to_numbers(camera, "camera").astype(float)
            if camera.shape != (2, 3) or not np.isfinite(camera).all() or np.allclose(*camera):
                raise PullbackError("camera must be two different points, eye and target, of shape (2, 3)")
        return replace(self, **given)

    def thinned(self, fps: float) -> Drawing:
        """About ``fps`` frames per second, and the last one; contacts of the hardest moment around each. [1/s]"""
        if self.frames < 3:
            return self
        stride = max(1, round(1.0 / (fps * float(self.times[1] - self.times[0]))))
        if stride == 1:
            return self
        kept = np.append(np.arange(0, self.frames - 1, stride), self.frames - 1)
        contacts = [self.contacts(frame, since) for frame, since in zip(kept, [None, *kept[:-1]], strict=True)]
        return replace(
            self,
            times=self.times[kept],
            mesh_motion=self.mesh_motion[kept] if len(self.mesh_motion) else self.mesh_motion,
            poses=self.poses[kept],
            contact_frame=np.repeat(np.arange(len(kept)), [len(pos) for pos, _ in contacts]),
            contact_pos=np.concatenate([pos for pos, _ in contacts]),
            contact_force=np.concatenate([force for _, force in contacts]),
            body_gradients=self.body_gradients[kept] if len(self.body_gradients) else self.body_gradients,
            paint=self.paint[kept] if len(self.paint) else self.paint,
            points=self.points[kept] if len(self.points) else self.points,
            point_paint=self.point_paint[kept] if len(self.points) else self.point_paint,
        )


def draw_points(times, points, *, radius, colours=BALL_COLOUR, title: str = "") -> Drawing:
    """A :class:`Drawing` of moving points as balls, which is enough for many Systems.

    times:    (frames,) [s], rising
    points:   (frames, n, 3) or (frames, worlds, n, 3) [m]
    radius:   one for all, or (n,) [m]
    colours:  (4,) for all, or (n, 4), RGBA from 0 to 1
    """
    points = to_numbers(points, "points")
    points = points[:, None] if points.ndim == 3 else points
    if points.ndim != 4 or points.shape[-1] != 3 or not np.isfinite(points).all():
        raise PullbackError(f"points must be finite and of shape (frames, worlds, n, 3), not {points.shape}")
    frames, worlds, count, _ = points.shape
    poses = np.zeros((frames, worlds, count + 1, 7), dtype=np.float32)
    with np.errstate(over="ignore"):  # what is too far away is not finite, and found when it is drawn
        poses[:, :, 1:, :3], poses[..., 3] = points, 1.0
    return Drawing(
        title=title,
        times=to_numbers(times, "times").astype(float),
        worlds=worlds,
        shape_kind=np.full(count, "sphere"),
        shape_size=np.broadcast_to(np.reshape(radius, (-1, 1)), (count, 3)).astype(float),
        shape_mesh=np.full(count, -1),
        shape_body=np.arange(1, count + 1),
        shape_pos=np.zeros((count, 3)),
        shape_quat=np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
        shape_colours=np.repeat(np.broadcast_to(colours, (count, 4)).astype(float)[:, None], 2, axis=1),
        body_moves=np.arange(count + 1) > 0,
        body_com=np.zeros((count + 1, 3)),
        poses=poses,
    )


def frame_rows(rows: int, dt: float, fps: float | None = None) -> np.ndarray:
    """Which of the rows of a motion become frames: evenly spaced ones from the first, and the last."""
    stride = -(-rows // MOST_FRAMES) if fps is None else max(1, round(1.0 / (check_number(fps, "fps") * dt)))
    return np.append(np.arange(0, rows - 1, stride), rows - 1)


def _within(index: np.ndarray, count) -> bool:
    return bool(np.all((index >= 0) & (index < count)))


def turns_from_z(directions: np.ndarray) -> np.ndarray:
    """Quaternions (n, 4) that turn the z axis into unit vectors (n, 3)."""
    x, y, z = directions.T
    half = np.stack([1 + z, -y, x, np.zeros(len(z))], axis=1)
    half[z < -1 + 1e-9] = (0, 1, 0, 0)  # straight down: half a turn about x
    return half / np.linalg.norm(half, axis=1, keepdims=True)


def _percentile(strength: np.ndarray) -> float:
    strength = strength[strength > 0.0]
    return float(np.percentile(strength, STRONG)) if len(strength) else 1.0
