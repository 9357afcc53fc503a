"""Gradients through compliant contact, against central differences; it is smooth, also where surfaces come to touch."""

import functools

import gradients as at
import numpy as np
import pytest
from gradients import BODIES, SHAPES, STATE
from scenes import scene

import pullback as pb
from pullback.rollout.check import KINK

# Forces bend over a fraction of a millimetre: differences are near only with steps that are shorter still. The long
# ones are for parameters whose gradients are little more than rounding.
STEPS = (1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7, 3e-8, 1e-8)
check = functools.partial(at.check, steps=STEPS)
SURFACE = ("contact_stiffness", "contact_dissipation", "slip_speed")
LIMIT = ("limit_stiffness", "limit_dissipation", "joint_range")
INTEGRATORS = ("Euler", "implicitfast", "RK4")
each_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)


def compliant(**settings) -> pb.ContactCompliant:
    return pb.ContactCompliant(**{"smoothing": 1e-3, "limit_smoothing": 1e-2, **settings})


# free bodies


@each_integrator
def test_at_rest(integrator):
    system, state, control = at.at_rest(compliant(), option=f'integrator="{integrator}"')
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SURFACE, "friction", "mass", "com", "gravity"))


@each_integrator
def test_sticking(integrator):
    system, state, control = at.pushed(compliant(), option=f'integrator="{integrator}"')
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SURFACE, "friction", *BODIES))


@each_integrator
@pytest.mark.parametrize("condim", [1, 3])
def test_sliding(integrator, condim):
    geom = f'condim="{condim}"'
    place = at.sliding(compliant(), option=f'integrator="{integrator}"', geom=geom, floor=geom)
    report = check(*place, matter=(*STATE, "control", *SHAPES, "contact_stiffness", "contact_dissipation", *BODIES))
    assert (report["friction"].largest > 0) == (report["slip_speed"].largest > 0) == (condim == 3)


def test_parting():
    system, state, control = at.parting(compliant())
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SURFACE, "mass", "com", "inertia"))


def test_parting_faster_than_dissipation_lets_it_push():
    """Beyond 1/d the surface has let go: contacts are there, without a force."""
    system, state, control = at.parting(compliant(contact_dissipation=5.0))
    fast = pb.State(state.q, state.v + np.tile([0, 0, 1.0, 0, 0, 0], 3))
    check(system, fast, control, matter=STATE, idle=("contact_stiffness", "friction"))
    # and within the fade
    between = pb.State(state.q, state.v * 0 + np.tile([0.1, 0.2, 0.19, 0, 0, 0], 3))
    check(system, between, control, matter=(*STATE, "contact_stiffness", "contact_dissipation"))


@each_integrator
def test_in_the_margin(integrator):
    system, state, control = at.in_the_margin(compliant(), option=f'integrator="{integrator}"')
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SURFACE, "friction", *BODIES))


def test_while_the_force_sets_in():
    """Depths between minus and plus the smoothing, where the ramp bends."""
    system, state, control = at.at_rest(compliant(smoothing=0.01))
    for lift in (-2e-3, 1e-3, 3e-3, 6e-3):
        moved = at.kicked(pb.State(state.q + np.tile([0, 0, lift, 0, 0, 0, 0], 3), state.v), [1, 1, 0.1, 1, 1, 1])
        check(system, moved, control, matter=(*STATE, *SURFACE, "smoothing", "friction"))


def test_many_contacts_at_once():
    system, state, control = at.pile(compliant())
    check(system, state, control, matter=(*STATE, *SHAPES, *SURFACE, "friction", "mass", "com", "inertia"))


# touch-down

FALLING = scene('<geom type="plane" size="1 1 1"/><body><freejoint/><geom size="0.1" mass="1"/></body>')
WIDTH = 1e-3


def falling(contact=None) -> pb.Articulated:
    contact = contact or compliant(smoothing=WIDTH, contact_stiffness=2e4)
    return at.uneven(pb.Articulated(pb.load(FALLING), contact))


def at_depth(system: pb.Articulated, depth: float) -> pb.State:
    return system.state([0, 0, 0.1 - depth, 1, 0, 0, 0], [0.5, 0.1, -0.3, 1, 2, 3])


