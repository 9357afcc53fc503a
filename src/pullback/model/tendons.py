"""Tendons of a file, and the degrees of freedom that they and equality constraints on numbers couple."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.model.model import Tendons
from pullback.model.unsupported import EQ_TENDON, Disable, disabled, name_of, reflecting_actuators


def wraps_of(m: mujoco.MjModel, t: int) -> range:
    """The terms of a fixed tendon, in the file's list of all."""
    return range(int(m.tendon_adr[t]), int(m.tendon_adr[t] + m.tendon_num[t]))


def tendon_dofs(m: mujoco.MjModel, t: int) -> list[int]:
    """The degrees of freedom of a fixed tendon, each once, the last one first."""
    return sorted({int(m.jnt_dofadr[m.wrap_objid[w]]) for w in wraps_of(m, t)}, reverse=True)


def equality_members(m: mujoco.MjModel, e: int) -> list[int]:
    """The joints or tendons that an equality constraint on them relates: one or two."""
    second = int(m.eq_obj2id[e])
    return [int(m.eq_obj1id[e]), *([second] if second >= 0 else [])]


def equality_dofs(m: mujoco.MjModel, e: int) -> list[int]:
    """Their degrees of freedom, each once, the last one first."""
    of = tendon_dofs if m.eq_type[e] == EQ_TENDON else lambda m, j: [int(m.jnt_dofadr[j])]
    return sorted({d for member in equality_members(m, e) for d in of(m, member)}, reverse=True)


def read_tendons(m: mujoco.MjModel) -> Tendons:
    """What acts along the tendons of a file, with the rotors of actuators that are reflected through them."""
    armature, damping = m.tendon_armature.copy(), m.tendon_damping.copy()
    for t in range(m.ntendon):
        for i in reflecting_actuators(m, t, of_tendon=True):
            ratio = m.actuator_gear[m.actuator_outadr[i], 0] ** 2
            armature[t] += m.actuator_armature[i] * ratio
            damping[t] += m.actuator_damping[i] * ratio
    no_springs, no_dampers = disabled(m, Disable.mjDSBL_SPRING), disabled(m, Disable.mjDSBL_DAMPER)
    fields = {
        "stiffness": np.zeros(m.ntendon) if no_springs else m.tendon_stiffness,
        "damping": np.zeros(m.ntendon) if no_dampers else damping,
        "armature": armature,
        "spring": m.tendon_lengthspring,
    }
    fields = {name: np.array(value, np.float64) for name, value in fields.items()}
    for value in fields.values():
        value.setflags(write=False)
    return Tendons(tuple(name_of(m, "tendon", t) for t in range(m.ntendon)), **fields)
