"""Tendons, actuators at sites and equality constraints with ContactCompliant and ContactImpulse."""

import re
from functools import partial

import mujoco
import numpy as np
import pytest
from scenes import worst_world
from tendon_robots import GRIPPER, HAND, LOOPED, arm, looped, scattered

import pullback as pb
from pullback.rollout.check import AGREES, NO_INFLUENCE

MODELS = {"compliant": pb.ContactCompliant, "impulse": pb.ContactImpulse}
INTEGRATORS = [("compliant", "Euler"), ("compliant", "implicitfast"), ("compliant", "RK4")]
INTEGRATORS += [("impulse", "Euler"), ("impulse", "implicitfast")]
each_model = pytest.mark.parametrize("contact", MODELS)
each_integrator = pytest.mark.parametrize(("contact", "integrator"), INTEGRATORS)

# Beside a robot: two balls that are welded, of which one may lie on a floor. Kernels are then the same for all here.
WELDED = """<geom name="floor" type="plane" size="5 5 1" pos="0 0 0.95" contype="1" conaffinity="1"/>
<body name="one" pos="3 0 1"><freejoint/><geom type="sphere" size="0.05" mass="0.5" friction="1.3"
  contype="1" conaffinity="1"/></body>
<body name="two" pos="3.2 0 1"><freejoint/><geom type="sphere" size="0.05" mass="0.3"/></body></worldbody>"""
WELD = '<weld name="tie" body1="one" body2="two" torquescale="0.7" anchor="0.02 0.03 0.01"/>'
OWN = ("tendon_coef", "tendon_stiffness", "tendon_damping", "tendon_armature", "tendon_spring", "gear", "gain", "bias")
HELD = ("tendon_frictionloss", "equality_polycoef", "equality_anchor", "equality_quat", "tendon_range")
BODIES = ("mass", "com", "inertia", "body_pos", "body_quat", "joint_pos", "joint_axis", "friction")
LAWS = {
    "compliant": ("equality_stiffness", "equality_damping", "equality_torquescale", "tendon_limit_dissipation"),
    "impulse": ("erp", "cfm"),
}
# A pair of joints in a mimic, so that what is only a loop has kernels of tendons too, and what is none those of loops.
MIMIC = """<body name="leader" pos="3 0 1"><joint name="leader" axis="0 1 0" damping="0.01"/>
  <geom fromto="0 0 0 0.2 0 0" mass="0.1"/></body>
<body name="follower" pos="3.5 0 1"><joint name="follower" axis="0 1 0"/>
  <geom fromto="0 0 0 0.1 0 -0.2" mass="0.2"/></body></worldbody>"""
MIMICS = '<joint name="mimic" joint1="leader" joint2="follower" polycoef="0 0.7 0 0 0"/></equality>'


def with_weld(xml: str) -> str:
    """The robot with what is beside it."""
    xml = xml.replace("</worldbody>", WELDED)
    if "<equality>" in xml:
        return xml.replace("</equality>", WELD + "</equality>")
    return xml.replace("<actuator>", f"<equality>{WELD}</equality><actuator>")


def unconstrained(xml: str) -> str:
    """Nothing of the robot is held, limited or rubs."""
    xml = re.sub(r"<equality>.*?</equality>", "", xml, flags=re.DOTALL)
    return with_weld(re.sub(r' (range|frictionloss|limited)="[^"]*"', "", xml))


def hand(integrator: str) -> str:
    return HAND.format(integrator=integrator)


def reach(integrator: str) -> str:
    return arm(integrator, thruster=True)


ROBOTS = {"hand": hand, "arm": reach}
each_robot = pytest.mark.parametrize("robot", ROBOTS)


def lengths(m: mujoco.MjModel, q: np.ndarray, tendon: str) -> np.ndarray:
    """Of a tendon (states,)."""
    data, found = mujoco.MjData(m), []
    for row in q:
        data.qpos[:] = row
        mujoco.mj_fwdPosition(m, data)
        found.append(data.tendon(tendon).length[0])
    return np.array(found)


# --- forces ------------------------------------------------------------------------------------------


