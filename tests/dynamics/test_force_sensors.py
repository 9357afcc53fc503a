"""Sensors that depend on forces, against MuJoCo's sensordata, and their gradients."""

import copy

import mujoco
import numpy as np
import pytest
from sensed import readings_of_mujoco, require_gradients
from trees import random_states

import pullback as pb
from pullback.dynamics import sensors

MOVED = """<accelerometer name="imu" site="imu"/><accelerometer name="held" site="imu" cutoff="3"/>
  <framelinacc name="foot" objtype="site" objname="FR_foot"/>
  <framelinacc name="shank" objtype="body" objname="FR_calf"/>
  <frameangacc name="thigh" objtype="xbody" objname="RL_thigh"/><gyro name="gyro" site="imu"/>"""
# The feet have touch sensors of two shapes, of which one misses some contacts; loads of legs and of all; limits.
FELT = """<site name="pad" size="0.03" pos="0 0 -0.25"/><site name="edge" type="box" size="0.008 0.02 0.03"
  pos="-0.003 0 -0.26" euler="0.3 0.2 0"/>"""
LOADED = """<touch name="pad" site="pad"/><touch name="edge" site="edge"/><touch name="nothing" site="imu"/>
  <force name="force" site="pad"/><torque name="torque" site="edge"/><force name="carried" site="imu"/>
  <torque name="limited" site="FL_foot" cutoff="0.5"/>
  <jointlimitpos name="pos" joint="RR_thigh"/><jointlimitvel name="vel" joint="RR_thigh"/>
  <jointlimitfrc name="frc" joint="RR_thigh"/><jointlimitfrc name="free" joint="RL_thigh"/>"""
# Activations of three kinds, tendons, sites, and damping that implicitfast and Euler treat implicitly.
DRIVEN = """<mujoco><option gravity="1 0.5 -9" integrator="implicitfast"/>
<default><geom contype="0" conaffinity="0"/></default>
<worldbody><body name="a" pos="0 0 1"><joint name="a" type="ball" damping="0.3"/><geom size="0.1" pos="0.1 0 0.2"/>
  <body name="b" pos="0.2 0 0.1"><joint name="b" axis="0 1 0.3" damping="0.8" armature="0.02"/>
    <geom type="capsule" fromto="0 0 0 0.2 0.1 0" size="0.04"/><site name="tip" pos="0.2 0.1 0.02" euler="20 30 10"/>
    <body name="c" pos="0.2 0.1 0"><joint name="c" type="slide" axis="1 0 1" stiffness="20"/><geom size="0.05"/></body>
  </body></body></worldbody>
<tendon><fixed name="cord"><joint joint="b" coef="0.7"/><joint joint="c" coef="-1.3"/></fixed></tendon>
<actuator><position name="servo" joint="b" kp="9" kv="0.7" gear="1.5" forcerange="-6 6"/>
  <general name="filtered" joint="c" dyntype="filterexact" dynprm="0.02" gainprm="3" actearly="true"/>
  <general name="pull" tendon="cord" dyntype="integrator" gainprm="4" biastype="affine" biasprm="0.3 -2 -0.5"
    gear="1.2"/>
  <motor name="thrust" site="tip" gear="0.5 1 -0.3 0.1 0.2 0"/></actuator>
<sensor><accelerometer name="tip" site="tip"/><framelinacc objtype="xbody" objname="c"/>
  <frameangacc objtype="body" objname="b"/></sensor></mujoco>"""


def standing(system, worlds: int, rng):
    """Quadrupeds whose feet are in the ground, in motion."""
    home, m = system.model.home, system.model.mujoco
    q, v = np.tile(home.q, (worlds, 1)), 0.5 * rng.normal(size=(worlds, m.nv))
    q[:, 2] -= 0.02
    q[:, 7:] += 0.1 * rng.normal(size=(worlds, m.nq - 7))
    return {"q": q, "v": v, "control": rng.normal(size=(worlds, m.nu))}


@pytest.fixture(scope="module")
def quadruped():
    return pb.load(pb.robots.quadruped().replace("</mujoco>", f"<sensor>{MOVED}</sensor></mujoco>"))


@pytest.fixture(scope="module")
def loaded():
    xml = pb.robots.quadruped().replace("</mujoco>", f"<sensor>{LOADED}</sensor></mujoco>")
    return pb.load(xml.replace('<site name="RL_foot"', FELT + '<site name="RL_foot"'))


def at_a_limit(model, given):
    """The same where one joint is beyond the one or the other end of its range."""
    joint = model.mujoco.joint("RR_thigh")
    side = np.arange(len(given["q"])) % 2
    given["q"][:, joint.qposadr[0]] = np.where(side, joint.range[1] + 0.02, joint.range[0] - 0.03)
    return given


