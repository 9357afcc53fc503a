"""Steps that are implicit in the velocities of bodies: the integrator implicit, and fluids under implicitfast.

How they move and their gradients on random trees, robots and with contact are in the tests of every integrator.
"""

import mujoco
import numpy as np
import pytest
from activated import random_actuators, random_muscles
from oracles import mujoco_run, relative_error, unconstrained
from trees import random_states

import pullback as pb
from pullback.rollout.check import AGREES

FLUID = 'density="600" viscosity="0.5" wind="0.3 0 0.1"'
# A fast spin of unlike moments of inertia, with a body that is welded to one and a free body that carries no joints.
TOPS = """<mujoco><option timestep="0.01" {option}/><worldbody>
<body name="a" pos="0 0 1"><freejoint/><geom type="box" size="0.3 0.1 0.02" density="500"/>
  <body name="b" pos="0.3 0.1 0"><joint name="b" type="ball" damping="0.01"/>
    <geom type="box" size="0.05 0.2 0.01" pos="0.05 0.2 0" density="500"/></body>
  <body name="c" pos="-0.3 0 0"><joint name="c" axis="1 0 0.3" armature="0.002"/><joint type="slide" axis="0 1 0"/>
    <geom type="capsule" size="0.03 0.1" pos="0 0.1 0" density="500"/></body></body>
<body name="free" pos="0 1 1"><freejoint/><geom type="box" size="0.2 0.1 0.02" density="500"/>
  <body pos="0.2 0 0" euler="0 30 0"><geom size="0.05" density="500"/></body></body>
</worldbody><actuator><velocity joint="c" kv="0.1"/><velocity joint="b" gear="1 2 3" kv="0.05"/></actuator></mujoco>"""
EACH = {"implicit": 'integrator="implicit"', "implicit in a fluid": f'integrator="implicit" {FLUID}'}
EACH["implicitfast in a fluid"] = f'integrator="implicitfast" {FLUID}'
each = pytest.mark.parametrize("option", EACH.values(), ids=EACH)


def spinning(option: str, worlds: int, **how):
    model, rng = pb.load(TOPS.format(option=option)), np.random.default_rng(0)
    q, v = random_states(model.mujoco, rng, worlds)
    system = pb.Articulated(model, contact=None, worlds=worlds, **how)
    return system, q, 5 * v, rng.normal(size=(worlds, model.nu))


@each
def test_fast_spins_move_as_in_mujoco(option):
    system, q, v, control = spinning(option, 10)
    m = system.model.mujoco
    run = pb.rollout(system, system.state(q, v), np.tile(control, (5, 1, 1)))
    theirs = mujoco_run(m, q, v, np.tile(control, (5, 1, 1)))
    assert relative_error(run.q, theirs[0]) <= 1e-12 and relative_error(run.v, theirs[1]) <= 1e-11
    for other in {"euler", "implicitfast", "implicit"} - {system.model.integrator}:
        changed = pb.Articulated(pb.load(m, integrator=other), contact=None, worlds=10)
        assert relative_error(changed.step(changed.state(q, v), control).v, theirs[1][1]) > 1e-4


@each
def test_gradients(option):
    system, q, v, control = spinning(option, 1)
    report = pb.check_system(system, system.state(q, v), control)
    assert report.passed, report
    names = ("q", "v", "control", "mass", "com", "inertia", "body_pos", "joint_axis", "armature", "damping")
    for name in (*names, *(("fluid_density", "wind", "fluid_box") if FLUID in option else ())):
        assert report[name].status == AGREES and report[name].largest > 1e-4, report[name]


@each
def test_against_mujocos_transitions(option):
    system, q, v, control = spinning(option, 4)
    m = unconstrained(system.model.mujoco)
    A, B = system.linearize(system.state(q, v), control)
    data, size = mujoco.MjData(m), 2 * m.nv
    for world in range(4):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = q[world], v[world], control[world]
        their_A, their_B = np.zeros((size, size)), np.zeros((size, m.nu))
        mujoco.mjd_transitionFD(m, data, 1e-6, True, their_A, their_B, None, None)
        assert relative_error(A[world], their_A) <= 1e-6 and np.abs(B[world] - their_B).max() <= 1e-6


