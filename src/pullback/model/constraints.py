"""The constraints of a file that a contact model simulates: equalities, limits, friction loss, contacts; as text."""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np

from pullback.model.flex_contacts import touching_flexes
from pullback.model.unsupported import (
    EQUALITIES,
    Complaint,
    Disable,
    acting_equalities,
    disabled,
    equality_label,
    label,
    name_of,
    soft_flexes,
)


def describe_constraints(m: mujoco.MjModel, *, with_flexes: bool) -> tuple[str, ...]:
    """One line for each equality constraint, limit and friction loss, and one for all contacts, except those that the
    file disables."""
    if disabled(m, Disable.mjDSBL_CONSTRAINT):
        return ()
    lines = [f"equality: {equality_label(m, e)}" for e in acting_equalities(m, *EQUALITIES)]
    if not disabled(m, Disable.mjDSBL_LIMIT):
        for j in np.flatnonzero(m.jnt_limited):
            lines.append(f"limit: {label(m, 'joint', j)} {_range(m.jnt_range[j])}")
        for t in np.flatnonzero(m.tendon_limited):
            lines.append(f"limit: {label(m, 'tendon', t)} {_range(m.tendon_range[t])}")
    if not disabled(m, Disable.mjDSBL_FRICTIONLOSS):
        for j in np.unique(m.dof_jntid[m.dof_frictionloss > 0]):
            loss = m.dof_frictionloss[m.dof_jntid == j].max()
            lines.append(f"friction loss: {label(m, 'joint', j)} {loss:.4g}")
        for t in np.flatnonzero(m.tendon_frictionloss > 0):
            lines.append(f"friction loss: {label(m, 'tendon', t)} {m.tendon_frictionloss[t]:.4g}")
    if not disabled(m, Disable.mjDSBL_CONTACT):
        lines += _contact_lines(m, with_flexes)
    return tuple(lines)


def left_over(m: mujoco.MjModel) -> Iterator[Complaint]:
    """Constraints that no contact model simulates."""
    if disabled(m, Disable.mjDSBL_CONSTRAINT):
        return
    for f in () if disabled(m, Disable.mjDSBL_CONTACT) else touching_flexes(m):
        soft = f in soft_flexes(m)
        yield "flexface" if soft else "flex", label(m, "flex", f), f"may touch other shapes{' by its faces' * soft}"


def _range(bounds: np.ndarray) -> str:
    return f"between {bounds[0]:.4g} and {bounds[1]:.4g}"


def _contact_lines(m: mujoco.MjModel, with_flexes: bool) -> list[str]:
    lines = []
    pairs = touching_pairs(m)
    if len(pairs):
        first, second = (name_of(m, "geom", g) for g in pairs[0])
        count = "1 geom pair" if len(pairs) == 1 else f"{len(pairs)} geom pairs"
        lines.append(f"contact: {count} may touch, e.g. '{first}' and '{second}'")
    for f in touching_flexes(m) if with_flexes else ():
        lines.append(f"contact: {label(m, 'flex', f)} may touch other shapes")
    return lines


def touching_pairs(m: mujoco.MjModel) -> np.ndarray:
    """The pairs of geoms, (n, 2) with the lower index first, that MuJoCo would test for contact."""
    body, weld, parent = m.geom_bodyid, m.body_weldid, m.body_parentid
    weld_of = weld[body]
    weld_above = weld[parent[weld_of]]
    bits = (m.geom_contype[:, None] & m.geom_conaffinity[None, :]) != 0
    may = bits | bits.T
    may &= weld_of[:, None] != weld_of[None, :]  # not on the same rigid piece
    moves = m.body_treeid[body] >= 0
    may &= moves[:, None] | moves[None, :]
    if not disabled(m, Disable.mjDSBL_FILTERPARENT):
        child_of = (weld_above[:, None] == weld_of[None, :]) & (weld_of[:, None] != 0) & (weld_of[None, :] != 0)
        may &= ~(child_of | child_of.T)
    flat = np.isin(m.geom_type, (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD)))
    may &= ~(flat[:, None] & flat[None, :])  # MuJoCo has no collision function for these
    for signature in m.exclude_signature:
        first, second = int(signature) >> 16, int(signature) & 0xFFFF
        excluded = (body == first)[:, None] & (body == second)[None, :]
        may &= ~(excluded | excluded.T)
    for first, second in zip(m.pair_geom1, m.pair_geom2, strict=True):  # explicit pairs bypass all filters
        may[first, second] = may[second, first] = True
    return np.argwhere(np.triu(may, 1))
