"""Activations: the states of a file's actuators."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.model.model import Activations
from pullback.model.motors import STATES, states_of_motor
from pullback.model.unsupported import (
    GAIN_DCMOTOR,
    actuator_complaint,
    gives_no_force,
    has_activation,
    in_disabled_group,
    spell,
)

# What a switched-off actuator has in the place of its kind: nothing moves its activation.
AT_REST = "at rest"


def read_activations(m: mujoco.MjModel) -> Activations:
    """There are as many as in MuJoCo, or none if no actuator here is driven by one."""
    kind, owner = [""] * m.na, np.full(m.na, -1, np.int32)
    early, limits, law = np.zeros(m.na, bool), np.tile((-np.inf, np.inf), (m.na, 1)), np.zeros((m.nu, 3))
    driven = False
    for i in range(m.nactuator):
        if not has_activation(m, i) or actuator_complaint(m, i):
            continue  # what the user ignored stays where it is
        u, first, count = m.actuator_ctrladr[i], int(m.actuator_actadr[i]), int(m.actuator_actnum[i])
        circuit = m.actuator_gaintype[i] == GAIN_DCMOTOR
        kinds = [STATES[n] for n in states_of_motor(m, i)] or [spell(mujoco.mjtDyn, m.actuator_dyntype[i])]
        driven |= not gives_no_force(m, i)
        for n, a in enumerate(range(first, first + count)):
            kind[a], owner[a] = AT_REST if in_disabled_group(m, i) else kinds[n], u
            early[a] = m.actuator_actearly[i] and n == count - 1
            if m.actuator_actlimited[i] and not circuit:
                limits[a] = m.actuator_actrange[i]
            elif circuit and kinds[n] == "integral" and m.actuator_dynprm[i, 8] > 0:
                limits[a] = np.array([-1, 1]) * m.actuator_dynprm[i, 8]
        if not circuit:
            law[u] = m.actuator_dynprm[i, :3]
    if not driven:
        kind, owner, early, limits = [], owner[:0], early[:0], limits[:0]
    arrays = (owner, early, limits, law)
    for array in arrays:
        array.setflags(write=False)
    return Activations(tuple(kind), *arrays)
