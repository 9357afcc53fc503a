"""Tendons that wrap around spheres and cylinders, against MuJoCo, and their gradients."""

import copy

import mujoco
import numpy as np
import pytest
from oracles import mujoco_run
from scenes import next_states, worst_world
from sensed import readings_of_mujoco, require_gradients
from tendon_robots import arm, scattered, worst_step
from wrapping_robots import WHEEL, string, wrapped_arm

import pullback as pb
from pullback.dynamics import sensors
from pullback.rollout.check import AGREES

# Found: below 2e-13.
ACCURACY = 1e-10
# Where a tendon passes inside, MuJoCo ends its search for the point within 1e-6 rad of it. Found: below 7e-8.
INSIDE = 1e-6
each_integrator = pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
OWN = ("tendon_stiffness", "tendon_damping", "tendon_spring", "gear", "gain", "bias", "site_pos")
GEOMS = ("geom_pos", "geom_quat", "geom_size")
ROWS = ("tendon_frictionloss", "equality_polycoef", "equality_solref", "equality_solimp")
LIMIT = ("tendon_range", "tendon_limit_solref", "tendon_limit_solimp")
BODIES = ("mass", "com", "inertia", "body_pos", "body_quat", "joint_pos", "joint_axis")
ROPE = 3


def measured(m: mujoco.MjModel, q: np.ndarray, tendon: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Length (n,), Jacobian (n, nv) and how many points of a tendon there are beyond its sites."""
    data, length, J, points = mujoco.MjData(m), [], np.zeros((len(q), m.ntendon, m.nv)), []
    for n, row in enumerate(q):
        data.qpos[:] = row
        mujoco.mj_fwdPosition(m, data)
        length.append(data.ten_length[tendon])
        points.append(data.ten_wrapnum[tendon])
        mujoco.mju_sparse2dense(J[n], data.ten_J.ravel(), m.ten_J_rownnz, m.ten_J_rowadr, m.ten_J_colind)
    return np.array(length), J[:, tendon], np.array(points)


def poses_about(m: mujoco.MjModel, count: int) -> np.ndarray:
    """Of two balls near something, in any orientation."""
    rng, q = np.random.default_rng(0), np.tile(m.qpos0, (count, 1))
    for body in range(3):
        turn, way = rng.normal(size=(count, 4)), rng.normal(size=(count, 3))
        q[:, 7 * body + 3 : 7 * body + 7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
        reach = rng.uniform(0.08, 0.3, (count, 1)) if body else 0.02
        q[:, 7 * body : 7 * body + 3] = reach * way / np.linalg.norm(way, axis=1, keepdims=True)
    return q


def pulls(model: pb.Model, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Length of the string (n,) and acceleration (n, nv) by a force of one along it: without a control, its actuator's
    force is the length."""
    system = pb.Articulated(model, None, worlds=len(q))
    by_length, more = (system.step(system.state(q), np.full((len(q), 1), u)).v / model.timestep for u in (0.0, 1.0))
    by_one = more - by_length
    return np.sum(by_length * by_one, axis=1) / np.sum(by_one**2, axis=1), by_one


@pytest.mark.parametrize("kind", ["sphere", "cylinder"])
@pytest.mark.parametrize("side", ["none", "outside", "inside"])
def test_lengths_and_jacobians(kind, side):
    """In thousands of poses. Found: below 7e-14 and 3e-14; inside, where a site is near the geom, 4e-6."""
    model = pb.load(string(kind, side))
    m, q = model.mujoco, poses_about(model.mujoco, 3000)
    length, J, points = measured(m, q)
    assert 300 < np.sum(points > 2) < 2700
    ours, by_one = pulls(model, q)
    np.testing.assert_allclose(ours, length, rtol=0, atol=1e-12)
    data, theirs = mujoco.MjData(m), np.empty_like(J)
    for n, row in enumerate(q):
        data.qpos[:] = row
        mujoco.mj_forward(m, data)
        mujoco.mj_solveM(m, data, theirs[n : n + 1], J[n : n + 1])
    assert worst_world(by_one, theirs) <= (1e-5 if side == "inside" else 1e-12)


@pytest.mark.parametrize("kind", ["sphere", "cylinder"])
def test_a_point_inside_is_found_to_rounding(kind):
    """The Jacobian is the derivative of MuJoCo's own length, more so than MuJoCo's. Found: 1e-12, and there 2e-8."""
    model, h = pb.load(string(kind, "inside")), 1e-4
    m = model.mujoco
    q = poses_about(m, 400)
    ahead = [measured(m, q + k * h * (np.arange(m.nq) == 7)) for k in (-2, -1, 1, 2)]
    same = np.all([points == 4 for _, _, points in ahead], axis=0)
    slope = (ahead[0][0] - 8 * ahead[1][0] + 8 * ahead[2][0] - ahead[3][0]) / (12 * h)
    ours, theirs = m.body_mass[2] * pulls(model, q)[1][:, 6], measured(m, q)[1][:, 6]
    assert same.sum() > 100
    assert np.quantile(np.abs(ours - slope)[same], 0.9) <= 1e-11 < 1e-9 < np.quantile(np.abs(theirs - slope)[same], 0.9)


# One slide past a geom at the origin, from x = -0.3 to x = 0.4, at a height that moves.
OVER = """<mujoco><option gravity="0 0 0" timestep="0.01"/><worldbody>
<geom name="g" type="{kind}" size="{radius} .3" {turn}/>
<site name="a" pos="-.3 {ay} 0"/><site name="s" pos="{side}"/>
<body pos="0.4 0 0"><joint type="slide" axis="0 1 0"/><joint type="slide" axis="0 0 1"/><geom size=".01" mass="1"/>
<site name="b"/></body></worldbody><tendon><spatial name="t" stiffness="20" springlength="0.1" damping="0.3">
<site site="a"/><geom geom="g" {sidesite}/><site site="b"/></spatial></tendon></mujoco>"""


def over(kind="sphere", side="", ay=0.2, turn="", *, radius: float = 0.1) -> pb.Model:
    sidesite = 'sidesite="s"' if side else ""
    numbers = {"kind": kind, "ay": ay, "turn": turn, "radius": radius}
    return pb.load(OVER.format(side=side or "0 0 0", sidesite=sidesite, **numbers))


@pytest.mark.parametrize("kind", ["sphere", "cylinder"])
@pytest.mark.parametrize("side", ["", "0 .2 .01", "0 0.05 0"])
def test_both_sides_of_where_it_sets_in(kind, side):
    """Forces go on without a jump, and their derivatives jump; gradients are right on both sides."""
    model = over(kind, side)
    system, m = pb.Articulated(model, None), model.mujoco
    low, high = -0.3, 0.4
    wrapped = lambda y: measured(m, np.array([[y, 0.03]]))[2][0] > 2  # noqa: E731
    assert wrapped(low) != wrapped(high)
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if wrapped(middle) == wrapped(low) else (low, middle)
    state = lambda y: system.state([[y, 0.03]], [[0.3, -0.2]])  # noqa: E731
    below, above = (system.step(state(y)).v for y in (low, high))
    slopes = []
    for y in (low - 1e-3, high + 1e-3):
        report = pb.check_system(system, state(y), tolerance=1e-6, steps=(1e-4, 3e-5, 1e-5))
        q = [[y, 0.03]]
        theirs = mujoco_run(m, q, [[0.3, -0.2]], np.zeros((1, 1, 0)))[1][1]
        np.testing.assert_allclose(system.step(state(y)).v, theirs, rtol=0, atol=1e-7 if side == "0 0.05 0" else 1e-13)
        for name in ("q", "v", "site_pos", "tendon_damping", "tendon_spring"):
            assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]
        touched = wrapped(y)
        assert (report["geom_size"].largest > 1e-6) == (report["geom_pos"].largest > 1e-6) == touched
        slopes.append(system.pullback(state(y), None, pb.State(np.zeros((1, 2)), np.ones((1, 2)))).state.q)
    if side != "0 0.05 0":  # there the straight line is left where the disc is met, which is a mirror's edge
        np.testing.assert_allclose(below, above, rtol=0, atol=1e-10)
    assert np.abs(slopes[0] - slopes[1]).max() > 1e-3


