"""Sensors of forces and contacts: touch, force and torque between a body and its parent, joint limits, and the number
of contacts.

Each function returns the reading of a sensor, and an adjoint(bar, bars) that adds to the cotangents ``bars``. With sums
over the subtree of the sensor's body, and over the contacts of its bodies,

    force    Rᵀ (Σ m (a - gravity) - Σ push)
    torque   Rᵀ (Σ (x - xₛ) × m (a - gravity) + I α + w × I w - Σ (p - xₛ) × push + twist)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pullback.contact import ContactConvex
from pullback.dynamics.articulated import Articulated
from pullback.dynamics.rest_inertia import COLUMN, ROW
from pullback.model.unsupported import EQ_CONNECT, EQ_WELD, acting_equalities, spatial_tendons

if TYPE_CHECKING:
    from pullback.dynamics.sensors import Readings

Sensor = mujoco.mjtSensor
WRENCHES = {Sensor.mjSENS_FORCE, Sensor.mjSENS_TORQUE}
# The index of each reading among the numbers of a limit's side.
LIMITS = {Sensor.mjSENS_JOINTLIMITPOS: 0, Sensor.mjSENS_JOINTLIMITVEL: 1, Sensor.mjSENS_JOINTLIMITFRC: 2}
OF_CONTACTS = {Sensor.mjSENS_TOUCH, Sensor.mjSENS_CONTACT, *WRENCHES, *LIMITS}
FOUND = 1  # the bit of MuJoCo's sensor of contacts that asks for their number


def complaint(system: Articulated, i: int) -> str:
    """Why sensor i, of a kind in OF_CONTACTS, is not supported in a System; empty if it is."""
    contact, scene, m = system.contact, system._scene, system.model.mujoco
    kind = int(m.sensor_type[i])
    if contact is not None and (type(contact) is not ContactConvex or contact.far is not None):
        return f"with {type(contact).__name__}, whose forces sensors cannot read: use ContactConvex"
    if len(system.model.flexes.edge):
        return "with flexes, whose forces have no sensor"
    if kind == Sensor.mjSENS_CONTACT:
        if m.sensor_intprm[i, 0] != FOUND:
            return "of contacts, that reports more than their number"
        if scene is not None and np.any(scene.pair_gap):
            return "of contacts, with gaps in which they are found without a force"
    if kind in WRENCHES:
        if scene is not None and scene.noslip:
            return "with noslip_iterations, whose forces have no sensor"
        if contact is not None and len(acting_equalities(m, EQ_CONNECT, EQ_WELD)):
            return "with connects or welds, whose forces have no sensor"
        if spatial_tendons(m)[system._tendons.ids].any():
            return "with tendons through space, whose forces have no sensor"
    return ""


def touch(readings: Readings, i: int) -> tuple[np.ndarray, Callable]:
    """The sum of the normal forces of a body's contacts whose normals hit the site's volume."""
    m, felt, shape = readings.m, readings.felt, readings.q.shape[:-1]
    if felt is None:
        return np.zeros((*shape, 1)), lambda bar, bars: None
    site = int(m.sensor_objid[i])
    body, frame = m.site_bodyid[site], ("site", site)
    x, R, _w, _v = readings.pose(frame)
    bodies = np.where(felt.geoms >= 0, m.geom_bodyid[felt.geoms], -1)
    of_body = np.any(bodies == body, axis=-1) & (felt.values["load"][..., 0] > 0)
    picked = np.zeros(of_body.shape)
    flat_x, flat_R = x.reshape(*of_body.shape[:2], 3), R.reshape(*of_body.shape[:2], 3, 3)
    for t, world, k in np.argwhere(of_body):
        ray = felt.normal[t, world, k] * (1 if bodies[t, world, k, 0] == body else -1)  # away from the body
        place = flat_x[t, world], flat_R[t, world].ravel(), m.site_size[site], felt.values["pos"][t, world, k], ray
        picked[t, world, k] = mujoco.mju_rayGeom(*place, int(m.site_type[site]), None) >= 0
    picked = picked[..., None]

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        bars["felt"]["load"] += picked * bar.reshape(*of_body.shape[:2], 1, 1)

    return np.sum(picked * felt.values["load"], axis=-2).reshape(*shape, 1), adjoint


def count_contacts(readings: Readings, i: int) -> tuple[np.ndarray, Callable]:
    """The number of matching contacts, in as many entries as there are matches; it has no gradient."""
    m, felt, shape, slots = readings.m, readings.felt, readings.q.shape[:-1], int(readings.m.sensor_dim[i])
    count = np.zeros(shape)
    if felt is not None:
        geoms = felt.geoms.reshape(*shape, *felt.geoms.shape[2:])
        first = _belongs(readings, int(m.sensor_objtype[i]), int(m.sensor_objid[i]), geoms)
        second = _belongs(readings, int(m.sensor_reftype[i]), int(m.sensor_refid[i]), geoms)
        match = (first[..., 0] & second[..., 1]) | (first[..., 1] & second[..., 0])
        count = np.sum(match & (geoms[..., 0] >= 0), axis=-1)
    there = np.arange(slots) < count[..., None]
    return there * count[..., None].astype(float), lambda bar, bars: None


def _belongs(readings: Readings, kind: int, number: int, geoms: np.ndarray) -> np.ndarray:
    """Which geoms of contacts (..., 2) match a sensor's object. A site matches both geoms of a contact inside of it."""
    m = readings.m
    if number < 0:
        return np.ones(geoms.shape, bool)
    if kind == mujoco.mjtObj.mjOBJ_GEOM:
        return geoms == number
    if kind == mujoco.mjtObj.mjOBJ_SITE:
        x, R, _w, _v = readings.pose(("site", number))
        place = readings.felt.values["pos"].reshape(*geoms.shape[:-1], 3)
        inside = is_inside(m, number, back(R[..., None, :, :], place - x[..., None, :]))
        return np.stack([inside, inside], axis=-1)
    bodies = [number] if kind == mujoco.mjtObj.mjOBJ_BODY else readings.tree(number)
    return np.isin(m.geom_bodyid[geoms], bodies)


