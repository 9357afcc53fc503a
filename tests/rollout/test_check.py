"""check_system: right gradients pass, wrong ones are found and named, on articulated and on hand-written Systems."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from wrong_pullback import Altered

import pullback as pb
from pullback.core.bars import Bars, Named
from pullback.model.robots import ROBOTS
from pullback.rollout.check import AGREES, KINK, NO_INFLUENCE, SKIPPED, WRONG, Report, Row, WrongGradient


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
    assert report["spring_ref"].status == NO_INFLUENCE and "no influence here" in str(report)


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


def test_rough_differences_are_marked():
    rows = [Row("cfm", AGREES, 1, 0, "cfm", (0,), 0.366226, 0.36624, 0.0, 0.37, np.nan, False, rough=r) for r in (0, 1)]
    sharp, rough = (str(Report((row,), 1e-6, 1)) for row in rows)
    assert "  0.36624" in sharp and "~" not in sharp
    assert "~0.36624" in rough and rough.splitlines()[-1].startswith("~: differences are noisy here")
    assert max(map(len, rough.splitlines())) <= 120


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
