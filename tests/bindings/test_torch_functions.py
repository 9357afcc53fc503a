"""torch: gradients by torch's own gradcheck, by finite differences and against the NumPy path; copies and bad input."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import pullback as pb
import pullback.torch as pbt

STEPS, WORLDS = 3, 2


def make_system(robot: str, worlds: int = WORLDS, **options) -> pb.Articulated:
    return pb.Articulated(pb.load(pb.robots.ROBOTS[robot]()), contact=None, worlds=worlds, threads=1, **options)


def some_motion(system, steps: int = STEPS, seed: int = 0, dtype=torch.float64, home=None):
    """q0, v0, controls in general position; quaternions are not of unit length."""
    rng = np.random.default_rng(seed)
    q0 = (system.model.home.q if home is None else home) + 0.2 * rng.standard_normal((system.worlds, system.nq))
    v0 = 0.3 * rng.standard_normal((system.worlds, system.nv))
    controls = 0.5 * rng.standard_normal((steps, system.worlds, system.nu))
    return tuple(torch.tensor(x, dtype=dtype, requires_grad=True) for x in (q0, v0, controls))


def some_params(system, names, per_world: bool):
    """The System's parameters a little changed, so that per-world sets differ."""
    rng = np.random.default_rng(1)
    params = {}
    for name in names:
        value = system.params[name]
        shape = (system.worlds, *value.shape) if per_world else value.shape
        changed = value * (1 + 0.05 * rng.random(shape)) + (0.01 if name in ("damping", "armature") else 0.0)
        params[name] = torch.tensor(changed, requires_grad=True)
    return params


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", ["cartpole", "arm", "quadruped"])
def test_gradcheck_step(robot):
    system = make_system(robot)
    q, v, controls = some_motion(system, steps=1)
    assert torch.autograd.gradcheck(lambda *x: pbt.step(system, *x), (q, v, controls[0].detach().requires_grad_()))


@pytest.mark.parametrize("robot", ["cartpole", "arm", "quadruped"])
def test_gradcheck_rollout(robot):
    system = make_system(robot)
    assert torch.autograd.gradcheck(lambda *x: pbt.rollout(system, *x), some_motion(system))


@pytest.mark.parametrize("checkpoint_every", [2, 3, 10])
def test_gradcheck_rollout_with_checkpoints(checkpoint_every):
    system = make_system("cartpole")
    motion = some_motion(system, steps=5)
    assert torch.autograd.gradcheck(
        lambda *x: pbt.rollout(system, *x, params=None, checkpoint_every=checkpoint_every), motion
    )


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize(
    ("robot", "names"),
    [
        ("cartpole", ("mass", "damping", "gravity", "gear")),
        ("arm", ("mass", "com", "armature")),
        ("quadruped", ("mass", "damping")),
    ],
)
def test_gradcheck_params(robot, names, per_world):
    system = make_system(robot)
    motion = [x.detach() for x in some_motion(system)]
    params = some_params(system, names, per_world)

    def run(*tensors):
        given = dict(zip(names, tensors, strict=True))
        given["mass"] = given["mass"] * torch.tensor(system.params["mass"] > 0)  # the world's mass is zero and stays so
        return pbt.rollout(system, *motion, params=given)

    assert torch.autograd.gradcheck(run, tuple(params.values()))


