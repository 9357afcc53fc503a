"""Rollouts: checkpoints, batches and threads change nothing, to the last bit; what goes in, and what is kept."""

import gc
import sys

import numpy as np
import pytest
import torch
import warp as wp
from trees import random_states, random_tree

import pullback as pb

STEPS = 23  # no multiple of the checkpoint intervals below


def problem(seed: int = 3, worlds: int = 4, dtype: str = "float64", steps: int = STEPS, **options):
    """A system, a start, controls and bars of every state."""
    model = pb.load(random_tree(seed, bodies=5, fluid=options.get("integrator") != "implicitfast", **options))
    rng = np.random.default_rng(seed)
    q, v = random_states(model.mujoco, rng, worlds, unit=False)
    controls = rng.normal(size=(steps, worlds, model.nu))
    bars = {
        "q_bar": rng.normal(size=(steps + 1, worlds, model.nq)),
        "v_bar": rng.normal(size=(steps + 1, worlds, model.nv)),
    }
    system = pb.Articulated(model, worlds=worlds, dtype=dtype)
    return system, system.state(q, v), controls, bars


def same_bits(first: pb.Bars, second: pb.Bars) -> None:
    np.testing.assert_array_equal(first.state.q, second.state.q)
    np.testing.assert_array_equal(first.state.v, second.state.v)
    np.testing.assert_array_equal(first.controls, second.controls)
    assert set(first.params) == set(second.params)
    for name, bar in first.params.items():
        np.testing.assert_array_equal(bar, second.params[name], err_msg=name)
    assert all(np.any(x) for x in (first.state.q, first.state.v, first.controls, first.params.get("mass", 1)))


# checkpoints


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("last_only", [False, True], ids=["every bar", "last bar"])
def test_checkpoints_give_the_same_bits(integrator, dtype, last_only):
    system, start, controls, bars = problem(integrator=integrator, dtype=dtype)
    if last_only:
        bars = {name: bar[-1] for name, bar in bars.items()}
    whole = pb.rollout(system, start, controls)
    reference = whole.pullback(**bars)
    for every in (1, 2, 7, 50, STEPS + 10):
        run = pb.rollout(system, start, controls, checkpoint_every=every)
        np.testing.assert_array_equal(run.kept, [*range(0, STEPS, every), STEPS])
        np.testing.assert_array_equal(run.q, whole.q[run.kept])
        np.testing.assert_array_equal(run.v, whole.v[run.kept])
        np.testing.assert_array_equal(run.final.q, whole.q[-1])
        same_bits(run.pullback(**bars), reference)


def test_levels_of_checkpoints_that_are_longer_than_the_run():
    system, start, controls, bars = problem(steps=2)
    run = pb.rollout(system, start, controls, checkpoint_every=(4, 2))
    same_bits(run.pullback(**bars), pb.rollout(system, start, controls).pullback(**bars))


def test_checkpoints_with_parameters_of_the_rollout():
    system, start, controls, bars = problem()
    mass = system.params["mass"] * np.linspace(0.5, 2.0, 4)[:, None]
    params = {"mass": mass, "gravity": [0.1, 0.2, -3.0]}
    runs = [pb.rollout(system, start, controls, checkpoint_every=k, params=params).pullback(**bars) for k in (1, 5)]
    same_bits(*runs)
    assert runs[0].params.mass.shape == mass.shape and runs[0].params.gravity.shape == (3,)


def test_a_bar_for_the_last_state_is_one_that_is_zero_before():
    system, start, controls, bars = problem()
    run = pb.rollout(system, start, controls, checkpoint_every=4)
    padded = {name: np.where(np.arange(STEPS + 1)[:, None, None] == STEPS, bar, 0.0) for name, bar in bars.items()}
    same_bits(run.pullback(**{name: bar[-1] for name, bar in bars.items()}), run.pullback(**padded))
    mixed = run.pullback(q_bar=bars["q_bar"], v_bar=bars["v_bar"][-1])
    same_bits(mixed, run.pullback(q_bar=bars["q_bar"], v_bar=padded["v_bar"]))


