"""Physics and weights fitted together: derivatives, what is found, intervals, resuming, recordings that do not fit."""

import numpy as np
import pytest
import torch

import pullback as pb
from pullback import neural
from pullback.neural.fit import WindowLoss, plain_of
from pullback.neural.recording import cut
from pullback.neural.unknowns import Unknowns
from pullback.plan import LBFGS, Adam, GaussNewton, minimise
from pullback.plan.problem import Found

ROBOT = """<mujoco><option timestep="0.01"/><worldbody>
  <body name="arm"><joint name="hinge" axis="0 1 0" damping="0.002"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="0.3"/></body></worldbody>
  <actuator><motor name="push" joint="hinge" gear="0.2"/></actuator></mujoco>"""
TOSSED = """<mujoco><option timestep="0.01"/><worldbody>
  <body name="one"><freejoint name="float"/><geom type="box" size="0.1 0.06 0.04" mass="1"/>
    <body name="two"><joint name="hinge" axis="0 1 0" damping="0.01"/>
      <geom type="box" size="0.02 0.02 0.1" pos="0 0 0.2" mass="0.3"/></body></body></worldbody></mujoco>"""
MASS = {"mass": [("mass", 1), ("inertia", 1)]}
HIDDEN = 1.2  # times the mass that the file says
NOISE = np.array([1e-4, 2e-3])


def arm() -> pb.Articulated:
    return pb.Articulated(pb.load(ROBOT), contact=None)


def drag(v):
    """What the model does not know [N·m]."""
    return -0.02 * np.tanh(v / 0.3)


class Known(torch.nn.Module):
    """The same, as a module without weights."""

    def forward(self, v):
        return -0.02 * torch.tanh(v / 0.3)


def record(seed: int, rows: int = 60, noise=NOISE, friction=drag, **about) -> neural.Recording:
    plain, rng = arm(), np.random.default_rng(seed)
    params = {name: np.array(plain.params[name]) for name in ("mass", "inertia")}
    for value in params.values():
        value[1] *= HIDDEN
    controls = rng.uniform(-1, 1) * np.sin(rng.uniform(3, 9) * 0.01 * np.arange(rows))[:, None]
    state, states = plain.state(rng.uniform(-1.5, 1.5, 1)), []
    for control in [*controls, None]:
        states.append(state)
        if control is not None:
            state = plain.step(state, control[None], params, inputs={"force": friction(state.v)})
    q, v = (np.concatenate(x) for x in zip(*states, strict=True))
    off = np.zeros(2) if noise is None else noise
    measured = pb.State(q + off[0] * rng.normal(size=q.shape), v + off[1] * rng.normal(size=v.shape))
    return neural.Recording(measured, controls, **about)


def hybrid(system=None, **options) -> neural.Residual:
    options = {"reads": ("v",), "adds": "force", "scale": 0.02} | options
    return neural.Residual(system or arm(), (4,), **options)


def loss_of(system, recordings, physics, length=6, hold=1, penalty=1e-3) -> WindowLoss:
    names = tuple(name for name in system.params if name.startswith("net."))
    unknowns = Unknowns(system, physics, names)
    given = [recording.fitted(plain_of(system))[:2] for recording in recordings]
    n = system.difference(*[pb.State(*(x[:1] for x in given[0][0]))] * 2).shape[-1]
    return WindowLoss(system, unknowns, cut(given, length, 5), None, hold, 1 / np.linspace(0.1, 0.2, n), penalty)


def tossed() -> tuple:
    """A free body with a hinged one on it, whose coordinates have a quaternion."""
    system = neural.Residual(pb.Articulated(pb.load(TOSSED), None), (3,), reads=("q", "v"), adds="wrench", on=("two",))
    rng = np.random.default_rng(3)
    for name in system.params:
        if name.startswith("net."):
            system.params[name] = 0.3 * rng.normal(size=system.params[name].shape)
    motions = []
    for _ in range(2):
        run = pb.rollout(system, system.state(system.model.q0, rng.normal(size=7)), np.zeros((12, 1, 0)))
        q, v = run.q[:, 0] + 0.02 * rng.normal(size=(13, 8)), run.v[:, 0] + 0.02 * rng.normal(size=(13, 7))
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
        motions.append(neural.Recording(pb.State(q, v)))
    return system, motions, {"mass": [("mass", 2), ("inertia", 2)], "com": ("com", (2, 0), "sum")}


