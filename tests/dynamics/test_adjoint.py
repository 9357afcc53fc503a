"""Gradients through one step and through rollouts, against central differences, for every input and every parameter."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numeric import STATE, Problem, best_errors, errors, interior
from oracles import mujoco_run, relative_error
from trees import random_states, random_tree

import pullback as pb

INTEGRATORS = {
    "euler": {"integrator": "Euler"},
    "euler, damping explicit": {"integrator": "Euler", "eulerdamp": False},
    "implicitfast": {"integrator": "implicitfast"},
    "implicit": {"integrator": "implicit"},
    "rk4": {"integrator": "RK4"},
}
ACCURACY = 1e-6  # of central differences at their best; what is found is about 1e-9
seeds = st.integers(0, 2**32 - 1)
each_integrator = pytest.mark.parametrize("how", INTEGRATORS.values(), ids=INTEGRATORS)


def with_fluid(how: dict, seed: int) -> dict:
    return {**how, "fluid": seed % 2 == 0, "timestep": 0.01}


def check(problem: Problem, steps=(1e-4, 1e-5)) -> dict[str, np.ndarray]:
    gradient = problem.gradient()
    assert set(gradient) == set(problem.inputs)
    for name, error in best_errors(problem, gradient, steps).items():
        assert error < ACCURACY, f"{name}: relative error {error:.1e}"
    return gradient


# random trees


@each_integrator
@given(seed=seeds)
@settings(max_examples=20)
def test_one_step(how, seed):
    check(Problem(random_tree(seed, **with_fluid(how, seed)), seed, steps=1))


@each_integrator
@given(seed=seeds)
@settings(max_examples=8)
def test_twenty_steps_with_a_bar_at_every_state(how, seed):
    check(Problem(random_tree(seed, bodies=5, **with_fluid(how, seed)), seed, steps=20))


@each_integrator
def test_twenty_steps_with_a_bar_at_the_last_state(how):
    check(Problem(random_tree(6, bodies=4, **with_fluid(how, 6)), 6, steps=20, every=False))


@each_integrator
def test_the_error_of_differences_falls_with_the_square_of_their_step(how):
    """A slope of two says that what differences tend to is the gradient, whatever their accuracy at one step size."""
    problem = Problem(random_tree(8, bodies=4, limits=False, timestep=0.01, **how), 8, steps=5)
    gradient = problem.gradient()
    coarse, fine = (errors(gradient, problem.differences(h)) for h in (4e-3, 1e-3))
    slopes = {n: np.log(coarse[n] / fine[n]) / np.log(4) for n in coarse if fine[n] > 1e-8}  # the rest is linear
    assert len(slopes) >= 8
    assert all(1.8 < slope < 2.2 for slope in slopes.values()), slopes


@pytest.mark.parametrize("joint", ["free", "ball", "hinge", "slide"])
def test_each_joint_type_alone(joint):
    """Also says that the gradients checked above are not all zero: each parameter matters where it can."""
    gradient = check(Problem(random_tree(1, bodies=5, joints=(joint,), limits=False, fluid=True), 1, steps=2))
    idle = {
        "free": {"joint_axis", "joint_pos", "body_pos", "body_quat"},  # its coordinates are the pose itself
        "ball": {"joint_axis"},
        "slide": {"com", "joint_pos", "body_pos"},  # nothing turns; the inertia is that of the box in the fluid
    }.get(joint, set())
    for name, bar in gradient.items():
        assert (np.abs(bar).max() > 1e-6) == (name not in idle), name


STAND = """<mujoco><option timestep="0.01" density="5" viscosity="0.5" wind="1 0.5 0"/><worldbody>
  <body pos="0.5 0.2 1" quat="0.9 0.1 0.3 -0.2"><geom size="0.1"/>
    <body pos="0.1 -0.4 0.2" quat="0.7 -0.2 0.1 0.4">
      <body pos="0.3 0 0.1"><joint axis="1 2 0" pos="0.1 0 0"/><geom type="box" size="0.1 0.2 0.05" pos="0.2 0.1 0"/>
        <body pos="0.2 0.1 0"><joint type="ball"/><geom type="box" size="0.1 0.05 0.2" pos="0 0.2 0.1"/></body></body>
      <body pos="0 0.3 0.1"><joint type="slide" axis="1 0 1"/><joint axis="0 1 0" pos="0 0 0.2"/>
        <geom type="box" size="0.1 0.2 0.05" pos="0.1 0.1 0"/></body></body></body></worldbody></mujoco>"""


def test_trees_on_static_bodies():
    """What holds a tree up moves with it: the placements of static bodies have gradients too."""
    gradient = check(Problem(STAND, 0, steps=3))
    for name in ("body_pos", "body_quat"):
        static = np.abs(gradient[name][1:3]).max(axis=1)
        assert np.all(static > 1e-3) or name == "body_pos", name  # shifting a whole tree changes nothing


def test_single_precision_agrees_with_double():
    xml = random_tree(4, bodies=5, timestep=0.01)
    model = pb.load(xml)
    rng = np.random.default_rng(4)
    q, v = random_states(model.mujoco, rng, 1)
    controls = rng.normal(size=(10, 1, model.nu))
    q_bar, v_bar = rng.normal(size=(11, 1, model.nq)), rng.normal(size=(11, 1, model.nv))
    found = {}
    for dtype in ("float64", "float32"):
        system = pb.Articulated(model, dtype=dtype)
        bars = pb.rollout(system, system.state(q, v), controls).pullback(q_bar=q_bar, v_bar=v_bar)
        found[dtype] = {"q": bars.state.q, "v": bars.state.v, "controls": bars.controls, **bars.params}
        assert all(x.dtype == dtype for x in found[dtype].values())
    for name, error in errors(found["float32"], found["float64"]).items():
        assert error < 2e-3, name


# the start's own bar


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("unit", [True, False], ids=["unit quaternions", "others"])
def test_the_bar_of_the_first_state_is_returned_whole(steps, unit):
    """run.q[0] is the very q that was given, all numbers of it, also along a quaternion's length."""
    model = pb.load(random_tree(1, joints=("free", "ball", "hinge"), actuators="none"))
    rng = np.random.default_rng(1)
    q, v = random_states(model.mujoco, rng, 1, unit=unit)
    system = pb.Articulated(model)
    run = pb.rollout(system, system.state(q, v), np.zeros((steps, 1, 0)))
    np.testing.assert_array_equal(run.q[0], q)
    q_bar, v_bar = np.zeros(run.q.shape), np.zeros(run.v.shape)
    q_bar[0], v_bar[0] = rng.normal(size=q.shape), rng.normal(size=v.shape)
    bars = run.pullback(q_bar=q_bar, v_bar=v_bar)
    np.testing.assert_allclose(bars.state.v, v_bar[0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(bars.state.q, q_bar[0], rtol=0, atol=1e-14)


# parameters: shared by all worlds, or one set a world


def per_world_problem(worlds: int = 3):
    model = pb.load(random_tree(12, bodies=5, fluid=True))
    rng = np.random.default_rng(3)
    system = pb.Articulated(model, worlds=worlds)
    q, v = random_states(model.mujoco, rng, worlds)
    controls = rng.normal(size=(4, worlds, model.nu))
    bars = {"q_bar": rng.normal(size=(5, worlds, model.nq)), "v_bar": rng.normal(size=(5, worlds, model.nv))}
    return model, system, q, v, controls, bars, rng


def test_a_parameter_a_world_is_that_of_each_world_alone():
    model, system, q, v, controls, bars, rng = per_world_problem()
    sets = [interior(system, rng) for _ in range(3)]
    params = {name: np.stack([values[name] for values in sets]) for name in sets[0]}
    together = pb.rollout(system, system.state(q, v), controls, params=params).pullback(**bars)
    alone = pb.Articulated(model)
    for world in range(3):
        run = pb.rollout(alone, alone.state(q[world], v[world]), controls[:, [world]], params=sets[world])
        one = run.pullback(**{name: bar[:, [world]] for name, bar in bars.items()})
        np.testing.assert_array_equal(together.state.q[world], one.state.q[0])
        np.testing.assert_array_equal(together.controls[:, world], one.controls[:, 0])
        for name, bar in one.params.items():
            assert together.params[name].shape == params[name].shape, name
            np.testing.assert_array_equal(together.params[name][world], bar, err_msg=name)


def test_the_gradient_of_a_shared_parameter_is_the_sum_over_worlds():
    _, system, q, v, controls, bars, rng = per_world_problem()
    values = interior(system, rng)
    shared = pb.rollout(system, system.state(q, v), controls, params=values).pullback(**bars)
    each = {name: np.repeat(value[None], 3, axis=0) for name, value in values.items()}
    separate = pb.rollout(system, system.state(q, v), controls, params=each).pullback(**bars)
    for name, value in values.items():
        assert shared.params[name].shape == value.shape, name
        assert separate.params[name].shape == (3, *value.shape), name
        np.testing.assert_allclose(separate.params[name].sum(axis=0), shared.params[name], rtol=1e-12, atol=1e-12)
    # one set alone a world, the rest shared
    mixed = pb.rollout(system, system.state(q, v), controls, params={**values, "mass": each["mass"]}).pullback(**bars)
    np.testing.assert_array_equal(mixed.params.mass, separate.params.mass)
    np.testing.assert_array_equal(mixed.params.com, shared.params.com)


def test_parameters_set_on_the_system_are_those_given_to_a_rollout():
    _, system, q, v, controls, bars, rng = per_world_problem()
    values = interior(system, rng)
    given = pb.rollout(system, system.state(q, v), controls, params=values).pullback(**bars)
    for name, value in values.items():
        system.params[name] = value
    own = pb.rollout(system, system.state(q, v), controls).pullback(**bars)
    np.testing.assert_array_equal(own.state.q, given.state.q)
    for name in values:
        np.testing.assert_array_equal(own.params[name], given.params[name], err_msg=name)


def test_a_run_remembers_the_parameters_it_ran_with():
    """Setting the System's parameters after a rollout must not change the gradient of that rollout."""
    _, system, q, v, controls, bars, _ = per_world_problem()
    run = pb.rollout(system, system.state(q, v), controls, checkpoint_every=2)
    before = run.pullback(**bars)
    system.params["mass"] = 2 * system.params["mass"]
    after = run.pullback(**bars)
    np.testing.assert_array_equal(after.state.q, before.state.q)
    np.testing.assert_array_equal(after.params.com, before.params.com)


@each_integrator
def test_without_parameters_the_other_gradients_are_the_same_bits(how):
    problem = Problem(random_tree(9, **with_fluid(how, 9)), 9, steps=5)
    full, part = problem.gradient(), problem.gradient(wants_params=False)
    assert set(part) == set(STATE)
    for name in STATE:
        np.testing.assert_array_equal(part[name], full[name], err_msg=name)


# clamps

CLAMPED = """<mujoco><option integrator="{integrator}" timestep="0.01"><flag constraint="disable"/></option><worldbody>
  <body><joint name="a" axis="0 1 0" damping="0.1" {joint}/><geom size="0.1" pos="0.3 0 0"/>
    <body pos="0.4 0 0"><joint name="b" axis="0 1 0"/><geom size="0.1" pos="0.2 0 0.1"/></body></body>
  </worldbody><actuator>
  <general joint="a" gear="1.5" gaintype="affine" biastype="affine" gainprm="2 0.3 -0.4" biasprm="0.1 -0.5 -0.3" {act}/>
  </actuator></mujoco>"""
PLACES = {
    # attributes of the joint and of the actuator, and controls inside and outside of the range
    "control": ("", 'ctrlrange="-0.5 0.5"', (0.3, -0.3), (0.9, -0.9)),
    "force": ("", 'forcerange="-1 1"', (0.3, -0.3), (2.0, -2.0)),
    "joint": ('actuatorfrcrange="-1.2 1.2"', "", (0.3, -0.3), (2.0, -2.0)),
}


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("place", PLACES)
def test_both_sides_of_a_clamp(place, integrator):
    joint, act, inside, outside = PLACES[place]
    problem = Problem(CLAMPED.format(integrator=integrator, joint=joint, act=act), 0, steps=1)
    problem.inputs.update({name: np.array(value) for name, value in problem.system.params.items()})
    problem.inputs["q"], problem.inputs["v"] = np.array([0.2, 0.3]), np.array([0.1, -0.2])
    names = ("q", "v", "controls", "gain", "bias", "gear", "damping", "com")  # armature and mass are at bounds
    for control in inside + outside:
        problem.inputs["controls"] = np.full((1, 1), control)
        gradient = problem.gradient()
        for name, error in errors(gradient, problem.differences(1e-5, names)).items():
            assert error < ACCURACY, (name, control)
        assert (gradient["controls"][0, 0] == 0.0) == (control in outside)
        if place != "control":  # held: neither the gain nor the bias matters
            for name in ("gain", "bias"):
                assert np.any(gradient[name]) == (control in inside), (name, control)


@pytest.mark.parametrize("place", PLACES)
def test_a_clamp_in_mujoco_lies_where_ours_does(place):
    """Inside, the control moves the joint as in MuJoCo; outside, nothing it does matters: exactly zero in both."""
    joint, act, inside, outside = PLACES[place]
    model = pb.load(CLAMPED.format(integrator="Euler", joint=joint, act=act))
    system = pb.Articulated(model)
    data = mujoco.MjData(model.mujoco)
    data.qpos[:], data.qvel[:] = [0.2, 0.3], [0.1, -0.2]
    for control in inside + outside:
        data.ctrl[:] = control
        A, B = np.zeros((4, 4)), np.zeros((4, 1))
        mujoco.mjd_transitionFD(model.mujoco, data, 1e-6, 1, A, B, None, None)
        ours_A, ours_B = system.linearize(system.state(data.qpos, data.qvel), [[control]])
        assert relative_error(ours_A[0], A) < 1e-6
        assert np.abs(ours_B[0] - B).max() < 1e-6 * max(1e-3, np.abs(B).max())
        assert np.any(ours_B) == (control in inside)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("control", [0.3, 0.9, -0.9, 5.0])
def test_implicitfast_takes_its_slope_at_the_clamped_control(place, control):
    """The implicit term of a gain that feels velocity has the control in it: as it acts, not as it was given."""
    joint, act, _, _ = PLACES[place]
    model = pb.load(CLAMPED.format(integrator="implicitfast", joint=joint, act=act))
    system = pb.Articulated(model)
    q, v = np.array([0.2, 0.3]), np.array([0.1, -0.2])
    data = mujoco.MjData(model.mujoco)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, control
    mujoco.mj_step(model.mujoco, data)
    ours = system.step(system.state(q, v), [[control]]).v[0]
    np.testing.assert_allclose(ours, data.qvel, rtol=1e-12)
    if place == "control" and abs(control) > 0.5:  # it would show: the raw control gives another step
        unclamped = pb.load(CLAMPED.format(integrator="implicitfast", joint="", act=""))
        explicit = pb.load(CLAMPED.format(integrator="Euler", joint="", act=""))
        steps = []
        for other in (unclamped, explicit):
            loose = pb.Articulated(other)
            steps.append(loose.step(loose.state(q, v), [[np.clip(control, -0.5, 0.5)]]).v[0])
        np.testing.assert_allclose(ours, steps[0], rtol=1e-12)
        assert np.abs(steps[0] - steps[1]).max() > 1e-4


def test_the_reference_at_the_edge_of_a_range():
    """Exactly on the bound either side's slope is a fair answer; ours is that of the inside, and finite."""
    model = pb.load(CLAMPED.format(integrator="Euler", joint="", act='ctrlrange="-0.5 0.5"'))
    system = pb.Articulated(model)
    at_edge = system.linearize(system.state([0.2, 0.3]), [[0.5]])[1]
    inside = system.linearize(system.state([0.2, 0.3]), [[0.5 - 1e-9]])[1]
    np.testing.assert_allclose(at_edge, inside, rtol=1e-6)


# rotations where closed forms divide by zero

TURNED = """<mujoco><option integrator="{}" timestep="0.01"/><worldbody>
  <body><joint name="b" type="ball" stiffness="5" damping="0.1"/>
  <inertial pos="0.1 0 0" mass="1" diaginertia=".1 .2 .25"/></body>
  <body pos="2 0 0"><joint type="free" stiffness="3"/><inertial pos="0.1 0 0" mass="1" diaginertia=".1 .2 .25"/>
  <body><joint axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/></body></body></worldbody><actuator>
  <general jointinparent="b" gear="1 .5 -.3" gaintype="affine" biastype="affine" gainprm="1 .5 0" biasprm="0 -2 0"/>
  </actuator></mujoco>"""
QUATERNIONS = {
    "none": [1, 0, 0, 0],
    "none, the other sign": [-1, 0, 0, 0],
    "tiny": [1, 1e-9, 0, 0],
    "tiny, its square is zero": [1, 1e-170, 0, 0],
    "half a turn": [0, 1, 0, 0],
    "almost half a turn": [1e-4, 1, 0, 0],
    "negative real part": [-0.9, 0.1, 0.2, 0.3],
}


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize("quaternion", QUATERNIONS.values(), ids=QUATERNIONS)
@pytest.mark.parametrize("speed", [0.0, 1.0, 30.0])
def test_special_rotations(quaternion, integrator, speed):
    problem = Problem(TURNED.format(integrator), 0, steps=2)
    problem.inputs.update({name: np.array(value) for name, value in problem.system.params.items()})
    q, v = problem.inputs["q"], speed * np.array([0.3, 0.5, -0.7, 1.0, 2.0, 3.0, -0.5, 0.3, 0.9, 0.4])
    q[:4] = q[7:11] = quaternion
    problem.inputs["v"] = v
    exact_q, exact_v = mujoco_run(problem.model.mujoco, q[None], v[None], problem.inputs["controls"][:, None])
    run = problem.run(problem.inputs)
    assert relative_error(run.v[:, 0], exact_v[:, 0]) < 1e-11
    assert relative_error(run.q[1:, 0], exact_q[1:, 0]) < 1e-11
    gradient = problem.gradient()
    assert all(np.isfinite(bar).all() for bar in gradient.values())
    if quaternion != [0, 1, 0, 0]:  # there the springs turn around
        for name, error in errors(gradient, problem.differences(1e-6, ("q", "v", "controls", "com", "gear"))).items():
            assert error < 1e-5, name
