"""Which parts of surfaces are close to each other, and how far they can move before they meet.

Boxes around faces and edges are put into trees that stay as they are made at rest. The list of pairs reaches further
than contact does, by a margin that all vertices may use up before it is made again; a motion that all vertices have in
common does not count. Of these, a search looks at those that its own motion can bring together. Pairs stand in an order
that depends on no margin, and so do the sums over them.
"""

import warp as wp

from ..spatial.scalar import real, vec3
from .pairs import NEARLY_PARALLEL, ZERO, between
from .solids import HALF, ONE
from .structs import Vectors, Work
from .touch import Boxes, Touch

# The margin, at least, against the gap, and how much more than a motion needs it is. [1]
LEAST_MARGIN = wp.constant(real(0.25))
SPARE_MARGIN = wp.constant(real(1.25))
# A list whose margin is this many times what a move needs is made again, shorter. [1]
IDLE_MARGIN = wp.constant(real(3.0))
LEAST_SHARE = wp.constant(real(0.1))  # of its distance that a pair keeps [1]
# What no pair goes below in a Newton step but by a hundredth, against the gap: far above rounding. [1]
LEAST_APART = wp.constant(real(1e-3 if real is wp.float32 else 1e-6))
# An end of an edge this near to the plane of a triangle, against how far both are apart, is not beyond it. [1]
FLAT = wp.constant(real(1e-5 if real is wp.float32 else 1e-10))


@wp.func(inline=True)
def fill_boxes(skip: wp.array(dtype=int), low: Boxes, high: Boxes, world: int):
    """Of all nodes, from the leaves'."""
    nodes = skip.shape[0]
    for back in range(nodes):
        node = nodes - 1 - back
        if skip[node] > node + 1:
            other = skip[node + 1]
            low[world, node] = wp.min(low[world, node + 1], low[world, other])
            high[world, node] = wp.max(high[world, node + 1], high[world, other])


@wp.func
def place_boxes(t: Touch, x: Vectors, world: int):
    for node in range(t.face_skip.shape[0]):
        item = t.face_item[node]
        if item >= 0:
            ends = t.faces[item]
            x0 = x[world, ends[0]]
            x1 = x[world, ends[1]]
            x2 = x[world, ends[2]]
            t.face_low[world, node] = wp.min(x0, wp.min(x1, x2))
            t.face_high[world, node] = wp.max(x0, wp.max(x1, x2))
    fill_boxes(t.face_skip, t.face_low, t.face_high, world)
    for node in range(t.edge_skip.shape[0]):
        item = t.edge_item[node]
        if item >= 0:
            pair = t.edges[item]
            x0 = x[world, pair[0]]
            x1 = x[world, pair[1]]
            t.edge_low[world, node] = wp.min(x0, x1)
            t.edge_high[world, node] = wp.max(x0, x1)
    fill_boxes(t.edge_skip, t.edge_low, t.edge_high, world)


@wp.func(inline=True)
def meets(low: Boxes, high: Boxes, node: int, least: vec3, most: vec3, world: int):
    a = low[world, node]
    b = high[world, node]
    return (
        a[0] <= most[0]
        and b[0] >= least[0]
        and a[1] <= most[1]
        and b[1] >= least[1]
        and a[2] <= most[2]
        and b[2] >= least[2]
    )


@wp.func
def note(t: Touch, x: Vectors, corners: wp.vec4i, parallel: real, reach: real, world: int):
    """Adds a pair to the list if it is close enough."""
    d = between(x[world, corners[0]], x[world, corners[1]], x[world, corners[2]], x[world, corners[3]], parallel)
    if d < reach:
        k = t.pair_count[world]
        t.pair_count[world] = k + 1
        if k < t.corners.shape[1]:
            t.corners[world, k] = corners
            t.parallel[world, k] = parallel
            t.apart[world, k] = d