@pytest.mark.parametrize("hold", [1, 2])
def test_gradient_and_curvature(hold):
    """Gradients of the pullback and of the sensitivities are differences of the loss; JᵀJ is one of residuals."""
    system, motions, physics = tossed()
    loss = loss_of(system, motions, physics, hold=hold)
    x = loss.unknowns.first + 0.1 * np.random.default_rng(5).normal(size=len(loss.unknowns.first))
    pulled, pushed = loss(x[None], True), loss(x[None], True, True)
    np.testing.assert_allclose(pushed.gradients, pulled.gradients, rtol=1e-8, atol=1e-11)
    columns, slopes = [], []
    for e in 1e-5 * np.eye(len(x)):
        points = [x + e, x - e]
        up, down = (loss.residuals(loss.run(point, loss.training), loss.training)[1].ravel() for point in points)
        columns.append((up - down) / 2e-5)
        slopes.append(np.diff(loss(np.array(points[::-1]), False).losses)[0] / 2e-5)
    largest = np.abs(slopes).max()
    np.testing.assert_allclose(pulled.gradients[0], slopes, atol=1e-7 * largest)
    by = np.array(columns) @ np.array(columns).T / loss.count + np.diag(loss.penalties)
    np.testing.assert_allclose(pushed.curvatures[0], by, atol=1e-6 * np.abs(by).max())
    assert largest > 1e-2 and np.diag(by).min() > 0 and np.abs(slopes[:2]).min() > 1e-6


@pytest.fixture(scope="module")
def found() -> dict[str, neural.Fit]:
    recordings = [record(seed) for seed in range(6)]
    options = {"physics": MASS, "noise": NOISE, "windows": (5, 25), "iterations": 25}
    known = neural.Residual(arm(), Known(), reads=("v",), adds="force")
    systems = {"plain": arm(), "hybrid": hybrid(), "truth": known}
    return {name: neural.fit(system, recordings, **options) for name, system in systems.items()}


def test_what_the_physics_does_not_know_is_learned(found):
    """The error of motions held out, over a quarter of a second, falls to what noise leaves; the law is found."""
    errors = {name: one.errors["held out, after"] for name, one in found.items()}
    assert errors["hybrid"] < 1.2 * errors["truth"] < 0.05 * errors["plain"], errors
    v = np.linspace(-3, 3, 13)
    system = found["hybrid"].system
    force = [system.front(system.state(0.0 * np.ones(1), [x]), np.zeros((1, 1))).inputs["force"][0, 0] for x in v]
    np.testing.assert_allclose(force, drag(v), atol=0.005)
    assert not system.violations(pb.rollout(system, system.state([0.5]), np.zeros((20, 1, 1))))


def test_intervals_of_physics(found):
    """The mass is found with the network, as with the true law; without either, friction is taken for mass."""
    truth = HIDDEN * arm().params.mass[1]
    plain, learned, simple = (found[name].physics for name in ("plain", "hybrid", "truth"))
    assert learned.labels == ("mass",) and abs(learned.values[0] / truth - 1) < 0.002
    assert learned.covers(np.array([truth]))[0] and simple.covers(np.array([truth]))[0]
    assert abs(plain.values[0] / truth - 1) > 10 * abs(learned.values[0] / truth - 1)


def test_intervals_contain_the_truth():
    """Of six experiments with other noise: windows share the noise of their starts, which plain intervals forget."""
    known, truth = neural.Residual(arm(), Known(), reads=("v",), adds="force"), HIDDEN * arm().params.mass[1]
    found = []
    for first in range(0, 36, 6):
        recordings = [record(first + seed) for seed in range(6)]
        found.append(neural.fit(known, recordings, physics=MASS, noise=NOISE, windows=(25,)).physics)
    assert sum(each.covers(np.array([truth]))[0] for each in found) >= 5
    scatter = np.std([each.values[0] for each in found])
    widths = [np.ptp([each.low, each.high]) / 2 for each in found]
    assert np.median(widths) < 5 * scatter, "so wide that they say nothing"


class Killed(Exception):
    pass


