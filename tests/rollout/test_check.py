"""check_system: right gradients pass, wrong ones are found and named, on articulated and on hand-written Systems."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from trees import touching_robot

import pullback as pb
from pullback.core.system import Bars, Named
from pullback.model.robots import ROBOTS
from pullback.rollout.check import AGREES, KINK, NO_INFLUENCE, SKIPPED, WRONG, WrongGradient


def robot(name, **options):
    return pb.Articulated(pb.load(ROBOTS[name]()), contact=None, **options)


class Mass(NamedTuple):
    x: Any
    speed: Any


class Oscillator(pb.System):
    """A damped mass on a hardening spring, by symplectic Euler: x'' = (u - k·x - hard·x³ - c·x')."""

    nu, dtype, device, dt = 1, "float64", "cpu", 0.05

    def __init__(self, worlds=2, **wrong):
        self.worlds, self.wrong = worlds, wrong
        self.params = {"spring": np.array([4.0, 0.7]), "damping": np.array(0.3)}

    def step(self, state, control, params=None):
        p = {**self.params, **(params or {})}
        (k, hard), c = p["spring"], p["damping"]
        if c < 0:
            raise pb.PullbackError("damping must not be negative")
        speed = state.speed + self.dt * (control - k * state.x - hard * state.x**3 - c * state.speed)
        return Mass(state.x + self.dt * speed, speed)

    def pullback(self, state, control, next_bar, params=None):
        p = {**self.params, **(params or {})}
        (k, hard), c = p["spring"], p["damping"]
        speed_bar = next_bar.speed + self.dt * next_bar.x
        force_bar = self.dt * speed_bar
        bars = {
            "x": next_bar.x - force_bar * (k + 3 * hard * state.x**2),
            "speed": speed_bar - c * force_bar,
            "control": force_bar,
            "spring": -np.array([np.sum(force_bar * state.x), np.sum(force_bar * state.x**3)]),
            "damping": -np.sum(force_bar * state.speed),
        }
        for name, change in self.wrong.items():
            bars[name] = change(bars[name])
        x, speed, force = (bars.pop(name) for name in ("x", "speed", "control"))
        return Bars(Mass(x, speed), force, Named(bars))


POINT = Mass(np.array([[0.5], [-1.2]]), np.array([[0.3], [0.8]]))


class Altered(pb.System):
    """Another System, with a pullback that is deliberately wrong."""

    def __init__(self, inner, alter):
        self.inner, self.alter = inner, alter
        self.model, self.params = inner.model, inner.params
        self.worlds, self.nu, self.dtype, self.device = inner.worlds, inner.nu, inner.dtype, inner.device

    def state(self):
        return self.inner.state()

    def in_worlds(self, worlds):
        return self.inner.in_worlds(worlds)

    def step(self, state, control, params=None):
        return self.inner.step(state, control, params)

    def pullback(self, state, control, next_bar, params=None):
        bars = self.inner.pullback(state, control, next_bar, params)
        copies = Bars(
            pb.State(*(x.copy() for x in bars.state)),
            bars.control.copy(),
            Named({name: bar.copy() for name, bar in bars.params.items()}),
        )
        self.alter(copies)
        return copies


@pytest.mark.parametrize("name", ["cartpole", "arm", "quadruped", "humanoid"])
def test_every_gradient_of_a_robot_agrees_at_second_order(name):
    system = robot(name)
    report = pb.check_system(system)
    assert [row.field for row in report.rows] == ["q", "v", "control", *system.params]
    for row in report.rows:
        assert row.status in (AGREES, NO_INFLUENCE), row
        assert row.skipped == 0, row
        assert np.isnan(row.slope) or abs(row.slope - 2) < 0.2, row
    assert report["q"].entries == system.nq and abs(report["q"].slope - 2) < 0.2
    assert report["mass"].entries == system.model.nbody
    # nothing stretches a spring of no stiffness
    assert report["spring_ref"].status == NO_INFLUENCE and "does not matter here" in str(report)


@pytest.mark.parametrize("name", ["cartpole", "quadruped"])
def test_rollout_with_a_cotangent_at_every_state(name):
    system = robot(name)
    report = pb.check_system(system, rollout_steps=5, seed=3)
    assert report["control"].entries == 5 * system.nu
    assert report.worst.error < 1e-7


def test_parameters_of_each_world_their_own():
    system = robot("arm", worlds=2)
    system.params["mass"] = system.params["mass"] * [[1.0], [1.3]]
    report = pb.check_system(system, names=("q", "mass", "damping"))
    assert report["mass"].entries == 2 * system.model.nbody
    assert "(world " in report["q"].worst and "(world " in report["mass"].worst
    assert "world" not in report["damping"].worst


def test_single_precision():
    report = pb.check_system(robot("cartpole", dtype="float32"))
    assert report.tolerance > 1e-3 and report.passed


def test_report_reads_as_a_table():
    text = str(pb.check_system(robot("cartpole")))
    lines = text.splitlines()
    assert lines[0].startswith("gradient of") and "slope" in lines[0] and "worst entry" in lines[0]
    assert any(line.startswith("inertia") and "body 'pole' yy" in line for line in lines)
    assert "largest entry" in lines[-2] and lines[-1].startswith("slope:") and max(map(len, lines)) <= 120


def zero_parameter(bars):
    bars.params["damping"][7] = 0.0


def flip_control(bars):
    bars.control[0, 4] *= -1


def scale_velocity(bars):
    bars.state.v[0, 9] *= 1.001


@pytest.mark.parametrize(
    ("alter", "field", "worst", "index"),
    [
        (zero_parameter, "damping", "joint 'FR_thigh'", (7,)),
        (flip_control, "control", "actuator 'FL_thigh'", (0, 0, 4)),
        (scale_velocity, "v", "joint 'FL_hip'", (0, 9)),
    ],
)
def test_wrong_entry_is_named(alter, field, worst, index):
    with pytest.raises(WrongGradient) as caught:
        pb.check_system(Altered(robot("quadruped"), alter))
    assert isinstance(caught.value, pb.PullbackError)
    assert f"gradient of {field!r} is wrong at {worst}" in str(caught.value)
    wrong = [row for row in caught.value.report.rows if row.status == WRONG]
    assert [(row.field, row.index) for row in wrong] == [(field, index)]
    assert "kink" not in str(caught.value)


def test_small_entry_cannot_hide_behind_a_large_one():
    # the cart's mass moves the gradient by less than the tolerance of the pole's: it is judged by itself
    system = robot("cartpole")

    def zero_least(bars):
        bar = bars.params["mass"]
        bar[np.argmin(np.where(bar == 0, np.inf, abs(bar)))] = 0.0

    with pytest.raises(WrongGradient, match="'mass' is wrong at body"):
        pb.check_system(Altered(system, zero_least), tolerance=0.5)


def test_missing_or_misshapen_cotangents():
    system = robot("cartpole")
    with pytest.raises(pb.PullbackError, match="no cotangent of 'gear'"):
        pb.check_system(Altered(system, lambda bars: bars.params.pop("gear")))
    with pytest.raises(pb.PullbackError, match=r"'mass' has shape \(1,\)"):
        pb.check_system(Altered(system, lambda bars: bars.params.update(mass=np.zeros(1))))
    with pytest.raises(pb.PullbackError, match="nan for 'com' at body 'pole' x"):
        pb.check_system(Altered(system, lambda bars: bars.params["com"].__setitem__((2, 0), np.nan)))


def test_control_at_its_limit_is_called_a_kink():
    row = pb.check_system(robot("cartpole"), control=[[10.0]])["control"]
    assert (row.status, row.worst, row.kink) == (KINK, "actuator 'slide'", True)
    inside, outside = row.sides
    assert outside == 0 and abs(inside - row.analytic) < 1e-9 * abs(inside)
    for factor in (-1.0, 1.01):

        def scale(bars, factor=factor):
            bars.control[...] *= factor

        with pytest.raises(WrongGradient, match=r"'control' is wrong at actuator 'slide'.*has a kink here, with"):
            pb.check_system(Altered(robot("cartpole"), scale), control=[[10.0]])


@pytest.mark.parametrize("count", [1, 4])
def test_hand_written_system(count):
    report = pb.check_system(Oscillator(), POINT, rollout_steps=count)
    assert {row.field: row.entries for row in report.rows} == {
        "x": 2,
        "speed": 2,
        "control": 2 * count,
        "spring": 2,
        "damping": 1,
    }
    assert all(row.status == AGREES for row in report.rows)
    assert abs(report["x"].slope - 2) < 0.1 and report["x"].worst.startswith("x[0] (world ")
    if count == 1:  # linear in these: differences are exact
        assert all(np.isnan(report[name].slope) for name in ("speed", "control", "spring", "damping"))


def test_hand_written_system_that_is_wrong():
    for name, change in {"damping": np.zeros_like, "x": lambda bar: 1.001 * bar, "control": np.negative}.items():
        with pytest.raises(WrongGradient, match=f"gradient of '{name}' is wrong"):
            pb.check_system(Oscillator(**{name: change}), POINT)


def test_parameter_at_its_bound_is_checked_from_one_side():
    system = Oscillator()
    system.params["damping"] = np.array(0.0)
    report = pb.check_system(system, POINT, rollout_steps=3)
    assert report["damping"].status == AGREES and report["damping"].skipped == 0
    assert abs(report["damping"].slope - 2) < 0.2


class Stuck(Oscillator):
    """Refuses any damping but its own."""

    def step(self, state, control, params=None):
        if params and params.get("damping", 0.3) != 0.3:
            raise pb.PullbackError("no other damping")
        return super().step(state, control, params)


def test_entry_that_cannot_be_moved_is_counted_as_skipped():
    row = pb.check_system(Stuck(), POINT)["damping"]
    assert (row.status, row.entries, row.skipped) == (SKIPPED, 0, 1)


@pytest.mark.parametrize("every", [1, 3])
def test_rollout_of_a_hand_written_system(every):
    """Through the loops that any System inherits, with checkpoints and without."""
    system, random, count = Oscillator(), np.random.default_rng(0), 7
    controls = random.standard_normal((count, 2, 1))
    x_bar, speed_bar = random.standard_normal((2, count + 1, 2, 1))

    def loss(state=POINT, controls=controls, params=None):
        states = pb.rollout(system, state, controls, params=params).states
        return np.sum(x_bar * states.x) + np.sum(speed_bar * states.speed)

    run = pb.rollout(system, POINT, controls, checkpoint_every=every)
    assert len(run.x) == len(run.kept) == (8 if every == 1 else 4)
    grads = run.pullback(x_bar=x_bar, speed_bar=speed_bar)
    full = pb.rollout(system, POINT, controls).pullback(x_bar=x_bar, speed_bar=speed_bar)
    np.testing.assert_array_equal(grads.controls, full.controls)
    np.testing.assert_array_equal(grads.state.x, full.state.x)
    np.testing.assert_array_equal(grads.params["spring"], full.params["spring"])

    move = random.standard_normal(controls.shape)
    slope = (loss(controls=controls + 1e-5 * move) - loss(controls=controls - 1e-5 * move)) / 2e-5
    np.testing.assert_allclose(np.sum(grads.controls * move), slope, rtol=1e-8)
    for field in ("x", "speed"):
        start = [POINT._replace(**{field: getattr(POINT, field) + h}) for h in (1e-5, -1e-5)]
        slope = (loss(start[0]) - loss(start[1])) / 2e-5
        np.testing.assert_allclose(np.sum(getattr(grads.state, field)), slope, rtol=1e-8)
    slope = (loss(params={"damping": 0.3 + 1e-5}) - loss(params={"damping": 0.3 - 1e-5})) / 2e-5
    np.testing.assert_allclose(grads.params["damping"], slope, rtol=1e-8)


# kinks, jumps, noise, and entries of different size


class Place(NamedTuple):
    x: Any


class Curve(pb.System):
    """x goes on by the sum of the values of a function at the entries of a parameter; its gradient is a claim."""

    worlds, nu, dtype, device = 1, 0, "float64", "cpu"

    def __init__(self, function, at, gradient):
        self.function, self.params = function, {"a": np.array(at, dtype=float)}
        self.gradient = np.broadcast_to(np.array(gradient, dtype=float), self.params["a"].shape)

    def step(self, state, control, params=None):
        a = {**self.params, **(params or {})}["a"]
        return Place(state.x + np.sum(self.function(a)))

    def pullback(self, state, control, next_bar, params=None):
        return Bars(Place(next_bar.x), None, Named(a=np.sum(next_bar.x) * self.gradient))

    def check(self, x=0.7, **options):
        """The row of the parameter, passed or not."""
        try:
            return pb.check_system(self, Place(np.full((1, 1), x)), **options)["a"]
        except WrongGradient as wrong:
            return wrong.report["a"]


def bent(below, above, at=1.0, curved=0.3):
    """Of slopes ``below`` and ``above`` a kink."""
    return lambda a: np.where(a < at, below, above) * (a - at) + curved * (a - at) ** 2


def slopes_of(row):
    """Of both sides, without the cotangent that they have in the row."""
    scale = np.random.default_rng(0).standard_normal()
    return [side if side is None else side / scale for side in row.sides]


def test_long_steps_beyond_a_kink_do_not_overrule_short_ones():
    # long steps see (1 + 3) / 2, and agree on it to a percent
    for distance in (2e-4, -2e-4):
        right = 1 if distance > 0 else 3
        function = bent(1, 3, 1 + distance, curved=0)
        assert Curve(function, [1.0], right).check().status == AGREES
        for wrong in (0, 2, 4 - right, 1.001 * right):
            assert Curve(function, [1.0], wrong).check().status == WRONG, wrong


def test_zero_is_right_before_a_kink_and_wrong_after_it():
    for distance in (3e-3, 1e-5, 1e-7):
        assert Curve(bent(0, 3, 1 + distance, 0), [1.0], 0).check().status in (AGREES, KINK)
        assert Curve(bent(0, 3, 1 - distance, 0), [1.0], 0).check(steps=(1e-2, 1e-3, 1e-7)).status == WRONG


class Bounded(Curve):
    """Refuses parameters below zero."""

    def step(self, state, control, params=None):
        if np.any({**self.params, **(params or {})}["a"] < 0):
            raise pb.PullbackError("a must not be negative")
        return super().step(state, control, params)


def test_a_jump_from_a_bound_has_no_slope():
    """As restitution has: a body that bounces a little is another matter than one that does not."""
    jump = lambda a: np.where(a > 0, 0.1 + 2 * a, 0.0)  # noqa: E731
    row = Bounded(jump, [0.0], 0).check()
    assert (row.status, row.entries, row.skipped) == (SKIPPED, 0, 1)
    row = Bounded(jump, [0.0, 1.0], [0, 2]).check()
    assert (row.status, row.entries, row.skipped) == (AGREES, 1, 1)
    assert Bounded(jump, [0.0, 1.0], [0, 2.1]).check().status == WRONG
    # without the jump there is a slope, and nothing else will do
    smooth = lambda a: 2 * a + a**2  # noqa: E731
    assert Bounded(smooth, [0.0], 2).check().status == AGREES
    assert Bounded(smooth, [0.0], 0).check().status == WRONG


def test_slopes_of_a_kink():
    for below, above in ((1, 3), (-2, 1), (0, -1), (1e-3, 2e-3)):
        function = bent(below, above)
        for claim in (below, above, below + 0.3 * (above - below)):
            row = Curve(function, [1.0], claim).check()
            assert row.status == KINK and row.kink and row.slope_text == "kink", (below, above, claim)
            np.testing.assert_allclose(slopes_of(row), (below, above), rtol=1e-6, atol=1e-9)
            assert row.error < 1e-6
        span = above - below
        for claim in (below - 0.01 * span, above + 0.01 * span, -3 * above, 5 * above):
            row = Curve(function, [1.0], claim).check()
            assert row.status == WRONG and row.kink, (below, above, claim)


def test_kinks_are_reported_and_do_not_hide_other_entries():
    report = pb.check_system(Curve(bent(1, 3), [1.0, 1.5], [1, 3.3]), Place(np.full((1, 1), 0.7)))
    assert report.passed and report["a"].status == KINK and report["a"].index == (0,)
    lines = str(report).splitlines()
    assert any("<-- kink" in line and " | " in line for line in lines) and lines[-1].startswith("kink: ")
    row = Curve(bent(1, 3), [1.0, 1.5], [1, 3.301]).check()
    assert row.status == WRONG and row.index == (1,) and not row.kink


@pytest.mark.parametrize(("below", "above"), [(-1, 1), (-1, 2), (0.5, 2)])
def test_zero_is_no_slope_of_a_kink_that_has_none(below, above):
    """Also where central differences are zero, by symmetry."""
    for curved in (0.0, 0.3):
        row = Curve(bent(below, above, curved=curved), [1.0], 0).check()
        assert row.status == WRONG and row.kink
    # a smooth minimum, however sharp, is none
    for sharp in (1.0, 1e4):
        assert Curve(lambda a, sharp=sharp: sharp * (a - 1) ** 2, [1.0], 0).check().status in (AGREES, NO_INFLUENCE)


def test_edge_of_a_jump():
    def step_up(a):
        return np.where(a > 1, 2.0, 0.0) + 0.5 * a + a**2

    def step_down(a):
        return np.where(a >= 1, 2.0, 0.0) + 0.5 * a + a**2

    for steps in (None, (1e-5, 1e-6)):
        for function, sides in ((step_up, [2.5, None]), (step_down, [None, 2.5])):
            row = Curve(function, [1.0, 0.3], [2.5, 1.1]).check(steps=steps)
            assert row.status == KINK and row.index == (0,) and "jump" in row.sides_text
            assert [None if x is None else round(x, 5) for x in slopes_of(row)] == sides
            for wrong in (0.0, 2.51, -2.5, 100.0):
                assert Curve(function, [1.0, 0.3], [wrong, 1.1]).check(steps=steps).status == WRONG
            # the quotients of the jump are large, and no measure for the other entry
            assert Curve(function, [1.0, 0.3], [2.5, 1.1001]).check(steps=steps).status == WRONG


@pytest.mark.parametrize("width", [1.0, 1e-2, 1e-4, 1e-6, 1e-7])
def test_sharp_bends_that_are_smooth_are_no_kinks(width):
    """A slope that goes from 1 to 3 over a width, which the shortest steps resolve."""

    def function(a):
        return 2 * a + width * np.logaddexp((a - 1) / width, -(a - 1) / width)

    for at in (1.0, 1 + 0.3 * width):
        right = 2 + np.tanh((at - 1) / width)
        assert Curve(function, [at], right).check(tolerance=1e-4).status == AGREES
        for wrong in (right + 0.01, right - 0.3, 0.0):
            row = Curve(function, [at], wrong).check(tolerance=1e-4)
            assert row.status == WRONG and not row.kink, (at, wrong)


def test_kink_of_the_second_derivative_is_none():
    # central differences have an error of first order in the step
    function = lambda a: 0.4 * a + np.where(a > 1, 2000.0, 0.0) * (a - 1) ** 2  # noqa: E731
    assert Curve(function, [1.0], 0.4).check().status == AGREES
    for wrong in (0.40002, 0.42, 0.0, -0.4):
        assert Curve(function, [1.0], wrong).check().status == WRONG


def test_residuals_are_no_gradients():
    """A solver's residual changes with what is varied, by next to nothing, and the pullback of it is no better."""
    ones = np.ones((2, 2))
    slopes = np.array([[30.0, 2e-13], [1e-12, -0.02]])
    claim = np.array([[30.0, -4e-12], [1e-16, -0.02]])
    for x in (0.7, -np.sum(slopes)):  # then forces cancel: the next x is zero, but not more exact for that
        row = Curve(lambda a: slopes * a, ones, claim).check(x)
        assert row.status == AGREES and row.error < 1e-9
    for x in (0.7, 0.0):
        assert Curve(lambda a: 1e-15 * (slopes * (a - 1)), ones, 0.8e-15 * slopes).check(x).status == NO_INFLUENCE
    # what is above that is judged by its own size
    slopes[0, 1], claim[0, 1] = 1e-6, 0.0
    row = Curve(lambda a: slopes * a, ones, claim).check()
    assert row.status == WRONG and row.index == (0, 1)


def test_rounding_does_not_explain_an_error_that_it_is_smaller_than():
    # beside a state of a thousand, no step size shows a slope of 1e-4 to the tolerance
    for factor, status in ((1.0, AGREES), (1.001, WRONG), (0.9, WRONG)):
        assert Curve(lambda a: 1e-4 * np.sin(a), [1.0], factor * 1e-4 * np.cos(1.0)).check(1e3).status == status


def test_noise_of_the_loss_is_measured():
    """What a solver leaves may be far above rounding; right gradients are right all the same, and wrong ones wrong."""
    for noise, off in ((1e-8, 1e-2), (1e-10, 1e-3), (0.0, 2e-6)):
        function = lambda a, noise=noise: np.sin(a) + noise * np.sin(1e13 * a)  # noqa: E731
        right = np.cos(np.array([0.4, 1.0]))
        assert Curve(function, [0.4, 1.0], right).check().status == AGREES
        row = Curve(function, [0.4, 1.0], right * [1, 1 - off]).check()
        assert row.status == WRONG and row.index == (1,), noise


def test_hand_written_system_in_single_precision():
    system, state = Oscillator(), Mass(*(x.astype("float32") for x in POINT))
    system.dtype = "float32"
    assert {row.status for row in pb.check_system(system, state).rows} == {AGREES}
    wrong = Oscillator(x=lambda bar: 1.1 * bar)
    wrong.dtype = "float32"
    with pytest.raises(WrongGradient, match="gradient of 'x' is wrong"):
        pb.check_system(wrong, state)


def test_nothing_to_check():
    assert pb.check_system(Oscillator(), POINT, names=()).rows == ()


def test_entries_are_moved_by_their_own_size():
    at = np.array([[0.9, 0.95, 3e-4, 0.5, 2.0]])
    right = np.where(at < 0.1, 400 * np.cos(at / 3e-4), np.cos(at))
    function = lambda a: np.where(np.abs(a) < 0.1, 0.12 * np.sin(a / 3e-4), np.sin(a))  # noqa: E731
    row = Curve(function, at, right).check()
    assert row.status == AGREES and abs(row.slope - 2) < 0.1
    right[0, 2] *= 1 + 1e-5
    row = Curve(function, at, right).check()
    assert row.status == WRONG and row.index == (0, 2)
    # zeros, and what rounding leaves of them, are moved by the size of their vector
    seen = []
    Curve(lambda a: (seen.append(a.copy()), np.sin(a))[1], [[1.0, 0.0, 1e-17]], np.cos([[1.0, 0.0, 0.0]])).check()
    np.testing.assert_allclose(np.abs(seen).max(axis=(0, 1)), [1.03, 0.03, 0.03])


# the same with contacts


def resting(joint=""):
    """A box that has come to rest on a plane."""
    system = pb.Articulated(
        pb.load(f"""<mujoco><option timestep="0.004"/><worldbody><geom type="plane" size="5 5 1"/>
        <body pos="0 0 0.1"><joint type="free" {joint}/><geom type="box" size="0.1 0.12 0.1"/></body>
        </worldbody></mujoco>""")
    )
    return system, pb.rollout(system, system.state(), np.zeros((600, 1, 0)), checkpoint_every=600).final


def altered_row(system, name, index, change, state, **options):
    def alter(bars):
        bar = getattr(bars.state, name) if name in ("q", "v") else bars.params[name]
        bar[index] = change(bar[index])

    try:
        return pb.check_system(Altered(system, alter), state, names=(name,), **options)[name]
    except WrongGradient as wrong:
        return wrong.report[name]


def test_box_at_rest():
    system, state = resting()
    report = pb.check_system(system, state)
    # entries of both shapes are the same, and the larger counts
    assert {row.field for row in report.rows if row.status == KINK} == {"friction"}
    assert report["armature"].status == NO_INFLUENCE
    entries = {"q": (0, 2), "geom_size": (1, 2), "solimp": (0, 2), "solref": (1, 0), "friction": (0, 0)}
    for name, index in entries.items():
        for change in (lambda x: 0 * x, lambda x: -x, lambda x: 2.5 * x):
            row = altered_row(system, name, index, change, state)
            if row.status != WRONG:  # a slope from one side is no error
                assert name == "friction" and row.status == KINK and row.analytic == 0 and row.sides[0] == 0
            else:
                assert row.index == index


BALL = """<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="1 1 1"/>
  <body><freejoint/><geom size="0.1" mass="1" friction="1.3"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(("height", "kinks"), [
    (0.1, {"q", "geom_pos", "geom_size"}),  # touches exactly, which is not yet a contact
    (0.1 - 1e-5, {"solref"}),  # of which the time constant is that of two steps
    (0.1 - 1e-3, {"solref"}),  # deep by the width of the impedance, where only its second derivative has a kink
    (0.1 + 1e-5, set()),
])  # fmt: skip
def test_ball_that_just_touches(height, kinks):
    system = pb.Articulated(pb.load(BALL))
    state = system.state([0, 0, height, 1, 0, 0, 0], [0.3, 0.1, -0.2, 1, 2, 3])
    report = pb.check_system(system, state)
    assert {row.field for row in report.rows if row.status == KINK} == kinks
    for name, index in {"q": (0, 2), "geom_size": (1, 0), "geom_pos": (1, 2), "solref": (1, 0)}.items():
        if report[name].largest == 0 or report[name].analytic == 0:
            continue
        for change in (lambda x: -x, lambda x: 1.001 * x):
            row = altered_row(system, name, index, change, state)
            assert row.status == WRONG and row.index == index, name
        if name != "solref":
            assert altered_row(system, name, index, lambda x: 0 * x, state).status == WRONG


LIMITED = """<mujoco><option timestep="0.004"/><default><geom contype="0" conaffinity="0"/>
  <joint axis="0 1 0" range="-20 30" frictionloss="0.3" damping="0.02"/></default><worldbody>
  <body><joint name="hip"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>{}</body></worldbody></mujoco>"""
SHANK = '<body pos="0.3 0 0"><joint name="knee"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/></body>'


def test_leg_that_long_steps_would_make_slip():
    """Armature by much is another regime of the friction loss; differences of two such steps agree with each other."""
    system = pb.Articulated(pb.load(LIMITED.format(SHANK)))
    for q, seed in (((-0.05, -0.12), 37), ((-0.05, 0.005), 49), ((-0.12, 0.19), 55)):
        state = system.state(q)
        assert pb.check_system(system, state, seed=seed)["armature"].status == AGREES
        for change in (lambda x: 1.15 * x, lambda x: 0 * x, lambda x: 1.0001 * x):
            row = altered_row(system, "armature", (1,), change, state, seed=seed)
            assert row.status == WRONG and row.index == (1,)


@pytest.mark.parametrize(("seed", "names"), [(24, ("inertia", "geom_quat")), (42, ("v",)), (68, ("control",))])
def test_gradients_that_are_small_beside_the_loss(seed, names):
    """Was wrong: differences of impulses are noise at short steps, and long steps, which know better, did not count."""
    text, q, v, control = touching_robot(seed)
    system = pb.Articulated(pb.load(text), pb.ContactImpulse())
    report = pb.check_system(system, system.state(q, v), control[None], seed=seed, names=names)
    assert {row.status for row in report.rows} == {AGREES} and all(row.largest > 0 for row in report.rows)


@pytest.mark.parametrize("contact", [pb.ContactImpulse(), pb.ContactConvex(), pb.ContactCompliant()])
def test_small_errors_are_found(contact):
    text, q, v, _ = touching_robot(24)
    system = pb.Articulated(pb.load(text), contact)
    for name, index in {"joint_axis": (1, 0), "joint_range": (0, 0), "mass": (2,)}.items():
        for change, status in ((1.0, AGREES), (1.0001, WRONG)):
            row = altered_row(system, name, index, lambda x, change=change: change * x, system.state(q, v), seed=24)
            assert row.status == status, (name, change)
            assert row.index == index or status == AGREES


def test_hinge_at_its_limit():
    system = pb.Articulated(pb.load(LIMITED.format("")))
    limit = system.params["joint_range"][0, 1]
    for offset, kinks in ((0.0, {"q", "joint_range"}), (1e-5, set()), (-1e-5, set()), (0.03, set())):
        state = system.state([limit + offset], [0.2])
        report = pb.check_system(system, state)
        assert {row.field for row in report.rows if row.status == KINK} == kinks
        for change in (lambda x: 0 * x, lambda x: -x, lambda x: 1.001 * x):
            assert altered_row(system, "q", (0, 0), change, state).status == WRONG
    assert altered_row(system, "joint_range", (0, 1), lambda x: x + 0.1, system.state([limit])).status == WRONG


def test_bad_arguments():
    system = robot("cartpole")
    with pytest.raises(pb.PullbackError, match="nothing called 'mas' to check; there are q, v, control, mass"):
        pb.check_system(system, names=("mas",))
    with pytest.raises(pb.PullbackError, match="rollout_steps"):
        pb.check_system(system, rollout_steps=0)
    with pytest.raises(pb.PullbackError, match="control has shape"):
        pb.check_system(system, control=np.zeros((1, 3)))
    with pytest.raises(pb.PullbackError, match="steps must be positive"):
        pb.check_system(system, steps=(1e-3, 0.0))
    with pytest.raises(pb.PullbackError, match=r"it has no state\(\) of its own"):
        pb.check_system(Oscillator())
