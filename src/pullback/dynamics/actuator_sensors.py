"""Sensors of joints, tendons and actuators: lengths, velocities and forces along them.

Each function returns the reading (..., 1), or more entries for ball joints, and an adjoint(bar, bars) that adds to
``bars``: the cotangents of q, v, activations, controls, frames and parameters. An actuator's length and velocity are
its gear times those of its joint, tendon or site. Its force is (g₀ + g₁ length + g₂ velocity) drive + b₀ + b₁ length
+ b₂ velocity, clamped to its range. A muscle adds a gain and a bias of its own, and a servo on a ball joint wraps its
drive around the circle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import warp as wp

from pullback.dynamics.articulated import Articulated
from pullback.dynamics.force_sensors import back, forth
from pullback.dynamics.ways import CYLINDER, Geoms, find_ways
from pullback.kernels import specialise
from pullback.model.actuators import wrapped_servos
from pullback.model.model import BALL, FREE, HINGE, SLIDE
from pullback.model.tendons import Span, spans_of
from pullback.model.unsupported import (
    BIAS_AFFINE,
    BIAS_MUSCLE,
    BIAS_NONE,
    GAIN_AFFINE,
    GAIN_FIXED,
    GAIN_MUSCLE,
    JOINT_IN_PARENT,
    JOINT_TRANSMISSIONS,
    SITE_TRANSMISSION,
    TENDON_TRANSMISSION,
    pushes_site,
    spatial_tendons,
)
from pullback.spatial import log_jacobian, quat_bar_of_tangent, quat_log, unit, unit_adjoint

if TYPE_CHECKING:
    from pullback.dynamics.sensors import Readings

Sensor = mujoco.mjtSensor
Reading = tuple[np.ndarray, Callable]
TENDONS = {Sensor.mjSENS_TENDONPOS, Sensor.mjSENS_TENDONVEL}
JOINTS = {
    *(Sensor.mjSENS_JOINTPOS, Sensor.mjSENS_JOINTVEL, Sensor.mjSENS_BALLQUAT, Sensor.mjSENS_BALLANGVEL),
}
ACTUATORS = {Sensor.mjSENS_ACTUATORPOS, Sensor.mjSENS_ACTUATORVEL, Sensor.mjSENS_ACTUATORFRC}
TOTALS = {Sensor.mjSENS_JOINTACTFRC, Sensor.mjSENS_TENDONACTFRC}
OF_COORDINATES = TENDONS | JOINTS | ACTUATORS | TOTALS
SHORTEST = 1e-15  # a line shorter than this [m] has MuJoCo's direction, x


def complaint(system: Articulated, kind: int, number: int) -> str:
    """Why a sensor of a kind in OF_COORDINATES is not supported on this element; empty if it is."""
    m = system.model.mujoco
    if kind in TENDONS:
        return ""
    if kind in ACTUATORS:
        return _complaint_on_actuator(m, number, forces=kind == Sensor.mjSENS_ACTUATORFRC)
    if kind == Sensor.mjSENS_TENDONACTFRC:
        return next(filter(None, (_complaint_on_actuator(m, k) for k in pulling(m, number))), "")
    if kind == Sensor.mjSENS_JOINTACTFRC:
        if m.jnt_actgravcomp[number]:
            return "with gravity compensation that counts as actuator force"
        for k in range(m.nactuator):
            at_joint = m.actuator_trntype[k] in JOINT_TRANSMISSIONS
            if (not at_joint or m.actuator_trnid[k, 0] == number) and (why := _complaint_on_actuator(m, k)):
                return why
            if not at_joint and m.actuator_trntype[k] != TENDON_TRANSMISSION:
                return "where an actuator pushes at a site"
            if m.actuator_trntype[k] == TENDON_TRANSMISSION and spatial_tendons(m)[m.actuator_trnid[k, 0]]:
                return "where an actuator pulls at a tendon through space"
    return ""


def _complaint_on_actuator(m: mujoco.MjModel, k: int, *, forces: bool = True) -> str:
    """Why an actuator's length and velocity (with ``forces`` also its force) are not supported; empty if they are."""
    number = int(m.actuator_trnid[k, 0])
    if m.actuator_trntype[k] == TENDON_TRANSMISSION:
        if forces and m.tendon_actfrclimited[number]:
            return "of a tendon that limits the force of its actuators"
    elif pushes_site(m, k):
        if m.actuator_trnid[k, 1] >= 0:
            return "of an actuator on a site relative to another"
    elif m.actuator_trntype[k] not in JOINT_TRANSMISSIONS:
        return "of an actuator on something else than a joint, tendon or site"
    elif m.jnt_type[number] in (BALL, FREE):
        if m.actuator_trntype[k] == JOINT_IN_PARENT:
            return "of an actuator on a ball or free joint, with its gear in the parent's frame"
    if not forces:
        return ""
    plain = m.actuator_gaintype[k] in (GAIN_FIXED, GAIN_AFFINE, GAIN_MUSCLE)
    plain = plain and m.actuator_biastype[k] in (BIAS_NONE, BIAS_AFFINE, BIAS_MUSCLE)
    single = m.actuator_actnum[k] <= 1 and m.actuator_ctrlnum[k] == m.actuator_outnum[k] == 1
    if not plain or not single or m.actuator_plugin[k] >= 0 or m.actuator_actearly[k] or m.actuator_delay[k] > 0:
        return "of an actuator whose force is not gain · drive + bias, of the drive before the step"
    return ""