@each_robot
@each_integrator
def test_smooth_forces_are_those_of_mujoco(contact, integrator, robot):
    """Springs, dampers, armature and actuators of tendons and thrusters, where no constraint acts on the robot."""
    model = pb.load(unconstrained(ROBOTS[robot](integrator)))
    m, states, own = model.mujoco, 50, slice(model.nv - 12)
    q, v, controls = scattered(m, states, speed=2.0)
    system = pb.Articulated(model, contact, worlds=states)
    ours = system.step(system.state(q, v), controls).v
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data, theirs = mujoco.MjData(m), []
    for world in range(states):
        data.qpos[:], data.qvel[:], data.ctrl[:], data.act[:] = q[world], v[world], controls[world], 0
        mujoco.mj_step(m, data)
        theirs.append(data.qvel.copy())
    change = (np.array(theirs) - v)[:, own]
    assert np.abs(change).max(axis=1).min() > 0.01
    assert worst_world((ours - v)[:, own], change) < 1e-11


# --- gradients ---------------------------------------------------------------------------------------


def place(robot: str, contact: str, integrator: str, *, side: int = 1, **options):
    """The robot with a tendon below its range, above it (1) or within it (2), and the ball on the floor."""
    model = pb.load(with_weld(ROBOTS[robot](integrator)))
    m = model.mujoco
    q, v, controls = scattered(m, 400, seed=3)
    tendon, ends = {"hand": ("curl", (-0.4, 0.9)), "arm": ("rope", (0.6, 0.8))}[robot]
    if robot == "hand":
        stretched = np.abs(q[:, 1] + 0.7 * q[:, 4]) > 0.3  # the tendon with a spring, whose dead band ends before
        q, v, controls = q[stretched], v[stretched], controls[stretched]
    reached = lengths(m, q, tendon)
    at = int(np.argmin(np.abs(reached - np.mean(ends))))
    if side < 2:
        at = [np.argmin, np.argmax][side](reached)
        assert (reached[at] - ends[side]) * (-1, 1)[side] > 0.01
    q, v, controls = q[at], v[at], 0.3 * controls[at]
    q[-12], v[-12], v[-10] = 0.999, -0.3, -0.1
    q[-14 + 2] = 0.999
    system = pb.Articulated(model, contact, **options)
    return system, system.state(q, v), controls[None]


def assert_agrees(reports, names) -> None:
    """In every place, and with some influence in one of them."""
    for report in reports:
        assert report.passed, report
    for name in names:
        rows = [report[name] for report in reports]
        assert all(row.status in (AGREES, NO_INFLUENCE) for row in rows), (name, rows)
        assert max(row.largest for row in rows if row.status == AGREES) > 1e-6, (name, rows)


@each_robot
@each_integrator
def test_gradients(contact, integrator, robot):
    reports = []
    for side in range(3):
        system, state, controls = place(robot, contact, integrator, side=side)
        reports.append(pb.check_system(system, state, controls, tolerance=5e-6))
    own = OWN if robot == "hand" else ("site_pos", "site_quat", *OWN[1:])
    assert_agrees(reports, ("q", "v", "control", *HELD, *BODIES, *own, *LAWS[contact]))


@each_model
def test_limits_that_hold(contact):
    """Of tendons, at rest just beyond the end of their range, with the spring's stiffness."""
    system, state, controls = place("hand", contact, "Euler")
    q, v = np.array(state.q), 0 * state.v
    over = lengths(system.model.mujoco, q, "curl")[0] - 0.9
    q[0, 2] -= over - 0.004
    report = pb.check_system(system, system.state(q, v), controls)
    assert_agrees([report], ("tendon_range", *(["tendon_limit_stiffness"] if contact == "compliant" else ["erp"])))


@each_model
def test_gradients_through_many_steps(contact):
    """A gripper whose pads close on nothing, its loop and its mimic at work; with and without checkpoints."""
    model = pb.load(looped("gripper"))
    system = pb.Articulated(model, contact, worlds=2)
    q, v, controls = scattered(model.mujoco, 2, size=0.05, speed=0.3)
    rng = np.random.default_rng(4)
    u = controls + 0.3 * rng.normal(size=(60, *controls.shape))
    weights, found = rng.normal(size=v.shape), []
    for every in (60, 7):
        run = pb.rollout(system, system.state(q, v), u, checkpoint_every=every)
        found.append(run.pullback(v_bar=weights))
    for name in ("equality_anchor", "equality_polycoef", "mass"):
        np.testing.assert_array_equal(found[0].params[name], found[1].params[name])
        assert np.abs(found[0].params[name]).max() > 1e-3
    along, size = rng.normal(size=u.shape), 1e-5
    ends = [pb.rollout(system, system.state(q, v), u + sign * size * along).final.v for sign in (1, -1)]
    slope = np.sum(weights * (ends[0] - ends[1])) / (2 * size)
    assert abs(slope) > 1e-3
    np.testing.assert_allclose(np.sum(found[0].controls * along), slope, rtol=1e-6)


