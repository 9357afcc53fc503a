"""Cloth, soft solids and ropes of MuJoCo: forces between vertices, with their adjoint.

All but bending pulls along edges. Per edge (a, b), with d = x_a - x_b:

    letter  meaning                                                              kept in
    e       d·d - rest² + c (2 d·ḋ - h (d·ḋ)² / d·d): stretch, and damping c     r.flex_stretch
    T       what pulls: f_a = -T d, f_b = T d                                    r.flex_pull

Elements are Saint Venant-Kirchhoff's: T of their edges is K e, with K = shear · A + lame · b bᵀ, in which A and b are
numbers of the shape at rest. A rope has springs and dampers along its edges instead. Where two triangles meet, Q x
bends their four corners back, Q being a constant matrix, and so does their volume, where the rest shape is curved.

K is symmetric, so the same products serve the adjoint. ξ is the virtual velocity of a vertex, from X of its body: the
pairing is Σ ξ·f.
"""

import warp as wp

from ..spatial.algebra import ang, pack, velocity_at
from ..spatial.scalar import real, vec3, vec6
from ..tree.structs import Params, Tree, Workspace
from .flex_rows import mat44
from .rows import Rows

TWO = wp.constant(real(2.0))


@wp.func
def arm_of(s: Workspace, r: Rows, u: int, slot: int):
    """The place of vertex u, from o of its body."""
    body = r.flexes.body[u]
    return s.pos[body, slot] - s.o[body, slot] + s.R[body, slot] * r.flexes.place[u]


@wp.func
def strain(d: vec3, rate: vec3, rest: real, damping: real, h: real):
    """e of an edge, and its slopes by d and its rate."""
    square = wp.dot(d, d)
    half = wp.dot(d, rate)  # of the rate of the square
    ratio = half / square
    e = square - rest * rest + damping * (TWO * half - h * half * ratio)
    by_d = TWO * d + damping * (TWO * rate - h * (TWO * ratio * rate - TWO * ratio * ratio * d))
    by_rate = damping * TWO * (real(1.0) - h * ratio) * d
    return e, by_d, by_rate, TWO * half - h * half * ratio


@wp.func
def spring(d: vec3, rate: vec3, rest: real, stiffness: real, damping: real):
    """T of a spring and a damper along an edge, and its slopes by d and its rate."""
    square = wp.dot(d, d)
    length = wp.sqrt(square)
    half = wp.dot(d, rate)
    pull = stiffness * (real(1.0) - rest / length) + damping * half / square
    by_d = stiffness * rest / (length * square) * d
    by_d += damping * (rate / square - TWO * half / (square * square) * d)
    return pull, by_d, damping / square * d


@wp.func
def vertices(s: Workspace, r: Rows, slot: int):
    """Where vertices are and how they move; no force on them yet."""
    for u in range(r.flexes.body.shape[0]):
        body = r.flexes.body[u]
        r.flex_x[u, slot] = s.pos[body, slot] + s.R[body, slot] * r.flexes.place[u]
        r.flex_v[u, slot] = velocity_at(s.V[body, slot], arm_of(s, r, u, slot))
        r.flex_force[u, slot] = vec3()


@wp.func
def triangle_edges(r: Rows, x: wp.array2d(dtype=real), n: int, slot: int):
    return vec3(
        x[r.flexes.triangle_edge[n, 0], slot],
        x[r.flexes.triangle_edge[n, 1], slot],
        x[r.flexes.triangle_edge[n, 2], slot],
    )


@wp.func
def solid_edges(r: Rows, x: wp.array2d(dtype=real), n: int, slot: int):
    return vec6(
        x[r.flexes.solid_edge[n, 0], slot],
        x[r.flexes.solid_edge[n, 1], slot],
        x[r.flexes.solid_edge[n, 2], slot],
        x[r.flexes.solid_edge[n, 3], slot],
        x[r.flexes.solid_edge[n, 4], slot],
        x[r.flexes.solid_edge[n, 5], slot],
    )


