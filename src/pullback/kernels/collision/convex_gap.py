"""How far two convex shapes are apart, and what of them is nearest: any pair that has no closed answer of its own.

The signed distance of two convex shapes is the largest *gap* over all directions n,

    gap(n) = min {x·n: x in shape 2} - max {x·n: x in shape 1},

if they are apart (then it is concave, and has one maximum) and if they overlap (then it has several). It is found in
two steps. First roughly: by GJK (``gjk``) if the shapes are apart, else by EPA, the expanding polytope, which is here;
then exactly, from features that are paired (``feature_gap``).

Nothing is kept from one step to the next. Where several directions are equally good, as for concentric shapes, the
answer is one of them, always the same.

Functions that are large and called in several places are kept from being inlined: a CUDA compiler would take minutes.
"""

import warp as wp

from ..spatial.algebra import unit
from ..spatial.scalar import real, vec3
from .feature_gap import Touch, pair_features
from .gjk import SINGLE, across, difference, gjk
from .shapes import Mesh, Shape
from .support import SLIVER, core_radius, is_curved, is_round

# EPA ends when the depth is known this well, relative to the width of the difference: between polytopes, which it
# describes completely in the end, and if there is a curved shape, when it need only tell one hollow from another.
EXACT = wp.constant(real(1e-5 if SINGLE else 1e-9))
COARSE = wp.constant(real(3e-4))
# A point that is no higher than this above a face, likewise relative, lies in its plane.
FLUSH = wp.constant(real(2e-6 if SINGLE else 1e-10))
# Rounding of a gap, likewise relative.
NOISE = wp.constant(real(4e-7 if SINGLE else 1e-15))
CORNERS = wp.constant(64)
FACES = wp.constant(124)
EDGES = wp.constant(64)
# How far shapes are taken apart to look at where they touch, likewise relative, and how straight this is (1 - cosine).
APART = wp.constant(real(1e-2))
STRAIGHT = wp.constant(real(1e-4 if SINGLE else 1e-10))
# Two directions with a greater cosine lead to the same hollow.
SAME = wp.constant(real(0.9999))

# Sine of the error that a rough direction can have: by GJK, or if EPA has described a polytope; and else.
SURE = wp.constant(real(3e-2 if SINGLE else 1e-3))
NEAR = wp.constant(real(0.1))


@wp.func
def face_plane(a: vec3, b: vec3, c: vec3):
    """Outward normal of a face of the polytope and its height; a face without an area has no normal, and is high up."""
    ab = b - a
    ac = c - a
    normal = wp.cross(ab, ac)
    size2 = wp.dot(normal, normal)
    height = real(1e30)
    if size2 > SLIVER * wp.dot(ab, ab) * wp.dot(ac, ac):
        normal = normal / wp.sqrt(size2)
        height = wp.dot(normal, a)
    return normal, height


@wp.func
def settle(mesh: Mesh, s1: Shape, s2: Shape, start: vec3, near: real, noise: real, width: real):
    """The largest gap near a direction, for shapes that overlap.

    If the shapes are taken apart along the direction found, by so much that they no longer overlap, GJK tells whether
    they touch where they should; if not, its direction has a larger gap.
    """
    best = pair_features(mesh, s1, s2, start, near, noise)
    rounds = int(0)
    searching = bool(not (is_round(best.core1.kind) and is_round(best.core2.kind)))
    while searching:
        rounds += 1
        s2.x += (APART * width - best.gap) * best.n
        n, _state, _largest = gjk(mesh, s1, s2, best.n, real(1e30))
        s2.x -= (APART * width - best.gap) * best.n
        searching = False
        if wp.dot(n, best.n) < real(1.0) - STRAIGHT:
            found = pair_features(mesh, s1, s2, n, near, noise)
            if found.score > best.score + real(4.0) * noise:
                best = found
                searching = rounds < 4
    return best


@wp.func
def farther(mesh: Mesh, s1: Shape, s2: Shape, a: vec3, u: vec3, v1: int, v2: int):
    """Point of the difference farthest from a along u or along -u, 1 or -1 for which, and the vertices touched last."""
    p, v1, v2 = difference(mesh, s1, s2, u, v1, v2)
    other, v1, v2 = difference(mesh, s1, s2, -u, v1, v2)
    side = int(1)
    if wp.dot(other - a, u) < -wp.dot(p - a, u):
        p = other
        side = -1
    return p, side, v1, v2


@wp.func
def first_tetrahedron(mesh: Mesh, s1: Shape, s2: Shape, start: vec3, v1: int, v2: int):
    """Two points of the difference far apart, one far from their line, one far above the plane of these: the corners,
    and the last vertex of either shape that was touched."""
    a, v1, v2 = difference(mesh, s1, s2, start, v1, v2)
    b, v1, v2 = difference(mesh, s1, s2, -start, v1, v2)
    ab = unit(b - a)
    c, _side, v1, v2 = farther(mesh, s1, s2, a, unit(across(ab)), v1, v2)
    d, side, v1, v2 = farther(mesh, s1, s2, a, unit(wp.cross(ab, c - a)), v1, v2)
    if side < 0:  # turn over: d is to lie above the triangle a b c
        first = a
        a = b
        b = first
    return a, b, c, d, v1, v2


