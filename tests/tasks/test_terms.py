"""Ready terms, sums of them and losses of torch and JAX: gradients, expansions, and that tasks are solved by them."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback.model.tangent import integrate
from pullback.plan import ILQR, LBFGS, REACHED, minimise
from pullback.rollout import Run
from pullback.tasks import (
    Controls,
    Effort,
    JaxLoss,
    Loss,
    Orientation,
    Parameters,
    Position,
    Smoothness,
    StateGoal,
    Task,
    TorchLoss,
    Tracking,
)

# All joint types, and a site that turns and moves with all of them.
TREE = """<mujoco><option timestep="0.01"/><worldbody><body name="box" pos="0 0 1"><freejoint name="free"/>
    <geom name="shell" pos="0.1 0 0.2" type="box" size="0.1 0.2 0.15" mass="1"/>
    <body pos="0.3 0 0"><joint name="ball" type="ball"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0.3 0 0" mass="0.5"/>
      <body pos="0.3 0 0"><joint name="hinge" axis="0 1 0"/><geom size="0.05" mass="0.2"/>
        <body pos="0 0 0.1"><joint name="slide" type="slide" axis="0 1 1"/><geom size="0.04" mass="0.1"/>
          <site name="tip" pos="0.05 0.1 0.2" euler="20 30 40"/></body></body></body></body>
  </worldbody>
  <actuator><motor joint="hinge"/><motor joint="slide"/></actuator></mujoco>"""
STEPS, WORLDS = 4, 3
RNG = np.random.default_rng(7)
PLACES, TURNS = RNG.normal(size=(STEPS + 1, 3)), RNG.normal(size=(STEPS + 1, 4))
QUAT, Q, V = RNG.normal(size=4), RNG.normal(size=(STEPS + 1, 13)), RNG.normal(size=(STEPS + 1, 11))
TERMS = {
    "position": Position("tip", PLACES[0]),
    "position along a path": Position("tip", PLACES, when="path", weights=(0.5, 0.0, 2.0)),
    "position at some steps": Position("box", PLACES[:2], of="body", when=[1, -2]),
    "position of a geom": Position("shell", (0.1, 0.2, 0.3), of="geom", when=[2]),
    "orientation": Orientation("tip", QUAT),
    "orientation along a path": Orientation("tip", TURNS, when="path", weights=(0.5, 1.0, 2.0)),
    "state": StateGoal(q=Q[0], v=V[0]),
    "velocity": StateGoal(v=0.0, weights=np.arange(22.0)),
    "state along a path": StateGoal(q=Q, v=V, when="path", weights=np.arange(1.0, 23.0)),
    "joints": StateGoal(q={"ball": QUAT, "hinge": 0.4, "slide": [0.1]}, v={"free": V[0, :6]}, when=[3, 1]),
    "effort": Effort(),
    "effort of each": Effort((0.3, 2.0)),
    "smoothness": Smoothness((0.5, 1.5)),
    "tracking": Tracking(pb.State(Q[0], V[0]), np.arange(1.0, 23.0), 0.2),
    "sum": 2.0 * Position("tip", PLACES, when="path") + (Orientation("tip", QUAT) + 0.1 * Effort()) * 3
    + np.float64(0.5) * StateGoal(v=0.0) + Smoothness(),
}  # fmt: skip
EXPANDED = [name for name in TERMS if name not in ("smoothness", "sum")]


def made(worlds: int, **options) -> Run:
    """A run of random states, far from each other, which no motion connects."""
    rng = np.random.default_rng(0)
    system = pb.Articulated(pb.load(TREE), contact=None, worlds=worlds, **options)
    home = np.broadcast_to(system.model.home.q, (STEPS + 1, worlds, system.nq))
    q = integrate(system.model, home, rng.uniform(-1.2, 1.2, (STEPS + 1, worlds, system.nv)))
    q[..., 3:7] *= 1.3  # stored quaternions have any length
    states = pb.State(q, rng.normal(size=(STEPS + 1, worlds, system.nv)))
    return Run(system, states, rng.normal(size=(STEPS, worlds, 2)), 1, system.hold_params())


def moved(run: Run, by: dict[str, np.ndarray]) -> Run:
    states = type(run.states)(*(x + by[name] for name, x in run.states._asdict().items()))
    return Run(run.system, states, run.controls + by["controls"], 1, run.params)


def cotangents(found: Loss, run: Run) -> dict[str, np.ndarray]:
    """Of all states and controls, whatever the shapes that were given."""
    bars = {name: np.zeros(x.shape) for name, x in run.states._asdict().items()}
    for name, bar in found.bars.items():
        bars[name.removesuffix("_bar")][slice(None) if bar.ndim == 3 else -1] = bar
    return {**bars, "controls": np.zeros(run.controls.shape) if found.controls_bar is None else found.controls_bar}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("worlds", [WORLDS, STEPS + 1], ids=["some", "as many as states"])
def test_gradient(name, worlds):
    """In the stored coordinates, along random directions of each field, in several worlds, at several step sizes."""
    term, run, rng = TERMS[name], made(worlds), np.random.default_rng(1)
    bars = cotangents(term(run), run)
    for field in bars:
        by = {key: rng.normal(size=x.shape) * (key == field) for key, x in bars.items()}
        exact = (bars[field] * by[field]).sum(axis=(0, 2))
        errors = []
        for h in (1e-3, 1e-4, 1e-5):
            up, down = (term(moved(run, {k: s * h * x for k, x in by.items()})).values for s in (1, -1))
            errors.append(np.abs((up - down) / (2 * h) - exact))
        size = np.abs(bars[field] * by[field]).sum(axis=(0, 2))
        assert np.all(errors[2] <= 1e-7 * size + 1e-8), (field, errors)
        assert np.all(errors[1] <= 0.05 * errors[0] + 1e-7), (field, errors)
    assert sum(np.abs(bar).sum(axis=(0, 2)).min() for bar in bars.values()) > 0.01


@pytest.mark.parametrize("name", EXPANDED)
def test_expansion(name):
    """Its slope is the gradient, and at the goal its curvature is that of the loss."""
    run, term = made(1), TERMS[name]
    nv, rng = run.system.nv, np.random.default_rng(2)

    def along(run, moves, control_moves, h):
        q = integrate(run.system.model, run.q, h * moves[:, None, :nv])
        states = pb.State(q, run.v + h * moves[:, None, nv:])
        return Run(run.system, states, run.controls + h * control_moves[:, None], 1, run.params)

    moves, control_moves = rng.normal(size=(STEPS + 1, 2 * nv)), rng.normal(size=(STEPS, 2))
    found = term.expand(run)
    slope = (found.x * moves).sum() + (found.u * control_moves).sum()
    up, down = (term(along(run, moves, control_moves, h)).values[0] for h in (1e-5, -1e-5))
    np.testing.assert_allclose(slope, (up - down) / 2e-5, rtol=1e-6)
    assert np.linalg.eigvalsh(found.xx).min() > -1e-10
    assert abs(slope) > 1e-3


def test_curvature_of_a_site_at_its_goal():
    run = made(1)
    nv, moves, h = run.system.nv, np.random.default_rng(3).normal(size=(STEPS + 1, 22)), 1e-4
    pose = pb.dynamics.kinematics(run.system, run.q, of="site", names=("tip",)).value[:, 0, 0]
    for term in (Position("tip", pose[:, :3], when="path"), Orientation("tip", pose[:, 3:], when="path")):
        found = term.expand(run)
        np.testing.assert_allclose(found.x, 0, atol=1e-12)
        values = []
        for s in (1, -1):
            q = integrate(run.system.model, run.q, s * h * moves[:, None, :nv])
            values.append(term(Run(run.system, pb.State(q, run.v), run.controls, 1, run.params)).values[0])
        curve = np.einsum("ti,tij,tj", moves, found.xx, moves)
        np.testing.assert_allclose(curve, sum(values) / h**2, rtol=1e-4)
        assert curve > 1
        np.testing.assert_allclose(term.distance(run), 0, atol=1e-7)


def test_values_and_distances():
    run = made(WORLDS)
    tip = pb.dynamics.kinematics(run.system, run.q, of="site", names=("tip",)).value[:, :, 0, :3]
    away = np.linalg.norm(tip - PLACES[:, None], axis=2)
    term = Position("tip", PLACES, when="path")
    np.testing.assert_allclose(term(run).values, (away**2).sum(axis=0) / 2)
    np.testing.assert_allclose(term.distance(run), away.max(axis=0))
    np.testing.assert_allclose(Effort()(run).values, (run.controls**2).sum(axis=(0, 2)) / 2)
    changes = np.diff(run.controls, axis=0)
    np.testing.assert_allclose(Smoothness()(run).values, (changes**2).sum(axis=(0, 2)) / 2)
    np.testing.assert_allclose(StateGoal(v=0.5).distance(run), np.abs(run.v[-1] - 0.5).max(axis=1))
    np.testing.assert_allclose(StateGoal(q={"hinge": 0.5}).distance(run), np.abs(run.q[-1, :, 11] - 0.5))
    turned = Orientation("tip", QUAT).distance(run)
    pose = pb.dynamics.kinematics(run.system, run.q[-1], of="site").value[:, 0, 3:]
    np.testing.assert_allclose(turned, 2 * np.arccos(np.abs(pose @ (QUAT / np.linalg.norm(QUAT)))))


def test_sums():
    """Weights multiply, functions of a run are terms too, and the built-in sum adds a list up."""
    run = made(WORLDS)

    def own(run):
        return Loss((run.v**2).sum(axis=(0, 2)) / 2, {"v_bar": run.v})

    parts = [Position("tip", (0, 0, 0)), StateGoal(v=0.0), Effort()]
    several, one_by_one = 2 * (sum(parts) + own), (own, *parts)
    found = several(run)
    np.testing.assert_allclose(found.values, 2 * sum(part(run).values for part in one_by_one))
    bars = [cotangents(part(run), run) for part in one_by_one]
    for name, bar in cotangents(found, run).items():
        np.testing.assert_allclose(bar, 2 * sum(each[name] for each in bars), rtol=1e-13)
    reversed_order = own + parts[0]
    np.testing.assert_allclose(reversed_order(run).values, own(run).values + parts[0](run).values)
    with_function = Effort() + (
        lambda run: Loss(np.zeros(WORLDS), {"v_bar": lambda steps, states: states.v[: len(steps)]})
    )
    np.testing.assert_allclose(with_function(run).bars["v_bar"], run.v)
    with pytest.raises(pb.PullbackError, match="own does not have"):
        several.expand(made(1))
    expanded = (2 * parts[0] + 3 * parts[2]).expand(made(1))
    np.testing.assert_allclose(expanded.xx, 2 * parts[0].expand(made(1)).xx)
    np.testing.assert_allclose(expanded.uu, 3.0)


# --- through the motion ----------------------------------------------------------------------------


def task(loss, find=None, **changes) -> Task:
    system = pb.Articulated(pb.load(pb.robots.arm()), contact=None)
    start = system.state(system.model.home.q)
    given = {"name": "reach", "about": "a place", "system": system, "start": start, "target": 1e-3}
    find = find or Controls(20, hold=5)
    metric = changes.pop("metric", Position("tip", (0.4, 0.1, 0.6)).distance)
    return Task(**given, find=find, loss=loss, metric=metric, **changes)


def assert_gradient(of: Task, points: np.ndarray) -> None:
    found = of(points, True)
    for k, x in enumerate(points):
        numeric = []
        for h in (1e-4, 1e-5):
            sides = (of(x + s * h * np.eye(len(x)), False).losses for s in (1, -1))
            numeric.append(np.subtract(*sides) / (2 * h))
        size = np.abs(found.gradients[k]).max()
        error = np.minimum(*(np.abs(each - found.gradients[k]) for each in numeric))
        assert error.max() < 1e-7 * size and size > 1e-6


def test_gradients_of_controls():
    loss = 5 * Position("tip", (0.4, 0.1, 0.6)) + Orientation("tip", QUAT, when="path") + 0.1 * Effort() + Smoothness()
    of = task(loss)
    assert_gradient(of, np.random.default_rng(0).uniform(-0.3, 0.3, (2, len(of.begin()[0]))))


def test_gradients_of_parameters_have_what_the_loss_itself_depends_on():
    """The length of a link moves the tip even if the motion of the joints stays the same."""
    find = Parameters(10, {"body_pos": (slice(2, 4), 2), "mass": [2, 3]}, linear=("body_pos",))
    of = task(2 * Position("tip", (0.4, 0.1, 0.6), when="path") + Orientation("tip", QUAT), find)
    x = of.begin()[0]
    points = x + np.random.default_rng(0).uniform(-0.05, 0.05, (2, len(x)))
    assert_gradient(of, points)
    run = of.run(x)
    indirect = run.pullback(**of.loss(run).bars).params["body_pos"][0, 2:4, 2]
    assert np.all(np.abs(of(x[None], True).gradients[0, :2] - indirect) > 0.1)


@pytest.mark.parametrize("method", [LBFGS(), ILQR()], ids=["lbfgs", "ilqr"])
def test_a_tip_comes_to_its_place(method):
    tip = Position("tip", (0.4, 0.1, 0.6))
    of = task(100 * tip + 1e-3 * StateGoal(v=0.0) + 1e-6 * Effort(), Controls(100, hold=10), metric=tip.distance)
    x, low, high = of.begin()
    found = minimise(of, x, method, iterations=60, target=2e-3, low=low, high=high)
    assert found.stopped == REACHED, found.metrics
    np.testing.assert_allclose(
        pb.dynamics.kinematics(of.system, of.run(found.x).q[-1], of="site", names=("tip",)).value[0, 0, :3],
        (0.4, 0.1, 0.6),
        atol=2e-3,
    )


def test_another_system_in_the_same_task():
    of, heavier = task(Effort()), pb.Articulated(pb.load(pb.robots.arm()), contact=None)
    heavier.params["mass"] = 2 * heavier.params["mass"]
    x = np.full(len(of.begin()[0]), 0.1)
    assert of.but(target=1.0).run(x).system is of.system
    assert of.but(system=heavier).run(x).system is heavier


# --- torch and JAX -----------------------------------------------------------------------------------


def by_hand(run) -> Loss:
    """A loss of all that a loss can depend on."""
    q, v, controls = (np.asarray(x, dtype=float) for x in (run.q, run.v, run.controls))
    angle = np.array([0.3, -0.2, 0.1])
    off = q[-1, :, :3] - angle
    q_bar = np.zeros_like(q)
    q_bar[..., 0] += np.cos(q[..., 0])
    q_bar[-1, :, :3] += 2 * off
    values = (off**2).sum(-1) + np.sin(q[..., 0]).sum(0) + 0.1 * (v**2).sum((0, 2)) + 1e-3 * (controls**4).sum((0, 2))
    return Loss(values, {"q_bar": q_bar, "v_bar": 0.2 * v}, 4e-3 * controls**3)


def torch_loss() -> TorchLoss:
    import torch

    @TorchLoss
    def loss(q, v, controls):
        off = q[-1, :, :3] - torch.tensor([0.3, -0.2, 0.1], dtype=q.dtype)
        return (off**2).sum(-1) + q[..., 0].sin().sum(0) + 0.1 * (v**2).sum((0, 2)) + 1e-3 * (controls**4).sum((0, 2))

    return loss


def jax_loss() -> JaxLoss:
    import jax

    jnp = jax.numpy

    @JaxLoss
    @jax.jit
    def loss(controls, v, q):
        off = q[-1, :, :3] - jnp.array([0.3, -0.2, 0.1])
        return (
            (off**2).sum(-1) + jnp.sin(q[..., 0]).sum(0) + 0.1 * (v**2).sum((0, 2)) + 1e-3 * (controls**4).sum((0, 2))
        )

    return loss


@pytest.fixture
def x64():
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("make", [torch_loss, jax_loss])
def test_torch_and_jax_give_what_is_written_by_hand(make, x64):
    loss = make()
    points = np.random.default_rng(0).uniform(-0.3, 0.3, (3, len(task(loss).begin()[0])))
    for autodiff, hand in ((loss, by_hand), (2 * loss + Effort(), by_hand + Effort() + by_hand)):
        ours, theirs = task(autodiff)(points, True), task(hand)(points, True)
        np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-12)
        scale = np.abs(theirs.gradients).max()
        np.testing.assert_allclose(ours.gradients, theirs.gradients, rtol=1e-12, atol=1e-12 * scale)
        assert np.abs(ours.gradients).min() > 1e-6


def test_losses_in_other_precision_of_other_arguments_and_of_other_systems():
    import torch

    run = made(WORLDS, dtype="float32")
    single = Run(run.system, pb.State(*(x.astype("float32") for x in run.states)), run.controls, 1, run.params)
    found = TorchLoss(lambda v: (v[-1] ** 2).sum(-1))(single)
    assert found.controls_bar is None and set(found.bars) == {"v_bar"} and found.bars["v_bar"].dtype == np.float32
    np.testing.assert_allclose(found.bars["v_bar"][-1], 2 * single.v[-1])
    weight = TorchLoss(lambda controls, weight=3.0: weight * (controls**2).sum((0, 2)))  # defaults are left alone
    of = task(weight)
    points = np.ones((2, len(of.begin()[0])))
    hand = task(6 * Effort())(points, True)
    np.testing.assert_allclose(of(points, True).gradients, hand.gradients, rtol=1e-12)
    with torch.no_grad():  # as inside a training loop's evaluation
        np.testing.assert_allclose(of(points, True).gradients, hand.gradients, rtol=1e-12)


def test_losses_that_cannot_be_differentiated(x64):
    import jax

    run = made(WORLDS)
    for loss, message in (
        (TorchLoss(lambda speed: speed), "needs of q, v, controls, and 'speed' is none"),
        (TorchLoss(lambda: 0), "at least one argument of q, v, controls"),
        (TorchLoss(lambda q: (q**2).sum()), r"shape \(3,\), not shape \(\)"),
        (JaxLoss(lambda q: (q**2).sum(-1)), r"shape \(3,\), not shape \(5, 3\)"),
        (TorchLoss(lambda q: (q.detach() ** 2).sum((0, 2))), "detached"),
        (TorchLoss(lambda q: q.detach().numpy().sum((0, 2))), "detached"),
    ):
        with pytest.raises(pb.PullbackError, match=message):
            loss(run)
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(pb.PullbackError, match="JAX is limited to float32"):
        jax_loss()(run)
    with pytest.raises(pb.PullbackError, match="TorchLoss does not have"):
        (torch_loss() + Effort()).expand(made(1))


def test_neither_torch_nor_jax_is_loaded_before_it_is_used():
    code = """import sys
