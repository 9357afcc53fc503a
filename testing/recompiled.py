"""Robots with other masses, inertias and armature than their file has: the parameters, and MuJoCo's model of them."""

from __future__ import annotations

import mujoco
import numpy as np

import pullback as pb
from pullback.dynamics.rest_inertia import COLUMN, ROW
from pullback.spatial import quat_exp, quat_matrix


def other_numbers(model: pb.Model, seed: int, size: float = 0.4) -> dict[str, np.ndarray]:
    """Masses, centres of mass, inertias and armature of other robots of this kind."""
    rng = np.random.default_rng(seed)
    m = model.mujoco
    scale = np.exp(size * rng.normal(size=model.nbody))
    reach = np.sqrt(np.abs(model.body_inertia[:, :3]).sum(axis=1) / np.where(model.body_mass > 0, model.body_mass, 1))
    spread = scale * np.exp(size * rng.normal(size=model.nbody))
    R = quat_matrix(quat_exp(size * rng.normal(size=(model.nbody, 3))))
    inertia = np.zeros((model.nbody, 3, 3))
    inertia[:, ROW, COLUMN] = inertia[:, COLUMN, ROW] = model.body_inertia * spread[:, None]
    inertia = (R @ inertia @ np.swapaxes(R, 1, 2))[:, ROW, COLUMN]
    # What only slides along the world's axes is such a body of MuJoCo's while its frames are aligned.
    aligned = m.body_simple == 2
    inertia[aligned] = model.body_inertia[aligned] * spread[aligned, None]
    of_joint = m.jnt_dofadr[m.dof_jntid]  # a file has one armature per joint
    return {
        "mass": model.body_mass * scale,
        "com": model.body_com + ~aligned[:, None] * 0.1 * size * rng.normal(size=(model.nbody, 3)) * reach[:, None],
        "inertia": inertia,
        "armature": (model.dof_armature * np.exp(size * rng.normal(size=model.nv)))[of_joint],
    }


def recompiled(xml: str, numbers: dict[str, np.ndarray]) -> mujoco.MjModel:
    """The file with these numbers, by MuJoCo's compiler."""
    spec = mujoco.MjSpec.from_string(xml)
    m = spec.compile()
    for i in range(1, m.nbody):
        if m.body_mass[i] == 0:
            continue
        body = spec.bodies[i]
        body.explicitinertial, body.mass, body.ipos = True, numbers["mass"][i], numbers["com"][i]
        if np.all(numbers["inertia"][i, 3:] == 0):
            body.inertia, body.iquat = numbers["inertia"][i, :3], [1, 0, 0, 0]
        else:
            body.inertia, body.fullinertia = [0, 0, 0], numbers["inertia"][i]
    for j, joint in enumerate(spec.joints):
        joint.armature = numbers["armature"][m.jnt_dofadr[j]]
    return spec.compile()
