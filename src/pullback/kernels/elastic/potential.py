"""The potential that a step minimises, its gradient and its Hessian, and the derivatives of the gradient.

    m |x' - x - h v|²/(2 h²) - m g·x' + damping m |x' - x|²/(2 h) + energies of elements and contacts(x'; x)

over the vertices that are free. A world is the work of one thread, which adds up elements in their order: no two
threads write to one number, and nothing depends on how many there are.
"""

import warp as wp

from ..spatial.scalar import mat33, real, vec3
from .cloth import add_hinge, add_triangle, hinge_adjoint, hinge_energy, triangle_adjoint, triangle_energy
from .contact import contact_adjoint, contact_energy, contact_slopes
from .flavour import SELF_CONTACT
from .kinds import DAMPING, DENSITY, GRAVITY, LAME, SHEAR
from .solids import HALF, QUARTER, add_tet, tet_adjoint, tet_energy
from .structs import Law, LawBar, Mesh, Scene, Step, Vectors, Work

if SELF_CONTACT:
    from .self_contact import add_touches, touch_adjoint, touch_energy

THIRD = wp.constant(real(1.0 / 3.0))


@wp.func(inline=True)
def gravity_of(m: Law, world: int):
    p = m.around[world, 0]
    return vec3(p[GRAVITY], p[GRAVITY + 1], p[GRAVITY + 2])


@wp.func
def weigh(g: Mesh, m: Law, w: Work, world: int):
    """The masses of all vertices."""
    for i in range(g.handle.shape[0]):
        w.mass[world, i] = real(0.0)
    for e in range(g.tets.shape[0]):
        share = QUARTER * m.solids[world, g.tet_group[e]][DENSITY] * g.tet_volume[e]
        corners = g.tets[e]
        for a in range(4):
            w.mass[world, corners[a]] = w.mass[world, corners[a]] + share
    for e in range(g.triangles.shape[0]):
        share = THIRD * m.cloths[world, g.triangle_group[e]][DENSITY] * g.triangle_area[e]
        ends = g.triangles[e]
        for a in range(3):
            w.mass[world, ends[a]] = w.mass[world, ends[a]] + share


@wp.func
def density_adjoint(g: Mesh, w: Work, bar: LawBar, world: int):
    """From the cotangents of masses."""
    for e in range(g.tets.shape[0]):
        corners = g.tets[e]
        sum = real(0.0)
        for a in range(4):
            sum += w.mass_bar[world, corners[a]]
        bars = bar.solids[world, g.tet_group[e]]
        bars[DENSITY] += wp.float64(QUARTER * g.tet_volume[e] * sum)
        bar.solids[world, g.tet_group[e]] = bars
    for e in range(g.triangles.shape[0]):
        ends = g.triangles[e]
        sum = real(0.0)
        for a in range(3):
            sum += w.mass_bar[world, ends[a]]
        bars = bar.cloths[world, g.triangle_group[e]]
        bars[DENSITY] += wp.float64(THIRD * g.triangle_area[e] * sum)
        bar.cloths[world, g.triangle_group[e]] = bars


@wp.func
def energy_at(g: Mesh, c: Scene, m: Law, w: Work, s: Step, x: Vectors, world: int):
    """The potential, and what its rounding is relative to: energies of elements are differences of moduli."""
    total = wp.float64(0.0)
    size = wp.float64(0.0)
    gravity = gravity_of(m, world)
    damping = m.around[world, 0][DAMPING]
    for i in range(g.handle.shape[0]):
        if g.handle[i] == -1:
            moved = x[world, i] - w.before[world, i]
            ahead = moved - s.dt * w.velocity[world, i]
            inertia = HALF * w.mass[world, i] * wp.dot(ahead, ahead) / (s.dt * s.dt)
            fall = w.mass[world, i] * wp.dot(gravity, moved)
            drag = HALF * damping * w.mass[world, i] * wp.dot(moved, moved) / s.dt
            touch = contact_energy(c, m, w, s, x[world, i], i, world)
            total += wp.float64(inertia - fall + drag + touch)
            size += wp.float64(inertia + wp.abs(fall) + drag + touch)
    for e in range(g.tets.shape[0]):
        p = m.solids[world, g.tet_group[e]]
        total += wp.float64(tet_energy(g, m, w, s, x, e, world))
        size += wp.float64(g.tet_volume[e] * (p[SHEAR] + wp.abs(p[LAME])))
    for e in range(g.triangles.shape[0]):
        q = m.cloths[world, g.triangle_group[e]]
        total += wp.float64(triangle_energy(g, m, w, s, x, e, world))
        size += wp.float64(g.triangle_area[e] * (q[SHEAR] + wp.abs(q[LAME])))
    for e in range(g.hinges.shape[0]):
        part = wp.float64(hinge_energy(g, m, x, e, world))
        total += part
        size += part
    if SELF_CONTACT:
        touching = touch_energy(c, m, w, s, x, world)
        total += touching
        size += touching
    return total, size


