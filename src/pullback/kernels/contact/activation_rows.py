"""What actuators with activations have in the workspace of a world."""

import warp as wp

from ..spatial.scalar import real
from .flavour import DELAYS, REFINED


class PerActivation:
    act: wp.array2d(dtype=real)
    act_start: wp.array2d(dtype=real)  # before the step
    act_bar: wp.array2d(dtype=real)
    act_start_bar: wp.array2d(dtype=real)
    pull: wp.array2d(dtype=real)  # see ``tree/activation.py``
    pull_bar: wp.array2d(dtype=real)


class PerWorldWithDelays:
    node: wp.array2d(dtype=int)  # where in the step forces are found: 0 at its beginning, 1 half-way, 2 at its end


class PerActivationStage:
    """stage · na + activation"""

    stage_pull: wp.array2d(dtype=real)
    stage_pull_bar: wp.array2d(dtype=real)


class PerActivationSubstep:
    """substep · na + activation"""

    sub_act: wp.array2d(dtype=real)  # before the substep


# As in ``rows.py``: what the arrays are along, and who uses them.
ACTIVATION_PARTS = {"activation": (PerActivation,), "activation stage": (PerActivationStage,)}
if DELAYS:
    ACTIVATION_PARTS |= {"world": (PerWorldWithDelays,)}
if REFINED:
    ACTIVATION_PARTS |= {"activation substep": (PerActivationSubstep,)}


@wp.struct
class Activations:
    """What each activation is: nothing here is differentiated."""

    kind: wp.array(dtype=int)  # of ``tree/activation.py``
    actuator: wp.array(dtype=int)  # the one that has it
    low: wp.array(dtype=real)
    high: wp.array(dtype=real)
    early: wp.array(dtype=int)  # 1: the force is that of the activation after the step


@wp.struct
class Delays:
    """What actuators with a delay remember: nothing here is differentiated."""

    actuator: wp.array(dtype=int)
    number: wp.array(dtype=int)  # per actuator: of these, or -1
    first: wp.array(dtype=int)  # where its samples are in the activations, the newest first ...
    end: wp.array(dtype=int)
    weight: wp.array2d(dtype=real)  # per node of the step and activation: what the control is made of
