"""Heat through torch and JAX: the gradients of the NumPy path, and a power that a network gives."""

import numpy as np
import pytest
from parts import controls_near, crooked_part, warm_state

import pullback as pb


def numpy_gradient(heat, start, controls, every):
    run = pb.rollout(heat, start, controls, checkpoint_every=every)
    return run.pullback(T_bar=2 * run.T, s_bar=np.ones_like(run.s))


@pytest.mark.parametrize("every", [1, "sqrt"])
def test_torch_gives_the_same_gradients(every):
    import torch

    import pullback.torch as pbt

    heat = crooked_part(worlds=2)
    start, controls = warm_state(heat), controls_near(heat, 10)
    T0, s0, u = (torch.tensor(x, requires_grad=True) for x in (*start, controls))
    conductivity = torch.tensor(heat.params["conductivity"], requires_grad=True)
    T, s = pbt.rollout(heat, T0, s0, u, params={"conductivity": conductivity}, checkpoint_every=every)
    ((T**2).sum() + s.sum()).backward()
    wanted = numpy_gradient(heat, start, controls, every)
    np.testing.assert_array_equal(T0.grad.numpy(), wanted.state.T)
    np.testing.assert_array_equal(u.grad.numpy(), wanted.controls)
    np.testing.assert_allclose(conductivity.grad.numpy(), wanted.params.conductivity, rtol=1e-12)


@pytest.mark.parametrize("every", [1, "sqrt", (4, 2)])
def test_jax_gives_the_same_gradients(every):
    import jax

    import pullback.jax as pbj

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        heat = crooked_part(worlds=2)
        start, controls = warm_state(heat), controls_near(heat, 6)

        def loss(T0, s0, u):
            T, s = pbj.rollout(heat, T0, s0, u, checkpoint_every=every)
            return (T**2).sum() + s.sum()

        grads = jax.grad(loss, argnums=(0, 1, 2))(*start, controls)
    finally:
        jax.config.update("jax_enable_x64", before)
    wanted = numpy_gradient(heat, start, controls, every)
    np.testing.assert_allclose(np.asarray(grads[0]), wanted.state.T, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(grads[1]), wanted.state.s, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(grads[2]), wanted.controls, rtol=1e-12)