@wp.func
def add_triangles(p: Params, r: Rows, x: wp.array2d(dtype=real), y: wp.array2d(dtype=real), world: int, slot: int):
    """y += K x, numbers of edges, over all triangles."""
    for n in range(r.flexes.triangle_flex.shape[0]):
        law = p.flex[world, r.flexes.triangle_flex[n]]
        along = triangle_edges(r, x, n, slot)
        b = r.flexes.triangle_b[n]
        pull = law[0] * (r.flexes.triangle_A[n] * along) + law[1] * wp.dot(b, along) * b
        for i in range(3):
            edge = r.flexes.triangle_edge[n, i]
            y[edge, slot] = y[edge, slot] + pull[i]


@wp.func
def add_solids(p: Params, r: Rows, x: wp.array2d(dtype=real), y: wp.array2d(dtype=real), world: int, slot: int):
    """The same over all tetrahedra."""
    for n in range(r.flexes.solid_flex.shape[0]):
        law = p.flex[world, r.flexes.solid_flex[n]]
        along = solid_edges(r, x, n, slot)
        b = r.flexes.solid_b[n]
        pull = law[0] * (r.flexes.solid_A[n] * along) + law[1] * wp.dot(b, along) * b
        for i in range(6):
            edge = r.flexes.solid_edge[n, i]
            y[edge, slot] = y[edge, slot] + pull[i]


@wp.func
def triangle_params_adjoint(p_bar: Params, r: Rows, world: int, slot: int):
    """Adds the cotangents of shear and lame in Σ pull_bar·K e."""
    for n in range(r.flexes.triangle_flex.shape[0]):
        e = triangle_edges(r, r.flex_stretch, n, slot)
        bar = triangle_edges(r, r.flex_pull_bar, n, slot)
        b = r.flexes.triangle_b[n]
        add_to_law(p_bar, r.flexes.triangle_flex[n], 0, wp.dot(bar, r.flexes.triangle_A[n] * e), world)
        add_to_law(p_bar, r.flexes.triangle_flex[n], 1, wp.dot(bar, b) * wp.dot(b, e), world)


@wp.func
def solid_params_adjoint(p_bar: Params, r: Rows, world: int, slot: int):
    for n in range(r.flexes.solid_flex.shape[0]):
        e = solid_edges(r, r.flex_stretch, n, slot)
        bar = solid_edges(r, r.flex_pull_bar, n, slot)
        b = r.flexes.solid_b[n]
        add_to_law(p_bar, r.flexes.solid_flex[n], 0, wp.dot(bar, r.flexes.solid_A[n] * e), world)
        add_to_law(p_bar, r.flexes.solid_flex[n], 1, wp.dot(bar, b) * wp.dot(b, e), world)


@wp.func
def add_to_law(p_bar: Params, flex: int, number: int, bar: real, world: int):
    whole = p_bar.flex[world, flex]
    whole[number] += bar
    p_bar.flex[world, flex] = whole


@wp.func
def bent(Q: mat44, y: wp.array2d(dtype=vec3), hinge: wp.vec4i, i: int, slot: int):
    """Row i of Q y over the corners of a hinge."""
    total = vec3()
    for j in range(4):
        total += Q[i, j] * y[hinge[j], slot]
    return total


@wp.func
def curving(x: wp.array2d(dtype=vec3), hinge: wp.vec4i, slot: int):
    """Slopes of the volume that the corners of a hinge span, six times it, by the last three of them."""
    first = x[hinge[0], slot]
    one = x[hinge[1], slot] - first
    two = x[hinge[2], slot] - first
    three = x[hinge[3], slot] - first
    return wp.cross(two, three), wp.cross(three, one), wp.cross(one, two)


@wp.func
def add_to(x: wp.array2d(dtype=vec3), u: int, slot: int, y: vec3):
    x[u, slot] = x[u, slot] + y


@wp.func
def bend(p: Params, r: Rows, world: int, slot: int):
    """Adds to the forces on vertices those of hinges."""
    for n in range(r.flexes.hinge.shape[0]):
        law = p.flex[world, r.flexes.hinge_flex[n]]
        hinge = r.flexes.hinge[n]
        Q = r.flexes.hinge_Q[n]
        for i in range(4):
            pull = bent(Q, r.flex_x, hinge, i, slot) + law[2] * bent(Q, r.flex_v, hinge, i, slot)
            add_to(r.flex_force, hinge[i], slot, -law[5] * pull)
        curve = -law[5] * r.flexes.hinge_curve[n]
        if curve != real(0.0):
            one, two, three = curving(r.flex_x, hinge, slot)
            add_to(r.flex_force, hinge[0], slot, -curve * (one + two + three))
            add_to(r.flex_force, hinge[1], slot, curve * one)
            add_to(r.flex_force, hinge[2], slot, curve * two)
            add_to(r.flex_force, hinge[3], slot, curve * three)


