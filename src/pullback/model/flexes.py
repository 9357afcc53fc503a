"""Flexes of a file: cloth, soft solids and ropes whose vertices are bodies, and their elasticity."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields

import mujoco
import numpy as np

from pullback.core.errors import PullbackError
from pullback.model.model import Flexes
from pullback.model.unsupported import Disable, disabled, label, name_of, soft_flexes

# Edges of an element as pairs of its own vertices, in MuJoCo's order.
TRIANGLE_EDGES = ((1, 2), (2, 0), (0, 1))
SOLID_EDGES = ((0, 1), (1, 2), (2, 0), (2, 3), (0, 3), (1, 3))
HINGE_NUMBERS = 17  # per edge in MuJoCo's table of bending: a 4 × 4 matrix, and the curvature of the rest shape
SAME_MATERIAL = 1e-9  # largest relative difference of a stiffness from that of one isotropic material [1]


def read_flexes(m: mujoco.MjModel, ignore: Collection[str]) -> Flexes:
    """The deformable flexes of a file; none if they are ignored."""
    rest_place = _rest_places(m) if m.nflexvert else np.zeros((0, 3))
    undamped = disabled(m, Disable.mjDSBL_DAMPER)
    shear, lame = np.zeros(m.nflex), np.zeros(m.nflex)
    parts: dict[str, list[np.ndarray]] = {field.name: [] for field in fields(Flexes)[1:]}
    vertices = edges = 0  # so far
    for f in soft_flexes(m) if "flex" not in ignore else ():
        own = slice(int(m.flex_vertadr[f]), int(m.flex_vertadr[f] + m.flex_vertnum[f]))
        own_edges = slice(int(m.flex_edgeadr[f]), int(m.flex_edgeadr[f] + m.flex_edgenum[f]))
        ends = m.flex_edge[own_edges]
        parts["vertex_body"].append(m.flex_vertbodyid[own])
        parts["vertex_place"].append(m.flex_vert[own] * (not m.flex_centered[f]))
        parts["edge"].append(vertices + ends)
        parts["edge_flex"].append(np.full(len(ends), f))
        parts["rest"].append(m.flexedge_length0[own_edges])
        if m.flex_stiffnessadr[f] >= 0:
            kind = {2: "triangle", 3: "solid"}[int(m.flex_dim[f])]
            edge, A, b = _elements(m, f, rest_place[own])
            shear[f], lame[f] = _lame(m, f, A, b)
            parts[f"{kind}_flex"].append(np.full(len(edge), f))
            parts[f"{kind}_edge"].append(edges + edge)
            parts[f"{kind}_A"].append(A)
            parts[f"{kind}_b"].append(b)
        if m.flex_bendingadr[f] >= 0:
            flap = m.flex_edgeflap[own_edges]
            inner = np.flatnonzero(flap[:, 1] >= 0)
            first = int(m.flex_bendingadr[f])
            table = m.flex_bending[first : first + HINGE_NUMBERS * len(ends)].reshape(-1, HINGE_NUMBERS)[inner]
            parts["hinge"].append(vertices + np.concatenate([ends, flap], axis=1)[inner])
            parts["hinge_flex"].append(np.full(len(inner), f))
            parts["hinge_Q"].append(table[:, :16].reshape(-1, 4, 4))
            parts["hinge_curve"].append(table[:, 16])
        vertices, edges = vertices + int(m.flex_vertnum[f]), edges + len(ends)
    empty = {"vertex_place": (3,), "edge": (2,), "hinge": (4,), "hinge_Q": (4, 4), "triangle_edge": (3,)}
    empty |= {"triangle_A": (3, 3), "triangle_b": (3,), "solid_edge": (6,), "solid_A": (6, 6), "solid_b": (6,)}
    whole = {"vertex_body", "edge", "edge_flex", "triangle_flex", "triangle_edge", "solid_flex", "solid_edge"}
    whole |= {"hinge", "hinge_flex"}
    values = {
        name: np.concatenate([np.zeros((0, *empty.get(name, ()))), *found]).astype(int if name in whole else float)
        for name, found in parts.items()
    }
    values |= {
        "shear": shear,
        "lame": lame,
        "damping": np.zeros(m.nflex) if undamped else m.flex_damping.copy(),
        "edge_stiffness": m.flex_edgestiffness.copy(),
        "edge_damping": np.zeros(m.nflex) if undamped else m.flex_edgedamping.copy(),
        "bending": np.ones(m.nflex),
    }
    for value in values.values():
        value.setflags(write=False)
    return Flexes(names=tuple(name_of(m, "flex", f) for f in range(m.nflex)), **values)


def _rest_places(m: mujoco.MjModel) -> np.ndarray:
    """The positions of all vertices in the file's pose (nflexvert, 3) [m]."""
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    mujoco.mj_flex(m, data)
    return data.flexvert_xpos.copy()


