"""Every kind of bad input is a PullbackError that names the element, the world or the step."""

import dataclasses
import pickle

import mujoco
import numpy as np
import pytest
import warp as wp
from trees import random_tree

import pullback as pb
from pullback.kernels import Flavour, specialise

ROBOT = """<mujoco><option density="1.2" viscosity="0.1"/><worldbody>
  <body name="base"><freejoint name="root"/><geom type="box" size="0.1 0.2 0.3"/>
    <body name="arm" pos="0.3 0 0"><joint name="elbow" axis="0 1 0"/><geom type="box" size="0.1 0.02 0.1"/>
      <body name="hand" pos="0.2 0 0"><joint name="wrist" type="ball"/><geom type="box" size="0.1 0.05 0.1"/></body>
    </body></body></worldbody>
  <actuator><motor name="drive" joint="elbow"/><motor joint="wrist" gear="1 0 0"/></actuator></mujoco>"""
WORLDS = 3


@pytest.fixture(scope="module")
def system() -> pb.Articulated:
    return pb.Articulated(pb.load(ROBOT), contact=None, worlds=WORLDS)


def refused(message: str):
    return pytest.raises(pb.PullbackError, match=message)


# making a system


def test_what_is_no_model():
    with refused("pullback.load"):
        pb.Articulated(ROBOT)


@pytest.mark.parametrize("contact", ["foo", 3, False, ["model"]])
def test_contact_that_is_not_known(contact):
    with refused("contact="):
        pb.Articulated(pb.load(ROBOT), contact=contact)


def test_the_contact_model_is_that_of_the_file_unless_another_is_asked_for():
    floor = '<geom name="floor" type="plane" size="1 1 1"/><body><freejoint/><geom name="b" size="0.1"/></body>'
    limited = '<body><joint name="knee" limited="true" range="-10 10"/><geom size="0.1" pos="1 0 0"/></body>'
    bare = '<body><joint/><geom size="0.1" pos="1 0 0"/></body>'
    for world, constrained in ((floor, True), (limited, True), (bare, False)):
        model = pb.load(f"<mujoco><worldbody>{world}</worldbody></mujoco>")
        assert pb.Articulated(model).contact == (pb.ContactConvex() if constrained else None)
        assert pb.Articulated(model, contact=None).contact is None
        own = pb.ContactConvex(max_contacts=3)
        assert pb.Articulated(model, contact=own).contact == own


@pytest.mark.parametrize("count", [-1, 2.5, "3", True])
def test_max_contacts_that_make_no_sense(count):
    with refused("max_contacts"):
        pb.ContactConvex(max_contacts=count)


@pytest.mark.parametrize("worlds", [0, -1, 2.5, "3", None])
def test_worlds_that_make_no_sense(worlds):
    with refused("worlds"):
        pb.Articulated(pb.load(ROBOT), contact=None, worlds=worlds)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_threads_that_make_no_sense(threads):
    with refused("threads"):
        pb.Articulated(pb.load(ROBOT), contact=None, threads=threads)


@pytest.mark.parametrize("dtype", ["float16", "double", "int32", np.int64, 5])
def test_precisions_that_are_not_supported(dtype):
    with refused("dtype"):
        pb.Articulated(pb.load(ROBOT), contact=None, dtype=dtype)


@pytest.mark.parametrize("device", [*([] if wp.is_cuda_available() else ["cuda"]), "cuda:77", "tpu", "cpu:1", 3])
def test_devices_that_are_not_there(device):
    with refused("device .*cpu"):
        pb.Articulated(pb.load(ROBOT), contact=None, device=device)


# states


def bad_states(nq: int, nv: int, good_q: np.ndarray) -> dict:
    """q, v and what the message must say."""
    v = np.zeros((WORLDS, nv))
    nan, inf_v, zero_free, zero_ball = good_q.copy(), v.copy(), good_q.copy(), good_q.copy()
    nan[1, 8] = np.nan
    inf_v[2, 4] = np.inf
    zero_free[2, 3:7] = 0
    zero_ball[1, 8:12] = 0
    return {
        "shape of q": (good_q[:, :-1], v, r"q has shape \(3, 11\), but \(worlds=3, nq=12\)"),
        "worlds of q": (good_q[:2], v, r"q has shape"),
        "shape of v": (good_q, v[:, :-1], r"v has shape \(3, 9\), but \(worlds=3, nv=10\)"),
        "three axes": (good_q[None], v, "q has shape"),
        "a number": (1.0, v, "q has shape"),
        "nan": (nan, v, "q is not finite at worlds 1, nq 8"),
        "infinity": (good_q, inf_v, "v is not finite at worlds 2, nv 4"),
        "complex": (good_q + 1j, v, "q .*complex"),
        "strings": (np.full(good_q.shape, "a"), v, "q "),
        "objects": (np.full(good_q.shape, None), v, "q .*object"),
        "ragged": ([[0.0] * 12, [0.0] * 3, [0.0]], v, "q "),
        "zero quaternion, free": (zero_free, v, "'root' in world 2 .*zero length"),
        "zero quaternion, ball": (zero_ball, v, "'wrist' in world 1 .*zero length"),
    }


