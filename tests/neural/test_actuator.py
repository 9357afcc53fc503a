"""Actuator networks, whose history is state, and laws: parameters that are functions."""

import pickle

import numpy as np
import pytest
import torch

import pullback as pb
import pullback.torch as pbt
from pullback import neural, thermal
from pullback.core.trees import leaves
from pullback.neural.actuator import ActuatorState

ROBOT = """<mujoco><option timestep="0.01"/><worldbody>
  <body name="base" pos="0 0 1"><freejoint name="float"/><geom type="box" size="0.2 0.1 0.05" mass="2"/>
    <body name="thigh" pos="0.2 0 0"><joint name="hip" axis="0 1 0" damping="0.05"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" mass="0.5"/>
      <body name="calf" pos="0.2 0 0"><joint name="knee" axis="0 1 0" damping="0.05"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 -0.1" mass="0.3"/></body></body></body></worldbody>
  <actuator><motor name="b" joint="knee"/><motor name="a" joint="hip"/></actuator></mujoco>"""
SERVO = ROBOT.replace('motor name="b"', 'position kp="3" name="b"')
KINDS = {
    "now": lambda s: neural.Actuator(s, (4,), history=(0,)),
    "history": lambda s: neural.Actuator(s, (4,), history=(0, 2), order="vel_pos", pos_scale=2.0, torque_scale=3.0),
    "lstm": lambda s: neural.Actuator(s, neural.LSTM(hidden=2, layers=2), vel_scale=0.5, limit=40.0),
}


def robot(worlds: int = 2) -> pb.Articulated:
    return pb.Articulated(pb.load(ROBOT), contact=None, worlds=worlds)


def start(system, seed: int = 0):
    rng = np.random.default_rng(seed)
    q = system.model.q0 + 0.3 * rng.normal(size=(system.worlds, system.nq))
    state = system.state(q, rng.normal(size=(system.worlds, system.nv)))
    return state._replace(memory=rng.normal(size=state.memory.shape))


def targets(system, steps: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(steps, system.worlds, system.nu))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_every_weight_and_the_history(kind):
    system = KINDS[kind](robot())
    assert system.nu == 2 and isinstance(system.state(), ActuatorState)
    weights = [name for name in system.params if name.startswith("net.")]
    names = (*weights, "q", "v", "control", "mass", *(["memory"] if system.state().memory.size else []))
    for steps in (1, 4):
        report = pb.check_system(
            system, start(system), targets(system, steps)[: steps or 1], rollout_steps=steps, names=names
        )
        rows = {row.field: row for row in report.rows}
        assert set(rows) == set(names) and report.tolerance == 1e-6
        for name in (*(n for n in weights if steps > 1 or "hh" not in n), "control", "q"):
            assert rows[name].status == "agrees", (name, rows[name])


def test_a_perceptron_by_hand():
    """Torques as Isaac Lab and Newton compute them: errors and velocities of now and of two steps ago."""
    system = KINDS["history"](robot(1))
    u, net = targets(system, 6), system.trained()
    run = pb.rollout(system, system.state(v=[0, 0, 0, 0, 0, 0, 1.0, -2.0]), u)
    inside = system.inside(run)
    knee, hip = (run.q[:-1, 0, i] for i in (8, 7))
    error = u[:, 0] - np.stack([knee, hip], axis=1)
    speed = run.v[:-1, 0][:, [7, 6]]
    for t in (0, 1, 2, 5):
        ago = (error[t - 2], speed[t - 2]) if t >= 2 else (np.zeros(2), np.zeros(2))
        features = np.stack([speed[t], ago[1], 2.0 * error[t], 2.0 * ago[0]], axis=1)
        torque = 3.0 * net(torch.tensor(features)).detach().numpy()[:, 0]
        np.testing.assert_allclose(inside.inputs["force"][t, 0, [7, 6]], torque, rtol=1e-12)
    assert not inside.inputs["force"][..., :6].any() and not inside.controls.any()
    again = pb.rollout(robot(1), pb.State(run.q[0], run.v[0]), inside.controls, inputs=inside.inputs)
    np.testing.assert_array_equal(again.q, run.q)