@pytest.mark.parametrize("kind", ["sphere", "cylinder"])
def test_places_without_a_direction(kind):
    """The centre on the line of both sites, a side beside the plane, a site within the geom: as in MuJoCo."""
    cases = [
        ("", 0.0, ""),
        ("", 0.0, 'euler="20 50 10"'),
        ("0 .2 0", 0.0, ""),
        ("0 0 .2", 0.1, ""),
        ("0 .03 0", 0.0, ""),
    ]
    for model in (*(over(kind, *case) for case in cases), over(kind, ay=0.0, radius=0.35)):
        system, m = pb.Articulated(model, None), model.mujoco
        for q in ([[0.0, 0.0]], [[0.0, 0.1]], [[0.2, 0.0]]):
            theirs = mujoco_run(m, q, [[0.3, -0.2]], np.zeros((1, 1, 0)))[1][1]
            np.testing.assert_allclose(system.step(system.state(q, [[0.3, -0.2]])).v, theirs, rtol=0, atol=1e-13)
            bars = system.pullback(system.state(q), None, pb.State(np.ones((1, 2)), np.ones((1, 2))))
            assert np.isfinite(bars.state.q).all() and all(np.isfinite(x).all() for x in bars.params.values())


@each_integrator
@pytest.mark.parametrize("contact", ["model", None])
def test_an_arm_moves_as_in_mujoco(integrator, contact):
    """With a load that implicitfast solves by itself, and with one that it does not."""
    for flap, inside, accuracy in ((True, False, ACCURACY), (False, False, ACCURACY), (True, True, INSIDE)):
        model = pb.load(wrapped_arm(integrator, flap=flap, inside=inside))
        assert worst_step(pb.Articulated(model, contact, worlds=100)) <= accuracy