from pullback.tasks import JaxLoss, TorchLoss
TorchLoss(len), JaxLoss(len)
assert not {"torch", "jax"} & set(sys.modules)"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (Position("elbow", (0, 0, 0)), "there is no site 'elbow'; there are tip"),
        (Position("tip", (0, 0)), r"goal of Position of 'tip' has shape \(2,\), but \(3,\), \(5, 3\)"),
        (Position("tip", PLACES[:3], when=[1, 2]), r"has shape \(3, 3\), but \(3,\), \(5, 3\) or \(2, 3\)"),
        (Position("tip", (0, 0, np.nan)), "not finite"),
        (Position("tip", (0, 0, 0), when="start"), "'start' is not known"),
        (Position("tip", (0, 0, 0), when=[5]), "steps from 0 to 4"),
        (Position("tip", (0, 0, 0), when=[1, -4]), "a step twice"),
        (Position("tip", (0, 0, 0), weights=np.ones(2)), r"weights of Position have shape \(2,\)"),
        (StateGoal(T=300.0), "no field 'T': it has q, v"),
        (StateGoal(q=[1.0, 2.0]), r"q of StateGoal has shape \(2,\), but \(13,\)"),
        (StateGoal(q=0.0), "goal of joint 'free' has a quaternion of zero length"),
        (StateGoal(q={"knee": 1.0}), "there is no joint 'knee'; there are free, ball, hinge, slide"),
        (Effort(np.ones(3)), r"weights of Effort have shape \(3,\), but one number or \(2,\)"),
    ],
)
def test_bad_terms(term, message):
    with pytest.raises(pb.PullbackError, match=message):
        term(made(WORLDS))


def test_terms_that_cannot_be_made():
    for make, message in (
        (lambda: StateGoal(), "needs a goal"),
        (lambda: Effort(-1.0), "not negative"),
        (lambda: Orientation("tip", np.zeros(4)), "zero length"),
        (lambda: np.inf * Effort(), "weight of Effort is inf"),
        (lambda: Effort() + 3, "3 is no loss"),
        (lambda: TorchLoss(3), "needs a function"),
    ):
        with pytest.raises(pb.PullbackError, match=message):
            make()


@TorchLoss
def decorated(q):
    return (q[-1] ** 2).sum(-1)


def test_a_decorated_loss_pickles():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
