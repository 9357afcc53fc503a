"""Accelerations under MuJoCo's soft convex contact, against MuJoCo with a solver that rounding alone stops."""

import mujoco
import numpy as np
import pytest
from scenes import (
    ARMS,
    BOXES,
    gymnasium_robot,
    limits,
    next_states,
    objects,
    scene,
    worst_world,
)
from trees import lived_states

import pullback as pb

# Both solvers balance forces to rounding, 1e-13 or so of the largest; stiff rows multiply that. Found: below 1e-11.
ACCURACY = 1e-8
CONES = ("pyramidal", "elliptic")
each_cone = pytest.mark.parametrize("cone", CONES)


def both(source, *, states: int = 16, seed: int = 0, kick: float = 0.5, dtype: str = "float64", ignore=()):
    """Mean accelerations of a step, ours and MuJoCo's; for Euler without damping, qacc itself."""
    model = pb.load(source, ignore=ignore)
    m = model.mujoco
    q, v, controls = lived_states(m, np.random.default_rng(seed), states, kick=kick)
    if dtype == "float32":  # from the very same numbers
        q, v, controls = (x.astype(dtype).astype(float) for x in (q, v, controls))
    system = pb.Articulated(model, worlds=states, dtype=dtype)
    ours = system.step(system.state(q, v), controls)
    exact_q, exact_v, active = next_states(m, q, v, controls)
    assert np.all(active > 0)
    free = pb.Articulated(model, contact=None, worlds=states, dtype=dtype)
    without = free.step(free.state(q, v), controls).v
    dt = m.opt.timestep
    # what is compared is not the motion without constraints
    assert np.all(np.abs(without - exact_v).max(axis=1) > 1e-6 * np.abs(exact_v).max(axis=1))
    return (ours.v - v) / dt, (exact_v - v) / dt, ours.q, exact_q


def assert_same(source, accuracy: float = ACCURACY, **options):
    ours, theirs, q, exact_q = both(source, **options)
    assert worst_world(ours, theirs) <= accuracy
    assert worst_world(q, exact_q) <= accuracy


# the cones


@each_cone
@pytest.mark.parametrize("condim", [1, 3, 4, 6])
def test_objects_on_a_floor(cone, condim):
    one, other = (f'condim="{condim}" friction="{x} 0.03 0.02"' for x in (0.7, 0.5))
    assert_same(objects(body=one, floor=other, option=f'cone="{cone}"'))


@each_cone
def test_mixed_dimensions(cone):
    """Contacts with 1, 3, 4 and 6 rows at the same time."""
    xml = objects(option=f'cone="{cone}"', body='friction="0.6 0.02 0.01"')
    for name, dim in (("ball", 6), ("box", 4), ("can", 1), ("rod", 3), ("floor", 1)):
        xml = xml.replace(f'geom name="{name}"', f'geom name="{name}" condim="{dim}"')
    assert_same(xml)


@each_cone
@pytest.mark.parametrize("impratio", [0.3, 10])
def test_the_ratio_of_impedances(cone, impratio):
    assert_same(objects(option=f'cone="{cone}" impratio="{impratio}"', body='condim="4" friction="0.4 0.02 0.01"'))


@each_cone
@pytest.mark.parametrize("friction", ["0 0 0", "1e-6 1e-6 1e-6", "3 0.5 0.2"])
def test_coefficients_of_friction_at_their_ends(cone, friction):
    """MuJoCo's least coefficient is 1e-5; the edges of a pyramid are then parallel to ten digits, for either solver."""
    xml = objects(option=f'cone="{cone}"', body=f'condim="6" friction="{friction}"', floor='friction="0 0 0"')
    assert_same(xml, accuracy=1e-7 if cone == "pyramidal" else ACCURACY)


# solref and solimp

