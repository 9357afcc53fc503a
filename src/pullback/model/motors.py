"""PID controllers, DC motors and servos of orientations: actuators with several controls, states or outputs."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.model.model import Motors, Orientations
from pullback.model.unsupported import (
    GAIN_DCMOTOR,
    GAIN_PID,
    actuator_complaint,
    gives_no_force,
    holds_orientation,
    in_disabled_group,
    rotation_kind,
    states_of_motor,
)

STATES = ("slew", "integral", "heat", "bristle", "current")  # in MuJoCo's order
INPUTS = 4  # position, velocity, torque and voltage: the bits of MuJoCo's actuator_ctrlspec


def read_motors(m: mujoco.MjModel) -> Motors:
    ids, has_circuit, control, state, wraps = [], [], [], [], []
    gain, dynamics, bias = np.zeros((m.nu, 8)), np.zeros((m.nu, 9)), np.zeros((m.nu, 6))
    for i in range(m.nactuator):
        circuit = m.actuator_gaintype[i] == GAIN_DCMOTOR
        if m.actuator_gaintype[i] not in (GAIN_PID, GAIN_DCMOTOR) or actuator_complaint(m, i):
            continue
        if gives_no_force(m, i) or in_disabled_group(m, i):
            continue
        u = int(m.actuator_ctrladr[i])
        ids.append(u)
        has_circuit.append(circuit)
        wraps.append(0 if circuit else rotation_kind(m, i))
        there = [bool(int(m.actuator_ctrlspec[i]) >> n & 1) for n in range(INPUTS)]
        control.append(np.where(there, u + np.cumsum(there) - 1, -1))
        own = np.full(5, -1)
        for n, slot in enumerate(states_of_motor(m, i)):
            own[slot] = m.actuator_actadr[i] + n
        state.append(own)
        if circuit:
            gain[u], dynamics[u], bias[u] = (
                m.actuator_gainprm[i, :8],
                m.actuator_dynprm[i, :9],
                m.actuator_biasprm[i, :6],
            )
    ints = [np.array(x, np.int32).reshape(len(ids), *rest) for x, rest in ((control, (4,)), (state, (5,)), (wraps, ()))]
    arrays = (np.array(ids, np.int32), np.array(has_circuit, bool), *ints, gain, dynamics, bias)
    for array in arrays:
        array.setflags(write=False)
    return Motors(*arrays)


def read_orientations(m: mujoco.MjModel) -> Orientations:
    ids, is_quat, joint, limit = [], [], [], []
    for i in range(m.nactuator):
        if not holds_orientation(m, i) or actuator_complaint(m, i) or gives_no_force(m, i) or in_disabled_group(m, i):
            continue
        ids.append(m.actuator_ctrladr[i])
        is_quat.append(m.actuator_ctrlnum[i] == 4)
        joint.append(m.actuator_trnid[i, 0])
        limit.append(m.actuator_forcerange[i, 1] if m.actuator_forcelimited[i] else np.inf)
    kinds = (np.int32, bool, np.int32, float)
    arrays = tuple(np.array(x, kind) for x, kind in zip((ids, is_quat, joint, limit), kinds, strict=True))
    for array in arrays:
        array.setflags(write=False)
    return Orientations(*arrays)
