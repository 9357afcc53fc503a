"""Matrix-free Gauss-Newton: conjugate gradients, products, batches, rotations, tasks, and runs that are broken off."""

import numpy as np
import pytest
import torch

import pullback as pb
from pullback.dynamics import kinematics
from pullback.plan import (
    CONVERGED,
    LBFGS,
    REACHED,
    SPENT,
    Found,
    LeastSquares,
    Linearisation,
    MatrixFreeGaussNewton,
    Minibatches,
    Sampled,
    TorchResiduals,
    minimise,
    turn_quaternions,
)
from pullback.plan.matrix_free import conjugate_gradients
from pullback.spatial import quat_log, quat_matrix, quat_mul
from pullback.tasks import Controls, Effort, Loss, Position, StateGoal, Task

RNG = np.random.default_rng(0)
TIGHT = {"inner": 200, "inner_tolerance": 1e-12}


def rosenbrock(x):
    return torch.stack([1 - x[0], 10 * (x[1] - x[0] ** 2)])


START = np.array([-1.2, 1.0])


def test_conjugate_gradients_solve_and_a_preconditioner_saves_iterations():
    values = np.geomspace(1e-2, 1e4, 40)
    turn = np.linalg.qr(RNG.normal(size=(40, 40)))[0]
    H, right = turn * values @ turn.T, RNG.normal(size=40)
    counted = []

    def solved(precondition, iterations=400, tolerance=1e-10):
        products = iter(range(iterations + 1))
        x = conjugate_gradients(lambda d: (next(products), H @ d)[1], right, precondition, iterations, tolerance)
        counted.append(next(products))
        return x

    np.testing.assert_allclose(H @ solved(lambda v: v), right, atol=1e-8)
    inverse = turn / (1.3 * values + 1e-3) @ turn.T
    np.testing.assert_allclose(H @ solved(lambda v: inverse @ v), right, atol=1e-8)
    assert counted[1] < 20 < counted[0]


@pytest.mark.parametrize("forward", [False, True])
def test_products_of_torch_functions(forward):
    """J d against differences, and Jᵀ r_bar against J d."""
    mixed = torch.from_numpy(RNG.normal(size=(7, 4)))
    x, d, r_bar = RNG.normal(size=4), RNG.normal(size=4), RNG.normal(size=7)
    problem = TorchResiduals(function=lambda x: torch.tanh(mixed @ x) * x.sum(), forward=forward)
    made = {}
    of = Linearisation.of
    try:
        Linearisation.of = lambda residual, jvp, vjp: made.update(r=residual, jvp=jvp, vjp=vjp)
        problem.linearise(x)
    finally:
        Linearisation.of = of
    value = lambda x: problem.function(torch.from_numpy(x)).numpy()  # noqa: E731
    by = [(value(x + h * d) - value(x - h * d)) / (2 * h) for h in (1e-4, 1e-5, 1e-6)]
    pushed = made["jvp"](d)
    assert min(np.abs(pushed - one).max() for one in by) < 1e-9 < np.abs(pushed).max()
    np.testing.assert_allclose(pushed @ r_bar, made["vjp"](r_bar) @ d, rtol=1e-13)
    linear = problem.linearise(x)
    np.testing.assert_allclose(linear.product(d), made["vjp"](pushed), rtol=1e-13)
    np.testing.assert_allclose(linear.gradient, made["vjp"](made["r"]), rtol=1e-13)
    assert linear.loss == value(x) @ value(x) / 2


def test_it_finds_the_minimum_of_a_curved_valley():
    metric = lambda x: float(np.hypot(*(x - 1)))  # noqa: E731
    problem = TorchResiduals(function=rosenbrock, metric=metric)
    found = minimise(problem, START, MatrixFreeGaussNewton(), iterations=100, target=1e-6)
    assert found.stopped == REACHED and found.iterations < 40


def test_where_residuals_stay_it_knows_that_it_has_converged():
    time = torch.linspace(0, 3, 40, dtype=torch.float64)
    data = 2 * torch.exp(-1.3 * time) + 0.5 + 0.05 * torch.sin(9 * time)
    problem = TorchResiduals(function=lambda x: x[0] * torch.exp(-x[1] * time) + x[2] - data)
    found = minimise(
        problem, np.array([1.0, 0.1, 0.0]), MatrixFreeGaussNewton(tolerance=1e-12, **TIGHT), iterations=200
    )
    assert found.stopped == CONVERGED and found.iterations < 60
    assert np.abs(problem.linearise(found.x).gradient).max() < 1e-5 < found.losses[-1]


