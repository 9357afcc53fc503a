"""PID controllers and DC motors against MuJoCo: forces, states, and the gradients of both."""

import mujoco
import numpy as np
import pytest
from activated import mujoco_motion
from oracles import relative_error, unconstrained

import pullback as pb
from pullback.rollout.check import AGREES

INTEGRATORS = ("Euler", "implicitfast", "implicit", "RK4")
each_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)

# Two links and a body on a ball joint, with every kind of motor at joints, on a tendon and at sites.
MACHINE = """<mujoco><compiler angle="radian"/><option timestep="0.002" integrator="{integrator}"/>
<worldbody><site name="post" pos="0 0.1 0.8"/>
<body><joint name="shoulder" axis="0 1 0" damping="0.1" armature="0.3"/>
 <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" mass="1"/>
 <body pos="0.3 0 0"><joint name="elbow" axis="1 1 0" armature="0.3"/>
  <geom type="capsule" size="0.04" fromto="0 0 0 0.2 0.1 0" mass="0.5"/><site name="hand" pos="0.1 0 0"/></body></body>
<body pos="0 0 1"><joint name="ball" type="ball"/><geom type="box" size="0.2 0.1 0.15" pos="0.1 0.1 0" mass="1"/>
 <site name="tip" pos="0.1 0 0" euler="0.3 0.2 0.1"/></body></worldbody>
<tendon><fixed name="both"><joint joint="shoulder" coef="0.6"/><joint joint="elbow" coef="-0.8"/></fixed></tendon>
<actuator>
 <motor name="plain" joint="shoulder" ctrlrange="-1 1"/>
 <pid name="full" joint="shoulder" kp="3" kv="0.5" ki="2" imax="0.1" slewmax="20" input="pos vel ff"
   posrange="-1 1"/>
 <pid name="turning" joint="ball" gear="0.3 0.4 0.9" kp="3" kv="0.5" ki="2" imax="9" slewmax="8"/>
 <pid name="pulling" tendon="both" kp="3" kv="0.5" input="vel ff" gear="2" forcerange="-1 1"/>
 <pid name="aiming" site="tip" refsite="post" kp="2" kv="0.3" gear="0 0 0 0.3 -0.4 0.5"/>
 <dcmotor name="bare" joint="shoulder" motorconst="0.3" resistance="2"/>
 <dcmotor name="driven" joint="elbow" motorconst="0.3" resistance="2" input="pos vel ff voltage"
   controller="4 3 0.5 20 0.3 6"/>
 <dcmotor name="real" joint="shoulder" motorconst="0.3" resistance="2" inductance="0.01" saturation="0.5 0 200"
   thermal="2 10 0 0.004 25 25" lugre="5 1 0.2 0.3 0.5" cogging="0.1 6 0.2"/>
 <dcmotor name="winch" tendon="both" motorconst="0.3" resistance="2" thermal="2 10 0 0.004 25 25"
   lugre="5 1 0.2 0.3 0.5" cogging="0.1 6 0.2" input="vel" controller="4 0 0.5 30 0 9"/>
 <dcmotor name="fan" site="hand" gear="0 0 1 0 0.4 0" motorconst="0.3" resistance="2" inductance="0.01"/>
 <intvelocity name="winding" joint="ball" kp="5" gear="0 0.4 0.9" actrange="-4 4"/>
</actuator></mujoco>"""


def machine(integrator: str = "Euler", **changes: str) -> pb.Model:
    text = MACHINE.format(integrator=integrator)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return pb.load(text)


def scattered(system: pb.Articulated, seed: int = 0, spread: float = 1.0):
    """States and controls (40, worlds, nu): limits hold in some of them, and angles go beyond half a turn."""
    rng, worlds, m = np.random.default_rng(seed), system.worlds, system.model.mujoco
    q, v = rng.normal(size=(worlds, m.nq)), 2 * rng.normal(size=(worlds, m.nv))
    act = spread * 0.3 * rng.normal(size=(worlds, m.na))
    act[:, index(system.model, "winding")] *= 9
    return system.state(q, v, act), spread * 2 * rng.normal(size=(40, worlds, m.nu))


def index(model: pb.Model, actuator: str, kind: str = "") -> int:
    """Of an activation."""
    i = model.mujoco.actuator(actuator)
    row = list(range(int(i.actadr[0]), int(i.actadr[0]) + int(i.actnum[0])))
    return row[0] if not kind else next(a for a in row if model.activations.kind[a] == kind)


# --- the motion ---------------------------------------------------------------------------------------


@each_integrator
def test_they_move_as_in_mujoco(integrator):
    model = machine(integrator)
    system = pb.Articulated(model, contact=None, worlds=30)
    assert model.na == model.mujoco.na == 14
    state, controls = scattered(system)
    theirs = mujoco_motion(model.mujoco, *state, controls)
    run = pb.rollout(system, state, controls)
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours, exact) < 1e-12