SOFTNESS = {
    "slow": 'solref="0.1 1.5"',
    "shorter than two timesteps": 'solref="0.001 1"',
    "springy": 'solref="0.03 0.1"',
    "direct": 'solref="-2000 -40"',
    "direct, without damping": 'solref="-2000 0"',
    "linear": 'solimp="0.5 0.95 0.02 0.5 1"',
    "square": 'solimp="0.3 0.9 0.02 0.3 2"',
    "cubic": 'solimp="0.2 0.99 0.03 0.7 3"',
    "between": 'solimp="0.2 0.9 0.03 0.6 2.5"',
    "falling": 'solimp="0.95 0.6 0.02 0.5 2"',
    "flat": 'solimp="0.7 0.7 0.01 0.5 2"',
    "no width": 'solimp="0.5 0.9 0 0.5 2"',
    "as hard as can be": 'solimp="1 1 0.01 0.5 2"',
    "as soft as can be": 'solimp="0 0.5 0.03 0.5 2"',
}


@pytest.mark.parametrize("softness", SOFTNESS.values(), ids=SOFTNESS)
def test_softness_of_contacts(softness):
    assert_same(objects(body=softness, floor=softness, option='cone="elliptic"'))


@pytest.mark.parametrize("softness", SOFTNESS.values(), ids=SOFTNESS)
def test_softness_of_limits(softness):
    names = softness.replace("solref", "solreflimit").replace("solimp", "solimplimit")
    assert_same(limits(names))


def test_without_the_guard_of_time_constants():
    assert_same(objects(body='solref="0.006 1"', floor='solref="0.006 1"', flag='refsafe="disable"'))


@each_cone
def test_mixing_by_weight_and_priority(cone):
    xml = objects(option=f'cone="{cone}"', floor='solref="0.03 0.8" solmix="2" condim="4"')
    details = {
        "ball": 'solmix="0.5" solref="0.05 0.7" solimp="0.5 0.9 0.02 0.5 2" friction="0.3 0.1 0.01"',
        "rod": 'solmix="0" solref="-900 -20" friction="0.8 0.01 0.1"',
        "bar": 'priority="1" friction="0.1 0.1 0.1" condim="6" solref="0.04 1.2"',
        "box": 'priority="-1" friction="0.9 0.1 0.1" condim="6"',
    }
    for name, detail in details.items():
        xml = xml.replace(f'geom name="{name}"', f'geom name="{name}" {detail}')
    assert_same(xml, states=30)


@each_cone
@pytest.mark.parametrize("gap", [0, 0.01])
def test_margins(cone, gap):
    assert_same(objects(body=f'margin="0.02" gap="{gap}"', floor='margin="0.01"', option=f'cone="{cone}"'))


@each_cone
def test_explicit_pairs(cone):
    pair = """<contact>
      <pair geom1="floor" geom2="ball" condim="6" friction="0.8 0.3 0.05 0.02 0.04" solref="0.03 0.9"
        solreffriction="0.05 1.3" solimp="0.6 0.9 0.02 0.5 2"/>
      <pair geom1="box" geom2="floor" condim="4" friction="0.2 0.7 0.05 0 0" solreffriction="-500 -12" margin="0.01"/>
      <pair geom1="rod" geom2="bar" condim="3" friction="0.5 0.9 0 0 0"/>
      <pair geom1="rod" geom2="floor" condim="1"/></contact>"""
    assert_same(objects(option=f'cone="{cone}"', rest=pair), states=30)


# limits and friction loss


@pytest.mark.parametrize("joint", ["", 'margin="0.05"', 'armature="0.02" damping="0.1"'])
def test_limits_of_every_joint(joint):
    assert_same(limits(joint), states=30)


@pytest.mark.parametrize(
    "joint",
    [
        'frictionloss="0.05"',
        'frictionloss="0.5"',
        'frictionloss="0.2" solreffriction="0.05 1" solimpfriction="0.5 0.9 0.1"',
    ],
    ids=["weak", "strong", "soft"],
)
def test_friction_loss(joint):
    """Some joints move against it, others are held; free and ball joints have it on each axis."""
    assert_same(limits(joint), states=30)
    free = f'<geom type="plane" size="1 1 1"/><body pos="0 0 0.1"><joint type="free" {joint}/><geom size="0.1"/></body>'
    assert_same(scene(free))


