"""Tasks in which nothing touches at first: there is a gradient with contact of long range, and none without."""

import pickle
from dataclasses import replace

import mujoco
import numpy as np
import pytest

import pullback as pb
from pullback.plan import Adam, Receding, minimise
from pullback.tasks import TASKS, Controls, InitialState, Task, Waves, solve
from pullback.tasks.distant import FINER, Apart, at_goals
from pullback.tasks.loss import Loss

# By task, the steps that are looked at here, iterations, and the share of the loss that may be left after them.
SHORT = {"billiards": (100, 25, 0.9), "push": (24, 25, 0.9), "ant-push": (100, 15, 0.9)}
SHORT |= {"gather": (16, 8, 0.999), "sort": (16, 25, 0.99)}
ADAM = Adam(rate=0.1, beta1=0.3, beta2=0.5)


def short(name: str) -> Task:
    of = TASKS[name]()
    return of.but(find=replace(of.find, steps=SHORT[name][0]))


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    return {name: short(name) for name in SHORT}


@pytest.mark.parametrize("name", SHORT)
def test_the_loss_falls_from_a_start_without_contact(name, tasks):
    of = tasks[name]
    x, low, high = of.begin()
    _, iterations, left = SHORT[name]
    found = minimise(of, x, ADAM, iterations=iterations, low=low, high=high)
    assert found.metrics[0] > 2 * of.target  # not solved by doing nothing
    assert found.losses[found.best] < left * found.losses[0]


@pytest.mark.parametrize("name", SHORT)
def test_without_long_range_there_is_nothing_to_follow(name, tasks):
    of = tasks[name]
    x = of.begin()[0][None]
    blind = of.but(system=pb.Articulated(of.system.model, pb.ContactConvex()))
    assert not np.any(blind(x, True).gradients) and np.all(of(x, True).gradients != 0)


@pytest.mark.parametrize("name", SHORT)
def test_gradients(name, tasks):
    """Along a random direction, at the start and on the way."""
    of, rng = tasks[name], np.random.default_rng(0)
    x, low, high = of.begin()
    way = minimise(of, x, ADAM, iterations=4, low=low, high=high).x
    for point in (x, way):
        direction = rng.normal(size=len(x)) / np.sqrt(len(x))
        slope = float(of(point[None], True).gradients[0] @ direction)
        errors = []
        for step in (1e-3, 1e-4, 1e-5):
            pair = of(np.stack([point + step * direction, point - step * direction]), False).losses
            errors.append(abs((pair[0] - pair[1]) / (2 * step) - slope))
        assert abs(slope) > 1e-9 and min(errors) < 1e-4 * abs(slope)


@pytest.mark.parametrize("name", SHORT)
def test_starts_differ_and_nothing_touches(name):
    starts = [TASKS[name](seed=seed).start for seed in (0, 1)]
    assert not np.array_equal(starts[0].q, starts[1].q) and not np.any(starts[0].v)


# what they are made of

SLIDER = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body>
  <joint name="x" type="slide" axis="1 0 0" damping="1"/><joint name="y" type="slide" axis="0 1 0" damping="2"/>
  <geom size="0.1" mass="1"/></body></worldbody><actuator><motor joint="x" ctrlrange="-4 4"/><motor joint="y"/>