def test_forces_of_contacts_and_limits(loaded):
    worlds = 10
    system = pb.Articulated(loaded, worlds=worlds)
    given = at_a_limit(loaded, standing(system, worlds, np.random.default_rng(0)))
    wanted = readings_of_mujoco(loaded.mujoco, **given)
    found = sensors(system, **given).value
    columns = {name: loaded.mujoco.sensor(name).adr[0] for name in ("pad", "edge", "nothing", "limited", "frc", "free")}
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    touched = {name: np.count_nonzero(wanted[:, column]) for name, column in columns.items()}
    assert touched["pad"] >= 5 and 0 < touched["edge"] < touched["pad"] and touched["frc"] >= 5
    assert touched["nothing"] == touched["free"] == 0
    held = np.abs(wanted[:, columns["limited"] : columns["limited"] + 3]) == 0.5
    assert 0 < np.sum(held) < held.size
    assert np.all(np.abs(wanted[:, loaded.mujoco.sensor("force").adr[0] + np.arange(3)]) > 1e-3)
    # What carries all has nothing that carries it.
    carried = loaded.mujoco.sensor("carried").adr[0] + np.arange(3)
    assert np.abs(found[:, carried]).max() < 1e-9
    # Without contact nothing touches, and forces are those of the bodies alone.
    free = sensors(pb.Articulated(loaded, None, worlds=worlds), **given).value
    bare = copy.copy(loaded.mujoco)
    bare.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    np.testing.assert_allclose(free, readings_of_mujoco(bare, **given), rtol=1e-9, atol=1e-9)
    assert np.all(free[:, [columns["pad"], columns["frc"]]] == 0) and np.abs(free - wanted).max() > 1


@pytest.mark.parametrize("names", [("pad", "edge"), ("force", "torque"), ("pos", "vel", "frc"), ("limited",)])
def test_gradients_of_forces(loaded, names):
    """At states of a trajectory, of which some have a contact at the sensor."""
    worlds, rng = 2, np.random.default_rng(4)
    system = pb.Articulated(loaded, worlds=worlds)
    rows = [at_a_limit(loaded, standing(system, worlds, rng)) for _ in range(2)]
    given = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    params = {name: np.array(system.params[name]) for name in ("gravity", "inertia", "gain", "friction", "solref")}
    params["mass"] = np.tile(system.params["mass"], (worlds, 1))
    if "frc" in names:
        params |= {name: np.array(system.params[name]) for name in ("limit_solref", "joint_range")}
    require_gradients(system, given, params, rng, names=names, rtol=1e-5, least=1e-7)


def test_contacts_are_counted():
    """By what they are between, and inside of which site."""
    counted = (
        """<site name="under" type="box" size="0.3 0.4 0.1"/>""",
        """<contact name="all" num="3"/>
      <contact name="foot" geom1="FR_foot"/><contact name="leg" subtree1="FR_hip" num="2"/>
      <contact name="calf" body1="FR_calf" body2="world" reduce="netforce"/>
      <contact name="selves" subtree1="FR_hip" subtree2="FL_hip"/><contact name="under" site="under" num="6"/>
      <contact name="floor" geom1="floor" subtree2="trunk" num="2" reduce="mindist"/>""",
    )
    xml = pb.robots.quadruped().replace("<worldbody>", f"<worldbody>{counted[0]}", 1)
    model, rng = pb.load(xml.replace("</mujoco>", f"<sensor>{counted[1]}</sensor></mujoco>")), np.random.default_rng(0)
    system = pb.Articulated(model, worlds=12)
    given = standing(system, 12, rng)
    given["q"][:, 2] += 0.05 * rng.random(12)
    given["q"][:, 0] += 0.3 * rng.normal(size=12)
    wanted = readings_of_mujoco(model.mujoco, **given)
    found = sensors(system, **given)
    np.testing.assert_array_equal(found.value, wanted)
    column = {name: model.mujoco.sensor(name).adr[0] for name in ("all", "foot", "leg", "calf", "selves", "under")}
    for name in ("all", "foot", "leg", "calf", "under"):
        assert np.any(wanted[:, column[name]] == 0) and np.any(wanted[:, column[name]] > 0), name
    assert not np.any(wanted[:, column["selves"]]) and np.any(wanted[:, column["under"]] != wanted[:, column["all"]])
    assert not np.any(found.pullback(np.ones(wanted.shape)).q)
    assert not np.any(sensors(pb.Articulated(model, None, worlds=12), **given).value)
    more = xml.replace("</mujoco>", '<sensor><contact name="c" data="found force"/></sensor></mujoco>')
    with pytest.raises(pb.PullbackError, match="'c' .of contacts, that reports more"):
        sensors(pb.Articulated(pb.load(more), worlds=12), **given)