@wp.func
def list_pairs(t: Touch, x: Vectors, reach: real, world: int):
    """Makes the list, of pairs closer than reach at x. Returns whether it holds all."""
    place_boxes(t, x, world)
    t.pair_count[world] = 0
    wide = vec3(reach, reach, reach)
    for k in range(t.vertices.shape[0]):
        i = t.vertices[k]
        least = x[world, i] - wide
        most = x[world, i] + wide
        node = int(0)
        while node < t.face_skip.shape[0]:
            if meets(t.face_low, t.face_high, node, least, most, world):
                item = t.face_item[node]
                if item >= 0:
                    f = t.faces[item]
                    if f[0] != i and f[1] != i and f[2] != i:
                        note(t, x, wp.vec4i(i, f[0], f[1], f[2]), ZERO, reach, world)
                node += 1
            else:
                node = t.face_skip[node]
    for k in range(t.edges.shape[0]):
        mine = t.edges[k]
        least = wp.min(x[world, mine[0]], x[world, mine[1]]) - wide
        most = wp.max(x[world, mine[0]], x[world, mine[1]]) + wide
        node = int(0)
        while node < t.edge_skip.shape[0]:
            if t.edge_last[node] > k and meets(t.edge_low, t.edge_high, node, least, most, world):
                item = t.edge_item[node]
                if item >= 0:
                    other = t.edges[item]
                    if other[0] != mine[0] and other[0] != mine[1] and other[1] != mine[0] and other[1] != mine[1]:
                        lengths = t.edge_length[k] * t.edge_length[item]
                        corners = wp.vec4i(mine[0], mine[1], other[0], other[1])
                        note(t, x, corners, NEARLY_PARALLEL * lengths * lengths, reach, world)
                node += 1
            else:
                node = t.edge_skip[node]
    fits = t.pair_count[world] <= t.corners.shape[1]
    t.pair_count[world] = wp.min(t.pair_count[world], t.corners.shape[1])
    return fits


@wp.func
def find_pairs(t: Touch, x: Vectors, gap: real, margin: real, world: int):
    """Makes the list at x, with a smaller margin if it does not hold all."""
    for i in range(x.shape[1]):
        t.origin[world, i] = x[world, i]
    least = LEAST_MARGIN * gap
    wide = wp.clamp(margin, least, wp.max(least, t.widest))
    fits = list_pairs(t, x, gap + real(2.0) * wide, world)
    while not fits and wide > least:
        wide = wp.max(least, HALF * wide)
        fits = list_pairs(t, x, gap + real(2.0) * wide, world)
    t.margin[world] = wide
    if not fits:
        t.overflow[world] = 1


@wp.func
def strayed(x: Vectors, move: Vectors, share: real, origin: Vectors, known: real, world: int):
    """How far x + share · move is from known · origin at most, but for what all vertices have in common."""
    n = x.shape[1]
    middle = vec3()
    for i in range(n):
        middle += x[world, i] - known * origin[world, i] + share * move[world, i]
    middle = middle / real(n)
    most = real(0.0)
    for i in range(n):
        way = x[world, i] - known * origin[world, i] + share * move[world, i] - middle
        most = wp.max(most, wp.dot(way, way))
    return wp.sqrt(most)


@wp.func(inline=True)
def way_of(m0: vec3, m1: vec3, m2: vec3, m3: vec3, parallel: real):
    """What the corners' moves can change the distance of a pair by, at most: the ways of its two sides, but for what
    they have in common."""
    middle = real(0.25) * (m0 + m1 + m2 + m3)
    a0 = wp.length_sq(m0 - middle)
    a1 = wp.length_sq(m1 - middle)
    a2 = wp.length_sq(m2 - middle)
    a3 = wp.length_sq(m3 - middle)
    way = ZERO
    if parallel > ZERO:
        way = wp.sqrt(wp.max(a0, a1)) + wp.sqrt(wp.max(a2, a3))
    else:
        way = wp.sqrt(a0) + wp.sqrt(wp.max(wp.max(a1, a2), a3))
    return way


@wp.func(inline=True)
def mark_all(t: Touch, world: int):
    """Counts all pairs of the list as such that may touch."""
    for k in range(t.pair_count[world]):
        t.active[world, k] = k
    t.active_count[world] = t.pair_count[world]


@wp.func
def mark_active(t: Touch, x: Vectors, move: Vectors, near: real, gap: real, world: int):
    """Which pairs of the list may touch somewhere on the way from x by a move; near: none that were further apart."""
    count = int(0)
    for k in range(t.pair_count[world]):
        if t.apart[world, k] < near:
            a = t.corners[world, k]
            parallel = t.parallel[world, k]
            m0 = move[world, a[0]]
            m1 = move[world, a[1]]
            m2 = move[world, a[2]]
            m3 = move[world, a[3]]
            way = way_of(m0, m1, m2, m3, parallel)
            m0 = x[world, a[0]] - t.origin[world, a[0]]
            m1 = x[world, a[1]] - t.origin[world, a[1]]
            m2 = x[world, a[2]] - t.origin[world, a[2]]
            m3 = x[world, a[3]] - t.origin[world, a[3]]
            if t.apart[world, k] - way - way_of(m0, m1, m2, m3, parallel) < gap:
                t.active[world, count] = k
                count += 1
    t.active_count[world] = count


