"""Sensors of tendons and actuators against MuJoCo's sensordata, and their gradients. No step is made for them."""

import mujoco
import numpy as np
import pytest
from sensed import readings_of_mujoco, require_gradients
from trees import random_states

import pullback as pb
from pullback.dynamics import sensors

PULLED = """<mujoco><default><geom contype="0" conaffinity="0"/></default>
<worldbody><site name="hook" pos="0.1 0.2 1.3"/>
<body name="a" pos="0 0 1"><joint name="a" type="ball"/><geom size="0.1" pos="0.1 0 0.2"/>
  <site name="eye" pos="0.1 0 0.1"/>
  <body name="b" pos="0.2 0 0.1"><joint name="b" axis="0 1 0.3" actuatorfrcrange="-9 9"/>
    <geom type="capsule" fromto="0 0 0 0.2 0.1 0" size="0.04"/><site name="tip" pos="0.2 0.1 0.02"/>
    <body name="c" pos="0.2 0.1 0"><joint name="c" type="slide" axis="1 0 1"/><geom size="0.05"/>
      <site name="end" pos="0 0.1 0"/></body>
  </body></body></worldbody>
<tendon><fixed name="cord"><joint joint="b" coef="0.7"/><joint joint="c" coef="-1.3"/></fixed>
  <spatial name="rope"><site site="hook"/><site site="eye"/><site site="tip"/><pulley divisor="2.5"/>
    <site site="hook"/><site site="end"/></spatial>
  <spatial name="idle"><site site="eye"/><site site="end"/></spatial></tendon>
<actuator><position name="servo" joint="b" kp="9" kv="0.7" gear="1.5" forcerange="-6 6" ctrlrange="-1 1"/>
  <general name="filtered" joint="c" dyntype="filter" dynprm="0.02" gainprm="3" gear="-2"/>
  <general name="pull" tendon="cord" gaintype="affine" gainprm="4 0.5 -0.3" biastype="affine" biasprm="0.3 -2 -0.5"
    gear="1.2"/>
  <general name="winch" tendon="rope" dyntype="integrator" gainprm="4" biastype="affine" biasprm="0 -3 -1" gear="0.6"/>
  <motor name="other" tendon="rope"/></actuator>
<sensor>
  <tendonpos name="rope" tendon="rope"/><tendonvel name="rope vel" tendon="rope"/><tendonpos tendon="idle"/>
  <tendonvel name="idle vel" tendon="idle"/>
  <actuatorpos actuator="servo"/><actuatorvel actuator="servo"/><actuatorfrc name="servo" actuator="servo"/>
  <actuatorpos actuator="filtered"/><actuatorfrc actuator="filtered"/><actuatorvel actuator="pull"/>
  <actuatorpos actuator="pull"/><actuatorfrc actuator="pull"/><actuatorpos actuator="winch"/>
  <actuatorvel actuator="winch"/><actuatorfrc actuator="winch"/><tendonactuatorfrc tendon="rope"/>
  <tendonactuatorfrc tendon="cord"/></sensor></mujoco>"""
# What all actuators do along joints, without one at a path through space.
JOINTED = PULLED.replace('<motor name="other" tendon="rope"/>', "").replace(
    'tendon="rope" dyntype', 'tendon="cord" dyntype'
)
JOINTED = (
    JOINTED.split("<sensor>")[0]
    + """<sensor><jointactuatorfrc name="b" joint="b"/>
  <jointactuatorfrc name="c" joint="c"/><tendonactuatorfrc tendon="cord"/></sensor></mujoco>"""
)
# Rotations, and a thruster.
TURNED = """<mujoco><worldbody><body pos="0 0 1"><freejoint name="free"/><geom size="0.1" pos="0.1 0 0.2"/>
  <site name="nozzle" pos="0.1 0.2 0" euler="20 30 40"/>
  <body pos="0.3 0 0"><joint name="ball" type="ball"/><geom size="0.1" pos="0.2 0 0"/></body></body></worldbody>
<actuator><general name="twist" joint="ball" gear="1 -0.5 0.3" gainprm="2" biastype="affine" biasprm="0.1 0.7 -0.2"/>
  <general name="push" joint="free" gear="1 2 3 0.1 0.2 0.3" biastype="affine" biasprm="0 0 -0.4"/>
  <general name="thrust" site="nozzle" gear="0.2 -1 0.4 0.1 0.5 0.3" gaintype="affine" gainprm="2 0 0.3"/></actuator>
<sensor><actuatorpos actuator="twist"/><actuatorvel actuator="twist"/><actuatorfrc actuator="twist"/>
  <actuatorvel actuator="push"/><actuatorfrc actuator="push"/><actuatorvel actuator="thrust"/>
  <actuatorfrc name="thrust" actuator="thrust"/></sensor></mujoco>"""