def test_what_limits_and_wraps_is_reached():
    """That each limit holds in some states and not in others, so that the comparison with MuJoCo has seen it."""
    model = machine()
    system = pb.Articulated(model, contact=None, worlds=30)
    state, controls = scattered(system)
    act = pb.rollout(system, state, controls).states.act
    rate = np.diff(act, axis=0) / model.timestep

    def some(which: np.ndarray) -> bool:
        return bool(which.any() and not which.all())

    assert some(np.abs(np.abs(rate[..., index(model, "full", "slew")]) - 20) < 1e-6)
    assert some(np.abs(act[:, :, index(model, "full", "integral")]) >= 0.1)
    assert some(np.abs(act[1:, :, index(model, "driven", "integral")]) == 0.3)
    share = (1 - np.exp(-0.002 / 0.005)) * 0.005 / 0.002  # of the rate, over a step
    assert some(np.abs(np.abs(rate[..., index(model, "real", "current")]) - 200 * share) < 1e-6)
    assert np.any(np.abs(rate[..., index(model, "winding")]) > 1e3)  # it jumps by a turn
    assert np.ptp(act[-1, :, index(model, "real", "heat")] - act[0, :, index(model, "real", "heat")]) > 1e-5
    data = mujoco.MjData(model.mujoco)
    electric = []
    for world in range(30):
        for name, x in zip(("qpos", "qvel", "act", "ctrl"), (*state, controls[0]), strict=True):
            getattr(data, name)[:] = x[world]
        mujoco.mj_forward(model.mujoco, data)
        electric.append(data.actuator("pulling").force[0])
    assert some(np.abs(np.abs(electric) - 1) < 1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_pid_controller_acts_early(integrator):
    text = MACHINE.format(integrator=integrator)
    spec = mujoco.MjSpec.from_string(text)
    spec.actuator("full").actearly = True
    spec.actuator("full").actlimited, spec.actuator("full").actrange = True, (-0.5, 0.05)
    model = pb.load(spec)
    system = pb.Articulated(model, contact=None, worlds=10)
    state, controls = scattered(system)
    theirs = mujoco_motion(model.mujoco, *state, controls)
    run = pb.rollout(system, state, controls)
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours, exact) < 1e-12
    late = pb.rollout(pb.Articulated(machine(integrator), contact=None, worlds=10), state, controls)
    assert relative_error(late.states.v, theirs[1]) > 1e-6


def test_with_contacts_it_moves_as_in_mujoco():
    floor = '<geom type="plane" size="5 5 1" pos="0 0 -0.2"/><site name="post"'
    model = machine("implicitfast", **{'<site name="post"': floor})
    system = pb.Articulated(model, worlds=4)
    state, controls = scattered(system, spread=0.3)
    theirs = mujoco_motion(model.mujoco, *state, controls, free=False)
    run = pb.rollout(system, state, controls)
    assert any(len(points) for t in range(0, 40, 5) for points in run.contacts(t))
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours, exact) < 1e-6  # of MuJoCo's solver


def test_a_disabled_group_leaves_states_where_they_are():
    model = machine(**{"<option ": '<option actuatorgroupdisable="4" ', 'name="driven"': 'name="driven" group="4"'})
    system = pb.Articulated(model, contact=None, worlds=5)
    assert len(model.motors.ids) == 8
    state, controls = scattered(system)
    theirs = mujoco_motion(model.mujoco, *state, controls)
    run = pb.rollout(system, state, controls)
    for ours, exact in zip(run.states, theirs, strict=True):
        assert relative_error(ours, exact) < 1e-12


def test_a_controller_without_states_needs_none():
    text = """<mujoco><worldbody><body><joint name="j"/><geom size="0.1" pos="0.1 0 0"/></body></worldbody><actuator>
      <motor joint="j"/><pid joint="j" kp="3" kv="0.2" input="pos ff"/></actuator></mujoco>"""
    model = pb.load(text)
    system = pb.Articulated(model, worlds=3)
    assert system.state_type is pb.State and system.nu == 3
    state, controls = system.state(np.full((3, 1), 0.3)), np.random.default_rng(0).normal(size=(5, 3, 3))
    theirs = mujoco_motion(model.mujoco, *state, np.zeros((3, 0)), controls)
    for ours, exact in zip(pb.rollout(system, state, controls).states, theirs[:2], strict=True):
        assert relative_error(ours, exact) < 1e-13
    report = pb.check_system(system, state, controls[:2], rollout_steps=2)
    for name in ("q", "v", "control", "bias"):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_a_change_of_numbers_is_that_of_the_file():
    system = pb.Articulated(machine(), contact=None, worlds=4)
    state, controls = scattered(system)
    changes = {
        'saturation="0.5 0 200"\n   thermal="2 10 0 0.004 25 25"': (
            'saturation="0.5 0 90"\n   thermal="3 8 0 0.006 20 30"'
        ),
        'kp="3" kv="0.5" ki="2" imax="0.1" slewmax="20"': 'kp="5" kv="0.2" ki="3" imax="0.2" slewmax="12"',
        'controller="4 3 0.5 20 0.3 6"': 'controller="6 1 0.3 9 0.1 4"',
        'lugre="5 1 0.2 0.3 0.5" cogging="0.1 6 0.2" input': 'lugre="8 2 0.1 0.4 0.3" cogging="0.3 5 0.1" input',
    }
    other = pb.Articulated(machine(**changes), contact=None, worlds=4)
    names = ("gain", "bias", "activation", "motor_gain", "motor_dynamics", "motor_bias")
    for name in names:
        assert not np.array_equal(system.params[name], other.params[name]), name
        system.params[name] = other.params[name]
    ours, theirs = (pb.rollout(each, state, controls).final for each in (system, other))
    for x, exact in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(x, exact)