@pytest.mark.parametrize("method", [GaussNewton(), LBFGS(), Adam(rate=0.02)])
def test_killed_and_resumed_to_the_same_bits(method, tmp_path, monkeypatch):
    monkeypatch.setattr("pullback.plan.loop.SAVE_AFTER", -1.0)
    recordings = [record(seed, rows=30) for seed in range(3)]
    options = {"physics": MASS, "noise": NOISE, "windows": (4, 8), "iterations": 5, "method": method}
    whole = neural.fit(hybrid(), recordings, **options)

    def kill(stage, progress):
        if (stage, progress.iterations) == (1, 3):
            raise Killed

    with pytest.raises(Killed):
        neural.fit(hybrid(), recordings, **options, checkpoint=tmp_path / "fit", watch=kill)
    seen = []
    watch = lambda stage, progress: seen.append((stage, progress.iterations))  # noqa: E731
    again = neural.fit(hybrid(), recordings, **options, checkpoint=tmp_path / "fit", watch=watch)
    assert seen == [(1, 4), (1, 5)]
    for name, value in whole.system.params.items():
        np.testing.assert_array_equal(value, again.system.params[name])
    np.testing.assert_array_equal(whole.stages[1].losses, again.stages[1].losses)
    with pytest.raises(pb.PullbackError, match="belongs to another method, seed or problem"):
        neural.fit(hybrid(), recordings[::-1][:2], **options, checkpoint=tmp_path / "fit")


def test_files(found, tmp_path):
    recording = record(0, joints=("hinge",), times=0.01 * np.arange(61))
    recording.save(tmp_path / "b.npz")
    record(1).save(tmp_path / "a.npz")
    first, second = neural.read_recordings(tmp_path)
    assert (first.name, second.name, second.joints) == ("a", "b", ("hinge",)) and first.times is None
    for one, other in zip((*recording.states, recording.controls), (*second.states, second.controls), strict=True):
        np.testing.assert_array_equal(one, other)
    fitted = found["hybrid"].system
    neural.save(tmp_path / "learned.npz", fitted)
    again = neural.load(tmp_path / "learned.npz", hybrid())
    start, u = fitted.state([1.0]), np.ones((9, 1, 1))
    np.testing.assert_array_equal(pb.rollout(again, start, u).q, pb.rollout(fitted, start, u).q)
    with pytest.raises(pb.PullbackError, match="another System: there is no parameter 'net.0.weight'"):
        neural.load(tmp_path / "learned.npz", arm())
    (tmp_path / "c.npz").write_bytes(b"nothing")
    for call in (lambda: neural.load(tmp_path / "c.npz", hybrid()), lambda: neural.read_recordings(tmp_path)):
        with pytest.raises(pb.PullbackError, match="cannot be read"):
            call()


def test_rows_at_a_multiple_of_the_timestep():
    """Every second row, controls held over two timesteps: the same motion is followed exactly."""
    plain, controls = arm(), np.sin(np.arange(20))[:, None]
    run = pb.rollout(plain, plain.state([0.7]), controls[:, None], hold=2)
    recording = neural.Recording(pb.State(run.q[:, 0], run.v[:, 0]), controls, times=0.02 * np.arange(21))
    assert recording.fitted(plain)[2] == 2
    result = neural.fit(plain, recording, physics=MASS, windows=(5,), noise=1.0)
    assert result.errors["fitted, before"] < 1e-12 and result.physics.values[0] == pytest.approx(plain.params.mass[1])


def test_the_best_by_its_metric():
    """A loss that falls on, with a metric that does not: what is kept is best by the metric, and patience counts it."""

    def problem(points, wants_gradients, wants_curvature=False):
        x = points[:, 0]
        return Found((x - 5) ** 2, 2 * (points - 5), np.abs(x - 1))

    options = {"iterations": 60, "patience": 4}
    by_loss = minimise(problem, np.zeros(1), Adam(rate=0.2), **options)
    by_metric = minimise(problem, np.zeros(1), Adam(rate=0.2), by_metric=True, **options)
    assert abs(by_metric.x[0] - 1) < 0.11 < abs(by_loss.x[0] - 1)
    assert by_metric.iterations == by_metric.best + 5 and by_metric.stopped == "no progress"


# --- recordings that do not fit ---------------------------------------------------------------------------------------


def spoiled(**changes) -> neural.Recording:
    good = record(0, rows=10)
    given = {"states": good.states, "controls": good.controls, "name": "run 7"} | changes
    return neural.Recording(**given)


