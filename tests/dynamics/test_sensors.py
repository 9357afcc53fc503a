"""Sensors of files against MuJoCo's sensordata, and their gradients."""

import numpy as np
import pytest
from sensed import readings_of_mujoco, require_gradients
from trees import random_states

import pullback as pb
from pullback.dynamics import sensors

SENSED = """<mujoco><compiler angle="radian"/><option magnetic="0.1 -0.5 0.3"><flag energy="enable"/></option>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
<site name="world" pos="0.3 0.1 0" euler="0.3 0.1 0.5"/>
<body name="trunk" pos="0 0 1"><freejoint/><geom name="trunk" type="box" size="0.1 0.15 0.05" pos="0.02 0 0.01"
    euler="0.2 0.4 0" mass="1"/>
  <site name="imu" pos="0.05 0.02 0.03" euler="0.4 -0.3 0.2"/><camera name="eye" pos="0.1 0 0" euler="0 1 0.3"/>
  <body name="thigh" pos="0.1 0 0"><joint name="hip" axis="0 1 0.2" stiffness="2" armature="0.1"/>
    <geom name="thigh" type="capsule" fromto="0 0 0 0.2 0 0.1" size="0.03" mass="0.4"/>
    <body name="shin" pos="0.2 0 0.1"><joint name="ankle" type="ball"/>
      <inertial pos="0.1 0.02 0" mass="0.3" quat="0.9 0.1 0.3 0.2" diaginertia="0.003 0.002 0.0015"/>
      <site name="toe" pos="0.2 0 0"/></body></body>
  <body name="arm" pos="0 0.2 0"><joint name="reach" type="slide" axis="0 1 0"/><geom size="0.05" mass="0.2"/></body>
</body></worldbody>
<tendon><fixed name="cord"><joint joint="hip" coef="0.7"/><joint joint="reach" coef="-1.3"/></fixed></tendon>
<actuator><motor tendon="cord"/></actuator>
<sensor>
  <jointpos joint="hip"/><jointpos joint="reach"/><jointvel joint="hip"/><tendonpos tendon="cord"/>
  <tendonvel tendon="cord"/><ballquat joint="ankle"/><ballangvel joint="ankle"/>
  <framepos objtype="body" objname="shin"/><framepos objtype="xbody" objname="shin" reftype="site" refname="imu"/>
  <framepos objtype="geom" objname="thigh" reftype="camera" refname="eye"/>
  <framequat objtype="body" objname="shin"/><framequat objtype="site" objname="toe" reftype="body" refname="trunk"/>
  <framequat objtype="camera" objname="eye" reftype="site" refname="world"/>
  <framexaxis objtype="xbody" objname="thigh"/><frameyaxis objtype="body" objname="shin" reftype="xbody" refname="arm"/>
  <framezaxis objtype="geom" objname="trunk" reftype="site" refname="toe"/>
  <framelinvel objtype="site" objname="toe"/><framelinvel objtype="body" objname="shin" reftype="site" refname="imu"/>
  <framelinvel objtype="geom" objname="thigh" reftype="body" refname="arm"/>
  <frameangvel objtype="xbody" objname="shin"/><frameangvel objtype="site" objname="toe" reftype="site" refname="imu"/>
  <gyro name="gyro" site="imu"/><velocimeter name="speed" site="toe"/><magnetometer name="compass" site="imu"/>
  <gyro name="held" site="imu" cutoff="0.4"/>
  <subtreecom body="trunk"/><subtreecom body="thigh"/><subtreelinvel body="thigh"/><subtreeangmom body="trunk"/>
  <subtreeangmom body="thigh"/><e_potential/><e_kinetic/>
</sensor></mujoco>"""
PARAMS = ("mass", "com", "inertia", "body_pos", "body_quat", "joint_axis", "stiffness", "tendon_coef", "gravity")


@pytest.fixture(scope="module")
def model():
    return pb.load(SENSED)


def states(m, count: int, seed: int = 0):
    return random_states(m, np.random.default_rng(seed), count)