@pytest.mark.parametrize("depth", [-1.5, -0.7, -0.3, 0.0, 0.3, 0.7, 1.5])
def test_both_sides_of_touching_down(depth):
    system = falling()
    report = check(system, at_depth(system, depth * WIDTH), matter=STATE)
    assert (report["friction"].largest > 0) == (depth > -1)
    assert (report["contact_stiffness"].largest > 0) == (depth > -1)


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_the_gradient_has_no_jump(integrator):
    """Its change over a small move shrinks with the move, everywhere along a touch-down."""
    xml = FALLING.replace("<option", f'<option integrator="{integrator}"')
    system = at.uneven(pb.Articulated(pb.load(xml), compliant(smoothing=WIDTH, contact_stiffness=2e4)))
    bar = pb.State(np.ones((1, 7)), np.arange(1.0, 7.0)[None])

    def gradient(depth: float) -> np.ndarray:
        bars = system.pullback(at_depth(system, depth), None, bar)
        return np.concatenate([bars.state.q[0], bars.state.v[0]])

    whole = np.abs(gradient(2 * WIDTH) - gradient(-2 * WIDTH)).max()
    assert whole > 1  # it does change
    for place in (-1.0, 0.0, 1.0):
        jumps = [np.abs(gradient((place + h) * WIDTH) - gradient((place - h) * WIDTH)).max() for h in (1e-2, 1e-4)]
        assert jumps[1] < 0.05 * jumps[0] + 1e-9 * whole
        assert jumps[0] < 0.1 * whole


def test_differences_across_touching_down_agree():
    """Central differences that reach over the edge of the force come to the gradient there, if not as fast."""
    system = falling()
    state = at_depth(system, -WIDTH)
    bar = pb.State(np.zeros((1, 7)), np.arange(1.0, 7.0)[None])
    exact = system.pullback(state, None, bar).state.q[0, 2]

    def value(depth: float) -> float:
        return float(np.sum(bar.v * system.step(at_depth(system, depth)).v))

    errors = [abs((value(-WIDTH - h) - value(-WIDTH + h)) / (2 * h) - exact) for h in (1e-4, 1e-5)]
    assert errors[1] < 0.15 * errors[0]


# Pairs of bodies, one on the other: lying or standing, and half over an edge. Flat faces are not quite parallel.
ON_EACH_OTHER = """
  <body pos="0 0 0.2"><freejoint/><geom type="box" size="0.2 0.15 0.1" pos="0.01 0 0" friction="0.5"/></body>
  <body pos="0.15 0.02 0.349" euler="1 89 20"><freejoint/><geom type="cylinder" size="0.05 0.1" friction="0.6"/></body>
  <body pos="1 0 0.2"><freejoint/><geom type="box" size="0.2 0.15 0.1" pos="0.01 0 0" friction="0.5"/></body>
  <body pos="1.18 0.02 0.349" euler="1 1 20"><freejoint/><geom type="cylinder" size="0.08 0.05" friction="0.6"/></body>
  <body pos="2 0 0.2"><freejoint/><geom type="cylinder" size="0.2 0.1" pos="0.01 0 0" friction="0.5"/></body>
  <body pos="2.18 0.02 0.349" euler="1 0.6 20"><freejoint/><geom type="cylinder" size="0.1 0.05" friction="0.6"/></body>
  <body pos="3 0 0.2"><freejoint/><geom type="cylinder" size="0.2 0.1" pos="0.01 0 0" friction="0.5"/></body>
  <body pos="3.13 0.02 0.349" euler="1 89 20"><freejoint/><geom type="capsule" size="0.05 0.1" friction="0.6"/></body>
  <body pos="4 0 0.2"><freejoint/><geom type="box" size="0.2 0.15 0.1" pos="0.01 0 0" friction="0.5"/></body>
  <body pos="4.02 0.02 0.348" euler="1 89.6 20"><freejoint/><geom type="capsule" size="0.05 0.3" friction="0.6"/></body>
  <body pos="5 0 0.2"><freejoint/><geom type="mesh" mesh="block" pos="0.01 0 0" friction="0.5"/></body>
  <body pos="5.18 0.02 0.349" euler="1 1 20"><freejoint/><geom type="cylinder" size="0.08 0.05" friction="0.6"/></body>
"""
BLOCK = " ".join(f"{x} {y} {z}" for x in (-0.2, 0.2) for y in (-0.15, 0.15) for z in (-0.1, 0.1))


# Was wrong: points of cylinders and capsules that are clipped, or chosen by another contact.
def test_bodies_on_each_other():
    block = f'<asset><mesh name="block" vertex="{BLOCK}"/></asset>'
    xml = scene(ON_EACH_OTHER, rest=block)
    system = at.uneven(pb.Articulated(pb.load(xml), compliant()))
    state = system.state(None, 0.1 * np.random.default_rng(0).normal(size=system.nv))
    report = check(system, state, matter=(*STATE, *SHAPES, *SURFACE), names=(*STATE, *SHAPES, *SURFACE))
    assert all(row.status != KINK for row in report.rows)
    # each of them is pushed, and grows
    bars = system.pullback(state, None, pb.State(np.zeros((1, system.nq)), np.ones((1, system.nv))))
    sizes = np.any(bars.params.geom_size != 0, axis=-1)
    assert np.sum(sizes) == 11 and np.all(np.any(bars.params.geom_pos != 0, axis=-1))