def test_loads_with_sweeps_against_slip():
    """Which change friction, but not the loads that a touch sensor reads."""
    xml = """<mujoco><option noslip_iterations="5" cone="elliptic"/><worldbody><geom type="plane" size="1 1 1"/>
      <body pos="0 0 0.098"><freejoint/><geom size="0.1" pos="0.1 0 0"/><geom size="0.1" pos="-0.1 0 0"/>
        <site name="s" type="box" size="0.2 0.1 0.1" pos="0.2 0 -0.1"/>
        <body pos="0 0 0.1"><joint name="j" axis="0 1 0" range="-10 10"/><geom size="0.05" pos="0 0 0.2"/></body></body>
      </worldbody><sensor><touch site="s"/><jointlimitfrc joint="j"/><framelinacc objtype="site" objname="s"/></sensor>
      </mujoco>"""
    model, rng = pb.load(xml), np.random.default_rng(0)
    system = pb.Articulated(model, worlds=2)
    q, v = np.tile(model.home.q, (2, 1)), 0.3 * rng.normal(size=(2, model.nv))
    q[:, 7] = 0.3
    wanted = readings_of_mujoco(model.mujoco, q, v)
    assert np.all(wanted[:, :2] > 0.1)
    np.testing.assert_allclose(sensors(system, q, v).value, wanted, rtol=1e-8, atol=1e-8)
    params = {name: np.array(system.params[name]) for name in ("mass", "friction", "solref")}
    require_gradients(system, {"q": q, "v": v}, params, rng, rtol=1e-5)


def test_forces_that_have_no_sensor(loaded):
    q, v = loaded.home.q[None], np.zeros((1, loaded.nv))
    for contact in ("compliant", "impulse"):
        with pytest.raises(pb.PullbackError, match=r"'pad' \(with Contact(Compliant|Impulse), whose forces"):
            sensors(pb.Articulated(loaded, contact), q, v, names=("pad",))
    xml = """<mujoco><option {}/><worldbody><geom type="plane" size="1 1 1"/>
      <body name="a" pos="0 0 0.1"><freejoint/><geom size="0.1"/><site name="s"/></body></worldbody>
      <equality><connect body1="a" anchor="0 0 0"/></equality>
      <sensor><force name="force" site="s"/><touch name="touch" site="s"/></sensor></mujoco>"""
    for option, name, why in (("", "force", "connects or welds"), ('noslip_iterations="3"', "force", "noslip")):
        system = pb.Articulated(pb.load(xml.format(option)))
        with pytest.raises(pb.PullbackError, match=rf"'{name}' \(with {why}"):
            sensors(system, *system.state(), names=(name,))


def test_accelerations_under_contact(quadruped):
    """Feet in the ground, joint damping that steps treat implicitly."""
    system = pb.Articulated(quadruped, worlds=6)
    given = standing(system, 6, np.random.default_rng(0))
    wanted = readings_of_mujoco(quadruped.mujoco, **given)
    assert np.all(np.abs(wanted).max(axis=0) > 1e-2) and np.any(np.abs(wanted[:, 3:6]) == 3)
    found = sensors(system, **given)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-9, atol=1e-9)
    # Without contact they are others, and the System's own steps are as before.
    free = sensors(pb.Articulated(quadruped, None, worlds=6), **given)
    assert np.abs(free.value - wanted).max() > 1


def test_gradients_under_contact(quadruped):
    worlds, rng = 2, np.random.default_rng(3)
    system = pb.Articulated(quadruped, worlds=worlds)
    params = {name: np.array(system.params[name]) for name in ("gravity", "com", "damping", "gain", "friction")}
    params["mass"] = np.tile(system.params["mass"], (worlds, 1))
    require_gradients(system, standing(system, worlds, rng), params, rng, rtol=1e-5)


def driven(worlds: int, rng):
    model = pb.load(DRIVEN)
    system = pb.Articulated(model, worlds=worlds)
    q, v = random_states(model.mujoco, rng, worlds)
    return system, {"q": q, "v": v, "act": rng.normal(size=(worlds, 2)), "control": rng.normal(size=(worlds, 4))}


def test_activations_and_implicitfast():
    system, given = driven(8, np.random.default_rng(0))
    wanted = readings_of_mujoco(system.model.mujoco, **given)
    found = sensors(system, **given)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-9, atol=1e-9)
    # Along a trajectory the same.
    along = sensors(system, **{name: np.stack([x, x[::-1]]) for name, x in given.items()})
    np.testing.assert_array_equal(along.value, [found.value, found.value[::-1]])
    np.testing.assert_array_equal(along.pullback(np.ones((2, *wanted.shape))).act.shape, (2, 8, 2))


def test_gradients_by_activations_and_controls():
    rng = np.random.default_rng(1)
    system, given = driven(2, rng)
    params = {
        name: np.array(system.params[name]) for name in ("gear", "gain", "bias", "site_pos", "inertia", "gravity")
    }
    require_gradients(system, given, params, rng)
    # What is not given is zero, and has a cotangent all the same.
    found = sensors(system, given["q"], given["v"])
    zeros = {"act": np.zeros((2, 2)), "control": np.zeros((2, 4))}
    np.testing.assert_array_equal(found.value, sensors(system, given["q"], given["v"], **zeros).value)
    assert np.all(found.pullback(np.ones(found.value.shape)).control[:, [1, 3]] != 0)


def test_bad_input():
    system, given = driven(2, np.random.default_rng(0))
    with pytest.raises(pb.PullbackError, match=r"control has shape \(2, 3\), but \(worlds=2, nu=4\)"):
        sensors(system, given["q"], given["v"], control=np.zeros((2, 3)))
    with pytest.raises(pb.PullbackError, match=r"act has shape \(2,\), but \(worlds=2, na=2\)"):
        sensors(system, given["q"], given["v"], np.zeros(2))
