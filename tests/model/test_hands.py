"""The sample hands against MuJoCo and against what their makers publish."""

import math
from itertools import pairwise

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.dexterous import Along, Hand, Manipulation, Scattered, Scene
from pullback.dexterous.training import check_reach
from pullback.model.robots import HANDS, ROBOTS, SAMPLES, fingertips
from pullback.tasks.manipulations import HELD, grasp_cube, with_object

JOINTS = {"fingertips": 9, "gripper": 9, "three_finger": 15, "hand": 30}
MASSES = {  # published range [kg]
    "fingertips": (0.06, 0.06),
    "gripper": (16.7, 19.2),  # the arm as in test_robots.py, and 0.73
    "three_finger": (16.9, 19.5),  # 0.98
    "hand": (18.4 + 4.2, 20.7 + 4.4),  # a UR5 without and with its cables; the hand weighs 4.3
}
TIPS = {
    "fingertips": ("tip1", "tip2", "tip3"),
    "gripper": ("finger1", "finger2"),
    "three_finger": ("outer1", "outer2", "outer3"),
    "hand": ("th_distal", "ff_distal", "mf_distal", "rf_distal", "lf_distal"),
}
HAND = {"finger": ("WRJ2", "WRJ1"), "FF": "4321", "MF": "4321", "RF": "4321", "LF": "54321", "TH": "54321"}


def build(name):
    return mujoco.MjModel.from_xml_string(HANDS[name]())


def posed(model, q):
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    return data


def random_pose(model, random):
    return random.uniform(model.jnt_range[:, 0], model.jnt_range[:, 1])


def end_of(model, data, body):
    """The farthest point of a body's capsule from its joint, along its axis [m]."""
    geom = model.body(body).geomadr[0]
    centre, axis = data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)[:, 2]
    ends = [centre + sign * axis * (model.geom_size[geom, 1] + model.geom_size[geom, 0]) for sign in (-1, 1)]
    return max(ends, key=lambda end: np.linalg.norm(end - data.body(body).xpos))


def test_names():
    assert set(HANDS) == set(JOINTS) == set(TIPS) and not set(HANDS) & set(ROBOTS)
    assert set(SAMPLES) == set(HANDS) | set(ROBOTS)


@pytest.mark.parametrize("name", HANDS)
def test_sizes_masses_and_inertias(name):
    model = build(name)
    assert (model.nq, model.nv, model.nu) == (JOINTS[name],) * 3
    low, high = MASSES[name]
    assert low - 1e-9 <= model.body_subtreemass[0] <= high + 1e-9
    moving = [b for b in range(1, model.nbody) if model.body(b).name != "base"]
    assert np.all(model.body_mass[moving] > 0) and np.all(model.body_gravcomp[moving] == 1)
    inertia = np.sort(model.body_inertia[moving], axis=1)
    assert np.all(inertia > 0) and np.all(inertia[:, 0] + inertia[:, 1] >= inertia[:, 2])
    assert model.nmesh == model.neq == model.nplugin == model.ntendon == 0


@pytest.mark.parametrize("name", HANDS)
def test_a_servo_moves_each_joint_and_is_called_after_it(name):
    model = build(name)
    assert np.array_equal(model.actuator_trnid[:, 0], np.arange(model.nu)) and model.jnt_limited.all()
    assert [model.actuator(i).name for i in range(model.nu)] == [model.joint(i).name for i in range(model.nu)]
    np.testing.assert_allclose(model.actuator_ctrlrange, model.jnt_range)
    np.testing.assert_allclose(model.actuator_gainprm[:, 0], -model.actuator_biasprm[:, 1])
    assert np.all(model.actuator_biasprm[:, 2] < 0)


@pytest.mark.parametrize("name", HANDS)
def test_home_is_held_and_touches_nothing(name):
    """With their weight carried, servos that are told to stay do so; parts of a robot never touch each other."""
    model = build(name)
    home = model.key("home")
    data = posed(model, home.qpos)
    data.ctrl[:] = home.qpos
    assert np.all(home.qpos >= model.jnt_range[:, 0]) and np.all(home.qpos <= model.jnt_range[:, 1])
    for _ in range(250):
        mujoco.mj_step(model, data)
        assert not data.ncon
    assert np.abs(data.qpos - home.qpos).max() < 1e-9
    if name != "fingertips":
        np.testing.assert_array_equal(home.ctrl, home.qpos)
    floor = model.geom("floor").id
    touches = (model.geom_contype[:, None] & model.geom_conaffinity[None, :]) != 0
    assert np.all((np.argwhere(touches) == floor).any(axis=1)) and touches.any()