def test_damping_and_length_follow_what_a_step_did():
    """A linear problem keeps every promise; one that bends away keeps none."""
    method = MatrixFreeGaussNewton().bound(TorchResiduals(function=lambda x: 2 * x - 1))
    memory = method.begin(np.zeros(3), np.full(3, -np.inf), np.full(3, np.inf), 0)
    points = method.ask(memory)
    assert points.shape == (6, 3) and np.all(points[0] == 0)
    np.testing.assert_allclose(points[1:, 0], points[1, 0] * np.array([1, 0.5, 0.25, 0.1, 0.03]))
    np.testing.assert_allclose(points[1], 2 / (4 + 0.1), rtol=1e-3)
    losses = method.problem(points, False).losses
    assert method.tell(memory, losses, None)["damping"] == 0.05
    for best, factor in ((1, 0.5), (2, 0.5), (3, 1.0), (4, 3.0), (5, 3.0), (0, 3.0)):
        told = np.full(6, 10.0)
        told[0], told[best] = (1.5, 0.0) if best else (1.5, 1.5)
        after = method.tell(memory, told, None)
        assert after["damping"] == 0.1 * factor and np.array_equal(after["x"], points[best])
    told = np.array([1.5, 1.4, *4 * [9.0]])  # lower, but by a fifteenth of what was promised
    assert method.tell(memory, told, None)["damping"] == pytest.approx(0.3)
    told[1] = np.nan
    assert np.array_equal(method.tell(memory, told, None)["x"], points[0])


def test_bounds():
    goal, skew = np.array([2.0, -1.0, 0.3]), np.array([[1.0, 0.4, 0.2], [0.0, 1.0, -0.5], [0.1, 0.0, 1.0]])
    low, high = np.array([-1.0, -0.5, -1.0]), np.array([1.5, 1.0, np.inf])
    problem = TorchResiduals(function=lambda x: torch.from_numpy(skew) @ (x - torch.from_numpy(goal)))
    found = minimise(problem, np.zeros(3), MatrixFreeGaussNewton(**TIGHT), iterations=60, low=low, high=high)
    held = (found.x == low) | (found.x == high)
    gradient = skew.T @ skew @ (found.x - goal)
    assert held.any() and np.all(found.x <= high) and np.all(found.x >= low)
    np.testing.assert_allclose(gradient[~held], 0, atol=1e-4)
    assert gradient[0] < 0


CLOUD = RNG.normal(size=(60, 3))
TRUE = np.array([0.1, 0.8, -0.5, 0.3]) / np.linalg.norm([0.1, 0.8, -0.5, 0.3])


def turned(x, cloud, seen):
    """Points that a quaternion turns, against where they were seen."""
    w, v = x[0], x[1:].expand(cloud.shape)
    return cloud + 2 * torch.linalg.cross(v, torch.linalg.cross(v, cloud) + w * cloud) - seen


ALIGN = TorchResiduals(
    function=turned, data=(CLOUD, CLOUD @ quat_matrix(TRUE).T), move=turn_quaternions, tangent=3,
    metric=lambda x: float(np.linalg.norm(quat_log(quat_mul(TRUE * [1, -1, -1, -1], x)))),
)  # fmt: skip


def test_a_retraction_keeps_quaternions_of_unit_length():
    """By 2.9 rad, in the tangent space of three numbers; with batches as well, which have no noise here."""
    start = np.array([1.0, 0, 0, 0])
    for problem in (ALIGN, Minibatches(ALIGN, 12)):
        found = minimise(problem, start, MatrixFreeGaussNewton(), iterations=40, target=1e-6)
        assert found.stopped == REACHED and ALIGN.metric(start) > 2.8
        np.testing.assert_allclose(np.linalg.norm(found.x), 1, rtol=1e-12)
    with pytest.raises(pb.PullbackError, match="bounds are for variables without a retraction"):
        minimise(ALIGN, start, MatrixFreeGaussNewton(), iterations=3, low=-1.0)
    with pytest.raises(pb.PullbackError, match="gradients by tangents"):
        minimise(ALIGN, start, LBFGS(), iterations=3)


def test_the_retraction_is_a_turn_in_the_own_frame():
    x, d = RNG.normal(size=8), RNG.normal(size=6)
    x = (x.reshape(2, 4) / np.linalg.norm(x.reshape(2, 4), axis=1, keepdims=True)).ravel()
    small = turn_quaternions(torch.from_numpy(x), torch.from_numpy(1e-5 * d)).numpy().reshape(2, 4)
    turn = quat_log(quat_mul(x.reshape(2, 4) * [1, -1, -1, -1], small))
    np.testing.assert_allclose(turn.ravel() / 1e-5, d, rtol=1e-8)