CASES = bad_states(12, 10, np.tile([0.0] * 3 + [1, 0, 0, 0, 0, 1, 0, 0, 0], (WORLDS, 1)))


@pytest.mark.parametrize("kind", CASES)
def test_bad_states(system, kind):
    q, v, message = CASES[kind]
    with refused(message):
        system.state(q, v)
    with refused(message):
        system.step(pb.State(q, v))
    with refused(message):
        pb.rollout(system, pb.State(q, v), np.zeros((2, WORLDS, 2)))
    with refused(message):
        system.pullback(pb.State(q, v), None, system.state())
    with refused(message):
        system.linearize(pb.State(q, v))


@pytest.mark.parametrize("kind", ["nan", "infinity", "zero quaternion, free", "zero quaternion, ball"])
def test_bad_states_in_warp_arrays(system, kind):
    q, v, message = CASES[kind]
    state = pb.State(*(wp.array(x, dtype=wp.float64, device="cpu") for x in (q, v)))
    with refused(message):
        system.state(*state)
    # Not even a NaN shows by itself: the kernels' normalize makes (0, 0, 0, 0) of a quaternion that is not a number.
    with refused(message):
        system.step(state)


@pytest.mark.parametrize("state", [None, 3, "state", (1, 2, 3), np.zeros((2, 3))])
def test_what_is_no_state(system, state):
    with refused("State"):
        system.step(state)
    with refused("State"):
        system.linearize(state)


def test_a_number_too_large_for_single_precision():
    single = pb.Articulated(pb.load(ROBOT), contact=None, dtype="float32")
    q = single.state().q.astype(float)
    q[0, 1] = 1e39
    with refused("q is not finite at worlds 0, nq 1"):
        single.state(q)


# controls and bars of a step


def bad_arrays(good: np.ndarray, name: str, size: str) -> dict:
    nan = good.copy()
    nan[2, 1] = np.nan
    return {
        "shape": (good[:, :-1], f"{name} has shape .*worlds=3, {size}="),
        "worlds": (good[:1], f"{name} has shape"),
        "one axis": (good[0], f"{name} has shape"),
        "nan": (nan, f"{name} is not finite at worlds 2, {size} 1"),
        "complex": (good + 1j, f"{name} .*complex"),
        "strings": (np.full(good.shape, "a"), f"{name} "),
        "objects": (np.full(good.shape, None), f"{name} .*object"),
        "ragged": ([[0.0], [0.0, 1.0], []], f"{name} "),
    }


@pytest.mark.parametrize("kind", bad_arrays(np.zeros((3, 2)), "", ""))
def test_bad_control(system, kind):
    given, message = bad_arrays(np.zeros((WORLDS, 2)), "control", "nu")[kind]
    for use in (
        lambda: system.step(system.state(), given),
        lambda: system.pullback(system.state(), given, system.state()),
        lambda: system.linearize(system.state(), given),
    ):
        with refused(message):
            use()


@pytest.mark.parametrize("kind", bad_arrays(np.zeros((3, 2)), "", ""))
def test_bad_next_bar(system, kind):
    given, message = bad_arrays(np.zeros((WORLDS, 12)), "q_bar", "nq")[kind]
    with refused(message):
        system.pullback(system.state(), None, pb.State(given, np.zeros((WORLDS, 10))))
    given, message = bad_arrays(np.zeros((WORLDS, 10)), "v_bar", "nv")[kind]
    with refused(message):
        system.pullback(system.state(), None, pb.State(np.zeros((WORLDS, 12)), given))


@pytest.mark.parametrize("next_bar", [None, 3.0, (np.zeros((WORLDS, 12)),)])
def test_what_is_no_next_bar(system, next_bar):
    with refused("bar"):
        system.pullback(system.state(), None, next_bar)


# parameters


def changed(value: np.ndarray, index, new: float) -> np.ndarray:
    value = np.array(value)
    value[index] = new
    return value


