"""Geoms that a fluid meets as ellipsoids, against MuJoCo, and the gradients."""

import numpy as np
import pytest
from oracles import mujoco_run, relative_error
from trees import random_states

import pullback as pb
from pullback.rollout.check import AGREES

SWIMMER = """<mujoco><option timestep="0.004" density="1000" viscosity="0.5" wind="0.3 -0.2 0.1" {option}/>
<default><geom contype="0" conaffinity="0" fluidshape="ellipsoid"/></default><worldbody>
<body name="a" pos="0 0 1"><freejoint/><geom type="ellipsoid" size="0.1 0.05 0.2" pos="0.1 0.02 0.03" euler="10 20 30"
    fluidcoef="0.5 0.25 1.5 1.1 0.9"/><geom name="boxed" size="0.05" pos="-0.1 0 0" fluidshape="none"/>
  <body name="b" pos="0.3 0 0"><joint axis="0 1 0.3"/><geom type="box" size="0.05 0.1 0.02" euler="0 40 0"/>
    <geom type="capsule" size="0.04 0.08" pos="0.1 0 0" fluidcoef="0.7 0.4 1 0.3 2"/>
    <body name="c" pos="0.2 0 0"><joint type="ball"/><geom type="cylinder" size="0.05 0.1" pos="0 0 0.1"/>
      <body name="d" pos="0 0 0.2"><joint type="slide" axis="1 0 1"/><geom size="0.07"/>
        <body name="e" pos="0.1 0 0.1"><joint axis="1 0 0"/>
          <geom size="0.03 0.06" type="capsule" fluidshape="none"/></body>
  </body></body></body></body>
<body pos="0 1 2"><freejoint/><geom type="ellipsoid" size="0.1 0.05 0.2"/>
  <body pos="0.1 0 0" euler="10 20 30"><geom type="box" size="0.1 0.05 0.02"/></body></body></worldbody></mujoco>"""
each_integrator = pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4"])


@each_integrator
def test_a_swimmer_moves_as_in_mujoco(integrator):
    """Every shape; a body with two ellipsoids, one with a geom that is none, and one that is a box in the fluid; and a
    free body that carries no joints."""
    model, rng = pb.load(SWIMMER.format(option=f'integrator="{integrator}"')), np.random.default_rng(0)
    system = pb.Articulated(model, worlds=20)
    q, v = random_states(model.mujoco, rng, 20)
    q_wanted, v_wanted = mujoco_run(model.mujoco, q, v, np.zeros((10, 20, 0)))
    run = pb.rollout(system, system.state(q, v), np.zeros((10, 20, 0)))
    assert relative_error(run.v[-1], v_wanted[-1]) <= 1e-11 and relative_error(run.q[-1], q_wanted[-1]) <= 1e-11
    dry = pb.Articulated(pb.load(model.mujoco, ignore=("fluid",)), worlds=20)
    assert relative_error(dry.step(dry.state(q, v)).v, v_wanted[1]) > 1e-2


def test_small_and_still_bodies():
    """No motion at all, no translation, no rotation; nothing depends on a length's size."""
    xml = """<mujoco><option density="1.2" viscosity="2e-5" gravity="0 0 0"/><worldbody><body><freejoint/>
      <geom type="ellipsoid" size="0.004 0.001 0.0002" fluidshape="ellipsoid"/></body></worldbody></mujoco>"""
    model, rng = pb.load(xml), np.random.default_rng(0)
    system = pb.Articulated(model, worlds=12)
    q, v = random_states(model.mujoco, rng, 12)
    v *= np.logspace(-4, 1, 12)[:, None]
    v[0], v[1, 3:], v[2, :3] = 0, 0, 0
    found = system.step(system.state(q, v)).v
    wanted = mujoco_run(model.mujoco, q, v, np.zeros((1, 12, 0)))[1][1]
    assert np.abs(wanted[3:] - v[3:]).max() > 1e-4
    np.testing.assert_allclose(found - v, wanted - v, rtol=1e-9, atol=1e-13)
    bars = system.pullback(system.state(q, v), None, pb.State(None, np.ones((12, 6))))
    assert all(np.all(np.isfinite(x)) for x in (*bars.state, *bars.params.values()))


@each_integrator
def test_gradients(integrator):
    model, rng = pb.load(SWIMMER.format(option=f'integrator="{integrator}"')), np.random.default_rng(1)
    q, v = random_states(model.mujoco, rng, 1)
    system = pb.Articulated(model)
    report = pb.check_system(system, system.state(q, v))
    assert report.passed, report
    for name in ("q", "v", "fluid_coef", "fluid_density", "fluid_viscosity", "wind", "mass", "body_pos", "com"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_coefficients_are_those_of_files():
    """fluidcoef as a parameter, against a file with other numbers."""
    model, rng = pb.load(SWIMMER.format(option="")), np.random.default_rng(2)
    m = model.mujoco
    q, v = random_states(m, rng, 4)
    coef = m.geom_fluid[:, 1:6] * rng.uniform(0.3, 2.0, size=(m.ngeom, 5))
    system = pb.Articulated(model, worlds=4)
    found = system.step(system.state(q, v), params={"fluid_coef": coef}).v
    plain = system.step(system.state(q, v)).v
    m.geom_fluid[:, 1:6] = coef
    assert relative_error(found, mujoco_run(m, q, v, np.zeros((1, 4, 0)))[1][1]) <= 1e-12
    assert relative_error(found, plain) > 1e-4


def test_no_robot_without_ellipsoids_has_their_kernels():
    xml = SWIMMER.format(option="")
    assert "_ellipsoids" in pb.Articulated(pb.load(xml))._flavour.package
    for other in (xml.replace('fluidshape="ellipsoid"', ""), xml.replace('density="1000" viscosity="0.5"', "")):
        system = pb.Articulated(pb.load(other))
        assert "_ellipsoids" not in system._flavour.package and "fluid_coef" not in system.params
