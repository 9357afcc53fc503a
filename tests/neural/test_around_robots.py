"""What is said of a robot holds of a System around one: algorithms, terms of losses, iLQR, environments, learning."""

import numpy as np
import pytest
import torch

import pullback as pb
from pullback import learn, neural
from pullback.dynamics import Articulated, jacobian, kinematics
from pullback.envs import ENVS
from pullback.neural.hybrid import weights_of
from pullback.plan import ILQR, minimise
from pullback.spatial import quat_exp
from pullback.tasks import Controls, Effort, Orientation, Position, StateGoal, Task

ARM = """<mujoco><compiler angle="radian"/><option timestep="0.01"/><worldbody>
  <body name="upper"><joint name="shoulder" axis="0 1 0" damping="0.1"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.3" mass="0.5"/>
  <body name="lower" pos="0 0 -0.3"><joint name="elbow" axis="0 1 0.3" damping="0.1"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.3" mass="0.3"/><site name="tip" pos="0 0 -0.3"/></body></body>
  </worldbody><actuator><motor joint="shoulder"/><motor joint="elbow"/></actuator></mujoco>"""


def around(kind: str):
    """Systems around the arm, whose networks do something."""
    plain = Articulated(pb.load(ARM), contact=None)
    if kind == "residual":
        made = neural.Residual(plain, (4,), reads=("q", "v"), adds="force", scale=0.3)
    elif kind == "actuator":
        made = neural.Actuator(plain, (4,), torque_scale=5.0)
    elif kind == "in kernels":
        made = neural.Actuator(plain, (4,), torque_scale=5.0, where="kernel")
    else:
        made = neural.Residual(neural.Actuator(plain, (4,), torque_scale=5.0), (4,), adds="control", name="more")
    for name in weights_of(made):
        made.params[name] = 0.4 * np.random.default_rng(1).normal(size=made.params[name].shape)
    return made


KINDS = ("residual", "actuator", "in kernels", "both")


@pytest.mark.parametrize("kind", KINDS)
def test_algorithms_are_those_of_the_robot_inside(kind):
    system, q = around(kind), np.array([[0.3, -0.7]])
    plain = Articulated(pb.load(ARM), contact=None)
    places = plain.params["body_pos"] + 0.02
    for one in (system, plain):
        one.params["body_pos"] = places
    found, wanted = (kinematics(one, q, of="site") for one in (system, plain))
    np.testing.assert_array_equal(found.value, wanted.value)
    bar = np.random.default_rng(0).normal(size=found.value.shape)
    np.testing.assert_array_equal(found.pullback(bar).params["body_pos"], wanted.pullback(bar).params["body_pos"])
    assert np.abs(found.pullback(bar).params["body_pos"]).max() > 0.1
    moved = {**system.params, "body_pos": places + 0.1}
    assert np.abs(kinematics(system, q, of="site", params=moved).value - wanted.value).max() > 0.01
    np.testing.assert_array_equal(jacobian(system, q, of="site").value, jacobian(plain, q, of="site").value)


