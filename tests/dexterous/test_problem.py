"""The least-squares problem: its blocks against autodiff of a second version of it, and against differences."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from contact_autodiff import residuals

from pullback.dexterous import ContactProblem, Training
from pullback.plan.matrix_free import conjugate_gradients
from pullback.tasks import TASKS
from pullback.tasks.manipulations import grasp_cube, stack


def problem(name="grasp-cube", frames=4, samples=3, seed=0):
    """A problem at random weights, where most residuals are active in some sample."""
    task = replace(
        {"stack": stack, "three_finger": partial(grasp_cube, "three_finger")}.get(name, TASKS.get(name))(),
        frames=frames,
        noise=(2e-3, 1e-3),
        mass_spread=0.3,
    )
    random = np.random.default_rng(seed)
    policy = task.fresh_policy(seed, hidden=8)
    x = policy.weights + 0.1 * random.standard_normal(len(policy.weights))
    return ContactProblem(task, policy, task.batch(random, samples)), x, random


def test_blocks_are_those_of_autodiff():
    ours, x, random = problem()
    function = residuals(ours)
    at, d = torch.from_numpy(x), torch.from_numpy(random.standard_normal(len(x)))
    value, moved = torch.func.jvp(function, (at,), (d,))
    _, vjp = torch.func.vjp(function, at)
    linear = ours.linearise(x)
    assert linear.loss == pytest.approx(float(value @ value) / 2, rel=1e-12)
    gradient, product = vjp(value)[0].numpy(), vjp(moved)[0].numpy()
    assert np.linalg.norm(gradient) > 1 and np.linalg.norm(product) > 1
    assert np.linalg.norm(linear.gradient - gradient) <= 1e-10 * np.linalg.norm(gradient)
    assert np.linalg.norm(linear.product(d.numpy()) - product) <= 1e-10 * np.linalg.norm(product)
    active = {name for name, share in ours.blocks(x)[0].shares.items() if share > 0}
    assert active >= {"distance", "slip", "cone", "shape of object", "shape of hand", "collision", "grip", "place"}


@pytest.mark.parametrize("name", ["grasp-cube", "turn-wheel", "grasp-any", "stack", "flip-y", "three_finger"])
def test_gradient_is_that_of_differences(name):
    ours, x, random = problem(name, frames=3)
    if name == "flip-y":  # points far enough from the middle of their faces
        x = 2.5 * x
        shares = ours.blocks(x)[0].shares
        assert shares["edge"] > 1e-3 and shares["balance"] > 1e-3
    gradient, loss = ours.linearise(x).gradient, lambda x: ours(x[None], False).losses[0]
    for _ in range(3):
        d = random.standard_normal(len(x))
        errors = []
        for h in (1e-4, 1e-5):
            slope = (loss(x + h * d) - loss(x - h * d)) / (2 * h)
            errors.append(abs(slope - gradient @ d) / np.linalg.norm(gradient @ d))
        assert errors[1] < 1e-5 and errors[1] < errors[0] / 30  # of second order


def test_preconditioner_is_symmetric_positive_and_helps():
    ours, x, random = problem()
    linear = ours.linearise(x)
    a, b = random.standard_normal((2, len(x)))
    left, right = linear.precondition(a, 0.1), linear.precondition(b, 0.1)
    assert a @ right == pytest.approx(b @ left, rel=1e-9) and a @ left > 0

    def promised(precondition):
        product = lambda d: linear.product(d) + 0.1 * d  # noqa: E731
        d = conjugate_gradients(product, -linear.gradient, precondition, 5, 0.0)
        return -(linear.gradient @ d + d @ product(d) / 2)

    assert promised(lambda v: linear.precondition(v, 0.1)) > 1.05 * promised(lambda v: v) > 0


def test_samples_are_drawn_by_iteration_and_consistency_sets_in():
    ours, _, _ = problem()
    training = Training(ours.task, ours.policy, 4)
    first, again = (training.sample(np.random.default_rng([0, 3]), 3) for _ in range(2))
    assert np.array_equal(first.batch.noise, again.batch.noise)
    shares = [training.sample(np.random.default_rng(0), k).share for k in (0, 25, 1000)]
    assert shares == pytest.approx([0.03, 1.0, 4.0])