def _elements(m: mujoco.MjModel, f: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The edges of all elements of a flex, and A and b of each (see :class:`Flexes`), from rest positions (n, 3).

    The strain E of an element is the symmetric matrix with d·E d = e/2 for the vectors d along all of its edges. Its
    energy is volume · (shear E:E + lame/2 (tr E)²); for a triangle, volume stands for its area.
    """
    dim, first = int(m.flex_dim[f]), int(m.flex_elemdataadr[f])
    count = int(m.flex_elemnum[f])
    corners = m.flex_elem[first : first + count * (dim + 1)].reshape(count, dim + 1)
    pairs = {2: TRIANGLE_EDGES, 3: SOLID_EDGES}[dim]
    first = int(m.flex_elemedgeadr[f])
    edge = m.flex_elemedge[first : first + count * len(pairs)].reshape(count, len(pairs))
    along = np.stack([places[corners[:, i]] - places[corners[:, j]] for i, j in pairs], axis=1)  # (n, edges, 3)
    if dim == 2:
        normal = np.cross(along[:, 2], along[:, 1])
        volume = np.linalg.norm(normal, axis=1) / 2
        axis = along[:, 2] / np.linalg.norm(along[:, 2], axis=1, keepdims=True)
        other = np.cross(normal, axis) / (2 * volume[:, None])
        along = np.stack([np.einsum("nej,nj->ne", along, x) for x in (axis, other)], axis=-1)
    else:
        volume = abs(np.einsum("ni,ni->n", np.cross(along[:, 0], along[:, 1]), along[:, 3])) / 6
    row, column = np.triu_indices(dim)
    times = np.where(row == column, 1.0, 2.0)  # how often each entry occurs in the symmetric matrix
    strains = np.linalg.inv(along[..., row] * along[..., column] * times)  # strain per e/2 of each edge
    A = np.einsum("npe,p,npf,n->nef", strains, times, strains, volume)
    b = strains[:, row == column].sum(axis=1) * np.sqrt(volume / 2)[:, None]
    return edge, A, b


def _lame(m: mujoco.MjModel, f: int, A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The moduli (shear, lame) of the stiffness that MuJoCo has compiled."""
    edges, first = A.shape[1], int(m.flex_stiffnessadr[f])
    rows, columns = np.triu_indices(edges)
    later = m.flex_stiffnessadr[m.flex_stiffnessadr > first]
    end = int(later.min()) if len(later) else len(m.flex_stiffness)
    K = m.flex_stiffness[first:end].reshape(len(A), -1)[:, : len(rows)]
    bases = np.stack([A, np.einsum("ne,nf->nef", b, b)], axis=-1)[:, rows, columns].reshape(-1, 2)
    found = np.linalg.lstsq(bases, K.ravel(), rcond=None)[0]
    if not np.allclose(bases @ found, K.ravel(), rtol=0, atol=SAME_MATERIAL * abs(K).max()):
        raise PullbackError(
            f'{label(m, "flex", f)} is not of one isotropic material; ignore=("flex",) loads it without its stiffness'
        )
    return found
