"""Actuators between sites, servos on rotations, implicit feedback of velocity and limits of tendons' forces: their
motion against MuJoCo, and gradients."""

import mujoco
import numpy as np
import pytest
from activated import mujoco_motion, random_actuators, random_motion_error
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from oracles import NoOracle, precise, relative_error
from trees import random_states

import pullback as pb
from pullback.rollout.check import AGREES

INTEGRATORS = ("Euler", "implicitfast", "RK4")
each_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)

# A drifting body with an arm, of which every actuator is one that needs more than a joint.
MACHINE = """<mujoco><option timestep="0.0005" integrator="{integrator}"/>
<worldbody><site name="post" pos="0.3 0.1 0.4"/>
<body name="base" pos="0 0 1"><freejoint name="base"/><geom size="0.1" mass="1"/>
 <site name="rim" pos="0.1 0.2 0.05" euler="20 30 40"/>
 <body name="a" pos="0 0 0.3"><joint name="a1" axis="0 1 0" damping="0.1"/><joint name="a2" axis="1 0.3 0"/>
  <geom size="0.1" mass="1"/>
  <body name="b" pos="0.3 0 0"><joint name="b1" type="ball"/><geom type="capsule" size="0.05 0.1" mass="0.7"/>
   <site name="tip" pos="0 0.1 0.05" euler="10 -30 4"/></body></body>
 <body name="d" pos="-0.3 0 0"><joint name="d1" axis="0 1 0" damping="0.2"/><geom size="0.08" mass="0.4"/>
  <site name="slider" pos="0 0.1 0.3" euler="3 4 5"/></body></body></worldbody>
<tendon><fixed name="held" actuatorfrcrange="-1 0.8"><joint joint="a1" coef="1"/><joint joint="d1" coef="0.5"/></fixed>
 <fixed name="free"><joint joint="a2" coef="1"/></fixed></tendon>
<actuator>
 <general name="jet" site="tip" gear="0.1 0.2 0.3 0.04 0.05 0.06" biastype="affine" biasprm="0.1 -2 -0.05"/>
 <general name="place" site="tip" refsite="rim" gear="1 2 3 0 0 0" biastype="affine" biasprm="0 -0.5 -0.05"/>
 <general name="turn" site="tip" refsite="rim" gear="0 0 0 0.4 0.5 0.6" biastype="affine" biasprm="0 -0.4 -0.05"
   gainprm="0.3"/>
 <general name="bounded" site="tip" refsite="rim" gear="1 -2 0.5 0.4 0.5 0.6" forcerange="-1 1"/>
 <general name="crank" cranksite="tip" slidersite="slider" cranklength="1.9" gear="1.3" biastype="affine"
   biasprm="0 -0.4 -0.05"/>
 <general name="short" cranksite="tip" slidersite="slider" cranklength="0.01" gear="1.3"/>
 <general name="anchored" cranksite="tip" slidersite="post" cranklength="2.4" gear="0.7"/>
 <general name="against" site="tip" refsite="post" gear="1 2 3 0.1 0 0" biastype="affine" biasprm="0 -0.5 -0.05"/>
 <general name="ball" joint="b1" gear="1 2 3 0 0 0" biastype="affine" biasprm="0 -0.1 -0.05"/>
 <general name="parent" jointinparent="b1" gear="0.1 0.2 0.3 0 0 0" biastype="affine" biasprm="0 -0.1 -0.05"/>
 <position name="servo" joint="b1" kp="3" gear="0.5 1 0.25 0 0 0"/>
 <position name="between" site="tip" refsite="rim" kp="2" gear="0 0 0 0.3 -0.4 0.5"/>
 <motor name="pull" tendon="held" gear="2"/>
 <general name="pull too" tendon="held" forcerange="-0.2 0.2" biastype="affine" biasprm="0 -0.4 -0.05"/>
 <general name="alone" tendon="free" biastype="affine" biasprm="0 -0.4 -0.05" dyntype="filter" dynprm="0.1"/>
</actuator></mujoco>"""
WILD = ("turn", "servo", "between", "pull", "pull too", "alone")  # with controls beyond a turn, and beyond limits


def machine(integrator: str = "Euler") -> pb.Model:
    return pb.load(MACHINE.format(integrator=integrator))


