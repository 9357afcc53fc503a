"""Flexes of a compiled MuJoCo model: their surfaces as they move, coloured by strain, and the vertices of ropes."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.drawing.surfaces import two_sides

STRAINED = 99  # per cent of all strains are below the end of the colour scale
LEAST_STRAIN = 0.01  # that ends it


def drawn_flexes(m: mujoco.MjModel, q: np.ndarray, shapes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The fields of a Drawing with flexes added, of coordinates (frames, nq); the same where there is none to draw.

    Meshes are either rigid or deformed in a Drawing: beside rigid ones, flexes are the balls of their vertices.
    """
    soft = np.flatnonzero(~m.flex_rigid.astype(bool))
    if not len(soft):
        return shapes
    places, strain = _moving(m, q)
    high = max(float(np.percentile(strain, STRAINED)), LEAST_STRAIN)
    paint = np.clip(np.round(255 * strain / high), 0, 255).astype(np.uint8)
    surfaces = [] if len(shapes["mesh_sizes"]) else [_surface(m, f, places) for f in soft if m.flex_dim[f] > 1]
    balls = [] if surfaces else list(soft)
    balls += [f for f in soft if surfaces and m.flex_dim[f] == 1]
    points = np.concatenate([np.zeros(0, int), *(_vertices(m, f) for f in balls)])
    radius = np.concatenate([np.zeros(0), *(np.full(m.flex_vertnum[f], m.flex_radius[f]) for f in balls)])
    fields = shapes | {"paint_range": np.array([0.0, high]), "paint_unit": "strain"}
    if len(points):
        fields |= {"points": places[:, points].astype(np.float32), "point_radius": radius}
        fields |= {"point_paint": paint[:, points]}
    if surfaces:
        sizes = [(at.shape[1], len(faces)) for at, _, faces in surfaces]
        at = np.concatenate([at for at, _, _ in surfaces], axis=1).astype(np.float32)
        new = {
            "shape_kind": np.full(len(surfaces), "mesh"),
            "shape_size": np.ones((len(surfaces), 3)),
            "shape_mesh": np.arange(len(surfaces)),
            "shape_body": np.zeros(len(surfaces), int),
            "shape_pos": np.zeros((len(surfaces), 3)),
            "shape_quat": np.tile((1.0, 0.0, 0.0, 0.0), (len(surfaces), 1)),
            "shape_colours": np.full((len(surfaces), 2, 4), (0.5, 0.5, 0.5, 1.0)),
        }
        fields |= {name: np.concatenate([shapes[name], more]) for name, more in new.items()}
        fields |= {
            "mesh_vertices": at[0],
            "mesh_faces": np.concatenate([faces for _, _, faces in surfaces]).astype(np.int32),
            "mesh_sizes": np.array(sizes, np.int32),
            "mesh_motion": at,
            "paint": np.concatenate([paint[:, source] for _, source, _ in surfaces], axis=1),
        }
    return fields


def _moving(m: mujoco.MjModel, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places (frames, n, 3) [m] of all vertices, and the mean strain (frames, n) of the edges that meet there."""
    data = mujoco.MjData(m)
    places, strain = np.empty((len(q), m.nflexvert, 3)), np.zeros((len(q), m.nflexvert))
    vertices = m.flex_edge + np.repeat(m.flex_vertadr, m.flex_edgenum)[:, None]
    meeting = np.bincount(vertices.ravel(), minlength=m.nflexvert).clip(1)
    for frame, coordinates in enumerate(q):
        data.qpos[:] = coordinates
        mujoco.mj_kinematics(m, data)
        mujoco.mj_flex(m, data)
        places[frame] = data.flexvert_xpos
        along = places[frame, vertices[:, 0]] - places[frame, vertices[:, 1]]
        stretched = abs(np.linalg.norm(along, axis=1) / m.flexedge_length0 - 1)
        for end in vertices.T:
            np.add.at(strain[frame], end, stretched)
    return places, strain / meeting


def _vertices(m: mujoco.MjModel, f: int) -> np.ndarray:
    return np.arange(m.flex_vertadr[f], m.flex_vertadr[f] + m.flex_vertnum[f])


def _surface(m: mujoco.MjModel, f: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places (frames, n, 3), the flex's vertex that each is of (n,), and faces (k, 3) of the surface of a flex."""
    own = _vertices(m, f)
    if m.flex_dim[f] == 2:
        first = int(m.flex_elemdataadr[f])
        triangles = m.flex_elem[first : first + 3 * int(m.flex_elemnum[f])].reshape(-1, 3)
        at, faces = two_sides(places[:, own], triangles, float(m.flex_radius[f]))
        return at, np.concatenate([own, own]), faces
    first = int(m.flex_shelldataadr[f])
    faces = m.flex_shell[first : first + 3 * int(m.flex_shellnum[f])].reshape(-1, 3)
    return places[:, own], own, faces