</actuator></mujoco>"""


def slide(find, **changes) -> Task:
    system = pb.Articulated(pb.load(SLIDER), contact=None)
    loss, metric = at_goals([[0, 1]], np.array([0.3, -0.2]), 0.01, over=5)
    about = {"name": "slide", "about": "to a place", "target": 0.02}
    parts = {"system": system, "start": system.state([0.1, 0.0]), "find": find, "loss": loss, "metric": metric}
    return Task(**about | parts | changes)


def test_gradients_of_an_initial_state():
    """Of several worlds, every variable, and what is not a variable stays."""
    find = InitialState(20, {"q": [1], "v": [0, 1]}, guess={"q": 0.2, "v": [1.0, 0.5]}, scale={"v": 3.0})
    of = slide(find)
    x, low, high = of.begin()
    np.testing.assert_allclose(x, [0.2, 1 / 3, 0.5 / 3])
    assert np.all(np.isinf(low)) and find.labels(of.system) == ("q[1]", "v[0]", "v[1]")
    run = of.run(x)
    np.testing.assert_allclose(run.q[0, 0], [0.1, 0.2])
    np.testing.assert_allclose(run.v[0, 0], find.natural(of.system, x)[1:])
    points = x + np.random.default_rng(0).uniform(-0.1, 0.1, (2, 3))
    found = of(points, True)
    for i, move in enumerate(1e-6 * np.eye(3)):
        rates = (of(points + move, False).losses - of(points - move, False).losses) / 2e-6
        np.testing.assert_allclose(found.gradients[:, i], rates, rtol=1e-6)
    assert np.abs(found.gradients).min() > 1e-3


def test_gradients_of_waves():
    """Every variable, several worlds; and the tangents are those that the controls have."""
    of = slide(Waves(20, (0.5, -0.2), 0.01, (1.0, 3.0), scale=np.array([2.0, 0.5])))
    x, _, _ = of.begin()
    np.testing.assert_allclose(of.run(x).controls[:, 0], np.tile([0.5, -0.2], (20, 1)))
    points = np.random.default_rng(0).uniform(-1, 1, (2, 8))
    found, rows = of(points, True), of.find.push(of.system, points)["controls"]
    for i, move in enumerate(1e-6 * np.eye(8)):
        rates = (of(points + move, False).losses - of(points - move, False).losses) / 2e-6
        np.testing.assert_allclose(found.gradients[:, i], rates, rtol=1e-6)
        moved = (of.run(points + move).controls - of.run(points - move).controls) / 2e-6
        np.testing.assert_allclose(rows[..., i], moved, atol=1e-8)
    assert np.abs(found.gradients).min() > 1e-6 and np.all(rows[0] == 0) and np.all(np.any(rows[1:], axis=2))


def waves(steps: int, frequencies=(1.0, 3.0)) -> Waves:
    return Waves(steps, (0.0, 0.0), 0.01, frequencies)


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: InitialState(0, {"q": [0]}, {"q": 0.0}), "steps"),
        (lambda: InitialState(5, {"q": [0]}, {"v": 0.0}), "'v' of InitialState"),
        (lambda: InitialState(5, {"q": [0], "v": [0]}, {"v": 0.0}), "guess of InitialState"),
        (lambda: Waves(5, (0.0,), 0.01, ()), "frequencies of Waves"),
        (lambda: Receding(ADAM, 4, 8, 10), "apply of Receding is 8"),
        (lambda: Receding(ADAM, 8, 4, 10).bound(slide(InitialState(9, {"v": [0]}, {"v": 0.0}))), "finds"),
        (lambda: Receding(ADAM, 8, 4, 10).bound(slide(Controls(20, hold=3))), "multiples of hold, 3"),
        (lambda: Receding(ADAM, 8, 4, 10, ahead=slide(Controls(10))).bound(slide(Controls(20))), "as many knots"),
        (lambda: Receding(ADAM, 8, 4, 10, ahead=slide(Controls(20, 2))).bound(slide(Controls(10))), "a fraction"),
        (lambda: Receding(ADAM, 8, 4, 10, ahead=slide(Controls(20, scale=2.0))).bound(slide(Controls(20))), "scale"),
        (lambda: Receding(ADAM, 8, 4, 10, ahead="model").bound(slide(Controls(20))), "finds Controls"),
        (lambda: solve(slide(waves(20), easier=(slide(waves(20, (1.0,))),))), "has 8 variables, and the one .* 4"),
        (lambda: TASKS["push"](contact="rigid"), "contact"),
        (lambda: Receding(ADAM, 8, 4, 10, guesses=-1), "guesses of Receding"),
        (lambda: Receding(ADAM, 8, 4, 10, guesses=4).bound(slide(Controls(20))), "a control has none"),
    ],
)
def test_bad_input(make, match):
    with pytest.raises(pb.PullbackError, match=match):
        make()


def test_objects_that_are_near_enough_have_no_loss():
    of = slide(Controls(6))
    run = of.run(np.zeros(12))
    loss, metric = at_goals([[0, 1]], np.array([0.1, 0.0]), 0.05)
    assert loss(run).values[0] == 0 and not np.any(loss(run).bars["q_bar"]) and metric(run)[0] < 1e-12


def test_receding_solves_window_by_window(tmp_path):
    """And resumes to the same bits; what is asked for is the whole trajectory, within its bounds."""
    method = Receding(Adam(rate=0.3, beta1=0.3, beta2=0.5), window=40, apply=20, iterations=40)
    of = slide(Controls(100, hold=10))
    x, low, high = of.begin()
    options = {"target": of.target, "low": low, "high": high}
    found = minimise(of, x, method, iterations=10, **options)
    assert found.stopped == "target reached" and found.metrics[0] > 5 * of.target
    assert len(found.x) == 20 and np.all(np.abs(found.x[::2]) <= 1)
    half = tmp_path / "half.npz"
    minimise(of, x, method, iterations=2, checkpoint=half, **options)
    again = minimise(of, x, method, iterations=10, checkpoint=half, **options)
    np.testing.assert_array_equal(again.x, found.x)
    several = minimise(of, x, Receding(method.method, 40, 20, 40, ticks=2), iterations=10, low=low, high=high)
    assert several.stopped == "converged" and several.iterations == 4  # first guess, and 5 windows two by two


def test_random_guesses_lead_out_of_a_local_minimum():
    """Of two wells, the start is in the one that is less deep, and the gradient leads back into it."""
    system = pb.Articulated(
        pb.load("""<mujoco><option timestep="0.02" gravity="0 0 0"/><worldbody><body><joint name="x" type="slide"/>
        <geom size="0.1" mass="1"/></body></worldbody><actuator>
        <position joint="x" kp="50" kv="10" ctrlrange="-0.5 1.5"/></actuator></mujoco>"""),
        contact=None,
    )

    def wells(run) -> Loss:
        q, last = run.q[-1, :, 0], np.zeros_like(run.q)
        last[-1, :, 0] = 32 * q * (q - 1) * (2 * q - 1) - 0.1
        return Loss(16 * q**2 * (q - 1) ** 2 + 0.1 * (1 - q) + 0.1, {"q_bar": last})

    of = slide(
        Controls(120, hold=5), system=system, start=system.state(), loss=wells,
        metric=lambda run: np.abs(run.q[-1, :, 0] - 1), target=0.1,
    )  # fmt: skip
    x, low, high = of.begin()
    options = {"iterations": 12, "target": of.target, "low": low, "high": high}
    patient = Receding(ADAM, window=20, apply=10, iterations=20)
    stuck = minimise(of, x, patient, **options)
    assert stuck.stopped != "target reached" and abs(of.run(stuck.x).q[-1, 0, 0]) < 0.1
    curious = replace(patient, guesses=8)
    found = minimise(of, x, curious, **options)
    assert found.stopped == "target reached"
    np.testing.assert_array_equal(minimise(of, x, curious, **options).x, found.x)


def test_plans_of_a_model_are_done_by_what_is_solved():
    """A plan of a light body in coarse steps misses when it is done by a heavy one in fine steps; planned again and
    again from where that has come to, it does not. Its states are those of the model but for a place that is off.
    """
    light = slide(Controls(100, hold=10))
    xml = SLIDER.replace('mass="1"', 'mass="1.6"').replace("0.01", "0.002")
    heavy = pb.Articulated(pb.load(xml), contact=None)
    start, find = heavy.state(light.start.q + 0.1), Controls(500, hold=50)
    of = slide(find, system=heavy, start=start, checkpoint_every=5)
    method = Receding(Adam(rate=0.3, beta1=0.3, beta2=0.5), window=40, apply=20, iterations=40)
    x, low, high = of.begin()
    options = {"iterations": 10, "target": of.target, "low": low, "high": high}
    blind = minimise(light.but(start=light.system.state(start.q)), x, method, **options)
    assert of.metric(of.run(blind.x))[0] > 2 * of.target
    seen = []

    def back(state):
        seen.append(state.q[0])
        return state._replace(q=state.q - 0.05)

    there = light.but(loss=at_goals([[0, 1]], np.array([0.25, -0.25]), 0.01, over=5)[0])
    found = minimise(of, x, replace(method, ahead=there, seen=back), **options)
    assert found.stopped == "target reached" and of.metric(of.run(found.x))[0] <= of.target
    np.testing.assert_allclose(seen, pb.rollout(heavy, start, of.run(found.x).controls).q[: 100 * len(seen) : 100, 0])


def test_where_nothing_is_to_be_gained_nothing_is_guessed():
    of = slide(Controls(40), start=slide(Controls(1)).system.state([0.3, -0.2]), system=slide(Controls(1)).system)
    bounded = of.but(find=replace(of.find, steps=40), system=pb.Articulated(pb.load(
        SLIDER.replace('<motor joint="y"/>', '<motor joint="y" ctrlrange="-4 4"/>')), contact=None))  # fmt: skip
    x, low, high = bounded.begin()
    found = minimise(bounded, x, Receding(ADAM, 20, 10, 5, guesses=8), iterations=6, low=low, high=high)
    assert found.iterations > 4 and not np.any(found.losses)


# in MuJoCo's contact

CUBES = """<mujoco><worldbody><geom type="plane" size="0 0 1"/>
  <body pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
  <body pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="3"/></body></worldbody></mujoco>"""


def test_bodies_are_moved_apart():
    """Until ContactLongRange can begin there; no further, the light one more than the heavy one; none that is apart."""
    model, gap, turned = pb.load(CUBES), 3e-3, [np.cos(0.2), 0, 0, np.sin(0.2)]
    far_range, parted = pb.Articulated(model, pb.ContactLongRange(gap=gap)), Apart(model, gap)
    state = far_range.state([0, 0, 0.0995, 1, 0, 0, 0, 0.195, 0, 0.0999, 1, 0, 0, 0], np.arange(12.0))
    with pytest.raises(pb.PullbackError, match="overlap|apart"):
        far_range.step(state)
    moved = parted(state)
    data = mujoco.MjData(model.mujoco)
    data.qpos[:] = moved.q[0]
    mujoco.mj_fwdPosition(model.mujoco, data)
    between = [mujoco.mj_geomDistance(model.mujoco, data, i, j, 1.0, None) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert np.all(np.array(between) > 0.4 * gap) and np.all(np.array(between) < 3 * gap)
    shift = (moved.q - state.q)[0]
    assert shift[0] < 0 < shift[7] and abs(shift[0] + 3 * shift[7]) < 1e-4
    assert np.array_equal(moved.v, state.v) and np.all(np.isfinite(far_range.step(moved).q))
    assert np.array_equal(parted(moved).q, moved.q)
    apart = far_range.state([0, 0, 0.1 + gap, 1, 0, 0, 0, 0.5, 0, 0.1 + gap, *turned])
    assert np.array_equal(parted(apart).q, apart.q)


def test_push_is_solved_in_mujocos_contact():
    """The controls, given to the plain steps, bring the box to its goal; with long range they were planned."""
    of = TASKS["push"](contact="convex")
    assert of.name == "push-convex" and of.method.ahead.system.contact == TASKS["push"]().system.contact
    found = solve(of, target=of.target)[-1]
    assert found.metrics[0] > 5 * of.target and found.metrics[found.best] <= of.target
    plain = pb.load(of.method.ahead.system.model.mujoco, timestep=of.method.ahead.system.model.timestep / FINER)
    system = pb.Articulated(plain, pb.ContactConvex())
    controls = of.find.decode(system, found.x[None])[0]
    assert controls.shape == (2000, 1, 6)
    run = pb.rollout(system, system.state(of.start.q), controls)
    assert of.metric(run)[0] <= of.target
    assert pickle.loads(pickle.dumps(of)).method.ahead.name == "push"


@pytest.mark.parametrize("name", ["sort", "gather", "ant-push"])
def test_other_tasks_in_mujocos_contact(name):
    """Steps are finer, and what is sought is the same, at the same times."""
    of, fine = TASKS[name](), TASKS[name](contact="convex")
    assert isinstance(fine.system.contact, pb.ContactConvex) and fine.find.steps == FINER * of.find.steps
    np.testing.assert_allclose(fine.system.model.timestep * FINER, of.system.model.timestep)
    x = np.random.default_rng(0).normal(size=len(of.begin()[0]))
    ours, theirs = (one.find.decode(one.system, x[None])[0] for one in (of, fine))
    np.testing.assert_allclose(theirs[::FINER], ours, atol=1e-12)
    assert len(fine.easier) == (name == "ant-push") and (fine.method == of.method) == (name != "ant-push")


def test_waves_go_on_from_those_of_an_easier_task():
    easier = slide(waves(40), method=Adam(rate=0.1), iterations=20)
    of = slide(waves(40), easier=(easier,), method=Adam(rate=0.01), iterations=1)
    first, last = solve(of)
    assert np.any(first.x) and np.array_equal(first.x, last.x) and last.losses[0] == first.losses.min()
    assert first.stopped == "iterations spent" and first.metrics.min() < 0.15
    left = solve(of.but(easier=(easier.but(target=0.15, until_solved=True),)))[0]
    assert left.stopped == "target reached" and np.array_equal(left.losses, first.losses[: left.iterations])