@pytest.mark.parametrize("name", HANDS)
def test_servos_follow(name):
    """Half-way from home to a random pose, within a second and a tenth of the way."""
    model, random = build(name), np.random.default_rng(0)
    model.geom_contype[:] = 0
    home = model.key("home").qpos
    wanted = home + 0.2 * (random_pose(model, random) - home)
    data = posed(model, home)
    data.ctrl[:] = wanted
    for _ in range(round(1.5 / model.opt.timestep)):
        mujoco.mj_step(model, data)
    assert np.abs(data.qpos - wanted).max() < 0.1 * np.abs(wanted - home).max() > 0


@pytest.mark.parametrize("name", HANDS)
def test_pullback_moves_it_as_mujoco_does(name):
    """Servos, what carries weight, limits of forces and of joints, contact with the floor."""
    model, random = pb.load(HANDS[name]()), np.random.default_rng(1)
    m, data = model.mujoco, posed(model.mujoco, model.home.q)
    targets = model.home.q + 0.3 * (np.array([random_pose(m, random) for _ in range(4)]) - model.home.q)
    controls = np.repeat(targets, 15, axis=0)
    system = pb.Articulated(model)
    run = pb.rollout(system, system.state(), controls[:, None])
    for row, control in enumerate(controls):
        data.ctrl[:] = control
        mujoco.mj_step(m, data)
        np.testing.assert_allclose(run.q[row + 1, 0], data.qpos, atol=1e-6)
    assert np.abs(data.qpos - model.home.q).max() > 0.02


@pytest.mark.parametrize("name", HANDS)
def test_policies_can_propose_contacts_with_it(name):
    """Poses and Jacobians of its tips as MuJoCo has them, and an object within reach."""
    spec_at = {"fingertips": (0, 0), "gripper": (0.514, 0), "three_finger": (0.514, 0), "hand": (0.62, 0.1)}[name]
    cube = mujoco.mjtGeom.mjGEOM_BOX, (0.02, 0.02, 0.02), 0.05, (*spec_at, 0.02), "cube"
    model, random = with_object(HANDS[name](), *cube), np.random.default_rng(2)
    scene = Scene(model, TIPS[name], dt=0.03)
    hand = scene.hand
    assert isinstance(hand, Hand) and hand.n == JOINTS[name]
    q = random_pose(build(name), random)
    data = posed(model.mujoco, [*q, *spec_at, 0.02, 1, 0, 0, 0])
    pose, local = hand.pose(q), random.normal(size=(len(TIPS[name]), 3)) * 0.02
    points = hand.points(pose, hand.tip_bodies, local)
    J, W = hand.jacobians(pose, hand.tip_bodies, points)
    for k, body in enumerate(hand.tip_bodies):
        exact = data.xpos[body] + data.xmat[body].reshape(3, 3) @ local[k]
        np.testing.assert_allclose(points[k], exact, atol=1e-12)
        jacp, jacr = np.zeros((2, 3, model.mujoco.nv))
        mujoco.mj_jac(model.mujoco, data, jacp, jacr, exact, body)
        np.testing.assert_allclose(J[k], jacp[:, : hand.n], atol=1e-12)
        np.testing.assert_allclose(W[k], jacr[:, : hand.n], atol=1e-12)
        assert np.abs(jacp[:, : hand.n]).max() > 0.01
    starts = Scattered(scene, spread=0.01)
    check_reach(Manipulation(name="hold", about="", scene=scene, frames=5, starts=starts, wanted=Along()))


@pytest.mark.parametrize("name", ["gripper", "three_finger", "hand"])
def test_a_hand_hovers_over_the_cube_it_is_given(name):
    """Its tips come straight down from its own home, and no joint beyond its limits."""
    task, lower = grasp_cube(name), HELD[name].lower
    hand = task.scene.hand
    own = Hand(task.scene.model, HELD[name].tips, hand.bodies)
    before, after = (
        own.points(own.pose(q), own.tip_bodies, own.tip_points) for q in (build(name).key("home").qpos, hand.home)
    )
    np.testing.assert_allclose(after - before, np.broadcast_to([0, 0, -lower], after.shape), atol=1e-3)
    assert np.all(hand.home >= hand.low) and np.all(hand.home <= hand.high)
    check_reach(task)
    start = task.batch(np.random.default_rng(0), 20, noisy=False)
    consistency = task.consistency(start)
    x = type(start.start)(*(part[None] for part in start.start))
    clear, _ = consistency.clearance(x, hand.pose(x.q), False)
    assert min(distance.min() for distance in clear.values()) > -1e-9


def test_fingertips_may_be_turned_at_home():
    straight, turned = (mujoco.MjModel.from_xml_string(fingertips(3, turn)) for turn in (0.0, math.pi / 2))
    at, moved = (model.key("home").qpos.reshape(3, 3) for model in (straight, turned))
    np.testing.assert_allclose(moved, np.stack([-at[:, 1], at[:, 0], at[:, 2]], axis=1), atol=1e-12)


