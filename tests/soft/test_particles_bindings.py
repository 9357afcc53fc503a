"""Particles through torch and JAX: the gradients of the NumPy path."""

import numpy as np
import pytest
from crowds import KINDS, crowd, motion

import pullback as pb


def run_of(system, start, controls, every):
    run = pb.rollout(system, start, controls, checkpoint_every=every)
    return run.pullback(x_bar=2 * run.x, F_bar=np.ones_like(run.F))


def case():
    system = crowd(2, KINDS["sand"], "Coulomb")
    start, control = motion(system)
    return system, start, np.stack([control] * 6)


@pytest.mark.parametrize("every", [1, "sqrt"])
def test_torch_gives_the_same_gradients(every):
    import torch

    import pullback.torch as pbt

    system, start, controls = case()
    *fields, u = (torch.tensor(x, requires_grad=True) for x in (*start, controls))
    angle = torch.tensor(system.params["friction_angle"], requires_grad=True)
    states = pbt.rollout(system, *fields, u, params={"friction_angle": angle}, checkpoint_every=every)
    ((states[0] ** 2).sum() + states[3].sum()).backward()
    wanted = run_of(system, start, controls, every)
    for x, bar in zip(fields, wanted.state, strict=True):
        np.testing.assert_array_equal(x.grad.numpy(), bar)
    np.testing.assert_array_equal(u.grad.numpy(), wanted.controls)
    np.testing.assert_allclose(angle.grad.numpy(), wanted.params.friction_angle, rtol=1e-12)


def test_jax_gives_the_same_gradients():
    import jax

    import pullback.jax as pbj

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        system, start, controls = case()

        def loss(x, v, C, F, Jp, u):
            states = pbj.rollout(system, x, v, C, F, Jp, u)
            return (states[0] ** 2).sum() + states[3].sum()

        grads = jax.grad(loss, argnums=(0, 1, 3, 5))(*start, controls)
    finally:
        jax.config.update("jax_enable_x64", before)
    wanted = run_of(system, start, controls, 1)
    for found, bar in zip(grads, (wanted.state.x, wanted.state.v, wanted.state.F, wanted.controls), strict=True):
        np.testing.assert_allclose(np.asarray(found), bar, rtol=1e-12, atol=1e-12)
        assert np.abs(bar).max() > 0


@pytest.mark.parametrize("on_failure", ["raise", "mask"])
def test_gradients_of_no_steps(on_failure):
    """Those of a start by itself: the bars of the end, and nothing of controls and parameters."""
    system, start, _ = case()
    run = pb.rollout(system, start, steps=0, on_failure=on_failure)
    bar = np.random.default_rng(0).normal(size=run.final.v.shape)
    grads = run.pullback(v_bar=bar)
    np.testing.assert_array_equal(grads.state.v, bar)
    assert grads.controls.shape == (0, system.worlds, system.nu)
    assert not any(np.any(x) for x in grads.params.values())
