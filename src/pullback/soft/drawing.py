"""Drawings of runs of Particles: balls, coloured by the controls of muscles, or by strain if there are none."""

from __future__ import annotations

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.drawing import Drawing
from pullback.drawing.drawing import frame_rows
from pullback.soft.elastic_drawing import FLOOR, SHAPE, drawn_size

FRAMES = 300  # the most
# The most particles that are drawn. Of more, a random subset: a regular one would show slices of a lattice.
MOST_POINTS = 12_000
RADIUS = 0.6  # of a ball, relative to the distance between particles: balls overlap [1]
UPWARD = 0.5  # least upward component of a wall's normal for it to be drawn, as a floor [1]
STRAINED = 95  # percentile of strains at the end of the colour scale


def draw_particles(run) -> Drawing:
    """The drawing of the first world of a run of Particles, from its kept states."""
    soft, shapes = run.system, run.system.shapes
    rows = np.arange(len(run.kept))
    if len(rows) > FRAMES:
        rows = frame_rows(len(rows), 1.0, fps=FRAMES / len(rows))
    ground = floors(soft)
    at_rest = np.tile([0.0, 0, 0, 1, 0, 0, 0], (len(rows), 1, 1, 1))
    return Drawing(
        title="Particles",
        times=soft.dt * run.hold * run.kept[rows],
        worlds=1,
        body_moves=np.array([False] + [True] * len(shapes)),
        body_com=np.zeros((1 + len(shapes), 3)),
        poses=np.concatenate([at_rest, shape_poses(run, rows)[:, None]], axis=2).astype(np.float32),
        shape_kind=np.array(["plane"] * len(ground) + [shape.kind for shape in shapes], dtype=str),
        shape_size=np.array([*np.zeros((len(ground), 3)), *(drawn_size(shape, 0.0) for shape in shapes)]).reshape(
            -1, 3
        ),
        shape_mesh=np.full(len(ground) + len(shapes), -1),
        shape_body=np.array([0] * len(ground) + list(range(1, 1 + len(shapes))), dtype=int),
        shape_pos=np.array([*(in_space(wall.point) for wall in ground), *np.zeros((len(shapes), 3))]).reshape(-1, 3),
        shape_quat=np.array(
            [*(upright(in_space(wall.normal)) for wall in ground), *([1.0, 0, 0, 0] for _ in shapes)]
        ).reshape(-1, 4),
        shape_colours=np.array(
            [*(FLOOR for _ in ground), *(FLOOR if shape.kind == "plane" else SHAPE for shape in shapes)]
        ).reshape(-1, 2, 4),
        **drawn_particles(soft, *(to_numpy(states)[rows, 0] for states in (run.x, run.F)), muscle_controls(run, rows)),
    )


def floors(soft) -> list:
    """The walls that are drawn."""
    return [wall for wall in soft.walls if wall.normal[-1] > UPWARD]


def drawn_particles(soft, x: np.ndarray, F: np.ndarray, pulls: np.ndarray) -> dict:
    """The fields of a Drawing for particles, from positions (rows, n, d), deformations, and controls of muscles."""
    shown = np.sort(np.random.default_rng(0).permutation(soft.n)[:MOST_POINTS])
    points = np.zeros((len(x), len(shown), 3), dtype=np.float32)
    points[..., [0, 2] if soft.dim == 2 else slice(None)] = x[:, shown]
    value, unit = (pull(soft, pulls, shown), "control") if soft.nu else (strain(F[:, shown]), "strain")
    high = np.abs(value).max() if soft.nu else np.percentile(value, STRAINED)
    low, high = (-max(high, 1e-9) if soft.nu else 0.0), max(float(high), 1e-9)
    volume = np.concatenate([body.volume for body in soft.bodies])[shown] * (soft.n / len(shown))
    return {
        "points": points,
        "point_radius": RADIUS * volume ** (1 / soft.dim),
        "point_paint": np.clip(np.round(255 * (value - low) / (high - low)), 0, 255).astype(np.uint8),
        "paint_range": np.array([low, high]),
        "paint_unit": unit,
    }


def shape_poses(run, rows: np.ndarray) -> np.ndarray:
    """Poses of the shapes in the first world (rows, shapes, 7)."""
    if "pose" not in run.inputs:
        rest = run.system.shapes_at_rest["pose"]
        return np.broadcast_to(rest, (len(rows), *rest.shape))
    return to_numpy(run.inputs["pose"])[np.minimum(run.kept[rows], run.steps - 1), 0]


def muscle_controls(run, rows: np.ndarray) -> np.ndarray:
    """Controls of the muscles in the first world (rows, nu)."""
    return to_numpy(run.controls)[np.minimum(run.kept[rows], run.steps - 1), 0] if run.steps else np.zeros((1, 0))


def pull(soft, pulls: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The control of each particle's muscle (rows, n), zero without one."""
    of_body = [-1 if body.muscle is None else soft.muscles.index(body.muscle) for body in soft.bodies]
    muscle = np.array(of_body)[soft.group[shown]]
    return np.where(muscle < 0, 0.0, pulls[:, muscle])


def strain(F: np.ndarray) -> np.ndarray:
    """The Frobenius norm of Green's strain (F^T F - I)/2, (rows, n)."""
    green = (F.swapaxes(-1, -2) @ F - np.eye(F.shape[-1])) / 2
    return np.linalg.norm(green, axis=(-2, -1))


def in_space(x: np.ndarray) -> np.ndarray:
    """A vector of the plane as one in the xz plane of space; vectors of space are unchanged."""
    return np.array([x[0], 0.0, x[1]]) if len(x) == 2 else np.asarray(x)


def upright(normal: np.ndarray) -> np.ndarray:
    """A quaternion that turns z into a direction, which must not point straight down."""
    half = np.array([1 + normal[2], -normal[1], normal[0], 0.0])
    return half / np.linalg.norm(half)