def bad_params(p) -> dict:
    """The parameter, a value it cannot have, and what the message must say."""
    per_world = np.repeat(p["mass"][None], WORLDS, axis=0)
    flat = np.array([0.1, 0.1, -0.1, 0.0, 0.0, 0.0])
    return {
        "unknown": ("weight", 1.0, "no parameter 'weight'; there are mass"),
        "shape": ("mass", np.ones(3), r"'mass' has shape \(3,\), but \(body=4\)"),
        "worlds": ("mass", np.ones((2, 4)), r"'mass' has shape \(2, 4\), but \(worlds=3, body=4\)"),
        "nan": ("com", changed(p["com"], (2, 1), np.nan), "'com' is not finite at body 2, axis 1"),
        "infinity": ("gravity", [0, 0, -np.inf], "'gravity' is not finite at axis 2"),
        "nan in a world": ("mass", changed(per_world, (1, 2), np.nan), "'mass' is not finite at worlds 1, body 2"),
        "negative mass": ("mass", changed(p["mass"], 2, -1.0), "'mass' of 'arm' must be positive"),
        "no mass": ("mass", changed(p["mass"], 3, 0.0), "'mass' of 'hand' must be positive"),
        "negative mass in a world": ("mass", changed(per_world, (2, 1), -1.0), "'mass' of 'base' in world 2"),
        "inertia": ("inertia", changed(p["inertia"], 1, flat), "'inertia' of 'base' is not that of a body"),
        "off-diagonal inertia": (
            "inertia",
            changed(p["inertia"], (2, slice(3, 6)), 10.0),
            "'inertia' of 'arm' is not that of a body",
        ),
        "zero axis": ("joint_axis", changed(p["joint_axis"], 1, 0.0), "'joint_axis' of 'elbow' has no direction"),
        "zero quaternion": ("body_quat", changed(p["body_quat"], 3, 0.0), "'body_quat' of 'hand' has no direction"),
        "zero rest": ("spring_ref", changed(p["spring_ref"], slice(8, 12), 0.0), "'spring_ref'.*'wrist'.*zero length"),
        "armature": ("armature", changed(p["armature"], 6, -0.1), "'armature'.*('elbow'|6).*negative"),
        "density": ("fluid_density", -1.0, "'fluid_density'.* negative"),
        "fluid box": ("fluid_box", changed(p["fluid_box"], (2, 0), -1.0), "'fluid_box' of 'arm'.* negative"),
        "complex": ("gear", p["gear"] + 1j, "'gear'.*complex"),
        "strings": ("gear", np.full((2, 6), "a"), "'gear'"),
        "objects": ("gear", np.full((2, 6), None), "'gear'.*object"),
        "ragged": ("gear", [[1.0] * 6, [1.0]], "'gear'"),
        "none": ("gear", None, "'gear'"),
    }


@pytest.mark.parametrize("kind", bad_params(pb.Articulated(pb.load(ROBOT), contact=None).params))
def test_bad_params(system, kind):
    name, value, message = bad_params(system.params)[kind]
    with refused(message):
        system.step(system.state(), None, {name: value})
    with refused(message):
        system.params[name] = value
    with refused(message):
        system.linearize(system.state(), None, {name: value})
    with refused(message):
        pb.rollout(system, system.state(), steps=2, params={name: value})


def test_reading_what_is_not_there(system):
    with refused("no parameter 'weight'"):
        system.params["weight"]
    with pytest.raises((AttributeError, pb.PullbackError), match="weight"):
        _ = system.params.weight
    assert not hasattr(system.params, "weight")
    assert "weight" not in system.params


def test_parameters_are_read_only(system):
    with pytest.raises(ValueError, match="read-only"):
        system.params["mass"][1] = 2.0


@pytest.mark.parametrize("name, value", [("fluid_density", 2.0), ("fluid_viscosity", np.float64(0.3))])
def test_a_parameter_that_is_one_number(name, value):
    """It stays one number for all worlds, however it is given."""
    system = pb.Articulated(pb.load(ROBOT), contact=None, worlds=WORLDS)
    state = system.state(None, np.ones((WORLDS, 10)))
    bars = system.pullback(state, None, state, {name: value})
    assert np.shape(bars.params[name]) == ()
    system.params[name] = value
    assert np.shape(system.params[name]) == ()
    assert np.shape(system.pullback(state, None, state).params[name]) == ()
    A, _ = system.linearize(state)
    assert np.isfinite(A).all()
    each = system.pullback(state, None, state, {name: [1.0, 2.0, 3.0]})
    assert each.params[name].shape == (WORLDS,)


# motions that cannot go on


