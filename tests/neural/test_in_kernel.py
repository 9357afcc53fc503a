"""Perceptrons inside a robot's kernels: the numbers of torch between steps, and gradients of their own."""

import itertools
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import pullback as pb
import pullback.torch as pbt
from pullback import neural
from pullback.core.trees import leaves
from pullback.model.tangent import integrate

# A free body that carries a hinge, a ball and a slide, driven in another order.
ROBOT = """<mujoco><option timestep="0.01" {option}/><worldbody>
  <body name="base" pos="0 0 1"><freejoint name="float"/><geom type="box" size="0.2 0.1 0.05" mass="2"/>
    <body name="arm" pos="0.2 0 0"><joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="0.5"/>
      <body name="hand" pos="0.3 0 0"><joint name="ball" type="ball" damping="0.05" armature="0.01"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0.1" mass="0.3"/></body></body>
    <body name="drawer" pos="-0.2 0 0"><joint name="slide" type="slide" axis="1 0 0" damping="0.1"/>
      <geom type="box" size="0.05 0.05 0.05" mass="0.4"/></body></body></worldbody>
  <actuator><motor name="pull" joint="slide"/><motor name="elbow" joint="hinge"/></actuator></mujoco>"""


def robot(worlds: int = 2, option: str = "", **options) -> pb.Articulated:
    return pb.Articulated(pb.load(ROBOT.format(option=option)), contact=None, worlds=worlds, **options)


def quadruped(worlds: int = 2, **options) -> pb.Articulated:
    return pb.Articulated(pb.load(pb.robots.quadruped()), worlds=worlds, **options)


def layers(sizes: tuple[int, ...], *bends: nn.Module, bias: bool = True) -> nn.Sequential:
    """Linear layers with activations behind them, as far as there are any."""
    parts: list[nn.Module] = []
    for n, m, bend in itertools.zip_longest(sizes[:-1], sizes[1:], bends):
        parts += [nn.Linear(n, m, bias=bias, dtype=torch.float64), *([] if bend is None else [bend])]
    return nn.Sequential(*parts)


KINDS = {
    "control": lambda s, **o: neural.Residual(s, (5,), adds="control", reads=("v", "u"), **o),
    "force": lambda s, **o: neural.Residual(s, (70, 9), adds="force", reads=("q", "v", "u"), scale=0.3, **o),
    "some forces": lambda s, **o: neural.Residual(
        s, layers((26, 37, 6, 4), nn.Softsign(), nn.ELU(0.7)), adds="force", on=("ball", "hinge"),
        reads=("angles", "position", "u"), scale=np.arange(1.0, 5.0), **o,
    ),
    "wrench": lambda s, **o: neural.Residual(s, (4, 40), adds="wrench", on=("hand", "base"), reads=("q", "v"), **o),
    "one layer": lambda s, **o: neural.Residual(s, nn.Linear(11, 2, dtype=torch.float64), reads=("v",), **o),
    "now": lambda s, **o: neural.Actuator(s, (4,), history=(0,), pos_scale=3.0, **o),
    "history": lambda s, **o: neural.Actuator(
        s, layers((4, 33, 1), nn.ReLU(), bias=False), history=(0, 2), order="vel_pos", pos_scale=2.0, torque_scale=3.0,
        vel_scale=0.7, limit=2.0, **o,
    ),
    "older": lambda s, **o: neural.Actuator(
        s, layers((4, 9, 1), nn.Tanh(), nn.Softsign()), history=(3, 1), joints=("hinge", "slide"), **o
    ),
}  # fmt: skip


def shaken(system, seed: int = 0, size: float = 0.4):
    """The same with random weights."""
    rng = np.random.default_rng(seed)
    for name in system.networks[0].weights:
        system.params[name] = size * rng.normal(size=system.params[name].shape)
    return system


