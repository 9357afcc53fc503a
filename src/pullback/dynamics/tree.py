"""The kernels' structs of a Model: its topology, the layout of joints, and the workspace."""

from __future__ import annotations

import math

import numpy as np
import warp as wp

from pullback.contact import Contact
from pullback.core.arrays import PRECISIONS, SMALL, require_memory, require_strides
from pullback.kernels import specialise
from pullback.model import BALL, FREE, HINGE, SLIDE, Model
from pullback.model.model import JOINT_DOFS

MOST_SLOTS = 1 << 17  # worlds that CUDA works on at a time; more take turns, so that the workspace stays bounded
# The difference between "implicit" and "implicitfast" is in ``implicit.py``.
INTEGRATORS = {"euler": 0, "implicitfast": 1, "implicit": 1, "rk4": 2}


class Layout:
    """How a model's joints map to the kernels' joints, where a free joint is three slides and a ball."""

    def __init__(self, model: Model):
        kernel_types = specialise("float64", "tree.structs")
        types, q, v, source, first = [], [], [], [], [0] * (model.nbody + 1)
        by_body = [[] for _ in range(model.nbody)]
        for j, body in enumerate(model.joint_body):
            by_body[body].append(j)
        for body in range(model.nbody):
            first[body] = len(types)
            for j in by_body[body]:
                q0, v0 = int(model.joint_q[j]), int(model.joint_v[j])
                if model.joint_type[j] == FREE:
                    parts = [(kernel_types.SLIDE, k, k) for k in range(3)] + [(kernel_types.BALL, 3, 3)]
                else:
                    kind = {BALL: kernel_types.BALL, SLIDE: kernel_types.SLIDE, HINGE: kernel_types.HINGE}
                    parts = [(kind[int(model.joint_type[j])], 0, 0)]
                for kind, dq, dv in parts:
                    types.append(int(kind))
                    q.append(q0 + dq)
                    v.append(v0 + dv)
                    source.append(j)
        first[model.nbody] = len(types)
        as_int = lambda x: np.asarray(x, dtype=np.int32)  # noqa: E731
        self.type, self.q, self.v, self.source = as_int(types), as_int(q), as_int(v), as_int(source)
        self.first = as_int(first)
        self.slide = self.type == int(kernel_types.SLIDE)
        self.ball = self.type == int(kernel_types.BALL)
        self.from_free = model.joint_type[self.source] == FREE if len(types) else np.zeros(0, bool)
        self.free_bodies = model.joint_body[model.joint_type == FREE]
        # the world's axes, for the slides of a free joint
        self.free_axis = np.eye(3)[(self.q - model.joint_q[self.source]).clip(0, 2)] if len(types) else np.zeros((0, 3))