def test_a_blow_up_names_world_and_step():
    """A spring far too stiff for the timestep: the amplitude grows by a factor a step, until numbers end."""
    xml = """<mujoco><option timestep="1"><flag eulerdamp="disable"/></option><worldbody>
      <body><joint type="slide" stiffness="1e4"/><geom size="0.1" mass="1"/></body></worldbody></mujoco>"""
    system = pb.Articulated(pb.load(xml), contact=None, worlds=WORLDS)
    q = np.array([[0.0], [1.0], [1e5]])  # the first is at rest in its well, the last goes soonest
    system.params["gravity"] = np.zeros(3)
    run = pb.rollout(system, system.state(q[[0, 0, 0]]), steps=500)
    assert not np.any(run.q)
    bound = float(specialise(Flavour("float64"), "step").BLOWN_UP)
    x, v, step = float(q[2, 0]), 0.0, -1
    while abs(x) + abs(v) < bound:
        v -= 1e4 * x
        x += v
        step += 1
    assert step > 1
    good = pb.rollout(system, system.state(q), steps=step).states
    for every in (1, 10):
        with pytest.raises(pb.SimulationError, match=rf"blew up in world 2 at step {step}\b") as error:
            pb.rollout(system, system.state(q), steps=500, checkpoint_every=every)
        for found in (error.value, pickle.loads(pickle.dumps(error.value))):
            assert (found.world, found.step, str(found)) == (2, step, str(error.value))
            assert all(np.array_equal(a, b[::every]) for a, b in zip(found.states, good, strict=True))
    assert np.all(np.isfinite(good.q)) and good.q.shape == (step + 1, WORLDS, 1)


@pytest.mark.parametrize(
    ("q", "v", "what"),
    [((0.0, 1e200), (0.0, 0.0), "q of joint 'hinge' is 1e"), ((0.0, 0.0), (1e30, 0.0), "v of joint 'slider' is 1e")],
)
def test_a_state_that_was_absurd_is_called_that(q, v, what):
    model = pb.load(pb.robots.cartpole())
    model = dataclasses.replace(model, joint_names=("slider", "hinge"))
    system = pb.Articulated(model, contact=None, worlds=2)
    state = system.state(np.array([model.q0, q]), np.array([np.zeros(2), v]))
    with refused(f"the state given is absurd in world 1: {what}"):
        system.step(state)
    with refused(f"the state given is absurd in world 1: {what}"):
        pb.rollout(system, state, steps=30)


def test_steps_one_by_one_know_the_trajectory_too():
    class Wrapped(pb.System):
        def __init__(self, inner):
            self.inner, self.worlds, self.nu, self.dtype, self.device = inner, inner.worlds, inner.nu, "float64", "cpu"

        def step(self, state, control, params=None):
            return self.inner.step(state, control)

        def pullback(self, state, control, next_bar, params=None):
            return self.inner.pullback(state, control, next_bar)

    spring = """<mujoco><option timestep="1"><flag eulerdamp="disable"/></option><worldbody>
      <body><joint type="slide" stiffness="1e4"/><geom size="0.1" mass="1"/></body></worldbody></mujoco>"""
    system = pb.Articulated(pb.load(spring), contact=None)
    with pytest.raises(pb.SimulationError) as whole:
        pb.rollout(system, system.state([1.0]), steps=100)
    with pytest.raises(pb.SimulationError) as stepped:
        pb.rollout(Wrapped(system), system.state([1.0]), steps=100)
    assert stepped.value.step == whole.value.step > 1
    assert np.array_equal(stepped.value.states.q, whole.value.states.q)


FRAMES = """<mujoco><worldbody><body name="upper"><joint name="shoulder" axis="0 1 0"/>
  <geom size="0.1" mass="1" pos="0.2 0 0"/>
  <body name="frame"><joint name="twist" axis="0 1 0" armature="0.1"/><geom size="0.1" mass="1"/>
  </body></body></worldbody></mujoco>"""


def test_a_joint_without_inertia_is_named():
    """A point mass on its own axis and no armature: nothing resists the joint, and it is that joint that is named."""
    system = pb.Articulated(pb.load(FRAMES), contact=None, worlds=WORLDS)
    params = {
        "inertia": np.zeros((3, 6)),
        "armature": np.array([[0.0, 0.1], [0.0, 0.0], [0.0, 0.1]]),
    }
    with refused("singular in world 1 at step 0.*'twist'"):
        system.step(system.state(), None, params)
    with refused("singular in world 1 at step 0.*'twist'"):
        pb.rollout(system, system.state(), steps=3, params=params)