# robots


@each_integrator
def test_arms_that_touch(integrator):
    place = at.arms(compliant(), f'integrator="{integrator}"')
    names = ("body_pos", "body_quat", "joint_pos", "joint_axis")
    check(*place, matter=(*STATE, *SHAPES, *SURFACE, *BODIES, *names))


@each_integrator
def test_a_robot_that_touches_itself(integrator):
    system, state, control = at.self_contact(compliant(), f'integrator="{integrator}"')
    pairs = at.touching_bodies(system, state)
    assert any(0 in pair for pair in pairs) and any(0 not in pair for pair in pairs), pairs
    names = (*STATE, "control", *SHAPES, *SURFACE, *BODIES, "friction", "body_quat")
    check(system, state, control, matter=names)


@each_integrator
def test_servos_that_feel_velocity(integrator):
    system, state, control = at.servoed(compliant(), integrator)
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *BODIES, "gain", "bias", "gear", "friction"))


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_in_a_fluid(integrator):
    option = f'integrator="{integrator}" density="200" viscosity="1" wind="1 0.5 0"'
    system, state, control = at.sliding(compliant(), option=option)
    fluid = ("fluid_density", "fluid_viscosity", "fluid_box", "wind")
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SURFACE, *BODIES, "friction", *fluid))


def test_explicit_pairs():
    system, state, control = at.explicit_pairs(compliant())
    check(system, state, control, matter=(*STATE, *SHAPES, *SURFACE, "pair_friction", "mass", "armature"))


def test_stiff_surfaces():
    """Forces at the end of the step: 1e7 N/m and a timestep of 4 ms."""
    system, state, control = at.sliding(compliant(contact_stiffness=1e7))
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SURFACE, *BODIES))


# joints


@each_integrator
@pytest.mark.parametrize("joint", ["", 'margin="0.05"'], ids=["plain", "margin"])
def test_limits(joint, integrator):
    for speed in (0.0, 0.3):
        system, state, control = at.at_limits(compliant(), joint, speed, f'integrator="{integrator}"')
        names = LIMIT if speed else ("limit_stiffness", "joint_range")
        check(system, state, control, matter=(*STATE, *names, *BODIES))
        rng = np.random.default_rng(1)
        bars = system.pullback(state, None, pb.State(np.zeros((4, 7)), rng.normal(size=(4, 6))))
        assert np.all(np.any(bars.params.joint_range != 0, axis=1))  # each joint's limit pushed in some world


def test_limits_while_the_force_sets_in():
    system, state, control = at.at_limits(compliant(limit_smoothing=0.1))
    report = check(system, state, control, matter=(*STATE, *LIMIT, "limit_smoothing"))
    assert report["limit_smoothing"].largest > 1e-3


@each_integrator
def test_friction_loss_held_and_slipping(integrator):
    option = f'integrator="{integrator}"'
    for speed in (1e-3, 1.0):
        place = at.with_losses(compliant(), 0.3, speed * np.array([1.0, -1, 2, 1, -1, 2]), option)
        report = check(*place, matter=(*STATE, "frictionloss", "joint_slip_speed", *BODIES))
        assert report["frictionloss"].entries == 6


def test_a_ball_joint_in_its_home_pose_within_the_margin():
    at.assert_no_axis_is_no_harm(compliant())


# worlds and rollouts


def test_a_parameter_a_world():
    names = ("friction", "geom_size", "geom_pos", "mass", "contact_stiffness", "contact_dissipation", "slip_speed")
    at.assert_a_parameter_a_world(compliant(), (*names, "smoothing"))


@each_integrator
def test_a_rollout(integrator):
    system, state, control = at.sliding(compliant(), option=f'integrator="{integrator}"')
    check(system, state, control, rollout_steps=6, matter=(*STATE, "control", *SHAPES, *SURFACE, "friction", *BODIES))


def test_checkpoints_do_not_change_a_bit():
    at.assert_checkpoints_change_nothing(compliant())


def test_runs_are_the_same_bit_for_bit():
    at.assert_deterministic(compliant())


def test_worlds_do_not_know_of_each_other():
    at.assert_worlds_apart(compliant())


def test_without_parameters_the_other_gradients_are_the_same_bits():
    at.assert_params_are_optional(compliant())


def test_linearize_is_the_pullback_of_unit_cotangents():
    at.assert_linearize_is_the_pullback(at.sliding(compliant()))


def test_single_precision_agrees_with_double():
    at.assert_single_precision_is_near(compliant(), 0.02)
