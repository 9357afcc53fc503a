"""Controls that reach their actuators late, against MuJoCo, and their gradients."""

import mujoco
import numpy as np
import pytest
from oracles import relative_error, unconstrained

import pullback as pb
from pullback.rollout.check import AGREES

INTEGRATORS = ("Euler", "implicitfast", "RK4")
each_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)

ARM = """<mujoco><compiler angle="radian"/><option timestep="0.002" integrator="{integrator}"/>
<worldbody><body><joint name="a" axis="0 1 0" damping="0.1" armature="0.05"/>
 <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" mass="1"/>
 <body pos="0.3 0 0"><joint name="b" axis="1 1 0" armature="0.05"/>
  <geom type="capsule" size="0.04" fromto="0 0 0 0.2 0.1 0" mass="0.5"/><site name="tip" pos="0.2 0.1 0"/></body></body>
</worldbody>
<actuator>
 <motor name="now" joint="a"/>
 <motor name="held" joint="a" delay="0.005" nsample="6" interp="zoh" ctrlrange="-1 1"/>
 <general name="even" joint="b" delay="0.008" nsample="4" interp="zoh" dyntype="filter" dynprm="0.02" gainprm="2"/>
 <position name="line" joint="b" kp="9" delay="0.0033" nsample="9" interp="linear"/>
 <general name="curve" joint="a" delay="0.0071" nsample="8" interp="cubic" dyntype="integrator" gainprm="3"
   actearly="true" ctrlrange="-1.5 1.5"/>
 <dcmotor name="motor" joint="b" motorconst="0.3" resistance="2" inductance="0.01" delay="0.001" nsample="3"
   interp="linear"/>
 <motor name="long" joint="a" delay="0.05" nsample="5" interp="linear"/>
 <motor name="jet" site="tip" gear="0 0 1 0 0 0" delay="0.003" nsample="4" interp="linear"/>
</actuator></mujoco>"""


def arm(integrator: str = "Euler") -> pb.Model:
    return pb.load(ARM.format(integrator=integrator))


def scattered(system: pb.Articulated, seed: int = 0, steps: int = 60):
    rng, worlds = np.random.default_rng(seed), system.worlds
    q, v, act = (rng.normal(size=(worlds, n)) for n in (system.nq, system.nv, system.na))
    return system.state(q, v, act), rng.normal(size=(steps, worlds, system.nu))


def mujoco_motion(model: pb.Model, state, controls) -> list[np.ndarray]:
    """By ``mj_step``, from controls of the steps before that are those of the state."""
    m, first = unconstrained(model.mujoco), model.mujoco.na
    data, found = mujoco.MjData(m), []
    for world in range(len(state.q)):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.act[:] = state.q[world], state.v[world], state.act[world, :first]
        at = first
        for k, count in zip(model.delays.ids, model.delays.count, strict=True):
            total = int(m.actuator_history[k, 0])
            past = np.zeros(total)
            past[total - count :] = state.act[world, at : at + count][::-1]
            mujoco.mj_initCtrlHistory(m, data, int(k), np.arange(-total, 0) * m.opt.timestep, past)
            at += count
        rows = [(data.qpos.copy(), data.qvel.copy(), data.act.copy())]
        for control in controls[:, world]:
            data.ctrl[:] = control
            mujoco.mj_step(m, data)
            rows.append((data.qpos.copy(), data.qvel.copy(), data.act.copy()))
        found.append([np.array(x) for x in zip(*rows, strict=True)])
    return [np.stack(x, axis=1) for x in zip(*found, strict=True)]


@each_integrator
def test_they_move_as_in_mujoco(integrator):
    model = arm(integrator)
    assert model.delays.count.tolist() == [3, 4, 2, 5, 1, 5, 2]
    system = pb.Articulated(model, contact=None, worlds=10)
    state, controls = scattered(system, steps=400)
    theirs = mujoco_motion(model, state, controls)
    run = pb.rollout(system, state, controls)
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours[..., : exact.shape[-1]], exact) < 1e-11
    # the newest sample of each is the control of the step before
    first = system.na - int(np.sum(model.delays.count)) + np.cumsum(model.delays.count) - model.delays.count
    np.testing.assert_allclose(run.states.act[1:][..., first], controls[..., model.delays.ids], atol=1e-15)


@each_integrator
def test_gradients(integrator):
    system = pb.Articulated(arm(integrator), contact=None, worlds=4)
    state, controls = scattered(system, seed=1)
    report = pb.check_system(system, state, controls[:6], rollout_steps=6)
    for name in ("q", "v", "act", "control", "gain", "activation", "motor_gain"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    assert report.passed
    # what is done now matters later alone, and what was done before matters now
    one = pb.rollout(system, state, controls[:1]).pullback(v_bar=np.ones((2, 4, 2)))
    late = [k for k in range(system.nu) if k in system.model.delays.ids]
    if integrator != "RK4":
        assert not np.any(one.controls[..., late]) and np.all(one.controls[..., 0] != 0)
    assert np.count_nonzero(one.state.act[0, system.model.mujoco.na :]) >= 6


def test_states_say_what_they_are():
    model = arm()
    system = pb.Articulated(model, contact=None)
    samples = int(np.sum(model.delays.count))
    assert system.na == model.mujoco.na + samples and model.activations.kind[-samples:] == ("sample",) * samples
    assert system.state().act.shape == (1, system.na) and not np.any(system.state().act)
    A, B = system.linearize(system.state())
    assert A.shape[1] == 2 * system.nv + system.na and np.any(B)


def test_what_is_refused_is_named():
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 1"><joint name="j" axis="0 1 0"/>
      <geom size="0.1" pos="0.1 0 0"/></body></worldbody><actuator>{}</actuator></mujoco>"""
    with pytest.raises(pb.PullbackError, match="'p' delays several controls.*ignore"):
        pb.load(text.format('<pid name="p" joint="j" delay="0.01" nsample="9"/>'))
    model = pb.load(text.format('<motor name="p" joint="j" delay="0.01" nsample="9"/>'))
    with pytest.raises(pb.PullbackError, match="'p' delays its control.*ContactLongRange"):
        pb.Articulated(model, "longrange")
    with pytest.raises(pb.PullbackError, match="refine.*'p'"):
        pb.Articulated(model, refine=1e-3)


def test_a_robot_without_delays_knows_nothing_of_them():
    assert not pb.Articulated(pb.load(pb.robots.cartpole()), None)._flavour.delays
    assert pb.Articulated(arm(), None)._flavour.delays