@pytest.mark.parametrize("every", [1, 4, 50])
def test_bars_for_the_kept_states_alone(every):
    system, start, controls, bars = problem()
    run = pb.rollout(system, start, controls, checkpoint_every=every)
    kept = {name: bar[run.kept] for name, bar in bars.items()}
    padded = {name: np.zeros(bar.shape) for name, bar in bars.items()}
    for name, bar in kept.items():
        padded[name][run.kept] = bar
    same_bits(run.pullback(**kept), run.pullback(**padded))


@pytest.mark.parametrize("last_only", [False, True], ids=["every bar", "last bar"])
def test_adjoints_are_gradients_of_what_follows(last_only):
    """Those of a state are those of the start of a motion that begins there."""
    system, start, controls, bars = problem()
    if last_only:
        bars = {name: bar[-1] for name, bar in bars.items()}
    run = pb.rollout(system, start, controls)
    at = np.array([7, 0, 22, STEPS, 7])
    found = run.adjoints(at, **bars)
    assert found.q.shape == (5, 4, system.nq) and found.v.shape == (5, 4, system.nv)
    np.testing.assert_array_equal(found.q[1], run.pullback(**bars).state.q)
    for row, step in enumerate(at):
        rest = pb.rollout(system, pb.State(run.q[step], run.v[step]), controls[step:])
        wanted = rest.pullback(**{name: bar if last_only else bar[step:] for name, bar in bars.items()}).state
        np.testing.assert_allclose(found.v[row], wanted.v, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.q[row], wanted.q, rtol=1e-10, atol=1e-12)
        assert np.abs(wanted.v).min(axis=1).max() > 0


def test_adjoints_of_no_step():
    system, start, controls, bars = problem()
    for at in ([STEPS + 1], [-1], [0.5], 3):
        with pytest.raises(pb.PullbackError, match="at must be a list of whole numbers from 0 to 23"):
            pb.rollout(system, start, controls).adjoints(at, **bars)
    with pytest.raises(pb.PullbackError, match="checkpoint_every=1"):
        pb.rollout(system, start, controls, checkpoint_every=2).adjoints([0], **bars)


