"""What does a loop of single steps in torch or JAX cost, beside one rollout of the same motion and the same gradient?

In torch a policy in the loop needs single steps, here of 64 quadrupeds on their feet, on one core. In JAX both are
compiled by `jax.jit`: a step in `jax.lax.scan` is a callback to the host forward, and one backward; a rollout is one of
each for the whole motion. Both are differentiated by the controls.
"""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from common import Result, interleave, main

import pullback as pb
import pullback.jax as pbj
import pullback.torch as pbt

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)

JAX_STEPS, TORCH_STEPS, WORLDS = 200, 50, 64
ROBOTS = ("pendulum", "cartpole", "quadruped")


def torch_ratio(repeats: int) -> Result:
    system = pb.Articulated(pb.load(pb.robots.quadruped()), worlds=WORLDS, threads=1)
    start = pb.State(*map(torch.tensor, system.state()))
    rng = np.random.default_rng(0)
    controls = torch.tensor(0.05 * rng.normal(size=(TORCH_STEPS, WORLDS, system.nu)), requires_grad=True)

    def whole():
        states = pbt.rollout(system, start, controls)
        return gradient(states.q[-1], states.v[-1])

    def stepped():
        state = start
        for control in controls:
            state = pbt.step(system, state, control)
        return gradient(*state)

    def gradient(q, v):
        return torch.autograd.grad((q**2).sum() + (v**2).sum(), controls)[0]

    np.testing.assert_allclose(whole(), stepped(), rtol=1e-8, atol=1e-12)  # the same work
    seconds = interleave({"rollout": whole, "step": stepped}, repeats=repeats, of=min)
    note = f"{1e3 * seconds['step']:.3g} ms and {1e3 * seconds['rollout']:.3g} ms for {TORCH_STEPS} steps"
    name = f"torch, {WORLDS} quadrupeds on their feet: steps / rollout, with gradient, one core"
    return Result(name, seconds["step"] / seconds["rollout"], "x", must="<= 1.5", note=note)


def jax_ratio(robot: str, repeats: int) -> Result:
    system = pb.Articulated(pb.load(getattr(pb.robots, robot)()), contact=None)
    start = system.state()
    controls = 0.1 * jnp.asarray(np.random.default_rng(0).normal(size=(JAX_STEPS, 1, system.nu)))

    def whole(controls):
        q, v = pbj.rollout(system, start.q, start.v, controls)
        return jnp.sum(q[-1] ** 2) + jnp.sum(v[-1] ** 2)

    def stepped(controls):
        begin = jnp.asarray(start.q), jnp.asarray(start.v)
        (q, v), _ = jax.lax.scan(lambda state, u: (pbj.step(system, *state, u), None), begin, controls)
        return jnp.sum(q**2) + jnp.sum(v**2)

    functions = {"rollout": jax.jit(jax.grad(whole)), "scan": jax.jit(jax.grad(stepped))}
    np.testing.assert_allclose(*(f(controls) for f in functions.values()), rtol=1e-8, atol=1e-12)  # the same work
    calls = {name: lambda f=f: f(controls).block_until_ready() for name, f in functions.items()}
    seconds = interleave(calls, repeats=repeats)
    note = f"{1e3 * seconds['scan']:.3g} ms and {1e3 * seconds['rollout']:.3g} ms for {JAX_STEPS} steps"
    name = f"JAX, {robot}: step in scan / rollout, with gradient"
    return Result(name, seconds["scan"] / seconds["rollout"], "x", note=note)


if __name__ == "__main__":
    main(
        lambda quick: [
            torch_ratio(3 if quick else 15),
            *(jax_ratio(robot, 3 if quick else 15) for robot in ROBOTS),
        ]
    )
