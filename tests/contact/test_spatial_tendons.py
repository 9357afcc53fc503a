"""Tendons that are paths through space, against MuJoCo, and their gradients."""

import copy

import mujoco
import numpy as np
import pytest
from oracles import mujoco_run
from scenes import next_states, worst_world
from tendon_robots import CUP, arm, scattered, worst_step

import pullback as pb
from pullback.rollout.check import AGREES

# Both solvers balance forces to rounding. Found: below 1e-13.
ACCURACY = 1e-10
each_integrator = pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
OWN = ("tendon_stiffness", "tendon_damping", "tendon_armature", "tendon_spring", "gear", "gain", "bias", "site_pos")
ROWS = ("tendon_frictionloss", "equality_polycoef", "equality_solref", "equality_solimp")
LIMIT = ("tendon_range", "tendon_limit_solref", "tendon_limit_solimp")
BODIES = ("mass", "com", "inertia", "body_pos", "body_quat", "joint_pos", "joint_axis")
LOOKS, ROPE = 4, 3  # tendons


def lengths(m: mujoco.MjModel, q: np.ndarray) -> np.ndarray:
    """Of all tendons (states, ntendon)."""
    data, found = mujoco.MjData(m), []
    for row in q:
        data.qpos[:] = row
        mujoco.mj_fwdPosition(m, data)
        found.append(data.ten_length.copy())
    return np.array(found)


def assert_like_mujoco(model: pb.Model, contact="model") -> None:
    system = pb.Articulated(model, contact, worlds=100)
    assert system._flavour.spatial and worst_step(system) <= ACCURACY


@each_integrator
@pytest.mark.parametrize("contact", ["model", None])
def test_an_arm_moves_as_in_mujoco(integrator, contact):
    """With a load that implicitfast solves by itself, and with one that it does not."""
    for flap in (True, False):
        assert_like_mujoco(pb.load(arm(integrator, flap=flap)), contact)


def gradients_at(model: pb.Model, at: int, contact="model", *, names=(), seed: int = 3):
    q, v, controls = scattered(model.mujoco, 100, seed=seed)
    system = pb.Articulated(model, contact)
    report = pb.check_system(system, system.state(q[at], v[at]), 0.4 * controls[at][None], tolerance=5e-6)
    for name in ("q", "v", "control", *OWN, *BODIES, *names):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    return report


@each_integrator
@pytest.mark.parametrize("side", [0, 1])
def test_gradients(integrator, side):
    """With the rope beyond one end of its range."""
    model = pb.load(arm(integrator))
    rope = lengths(model.mujoco, scattered(model.mujoco, 100, seed=3)[0])[:, ROPE]
    at = [np.argmin, np.argmax][side](rope)
    assert (rope[at] - (0.6, 0.8)[side]) * (-1, 1)[side] > 0.02
    gradients_at(model, at, names=(*ROWS, *LIMIT, "tendon_coef"))


@each_integrator
def test_gradients_without_constraints(integrator):
    for flap in (True, False):
        gradients_at(pb.load(arm(integrator, flap=flap)), 0, None, names=("tendon_coef",))


def test_with_a_thruster_at_a_site_of_a_path():
    model = pb.load(arm("implicitfast", thruster=True))
    assert_like_mujoco(model, None)
    report = gradients_at(model, 0, None, names=("site_quat",))
    rear, hook = (model.sites.names.index(name) for name in ("rear", "hook"))
    system = pb.Articulated(model, None)
    assert system.params["site_pos"].shape == (len(model.sites.names), 3) and report["site_pos"].largest > 0
    controls = np.zeros((1, 1, 5))
    run = pb.rollout(system, system.state(), controls + 1.0)
    bar = run.pullback(v_bar=np.ones_like(run.final.v)).params["site_quat"]
    assert np.any(bar[rear]) and not np.any(bar[hook])


