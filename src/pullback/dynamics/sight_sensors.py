"""Sensors of sight: range finders, distances between geoms, whether something is inside a site, and where a camera sees
a site.

MuJoCo finds the point that a ray hits, and the nearest points of two geoms, at the poses of the geoms here. The adjoint
keeps these points on their surfaces while bodies move. With n the unit normal of a surface, distances and changes are

    range finder   distance = n · (hit - origin) / (n · ray)      moves by  -n · (δ ray's point - δ surface) / (n · ray)
    distance       along the line between the nearest points      moves by  n · (δ point 2 - δ point 1)

Sizes of geoms are the file's. Each function returns the reading of a sensor, and an adjoint(bar, bars) that adds to the
cotangents of the frames (``bars``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pullback.dynamics.force_sensors import back, forth, is_inside

if TYPE_CHECKING:
    from pullback.dynamics.sensors import Readings

Sensor, Object = mujoco.mjtSensor, mujoco.mjtObj
OF_SIGHT = {Sensor.mjSENS_RANGEFINDER, Sensor.mjSENS_GEOMDIST, Sensor.mjSENS_INSIDESITE, Sensor.mjSENS_CAMPROJECTION}
NEAREST_DEPTH = 1e-15  # the least depth of a point in front of a camera [m]: MuJoCo's mjMINVAL
Reading = tuple[np.ndarray, Callable]


def complaint(m: mujoco.MjModel, i: int) -> str:
    """Why sensor i, of a kind in OF_SIGHT, is not supported; empty if it is."""
    if m.sensor_type[i] == Sensor.mjSENS_RANGEFINDER:
        if m.sensor_objtype[i] != Object.mjOBJ_SITE or m.sensor_dim[i] != 1:
            return "a range finder of a camera, or of more than the distance"
    return ""


def frames(m: mujoco.MjModel, i: int, kinds: dict[int, str]) -> list[tuple[str, int]]:
    """Kind and number of the frames that sensor i needs."""
    kind, number, reference = m.sensor_type[i], int(m.sensor_objid[i]), int(m.sensor_refid[i])
    if kind == Sensor.mjSENS_RANGEFINDER:
        return [("site", number), *(("geom", g) for g in range(m.ngeom))]
    if kind == Sensor.mjSENS_GEOMDIST:
        return [("geom", g) for side in _sides(m, i) for g in side]
    if kind == Sensor.mjSENS_CAMPROJECTION:
        return [("site", number), ("camera", reference)]
    return [(kinds[int(m.sensor_objtype[i])], number), ("site", reference)]


def sight(readings: Readings, i: int) -> Reading:
    """The reading of sensor i, of a kind in OF_SIGHT."""
    makers = {
        Sensor.mjSENS_RANGEFINDER: _range,
        Sensor.mjSENS_GEOMDIST: _distance,
        Sensor.mjSENS_INSIDESITE: _inside,
        Sensor.mjSENS_CAMPROJECTION: _projection,
    }
    return makers[Sensor(int(readings.m.sensor_type[i]))](readings, i)


def _sides(m: mujoco.MjModel, i: int) -> list[list[int]]:
    """The two sets of geoms between which a distance is measured."""
    sides = []
    for kind, number in ((m.sensor_objtype[i], m.sensor_objid[i]), (m.sensor_reftype[i], m.sensor_refid[i])):
        first = int(m.body_geomadr[number]) if kind == Object.mjOBJ_BODY else int(number)
        count = int(m.body_geomnum[number]) if kind == Object.mjOBJ_BODY else 1
        sides.append(list(range(first, first + count)))
    return sides


class _Placed:
    """MuJoCo's data with the poses of geoms in one world at one time."""

    def __init__(self, readings: Readings):
        self.data, self.readings = mujoco.MjData(readings.m), readings
        self.geoms = [n for kind, n in readings.at if kind == "geom"]
        self.rows = [readings.at["geom", g] for g in self.geoms]

    def at(self, place: tuple[int, ...]) -> mujoco.MjData:
        readings = self.readings
        self.data.geom_xpos[self.geoms] = readings.places["geom"][place][self.rows, :3]
        self.data.geom_xmat[self.geoms] = readings.turns["geom"][place][self.rows].reshape(-1, 9)
        return self.data


def _push_geoms(readings: Readings, bars: dict, geoms: np.ndarray, points: np.ndarray, push: np.ndarray) -> None:
    """Adds the cotangents (..., 3) of points on the surfaces of geoms (...), where -1 stands for no geom."""
    for place in map(tuple, np.argwhere(geoms >= 0)):
        k = readings.at["geom", int(geoms[place])]
        arm = points[place] - readings.places["geom"][(*place, k)][:3]
        bars["x", "geom"][(*place, k)] += push[place]
        bars["turn", "geom"][(*place, k)] += np.cross(arm, push[place])


