"""What a run of Particles looks like: balls, coloured by what their muscle does or by how much they are strained."""

from __future__ import annotations

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.drawing import Drawing
from pullback.drawing.drawing import frame_rows

FLOOR = np.array([(0.90, 0.91, 0.93, 1.0), (0.80, 0.82, 0.86, 1.0)])
FRAMES = 300  # at most
# Particles that are drawn at most. Of more, some at random: of a lattice, every third would be slices.
MOST_POINTS = 12_000
RADIUS = 0.6  # of a ball, against the distance between particles: they overlap [1]
UPWARD = 0.5  # of a wall's normal: from here on it is drawn, as a floor [1]
STRAINED = 95  # per cent of all strains are below the end of the colour scale


def draw_particles(run) -> Drawing:
    """The first world of a run of Particles, from the states that it has kept."""
    soft = run.system
    rows = np.arange(len(run.kept))
    if len(rows) > FRAMES:
        rows = frame_rows(len(rows), 1.0, fps=FRAMES / len(rows))
    shown = np.sort(np.random.default_rng(0).permutation(soft.n)[:MOST_POINTS])
    x, F = (to_numpy(states)[rows, 0][:, shown] for states in (run.x, run.F))
    points = np.zeros((len(rows), len(shown), 3), dtype=np.float32)
    points[..., [0, 2] if soft.dim == 2 else slice(None)] = x
    value, unit = (pull(run, rows, shown), "pull") if soft.nu else (strain(F), "strain")
    high = np.abs(value).max() if soft.nu else np.percentile(value, STRAINED)
    low, high = (-max(high, 1e-9) if soft.nu else 0.0), max(float(high), 1e-9)
    volume = np.concatenate([body.volume for body in soft.bodies])[shown] * (soft.n / len(shown))
    floors = [wall for wall in soft.walls if wall.normal[-1] > UPWARD]
    poses = np.zeros((len(rows), 1, 1, 7), dtype=np.float32)
    poses[..., 3] = 1.0
    return Drawing(
        title="Particles",
        times=soft.dt * run.hold * run.kept[rows],
        worlds=1,
        body_moves=np.zeros(1, dtype=bool),
        body_com=np.zeros((1, 3)),
        poses=poses,
        shape_kind=np.array(["plane"] * len(floors), dtype=str),
        shape_size=np.zeros((len(floors), 3)),
        shape_mesh=np.full(len(floors), -1),
        shape_body=np.zeros(len(floors), dtype=int),
        shape_pos=np.array([in_space(wall.point) for wall in floors]).reshape(-1, 3),
        shape_quat=np.array([upright(in_space(wall.normal)) for wall in floors]).reshape(-1, 4),
        shape_colours=np.tile(FLOOR, (len(floors), 1, 1)),
        points=points,
        point_radius=RADIUS * volume ** (1 / soft.dim),
        point_paint=np.clip(np.round(255 * (value - low) / (high - low)), 0, 255).astype(np.uint8),
        paint_range=np.array([low, high]),
        paint_unit=unit,
    )


def pull(run, rows: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """What the muscle of each particle does (rows, n), zero without one."""
    soft = run.system
    of_body = [-1 if body.muscle is None else soft.muscles.index(body.muscle) for body in soft.bodies]
    muscle = np.array(of_body)[soft.group[shown]]
    control = to_numpy(run.controls)[np.minimum(run.kept[rows], run.steps - 1), 0]
    return np.where(muscle < 0, 0.0, control[:, muscle])


def strain(F: np.ndarray) -> np.ndarray:
    """The length of Green's strain (F^T F - I)/2, (rows, n)."""
    green = (F.swapaxes(-1, -2) @ F - np.eye(F.shape[-1])) / 2
    return np.linalg.norm(green, axis=(-2, -1))


def in_space(x: np.ndarray) -> np.ndarray:
    """A vector of the plane in the xz plane of space."""
    return np.array([x[0], 0.0, x[1]]) if len(x) == 2 else np.asarray(x)


def upright(normal: np.ndarray) -> np.ndarray:
    """The quaternion that turns z into a direction that is not down."""
    half = np.array([1 + normal[2], -normal[1], normal[0], 0.0])
    return half / np.linalg.norm(half)
