"""Cameras that show a whole motion, as large as possible."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pullback.drawing.drawing import Drawing
from pullback.drawing.surfaces import CORNERS

HALF_VIEW = math.tan(math.radians(17.0))  # tangent of half of the vertical field of view [1]
MARGIN = 0.92  # share of the picture that is filled [1]
ASPECTS = (1.0, 4.0)  # of pictures: upright and wide ones [1]
TRAVELS = 4.0  # times its own size: from here on a robot is followed [1]
LARGE = 0.5  # times the motion: from here on a fixed part is seen in part [1]
AROUND = 0.1  # times the motion: how much of a large fixed part is seen beside it [1]
LOOKED_AT = 40  # frames that are enough to know where a motion goes
PITCH = math.radians(16.0)  # from above


@dataclass(frozen=True)
class View:
    """A camera: where it is, its axes (right, up, back) as rows, and what it looks at [m]."""

    eye: np.ndarray
    axes: np.ndarray
    target: np.ndarray


def fitted_view(drawing: Drawing, aspect: float) -> View:
    """A view of the whole motion, from the direction of the drawing's camera if it has one. aspect: width / height.

    Where :func:`camera_travel` is not zero, the camera has to move by it.
    """
    points = motion_points(drawing)
    back = _direction(drawing, points)
    axes = axes_towards(back)
    target, distance = (points.min(axis=0) + points.max(axis=0)) / 2, 1.0
    for _ in range(6):  # fit the distance, then centre what is seen from there, and again
        x, y, z = axes @ (points - target).T
        sides = np.maximum(np.abs(x) / aspect, np.abs(y)) / (MARGIN * HALF_VIEW)
        distance = max(float(np.max(sides + z)), 1e-6)
        depth = np.maximum(distance - z, 1e-3 * distance)
        for seen, axis in ((x, axes[0]), (y, axes[1])):
            target = target + distance * (np.min(seen / depth) + np.max(seen / depth)) / 2 * axis
    return View(target + distance * back, axes, target)


def natural_aspect(drawing: Drawing) -> float:
    """Width over height of a picture that the motion fills, within what looks like a picture."""
    points = motion_points(drawing)
    x, y, _ = np.ptp(points @ axes_towards(_direction(drawing, points)).T, axis=0)
    return float(np.clip(x / max(y, 1e-9), *ASPECTS))


def camera_travel(drawing: Drawing) -> np.ndarray:
    """How far the camera has moved with the robot at each frame, (frames, 3) [m].

    Zero, unless the robot travels so far that it would be small in a picture of its whole path.
    """
    nowhere = np.zeros((drawing.frames, 3))
    frames = _some_frames(drawing)
    corners = drawing.outline(frames, copies=1)
    if not corners.size:
        return nowhere
    low, high = corners.min(axis=1), corners.max(axis=1)
    centres = (low + high) / 2
    around = (corners - centres[:, None]).reshape(-1, 3)
    if np.linalg.norm(high.max(axis=0) - low.min(axis=0)) < TRAVELS * np.linalg.norm(np.ptp(around, axis=0)):
        return nowhere
    # A centre that shakes with every limb would shake the camera: take the mean over its neighbours.
    reach = [min(2, i, len(frames) - 1 - i) for i in range(len(frames))]
    smooth = np.array([centres[i - k : i + k + 1].mean(axis=0) for i, k in enumerate(reach)])
    return np.stack([np.interp(np.arange(drawing.frames), frames, x - x[0]) for x in smooth.T], axis=1)


def _some_frames(drawing: Drawing) -> np.ndarray:
    return np.unique(np.linspace(0, drawing.frames - 1, LOOKED_AT).astype(int))


def motion_points(drawing: Drawing) -> np.ndarray:
    """Points (n, 3) around which the motion lies, as seen by a camera that follows [m].

    With fixed parts that are near: small ones whole, such as a target, large ones as far as the motion goes, such as a
    platform under a foot. Scenery, far larger than the motion or far away from it, does not count.
    """
    frames, travel = _some_frames(drawing), camera_travel(drawing)
    moving = (drawing.outline(frames) - travel[frames, None]).reshape(-1, 3)
    if not len(moving):
        moving = CORNERS / 2 + (0.0, 0.0, 0.5)
    points = [moving]
    if travel.any():
        return moving
    low, high = moving.min(axis=0), moving.max(axis=0)
    middle, reach = (low + high) / 2, np.linalg.norm(high - low)
    for shape, at, turn in zip(drawing.fixed, *drawing.shape_poses(0, 0, drawing.fixed), strict=True):
        centre, half = drawing.half_box(shape)
        corners = at + (centre + half * CORNERS) @ turn.T
        if np.all(np.linalg.norm(corners - middle, axis=1) < 1.5 * reach):
            is_large = np.linalg.norm(np.ptp(corners, axis=0)) > LARGE * reach
            points.append(np.clip(corners, low - AROUND * reach, high + AROUND * reach) if is_large else corners)
    return np.concatenate(points)


def _direction(drawing: Drawing, points: np.ndarray) -> np.ndarray:
    """Unit vector towards the camera."""
    if len(drawing.camera):
        back = drawing.camera[0] - drawing.camera[1]
        return back / np.linalg.norm(back)
    x, y, _ = np.ptp(points, axis=0)  # a motion in a plane is seen from its side, anything else from a corner
    yaw = math.radians(-66 if y < 0.55 * x else 24 if x < 0.55 * y else -52)
    return np.array([math.cos(PITCH) * math.cos(yaw), math.cos(PITCH) * math.sin(yaw), math.sin(PITCH)])


def axes_towards(back: np.ndarray) -> np.ndarray:
    """Right, up and back, as rows, of a viewer who looks against ``back``, upright."""
    upright = np.array([0.0, 1.0, 0.0]) if abs(back[2]) > 0.9999 else np.array([0.0, 0.0, 1.0])
    right = np.cross(upright, back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back])
