"""What the tasks of heat are made of: schedules, networks, the melt pool, time in a band, and what is written."""

import json

import numpy as np
import pytest

import pullback as pb
from pullback import thermal
from pullback.cli import main
from pullback.plan import CONVERGED
from pullback.tasks import TASKS, Loss, Network, Schedule, Task, Timing, always_on, pareto, pauses, solve
from pullback.tasks.heat_treatment import BAND, WANTED
from pullback.tasks.laser_history import hidden_power
from pullback.tasks.melt_pool import FLAT, Columns, plate
from pullback.tasks.pareto import undominated
from pullback.tasks.timing import crossing
from pullback.view import load_motion


def small_heat() -> thermal.Heat:
    mesh = thermal.block((4e-3, 3e-3, 2e-3), (4, 3, 2))
    path = thermal.follow([(0, 1.5e-3, 2e-3), (4e-3, 1.5e-3, 2e-3)], speed=1e-2)
    return thermal.Heat(mesh, thermal.steel_316l(), path, dt=0.01)


@pytest.mark.parametrize(
    "find",
    [
        Schedule(17, (100.0, 1.0, 1e-3), (0, 1), 4, scale=(50.0, 0.1), low=(0, 0.5), high=(300, 2), start=(90, 1.1)),
        Network(17, (100.0, 1.0, 1e-3), 0, 200.0, width=5),
    ],
    ids=["schedule", "network"],
)
def test_controls_and_their_way_back(find):
    """Every variable, in two worlds, against differences of the controls themselves."""
    heat, random = small_heat().in_worlds(2), np.random.default_rng(0)
    x, low, high = find.begin(heat)
    assert np.all((x >= low) & (x <= high))
    points = x + 0.1 * random.standard_normal((2, len(x)))
    controls, params = find.decode(heat, points)
    assert controls.shape == (17, 2, 3) and not params
    assert np.all(controls[..., 2] == 1e-3), "the radius is not looked for"
    bar = random.standard_normal(controls.shape)
    pulled = find.pull(heat, points, pb.Bars(None, bar, {}))
    for i in range(len(x)):
        move = 1e-6 * np.eye(len(x))[i]
        up, down = (find.decode(heat, points + sign * move)[0] for sign in (1, -1))
        np.testing.assert_allclose(pulled[:, i], ((up - down) * bar).sum(axis=(0, 2)) / 2e-6, rtol=1e-6, atol=1e-7)
    assert np.abs(pulled).max() > 1


def test_a_schedule_is_linear_in_its_knots():
    heat, find = small_heat(), Schedule(9, (100.0, 1.0, 1e-3), (0,), 3, scale=10.0)
    controls, _ = find.decode(heat, np.array([[1.0, 3.0, 2.0]]))
    np.testing.assert_allclose(controls[:, 0, 0], [10, 15, 20, 25, 30, 27.5, 25, 22.5, 20])
    tangents = find.push(heat, np.zeros((1, 3)))["controls"]
    np.testing.assert_allclose(tangents[:, 0] @ [1.0, 3.0, 2.0], controls[:, 0] * (1, 0, 0), atol=1e-12)


@pytest.mark.parametrize(("change", "message"), [({"knots": 1}, "knots"), ({"columns": (3,)}, "columns")])
def test_schedules_that_cannot_be(change, message):
    with pytest.raises(pb.PullbackError, match=message):
        Schedule(**{"steps": 9, "base": (1.0, 1.0, 1.0), "columns": (0,), "knots": 3} | change)


# --- the melt pool ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def columns():
    return Columns(plate().mesh, 1500.0)


