"""The sample robots against MuJoCo's compiler, published figures and closed forms."""

from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.core.errors import PullbackError
from pullback.model import robots
from pullback.model.robots import ROBOTS

SIZES = {  # nq, nv, nu
    "pendulum": (1, 1, 1),
    "cartpole": (2, 2, 1),
    "acrobot": (2, 2, 1),
    "arm": (7, 7, 7),
    "quadruped": (19, 18, 12),
    "humanoid": (32, 29, 23),
    "ant": (15, 14, 8),
    "hopper": (6, 6, 3),
    "half_cheetah": (9, 9, 6),
}
MASSES = {  # published range [kg]
    "pendulum": (1.0, 1.0),
    "cartpole": (1.1, 1.1),
    "acrobot": (2.0, 2.0),
    "arm": (16.0, 18.5),  # identified links; the data sheet says about 18 with electronics
    "quadruped": (22.0, 26.0),
    "humanoid": (72.9, 73.1),
    "ant": (0.910, 0.912),
    "hopper": (15.81, 15.83),
    "half_cheetah": (14.0, 14.0),
}
FREE_OF_CONSTRAINTS = ("pendulum", "cartpole", "acrobot")
WITH_HOME = ("arm", "quadruped", "humanoid", "ant", "hopper", "half_cheetah")
GYMNASIUM = ("ant", "hopper", "half_cheetah")  # which keep its gears and integrators
ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
FEET = {
    "quadruped": ("FR_foot", "FL_foot", "RR_foot", "RL_foot"),
    "humanoid": ("left_sole_inner", "left_sole_outer", "right_sole_inner", "right_sole_outer"),
}
SIDES = {"quadruped": (("FL_", "FR_"), ("RL_", "RR_")), "humanoid": (("left_", "right_"),)}


def build(name):
    return mujoco.MjModel.from_xml_string(ROBOTS[name]())


def at_home(model):
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    return data


def possible_contacts(model):
    """Pairs of geoms whose bits allow them to touch."""
    touches = (model.geom_contype[:, None] & model.geom_conaffinity[None, :]) != 0
    return np.argwhere(touches | touches.T)


@pytest.mark.parametrize("name", ROBOTS)
def test_sizes_masses_and_inertias(name):
    model = build(name)
    assert (model.nq, model.nv, model.nu) == SIZES[name]
    low, high = MASSES[name]
    assert low - 1e-9 <= model.body_subtreemass[0] <= high + 1e-9
    assert np.all(model.body_mass[1:] > 0)
    inertia = np.sort(model.body_inertia[1:], axis=1)
    assert np.all(inertia > 0)
    assert np.all(inertia[:, 0] + inertia[:, 1] >= inertia[:, 2])


@pytest.mark.parametrize("name", ROBOTS)
def test_document_is_self_contained(name):
    model = build(name)
    assert model.nmesh == 0 and model.nhfield == 0 and model.nplugin == 0 and model.neq == 0
    assert np.all(model.dof_frictionloss == 0)
    rk4 = name in ("ant", "hopper")
    assert model.opt.integrator == (mujoco.mjtIntegrator.mjINT_RK4 if rk4 else mujoco.mjtIntegrator.mjINT_EULER)
    assert model.camera("side").bodyid == 0
    assert model.geom("floor").type == mujoco.mjtGeom.mjGEOM_PLANE
    assert model.nlight == 1


@pytest.mark.parametrize("name", [name for name in ROBOTS if name not in GYMNASIUM])
def test_controls_are_torques_with_a_bound(name):
    model = build(name)
    assert np.all(model.actuator_ctrllimited)
    np.testing.assert_allclose(model.actuator_ctrlrange[:, 0], -model.actuator_ctrlrange[:, 1])
    np.testing.assert_allclose(np.linalg.norm(model.actuator_gear, axis=1), 1)
    np.testing.assert_allclose(model.actuator_gainprm[:, 0], 1)
    np.testing.assert_allclose(model.actuator_biasprm, 0)


@pytest.mark.parametrize("name", FREE_OF_CONSTRAINTS)
def test_planar_robots_have_no_constraints(name):
    model = build(name)
    assert not model.jnt_limited.any()
    assert not len(possible_contacts(model))
    data = mujoco.MjData(model)
    data.qvel[:] = 3.0
    for _ in range(100):
        mujoco.mj_step(model, data)
        assert data.nefc == 0


