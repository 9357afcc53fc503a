"""Drawings of runs of an Elastic System: the surfaces of its bodies, coloured by strain, and the shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.drawing import Drawing
from pullback.drawing.drawing import frame_rows
from pullback.drawing.surfaces import two_sides
from pullback.soft.carried import Carried
from pullback.soft.elastic_bodies import Solid
from pullback.soft.self_contact import surface_faces

FRAMES = 300  # the most, because vertices at every frame are many numbers
STRAINED = 99  # percentile of strains at the end of the colour scale
LEAST_STRAIN = 0.01  # smallest strain at the end of the colour scale
FLOOR = np.array([(0.90, 0.91, 0.93, 1.0), (0.80, 0.82, 0.86, 1.0)])
BODY = np.tile((0.5, 0.5, 0.5, 1.0), (2, 1))
SHAPE = np.tile((0.72, 0.75, 0.80, 1.0), (2, 1))
THICKNESS = 1e-3  # half the thickness of drawn cloth, relative to its diagonal [1]
SKIN = 0.5  # drawn shapes are larger by this fraction of the gap, so that resting bodies appear to touch them [1]


def draw_elastic(run) -> Drawing:
    """The drawing of the first world of a run of Elastic, from its kept states."""
    system = run.system
    rows = np.arange(len(run.kept))
    if len(rows) > FRAMES:
        rows = frame_rows(len(rows), 1.0, fps=FRAMES / len(rows))
    shapes = system.shapes
    still = np.tile([0.0, 0, 0, 1, 0, 0, 0], (len(rows), 1, 1, 1))
    return Drawing(
        title="Elastic",
        times=system.dt * run.hold * run.kept[rows],
        worlds=1,
        body_moves=np.array([False, True] + [bool(run.inputs)] * len(shapes)),
        body_com=np.zeros((2 + len(shapes), 3)),
        poses=np.concatenate([still, still, shape_poses(run, rows)[:, None]], axis=2).astype(np.float32),
        shape_kind=np.array(["mesh", *(shape.kind for shape in shapes)]),
        shape_size=np.array([np.ones(3), *(drawn_size(shape, SKIN * system.gap) for shape in shapes)]),
        shape_mesh=np.array([0, *(-1 for _ in shapes)]),
        shape_body=np.arange(1, 2 + len(shapes)),
        shape_pos=np.zeros((1 + len(shapes), 3)),
        shape_quat=np.tile([1.0, 0, 0, 0], (1 + len(shapes), 1)),
        shape_colours=np.array([BODY, *(FLOOR if shape.kind == "plane" else SHAPE for shape in shapes)]),
        **drawn_surfaces(system, to_numpy(run.x)[rows, 0]),
    )


def drawn_surfaces(system, x: np.ndarray) -> dict[str, Any]:
    """The fields of a Drawing for the surfaces of bodies: one mesh, from positions (rows, n, 3)."""
    strain = vertex_strains(system, x)
    high = max(float(np.percentile(strain, STRAINED)), LEAST_STRAIN)
    parts = [surface_of(system, number, x, strain) for number in range(len(system.bodies))]
    starts = np.cumsum([0, *(at.shape[1] for at, _, _ in parts)])
    at, shade = (np.concatenate(field, axis=1) for field in list(zip(*parts, strict=True))[:2])
    faces = np.concatenate([start + part[2] for start, part in zip(starts, parts, strict=False)])
    return {
        "mesh_vertices": at[0].astype(np.float32),
        "mesh_faces": faces.astype(np.int32),
        "mesh_sizes": np.array([[at.shape[1], len(faces)]]),
        "mesh_motion": at.astype(np.float32),
        "paint": np.clip(np.round(255 * shade / high), 0, 255).astype(np.uint8),
        "paint_range": np.array([0.0, high]),
        "paint_unit": "strain",
    }


def shape_poses(run, rows: np.ndarray) -> np.ndarray:
    """Poses of the shapes in the first world (rows, shapes, 7)."""
    moving = Carried(run.system, run.inputs, run.hold)
    poses = np.concatenate([moving.starts, moving.ends[-1:]])
    return poses[run.hold * run.kept[rows] if moving.moves else np.zeros_like(rows), 0]


def surface_of(system, number: int, x: np.ndarray, strain: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices (rows, n, 3) and strains (rows, n) of a body's surface, and its outward oriented faces (m, 3)."""
    body, there = system.bodies[number], system.vertices_of(number)
    x, strain = x[:, there].astype(float), strain[:, there]
    if isinstance(body, Solid):
        used, faces = np.unique(surface_faces(body), return_inverse=True)
        return x[:, used], strain[:, used], faces.reshape(-1, 3)
    apart = THICKNESS * float(np.linalg.norm(np.ptp(body.points, axis=0)))
    at, faces = two_sides(x, body.triangles, apart)
    return at, np.concatenate([strain, strain], axis=1), faces


def drawn_size(shape, skin: float) -> np.ndarray:
    """The size of a shape for a Drawing: half sizes of a box, half axes of a sphere, (radius, radius, half length)."""
    if shape.kind == "plane":
        return np.zeros(3)
    if shape.kind == "box":
        return shape.size + skin
    radius = shape.size[0] + skin
    return np.array([radius, radius, radius if shape.kind == "sphere" else shape.size[1]])


def vertex_strains(system, x: np.ndarray) -> np.ndarray:
    """The largest absolute principal strain around each vertex (rows, n), from positions (rows, n, 3)."""
    total, count = np.zeros(x.shape[:2]), np.zeros(x.shape[1])
    for elements, rest in (("tets", "tet_rest"), ("triangles", "triangle_rest")):
        corners, gradients = (system.mesh.arrays[name] for name in (elements, rest))
        if not len(corners):
            continue
        edges = x[:, corners[:, 1:]] - x[:, corners[:, :1]]
        F = np.einsum("rekx,ekj->rexj", edges, gradients[:, -edges.shape[2] :])
        stretch = np.linalg.svd(F, compute_uv=False)
        strain = np.abs(stretch - 1).max(axis=-1)
        for corner in corners.T:
            np.add.at(total, (slice(None), corner), strain)
            np.add.at(count, corner, 1)
    return total / count