def _range(readings: Readings, i: int) -> Reading:
    m, site, placed = readings.m, int(readings.m.sensor_objid[i]), _Placed(readings)
    x, R, _w, _v = readings.pose(("site", site))
    ray, shape = R[..., 2], x.shape[:-1]
    found, hit, normal = np.full(shape, -1.0), np.full(shape, -1), np.zeros(x.shape)
    for place in np.ndindex(shape):
        geom, n = np.full((1, 1), -1, np.int32), np.zeros((3, 1))
        start, along = x[place].reshape(3, 1), ray[place].reshape(3, 1)
        found[place] = mujoco.mj_ray(m, placed.at(place), start, along, None, True, int(m.site_bodyid[site]), geom, n)
        hit[place], normal[place] = geom[0, 0], n[:, 0]

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        slope = np.sum(normal * ray, axis=-1)
        share = np.divide(bar[..., 0], slope, out=np.zeros(shape), where=(hit >= 0) & (slope != 0))
        pushed = -share[..., None] * normal
        k, reach = readings.at["site", site], found[..., None] * ray
        bars["x", "site"][..., k, :] += pushed
        bars["turn", "site"][..., k, :] += np.cross(reach, pushed)
        _push_geoms(readings, bars, hit, x + reach, -pushed)

    return found[..., None], adjoint


def _distance(readings: Readings, i: int) -> Reading:
    m, placed, shape = readings.m, _Placed(readings), readings.q.shape[:-1]
    most, sides = float(m.sensor_cutoff[i]), _sides(m, i)
    found, geoms, ends = np.full(shape, most), np.full((*shape, 2), -1), np.zeros((*shape, 6))
    for place in np.ndindex(shape):
        data, fromto = placed.at(place), np.zeros((6, 1))
        for one in sides[0]:
            for two in sides[1]:
                apart = mujoco.mj_geomDistance(m, data, one, two, most, fromto)
                if apart < found[place]:
                    found[place], geoms[place], ends[place] = apart, (one, two), fromto[:, 0]

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        first, second = ends[..., :3], ends[..., 3:]
        apart = np.where((geoms[..., :1] >= 0) & (found[..., None] != 0), found[..., None], np.inf)
        push = bar * (second - first) / apart
        _push_geoms(readings, bars, geoms[..., 1], second, push)
        _push_geoms(readings, bars, geoms[..., 0], first, -push)

    return found[..., None], adjoint


def _inside(readings: Readings, i: int) -> Reading:
    """1 if an object is inside a site, else 0; it has no gradient."""
    m = readings.m
    frame, (_kind, site) = frames(m, i, readings.kinds)
    x, (centre, R, _w, _v) = readings.pose(frame)[0], readings.pose(("site", site))
    is_in = is_inside(m, site, back(R, x - centre))
    return is_in[..., None].astype(float), lambda bar, bars: None


def _projection(readings: Readings, i: int) -> Reading:
    """The pixel coordinates of a site in a camera's image: column and row."""
    m, site, camera = readings.m, int(readings.m.sensor_objid[i]), int(readings.m.sensor_refid[i])
    x, (eye, R, _w, _v) = readings.pose(("site", site))[0], readings.pose(("camera", camera))
    size = m.cam_resolution[camera].astype(float)
    focal = np.full(2, size[1] / 2 / np.tan(np.radians(m.cam_fovy[camera]) / 2))
    if m.cam_sensorsize[camera, 1] > 0:  # computed in float32, as in MuJoCo
        focal = m.cam_intrinsic[camera, :2] / m.cam_sensorsize[camera] * size.astype(np.float32)
    focal = focal * (-1, 1)
    y = back(R, x - eye)
    depth = y[..., 2:]
    depth = np.where(np.abs(depth) < NEAREST_DEPTH, np.clip(depth, -NEAREST_DEPTH, NEAREST_DEPTH), depth)

    def adjoint(bar: np.ndarray, bars: dict) -> None:
        flat = focal * bar / depth
        along = -np.sum(flat * y[..., :2], axis=-1, keepdims=True) / depth
        pushed = forth(R, np.concatenate([flat, along], axis=-1))
        bars["x", "site"][..., readings.at["site", site], :] += pushed
        bars["x", "camera"][..., readings.at["camera", camera], :] -= pushed
        bars["turn", "camera"][..., readings.at["camera", camera], :] += np.cross(pushed, x - eye)

    return size / 2 + focal * y[..., :2] / depth, adjoint