@pytest.mark.parametrize("name", [name for name in WITH_HOME if name != "hopper"])
def test_other_robots_touch_only_the_floor(name):
    model = build(name)
    floor = model.geom("floor").id
    pairs = possible_contacts(model)
    assert len(pairs)
    assert np.all((pairs == floor).any(axis=1))
    assert np.all(model.jnt_limited[model.actuator_trnid[:, 0]])


@pytest.mark.parametrize("name", WITH_HOME)
def test_home_is_valid(name):
    model = build(name)
    home = model.key("home")
    for j in range(model.njnt):
        q = home.qpos[model.jnt_qposadr[j] :]
        kind = model.jnt_type[j]
        if kind == mujoco.mjtJoint.mjJNT_HINGE or kind == mujoco.mjtJoint.mjJNT_SLIDE:
            low, high = model.jnt_range[j] if model.jnt_limited[j] else (-np.inf, np.inf)
            assert low <= q[0] <= high, model.joint(j).name
        else:
            quat = q[3:7] if kind == mujoco.mjtJoint.mjJNT_FREE else q[:4]
            assert np.linalg.norm(quat) == pytest.approx(1)
    assert not home.qvel.any() and not home.ctrl.any()
    assert np.all(np.isfinite(at_home(model).qacc))


@pytest.mark.parametrize("name", FEET)
def test_home_stands_on_the_floor(name):
    model = build(name)
    model.geom("floor").margin = 0.006  # report gaps up to six millimetres
    contacts = at_home(model).contact
    feet = {model.geom(foot).id for foot in FEET[name]}
    assert set(contacts.geom.flatten().tolist()) == feet | {model.geom("floor").id}
    assert np.all(np.abs(contacts.dist) < 0.005)