def on_the_floor(integrator: str, worlds: int):
    """The same robot, 2 mm deep in a floor: states that differ by their velocities, and controls (worlds, nu)."""
    floor = '<geom type="plane" size="5 5 1" pos="0 0 0.902"/><site name="post"'
    model = pb.load(MACHINE.format(integrator=integrator).replace('<site name="post"', floor))
    system = pb.Articulated(model, worlds=worlds)
    _state, controls = scattered(system)
    v = 0.1 * np.random.default_rng(0).normal(size=(worlds, system.nv))
    return system, system.state(np.tile(model.q0, (worlds, 1)), v, np.full((worlds, 1), 0.2)), 0.3 * controls[0]


def scattered(system: pb.Articulated, seed: int = 0):
    """States about that of the file, and controls (20, worlds, nu)."""
    rng, m, worlds = np.random.default_rng(seed), system.model.mujoco, system.worlds
    q, _v = random_states(m, rng, worlds)
    wild = np.isin(system.model.actuator_names, WILD)
    controls = np.where(wild, 6.0, 0.2) * rng.normal(size=(20, worlds, system.nu))
    return system.state(q, 0.6 * rng.normal(size=(worlds, system.nv)), rng.normal(size=(worlds, system.na))), controls


# --- the motion ---------------------------------------------------------------------------------------


@each_integrator
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_random_robots_move_as_in_mujoco(integrator, seed):
    m = random_actuators(seed, integrator=integrator)
    try:
        assert random_motion_error(m, seed, act=(0, 1), control=(0, 4)) < 1e-9
    except NoOracle:
        reject()


@each_integrator
def test_a_machine_moves_as_in_mujoco(integrator):
    model = machine(integrator)
    system = pb.Articulated(model, contact=None, worlds=20)
    state, controls = scattered(system)
    controls = np.repeat(controls, 50, axis=0)
    theirs = mujoco_motion(model.mujoco, *state, controls)
    run = pb.rollout(system, state, controls)
    # the motion is chaotic: rounding grows by some thousand times in half a second
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours[:11], exact[:11]) < 1e-12 and relative_error(ours, exact) < 1e-9


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_a_machine_on_the_floor_moves_as_in_mujoco(integrator):
    system, state, controls = on_the_floor(integrator, 6)
    theirs = mujoco_motion(precise(system.model.mujoco), *state, controls[None], free=False)
    free = mujoco_motion(system.model.mujoco, *state, controls[None])
    assert np.all(np.abs(free[1][1] - theirs[1][1]).max(axis=1) > 1e-3)  # the floor pushes in every world
    ours = system.step(state, controls)
    for x, before, exact in zip(ours, state, theirs, strict=True):
        assert relative_error(x - before, exact[1] - before) < 1e-10


def test_what_limits_and_wraps_is_reached():
    """That tendons' limits hold in some worlds and not in others, and that servos turn the other way round."""
    model = machine()
    system = pb.Articulated(model, contact=None, worlds=20)
    state, controls = scattered(system)
    m = model.mujoco
    data, held, turned = mujoco.MjData(m), 0, 0
    for world in range(20):
        data.qpos[:], data.qvel[:], data.act[:] = (x[world] for x in state)
        data.ctrl[:] = controls[0, world]
        mujoco.mj_forward(m, data)
        held += abs(data.ctrl[12] + data.ctrl[13]) > 1.5
        turned += abs(data.ctrl[11] - data.actuator_length[11]) > np.pi * np.linalg.norm(m.actuator_gear[11])
    assert 0 < held < 20 and 0 < turned < 20
    assert system._flavour.actuators and not pb.Articulated(pb.load(pb.robots.arm()), None)._flavour.actuators


TURRET = """<mujoco><option timestep="0.002" integrator="{integrator}"/><worldbody><site name="post"/>
<body pos="0 0 1"><joint name="b" type="ball" damping="0.2"/>
 <geom type="box" size="0.1 0.2 0.3" mass="1" pos="0.05 0 0"/>
 <site name="tip" pos="0 0 0.1" euler="10 20 30"/></body></worldbody><actuator>
 <position joint="b" kp="3" gear="0.5 1 0.25 0 0 0" timeconst="0.02"/>
 <general joint="b" gear="0.3 0 0.2 0 0 0" gainprm="2" biastype="affine" biasprm="0 -2 -0.1" dyntype="filter"
   dynprm="0.05" actearly="true"/>
 <general site="tip" refsite="post" gear="0 0 0 0.3 -0.4 0.5" gainprm="2" biastype="affine" biasprm="0.1 -2 0"
   dyntype="filterexact" dynprm="0.03" actrange="-3 3"/>
 <general joint="b" gear="1 0 0 0 0 0" gainprm="2" biastype="affine" biasprm="0 -1 0" dyntype="filter" dynprm="0.05"/>
</actuator></mujoco>"""


