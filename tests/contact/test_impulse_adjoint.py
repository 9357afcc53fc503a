"""Gradients through impulses, against central differences: of the sweeps as they were computed, converged or not."""

import gradients as at
import numpy as np
import pytest
from gradients import BODIES, SHAPES, STATE, check
from scenes import scene

import pullback as pb

SOLVER = ("erp", "cfm")


def impulse(**settings) -> pb.ContactImpulse:
    """Restitution is not at its bound, zero, and bodies sink in by more than finite differences move them."""
    return pb.ContactImpulse(**{"restitution": 0.3, "cfm": 0.05, "erp": 0.1, **settings})


def impulses_of(system, state, control) -> np.ndarray:
    """How much of the next velocity is due to impulses."""
    free = pb.Articulated(system.model, contact=None, worlds=system.worlds)
    return system.step(state, control).v - free.step(state, control).v


# free bodies


@pytest.mark.parametrize("sweeps", [1, 5, 50])
def test_at_rest(sweeps):
    system, state, control = at.at_rest(impulse(sweeps=sweeps))
    if sweeps == 50:
        assert np.abs(state.v[0, 12:]).max() < 0.02  # the box; the ball rolls
    assert np.abs(impulses_of(system, state, control)).max() > 0.01
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SOLVER, "mass", "com", "gravity"))


@pytest.mark.parametrize("sweeps", [1, 5, 50])
def test_sticking(sweeps):
    system, state, control = at.pushed(impulse(sweeps=sweeps))
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SOLVER, *BODIES))


@pytest.mark.parametrize("sweeps", [1, 5, 50])
@pytest.mark.parametrize("condim", [1, 3])
def test_sliding(sweeps, condim):
    geom = f'condim="{condim}"'
    system, state, control = at.sliding(impulse(sweeps=sweeps), geom=geom, floor=geom)
    report = check(system, state, control, matter=(*STATE, "control", *SHAPES, "cfm", *BODIES))
    assert (report["friction"].largest > 0) == (condim == 3)


def test_parting():
    """Faster than what undoes the depth: contacts are there, without an impulse."""
    system, state, control = at.parting(impulse(), floor='margin="0.001"')
    check(system, state, control, matter=(*STATE, "control", "mass", "com", "inertia"))


def test_bouncing():
    system, state, control = at.sliding(impulse(restitution=0.7))
    down = pb.State(state.q, state.v + np.tile([5, 0, -1.0, 0, 0, 0], 3))
    report = check(system, down, control, matter=(*STATE, "control", *SHAPES, "restitution", "friction", *BODIES))
    assert report["restitution"].largest > 0.1


@pytest.mark.parametrize("speed", [-0.1, -0.5, -3.0])
def test_bouncing_after_touching_at_different_times(speed):
    """Bodies a millimetre deep: slow ones touched longer ago than a step, which is taken for one step."""
    system, state, control = at.sliding(impulse(restitution=0.7))
    down = pb.State(state.q, state.v + np.tile([5, 0, speed, 0, 0, 0], 3))
    check(system, down, control, matter=(*STATE, "control", *SHAPES, "restitution", "friction", *BODIES))


@pytest.mark.parametrize("sweeps", [1, 5, 30])
def test_a_first_guess_that_is_scaled_down(sweeps):
    """Three links deep in the floor: that everything sticks is far from true, and few sweeps keep much of the guess."""
    capsule = '<geom type="capsule" fromto="0 0 0 .3 0 0" size="0.05" mass="{}"/>'
    link = '<body pos="0.3 0 0"><joint axis="0 1 0" range="-30 30" armature="0.01"/>' + capsule.format(0.3)
    body = f"<body><freejoint/>{capsule.format(1)}{link}{link}</body></body></body>"
    model = pb.load(scene(f'<geom type="plane" size="9 9 1"/>{body}', timestep=0.002))
    system = at.uneven(pb.Articulated(model, impulse(sweeps=sweeps)))
    turn = np.array([0.997, 0.049, 0.055, 0.036])
    q = np.array([0, 0, 0.04, *turn / np.linalg.norm(turn), 0.988, -0.55])
    state = system.state(q, [-0.216, -1.344, -1.606, 0.426, 0.065, -0.713, -0.201, -1.459])
    system.step(state)
    assert 0 < system._lanes[0].rows.start_scale.numpy()[0, 0] < 1
    check(system, state, matter=(*STATE, "geom_size", "joint_range", *SOLVER, "friction", "mass", "com", "inertia"))


@pytest.mark.parametrize("restitution", [0.0, 0.3])
def test_in_the_margin(restitution):
    """Coming down fast: without restitution the gap closes, with it what meets within the step bounces."""
    system, state, control = at.in_the_margin(impulse(restitution=restitution))
    names = ["q", "v", "control", *system.params]
    if not restitution:
        names.remove("restitution")  # it is at its bound, where bouncing begins with a jump
    # at 12 m/s, rounding hides more of small gradients
    rest, bounce = ("slop", "erp"), ("restitution",)
    matter = (*STATE, "control", *SHAPES, "cfm", "friction", *BODIES, *(bounce if restitution else rest))
    check(system, state, control, tolerance=2e-5, names=names, matter=matter, idle=rest if restitution else ())


@pytest.mark.parametrize("sweeps", [1, 5, 50])
def test_many_contacts_at_once(sweeps):
    system, state, control = at.pile(impulse(sweeps=sweeps))
    check(system, state, control, matter=(*STATE, *SHAPES, *SOLVER, "friction", "mass", "com", "inertia"))