def pulling(m: mujoco.MjModel, tendon: int) -> list[int]:
    """The actuators that act on a tendon."""
    return np.flatnonzero((m.actuator_trntype == TENDON_TRANSMISSION) & (m.actuator_trnid[:, 0] == tendon)).tolist()


def frames_of_paths(m: mujoco.MjModel, kind: int, number: int) -> dict[str, set[int]]:
    """The sites and geoms whose poses a sensor needs: the site of an actuator, or those on the path of a tendon."""
    if kind in ACTUATORS and pushes_site(m, number):
        return {"site": {int(m.actuator_trnid[number, 0])}}
    if kind in TENDONS | {Sensor.mjSENS_TENDONACTFRC}:
        tendons = [number]
    else:
        acts = kind in ACTUATORS and m.actuator_trntype[number] == TENDON_TRANSMISSION
        tendons = [int(m.actuator_trnid[number, 0])] if acts else []
    spans = [span for t in tendons if spatial_tendons(m)[t] for span in spans_of(m, t)]
    sites = {site for span in spans for site in (*span.sites, span.side) if site >= 0}
    return {"site": sites, "geom": {span.geom for span in spans if span.geom >= 0}}


# --- lengths and velocities ------------------------------------------------------------------------


def coordinate(readings: Readings, kind: int, number: int) -> Reading:
    """The reading of a sensor of this kind at the joint, tendon or actuator ``number``."""
    if kind in TENDONS:
        return tendon(readings, number, of_q=kind == Sensor.mjSENS_TENDONPOS)
    if kind == Sensor.mjSENS_ACTUATORFRC:
        return force(readings, number)
    if kind in ACTUATORS:
        return travel(readings, number, of_q=kind == Sensor.mjSENS_ACTUATORPOS)
    if kind == Sensor.mjSENS_TENDONACTFRC:
        return _sum(readings, [force(readings, k) for k in pulling(readings.m, number)])
    if kind == Sensor.mjSENS_JOINTACTFRC:
        return joint_force(readings, number)
    x, adjoint = joint(readings, number, of_q=kind in (Sensor.mjSENS_JOINTPOS, Sensor.mjSENS_BALLQUAT))
    if kind != Sensor.mjSENS_BALLQUAT:
        return x, adjoint
    return unit(x), lambda bar, bars: adjoint(unit_adjoint(x, bar), bars)