@wp.func
def bend_adjoint(p: Params, p_bar: Params, r: Rows, world: int, slot: int, wants_params: int):
    """Adds the cotangents of places and velocities of vertices, and of parameters."""
    for n in range(r.flexes.hinge.shape[0]):
        flex = r.flexes.hinge_flex[n]
        law = p.flex[world, flex]
        hinge = r.flexes.hinge[n]
        Q = r.flexes.hinge_Q[n]
        curve = r.flexes.hinge_curve[n]
        at_rest = real(0.0)  # ξ·Q x
        moving = real(0.0)  # ξ·Q v
        for i in range(4):
            back = bent(Q, r.flex_xi, hinge, i, slot)
            add_to(r.flex_x_bar, hinge[i], slot, -law[5] * back)
            add_to(r.flex_v_bar, hinge[i], slot, -law[5] * law[2] * back)
            at_rest += wp.dot(back, r.flex_x[hinge[i], slot])
            moving += wp.dot(back, r.flex_v[hinge[i], slot])
        if curve != real(0.0):
            one, two, three = curving(r.flex_x, hinge, slot)
            xi = r.flex_xi[hinge[0], slot]
            z1 = r.flex_xi[hinge[1], slot] - xi
            z2 = r.flex_xi[hinge[2], slot] - xi
            z3 = r.flex_xi[hinge[3], slot] - xi
            at_rest += curve * (wp.dot(z1, one) + wp.dot(z2, two) + wp.dot(z3, three))
            first = r.flex_x[hinge[0], slot]
            x1 = r.flex_x[hinge[1], slot] - first
            x2 = r.flex_x[hinge[2], slot] - first
            x3 = r.flex_x[hinge[3], slot] - first
            bar1 = -law[5] * curve * (wp.cross(z2, x3) + wp.cross(x2, z3))
            bar2 = -law[5] * curve * (wp.cross(x3, z1) + wp.cross(z3, x1))
            bar3 = -law[5] * curve * (wp.cross(z1, x2) + wp.cross(x1, z2))
            add_to(r.flex_x_bar, hinge[0], slot, -(bar1 + bar2 + bar3))
            add_to(r.flex_x_bar, hinge[1], slot, bar1)
            add_to(r.flex_x_bar, hinge[2], slot, bar2)
            add_to(r.flex_x_bar, hinge[3], slot, bar3)
        if wants_params == 1:
            add_to_law(p_bar, flex, 2, -law[5] * moving, world)
            add_to_law(p_bar, flex, 5, -at_rest - law[2] * moving, world)