def test_the_depth_of_a_known_field(columns):
    """A temperature that is linear in x, y and depth has its isotherm where that says."""
    nodes = plate().mesh.nodes
    T = 2000 + 2e4 * nodes[:, 0] - 3e4 * nodes[:, 1] + 1e6 * nodes[:, 2]
    places = np.random.default_rng(0).uniform((1e-3, 1e-3, 0), (7e-3, 4e-3, 0), (20, 1, 3))
    velocity = np.full((20, 1, 3), 0.01)
    pool = columns.pool(np.broadcast_to(T, (20, 1, len(T))), places, velocity)
    np.testing.assert_allclose(pool.depth, (500 + 2e4 * places[..., 0] - 3e4 * places[..., 1]) / 1e6, rtol=1e-9)
    np.testing.assert_allclose(pool.by_path, (2e4 - 3e4) * 0.01 / 1e6, rtol=1e-9)


def test_slopes_of_the_depth(columns):
    random, nodes = np.random.default_rng(1), plate().mesh.nodes
    T = 1900 + 8e5 * nodes[:, 2] + random.uniform(-40, 40, len(nodes))
    places, velocity = np.array([[[3.1e-3, 2.2e-3, 0.0]]]), np.array([[[0.01, -0.02, 0.0]]])
    pool = columns.pool(T[None, None], places, velocity)
    slopes = np.zeros(len(T))
    np.add.at(slopes, pool.nodes[0, 0], pool.slopes[0, 0])
    way = random.standard_normal(len(T))
    up, down = (columns.pool((T + e * way)[None, None], places, velocity).depth for e in (1e-4, -1e-4))
    assert (up - down)[0, 0] / 2e-4 == pytest.approx(slopes @ way, rel=1e-6) and abs(slopes @ way) > 1e-9
    up, down = (columns.pool(T[None, None], places + e * velocity, velocity).depth for e in (1e-5, -1e-5))
    assert (up - down)[0, 0] / 2e-5 == pytest.approx(pool.by_path[0, 0], rel=1e-6) and abs(pool.by_path[0, 0]) > 1e-6


def test_the_depth_is_continuous_where_the_surface_just_melts(columns):
    nodes = plate().mesh.nodes
    T = 1500 + 1e6 * nodes[:, 2]
    place, still = np.array([[[4e-3, 2e-3, 0.0]]]), np.zeros((1, 1, 3))
    depths = [columns.pool((T + e)[None, None], place, still).depth[0, 0] for e in (-1.0, 0.0, 1.0)]
    np.testing.assert_allclose(depths, [-1e-6, 0, 1e-6], atol=1e-12)
    with pytest.raises(pb.PullbackError, match="molten through at row 0"):
        columns.pool(np.full((1, 1, len(T)), 1600.0), place, still)


@pytest.mark.parametrize(("surface", "below"), [(300.0, 300.0), (900.0, 1100.0), (1400.0, 1370.0), (1400.0, 1200.0)])
def test_a_cold_plate_has_a_depth_with_a_slope(columns, surface, below):
    """Flat, colder on top than below, and falling by less and by more than what counts as flat."""
    nodes = plate().mesh.nodes
    T = np.where(nodes[:, 2] > -1e-9, surface, below)
    place, still = np.array([[[4.1e-3, 2.2e-3, 0.0]]]), np.zeros((1, 1, 3))
    pool = columns.pool(T[None, None], place, still)
    assert pool.depth[0, 0] == pytest.approx(-0.2e-3 * (1500 - surface) / max(surface - below, FLAT))
    slopes = np.zeros(len(T))
    np.add.at(slopes, pool.nodes[0, 0], pool.slopes[0, 0])
    way = np.random.default_rng(2).standard_normal(len(T))
    up, down = (columns.pool((T + e * way)[None, None], place, still).depth for e in (1e-3, -1e-3))
    assert (up - down)[0, 0] / 2e-3 == pytest.approx(slopes @ way, rel=1e-6) and abs(slopes @ way) > 1e-9


# --- several objectives -----------------------------------------------------------------------------------------------