def regression(batch=None):
    """A network of one layer, 33 weights, whose samples have noise; the metric is that of all samples."""
    rng = np.random.default_rng(3)
    given = rng.uniform(-2, 2, (400, 2))
    wanted = np.sin(given[:, 0]) * given[:, 1] + 0.05 * rng.normal(size=400)

    def function(x, given, wanted):
        hidden = torch.tanh(given @ x[:16].reshape(2, 8) + x[16:24])
        return (hidden @ x[24:32] + x[32] - wanted) / np.sqrt(len(wanted))

    whole = TorchResiduals(function=function, data=(given, wanted))
    problem = TorchResiduals(
        function=function, data=(given, wanted), metric=lambda x: float(whole(x[None], False).losses[0])
    )
    return (problem if batch is None else Minibatches(problem, batch)), 0.5 * rng.normal(size=33)


def test_minibatches_train_a_network():
    problem, start = regression(60)
    found = minimise(problem, start, MatrixFreeGaussNewton(), iterations=80, seed=5)
    assert isinstance(problem, Sampled) and found.stopped == SPENT and found.best == 79
    assert found.metrics[-1] < 0.02 < 0.2 < found.metrics[0]
    problem_of_all, _ = regression()
    assert problem_of_all(found.x[None], False).losses[0] == found.metrics[-1]  # the newest point is the one returned
    other = minimise(problem, start, MatrixFreeGaussNewton(), iterations=2, seed=6)
    assert not np.array_equal(other.losses, found.losses[:2])


@pytest.mark.parametrize("batch", [None, 60])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(batch, tmp_path, monkeypatch):
    monkeypatch.setattr("pullback.plan.loop.SAVE_AFTER", 0.0)
    problem, start = regression(batch)
    method = MatrixFreeGaussNewton
    whole = minimise(problem, start, method(), iterations=12, seed=2)
    for after in (1, 7):

        def stop(progress, after=after):
            if progress.iterations == after:
                raise KeyboardInterrupt

        path = tmp_path / f"state{after}.npz"
        with pytest.raises(KeyboardInterrupt):
            minimise(problem, start, method(), iterations=12, seed=2, checkpoint=path, watch=stop)
        again = minimise(problem, start, method(), iterations=12, seed=2, checkpoint=path)
        np.testing.assert_array_equal(again.losses, whole.losses)
        np.testing.assert_array_equal(again.x, whole.x)
        assert again.evaluations == whole.evaluations and again.newest == (batch is not None)
    with pytest.raises(pb.PullbackError, match="another method, seed or problem"):
        minimise(problem, start, method(damping=1.0), iterations=12, seed=2, checkpoint=path)


def test_operators_of_ones_own():
    """Only products: one linearisation per iteration, with at most ``inner`` products and three beside."""
    J, r = RNG.normal(size=(50, 20)), RNG.normal(size=50)
    calls = {"linear": 0, "product": 0}

    class Own:
        def __call__(self, points, wants_gradients, wants_curvature=False):
            return Found(((points @ J.T + r) ** 2).sum(axis=1) / 2, None, np.zeros(len(points)))

        def linearise(self, x):
            calls["linear"] += 1

            def jvp(d):
                calls["product"] += 1
                return J @ d

            blocks = 1 / np.sum(J**2, axis=0)
            return Linearisation.of(J @ x + r, jvp, lambda b: J.T @ b, lambda v, damping: v / (1 / blocks + damping))

    assert isinstance(Own(), LeastSquares)
    found = minimise(Own(), np.zeros(20), MatrixFreeGaussNewton(), iterations=30)
    assert found.stopped == CONVERGED and calls["linear"] == found.iterations
    assert calls["product"] <= (30 + 3) * found.iterations
    np.testing.assert_allclose(found.x, np.linalg.lstsq(J, -r, rcond=None)[0], atol=1e-3)


# tasks

ARM = """<mujoco><option timestep="0.02"/><worldbody>
  <body><joint name="a" axis="0 1 0" damping="0.3" armature="0.02"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/>
    <body pos="0 0 -0.5"><joint name="b" type="ball" damping="0.1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="0.5"/>
      <site name="tip" pos="0 0 -0.4"/></body></body>
  </worldbody><actuator><motor joint="a"/></actuator></mujoco>"""


WEIGHT = 200.0  # of the place, against that of rest [1]


