"""Least squares as tasks: factors, recordings, several motions of one robot, and the quadruped that is identified."""

import numpy as np
import pytest

import pullback as pb
from pullback.model.tangent import difference, difference_jacobian, integrate
from pullback.plan import CONVERGED, GaussNewton, MatrixFreeGaussNewton, minimise
from pullback.tasks import TASKS, Controls, Factors, Parameters, Recording, Task
from pullback.tasks.identify import wanted
from pullback.tasks.residuals import Residuals, channel_deviations

ROBOT = """<mujoco><option timestep="0.01"/><worldbody>
  <body name="one"><joint name="one" axis="0 1 0" damping="0.1" armature="0.02"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/>
    <body name="two" pos="0 0 -0.5"><joint name="two" type="ball" damping="0.05"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.1 0 -0.4" mass="0.7"/></body></body></worldbody>
  <actuator><motor joint="one"/></actuator></mujoco>"""
GROUPS = {
    "mass of two": ("mass", 2),
    "inertia of two": ("inertia", 2),
    "dampings of two": ("damping", slice(1, 4)),
    "damping of one": ("damping", 0),
}
TRUTH = np.array([1.2, 0.8, 1.1, 0.75])
STEPS, MOTIONS = 40, 3


def swing(groups=GROUPS, truth=TRUTH, noise: float = 0.01, seed: int = 0, find=None, **changes) -> Task:
    """A hanging chain is let go from three poses; the ball joint has a quaternion."""
    model = pb.load(ROBOT)
    system = pb.Articulated(model, contact=None)
    rng = np.random.default_rng(7)
    wide = system.in_worlds(MOTIONS)
    q = np.column_stack([rng.uniform(-1, 1, MOTIONS), np.ones(MOTIONS), rng.uniform(-0.4, 0.4, (MOTIONS, 3))])
    start = wide.state(q / [1, *4 * [1.1]])
    controls = rng.normal(size=(STEPS, MOTIONS, 1))
    find = find or Factors(STEPS, groups, controls, most=3.0)
    _, params = Factors(STEPS, groups, controls).decode(wide, np.tile(np.log(truth), (MOTIONS, 1)))
    run = pb.rollout(wide, start, controls, params=params)
    rng = np.random.default_rng(seed)
    off = noise * channel_deviations(model, run.q, run.v) * rng.normal(size=(*run.v.shape[:2], 2 * model.nv))
    recording = Recording(model, integrate(model, run.q, off[..., : model.nv]), run.v + off[..., model.nv :])
    about = {"name": "swing", "about": "a chain", "metric": lambda run: np.zeros(run.q.shape[1]), "target": 0.0}
    task = {"system": system, "start": start, "find": find, "loss": recording, "method": GaussNewton(), "truth": truth}
    return Task(**{**about, **task, **changes})


def solved(task: Task):
    x, low, high = task.begin()
    return minimise(task, x, task.method, iterations=40, low=low, high=high)


@pytest.mark.parametrize("points", [1, 2])
def test_curvature_and_gradient_from_the_jacobian(points):
    """The gradient is that of the pullback, and both are differences of losses and of residuals; of every variable."""
    task = swing()
    x = np.random.default_rng(3).uniform(-0.2, 0.2, (points, len(GROUPS)))
    found, pulled = task(x, True, True), task(x, True)
    assert found.curvatures.shape == (points, 4, 4) and pulled.curvatures is None
    np.testing.assert_array_equal(found.losses, pulled.losses)
    np.testing.assert_allclose(found.gradients, pulled.gradients, rtol=1e-9)
    for k in range(points):
        columns = []
        for i in range(4):
            move = 1e-6 * np.eye(4)[i]
            up, down = (task.loss(task.run(x[k] + sign * move)).values for sign in (1, -1))
            columns.append(((up - down) / 2e-6).ravel())
            up, down = (task((x[k] + sign * move)[None], False).losses[0] for sign in (1, -1))
            np.testing.assert_allclose(found.gradients[k, i], (up - down) / 2e-6, rtol=1e-5)
        by = np.array(columns) @ np.array(columns).T
        np.testing.assert_allclose(found.curvatures[k], by, rtol=1e-5, atol=1e-6 * by.max())
        assert np.diag(by).min() > 1e-3


