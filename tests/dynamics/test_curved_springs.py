"""Springs and dampers of joints with quadratic and cubic terms, against MuJoCo, and their gradients."""

import mujoco
import numpy as np
import pytest
from oracles import mujoco_run, relative_error, unconstrained
from trees import random_states

import pullback as pb
from pullback.dynamics import energy
from pullback.rollout.check import AGREES

CURVED = """<mujoco><compiler angle="radian"/><option timestep="0.005" integrator="{integrator}"/><worldbody>
<body name="free" pos="0 0 1"><joint type="free" stiffness="3 -2 5" damping="0.1 0.03 0.02" armature="0.02"/>
  <geom type="box" size="0.1 0.15 0.2" mass="1"/>
  <body name="turns" pos="0.3 0 0"><joint name="hinge" axis="0 1 0.3" stiffness="1 0.7 2" springref="0.3"
    damping="0.05 0.1 0.03" armature="0.01"/><geom size="0.1" pos="0.2 0 0" mass="0.5"/>
    <body name="slides" pos="0.2 0 0"><joint name="slide" type="slide" axis="1 0 0" stiffness="0 5 20" damping="0 0 3"
      springref="-0.2"/><geom size="0.05" pos="0 0.1 0" mass="0.3"/>
      <body name="swings" pos="0 0.1 0"><joint name="ball" type="ball" stiffness="0.2 0.4 -0.1" damping="0.02 0.05 0"
        armature="0.02"/>
        <geom type="capsule" fromto="0 0 0 0.2 0.1 0" size="0.03" mass="0.2"/>
        <body name="plain" pos="0.2 0.1 0"><joint name="plain" axis="0 0 1" stiffness="1" damping="0.01"/>
          <geom size="0.04" pos="0.1 0 0" mass="0.1"/></body></body></body></body></body></worldbody>
<actuator><motor joint="hinge" gear="2"/><position joint="plain" kp="3" kv="0.2"/></actuator></mujoco>"""
each_integrator = pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
POLYNOMIALS = ("stiffness_poly", "damping_poly")


@each_integrator
def test_a_robot_moves_as_in_mujoco(integrator):
    model, rng = pb.load(CURVED.format(integrator=integrator)), np.random.default_rng(0)
    m = model.mujoco
    q, v = random_states(m, rng, 20, speed=2.0)
    controls = rng.normal(size=(30, 20, m.nu))
    system = pb.Articulated(model, None, worlds=20)
    run = pb.rollout(system, system.state(q, v), controls)
    qs, vs = mujoco_run(m, q, v, controls)
    assert relative_error(run.v[1:2], vs[1:2]) <= 1e-12
    assert relative_error(run.v, vs) <= 1e-9 and relative_error(run.q, qs) <= 1e-9
    # Without these terms it would be another motion.
    linear = pb.load(m, ignore=("spring-poly", "damping-poly"))
    assert not any(np.any(x) for x in (linear.joint_stiffness_poly, linear.dof_damping_poly))
    other = pb.Articulated(linear, None, worlds=20)
    assert not set(POLYNOMIALS) & set(other.params) and not other._flavour.curved
    assert relative_error(other.step(other.state(q, v), controls[0]).v, vs[1]) > 1e-3


@each_integrator
def test_gradients(integrator):
    model, rng = pb.load(CURVED.format(integrator=integrator)), np.random.default_rng(1)
    q, v = random_states(model.mujoco, rng, 1, speed=2.0)
    system = pb.Articulated(model, None)
    report = pb.check_system(system, system.state(q, v), 0.3 * rng.normal(size=(1, model.nu)))
    for name in ("q", "v", "control", *POLYNOMIALS, "spring_ref", "stiffness", "damping"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_parameters_are_those_of_mujoco():
    model, rng = pb.load(CURVED.format(integrator="implicitfast")), np.random.default_rng(2)
    m = model.mujoco
    system = pb.Articulated(model, None, worlds=10)
    q, v = random_states(m, rng, 10)
    for name, there in (("stiffness_poly", m.jnt_stiffnesspoly), ("damping_poly", m.dof_dampingpoly)):
        there *= rng.uniform(0.5, 2.0, there.shape)
        system.params[name] = there
    vs = mujoco_run(m, q, v, np.zeros((1, 10, m.nu)))[1]
    assert relative_error(system.step(system.state(q, v)).v, vs[1]) <= 1e-12


def test_their_energy():
    model, rng = pb.load(CURVED.format(integrator="Euler")), np.random.default_rng(3)
    m = unconstrained(model.mujoco)
    data = mujoco.MjData(m)
    m.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    q, v = random_states(m, rng, 5)
    system = pb.Articulated(model, None, worlds=5)
    found = energy(system, q, v)
    for world in range(5):
        data.qpos[:], data.qvel[:] = q[world], v[world]
        mujoco.mj_forward(m, data)
        assert found.value[world] == pytest.approx(data.energy, rel=1e-12)
    grads, step = found.pullback(np.tile([1.0, 0.0], (5, 1))), 1e-6
    for name in ("stiffness_poly", "spring_ref"):
        turn = rng.normal(size=system.params[name].shape)
        ends = [energy(system, q, v, params={name: system.params[name] + side * turn}).value for side in (step, -step)]
        slope = np.sum((ends[0] - ends[1])[:, 0]) / (2 * step)
        assert np.sum(grads.params[name] * turn) == pytest.approx(slope, rel=1e-7) and abs(slope) > 1e-3
    moved = rng.normal(size=(5, m.nv))
    ends = []
    for side in (step, -step):
        there = q.copy()
        for world in range(5):
            mujoco.mj_integratePos(m, there[world], moved[world], side)
        ends.append(energy(system, there, v).value)
    slope = np.sum((ends[0] - ends[1])[:, 0]) / (2 * step)
    from pullback.model.tangent import tangent_of_coordinates

    assert np.sum(tangent_of_coordinates(model, q, grads.q) * moved) == pytest.approx(slope, rel=1e-7)
