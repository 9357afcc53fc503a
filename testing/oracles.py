"""MuJoCo as the oracle: models without constraints or with an exact solver, and the trajectories it gives."""

from __future__ import annotations

import copy

import mujoco
import numpy as np


class NoOracle(Exception):
    """A motion that MuJoCo itself warns about: out of bounds, or with a mass matrix that is not positive definite."""


def unconstrained(m: mujoco.MjModel) -> mujoco.MjModel:
    """A copy with every constraint switched off."""
    free = copy.copy(m)
    # Detection is switched off too: with mjDSBL_CONSTRAINT alone contacts would be found, then thrown away.
    free.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT
    return free


def precise(m: mujoco.MjModel, *, euler: bool = False) -> mujoco.MjModel:
    """A copy whose solver goes on until rounding stops it, and which steps by Euler, damping explicit, if wanted."""
    m = copy.copy(m)
    m.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    m.opt.iterations, m.opt.tolerance = 200, 0.0
    m.opt.ls_iterations, m.opt.ls_tolerance = 100, 1e-6
    m.opt.ccd_iterations, m.opt.ccd_tolerance = 200, 1e-12
    if euler:
        m.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
        m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    return m


def mujoco_run(m, q, v, controls) -> tuple[np.ndarray, np.ndarray]:
    """(steps + 1, worlds, nq) and (steps + 1, worlds, nv) by ``mj_step`` without constraints, from (worlds, nq), ..."""
    m = unconstrained(m)
    data = mujoco.MjData(m)
    steps, worlds = len(controls), len(q)
    qs, vs = np.empty((steps + 1, worlds, m.nq)), np.empty((steps + 1, worlds, m.nv))
    qs[0], vs[0] = q, v
    for world in range(worlds):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:] = q[world], v[world]
        for t in range(steps):
            data.ctrl[:] = controls[t, world]
            mujoco.mj_step(m, data)
            qs[t + 1, world], vs[t + 1, world] = data.qpos, data.qvel
        if any(warning.number for warning in data.warning):
            raise NoOracle(f"MuJoCo warns about world {world}: it may have gone on from another state")
    return qs, vs


def relative_error(a, b) -> float:
    """Largest difference over the largest entry of the reference b, or over 1 where that is smaller."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    assert a.shape == b.shape, (a.shape, b.shape)
    return float(np.max(np.abs(a - b), initial=0.0) / max(1.0, np.max(np.abs(b), initial=0.0)))