def test_a_ball_joint_turned_the_long_way_round():
    """Quaternions of either sign, and of any length, are the same rotation: the same distance to the limit."""
    model = pb.load(limits())
    m = model.mujoco
    q = np.tile(m.qpos0, (4, 1))
    turn = np.array([np.cos(0.6), *(np.sin(0.6) * np.array([0.6, 0.0, 0.8]))])
    q[:, 2:6] = turn * np.array([[1], [-1], [2.5], [-0.3]])
    v = np.tile(0.3 * np.arange(6.0), (4, 1))
    system = pb.Articulated(model, worlds=4)
    ours = system.step(system.state(q, v)).v
    _, exact, active = next_states(m, q, v, np.zeros((4, 0)))
    assert np.all(active > 0)
    assert worst_world(ours - v, exact - v) <= ACCURACY
    assert worst_world(ours, ours[[0, 0, 0, 0]]) <= 1e-12


def test_a_ball_joint_in_its_home_pose_within_the_margin():
    """It has turned about no axis: MuJoCo pushes about x. No gradient exists there, but none is NaN."""
    model = pb.load(
        scene('<body><joint type="ball" range="0 1" margin="0.05"/><geom size="0.1" pos="0.3 0 0"/></body>')
    )
    system = pb.Articulated(model)
    state = system.state(None, [0.1, 0.2, 0.3])
    _, exact, active = next_states(model.mujoco, state.q, state.v, np.zeros((1, 0)))
    assert active[0] == 1
    np.testing.assert_allclose(system.step(state).v, exact, rtol=1e-9)
    bars = system.pullback(state, None, pb.State(np.zeros((1, 4)), np.ones((1, 3))))
    assert np.all(np.isfinite(bars.state.q)) and np.all(np.isfinite(bars.params.joint_range))


# robots


@each_cone
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4"])
def test_two_arms_and_a_ball(cone, integrator):
    """Robots that touch each other, the floor and a ball, with dampers that two of the integrators treat implicitly."""
    assert_same(scene(ARMS, option=f'cone="{cone}" integrator="{integrator}"'), states=30)


@pytest.mark.parametrize("integrator", ["implicitfast", "implicit", "RK4"])
def test_objects_with_other_integrators(integrator):
    assert_same(objects(option=f'integrator="{integrator}"', body='condim="4" friction="0.8 0.02 0.01"'))


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4"])
def test_limits_with_every_integrator(integrator):
    assert_same(limits('margin="0.02" damping="0.3" frictionloss="0.1"', option=f'integrator="{integrator}"'))


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4"])
def test_in_a_fluid(integrator):
    assert_same(objects(option=f'integrator="{integrator}" density="300" viscosity="2" wind="1 0.5 0"'))


@each_cone
def test_boxes_in_a_pile(cone):
    assert_same(scene(BOXES, option=f'cone="{cone}"'), states=30, kick=0.2)


@pytest.mark.parametrize(
    "robot", ["ant", "hopper", "half_cheetah", "walker2d", "humanoid", "humanoidstandup", "pusher"]
)
def test_gymnasium_robots(robot):
    assert_same(gymnasium_robot(robot), ignore=("tendon",), states=30)


@pytest.mark.parametrize("robot", ["quadruped", "humanoid", "arm"])
def test_sample_robots(robot):
    assert_same(pb.robots.ROBOTS[robot](), states=30)