def with_nan(row: int) -> pb.State:
    state = record(0, rows=10).states
    v = state.v.copy()
    v[row] = np.nan
    return pb.State(state.q, v)


TIMES = 0.01 * np.arange(11)
BAD = {
    "NaN": (lambda: spoiled(states=with_nan(4)), "v of run 7 is nan at row 4, entry 0"),
    "NaN in controls": (lambda: spoiled(controls=np.full((10, 1), np.nan)), "controls of run 7 is nan at row 0"),
    "a gap": (
        lambda: spoiled(times=TIMES + 0.05 * (np.arange(11) > 6)),
        "run 7 has a gap: 0.06 s between rows 6 and 7, but 0.01 s elsewhere",
    ),
    "another rate": (lambda: spoiled(times=1.37 * TIMES), "0.0137 s apart, which is no multiple of the"),
    "time that stands still": (lambda: spoiled(times=0 * TIMES), "run 7 has a gap"),
    "times of another length": (lambda: spoiled(times=TIMES[:-1]), "times of run 7 has shape (10,)"),
    "other joints": (lambda: spoiled(joints=("knee",)), "run 7 has other joints than the model: 'hinge', 'knee'"),
    "too many columns": (
        lambda: spoiled(states=pb.State(np.zeros((11, 2)), np.zeros((11, 1)))), "q of run 7 has shape (11, 2)"
    ),
    "controls of another length": (lambda: spoiled(controls=np.zeros((11, 1))), "controls of run 7 has shape (11, 1)"),
    "no state": (lambda: spoiled(states=np.zeros((3, 2))), "run 7: states must be a state"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_recording_that_does_not_fit_is_one_line(what):
    make, message = BAD[what]
    with pytest.raises(pb.PullbackError) as caught:
        neural.fit(hybrid(), [record(1, rows=10), make()], windows=(2,))
    assert message in str(caught.value) and "\n" not in str(caught.value), str(caught.value)


def test_joints_in_another_order_and_quaternions_that_are_none():
    model = pb.load(pb.robots.pendulum(2))
    system = pb.Articulated(model, None)
    names = tuple(model.joint_names)[::-1]
    recording = neural.Recording(pb.State(np.zeros((3, 2)), np.zeros((3, 2))), joints=names, name="swing")
    with pytest.raises(pb.PullbackError, match=f"swing has joint {names[0]!r} in the place of {names[1]!r}"):
        recording.fitted(system)
    system = pb.Articulated(pb.load(TOSSED), None)
    q = np.tile(system.model.q0, (3, 1))
    q[2, 3:7] *= 1.5
    with pytest.raises(pb.PullbackError, match="quaternion of joint 'float' in toss has length 1.5 at row 2"):
        neural.Recording(pb.State(q, np.zeros((3, 7))), name="toss").fitted(system)


WRONG = {
    "no recordings": (lambda: neural.fit(hybrid(), []), "at least one recording"),
    "something else": (lambda: neural.fit(hybrid(), [np.zeros(3)]), "a recording must be a Recording"),
    "two worlds": (lambda: neural.fit(hybrid().in_worlds(2), [record(0)]), "one world, not 2"),
    "windows": (lambda: neural.fit(hybrid(), [record(0)], windows=()), "windows are lengths"),
    "a long window": (lambda: neural.fit(hybrid(), [record(0)], windows=(99,)), "longer than every recording"),
    "noise": (lambda: neural.fit(hybrid(), [record(0)], noise=[1.0]), "noise must be positive: one number or (2,)"),
    "physics": (lambda: neural.fit(hybrid(), [record(0)], physics={"m": "mass"}), "'m' must be a pair"),
    "a parameter": (lambda: neural.fit(hybrid(), [record(0)], physics={"m": ("masses", 1)}), "no parameter 'masses'"),
    "nothing": (lambda: neural.fit(arm(), [record(0)]), "nothing to fit"),
    "rates": (
        lambda: neural.fit(arm(), [record(0), record(1, rows=10, times=0.02 * np.arange(11), name="b")], physics=MASS),
        "b has another rate",
    ),
    "a folder without": (lambda: neural.read_recordings("/"), "no .npz"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_bad_arguments_are_one_line(what):
    call, message = WRONG[what]
    with pytest.raises(pb.PullbackError) as caught:
        call()
    assert message in str(caught.value) and "\n" not in str(caught.value), str(caught.value)
