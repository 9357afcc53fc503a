"""The textbook algorithms: values against MuJoCo, adjoints against central differences, for every parameter."""

import mujoco
import numpy as np
import pytest
from oracles import relative_error, unconstrained
from trees import random_states, random_tree

import pullback as pb
from pullback import dynamics

WORLDS = 2
STEPS = (1e-4, 1e-5, 1e-6)


@pytest.fixture(scope="module", params=[5, 8, 21])
def case(request):
    """A random tree of all joint types, and a random state, acceleration and random numbers for it."""
    rng = np.random.default_rng(request.param)
    model = pb.load(random_tree(request.param, bodies=6, actuators="none"))
    system = pb.Articulated(model, contact=None, worlds=WORLDS)
    q, v = random_states(model.mujoco, rng, WORLDS)
    return system, q, v, rng.normal(size=(WORLDS, model.nv)), rng


@pytest.fixture(scope="module")
def oracle(case):
    """MuJoCo at the second world's state, without gravity compensation, which it counts among passive forces."""
    system, q, v, _, _ = case
    m = unconstrained(system.model.mujoco)
    m.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    m.body_gravcomp[:] = 0.0
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = q[1], v[1]
    mujoco.mj_forward(m, data)
    mujoco.mj_subtreeVel(m, data)
    return m, data


def test_poses(case, oracle):
    system, q, _, _, _ = case
    _, data = oracle
    oracles = {"body": (data.xpos, data.xmat), "geom": (data.geom_xpos, data.geom_xmat), "com": (data.xipos, data.xmat)}
    for of, (pos, mat) in oracles.items():
        pose = dynamics.kinematics(system, q, of=of).value[1]
        assert relative_error(pose[:, :3], pos) < 1e-13
        ours = np.empty((len(pose), 9))
        for row, quat in zip(ours, pose[:, 3:], strict=True):
            mujoco.mju_quat2Mat(row, quat)
        assert relative_error(ours, mat.reshape(-1, 9)) < 1e-13


def test_jacobians(case, oracle):
    system, q, _, _, _ = case
    m, data = oracle
    ours = dynamics.jacobian(system, q).value[1]
    linear, angular = np.zeros((3, m.nv)), np.zeros((3, m.nv))
    for body in range(m.nbody):
        mujoco.mj_jacBody(m, data, linear, angular, body)
        assert relative_error(ours[body], np.concatenate([angular, linear])) < 1e-13


@pytest.mark.parametrize(("of", "kind"), [("body", mujoco.mjtObj.mjOBJ_XBODY), ("geom", mujoco.mjtObj.mjOBJ_GEOM)])
def test_velocities(case, oracle, of, kind):
    system, q, v, _, _ = case
    m, data = oracle
    ours = dynamics.velocity(system, q, v, of=of).value[1]
    theirs = np.zeros((len(ours), 6))
    for i, row in enumerate(theirs):
        mujoco.mj_objectVelocity(m, data, kind, i, row, 0)
    assert np.abs(theirs).max() > 0.1
    assert relative_error(ours, theirs) < 1e-12
    by_jacobian = np.einsum("nij,j->ni", dynamics.jacobian(system, q, of=of).value[1], v[1])
    assert relative_error(ours, by_jacobian) < 1e-12


@pytest.mark.parametrize(("of", "kind"), [("body", mujoco.mjtObj.mjOBJ_XBODY), ("geom", mujoco.mjtObj.mjOBJ_GEOM)])
def test_accelerations(case, oracle, of, kind):
    system, q, v, a, _ = case
    m, data = oracle
    data.qacc[:] = a[1]
    mujoco.mj_rnePostConstraint(m, data)
    ours = dynamics.acceleration(system, q, v, a, of=of).value[1]
    theirs = np.zeros((len(ours), 6))
    for i, row in enumerate(theirs):
        mujoco.mj_objectAcceleration(m, data, kind, i, row, 0)
    theirs[:, 3:] += m.opt.gravity  # MuJoCo lets the world accelerate upwards
    assert np.abs(theirs).max() > 0.1
    assert relative_error(ours, theirs) < 1e-12


