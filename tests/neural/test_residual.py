"""A network that corrects what a System is given: gradients, bits, guard rails, bad input."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from swarm import Swarm

import pullback as pb
import pullback.jax as pbj
import pullback.torch as pbt
from pullback import neural
from pullback.core.trees import leaves
from pullback.dynamics import energy
from pullback.model.tangent import integrate

jax.config.update("jax_enable_x64", True)

ROBOT = """<mujoco><option timestep="0.01"/><worldbody>
  <body name="base" pos="0 0 1"><freejoint name="float"/>
    <geom type="box" size="0.2 0.1 0.05" mass="2"/>
    <body name="arm" pos="0.2 0 0"><joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="0.5"/>
      <body name="hand" pos="0.3 0 0"><joint name="ball" type="ball" damping="0.05"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0.1" mass="0.3"/></body></body></body></worldbody>
  <actuator><motor name="elbow" joint="hinge"/></actuator></mujoco>"""
FORMS = {
    "control": {"adds": "control"},
    "force": {"adds": "force", "scale": 0.5},
    "some forces": {"adds": "force", "on": ("ball", "float"), "reads": ("angles", "v")},
    "wrench": {"adds": "wrench", "on": ("hand",), "reads": ("q", "position", "u")},
    "dissipative": {"adds": "force", "form": "dissipative", "on": ("hinge", "ball"), "reads": ("q", "v")},
    "conservative": {"adds": "force", "form": "conservative", "reads": ("q", "position")},
}


def robot(worlds: int = 2) -> pb.Articulated:
    return pb.Articulated(pb.load(ROBOT), contact=None, worlds=worlds)


def shaken(system, seed: int = 0, size: float = 0.4):
    """The same with random weights, in its last layer too."""
    rng = np.random.default_rng(seed)
    for name in system.params:
        if name.split(".")[0] in ("net", "more"):
            system.params[name] = size * rng.normal(size=system.params[name].shape)
    return system


def start(system, seed: int = 0):
    rng = np.random.default_rng(seed)
    q = np.tile(system.model.q0, (system.worlds, 1))
    q = integrate(system.model, q, rng.normal(size=(system.worlds, system.nv)))
    return system.state(q, rng.normal(size=(system.worlds, system.nv)))


def random_controls(system, steps: int = 12) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(steps, system.worlds, system.nu))


def arrays(bars) -> list[np.ndarray]:
    return [*leaves(bars.state), bars.controls, *bars.params.values()]


@pytest.mark.parametrize("form", [name for name in FORMS if name != "dissipative"])
def test_a_last_layer_of_zeros_changes_no_bit(form):
    plain = robot()
    hybrid = neural.Residual(plain, (5, 4), **FORMS[form])
    u, given = random_controls(plain), start(plain)
    one, other = pb.rollout(plain, given, u), pb.rollout(hybrid, given, u)
    np.testing.assert_array_equal(one.q, other.q)
    np.testing.assert_array_equal(one.v, other.v)
    bars = [run.pullback(v_bar=np.ones_like(run.v)) for run in (one, other)]
    for name in plain.params:
        np.testing.assert_allclose(bars[1].params[name], bars[0].params[name], rtol=1e-11, atol=1e-13, err_msg=name)
    assert np.abs(bars[1].params["net.4.weight"]).max() > 0, "it would never learn"


@pytest.mark.parametrize("form", FORMS)
def test_gradients_by_every_weight_state_and_parameter(form):
    hybrid = shaken(neural.Residual(robot(), (4,), **FORMS[form]))
    weights = [name for name in hybrid.params if name.startswith("net.")]
    assert len(weights) == 4
    names = None if form == "control" else (*weights, "q", "v", "control", "mass")
    report = pb.check_system(hybrid, start(hybrid), random_controls(hybrid)[0], names=names)
    assert report.tolerance == 1e-6
    rows = {row.field: row for row in report.rows}
    for name in ("net.0.weight", "net.0.bias", "net.2.weight", "q", "v", "mass"):
        assert rows[name].status == "agrees" and rows[name].largest > 0, name
    report = pb.check_system(hybrid, start(hybrid), random_controls(hybrid, 3), rollout_steps=3, names=weights)
    assert report.passed


def test_checkpoints_holds_and_masks():
    hybrid = shaken(neural.Residual(robot(), (4,), reads=("q", "v", "u"), adds="force"))
    u, given = random_controls(hybrid), start(hybrid)
    whole = pb.rollout(hybrid, given, u)
    reference = whole.pullback(q_bar=np.ones_like(whole.q))
    for options in ({"checkpoint_every": 4}, {"on_failure": "mask"}):
        run = pb.rollout(hybrid, given, u, **options)
        bars = run.pullback(q_bar=np.ones_like(whole.q))
        for a, b in zip(arrays(bars), arrays(reference), strict=True):
            np.testing.assert_array_equal(a, b)
    held = pb.rollout(hybrid, given, u, hold=3)
    np.testing.assert_array_equal(held.q, pb.rollout(hybrid, given, np.repeat(u, 3, axis=0)).q[::3])
    every = pb.rollout(hybrid, given, np.repeat(u, 3, axis=0)).pullback(v_bar=np.ones((2, hybrid.nv)))
    sums = every.controls.reshape(len(u), 3, 2, -1).sum(axis=1)
    np.testing.assert_allclose(held.pullback(v_bar=np.ones((2, hybrid.nv))).controls, sums, rtol=1e-12)


def test_one_set_of_weights_per_world():
    """Each world moves as if it were alone with its weights, and has its own gradient; by vmap."""
    hybrid = shaken(neural.Residual(robot(), (4,), adds="force"))
    u, given = random_controls(hybrid), start(hybrid)
    names = [name for name in hybrid.params if name.startswith("net.")]
    each = {name: np.stack([hybrid.params[name], 0.5 * hybrid.params[name]]) for name in names}
    run = pb.rollout(hybrid, given, u, params=each)
    bars = run.pullback(v_bar=np.ones((2, hybrid.nv)))
    for world in range(2):
        alone = hybrid.in_worlds(1)
        one = pb.State(*(x[world : world + 1] for x in given))
        own = pb.rollout(alone, one, u[:, world : world + 1], params={name: x[world] for name, x in each.items()})
        np.testing.assert_allclose(run.v[:, world], own.v[:, 0], rtol=1e-12, atol=1e-12)
        own_bars = own.pullback(v_bar=np.ones((1, hybrid.nv)))
        for name in names:
            np.testing.assert_allclose(bars.params[name][world], own_bars.params[name], rtol=1e-9, atol=1e-12)


def test_jacobians_and_pushforward():
    hybrid = shaken(neural.Residual(robot(), (4,), adds="force", reads=("q", "v", "u")))
    u, given = random_controls(hybrid, 5), start(hybrid)
    A, B = hybrid.linearize(given, u[0])
    n = 2 * hybrid.nv
    assert A.shape == (2, n, n) and B.shape == (2, n, 1)

    def after(tangent, push):
        q = integrate(hybrid.model, given.q, tangent[: hybrid.nv])
        state = hybrid.step(pb.State(q, given.v + tangent[hybrid.nv :]), u[0] + push)
        return hybrid.difference(hybrid.step(given, u[0]), state)

    for column in range(n + 1):
        e = 1e-5 * np.eye(n + 1)[column]
        quotient = (after(e[:n], e[n:]) - after(-e[:n], -e[n:])) / 2e-5
        np.testing.assert_allclose(np.concatenate([A, B], axis=2)[..., column], quotient, atol=2e-8)
    run = pb.rollout(hybrid, given, u)
    for name in ("net.0.weight", "net.2.bias", "mass"):
        shape = hybrid.params[name].shape
        tangent = np.random.default_rng(3).normal(size=shape) * (hybrid.params[name] != 0)
        moved = run.pushforward(params={name: tangent[..., None]})[..., 0]
        up, down = (
            pb.rollout(hybrid, given, u, params={name: hybrid.params[name] + h * tangent}) for h in (1e-6, -1e-6)
        )
        quotient = (hybrid.difference(run.states, up.states, leading=2) -
                    hybrid.difference(run.states, down.states, leading=2)) / 2e-6  # fmt: skip
        assert np.abs(moved).max() > 1e-4
        np.testing.assert_allclose(moved, quotient, atol=1e-7 * np.abs(moved).max() + 1e-9)


def test_torch_and_jax():
    hybrid = shaken(neural.Residual(robot(), (4,), adds="force"))
    u, given = random_controls(hybrid, 5), start(hybrid)
    run = pb.rollout(hybrid, given, u)
    bars = run.pullback(v_bar=2 * run.v)
    weight = torch.tensor(hybrid.params["net.0.weight"], requires_grad=True)
    q, v = pbt.rollout(
        hybrid, torch.tensor(given.q), torch.tensor(given.v), torch.tensor(u), params={"net.0.weight": weight}
    )
    (v**2).sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy(), bars.params["net.0.weight"])

    def loss(w):
        return jnp.sum(pbj.rollout(hybrid, given.q, given.v, u, params={"net.0.weight": w})[1] ** 2)

    found = jax.grad(loss)(jnp.asarray(hybrid.params["net.0.weight"]))
    np.testing.assert_allclose(found, bars.params["net.0.weight"], rtol=1e-12)


def test_any_system_and_any_module():
    """A swarm, whose states are nested and count; a module with a bias that is not learned; a function that reads."""

    class Bounded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)
            self.gain = torch.nn.Parameter(torch.tensor(0.5), requires_grad=False)

        def forward(self, x):
            return self.gain * torch.tanh(self.layer(x))

    reads = lambda state, control: torch.stack([state.heat, state.points.x[:, 0, 0], control[:, 1]], dim=1)  # noqa: E731
    given = Bounded()
    before = copy.deepcopy(given.state_dict())
    hybrid = neural.Residual(Swarm(), given, reads=reads)
    assert set(hybrid.params) == {"k", "c", "net.layer.weight", "net.layer.bias"}
    report = pb.check_system(hybrid)
    assert all(row.status == "agrees" for row in report.rows)
    hybrid = neural.Residual(Swarm(), (4,), reads=("points.x", "heat", "u"))
    assert hybrid.labels[0] == "points.x 0" and len(hybrid.labels) == 12 + 1 + 3
    assert pb.check_system(shaken(hybrid)).passed
    for name, value in given.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert given.layer.weight.dtype == torch.float32 and given.layer.weight.requires_grad


def test_two_of_them():
    """A residual of a residual, with names of their own; inputs given from outside are added to."""
    inner = neural.Residual(robot(), (3,), adds="force")
    hybrid = shaken(neural.Residual(inner, (3,), adds="force", name="more"))
    u, given = random_controls(hybrid, 4), start(hybrid)
    names = ("v", "net.0.weight", "more.0.weight")
    assert pb.check_system(hybrid, given, u[0], names=names).passed
    push = np.random.default_rng(4).normal(size=(4, 2, hybrid.nv))
    plain = neural.Residual(robot(), (3,), adds="force")
    with_push = pb.rollout(plain, given, u, inputs={"force": push})
    np.testing.assert_array_equal(with_push.q, pb.rollout(robot(), given, u, inputs={"force": push}).q)
    bars = with_push.pullback(q_bar=np.ones_like(with_push.q))
    assert np.abs(bars.inputs.force).min() > 0
    with pytest.raises(pb.PullbackError, match="parameter 'net.0.weight'"):
        neural.Residual(inner, (3,))


def test_copies_pickles_and_the_module():
    hybrid = shaken(neural.Residual(robot(), (4,), adds="force", on=("hinge",)))
    hybrid.params["mass"] = hybrid.params["mass"] * 1.5
    u, given = random_controls(hybrid), start(hybrid)
    run = pb.rollout(hybrid, given, u)
    for other in (pickle.loads(pickle.dumps(hybrid)), copy.deepcopy(hybrid), hybrid.in_worlds(2)):
        np.testing.assert_array_equal(pb.rollout(other, given, u).q, run.q)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(run)).q, run.q)
    again = neural.Residual(hybrid.system, hybrid.trained(), adds="force", on=("hinge",))
    again.params["mass"] = hybrid.params["mass"]
    np.testing.assert_array_equal(pb.rollout(again, given, u).q, run.q)
    assert repr(hybrid).startswith("Residual(Articulated(") and "129 weights" in repr(hybrid), repr(hybrid)
    assert hybrid.dt == 0.01 and hybrid.model is hybrid.system.model
    inside = hybrid.inside(run)
    np.testing.assert_array_equal(pb.rollout(robot(), given, u, inputs=inside.inputs, params=inside.params).q, run.q)
    assert np.abs(inside.inputs["force"][..., 6]).min() > 0 and not inside.inputs["force"][..., :6].any()
    assert type(hybrid.drawing(run)).__name__ == "Drawing"


def test_float32():
    hybrid = neural.Residual(
        pb.Articulated(pb.load(ROBOT), None, dtype="float32"), (4,), adds="control", reads=("v", "u")
    )
    wide = hybrid.in_worlds(3, dtype="float64")
    assert (wide.worlds, wide.dtype) == (3, "float64") and wide.params["net.0.weight"].shape == (4, 11)


# --- forms ------------------------------------------------------------------------------------------------------------


def test_a_dissipative_form_takes_energy():
    """Power of the force, -(Lᵀv)², in random states; and a robot without other damping slows down."""
    hybrid = shaken(neural.Residual(robot(6), (8,), adds="force", form="dissipative", reads=("q", "v")), size=1.0)
    state = start(hybrid)
    force = hybrid.front(state, np.zeros((6, 1))).inputs["force"]
    power = np.sum(force * state.v, axis=1)
    assert np.all(power < -1e-3)
    fresh = neural.Residual(robot(), (4,), adds="force", form="dissipative", reads=("q", "v"))
    bars = (run := pb.rollout(fresh, start(fresh), random_controls(fresh))).pullback(v_bar=np.ones_like(run.v))
    assert np.abs(bars.params["net.2.bias"]).max() > 0, "zero at first, it would never learn"


def test_a_dissipative_form_takes_energy_whatever_its_scale():
    """Also with a scale for each degree of freedom: one that multiplied the force alone would drive some motions."""
    plain = pb.Articulated(pb.load(pb.robots.pendulum(2)), contact=None, worlds=100)
    options = {"adds": "force", "form": "dissipative", "reads": ("angles", "v")}
    hybrid = shaken(neural.Residual(plain, (6,), scale=(1.0, 50.0), **options), size=1.0)
    rng, u = np.random.default_rng(0), np.zeros((100, plain.nu))
    state = plain.state(rng.normal(size=(100, 2)), rng.normal(size=(100, 2)))
    power = np.sum(hybrid.front(state, u).inputs["force"] * state.v, axis=1)
    assert np.all(power < 0)
    scaled, once = (shaken(neural.Residual(plain, (6,), scale=s, **options), size=1.0) for s in (9.0, 1.0))
    forces = [system.front(state, u).inputs["force"] for system in (scaled, once)]
    np.testing.assert_allclose(forces[0], 9.0 * forces[1], rtol=1e-12)
    pb.check_system(shaken(hybrid.in_worlds(2)), rollout_steps=2)


def test_a_conservative_form_has_a_potential():
    """The work along a small move of any coordinate is what the potential loses; energy stays along a motion."""
    hybrid = shaken(neural.Residual(robot(1), (6,), adds="force", form="conservative", reads=("q", "position")))
    state, u = start(hybrid), np.zeros((1, 1))
    weights = {name: torch.tensor(hybrid.params[name]) for name in hybrid.params if name.startswith("net.")}

    def potential(q):
        features = hybrid._reads(pb.State(torch.tensor(q), torch.tensor(state.v)), None)
        return float(hybrid._network(features, weights)[0, 0])

    force = hybrid.front(state, u).inputs["force"][0]
    for i, e in enumerate(1e-6 * np.eye(hybrid.nv)):
        up, down = (potential(integrate(hybrid.model, state.q, sign * e)) for sign in (1, -1))
        assert force[i] == pytest.approx(-(up - down) / 2e-6, abs=1e-8)
    assert np.abs(force).min() > 1e-4


def test_energy_stays_with_a_conservative_form():
    """The force is held over a step, so that what drifts shrinks with the timestep."""
    drifts = []
    for timestep in (1e-3, 1e-4):
        model = pb.load(
            ROBOT.replace('damping="0.1"', "").replace('damping="0.05"', ""), integrator="rk4", timestep=timestep
        )
        plain = pb.Articulated(model, contact=None)
        hybrid = shaken(neural.Residual(plain, (6,), adds="force", form="conservative", reads=("q",)), size=0.3)
        run = pb.rollout(hybrid, start(hybrid), steps=round(0.1 / timestep))
        weights = {name: torch.tensor(hybrid.params[name]) for name in hybrid.params if name.startswith("net.")}
        features = hybrid._reads(pb.State(torch.tensor(run.q[[0, -1], 0]), None), None)
        potential = hybrid._network(features, weights)[:, 0].numpy()
        mechanical = [energy(plain, q, v).value.sum() for q, v in zip(run.q[[0, -1]], run.v[[0, -1]], strict=True)]
        assert abs(np.diff(mechanical)[0]) > 1e-3
        drifts.append(abs(np.diff(mechanical + potential)[0]))
    assert drifts[1] < 0.2 * drifts[0] and drifts[1] < 0.1 * abs(np.diff(mechanical)[0])


# --- guard rails ------------------------------------------------------------------------------------------------------


def test_ranges_and_violations():
    hybrid = neural.Residual(robot(), (4,), adds="force", reads=("v", "u"))
    u, given = random_controls(hybrid), start(hybrid)
    run = pb.rollout(hybrid, given, u)
    with pytest.raises(pb.PullbackError, match="no ranges"):
        hybrid.violations(run)
    known = hybrid.calibrated(pb.State(run.q[:-1], run.v[:-1]), u)
    found = known.violations(pb.rollout(known, given, u))
    assert not found and found.states == len(u) * 2 and "none" in str(found)
    np.testing.assert_array_equal(pb.rollout(known, given, u).q, run.q)  # still zero
    features = known.features(pb.State(run.q[:-1], run.v[:-1]), u).reshape(-1, len(known.labels))
    np.testing.assert_allclose(known.ranges.centre, features.mean(axis=0))
    found = known.violations(pb.rollout(known, given, 3 * u))
    by_hand = np.any([(3 * u.ravel() > u.max()), (3 * u.ravel() < u.min())], axis=0).sum()
    assert found and found.counts[known.labels.index("u elbow")] == by_hand and "u elbow" in str(found)
    assert pb.check_system(shaken(known), given, u[0], names=("v", "net.0.weight")).passed


def test_what_a_network_gives_that_is_not_finite_is_named():
    reads = lambda state, control: torch.sqrt(2.0 - state.v[:, -1:])  # noqa: E731
    hybrid = shaken(neural.Residual(robot(), torch.nn.Linear(1, 10), reads=reads, adds="force"), size=1e-3)
    given = start(hybrid)
    given.v[:, -1] = 0.0, 3.0
    with pytest.raises(pb.PullbackError, match="network 'net' gives numbers that are not finite in world 1"):
        pb.rollout(hybrid, given, random_controls(hybrid))
    run = pb.rollout(hybrid, given, random_controls(hybrid), on_failure="mask")
    assert run.status.failed.tolist() == [False, True] and "network 'net'" in run.status.reasons[1]
    bars = run.pullback(v_bar=np.ones_like(run.v))
    assert np.abs(bars.state.v[0]).min() > 0 and not bars.state.v[1].any() and np.all(bars.params["net.bias"] != 0)


# --- bad input --------------------------------------------------------------------------------------------------------

WRONG = {
    "a module with another number of outputs": (
        lambda s: neural.Residual(s, torch.nn.Linear(30, 5), adds="control"),
        "module of 'net' gives 5 outputs for each world, but adds='control' needs 1",
    ),
    "another number of inputs": (
        lambda s: neural.Residual(s, torch.nn.Linear(7, 1)), "module of 'net' cannot take 30 features"
    ),
    "a forgotten feature": (
        lambda s: neural.Residual(s, (4,), reads=("q", "w")), "nothing called 'w' to read; there are u, q"
    ),
    "no features": (lambda s: neural.Residual(s, (4,), reads=()), "reads is empty"),
    "adds": (lambda s: neural.Residual(s, (4,), adds="torque"), "no input 'torque'"),
    "on": (lambda s: neural.Residual(s, (4,), adds="force", on=("knee",)), "no force on 'knee'"),
    "on twice": (lambda s: neural.Residual(s, (4,), adds="force", on=("ball", "ball")), "each once"),
    "form": (lambda s: neural.Residual(s, (4,), adds="force", form="nice"), "form is one of"),
    "form of a control": (lambda s: neural.Residual(s, (4,), form="dissipative"), "use adds='force'"),
    "a potential of velocities": (
        lambda s: neural.Residual(s, (4,), adds="force", form="conservative"), "do not read"
    ),
    "scale": (lambda s: neural.Residual(s, (4,), adds="force", scale=[1, 2]), "scale must be positive"),
    "a negative scale": (lambda s: neural.Residual(s, (4,), scale=-1.0), "scale must be positive"),
    "scales of a potential": (
        lambda s: neural.Residual(s, (4,), adds="force", form="conservative", reads="q", scale=[1] * 10),
        "scale must be positive: one number",
    ),
    "no module": (lambda s: neural.Residual(s, "mlp"), "torch.nn.Module or sizes of layers, not str"),
    "no System": (lambda s: neural.Residual(s.model, (4,)), "system must be a System"),
    "a layer": (lambda s: neural.Residual(s, (4.5,)), "hidden layer"),
    "ranges": (
        lambda s: neural.Residual(s, (4,), reads=("u",), ranges=neural.Ranges.of(np.zeros((2, 3)))), "3 features"
    ),
    "reads gives no tensor": (
        lambda s: neural.Residual(s, torch.nn.Linear(1, 1), reads=lambda state, u: 1.0), "reads must return a tensor"
    ),
    "layers for a function": (lambda s: neural.Residual(s, (4,), reads=lambda state, u: u), "torch.nn.Module"),
    "ranges of controls that are too few": (
        lambda s: neural.Residual(s, (4,)).calibrated(pb.State(*(x[None] for x in s.state())), np.zeros((0, 2, 1))),
        "features are of states (rows, worlds, ...) and as many controls",
    ),
    "ranges of no states": (
        lambda s: neural.Residual(s, (4,)).calibrated(
            pb.State(*(x[None][:0] for x in s.state())), np.zeros((0, 2, 1))
        ), "of at least one row"
    ),
    "a control that is not finite": (
        lambda s: neural.Residual(s, (4,)).step(s.state(), np.full((2, 1), np.nan)), "control is not finite at worlds 0"
    ),
    "a control of one world": (
        lambda s: neural.Residual(s, (4,)).step(s.state(), np.zeros((1, 1))), "control has shape (1, 1), but (worlds=2"
    ),
    "a state of one world": (
        lambda s: neural.Residual(s, (4,)).step(pb.State(*(x[:1] for x in s.state()))), "q has shape (1, 12), but (worl"
    ),
    "a weight of another shape": (
        lambda s: pb.rollout(neural.Residual(s, (4,)), s.state(), steps=1, params={"net.0.bias": np.zeros(3)}),
        "parameter 'net.0.bias' has shape",
    ),
}  # fmt: skip


def test_weights_of_a_world_that_blow_up_wherever_it_is():
    """A world that failed is stepped in the state of a healthy one, and with the weights of that one: by its own it
    would fail there too, and the whole run with it."""
    hybrid = shaken(neural.Residual(robot(3), (4,), adds="force"))
    good = {"net.2.weight": np.stack([hybrid.params["net.2.weight"]] * 3)}
    weights = good["net.2.weight"] * np.array([1.0, 1e300, 1.0])[:, None, None]
    given, u, bar = start(hybrid), random_controls(hybrid), np.ones((3, hybrid.nv))
    run = pb.rollout(hybrid, given, u, params={"net.2.weight": weights}, on_failure="mask")
    assert run.status.failed.tolist() == [False, True, False]
    wanted = pb.rollout(hybrid, given, u, params=good)
    np.testing.assert_array_equal(run.v[:, [0, 2]], wanted.v[:, [0, 2]])
    np.testing.assert_array_equal(run.v[:, 1], np.broadcast_to(given.v[1], run.v[:, 1].shape))
    grads, others = run.pullback(v_bar=bar), wanted.pullback(v_bar=bar)
    np.testing.assert_array_equal(grads.state.q[[0, 2]], others.state.q[[0, 2]])
    assert not np.any(grads.params["net.2.weight"][1]) and np.all(np.any(grads.params["net.2.weight"][[0, 2]], (1, 2)))


def test_controls_that_are_whole_numbers():
    hybrid = shaken(neural.Residual(robot(), (4,)))
    state, bar = start(hybrid), np.ones((2, hybrid.nv))
    found, wanted = (hybrid.pullback(state, u, pb.State(None, bar)) for u in (np.ones((2, 1), int), np.ones((2, 1))))
    np.testing.assert_array_equal(found.control, wanted.control)


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_one_line(what):
    call, message = WRONG[what]
    with pytest.raises(pb.PullbackError) as caught:
        call(robot())
    assert message in str(caught.value) and "\n" not in str(caught.value), str(caught.value)
