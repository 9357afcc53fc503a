"""Constraints are as stiff as in a file that has the parameters' numbers: against MuJoCo's compiler, and against
differences of what it compiles."""

import mujoco
import numpy as np
import pytest
from oracles import precise, relative_error
from recompiled import other_numbers, recompiled
from scenes import next_states
from tendon_robots import HAND, arm, looped, scattered
from trees import random_tree
from wrapping_robots import wrapped_arm

import pullback as pb
from pullback.dynamics.rest_trees import RestWeights
from pullback.model.robots import ROBOTS

BOX = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 1"/>
<body name="box" pos="0 0 0.26" euler="3 5 0"><freejoint/>
  <geom type="box" size="0.1 0.15 0.25" mass="1" friction="0.8"/></body></worldbody></mujoco>"""
SLIDERS = """<mujoco><worldbody><geom type="plane" size="5 5 1" pos="0 0 -0.1"/>
<body name="a"><joint type="slide" axis="1 0 0" armature="0.3" range="-0.1 0.1" limited="true"/>
  <joint type="slide" axis="0 0 1" frictionloss="0.2"/><geom size="0.1" mass="2"/></body>
<body name="b" pos="1 0 0"><joint type="slide" axis="0.1 0 1" armature="0.3"/><geom size="0.1" mass="2"/></body>
<body name="c" pos="3 0 0"><geom size="0.1"/><body name="d" pos="0 0.3 0"><joint type="slide" axis="0 0 1"/>
  <geom size="0.1"/></body></body>
<body name="e" pos="4 0 0"><joint axis="0 0 1" frictionloss="0.1"/><geom size="0.1"/></body></worldbody></mujoco>"""
# Boxes that fall on each other, four pendulums on one base, two that a tendon couples, and a ball on a string.
TREES = (
    """<mujoco><worldbody><geom type="plane" size="5 5 1"/>"""
    + "".join(
        f"""<body pos="{0.05 * i} 0 {0.12 + 0.21 * i}" euler="{3 * i} 5 {20 * i}"><freejoint/>
  <geom type="box" size="0.1 0.08 0.1" mass="{1 + i}"/></body>"""
        for i in range(4)
    )
    + """<body pos="1 0 1" euler="0 20 0"><geom size="0.05"/>"""
    + "".join(
        f"""<body pos="{0.1 * i} {0.2 * i} 0"><joint axis="0.2 1 0" armature="{0.01 * i}" frictionloss="0.1"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 {-0.1 - 0.1 * i}"/></body>"""
        for i in range(4)
    )
    + """</body>
<body pos="2 0 1"><joint name="a" axis="0 1 0" range="-0.05 0.1" limited="true"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.3"/></body>
<body pos="2 0.2 1"><joint name="b" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4"/></body>
<body pos="3 0 0.5"><freejoint/><geom size="0.1"/><site name="ball" pos="0 0 0.1"/></body>
<site name="hook" pos="3 0.1 1"/></worldbody>
<tendon><fixed name="pair" range="-0.1 0.2" limited="true" armature="0.02"><joint joint="a" coef="1"/>
  <joint joint="b" coef="-0.7"/></fixed>
  <spatial name="string" range="0 0.41" limited="true"><site site="ball"/><site site="hook"/></spatial></tendon>
</mujoco>"""
)
FILES = {
    "box": BOX,
    "trees": TREES,
    "ant": ROBOTS["ant"](),
    "quadruped": ROBOTS["quadruped"](),
    "hand with tendons": HAND.format(integrator="Euler"),
    "tendons through space": arm(),
    "tendons that wrap": wrapped_arm(),
    "loops": looped("biped"),
    "sliders": SLIDERS,
}
NAMES = ("mass", "com", "inertia", "armature")
each_file = pytest.mark.parametrize("name", FILES)
# Motions of the other arm blow up with such masses, in MuJoCo too.
each_motion = pytest.mark.parametrize("name", [name for name in FILES if name != "tendons that wrap"])


def weights_of(m: mujoco.MjModel, rest: RestWeights) -> np.ndarray:
    return np.concatenate([*m.body_invweight0.T, m.dof_invweight0, m.tendon_invweight0[rest.tendon_ids]])


def values_of(system: pb.Articulated, numbers: dict) -> dict[str, np.ndarray]:
    rest = system._weights.rest
    return {name: np.asarray(numbers.get(name, system.params[name]))[None] for name in rest.names}


