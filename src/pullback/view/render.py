"""Pictures of a drawing, made on the CPU: no display, no graphics driver, nothing but what pip installs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import warp as wp

from pullback.core.launch import load
from pullback.drawing.drawing import FORCE_COLOUR, GRADIENT_COLOUR, Arrows, Drawing
from pullback.drawing.surfaces import Surface, bead, simple_surface
from pullback.spatial import unit_quat_matrix
from pullback.view.camera import HALF_VIEW, View, axes_towards, camera_travel, fitted_view, motion_points
from pullback.view.raster import NOTHING, Eye, Faces, Floor, Layer, Light, rasterise, shade

SAMPLES = 3  # rays per pixel along each axis: smooths edges
NEAR = 0.2  # of the distance to what is looked at: nothing nearer to the camera is drawn [1]
SHADOW_SIZE = 1024  # texels of the shadow map along each axis
# Without a floor in the file, one that is hardly there shows which way is down and catches the shadow.
FAINT = ((0.80, 0.83, 0.87, 1.0), (0.75, 0.785, 0.83, 1.0))


class _Triangles(NamedTuple):
    at: np.ndarray  # (faces, 3, 3) [m]
    normal: np.ndarray  # (faces, 3, 3)
    colour: np.ndarray  # (faces, 4)


class Renderer:
    """Draws frames of a drawing as (height, width, 3) uint8, from one view of the whole motion.

    A robot that travels far is followed: everything is moved back by its travel, and the view stays.

    size:   width and height [pixels]
    layers: what to show besides the robot: some of "forces", "gradients", "ghost"
    """

    def __init__(self, drawing: Drawing, size: tuple[int, int], *, layers=("forces", "ghost"), samples: int = SAMPLES):
        load(shade.module, "cpu")
        self.drawing, self.layers, self.samples = drawing, layers, samples
        self.width, self.height = size
        self.view = fitted_view(drawing, self.width / self.height)
        points = motion_points(drawing)
        self.middle, self.low = (points.min(axis=0) + points.max(axis=0)) / 2, float(points[:, 2].min())
        self.reach = float(np.linalg.norm(np.ptp(points, axis=0))) / 2
        self.light_axes = axes_towards(_light_from(self.view))
        self.travel = camera_travel(drawing)

    def frame(self, frame: int, since: int | None = None) -> np.ndarray:
        """One picture. since: the frame of the picture before, as for :meth:`Drawing.contacts`."""
        solid, clear = self._triangles(frame, since)
        shape = (self.height * self.samples, self.width * self.samples)
        light = self._light(solid)
        solid, clear = self._in_front(solid), self._in_front(clear)
        layers = [self._layer(part.at, shape) for part in (solid, clear)]
        image = wp.empty(shape, dtype=wp.vec3, device="cpu")
        inputs = [layers[0], _faces(solid), layers[1], _faces(clear), self._floors(frame), self._eye(), light]
        wp.launch(shade, shape, inputs, [image], device="cpu")
        return self._developed(image.numpy())

    def _developed(self, image: np.ndarray) -> np.ndarray:
        """Samples become pixels, and highlights roll off instead of clipping."""
        n = self.samples
        image = image.reshape(self.height, n, self.width, n, 3).mean(axis=(1, 3))
        image = np.where(image > 0.7, 1.0 - 0.3 * np.exp(-(np.maximum(image, 0.7) - 0.7) / 0.3), image)
        return (255.0 * np.clip(image, 0.0, 1.0) ** (1 / 2.2) + 0.5).astype(np.uint8)

    # --- triangles ----------------------------------------------------------------------------------------------------

    def _triangles(self, frame: int, since: int | None) -> tuple[_Triangles, _Triangles]:
        """Those that are solid and those that are see-through."""
        drawing, solid, clear = self.drawing, [], []
        for copy in range(drawing.copies):
            ghost = copy >= drawing.worlds
            if ghost and "ghost" not in self.layers:
                continue
            shapes = drawing.solids if copy == 0 else drawing.moving
            for shape, at, turn in zip(shapes, *drawing.shape_poses(frame, copy, shapes), strict=True):
                colour = drawing.colour(shape, copy)
                part = _placed(drawing.surface_at(frame, shape), at, turn, np.ones(3), colour)
                if drawing.painted(shape) and not ghost:
                    part = _painted(part, drawing, frame, shape)
                (solid if colour[3] > 0.999 else clear).append(part)
        if len(drawing.points):
            solid.append(_beads(drawing, frame))
        if "forces" in self.layers:
            solid += self._arrows(drawing.force_arrows(frame, since), FORCE_COLOUR)
            ball = simple_surface("sphere", (drawing.ball_radius,) * 3)
            points, _ = drawing.contacts(frame, since)
            solid += [_placed(ball, at, np.eye(3), np.ones(3), FORCE_COLOUR) for at in points]
        if "gradients" in self.layers:
            solid += self._arrows(drawing.gradient_arrows(frame), GRADIENT_COLOUR)
        return _joined(solid, self.travel[frame]), _joined(clear, self.travel[frame])

    def _arrows(self, arrows: Arrows, colour) -> list[_Triangles]:
        arrow = simple_surface("arrow", (1.0, 1.0, 1.0))
        return [
            _placed(arrow, at, turn, scale, colour)
            for at, turn, scale in zip(arrows.pos, unit_quat_matrix(arrows.quat), arrows.scale, strict=True)
        ]

    # --- light and eye ------------------------------------------------------------------------------------------------

    def _layer(self, at: np.ndarray, shape: tuple[int, int]) -> Layer:
        """The triangles as the eye sees them."""
        height, width = shape
        x, y, z = np.moveaxis((at - self.view.eye) @ self.view.axes.T, -1, 0)
        scale = -0.5 * height / HALF_VIEW / z
        return _rasterised(np.stack([0.5 * width + x * scale, 0.5 * height - y * scale, -1.0 / z], axis=-1), shape)

    def _in_front(self, part: _Triangles) -> _Triangles:
        """What of the triangles is before the camera: scenery, such as a long rail, may pass beside and behind it."""
        back = self.view.axes[2]
        near = NEAR * np.linalg.norm(self.view.eye - self.view.target)
        return _clipped(part, (self.view.eye - part.at) @ back - near)

    def _light(self, solid: _Triangles) -> Light:
        right, up, towards = self.light_axes
        light = Light()
        light.towards, light.right, light.up = wp.vec3(*towards), wp.vec3(*right), wp.vec3(*up)
        light.centre, light.half = wp.vec3(*self.middle), 1.35 * self.reach
        off = (solid.at - self.middle) @ self.light_axes.T
        texels = (off[..., :2] / light.half * 0.5 + 0.5) * SHADOW_SIZE
        seen = np.concatenate([texels, off[..., 2:]], axis=-1)
        light.near = _rasterised(seen, (SHADOW_SIZE, SHADOW_SIZE)).near
        return light

    def _eye(self) -> Eye:
        eye = Eye()
        eye.at, eye.tan = wp.vec3(*self.view.eye), HALF_VIEW
        eye.right, eye.up, eye.back = (wp.vec3(*axis) for axis in self.view.axes)
        return eye

    def _floors(self, frame: int) -> wp.array:
        drawing, found = self.drawing, []
        reach = 3.0 * float(np.linalg.norm(self.view.eye - self.view.target))
        # squares of 1, 2 or 5 times a power of ten metres, about a third of what is looked at
        decade = 10.0 ** np.floor(np.log10(0.4 * self.reach))
        square = decade * max(step for step in (1, 2, 5) if decade * step <= 0.4 * self.reach + 1e-12)
        planes = list(zip(drawing.planes, *drawing.shape_poses(0, 0, drawing.planes), strict=True))
        faint = [(None, np.array([*self.middle[:2], self.low - 0.02 * self.reach]), np.eye(3))]
        for plane, at, turn in planes or faint:
            at, floor = at - self.travel[frame], Floor()
            below = self.middle - (self.middle - at) @ turn[:, 2] * turn[:, 2]
            floor.at, floor.centre = wp.vec3(*at), wp.vec3(*below)
            floor.x, floor.y, floor.normal = (wp.vec3(*turn[:, k]) for k in range(3))
            floor.half = wp.vec2() if plane is None else wp.vec2(*drawing.shape_size[plane, :2])
            colours = FAINT if plane is None else drawing.shape_colours[plane]
            floor.even, floor.odd = (wp.vec4(*colour) for colour in _linear(np.array(colours, dtype=float)))
            floor.square, floor.reach = square, reach
            found.append(floor)
        return wp.array(found, dtype=Floor, device="cpu")


def _light_from(view: View) -> np.ndarray:
    """The light stands beside the camera and above, so that what faces the viewer is lit and still has form."""
    back = view.axes[2]
    yaw, pitch = np.arctan2(back[1], back[0]) - np.radians(28), np.radians(52)
    return np.array([np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)])


def _placed(mesh: Surface, at, turn: np.ndarray, scale: np.ndarray, colour) -> _Triangles:
    vertices = (mesh.vertices * scale) @ turn.T + at
    normals = (mesh.normals / (127.0 * scale)) @ turn.T
    return _Triangles(vertices[mesh.faces], normals[mesh.faces], np.tile(colour, (len(mesh.faces), 1)))


def _painted(part: _Triangles, drawing: Drawing, frame: int, shape: int) -> _Triangles:
    """The faces that are there, each in the mean colour of its corners."""
    seen = drawing.faces_seen(frame, shape)
    colours = part.colour[seen]
    colours[:, :3] = drawing.paint_at(frame, shape)[drawing.surface(shape).faces[seen]].mean(axis=1)
    return _Triangles(part.at[seen], part.normal[seen], colours)


def _beads(drawing: Drawing, frame: int) -> _Triangles:
    """A bead at every point."""
    mesh, radius = bead(), drawing.point_radius[:, None, None, None]
    at = drawing.points[frame].astype(float)[:, None, None] + radius * mesh.vertices[mesh.faces]
    normal = np.broadcast_to(mesh.normals[mesh.faces] / 127.0, at.shape)
    colours = np.column_stack([drawing.point_colours(frame), np.ones(len(at))])
    return _Triangles(at.reshape(-1, 3, 3), normal.reshape(-1, 3, 3), np.repeat(colours, len(mesh.faces), axis=0))


def _joined(parts: list[_Triangles], travel: np.ndarray) -> _Triangles:
    """All parts, moved back by ``travel``."""
    nothing = _Triangles(np.zeros((0, 3, 3)), np.zeros((0, 3, 3)), np.zeros((0, 4)))
    at, normal, colour = (np.concatenate(field) for field in zip(nothing, *parts, strict=True))
    return _Triangles(at - travel, normal, colour)


def _clipped(part: _Triangles, height: np.ndarray) -> _Triangles:
    """What of the triangles is above a plane, from the heights (faces, 3) of their corners."""
    above = height > 0
    count = above.sum(axis=1)
    kept = [_Triangles(*(x[count == 3] for x in part))]
    for cut, lone in ((count == 1, True), (count == 2, False)):  # one corner, first here, is on its own side
        order = (np.argmax(above[cut] == lone, axis=1)[:, None] + np.arange(3)) % 3
        a, b, c = np.take_along_axis(height[cut], order, axis=1).T
        corners = []
        for x in (part.at, part.normal):
            x = np.take_along_axis(x[cut], order[..., None], axis=1)
            to_b, to_c = ((a / (a - other))[:, None] * (x[:, k] - x[:, 0]) for k, other in ((1, b), (2, c)))
            corners.append((x[:, 0], x[:, 0] + to_b, x[:, 0] + to_c, x[:, 1], x[:, 2]))
        for pick in ((0, 1, 2),) if lone else ((1, 3, 4), (1, 4, 2)):
            at, normal = (np.stack([points[k] for k in pick], axis=1) for points in corners)
            kept.append(_Triangles(at, normal, part.colour[cut]))
    return _Triangles(*(np.concatenate(field) for field in zip(*kept, strict=True)))


def _linear(colours: np.ndarray) -> np.ndarray:
    """RGBA in which twice the number is twice the light."""
    return np.concatenate([colours[:, :3] ** 2.2, colours[:, 3:]], axis=1)


def _faces(part: _Triangles) -> Faces:
    faces = Faces()
    faces.at = wp.array(part.at.astype(np.float32), dtype=wp.vec3, device="cpu")
    faces.normal = wp.array(part.normal.astype(np.float32), dtype=wp.vec3, device="cpu")
    faces.colour = wp.array(_linear(part.colour).astype(np.float32), dtype=wp.vec4, device="cpu")
    return faces


def _rasterised(corners: np.ndarray, shape: tuple[int, int]) -> Layer:
    layer = Layer()
    layer.near = wp.full(shape, NOTHING, dtype=float, device="cpu")
    layer.face = wp.full(shape, -1, dtype=int, device="cpu")
    layer.spot = wp.zeros(shape, dtype=wp.vec2, device="cpu")
    if len(corners):
        pixels = wp.array(corners.astype(np.float32), dtype=wp.vec3, device="cpu")
        wp.launch(rasterise, 1, [pixels], [layer], device="cpu")
    return layer
