"""Equality constraints that hold points (connect) or frames (weld) of two bodies together."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from pullback.model.unsupported import EQ_CONNECT, EQ_WELD, acting_equalities
from pullback.spatial import quat_conj, quat_mul, unit


@dataclass(frozen=True)
class Loops:
    """The loop constraints that a file enables, and that some degree of freedom can move."""

    index: np.ndarray  # (n,) in the file's list of equality constraints
    rows: np.ndarray  # (n,) 3 or 6
    body: np.ndarray  # (n, 2)
    point: np.ndarray  # (n, 2, 3) in the bodies' frames [m]
    quat: np.ndarray  # (n, 4) orientation of the first frame relative to the second, where both are welded, in body 2
    chains: list[list[tuple[int, bool, bool]]]  # (n,) dofs in descending order; whether each moves body 1, and body 2

    @staticmethod
    def of(m: mujoco.MjModel) -> Loops:
        body, point, quat, index, chains = [], [], [], [], []
        for e in map(int, acting_equalities(m, EQ_CONNECT, EQ_WELD)):
            bodies, points, turn = _frames(m, e)
            dofs = [dofs_above(m, b) for b in bodies]
            chain = [(d, d in dofs[0], d in dofs[1]) for d in sorted({*dofs[0], *dofs[1]}, reverse=True)]
            if chain:
                index.append(e)
                body.append(bodies)
                point.append(points)
                quat.append(turn)
                chains.append(chain)
        at, pairs = np.array(index, int), np.array(body, int).reshape(-1, 2)
        rows = np.where(m.eq_type[at] == EQ_WELD, 6, 3)
        return Loops(at, rows, pairs, np.reshape(point, (-1, 2, 3)), np.reshape(quat, (-1, 4)), chains)


def _frames(m: mujoco.MjModel, e: int) -> tuple[list[int], np.ndarray, np.ndarray]:
    """The bodies, the points (2, 3) in their frames, and the relative orientation of the frames, in axes of body 2."""
    ids, data = [int(m.eq_obj1id[e]), int(m.eq_obj2id[e])], m.eq_data[e]
    none = np.array([1.0, 0.0, 0.0, 0.0])
    if m.eq_objtype[e] == int(mujoco.mjtObj.mjOBJ_SITE):
        turn = quat_mul(unit(m.site_quat[ids[0]]), quat_conj(unit(m.site_quat[ids[1]])))
        return m.site_bodyid[ids].tolist(), m.site_pos[ids], turn
    if m.eq_type[e] == EQ_CONNECT:
        return ids, data[:6].reshape(2, 3), none
    return ids, np.array([data[3:6], data[:3]]), unit(data[6:10])


def dofs_above(m: mujoco.MjModel, body: int) -> list[int]:
    """All degrees of freedom that move a body, from its own to the root's."""
    found, dof = [], -1
    while body > 0 and m.body_dofnum[body] == 0:
        body = int(m.body_parentid[body])
    if body > 0:
        dof = int(m.body_dofadr[body] + m.body_dofnum[body] - 1)
    while dof >= 0:
        found.append(dof)
        dof = int(m.dof_parentid[dof])
    return found