def is_inside(m: mujoco.MjModel, site: int, y: np.ndarray) -> np.ndarray:
    """Whether points (..., 3) in the frame of a site are inside of it."""
    size, geom = m.site_size[site], mujoco.mjtGeom
    across, beyond = np.linalg.norm(y[..., :2], axis=-1), np.abs(y[..., 2]) - size[1]
    return {
        geom.mjGEOM_SPHERE: np.linalg.norm(y, axis=-1) < size[0],
        geom.mjGEOM_CAPSULE: np.hypot(across, np.maximum(beyond, 0)) < size[0],
        geom.mjGEOM_CYLINDER: (across < size[0]) & (beyond < 0),
        geom.mjGEOM_BOX: np.all(np.abs(y) < size, axis=-1),
        geom.mjGEOM_ELLIPSOID: np.linalg.norm(y / np.where(size > 0, size, 1), axis=-1) < 1,
    }[geom(int(m.site_type[site]))]


def limit(readings: Readings, i: int) -> tuple[np.ndarray, Callable]:
    """Distance beyond the margin, velocity or force of the active side of a joint's limit; zero if none is active."""
    m, felt, shape = readings.m, readings.felt, readings.q.shape[:-1]
    limited = [] if felt is None else list(felt.system._scene.limited)
    joint, which = int(m.sensor_objid[i]), LIMITS[Sensor(int(m.sensor_type[i]))]
    if joint not in limited:
        return np.zeros((*shape, 1)), lambda bar, bars: None
    values = felt.values["limit"][:, :, limited.index(joint)]
    acts = values[..., 0] < 0
    acts[..., 1] &= ~acts[..., 0]

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        bars["felt"]["limit"][:, :, limited.index(joint), :, which] += acts * bar.reshape(*acts.shape[:2], 1)

    return np.sum(acts * values[..., which], axis=-1).reshape(*shape, 1), adjoint


