"""Activations: the states of a file's actuators."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.model.model import Activations
from pullback.model.unsupported import actuator_complaint, gives_no_force, has_activation, in_disabled_group, spell

# What a switched-off actuator has in the place of its kind: nothing moves its activation.
AT_REST = "at rest"


def read_activations(m: mujoco.MjModel) -> Activations:
    """One row per control. There are as many activations as in MuJoCo, or none if no actuator here is driven by one."""
    kind, index = [""] * m.nu, np.full(m.nu, -1, np.int32)
    law, early = np.zeros((m.nu, 3)), np.zeros(m.nu, bool)
    limited, limits = np.zeros(m.nu, bool), np.zeros((m.nu, 2))
    driven = False
    for i in range(m.nactuator):
        if not has_activation(m, i) or actuator_complaint(m, i):
            continue  # what the user ignored stays where it is
        u = m.actuator_ctrladr[i]
        off = in_disabled_group(m, i)
        kind[u] = AT_REST if off else spell(mujoco.mjtDyn, m.actuator_dyntype[i])
        driven |= not gives_no_force(m, i)
        index[u], law[u], early[u] = m.actuator_actadr[i], m.actuator_dynprm[i, :3], m.actuator_actearly[i]
        limited[u], limits[u] = m.actuator_actlimited[i], m.actuator_actrange[i]
    if not driven:
        kind, index = [""] * m.nu, np.full(m.nu, -1, np.int32)
    arrays = (index, law, early, limited, limits)
    for array in arrays:
        array.setflags(write=False)
    return Activations(int(m.na) if driven else 0, tuple(kind), *arrays)
