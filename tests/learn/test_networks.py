"""Networks, optimiser and normaliser against those of torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from pullback.learn.networks import Adam, Normaliser, Perceptrons  # noqa: E402


def made(copies: int) -> tuple[Perceptrons, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    network = Perceptrons(copies, 3, (5, 4), 2, generator=generator, dtype=torch.float64)
    network.flat.data += 0.3 * torch.randn(network.flat.shape, generator=generator, dtype=torch.float64)
    return network, torch.randn(7, 3, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("copies", [1, 3])
def test_layers_are_those_of_torch(copies):
    network, x = made(copies)
    hidden, (matrix, bias) = network.parts(network.flat, network.shapes)
    for k in range(copies):
        y = x
        for w, b, scale, shift in hidden:
            y = functional.silu(functional.layer_norm(y @ w[k] + b[k], (w.shape[-1],), scale[k, 0], shift[k, 0]))
        torch.testing.assert_close(network(x)[k], y @ matrix[k] + bias[k], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("copies", [1, 3])
def test_gradients_by_input_and_weights(copies):
    network, x = made(copies)
    x.requires_grad_()
    flat = network.flat.detach().requires_grad_()
    assert torch.autograd.gradcheck(network, (x, flat), eps=1e-6, atol=1e-8, rtol=1e-7)
    assert torch.autograd.gradcheck(lambda x: network(x, flat.detach()), (x,), atol=1e-8)
    assert torch.autograd.gradcheck(lambda flat: network(x.detach(), flat), (flat,), atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("clip", [0.5, float("inf")])
def test_adam_is_that_of_torch(clip, dtype):
    generator = torch.Generator().manual_seed(0)
    mine = torch.randn(6, generator=generator).to(dtype)
    theirs = mine.clone().requires_grad_()
    adam, other = Adam(mine, betas=(0.7, 0.95), clip=clip), torch.optim.Adam([theirs], lr=1e-2, betas=(0.7, 0.95))
    for _ in range(5):
        gradient = torch.randn(6, generator=generator).to(dtype)
        norm = adam.step(mine, gradient.clone(), 1e-2)
        theirs.grad = gradient.clone()
        assert norm == pytest.approx(float(torch.nn.utils.clip_grad_norm_([theirs], clip)))
        other.step()
    torch.testing.assert_close(mine, theirs.detach(), rtol=1e-5, atol=1e-6)
    assert (mine - theirs.detach()).abs().max() < 0.01 * 5e-2


def test_a_gradient_that_is_not_finite_or_too_large_is_left_out():
    x = torch.ones(3)
    adam = Adam(x, refuse=1e6)
    adam.step(x, torch.ones(3), 0.1)
    before = [y.clone() for y in (x, adam.mean, adam.square)]
    for bad in (torch.tensor([1.0, float("nan"), 0.0]), torch.tensor([float("inf"), 0.0, 0.0]), 1e7 * torch.ones(3)):
        adam.step(x, bad, 0.1)
    for now, then in zip((x, adam.mean, adam.square), before, strict=True):
        assert torch.equal(now, then)
    assert adam.counts.tolist() == [1.0, 3.0] and x[0] == pytest.approx(0.9)


def test_the_normaliser_knows_mean_and_variance_of_all_rows():
    rng = np.random.default_rng(0)
    normaliser = Normaliser(2, torch.float64)
    rows = rng.normal([3.0, -1.0], [0.1, 5.0], size=(500, 2))
    for part in np.array_split(rows, [10, 60, 300]):
        normaliser.update(torch.as_tensor(part))
    np.testing.assert_allclose(normaliser.mean, rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(normaliser.variance, rows.var(0), rtol=1e-3)
    np.testing.assert_allclose(normaliser(torch.as_tensor(rows)).std(0, unbiased=False), 1.0, rtol=1e-2)
    assert normaliser(torch.full((1, 2), 1e6, dtype=torch.float64)).max() == 10.0
