"""What does a loop of single steps inside JAX cost, beside one rollout of the same motion and the same gradient?

Both are compiled by `jax.jit` and differentiated by the controls. A step in `jax.lax.scan` is a callback to the host
forward, and one backward; a rollout is one of each for the whole motion.
"""

import jax
import jax.numpy as jnp
import numpy as np
from common import Figure, interleave, main

import pullback as pb
import pullback.jax as pbj

jax.config.update("jax_enable_x64", True)

STEPS = 200
ROBOTS = ("pendulum", "cartpole", "quadruped")


def ratio(robot: str, repeats: int) -> Figure:
    system = pb.Articulated(pb.load(getattr(pb.robots, robot)()), contact=None)
    start = system.state()
    controls = 0.1 * jnp.asarray(np.random.default_rng(0).normal(size=(STEPS, 1, system.nu)))

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
    note = f"{1e3 * seconds['scan']:.3g} ms and {1e3 * seconds['rollout']:.3g} ms for {STEPS} steps"
    return Figure(
        f"{robot}: step in scan / rollout, with gradient", seconds["scan"] / seconds["rollout"], "x", note=note
    )


if __name__ == "__main__":
    main(lambda quick: [ratio(robot, 3 if quick else 15) for robot in ROBOTS])