def joint(readings: Readings, number: int, *, of_q: bool) -> Reading:
    """The coordinates of a joint (of_q), or its velocities."""
    m, name = readings.m, "q" if of_q else "v"
    first = int((m.jnt_qposadr if of_q else m.jnt_dofadr)[number])
    sizes = {HINGE: (1, 1), SLIDE: (1, 1), BALL: (4, 3), FREE: (7, 6)}
    size = sizes[int(m.jnt_type[number])][0 if of_q else 1]
    at = slice(first, first + size)
    return getattr(readings, name)[..., at], lambda bar, bars: np.add.at(bars[name], (..., at), bar)


def tendon(readings: Readings, number: int, *, of_q: bool) -> Reading:
    """The length of a tendon (of_q), or its velocity."""
    m = readings.m
    if spatial_tendons(m)[number]:
        return _sum(readings, [_span(readings, span, of_q=of_q) for span in spans_of(m, number)])
    terms, coef = _terms(readings, number)
    joints = m.wrap_objid[terms]
    at, name = (m.jnt_qposadr if of_q else m.jnt_dofadr)[joints], "q" if of_q else "v"
    x = getattr(readings, name)[..., at]

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        np.add.at(bars[name], (..., at), bar * coef)
        _add_terms(readings, bars, terms, bar * x)

    return np.sum(coef * x, axis=-1, keepdims=True), adjoint


