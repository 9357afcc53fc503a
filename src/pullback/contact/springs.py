"""Default stiffness and damping of the springs by which ContactCompliant represents MuJoCo's equality constraints."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.contact.params import mixed_sign
from pullback.contact.scene import Scene
from pullback.model.tendons import equality_members
from pullback.model.unsupported import EQ_JOINT, EQ_TENDON, Disable, disabled

# MuJoCo's default, which replaces a solref with numbers of different signs.
SOLREF = np.array([0.02, 1.0])
# Inverse weights below this fraction of the largest one of the model's bodies are rounding [1].
ROUNDING = 1e-6


def equality_springs(scene: Scene, stiffness: float | None, damping: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Stiffness and damping (neq, 2) of each equality constraint: of coordinates or positions, and of welds' rotations.

    If the stiffness is None, a steady load near the constraint's target displaces it as much as in MuJoCo. If the
    damping is None, it is critical. Both use the inverse weights of the file.
    """
    m = scene.model.mujoco
    k, c = np.ones((m.neq, 2)), np.ones((m.neq, 2))
    for e in map(int, scene.all_equalities):
        weight = np.maximum(_inverse_weights(m, scene, e), ROUNDING * m.body_invweight0.max(axis=0))
        d = m.eq_solimp[e, 0].clip(1e-4, 0.9999)
        k[e] = _reference_stiffness(m, e) * d**2 / (1 - d) / weight if stiffness is None else stiffness
        c[e] = 2 * np.sqrt(k[e] / weight) if damping is None else damping
    return k, c


def _reference_stiffness(m: mujoco.MjModel, e: int) -> float:
    """The coefficient k of the reference acceleration -b v - k d x that a solref defines [1/s²]."""
    solref = SOLREF if mixed_sign(m.eq_solref[e]) else m.eq_solref[e]
    most = m.eq_solimp[e, 1].clip(1e-4, 0.9999)
    if solref[0] <= 0:
        return -solref[0] / most**2
    time = solref[0] if disabled(m, Disable.mjDSBL_REFSAFE) else max(solref[0], 2 * m.opt.timestep)
    return 1 / (most * time * solref[1]) ** 2


def _inverse_weights(m: mujoco.MjModel, scene: Scene, e: int) -> np.ndarray:
    """The inverse weights (2,): of coordinates or positions, and of rotations."""
    if m.eq_type[e] == EQ_JOINT:
        return np.full(2, m.dof_invweight0[m.jnt_dofadr[equality_members(m, e)]].sum())
    if m.eq_type[e] == EQ_TENDON:
        return np.full(2, m.tendon_invweight0[equality_members(m, e)].sum())
    return m.body_invweight0[scene.loops.body[list(scene.loops.index).index(e)]].sum(axis=0)