def tree_struct(
    model: Model,
    layout: Layout,
    precision: str,
    device: str,
    contact: Contact | None = None,
    *,
    factorised: bool = True,
):
    """The kernels' Tree of a model. ``factorised``: with the columns of its mass matrix, which will be factorised."""
    real = PRECISIONS[precision]
    kernels = specialise(precision, "tree.structs")
    tree = kernels.Tree()
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    reals = lambda x: wp.array(np.asarray(x, dtype=precision), dtype=real, device=device)  # noqa: E731

    moves = np.zeros(model.nbody, bool)
    is_root = np.zeros(model.nbody, bool)
    has_joint = layout.first[1:] > layout.first[:-1]
    for i in range(1, model.nbody):
        above = moves[model.body_parent[i]]
        is_root[i] = has_joint[i] and not above
        moves[i] = above or has_joint[i]
    tree.body_parent = ints(model.body_parent)
    tree.body_is_root = ints(is_root)
    children = np.bincount(model.body_parent[1:], minlength=model.nbody)
    last_child = np.zeros(model.nbody, bool)
    last_child[[np.flatnonzero(model.body_parent == i)[-1] for i in np.flatnonzero(children)]] = True
    tree.body_children, tree.body_is_last_child = ints(children), ints(last_child)
    tree.body_joint = ints(layout.first)
    tree.joint_type, tree.joint_q, tree.joint_v = ints(layout.type), ints(layout.q), ints(layout.v)
    dof_body, dof_parent = dof_tree(model)
    tree.dof_body, tree.dof_parent = ints(dof_body), ints(dof_parent)
    tree.body_dof = ints(np.searchsorted(dof_body, np.arange(model.nbody + 1)))
    if factorised:
        columns, counts = matrix_columns(dof_parent)
        tree.columns, tree.columns_count = (for_all_slots(ints(x)) for x in (columns, counts))
    # The coordinates of a free joint are the pose itself; those of hinges and slides are relative to the file's pose.
    tree.joint_q0 = reals(np.where(layout.from_free | layout.ball, 0.0, model.q0[layout.q]))

    springs, dampers = curved_joints(model, layout), curved_dampers(model)
    tree.curved_spring, tree.curved_damper = ints(springs), ints(dampers)
    tree.curved_is_free = ints(layout.from_free[springs] & ~layout.ball[springs])

    moved, numbers = mocap_bodies(model)
    tree.mocap_body, tree.mocap_number = ints(moved), ints(numbers)

    # A step that minimises a potential cannot use a matrix that is not symmetric.
    lone = [] if contact is not None and contact.potential else lone_free_bodies(model)
    lone = lone if model.integrator == "implicitfast" else []
    tree.lone_body, tree.lone_end = ints([first for first, _ in lone]), ints([end for _, end in lone])

    joint = model.actuator_joint if model.njoint else model.actuator_joint[:0]  # no joint to index
    kind = model.joint_type[joint]
    tree.actuator_on = ints(np.select([kind == BALL, kind == FREE], [1, 2], 0))
    tree.actuator_q, tree.actuator_v = ints(model.joint_q[joint]), ints(model.joint_v[joint])
    tree.actuator_in_parent = ints(model.actuator_in_parent)
    bound = lambda limited, limits, side: reals(np.where(limited, limits[:, side], (-np.inf, np.inf)[side]))  # noqa: E731
    tree.control_low = bound(model.control_limited, model.control_range, 0)
    tree.control_high = bound(model.control_limited, model.control_range, 1)
    held = model.force_limited.copy()
    held[model.motors.circuits] = False  # their friction is not clamped: see ``kernels/tree/motor.py``
    tree.force_low = bound(held, model.force_range, 0)
    tree.force_high = bound(held, model.force_range, 1)
    low, high = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    for j in np.flatnonzero(model.joint_force_limited):
        low[model.joint_v[j]], high[model.joint_v[j]] = model.joint_force_range[j]
    tree.dof_force_low, tree.dof_force_high = reals(low), reals(high)

    tree.fluid_quat = wp.array(model.fluid_quat.astype(precision), dtype=kernels.vec4, device=device)
    tree.nq, tree.nv = model.nq, model.nv
    tree.timestep = model.timestep
    tree.integrator = INTEGRATORS[model.integrator]
    return tree