def two_goals(more: float = 0.0, **options):
    """The front of two objectives: squares of the distance of a control from two goals, the first and so much more."""
    heat = small_heat()
    goals = np.array([80.0, 120.0])
    find = Schedule(6, (100.0, 1.0, 1e-3), (0,), 2, scale=10.0)

    def towards(goal: float, more: float = 0.0):
        def loss(run) -> Loss:
            bar = np.zeros(run.controls.shape)
            bar[..., 0] = 2 * (run.controls[..., 0] - goal) / 6
            value = ((run.controls[..., 0] - goal) ** 2).mean(axis=0) + more
            return Loss(value, {"T_bar": np.zeros(run.T.shape)}, bar)

        return loss

    of = Task(
        name="two", about="", system=heat, start=heat.state(), find=find, loss=towards(80.0),
        metric=lambda run: np.ones(run.system.worlds), target=0.0,
    )  # fmt: skip
    objectives = {"low": towards(goals[0], more), "high": towards(goals[1])}
    return pareto(of, objectives, divisions=4, iterations=25, **options), goals


def test_a_front_of_two_objectives_with_a_known_one():
    """What is best for any weights lies on the straight line between the goals."""
    front, goals = two_goals()
    assert front.best.all() and len(front.best) == 5
    wanted = front.weights @ goals
    np.testing.assert_allclose(10 * front.x, np.repeat(wanted[:, None], 2, axis=1), rtol=1e-5)
    np.testing.assert_allclose(front.values, (wanted[:, None] - goals) ** 2, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(front.units, np.ptp(front.values, axis=0), rtol=1e-3)


def test_a_front_is_weighed_by_its_extent():
    """An objective that has a large part which cannot be changed is not neglected."""
    once, (later, goals) = two_goals(1000.0, rounds=1)[0], two_goals(1000.0)
    assert 10 * once.x[2].mean() == pytest.approx(80 + 40 * 1400 / 1800, rel=1e-3)
    assert 10 * later.x[2].mean() == pytest.approx(goals.mean(), abs=2)


def test_what_is_surpassed_is_not_on_the_front():
    values = np.array([(1, 5), (2, 2), (5, 1), (3, 3), (2, 2)])
    np.testing.assert_array_equal(undominated(values), [True, True, True, False, True])


def test_gradients_of_the_timing_where_nothing_bends():
    """At a speed at which the laser is at no corner at the end of any step."""
    of = TASKS["melt-pool-timing"]()
    random = np.random.default_rng(1)
    x = 0.95 * of.begin()[0] + 0.05 * random.standard_normal(len(of.begin()[0]))
    way = random.standard_normal(len(x))
    slope = float(of(x[None], True).gradients[0] @ way)
    up, down = of(np.stack([x + 1e-5 * way, x - 1e-5 * way]), False).losses
    assert slope == pytest.approx((up - down) / 2e-5, rel=1e-6) and abs(slope) > 1e-3


# --- the others -------------------------------------------------------------------------------------------------------


def test_time_in_the_band_is_that_of_a_clock():
    of = TASKS["heat-treatment"]()
    run = of.run(of.begin()[0])
    names = [curve.values for curve in of.curves(run) if curve.name == "probes"][0]
    worst = 0.0
    for name, T in names.items():
        counted = of.system.dt * np.sum((T > BAND[0]) & (T < BAND[1]))
        told = float(name.split(": ")[1].split()[0])
        assert told == pytest.approx(counted, abs=0.35), "the edges are smeared out"
        worst = max(worst, abs(told / WANTED - 1))
    assert of.metric(run)[0] == pytest.approx(100 * worst, abs=0.6)


@pytest.fixture(scope="module")
def material():
    return TASKS["identify-material"](seed=3)


def test_residuals_of_heat_go_both_ways(material):
    """The gradient of the pullback is that of the Jacobian, which is made by differences; of every variable."""
    x = np.random.default_rng(0).uniform(-0.1, 0.1, (1, 4))
    pulled, squared = material(x, True), material(x, True, True)
    np.testing.assert_allclose(squared.gradients, pulled.gradients, rtol=1e-5)
    np.testing.assert_array_equal(squared.losses, pulled.losses)
    up, down = (material.loss(material.run(x + sign * 1e-4 * np.eye(4))).values for sign in (1, -1))
    jacobian = ((up - down) / 2e-4).transpose(1, 0, 2).reshape(4, -1)
    np.testing.assert_allclose(squared.curvatures[0], jacobian @ jacobian.T, rtol=1e-5)
    assert np.abs(pulled.gradients).min() > 1


def test_what_is_not_there_yet_is_no_residual(material):
    found = material.loss(material.run(material.begin()[0]))
    assert 0.8 * found.values.size < found.count == np.count_nonzero(found.values) < found.values.size


def test_a_material_is_found_within_its_intervals(material):
    found = solve(material, target=None)[-1]
    known = material.estimate(found.x)
    assert found.stopped == CONVERGED and found.metrics[found.best] < 1
    assert known.noise == pytest.approx(1, abs=0.05), "in units of that of the thermometers"
    assert known.covers_all(material.truth) and not known.undetermined
    assert np.all(known.high / known.low < 1.02)
    assert not known.covers_all(1.05 * material.truth)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TASKS["laser-history"](seed=-1), "seed must be"),
        (lambda: TASKS["laser-history"](steps=1.5), "steps must be"),
        (lambda: TASKS["identify-material"](seed=0.5), "seed must be"),
        (lambda: TASKS["melt-pool"](by=["power"]), "by must be one of"),
        (lambda: Network(9, (1.0, 1.0), 0, 1.0, seed=-1), "seed must be"),
        (lambda: Network(9, (1.0, 1.0), 2, 1.0), "column of a Network"),
        (lambda: Schedule(9.5, (1.0, 1.0), (0,), 3), "steps of a Schedule"),
        (lambda: pareto(None, [1, 2]), "by name"),
        (lambda: pareto(None, {"a": 1, "b": 2}, divisions=0), "divisions"),
    ],
)
def test_slips_are_one_line(make, message):
    with pytest.raises(pb.PullbackError, match=message) as slip:
        make()
    assert "\n" not in str(slip.value)


