"""The contacts of a state and the forces they exert, for people to look at."""

import warp as wp

from ..collision.shapes import Contacts, Shapes
from ..spatial.scalar import real, vec3
from ..tree.applied import Applied
from ..tree.structs import Params, Tree, Workspace
from .accelerate import accelerate
from .flavour import ACTIVATIONS, IMPULSES
from .rows import Rows, contact_count, in_world, rotation_in_world

if ACTIVATIONS:
    from .activations import read_activations


@wp.kernel(enable_backward=False)
def contact_report(
    m: Tree,
    g: Shapes,
    p: Params,
    s: Workspace,
    c: Contacts,
    r: Rows,
    controls: wp.array3d(dtype=real),
    f: Applied,
    first_world: int,
    end_world: int,
    q: wp.array2d(dtype=real),
    v: wp.array2d(dtype=real),
    act: wp.array3d(dtype=real),
    status: wp.array2d(dtype=int),
    count: wp.array(dtype=int),
    pair: wp.array2d(dtype=int),
    pos: wp.array2d(dtype=vec3),
    normal: wp.array2d(dtype=vec3),
    dist: wp.array2d(dtype=real),
    force: wp.array2d(dtype=vec3),
    moment: wp.array2d(dtype=vec3),
):
    """Per world and contact: pair, point, normal, distance, and force and moment on shape 2, in the world's axes."""
    slot = wp.tid()
    slots = s.q.shape[1]
    for world in range(first_world + slot, end_world, slots):
        for i in range(m.nq):
            s.q[i, slot] = q[world, i]
        for d in range(m.nv):
            s.v[d, slot] = v[world, d]
        if ACTIVATIONS:
            read_activations(r, act, 0, world, slot)
        status[world, 0] = accelerate(m, g, p, s, c, r, controls, f, 0, world, slot)
        status[world, 1] = 0
        count[world] = contact_count(c, slot)
        for k in range(contact_count(c, slot)):
            frame_force = r.force[k, slot]
            if IMPULSES:
                frame_force = frame_force / m.timestep
            n = c.normal[k, slot]
            t1 = r.tangent1[k, slot]
            t2 = r.tangent2[k, slot]
            pair[world, k] = c.pair[k, slot]
            pos[world, k] = c.pos[k, slot]
            normal[world, k] = n
            dist[world, k] = c.dist[k, slot]
            force[world, k] = in_world(frame_force, n, t1, t2)
            moment[world, k] = rotation_in_world(frame_force, n, t1, t2)
