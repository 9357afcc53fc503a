"""Tasks in which a network learns what a model does not know."""

import mujoco
import numpy as np
import pytest
import torch

import pullback as pb
from pullback import neural
from pullback.plan import LBFGS, minimise
from pullback.spatial import quat_exp
from pullback.tasks import TASKS, cube_toss, double_pendulum, heat_residual, motor_lag, swimmer


@pytest.fixture(scope="module")
def water():
    return TASKS["swimmer"]()


def test_the_swimmers_gradient(water):
    """Of the network's weights, after a random step away from the zeros of the last layer: by differences."""
    water = water.but(metric=lambda run: np.zeros(run.system.worlds))  # which takes longer than the gradient
    x, low, high = water.begin()
    random = np.random.default_rng(0)
    x = x + 0.1 * random.normal(size=len(x))
    gradient = water(x[None], True).gradients[0]
    for direction in random.normal(size=(3, len(x))):
        up, down = (water(x[None] + sign * 1e-6 * direction, False).losses[0] for sign in (1, -1))
        assert gradient @ direction == pytest.approx((up - down) / 2e-6, rel=1e-5)
    assert np.abs(gradient).max() > 1e-3 and np.all(np.isinf(high))


def test_the_swimmer_begins_without_water(water):
    """The last layer is zero; the metric is the error of the plain model, far from the target."""
    x, _, _ = water.begin()
    plain = water.metric.error(water.system.system)
    assert water(x[None], False).metrics[0] == pytest.approx(plain) and plain > 5 * water.target
    cheap = water.but(metric=lambda run: np.zeros(run.system.worlds))
    found = minimise(cheap, x, LBFGS(), iterations=6)
    assert found.losses.min() < 0.7 * found.losses[0]


def test_the_network_sees_links_in_their_own_axes():
    """Turned as a whole, a swimmer has the same features and the wrenches turn with it."""
    system = swimmer.hybrid()
    for name in system.networks[0].weights:
        system.params[name] = 0.5 * np.random.default_rng(1).normal(size=system.params[name].shape)
    wide, turn = system.in_worlds(2), 0.7
    q, v = np.array([[0.2, -0.1, 0.3, 0.4, -0.5]] * 2), np.array([[0.3, 0.2, 1.0, -2.0, 0.5]] * 2)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    q[1, 2] += turn
    q[1, :2], v[1, :2] = rotation @ q[0, :2], rotation @ v[0, :2]
    wrench = wide.front(wide.state(q, v), np.zeros((2, 2))).inputs["wrench"]
    np.testing.assert_allclose(wrench[1, 1:, 3:5], wrench[0, 1:, 3:5] @ rotation.T, rtol=1e-12)
    np.testing.assert_allclose(wrench[1, 1:, 2], wrench[0, 1:, 2], rtol=1e-12)
    assert np.abs(wrench[0, 1:, [2, 3, 4]]).min() > 1e-4
    # the velocity of the middle of a link is MuJoCo's, of its centre of mass
    model = mujoco.MjModel.from_xml_string(swimmer.swimmer_file())
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q[0], v[0]
    mujoco.mj_forward(model, data)
    seen = system.features(pb.State(q[:1, None], v[:1, None]), np.zeros((1, 1, 2)))[0, 0].reshape(3, 5)
    for i in range(3):
        six = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_GEOM, i, six, 0)
        own = np.array([[seen[i, 3], seen[i, 4]], [-seen[i, 4], seen[i, 3]]]) @ six[3:5]
        np.testing.assert_allclose(seen[i, :2] * swimmer.SPEED, own, atol=1e-12)


def made_up_tosses(tmp_path, count: int = 3):
    """Tosses of a cube with other friction, in the format of the real ones."""
    system, random, rows = cube_toss.cube(friction=0.3), np.random.default_rng(0), []
    for _ in range(count):
        q = np.concatenate([[0, 0, 0.09], quat_exp(random.normal(size=3))])
        state = system.state(q, np.concatenate([[1.0, 0.5, -0.5], 3 * random.normal(size=3)]))
        run = pb.rollout(system, state, steps=40)
        q, v = run.q[:, 0], run.v[:, 0]
        half = cube_toss.HALF
        rows.append(np.concatenate([q[:, :3] / half, q[:, 3:], v[:, :3] / half, v[:, 3:]], axis=1))
    np.savez(tmp_path / "tosses.npz", rows=np.concatenate(rows), lengths=[len(x) for x in rows], ids=[4, 7, 9])
    return cube_toss.read_tosses(tmp_path / "tosses.npz")