def wrench(readings: Readings, i: int) -> tuple[np.ndarray, Callable]:
    """The force, or torque about the site, that a body's parent exerts on its subtree, in the site's frame."""
    m, site = readings.m, int(readings.m.sensor_objid[i])
    bodies, frame = readings.tree(int(m.site_bodyid[site])), ("site", site)
    turns = int(m.sensor_type[i]) == Sensor.mjSENS_TORQUE
    k = [readings.at["com", int(b)] for b in bodies]
    mass = readings.of_worlds("mass")[:, bodies][..., None]
    here, Rs, _w, _v = readings.pose(frame)
    x, R = readings.places["com"][..., k, :3], readings.turns["com"][..., k, :, :]
    rise = readings.gains["com"][..., k, 3:] - readings.of_worlds("gravity")[:, None]
    pull = mass * rise
    arm = x - here[..., None, :]
    total = np.sum(np.cross(arm, pull) if turns else pull, axis=-2)
    contacts = _contacts(readings, bodies)
    if contacts is not None:
        sign, pos, push, twist = contacts
        lever = pos - here[..., None, :]
        total -= np.sum(sign * (np.cross(lever, push) + twist if turns else push), axis=-2)
    if turns:
        full = np.zeros((len(mass), len(bodies), 3, 3))
        full[..., ROW, COLUMN] = full[..., COLUMN, ROW] = readings.of_worlds("inertia")[:, bodies]
        w, gain = readings.twists["com"][..., k, :3], readings.gains["com"][..., k, :3]
        spin, speeding = back(R, w), back(R, gain)
        momentum, change = forth(full, spin), forth(full, speeding)
        total += np.sum(forth(R, change + np.cross(spin, momentum)), axis=-2)

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        turned = forth(Rs, bar)  # the cotangent of the total
        at = readings.at[frame]
        bars["turn", "site"][..., at, :] += np.cross(turned, total)
        every = turned[..., None, :] + np.zeros_like(x)
        pull_bar = np.cross(every, arm) if turns else every
        rise_bar = mass * pull_bar
        bars["gain", "com"][..., k, 3:] += rise_bar
        readings.add_param(bars, "gravity", -rise_bar.sum(axis=-2))
        readings.add_mass(bars, bodies, np.sum(pull_bar * rise, axis=-1))
        if turns:
            arm_bar = np.cross(pull, every)
            bars["x", "com"][..., k, :] += arm_bar
            bars["x", "site"][..., at, :] -= arm_bar.sum(axis=-2)
            own_bar = back(R, every)
            momentum_bar = np.cross(own_bar, spin)
            spin_bar = np.cross(momentum, own_bar) + forth(full, momentum_bar)
            speeding_bar = forth(full, own_bar)
            bars["w", "com"][..., k, :] += forth(R, spin_bar)
            bars["gain", "com"][..., k, :3] += forth(R, speeding_bar)
            moment = forth(R, change + np.cross(spin, momentum))
            turn_bar = (
                np.cross(moment, every) - np.cross(w, forth(R, spin_bar)) - np.cross(gain, forth(R, speeding_bar))
            )
            bars["turn", "com"][..., k, :] += turn_bar
            outer = momentum_bar[..., :, None] * spin[..., None, :] + own_bar[..., :, None] * speeding[..., None, :]
            readings.add_inertia(bars, bodies, outer)
        if contacts is not None:
            each = -sign * turned[..., None, :]
            felt_bars = bars["felt"]
            shape = felt_bars["force"].shape
            if turns:
                lever_bar = np.cross(push, each)
                felt_bars["pos"] += lever_bar.reshape(shape)
                felt_bars["force"] += np.cross(each, lever).reshape(shape)
                felt_bars["moment"] += each.reshape(shape)
                bars["x", "site"][..., at, :] -= lever_bar.sum(axis=-2)
            else:
                felt_bars["force"] += each.reshape(shape)

    return back(Rs, total), adjoint


def _contacts(readings: Readings, bodies: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """Contacts of ``bodies``: sign (1 if the force acts on them as shape 2, -1 as shape 1, else 0), points, forces and
    moments."""
    felt = readings.felt
    if felt is None:
        return None
    shape = (*readings.q.shape[:-1], felt.geoms.shape[2])
    on = np.isin(np.where(felt.geoms >= 0, readings.m.geom_bodyid[felt.geoms], -1), bodies)
    sign = (on[..., 1].astype(float) - on[..., 0]).reshape(*shape, 1)
    return (sign, *(felt.values[name].reshape(*shape, 3) for name in ("pos", "force", "moment")))


def back(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Rᵀ x"""
    return np.einsum("...ji,...j->...i", R, x)


def forth(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """R x"""
    return np.einsum("...ij,...j->...i", R, x)