def test_a_second_of_motion():
    """A standing robot does not diverge as a falling one does: after a second it is still where MuJoCo's is."""
    model = pb.load(pb.robots.quadruped())
    m, system = model.mujoco, pb.Articulated(model)
    steps = round(1 / model.timestep)
    run = pb.rollout(system, system.state(), np.tile(model.home.control, (steps, 1, 1)))
    q, v, control = model.home.q[None], model.home.v[None], model.home.control[None]
    for _ in range(steps):
        q, v, _ = next_states(m, q, v, control)
    assert np.abs(run.q[-1] - q).max() <= 1e-6


# at rest, where most numbers are rounding


def test_a_ball_at_rest_carries_its_weight():
    model = pb.load(scene('<geom type="plane" size="1 1 1"/><body pos="0 0 0.1"><freejoint/><geom size="0.1"/></body>'))
    system = pb.Articulated(model)
    run = pb.rollout(system, system.state(), steps=1000)
    assert np.abs(run.v[-1]).max() < 1e-9
    assert 0.09 < run.q[-1, 0, 2] < 0.1


@each_cone
def test_a_box_let_down_on_its_face_does_not_move_sideways(cone):
    world = (
        '<geom type="plane" size="1 1 1"/><body pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>'
    )
    model = pb.load(scene(world, option=f'cone="{cone}"'))
    system = pb.Articulated(model)
    run = pb.rollout(system, system.state(), steps=500)
    assert np.abs(run.q[:, 0, [0, 1, 4, 5, 6]]).max() < 1e-12
    assert np.abs(run.v[-1]).max() < 1e-9


def test_what_touches_nothing_moves_as_without_contacts():
    model = pb.load(objects())
    q = np.array(model.q0)
    q[2::7] += 5.0 + np.arange(6.0)
    v = np.random.default_rng(0).normal(size=model.nv)
    with_contacts, without = pb.Articulated(model), pb.Articulated(model, contact=None)
    np.testing.assert_array_equal(with_contacts.step(with_contacts.state(q, v)).v, without.step(without.state(q, v)).v)


def test_a_light_robot_beside_a_heavy_one_is_as_exact():
    """The balance of forces is judged robot by robot: a tonne beside it must not hide a gram's error."""
    world = '<geom type="plane" size="9 9 1"/>' + "".join(
        f'<body pos="{x} 0 0.099"><freejoint/><geom size="0.1" mass="{mass}"/></body>'
        for x, mass in ((0, 1e-3), (5, 1e3))
    )
    model = pb.load(scene(world))
    system = pb.Articulated(model)
    v = np.array([[0.1, 0.2, -0.1, 1, 2, 3, 0.2, -0.1, -0.2, 2, 1, 0.5]])
    state = system.state(None, v)
    _, exact, _ = next_states(model.mujoco, state.q, v, np.zeros((1, 0)))
    ours = system.step(state).v
    for part in (slice(0, 6), slice(6, 12)):
        assert worst_world((ours - v)[:, part], (exact - v)[:, part]) <= ACCURACY


# single precision


@each_cone
def test_single_precision(cone):
    """Velocities of 1 m/s have 1e-7 of rounding; stiffness and a timestep make that 1e-4 or so of an acceleration."""
    ours, theirs, _, _ = both(objects(option=f'cone="{cone}"'), dtype="float32", states=30)
    assert worst_world(ours, theirs) <= 1e-3
    ours, theirs, _, _ = both(gymnasium_robot("ant"), dtype="float32", states=30)
    assert worst_world(ours, theirs) <= 1e-3


# what is not finite


def test_a_state_that_is_on_its_way_to_infinity_is_an_error():
    model = pb.load(scene('<geom type="plane" size="1 1 1"/><body pos="0 0 0.1"><freejoint/><geom size="0.1"/></body>'))
    system = pb.Articulated(model, worlds=2)
    v = np.zeros((2, 6))
    v[1, 2] = -1e200
    with pytest.raises(pb.PullbackError, match="the state given is absurd in world 1: v of joint"):
        system.step(system.state(None, v))
    assert mujoco.mj_version() >= 400
