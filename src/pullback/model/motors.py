"""PID controllers and DC motors of a file: actuators with several controls and states."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.model.model import Motors
from pullback.model.unsupported import (
    GAIN_DCMOTOR,
    GAIN_PID,
    actuator_complaint,
    gives_no_force,
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