@pytest.mark.parametrize("name", FEET)
def test_home_presses_on_the_floor(name):
    """Just touching would be a kink: rounding would decide whether the feet push."""
    contacts = at_home(build(name)).contact
    lowest = {g: min(c.dist for c in contacts if g in c.geom) for g in {int(c.geom.max()) for c in contacts}}
    np.testing.assert_allclose(list(lowest.values()), -1e-4, atol=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
def test_precisions_agree_from_home(name):
    """Eight steps and their gradient by start and controls: no kink is so near that single precision falls on the other
    side of it."""
    model = pb.load(ROBOTS[name]())
    bars, moves = [], []
    for dtype in ("float64", "float32"):
        system = pb.Articulated(model, dtype=dtype)
        run = pb.rollout(system, system.state(), np.zeros((8, 1, model.nu)))
        rng = np.random.default_rng(0)
        q_bar, v_bar = (rng.normal(size=x.shape) for x in (run.final.q, run.final.v))
        bars.append(run.pullback(q_bar=q_bar, v_bar=v_bar, wants_params=False))
        moves.append(run.final.v.astype(float))
    assert np.abs(moves[1] - moves[0]).max() <= 1e-3 * max(np.abs(moves[0]).max(), 1e-3)
    for pick in (lambda b: b.state.q, lambda b: b.state.v, lambda b: b.controls):
        exact, single = (pick(b) for b in bars)
        assert np.abs(exact).max() > 1e-3
        assert np.abs(single - exact).max() <= 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize("name", FEET)
def test_left_mirrors_right(name):
    model = build(name)
    data = at_home(model)
    assert data.subtree_com[0, 1] == pytest.approx(0, abs=1e-12)
    mirror = np.array([1, -1, 1])
    bodies = [model.body(i).name for i in range(model.nbody)]
    for left, right in SIDES[name]:
        pairs = [(body, right + body.removeprefix(left)) for body in bodies if body.startswith(left)]
        assert len(pairs) >= 3
        for a, b in pairs:
            a, b = model.body(a), model.body(b)
            np.testing.assert_allclose(a.mass, b.mass)
            np.testing.assert_allclose(a.inertia, b.inertia)
            np.testing.assert_allclose(data.xipos[a.id], mirror * data.xipos[b.id], atol=1e-12)


@pytest.mark.parametrize("name", FEET)
def test_runs_from_home(name):
    model = build(name)
    data = at_home(model)
    rng = np.random.default_rng(0)
    for _ in range(round(0.2 / model.opt.timestep)):
        data.ctrl[:] = rng.uniform(-1, 1, model.nu)  # [N·m]
        mujoco.mj_step(model, data)
    assert np.all(np.isfinite(data.qpos)) and np.all(np.isfinite(data.qvel))
    assert not any(warning.number for warning in data.warning)


@pytest.mark.parametrize("name", GYMNASIUM)
def test_runners_are_gymnasiums(name):
    """Bodies, joints and motors one by one, in a random pose; then 200 steps on the floor."""
    ours, theirs = build(name), mujoco.MjModel.from_xml_path(str(ASSETS / f"{name}.xml"))
    assert [ours.joint(i).name for i in range(ours.njnt)] == [theirs.joint(i).name for i in range(ours.njnt)]
    for field in (
        "body_parentid", "body_mass", "jnt_type", "jnt_limited", "jnt_range", "jnt_stiffness", "jnt_solref",
        "jnt_solimp", "dof_damping", "dof_armature", "qpos0", "qpos_spring", "actuator_trnid", "actuator_gear",
        "actuator_ctrlrange", "actuator_gainprm", "actuator_biasprm",
    ):  # fmt: skip
        np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), rtol=1e-11, atol=1e-11, err_msg=field)
    for field in ("integrator", "timestep", "gravity"):
        np.testing.assert_array_equal(getattr(ours.opt, field), getattr(theirs.opt, field))
    rng = np.random.default_rng(0)
    spread = rng.uniform(-0.3, 0.3, ours.nv)
    pair = []
    for model in (ours, theirs):
        model.opt.tolerance, model.opt.iterations, model.opt.ls_tolerance = 0, 200, 1e-6
        data = mujoco.MjData(model)
        mujoco.mj_integratePos(model, data.qpos, spread, 1.0)
        mujoco.mj_forward(model, data)
        turned = data.ximat.reshape(-1, 3, 3)
        inertia = np.einsum("bij,bj,bkj->bik", turned, model.body_inertia, turned)
        pair.append((data, {"axis": data.xaxis, "anchor": data.xanchor, "centre": data.xipos, "inertia": inertia}))
    slides = ours.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE  # whose anchors mean nothing
    for what, mine in pair[0][1].items():
        other = pair[1][1][what]
        mine, other = (x[~slides] if what == "anchor" else x for x in (mine, other))
        np.testing.assert_allclose(mine, other, atol=1e-11, err_msg=what)
    home, touching = ours.key("home").qpos, 0
    for data, _ in pair:
        data.qpos[:], data.qvel[:] = home, 0
    for _ in range(200):
        control = rng.uniform(-0.3, 0.3, ours.nu)
        for model, (data, _) in zip((ours, theirs), pair, strict=True):
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
        touching += pair[0][0].ncon
        np.testing.assert_allclose(pair[0][0].qpos, pair[1][0].qpos, atol=1e-9)
        np.testing.assert_allclose(pair[0][0].qvel, pair[1][0].qvel, atol=1e-7)
    assert touching >= 200 and np.abs(pair[0][0].qpos - home).max() > 0.05


def test_humanoid_like_joint_angles_mirror():
    """The same left and right hinge angles give mirrored poses."""
    model = build("humanoid")
    data = at_home(model)
    for j in range(model.njnt):
        name = model.joint(j).name
        if name.startswith("left_") and model.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE:
            for side in ("left", "right"):
                data.joint(name.replace("left", side)).qpos[:] = 0.3
    mujoco.mj_forward(model, data)
    for site in ("hand", "foot"):
        left, right = data.site(f"left_{site}").xpos, data.site(f"right_{site}").xpos
        np.testing.assert_allclose(left, right * [1, -1, 1], atol=1e-12)
    assert data.site("left_hand").xpos[0] > 0.05  # elbows bend forwards


def test_humanoid_stature_and_joints():
    model = build("humanoid")
    data = at_home(model)
    assert data.site("head").xpos[2] - data.site("left_foot").xpos[2] == pytest.approx(1.741)
    assert model.body("belly").jntnum == 3
    assert (model.jnt_type == mujoco.mjtJoint.mjJNT_BALL).sum() == 2


