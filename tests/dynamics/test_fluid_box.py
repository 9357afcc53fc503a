"""The box that stands for a body in a fluid follows its mass and inertia, as in a file with those numbers."""

import mujoco
import numpy as np
from oracles import mujoco_run, relative_error
from trees import random_states

import pullback as pb
from pullback.rollout.check import AGREES

SWIMMER = """<mujoco><option timestep="0.005" density="800" viscosity="0.5" wind="0.3 0 0.1"/><worldbody>
<body name="a" pos="0 0 1"><freejoint/>
  <inertial pos="0.02 0 0.01" mass="1.3" quat="0.9 0.2 0.3 0.1" diaginertia="0.02 0.015 0.009"/>
  <body name="b" pos="0.3 0 0"><joint axis="0 1 0.3"/>
    <inertial pos="0.1 0 0" mass="0.6" diaginertia="0.004 0.006 0.003"/>
    <body name="c" pos="0.2 0 0"><joint type="ball"/><geom type="capsule" fromto="0 0 0 0.2 0 0.1" size="0.03"/></body>
  </body></body></worldbody></mujoco>"""


def moved(model, mass, moments):
    """Masses and moments about the principal axes times these, as parameters."""
    return {"mass": model.body_mass * mass, "inertia": model.body_inertia * moments[:, None]}


def test_a_swimmer_moves_as_recompiled():
    model, rng = pb.load(SWIMMER), np.random.default_rng(0)
    m = model.mujoco
    mass, moments = rng.uniform(0.5, 2.0, size=(2, m.nbody))
    system = pb.Articulated(model, worlds=20)
    q, v = random_states(m, rng, 20)
    plain = system.step(system.state(q, v)).v
    found = system.step(system.state(q, v), params=moved(model, mass, moments)).v
    m.body_mass[:] *= mass
    m.body_inertia[:] *= moments[:, None]
    wanted = mujoco_run(m, q, v, np.zeros((1, 20, 0)))[1][1]
    assert relative_error(found, wanted) <= 1e-12
    assert relative_error(plain, wanted) > 1e-3
    # A box that does not follow would be another.
    kept = pb.Articulated(model, worlds=20)
    ratio = pb.load(m).fluid_box / np.where(model.fluid_box > 0, model.fluid_box, 1.0)
    assert np.abs(ratio[1:] - 1).max() > 0.05
    old = kept.step(
        kept.state(q, v), params=moved(model, mass, moments) | {"fluid_box": model.fluid_box / (ratio + (ratio == 0))}
    )
    assert relative_error(old.v, wanted) > 1e-4


def test_gradients():
    model, rng = pb.load(SWIMMER), np.random.default_rng(1)
    q, v = random_states(model.mujoco, rng, 1)
    system = pb.Articulated(model)
    system.params["fluid_box"] = 1.2 * model.fluid_box
    system.params["mass"] = 0.9 * model.body_mass
    names = ("mass", "inertia", "fluid_box")
    report = pb.check_system(system, system.state(q, v), names=names)
    for name in names:
        assert report[name].status == AGREES and report[name].largest > 1e-5, report[name]


def test_gradients_are_those_of_files():
    model, rng = pb.load(SWIMMER), np.random.default_rng(2)
    m = model.mujoco
    q, v = random_states(m, rng, 1)
    system, v_bar = pb.Articulated(model), rng.normal(size=(1, m.nv))
    bars = system.pullback(system.state(q, v), None, pb.State(None, v_bar)).params
    direction = rng.normal(size=(2, m.nbody))
    slopes = []
    for h in (1e-3, 1e-4, 1e-5):
        ends = []
        for side in (h, -h):
            there = mujoco.MjModel.from_xml_string(SWIMMER)
            there.body_mass[:] *= 1 + side * direction[0]
            there.body_inertia[:] *= 1 + side * direction[1][:, None]
            ends.append(np.sum(v_bar * mujoco_run(there, q, v, np.zeros((1, 1, 0)))[1][1]))
        slopes.append((ends[0] - ends[1]) / (2 * h))
    found = np.sum(bars["mass"] * model.body_mass * direction[0])
    found += np.sum(bars["inertia"] * model.body_inertia * direction[1][:, None])
    assert min(abs(found - slope) for slope in slopes) <= 1e-6 * abs(found)
