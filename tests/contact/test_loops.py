"""Equality constraints that close loops, connect and weld, against MuJoCo, and their gradients."""

import mujoco
import numpy as np
import pytest
from scenes import next_states, worst_world
from tendon_robots import LOOPS, looped, scattered

import pullback as pb
from pullback.rollout.check import AGREES

# Both solvers balance forces to rounding, of which stiff rows leave more. Found: below 1e-10.
ACCURACY = 1e-8
each_robot = pytest.mark.parametrize("name", LOOPS)
MATTER = {
    "four-bar": ("equality_anchor", "equality_solref", "equality_solimp"),
    "gripper": ("equality_anchor", "equality_polycoef", "equality_solref", "equality_solimp"),
    "biped": ("equality_anchor", "equality_quat", "equality_torquescale", "equality_solref", "equality_solimp"),
}


@each_robot
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_loops_move_as_in_mujoco(name, integrator):
    """Far from closed, and turning fast, so that what velocities do to residuals matters."""
    model = pb.load(looped(name, integrator))
    m = model.mujoco
    q, v, controls = scattered(m, 100, size=0.3)
    system = pb.Articulated(model, worlds=100)
    ours = system.step(system.state(q, v), controls)
    theirs = next_states(m, q, v, controls)[1]
    free = pb.Articulated(model, contact=None, worlds=100)
    dt = m.opt.timestep
    assert worst_world(free.step(free.state(q, v), controls).v - v, theirs - v) > 0.1
    assert worst_world((ours.v - v) / dt, (theirs - v) / dt) <= ACCURACY


@each_robot
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_gradients(name, integrator):
    model = pb.load(looped(name, integrator))
    q, v, controls = scattered(model.mujoco, 1, seed=1, size=0.3)
    system = pb.Articulated(model)
    report = pb.check_system(system, system.state(q, v), controls)
    for field in ("q", "v", "control", "mass", "body_pos", *MATTER[name]):
        assert report[field].status == AGREES and report[field].largest > 1e-6, report[field]


def test_a_four_bar_stays_closed_and_keeps_its_energy():
    """Without gravity, damping or drive, from a closed pose at a speed that the loop allows."""
    xml = looped("four-bar", dt=0.0005).replace("<option", '<option gravity="0 0 0"').replace("0.02 1", "0.005 1")
    model = pb.load(xml)
    m, d = model.mujoco, mujoco.MjData(model.mujoco)
    system = pb.Articulated(model)
    d.qvel[:] = 0
    mujoco.mj_forward(m, d)
    jacobian = d.efc_J.reshape(-1, m.nv)[: d.ne]
    v = np.linalg.svd(jacobian)[2][-1]  # what the loop allows
    run = pb.rollout(system, system.state(m.qpos0, 2 * v / np.abs(v).max()), steps=1000)
    energies, gaps = [], []
    for t in range(0, 1001, 50):
        d.qpos[:], d.qvel[:] = run.q[t][0], run.v[t][0]
        mujoco.mj_forward(m, d)
        momentum = np.zeros(m.nv)
        mujoco.mj_mulM(m, d, momentum, d.qvel)
        energies.append(0.5 * momentum @ d.qvel)
        gaps.append(np.linalg.norm(d.efc_pos[: d.ne]))
    assert np.abs(run.q[-1] - run.q[0]).max() > 0.5
    assert max(gaps) < 2e-3
    np.testing.assert_allclose(energies, energies[0], rtol=0.02)


def test_gradients_through_many_steps():
    system = pb.Articulated(pb.load(looped("biped")), worlds=2)
    q, v, controls = scattered(system.model.mujoco, 2, size=0.1, speed=0.1)
    rng = np.random.default_rng(0)
    u = rng.normal(size=(20, 2, system.nu))
    found, weights = [], rng.normal(size=(2, system.nv))
    for every in (1, 6):
        run = pb.rollout(system, system.state(q, v), u, checkpoint_every=every)
        found.append(run.pullback(v_bar=weights))
    np.testing.assert_array_equal(found[0].params["equality_anchor"], found[1].params["equality_anchor"])
    along, size = rng.normal(size=u.shape), 1e-4
    ends = [pb.rollout(system, system.state(q, v), u + sign * size * along).final.v for sign in (1, -1)]
    slope = np.sum(weights * (ends[0] - ends[1])) / (2 * size)
    assert abs(slope) > 1e-3
    np.testing.assert_allclose(np.sum(found[0].controls * along), slope, rtol=1e-6)


def test_a_weld_of_what_cannot_move_is_left_out():
    weld = '<weld body1="shelf"/><connect name="pin"'
    xml = (
        looped("four-bar")
        .replace("</worldbody>", '<body name="shelf"/></worldbody>')
        .replace('<connect name="pin"', weld)
    )
    system = pb.Articulated(pb.load(xml))
    assert system._scene.loops.index.tolist() == [1]


def test_robots_without_loops_compile_none():
    open_chain = pb.load(looped("four-bar"), ignore=("equality",))
    assert not pb.Articulated(open_chain)._flavour.loops and pb.Articulated(pb.load(looped("four-bar")))._flavour.loops
    assert open_chain.constraints == ()


def test_long_range_contact_names_them():
    with pytest.raises(pb.PullbackError, match=r"equality 'pin' \(connect\).*ContactConvex"):
        pb.Articulated(pb.load(looped("four-bar")), "longrange")