GIMBAL = """<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="yaw" axis="0 0 1"/>
  <joint name="pitch" axis="0 1 0"/><joint name="roll" axis="1 0 0"/>
  <inertial pos="0 0 0" mass="{mass}" diaginertia="{inertia}"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mass", [1.0, 1000.0], ids=["light", "heavy"])
def test_gimbal_lock(mass, dtype):
    """With pitch at a right angle yaw and roll turn about one axis: the mass matrix is singular, heavy or light."""
    inertia = " ".join(str(mass * x) for x in (0.1, 0.11, 0.13))
    system = pb.Articulated(pb.load(GIMBAL.format(mass=mass, inertia=inertia)), contact=None, worlds=2, dtype=dtype)
    q, v = np.array([[0.3, 0.2, 0.1], [0.3, np.pi / 2, 0.1]]), np.ones((2, 3))
    with refused("singular in world 1 at step 0.*'yaw'"):
        system.step(system.state(q, v))


def test_passing_through_gimbal_lock_far_enough_away():
    model = pb.load(GIMBAL.format(mass=1, inertia="0.1 0.11 0.13"))
    system = pb.Articulated(model, contact=None)
    start = system.state([0.3, np.pi / 2 - 0.1, 0.1], np.ones(3))
    data = mujoco.MjData(model.mujoco)
    data.qpos[:], data.qvel[:] = start.q[0], start.v[0]
    mujoco.mj_step(model.mujoco, data)
    assert np.abs(data.qvel - 1).max() > 1e-3  # it does turn otherwise than before
    np.testing.assert_allclose(system.step(start).v[0], data.qvel, rtol=1e-10)


# models without anything that moves


def test_a_model_without_joints():
    """It has no state and no controls: every operation is empty."""
    model = pb.load('<mujoco><worldbody><body><geom size="0.1"/></body></worldbody></mujoco>')
    system = pb.Articulated(model, contact=None, worlds=2)
    run = pb.rollout(system, system.state(), steps=3)
    assert run.q.shape == (4, 2, 0)
    bars = run.pullback(q_bar=np.zeros((2, 0)), v_bar=np.zeros((2, 0)))
    assert not any(np.any(bar) for bar in bars.params.values())
    A, B = system.linearize(system.state())
    assert A.shape == (2, 0, 0) and B.shape == (2, 0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_messages_are_one_line(seed):
    system = pb.Articulated(pb.load(random_tree(seed)), worlds=2)
    for use in (lambda: system.state(np.zeros(1)), lambda: system.params["weight"], lambda: system.step(None)):
        with pytest.raises(pb.PullbackError) as caught:
            use()
        assert "\n" not in str(caught.value)


def test_a_parameter_set_as_an_attribute_is_set():
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    heavy = system.params.mass * 2
    before = system.step(system.state(q=[0.0, 0.5])).v
    system.params.mass = heavy
    assert np.array_equal(system.params["mass"], heavy)
    heavier = system.step(system.state(q=[0.0, 0.5]), [[1.0]]).v
    system.params["mass"] = heavy / 2
    assert np.array_equal(system.step(system.state(q=[0.0, 0.5])).v, before)
    assert not np.array_equal(system.step(system.state(q=[0.0, 0.5]), [[1.0]]).v, heavier)
    with refused("no parameter 'weight'"):
        system.params.weight = heavy


def test_one_number_fills_a_parameter():
    """When it is set, but not in a rollout, whose gradients have the shapes of what was given."""
    system = pb.Articulated(pb.load(ROBOT), contact=None, worlds=WORLDS)
    for value in (0.5, np.float32(0.5), np.array(0.5)):
        system.params["damping"] = value
        np.testing.assert_array_equal(system.params["damping"], np.full(system.nv, 0.5))
    with refused("damping.*shape"):
        pb.rollout(system, system.state(), steps=1, params={"damping": 0.5})
    with refused("'mass' of 'base' must be positive"):
        system.params["mass"] = -1.0
    with refused("damping.*not finite"):
        system.params["damping"] = np.nan


def test_systems_models_and_runs_are_printed_in_a_line():
    model = pb.load(ROBOT)
    system = pb.Articulated(model, contact=None, worlds=2)
    run = pb.rollout(system, system.state(), steps=7, checkpoint_every=3)
    assert repr(model).startswith("Model(nq=12, nv=10, nu=2: 3 bodies, 3 joints, 3 geoms, euler with 0.002 s, ")
    assert repr(run) == "Run(7 steps of Articulated, one state in 3 kept: q (4, 2, 12), v (4, 2, 10))"
    keyed = pb.load(pb.robots.quadruped())
    assert "keyframes home" in repr(keyed) and str(len(keyed.constraints)) in repr(keyed)
    assert all(len(repr(thing)) < 200 and "\n" not in repr(thing) for thing in (model, system, run, keyed))
