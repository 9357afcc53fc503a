"""What kernels know of servos that hold an orientation."""

import warp as wp

from ..spatial.scalar import real


@wp.struct
class Orientations:
    """Nothing here is differentiated."""

    actuator: wp.array(dtype=int)  # the first of its controls
    is_quat: wp.array(dtype=int)  # 1: there are four, a quaternion; 0: three, a rotation vector
    q: wp.array(dtype=int)  # of the ball joint
    dof: wp.array(dtype=int)
    limit: wp.array(dtype=real)  # of the torque