def turret(integrator: str, worlds: int = 1):
    """Servos on rotations whose controls are filtered, and a spring whose control is; controls of several turns."""
    system = pb.Articulated(pb.load(TURRET.format(integrator=integrator)), contact=None, worlds=worlds)
    rng = np.random.default_rng(0)
    q, v = random_states(system.model.mujoco, rng, worlds)
    return system, system.state(q, v, 4.0 * rng.normal(size=(worlds, 4))), 6.0 * rng.normal(size=(10, worlds, 4))


@each_integrator
def test_filtered_controls_of_servos_go_the_short_way_round(integrator):
    system, state, controls = turret(integrator, 20)
    controls = np.repeat(controls, 20, axis=0)
    theirs = mujoco_motion(system.model.mujoco, *state, controls)
    run = pb.rollout(system, state, controls)
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours[:11], exact[:11]) < 1e-12 and relative_error(ours, exact) < 1e-9


WHEEL = """<mujoco><option timestep="0.002" integrator="implicitfast"/><worldbody><site name="post" pos="0.5 0.5 0"/>
<body pos="0 0 1"><joint name="b" type="ball"/><geom type="box" size="0.1 0.2 0.3" mass="1"/>
 <site name="rim" pos="0.1 0.1 0.1"/></body></worldbody>
<tendon><spatial name="t" armature="{armature}" damping="3"><site site="rim"/><site site="post"/></spatial></tendon>
<actuator><velocity joint="b" kv="0.5" gear="0.3 0 0.2 0 0 0"/></actuator></mujoco>"""


def test_joints_of_a_body_with_a_diagonal_inertia_are_coupled_by_dampers():
    """Unlike in MuJoCo, until something such as the armature of a tendon makes it look at this body's couplings."""
    system = pb.Articulated(pb.load(WHEEL.format(armature=0)), contact=None, worlds=5)
    q, v = random_states(system.model.mujoco, np.random.default_rng(0), 5)
    control = np.random.default_rng(1).normal(size=(5, 1))
    ours = system.step(system.state(q, v), control)
    left_out, coupled = (
        mujoco_motion(m, q, v, np.zeros((5, 0)), control[None])[1][1]
        for m in (system.model.mujoco, mujoco.MjModel.from_xml_string(WHEEL.format(armature=1e-14)))
    )
    assert relative_error(ours.v, coupled) < 1e-12 and relative_error(ours.v, left_out) > 1e-5


