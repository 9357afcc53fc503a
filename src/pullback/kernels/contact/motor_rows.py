"""What kernels know of PID controllers and DC motors, and what those have in the workspace of a world."""

import warp as wp

from ..spatial.scalar import real


class PerMotor:
    motor_speed: wp.array2d(dtype=real)
    motor_speed_bar: wp.array2d(dtype=real)
    first_speed: wp.array2d(dtype=real)  # in the first stage: bristles follow it through the step
    first_speed_bar: wp.array2d(dtype=real)


# As in ``rows.py``: what the arrays are along, and who uses them.
MOTOR_PARTS = {"motor": (PerMotor,)}


@wp.struct
class Motors:
    """What motors are: nothing here is differentiated."""

    number: wp.array(dtype=int)  # per actuator: of the motor that it is, or -1
    has_circuit: wp.array(dtype=int)  # 1: a DC motor, 0: a PID controller
    control: wp.array2d(dtype=int)  # those of position, velocity, torque and voltage, or -1
    state: wp.array2d(dtype=int)  # where slew, integral, heat, bristle and current are in the activations, or -1
    slews: wp.array(dtype=int)  # which of the setpoints may slew: the first; -1: there is none
    wraps: wp.array(dtype=int)  # errors are wrapped around the circle, 1: of a ball, 2: of a site
    low: wp.array(dtype=real)  # the range of the force of a DC motor without its friction
    high: wp.array(dtype=real)
