"""Tendons, and equality constraints on joints and tendons, against MuJoCo, and their gradients."""

import copy

import mujoco
import numpy as np
import pytest
from oracles import mujoco_run
from scenes import next_states, worst_world
from tendon_robots import HAND, scattered

import pullback as pb
from pullback.rollout.check import AGREES

# Both solvers balance forces to rounding. Found: below 2e-14.
ACCURACY = 1e-10
each_integrator = pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
OWN = ("tendon_coef", "tendon_stiffness", "tendon_damping", "tendon_armature", "tendon_spring", "gear", "gain", "bias")
ROWS = ("tendon_frictionloss", "equality_polycoef", "equality_solref", "equality_solimp")
LIMIT = ("tendon_range", "tendon_limit_solref", "tendon_limit_solimp")
CURL = np.array([0.0, 0.3, 1.0, -0.6, 0.0, 0.0])  # the tendon with a range: from -0.4 to 0.9


def assert_like_mujoco(xml, *, contact="model", states=200, **options):
    model = pb.load(xml, **options)
    m = model.mujoco
    q, v, controls = scattered(m, states)
    system = pb.Articulated(model, contact, worlds=states)
    ours = system.step(system.state(q, v), controls)
    if contact is None:
        _qs, vs = mujoco_run(m, q, v, controls[None])
        theirs = vs[1]
    else:
        theirs = next_states(m, q, v, controls)[1]
    dt = m.opt.timestep
    assert worst_world((ours.v - v) / dt, (theirs - v) / dt) <= ACCURACY
    return system


@each_integrator
@pytest.mark.parametrize("contact", ["model", None])
def test_a_hand_moves_as_in_mujoco(integrator, contact):
    assert_like_mujoco(HAND.format(integrator=integrator), contact=contact)


@pytest.mark.parametrize("kind", ["contact", "limit", "frictionloss", "equality", "tendon"])
def test_without_one_kind(kind):
    system = assert_like_mujoco(HAND.format(integrator="implicitfast"), ignore=(kind,))
    names = {"equality": "equality_solref", "tendon": "tendon_frictionloss", "limit": "tendon_range"}
    assert names.get(kind) not in system.params


@each_integrator
@pytest.mark.parametrize("side", [0, 1])
def test_gradients(integrator, side):
    """With the tendon beyond one end of its range."""
    model = pb.load(HAND.format(integrator=integrator))
    q, v, controls = scattered(model.mujoco, 200, seed=3)
    stretched = np.abs(q[:, 1] + 0.7 * q[:, 4]) > 0.3  # the tendon with a spring, whose dead band ends before
    q, v, controls = q[stretched], v[stretched], controls[stretched]
    at = [np.argmin, np.argmax][side](q @ CURL)
    assert (q[at] @ CURL - (-0.4, 0.9)[side]) * (-1, 1)[side] > 0.1
    system = pb.Articulated(model)
    controls[at, 0] = 0.3  # within its range
    report = pb.check_system(system, system.state(q[at], v[at]), controls[at][None])
    for name in ("q", "v", "control", *OWN, *ROWS, *LIMIT):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_gradients_without_constraints():
    model = pb.load(HAND.format(integrator="implicitfast"))
    q, v, controls = scattered(model.mujoco, 1, seed=5)
    system = pb.Articulated(model, contact=None)
    report = pb.check_system(system, system.state(q[0], v[0]), 0.3 * controls)
    assert not {*ROWS, *LIMIT} & set(system.params)
    for name in ("q", "v", "control", *OWN):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_a_rollout_has_the_gradient_of_its_steps():
    """Through many steps, with checkpoints, bit for bit."""
    model = pb.load(HAND.format(integrator="implicitfast"))
    system = pb.Articulated(model, worlds=2)
    q, v, controls = scattered(model.mujoco, 2, size=0.2)
    controls = np.tile(controls, (30, 1, 1))
    found = []
    for every in (1, 7):
        run = pb.rollout(system, system.state(q, v), controls, checkpoint_every=every)
        found.append(run.pullback(q_bar=run.final.q, v_bar=run.final.v))
    for name in ("tendon_coef", "tendon_stiffness", "equality_polycoef"):
        np.testing.assert_array_equal(found[0].params[name], found[1].params[name])
        assert np.abs(found[0].params[name]).max() > 0
    np.testing.assert_array_equal(found[0].state.q, found[1].state.q)