def test_gripper_has_the_published_lengths():
    model = build("gripper")
    straight = posed(model, [0, 0, 0, -0.07, 0, 0, 0, 0, 0.04])
    flange = straight.body("hand")
    assert np.linalg.norm(flange.xpos - straight.body("link7").xpos) == pytest.approx(0.107)
    pad = model.body("finger1").geomadr[0] + 1
    geom = [g for g in range(model.ngeom) if model.geom_bodyid[g] == model.body("finger1").id and model.geom_contype[g]]
    assert len(geom) == 1 and geom[0] == pad
    down = -flange.xmat.reshape(3, 3)[:, 2]
    tip = (straight.geom_xpos[pad] - flange.xpos) @ down + model.geom_size[pad, 2]
    assert tip == pytest.approx(0.1034)
    across = flange.xmat.reshape(3, 3)[:, 1]
    gap = [(straight.body(f"finger{i}").xpos - flange.xpos) @ across for i in (1, 2)]
    np.testing.assert_allclose(gap, [0, -0.04], atol=1e-12)


def test_three_finger_has_the_published_lengths():
    """Open and straight down, with the fingers side by side, then opposite each other."""
    model = build("three_finger")
    joints = {model.joint(i).name: i for i in range(model.njnt)}
    for spread, apart in ((0.0, 0.05), (math.pi / 2, 0.05 + 2 * 0.05)):
        q = np.array(model.key("home").qpos)
        q[[joints["spread1"], joints["spread2"]]] = spread
        for i in (1, 2, 3):
            q[joints[f"inner{i}"]] = math.pi / 2
        data = posed(model, q)
        at = {i: data.body(f"inner{i}").xpos for i in (1, 2, 3)}
        assert np.linalg.norm(at[1] - at[2]) == pytest.approx(apart, abs=1e-9)
        for i in (1, 2, 3):
            down = data.body(f"outer{i}").xpos - at[i]
            np.testing.assert_allclose(down, [0, 0, -0.07], atol=1e-6)
            reach = np.linalg.norm(end_of(model, data, f"outer{i}") - data.body(f"outer{i}").xpos)
            assert reach == pytest.approx(0.058)


def test_hand_has_the_published_lengths():
    """The flange of a straight UR5 by its Denavit-Hartenberg parameters, and straight fingers above the wrist."""
    model = build("hand")
    names = [model.joint(i).name for i in range(model.njnt)]
    fingers = [f"{f}J{i}" for f in ("FF", "MF", "RF", "LF", "TH") for i in HAND[f]]
    assert names[6:] == [*HAND["finger"], *fingers] and len(names) == 30
    data = posed(model, np.zeros(30))
    forearm = data.body("forearm")
    np.testing.assert_allclose(forearm.xpos, [0.425 + 0.39225, 0.10915 + 0.0823, 0.089159 - 0.09465], atol=1e-9)
    frame = forearm.xmat.reshape(3, 3)
    np.testing.assert_allclose(frame[:, 2], [0, 1, 0], atol=1e-9)
    palm = data.body("palm").xpos
    assert (palm - forearm.xpos) @ frame[:, 2] == pytest.approx(0.21301 + 0.034)
    heights = {"ff": 0.095, "mf": 0.099, "rf": 0.095, "lf": 0.02071 + 0.06579}
    for finger, height in heights.items():
        along = [data.body(f"{finger}_{part}").xpos for part in ("proximal", "middle", "distal")]
        along.append(end_of(model, data, f"{finger}_distal"))
        assert (along[0] - palm) @ frame[:, 2] == pytest.approx(height)
        np.testing.assert_allclose([np.linalg.norm(b - a) for a, b in pairwise(along)], [0.045, 0.025, 0.026])
    thumb = [data.body(f"th_{part}").xpos for part in ("proximal", "hub", "middle", "distal")]
    thumb.append(end_of(model, data, "th_distal"))
    np.testing.assert_allclose([np.linalg.norm(b - a) for a, b in pairwise(thumb)], [0.038, 0, 0.032, 0.0275])


def test_fingers_and_thumb_bend_towards_the_palm():
    model = build("hand")
    straight = posed(model, np.zeros(30))
    frame, palm = straight.body("palm").xmat.reshape(3, 3), straight.body("palm").xpos
    q = np.zeros(30)
    for name in ("FFJ3", "MFJ3", "RFJ3", "LFJ3", "FFJ2", "MFJ2", "RFJ2", "LFJ2", "THJ1"):
        q[model.joint(name).id] = 0.8
    bent = posed(model, q)
    for finger in ("ff", "mf", "rf", "lf"):
        moved = bent.body(f"{finger}_distal").xpos - straight.body(f"{finger}_distal").xpos
        assert moved @ frame[:, 1] < -0.03 and (bent.body(f"{finger}_distal").xpos - palm) @ frame[:, 2] > 0.05
    tip, before = (end_of(model, data, "th_distal") for data in (bent, straight))
    assert (tip - before) @ frame[:, 0] < -0.01  # across the palm, from the thumb's side