@wp.func
def differentiate(g: Mesh, c: Scene, m: Law, w: Work, s: Step, world: int, wants_hessian: int):
    """w.gradient, and w.blocks with w.inverse if they are wanted, at w.after and w.moved.

    wants_hessian: 0, 1 for the exact one, or 2 for one in which cloth that is compressed is slack, and what touches
        pushes along normals that do not turn
    """
    gravity = gravity_of(m, world)
    damping = m.around[world, 0][DAMPING]
    if wants_hessian > 0:
        for b in range(g.column.shape[0]):
            w.blocks[world, b] = mat33()
    for i in range(g.handle.shape[0]):
        mass = w.mass[world, i]
        moved = w.moved[world, i]
        pull = (moved - s.dt * w.velocity[world, i]) / (s.dt * s.dt) - gravity + damping / s.dt * moved
        slope = vec3()
        bend = mat33()
        if g.handle[i] == -1:
            slope, bend = contact_slopes(c, m, w, s, i, world)
        w.gradient[world, i] = mass * pull + slope
        if wants_hessian > 0:
            inertia = mass * (real(1.0) / s.dt + damping) / s.dt
            w.blocks[world, g.diagonal[i]] = inertia * wp.identity(n=3, dtype=real) + bend
    for e in range(g.tets.shape[0]):
        add_tet(g, m, w, s, e, world, wants_hessian)
    for e in range(g.triangles.shape[0]):
        add_triangle(g, m, w, s, e, world, wants_hessian)
    for e in range(g.hinges.shape[0]):
        add_hinge(g, m, w, e, world, wants_hessian)
    if SELF_CONTACT:
        add_touches(g, c, m, w, s, world, wants_hessian)
    if wants_hessian > 0:
        for i in range(g.handle.shape[0]):
            inverse = mat33()
            if g.handle[i] == -1:
                H = w.blocks[world, g.diagonal[i]]
                minor = H[0, 0] * H[1, 1] - H[0, 1] * H[1, 0]
                if H[0, 0] > real(0.0) and minor > real(0.0) and wp.determinant(H) > real(0.0):
                    inverse = wp.inverse(H)
                    inverse = HALF * (inverse + wp.transpose(inverse))
                else:  # not convex here: its size will do
                    inverse = real(1.0) / wp.sqrt(wp.ddot(H, H)) * wp.identity(n=3, dtype=real)
            w.inverse[world, i] = inverse


@wp.func
def gradient_adjoint(g: Mesh, c: Scene, m: Law, w: Work, s: Step, bar: LawBar, world: int, wants_params: int):
    """-d(lam·gradient) by x to w.direction, and by parameters; lam is w.move, and zero where vertices are held."""
    gravity = gravity_of(m, world)
    damping = m.around[world, 0][DAMPING]
    around = bar.around[world, 0]
    for i in range(g.handle.shape[0]):
        lam = w.move[world, i]
        mass = w.mass[world, i]
        w.direction[world, i] = mass * (real(1.0) / s.dt + damping) / s.dt * lam
        moved = w.moved[world, i]
        pull = (moved - s.dt * w.velocity[world, i]) / (s.dt * s.dt) - gravity + damping / s.dt * moved
        w.mass_bar[world, i] = -wp.dot(lam, pull)
        for k in range(3):
            around[GRAVITY + k] += wp.float64(mass * lam[k])
        around[DAMPING] -= wp.float64(mass / s.dt * wp.dot(lam, moved))
    bar.around[world, 0] = around
    for i in range(g.handle.shape[0]):
        if g.handle[i] == -1:
            contact_adjoint(c, m, w, s, bar, i, world)
    if SELF_CONTACT:
        touch_adjoint(c, m, w, s, bar, world)
    for e in range(g.tets.shape[0]):
        tet_adjoint(g, m, w, s, bar, e, world, wants_params)
    for e in range(g.triangles.shape[0]):
        triangle_adjoint(g, m, w, s, bar, e, world, wants_params)
    if wants_params == 1:
        for e in range(g.hinges.shape[0]):
            hinge_adjoint(g, w, bar, e, world)
        density_adjoint(g, w, bar, world)