def test_center_of_mass_energy_and_momentum(case, oracle):
    system, q, v, _, _ = case
    m, data = oracle
    assert relative_error(dynamics.center_of_mass(system, q).value[1], data.subtree_com[0]) < 1e-13
    assert relative_error(dynamics.energy(system, q, v).value[1], data.energy) < 1e-13
    com_velocity = dynamics.center_of_mass_velocity(system, q, v).value[1]
    assert relative_error(com_velocity, data.subtree_linvel[0]) < 1e-12
    momentum = np.concatenate([data.subtree_angmom[0], data.subtree_linvel[0] * m.body_subtreemass[0]])
    assert relative_error(dynamics.momentum(system, q, v).value[1], momentum) < 1e-12


def test_dynamics(case, oracle):
    system, q, v, a, _ = case
    m, data = oracle
    mass = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, mass)
    assert relative_error(dynamics.mass_matrix(system, q).value[1], mass) < 1e-13
    heavy = {"gravcomp": np.zeros(m.nbody)}
    tau = dynamics.inverse_dynamics(system, q, v, a, params=heavy).value
    assert relative_error(tau[1], mass @ a[1] + data.qfrc_bias) < 1e-12
    assert relative_error(dynamics.forward_dynamics(system, q, v, tau, params=heavy).value, a) < 1e-10