@each_integrator
@pytest.mark.parametrize("contact", ["model", None])
def test_gradients(integrator, contact):
    """With all tendons wrapped, and the rope, with contacts, longer than its range."""
    model = pb.load(wrapped_arm(integrator))
    q, v, controls = scattered(model.mujoco, 100, seed=3)
    at = 2  # both muscles are on both of their geoms' surfaces
    assert [measured(model.mujoco, q[at : at + 1], t)[2][0] for t in (0, 1, ROPE)] == [5, 5, 10]
    system = pb.Articulated(model, contact)
    report = pb.check_system(system, system.state(q[at], v[at]), 0.4 * controls[at][None], tolerance=5e-6)
    rows = (*ROWS, *LIMIT) if contact else ()
    for name in ("q", "v", "control", *OWN, *GEOMS, *BODIES, "tendon_coef", *rows):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_parameters_are_those_of_mujoco():
    """What is set moves the arm as a compiled model with those numbers and its inverse weights does."""
    model = pb.load(wrapped_arm("implicitfast", inside=False))
    m, rng = model.mujoco, np.random.default_rng(0)
    fields = {"tendon_spring": "tendon_lengthspring"}
    system = pb.Articulated(model, worlds=50)
    q, v, controls = scattered(m, 50)
    before, weights = system.step(system.state(q, v), controls).v, m.tendon_invweight0.copy()
    for name in (*OWN[:3], "site_pos", *GEOMS, "tendon_range", "tendon_frictionloss"):
        value = system.params[name] * rng.uniform(0.9, 1.1, system.params[name].shape)
        value = np.sort(value, axis=-1) if name in ("tendon_spring", "tendon_range") else value
        system.params[name] = value
        value = value / np.linalg.norm(value, axis=-1, keepdims=True) if name == "geom_quat" else value
        getattr(m, fields.get(name, name))[:] = value
    m.geom_sameframe[:] = 0
    again = copy.copy(m)
    mujoco.mj_setConst(again, mujoco.MjData(again))
    for name in ("body_invweight0", "dof_invweight0", "tendon_invweight0"):
        getattr(m, name)[:] = getattr(again, name)
    assert np.abs(m.tendon_invweight0 / weights - 1)[[0, 1, ROPE]].min() > 1e-3
    ours = system.step(system.state(q, v), controls).v
    assert worst_world(before, ours) > 1e-3
    assert worst_world((ours - v) / 0.002, (next_states(m, q, v, controls)[1] - v) / 0.002) <= ACCURACY