def test_a_cube_is_found_from_its_tosses(tmp_path):
    """Half edges and friction from a guess that is a third too wide and half as rough; no error where all is known."""
    tosses = made_up_tosses(tmp_path)
    assert [toss.name for toss in tosses] == ["toss 4", "toss 7", "toss 9"] and tosses[0].rows == 41
    known = cube_toss.errors_of(cube_toss.cube(friction=0.3), tosses)
    assert known.shape == (3, 2) and known.max() < 1e-9
    wanted = {name: each for name, each in cube_toss.physics().items() if name.startswith(("half", "friction"))}
    guess = cube_toss.cube(1.2 * cube_toss.HALF, 0.15)
    options = {"noise": cube_toss.NOISE, "windows": (6,), "iterations": 12}
    found = neural.fit(guess, tosses, physics=wanted, **options)
    np.testing.assert_allclose(found.physics.values[:3], cube_toss.HALF, rtol=0.02)
    assert found.physics.values[3] == pytest.approx(0.3, rel=0.05)
    assert cube_toss.errors_of(found.system, tosses).mean() < 0.2 * cube_toss.errors_of(guess, tosses).mean()


def test_what_is_no_file_of_tosses(tmp_path):
    np.savez(tmp_path / "a.npz", rows=np.zeros((4, 12)), lengths=[4])
    (tmp_path / "b.npz").write_bytes(b"none")
    for name in ("a.npz", "b.npz", "c.npz"):
        with pytest.raises(pb.PullbackError, match="cannot be read as tosses"):
            cube_toss.read_tosses(tmp_path / name)


def slope_is_right(task, size: float, rel: float = 1e-5) -> None:
    """The gradient at a random point near the first guess, against differences."""
    x, _, _ = task.begin()
    random = np.random.default_rng(0)
    x = x + size * random.normal(size=len(x))
    cheap = task.but(metric=lambda run: np.zeros(run.system.worlds))
    gradient = cheap(x[None], True).gradients[0]
    direction = random.normal(size=len(x))
    up, down = (cheap(x[None] + sign * 1e-6 * direction, False).losses[0] for sign in (1, -1))
    assert gradient @ direction == pytest.approx((up - down) / 2e-6, rel=rel) and np.abs(gradient).max() > 1e-3


def test_the_double_pendulum_begins_with_its_data_sheet():
    """The last layer is zero; the metric is that of the plain model, and a few iterations lower the loss tenfold."""
    task = TASKS["double-pendulum"]()
    x, _, _ = task.begin()
    first = task(x[None], False)
    assert (
        first.metrics[0] == pytest.approx(task.metric.error(task.system.system)) and first.metrics[0] > 4 * task.target
    )
    slope_is_right(task, 0.1)
    cheap = task.but(metric=lambda run: np.zeros(run.system.worlds))
    found = minimise(cheap, x, LBFGS(), iterations=10)
    assert found.losses.min() < 0.2 * found.losses[0]


def test_friction_of_the_real_pendulum():
    """It takes energy at any speed, more so where a joint begins to move; the network's is never negative."""
    v = np.linspace(0.01, 6.0, 50)
    torque = double_pendulum.friction(np.stack([v, v], axis=-1))
    assert np.all(torque < 0) and np.all(torque[:, 0] < torque[:, 1])
    assert torque[np.argmin(np.abs(v - 0.12)), 0] < torque[np.argmin(np.abs(v - 1.5)), 0]
    system = double_pendulum.hybrid()
    for name in system.networks[0].weights:
        system.params[name] = np.random.default_rng(1).normal(size=system.params[name].shape)
    state = system.state(v=[3.0, -2.0])
    assert np.all(system.front(state, np.zeros((1, 0))).params["damping"] > 0)
    pb.check_system(system, state, names=(*system.networks[0].weights, "damping", "mass"), tolerance=1e-6)