@pytest.mark.parametrize("robot", ["arm", "quadruped"])
def test_gradients_are_those_of_the_numpy_path(robot):
    system = make_system(robot)
    q0, v0, controls = some_motion(system, steps=5)
    params = some_params(system, ("mass", "damping"), per_world=True)
    q, v = pbt.rollout(system, q0, v0, controls, params=params)
    rng = np.random.default_rng(2)
    q_bar, v_bar = rng.standard_normal(q.shape), rng.standard_normal(v.shape)
    q_bar[0] = 0.0  # row 0 is the start itself for torch, but a configuration for Run
    torch.autograd.backward((q, v), (torch.tensor(q_bar), torch.tensor(v_bar)))

    plain = {name: value.detach().numpy() for name, value in params.items()}
    run = pb.rollout(
        system, pb.State(q0.detach().numpy(), v0.detach().numpy()), controls.detach().numpy(), params=plain
    )
    bars = run.pullback(q_bar=q_bar, v_bar=v_bar)
    np.testing.assert_array_equal(q.detach(), run.q)
    np.testing.assert_array_equal(v.detach(), run.v)
    np.testing.assert_allclose(q0.grad, bars.state.q, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(v0.grad, bars.state.v, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(controls.grad, bars.controls, rtol=1e-13, atol=1e-15)
    for name, tensor in params.items():
        np.testing.assert_allclose(tensor.grad, bars.params[name], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("checkpoint_every", [2, 4, 7, 20])
def test_checkpoints_give_the_same_gradient_to_the_last_bit(checkpoint_every):
    system = make_system("quadruped")
    params = some_params(system, ("mass",), per_world=False)
    kept = [*range(0, 7, checkpoint_every), 7]
    found = []
    for every, rows in ((1, kept), (checkpoint_every, slice(None))):
        motion = some_motion(system, steps=7)
        q, v = pbt.rollout(system, *motion, params=params, checkpoint_every=every)
        assert len(q[rows]) == len(kept)
        loss = (q[rows] ** 2).sum() + torch.sin(v[rows]).sum()
        found.append(torch.autograd.grad(loss, (*motion, *params.values())))
    for full, saved in zip(*found, strict=True):
        assert torch.equal(full, saved) and torch.any(full != 0)


def test_a_policy_in_the_loop():
    """Step by step, with a network that sees the state; the gradient of its weights by finite differences."""
    system = make_system("cartpole")
    torch.manual_seed(0)
    policy = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    q0, v0, _ = (x.detach() for x in some_motion(system))

    def loss():
        q, v, total = q0, v0, 0.0
        for _ in range(10):
            control = policy(torch.cat([q, v], dim=1))
            q, v = pbt.step(system, q, v, control)
            total = total + (q**2).sum() + 0.1 * (control**2).sum()
        return total

    loss().backward()
    weights = list(policy.parameters())
    slope = torch.nn.utils.parameters_to_vector([w.grad for w in weights])
    start = torch.nn.utils.parameters_to_vector(weights).detach()
    for _ in range(3):
        way = torch.randn(len(start), dtype=torch.float64)
        values = []
        for h in (1e-5, -1e-5):
            torch.nn.utils.vector_to_parameters(start + h * way, weights)
            with torch.no_grad():
                values.append(loss())
        assert torch.allclose((values[0] - values[1]) / 2e-5, way @ slope, rtol=1e-6)


@pytest.mark.parametrize("checkpoint_every", [1, 2])
def test_any_system_will_do(springs, checkpoint_every):
    motion = some_motion(springs, steps=5, home=np.zeros(3))
    stiffness = torch.tensor(springs.params["stiffness"], requires_grad=True)

    def run(*x):
        return pbt.rollout(springs, *x[:3], params={"stiffness": x[3]}, checkpoint_every=checkpoint_every)

    assert torch.autograd.gradcheck(run, (*motion, stiffness))


def test_step_is_a_rollout_of_one_step():
    system = make_system("arm")
    q0, v0, controls = some_motion(system)
    q, v = pbt.rollout(system, q0, v0, controls)
    for t in range(STEPS):
        q0, v0 = pbt.step(system, q0, v0, controls[t])
        assert torch.equal(q0, q[t + 1])
        assert torch.equal(v0, v[t + 1])


@pytest.mark.parametrize("contact", [None, "convex", "impulse"])
def test_gradients_of_a_step_are_those_of_a_rollout_of_one(contact):
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=contact, worlds=WORLDS, threads=1)
    state = system.state(v=0.1 * np.random.default_rng(0).standard_normal((WORLDS, system.nv)))
    q, v, control = (torch.tensor(x, requires_grad=True) for x in (*state, np.full((WORLDS, system.nu), 0.1)))
    bars = torch.randn(WORLDS, system.nq).double(), torch.randn(WORLDS, system.nv).double()
    for repeat in range(2):  # the second time in arrays that have served
        ours = torch.autograd.grad(pbt.step(system, q, v, control), (q, v, control), bars)
        whole = pbt.rollout(system, q, v, control[None])
        theirs = torch.autograd.grad([x[1] for x in whole], (q, v, control), bars)
        for x, y in zip(ours, theirs, strict=True):
            assert torch.equal(x, y) and torch.any(x != 0), repeat


def test_steps_from_several_threads_do_not_mix():
    from concurrent.futures import ThreadPoolExecutor

    system = make_system("quadruped")
    motions = [some_motion(system, steps=1, seed=seed) for seed in range(8)]

    def grads(motion):
        q, v, controls = motion
        found = []
        for _ in range(20):
            after = pbt.step(system, q, v, controls[0])
            found.append(torch.autograd.grad((after[0] ** 2).sum() + after[1].sum(), motion))
        return found

    alone = [grads(motion)[0] for motion in motions]
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(grads, motions), alone, strict=True):
            assert all(torch.equal(x, y) for each in found for x, y in zip(each, wanted, strict=True))


def test_a_step_that_fails_says_why():
    system = make_system("cartpole")
    q, v, controls = some_motion(system, steps=1)
    with pytest.raises(pb.SimulationError, match="absurd in world 1.*v of joint"):
        pbt.step(system, q, torch.tensor([[0.0, 0.0], [1e200, 1e200]], dtype=torch.float64), controls[0])
    assert torch.isfinite(pbt.step(system, q, v, controls[0])[0]).all()


def test_float32():
    double, single = make_system("arm"), make_system("arm", dtype="float32")
    grads = []
    for system, dtype in ((double, torch.float64), (single, torch.float32)):
        motion = some_motion(system, dtype=dtype)
        q, _ = pbt.rollout(system, *motion)
        assert q.dtype == dtype
        grads.append(torch.autograd.grad((q**2).sum(), motion))
    for exact, rough in zip(*grads, strict=True):
        assert rough.dtype == torch.float32
        assert torch.allclose(rough.double(), exact, rtol=1e-3, atol=1e-4)


# --- only what is asked for -------------------------------------------------------------------------------------------


def test_only_what_requires_a_gradient_gets_one():
    system = make_system("cartpole")
    q0, v0, controls = some_motion(system)
    q0, v0 = q0.detach(), v0.detach()
    params = some_params(system, ("mass", "damping"), per_world=False)
    params["damping"] = params["damping"].detach()
    q, _ = pbt.rollout(system, q0, v0, controls, params=params)
    q.sum().backward()
    assert q0.grad is None and v0.grad is None and params["damping"].grad is None
    assert controls.grad.abs().sum() > 0
    assert params["mass"].grad.abs().sum() > 0


@pytest.mark.parametrize("learns", [False, True])
def test_parameter_gradients_are_computed_only_if_wanted(monkeypatch, learns):
    system = make_system("cartpole")
    asked, backward = [], system.backward
    monkeypatch.setattr(system, "backward", lambda *a, **k: asked.append(k["wants_params"]) or backward(*a, **k))
    mass = torch.tensor(system.params["mass"], requires_grad=learns)
    pbt.rollout(system, *some_motion(system), params={"mass": mass})[0].sum().backward()
    assert asked == [learns]


def test_no_grad():
    system = make_system("cartpole")
    with torch.no_grad():
        q, v = pbt.rollout(system, *some_motion(system))
    assert not q.requires_grad and not v.requires_grad
    assert q.shape == (STEPS + 1, WORLDS, 2)


def test_params_that_are_not_tensors_are_constants():
    system = make_system("cartpole")
    motion = some_motion(system)
    heavier = 2 * system.params["mass"]
    q, _ = pbt.rollout(system, *motion, params={"mass": heavier})
    same, _ = pbt.rollout(system, *motion, params={"mass": torch.tensor(heavier)})
    assert torch.equal(q, same)
    assert not torch.equal(q, pbt.rollout(system, *motion)[0])


def test_second_derivatives_are_refused():
    system = make_system("cartpole")
    q0, v0, controls = some_motion(system)
    q, _ = pbt.rollout(system, q0, v0, controls)
    # where the loss is linear in q, nothing but the System itself can tell that its second derivative is missing
    for loss in ((q**2).sum(), q.sum()):
        with pytest.raises(pb.PullbackError, match="create_graph"):
            torch.autograd.grad(loss, controls, create_graph=True)


def test_a_trajectory_changed_in_place_is_noticed():
    system = make_system("cartpole")
    q, _ = pbt.rollout(system, *some_motion(system))
    loss = (q**2).sum()
    with torch.no_grad():
        q += 1.0
    with pytest.raises(RuntimeError, match="in-?place"):
        loss.backward()


# --- copies and devices -----------------------------------------------------------------------------------------------


def test_nothing_is_copied_on_the_cpu(monkeypatch):
    system = make_system("arm")
    seen, steps = [], system.steps

    def spy(state, controls, **options):
        states = steps(state, controls, **options)
        seen.append((*state, controls, *states))
        return states

    monkeypatch.setattr(system, "steps", spy)
    motion = some_motion(system)
    tensors = (*motion, *pbt.rollout(system, *motion))
    for array, tensor in zip(seen[0], tensors, strict=True):
        assert np.shares_memory(array, tensor.detach().numpy())


def test_tensors_need_not_be_contiguous():
    system = make_system("arm")
    q0, v0, controls = (x.detach() for x in some_motion(system))
    strided = torch.stack([controls, controls], dim=-1)[..., 0].requires_grad_()
    assert not strided.is_contiguous()
    q, _ = pbt.rollout(system, q0, v0, controls.requires_grad_())
    again, _ = pbt.rollout(system, q0, v0, strided)
    assert torch.equal(q, again)
    q.sum().backward()  # an expanded cotangent, with strides of zero
    again.sum().backward()
    assert torch.equal(controls.grad, strided.grad)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and PyTorch built for it")
@pytest.mark.parametrize("checkpoint_every", [1, 3])
@pytest.mark.parametrize("side_stream", [False, True])
def test_cuda_gives_the_gradient_of_the_cpu_without_the_host(monkeypatch, checkpoint_every, side_stream):
    import warp as wp

    cpu = make_system("quadruped")
    gpu = make_system("quadruped", device="cuda:0")
    seen, steps = [], gpu.steps
    monkeypatch.setattr(gpu, "steps", lambda state, u, **k: seen.extend((*state, u)) or steps(state, u, **k))
    found = []
    stream = torch.cuda.Stream() if side_stream else torch.cuda.default_stream()
    for system in (cpu, gpu):
        with torch.cuda.stream(stream):
            motion = [x.detach().to(system.device).requires_grad_() for x in some_motion(system, steps=7)]
            mass = torch.tensor(system.params["mass"], device=system.device, requires_grad=True)
            q, v = pbt.rollout(system, *motion, params={"mass": mass}, checkpoint_every=checkpoint_every)
            assert str(q.device) == str(v.device) == system.device
            grads = torch.autograd.grad((q**2).sum() + torch.sin(v).sum(), (*motion, mass))
            assert all(str(grad.device) == system.device for grad in grads)
        torch.cuda.synchronize()
        found.append([x.detach().cpu() for x in (q, v, *grads)])
    assert all(isinstance(x, wp.array) and x.device.is_cuda for x in seen)
    for x, y in zip(*found, strict=True):
        assert torch.allclose(x, y, rtol=1e-8, atol=1e-9)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_bad_input_is_named():
    system = make_system("cartpole")
    q0, v0, controls = some_motion(system)
    with pytest.raises(pb.PullbackError, match=r'q is float32.*\.double\(\).*dtype="float32"'):
        pbt.rollout(system, q0.float(), v0, controls)
    with pytest.raises(pb.PullbackError, match=r"controls is float16.*\.double\(\)$"):
        pbt.rollout(system, q0, v0, controls.half())
    with pytest.raises(pb.PullbackError, match=r"parameter 'mass' is float32"):
        pbt.rollout(system, q0, v0, controls, params={"mass": torch.ones(3)})
    with pytest.raises(pb.PullbackError, match="v must be a torch tensor, not ndarray"):
        pbt.rollout(system, q0, v0.detach().numpy(), controls)
    with pytest.raises(pb.PullbackError, match="controls is on meta"):
        pbt.rollout(system, q0, v0, controls.to("meta"))
    with pytest.raises(pb.PullbackError, match="there is no parameter 'mas'"):
        pbt.rollout(system, q0, v0, controls, params={"mas": torch.ones(3).double()})
    with pytest.raises(pb.PullbackError, match="parameter 'mass' has shape"):
        pbt.rollout(system, q0, v0, controls, params={"mass": torch.ones(9).double()})
    with pytest.raises(pb.PullbackError, match=r"controls has shape \(0, 2, 1\), but \(steps, worlds, nu\)"):
        pbt.rollout(system, q0, v0, controls[:0])
    with pytest.raises(pb.PullbackError, match="controls has shape"):
        pbt.rollout(system, q0, v0, controls[0])
    with pytest.raises(pb.PullbackError, match="control has shape"):
        pbt.step(system, q0, v0, controls)
    with pytest.raises(pb.PullbackError, match="q has shape"):
        pbt.rollout(system, q0[:1], v0, controls)
    with pytest.raises(pb.PullbackError, match="checkpoint_every"):
        pbt.rollout(system, q0, v0, controls, checkpoint_every=0)
    with pytest.raises(pb.PullbackError, match="not finite at step 1, worlds 0"):
        bad = controls.detach().clone()
        bad[1, 0] = torch.nan
        pbt.rollout(system, q0, v0, bad)


def test_without_torch_the_message_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import pullback.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert 'ImportError: pullback.torch needs PyTorch: pip install "pullback[torch]"' in done.stderr