def test_an_lstm_is_that_of_torch():
    ours = neural.LSTM(inputs=2, hidden=3, layers=2, seed=4)
    theirs = torch.nn.LSTM(2, 3, num_layers=2, dtype=torch.float64)
    theirs.load_state_dict({n: x for n, x in ours.state_dict().items() if not n.startswith("head")})
    x, state = torch.randn(5, 7, 2, dtype=torch.float64), torch.zeros(5, 2, 2, 3, dtype=torch.float64)
    outs = []
    for t in range(7):
        out, state = ours(x[:, t], state)
        outs.append(out)
    wanted, (h, c) = theirs(x.transpose(0, 1))
    torch.testing.assert_close(torch.stack(outs), ours.head(wanted), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(
        state, torch.stack([h.transpose(0, 1), c.transpose(0, 1)], dim=1), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("kind", ["history", "lstm"])
def test_checkpoints_pickles_and_bindings(kind):
    system = KINDS[kind](robot())
    u, given = targets(system, 9), start(system)
    whole = pb.rollout(system, given, u)
    assert run_shapes(whole) == [(10, 2, 9), (10, 2, 8), (10, 2, *system.state().memory.shape[1:])]
    reference = whole.pullback(q_bar=np.ones_like(whole.q))
    found = pb.rollout(pickle.loads(pickle.dumps(system)), given, u, checkpoint_every=4).pullback(
        q_bar=np.ones_like(whole.q)
    )
    for a, b in zip(arrays(found), arrays(reference), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(reference.state.memory).max() > 0
    state = ActuatorState(*map(torch.tensor, given))
    weight = torch.tensor(np.array(system.params[list(system.networks[0].weights)[0]]), requires_grad=True)
    states = pbt.rollout(system, state, torch.tensor(u), params={list(system.networks[0].weights)[0]: weight})
    states.q.sum().backward()
    np.testing.assert_array_equal(weight.grad, reference.params[list(system.networks[0].weights)[0]])
    A, B = system.linearize(given, u[0])
    assert A.shape[1] == 16 + given.memory[0].size and B.shape[2] == 2


def arrays(bars) -> list:
    return [*leaves(bars.state), *bars.params.values()]


def run_shapes(run) -> list[tuple]:
    return [x.shape for x in leaves(run.states)]


@pytest.mark.parametrize("kind", ["history", "lstm"])
def test_a_fit_from_recordings_without_the_history(kind):
    """Recordings have q and v alone; the memory of every window's start comes from the rows before it."""
    real = KINDS[kind](robot(1))
    u = np.cumsum(0.2 * targets(real, 40), axis=0)
    run = pb.rollout(real, real.state(), u)
    recording = neural.Recording(pb.State(run.q[:, 0], run.v[:, 0]), u[:, 0])
    known = real.recorded(pb.State(run.q[:, 0], run.v[:, 0]), u[:, 0], 1)
    first = 2 if kind == "history" else 0  # what was before the first row is not known
    np.testing.assert_allclose(known.memory, run.memory[first:, 0], rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(known.q, run.q[first:, 0])
    guess = real.in_worlds(1)
    for name in real.networks[0].weights:
        guess.params[name] = 0.9 * real.params[name]
    found = neural.fit(guess, recording, windows=(6,), noise=1e-3, iterations=12, penalty=0.0, held_out=0.3)
    assert found.errors["held out, after"] < 0.3 * found.errors["held out, before"]


def test_networks_that_others_export(tmp_path):
    """A perceptron as Isaac Lab's and an LSTM as legged_gym's, as TorchScript: the same torques."""
    mlp = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Softsign(), torch.nn.Linear(8, 4), torch.nn.Softsign(),
                              torch.nn.Linear(4, 1))  # fmt: skip
    torch.jit.script(mlp).save(tmp_path / "mlp.pt")
    read, x = neural.read_actuator(tmp_path / "mlp.pt"), torch.randn(5, 6)
    torch.testing.assert_close(read(x.double()).float(), mlp(x), rtol=1e-5, atol=1e-6)
    assert "Softsign" in str(read) and neural.Actuator(robot(), read).nu == 2

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.linear = torch.nn.LSTM(2, 8, num_layers=2, batch_first=True), torch.nn.Linear(8, 1)

        def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
            out, state = self.lstm(x, state)
            return self.linear(out[:, -1]), state

    net, x = Net(), torch.randn(5, 1, 2)
    torch.jit.script(net).save(tmp_path / "lstm.pt")
    read = neural.read_actuator(tmp_path / "lstm.pt")
    out, state = read(x[:, 0].double(), torch.zeros(5, 2, 2, 8, dtype=torch.float64))
    wanted, (h, c) = net(x, (torch.zeros(2, 5, 8), torch.zeros(2, 5, 8)))
    torch.testing.assert_close(out.float(), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state[:, 1, 1].float(), c[1], rtol=1e-5, atol=1e-6)
    assert neural.Actuator(robot(), read).state().memory.shape == (2, 2, 2, 2, 8)
    (tmp_path / "no.pt").write_bytes(b"nothing")
    for name, message in (("no.pt", "cannot be read as TorchScript"), ("none.pt", "cannot be read as TorchScript")):
        with pytest.raises(pb.PullbackError, match=message):
            neural.read_actuator(tmp_path / name)


# --- laws -------------------------------------------------------------------------------------------------------------


class Stribeck(torch.nn.Module):
    """More damping at low speed; one number for each joint from its own speed."""

    def __init__(self):
        super().__init__()
        self.rise = torch.nn.Parameter(torch.tensor([0.7]))
        self.width = torch.nn.Parameter(torch.tensor([1.3]))

    def forward(self, v):
        return self.rise * torch.exp(-((v * self.width) ** 2))


LAWS = {
    "factor": lambda s: neural.Law(s, (3,), parameter="damping", entries=slice(6, 8), reads=("v",)),
    "sum": lambda s: neural.Law(s, (3,), parameter="stiffness", entries=(1,), reads=("q",), form="sum", scale=2.0),
    "each": lambda s: neural.Law(
        s, Stribeck(), parameter="damping", entries=[6, 7], reads=lambda state, u: state.v[:, 6:, None]
    ),
}


@pytest.mark.parametrize("law", LAWS)
def test_a_law_has_gradients_by_everything(law):
    plain = robot()
    system = LAWS[law](plain)
    given = pb.State(*start(KINDS["now"](plain))[:2])
    u = np.random.default_rng(3).normal(size=(5, 2, 2))
    if law != "each":  # a last layer of zeros
        np.testing.assert_array_equal(pb.rollout(system, given, u).q, pb.rollout(plain, given, u).q)
        for name in system.networks[0].weights:
            system.params[name] = 0.5 * np.random.default_rng(2).normal(size=system.params[name].shape)
    assert np.abs(pb.rollout(system, given, u).q - pb.rollout(plain, given, u).q).max() > 1e-6
    weights = tuple(system.networks[0].weights)
    report = pb.check_system(system, given, u[0], names=(*weights, "q", "v", "damping", "stiffness", "mass"))
    assert all(row.status == "agrees" for row in report.rows if row.field in weights)
    assert pb.check_system(system, given, u[:3], rollout_steps=3, names=(*weights, system.parameter)).passed


def test_what_a_law_gives():
    system = LAWS["each"](robot())
    given = pb.State(*start(KINDS["now"](robot()))[:2])
    value = system.front(given, np.zeros((2, 2))).params["damping"]
    wanted = np.tile(system.params["damping"], (2, 1))
    wanted[:, 6:] *= np.exp(0.7 * np.exp(-((1.3 * given.v[:, 6:]) ** 2)))
    np.testing.assert_allclose(value, wanted, rtol=1e-6)


def test_a_law_of_heat():
    """Losses that depend on how hot the part is: the state is no robot's."""
    mesh = thermal.grid(*[np.linspace(0, 2e-3, 3)] * 3)
    path = thermal.follow([(0, 1e-3, 2e-3), (2e-3, 1e-3, 2e-3)], speed=10e-3)
    heat = thermal.Heat(mesh, thermal.inconel_718(), path, dt=1e-3, convection=50.0)

    def reads(state, control):
        return state.T.mean(dim=1, keepdim=True) / 1000.0

    system = neural.Law(heat, torch.nn.Linear(1, 1), parameter="convection", reads=reads)
    hot = heat.state()._replace(T=heat.state().T + 500.0)
    names = ("law.weight", "law.bias", "convection")
    report = pb.check_system(system, hot, names=names)
    assert [row.status for row in report.rows] == ["agrees"] * 3


# Two hinges, of which the second is driven, but not by an actuator on the joint.
PULLED = """<mujoco><worldbody><body><joint name="a"/><geom size="0.1"/>
  <body pos="1 0 0"><joint name="b"/><geom size="0.1"/><site name="tip"/></body></body></worldbody>
  <tendon><fixed name="pull"><joint joint="b" coef="1"/></fixed></tendon>
  <actuator><motor name="motor" {} gear="1"/></actuator></mujoco>"""
WRONG = {
    "another size": (lambda s: neural.Actuator(s, torch.nn.Linear(6, 2)), "gives 2 outputs for each joint"),
    "another history": (lambda s: neural.Actuator(s, torch.nn.Linear(4, 1)), "module of 'net' cannot take 6 features"),
    "order": (lambda s: neural.Actuator(s, (4,), order="qv"), "order is 'pos_vel' or 'vel_pos'"),
    "history": (lambda s: neural.Actuator(s, (4,), history=(0, 0)), "different numbers of timesteps"),
    "a history longer than the memory": (
        lambda s: neural.Actuator(s, (4,), history=(2**31 - 1,)), "a history of 2147483647 timesteps"
    ),
    "a joint": (lambda s: neural.Actuator(s, (4,), joints=("ankle",)), "no joint 'ankle'"),
    "a free joint": (lambda s: neural.Actuator(s, (4,), joints=("float",)), "is no hinge or slide"),
    "a parameter": (lambda s: neural.Law(s, (4,), parameter="dampnig"), "did you mean 'damping'"),
    "a factor of nothing": (
        lambda s: neural.Law(s, (4,), parameter="stiffness", entries=0), "'stiffness' is zero, which no factor changes"
    ),
    "entries": (lambda s: neural.Law(s, (4,), parameter="damping", entries=99), "is no index of 'damping'"),
    "a law's size": (
        lambda s: neural.Law(s, torch.nn.Linear(8, 3), parameter="damping", reads=("v",)), "gives 3 outputs, but 8"
    ),
    "an actuator on a tendon": (
        lambda s: neural.Actuator(pb.Articulated(pb.load(PULLED.format('tendon="pull"')), None), (4,)),
        "actuator 'motor' acts on no joint",
    ),
    "an actuator at a site": (
        lambda s: neural.Actuator(pb.Articulated(pb.load(PULLED.format('site="tip"')), None), (4,)),
        "actuator 'motor' acts on no joint",
    ),
    "a servo": (
        lambda s: neural.Actuator(pb.Articulated(pb.load(SERVO), None), (4,)), "actuator 'b' acts without control"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_one_line(what):
    call, message = WRONG[what]
    with pytest.raises(pb.PullbackError) as caught:
        call(robot())
    assert message in str(caught.value) and "\n" not in str(caught.value), str(caught.value)
