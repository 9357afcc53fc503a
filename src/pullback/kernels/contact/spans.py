"""The pieces that tendons through space are made of, as kernels read them."""

import warp as wp

from ..spatial.scalar import real


@wp.struct
class Spans:
    """From one site of a tendon to the next: nothing here is differentiated.

    A span has three places for bodies: those of its two sites, and that of the geom that it may wrap around.
    """

    first: wp.array(dtype=int)  # spans of tendon t are first[t] .. first[t + 1]; a fixed tendon has none
    body: wp.array2d(dtype=int)
    site: wp.array2d(dtype=int)  # the two sites, among those whose places are parameters
    weight: wp.array(dtype=real)  # what the length of a span counts for
    geom: wp.array(dtype=int)  # that it may wrap around, among the shapes; or -1
    is_cylinder: wp.array(dtype=int)  # 1: it is one, 0: it is a sphere
    side: wp.array(dtype=int)  # the site that says on which side, among those whose places are parameters; or -1
    side_body: wp.array(dtype=int)
    # entries of the tendon whose degrees of freedom move body k of span n, but not all of its bodies:
    # moved[moved_first[3 n + k]] .. moved[moved_first[3 n + k + 1]]
    moved_first: wp.array(dtype=int)
    moved: wp.array(dtype=int)
