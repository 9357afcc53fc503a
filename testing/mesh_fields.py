"""The potential of two shapes, of which one or both are meshes of triangles, as kernels find it."""

from functools import cache
from typing import NamedTuple

import numpy as np
import warp as wp

import pullback as pb
from pullback.kernels import specialise


class Fields(NamedTuple):
    """Of the second shape of the only pair of a scene, about the world's origin, in each world."""

    value: np.ndarray  # (n,) [1]
    push: np.ndarray  # (n, 6): moment and force, the gradient by a motion of the shape
    lever: np.ndarray  # (n, 3, 3): Σ (gradient by x) ⊗ x
    curvature: np.ndarray  # (n, 6, 6)
    found: np.ndarray  # (n,)
    distance: np.ndarray  # (n,) of the shapes [m]
    leaves: np.ndarray  # (n,) pairs of leaves that were looked at

    def slope(self, motion: np.ndarray) -> np.ndarray:
        """How ``push`` changes, (n, 6), as the shape is moved by a motion [angular; linear]."""
        turn, move = motion[:3], motion[3:]
        G = self.lever
        path = np.cross(move, self.push[:, 3:]) + G.transpose(0, 2, 1) @ turn
        path -= np.trace(G, axis1=1, axis2=2)[:, None] * turn
        return self.curvature @ motion + np.c_[path, np.zeros((len(path), 3))]


@cache
def kernel(flavour):
    pair, hulls = specialise(flavour, "mesh_pair"), specialise(flavour, "collide")
    rows, shapes = specialise(flavour, "rows"), specialise("float64", "collision.shapes")
    tree, sweeps = specialise("float64", "tree.structs"), specialise("float64", "tree.sweeps")
    real, vec3, vec6, mat33, mat66 = pair.real, pair.vec3, pair.vec6, pair.mat33, pair.mat66
    outward, place_shapes, tree_poses = sweeps.outward, hulls.place_shapes, hulls.tree_poses
    mesh_field, mesh_distance = pair.mesh_field, pair.mesh_distance
    Shapes, Contacts, Rows, Tree, Params = shapes.Shapes, shapes.Contacts, rows.Rows, tree.Tree, tree.Params
    Workspace = tree.Workspace

    @wp.kernel(enable_backward=False, module="unique")
    def evaluate(
        m: Tree,
        g: Shapes,
        p: Params,
        s: Workspace,
        c: Contacts,
        r: Rows,
        q: wp.array2d(dtype=real),
        value: wp.array(dtype=real),
        push: wp.array(dtype=vec6),
        lever: wp.array(dtype=mat33),
        curvature: wp.array(dtype=mat66),
        found: wp.array(dtype=int),
        distance: wp.array(dtype=real),
        leaves: wp.array(dtype=int),
    ):
        for world in range(q.shape[0]):
            for i in range(m.nq):
                s.q[i, 0] = q[world, i]
            for d in range(m.nv):
                s.v[d, 0] = real(0.0)
            outward(m, p, s, 0, 0)
            place_shapes(g, p, tree_poses(s), c, 0, 0)
            distance[world] = mesh_distance(g, p, c, r, 0, 0, 0)
            field = mesh_field(g, p, c, r, 0, vec3(), 0, 0)
            value[world] = field.value
            push[world] = field.push
            lever[world] = field.lever
            curvature[world] = field.curvature
            found[world] = field.found
            leaves[world] = field.leaves

    return evaluate, {"value": real, "push": vec6, "lever": mat33, "curvature": mat66, "found": int}


def fields(system: pb.Articulated, q: np.ndarray) -> Fields:
    """At configurations (n, nq) of a System of one world with one pair of shapes."""
    assert len(system._scene.pair_shapes) == 1
    evaluate, types = kernel(system._flavour)
    types = types | {"distance": types["value"], "leaves": int}
    lane, params = system._lanes[0], system.hold_params()
    out = {name: wp.zeros(len(q), dtype=kind) for name, kind in types.items()}
    given = [system._tree, system._shapes, params.struct, lane.workspace, lane.contacts, lane.rows]
    wp.launch(evaluate, dim=1, inputs=[*given, wp.array(np.ascontiguousarray(q), dtype=wp.float64), *out.values()])
    return Fields(*(out[name].numpy() for name in Fields._fields))
