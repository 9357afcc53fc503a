"""Which way two convex shapes are apart, roughly, and whether they are: the algorithm of Gilbert, Johnson and Keerthi.

It works with points of the *difference* of two shapes, the set of all x1 - x2, whose distance from the origin is that
of the shapes. Shapes are cores without their radius (``support``), in world axes, relative to the centre of shape 1.
"""

import warp as wp

from ..spatial.scalar import real, vec3
from .shapes import Mesh, Shape
from .support import SLIVER, support

Simplex = wp.types.matrix((4, 3), real)

SINGLE = real is wp.float32

# Ends when the distance is known this well, relative to the points of the difference that it has seen. The
# direction is known by the square root of this.
ROUGH = wp.constant(real(1e-5 if SINGLE else 1e-10))
# Less distance than this, likewise relative, has no certain direction: such shapes are taken as overlapping.
TOUCHING = wp.constant(real(1e-4 if SINGLE else 1e-8))
# A tetrahedron of less volume (squared), relative to its edges, is flat.
FLAT = wp.constant(real(1e-12 if SINGLE else 1e-26))
GJK_ROUNDS = wp.constant(60)


@wp.func
def across(n: vec3):
    """Some vector orthogonal to the unit vector n."""
    u = vec3(real(0.0), -n[2], n[1])
    if wp.abs(n[0]) > real(0.6):
        u = vec3(n[2], real(0.0), -n[0])
    return u


@wp.func(inline=False)
def extremes(mesh: Mesh, s1: Shape, s2: Shape, n1: vec3, n2: vec3, vertex1: int, vertex2: int):
    """Points of shape 1 farthest along n1 and of shape 2 farthest along n2: their difference, and their corners."""
    p1, v1 = support(mesh, s1, n1, vertex1)
    p2, v2 = support(mesh, s2, n2, vertex2)
    return p1 - p2, v1, v2


@wp.func
def difference(mesh: Mesh, s1: Shape, s2: Shape, n: vec3, vertex1: int, vertex2: int):
    """Point of the difference farthest along n; the gap is minus its height."""
    return extremes(mesh, s1, s2, n, -n, vertex1, vertex2)


@wp.func
def nearest_on_segment(begin: vec3, way: vec3):
    """Share of the way that leads from the beginning of a segment to its point nearest to the origin."""
    length2 = wp.dot(way, way)
    t = real(0.0)
    if length2 > real(0.0):
        t = wp.clamp(-wp.dot(begin, way) / length2, real(0.0), real(1.0))
    return t


@wp.func
def nearest_on_triangle(a: vec3, b: vec3, c: vec3):
    """Weights of the corners in the point of a triangle nearest to the origin. Corners may coincide."""
    ab = b - a
    ac = c - a
    normal = wp.cross(ab, ac)
    weights = vec3(
        wp.dot(wp.cross(b, c), normal),
        wp.dot(wp.cross(c, a), normal),
        wp.dot(wp.cross(a, b), normal),
    )
    solid = wp.dot(normal, normal) > SLIVER * wp.dot(ab, ab) * wp.dot(ac, ac)
    if solid and wp.min(weights) >= real(0.0):
        weights = weights / (weights[0] + weights[1] + weights[2])
    else:
        corner = wp.matrix_from_rows(a, b, c)
        least = real(1e30)
        for k in range(3):
            begin = corner[k]
            way = corner[(k + 1) % 3] - begin
            t = nearest_on_segment(begin, way)
            p = begin + t * way
            if wp.dot(p, p) < least:
                least = wp.dot(p, p)
                weights = vec3()
                weights[k] = real(1.0) - t
                weights[(k + 1) % 3] = t
    return weights


@wp.func
def encloses(a: vec3, b: vec3, c: vec3, d: vec3):
    """Whether the origin lies in a tetrahedron; in a flat one it does not."""
    ab = b - a
    ac = c - a
    ad = d - a
    volume = wp.dot(wp.cross(ab, ac), ad)
    va = wp.dot(wp.cross(b, c), d) * volume
    vb = -wp.dot(wp.cross(c, d), a) * volume
    vc = wp.dot(wp.cross(d, a), b) * volume
    vd = -wp.dot(wp.cross(a, b), c) * volume
    solid = volume * volume > FLAT * wp.dot(ab, ab) * wp.dot(ac, ac) * wp.dot(ad, ad)
    return solid and wp.min(wp.min(va, vb), wp.min(vc, vd)) > real(0.0)


@wp.func
def nearest_part(y: Simplex, count: int):
    """The face of a tetrahedron nearest to the origin, or what of a smaller simplex is, without the corners not needed:
    its corners, how many there are, and its point nearest to the origin."""
    least = real(1e30)
    nearest = vec3()
    keep = wp.vec3i()
    weights = vec3()
    faces = wp.where(count == 4, 4, 1)
    for k in range(faces):
        i0 = wp.where(k == 0, 0, count - 1)
        i1 = wp.where(k == 1, 0, wp.min(1, count - 1))
        i2 = wp.where(k == 2, 0, wp.min(2, count - 1))
        wk = nearest_on_triangle(y[i0], y[i1], y[i2])
        p = wk[0] * y[i0] + wk[1] * y[i1] + wk[2] * y[i2]
        d2 = wp.dot(p, p)
        if d2 < least:
            least = d2
            keep = wp.vec3i(i0, i1, i2)
            weights = wk
            nearest = p
    part = Simplex()
    left = int(0)
    for k in range(3):
        if weights[k] > real(0.0):
            part[left] = y[keep[k]]
            left += 1
    return part, left, nearest


@wp.func(inline=False)
def gjk(mesh: Mesh, s1: Shape, s2: Shape, start: vec3, out_of_reach: real):
    """Direction of the gap between two shapes, roughly; 1 if they are apart, 0 if not, -1 if farther than that; and the
    largest distance between points of them that has come up."""
    n = start
    vertex1 = int(s1.first)
    vertex2 = int(s2.first)
    y0, vertex1, vertex2 = difference(mesh, s1, s2, n, vertex1, vertex2)
    # The simplex: corners y[0] to y[count - 1].
    y = Simplex()
    y[0] = y0
    count = int(1)
    nearest = y0
    state = int(1)
    dist = wp.sqrt(wp.dot(nearest, nearest))
    gap = real(0.0)
    largest = real(dist)
    rounds = int(0)
    searching = bool(True)
    while searching:
        rounds += 1
        if dist <= TOUCHING * largest:
            state = 0
            searching = False
        else:
            n = -nearest / dist
            w, vertex1, vertex2 = difference(mesh, s1, s2, n, vertex1, vertex2)
            gap = -wp.dot(w, n)
            largest = wp.max(largest, wp.sqrt(wp.dot(w, w)))
            known = bool(False)
            for i in range(count):
                known = known or (y[i, 0] == w[0] and y[i, 1] == w[1] and y[i, 2] == w[2])
            if gap > out_of_reach:
                state = -1
                searching = False
            elif known or dist - gap <= ROUGH * largest or rounds >= GJK_ROUNDS:
                searching = False
            else:
                y[count] = w
                count += 1
                if count == 4 and encloses(y[0], y[1], y[2], y[3]):
                    state = 0
                    searching = False
                else:
                    y, count, nearest = nearest_part(y, count)
                    now = wp.sqrt(wp.dot(nearest, nearest))
                    if now >= dist:
                        searching = False
                    dist = now
    if state > 0 and gap <= real(0.0):
        state = 0
    return n, state, largest