@each_file
def test_weights_are_those_of_the_compiler(name):
    model = pb.load(FILES[name])
    system = pb.Articulated(model, pb.ContactConvex())
    rest = system._weights.rest
    for seed in range(3):
        numbers = other_numbers(model, seed)
        wanted = weights_of(recompiled(FILES[name], numbers), rest)
        found = rest.value(values_of(system, numbers))[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)
        assert not np.allclose(weights_of(model.mujoco, rest), wanted, rtol=0.01)


def test_equal_trees_are_batched():
    """Four boxes, and four pendulums. All other trees share one matrix: two that a tendon couples, and the ball."""
    parts = pb.Articulated(pb.load(TREES))._weights.rest.parts
    assert [(part.trees.copies, part.trees.nv, part.tendons) for part in parts] == [(4, 6, 0), (4, 1, 0), (1, 8, 2)]


@pytest.mark.parametrize("worlds", (1, 3))
def test_gradients_of_batched_trees_agree_with_differences(worlds):
    """By every parameter; what carries all of a pendulum has no influence on its weights."""
    system = pb.Articulated(pb.load(TREES))
    rest, rng = system._weights.rest, np.random.default_rng(0)
    values = {name: np.repeat(value, worlds, axis=0) for name, value in values_of(system, {}).items()}
    values = {name: x * (1 + 0.1 * rng.uniform(size=x.shape)) for name, x in values.items()}
    bar = rng.normal(size=(worlds, rest.items)) / np.maximum(1e-9, np.abs(rest.value(values)))
    bar[:, np.abs(rest.value(values)[0]) < 1e-9] = 0
    found, moving = rest.adjoint(values, bar), set()
    for name in rest.names:
        away = rng.normal(size=values[name].shape)
        slope, slopes = np.sum(found[name] * away), []
        for h in (1e-4, 1e-5, 1e-6):
            ends = [np.sum(bar * rest.value(values | {name: values[name] + side * away})) for side in (h, -h)]
            slopes.append((ends[0] - ends[1]) / (2 * h))
        if abs(slopes[1]) > 1e-3:
            moving.add(name)
        assert min(abs(slope - each) for each in slopes) <= 1e-6 * max(1.0, abs(slope)), (name, slope, slopes)
    assert moving >= {"mass", "com", "inertia", "joint_pos", "joint_axis", "armature", "site_pos", "tendon_coef"}


@pytest.mark.parametrize("seed", range(20))
def test_weights_of_random_robots(seed):
    """Whatever joints they have: a function of all their numbers, as they stand in the file."""
    model = pb.load(random_tree(seed))
    rest = pb.Articulated(model, pb.ContactConvex())._weights.rest
    system = pb.Articulated(model, pb.ContactConvex())
    np.testing.assert_allclose(rest.value(values_of(system, {}))[0], weights_of(model.mujoco, rest), rtol=1e-11)


def test_untouched_parameters_have_the_bits_of_the_compiler():
    model = pb.load(FILES["quadruped"])
    m = model.mujoco
    system = pb.Articulated(model, worlds=3)
    field = system.hold_params().struct.weight.numpy()
    pairs = m.body_invweight0[m.geom_bodyid[system._scene.geoms[system._scene.pair_shapes]], 0].sum(axis=1)
    np.testing.assert_array_equal(field[0, system._weights.pair], pairs)
    np.testing.assert_array_equal(
        field[0, system._weights.limit], m.dof_invweight0[m.jnt_dofadr[system._scene.limited]]
    )
    # Of worlds with numbers of their own, those that have the file's.
    mass = np.tile(model.body_mass, (3, 1))
    mass[1] *= 2
    own = system.hold_params({"mass": mass}).struct.weight.numpy()
    np.testing.assert_array_equal(own[[0, 2]], field[[0, 2]])
    assert np.all(own[1, system._weights.pair] < field[0, system._weights.pair])


