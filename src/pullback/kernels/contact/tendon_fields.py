"""What tendons, loops and actuators at sites have in the workspace of a world, and what they are made of."""

import warp as wp

from ..spatial.scalar import real
from .flavour import FORCES


class PerTendon:
    tendon_length: wp.array2d(dtype=real)
    tendon_velocity: wp.array2d(dtype=real)
    tendon_inertia: wp.array2d(
        dtype=real
    )  # c in the c Jᵀ J that it adds to the mass matrix: armature, implicit damping
    tendon_length_bar: wp.array2d(dtype=real)
    tendon_velocity_bar: wp.array2d(dtype=real)
    tendon_inertia_bar: wp.array2d(dtype=real)


class PerTendonEntry:
    """One place per degree of freedom of each tendon."""

    tendon_J: wp.array2d(dtype=real)
    tendon_J_bar: wp.array2d(dtype=real)


class PerDof:
    smooth: wp.array2d(dtype=real)  # joint forces less the bias


class CoupledPerJointChain:
    joint_J_bar: wp.array2d(dtype=real)


class PerLoop:
    loop_row: wp.array2d(dtype=int)  # the first of its rows


# As in ``rows.py``: what the arrays are along, and who uses them.
TENDON_PARTS = {"tendon": (PerTendon,), "tendon entry": (PerTendonEntry,), "dof": () if FORCES else (PerDof,)}
COUPLED_PARTS = {"joint chain": (CoupledPerJointChain,)}
LOOP_PARTS = {"loop": (PerLoop,)}


@wp.struct
class Tendons:
    """Which tendons there are, and what acts along them: nothing here is differentiated.

    Entries are the degrees of freedom of each tendon, the last one first. A joint that an equality constrains is a
    tendon of one joint, of coefficient 1.
    """

    own: int  # tendons of the file; what follows are joints
    own_pairs: int  # how many of the pairs below are theirs; those come first
    inert: int  # those that may add to the mass matrix: after these tendons, actuators whose feedback is implicit
    first: wp.array(dtype=int)  # entries of tendon t are first[t] .. first[t + 1]
    dof: wp.array(dtype=int)  # per entry
    q: wp.array(dtype=int)
    # pairs of entries of one tendon of which the second carries the first: MuJoCo couples no others by inertia
    pair_tendon: wp.array(dtype=int)
    pair_below: wp.array(dtype=int)
    pair_above: wp.array(dtype=int)
    actuator: wp.array(dtype=int)  # per actuator: the tendon that it pulls; -1: it acts on a joint, -2: at a site;
    # -3: it is one more control of the actuator before, -4: it is adhesion, -5: it holds an orientation
    limit: wp.array(dtype=int)  # tendons that are limited; what else there is to limits stands after that of joints
    loss: wp.array(dtype=int)  # tendons with friction loss, likewise
    equality_one: wp.array(dtype=int)  # per equality constraint: the tendon that follows ...
    equality_two: wp.array(dtype=int)  # ... another, or -1
    equality_rest: wp.array2d(dtype=real)  # lengths of both in the file's pose
    equality_weight: wp.array(dtype=int)
    equality_first: wp.array(dtype=int)  # its degrees of freedom, the last one first
    equality_dof: wp.array(dtype=int)
    equality_entry_one: wp.array(dtype=int)  # the entries of both tendons for these, or -1
    equality_entry_two: wp.array(dtype=int)
    coupled: int  # 1: a row of a tendon couples different branches


@wp.struct
class Loops:
    """Equality constraints that hold points or frames of two bodies together: nothing here is differentiated."""

    rows: wp.array(dtype=int)  # per loop: 3 for points, 6 for frames
    body: wp.array2d(dtype=int)  # per loop and side
    weight: wp.array2d(dtype=int)  # which of the inverse weights it has, for translation and for rotation
    first: wp.array(dtype=int)  # the degrees of freedom of loop e, the last one first, are first[e] .. first[e + 1]
    dof: wp.array(dtype=int)
    moves: wp.array2d(dtype=real)  # 1 where it carries body 1, body 2
    first_law: int  # where its solref and solimp stand among those of all equalities
    coupled: int  # 1: a loop couples different branches


@wp.struct
class Sites:
    """The actuators that push at sites: nothing here is differentiated."""

    actuator: wp.array(dtype=int)
    site: wp.array(dtype=int)  # its number among the sites that are pushed at
    body: wp.array(dtype=int)
    first: wp.array(dtype=int)  # the degrees of freedom that carry it are first[n] .. first[n + 1]
    dof: wp.array(dtype=int)
    entry: wp.array(dtype=int)  # of its row among tendons for each of these; -1: it has no row
