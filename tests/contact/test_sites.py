"""Actuators that push at sites, against MuJoCo, and their gradients."""

import numpy as np
import pytest
from oracles import mujoco_run
from scenes import worst_world
from tendon_robots import DRONE, scattered

import pullback as pb
from pullback.rollout.check import AGREES

# Rounding of two ways to add the same forces. Found: below 1e-13.
ACCURACY = 1e-11


def drone(integrator: str = "Euler", joint: str = "", feedback: float = -0.4) -> pb.Model:
    # without feedback of velocities at all under implicitfast, which would treat it implicitly
    text = DRONE.format(integrator=integrator, joint=joint, feedback=feedback)
    return pb.load(text.replace("2 0 0.1", "2 0 0") if integrator == "implicitfast" else text)


CASES = [
    ("Euler", "", -0.4),
    ("RK4", "", -0.4),
    ("implicitfast", "", 0),
    ("Euler", 'actuatorfrcrange="-0.1 0.1"', -0.4),
]


@pytest.mark.parametrize(("integrator", "joint", "feedback"), CASES)
def test_a_drone_moves_as_in_mujoco(integrator, joint, feedback):
    model = drone(integrator, joint, feedback)
    q, v, controls = scattered(model.mujoco, 100)
    system = pb.Articulated(model, worlds=100)
    ours = system.step(system.state(q, v), controls).v
    theirs = mujoco_run(model.mujoco, q, v, controls[None])[1][1]
    assert worst_world(ours - v, theirs - v) <= ACCURACY


@pytest.mark.parametrize(("integrator", "joint", "feedback"), CASES)
def test_gradients(integrator, joint, feedback):
    model = drone(integrator, joint, feedback)
    q, v, _controls = scattered(model.mujoco, 1, seed=2)
    system = pb.Articulated(model)
    report = pb.check_system(system, system.state(q, v), np.array([[2.0, 1.5, 0.2, 0.3]]))
    for name in ("q", "v", "control", "gear", "gain", "bias", "site_pos", "site_quat", "mass"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    assert np.count_nonzero(system.params["site_pos"]) and system.params["gear"].shape == (4, 6)


def test_long_range_contact_names_them():
    touching = DRONE.format(integrator="Euler", joint='range="-1 1" limited="true"', feedback=0)
    with pytest.raises(pb.PullbackError, match="pushes at a site.*ContactConvex"):
        pb.Articulated(pb.load(touching), "longrange")