def swing_up(**changes) -> Task:
    """Controls that bring the tip of a hanging chain to a place, at rest, with little effort: 40 variables."""
    system = pb.Articulated(pb.load(ARM), contact=None)
    goal = Position("tip", (-0.6, 0.0, -0.55), weights=WEIGHT)
    about = {"name": "swing", "about": "", "metric": goal.distance, "target": 0.01, "start": system.state()}
    loss = goal + StateGoal(v=0.0, weights=0.05) + 1e-4 * Effort()
    return Task(**{**about, "system": system, "find": Controls(40, scale=2.0), "loss": loss, **changes})


def test_a_trajectory_as_products():
    """The gradient is that of the pullback, and the product that of differences of residuals."""
    task = swing_up()
    x = RNG.normal(size=40)
    linear, found = task.linearise(x), task(x[None], True)
    np.testing.assert_allclose(linear.gradient, found.gradients[0], rtol=1e-9, atol=1e-12)
    assert linear.loss == found.losses[0] and np.linalg.norm(linear.gradient) > 0.1

    def rows(x):
        run = task.run(x)
        pose = kinematics(run.system, run.final.q, of="site").value[0, 0, :3]
        goal = task.loss.parts[0][1].goal
        return np.concatenate(
            [np.sqrt(WEIGHT) * (pose - goal), np.sqrt(0.05) * run.final.v[0], np.sqrt(1e-4) * run.controls.ravel()]
        )

    np.testing.assert_allclose(rows(x) @ rows(x) / 2, linear.loss, rtol=1e-12)
    J = np.stack([(rows(x + 1e-5 * e) - rows(x - 1e-5 * e)) / 2e-5 for e in np.eye(40)], axis=1)
    products = np.stack([linear.product(e) for e in np.eye(40)])
    np.testing.assert_allclose(products, J.T @ J, atol=1e-7 * np.abs(products).max())
    np.testing.assert_allclose(products, products.T, atol=1e-12 * np.abs(products).max())


def test_a_trajectory_problem_is_solved():
    task = swing_up()
    x, low, high = task.begin()
    found = minimise(task, x, MatrixFreeGaussNewton(), iterations=40, target=task.target, low=low, high=high)
    assert found.stopped == REACHED and found.metrics[0] > 5 * task.target


# bad input


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: MatrixFreeGaussNewton(damping=-1), "damping of MatrixFreeGaussNewton must be a number in"),
        (lambda: MatrixFreeGaussNewton(lengths=()), "lengths of MatrixFreeGaussNewton are shares"),
        (lambda: MatrixFreeGaussNewton(inner=0), "inner of MatrixFreeGaussNewton"),
        (lambda: MatrixFreeGaussNewton().bound(lambda *asked: None), "needs a problem with linearise"),
        (lambda: TorchResiduals(function=rosenbrock, move=turn_quaternions), "move and tangent together"),
        (lambda: TorchResiduals(function=rosenbrock, data=(CLOUD, CLOUD[:3])), "all need as many"),
        (lambda: Minibatches(ALIGN, 61), "is 61, but data has 60 samples"),
        (lambda: TorchResiduals(function=lambda x: x.detach()).linearise(START), "do not depend on x"),
        (lambda: TorchResiduals(function=lambda x: x.float()).linearise(START), "must return a float64 tensor"),
        (lambda: swing_up(loss=lambda run: Loss(run.final.v[:, 0], {})).linearise(np.zeros(40)), "Residuals"),
        (
            lambda: minimise(
                TorchResiduals(function=lambda x: torch.log(x - 5)), START, MatrixFreeGaussNewton(), iterations=3
            ),
            "first guess cannot be evaluated",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(pb.PullbackError, match=message):
        make()


def test_poses_of_a_robot_by_forward_mode():
    """Inverse kinematics through pullback.torch, which has no second derivatives but a pushforward."""
    import pullback.torch as pbt

    system = pb.Articulated(pb.load(pb.robots.arm()), contact=None)
    site = system.model.sites.names[0]
    goal = kinematics(system, system.model.home.q[None] + 0.4, of="site", names=(site,)).value[0, 0, :3]

    def residuals(q):
        return pbt.kinematics(system, q[None], of="site", names=(site,))[0, 0, :3] - torch.from_numpy(goal)

    problem = TorchResiduals(function=residuals, forward=True)
    found = minimise(problem, system.model.home.q, MatrixFreeGaussNewton(), iterations=40, target=1e-16)
    assert found.stopped == REACHED and found.losses[0] > 1e-6
