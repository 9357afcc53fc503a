"""Sensors against MuJoCo and against central differences."""

import mujoco
import numpy as np

from pullback.dynamics import sensors
from pullback.model.tangent import tangent_of_coordinates

# Parameters of which each entry moves by a share of itself.
NOT_NEGATIVE = {"mass", "inertia", "friction", "damping", "solref", "solimp", "limit_solref", "limit_solimp"}
NOT_NEGATIVE |= {"muscle_gain", "muscle_bias"}
STEPS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def readings_of_mujoco(m, q, v, act=None, control=None) -> np.ndarray:
    """sensordata (n, nsensordata) of states one by one, with constraints solved as exactly as they can be."""
    m.opt.tolerance, m.opt.iterations, m.opt.ls_tolerance, m.opt.ls_iterations = 0.0, 200, 1e-14, 200
    data, found = mujoco.MjData(m), []
    for k in range(len(q)):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:] = q[k], v[k]
        if act is not None:
            data.act[:] = act[k]
        if control is not None:
            data.ctrl[:] = control[k]
        for _ in range(2):  # the kinetic energy is computed after the sensors are
            mujoco.mj_forward(m, data)
        found.append(data.sensordata.copy())
    return np.array(found)


def require_gradients(
    system, given: dict, params: dict, rng, *, names=None, rtol: float = 1e-6, least: float = 1e-4
) -> None:
    """Of all readings at once, along random directions of every array given and of every parameter.

    given: q, v and maybe act and control; least: what each derivative must exceed
    """
    m, point = system.model.mujoco, given | params

    def value(**moved) -> float:
        arrays = {name: moved.get(name, x) for name, x in given.items()}
        return sensors(system, **arrays, names=names, params={n: moved.get(n, x) for n, x in params.items()}).value

    bar = rng.normal(size=value().shape)
    grads = sensors(system, **given, names=names, params=params).pullback(bar)
    for name, at in point.items():
        exact = grads.params[name] if name in params else getattr(grads, name)
        assert exact.shape == at.shape, name
        way = rng.normal(size=given["v"].shape if name == "q" else at.shape)
        if name in params:
            way *= 0.1 * np.abs(at) if name in NOT_NEGATIVE else np.abs(at).max()

        def moved(h: float, name=name, at=at, way=way) -> np.ndarray:
            if name != "q":
                return at + h * way
            there = at.copy()
            for k in np.ndindex(at.shape[:-1]):
                mujoco.mj_integratePos(m, there[k], way[k], h)
            return there

        analytic = np.sum((tangent_of_coordinates(system.model, at, exact) if name == "q" else exact) * way)
        assert abs(analytic) > least, name
        errors = []
        for h in STEPS:
            ends = [np.sum(bar * value(**{name: moved(side)})) for side in (h, -h)]
            errors.append(abs((ends[0] - ends[1]) / (2 * h) - analytic) / abs(analytic))
        assert min(errors) <= rtol, (name, errors)
