"""Random robots whose actuators have activations, and MuJoCo's motion of them."""

from __future__ import annotations

import mujoco
import numpy as np
from oracles import NoOracle, unconstrained
from trees import random_tree

DYNAMICS = ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT")


def random_activated(seed: int, **how) -> mujoco.MjModel:
    """A random tree (see ``trees``) of which every actuator has one of the activations, or none; at least one has."""
    rng = np.random.default_rng(seed)
    spec = mujoco.MjSpec.from_string(random_tree(seed, **how))
    for number, actuator in enumerate(spec.actuators):
        kind = DYNAMICS[int(rng.integers(1, 4)) if number == 0 else int(rng.integers(0, 4))]
        actuator.dyntype = getattr(mujoco.mjtDyn, f"mjDYN_{kind}")
        if kind == "NONE":
            continue
        actuator.dynprm[0] = rng.uniform(0.005, 0.1)
        actuator.actearly = bool(rng.random() < 0.4)
        if rng.random() < 0.5:
            actuator.actlimited, actuator.actrange = True, np.sort(rng.normal(size=2))
    return spec.compile()


def mujoco_motion(m: mujoco.MjModel, q, v, act, controls, *, free: bool = True) -> tuple[np.ndarray, ...]:
    """q, v and act (steps + 1, worlds, ...) by ``mj_step``; ``free`` of constraints or with them."""
    m = unconstrained(m) if free else m
    data = mujoco.MjData(m)
    found = [np.empty((len(controls) + 1, *np.shape(x))) for x in (q, v, act)]
    for world in range(len(q)):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.act[:] = q[world], v[world], act[world]
        for t in range(len(controls) + 1):
            for rows, x in zip(found, (data.qpos, data.qvel, data.act), strict=True):
                rows[t, world] = x
            if t < len(controls):
                data.ctrl[:] = controls[t, world]
                mujoco.mj_step(m, data)
        if any(warning.number for warning in data.warning):
            raise NoOracle(f"MuJoCo warns about world {world}: it may have gone on from another state")
    return tuple(found)