@each_integrator
def test_gradients_of_filtered_controls_of_servos(integrator):
    system, state, controls = turret(integrator)
    report = pb.check_system(system, state, controls[:2], rollout_steps=2)
    for name in ("q", "v", "act", "control", "gear", "gain", "bias", "activation", "site_quat"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


# --- gradients ----------------------------------------------------------------------------------------


@each_integrator
def test_gradients(integrator):
    system = pb.Articulated(machine(integrator), contact=None, worlds=3)
    state, controls = scattered(system, seed=1)
    report = pb.check_system(system, state, controls[:2], rollout_steps=2)
    for name in ("q", "v", "act", "control", "gear", "gain", "bias", "crank", "site_pos", "site_quat", "tendon_coef"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_gradients_on_the_floor(integrator):
    system, state, controls = on_the_floor(integrator, 1)
    report = pb.check_system(system, state, controls)
    for name in ("q", "v", "act", "control", "gear", "gain", "bias", "crank", "site_pos", "site_quat", "solref"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


@pytest.mark.parametrize("seed", [1, 2, 3, 5])
def test_gradients_of_implicit_feedback_on_random_robots(seed):
    model = pb.load(random_actuators(seed, integrator="implicitfast", limits=False, timestep=0.01))
    system = pb.Articulated(model, contact=None)
    rng = np.random.default_rng(seed)
    q, v = random_states(model.mujoco, rng, 1)
    state = system.state(q, v, 0.2 * rng.normal(size=(1, model.na)))
    report = pb.check_system(system, state, rng.normal(size=(1, model.nu)))
    for name in ("q", "v", "gear", "gain", "bias", "site_pos", "site_quat"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


# --- gravity compensation, and what is not linear ---------------------------------------------------------


LIMB = """<mujoco><compiler angle="radian"/><option timestep="0.002" integrator="{integrator}">{flag}</option>
<worldbody>
<body pos="0 0 1" gravcomp="0.8"><joint name="a" axis="0 1 0.2" damping="0.3" {a}/>
 <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0.02 0" mass="1"/>
 <body pos="0.3 0 0" gravcomp="1.1"><joint name="b" axis="0 1 0" pos="0.01 0.02 0.03" damping="0.2" {b}/>
  <geom type="capsule" size="0.04" fromto="0 0 0 0.3 0 0.02" mass="0.7"/>
  <body pos="0.3 0 0" gravcomp="0.9"><joint name="c" type="ball" damping="0.1" {c}/>
   <geom type="capsule" size="0.03" fromto="0 0 0 0.1 0 0.02" mass="0.2"/></body></body></body></worldbody>
<tendon><fixed name="t" actuatorfrcrange="-1 1" stiffness="3 0.5 0.4" springlength="-0.1 0.1" damping="0.2 0.1 0.05">
 <joint joint="a" coef="0.7"/><joint joint="b" coef="-0.5"/></fixed></tendon>
<actuator><motor joint="a" gear="2" damping="0.05 0.02 0.01"/><motor joint="c" gear="1 2 3 0 0 0"/>
 <general joint="b" gear="2" biastype="affine" biasprm="0 -1 -0.3"/>
 <motor tendon="t" gear="2" damping="0.05 0.02 0.01"/></actuator></mujoco>"""
COUNTS = 'actuatorgravcomp="true"'
HELD = {"a": f'{COUNTS} actuatorfrcrange="-1.5 1.2"', "b": f'{COUNTS} actuatorfrcrange="-0.5 0.6"', "c": COUNTS}
LIMBS = {
    "held": {**HELD, "flag": ""},
    "off": {**HELD, "c": "", "flag": '<flag actuation="disable"/>'},
    "free": {"a": COUNTS, "b": "", "c": "", "flag": ""},
}


def limb(integrator: str, kind: str):
    system = pb.Articulated(pb.load(LIMB.format(integrator=integrator, **LIMBS[kind])), contact=None, worlds=10)
    rng = np.random.default_rng(0)
    q, v = random_states(system.model.mujoco, rng, 10)
    return system, system.state(q, v), rng.normal(size=(10, 10, system.nu))


@each_integrator
@pytest.mark.parametrize("kind", LIMBS)
def test_a_limb_that_is_held_up_moves_as_in_mujoco(integrator, kind):
    system, state, controls = limb(integrator, kind)
    controls = np.repeat(controls, 50, axis=0)
    theirs = mujoco_motion(system.model.mujoco, *state, np.zeros((10, 0)), controls)
    run = pb.rollout(system, state, controls)
    for ours, exact in zip(run.states, theirs[:2], strict=True):
        assert relative_error(ours[:11], exact[:11]) < 1e-12 and relative_error(ours, exact) < 1e-9


@each_integrator
@pytest.mark.parametrize("kind", ["held", "off"])
def test_gradients_of_what_holds_it_up(integrator, kind):
    system, state, controls = limb(integrator, kind)
    report = pb.check_system(system, state, controls[0])
    names = ("q", "v", "gravcomp", "gravity", "mass", "com", "body_pos")
    for name in (*names, "tendon_stiffness_poly", "tendon_damping_poly", "damping_poly"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


# --- what is refused ------------------------------------------------------------------------------------


def test_a_rod_has_a_length():
    system = pb.Articulated(machine(), contact=None)
    assert system.params["crank"].shape == (15,) and np.count_nonzero(system.params["crank"]) == 3
    with pytest.raises(pb.PullbackError, match="crank.*must be positive"):
        system.params["crank"] = np.zeros(15)


def test_other_contact_models_name_what_they_do_not_have():
    text = """<mujoco><option integrator="implicitfast"/><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 1">
      <joint name="j" type="ball"/><geom size="0.1" pos="0.1 0 0"/></body></worldbody><actuator>
      <velocity joint="j" kv="1" gear="1 0 0 0 0 0"/></actuator></mujoco>"""
    with pytest.raises(pb.PullbackError, match="feedback of velocity.*ContactConvex"):
        pb.Articulated(pb.load(text), "impulse")