def test_heat_begins_with_the_handbook():
    """Prints cool as step by step with the law that is hidden; few steps of a print give gradients of the network."""
    heat = heat_residual.part()
    steps = 60
    controls = heat_residual.prints(heat, steps, (0.6,))
    constant = heat_residual.HANDBOOK
    real = heat_residual.real(heat, controls)
    plain = pb.rollout(heat, heat.state(), controls).T
    system = heat_residual.hybrid()
    np.testing.assert_array_equal(pb.rollout(system, system.state(), controls).T, plain)
    assert heat_residual.convection(np.array(300.0)) < constant < heat_residual.convection(np.array(700.0))
    assert 0.01 < np.abs(real - plain).max() < 50
    task = heat_residual.heat_residual()
    assert task.system.worlds == 1 and task.motions == len(heat_residual.POWERS)
    for name in system.networks[0].weights:
        system.params[name] = 0.5 * np.random.default_rng(1).normal(size=system.params[name].shape)
    hot = system.state(T=np.random.default_rng(0).uniform(400, 900, (1, heat.n)))
    weights = tuple(system.networks[0].weights)
    pb.check_system(system, hot, names=(*weights, "convection"), rollout_steps=2, tolerance=1e-5)


def test_cube_toss_from_a_folder(tmp_path):
    """Recordings of your own in the documented format; and what does not fit is said."""
    for toss in cube_toss.made_up_tosses(seed=3, count=4):
        toss.save(tmp_path / f"{toss.name}.npz")
    task = cube_toss.cube_toss(data=str(tmp_path))
    slope_is_right(task, 0.01, rel=1e-4)
    x, _, _ = task.begin()
    assert task(x[None], False).metrics[0] > 2 * task.target
    (tmp_path / "toss 4.npz").write_bytes(b"none")
    with pytest.raises(pb.PullbackError, match="toss 4.npz.*cannot be read as a recording"):
        cube_toss.read_data(tmp_path)
    short = cube_toss.made_up_tosses(count=2)[0]
    states = pb.State(short.states.q[:5], short.states.v[:5])
    (tmp_path / "few").mkdir()
    neural.Recording(states, name="a").save(tmp_path / "few/a.npz")
    with pytest.raises(pb.PullbackError, match="a has 5 rows"):
        cube_toss.read_data(tmp_path / "few")


def test_the_cubes_error_is_small_where_all_is_known():
    tosses = cube_toss.made_up_tosses(count=4)
    wrong, right = (cube_toss.errors_of(cube_toss.cube(**options), tosses) for options in ({}, cube_toss.MADE_UP))
    assert right[:, 0].mean() < 0.005 < wrong[:, 0].mean()


def test_real_motors_lag_and_saturate():
    """After a lag, two thirds of what was asked, and never more than they have."""
    steps = round(motor_lag.LAG / motor_lag.DT)
    torque, asked = np.zeros(2), np.array([0.05, 10.0])
    for _ in range(steps):
        torque = motor_lag.torques(asked, np.zeros(2), torque)
    small = motor_lag.MOST * np.tanh(motor_lag.STIFFNESS * 0.05 / motor_lag.MOST)
    assert torque[0] == pytest.approx(small * (1 - np.exp(-1)), rel=1e-9)
    assert 0.6 * motor_lag.MOST < torque[1] < motor_lag.MOST


def test_motor_lag_begins_as_a_servo_and_learns():
    """The first guess is close to servos, with no recording; windows begin with what motors were told before."""
    task = TASKS["motor-lag"]()
    x, _, _ = task.begin()
    network, rows = task.system.trained(), np.zeros((1, 2 * len(motor_lag.HISTORY)))
    rows[0, : len(motor_lag.HISTORY)] = motor_lag.SCALES["pos_scale"] * 0.05
    torque = motor_lag.SCALES["torque_scale"] * float(network(torch.tensor(rows)).detach())
    assert torque == pytest.approx(motor_lag.STIFFNESS * 0.05, rel=0.5)
    known, _ = motor_lag.experiment()
    states = task.system.recorded(*known[0], 1)
    lost, j = max(motor_lag.HISTORY), 4
    assert len(states.q) == len(known[0][0].q) - lost
    back = lost - 1  # the memory one timestep before the first row
    assert states.memory[0, j, 0, 0] == pytest.approx(known[0][1][back, j] - known[0][0].q[back, j])
    slope_is_right(task, 0.01)
    cheap = task.but(metric=lambda run: np.zeros(run.system.worlds))
    found = minimise(cheap, x, LBFGS(), iterations=20)
    assert found.losses.min() < 0.1 * found.losses[0]