def start(system, seed: int = 0):
    rng = np.random.default_rng(seed)
    q = integrate(
        system.model, np.tile(system.model.q0, (system.worlds, 1)), rng.normal(size=(system.worlds, system.nv))
    )
    state = system.state(q, rng.normal(size=(system.worlds, system.nv)))
    return state._replace(memory=rng.normal(size=state.memory.shape)) if hasattr(state, "memory") else state


def controls(system, steps: int = 12) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(steps, system.worlds, system.nu))


def bars_of(run) -> dict:
    rng = np.random.default_rng(2)
    return {f"{name}_bar": rng.normal(size=np.shape(x)) for name, x in zip(run.states._fields, run.states, strict=True)}


def assert_same(found, wanted, tolerance: float = 1e-12) -> None:
    """To a tolerance relative to the largest number of each array."""
    named = {name: (found.params[name], wanted.params[name]) for name in wanted.params}
    named |= {name: (found.inputs[name], wanted.inputs[name]) for name in wanted.inputs}
    named |= {"controls": (found.controls, wanted.controls)}
    named |= {str(i): pair for i, pair in enumerate(zip(leaves(found.state), leaves(wanted.state), strict=True))}
    for name, (x, y) in named.items():
        assert np.shape(x) == np.shape(y), name
        assert np.abs(x - y).max(initial=0) <= tolerance * max(np.abs(y).max(initial=0), 1e-3), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", ["", 'integrator="RK4"', 'integrator="implicitfast"'])
def test_the_numbers_of_torch(kind, option):
    plain = robot(option=option)
    torched, inside = (shaken(KINDS[kind](plain, where=where)) for where in ("torch", "kernel"))
    given, u = start(inside), controls(inside)
    rng = np.random.default_rng(4)
    force, wrench = rng.normal(size=(len(u), 2, plain.nv)), rng.normal(size=(len(u), 2, 5, 6))
    cases = [(1, {}), (1, {"inputs": {"force": force, "wrench": wrench}}), (12, {"hold": 3})]
    cases += [(12, {"inputs": {"force": force, "wrench": wrench}, "on_failure": "mask"})]
    cases += [(12, {"inputs": {"force": force}})]
    for steps, options in cases:
        # A step has the same numbers; over many, differences of rounding grow as the motion lets them.
        tolerance = 1e-12 if steps == 1 else 1e-10
        options = dict(options)
        if "inputs" in options:
            options["inputs"] = {name: x[:steps] for name, x in options["inputs"].items()}
        one, other = (pb.rollout(system, given, u[:steps], **options) for system in (torched, inside))
        for x, y in zip(other.states, one.states, strict=True):
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y).max(initial=1.0))
        wanted, found = (run.pullback(**bars_of(one)) for run in (one, other))
        assert_same(found, wanted, tolerance)
        for name in inside.networks[0].weights if steps > 1 else ():
            assert np.abs(found.params[name]).max() > 1e-4, name
        assert np.abs(found.controls).max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_every_weight_and_the_history(kind):
    inside = shaken(KINDS[kind](robot(), where="kernel"))
    weights = tuple(inside.networks[0].weights)
    memory = ["memory"] if hasattr(inside.state(), "memory") and inside.state().memory.size else []
    names = (*weights, "q", "v", "control", "mass", "com", "damping", *memory)
    for steps in (1, 4):
        report = pb.check_system(inside, start(inside), controls(inside, steps), rollout_steps=steps, names=names)
        rows = {row.field: row for row in report.rows}
        assert set(rows) == set(names) and report.tolerance == 1e-6
        for name in (*weights, *memory, "q", "v"):
            assert rows[name].status == "agrees" and rows[name].largest > 0, (name, rows[name])


