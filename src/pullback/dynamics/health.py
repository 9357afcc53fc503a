"""The outcome of a launch for every world: which step failed, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import warp as wp

from pullback.core.arrays import from_device, to_numpy
from pullback.core.errors import SimulationError
from pullback.core.status import Status
from pullback.core.trees import tree_map
from pullback.kernels.status import (
    BEYOND_LIMIT,
    GRADIENT_NOT_FINITE,
    HEALTHY,
    NETWORK_NOT_FINITE,
    NOT_CONVERGED,
    NOT_FINITE,
    OVERLAP,
    TOO_MANY_CONTACTS,
)
from pullback.model import Model
from pullback.model.unsupported import label

if TYPE_CHECKING:
    from pullback.dynamics.articulated import Articulated

# A state beyond these is a mistake: its numbers lack the digits that a step needs. [m or rad], [m/s or rad/s]
FARTHEST, FASTEST = 1e8, 1e4
# Failures before this step are checked for bodies that overlap at the start. [steps]
SOON = 10


def set_status(
    system: Articulated, status: Status, codes: wp.array, controls: wp.array, states: Any, hold: int
) -> None:
    """Fills in a status with what :func:`check_health` would raise, for every world; messages are made on demand."""

    def describe(world: int, code: int, step: int) -> str:
        return _reason(system, code, world, step, to_numpy(controls)[step // hold, world], states)

    status.set(codes, describe)


def check_health(
    system: Articulated,
    status: wp.array,
    controls: wp.array,
    states: Any = None,
    keep_every: int = 1,
    hold: int = 1,
) -> None:
    """Raises a SimulationError for the world that failed first, if one did.

    states: (rows, worlds, n) from the initial state on, every ``keep_every``-th; None if they are not available
    hold:   number of steps for which each control is held
    """
    health = status.numpy()
    if (health[:, 0] == HEALTHY).all():
        return
    sick = np.flatnonzero(health[:, 0] != HEALTHY)
    world = int(sick[np.argmin(health[sick, 1])])
    code, step = int(health[world, 0]), int(health[world, 1])
    so_far = None
    if states is not None:
        rows = 1 + step // keep_every
        so_far = tree_map(lambda field: from_device(field[:rows]), states)
    message = _reason(system, code, world, step, to_numpy(controls)[step // hold, world], so_far)
    raise SimulationError(message, world=world, step=step, states=so_far, worlds=sick)


def _reason(system: Articulated, code: int, world: int, step: int, control: np.ndarray, so_far: Any) -> str:
    if not np.all(np.isfinite(control)):
        return f"controls are not finite in world {world} at step {step}"
    if code == TOO_MANY_CONTACTS:
        return (
            f"there are more contacts in world {world} at step {step} than the {system.max_contacts} that the "
            f"workspace holds; raise it: contact=pullback.{type(system.contact).__name__}(max_contacts=...)"
        )
    if code == GRADIENT_NOT_FINITE:
        return f"the gradient of world {world} grew beyond {system.dtype} in the backward pass, at step {step}"
    if code == NETWORK_NOT_FINITE:
        return f"the network gives numbers that are not finite in world {world} at step {step}"
    if code <= OVERLAP:
        return f"{_too_near(system, code)} in world {world} at step {step}"
    if code not in (NOT_CONVERGED, NOT_FINITE):
        joint = system.model.joint_names[int(np.searchsorted(system.model.joint_v, code, side="right")) - 1]
        return (
            f"the mass matrix is singular in world {world} at step {step}: nothing that joint {joint!r} moves has "
            "inertia about it; give it mass or armature, and no negative damping"
        )
    if so_far is not None:
        q, v = (to_numpy(field[:1])[0, world] for field in so_far[:2])
        if wrong := _absurd(system.model, q, v) or (step < SOON and _overlap(system, q)):
            return (
                f"the state given is absurd in world {world}: {wrong}; start from another, or, if an earlier step made "
                f"it so, use a smaller timestep (now {system.model.timestep:g} s)"
            )
    if code == NOT_CONVERGED:
        return (
            f"the contact forces of world {world} at step {step} could not be found to the accuracy that a "
            "gradient needs; are masses, stiffnesses or penetrations in it extreme?"
            + (" Try dtype='float64'." if system.dtype == "float32" else "")
        )
    return (
        f"the motion blew up in world {world} at step {step}: it grew beyond all bounds; use a smaller timestep "
        f"(now {system.model.timestep:g} s), the 'implicitfast' integrator, or gentler controls and gains"
    )


def _too_near(system: Articulated, code: int) -> str:
    """The message for shapes, or a joint and its limit, that overlap although the contact model needs them apart."""
    scene, m = system._scene, system.model.mujoco
    if code <= BEYOND_LIMIT:
        return f"{label(m, 'joint', scene.limited[BEYOND_LIMIT - code])} is at or beyond its limit"
    shapes = scene.pair_shapes[OVERLAP - code]
    geoms = " and ".join(label(m, "geom", g) for g in scene.geoms[shapes])
    bodies = " and ".join(repr(system.model.body_names[b]) for b in scene.body[shapes])
    return f"{geoms}, of bodies {bodies}, touch or overlap, but {type(system.contact).__name__} needs them apart"


def _absurd(model: Model, q: np.ndarray, v: np.ndarray) -> str:
    """The first coordinate or velocity that is absurdly large, in words, or ""."""
    for name, values, first, most in (("q", q, model.joint_q, FARTHEST), ("v", v, model.joint_v, FASTEST)):
        wild = ~(np.abs(values) <= most)
        if np.any(wild):
            i = int(np.argmax(wild))
            joint = model.joint_names[int(np.searchsorted(first, i, side="right")) - 1]
            return f"{name} of joint {joint!r} is {values[i]:g}"
    return ""


def _overlap(system: Articulated, q: np.ndarray) -> str:
    """The pair of shapes whose penetration exceeds half of the smaller one, in words, or "", by MuJoCo's collisions."""
    if system.contact is None:
        return ""
    m = system.model.mujoco
    data = mujoco.MjData(m)
    data.qpos[:] = q
    mujoco.mj_kinematics(m, data)
    mujoco.mj_collision(m, data)
    contacts = [(contact.dist, contact.geom) for contact in data.contact[: data.ncon]]
    if not contacts:
        return ""
    depth, geoms = min(contacts, key=lambda one: one[0])
    sizes = m.geom_aabb[geoms, 3:].min(axis=1)
    thin = np.min(sizes[sizes > 0], initial=np.inf)  # a plane has none
    if -depth <= thin:
        return ""
    return f"{' and '.join(label(m, 'geom', g) for g in geoms)} overlap by {-depth:.3g} m"
