"""A policy in the loop, worlds that fail in it, and worlds that start again."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pullback as pb  # noqa: E402
import pullback.torch as pbt  # noqa: E402

WORLDS, STEPS = 3, 6


@pytest.fixture
def system():
    return pb.Articulated(pb.load(pb.robots.cartpole()), contact=None, worlds=WORLDS, threads=1)


def some_start(system, seed: int = 0) -> pb.State:
    rng = np.random.default_rng(seed)
    return pb.State(*(torch.tensor(rng.standard_normal((WORLDS, n)), requires_grad=True) for n in (2, 2)))


def some_policy() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()


def observe(state):
    return torch.cat([state.q, state.v], dim=1)


def loss_of(states, controls):
    return (states[0] ** 2).sum() + torch.sin(states[1]).sum() + 0.1 * (controls**2).sum()


def test_it_is_a_loop_of_steps(system):
    policy, start = some_policy(), some_start(system)
    mass = torch.tensor(system.params["mass"] * 1.1, requires_grad=True)
    wanted = [start.q, start.v, mass, *policy.parameters()]
    states, controls = pbt.closed_loop(
        system, policy, start, steps=STEPS, observe=observe, params={"mass": mass}, hold=2
    )
    assert states.q.shape == (STEPS + 1, WORLDS, 2) and controls.shape == (STEPS, WORLDS, 1)
    ours = torch.autograd.grad(loss_of(states, controls), wanted)

    state, rows, chosen = start, [start], []
    for _ in range(STEPS):
        chosen.append(policy(observe(state)))
        state = pbt.step(system, state, chosen[-1], params={"mass": mass}, hold=2)
        rows.append(state)
    plain = pb.State(*(torch.stack(x) for x in zip(*rows, strict=True)))
    theirs = torch.autograd.grad(loss_of(plain, torch.stack(chosen)), wanted)
    assert torch.equal(states.q, plain.q) and torch.equal(states.v, plain.v)
    for x, y in zip(ours, theirs, strict=True):
        assert torch.equal(x, y) and torch.any(x != 0)


def test_gradcheck_of_start_gains_parameters_and_inputs(system):
    start = some_start(system)
    gains = torch.tensor([[0.5], [1.0], [0.2], [0.3]], dtype=torch.float64, requires_grad=True)
    damping = torch.tensor(system.params["damping"] + 0.1, requires_grad=True)
    force = torch.randn(STEPS, WORLDS, 2, dtype=torch.float64, requires_grad=True)

    def run(q, v, gains, damping, force):
        policy = lambda state: -observe(state) @ gains  # noqa: E731
        options = {"params": {"damping": damping}, "inputs": {"force": force}}
        (q, v), controls = pbt.closed_loop(system, policy, q, v, steps=STEPS, **options)
        return q, v, controls

    assert torch.autograd.gradcheck(run, (*start, gains, damping, force))


def test_gradients_end_where_they_are_detached(system):
    """The controls before and after the cut belong to different pieces, each of which is a loop of its own."""
    policy, start = some_policy(), some_start(system)
    whole, _ = pbt.closed_loop(system, policy, start, steps=STEPS, observe=observe, detach_every=2)
    same, _ = pbt.closed_loop(system, policy, start, steps=STEPS, observe=observe)
    assert torch.equal(whole.q, same.q)
    assert not torch.any(torch.autograd.grad(whole.q[-1].sum(), start.q, retain_graph=True)[0])
    assert torch.any(torch.autograd.grad(whole.q[2].sum(), start.q, retain_graph=True)[0] != 0)
    ours = torch.autograd.grad(whole.q[-1].sum(), list(policy.parameters()))
    last = pb.State(whole.q[4].detach(), whole.v[4].detach())
    piece, _ = pbt.closed_loop(system, policy, last, steps=2, observe=observe)
    for x, y in zip(ours, torch.autograd.grad(piece.q[-1].sum(), list(policy.parameters())), strict=True):
        assert torch.equal(x, y) and torch.any(x != 0)


def test_worlds_that_fail_stay_and_have_no_gradient(system):
    start, gain = some_start(system), torch.full((WORLDS, 1), 0.5, dtype=torch.float64, requires_grad=True)
    force = torch.zeros(STEPS, WORLDS, 2, dtype=torch.float64)
    force[3, 1] = 1e300  # this world blows up when the policy is called for the fourth time
    policy = lambda state: -gain * state.q[:, :1] ** 2  # noqa: E731
    status, options = pb.Status(), {"steps": STEPS, "hold": 2, "inputs": {"force": force}}
    states, controls = pbt.closed_loop(system, policy, start, **options, status=status)
    grads = torch.autograd.grad(loss_of(states, controls), (start.q, gain))
    assert list(status.failed) == [False, True, False]
    assert status.step[1] in (6, 7) and "world 1" in status.reasons[1] and "call 3" in status.reasons[1]
    assert torch.equal(states.q[-1, 1], states.q[4, 1]) and not torch.equal(states.q[-1, 0], states.q[4, 0])
    # where a world fails inside a held control, it stays in the step before, as in a rollout of the same controls
    options = {"hold": 2, "inputs": {"force": force}, "status": pb.Status()}
    same = pbt.rollout(system, start, controls.detach(), **options)
    assert torch.equal(states.q, same.q) and torch.equal(states.v, same.v)
    for grad in grads:
        assert not torch.any(grad[1]) and torch.all(torch.any(grad[[0, 2]] != 0, dim=1))
    with pytest.raises(pb.SimulationError, match="world 1"):
        pbt.closed_loop(system, policy, start, steps=STEPS, hold=2, inputs={"force": force})


@pytest.mark.parametrize("rows", [STEPS - 1, STEPS + 1])
def test_inputs_have_a_row_per_step(system, rows):
    """Was accepted where there were too many."""
    force = torch.zeros(rows, WORLDS, 2, dtype=torch.float64)
    with pytest.raises(pb.PullbackError, match=rf"input 'force' has shape \({rows}, 3, 2\), but \(steps={STEPS}"):
        policy = lambda state: state.q[:, :1]  # noqa: E731
        pbt.closed_loop(system, policy, some_start(system), steps=STEPS, inputs={"force": force})


def test_any_system_will_do(springs):
    start = pb.State(*(torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)))
    gain = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    stiffness = torch.tensor(springs.params["stiffness"], requires_grad=True)

    def run(q, v, gain, stiffness):
        policy = lambda state: -gain * torch.sin(state.q)  # noqa: E731
        (q, v), controls = pbt.closed_loop(springs, policy, q, v, steps=4, params={"stiffness": stiffness})
        return q, v, controls

    assert torch.autograd.gradcheck(run, (*start, gain, stiffness))


def test_what_is_no_policy_start_status_or_mapping_is_named(system):
    start, policy = some_start(system), some_policy()
    loop = {"steps": STEPS, "observe": observe}
    with pytest.raises(pb.PullbackError, match="give a state to start from"):
        pbt.closed_loop(system, policy, steps=STEPS)
    with pytest.raises(pb.PullbackError, match="policy must be a function, such as a torch.nn.Module, not int"):
        pbt.closed_loop(system, 3, start, **loop)
    with pytest.raises(pb.PullbackError, match="params must be a Mapping"):
        pbt.closed_loop(system, policy, start, params=torch.ones(2), **loop)
    with pytest.raises(pb.PullbackError, match="inputs must be a Mapping"):
        pbt.step(system, start, torch.zeros(WORLDS, 1, dtype=torch.float64), inputs=[1])
    with pytest.raises(pb.PullbackError, match="status must be a Status"):
        pbt.step(system, start, torch.zeros(WORLDS, 1, dtype=torch.float64), status=True)
    with pytest.raises(pb.PullbackError, match=r"controls has shape \(\), but \(steps, worlds, nu\) is needed"):
        pbt.rollout(system, start, torch.tensor(0.0, dtype=torch.float64))


def test_a_module_that_is_given_a_state_says_what_to_do(system):
    """Without ``observe``; other errors of a policy are its own."""
    start = some_start(system)
    with pytest.raises(pb.PullbackError, match=r"was given a State, not a tensor: .*observe=lambda state: ") as caught:
        pbt.closed_loop(system, torch.nn.Linear(4, 1), start, steps=2)
    assert isinstance(caught.value.__cause__, TypeError)
    for policy in (lambda state: torch.relu(state), lambda state: None + 1):
        with pytest.raises(TypeError) as own:
            pbt.closed_loop(system, policy, start, steps=2)
        assert not isinstance(own.value, pb.PullbackError)


def test_bad_policies_are_named(system):
    start = some_start(system)
    with pytest.raises(pb.PullbackError, match=r"the policy's control has shape \(3, 2\)"):
        pbt.closed_loop(system, lambda state: state.q, start, steps=2)
    with pytest.raises(pb.PullbackError, match="the policy's control must be a torch tensor"):
        pbt.closed_loop(system, lambda state: None, start, steps=2)
    with pytest.raises(pb.PullbackError, match="steps"):
        pbt.closed_loop(system, lambda state: state.q[:, :1], start, steps=0)
    with pytest.raises(pb.PullbackError, match="detach_every"):
        pbt.closed_loop(system, lambda state: state.q[:, :1], start, steps=2, detach_every=0)


# --- starting again ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worlds", [[1], np.array([False, True, False]), 1])
def test_reset_of_some_worlds(system, worlds):
    state, start = system.state(q=[0.3, 0.4], v=[1.0, 2.0]), system.state(q=[0.1, 0.2])
    for given, home in ((None, system.state()), (start, start)):
        found = system.reset(state, worlds, given)
        np.testing.assert_array_equal(found.q[1], home.q[1])
        np.testing.assert_array_equal(found.v[1], home.v[1])
        np.testing.assert_array_equal(found.q[[0, 2]], state.q[[0, 2]])
    assert np.all(state.q[1] == [0.3, 0.4])  # the state given is as it was


def test_gradients_go_around_worlds_that_were_reset(system):
    state, start = some_start(system), some_start(system, seed=1)
    found = pbt.reset(system, state, [1], start)
    q_bar, start_bar = torch.autograd.grad((found.q**2).sum() + found.v.sum(), (state.q, start.q))
    assert torch.equal(q_bar[[0, 2]], 2 * state.q[[0, 2]]) and not torch.any(q_bar[1])
    assert torch.equal(start_bar[1], 2 * start.q[1]) and not torch.any(start_bar[[0, 2]])
    q, v = pbt.reset(system, (state.q, state.v), torch.tensor([True, False, False]))
    assert torch.equal(q[0], torch.tensor(system.state().q[0])) and torch.equal(v[1:], state.v[1:])
    assert torch.any(torch.autograd.grad(pbt.step(system, q, v, q[:, :1])[0].sum(), state.q)[0][1:] != 0)


def test_worlds_that_are_not_there(system, springs):
    state = system.state()
    for worlds in ([3], [-1]):
        with pytest.raises(pb.PullbackError, match="numbered from 0 to 2"):
            system.reset(state, worlds)
    for worlds in ([True, False], [0.5], [[0]]):
        with pytest.raises(pb.PullbackError, match=r"booleans of shape \(3,\)"):
            system.reset(state, worlds)
    with pytest.raises(pb.PullbackError, match=r"q of the start has shape \(1, 2\)"):
        system.reset(state, [0], pb.State(np.zeros((1, 2)), np.zeros((3, 2))))
    own = pb.State(np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(pb.PullbackError, match=r"Springs has no state\(\)"):
        springs.reset(own, [0])
    assert np.all(springs.reset(own, [1], pb.State(own.q + 1, own.v)).q[:, 0] == [0, 1])


@pytest.mark.parametrize("hold", [1, 3])
@pytest.mark.parametrize("contact", [None, "model"])
def test_a_held_step_has_the_gradient_of_a_rollout(contact, hold):
    """With a status or without: the timesteps in between are kept by one, and simulated again by the other."""
    model = pb.load(pb.robots.quadruped())
    system = pb.Articulated(model, contact, worlds=WORLDS, threads=1)
    rng = np.random.default_rng(0)
    given = (
        np.tile(model.home.q, (WORLDS, 1)),
        rng.normal(size=(WORLDS, model.nv)),
        rng.normal(size=(WORLDS, model.nu)),
    )
    weights = [torch.tensor(rng.normal(size=x.shape)) for x in given[:2]]
    found = []
    for way in ("rollout", "step", "status"):
        q, v, u = (torch.tensor(x, requires_grad=True) for x in given)
        if way == "rollout":
            after = [x[-1] for x in pbt.rollout(system, q, v, u[None], hold=hold)]
        else:
            after = pbt.step(system, q, v, u, hold=hold, status=pb.Status() if way == "status" else None)
        sum((w * x).sum() for w, x in zip(weights, after, strict=True)).backward()
        found.append([q.grad, v.grad, u.grad])
    assert all(x.abs().max() > 1e-3 for x in found[0])
    for other in found[1:]:
        for mine, theirs in zip(other, found[0], strict=True):
            assert torch.equal(mine, theirs)


def test_a_gradient_beyond_the_precision_is_zero_in_its_world_alone():
    model = pb.load(pb.robots.cartpole())
    system = pb.Articulated(model, None, worlds=WORLDS, dtype="float32", threads=1)
    v = torch.zeros(WORLDS, 2)
    bar = torch.ones(WORLDS, 2)
    bar[1] = 3e38
    grads = []
    for wild in (False, True):
        u = torch.zeros(WORLDS, 1, requires_grad=True)
        q = torch.full((WORLDS, 2), 3.1, requires_grad=True)  # nearly upright, where cotangents grow
        after = pbt.step(system, q, v, u, hold=200, status=pb.Status())
        after[0].backward(bar if wild else torch.ones(WORLDS, 2))
        grads.append((q.grad, u.grad))
    for wild, calm in zip(grads[1], grads[0], strict=True):
        assert not wild[1].any() and calm.abs().max() > 0
        assert torch.equal(wild[[0, 2]], calm[[0, 2]])