def test_arm_home_matches_the_published_kinematics():
    """In the plane of the home pose: walk along the published offsets, turning by each joint that bends it."""
    data = at_home(build("arm"))
    place, heading = np.zeros(2), 0.0  # (x, z) and the turn about y so far
    for offset, turn in (
        ((0, 0.333), -np.pi / 4),
        ((0, 0.316), 0),
        ((0.0825, 0), 3 * np.pi / 4),
        ((-0.0825, 0.384), -np.pi / 2),
        ((0.088, 0), 0),
        ((0, -0.107), 0),
    ):
        cos, sin = np.cos(heading), np.sin(heading)
        place += (cos * offset[0] + sin * offset[1], -sin * offset[0] + cos * offset[1])
        heading += turn
    np.testing.assert_allclose(data.site("tip").xpos, [place[0], 0, place[1]], atol=1e-9)
    np.testing.assert_allclose(place, [0.3069, 0.5903], atol=1e-4)  # 0.4869 at the fingertips, 0.1034 below
    np.testing.assert_allclose(data.site("tip").xmat.reshape(3, 3)[:, 2], [0, 0, -1], atol=1e-9)


def test_pendulum_small_swings_have_the_closed_form_period():
    model = build("pendulum")
    data = mujoco.MjData(model)
    data.qpos[0] = 1e-4
    mujoco.mj_forward(model, data)
    omega2 = 1.5 * 9.81 / 0.5  # a uniform rod about its end: m·g·(l/2) / (m·l²/3)
    assert data.qacc[0] == pytest.approx(-omega2 * 1e-4, rel=1e-6)


def test_cartpole_matches_the_textbook_equations():
    model = build("cartpole")
    data = mujoco.MjData(model)
    data.qpos[1], data.qvel[:], data.ctrl[:] = 0.7, (0.3, -1.1), 4.0
    mujoco.mj_forward(model, data)
    cart, pole, half, g = 1.0, 0.1, 0.5, 9.81
    # The pole's middle is at (x - half·sin, -half·cos): rotation about +y takes a hanging pole towards -x.
    sin, cos = np.sin(0.7), np.cos(0.7)
    inertia = pole * (2 * half) ** 2 / 12 + pole * half**2
    mass = np.array([[cart + pole, -pole * half * cos], [-pole * half * cos, inertia]])
    force = np.array([4.0 - pole * half * sin * 1.1**2, -pole * g * half * sin])
    np.testing.assert_allclose(data.qacc, np.linalg.solve(mass, force), rtol=1e-6)


@pytest.mark.parametrize("n", [2, 7])
def test_chain_is_the_pendulum(n):
    text = mujoco.MjModel.from_xml_string(robots.pendulum(n))
    spec = robots.chain(n).compile()
    for field in (
        "body_parentid", "body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia", "jnt_type",
        "jnt_axis", "jnt_pos", "dof_damping", "dof_armature", "actuator_trnid", "actuator_gear", "actuator_gainprm",
        "actuator_ctrlrange", "actuator_ctrllimited", "geom_type", "geom_size", "geom_pos", "geom_matid",
        "geom_contype", "geom_conaffinity", "site_pos", "cam_pos", "cam_quat", "jnt_limited",
    ):  # fmt: skip
        np.testing.assert_allclose(getattr(text, field), getattr(spec, field), atol=1e-12, err_msg=field)
    assert [text.actuator(i).name for i in range(n)] == [spec.actuator(i).name for i in range(n)]
    assert [text.body(i).name for i in range(n + 1)] == [spec.body(i).name for i in range(n + 1)]


def test_longest_chain():
    n = 1023
    model = robots.chain(n).compile()
    assert (model.nq, model.nv, model.nu) == (n, n, n)
    assert model.body_subtreemass[0] == pytest.approx(n)
    assert not len(possible_contacts(model))
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(data.site("tip").xpos, [0, 0, 0.3], atol=1e-9)  # hangs just over the floor


def test_longest_pendulum_in_xml():
    model = mujoco.MjModel.from_xml_string(robots.pendulum(400))
    assert model.nv == 400


@pytest.mark.parametrize(
    ("robot", "n", "why"),
    [
        *[
            (robots.pendulum, 0, "number of links must be a whole number of at least 1"),
            (robots.pendulum, 401, "401 links"),
        ],
        *[
            (robots.chain, -1, "number of links must be"),
            (robots.chain, 1024, "1024 links"),
            (robots.chain, None, "None"),
        ],
    ],
)
def test_impossible_lengths_are_refused(robot, n, why):
    with pytest.raises(PullbackError, match=why):
        robot(n)
