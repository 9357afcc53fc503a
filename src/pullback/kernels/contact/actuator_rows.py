"""What kernels know of actuators that are more than gain · drive + bias at one place, and what those have in the
workspace of a world."""

import warp as wp

from ..spatial.scalar import real, vec3


class TurnsPerActuator:
    turns: wp.array2d(dtype=real)  # by how many periods the drive of a servo was wrapped
    servo_length: wp.array2d(dtype=real)  # to be near this length
    first_length: wp.array2d(dtype=real)  # the same in the first stage of the step


class HoldPerTendon:
    """Of tendons whose actuators' force is limited."""

    tendon_total: wp.array2d(dtype=real)  # the force of its actuators together
    tendon_share: wp.array2d(dtype=real)  # what is left of each
    tendon_kept: wp.array2d(dtype=real)  # what is left of all of them, in their own ranges
    tendon_total_bar: wp.array2d(dtype=real)


# As in ``rows.py``: what the arrays are along, and who uses them.
ACTUATOR_PARTS = {"actuator": (TurnsPerActuator,), "tendon": (HoldPerTendon,)}


@wp.struct
class Actuators:
    """What actuators are: nothing here is differentiated."""

    wraps: wp.array(
        dtype=int
    )  # per actuator: a servo whose error is wrapped around the circle, 1: of a ball, 2: of a site
    # the row among tendons by which its feedback of velocity is implicit, of what is no hinge, slide or tendon; or -1
    row: wp.array(dtype=int)

    muscle: wp.array(dtype=int)  # per actuator: the number of the muscle that it is, or -1
    pulls: wp.array(dtype=int)  # per muscle: 1: its gain is that of a muscle
    resists: wp.array(dtype=int)  # 1: its bias is
    limits: wp.array(dtype=vec3)  # the shortest and longest length, and acc0: see ``tree/muscle.py``

    lift_dof: wp.array(dtype=int)  # of joints whose gravity compensation counts as force of actuators, and is clamped
    lift_counts: wp.array(dtype=int)  # 0: actuators are off
    lift_first: wp.array(dtype=int)  # the bodies that it carries are lift_first[n] .. lift_first[n + 1]
    lift_body: wp.array(dtype=int)

    held: wp.array(dtype=int)  # actuators of tendons with a limit of the force of all of them ...
    hold_low: wp.array(dtype=real)  # ... which is, per tendon, in this range; infinite for others
    hold_high: wp.array(dtype=real)


@wp.struct
class SitePairs:
    """The actuators between two sites: nothing here is differentiated."""

    actuator: wp.array(dtype=int)
    crank: wp.array(dtype=int)  # its number among slider-cranks, or -1
    site: wp.array2d(dtype=int)  # numbers among the sites whose places are parameters
    body: wp.array2d(dtype=int)
    first: wp.array(dtype=int)  # what carries side i of pair n, and not the other: first[2 n + i] .. first[2 n + i + 1]
    dof: wp.array(dtype=int)
    entry: wp.array(dtype=int)  # of its row among tendons for each of these; -1: it has no row
