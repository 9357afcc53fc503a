"""Muscles of a file: actuators whose gain or bias is that of a muscle."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.model.model import Muscles
from pullback.model.unsupported import (
    BIAS_MUSCLE,
    GAIN_MUSCLE,
    actuator_complaint,
    gives_no_force,
    in_disabled_group,
)


def read_muscles(m: mujoco.MjModel) -> Muscles:
    """The muscles of a file: one row per control; those of other actuators are not used."""
    pulls, resists = np.zeros((2, m.nu), bool)
    gain, bias = np.zeros((2, m.nu, 9))
    limits, acc0 = np.zeros((m.nu, 2)), np.zeros(m.nu)
    for i in range(m.nactuator):
        if gives_no_force(m, i) or in_disabled_group(m, i) or actuator_complaint(m, i):
            continue
        u = m.actuator_ctrladr[i]
        pulls[u], resists[u] = m.actuator_gaintype[i] == GAIN_MUSCLE, m.actuator_biastype[i] == BIAS_MUSCLE
        gain[u], bias[u] = m.actuator_gainprm[i, :9], m.actuator_biasprm[i, :9]
        limits[u], acc0[u] = m.actuator_lengthrange[m.actuator_outadr[i]], m.actuator_acc0[m.actuator_outadr[i]]
    arrays = (pulls, resists, gain, bias, limits, acc0)
    for array in arrays:
        array.setflags(write=False)
    return Muscles(*arrays)