def test_readings_are_those_of_mujoco(model):
    m = model.mujoco
    q, v = states(m, 20)
    system = pb.Articulated(model, None, worlds=20)
    wanted = readings_of_mujoco(m, q, v)
    assert wanted.shape == (20, 86) and np.all(np.abs(wanted).max(axis=0) > 1e-3)
    found = sensors(system, q, v)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-11, atol=1e-12)
    held = m.sensor("held").adr[0]
    assert 0 < np.sum(np.abs(wanted[:, held : held + 3]) == 0.4) < 60
    # Those that are named, in their order; and along a trajectory.
    some = sensors(system, q[None], v[None], names=("speed", "gyro")).value
    columns = [m.sensor(name).adr[0] + np.arange(3) for name in ("speed", "gyro")]
    np.testing.assert_allclose(some[0], wanted[:, np.concatenate(columns)], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("lead", [(), (2,)])
def test_gradients(model, lead):
    """Of all readings at once, along random directions of everything they depend on."""
    m, rng, worlds = model.mujoco, np.random.default_rng(1), 3
    system = pb.Articulated(model, None, worlds=worlds)
    count = int(np.prod(lead, dtype=int)) * worlds
    q, v = (x.reshape(*lead, worlds, -1) for x in states(m, count, 5))
    params = {name: np.tile(system.params[name], (worlds,) + (1,) * system.params[name].ndim) for name in PARAMS[:2]}
    params |= {name: np.array(system.params[name]) for name in PARAMS[2:]}
    require_gradients(system, {"q": q, "v": v}, params, rng)


def test_gradients_without_those_of_parameters(model):
    q, v = states(model.mujoco, 1)
    found = sensors(pb.Articulated(model, None), q, v)
    bar = np.ones(found.value.shape)
    plain = found.pullback(bar, wants_params=False)
    assert not plain.params and np.any(plain.q)
    np.testing.assert_array_equal(plain.q, found.pullback(bar).q)


def test_sites_are_where_parameters_put_them():
    """The gradient of a gyroscope by its own site, which an actuator pushes at too."""
    xml = """<mujoco><worldbody><body name="a"><freejoint/><geom size="0.1"/><site name="s" pos="0.1 0 0"/></body>
      </worldbody><actuator><motor site="s" gear="0 0 1 0 0 0"/></actuator>
      <sensor><velocimeter site="s"/><framepos objtype="site" objname="s"/></sensor></mujoco>"""
    model = pb.load(xml)
    system = pb.Articulated(model, None)
    q, v = states(model.mujoco, 1)
    bar, rng = np.ones((1, 6)), np.random.default_rng(0)
    grads = sensors(system, q, v).pullback(bar)
    for name in ("site_pos", "site_quat"):
        turn, h = rng.normal(size=system.params[name].shape), 1e-6
        ends = [sensors(system, q, v, params={name: system.params[name] + side * turn}).value for side in (h, -h)]
        slope = np.sum(ends[0] - ends[1]) / (2 * h)
        assert np.sum(grads.params[name] * turn) == pytest.approx(slope, rel=1e-7) and abs(slope) > 1e-3


def test_sensors_of_something_else_are_named():
    xml = SENSED.replace("<sensor>", '<sensor><clock name="time"/><clock name="again"/>')
    system = pb.Articulated(pb.load(xml), None)
    q, v = states(system.model.mujoco, 1)
    with pytest.raises(pb.PullbackError, match=r"'time' \(clock\), 'again' \(clock\).*names="):
        sensors(system, q, v)
    with pytest.raises(pb.PullbackError, match="no sensor 'nose'"):
        sensors(system, q, v, names="nose")
    assert sensors(system, q, v, names=("gyro",)).value.shape == (1, 3)
    assert sensors(system, q, v, names=()).value.shape == (1, 0)
    with pytest.raises(pb.PullbackError, match="'q'|q has shape"):
        sensors(system, q[0], v, names=("gyro",))


def test_single_precision(model):
    q, v = states(model.mujoco, 4)
    system = pb.Articulated(model, None, worlds=4, dtype="float32")
    found = sensors(system, q.astype(np.float32), v.astype(np.float32))
    assert found.value.dtype == np.float32
    np.testing.assert_allclose(found.value, readings_of_mujoco(model.mujoco, q, v), atol=1e-4)
    assert found.pullback(np.ones_like(found.value)).q.dtype == np.float32