@each_motion
def test_robots_move_as_recompiled(name):
    """At a thousand states of a motion with contact and random controls."""
    model = pb.load(FILES[name])
    numbers = other_numbers(model, 7)
    m = recompiled(FILES[name], numbers)
    rng = np.random.default_rng(1)
    system = pb.Articulated(model)
    q, v, _ = scattered(m, 1, seed=4, size=0.1)
    if name == "quadruped":
        q[0, 2] = 0.5
    controls = np.repeat(rng.normal(size=(20, 1, m.nu)), 50, axis=0) * 0.5
    run = pb.rollout(system, system.state(q, v), controls, params=numbers)
    q, v = run.q[:-1, 0], run.v[:-1, 0]
    wanted_q, wanted_v, active = next_states(m, q, v, controls[:, 0])
    assert np.mean(active > 0) > 0.3
    dt = m.opt.timestep
    assert relative_error(run.q[1:, 0], wanted_q) <= 1e-8
    assert relative_error(run.v[1:, 0], wanted_v) <= 1e-8
    assert relative_error((run.v[1:, 0] - v) / dt, (wanted_v - v) / dt) <= 1e-8
    # With the weights of the file it would be another motion.
    _q, old, _ = next_states(_with_weights(m, model.mujoco), q, v, controls[:, 0])
    assert relative_error((run.v[1:, 0] - v) / dt, (old - v) / dt) > 1e-3


def _with_weights(m: mujoco.MjModel, other: mujoco.MjModel) -> mujoco.MjModel:
    m = precise(m)
    for name in ("body_invweight0", "dof_invweight0", "tendon_invweight0"):
        getattr(m, name)[:] = getattr(other, name)
    return m


def test_a_box_ends_where_one_of_its_mass_does():
    """After 1,000 steps: it stands, lies or leans on an edge, by what its mass is in the file."""
    model = pb.load(BOX)
    system = pb.Articulated(model)
    for factor in (0.2, 1.0, 5.0):
        numbers = {"mass": factor * model.body_mass, "inertia": factor * model.body_inertia}
        m = precise(recompiled(BOX, numbers | {"com": model.body_com, "armature": model.dof_armature}))
        data = mujoco.MjData(m)
        run = pb.rollout(system, system.state(), steps=1000, params=numbers)
        for _ in range(1000):
            mujoco.mj_step(m, data)
        np.testing.assert_allclose(run.final.q[0], data.qpos, atol=1e-8)


@each_motion
def test_gradients_are_those_of_recompiled_files(name):
    """Of a thousand steps at once, each by itself, against differences of MuJoCo's compiler and step."""
    xml = FILES[name]
    model = pb.load(xml)
    numbers = other_numbers(model, 3, 0.1)
    m = recompiled(xml, numbers)
    rng = np.random.default_rng(5)
    system = pb.Articulated(model)
    q, v, _ = scattered(m, 1, seed=4, size=0.1)
    controls = np.repeat(rng.normal(size=(20, 1, m.nu)), 50, axis=0) * 0.3
    run = pb.rollout(system, system.state(q, v), controls, params=numbers)
    picked = np.linspace(100, 999, 40).astype(int)
    q, v, controls = run.q[picked, 0], run.v[picked, 0], controls[picked, 0]
    each = pb.Articulated(model, worlds=len(picked))
    v_bar = rng.normal(size=v.shape) / (np.abs(run.v[picked + 1, 0] - v) + 1e-3)
    bars = each.pullback(each.state(q, v), controls, pb.State(None, v_bar), params=numbers)
    assert np.count_nonzero(next_states(m, q, v, controls)[2]) > 5
    for parameter in NAMES:
        if not np.any(numbers[parameter]) or (name == "sliders" and parameter in ("com", "inertia")):
            continue
        direction = other_numbers(model, 11, 0.5)[parameter] - getattr(system.params, parameter)
        slopes = []
        for h in (1e-4, 3e-5, 1e-5):
            ends = []
            for side in (h, -h):
                moved = numbers | {parameter: numbers[parameter] + side * direction}
                ends.append(next_states(recompiled(xml, moved), q, v, controls)[1])
            slopes.append(np.sum(v_bar * (ends[0] - ends[1])) / (2 * h))
        found = np.sum(bars.params[parameter] * direction)
        error = min(abs(found - slope) for slope in slopes) / abs(found)
        assert abs(found) > 1e-3, parameter
        assert error <= 1e-5, (parameter, found, slopes)


def test_a_robot_without_inertia_is_named():
    """In one of two worlds. There is no inverse weight then."""
    xml = """<mujoco><worldbody><body name="arm"><joint name="j" axis="0 1 0" range="-1 1" limited="true"/>
      <geom type="capsule" size=".05" fromto="0 0 0 .3 0 0" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""
    system = pb.Articulated(pb.load(xml), worlds=2)
    params = {name: np.stack([system.params[name]] * 2) for name in ("com", "inertia")}
    for value in params.values():
        value[1] = 0.0
    with pytest.raises(pb.SimulationError, match="world 1") as error:
        system.step(system.state([1.1]), params=params)
    assert error.value.world == 1