def test_an_identification_problem_is_solved_as_with_the_matrix():
    """Masses and dampings of three motions; JᵀJ from products is the matrix of GaussNewton."""
    task = swing()
    x, low, high = task.begin()
    at = x + np.random.default_rng(1).uniform(-0.2, 0.2, len(x))
    linear, found = task.linearise(at), task(at[None], True, True)
    np.testing.assert_allclose(linear.gradient, found.gradients[0], rtol=1e-9)
    products = np.stack([linear.product(e) for e in np.eye(len(x))])
    np.testing.assert_allclose(products, found.curvatures[0], rtol=1e-10, atol=1e-10 * products.max())
    with_matrix = minimise(task, x, GaussNewton(tolerance=1e-12), iterations=40, low=low, high=high)
    without = minimise(task, x, MatrixFreeGaussNewton(tolerance=1e-12), iterations=40, low=low, high=high)
    assert without.stopped == CONVERGED
    np.testing.assert_allclose(without.x, with_matrix.x, atol=1e-5)
    assert np.abs(np.exp(without.x) / TRUTH - 1).max() < 0.1


def test_a_few_residuals_are_pulled_back_one_by_one(monkeypatch):
    """Three of two states, of every motion: their Jacobian is that of a push, and that of differences."""
    turn = np.random.default_rng(5).normal(size=(2, 3, 8))  # 2nv is 8: fewer residuals than a push has pullbacks

    def loss(run) -> Residuals:
        steps = np.array([STEPS // 2, STEPS])
        tangent = np.concatenate([difference(run.system.model, run.q[:1], run.q), run.v], axis=2)[steps]
        by = np.broadcast_to(np.eye(8), (*tangent.shape, 8)).copy()
        by[..., :4, :4] = difference_jacobian(run.system.model, tangent[..., :4])
        return Residuals(steps, np.einsum("tmi,twi->twm", turn, tangent), turn[:, None] @ by)

    task = swing(loss=loss)
    x = np.random.default_rng(3).uniform(-0.2, 0.2, (2, 4))
    run = task.run(x)
    pushed = loss(run).by_variables(run.pushforward(**task.find.push(run.system, np.repeat(x, MOTIONS, axis=0))))
    monkeypatch.delattr(pb.Run, "pushforward")
    found = task(x, True, True)
    pulled = task._jacobians(x, run, loss(run))
    np.testing.assert_allclose(pulled, pushed, rtol=1e-9, atol=1e-10)
    for i in range(4):
        move = 1e-6 * np.eye(4)[i]
        up, down = (loss(task.run(x + sign * move)).values for sign in (1, -1))
        column = ((up - down) / 2e-6).transpose(1, 0, 2).reshape(2 * MOTIONS, -1)
        np.testing.assert_allclose(pulled[..., i], column, rtol=1e-5, atol=1e-6)
        assert np.abs(column).max() > 1e-3
    np.testing.assert_allclose(found.curvatures[1], sum(j.T @ j for j in pulled[MOTIONS:]), rtol=1e-12)
    np.testing.assert_allclose(found.gradients, task(x, True).gradients, rtol=1e-9)


@pytest.mark.parametrize(
    "find",
    [
        Controls(STEPS, hold=7, scale=2.0, until=30),
        Parameters(STEPS, {"mass": [1, 2], "com": ([1, 2], 2)}, linear=("com",)),
        Parameters(STEPS, {"mass": [1, 2], "damping": ...}, tied=("damping",)),
        Factors(STEPS, GROUPS),
    ],
    ids=["controls", "parameters", "tied", "factors"],
)
def test_variables_push_what_they_pull(find):
    """The Jacobian from ``push`` has the gradient that ``pull`` gives; and every variable has its own name."""
    task = swing(find=find)
    x, _, _ = task.begin()
    x = x + np.random.default_rng(4).uniform(-0.2, 0.2, (2, len(x)))
    found, pulled = task(x, True, True), task(x, True)
    assert np.abs(pulled.gradients).max(axis=0).min() > 1e-6
    np.testing.assert_allclose(found.gradients, pulled.gradients, rtol=1e-8, atol=1e-10)
    labels = find.labels(task.system)
    assert len(set(labels)) == x.shape[1] == len(find.natural(task.system, x[0]))


def test_names_and_units_of_parameters():
    find = Parameters(STEPS, {"mass": [1, 2], "com": (2, 2), "damping": ...}, linear=("com",), tied=("damping",))
    task = swing(find=find)
    assert find.labels(task.system) == (
        "mass of body 'one'", "mass of body 'two'", "com of body 'two' z", "damping, all of 4",
    )  # fmt: skip
    model = task.system.model
    expected = [*model.body_mass[1:], model.body_com[2, 2], 0.1]
    np.testing.assert_allclose(find.natural(task.system, task.begin()[0]), expected)


def test_the_truth_is_found_within_its_intervals():
    inside, together, seeds = [], [], range(12)
    for seed in seeds:
        task = swing(seed=seed)
        found = solved(task)
        assert found.stopped == CONVERGED
        known = task.estimate(found.x)
        assert np.abs(known.values / TRUTH - 1).max() < 0.05
        inside.append(known.covers(TRUTH))
        together.append(known.covers_all(TRUTH))
    assert 0.85 <= np.mean(inside) < 1 and np.sum(together) >= len(seeds) - 2


def test_motions_add_up():
    """Three motions in one task: their losses, gradients and curvatures are those of three tasks."""
    task = swing()
    x = np.random.default_rng(5).uniform(-0.2, 0.2, (1, 4))
    whole = task(x, True, True)
    parts = []
    for k in range(MOTIONS):
        one = slice(k, k + 1)
        recording = Recording(task.system.model, task.loss.q[:, one], task.loss.v[:, one])
        object.__setattr__(recording, "scale", task.loss.scale)
        find = Factors(STEPS, GROUPS, task.find.controls[:, one])
        parts.append(swing(find=find, start=pb.State(*(s[one] for s in task.start)), loss=recording)(x, True, True))
    for name in ("losses", "gradients", "curvatures"):
        np.testing.assert_allclose(getattr(whole, name), sum(getattr(part, name) for part in parts), rtol=1e-10)
    assert task.motions == MOTIONS and len({float(part.losses[0]) for part in parts}) == 3


def test_what_motion_cannot_tell_apart_is_said():
    """Armature and the moment of inertia about the same fixed axis are one number to the motion."""
    groups = GROUPS | {"armature of one": ("armature", 0), "inertia of one": ("inertia", (1, 1))}
    task = swing(groups, np.append(TRUTH, [1.2, 0.9]))
    found = solved(task)
    known = task.estimate(found.x)
    assert [set(group) for group in known.undetermined] == [{"armature of one", "inertia of one"}]
    np.testing.assert_allclose(known.values[:4], TRUTH, rtol=0.05)
    assert np.all(known.covers(task.truth)[:4]) or np.all(known.covers_all(task.truth))


def test_a_motion_that_cannot_be_simulated_is_stepped_back_from():
    found = swing()(np.array([[0.0, 0.0, 0.0, 0.0], [-800.0, 0.0, 0.0, 0.0]]), True, True)
    assert np.isfinite(found.losses[0]) and np.isfinite(found.curvatures[0]).all()
    assert np.isinf(found.losses[1]) and np.isnan(found.curvatures[1]).all()


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: swing({"weight": ("weight", 0)}, np.ones(1)), "no parameter 'weight'"),
        (lambda: swing(GROUPS | {"stiff": ("stiffness", 0)}, np.ones(5)), "'stiff': a factor of 'stiffness'"),
        (lambda: Recording(pb.load(ROBOT), np.ones((3, 1, 5)), np.ones((3, 1, 3))), "recorded v has shape"),
        (lambda: Recording(pb.load(ROBOT), np.ones((3, 1, 5)), np.ones((3, 1, 4)), every=3), "every must be"),
        (lambda: Recording(pb.load(ROBOT), np.ones((3, 1, 5)), np.ones((3, 1, 4))).scale(), "channel 0 of the 2nv"),
        (lambda: TASKS["golf"]()(TASKS["golf"]().begin()[0][None], True, True), "use another method"),
    ],
)
def test_bad_input(make, match):
    with pytest.raises(pb.PullbackError, match=match):
        make()


def test_the_quadruped_has_a_truth_of_its_own_for_every_seed():
    first, again, other = (TASKS["identify"](seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.truth, again.truth)
    np.testing.assert_array_equal(first.loss.q, again.loss.q)
    assert np.all(first.truth != other.truth) and np.all(first.loss.q[1:] != other.loss.q[1:])
    off = np.abs(np.concatenate([first.truth, other.truth]) - 1)
    assert 0.05 <= off.min() and off.max() <= 0.3 and len(first.truth) == len(wanted(first.system.model)) == 40
    # at the truth, what is left is the noise: 1 % of each channel
    left = first.loss(first.run(np.log(first.truth))).values
    np.testing.assert_allclose(left.std(axis=(0, 1)), 0.01, rtol=0.1)
    assert first.metric(first.run(np.log(first.truth))).max() < 1e-9
