"""Range finders, distances, sites that something is inside of, and projections, against MuJoCo; and their gradients."""

import mujoco
import numpy as np
import pytest
from oracles import relative_error

import pullback as pb
from pullback.model.tangent import integrate

ROOM = """<mujoco><compiler angle="radian"/>
<asset><mesh name="wedge" vertex="0 0 0 1 0 0 0 1 0 0 0 1 1 1 0.4" scale="0.3 0.3 0.3"/></asset>
<worldbody><geom name="floor" type="plane" size="5 5 1"/><geom name="ghost" size="0.3" pos="0 0 0.5" rgba="1 1 1 0"/>
 <camera name="wall" pos="0 -2 0.5" euler="1.4 0.2 0.3" fovy="50" resolution="320 200"/>
 <site name="zone" type="{zone}" size="0.4 0.3 0.5" pos="0.1 0.1 0.9" euler="0.2 0.3 0.4"/>
 <body name="post" pos="0.6 0.1 0.5" euler="0.3 0.1 0"><joint name="post" axis="0 1 0.2"/>
  <geom name="box" type="box" size="0.1 0.15 0.3" pos="0 0 0.1"/>
  <geom name="wedge" type="mesh" mesh="wedge" pos="0 0.3 0"/></body>
 <body name="head" pos="0 0 1"><freejoint name="head"/><geom name="skull" type="ellipsoid" size="0.1 0.08 0.07"/>
  <site name="down" pos="0.05 0 -0.05" euler="3 0.1 0"/><site name="ahead" pos="0 0.1 0" euler="0 1.7 0.1"/>
  <site name="up" euler="0.1 0 0"/>
  <camera name="eye" pos="0.1 0 0" euler="1.2 0.3 -0.5" focal="0.01 0.012" sensorsize="0.02 0.015"
   resolution="64 48"/>
  <body name="arm" pos="0.1 0 -0.1"><joint name="arm" axis="0 1 0"/>
   <geom name="rod" type="capsule" size="0.03" fromto="0 0 0 0.2 0 -0.1"/>
   <site name="tip" pos="0.2 0 -0.1"/></body></body>
</worldbody>
<sensor>
 <rangefinder name="down" site="down"/><rangefinder name="ahead" site="ahead"/><rangefinder name="up" site="up"/>
 <rangefinder name="short" site="down" cutoff="0.9"/>
 <distance name="boxes" geom1="rod" geom2="box" cutoff="3"/>
 <distance name="bodies" body1="head" body2="post" cutoff="3"/>
 <distance name="floor" geom1="floor" geom2="skull" cutoff="3"/>
 <distance name="far" geom1="rod" geom2="box" cutoff="0.1"/>
 <camprojection name="seen" site="tip" camera="wall"/><camprojection name="own" site="tip" camera="eye"/>
 <insidesite name="in" objtype="xbody" objname="head" site="zone"/>
 <insidesite name="inertia" objtype="body" objname="arm" site="zone"/>
</sensor></mujoco>"""
SMOOTH = ("down", "ahead", "boxes", "bodies", "floor", "seen", "own")


def room(zone: str = "box") -> pb.Model:
    return pb.load(ROOM.format(zone=zone))


def scattered(model: pb.Model, worlds: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    q = np.tile(model.q0, (worlds, 1)) + 0.15 * rng.normal(size=(worlds, model.nq))
    q[:, 4:8] /= np.linalg.norm(q[:, 4:8], axis=1, keepdims=True)
    return q, rng.normal(size=(worlds, model.nv))


def theirs(model: pb.Model, q: np.ndarray) -> np.ndarray:
    data, found = mujoco.MjData(model.mujoco), []
    for row in q:
        data.qpos[:] = row
        mujoco.mj_forward(model.mujoco, data)
        found.append(data.sensordata.copy())
    return np.array(found)


@pytest.mark.parametrize("zone", ["box", "sphere", "capsule", "cylinder", "ellipsoid"])
def test_they_read_what_mujoco_reads(zone):
    model = room(zone)
    system = pb.Articulated(model, contact=None, worlds=60)
    q, v = scattered(model, 60)
    ours, exact = pb.dynamics.sensors(system, q, v).value, theirs(model, q)
    np.testing.assert_allclose(ours, exact, rtol=1e-12, atol=1e-12)
    address = {model.mujoco.sensor(i).name: int(model.mujoco.sensor_adr[i]) for i in range(model.mujoco.nsensor)}
    hits = exact[:, address["ahead"]] >= 0
    assert hits.any() and not hits.all() and np.all(exact[:, address["up"]] == -1)
    for name, value in (("short", 0.9), ("far", 0.1), ("in", 1), ("inertia", 1)):
        at = exact[:, address[name]] == value
        assert at.any() and not at.all(), name


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_differences(name):
    model = room()
    system = pb.Articulated(model, contact=None, worlds=12)
    q, v = scattered(model, 12, seed=3)
    found = pb.dynamics.sensors(system, q, v, names=name)
    bar = np.random.default_rng(1).normal(size=found.value.shape)
    bars = found.pullback(bar)

    def value(q=q, **params) -> np.ndarray:
        return np.sum(bar * pb.dynamics.sensors(system, q, v, names=name, params=params).value, axis=1)

    rng, step = np.random.default_rng(2), 1e-6
    push = rng.normal(size=(12, system.nv))
    moved = [integrate(model, q, sign * step * push) for sign in (1, -1)]
    slope = (value(moved[0]) - value(moved[1])) / (2 * step)
    along = np.array([np.sum(x) for x in bars.q * (moved[0] - moved[1]) / (2 * step)])
    assert np.abs(slope).max() > 1e-2
    # MuJoCo finds nearest points of convex shapes to a tolerance of 1e-6
    assert relative_error(along, slope) < (1e-4 if name in ("boxes", "bodies") else 1e-7)
    for parameter in ("body_pos", "joint_pos") if name != "floor" else ():  # of a body that is free
        where = rng.normal(size=system.params[parameter].shape)
        ends = [value(**{parameter: system.params[parameter] + sign * step * where}) for sign in (1, -1)]
        slope = np.sum(ends[0] - ends[1]) / (2 * step)
        exact = np.sum(bars.params[parameter] * where)
        assert abs(slope) > 1e-3 and abs(exact - slope) < (1e-4 if name in ("boxes", "bodies") else 1e-7) * abs(slope)


def test_what_has_no_gradient_has_none():
    model = room()
    system = pb.Articulated(model, contact=None, worlds=10)
    q, v = scattered(model, 10)
    for name in ("in", "up"):
        bars = pb.dynamics.sensors(system, q, v, names=name).pullback(np.ones((10, 1)))
        assert not np.any(bars.q)


def test_what_is_not_supported_is_named():
    text = ROOM.format(zone="box").replace(
        '<rangefinder name="up" site="up"/>', '<rangefinder name="up" camera="eye"/>'
    )
    system = pb.Articulated(pb.load(text), contact=None)
    with pytest.raises(pb.PullbackError, match="'up' .a range finder of a camera"):
        pb.dynamics.sensors(system, *(x for x in scattered(system.model, 1)))