def test_single_precision():
    model = pb.load(HAND.format(integrator="Euler"))
    q, v, controls = (x.astype(np.float32).astype(float) for x in scattered(model.mujoco, 20))
    v_of = {}
    for dtype in ("float32", "float64"):
        system = pb.Articulated(model, worlds=20, dtype=dtype)
        v_of[dtype] = system.step(system.state(q, v), controls).v
    np.testing.assert_allclose(v_of["float32"], v_of["float64"], atol=1e-3 * np.abs(v_of["float64"]).max())
    system = pb.Articulated(model, dtype="float32")
    pb.check_system(system, system.state(q[0], v[0]), 0.3 * controls[:1])


def test_parameters_are_those_of_mujoco():
    """What is set moves the hand as a compiled model with those numbers and its inverse weights does."""
    model = pb.load(HAND.format(integrator="implicitfast"))
    m = model.mujoco
    rng = np.random.default_rng(0)
    fields = {"tendon_coef": "wrap_prm", "tendon_spring": "tendon_lengthspring", "equality_polycoef": "eq_data"}
    fields |= {"tendon_limit_solref": "tendon_solref_lim", "tendon_limit_solimp": "tendon_solimp_lim"}
    fields |= {"equality_solref": "eq_solref", "equality_solimp": "eq_solimp"}
    system = pb.Articulated(model, worlds=50)
    q, v, controls = scattered(m, 50)
    before = system.step(system.state(q, v), controls).v
    for name in (*OWN[:5], *ROWS, *LIMIT):
        value = system.params[name] * rng.uniform(0.9, 1.1, system.params[name].shape)
        there = getattr(m, fields.get(name, name))
        there[:] = np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, there.shape[-1] - value.shape[-1])])
        system.params[name] = value
    again = copy.copy(m)
    mujoco.mj_setConst(again, mujoco.MjData(again))
    m.tendon_invweight0[:], m.dof_invweight0[:] = again.tendon_invweight0, again.dof_invweight0
    ours = system.step(system.state(q, v), controls).v
    assert worst_world(before, ours) > 1e-3
    assert worst_world((ours - v) / 0.002, (next_states(m, q, v, controls)[1] - v) / 0.002) <= ACCURACY


def test_robots_without_tendons_compile_none():
    hand = HAND.format(integrator="Euler")
    plain = hand[: hand.index("<tendon>")] + "</mujoco>"
    assert pb.Articulated(pb.load(hand))._flavour.tendons
    assert not pb.Articulated(pb.load(plain))._flavour.tendons
    only_looks = plain.replace("</mujoco>", '<tendon><fixed><joint joint="a1" coef="1"/></fixed></tendon></mujoco>')
    assert not pb.Articulated(pb.load(only_looks))._flavour.tendons


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("tendon_armature", -1.0, "'split'.*negative"),
        ("tendon_spring", [[0.2, -0.1], [0, 0], [0, 0], [0, 0]], "shorter length first"),
        ("tendon_range", [[0, 0], [0, 0], [1, -1], [0, 0]], "lower limit first"),
        ("equality_solref", [[0.1, -1.0], [1, 1], [1, 1], [1, 1]], "two positive numbers"),
    ],
)
def test_impossible_numbers(name, value, match):
    system = pb.Articulated(pb.load(HAND.format(integrator="Euler")))
    with pytest.raises(pb.PullbackError, match=match):
        system.params[name] = value


def test_mixed_solref_of_an_equality_is_named():
    xml = HAND.format(integrator="Euler").replace('solref="-900 -40"', 'solref="-900 1"')
    with pytest.raises(pb.PullbackError, match=r"solref of equality 'hold' \(joint\).*-900 1"):
        pb.Articulated(pb.load(xml))