# --- gradients ----------------------------------------------------------------------------------------


@each_integrator
@pytest.mark.parametrize("seed", [0, 1])
def test_gradients(integrator, seed):
    system = pb.Articulated(machine(integrator), contact=None, worlds=8)
    state, controls = scattered(system, seed)
    report = pb.check_system(system, state, controls[:2], rollout_steps=2)
    laws = ("gear", "gain", "bias", "activation", "motor_gain", "motor_dynamics", "motor_bias")
    for name in ("q", "v", "act", "control", *laws):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
    assert report.passed


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_every_number_of_a_motor_has_a_gradient(integrator):
    """In worlds in which no limit holds, and in which one does."""
    system = pb.Articulated(machine(integrator), contact=None, worlds=30)
    state, controls = scattered(system)
    bars = pb.rollout(system, state, controls).pullback(v_bar=np.ones((41, 30, system.nv)))
    model = system.model
    m = model.mujoco
    row = {name: int(m.actuator_ctrladr[m.actuator(name).id]) for name in ("driven", "real", "full")}
    nonzero = {name: np.abs(bars.params[f"motor_{name}"]) > 1e-9 for name in ("gain", "dynamics", "bias")}
    assert nonzero["gain"][row["driven"]][[0, 1, 4, 5, 6, 7]].all()
    assert nonzero["dynamics"][row["driven"]][[7, 8]].all()
    assert nonzero["gain"][row["real"]][:4].all() and nonzero["bias"][row["real"]].all()
    assert nonzero["dynamics"][row["real"]][:7].all()
    assert (
        np.abs(bars.params["activation"][row["full"], 1]) > 1e-9 and np.abs(bars.params["gain"][row["full"], 0]) > 1e-9
    )


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_jacobians_are_mujocos(integrator):
    model = machine(integrator)
    system = pb.Articulated(model, contact=None)
    state, controls = scattered(system, seed=2)
    A, B = system.linearize(state, controls[0])
    m = unconstrained(model.mujoco)
    size = 2 * m.nv + m.na
    data, their_A, their_B = mujoco.MjData(m), np.zeros((size, size)), np.zeros((size, m.nu))
    data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = *(x[0] for x in state), controls[0, 0]
    mujoco.mjd_transitionFD(m, data, 1e-6, 1, their_A, their_B, None, None)
    assert relative_error(A[0], their_A) < 1e-6 and relative_error(B[0], their_B) < 1e-6
    assert np.abs(A[0, :, 2 * m.nv :]).max() > 0.1


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('input="vel" controller="4 0 0.5 30 0 9"', 'input="none"', "'winch' is a motor without controls"),
        ('name="both"', 'name="both" actuatorfrcrange="-1 1"', "'winch' is a DC motor on a tendon that limits"),
        ('name="driven" ', 'name="driven" delay="0.01" nsample="9" ', "'driven' delays several controls"),
    ],
)
def test_motors_that_are_refused_are_named(old, new, why):
    with pytest.raises(pb.PullbackError, match=f"{why}.*ignore"):
        machine(**{old: new})


def test_a_motor_keeps_its_states():
    system = pb.Articulated(machine(), contact=None)
    for name, entry in (("motor_gain", 5), ("motor_dynamics", 0), ("motor_dynamics", 2)):
        law = system.params[name].copy()
        law[:, entry] = 0
        with pytest.raises(pb.PullbackError, match=f"{name}.*same motor"):
            system.params[name] = law
    law = system.params["motor_gain"].copy()
    law[system.model.motors.circuits[0], 0] = -1
    with pytest.raises(pb.PullbackError, match="motor_gain.*same motor"):
        system.params["motor_gain"] = law


def test_long_range_contact_names_motors():
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 1"><joint name="j" axis="0 1 0"/>
      <geom size="0.1" pos="0.1 0 0"/></body></worldbody><actuator><pid name="p" joint="j"/></actuator></mujoco>"""
    with pytest.raises(pb.PullbackError, match="'p.*is a motor.*ContactLongRange"):
        pb.Articulated(pb.load(text), "longrange")


def test_a_robot_without_motors_knows_nothing_of_them():
    system = pb.Articulated(pb.load(pb.robots.cartpole()), None)
    assert "motor_gain" not in system.params and not system._flavour.motors
    assert pb.Articulated(machine(), None)._flavour.motors