def test_a_wheel_that_touches_the_floor():
    """The same geom is a shape in contact and what a tendon wraps around."""
    model = pb.load(WHEEL)
    m, rng = model.mujoco, np.random.default_rng(1)
    q = np.tile(m.qpos0, (50, 1))
    q[:, :3] += rng.normal(scale=0.002, size=(50, 3))
    q[:, 7:] += rng.normal(scale=0.05, size=(50, 2))
    v, controls = 0.3 * rng.normal(size=(50, 8)), rng.normal(size=(50, 1))
    length, _, points = measured(m, q)
    assert np.sum(points == 4) > 40 and 5 < np.sum(length > 1.011) < 45
    system = pb.Articulated(model, worlds=50)
    ours = system.step(system.state(q, v), controls)
    assert worst_world(ours.v - v, next_states(m, q, v, controls)[1] - v) <= ACCURACY
    at = np.argmax(np.where((points == 4) & (q[:, 2] < 0.1), length, 0.0))
    one = pb.Articulated(model)
    report = pb.check_system(one, one.state(q[at], v[at]), controls[at][None], tolerance=5e-6)
    for name in ("q", "v", "control", "site_pos", "tendon_range", "mass", "solref", *GEOMS):
        assert report[name].status == AGREES and report[name].largest > 1e-6, report[name]


def test_armature_is_refused():
    """As in MuJoCo, where it is an error of the compiler."""
    system = pb.Articulated(pb.load(wrapped_arm()), None)
    armature = system.params["tendon_armature"].copy()
    armature[4] = 0.1  # of a tendon that only passes through sites
    system.params["tendon_armature"] = armature
    armature[ROPE] = 0.1
    with pytest.raises(pb.PullbackError, match="'tendon_armature' of 'rope' must be zero.*wraps around a geom"):
        system.params["tendon_armature"] = armature
    with pytest.raises(pb.PullbackError, match="'geom_size' of 'hub' must be positive"):
        system.params["geom_size"] = -system.params["geom_size"]


def test_a_rollout_has_the_gradient_of_its_steps():
    """Through many steps, with checkpoints, bit for bit."""
    model = pb.load(wrapped_arm("implicitfast"))
    system = pb.Articulated(model, worlds=2)
    q, v, controls = scattered(model.mujoco, 2, size=0.2)
    controls = np.tile(0.3 * controls, (30, 1, 1))
    found = []
    for every in (1, 7):
        run = pb.rollout(system, system.state(q, v), controls, checkpoint_every=every)
        found.append(run.pullback(q_bar=run.final.q, v_bar=run.final.v))
    for name in (*GEOMS, "site_pos"):
        np.testing.assert_array_equal(found[0].params[name], found[1].params[name])
        assert np.abs(found[0].params[name]).max() > 0
    np.testing.assert_array_equal(found[0].state.q, found[1].state.q)


def test_robots_without_wrapping_compile_none():
    assert not pb.Articulated(pb.load(arm()))._flavour.wraps
    idle = string("sphere", "none")
    idle = idle[: idle.index("<actuator>")] + "</mujoco>"
    system = pb.Articulated(pb.load(idle), None)
    assert not system._flavour.wraps and "geom_pos" not in system.params


SENSED = """<sensor><tendonpos tendon="{0}"/><tendonvel tendon="{0}"/></sensor></mujoco>"""


@pytest.mark.parametrize("tendon", ["biceps", "triceps", "rope"])
def test_sensors(tendon):
    """Length and velocity, where it wraps and where it does not, with gradients by all that they depend on."""
    model = pb.load(wrapped_arm().replace("</mujoco>", SENSED.format(tendon)))
    m, rng = model.mujoco, np.random.default_rng(0)
    q, v, _ = scattered(m, 60)
    points = measured(m, q, mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_TENDON, tendon))[2]
    assert len(np.unique(points)) > 1
    system = pb.Articulated(model, None, worlds=60)
    found, wanted = sensors(system, q, v).value, readings_of_mujoco(m, q, v, control=np.zeros((60, model.nu)))
    np.testing.assert_allclose(found[:, 0], wanted[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[:, 1], wanted[:, 1], rtol=0, atol=INSIDE if tendon == "rope" else 1e-12)
    most = np.argsort(-points)[:3]
    system, given = pb.Articulated(model, None, worlds=3), {"q": q[most], "v": v[most]}
    params = {name: np.array(system.params[name]) for name in ("site_pos", *GEOMS, "body_pos", "joint_axis")}
    require_gradients(system, given, params, rng)