ALGORITHMS = {
    "kinematics": lambda s, q, v, x, p: dynamics.kinematics(s, q, of="geom", params=p),
    "jacobian": lambda s, q, v, x, p: dynamics.jacobian(s, q, params=p),
    "velocity": lambda s, q, v, x, p: dynamics.velocity(s, q, v, of="geom", params=p),
    "acceleration": lambda s, q, v, x, p: dynamics.acceleration(s, q, v, x, of="geom", params=p),
    "kinematics of com": lambda s, q, v, x, p: dynamics.kinematics(s, q, of="com", params=p),
    "velocity of com": lambda s, q, v, x, p: dynamics.velocity(s, q, v, of="com", params=p),
    "center_of_mass": lambda s, q, v, x, p: dynamics.center_of_mass(s, q, params=p),
    "center_of_mass_velocity": lambda s, q, v, x, p: dynamics.center_of_mass_velocity(s, q, v, params=p),
    "energy": lambda s, q, v, x, p: dynamics.energy(s, q, v, params=p),
    "momentum": lambda s, q, v, x, p: dynamics.momentum(s, q, v, params=p),
    "inverse_dynamics": lambda s, q, v, x, p: dynamics.inverse_dynamics(s, q, v, x, params=p),
    "mass_matrix": lambda s, q, v, x, p: dynamics.mass_matrix(s, q, params=p),
    "forward_dynamics": lambda s, q, v, x, p: dynamics.forward_dynamics(s, q, v, x, params=p),
}
# What each must depend on: a gradient of zero there is a failure, whatever the differences say.
MUST_MATTER = {
    "kinematics": {"q", "body_pos", "body_quat"},
    "jacobian": {"q", "body_pos"},
    "velocity": {"q", "v", "body_pos", "body_quat"},
    "acceleration": {"q", "v", "x", "body_pos", "body_quat"},
    "kinematics of com": {"q", "com", "body_pos", "body_quat"},
    "velocity of com": {"q", "v", "com", "body_pos", "body_quat"},
    "center_of_mass": {"q", "mass", "com"},
    "center_of_mass_velocity": {"q", "v", "mass", "com", "body_pos"},
    "energy": {"q", "v", "mass", "com", "inertia", "armature", "gravity", "stiffness"},
    "momentum": {"q", "v", "mass", "com", "inertia"},
    "inverse_dynamics": {"q", "v", "x", "mass", "com", "inertia", "armature", "gravity"},
    "mass_matrix": {"q", "mass", "com", "inertia", "armature"},
    "forward_dynamics": {"q", "v", "x", "mass", "com", "inertia", "armature", "gravity"},
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_adjoints(case, name):
    """Along random directions, one a world and one a parameter: each entry of a gradient has its part in them."""
    system, q, v, x, rng = case
    algorithm = ALGORITHMS[name]
    value = algorithm(system, q, v, x, None)
    bar = rng.normal(size=value.value.shape)
    grads = value.pullback(bar)
    exact = {"q": grads.q, "v": grads.v, "x": grads.x, **grads.params}
    point = {"q": q, "v": v, "x": x, **system.params}
    for field, center in point.items():
        scale = np.abs(center) if field in ("mass", "armature", "inertia") else np.ones_like(center)
        for _ in range(3):
            way = rng.normal(size=center.shape) * scale * (0.1 if field == "inertia" else 1.0)
            analytic = np.sum(exact[field] * way)
            numeric = []
            for step in STEPS:
                sides = []
                for sign in (1, -1):
                    moved = {**point, field: center + sign * step * way}
                    params = {n: y for n, y in moved.items() if n not in ("q", "v", "x")}
                    sides.append(np.sum(algorithm(system, moved["q"], moved["v"], moved["x"], params).value * bar))
                numeric.append((sides[0] - sides[1]) / (2 * step))
            size = np.sum(np.abs(exact[field] * way)) + 1e-4 * np.abs(bar * value.value).sum()
            assert np.abs(np.array(numeric) - analytic).min() < 1e-7 * max(size, 1e-3), (field, numeric, analytic)
        if field in MUST_MATTER[name] and np.any(scale):
            assert np.any(exact[field] != 0), f"{name} must depend on {field}"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_trajectory_at_once(case, name):
    """Values and gradients (times, worlds, ...) are those of every time alone; parameters' are summed over times."""
    system, q, v, x, _ = case
    rng, algorithm = np.random.default_rng(2), ALGORITHMS[name]
    params = {"body_pos": system.params["body_pos"] + 0.1 * rng.normal(size=(WORLDS, system.model.nbody, 3))}
    path = [np.stack([a * (1 + 0.1 * t) for t in range(4)]) for a in (q, v, x)]  # quaternions of any length
    found = algorithm(system, *path, params)
    bar = rng.normal(size=found.value.shape)
    grads = found.pullback(bar)
    each = [algorithm(system, *(a[t] for a in path), params) for t in range(4)]
    pulled = [one.pullback(b) for one, b in zip(each, bar, strict=True)]
    np.testing.assert_array_equal(found.value, [one.value for one in each])
    for field in ("q", "v", "x"):
        np.testing.assert_array_equal(getattr(grads, field), [getattr(one, field) for one in pulled])
    for field, whole in grads.params.items():
        parts = np.stack([one.params[field] for one in pulled])
        np.testing.assert_allclose(whole, parts.sum(axis=0), rtol=1e-12, atol=1e-13 * np.abs(parts).max(initial=1.0))
    assert np.any(grads.q != 0) and grads.params.body_pos.shape == (WORLDS, system.model.nbody, 3)
    with pytest.raises(pb.PullbackError, match=r"bar has shape .*times=4, worlds=2"):
        found.pullback(bar[1:])


def test_trajectories_that_cannot_be_taken():
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None, worlds=2)
    q = np.tile(system.model.home.q, (3, 2, 1))
    with pytest.raises(pb.PullbackError, match=r"v has shape \(2, 18\), but \(times=3, worlds=2, nv=18\)"):
        dynamics.energy(system, q, np.zeros((2, 18)))
    with pytest.raises(pb.PullbackError, match=r"q has shape \(3, 1, 19\), but \(times=3, worlds=2, nq=19\)"):
        dynamics.kinematics(system, q[:, :1])
    q[2, 1, 3:7] = 0
    with pytest.raises(pb.PullbackError, match="in world 1 has zero length"):
        dynamics.kinematics(system, q)


def test_without_parameters(case):
    system, q, v, x, rng = case
    found = dynamics.inverse_dynamics(system, q, v, x)
    bar = rng.normal(size=found.value.shape)
    whole, part = found.pullback(bar), found.pullback(bar, wants_params=False)
    assert part.params == {}
    for a, b in zip(whole[:3], part[:3], strict=True):
        assert np.array_equal(a, b)


def test_frames_that_are_not_there():
    system = pb.Articulated(pb.load(pb.robots.arm()), contact=None)
    with pytest.raises(pb.PullbackError, match="'elbow'.*tip"):
        dynamics.jacobian(system, system.model.home.q[None], of="site", names=("elbow",))
    every = dynamics.kinematics(system, system.model.home.q[None]).value
    last = dynamics.kinematics(system, system.model.home.q[None], names=(system.model.body_names[-1],)).value
    np.testing.assert_array_equal(last, every[:, -1:])
    with pytest.raises(pb.PullbackError, match="'wheel'.*'body', 'geom', 'site'"):
        dynamics.kinematics(system, system.model.home.q[None], of="wheel")
    with pytest.raises(pb.PullbackError, match="bar has shape"):
        dynamics.center_of_mass(system, system.model.home.q[None]).pullback(np.zeros((2, 3)))