@wp.func
def overlap(mesh: Mesh, s1: Shape, s2: Shape, start: vec3):
    """The largest gap of shapes that overlap, or nearly touch.

    A polytope inside the difference is grown where it comes nearest to the origin. If its capacity does not suffice, or
    if a shape is curved, several of its faces may hide a larger gap than the largest one seen: all these are tried.
    The origin may lie outside of the polytope, by however much, since faces know their outside by their turn.
    """
    corner = wp.zeros(shape=CORNERS, dtype=vec3)
    face = wp.zeros(shape=FACES, dtype=wp.vec3i)
    normal = wp.zeros(shape=FACES, dtype=vec3)
    height = wp.zeros(shape=FACES, dtype=real)
    edge = wp.zeros(shape=EDGES, dtype=wp.vec2i)

    a, b, c, d, v1, v2 = first_tetrahedron(mesh, s1, s2, start, int(s1.first), int(s2.first))
    width = wp.sqrt(wp.max(wp.dot(b - a, b - a), wp.max(wp.dot(c - a, c - a), wp.dot(d - a, d - a))))
    corner[0] = a
    corner[1] = b
    corner[2] = c
    corner[3] = d
    corners = int(4)
    face[0] = wp.vec3i(0, 2, 1)
    face[1] = wp.vec3i(0, 1, 3)
    face[2] = wp.vec3i(1, 2, 3)
    face[3] = wp.vec3i(2, 0, 3)
    faces = int(4)
    for i in range(4):
        f = face[i]
        nf, hf = face_plane(corner[f[0]], corner[f[1]], corner[f[2]])
        normal[i] = nf
        height[i] = hf

    tolerance = EXACT * width
    near = SURE
    if is_curved(s1) or is_curved(s2):
        tolerance = COARSE * width
        near = NEAR
    noise = NOISE * width
    flush = FLUSH * width
    depth = real(1e30)
    n = start
    growing = bool(True)
    while growing:
        lowest = int(0)
        for i in range(1, faces):
            if height[i] < height[lowest]:
                lowest = i
        w, v1, v2 = difference(mesh, s1, s2, normal[lowest], v1, v2)
        top = wp.dot(w, normal[lowest])
        if top < depth:
            depth = top
            n = normal[lowest]
        if depth - height[lowest] <= tolerance or top - height[lowest] <= flush or corners == CORNERS:
            growing = False
        else:
            # Take off all faces that the new corner can see; what bounds them are the edges with no counterpart.
            corner[corners] = w
            kept = int(0)
            edges = int(0)
            for i in range(faces):
                f = face[i]
                if i == lowest or wp.dot(normal[i], w) > height[i] + flush:
                    for k in range(3):
                        e = wp.vec2i(f[k], f[(k + 1) % 3])
                        twin = int(-1)
                        for m in range(edges):
                            if edge[m][0] == e[1] and edge[m][1] == e[0]:
                                twin = m
                        if twin >= 0:
                            edges -= 1
                            edge[twin] = edge[edges]
                        elif edges < EDGES:
                            edge[edges] = e
                            edges += 1
                else:
                    face[kept] = f
                    normal[kept] = normal[i]
                    height[kept] = height[i]
                    kept += 1
            faces = kept
            for m in range(edges):
                if faces < FACES:
                    e = edge[m]
                    nf, hf = face_plane(corner[e[0]], corner[e[1]], w)
                    face[faces] = wp.vec3i(e[0], e[1], corners)
                    normal[faces] = nf
                    height[faces] = hf
                    faces += 1
            corners += 1

    best = settle(mesh, s1, s2, n, near, noise, width)
    for i in range(faces):
        if height[i] < -best.gap - real(100.0) * noise and wp.dot(normal[i], best.n) < SAME:
            found = settle(mesh, s1, s2, normal[i], near, noise, width)
            if found.score > best.score:
                best = found
    return best


# --- either ------------------------------------------------------------------------------------------


@wp.func
def nearest(mesh: Mesh, s1: Shape, s2: Shape, reach: real):
    """Where two shapes are nearest to each other, or overlap least, and whether they are in reach."""
    start = s2.x
    if wp.dot(start, start) > real(0.0):
        start = unit(start)
    else:
        start = vec3(real(0.0), real(0.0), real(1.0))
    best = Touch()
    n, state, width = gjk(mesh, s1, s2, start, reach + core_radius(s1) + core_radius(s2))
    if state > 0:
        best = pair_features(mesh, s1, s2, n, SURE, NOISE * width)
    elif state == 0:
        best = overlap(mesh, s1, s2, start)
    return best, state >= 0