def reach(system, steps: int = 8) -> Task:
    """A task of the tip, of the elbow by name, and of the turn of a body."""
    turn = quat_exp(np.array([0.1, 0.4, -0.2]))
    loss = Position("tip", (0.2, 0.1, -0.4), weights=3.0) + StateGoal(q={"elbow": 0.5}, v=0.0, when="path", weights=0.1)
    loss = loss + Orientation("lower", turn, of="body", weights=0.5) + 0.01 * Effort()
    start = system.started(pb.State(np.array([[0.2, 0.3]]), np.array([[0.5, -0.4]])))
    return Task(
        name="reach", about="", system=system, start=start, find=Controls(steps), loss=loss,
        metric=lambda run: np.zeros(run.system.worlds), target=-1.0,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_terms_have_gradients_around_a_robot(kind):
    task = reach(around(kind))
    x = 0.3 * np.random.default_rng(2).normal(size=len(task.begin()[0]))
    gradient = task(x[None], True).gradients[0]
    assert np.abs(gradient).max() > 1e-3
    for direction in np.random.default_rng(3).normal(size=(2, len(x))):
        for h in (1e-4, 1e-5):
            up, down = (task(x[None] + sign * h * direction, False).losses[0] for sign in (1, -1))
            assert gradient @ direction == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_ilqr_around_a_robot(kind):
    """Its expansion of the terms, by states that remember something, leads to where the gradient vanishes."""
    task = reach(around(kind))
    x = task.begin()[0]
    found = minimise(task, x, ILQR(), iterations=40)
    slope, first = (np.abs(task(point[None], True).gradients[0]).max() for point in (found.x, x))
    assert slope < 1e-4 * first and found.losses.min() < found.losses[0] - 0.01


def test_targets_of_an_actuator_are_no_torques():
    """They have no limits as variables; in environments they are within the ranges of joints."""
    limited = ARM.replace("<motor ", '<motor ctrlrange="-0.1 0.1" ').replace(
        'name="elbow"', 'name="elbow" range="-2 0.5" limited="true"'
    )
    plain = Articulated(pb.load(limited, ignore=("limit",)), contact=None)
    driven = neural.Actuator(plain, (4,), torque_scale=5.0)
    _, low, high = Controls(3).begin(driven)
    assert np.all(np.isinf(low)) and np.all(np.isinf(high)) and np.all(Controls(3).scale_in(driven) == 1.0)
    assert np.all(Controls(3).scale_in(plain) == 0.1)
    np.testing.assert_allclose(driven.control_range, [[-1, 1], [-2, 0.5]])  # [rad]


def test_a_goal_for_a_joint_that_is_not_there():
    task = reach(around("residual"))
    with pytest.raises(pb.PullbackError, match="no joint 'wrist'"):
        task.but(loss=StateGoal(q={"wrist": 1.0}))(task.begin()[0][None], False)


class OnAHybrid(ENVS["cartpole"]):
    """A cart whose network adds to its motor, or is its motor."""

    kind = "residual"

    def make_system(self, worlds, dtype, device):
        plain = super().make_system(worlds, dtype, device)
        if self.kind == "residual":
            return neural.Residual(plain, (4,), adds="control", reads=("angles", "v"))
        return neural.Actuator(plain, (4,), torque_scale=5.0, where=self.kind)


class OnActuators(OnAHybrid):
    kind = "torch"


class InKernels(OnAHybrid):
    kind = "kernel"


def test_an_environment_on_a_hybrid_begins_as_the_plain_one():
    plain, hybrid = (make(worlds=3, dtype="float64") for make in (ENVS["cartpole"], OnAHybrid))
    action = torch.tensor([[0.3], [-0.8], [0.1]], dtype=torch.float64)
    found = [env.step(env.reset(env.random(0)), action, env.random(1)) for env in (plain, hybrid)]
    for a, b in zip(found[0].state.physics, found[1].state.physics, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(found[0].reward, found[1].reward)


@pytest.mark.parametrize("make", [OnAHybrid, OnActuators, InKernels])
def test_rewards_have_gradients_through_a_hybrid(make):
    """By the actions of several steps, against differences; worlds that begin again remember nothing."""
    env = make(worlds=2, dtype="float64")
    for name in weights_of(env.system):
        env.system.params[name] = 0.4 * np.random.default_rng(1).normal(size=env.system.params[name].shape)

    def worth(actions: torch.Tensor) -> torch.Tensor:
        random, total = env.random(0), 0.0
        state = env.reset(random)
        for action in actions:
            after = env.step(state, action, random)
            state, total = after.state, total + after.reward.sum()
        return total

    actions = 0.3 * torch.randn(4, 2, env.action_size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    actions.requires_grad_()
    (gradient,) = torch.autograd.grad(worth(actions), actions)
    moved = torch.randn(actions.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        slope = (worth(actions + 1e-5 * moved) - worth(actions - 1e-5 * moved)) / 2e-5
    assert float((gradient * moved).sum()) == pytest.approx(float(slope), rel=1e-6) and abs(slope) > 1e-4
    random = env.random(0)
    state = env.step(env.reset(random), actions[0].detach(), random).state
    again = env.reset_where(torch.tensor([True, False]), state, random)
    if make is not OnAHybrid:
        assert state.physics.memory.abs().max() > 0
        assert torch.all(again.physics.memory[0] == 0) and torch.equal(again.physics.memory[1], state.physics.memory[1])


def test_a_policy_learns_in_a_hybrid():
    learner = learn.SHAC(window=4, worlds=4, hidden=(8,)).begin(InKernels(worlds=4), 0)
    before = [x.detach().clone() for x in learner.policy.parameters()]
    learner.update(0.0)
    moved = [float((x.detach() - y).abs().max()) for x, y in zip(learner.policy.parameters(), before, strict=True)]
    assert max(moved) > 1e-5 and np.all(np.isfinite(moved))


class Numbers(torch.nn.Module):
    """Leaves torch."""

    def forward(self, x):
        return x.numpy()


def test_a_module_that_gives_no_tensor():
    plain = Articulated(pb.load(ARM), contact=None)
    with pytest.raises(
        pb.PullbackError, match="module of 'net' cannot take 2 features.*it gives ndarray, not a tensor"
    ):
        neural.Residual(plain, Numbers(), reads=("q",), adds="force")


def test_times_that_run_backwards():
    plain = Articulated(pb.load(ARM), contact=None)
    recording = neural.Recording(pb.State(np.zeros((9, 2)), np.zeros((9, 2))), times=-0.01 * np.arange(9))
    with pytest.raises(pb.PullbackError, match="times of recording must grow, but rows are -0.01 s apart"):
        recording.fitted(plain)