PUSHED = """<mujoco><worldbody><geom type="plane" size="9 9 1"/>
  <body pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0" euler="10 20 30"/>
    <site name="jet" pos="0.1 0.2 0.3" euler="40 0 10"/>
    <body pos="0.3 0 0"><joint type="ball"/><geom size="0.1" pos="0 0.2 0"/></body></body></worldbody>
  <actuator><motor site="jet" gear="1 0 0 0 0 0"/></actuator></mujoco>"""


@pytest.mark.parametrize("of", ["geom", "site"])
@pytest.mark.parametrize("per_world", [False, True])
def test_frames_are_where_parameters_put_them(of, per_world):
    """Values as of a file with those places, and gradients by them."""
    rng = np.random.default_rng(0)
    model = pb.load(PUSHED)
    system = pb.Articulated(model, worlds=2)
    q, v = np.tile(model.home.q, (2, 1)), rng.normal(size=(2, model.nv))
    q[:, -4:] = (0.8, 0.6, 0.0, 0.0)
    places = {f"{of}_{name}": system.params[f"{of}_{name}"] for name in ("pos", "quat")}
    lead = (2,) if per_world else ()
    places = {name: x + 0.1 * rng.normal(size=(*lead, *x.shape)) for name, x in places.items()}
    if per_world:
        other = {name: x[1] for name, x in places.items()}
        file = mujoco.MjModel.from_xml_string(PUSHED)
        getattr(file, f"{of}_pos")[:] = other[f"{of}_pos"]
        getattr(file, f"{of}_quat")[:] = other[f"{of}_quat"] / np.linalg.norm(other[f"{of}_quat"], axis=1)[:, None]
        getattr(file, f"{of}_sameframe")[:] = 0
        data = mujoco.MjData(file)
        data.qpos[:] = q[1]
        mujoco.mj_kinematics(file, data)
        pose = dynamics.kinematics(system, q, of=of, params=places).value[1]
        np.testing.assert_allclose(pose[:, :3], getattr(data, f"{of}_xpos"), atol=1e-14)
    calls = {
        "kinematics": lambda p: dynamics.kinematics(system, q, of=of, params=p),
        "velocity": lambda p: dynamics.velocity(system, q, v, of=of, params=p),
        "jacobian": lambda p: dynamics.jacobian(system, q, of=of, params=p),
    }
    for algorithm, call in calls.items():
        value = call(places)
        bar = rng.normal(size=value.value.shape)
        grads = value.pullback(bar).params
        for name, x in places.items():
            assert grads[name].shape == x.shape
            along = rng.normal(size=x.shape)
            exact = np.sum(grads[name] * along)
            assert abs(exact) > 1e-3 or (algorithm, name) in {(n, f"{of}_quat") for n in ("velocity", "jacobian")}
            for h in (1e-4, 1e-5):
                ends = [np.sum(call(places | {name: x + s * h * along}).value * bar) for s in (1, -1)]
                assert abs((ends[0] - ends[1]) / (2 * h) - exact) < 1e-6 * max(1.0, abs(exact)), (algorithm, name, h)


def test_names_of_frames():
    system = pb.Articulated(pb.load(pb.robots.arm()), contact=None)
    with pytest.raises(pb.PullbackError, match="names must be a name or several, not int"):
        dynamics.kinematics(system, system.model.home.q[None], names=3)


def test_a_pullback_is_at_the_point_that_was_given():
    """Also if the caller's arrays have changed since."""
    system = pb.Articulated(pb.load(pb.robots.arm()), None)
    q, bar = np.full((1, system.nq), 0.3), np.ones((1, 3))
    found = pb.dynamics.center_of_mass(system, q)
    before = found.pullback(bar).q
    q[:] = 0.0
    np.testing.assert_array_equal(found.pullback(bar).q, before)
    assert np.abs(before - pb.dynamics.center_of_mass(system, q).pullback(bar).q).max() > 1e-3