# Muscles, and servos on rotations, whose errors are wrapped.
MUSCLED = """<mujoco><worldbody><body pos="0 0 1"><joint name="hip" axis="0 1 0.2"/><geom size="0.1" pos="0.1 0 0.2"/>
  <body pos="0.3 0 0"><joint name="ball" type="ball"/><geom size="0.1" pos="0.2 0 0"/></body></body></worldbody>
<tendon><fixed name="cord"><joint joint="hip" coef="0.7"/></fixed></tendon>
<actuator><muscle name="flexor" joint="hip" gear="-1" scale="60" lengthrange="-2.5 2.5" timeconst="0.01 0.04"/>
  <muscle name="long" tendon="cord" force="7" vmax="3" fvmax="1.4" lengthrange="-1.6 1.5" forcerange="-5 0"/>
  <general name="direct" joint="hip" gaintype="muscle" gainprm="0.75 1.05 5 200 0.5 1.6 1.5 1.3 1.2" biastype="affine"
   biasprm="0.1 -2 -0.3" lengthrange="-3 3"/>
  <general name="stiff" joint="hip" gaintype="affine" gainprm="1 0.2 0.1" biastype="muscle"
   biasprm="0.75 1.05 5 200 0.5 1.6 1.5 1.3 1.2" lengthrange="-3 0.5" gear="1.3"/>
  <position name="turn" joint="ball" kp="3" kv="0.1" gear="0.3 0.4 0.2"/></actuator>
<sensor><actuatorfrc name="flexor" actuator="flexor"/><actuatorpos actuator="long"/>
  <actuatorfrc name="long" actuator="long"/><actuatorfrc actuator="direct"/><actuatorfrc actuator="stiff"/>
  <actuatorfrc name="turn" actuator="turn"/><jointactuatorfrc joint="hip"/></sensor></mujoco>"""
PARAMS = ("gear", "gain", "bias", "site_pos", "tendon_coef", "body_pos", "joint_axis")


def pulled(xml: str, worlds: int, seed: int):
    model, rng = pb.load(xml), np.random.default_rng(seed)
    q, v = random_states(model.mujoco, rng, worlds)
    given = {"q": q, "v": v, "control": rng.normal(size=(worlds, model.nu))}
    if model.na:
        given["act"] = rng.normal(size=(worlds, model.na))
    return pb.Articulated(model, worlds=worlds), given, rng


@pytest.mark.parametrize("xml", [PULLED, JOINTED, TURNED, MUSCLED])
def test_readings_are_those_of_mujoco(xml):
    system, given, _ = pulled(xml, 20, 0)
    wanted = readings_of_mujoco(system.model.mujoco, **given)
    found = sensors(system, **given).value
    assert np.all(np.abs(wanted).max(axis=0) > 1e-2)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    name, most = {PULLED: ("servo", 6), JOINTED: ("b", 9), MUSCLED: ("long", 5)}.get(xml, ("thrust", None))
    assert most is None or 0 < np.sum(np.abs(wanted[:, system.model.mujoco.sensor(name).adr[0]]) == most) < 20


def test_servos_and_muscles_are_beyond_their_kinks():
    """That some errors are wrapped, and that muscles are on several pieces of their curves."""
    system, given, _ = pulled(MUSCLED, 20, 0)
    m = system.model.mujoco
    turn, lengths = m.actuator("turn").id, []
    data = mujoco.MjData(m)
    for q, v, u, act in zip(given["q"], given["v"], given["control"], given["act"], strict=True):
        data.qpos[:], data.qvel[:], data.ctrl[:], data.act[:] = q, v, u, act
        mujoco.mj_forward(m, data)
        lengths.append(data.actuator_length.copy())
    error = given["control"][:, turn] - np.array(lengths)[:, turn]
    half = np.pi * np.linalg.norm(m.actuator_gear[turn, :3])
    assert np.any(np.abs(error) > half) and np.any(np.abs(error) < half)


@pytest.mark.parametrize(("xml", "lead"), [(PULLED, ()), (JOINTED, (2,)), (TURNED, ()), (MUSCLED, (2,))])
def test_gradients(xml, lead):
    count = int(np.prod(lead, dtype=int)) * 3
    _, given, rng = pulled(xml, count, 1)
    system = pb.Articulated(pb.load(xml), worlds=3)
    given = {name: x.reshape(*lead, 3, -1) for name, x in given.items()}
    turned = ("gear", "gain", "bias", "site_pos", "site_quat")
    muscles = ("gear", "gain", "bias", "muscle_gain", "muscle_bias", "tendon_coef")
    names = {PULLED: PARAMS, TURNED: turned, MUSCLED: muscles}.get(xml, ("gear", "gain", "bias", "tendon_coef"))
    params = {name: np.array(system.params[name]) for name in names}
    params["gear"] = np.tile(params["gear"], (3, 1, 1))
    require_gradients(system, given, params, rng)


def test_what_has_no_sensor():
    xml = """<mujoco><worldbody>
      <body><joint name="j" axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/><site name="s" pos="0.1 0 0"/>
        <body><joint name="b" type="ball"/><geom size="0.1" pos="0.2 0 0"/></body></body></worldbody>
      <actuator><motor name="thrust" site="s" gear="0 0 1 0 0 0"/><motor name="turned" jointinparent="b" gear="1 0 0"/>
        <general name="early" joint="j" dyntype="integrator" actearly="true"/></actuator>
      <sensor><actuatorfrc name="turned" actuator="turned"/><actuatorfrc name="early" actuator="early"/>
        <jointactuatorfrc name="all" joint="j"/><actuatorpos name="place" actuator="early"/></sensor></mujoco>"""
    system = pb.Articulated(pb.load(xml))
    q, v, _act = system.state()
    wanted = ("'turned' .*in the parent's frame", "'early' .*drive before the step", "'all' .where an actuator pushes")
    with pytest.raises(pb.PullbackError, match=".*".join(wanted)):
        sensors(system, q, v)
    q[:, 0] = 0.3
    assert sensors(system, q, v, names="place").value == 0.3