def test_both_sides_of_touching_down():
    """Just above the floor nothing matters but the fall; just below, the contact does."""
    xml = scene('<geom type="plane" size="1 1 1"/><body><freejoint/><geom size="0.1" mass="1"/></body>')
    system = at.uneven(pb.Articulated(pb.load(xml), impulse()))
    for height, touches in ((0.1 + 1e-3, False), (0.1 - 1e-3, True)):
        state = system.state([0, 0, height, 1, 0, 0, 0], [9.0, 0.1, -1, 1, 2, 3])
        report = check(system, state, matter=STATE)
        assert (report["friction"].largest > 0) == touches


# robots


def test_arms_that_touch():
    place = at.arms(impulse())
    check(*place, matter=(*STATE, *SHAPES, *SOLVER, *BODIES, "body_pos", "body_quat", "joint_pos", "joint_axis"))


@pytest.mark.parametrize("sweeps", [1, 50])
def test_a_robot_that_touches_itself(sweeps):
    system, state, control = at.self_contact(impulse(sweeps=sweeps))
    pairs = at.touching_bodies(system, state)
    assert any(0 in pair for pair in pairs) and any(0 not in pair for pair in pairs), pairs
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *SOLVER, *BODIES, "friction", "body_quat"))


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_servos_that_feel_velocity(integrator):
    """The matrix that impulses see has the implicit damping in it: gains and biases matter to it."""
    system, state, control = at.servoed(impulse(), integrator)
    assert np.abs(impulses_of(system, state, control)).max() > 0.01
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *BODIES, "gain", "bias", "gear", "friction"))


def test_free_bodies_under_implicitfast():
    for restitution in (0.3, 0.0):
        system, state, control = at.sliding(impulse(restitution=restitution), option='integrator="implicitfast"')
        check(system, state, control, matter=(*STATE, "control", *SHAPES, "cfm", "friction", *BODIES))


def test_in_a_fluid():
    system, state, control = at.sliding(impulse(), option='density="200" viscosity="1" wind="1 0.5 0"')
    fluid = ("fluid_density", "fluid_viscosity", "fluid_box", "wind")
    check(system, state, control, matter=(*STATE, "control", *SHAPES, *BODIES, "friction", *fluid))


def test_explicit_pairs():
    system, state, control = at.explicit_pairs(impulse())
    check(system, state, control, matter=(*STATE, *SHAPES, "pair_friction", "restitution", "mass", "armature"))


# joints


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
@pytest.mark.parametrize("joint", ["", 'margin="0.05"'], ids=["plain", "margin"])
def test_limits(joint, integrator):
    for speed in (0.0, 0.3):
        system, state, control = at.at_limits(impulse(), joint, speed, f'integrator="{integrator}"')
        check(system, state, control, matter=(*STATE, "joint_range", *SOLVER, *BODIES))
        rng = np.random.default_rng(1)
        bars = system.pullback(state, None, pb.State(np.zeros((4, 7)), rng.normal(size=(4, 6))))
        assert np.all(np.any(bars.params.joint_range != 0, axis=1))  # each joint's limit pushed in some world


def test_limits_that_are_not_reached_yet():
    """Within the margin, moving in: the gap closes at most."""
    system, state, control = at.at_limits(impulse(), 'margin="0.05"', 0.0)
    q = np.array(state.q)
    q[:, 0], q[:, 1], q[:, 6] = 0.5, 0.09, 0.25
    v = np.tile([9.0, 9, 0.3, 0.2, 0.1, 9], (4, 1))
    check(system, pb.State(q, v), control, matter=(*STATE, "joint_range", *BODIES))


def test_friction_loss_held_and_slipping():
    held = at.with_losses(impulse(), 90.0, 0.01 * np.ones(6))
    check(*held, matter=(*STATE, "cfm"), idle=("frictionloss",))
    slipping = at.with_losses(impulse(), 0.3, np.array([1.0, -1, 2, 1, -1, 2]))
    report = check(*slipping, matter=(*STATE, "frictionloss", *BODIES))
    assert report["frictionloss"].entries == 6


@pytest.mark.parametrize("sweeps", [1, 5])
def test_few_sweeps_of_joints(sweeps):
    check(*at.at_limits(impulse(sweeps=sweeps), 'frictionloss="0.2"'), matter=(*STATE, "joint_range", *SOLVER, *BODIES))


def test_a_ball_joint_in_its_home_pose_within_the_margin():
    at.assert_no_axis_is_no_harm(impulse())


# worlds and rollouts


def test_a_parameter_a_world():
    names = ("friction", "geom_size", "geom_pos", "mass", "erp", "cfm", "restitution")
    at.assert_a_parameter_a_world(impulse(), names)


def test_a_rollout():
    system, state, control = at.sliding(impulse())
    check(system, state, control, rollout_steps=6, matter=(*STATE, "control", *SHAPES, "friction", *BODIES))


def test_checkpoints_do_not_change_a_bit():
    at.assert_checkpoints_change_nothing(impulse(sweeps=20))


def test_runs_are_the_same_bit_for_bit():
    at.assert_deterministic(impulse(sweeps=20))


def test_worlds_do_not_know_of_each_other():
    at.assert_worlds_apart(impulse(sweeps=20))


def test_without_parameters_the_other_gradients_are_the_same():
    at.assert_params_are_optional(impulse(sweeps=20))


def test_linearize_is_the_pullback_of_unit_cotangents():
    at.assert_linearize_is_the_pullback(at.sliding(impulse()))


def test_single_precision_agrees_with_double():
    at.assert_single_precision_is_near(impulse(sweeps=20), 0.02)