def _terms(readings: Readings, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices of a fixed tendon's terms, and its coefficients (1 or worlds, terms)."""
    m = readings.m
    terms = np.arange(m.tendon_adr[number], m.tendon_adr[number] + m.tendon_num[number])
    if "tendon_coef" in readings.held.values:
        return terms, readings.of_worlds("tendon_coef")[:, terms]
    return terms, m.wrap_prm[None, terms]


def _add_terms(readings: Readings, bars: dict, terms: np.ndarray, bar: np.ndarray) -> None:
    """Adds the cotangent of a fixed tendon's coefficients, if they are a parameter."""
    if "tendon_coef" in readings.held.values:
        terms_bar = np.zeros((*readings.q.shape[:-1], readings.m.nwrap))
        terms_bar[..., terms] = bar
        readings.add_param(bars, "tendon_coef", terms_bar)


def _span(readings: Readings, span: Span, *, of_q: bool) -> Reading:
    """The length of a segment of a spatial tendon (of_q), or its rate, times the segment's weight."""
    straight, along = _line(readings, span, of_q=of_q)
    if span.geom < 0:
        return straight, along
    there, bent, around = _way(readings, span, of_q=of_q)

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        along(np.where(there, 0.0, bar), bars)
        around(np.where(there, bar, 0.0), bars)

    return np.where(there, bent, straight), adjoint


def _line(readings: Readings, span: Span, *, of_q: bool) -> Reading:
    """The length or rate of the straight line between a segment's two sites."""
    (x0, _R0, _w0, v0), (x1, _R1, _w1, v1) = (readings.pose(("site", site)) for site in span.sites)
    ends, share = [readings.at["site", site] for site in span.sites], span.weight
    apart = x1 - x0
    length = np.linalg.norm(apart, axis=-1, keepdims=True)
    long = length >= SHORTEST
    u = np.where(long, apart / np.where(long, length, 1.0), (1.0, 0.0, 0.0))
    rate = np.sum(u * (v1 - v0), axis=-1, keepdims=True)

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        pull = share * bar * u
        x_bar = pull
        if not of_q:
            x_bar = share * bar * np.where(long, (v1 - v0 - rate * u) / np.where(long, length, 1.0), 0.0)
        for side, at in zip((-1.0, 1.0), ends, strict=True):
            bars["x", "site"][..., at, :] += side * x_bar
            if not of_q:
                bars["v", "site"][..., at, :] += side * pull

    return share * (length if of_q else rate), adjoint


def _way(readings: Readings, span: Span, *, of_q: bool) -> tuple[np.ndarray, np.ndarray, Callable]:
    """Whether a segment wraps around its geom; the length or rate of the wrapped path; and the adjoint."""
    m, geom, lead = readings.m, span.geom, readings.q.shape[:-1]
    centre, axes, spin, drift = readings.pose(("geom", geom))
    ends, at = [readings.at["site", site] for site in span.sites], readings.at["geom", geom]
    x, v = (np.stack([readings.pose(("site", site))[part] for site in span.sites]) for part in (0, 3))
    v = v - drift - np.cross(spin, x - centre)
    side = readings.pose(("site", span.side))[0] if span.side >= 0 else centre
    held = "geom_size" in readings.held.values
    radius = (readings.of_worlds("geom_size") if held else m.geom_size[None])[:, geom, 0] + np.zeros(lead)
    rows = lambda x, *width: x.reshape(-1, 1, *width)  # noqa: E731
    where = Geoms(
        rows(centre, 3),
        rows(axes, 3, 3),
        rows(radius),
        is_cylinder=np.array([m.geom_type[geom] == CYLINDER]),
        side=rows(side, 3),
        has_side=np.array([span.side >= 0]),
    )
    ways = find_ways(where, *(y.reshape(2, -1, 1, 3) for y in (x, v)))
    back = lambda found, *width: found.reshape(*lead, *width)  # noqa: E731
    spun = rows(spin, 3)

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        scale = span.weight * bar
        x_bars, turn, by_radius = (
            (ways.forces, -ways.moment, ways.by_radius) if of_q else (ways.moves(spun), ways.turn, ways.by_radius_rate)
        )
        for end, x_bar, force in zip(ends, x_bars, ways.forces, strict=True):
            moved = [("x", x_bar)] if of_q else [("x", x_bar), ("v", force)]
            for name, one in moved:
                bars[name, "site"][..., end, :] += scale * back(one, 3)
                bars[name, "geom"][..., at, :] -= scale * back(one, 3)
        bars["turn", "geom"][..., at, :] += scale * back(turn, 3)
        if not of_q:
            bars["w", "geom"][..., at, :] -= scale * back(ways.moment, 3)
        if held:
            size_bar = np.zeros((*lead, *m.geom_size.shape))
            size_bar[..., geom, 0] = (scale * back(by_radius, 1))[..., 0]
            readings.add_param(bars, "geom_size", size_bar)

    return back(ways.there, 1), span.weight * back(ways.length if of_q else ways.rate, 1), adjoint


# --- actuators -------------------------------------------------------------------------------------


def control_of(readings: Readings, k: int) -> int:
    """The index of an actuator's first control, which is also its row in the parameters of actuators."""
    return int(readings.m.actuator_ctrladr[k])


def travel(readings: Readings, k: int, *, of_q: bool) -> Reading:
    """The length of an actuator (of_q), or its velocity."""
    x, passed = _moved(readings, k, of_q=of_q)
    row = control_of(readings, k)
    gear = readings.of_worlds("gear")[:, row, : x.shape[-1]]

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        passed(gear * bar, bars)
        _add_entries(readings, bars, "gear", row, x * bar)

    return np.sum(gear * x, axis=-1, keepdims=True), adjoint


def _moved(readings: Readings, k: int, *, of_q: bool) -> Reading:
    """The 1, 3 or 6 numbers that the gear of an actuator multiplies. Free joints and sites have length zero."""
    m, number, kind = readings.m, int(readings.m.actuator_trnid[k, 0]), readings.m.actuator_trntype[k]
    if kind == TENDON_TRANSMISSION:
        return tendon(readings, number, of_q=of_q)
    if of_q and (kind == SITE_TRANSMISSION or m.jnt_type[number] == FREE):
        return np.zeros((*readings.q.shape[:-1], 6)), lambda bar, bars: None
    if kind == SITE_TRANSMISSION:
        return _site_velocity(readings, number)
    x, passed = joint(readings, number, of_q=of_q)
    if not of_q or m.jnt_type[number] != BALL:
        return x, passed
    rotation = quat_log(unit(x))

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        turn_bar = np.einsum("...ji,...j->...i", log_jacobian(rotation), bar)
        passed(quat_bar_of_tangent(x, turn_bar), bars)

    return rotation, adjoint


def _site_velocity(readings: Readings, site: int) -> Reading:
    """The velocity of a site: linear, then angular, in the site's axes."""
    _x, R, w, v = readings.pose(("site", site))
    at = readings.at["site", site]

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        v_bar, w_bar = forth(R, bar[..., :3]), forth(R, bar[..., 3:])
        bars["v", "site"][..., at, :] += v_bar
        bars["w", "site"][..., at, :] += w_bar
        bars["turn", "site"][..., at, :] += np.cross(v_bar, v) + np.cross(w_bar, w)

    return np.concatenate([back(R, v), back(R, w)], axis=-1), adjoint


def force(readings: Readings, k: int) -> Reading:
    """The force of an actuator."""
    model = readings.model
    length, through_length = travel(readings, k, of_q=True)
    velocity, through_velocity = travel(readings, k, of_q=False)
    row = control_of(readings, k)
    drive, driven = _drive(readings, row)
    gain, bias = (readings.of_worlds(name)[:, row, :3] for name in ("gain", "bias"))
    turns, part, period = _turns(readings, row, drive - length)
    drive = drive - period * turns
    felt = np.concatenate([np.ones_like(length), length, velocity], axis=-1)
    free = np.sum((gain * drive + bias) * felt, axis=-1, keepdims=True)
    contracted, contraction_adjoint = _contraction(readings, row, np.concatenate([felt[..., 1:], drive], axis=-1))
    free = free + contracted
    low, high = model.force_range[row] if model.force_limited[row] else (-np.inf, np.inf)

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        bar = np.where((free >= low) & (free <= high), bar, 0.0)
        more = contraction_adjoint(bar, bars)
        felt_bar = (gain * drive + bias) * bar
        through_length(felt_bar[..., 1:2] + more[..., :1], bars)
        through_velocity(felt_bar[..., 2:] + more[..., 1:2], bars)
        drive_bar = np.sum(gain * felt, axis=-1, keepdims=True) * bar + more[..., 2:]
        driven(drive_bar, bars)
        if period.any():
            _add_entries(readings, bars, "gear", row, -drive_bar * turns * (2 * np.pi) ** 2 * part / period)
        _add_entries(readings, bars, "bias", row, felt * bar)
        _add_entries(readings, bars, "gain", row, felt * bar * drive)

    return np.clip(free, low, high), adjoint


def _turns(readings: Readings, row: int, error: np.ndarray) -> tuple[np.ndarray, ...]:
    """For a servo on a ball joint: whole turns in its error, its gear, and the length of a turn. Zero for others."""
    part = readings.of_worlds("gear")[:, row, :3]
    if wrapped_servos(readings.model)[row] != 1:
        return np.zeros(1), part, np.zeros(1)
    period = 2 * np.pi * np.linalg.norm(part, axis=-1, keepdims=True)
    return np.copysign(np.floor(np.abs(error / period) + 0.5), error), part, period


def _contraction(readings: Readings, row: int, felt: np.ndarray) -> tuple[np.ndarray, Callable]:
    """The force of a muscle at length, velocity and drive (..., 3), and a function that returns their cotangents.

    Both are zero for other actuators.
    """
    own = readings.model.muscles
    if row not in own.ids:
        return np.zeros((*felt.shape[:-1], 1)), lambda bar, bars: np.zeros(felt.shape)
    kernels = specialise("float64", "tree.muscle_forces")
    of_law = {"gain": own.pulls[row], "bias": own.resists[row]}
    shape = (*felt.shape[:-1], 9)

    def array(x: np.ndarray, kind) -> wp.array:
        return wp.array(np.ascontiguousarray(x, dtype=np.float64), dtype=kind, device="cpu")

    def law(name: str) -> np.ndarray:
        return readings.of_worlds(f"muscle_{name}")[:, row] + np.zeros(shape) if of_law[name] else np.zeros(shape)

    laws = [array(law(name).reshape(-1, 9), kernels.vec9) for name in of_law]
    switches = [kernels.vec3(*own.limits[row], own.acc0[row]), *map(int, of_law.values())]
    given = [*laws, *switches, array(felt.reshape(-1, 3), kernels.vec3)]
    force = wp.zeros(len(given[-1]), dtype=wp.float64, device="cpu")
    wp.launch(kernels.muscle_forces, len(force), [*given, force], device="cpu")

    def adjoint(bar: np.ndarray, bars: dict) -> np.ndarray:
        felt_bar, gain_bar, bias_bar = (wp.zeros_like(x) for x in (given[-1], *laws))
        arrays = [array(bar.reshape(-1), wp.float64), felt_bar, gain_bar, bias_bar]
        wp.launch(kernels.muscle_forces_adjoint, len(force), [*given, *arrays], device="cpu")
        for name, law_bar in (("gain", gain_bar), ("bias", bias_bar)):
            if of_law[name]:
                _add_entries(readings, bars, f"muscle_{name}", row, law_bar.numpy().reshape(shape))
        return felt_bar.numpy().reshape(felt.shape)

    return force.numpy().reshape(*felt.shape[:-1], 1), adjoint


def _drive(readings: Readings, k: int) -> Reading:
    """The drive of an actuator: its activation, or its clamped control if it has none."""
    model = readings.model
    if own := model.activations.of(k):
        at = slice(own[0], own[0] + 1)
        return readings.act[..., at], lambda bar, bars: np.add.at(bars["act"], (..., at), bar)
    x = readings.control[..., k : k + 1]
    low, high = model.control_range[k] if model.control_limited[k] else (-np.inf, np.inf)

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        bars["control"][..., k : k + 1] += np.where((x >= low) & (x <= high), bar, 0.0)

    return np.clip(x, low, high), adjoint


def joint_force(readings: Readings, number: int) -> Reading:
    """The sum of all actuators' forces along a hinge or slide, clamped to the joint's range."""
    m, model = readings.m, readings.model
    parts = []
    for k in range(m.nactuator):
        at_joint = m.actuator_trntype[k] in JOINT_TRANSMISSIONS
        if at_joint and m.actuator_trnid[k, 0] == number:
            parts.append(_moment(readings, k, np.ones((1, 1)), None))
        elif not at_joint:
            terms, coef = _terms(readings, int(m.actuator_trnid[k, 0]))
            for i in np.flatnonzero(m.wrap_objid[terms] == number):
                parts.append(_moment(readings, k, coef[:, i : i + 1], terms[i : i + 1]))
    total, adjoint = _sum(readings, parts)
    low, high = model.joint_force_range[number] if model.joint_force_limited[number] else (-np.inf, np.inf)
    inside = (total >= low) & (total <= high)
    return np.clip(total, low, high), lambda bar, bars: adjoint(np.where(inside, bar, 0.0), bars)


def _moment(readings: Readings, k: int, coef: np.ndarray, term: np.ndarray | None) -> Reading:
    """The force of actuator k times its gear and the coefficient of a joint in its tendon, the one of ``term``."""
    f, passed = force(readings, k)
    row = control_of(readings, k)
    gear = readings.of_worlds("gear")[:, row, :1]

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        passed(gear * coef * bar, bars)
        _add_entries(readings, bars, "gear", row, coef * f * bar)
        if term is not None:
            _add_terms(readings, bars, term, gear * f * bar)

    return gear * coef * f, adjoint


def _add_entries(readings: Readings, bars: dict, name: str, k: int, bar: np.ndarray) -> None:
    """Adds a cotangent to the first entries of actuator k in a parameter (nu, entries)."""
    whole = np.zeros((*readings.q.shape[:-1], *readings.of_worlds(name).shape[1:]))
    whole[..., k, : bar.shape[-1]] = bar
    readings.add_param(bars, name, whole)


def _sum(readings: Readings, parts: list[Reading]) -> Reading:
    total = sum((x for x, _ in parts), np.zeros((*readings.q.shape[:-1], 1)))

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        for _, passed in parts:
            passed(bar, bars)

    return total, adjoint
