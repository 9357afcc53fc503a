"""What actuators with activations have in the workspace of a world."""

import warp as wp

from ..spatial.scalar import real
from .flavour import REFINED


class PerActivation:
    act: wp.array2d(dtype=real)
    act_start: wp.array2d(dtype=real)  # before the step
    act_bar: wp.array2d(dtype=real)
    act_start_bar: wp.array2d(dtype=real)


class PerActuator:
    pull: wp.array2d(dtype=real)  # on its activation: see ``tree/activation.py``
    pull_bar: wp.array2d(dtype=real)


class PerActuatorStage:
    """stage · nu + actuator"""

    stage_pull: wp.array2d(dtype=real)
    stage_pull_bar: wp.array2d(dtype=real)


class PerActivationSubstep:
    """substep · na + activation"""

    sub_act: wp.array2d(dtype=real)  # before the substep


# As in ``rows.py``: what the arrays are along, and who uses them.
ACTIVATION_PARTS = {"activation": (PerActivation,), "actuator": (PerActuator,), "actuator stage": (PerActuatorStage,)}
if REFINED:
    ACTIVATION_PARTS |= {"activation substep": (PerActivationSubstep,)}


@wp.struct
class Activations:
    """Which activation each actuator has: nothing here is differentiated."""

    kind: wp.array(dtype=int)  # of ``tree/activation.py``
    at: wp.array(dtype=int)  # where it is in the state
    low: wp.array(dtype=real)
    high: wp.array(dtype=real)
    early: wp.array(dtype=int)  # 1: the force is that of the activation after the step