def mocap_bodies(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Mocap bodies and the bodies welded to them, and the mocap number of each, or -1. Empty if one of them carries
    joints."""
    ids, parent = model.mujoco.body_mocapid, model.body_parent
    moved = np.zeros(model.nbody, bool)
    if len(ids) == model.nbody:  # otherwise this Model was changed after loading
        for i in range(1, model.nbody):
            moved[i] = ids[i] >= 0 or moved[parent[i]]
    if np.any(moved[model.joint_body]):
        moved[:] = False
    return np.flatnonzero(moved), ids[moved] if np.any(moved) else np.zeros(0, int)


def is_curved(model: Model) -> bool:
    """Whether springs or dampers of joints or tendons have quadratic or cubic terms."""
    tendons = model.tendons
    laws = (model.joint_stiffness_poly, model.dof_damping_poly, tendons.stiffness_poly, tendons.damping_poly)
    return any(np.any(law) for law in laws)


def curved_joints(model: Model, layout: Layout) -> np.ndarray:
    """The kernels' joints whose springs have quadratic or cubic terms; of a free joint's slides, only the first."""
    curved = np.any(model.joint_stiffness_poly, axis=1)[layout.source] if model.njoint else np.zeros(0, bool)
    later = layout.from_free & (layout.q > model.joint_q[layout.source]) & ~layout.ball
    return np.flatnonzero(curved & ~later)


def curved_dampers(model: Model) -> np.ndarray:
    """The degrees of freedom whose dampers have quadratic or cubic terms."""
    return np.flatnonzero(np.any(model.dof_damping_poly, axis=1))


def matrix_columns(dof_parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ancestors of each degree of freedom, in nv entries per dof, flattened; and the number of ancestors."""
    nv = len(dof_parent)
    columns, counts = np.zeros((nv, nv), np.int32), np.zeros(nv, np.int32)
    for d, above in enumerate(dof_parent):
        if above >= 0:
            counts[d] = counts[above] + 1
            columns[d, 0] = above
            columns[d, 1 : counts[d]] = columns[above, : counts[above]]
    return columns.ravel(), counts


def for_all_slots(array: wp.array) -> wp.array:
    """A view [item, slot] with the same numbers in every slot."""
    view = wp.array(
        ptr=array.ptr,
        dtype=array.dtype,
        shape=(len(array), MOST_SLOTS),
        strides=(array.strides[0], 0),
        device=array.device,
    )
    view.owner = array  # keeps the memory alive
    return view


def dof_tree(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The body of each degree of freedom, and its parent dof, or -1."""
    body = np.zeros(model.nv, int)
    for joint, (first, kind) in enumerate(zip(model.joint_v, model.joint_type, strict=True)):
        body[first : first + JOINT_DOFS[int(kind)]] = model.joint_body[joint]
    last = np.full(model.nbody, -1)  # the last dof of a body or its ancestors
    parent = np.full(model.nv, -1)
    for i in range(1, model.nbody):
        last[i] = last[model.body_parent[i]]
        for d in np.flatnonzero(body == i):
            parent[d], last[i] = last[i], d
    return body, parent


def lone_free_bodies(model: Model) -> list[tuple[int, int]]:
    """Free bodies whose subtrees have no other joints: each body, and the end of the range of its subtree."""
    jointed = set(model.joint_body.tolist())
    found = []
    for body in model.joint_body[model.joint_type == FREE].tolist():
        end = body + 1
        while end < model.nbody and model.body_parent[end] >= body:  # bodies are stored depth first
            end += 1
        if not jointed.intersection(range(body + 1, end)):
            found.append((body, end))
    return found


WORKSPACE_SIZES = {
    # what the first axis of each workspace array counts; bodies, if it is not listed
    "turn": "joints",
    **dict.fromkeys(("q", "q_start"), "nq"),
    **dict.fromkeys(("drive", "drive_bar"), "nu"),
    **dict.fromkeys(("v", "a", "tau", "actuation", "diagonal", "S", "S_bar", "U", "D_inv", "u"), "nv"),
    **dict.fromkeys(
        ("q_bar", "v_bar", "a_bar", "w", "tau_bar", "diagonal_bar", "v_start", "q_start_bar", "v_start_bar"), "nv"
    ),
    **dict.fromkeys(("stage_v", "stage_a", "stage_v_bar", "stage_a_bar"), "stages"),
    **{"sub_q": "nq of substeps", "sub_v": "nv of substeps"},
}


def workspace_struct(model: Model, precision: str, device: str, slots: int, substeps: int):
    """The kernels' Workspace for ``slots`` worlds at a time, with the states before each of ``substeps`` substeps."""
    struct = specialise(precision, "tree.structs").Workspace
    sizes = {
        "nq": model.nq,
        "nv": model.nv,
        "nu": model.nu,
        "nbody": model.nbody,
        "joints": model.nv,
        "stages": 4 * model.nv,
    }
    sizes |= {"nq of substeps": substeps * model.nq, "nv of substeps": substeps * model.nv}
    return zeros_struct(struct, {n: (sizes[WORKSPACE_SIZES.get(n, "nbody")], slots) for n in struct.vars}, device)


CACHE_LINE = 64  # [bytes]
_Line = wp.types.vector(CACHE_LINE // 8, wp.uint64)


def zeros_struct(
    struct,
    shapes: dict[str, tuple[int, ...]],
    device: str,
    *,
    copies: int = 1,
    what: str = "the workspace",
    remedy: str = "use fewer worlds",
):
    """A struct with arrays of zeros of these shapes, in one block of memory, each aligned to cache lines.

    This needs one allocation instead of some forty, and elements do not straddle cache lines needlessly. Raises an
    error about ``what`` with a ``remedy`` if the memory is too small for ``copies`` such structs.
    """
    offsets, end, strides = {}, 0, []
    for name in shapes:
        offsets[name] = end
        itemsize = wp.types.type_size_in_bytes(struct.vars[name].type.dtype)
        strides.append((shapes[name], itemsize))
        size = itemsize * math.prod(shapes[name])
        end += -(-size // CACHE_LINE) * CACHE_LINE
    require_memory(copies * end, device, what, remedy)
    for shape, itemsize in strides if end > SMALL else ():
        require_strides(shape, itemsize, what, remedy)
    # allocated in cache lines: arrays have at most 2³¹ elements, and thousands of worlds need more bytes than that
    block = wp.zeros(end // CACHE_LINE + 1, dtype=_Line, device=device)
    start = -(-block.ptr // CACHE_LINE) * CACHE_LINE
    result = struct()
    for name in shapes:
        kind = struct.vars[name].type.dtype
        array = wp.array(ptr=start + offsets[name], dtype=kind, shape=shapes[name], device=device)
        array.block = block  # keeps the memory alive
        setattr(result, name, array)
    return result
