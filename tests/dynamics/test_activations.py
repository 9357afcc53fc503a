"""Actuators with activations: their motion against MuJoCo, gradients, and every way to run them."""

import mujoco
import numpy as np
import pytest
from activated import mujoco_motion, random_activated, random_motion_error
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from oracles import NoOracle, relative_error, unconstrained
from trees import random_states

import pullback as pb
from pullback.rollout.check import AGREES

INTEGRATORS = ("Euler", "implicitfast", "RK4")
seeds = st.integers(0, 2**32 - 1)
each_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)

# A leg that hops on a floor, with every kind of activation at joints, a tendon and a site.
HOPPER = """<mujoco><compiler angle="radian"/><option timestep="0.005" integrator="{integrator}" {option}/>
<worldbody><geom type="plane" size="5 5 1"/>
 <body name="trunk" pos="0 0 0.7">
  <joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
  <geom type="sphere" size="0.1" mass="3"/><site name="jet" pos="0.05 0 0" euler="0 0.3 0"/>
  <body name="thigh"><joint name="hip" axis="0 1 0" damping="0.3" armature="0.01"/>
   <geom type="capsule" fromto="0 0 0 0.1 0 -0.35" size="0.03" mass="0.5"/>
   <body name="shank" pos="0.1 0 -0.35"><joint name="knee" axis="0 1 0" damping="0.3" armature="0.01"/>
    <geom type="capsule" fromto="0 0 0 -0.1 0 -0.35" size="0.03" mass="0.4"/></body></body></body></worldbody>
<tendon><fixed name="both"><joint joint="hip" coef="1"/><joint joint="knee" coef="-0.5"/></fixed></tendon>
<actuator>
 <general name="servo" joint="hip" dyntype="filter" dynprm="0.03" gainprm="20" biastype="affine" biasprm="0 -20 -1"/>
 <motor name="direct" joint="knee" gear="4" ctrlrange="-1 1"/>
 <general name="valve" joint="knee" dyntype="integrator" gainprm="5" actrange="-0.8 0.8" ctrlrange="-3 3" gear="2"/>
 <general name="cable" tendon="both" dyntype="filterexact" dynprm="0.02" gaintype="affine" gainprm="3 0.5 0.2"
   actearly="true"/>
 <general name="jet" site="jet" gear="0 0 6 0 0 0" dyntype="filter" dynprm="0.05" actearly="true" actrange="0 1.5"/>
</actuator>
<keyframe><key name="home" qpos="0 0 0.1 -0.2" act="0.1 0.2 -0.1 0.3" ctrl="0.1 0 0.1 0 0.2"/></keyframe></mujoco>"""


def hopper(integrator: str = "Euler", option: str = "") -> pb.Model:
    return pb.load(HOPPER.format(integrator=integrator, option=option))


def near_home(system: pb.Articulated, seed: int = 0):
    """A state about home in all worlds, off the kinks of ranges, and controls (1, worlds, nu)."""
    rng, home, worlds = np.random.default_rng(seed), system.model.home, system.worlds
    q = home.q + 0.1 * rng.normal(size=(worlds, system.nq))
    act = home.act + 0.1 * rng.normal(size=(worlds, system.na))
    state = system.state(q, rng.normal(size=(worlds, system.nv)), act)
    return state, home.control + 0.1 * rng.normal(size=(1, worlds, system.nu))


# --- the motion ---------------------------------------------------------------------------------------


@each_integrator
@given(seed=seeds)
@settings(max_examples=60)
def test_random_robots_move_as_in_mujoco(integrator, seed):
    m = random_activated(seed, integrator=integrator)
    if not m.na:
        reject()  # a robot without actuators
    try:
        assert random_motion_error(m, seed, act=(0, 1), control=(0, 2)) < 1e-9
    except NoOracle:
        reject()


@each_integrator
@pytest.mark.parametrize("option", ["", 'cone="elliptic"'])
def test_a_robot_on_the_floor_moves_as_in_mujoco(integrator, option):
    model, worlds = hopper(integrator, option), 4
    system = pb.Articulated(model, worlds=worlds)
    state, controls = near_home(system)
    controls = np.repeat(controls, 40, axis=0)
    theirs = mujoco_motion(model.mujoco, *state, controls, free=False)
    run = pb.rollout(system, state, controls)
    assert any(len(points) for t in range(0, 40, 5) for points in run.contacts(t))
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours, exact) < 1e-6  # of MuJoCo's solver, in 40 steps


