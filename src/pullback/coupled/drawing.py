"""Drawings of runs of a robot among soft bodies: the robots, and from the first world particles as balls, or the
surfaces of elastic bodies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.drawing import Drawing, draw
from pullback.drawing.drawing import frame_rows
from pullback.drawing.robot import MAX_POSE_BYTES, world_bytes
from pullback.dynamics import kinematics
from pullback.soft import Elastic
from pullback.soft.drawing import FLOOR, FRAMES, drawn_particles, floors, muscle_controls, upright
from pullback.soft.elastic_drawing import BODY, drawn_surfaces, vertex_strains


def draw_coupled(run, *, ghost=None) -> Drawing:
    """The drawing of a run's kept states. Arrows at the origins of geoms show the forces of the soft bodies on them."""
    system, model, dt = run.system, run.system.model, run.system.dt * run.hold * run.checkpoint_every
    robot, soft = run.states.robot, run.states.soft
    q, impulse = to_numpy(robot.q), to_numpy(soft.impulse)[:, 0]
    fps = FRAMES / (dt * max(len(q), FRAMES))
    rows = frame_rows(len(q), dt, fps)
    worlds = max(1, min(q.shape[1], MAX_POSE_BYTES // world_bytes(model, rows)))
    drawing = draw(model, q[:, :worlds], dt=dt, fps=fps, ghost=ghost)
    given = run.params.parts["robot."]
    at = to_numpy(kinematics(system.robot, q[rows], of="geom", names=system.shapes, params=given).value)[:, 0, :, :3]
    pushes = _pushes(impulse, system.dt * run.hold * run.kept, rows, at)
    own = _elastic_bodies if isinstance(system.soft, Elastic) else _particles
    return replace(drawing, times=system.dt * run.hold * run.kept[rows], **pushes, **own(drawing, run, rows))


def _particles(drawing: Drawing, run, rows: np.ndarray) -> dict[str, Any]:
    """The fields of the Drawing that particles change."""
    system, soft = run.system, run.states.soft
    pulls = muscle_controls(run, rows)[:, system.robot.nu :]
    points = drawn_particles(system.soft, *(to_numpy(x)[rows, 0] for x in (soft.x, soft.F)), pulls)
    return _with_floors(drawing, floors(system.soft)) | points


def _elastic_bodies(drawing: Drawing, run, rows: np.ndarray) -> dict[str, Any]:
    """The fields of the Drawing that elastic bodies change. A Drawing's meshes are either all rigid or all deformed: if
    the robot has meshes, vertices are drawn as balls."""
    soft, x = run.system.soft, to_numpy(run.states.soft.x)[rows, 0]
    surfaces = drawn_surfaces(soft, x)
    if len(drawing.mesh_sizes):
        strain = vertex_strains(soft, x)
        paint = np.clip(np.round(255 * strain / surfaces["paint_range"][1]), 0, 255).astype(np.uint8)
        points = {"points": x.astype(np.float32), "point_radius": np.full(soft.n, soft.gap), "point_paint": paint}
        return points | {name: surfaces[name] for name in ("paint_range", "paint_unit")}
    more = {
        "shape_kind": np.array(["mesh"]),
        "shape_size": np.ones((1, 3)),
        "shape_mesh": np.zeros(1, int),
        "shape_body": np.zeros(1, int),
        "shape_pos": np.zeros((1, 3)),
        "shape_quat": np.array([(1.0, 0.0, 0.0, 0.0)]),
        "shape_colours": BODY[None],
    }
    return surfaces | {name: np.concatenate([getattr(drawing, name), x]) for name, x in more.items()}


def _with_floors(drawing: Drawing, walls) -> dict[str, np.ndarray]:
    """The fields of shapes, extended by the walls of the particles as planes."""
    count = len(walls)
    more = {
        "shape_kind": np.full(count, "plane"),
        "shape_size": np.zeros((count, 3)),
        "shape_mesh": np.full(count, -1),
        "shape_body": np.zeros(count, int),
        "shape_pos": np.array([wall.point for wall in walls]).reshape(-1, 3),
        "shape_quat": np.array([upright(wall.normal) for wall in walls]).reshape(-1, 4),
        "shape_colours": np.array([FLOOR] * count).reshape(-1, 2, 4),
    }
    return {name: np.concatenate([getattr(drawing, name), x]) for name, x in more.items()} if count else {}


def _pushes(impulse: np.ndarray, times: np.ndarray, rows: np.ndarray, at: np.ndarray) -> dict[str, np.ndarray]:
    """Mean forces on shapes in the interval after each frame, as the contacts of a Drawing.

    impulse: (kept, shapes, 6); times: (kept,); at: (frames, shapes, 3)
    """
    if len(times) < 2:
        return {}
    force = np.diff(impulse[..., 3:], axis=0) / np.diff(times)[:, None, None]
    force = force[np.minimum(rows, len(force) - 1)]
    frame, shape = np.nonzero(np.any(force != 0, axis=-1))
    return {
        "contact_frame": frame.astype(np.int32),
        "contact_pos": at[frame, shape],
        "contact_force": force[frame, shape],
    }
