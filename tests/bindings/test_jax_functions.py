"""JAX: gradients by finite differences and against the NumPy path, under jit, grad and vmap; bad input."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import pullback as pb
import pullback.jax as pbj

STEPS, WORLDS = 3, 2


@pytest.fixture(autouse=True)
def in_float64():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def make_system(robot: str, worlds: int = WORLDS, **options) -> pb.Articulated:
    return pb.Articulated(pb.load(pb.robots.ROBOTS[robot]()), contact=None, worlds=worlds, threads=1, **options)


def some_motion(system, steps: int = STEPS, seed: int = 0, home=None):
    """q0, v0, controls in general position; quaternions are not of unit length."""
    rng = np.random.default_rng(seed)
    q0 = (system.model.home.q if home is None else home) + 0.2 * rng.standard_normal((system.worlds, system.nq))
    v0 = 0.3 * rng.standard_normal((system.worlds, system.nv))
    controls = 0.5 * rng.standard_normal((steps, system.worlds, system.nu))
    return tuple(jnp.asarray(x, dtype=system.dtype) for x in (q0, v0, controls))


def loss_of(q, v):
    return jnp.sum(q**2) + jnp.sum(jnp.sin(v))


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", ["cartpole", "arm", "quadruped"])
def test_finite_differences_of_step(robot):
    system = make_system(robot)
    q, v, controls = some_motion(system, steps=1)
    check_grads(lambda *x: pbj.step(system, *x), (q, v, controls[0]), order=1, modes=["rev"], eps=1e-6)


@pytest.mark.parametrize("checkpoint_every", [1, 2, 5])
@pytest.mark.parametrize("robot", ["cartpole", "arm", "quadruped"])
def test_finite_differences_of_rollout(robot, checkpoint_every):
    system = make_system(robot)
    check_grads(
        lambda *x: pbj.rollout(system, *x, checkpoint_every=checkpoint_every),
        some_motion(system, steps=5),
        order=1,
        modes=["rev"],
        eps=1e-6,
    )


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize("robot", ["cartpole", "quadruped"])
def test_finite_differences_of_params(robot, per_world):
    system = make_system(robot)
    motion = some_motion(system)
    shape = (WORLDS,) if per_world else ()
    base = {name: system.params[name] for name in ("mass", "damping", "com")}
    params = {name: jnp.asarray(np.broadcast_to(x, (*shape, *x.shape)) + 0.1) for name, x in base.items()}
    check_grads(lambda p: pbj.rollout(system, *motion, params=p), (params,), order=1, modes=["rev"], eps=1e-6)


def test_gradients_are_those_of_the_numpy_path():
    system = make_system("quadruped")
    q0, v0, controls = some_motion(system, steps=5)
    mass = jnp.asarray(1.1 * system.params["mass"])
    (q, v), back = jax.vjp(lambda *x: pbj.rollout(system, *x[:3], params={"mass": x[3]}), q0, v0, controls, mass)
    rng = np.random.default_rng(2)
    q_bar, v_bar = rng.standard_normal(q.shape), rng.standard_normal(v.shape)
    q_bar[0] = 0.0  # row 0 is the start itself for JAX, but a configuration for Run
    found = back((jnp.asarray(q_bar), jnp.asarray(v_bar)))

    state = pb.State(np.asarray(q0), np.asarray(v0))
    run = pb.rollout(system, state, np.asarray(controls), params={"mass": np.asarray(mass)})
    bars = run.pullback(q_bar=q_bar, v_bar=v_bar)
    np.testing.assert_array_equal(q, run.q)
    np.testing.assert_array_equal(v, run.v)
    for ours, plain in zip(found, (*bars.state, bars.controls, bars.params["mass"]), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("checkpoint_every", [1, 2])
def test_any_system_will_do(springs, checkpoint_every):
    motion = some_motion(springs, steps=5, home=np.zeros(3))

    def run(*x):
        return pbj.rollout(springs, *x[:3], params={"stiffness": x[3]}, checkpoint_every=checkpoint_every)

    check_grads(run, (*motion, jnp.asarray(springs.params["stiffness"])), order=1, modes=["rev"], eps=1e-6)


def test_jit_value_and_grad():
    system = make_system("arm")
    q0, v0, controls = some_motion(system)
    params = {name: jnp.asarray(system.params[name]) for name in ("mass", "armature")}

    def loss(controls, params):
        return loss_of(*pbj.rollout(system, q0, v0, controls, params=params))

    plain = jax.value_and_grad(loss, argnums=(0, 1))(controls, params)
    compiled = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    for _ in range(3):
        jax.tree_util.tree_map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14), compiled(controls, params), plain
        )


def test_checkpoints_give_the_same_gradient_to_the_last_bit():
    system = make_system("quadruped")
    motion = some_motion(system, steps=7)
    kept = np.array([0, 3, 6, 7])
    full = jax.grad(lambda *x: loss_of(*(y[kept] for y in pbj.rollout(system, *x))), (0, 1, 2))(*motion)
    saved = jax.grad(lambda *x: loss_of(*pbj.rollout(system, *x, checkpoint_every=3)), (0, 1, 2))(*motion)
    for x, y in zip(full, saved, strict=True):
        np.testing.assert_array_equal(x, y)
        assert np.any(x)


def test_steps_in_a_scan_are_a_rollout():
    system = make_system("cartpole")
    q0, v0, controls = some_motion(system, steps=6)

    def stepped(controls):
        def one(state, control):
            state = pbj.step(system, *state, control)
            return state, state

        return loss_of(*jax.lax.scan(one, (q0, v0), controls)[1])

    def rolled(controls):
        return loss_of(*(x[1:] for x in pbj.rollout(system, q0, v0, controls)))

    for ours, theirs in zip(*(jax.jit(jax.value_and_grad(f))(controls) for f in (stepped, rolled)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_vmap():
    system = make_system("cartpole")
    q0, v0, controls = some_motion(system)
    many = jnp.stack([controls, 2 * controls, -controls])
    grad = jax.grad(lambda u: loss_of(*pbj.rollout(system, q0, v0, u)))
    for batched in (jax.vmap(grad), jax.jit(jax.vmap(grad))):
        np.testing.assert_allclose(batched(many), jnp.stack([grad(u) for u in many]), rtol=1e-12, atol=1e-14)


def test_what_is_set_in_the_system_counts_when_the_function_runs():
    system = make_system("cartpole")
    motion = some_motion(system)
    compiled = jax.jit(lambda *x: pbj.rollout(system, *x)[0])
    before = compiled(*motion)
    system.params["mass"] = 2 * system.params["mass"]
    np.testing.assert_array_equal(compiled(*motion), pb.rollout(system, pb.State(*motion[:2]), motion[2]).q)
    assert not np.array_equal(before, compiled(*motion))


@pytest.mark.parametrize("x64", [False, True])
def test_float32(x64):
    exact, rough = make_system("arm"), make_system("arm", dtype="float32")
    grads = [jax.grad(lambda u, s=s: loss_of(*pbj.rollout(s, *some_motion(s)[:2], u))) for s in (exact, rough)]
    wanted = grads[0](some_motion(exact)[2])
    jax.config.update("jax_enable_x64", x64)
    found = grads[1](some_motion(rough)[2])
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_calls_from_several_threads_do_not_mix():
    from concurrent.futures import ThreadPoolExecutor

    system = make_system("arm")
    motions = [some_motion(system, steps=20, seed=seed) for seed in range(6)]
    grad = jax.jit(jax.grad(lambda *x: loss_of(*pbj.rollout(system, *x)), (0, 1, 2)))
    alone = [grad(*motion) for motion in motions]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda motion: grad(*motion), motions))
    jax.tree_util.tree_map(np.testing.assert_array_equal, together, alone)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_bad_input_is_named():
    system = make_system("cartpole")
    q0, v0, controls = some_motion(system)
    with pytest.raises(pb.PullbackError, match=r'q is float32.*astype\("float64"\).*dtype="float32"'):
        pbj.rollout(system, q0.astype("float32"), v0, controls)
    with pytest.raises(pb.PullbackError, match="controls is int"):
        pbj.rollout(system, q0, v0, np.ones(controls.shape, int))
    with pytest.raises(pb.PullbackError, match=r"q has shape \(1, 2\), but \(worlds=2, nq=2\) is needed"):
        pbj.rollout(system, q0[:1], v0, controls)
    with pytest.raises(pb.PullbackError, match=r"controls has shape .* but \(steps, worlds=2, nu=1\) is needed"):
        pbj.rollout(system, q0, v0, controls[0])
    with pytest.raises(pb.PullbackError, match=r"controls has shape \(0, 2, 1\)"):
        pbj.rollout(system, q0, v0, controls[:0])
    with pytest.raises(pb.PullbackError, match="control has shape"):
        pbj.step(system, q0, v0, controls)
    with pytest.raises(pb.PullbackError, match="v cannot be read as an array"):
        pbj.rollout(system, q0, "fast", controls)
    with pytest.raises(pb.PullbackError, match="there is no parameter 'mas'"):
        jax.jit(lambda m: pbj.rollout(system, q0, v0, controls, params={"mas": m}))(jnp.ones(3))
    with pytest.raises(pb.PullbackError, match="checkpoint_every"):
        pbj.rollout(system, q0, v0, controls, checkpoint_every=0)


def test_float64_needs_jax_in_float64():
    system = make_system("cartpole")
    motion = [np.asarray(x) for x in some_motion(system)]
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(pb.PullbackError, match=r'jax\.config\.update\("jax_enable_x64", True\).*dtype="float32"'):
        pbj.rollout(system, *motion)


@pytest.mark.parametrize("jit", [False, True])
def test_errors_of_a_running_system_can_be_read(jit):
    system = make_system("cartpole")
    q0, v0, controls = some_motion(system)

    def run(mass):
        return pbj.rollout(system, q0, v0, controls, params={"mass": mass})

    with pytest.raises(Exception, match="PullbackError: parameter 'mass' of 'cart' must be positive"):
        jax.block_until_ready((jax.jit(run) if jit else run)(-jnp.asarray(system.params["mass"])))
    jax.block_until_ready(run(jnp.asarray(system.params["mass"])))  # and the next call is none the worse


def test_without_jax_the_message_says_what_to_install():
    code = "import sys; sys.modules['jax'] = None; import pullback.jax"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert 'ImportError: pullback.jax needs JAX: pip install "pullback[jax]"' in done.stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a system that can pin a process to one core")
@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_single_core_is_an_error_or_works_but_never_hangs(asynchronous):
    code = f"""
    import os
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    import jax
    jax.config.update("jax_cpu_enable_async_dispatch", {asynchronous})
    import jax.numpy as jnp, pullback as pb, pullback.jax as pbj
    system = pb.Articulated(pb.load(pb.robots.cartpole()), contact=None, worlds=8, dtype="float32")
    q0, v0 = system.state()
    loss = lambda u: jnp.sum(pbj.rollout(system, q0, v0, u)[0])
    assert jnp.isfinite(jax.grad(loss)(jnp.zeros((10, 8, 1)))).all()
    assert jnp.isfinite(jax.grad(loss)(jnp.zeros((5000, 8, 1)))).all()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if asynchronous:
        assert "PullbackError: with a single CPU core JAX may wait for ever" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_parameters_changed_between_motion_and_gradient_are_noticed():
    system = make_system("cartpole")
    q0, v0, controls = some_motion(system)
    _, back = jax.vjp(lambda u: loss_of(*pbj.rollout(system, q0, v0, u)), controls)
    system.params["mass"] = system.params["mass"] * 2
    with pytest.raises(Exception, match="parameters were changed"):
        jax.block_until_ready(back(jnp.asarray(1.0)))


def test_a_robot_without_motors():
    model = pb.load(
        '<mujoco><worldbody><body><joint axis="1 0 0"/><inertial mass="1" pos="0 .1 0" diaginertia="1 1 1"/></body>'
        "</worldbody></mujoco>"
    )
    system = pb.Articulated(model)
    q, _ = pbj.rollout(system, jnp.zeros((1, 1)), jnp.ones((1, 1)), jnp.zeros((3, 1, 0)))
    assert q.shape == (4, 1, 1)