@wp.func
def flex_forces(m: Tree, p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Takes the forces on the vertices of all flexes from the bias forces pA of their bodies."""
    vertices(s, r, slot)
    for edge in range(r.flexes.edge.shape[0]):
        ends = r.flexes.edge[edge]
        law = p.flex[world, r.flexes.edge_flex[edge]]
        d = r.flex_x[ends[0], slot] - r.flex_x[ends[1], slot]
        rate = r.flex_v[ends[0], slot] - r.flex_v[ends[1], slot]
        e, _by_d, _by_rate, _rate = strain(d, rate, r.flexes.rest[edge], law[2], m.timestep)
        pull, _by_d, _by_rate = spring(d, rate, r.flexes.rest[edge], law[3], law[4])
        r.flex_stretch[edge, slot] = e
        r.flex_pull[edge, slot] = pull
    add_triangles(p, r, r.flex_stretch, r.flex_pull, world, slot)
    add_solids(p, r, r.flex_stretch, r.flex_pull, world, slot)
    for edge in range(r.flexes.edge.shape[0]):
        ends = r.flexes.edge[edge]
        force = r.flex_pull[edge, slot] * (r.flex_x[ends[0], slot] - r.flex_x[ends[1], slot])
        add_to(r.flex_force, ends[0], slot, -force)
        add_to(r.flex_force, ends[1], slot, force)
    bend(p, r, world, slot)
    for u in range(r.flexes.body.shape[0]):
        body = r.flexes.body[u]
        force = r.flex_force[u, slot]
        s.pA[body, slot] = s.pA[body, slot] - pack(wp.cross(arm_of(s, r, u, slot), force), force)


@wp.func
def flex_forces_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """Adds to V_bar, X_bar and W of each body the cotangents of Σ ξ·f. Right after ``flex_forces``."""
    for u in range(r.flexes.body.shape[0]):
        r.flex_xi[u, slot] = velocity_at(s.X[r.flexes.body[u], slot], arm_of(s, r, u, slot))
        r.flex_x_bar[u, slot] = vec3()
        r.flex_v_bar[u, slot] = vec3()
    for edge in range(r.flexes.edge.shape[0]):
        ends = r.flexes.edge[edge]
        d = r.flex_x[ends[0], slot] - r.flex_x[ends[1], slot]
        apart = r.flex_xi[ends[0], slot] - r.flex_xi[ends[1], slot]
        r.flex_pull_bar[edge, slot] = -wp.dot(d, apart)
        r.flex_stretch_bar[edge, slot] = real(0.0)
    add_triangles(p, r, r.flex_pull_bar, r.flex_stretch_bar, world, slot)
    add_solids(p, r, r.flex_pull_bar, r.flex_stretch_bar, world, slot)
    for edge in range(r.flexes.edge.shape[0]):
        ends = r.flexes.edge[edge]
        flex = r.flexes.edge_flex[edge]
        law = p.flex[world, flex]
        rest = r.flexes.rest[edge]
        d = r.flex_x[ends[0], slot] - r.flex_x[ends[1], slot]
        rate = r.flex_v[ends[0], slot] - r.flex_v[ends[1], slot]
        apart = r.flex_xi[ends[0], slot] - r.flex_xi[ends[1], slot]
        e_bar = r.flex_stretch_bar[edge, slot]
        pull_bar = r.flex_pull_bar[edge, slot]
        _e, e_by_d, e_by_rate, e_by_damping = strain(d, rate, rest, law[2], m.timestep)
        _pull, pull_by_d, pull_by_rate = spring(d, rate, rest, law[3], law[4])
        d_bar = e_bar * e_by_d + pull_bar * pull_by_d - r.flex_pull[edge, slot] * apart
        rate_bar = e_bar * e_by_rate + pull_bar * pull_by_rate
        add_to(r.flex_x_bar, ends[0], slot, d_bar)
        add_to(r.flex_x_bar, ends[1], slot, -d_bar)
        add_to(r.flex_v_bar, ends[0], slot, rate_bar)
        add_to(r.flex_v_bar, ends[1], slot, -rate_bar)
        if wants_params == 1:
            add_to_law(p_bar, flex, 2, e_bar * e_by_damping, world)
            add_to_law(p_bar, flex, 3, pull_bar * (real(1.0) - rest / wp.length(d)), world)
            add_to_law(p_bar, flex, 4, pull_bar * wp.dot(d, rate) / wp.dot(d, d), world)
    if wants_params == 1:
        triangle_params_adjoint(p_bar, r, world, slot)
        solid_params_adjoint(p_bar, r, world, slot)
    bend_adjoint(p, p_bar, r, world, slot, wants_params)
    for u in range(r.flexes.body.shape[0]):
        body = r.flexes.body[u]
        arm = arm_of(s, r, u, slot)
        force = r.flex_force[u, slot]
        v_bar = r.flex_v_bar[u, slot]
        # a vertex that moves sees other velocities of its body
        x_bar = r.flex_x_bar[u, slot] + wp.cross(force, ang(s.X[body, slot])) + wp.cross(v_bar, ang(s.V[body, slot]))
        s.X_bar[body, slot] = s.X_bar[body, slot] + pack(wp.cross(arm, force), force)
        s.V_bar[body, slot] = s.V_bar[body, slot] + pack(wp.cross(arm, v_bar), v_bar)
        s.W[body, slot] = s.W[body, slot] + pack(wp.cross(arm, x_bar), x_bar)
