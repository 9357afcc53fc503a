"""Tendons of a file, and the degrees of freedom that they and equality constraints on joints or tendons couple."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from pullback.model.loops import dofs_above
from pullback.model.model import Tendons
from pullback.model.unsupported import (
    EQ_TENDON,
    Disable,
    disabled,
    name_of,
    reflecting_actuators,
    spatial_tendons,
)

WRAP_SITE, WRAP_PULLEY = int(mujoco.mjtWrap.mjWRAP_SITE), int(mujoco.mjtWrap.mjWRAP_PULLEY)


@dataclass(frozen=True)
class Span:
    """A segment of a spatial tendon, from one site to the next.

    weight:  factor of its length in the tendon's: one over the divisor of the preceding pulley
    geom:    the geom that it may wrap around, or -1
    side:    the site that sets on which side of the geom it passes, or -1
    """

    sites: tuple[int, int]
    weight: float
    geom: int = -1
    side: int = -1

    def bodies(self, m: mujoco.MjModel) -> list[int]:
        """The bodies of its two sites, and of its geom if there is one."""
        around = [int(m.geom_bodyid[self.geom])] if self.geom >= 0 else []
        return [*(int(m.site_bodyid[site]) for site in self.sites), *around]

    def chains(self, m: mujoco.MjModel) -> list[list[int]]:
        """For each of these bodies, the dofs that move it, except dofs that move all of them: they change no length."""
        chains = [dofs_above(m, body) for body in self.bodies(m)]
        common = set(chains[0]).intersection(*chains)
        return [[d for d in chain if d not in common] for chain in chains]


def wraps_of(m: mujoco.MjModel, t: int) -> range:
    """The indices of a tendon's terms (fixed), or of the elements of its path (spatial), in the file's list."""
    return range(int(m.tendon_adr[t]), int(m.tendon_adr[t] + m.tendon_num[t]))


def spans_of(m: mujoco.MjModel, t: int) -> list[Span]:
    """The segments of a spatial tendon; a pulley ends a segment."""
    found, weight, last, around = [], 1.0, -1, (-1, -1)
    for w in wraps_of(m, t):
        kind, member = int(m.wrap_type[w]), int(m.wrap_objid[w])
        if kind == WRAP_PULLEY:
            weight, last = 1.0 / float(m.wrap_prm[w]), -1
        elif kind == WRAP_SITE:
            if last >= 0:
                found.append(Span((last, member), weight, *around))
            last, around = member, (-1, -1)
        else:
            around = member, round(float(m.wrap_prm[w]))
    return found


def tendon_dofs(m: mujoco.MjModel, t: int) -> list[int]:
    """The degrees of freedom that change a tendon's length, in descending order."""
    if spatial_tendons(m)[t]:
        dofs = {d for span in spans_of(m, t) for chain in span.chains(m) for d in chain}
    else:
        dofs = {int(m.jnt_dofadr[m.wrap_objid[w]]) for w in wraps_of(m, t)}
    return sorted(dofs, reverse=True)


def equality_members(m: mujoco.MjModel, e: int) -> list[int]:
    """The one or two joints or tendons that an equality constraint relates."""
    second = int(m.eq_obj2id[e])
    return [int(m.eq_obj1id[e]), *([second] if second >= 0 else [])]


def equality_dofs(m: mujoco.MjModel, e: int) -> list[int]:
    """The degrees of freedom of an equality constraint's joints or tendons, in descending order."""
    of = tendon_dofs if m.eq_type[e] == EQ_TENDON else lambda m, j: [int(m.jnt_dofadr[j])]
    return sorted({d for member in equality_members(m, e) for d in of(m, member)}, reverse=True)


def read_tendons(m: mujoco.MjModel) -> Tendons:
    """Forces and inertia of a file's tendons, including the rotors of actuators that are reflected through them."""
    armature, damping, curve = m.tendon_armature.copy(), m.tendon_damping.copy(), m.tendon_dampingpoly.copy()
    for t in range(m.ntendon):
        for i in reflecting_actuators(m, t, of_tendon=True):
            ratio = m.actuator_gear[m.actuator_outadr[i], 0] ** 2
            armature[t] += m.actuator_armature[i] * ratio
            damping[t] += m.actuator_damping[i] * ratio
            curve[t] += m.actuator_dampingpoly[i] * ratio
    no_springs, no_dampers = disabled(m, Disable.mjDSBL_SPRING), disabled(m, Disable.mjDSBL_DAMPER)
    fields = {
        "stiffness": np.zeros(m.ntendon) if no_springs else m.tendon_stiffness,
        "damping": np.zeros(m.ntendon) if no_dampers else damping,
        "stiffness_poly": np.zeros((m.ntendon, 2)) if no_springs else m.tendon_stiffnesspoly,
        "damping_poly": np.zeros((m.ntendon, 2)) if no_dampers else curve,
        "armature": armature,
        "spring": m.tendon_lengthspring,
        "force_range": np.where(m.tendon_actfrclimited[:, None], m.tendon_actfrcrange, (-np.inf, np.inf)),
    }
    fields = {name: np.array(value, np.float64) for name, value in fields.items()}
    for value in fields.values():
        value.setflags(write=False)
    return Tendons(tuple(name_of(m, "tendon", t) for t in range(m.ntendon)), **fields)
