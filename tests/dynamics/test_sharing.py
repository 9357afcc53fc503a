"""Systems that are copied, pickled, used from threads, or given arrays of odd make."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import warp as wp
from oracles import mujoco_run, relative_error

import pullback as pb


def heavy_cartpole(worlds: int = 2) -> pb.Articulated:
    system = pb.Articulated(pb.load(pb.robots.cartpole()), worlds=worlds)
    system.params["mass"] = system.params["mass"] * np.array([[1.5], [2.5]])
    return system


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_is_a_system_of_its_own(make):
    system = heavy_cartpole()
    twin = make(system)
    start, control = system.state(q=[0.1, 0.7]), np.ones((2, 1))
    moved = system.step(start, control).v
    assert np.array_equal(twin.step(start, control).v, moved)
    twin.params["mass"] = twin.params["mass"] * 2
    assert np.array_equal(system.step(start, control).v, moved)
    assert not np.array_equal(twin.step(start, control).v, moved)


def test_in_worlds_is_a_system_of_its_own():
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    system.params["mass"] = system.params["mass"] * 2
    other = system.in_worlds(3)
    assert np.array_equal(other.params["mass"], system.params["mass"])
    other.params["mass"] = other.params["mass"] * 2
    assert not np.array_equal(system.in_worlds(3).params["mass"], other.params["mass"])


THREADS = """
import threading, numpy as np, pullback as pb
model = pb.load(pb.robots.cartpole())
systems = [pb.Articulated(model) for _ in range(4)]
results = [None] * 4
def work(i):
    run = pb.rollout(systems[i], systems[i].state(q=[0.0, 1.0]), steps=50)
    results[i] = (run.q, run.pullback(q_bar=np.ones((1, 2))).state.q)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert all(np.array_equal(a, b) for found in results for a, b in zip(found, results[0]))
print("the same")
"""


def test_first_launches_from_several_threads():
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "the same" in done.stdout, (done.returncode, done.stderr[-2000:])


def test_an_axis_of_length_one_may_have_any_stride():
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    q, v = np.array([0.1, 0.7]), np.array([0.0, 1.0])
    assert np.array_equal(system.step(pb.State(q[None], v[None])).q, system.step(system.state(q, v)).q)


def test_damping_that_is_negative_everywhere_is_explicit_as_in_mujoco():
    joints = (
        '<joint axis="0 1 0" damping="-0.3"/>',
        '<joint axis="0 1 0" damping="-0.3"/><joint type="slide" damping="1"/>',
    )
    for joint in joints:
        model = pb.load(
            f'<mujoco><option timestep="0.01"/><worldbody><body>{joint}<inertial mass="1" pos=".1 0 0" '
            f'diaginertia="1 1 1"/></body></worldbody></mujoco>'
        )
        system = pb.Articulated(model)
        start = system.state(model.q0, np.ones(model.nv))
        run = pb.rollout(system, start, steps=100)
        q, _ = mujoco_run(model.mujoco, start.q, start.v, np.zeros((100, 1, 0)))
        assert relative_error(run.q, q) < 1e-11


def test_actuators_without_joints_do_nothing():
    site = '<body><site name="s"/></body>'
    xml = f'<mujoco><worldbody>{site}</worldbody><actuator><general site="s"/></actuator></mujoco>'
    system = pb.Articulated(pb.load(xml, ignore=("actuator",)))
    run = pb.rollout(system, system.state(), np.ones((3, 1, 1)))
    assert run.pullback(q_bar=np.zeros((1, 0))).controls.shape == (3, 1, 1)


def test_no_mass_no_center():
    system = pb.Articulated(pb.load("<mujoco/>"))
    with pytest.raises(pb.PullbackError, match="has mass"):
        pb.dynamics.center_of_mass(system, np.zeros((1, 0)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_body_without_controls_is_pulled_back(device):
    if device == "cuda" and not wp.is_cuda_available():
        pytest.skip("needs a CUDA device")
    model = pb.load('<mujoco><worldbody><body><freejoint/><geom size=".1" mass="2"/></body></worldbody></mujoco>')
    system = pb.Articulated(model, contact=None, worlds=3, device=device)
    bars = system.pullback(system.state(), None, pb.State(None, np.eye(3, 6)))
    assert bars.control.shape == (3, 0)
    np.testing.assert_allclose(bars.state.v, np.eye(3, 6))


def test_what_one_system_holds_is_checked_by_another():
    """Was a segmentation fault: cotangents of many worlds were written into memory for two."""
    model = pb.load(pb.robots.cartpole())
    few, many = (pb.Articulated(model, None, worlds=worlds) for worlds in (2, 300))
    few.params["mass"] = 2.0 * few.params["mass"]
    held = pb.rollout(few, few.state([0.1, 0.2]), steps=3).params
    run = pb.rollout(many, many.state([0.1, 0.2]), steps=3, params=held)
    np.testing.assert_array_equal(run.q[:, 7], pb.rollout(few, few.state([0.1, 0.2]), steps=3).q[:, 0])
    bars = run.pullback(q_bar=np.ones((300, 2)))
    alone = pb.rollout(few, few.state([0.1, 0.2]), steps=3).pullback(q_bar=np.ones((2, 2)))
    np.testing.assert_allclose(bars.params["mass"], 150 * alone.params["mass"], rtol=1e-12)
    single = few.in_worlds(2, dtype="float32")
    np.testing.assert_allclose(
        pb.rollout(single, single.state([0.1, 0.2]), steps=3, params=held).q, run.q[:, :2], rtol=1e-5
    )
    other = pb.Articulated(pb.load(pb.robots.arm()), None)
    with pytest.raises(pb.PullbackError, match="parameter 'mass' has shape"):
        pb.rollout(other, other.state(), steps=1, params=held)
    few.params["mass"] = np.stack([few.params["mass"]] * 2)
    with pytest.raises(pb.PullbackError, match="parameter 'mass' has shape"):
        pb.rollout(many, many.state(), steps=1, params=pb.rollout(few, few.state(), steps=1).params)