@each_model
def test_single_precision(contact):
    found = {}
    for dtype in ("float64", "float32"):
        system, state, controls = place("hand", contact, "Euler", dtype=dtype)
        bars = system.pullback(state, controls, pb.State(0 * state.q, 0 * state.v + 1))
        found[dtype] = {"q": bars.state.q, "v": bars.state.v, "control": bars.control, **bars.params}
        assert all(x.dtype == dtype for x in found[dtype].values())
    for name in ("q", "v", "control", "equality_anchor", "equality_polycoef", "tendon_coef", "mass"):
        exact = found["float64"][name]
        assert np.abs(exact).max() > 1e-6
        assert np.abs(found["float32"][name] - exact).max() < 2e-3 * np.abs(exact).max(), name


# --- what holds --------------------------------------------------------------------------------------


def four_bar(dt: float) -> pb.Model:
    xml = looped("four-bar", dt=dt).replace('axis="0 1 0"/>', 'axis="0 1 0" damping="0.05"/>')
    return pb.load(xml.replace("</worldbody>", MIMIC).replace("</equality>", MIMICS))


def driven(contact, dt: float, time: float):
    """Its motion under a swinging drive; how far its loop is open, and how far the mimic is off."""
    model = four_bar(dt)
    m, steps = model.mujoco, round(time / dt)
    controls = np.zeros((steps, 1, m.nu))
    controls[:, 0, 0] = 0.5 * np.sin(3 * dt * np.arange(steps))
    system = pb.Articulated(model, contact)
    run = pb.rollout(system, system.state(), controls)
    data, gaps = mujoco.MjData(m), []
    one, two = (m.body(name).id for name in ("coupler", "rocker"))
    anchors = system.params["equality_anchor"][0]
    for q in run.q[:: max(1, steps // 500), 0]:
        data.qpos[:] = q
        mujoco.mj_kinematics(m, data)
        ends = [data.xpos[b] + data.xmat[b].reshape(3, 3) @ anchors[i] for i, b in enumerate((one, two))]
        gaps.append(np.linalg.norm(ends[0] - ends[1]))
    mimic = np.abs(run.q[:, 0, 3] - 0.7 * run.q[:, 0, 4])
    return run.q[:, 0], np.array(gaps), mimic


@each_model
def test_a_four_bar_stays_closed(contact):
    """For ten seconds, about as well as with ContactConvex."""
    q, gaps, mimic = driven(MODELS[contact](), 0.002, 10.0)
    _q, their_gaps, their_mimic = driven(pb.ContactConvex(), 0.002, 10.0)
    half = len(gaps) // 2
    assert np.ptp(q[:, 0]) > 1.0 and np.ptp(q[:, 3]) > 0.1 and 5e-4 < their_gaps.max() < 5e-3
    assert gaps.max() < 4 * their_gaps.max() and gaps[half:].max() < 2 * their_gaps[half:].max()
    assert mimic.max() < 2 * their_mimic.max()


STIFF = {
    "compliant": partial(pb.ContactCompliant, equality_stiffness=1e6, equality_damping=3e3),
    "impulse": MODELS["impulse"],
}


@each_model
def test_a_four_bar_moves_as_with_stiff_convex_rows(contact):
    """The difference goes with the timestep: that of rigid rows, whose steps are of first order."""
    off = []
    for dt in (0.001, 0.0005):
        q, _gaps, _mimic = driven(STIFF[contact](), dt, 0.5)
        exact = driven_exactly(dt)
        off.append(np.abs(q[:: round(0.01 / dt), :3] - exact).max())
    assert off[1] < 0.02 and off[1] < 0.7 * off[0]


def driven_exactly(dt: float) -> np.ndarray:
    """The joints every 10 ms by MuJoCo's rows, stiff and with small steps."""
    fine = dt / 8
    model = four_bar(fine)
    model.mujoco.eq_solref[:] = (2 * fine, 1.0)
    steps = round(0.5 / fine)
    controls = np.zeros((steps, 1, model.nu))
    controls[:, 0, 0] = 0.5 * np.sin(3 * fine * np.arange(steps))
    system = pb.Articulated(model)
    system.params["equality_solref"] = np.array([[2 * fine, 1.0], [2 * fine, 1.0]])
    run = pb.rollout(system, system.state(), controls)
    return run.q[:: round(0.01 / fine), 0, :3]


# A mass on a slide and one on a hinge; a tendon of the slide, twice as long. Weld and mimic as above.
SLIDE = """<mujoco><option timestep="0.002"/><default><geom contype="0" conaffinity="0" type="capsule" size="0.02"/>
</default><worldbody><body name="load"><joint name="down" type="slide" axis="0 0 -1"/><geom type="sphere" size="0.1"
  mass="2"/></body></worldbody>
<tendon><fixed name="cord" {tendon}><joint joint="down" coef="2"/></fixed></tendon><equality>{equality}</equality>
<actuator><motor joint="down"/></actuator></mujoco>"""
G, MASS, H = 9.81, 2.0, 0.002


def slide(tendon: str = "", equality: str = "") -> pb.Model:
    return pb.load(with_weld(SLIDE.format(tendon=tendon, equality=equality)))


def rest(contact, model: pb.Model, steps: int = 3000) -> float:
    system = pb.Articulated(model, contact)
    final = pb.rollout(system, system.state(), steps=steps).final
    assert abs(final.v[0, 0]) < 1e-9
    return float(final.q[0, 0])


def test_equalities_give_way_as_stated():
    held = slide(equality='<joint joint1="down" polycoef="0.1 0 0 0 0" solimp="0.9 0.9 0.001 0.5 2"/>')
    assert rest(pb.ContactCompliant(equality_stiffness=4e3), held) == pytest.approx(0.1 + MASS * G / 4e3, rel=1e-9)
    # by default as MuJoCo's do, whose impedance here is the same whatever they miss
    theirs = rest(pb.ContactConvex(), held) - 0.1
    assert rest(pb.ContactCompliant(), held) - 0.1 == pytest.approx(theirs, rel=1e-8)
    soft = pb.ContactImpulse(cfm=0.02, erp=0.3)
    assert rest(soft, held) == pytest.approx(0.1 + 0.02 * MASS * G * H**2 / 0.3, abs=1e-9)


def test_limits_of_tendons_give_way_as_stated():
    """A force along the tendon of twice the slide's travel is half the weight."""
    limited = slide('range="-1 0.2" limited="true"')
    stiff = pb.ContactCompliant(limit_stiffness=2e3, limit_smoothing=1e-5)
    assert rest(stiff, limited) == pytest.approx((0.2 + MASS * G / 2 / 2e3) / 2, rel=1e-9)
    soft = pb.ContactImpulse(cfm=0.02, erp=0.3)
    assert rest(soft, limited) == pytest.approx((0.2 + 0.02 * MASS * G / 2 * H**2 / 0.3) / 2, abs=1e-9)


@each_model
def test_friction_loss_of_tendons(contact):
    """It brakes by the loss times the coefficient, and holds what pulls less."""
    for loss, holds in ((3.0, False), (12.0, True)):
        system = pb.Articulated(slide(f'frictionloss="{loss}"'), MODELS[contact]())
        run = pb.rollout(system, system.state(None, [1.0, *np.zeros(12)] if holds else None), steps=400)
        if holds:
            assert abs(run.final.v[0, 0]) < {"compliant": 0.02, "impulse": 1e-6}[contact]
        else:
            fall = run.v[200:, 0, 0]
            expected = (G - 2 * loss / MASS) * H * np.arange(200, 401)
            # to first order in a step, in which the speed grows by less than a hundredth
            tolerance = {"compliant": 1e-2, "impulse": 1e-9}[contact]
            np.testing.assert_allclose(fall - fall[0], expected - expected[0], rtol=tolerance)


@each_model
def test_loops_keep_momentum(contact):
    """A free gripper without gravity, thrown with its loop and mimic violated."""
    xml = LOOPED.format(integrator="Euler", dt=0.002, **GRIPPER).replace("<option", '<option gravity="0 0 0"')
    model = pb.load(xml)
    m = model.mujoco
    q, v, controls = scattered(m, 1, size=0.1, speed=0.5)
    system = pb.Articulated(model, contact)
    run = pb.rollout(system, system.state(q, v), np.tile(controls, (200, 1, 1)))
    data, found = mujoco.MjData(m), []
    for t in (0, 1, 50, 200):
        data.qpos[:], data.qvel[:] = run.q[t][0], run.v[t][0]
        mujoco.mj_forward(m, data)
        mujoco.mj_subtreeVel(m, data)
        found.append(data.subtree_linvel[1].copy())
    assert np.abs(run.v[1] - v).max() > 0.1
    # steps of joints move with the velocity at their end, but masses turn meanwhile: of second order in a step
    np.testing.assert_allclose(found[1:], np.tile(found[0], (3, 1)), atol=5e-3)
    free = pb.Articulated(model, None)
    plain = pb.rollout(free, free.state(q, v), np.tile(controls, (200, 1, 1)))
    assert np.abs(plain.q[-1] - run.q[-1]).max() > 1e-3


@each_model
def test_aims_that_exclude_each_other(contact):
    """Two equalities on one joint, and a rod that is too short: the motion is finite, bounded and comes to rest."""
    both = '<joint joint1="down" polycoef="0.3 0 0 0 0"/><joint joint1="down" polycoef="-0.3 0 0 0 0"/>'
    system = pb.Articulated(slide(equality=both), MODELS[contact]())
    run = pb.rollout(system, system.state([0.1, *system.model.q0[1:]]), steps=1000)
    assert np.abs(run.q[:, 0, 0]).max() < 0.5 and abs(run.final.v[0, 0]) < 1e-3
    bars = run.pullback(q_bar=np.ones_like(run.final.q))
    assert np.all(np.isfinite(bars.params.equality_polycoef)) and np.any(bars.params.equality_polycoef)
    far = looped("four-bar").replace('<body name="rocker" pos="0.5 0 1"', '<body name="rocker" pos="1.5 0 1"')
    far = far.replace('axis="0 1 0"/>', 'axis="0 1 0" damping="0.1"/>').replace("</worldbody>", MIMIC)
    model = pb.load(far.replace("</equality>", MIMICS))
    model.mujoco.eq_data[0, 3:6] = (0, 0, 0.3)  # the rocker's end, which the coupler cannot reach
    system = pb.Articulated(model, MODELS[contact]())
    run = pb.rollout(system, system.state(), steps=2000)
    assert np.abs(run.v).max() < 1e3 and np.abs(run.v[-1]).max() < 1.0


def test_impulses_know_two_trees_a_row():
    fingers = "".join(
        f'<body pos="{x} 0 1"><joint name="j{x}" axis="0 1 0"/><geom fromto="0 0 0 0 0 0.1" mass="0.1"/></body>'
        for x in range(3)
    )
    joints = "".join(f'<joint joint="j{x}" coef="1"/>' for x in range(3))
    xml = LOOPED.format(integrator="Euler", dt=0.002, world=fingers, equality="", actuator="")
    xml = xml.replace("</mujoco>", f'<tendon><fixed name="cord" range="0 1">{joints}</fixed></tendon></mujoco>')
    with pytest.raises(pb.PullbackError, match=r"tendon 'cord' joins 3 trees.*ContactImpulse.*ignore=\(\"tendon\",\)"):
        pb.Articulated(pb.load(xml), "impulse")
    pb.Articulated(pb.load(xml), "compliant")
    pb.Articulated(pb.load(xml.replace(' range="0 1"', ' stiffness="1"')), "impulse")


@each_model
def test_robots_without_couplings_compile_none(contact):
    flavour = pb.Articulated(pb.load(pb.robots.quadruped()), contact)._flavour
    assert not (flavour.tendons or flavour.loops or flavour.sites or flavour.spatial)


def test_impossible_springs():
    with pytest.raises(pb.PullbackError, match="equality_stiffness of ContactCompliant.*positive"):
        pb.ContactCompliant(equality_stiffness=0)
    system = pb.Articulated(pb.load(looped("four-bar")), "compliant")
    with pytest.raises(pb.PullbackError, match="equality_stiffness"):
        system.params["equality_stiffness"] = -1.0