@pytest.mark.parametrize("kind", ["control", "force", "wrench"])
def test_a_last_layer_of_zeros_changes_no_bit(kind):
    plain = robot()
    inside = neural.Residual(plain, (5, 4), adds=kind, where="kernel")
    u, given = controls(plain), start(plain)
    one, other = pb.rollout(plain, given, u), pb.rollout(inside, given, u)
    np.testing.assert_array_equal(one.q, other.q)
    np.testing.assert_array_equal(one.v, other.v)
    bars = [run.pullback(v_bar=np.ones_like(run.v)) for run in (one, other)]
    for name in plain.params:
        np.testing.assert_array_equal(bars[1].params[name], bars[0].params[name], err_msg=name)
    assert np.abs(bars[1].params["net.4.weight"]).max() > 0, "it would never learn"


def test_a_quadruped_that_stands_on_its_feet():
    """With contact: bits of the plain robot, numbers of torch, gradients, and the same on any number of threads."""
    plain = quadruped()
    u = 0.3 * controls(plain, 40)
    zero = neural.Residual(plain, (32, 32), reads=("q", "v", "u"), adds="force", where="kernel")
    one, other = (pb.rollout(system, plain.state(), u) for system in (plain, zero))
    np.testing.assert_array_equal(one.q, other.q)
    rng = np.random.default_rng(5)
    systems = [
        neural.Actuator(
            quadruped(threads=threads), (32, 32), pos_scale=4.0, vel_scale=0.2, torque_scale=8.0, where=where
        )
        for where, threads in (("torch", 1), ("kernel", 1), ("kernel", 2))
    ]
    target = systems[0].default_controls(60) + 0.1 * rng.normal(size=(60, 2, 12))
    runs = [pb.rollout(system, system.state(), target) for system in systems]
    assert plain.contacts(pb.State(runs[0].q[30], runs[0].v[30]))[0].force.any(), "it flies"
    for x, y in zip(runs[1].states, runs[0].states, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
    found = [run.pullback(q_bar=np.ones_like(run.q)) for run in runs]
    assert_same(found[1], found[0], 1e-8)  # sixty steps with contact
    assert_same(found[2], found[1], 0.0)
    system = systems[1].in_worlds(1)
    at = type(runs[1].states)(*(x[30, :1] for x in runs[1].states))
    names = (*system.networks[0].weights, "q", "v", "memory", "control")
    report = pb.check_system(system, at, target[30, :1], names=names)
    assert report.tolerance == 1e-6
    assert all(row.status == "agrees" for row in report.rows if row.field != "control"), report


@pytest.mark.parametrize("kind", ["force", "history"])
def test_checkpoints_copies_and_bindings(kind):
    inside = shaken(KINDS[kind](robot(), where="kernel"))
    given, u = start(inside), controls(inside, 9)
    whole = pb.rollout(inside, given, u)
    reference = whole.pullback(**bars_of(whole))
    again = pickle.loads(pickle.dumps(inside))
    for options in ({"checkpoint_every": 4}, {"checkpoint_every": 2, "on_failure": "mask"}, {"on_failure": "mask"}):
        run = pb.rollout(again, given, u, **options)
        assert_same(run.pullback(**bars_of(whole)), reference, 0.0)
    adjoints = whole.adjoints([0, 5], q_bar=np.ones_like(whole.q))
    np.testing.assert_array_equal(adjoints.v[0], whole.pullback(q_bar=np.ones_like(whole.q)).state.v)
    name = next(iter(inside.networks[0].weights))
    weight = torch.tensor(np.array(inside.params[name]), requires_grad=True)
    states = pbt.rollout(inside, type(given)(*map(torch.tensor, given)), torch.tensor(u), params={name: weight})
    states.q.sum().backward()
    np.testing.assert_array_equal(weight.grad, whole.pullback(q_bar=np.ones_like(whole.q)).params[name])
    A, B = inside.linearize(given, u[0])
    A_torch, B_torch = shaken(KINDS[kind](robot(), where="torch")).linearize(given, u[0])
    np.testing.assert_allclose(A, A_torch, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(B, B_torch, rtol=1e-10, atol=1e-10)
    small = inside.in_worlds(1, dtype="float32")
    one = type(given)(*(x[:1].astype("float32") for x in given))
    run = pb.rollout(small, one, u[:, :1])
    np.testing.assert_allclose(run.q, whole.q[:, :1], atol=1e-5)
    bars = {name: bar[:, :1] for name, bar in bars_of(whole).items()}
    wanted = pb.rollout(inside.in_worlds(1), type(given)(*(x[:1] for x in given)), u[:, :1]).pullback(**bars)
    assert_same(run.pullback(**bars), wanted, 2e-4)


@pytest.mark.parametrize("kind", ["force", "history"])
def test_one_set_of_weights_per_world(kind):
    inside = shaken(KINDS[kind](robot(), where="kernel"))
    given, u = start(inside), controls(inside)
    names = list(inside.networks[0].weights)
    each = {name: np.stack([inside.params[name], 0.5 * inside.params[name]]) for name in names[1:]}
    run = pb.rollout(inside, given, u, params=each)
    bars = run.pullback(v_bar=np.ones((2, inside.nv)))
    shared = 0.0
    for world in range(2):
        alone, one = inside.in_worlds(1), type(given)(*(x[world : world + 1] for x in given))
        own = pb.rollout(alone, one, u[:, world : world + 1], params={name: x[world] for name, x in each.items()})
        np.testing.assert_array_equal(run.v[:, world], own.v[:, 0])
        own_bars = own.pullback(v_bar=np.ones((1, inside.nv)))
        for name in names[1:]:
            np.testing.assert_array_equal(bars.params[name][world], own_bars.params[name])
        shared = shared + own_bars.params[names[0]]
    np.testing.assert_array_equal(bars.params[names[0]], shared)


def test_ranges_and_weights_that_are_not_learned():
    plain = robot()
    module = layers((11, 6, 2), nn.Tanh())
    module[0].requires_grad_(False)
    systems = [neural.Residual(plain, module, reads=("v",), normalise=True, where=w) for w in ("torch", "kernel")]
    assert list(systems[1].networks[0].weights) == ["net.2.weight", "net.2.bias"]
    states = plain.state(v=np.random.default_rng(0).normal(size=(2, 11)))
    known = [system.calibrated(pb.State(*(x[None] for x in states)), np.zeros((1, 2, 2))) for system in systems]
    assert known[1].where == "kernel"
    runs = [pb.rollout(system, states, controls(plain)) for system in known]
    np.testing.assert_allclose(runs[1].v, runs[0].v, rtol=1e-12, atol=1e-12)
    assert_same(*(run.pullback(v_bar=np.ones_like(run.v)) for run in runs[::-1]))
    assert np.abs(pb.rollout(systems[1], states, controls(plain)).v - runs[1].v).max() > 1e-3


def test_what_is_not_finite_is_named():
    inside = shaken(KINDS["history"](robot(), where="kernel"))
    given, u = start(inside), controls(inside)
    reference = pb.rollout(inside, given, u)
    name = "net.0.weight"
    each = np.stack([inside.params[name], np.full_like(inside.params[name], 1e308)])
    with pytest.raises(
        pb.SimulationError, match="network gives numbers that are not finite in world 1 at step"
    ) as caught:
        pb.rollout(inside, given, u, params={name: each})
    assert caught.value.states.memory.shape == (1 + caught.value.step, *given.memory.shape)
    run = pb.rollout(inside, given, u, params={name: each}, on_failure="mask")
    assert run.status.failed.tolist() == [False, True]
    np.testing.assert_array_equal(run.q[:, 0], reference.q[:, 0])
    np.testing.assert_array_equal(run.memory[-1, 1], run.memory[run.status.step[1], 1])  # it stays where it was
    bars = run.pullback(**bars_of(reference))
    wanted = reference.pullback(**bars_of(reference))
    np.testing.assert_array_equal(bars.params[name][0], pb.rollout(inside, given, u, params={
        name: np.stack([inside.params[name]] * 2)}).pullback(**bars_of(reference)).params[name][0])  # fmt: skip
    np.testing.assert_array_equal(bars.state.memory[0], wanted.state.memory[0])
    assert not bars.params[name][1].any() and not bars.state.memory[1].any() and not bars.controls[:, 1].any()


def test_a_fit():
    real = shaken(KINDS["force"](robot(1), where="kernel"), size=0.2)
    run = pb.rollout(real, start(real), 0.3 * controls(real, 40))
    recording = neural.Recording(pb.State(run.q[:, 0], run.v[:, 0]), run.controls[:, 0])
    guess = neural.Residual(robot(1), (6,), adds="force", reads=("q", "v", "u"), where="kernel")
    found = neural.fit(guess, recording, windows=(6,), noise=1e-3, iterations=6, held_out=0.3)
    assert found.system.where == "kernel"
    assert found.errors["held out, after"] < 0.5 * found.errors["held out, before"]


def force(s, module, **options):
    return neural.Residual(s, module, **{"adds": "force", "reads": ("v",), "where": "kernel"} | options)


WRONG = {
    "a word": (lambda s: force(s, (4,), where="gpu"), "where is 'torch' or 'kernel', not 'gpu'"),
    "an LSTM": (lambda s: neural.Actuator(s, neural.LSTM(hidden=2), where="kernel"), "an LSTM is no perceptron"),
    "a form": (lambda s: force(s, (4,), form="dissipative"), "a dissipative form needs torch"),
    "a function": (lambda s: force(s, nn.Linear(11, 11), reads=lambda x, u: x.v), "a function that reads needs torch"),
    "an activation": (
        lambda s: force(s, nn.Sequential(nn.Linear(11, 4), nn.GELU(), nn.Linear(4, 11))), "has a GELU as its part '1'"
    ),
    "a layer": (lambda s: force(s, nn.Sequential(nn.Linear(11, 11), nn.LayerNorm(11))), "has a LayerNorm as its part"),
    "two activations": (
        lambda s: force(s, nn.Sequential(nn.Linear(11, 11), nn.Tanh(), nn.Tanh())), "has a Tanh as its part '2'"
    ),
    "a layer twice": (lambda s: force(s, nn.Sequential(*[nn.Linear(11, 11)] * 2)), "has a Linear as its part '1'"),
    "a module": (lambda s: force(s, nn.ModuleList()), "cannot take 11 features"),
    "its own module": (lambda s: force(s, type("Mine", (nn.Linear,), {})(11, 11)), "must be a torch.nn.Sequential"),
    "a hybrid inside": (
        lambda s: force(force(s, (4,), where="torch"), (4,), name="more"), "the System inside is Residual"
    ),
    "a state without a memory": (
        lambda s: pb.rollout(KINDS["history"](s, where="kernel"), s.state(), np.zeros((1, 2, 2))),
        "a state has a memory",
    ),
    "a memory of another size": (
        lambda s: pb.rollout(
            (a := KINDS["history"](s, where="kernel")), a.state()._replace(memory=np.zeros((2, 2, 1, 2))),
            np.zeros((1, 2, 2)),
        ),
        "memory has shape (2, 2, 1, 2)",
    ),
    "targets": (
        lambda s: pb.rollout((a := KINDS["now"](s, where="kernel")), a.state(), np.zeros((1, 2, 3))), "(1, 2, 3)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_one_line(what):
    call, message = WRONG[what]
    with pytest.raises(pb.PullbackError) as caught:
        call(robot())
    assert message in str(caught.value) and "\n" not in str(caught.value), str(caught.value)
    if what in ("an LSTM", "a form", "a function", "an activation", "a hybrid inside"):
        assert str(caught.value).endswith("use where='torch'")