def test_another_seed_is_another_curve():
    assert np.ptp(hidden_power(500, 3)) > 50
    np.testing.assert_array_equal(hidden_power(500, 3), hidden_power(500, 3))
    assert np.linalg.norm(hidden_power(500, 3) - hidden_power(500, 4)) > 100


def test_optimize_writes_a_part_that_can_be_looked_at(tmp_path, capsys):
    assert main(["optimize", "heat-treatment", "--out", str(tmp_path / "out"), "--iterations", "2", "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert [name.rsplit("/")[-1] for name in summary["pictures"]] == ["probes.png", "power.png"]
    with np.load(tmp_path / "out" / "result.npz") as held:
        assert len(held["steps"]) == len(held["T"]) == 300 and held["controls"].shape == (1000, 1, 3)
        assert held["dt"] > 0
    drawing = load_motion(tmp_path / "out")
    assert drawing.paint_unit == "K" and drawing.paint.max() == 255
    assert (tmp_path / "out" / "replay.html").stat().st_size > 1e5


# --- timing -----------------------------------------------------------------------------------------------------------


def a_line_a_pause_a_line(**changes) -> Timing:
    path = thermal.Toolpath(
        [0, 0.2, 0.5, 0.6, 0.8],
        [(0, 1.5e-3, 2e-3), (2e-3, 1.5e-3, 2e-3), (2e-3, 1.5e-3, 2e-3), (2e-3, 1.5e-3, 2e-3), (4e-3, 1.5e-3, 2e-3)],
        [1, 0, 0, 1, 0],
    )
    given = {"pieces": (0, 1), "power": 100.0, "radius": 1e-3, "low": 0.05, "high": 0.5, "start": 0.2, "ramp": 0.03}
    return Timing(**{"steps": 140, "dt": 0.01, "toolpath": path} | given | changes)


def test_a_clock_with_pauses():
    """Time on the path and energy are those of the durations, whatever the steps are."""
    heat, find = small_heat(), a_line_a_pause_a_line()
    controls, _ = find.decode(heat, np.array([[0.15, 0.337]]))
    s = 0.01 * np.concatenate([[0], np.cumsum(controls[:, 0, 1])])
    times = 0.01 * np.arange(141)
    begins = [0, 0.15, 0.487, 0.587, 0.787]
    inside = times < begins[-1]
    np.testing.assert_allclose(s[inside], np.interp(times[inside], begins, find.toolpath.times), atol=1e-12)
    np.testing.assert_allclose(s[~inside], 0.8 + times[~inside] - begins[-1], atol=1e-12)
    assert 0.01 * controls[:, 0, 0].sum() == pytest.approx(100 * (0.15 - 0.03 / 8 + 0.2)), (
        "half a ramp before the start"
    )
    at = crossing(s[:, None], 0.5, 0.01)
    assert 0.01 * (at.row[0] + at.share[0]) == pytest.approx(0.487)
    assert pauses(find.toolpath) == (1, 2)


@pytest.mark.parametrize("offset", [-2e-3, -1e-5, 1e-5, 2e-3], ids=["before", "just before", "just after", "after"])
def test_durations_have_slopes_on_both_sides_of_a_step(offset):
    """A pause that ends at a step, exactly but for the offset; of what a part feels of it, in float64."""
    mesh = thermal.block((4e-3, 3e-3, 2e-3), (4, 3, 2))
    find = a_line_a_pause_a_line()
    heat = thermal.Heat(mesh, thermal.steel_316l(), always_on(find.toolpath), dt=0.01, spot_radius=1e-3)
    weights = np.random.default_rng(0).standard_normal((1, heat.n))

    def loss(run) -> Loss:
        T = run.T[60]
        T_bar = np.zeros(run.T.shape)
        T_bar[60] = weights
        return Loss((weights * T).sum(axis=1), {"T_bar": T_bar})

    of = Task(
        name="timing", about="", system=heat, start=heat.state(), find=find, loss=loss,
        metric=lambda run: np.ones(run.system.worlds), target=0.0,
    )  # fmt: skip
    x = np.array([0.153, 0.247 + offset])
    slopes = of(x[None], True).gradients[0]
    for step in (1e-6, 3e-6):
        beside = np.concatenate([x + step * np.eye(2), x - step * np.eye(2)])
        up, down = of(beside, False).losses.reshape(2, 2)
        np.testing.assert_allclose(slopes, (up - down) / (2 * step), rtol=1e-5)
    assert np.abs(slopes).min() > 1


def test_pauses_that_find_their_limit():
    """The slopes of the task, over less than a step and over several."""
    of = TASKS["dwell"]()
    x = np.array([1.4131, 2.8217, 4.9342, 9.1273])
    slopes = of(x[None], True).gradients[0]
    for step, tolerance in ((1e-5, 1e-7), (0.04, 3e-3)):
        up, down = of(np.concatenate([x + step * np.eye(4), x - step * np.eye(4)]), False).losses.reshape(2, 4)
        np.testing.assert_allclose(slopes, (up - down) / (2 * step), atol=tolerance)
    assert slopes.min() > 4e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [({"pieces": (1, 0)}, "must rise"), ({"pieces": (4,)}, "0 to 3"), ({"low": 0.0}, "0 < low"), ({"ramp": 0}, "ramp"),
     ({"high": 9.0}, "more steps")],
)  # fmt: skip
def test_timings_that_cannot_be(change, message):
    with pytest.raises(pb.PullbackError, match=message):
        a_line_a_pause_a_line(**change)