@each_integrator
def test_a_ball_on_a_string(integrator):
    """It falls, until the string holds it, and swings; with contacts."""
    model = pb.load(CUP.format(integrator=integrator))
    m, rng = model.mujoco, np.random.default_rng(1)
    q = np.tile(m.qpos0, (50, 1))
    q[:, :2], q[:, 2:5] = rng.normal(scale=0.02, size=(50, 2)), q[:, 2:5] + rng.normal(scale=0.08, size=(50, 3))
    v, controls = 0.5 * rng.normal(size=(50, 8)), rng.normal(size=(50, 2))
    length = lengths(m, q)[:, 0]
    assert 10 < np.sum(length > 0.25) < 40
    system = pb.Articulated(model, worlds=50)
    ours = system.step(system.state(q, v), controls)
    theirs = next_states(m, q, v, controls)[1]
    assert worst_world(ours.v - v, theirs - v) <= ACCURACY
    at = np.argmax(length)
    one = pb.Articulated(model)
    report = pb.check_system(one, one.state(q[at], v[at]), controls[at][None], tolerance=5e-6)
    for name in ("q", "v", "control", "site_pos", "tendon_range", "tendon_limit_solref", "mass"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_parameters_are_those_of_mujoco():
    """What is set moves the arm as a compiled model with those numbers and its inverse weights does."""
    model = pb.load(arm("implicitfast"))
    m, rng = model.mujoco, np.random.default_rng(0)
    fields = {"tendon_spring": "tendon_lengthspring", "equality_polycoef": "eq_data"}
    fields |= {"tendon_limit_solref": "tendon_solref_lim", "tendon_limit_solimp": "tendon_solimp_lim"}
    fields |= {"equality_solref": "eq_solref", "equality_solimp": "eq_solimp"}
    system = pb.Articulated(model, worlds=50)
    q, v, controls = scattered(m, 50)
    before = system.step(system.state(q, v), controls).v
    for name in (*OWN[:4], "site_pos", *ROWS, *LIMIT):
        value = system.params[name] * rng.uniform(0.9, 1.1, system.params[name].shape)
        value = np.sort(value, axis=-1) if name in ("tendon_spring", "tendon_range") else value
        there = getattr(m, fields.get(name, name))
        there[:] = np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, there.shape[-1] - value.shape[-1])])
        system.params[name] = value
    again = copy.copy(m)
    mujoco.mj_setConst(again, mujoco.MjData(again))
    for name in ("body_invweight0", "dof_invweight0", "tendon_invweight0"):
        getattr(m, name)[:] = getattr(again, name)
    ours = system.step(system.state(q, v), controls).v
    assert worst_world(before, ours) > 1e-3
    assert worst_world((ours - v) / 0.002, (next_states(m, q, v, controls)[1] - v) / 0.002) <= ACCURACY


def test_a_rollout_has_the_gradient_of_its_steps():
    """Through many steps, with checkpoints, bit for bit."""
    model = pb.load(arm("implicitfast"))
    system = pb.Articulated(model, worlds=2)
    q, v, controls = scattered(model.mujoco, 2, size=0.2)
    controls = np.tile(0.3 * controls, (30, 1, 1))
    found = []
    for every in (1, 7):
        run = pb.rollout(system, system.state(q, v), controls, checkpoint_every=every)
        found.append(run.pullback(q_bar=run.final.q, v_bar=run.final.v))
    for name in ("site_pos", "tendon_stiffness", "tendon_armature"):
        np.testing.assert_array_equal(found[0].params[name], found[1].params[name])
        assert np.abs(found[0].params[name]).max() > 0
    np.testing.assert_array_equal(found[0].state.q, found[1].state.q)


def test_single_precision():
    model = pb.load(arm("implicitfast", flap=False))
    q, v, controls = (x.astype(np.float32).astype(float) for x in scattered(model.mujoco, 20))
    v_of = {}
    for dtype in ("float32", "float64"):
        system = pb.Articulated(model, worlds=20, dtype=dtype)
        v_of[dtype] = system.step(system.state(q, v), controls).v
    np.testing.assert_allclose(v_of["float32"], v_of["float64"], atol=2e-3 * np.abs(v_of["float64"]).max())
    system = pb.Articulated(model, dtype="float32")
    pb.check_system(system, system.state(q[0], v[0]), 0.3 * controls[:1])


def test_the_direction_of_a_span_without_length():
    """As in MuJoCo it is x, and does not turn."""
    xml = """<mujoco><worldbody><site name="a" pos="0 0 1"/><body pos="0 0 1"><joint type="slide" axis="1 0.5 0"/>
      <geom size="0.1" mass="1"/><site name="b"/></body></worldbody><tendon><spatial name="t" range="-1 -0.5"
      limited="true" stiffness="3" springlength="0.5"><site site="a"/><site site="b"/></spatial></tendon></mujoco>"""
    model = pb.load(xml)
    system = pb.Articulated(model, None)
    ours = system.step(system.state([0.0], [0.3])).v
    np.testing.assert_allclose(ours, mujoco_run(model.mujoco, [[0.0]], [[0.3]], np.zeros((1, 1, 0)))[1][1], atol=1e-14)
    assert abs(ours[0, 0] - 0.3) > 1e-4
    grads = system.pullback(system.state([0.0], [0.3]), None, pb.State(np.ones((1, 1)), np.ones((1, 1))))
    assert np.isfinite(grads.state.q).all()


def test_robots_without_paths_compile_none():
    plain = pb.load(arm(), ignore=("tendon", "equality"))
    assert pb.Articulated(plain)._flavour.spatial  # actuators still pull
    bare = arm()
    bare = bare[: bare.index("<equality>")] + "</mujoco>"
    assert not pb.Articulated(pb.load(bare, ignore=("tendon",)))._flavour.spatial


def test_long_range_contact_names_them():
    with pytest.raises(pb.PullbackError, match=r"tendon 'string' acts.*ContactConvex"):
        pb.Articulated(pb.load(CUP.format(integrator="Euler")), "longrange")