def test_it_starts_at_home_and_rests_elsewhere():
    model = hopper()
    system = pb.Articulated(model, worlds=2)
    assert isinstance(system.state(), pb.ActivatedState) and system.state_type is pb.ActivatedState
    np.testing.assert_array_equal(system.state().act, np.tile([0.1, 0.2, -0.1, 0.3], (2, 1)))
    np.testing.assert_array_equal(system.state(model.q0).act, 0)
    np.testing.assert_array_equal(system.state(act=[1, 2, 3, 4]).q, system.state().q)
    assert "na=4" in repr(model)


def test_what_is_switched_off_stays_but_for_its_range():
    text = HOPPER.format(integrator="Euler", option='actuatorgroupdisable="3"').replace(
        'name="valve"', 'name="valve" group="3"'
    )
    model = pb.load(text)
    system = pb.Articulated(model)
    state, controls = near_home(system)
    state.act[:, 1] = 1.5
    ours = system.step(state, controls[0])
    theirs = mujoco_motion(model.mujoco, *state, controls, free=False)
    assert ours.act[0, 1] == 0.8
    for x, exact in zip(ours, theirs, strict=True):
        assert relative_error(x, exact[1]) < 1e-8


def test_models_without_activations_have_states_of_two_fields():
    assert pb.Articulated(pb.load(pb.robots.cartpole()), None).state()._fields == ("q", "v")
    off = '<option><flag actuation="disable"/></option><worldbody>'
    text = HOPPER.format(integrator="Euler", option="").replace("<worldbody>", off)
    system = pb.Articulated(pb.load(text))
    assert system.na == 0 and system.state_type is pb.State
    other = HOPPER.format(integrator="Euler", option="").replace('dyntype="filter"', 'dyntype="user"')
    with pytest.raises(pb.PullbackError, match="'servo' has activation dynamics of type user.*ignore"):
        pb.load(other)
    model = pb.load(other, ignore=("actuator",))
    assert model.na == 4  # as in MuJoCo: what is left out stays where it is
    system = pb.Articulated(model)
    state, controls = near_home(system)
    np.testing.assert_array_equal(system.step(state, controls[0]).act[:, [0, 3]], state.act[:, [0, 3]])


# --- gradients ----------------------------------------------------------------------------------------