@wp.func
def pair_share(t: Touch, x: Vectors, move: Vectors, k: int, most: real, gap: real, world: int):
    """How much of a move, at most so much, a pair can make and keep a share of its distance: by conservative
    advancement (Li et al. 2021)."""
    a = t.corners[world, k]
    parallel = t.parallel[world, k]
    m0 = move[world, a[0]]
    m1 = move[world, a[1]]
    m2 = move[world, a[2]]
    m3 = move[world, a[3]]
    x0 = x[world, a[0]]
    x1 = x[world, a[1]]
    x2 = x[world, a[2]]
    x3 = x[world, a[3]]
    way = way_of(m0, m1, m2, m3, parallel)
    d = between(x0, x1, x2, x3, parallel)
    least = wp.max(LEAST_SHARE * d, wp.min(LEAST_APART * gap, real(0.99) * d))
    share = most
    if way * most > d - least:
        done = ZERO
        tries = int(0)
        while done < most and d > real(1.001) * least and tries < 100:
            tries += 1
            done += (d - least) / way
            s = wp.min(done, most)
            d = between(x0 + s * m0, x1 + s * m1, x2 + s * m2, x3 + s * m3, parallel)
        share = wp.min(done, most)
    return share


@wp.func
def safe_share(w: Work, x: Vectors, move: Vectors, gap: real, world: int):
    """How much of a move, at most all of it, vertices at x can make so that nothing passes through anything. The list
    of pairs is then one that serves all the way."""
    t = w.touch
    share = ONE
    way = strayed(move, move, ZERO, t.origin, ZERO, world)
    needed = SPARE_MARGIN * way + LEAST_MARGIN * gap
    here = strayed(x, move, ZERO, t.origin, ONE, world)
    stray = wp.max(here, strayed(x, move, ONE, t.origin, ONE, world))
    if stray > t.margin[world] or t.margin[world] > IDLE_MARGIN * needed:
        if here > ZERO or t.margin[world] > needed:
            find_pairs(t, x, gap, needed, world)
        stray = way
        if way > t.margin[world]:
            share = t.margin[world] / way
    mark_active(t, x, move, gap + real(2.0) * stray, gap, world)
    for k in range(t.active_count[world]):
        share = pair_share(t, x, move, t.active[world, k], share, gap, world)
    return share


# --- where a trajectory begins ------------------------------------------------------------------------


@wp.func(inline=True)
def volume(a: vec3, b: vec3, c: vec3, d: vec3):
    return wp.dot(wp.cross(b - a, c - a), d - a)


@wp.func(inline=True)
def crosses(p: vec3, q: vec3, a: vec3, b: vec3, c: vec3):
    """Whether the edge from p to q goes through the triangle."""
    n = wp.cross(b - a, c - a)
    side_p = wp.dot(n, p - a)
    side_q = wp.dot(n, q - a)
    least = FLAT * wp.length(n) * (wp.length(p - a) + wp.length(q - a))
    u = volume(p, q, a, b)
    v = volume(p, q, b, c)
    w = volume(p, q, c, a)
    around = (u >= ZERO and v >= ZERO and w >= ZERO) or (u <= ZERO and v <= ZERO and w <= ZERO)
    return around and side_p * side_q < ZERO and wp.min(wp.abs(side_p), wp.abs(side_q)) > least


@wp.func(inline=True)
def is_in_tet(x: vec3, a: vec3, b: vec3, c: vec3, d: vec3):
    whole = volume(a, b, c, d)
    return (
        volume(x, b, c, d) * whole > ZERO
        and volume(a, x, c, d) * whole > ZERO
        and volume(a, b, x, d) * whole > ZERO
        and volume(a, b, c, x) * whole > ZERO
    )


@wp.func
def entangled(t: Touch, tets: wp.array(dtype=wp.vec4i), x: Vectors, world: int):
    """An edge that goes through a face, or else, after all edges, a vertex inside of another body; or -1."""
    place_boxes(t, x, world)
    found = int(-1)
    for k in range(t.edges.shape[0]):
        mine = t.edges[k]
        p = x[world, mine[0]]
        q = x[world, mine[1]]
        node = int(0)
        while node < t.face_skip.shape[0] and found < 0:
            if meets(t.face_low, t.face_high, node, wp.min(p, q), wp.max(p, q), world):
                item = t.face_item[node]
                if item >= 0:
                    f = t.faces[item]
                    shares = f[0] == mine[0] or f[1] == mine[0] or f[2] == mine[0]
                    shares = shares or f[0] == mine[1] or f[1] == mine[1] or f[2] == mine[1]
                    if not shares and crosses(p, q, x[world, f[0]], x[world, f[1]], x[world, f[2]]):
                        found = k
                node += 1
            else:
                node = t.face_skip[node]
    for k in range(t.within.shape[0]):
        piece = t.within[k]
        for e in range(tets.shape[0]):
            corners = tets[e]
            if found < 0 and (corners[0] < piece[1] or corners[0] >= piece[2]):
                place = x[world, piece[0]]
                first = x[world, corners[0]]
                if is_in_tet(place, first, x[world, corners[1]], x[world, corners[2]], x[world, corners[3]]):
                    found = t.edges.shape[0] + piece[0]
    return found