@each
def test_single_precision(option):
    found = {}
    for dtype in ("float64", "float32"):
        system, q, v, control = spinning(option, 5, dtype=dtype)
        after = system.step(system.state(q, v), control)
        bars = system.pullback(system.state(q, v), control, pb.State(None, np.ones_like(after.v)))
        found[dtype] = {"v'": after.v - v, "q": bars.state.q, "v": bars.state.v, "mass": bars.params["mass"]}
    for name, value in found["float32"].items():
        assert np.abs(value - found["float64"][name]).max() <= 2e-4 * np.abs(found["float64"][name]).max(), name


@pytest.mark.parametrize("make", [random_actuators, random_muscles])
@pytest.mark.parametrize("integrator, fluid", [("implicit", False), ("implicit", True), ("implicitfast", True)])
def test_actuators_of_every_kind(make, integrator, fluid):
    """Feedback at sites, on tendons and on ball joints, with activations, that both integrators treat implicitly."""
    for seed in range(5):
        model = pb.load(make(seed, integrator=integrator, fluid=fluid, limits=False, timestep=0.01))
        m, rng = model.mujoco, np.random.default_rng(seed)
        q, v = random_states(m, rng, 3)
        control = rng.normal(size=(3, m.nu))
        system = pb.Articulated(model, contact=None, worlds=3)
        theirs = mujoco_run(m, q, v, control[None])[1][1]
        assert relative_error(system.step(system.state(q, v), control).v, theirs) <= 1e-11
    alone = pb.Articulated(model, contact=None)
    report = pb.check_system(alone, alone.state(q[:1], v[:1]), control[:1])
    assert report.passed, report


def test_accelerometers_know_nothing_of_the_integrator():
    """They show accelerations without implicit damping, here and in MuJoCo."""
    text = TOPS.format(option=EACH["implicit in a fluid"])
    text = text.replace("</mujoco>", '<sensor><framelinacc objtype="body" objname="b"/></sensor></mujoco>')
    model, rng = pb.load(text), np.random.default_rng(0)
    m, system = unconstrained(model.mujoco), pb.Articulated(model, contact=None)
    data, (q, v) = mujoco.MjData(m), random_states(m, rng, 1)
    data.qpos[:], data.qvel[:] = q[0], v[0]
    mujoco.mj_forward(m, data)
    found = pb.dynamics.sensors(system, q, v, control=np.zeros((1, m.nu))).value
    np.testing.assert_allclose(found[0], data.sensordata, rtol=1e-9)


def test_others_have_none_of_it():
    """Robots with other integrators have the kernels that they had, and contact models without it say so."""
    fluid = f'integrator="implicitfast" {FLUID}'
    for option in ("", 'integrator="implicitfast"', FLUID, f'integrator="RK4" {FLUID}'):
        assert not pb.Articulated(pb.load(TOPS.format(option=option)))._flavour.implicit
    for option, word in {'integrator="implicit"': "implicitfast", fluid: "fluid"}.items():
        model = pb.load(TOPS.format(option=option))
        assert pb.Articulated(model)._flavour.implicit
        for contact in ("compliant", "impulse", "longrange"):
            with pytest.raises(pb.PullbackError, match=f"{word}.*ContactConvex|ContactConvex.*{word}"):
                pb.Articulated(model, contact)
    calm = TOPS.format(option=fluid).replace('gear="1 2 3" kv="0.05"', 'gear="0 0 0"')
    dry = pb.load(calm, ignore=("fluid",))
    assert not pb.Articulated(dry, "compliant")._flavour.implicit


def test_a_joint_without_inertia_is_named():
    xml = """<mujoco><option integrator="implicit"/><worldbody><body><joint name="turn" axis="0 0 1" armature="1"/>
      <geom size="0.1" pos="1 0 0"/></body></worldbody></mujoco>"""
    system = pb.Articulated(pb.load(xml))
    system.params["armature"] = np.zeros(1)
    system.params["mass"] = np.array([0.0, 1e-20])
    system.params["inertia"] = np.zeros((2, 6))
    with pytest.raises(pb.PullbackError, match="turn"):
        system.step(system.state())