def test_gradients_are_linear_in_the_bars():
    system, start, controls, bars = problem()
    run = pb.rollout(system, start, controls)
    one, two = run.pullback(q_bar=bars["q_bar"]), run.pullback(v_bar=bars["v_bar"])
    both = run.pullback(q_bar=2 * bars["q_bar"], v_bar=-3 * bars["v_bar"])
    np.testing.assert_allclose(both.state.q, 2 * one.state.q - 3 * two.state.q, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(both.params.com, 2 * one.params.com - 3 * two.params.com, rtol=1e-9, atol=1e-9)


def test_a_rollout_is_its_steps():
    system, start, controls, bars = problem(steps=4)
    run = pb.rollout(system, start, controls)
    state = start
    for t in range(4):
        state = system.step(state, controls[t])
        np.testing.assert_array_equal(state.q, run.q[t + 1])
        np.testing.assert_array_equal(state.v, run.v[t + 1])
    carry, mass_bar = pb.State(bars["q_bar"][4], bars["v_bar"][4]), 0
    for t in reversed(range(4)):
        one = system.pullback(pb.State(run.q[t], run.v[t]), controls[t], carry)
        mass_bar = mass_bar + one.params.mass
        carry = one.state
    whole = run.pullback(**{name: bar[-1] for name, bar in bars.items()})
    np.testing.assert_allclose(carry.q, whole.state.q, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(mass_bar, whole.params.mass, rtol=1e-9, atol=1e-11)


# batches, threads, repetition


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_world_does_not_know_of_the_others(integrator, dtype):
    system, start, controls, bars = problem(worlds=64, dtype=dtype, steps=6, integrator=integrator)
    per_world = {name: np.repeat(value[None], 64, axis=0) for name, value in system.params.items()}
    run = pb.rollout(system, start, controls, params=per_world)
    together = run.pullback(**bars)
    alone = pb.Articulated(system.model, dtype=dtype)
    for w in (0, 31, 63):
        one = pb.rollout(alone, alone.state(start.q[w], start.v[w]), controls[:, [w]])
        np.testing.assert_array_equal(one.q[:, 0], run.q[:, w])
        np.testing.assert_array_equal(one.v[:, 0], run.v[:, w])
        bar = one.pullback(**{name: bar[:, [w]] for name, bar in bars.items()})
        np.testing.assert_array_equal(bar.state.q[0], together.state.q[w])
        np.testing.assert_array_equal(bar.controls[:, 0], together.controls[:, w])
        for name in ("mass", "inertia", "body_quat", "damping", "gear"):
            np.testing.assert_array_equal(bar.params[name], together.params[name][w], err_msg=name)


def test_runs_repeat_to_the_last_bit():
    system, start, controls, bars = problem(worlds=17)
    results = []
    for fresh in (system, system, pb.Articulated(system.model, worlds=17)):
        run = pb.rollout(fresh, start, controls)
        results.append((run, run.pullback(**bars)))
    for run, gradient in results[1:]:
        np.testing.assert_array_equal(run.q, results[0][0].q)
        same_bits(gradient, results[0][1])


@pytest.mark.parametrize("worlds", [1, 2, 5, 33])
def test_threads_change_nothing(worlds):
    base, start, controls, bars = problem(worlds=worlds, steps=8)
    results = []
    for threads in (1, 2, 3):
        system = pb.Articulated(base.model, worlds=worlds, threads=threads)
        run = pb.rollout(system, start, controls)
        results.append((run, run.pullback(**bars)))
    for run, gradient in results[1:]:
        np.testing.assert_array_equal(run.q, results[0][0].q)
        np.testing.assert_array_equal(run.v, results[0][0].v)
        same_bits(gradient, results[0][1])


# what goes in


def as_given(kind: str, array: np.ndarray):
    return {
        "numpy": lambda: array,
        "list": lambda: array.tolist(),
        "float32": lambda: array.astype(np.float32),
        "not contiguous": lambda: np.asfortranarray(array),
        "torch": lambda: torch.from_numpy(array.copy()),
        "torch float32 with gradient": lambda: torch.tensor(array, dtype=torch.float32, requires_grad=True),
        "warp": lambda: wp.array(array, dtype=wp.float64, device="cpu"),
        "warp float32": lambda: wp.array(array, dtype=wp.float32, device="cpu"),
    }[kind]()


KINDS = ["numpy", "list", "float32", "not contiguous", "torch", "torch float32 with gradient", "warp", "warp float32"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("every", [1, 3])
def test_arrays_of_any_make(kind, every):
    system, start, controls, bars = problem(steps=7)
    exact = "32" not in kind
    reference = pb.rollout(system, start, controls)
    state = system.state(as_given(kind, start.q), as_given(kind, start.v))
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in state)
    raw = pb.State(as_given(kind, start.q), as_given(kind, start.v))
    for begin in (state, raw):
        run = pb.rollout(system, begin, as_given(kind, controls), checkpoint_every=every)
        np.testing.assert_allclose(run.final.q, reference.final.q, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5)
        for rows in (slice(None), -1):
            given = {name: as_given(kind, np.ascontiguousarray(bar[rows])) for name, bar in bars.items()}
            found = run.pullback(**given)
            wanted = reference.pullback(**{name: bar[rows] for name, bar in bars.items()})
            np.testing.assert_allclose(
                found.state.q, wanted.state.q, rtol=0 if exact else 1e-3, atol=0 if exact else 1e-3
            )
    mass = pb.rollout(system, start, controls, params={"mass": as_given(kind, np.array(system.params["mass"]))})
    np.testing.assert_allclose(mass.final.q, reference.final.q, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_single_steps_of_arrays_of_any_make(kind):
    system, start, controls, bars = problem(steps=1)
    raw = pb.State(as_given(kind, start.q), as_given(kind, start.v))
    close = {"rtol": 1e-4, "atol": 1e-4} if "32" in kind else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(
        system.step(raw, as_given(kind, controls[0])).q, system.step(start, controls[0]).q, **close
    )
    next_bar = pb.State(bars["q_bar"][1], bars["v_bar"][1])
    given = pb.State(*(as_given(kind, x) for x in next_bar))
    found = system.pullback(raw, as_given(kind, controls[0]), given)
    np.testing.assert_allclose(found.state.q, system.pullback(start, controls[0], next_bar).state.q, **close)
    A, _ = system.linearize(raw, as_given(kind, controls[0]))
    np.testing.assert_allclose(A, system.linearize(start, controls[0])[0], **close)


def test_what_is_given_is_not_written_to():
    system, start, controls, bars = problem(steps=5)
    copies = [np.array(x) for x in (*start, controls, *bars.values())]
    run = pb.rollout(system, start, controls, checkpoint_every=2)
    kept = np.array(run.q)
    run.pullback(**bars)
    for before, after in zip(copies, (*start, controls, *bars.values()), strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(run.q, kept)


def test_one_state_for_all_worlds():
    system, start, _, _ = problem()
    state = system.state(start.q[0], start.v[0])
    np.testing.assert_array_equal(state.q, np.tile(start.q[0], (4, 1)))
    home = system.state()
    np.testing.assert_array_equal(home.q[2], system.model.home.q)
    assert not np.any(system.state(start.q).v)


# without controls


@pytest.mark.parametrize("every", [1, 3])
def test_steps_without_control(every):
    system, start, _, _ = problem()
    free = pb.rollout(system, start, steps=5, checkpoint_every=every)
    zero = pb.rollout(system, start, np.zeros((5, 4, system.nu)), checkpoint_every=every)
    np.testing.assert_array_equal(free.q, zero.q)
    assert free.steps == 5
    assert free.pullback(q_bar=np.ones(free.final.q.shape)).controls.shape == (5, 4, system.nu)


@pytest.mark.parametrize("every", [1, 3])
def test_a_model_without_actuators(every):
    system, start, controls, bars = problem(actuators="none")
    assert system.nu == 0 and controls.shape == (STEPS, 4, 0)
    with_controls = pb.rollout(system, start, controls, checkpoint_every=every)
    without = pb.rollout(system, start, steps=STEPS, checkpoint_every=every)
    np.testing.assert_array_equal(with_controls.q, without.q)
    gradient = without.pullback(**bars)
    assert gradient.controls.shape == (STEPS, 4, 0)
    assert gradient.params.gear.shape == (0, 6)
    assert np.any(gradient.state.q)
    one = system.pullback(start, None, start)
    assert one.control.shape == (4, 0)


@pytest.mark.parametrize("every", [1, 4])
def test_no_steps_at_all(every):
    """A rollout of no steps is its start; its gradients are the bars themselves, and nothing of the rest."""
    system, start, _, _ = problem()
    for run in (
        pb.rollout(system, start, np.zeros((0, 4, system.nu)), checkpoint_every=every),
        pb.rollout(system, start, steps=0, checkpoint_every=every),
    ):
        assert run.steps == 0 and run.q.shape == (1, *start.q.shape)
        np.testing.assert_array_equal(run.final.q, start.q)
        gradient = run.pullback(v_bar=np.ones(start.v.shape))
        np.testing.assert_array_equal(gradient.state.v, np.ones(start.v.shape))
        assert gradient.controls.shape == (0, 4, system.nu)
        assert not any(np.any(bar) for bar in gradient.params.values())


# what is kept


def sizes(x, seen: set) -> int:
    """Bytes of all arrays reachable from x through its attributes, each counted once."""
    if id(x) in seen or isinstance(x, (type, str, bytes, int, float, pb.Articulated, pb.Model)):
        return 0
    seen.add(id(x))
    if isinstance(x, np.ndarray):
        return x.nbytes if x.base is None or isinstance(x.base, wp.array) else sizes(x.base, seen) or x.nbytes
    if isinstance(x, wp.array):
        return int(np.prod(x.shape)) * wp.types.type_size_in_bytes(x.dtype)
    if isinstance(x, dict):
        return sum(sizes(y, seen) for y in x.values())
    if isinstance(x, (tuple, list)):
        return sum(sizes(y, seen) for y in x)
    return sum(sizes(y, seen) for y in vars(x).values()) if hasattr(x, "__dict__") else sys.getsizeof(x)


@pytest.mark.parametrize("every", [1, 10])
def test_only_states_and_controls_are_kept(every):
    """A rollout of twice the steps takes the memory of that many more states and controls, and no byte besides."""
    held, expected = [], []
    for steps in (100, 200):
        system, start, controls, _ = problem(worlds=8, steps=steps)
        run = pb.rollout(system, start, controls, checkpoint_every=every)
        run.pullback(q_bar=np.ones(start.q.shape))
        assert len(run.kept) == steps // every + 1
        held.append(sizes(run, set()))
        expected.append(8 * len(run.kept) * 8 * (system.nq + system.nv) + controls.nbytes)
    assert held[0] >= expected[0]
    assert abs((held[1] - held[0]) - (expected[1] - expected[0])) <= 8 * 100  # the numbers of the kept steps, perhaps


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of objects that the collector lists, not ours
def test_the_system_keeps_nothing_of_a_rollout():
    """A long rollout that is dropped leaves no memory behind but what the last launch holds."""
    system, start, controls, _ = problem(worlds=2, steps=50)
    arrays = []
    for _ in range(6):
        pb.rollout(system, start, controls).pullback(q_bar=np.ones(start.q.shape))
        gc.collect()
        arrays.append(sum(isinstance(x, wp.array) for x in gc.get_objects()))
    assert arrays[-1] == arrays[1]


# bad input


@pytest.mark.parametrize("every", [0, -1, 2.5, "2", None])
def test_checkpoint_every_that_makes_no_sense(every):
    system, start, controls, _ = problem(steps=2)
    with pytest.raises(pb.PullbackError, match="checkpoint_every"):
        pb.rollout(system, start, controls, checkpoint_every=every)


@pytest.mark.parametrize("steps", [-1, 2.5, "3"])
def test_steps_that_make_no_sense(steps):
    system, start, _, _ = problem(steps=2)
    with pytest.raises(pb.PullbackError, match="steps"):
        pb.rollout(system, start, steps=steps)


def test_controls_and_steps_both_or_neither():
    system, start, controls, _ = problem(steps=2)
    for options in ({}, {"controls": controls, "steps": 2}):
        with pytest.raises(pb.PullbackError, match="controls .* or steps"):
            pb.rollout(system, start, **options)


def bad_controls(good: np.ndarray) -> dict:
    nan = good.copy()
    nan[1, 2, 0] = np.nan
    infinite = good.copy()
    infinite[0, 3, 0] = -np.inf
    return {
        "without worlds": (good[:, 0], r"controls has shape .*steps, worlds=4, nu="),
        "other worlds": (good[:, :3], r"controls has shape"),
        "other nu": (np.concatenate([good, good], axis=2), r"controls has shape"),
        "nan": (nan, r"controls.*step 1.*worlds 2.*nu 0"),
        "infinity": (infinite, r"controls.*step 0.*worlds 3"),
        "complex": (good + 1j, "controls.*complex"),
        "complex list": ((good + 1j).tolist(), "controls"),
        "strings": (np.full(good.shape, "a"), "controls"),
        "list of strings": (np.full(good.shape, "a").tolist(), "controls"),
        "objects": (np.full(good.shape, None), "controls.*object"),
        "ragged": ([[[0.0] * good.shape[2]] * 4, [[0.0]]], "controls"),
        "a number": (3.0, "controls"),
    }


@pytest.mark.parametrize("kind", bad_controls(np.zeros((2, 4, 1))))
def test_bad_controls(kind):
    system, start, controls, _ = problem(steps=2)
    assert system.nu > 1
    given, message = bad_controls(controls)[kind]
    with pytest.raises(pb.PullbackError, match=message):
        pb.rollout(system, start, given)


def bad_bars(good: np.ndarray) -> dict:
    middle, first, last = good.copy(), good.copy(), good.copy()
    middle[2, 3, 1], first[0, 0, 0], last[-1, 1, 2] = np.nan, np.inf, np.nan
    return {
        "nan in the middle": (middle, "q_bar.*2.*3"),
        "infinity at the start": (first, "q_bar.*0"),
        "nan at the end": (last, "q_bar"),
        "nan in the last alone": (last[-1], "q_bar.*worlds 1"),
        "too few steps": (good[1:], r"q_bar has shape"),
        "other worlds": (good[:, :2], r"q_bar has shape"),
        "complex": (good + 1j, "q_bar"),
        "complex, last alone": (good[-1] + 1j, "q_bar"),
        "strings": (np.full(good.shape, "a"), "q_bar"),
        "list of strings": (np.full(good.shape, "a").tolist(), "q_bar"),
        "objects": (np.full(good.shape, None), "q_bar"),
    }


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("kind", bad_bars(np.zeros((4, 4, 3))))
def test_bad_bars(kind, every):
    system, start, controls, bars = problem(steps=5)
    run = pb.rollout(system, start, controls, checkpoint_every=every)
    given, message = bad_bars(bars["q_bar"])[kind]
    with pytest.raises(pb.PullbackError, match=message):
        run.pullback(q_bar=given)


def test_bars_that_are_not_known_or_not_given():
    system, start, controls, bars = problem(steps=2)
    run = pb.rollout(system, start, controls)
    with pytest.raises(pb.PullbackError, match="q_bar, v_bar"):
        run.pullback()
    with pytest.raises(pb.PullbackError, match="x_bar"):
        run.pullback(x_bar=bars["q_bar"])
    with pytest.raises(AttributeError):
        _ = run.x


# gradients beyond the precision

HILL = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body><joint name="x" type="slide" axis="1 0 0" stiffness="-1e4"/>
    <geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
  </worldbody><actuator><motor joint="x"/></actuator></mujoco>"""


@pytest.mark.parametrize("every", [1, 100])
@pytest.mark.parametrize(("dtype", "steps"), [("float64", 1500), ("float32", 200)])
def test_gradients_that_overflow_are_refused(dtype, steps, every):
    """A body at rest on top of a steep hill stays there. How far it would go for a push is beyond all numbers."""
    system = pb.Articulated(pb.load(HILL), worlds=3, dtype=dtype)
    run = pb.rollout(system, system.state(), steps=steps, checkpoint_every=every)
    assert np.all(np.isfinite(run.q))
    q_bar = np.zeros((3, 1))
    q_bar[1] = 1.0
    hint = "float64'" if dtype == "float32" else "fewer steps"
    for wants_params in (True, False):
        with pytest.raises(pb.PullbackError, match=f"beyond the precision in world 1.*{hint}"):
            run.pullback(q_bar=q_bar, wants_params=wants_params)
    assert np.all(np.isfinite(run.pullback(q_bar=np.zeros((3, 1))).controls))


def test_large_gradients_are_no_error():
    """Numbers whose squares overflow are fine themselves."""
    system = pb.Articulated(pb.load(HILL), dtype="float32")
    bars = pb.rollout(system, system.state(), steps=60).pullback(q_bar=np.ones((1, 1)))
    assert 1e20 < bars.state.q[0, 0] < np.inf