@each_integrator
@pytest.mark.parametrize("seed", [1, 2, 5, 8])
def test_gradients_on_random_robots(integrator, seed):
    model = pb.load(random_activated(seed, integrator=integrator, limits=False, timestep=0.01))
    system = pb.Articulated(model, contact=None)
    rng = np.random.default_rng(seed)
    q, v = random_states(model.mujoco, rng, 1)
    state = system.state(q, v, 0.2 * rng.normal(size=(1, model.na)))
    report = pb.check_system(system, state, 0.2 * rng.normal(size=(3, 1, model.nu)), rollout_steps=3)
    for name in ("q", "v", "act", "control", "gear", "gain"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    timed = np.isin(model.activations.kind, ("filter", "filterexact"))
    assert not np.any(timed) or (report["activation"].status == AGREES and report["activation"].largest > 1e-6)


@each_integrator
@pytest.mark.parametrize("contact", ["model", None])
def test_gradients_on_the_floor(integrator, contact):
    system = pb.Articulated(hopper(integrator), contact)
    state, controls = near_home(system, seed=3)
    report = pb.check_system(system, state, np.repeat(controls, 2, axis=0), rollout_steps=2)
    for name in ("q", "v", "act", "control", "gear", "gain", "bias", "activation"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    single = pb.check_system(system, state, controls[0])
    assert single["act"].status == AGREES and single["act"].largest > 1e-6


def test_beyond_its_range_an_activation_has_no_gradient_and_inside_it_has():
    system = pb.Articulated(hopper(), worlds=3)
    state, controls = near_home(system)
    state.act[:, 1] = (-0.9, 0.795, 0.79)  # the valve's range ends at 0.8
    controls[:, :, 2] = (0.0, 2.0, 1.0)  # of which it goes 0.005 on in a second
    bars = pb.rollout(system, state, controls).pullback(act_bar=np.ones((3, 4)))
    np.testing.assert_allclose(bars.state.act[:, 1], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(bars.controls[0, :, 2], [0, 0, 0.005], atol=1e-12)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_jacobians_are_mujocos(integrator):
    model = hopper(integrator)
    system = pb.Articulated(model, contact=None)
    state, controls = near_home(system)
    A, B = system.linearize(state, controls[0])
    m = unconstrained(model.mujoco)
    size = 2 * m.nv + m.na
    data, their_A, their_B = mujoco.MjData(m), np.zeros((size, size)), np.zeros((size, m.nu))
    data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = *(x[0] for x in state), controls[0, 0]
    mujoco.mjd_transitionFD(m, data, 1e-6, 1, their_A, their_B, None, None)
    assert relative_error(A[0], their_A) < 1e-6
    assert np.abs(B[0] - their_B).max() < 1e-6 * np.abs(their_B).max()
    assert np.abs(A[0, :, 2 * m.nv :]).max() > 0.1 and np.abs(B[0, 2 * m.nv :]).max() > 1e-3


def test_pushforward_is_the_transpose_of_pullback():
    system = pb.Articulated(hopper())
    state, controls = near_home(system)
    controls = np.repeat(controls, 6, axis=0)
    run = pb.rollout(system, state, controls, hold=3)
    rng = np.random.default_rng(0)
    moved, size = rng.normal(size=(1, 2 * system.nv + system.na, 1)), 2 * system.nv + system.na
    after = run.pushforward(state=moved, params={"activation": rng.normal(size=(5, 3, 1))})[-1, 0, :, 0]
    assert after.shape == (size,) and np.abs(after[-4:]).max() > 0.1
    again = run.pushforward(state=moved)[-1, 0, :, 0]
    for i in range(size):
        bars = system.state_bar(run.final, np.eye(size)[None, i])
        back = run.pullback(**{f"{name}_bar": x for name, x in bars._asdict().items()})
        assert abs(system.tangent_bar(state, back.state)[0] @ moved[0, :, 0] - again[i]) < 1e-9


# --- every way to run them ----------------------------------------------------------------------------


def test_checkpoints_held_controls_and_single_steps_are_the_same():
    system = pb.Articulated(hopper(), worlds=3)
    state, controls = near_home(system)
    controls = np.concatenate([controls * scale for scale in (1, 0.5, -1, 2, 0.3, 1)])
    rng = np.random.default_rng(1)
    bars = {f"{name}_bar": rng.normal(size=(7, *x.shape)) for name, x in state._asdict().items()}
    run = pb.rollout(system, state, controls, hold=4)
    want = run.pullback(**bars)
    for every in (3, "sqrt", (4, 2)):
        kept = pb.rollout(system, state, controls, hold=4, checkpoint_every=every)
        for x, y in zip(kept.final, run.final, strict=True):
            np.testing.assert_array_equal(x, y)
        found = kept.pullback(**bars)
        np.testing.assert_array_equal(found.state.act, want.state.act)
        np.testing.assert_array_equal(found.controls, want.controls)
        np.testing.assert_array_equal(found.params.activation, want.params.activation)
    alone = state
    for u in controls:
        for _ in range(4):
            alone = system.step(alone, u)
    for x, y in zip(alone, run.final, strict=True):
        np.testing.assert_array_equal(x, y)
    assert want.state.act.shape == (3, 4) and np.abs(want.state.act).min() > 0


def test_torch_and_jax_give_the_same_gradients():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    import pullback.jax as pbj
    import pullback.torch as pbt

    system = pb.Articulated(hopper())
    state, controls = near_home(system)
    controls = np.repeat(controls, 5, axis=0)
    run = pb.rollout(system, state, controls)
    want = run.pullback(q_bar=2 * run.final.q, act_bar=2 * run.final.act)
    tensors = [torch.tensor(x, requires_grad=True) for x in (*state, controls)]
    q, _v, act = pbt.rollout(system, *tensors)
    (q[-1].square().sum() + act[-1].square().sum()).backward()
    for x, exact in zip(tensors, (*want.state, want.controls), strict=True):
        np.testing.assert_allclose(x.grad.numpy(), exact, rtol=1e-10, atol=1e-12)
    tensors = [x.detach().requires_grad_() for x in tensors]
    after = pbt.step(system, pb.ActivatedState(*tensors[:3]), tensors[3][0], hold=5)
    (after.q.square().sum() + after.act.square().sum()).backward()
    np.testing.assert_allclose(tensors[2].grad.numpy(), want.state.act, rtol=1e-10, atol=1e-12)
    with jax.enable_x64():

        def loss(state, controls):
            states = pbj.rollout(system, state, controls)
            return (states.q[-1] ** 2).sum() + (states.act[-1] ** 2).sum()

        found = jax.grad(loss)(state, controls)
        for x, exact in zip(found, want.state, strict=True):
            np.testing.assert_allclose(x, exact, rtol=1e-10, atol=1e-12)


def test_float32_agrees_with_float64():
    for integrator in ("Euler", "RK4"):
        runs = []
        for dtype in ("float64", "float32"):
            system = pb.Articulated(hopper(integrator), None, dtype=dtype)
            state, controls = near_home(system)
            run = pb.rollout(system, state, np.repeat(controls, 10, axis=0))
            runs.append((run, run.pullback(q_bar=np.ones_like(run.final.q), act_bar=np.ones_like(run.final.act))))
        (exact, bars), (rough, rough_bars) = runs
        assert relative_error(rough.act, exact.act) < 1e-5 and rough.act.dtype == np.float32
        assert np.abs(rough_bars.state.act - bars.state.act).max() < 1e-3 * np.abs(bars.state.act).max()
        difference = np.abs(rough_bars.params.activation - bars.params.activation).max()
        assert difference < 1e-3 * np.abs(bars.params.activation).max()


def test_steps_that_are_refined():
    system = pb.Articulated(hopper(), refine=2e-3)
    state, controls = near_home(system)
    run = pb.rollout(system, state, np.repeat(controls, 30, axis=0))
    plain = pb.rollout(pb.Articulated(system.model), state, np.repeat(controls, 30, axis=0))
    assert relative_error(run.act, plain.act) < 0.05 and np.abs(run.act - plain.act).max() > 1e-9
    start = pb.ActivatedState(*(np.array(x[25]) for x in run.states))
    report = pb.check_system(system, start, controls[0], names=("act", "control", "activation"), tolerance=1e-5)
    assert report["act"].status == AGREES and report["act"].largest > 1e-3


def test_a_world_that_fails_stays_where_it_was():
    system = pb.Articulated(hopper(), worlds=2)
    state, controls = near_home(system)
    state.v[1, 0] = 1e20
    run = pb.rollout(system, state, np.repeat(controls, 4, axis=0), on_failure="mask")
    assert run.status.failed.tolist() == [False, True]
    np.testing.assert_array_equal(run.final.act[1], state.act[1])
    bars = run.pullback(act_bar=np.ones((2, 4)))
    assert np.all(bars.state.act[1] == 0) and np.all(bars.state.act[0] != 0)


def test_what_does_not_fit_is_named():
    system = pb.Articulated(hopper(), worlds=2)
    state, controls = near_home(system)
    with pytest.raises(pb.PullbackError, match=r"ActivatedState\(q, v, act\).*system.state\(q, v, act\)"):
        system.step(pb.State(*state[:2]), controls[0])
    with pytest.raises(pb.PullbackError, match="act has shape"):
        system.state(act=np.zeros((2, 3)))
    with pytest.raises(pb.PullbackError, match="no actuator of the model has an activation"):
        pb.Articulated(pb.load(pb.robots.cartpole()), None).state(act=[0.0])
    with pytest.raises(pb.PullbackError, match="ActivatedState"):
        system.pullback(state, controls[0], pb.State(*state[:2]))
    text = HOPPER.format(integrator="Euler", option="").replace('actrange="0 1.5"', 'actrange="0 1.5" forcerange="0 1"')
    m = mujoco.MjModel.from_xml_string(text)
    m.actuator_actrange[2] = (1, 0)
    with pytest.raises(pb.PullbackError, match="'valve' has an activation range that is empty"):
        pb.load(m)
