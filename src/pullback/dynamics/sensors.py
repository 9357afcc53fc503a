"""The sensors of a file as functions of the state, with their adjoint: MuJoCo's ``sensordata``.

Each is a formula on poses (position x, rotation R), velocities (angular w, of the origin v) and accelerations (angular
α, of the origin a) of frames. These come from ``kinematics``, ``velocity`` and ``acceleration`` and their pullbacks:

    frame*, in a frame of reference     Rᵣᵀ (x - xᵣ),   conj(qᵣ) q,   columns of Rᵣᵀ R
                                        Rᵣᵀ (v - vᵣ - wᵣ × (x - xᵣ)),   Rᵣᵀ (w - wᵣ)
    frame*acc                           a - gravity,   α
    gyro, velocimeter, magnetometer     Rᵀ w,   Rᵀ v,   Rᵀ (the field)
    accelerometer                       Rᵀ (a - gravity)
    subtree*                            sums over the bodies of a tree, with their masses

Sensors of joints, tendons and actuators are in ``actuator_sensors.py``, those of forces in ``force_sensors.py``, and
range finders, distances and cameras in ``sight_sensors.py``.

Joint accelerations are those of ``instant.py``: MuJoCo's, under all forces.

In this module the cotangent of a rotation is a rotation vector in world axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np

from pullback.core.arrays import checked, from_device, to_device, to_numbers, to_numpy
from pullback.core.bars import Named
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.dynamics import actuator_sensors, force_sensors, sight_sensors
from pullback.dynamics.actuator_sensors import OF_COORDINATES, coordinate, frames_of_paths
from pullback.dynamics.algorithms import Evaluation, acceleration, energy, kinematics, velocity
from pullback.dynamics.articulated import Articulated
from pullback.dynamics.felt import Felt
from pullback.dynamics.force_sensors import (
    LIMITS,
    OF_CONTACTS,
    WRENCHES,
    back,
    count_contacts,
    forth,
    limit,
    touch,
    wrench,
)
from pullback.dynamics.instant import Instant, explicit
from pullback.dynamics.rest_inertia import COLUMN, ROW
from pullback.dynamics.sight_sensors import OF_SIGHT, sight
from pullback.model.unsupported import name_of
from pullback.spatial import quat_bar_of_tangent, quat_conj, quat_mul, unit, unit_quat_matrix

Sensor, Object = mujoco.mjtSensor, mujoco.mjtObj
# The kinds of frames of sensors, as ``kinematics`` names them; MuJoCo's "body" is the inertial frame.
KINDS = {
    int(Object.mjOBJ_XBODY): "body",
    int(Object.mjOBJ_BODY): "com",
    int(Object.mjOBJ_GEOM): "geom",
    int(Object.mjOBJ_SITE): "site",
    int(Object.mjOBJ_CAMERA): "camera",
}
POSES = {Sensor.mjSENS_FRAMEPOS, Sensor.mjSENS_FRAMEQUAT}
AXES = {Sensor.mjSENS_FRAMEXAXIS: 0, Sensor.mjSENS_FRAMEYAXIS: 1, Sensor.mjSENS_FRAMEZAXIS: 2}
MOTIONS = {Sensor.mjSENS_FRAMELINVEL, Sensor.mjSENS_FRAMEANGVEL}
PUSHES = {Sensor.mjSENS_FRAMELINACC, Sensor.mjSENS_FRAMEANGACC}
AT_SITES = {
    *(Sensor.mjSENS_GYRO, Sensor.mjSENS_VELOCIMETER, Sensor.mjSENS_MAGNETOMETER),
    Sensor.mjSENS_ACCELEROMETER,
}
OF_FORCES = {*PUSHES, Sensor.mjSENS_ACCELEROMETER, *OF_CONTACTS}  # sensors that need accelerations
OF_TREES = {Sensor.mjSENS_SUBTREECOM, Sensor.mjSENS_SUBTREELINVEL, Sensor.mjSENS_SUBTREEANGMOM}
OF_ENERGY = {Sensor.mjSENS_E_POTENTIAL: 0, Sensor.mjSENS_E_KINETIC: 1}
KNOWN = {
    *map(
        int,
        POSES
        | set(AXES)
        | MOTIONS
        | PUSHES
        | AT_SITES
        | OF_COORDINATES
        | OF_TREES
        | set(OF_ENERGY)
        | OF_CONTACTS
        | OF_SIGHT,
    )
}


class SensorGradients(NamedTuple):
    """Cotangents of the arguments of :func:`sensors`, zero where a reading does not depend on them."""

    q: Any
    v: Any
    act: Any
    control: Any
    params: Named


def sensors(
    system: Articulated,
    q,
    v,
    act=None,
    control=None,
    *,
    names: Sequence[str] | None = None,
    params: Mapping | None = None,
) -> Evaluation:
    """Readings (worlds, n) of the file's sensors, concatenated as in ``sensordata``.

    act, control: (worlds, na) and (worlds, nu), on which accelerations and forces depend; zero if None. Accelerations
                  are those at the beginning of a step under all forces, constraints included: MuJoCo's. Those of
                  ``ContactImpulse`` and ``ContactLongRange`` are means over a step.
    names:        which sensors, in this order; all of the file if None. Sensors that are not supported raise an error
                  that names them. Cutoffs are applied, and noise is not added.

    The pullback gives cotangents q, v, act, control and params.
    """
    check_kind(system, Articulated, "the robot of sensors", "the robot inside, hybrid.system")
    which = _chosen(system, names)
    readings = Readings(system, which, q, v, act, control, params)
    return Evaluation(readings.value(), readings.pullback)


def _chosen(system: Articulated, names: Sequence[str] | None) -> list[int]:
    m = system.model.mujoco
    known = [name_of(m, "sensor", i) for i in range(m.nsensor)]
    if names is None:
        which = list(range(m.nsensor))
    else:
        names = (names,) if isinstance(names, str) else names
        if not isinstance(names, Sequence):
            raise PullbackError(f"names must be a name or several, not {type(names).__name__}")
        for name in names:
            if name not in known:
                raise PullbackError(f"there is no sensor {name!r}; there are {', '.join(known) or 'none'}")
        which = [known.index(name) for name in names]
    wrong = [f"{known[i]!r} ({why})" for i in which if (why := _complaint(system, i))]
    if wrong:
        raise PullbackError(f"sensors {', '.join(wrong)} are not supported; name those that you want with names=...")
    return which


def _complaint(system: Articulated, i: int) -> str:
    m = system.model.mujoco
    kind = int(m.sensor_type[i])
    if kind not in KNOWN:
        return Sensor(kind).name.removeprefix("mjSENS_").lower()
    if m.sensor_delay[i] > 0 or m.sensor_interval[i].any():
        return "with a delay or an interval"
    if kind in OF_COORDINATES:
        return actuator_sensors.complaint(system, kind, int(m.sensor_objid[i]))
    if kind in OF_SIGHT:
        return sight_sensors.complaint(m, i)
    return force_sensors.complaint(system, i) if kind in OF_CONTACTS else ""


class Readings:
    """The sensors of one evaluation: their readings, and the pullback."""

    kinds = KINDS

    def __init__(self, system: Articulated, which: list[int], q, v, act, control, params: Mapping | None):
        self.system, self.model, self.m = system, system.model, system.model.mujoco
        self.which, self.params = which, params
        self.held = system.hold_params(params)
        q = self._numbers(q, "q")
        self.lead = q.shape[:-2]
        self.q, self.v = self._taken(q, "q", "nq", system.nq), self._taken(v, "v", "nv", system.nv)
        self.act = self._taken(act, "act", "na", system.na)
        self.control = self._taken(control, "control", "nu", system.nu)
        self.dims = [int(self.m.sensor_dim[i]) for i in which]
        self.first = np.concatenate([[0], np.cumsum(self.dims)]).astype(int)
        self._find_frames()

    def _numbers(self, x, name: str) -> np.ndarray:
        return to_numpy(x) if self.system._is_here(x) else np.array(to_numbers(x, name))

    def _taken(self, x, name: str, size_name: str, size: int) -> np.ndarray:
        """An argument (worlds, size), or along a trajectory, as NumPy array; zeros if it is None."""
        shape, axes = (*self.lead, self.system.worlds, size), (*("times",) * len(self.lead), "worlds", size_name)
        x = np.zeros(shape) if x is None else self._numbers(x, name)
        return checked(x, shape, self.system.dtype, name, axes).astype(float)

    # --- poses, velocities and accelerations of frames -------------------------------------------------

    def _find_frames(self) -> None:
        """Computes the poses, velocities and accelerations of all frames that the sensors need, by kind and number."""
        m, wanted = self.m, {kind: set() for kind in KINDS.values()}
        self.moves, self.has_energy, self.pushed, self.feels = False, False, False, False
        for i in self.which:
            kind = int(m.sensor_type[i])
            if kind in POSES | set(AXES) | MOTIONS | PUSHES:
                for what, number in self._ends(i):
                    wanted[what].add(number)
            elif kind in AT_SITES:
                wanted["site"].add(int(m.sensor_objid[i]))
            elif kind in OF_TREES:
                wanted["com"] |= set(self.tree(int(m.sensor_objid[i])).tolist())
            elif kind in OF_SIGHT:
                for what, number in sight_sensors.frames(m, i, KINDS):
                    wanted[what].add(number)
            elif kind == Sensor.mjSENS_CONTACT:
                wanted["site"] |= {int(m.sensor_objid[i])} if m.sensor_objtype[i] == Object.mjOBJ_SITE else set()
            elif kind in OF_CONTACTS - set(LIMITS):
                site = int(m.sensor_objid[i])
                wanted["site"].add(site)
                if kind in WRENCHES:
                    wanted["com"] |= set(self.tree(int(m.site_bodyid[site])).tolist())
            self.moves |= kind in {
                *MOTIONS,
                *AT_SITES,
                Sensor.mjSENS_SUBTREELINVEL,
                Sensor.mjSENS_SUBTREEANGMOM,
                *WRENCHES,
            }
            if kind in OF_COORDINATES:
                for what, numbers in frames_of_paths(m, kind, int(m.sensor_objid[i])).items():
                    wanted[what] |= numbers
                    self.moves |= bool(numbers)
            self.has_energy |= kind in OF_ENERGY
            self.pushed |= kind in OF_FORCES
            self.feels |= kind in OF_CONTACTS and self.system.contact is not None
        names = {"body": self.model.body_names, "com": self.model.body_names, "geom": self.model.geoms.names}
        names |= {"site": self.model.sites.names, "camera": self.model.cameras.names}
        self.poses, self.speeds, self.pushes, self.at = {}, {}, {}, {}
        self.instant = self._instant(explicit(self.system)) if self.pushed else None
        self.felt, self.loading = None, self.instant
        if self.instant is not None:
            a = self.instant.value().reshape(self.v.shape)
            if self.feels:
                # Noslip sweeps do not change normal forces and limits, so these are evaluated without them.
                without = explicit(self.system, sweeps=False)
                if without is not self.instant.system:
                    self.loading = self._instant(without)
                self.felt = Felt(without, self.loading.held, *self.loading.given[:2], self.loading.value())
        for kind, numbers in wanted.items():
            ordered = sorted(numbers)
            if not ordered:
                continue
            options = {"of": kind, "names": tuple(names[kind][n] for n in ordered), "params": self.params}
            self.at |= {(kind, n): k for k, n in enumerate(ordered)}
            self.poses[kind] = kinematics(self.system, self.q, **options)
            if self.moves:
                self.speeds[kind] = velocity(self.system, self.q, self.v, **options)
            if self.instant is not None:
                self.pushes[kind] = acceleration(self.system, self.q, self.v, a, **options)
        self.energy = energy(self.system, self.q, self.v, params=self.params) if self.has_energy else None
        self.places = {kind: to_numpy(found.value).astype(float) for kind, found in self.poses.items()}
        self.twists = {kind: to_numpy(found.value).astype(float) for kind, found in self.speeds.items()}
        self.gains = {kind: to_numpy(found.value).astype(float) for kind, found in self.pushes.items()}
        self.turns = {kind: unit_quat_matrix(unit(x[..., 3:])) for kind, x in self.places.items()}

    def _instant(self, system: Articulated) -> Instant:
        times = int(np.prod(self.lead, dtype=int))
        rows = (x.reshape(times, *x.shape[-2:]) for x in (self.q, self.v, self.act, self.control))
        return Instant(system, self.held, *rows)

    def _ends(self, i: int) -> list[tuple[str, int]]:
        """The frame of a sensor, and its reference frame if it has one."""
        m = self.m
        ends = [(int(m.sensor_objtype[i]), int(m.sensor_objid[i]))]
        if m.sensor_refid[i] >= 0:
            ends.append((int(m.sensor_reftype[i]), int(m.sensor_refid[i])))
        return [(KINDS[kind], number) for kind, number in ends]

    def tree(self, body: int) -> np.ndarray:
        """The subtree of a body, which includes the body."""
        carried = np.zeros(self.model.nbody, bool)
        for i in range(self.model.nbody):
            carried[i] = i == body or (i > body and carried[self.model.body_parent[i]])
        return np.flatnonzero(carried)

    def pose(self, frame: tuple[str, int]) -> tuple[np.ndarray, ...]:
        """Position, rotation, angular and linear velocity of a frame; velocities are zero if no sensor needs them."""
        kind, k = frame[0], self.at[frame]
        x, R = self.places[kind][..., k, :3], self.turns[kind][..., k, :, :]
        if kind == "com":  # sensors use the principal axes of the inertia, as in the file
            R = R @ unit_quat_matrix(self.model.fluid_quat[frame[1]])
        if kind not in self.twists:
            return x, R, np.zeros_like(x), np.zeros_like(x)
        return x, R, self.twists[kind][..., k, :3], self.twists[kind][..., k, 3:]

    def gain(self, frame: tuple[str, int]) -> np.ndarray:
        """Acceleration of a frame [angular; linear], the latter minus gravity, as an accelerometer measures it."""
        found = self.gains[frame[0]][..., self.at[frame], :].copy()
        found[..., 3:] -= self.of_worlds("gravity")
        return found

    def _quat(self, frame: tuple[str, int]) -> np.ndarray:
        quat = self.places[frame[0]][..., self.at[frame], 3:]
        return quat_mul(quat, self.model.fluid_quat[frame[1]]) if frame[0] == "com" else quat

    def of_worlds(self, name: str) -> np.ndarray:
        """A parameter with a leading axis of 1 or worlds."""
        value = np.asarray(self.held.values[name], float)
        return value if self.held.per_world[name] else value[None]

    # --- readings ---------------------------------------------------------------------------------------

    def value(self) -> np.ndarray:
        """The readings (worlds, n), with a leading axis of times if q has one."""
        parts = [self._clip(i, self._read(i)) for i in self.which]
        none = np.zeros((*self.q.shape[:-1], 0))
        return self._given_back(np.concatenate([none, *parts], axis=-1))

    def _given_back(self, x: np.ndarray):
        """An array in the form in which the System's other algorithms return it."""
        return from_device(to_device(x.astype(self.system.dtype), self.system.dtype, self.system.device))

    def _cutoff(self, i: int) -> tuple[float, float]:
        """The bounds that a sensor's readings are clamped to."""
        cutoff, kind = float(self.m.sensor_cutoff[i]), int(self.m.sensor_datatype[i])
        if cutoff <= 0 or kind not in (mujoco.mjtDataType.mjDATATYPE_REAL, mujoco.mjtDataType.mjDATATYPE_POSITIVE):
            return -np.inf, np.inf
        return (-cutoff if kind == mujoco.mjtDataType.mjDATATYPE_REAL else -np.inf), cutoff

    def _clip(self, i: int, x: np.ndarray) -> np.ndarray:
        return np.clip(x, *self._cutoff(i))

    def _read(self, i: int) -> np.ndarray:
        m, kind = self.m, int(self.m.sensor_type[i])
        if kind in OF_COORDINATES:
            return self._coordinate(i)[0]
        if kind in OF_ENERGY:
            which = OF_ENERGY[Sensor(kind)]
            return to_numpy(self.energy.value)[..., which : which + 1].astype(float)
        if kind in OF_TREES:
            return self._tree_sums(i)[0]
        if kind in OF_CONTACTS:
            return self._force(i)[0]
        if kind in OF_SIGHT:
            return sight(self, i)[0]
        if kind in AT_SITES:
            _x, R, w, v = self.pose(("site", int(m.sensor_objid[i])))
            if kind == Sensor.mjSENS_ACCELEROMETER:
                return back(R, self.gain(("site", int(m.sensor_objid[i])))[..., 3:])
            seen = {Sensor.mjSENS_GYRO: w, Sensor.mjSENS_VELOCIMETER: v}.get(Sensor(kind), self._field())
            return back(R, seen)
        frame, *reference = self._ends(i)
        if kind in PUSHES:
            return np.split(self.gain(frame), 2, axis=-1)[kind == Sensor.mjSENS_FRAMELINACC]
        x, R, w, v = self.pose(frame)
        if kind == Sensor.mjSENS_FRAMEQUAT:
            quat = self._quat(frame)
            return quat_mul(quat_conj(self._quat(reference[0])), quat) if reference else quat
        xr, Rr, wr, vr = self.pose(reference[0]) if reference else (0.0, np.eye(3), np.zeros(3), 0.0)
        if kind == Sensor.mjSENS_FRAMEPOS:
            return back(Rr, x - xr)
        if kind == Sensor.mjSENS_FRAMELINVEL:
            return back(Rr, v - vr - np.cross(wr, x - xr)) if reference else v
        if kind == Sensor.mjSENS_FRAMEANGVEL:
            return back(Rr, w - wr)
        return back(Rr, R[..., AXES[Sensor(kind)]])

    def _force(self, i: int) -> tuple[np.ndarray, Callable]:
        kind = int(self.m.sensor_type[i])
        others = {Sensor.mjSENS_TOUCH: touch, Sensor.mjSENS_CONTACT: count_contacts}
        return (wrench if kind in WRENCHES else limit if kind in LIMITS else others[Sensor(kind)])(self, i)

    def _field(self) -> np.ndarray:
        return self.m.opt.magnetic + np.zeros((*self.q.shape[:-1], 3))

    def _coordinate(self, i: int) -> tuple[np.ndarray, Callable]:
        return coordinate(self, int(self.m.sensor_type[i]), int(self.m.sensor_objid[i]))

    def add_param(self, bars: dict, name: str, bar: np.ndarray) -> None:
        """Adds the cotangent (..., worlds, *shape) of a parameter, summed over times."""
        bar = bar.reshape(-1, self.system.worlds, *self.of_worlds(name).shape[1:]).sum(axis=0)
        bars["params"][name] = bars["params"].get(name, 0.0) + bar

    def _tree_sums(self, i: int) -> tuple[np.ndarray, Callable]:
        """Of a subtree: its centre of mass, the velocity of that, or the angular momentum about it; and the adjoint."""
        kind, bodies = int(self.m.sensor_type[i]), self.tree(int(self.m.sensor_objid[i]))
        k = [self.at["com", int(b)] for b in bodies]
        mass = self.of_worlds("mass")[:, bodies]
        total = mass.sum(axis=1, keepdims=True)
        share = (mass / total)[..., None]
        x = self.places["com"][..., k, :3]
        centre = np.sum(share * x, axis=-2)
        if kind == Sensor.mjSENS_SUBTREECOM:

            def of_place(bar: np.ndarray, bars: dict) -> None:
                _add(bars["x", "com"], k, share * bar[..., None, :])
                self.add_mass(bars, bodies, np.einsum("...bi,...i->...b", x - centre[..., None, :], bar) / total)

            return centre, of_place
        v = self.twists["com"][..., k, 3:]
        speed = np.sum(share * v, axis=-2)
        if kind == Sensor.mjSENS_SUBTREELINVEL:

            def of_speed(bar: np.ndarray, bars: dict) -> None:
                _add(bars["v", "com"], k, share * bar[..., None, :])
                self.add_mass(bars, bodies, np.einsum("...bi,...i->...b", v - speed[..., None, :], bar) / total)

            return speed, of_speed
        R, w = self.turns["com"][..., k, :, :], self.twists["com"][..., k, :3]
        full = np.zeros((len(mass), len(bodies), 3, 3))
        full[..., ROW, COLUMN] = full[..., COLUMN, ROW] = self.of_worlds("inertia")[:, bodies]
        spin = back(R, w)  # in the body's axes
        own = np.einsum("...bij,...bj->...bi", full, spin)
        arm, slip = x - centre[..., None, :], v - speed[..., None, :]
        weight = mass[..., None]
        found = np.sum(np.einsum("...bij,...bj->...bi", R, own) + weight * np.cross(arm, slip), axis=-2)

        def of_momentum(bar: np.ndarray, bars: dict) -> None:
            bar = bar[..., None, :] + np.zeros_like(x)
            arm_bar, slip_bar = weight * np.cross(slip, bar), weight * np.cross(bar, arm)
            own_bar = back(R, bar)
            spin_bar = np.einsum("...bij,...bj->...bi", full, own_bar)
            # Σ m arm = 0 = Σ m slip, so the cotangents of centre and speed vanish, except for rounding.
            _add(bars["x", "com"], k, arm_bar - share * arm_bar.sum(axis=-2, keepdims=True))
            _add(bars["v", "com"], k, slip_bar - share * slip_bar.sum(axis=-2, keepdims=True))
            _add(bars["w", "com"], k, np.einsum("...bij,...bj->...bi", R, spin_bar))
            turned = np.cross(np.einsum("...bij,...bj->...bi", R, own), bar)
            turned -= np.cross(w, np.einsum("...bij,...bj->...bi", R, spin_bar))
            _add(bars["turn", "com"], k, turned)
            self.add_mass(bars, bodies, np.sum(np.cross(arm, slip) * bar, axis=-1))
            self.add_inertia(bars, bodies, own_bar[..., :, None] * spin[..., None, :])

        return found, of_momentum

    def add_mass(self, bars: dict, bodies: np.ndarray, bar: np.ndarray) -> None:
        mass_bar = np.zeros((*self.q.shape[:-1], self.model.nbody))
        mass_bar[..., bodies] = bar
        self.add_param(bars, "mass", mass_bar)

    def add_inertia(self, bars: dict, bodies: np.ndarray, bar: np.ndarray) -> None:
        """Adds the cotangents of inertia from those of the matrices (..., bodies, 3, 3)."""
        pairs = bar[..., ROW, COLUMN] + np.where(ROW == COLUMN, 0.0, 1.0) * bar[..., COLUMN, ROW]
        inertia_bar = np.zeros((*self.q.shape[:-1], self.model.nbody, 6))
        inertia_bar[..., bodies, :] = pairs
        self.add_param(bars, "inertia", inertia_bar)

    # --- the pullback ---------------------------------------------------------------------------------

    def pullback(self, bar, *, wants_params: bool = True) -> SensorGradients:
        """Cotangents of the arguments, from those of the readings."""
        shape = (*self.q.shape[:-1], int(self.first[-1]))
        bar = to_numpy(bar) if self.system._is_here(bar) else to_numbers(bar, "bar")
        bar = checked(bar, shape, self.system.dtype, "bar", ("times", "worlds", "reading")[-len(shape) :]).astype(float)
        bars: dict[Any, Any] = {"q": np.zeros_like(self.q), "v": np.zeros_like(self.v), "params": {}}
        bars |= {"act": np.zeros(self.act.shape), "control": np.zeros(self.control.shape)}
        for kind, x in self.places.items():
            bars |= {(what, kind): np.zeros((*x.shape[:-1], 3)) for what in ("x", "turn", "w", "v")}
            bars["quat", kind] = np.zeros((*x.shape[:-1], 4))
            bars["gain", kind] = np.zeros((*x.shape[:-1], 6))
        if self.felt is not None:
            bars["felt"] = {name: np.zeros(x.shape) for name, x in self.felt.values.items()}
        energy_bar = np.zeros((*self.q.shape[:-1], 2))
        for number, i in enumerate(self.which):
            own = bar[..., self.first[number] : self.first[number + 1]]
            low, high = self._cutoff(i)
            if np.isfinite(high):
                x = self._read(i)
                own = np.where((x >= low) & (x <= high), own, 0.0)
            kind = int(self.m.sensor_type[i])
            if kind in OF_COORDINATES:
                self._coordinate(i)[1](own, bars)
            elif kind in OF_ENERGY:
                energy_bar[..., OF_ENERGY[Sensor(kind)]] += own[..., 0]
            elif kind in OF_TREES:
                self._tree_sums(i)[1](own, bars)
            elif kind in OF_CONTACTS:
                self._force(i)[1](own, bars)
            elif kind in OF_SIGHT:
                sight(self, i)[1](own, bars)
            elif kind in AT_SITES:
                self._at_site_adjoint(i, own, bars)
            else:
                self._frame_adjoint(i, own, bars)
        return self._through(bars, energy_bar, wants_params)

    def _at_site_adjoint(self, i: int, bar: np.ndarray, bars: dict) -> None:
        frame, kind = ("site", int(self.m.sensor_objid[i])), int(self.m.sensor_type[i])
        k = self.at[frame]
        _x, R, w, v = self.pose(frame)
        turned, seen = forth(R, bar), self._field()
        if kind == Sensor.mjSENS_GYRO:
            seen = w
            _add(bars["w", "site"], k, turned)
        elif kind == Sensor.mjSENS_VELOCIMETER:
            seen = v
            _add(bars["v", "site"], k, turned)
        elif kind == Sensor.mjSENS_ACCELEROMETER:
            seen = self.gain(frame)[..., 3:]
            self._add_gain(bars, frame, np.concatenate([np.zeros_like(turned), turned], axis=-1))
        _add(bars["turn", "site"], k, np.cross(turned, seen))

    def _frame_adjoint(self, i: int, bar: np.ndarray, bars: dict) -> None:
        kind = int(self.m.sensor_type[i])
        frame, *reference = self._ends(i)
        of, k = frame[0], self.at[frame]
        x, R, w, v = self.pose(frame)
        if kind in PUSHES:
            both = [np.zeros_like(bar), bar] if kind == Sensor.mjSENS_FRAMELINACC else [bar, np.zeros_like(bar)]
            self._add_gain(bars, frame, np.concatenate(both, axis=-1))
            return
        if kind == Sensor.mjSENS_FRAMEQUAT:
            quat_bar = bar
            if reference:
                start = self._quat(reference[0])
                quat_bar = quat_mul(start, bar)  # of conj(start) quat
                start_bar = quat_mul(self._quat(frame), quat_conj(bar))
                self._add_quat(bars, reference[0], start_bar)
            self._add_quat(bars, frame, quat_bar)
            return
        if not reference:
            if kind == Sensor.mjSENS_FRAMEPOS:
                _add(bars["x", of], k, bar)
            elif kind == Sensor.mjSENS_FRAMELINVEL:
                _add(bars["v", of], k, bar)
            elif kind == Sensor.mjSENS_FRAMEANGVEL:
                _add(bars["w", of], k, bar)
            else:
                _add(bars["turn", of], k, np.cross(R[..., AXES[Sensor(kind)]], bar))
            return
        to, kr = reference[0][0], self.at[reference[0]]
        xr, Rr, wr, vr = self.pose(reference[0])
        turned = forth(Rr, bar)  # the cotangent of what is seen, in world axes
        if kind == Sensor.mjSENS_FRAMEPOS:
            seen = x - xr
            _add(bars["x", of], k, turned)
            _add(bars["x", to], kr, -turned)
        elif kind == Sensor.mjSENS_FRAMELINVEL:
            seen = v - vr - np.cross(wr, x - xr)
            _add(bars["v", of], k, turned)
            _add(bars["v", to], kr, -turned)
            _add(bars["w", to], kr, -np.cross(x - xr, turned))
            _add(bars["x", of], k, -np.cross(turned, wr))
            _add(bars["x", to], kr, np.cross(turned, wr))
        elif kind == Sensor.mjSENS_FRAMEANGVEL:
            seen = w - wr
            _add(bars["w", of], k, turned)
            _add(bars["w", to], kr, -turned)
        else:
            seen = R[..., AXES[Sensor(kind)]]
            _add(bars["turn", of], k, np.cross(seen, turned))
        _add(bars["turn", to], kr, np.cross(turned, seen))

    def _add_gain(self, bars: dict, frame: tuple[str, int], bar: np.ndarray) -> None:
        _add(bars["gain", frame[0]], self.at[frame], bar)
        self.add_param(bars, "gravity", -bar[..., 3:])

    def _add_quat(self, bars: dict, frame: tuple[str, int], bar: np.ndarray) -> None:
        """Adds the cotangent of a quaternion to that of the quaternion from ``kinematics``."""
        if frame[0] == "com":
            bar = quat_mul(bar, quat_conj(self.model.fluid_quat[frame[1]]))
        _add(bars["quat", frame[0]], self.at[frame], bar)

    def _through(self, bars: dict, energy_bar: np.ndarray, wants_params: bool) -> SensorGradients:
        """From cotangents of frames to those of q, v, act, control and parameters, by the algorithms' pullbacks."""
        options = {"wants_params": wants_params}
        pulled = [self.energy.pullback(energy_bar, **options)] if self.energy is not None else []
        for kind, found in self.poses.items():
            turn = back(self.turns[kind], bars["turn", kind])
            quat_bar = bars["quat", kind] + quat_bar_of_tangent(self.places[kind][..., 3:], turn)
            pose_bar = np.concatenate([bars["x", kind], quat_bar], axis=-1)
            pulled.append(found.pullback(pose_bar.astype(self.system.dtype), **options))
            if kind in self.speeds:
                twist_bar = np.concatenate([bars["w", kind], bars["v", kind]], axis=-1)
                pulled.append(self.speeds[kind].pullback(twist_bar.astype(self.system.dtype), **options))
            if kind in self.pushes:
                pulled.append(self.pushes[kind].pullback(bars["gain", kind].astype(self.system.dtype), **options))
        given_bars = [bars[name] for name in ("q", "v", "act", "control")]
        params = Named()
        if wants_params:
            params = Named({name: np.zeros(np.shape(x), self.system.dtype) for name, x in self.held.values.items()})
            for name, x in bars["params"].items():
                params[name] = (x if self.held.per_world[name] else x.sum(axis=0)).astype(self.system.dtype)
        parts = [([grads.q, grads.v], grads.params) for grads in pulled]
        if self.instant is not None:
            a_bar = sum((to_numpy(grads.x).astype(float) for grads in pulled), np.zeros(self.v.shape))
            if self.felt is not None:
                (q_bar, v_bar, loading_bar), of_params = self.felt.pullback(bars["felt"], **options)
                parts.append(([q_bar, v_bar], of_params))
                if self.loading is self.instant:
                    a_bar = a_bar + loading_bar.reshape(a_bar.shape)
                else:
                    parts.append(self.loading.pullback(loading_bar, **options))
            parts.append(self.instant.pullback(a_bar, **options))
        for found, of_params in parts:
            for k, x in enumerate(found):
                given_bars[k] = given_bars[k] + to_numpy(x).reshape(given_bars[k].shape)
            for name, x in of_params.items():
                params[name] = params[name] + x
        return SensorGradients(*(self._given_back(x) for x in given_bars), params)


def _add(array: np.ndarray, k, x: np.ndarray) -> None:
    """Adds to frames k of (..., n, 3 or 4); no frame may occur twice in k."""
    array[..., k, :] += x
