"""Networks, their optimiser and the normaliser of observations, made for many small batches.

The weights of a network are one vector, so that an optimiser's step, a clipped gradient and a copy are a few operations
on one tensor, however many layers there are: on a CPU, calls cost more than arithmetic in networks of this size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from pullback.core.errors import PullbackError

EPSILON = 1e-5  # of the variance, in a LayerNorm


class Perceptrons(torch.nn.Module):
    """``copies`` perceptrons of one shape side by side: layers with LayerNorm and SiLU, and a linear one at the end.

    From (rows, inputs) to (copies, rows, outputs).
    """

    def __init__(
        self, copies: int, inputs: int, hidden: Sequence[int], outputs: int, *, gain: float = 1.0,
        generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ):  # fmt: skip
        super().__init__()
        sizes = [inputs, *hidden, outputs]
        self.shapes: list[tuple[int, ...]] = []
        values = []
        for i, (n, m) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            last = i == len(hidden)
            weights = torch.stack([_orthogonal(n, m, gain if last else math.sqrt(2), generator) for _ in range(copies)])
            vectors = [torch.zeros(copies, 1, m)] + (
                [] if last else [torch.ones(copies, 1, m), torch.zeros(copies, 1, m)]
            )
            for value in (weights, *vectors):  # a matrix and a bias; scale and shift of the LayerNorm
                self.shapes.append(tuple(value.shape))
                values.append(value.flatten())
        self.copies, self.sizes = copies, tuple(sizes)
        self.flat = torch.nn.Parameter(torch.cat(values).to(device=device, dtype=dtype))

    def forward(self, x: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        """Of x, with other ``weights`` than its own, such as those without a gradient."""
        return _Layers.apply(
            x.expand(self.copies, *x.shape[-2:]), self.flat if weights is None else weights, self.shapes
        )

    @staticmethod
    def parts(
        flat: torch.Tensor, shapes: Sequence[tuple[int, ...]]
    ) -> tuple[list[list[torch.Tensor]], list[torch.Tensor]]:
        """Views of all weights: matrix, bias, scale and shift of every hidden layer; matrix and bias of the last."""
        pieces = flat.split([math.prod(shape) for shape in shapes])
        views = [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        return [views[i : i + 4] for i in range(0, len(views) - 2, 4)], views[-2:]


class _Layers(torch.autograd.Function):
    """All layers as one function, with its gradient by hand: a third of the calls that autograd makes."""

    @staticmethod
    def forward(ctx, x, flat, shapes):
        hidden, (matrix, bias) = Perceptrons.parts(flat, shapes)
        kept = []
        for w, b, scale, shift in hidden:
            y = torch.baddbmm(b, x, w)
            unit, mean, inverse = torch.native_layer_norm(y, y.shape[-1:], None, None, EPSILON)
            z = torch.addcmul(shift, unit, scale)
            kept += [x, y, unit, mean, inverse, z]
            x = functional.silu(z)
        ctx.shapes = shapes
        ctx.save_for_backward(flat, x, *kept)
        return torch.baddbmm(bias, x, matrix)

    @staticmethod
    def backward(ctx, bar):
        flat, last, *kept = ctx.saved_tensors
        of_x, of_weights, _ = ctx.needs_input_grad
        hidden, (matrix, _) = Perceptrons.parts(flat, ctx.shapes)
        flat_bar = torch.empty_like(flat) if of_weights else None
        hidden_bar, last_bar = Perceptrons.parts(flat_bar, ctx.shapes) if of_weights else ([None] * len(hidden), None)
        if of_weights:
            _product_adjoint(last, bar, *last_bar)
        bar = bar @ matrix.mT
        for i in reversed(range(len(hidden))):
            w, _, scale, _ = hidden[i]
            x, y, unit, mean, inverse, z = kept[6 * i : 6 * i + 6]
            z_bar = torch.ops.aten.silu_backward(bar, z)
            if of_weights:
                torch.sum(z_bar * unit, dim=1, keepdim=True, out=hidden_bar[i][2])
                torch.sum(z_bar, dim=1, keepdim=True, out=hidden_bar[i][3])
            masks = [True, False, False]
            y_bar = torch.ops.aten.native_layer_norm_backward(
                z_bar * scale, y, y.shape[-1:], mean, inverse, None, None, masks
            )[0]
            if of_weights:
                _product_adjoint(x, y_bar, *hidden_bar[i][:2])
            if i or of_x:
                bar = y_bar @ w.mT
        return bar if of_x else None, flat_bar, None


def _product_adjoint(x: torch.Tensor, bar: torch.Tensor, w_bar: torch.Tensor, b_bar: torch.Tensor) -> None:
    """Cotangents of the matrix and the bias in x w + b, into the memory given."""
    torch.bmm(x.mT, bar, out=w_bar)
    torch.sum(bar, dim=1, keepdim=True, out=b_bar)


def _orthogonal(n: int, m: int, gain: float, generator: torch.Generator | None) -> torch.Tensor:
    return torch.nn.init.orthogonal_(torch.empty(m, n), gain, generator=generator).T


class Adam(torch.nn.Module):
    """Adam of one vector. Its moments are buffers, so that what is kept of a learner is what is kept of its modules.

    clip:  the largest norm of a gradient; one that is not finite or larger than ``refuse`` is left out
    """

    def __init__(
        self, of: torch.Tensor, *, betas: tuple[float, float] = (0.9, 0.999), clip: float = math.inf,
        decay: float = 0.0, refuse: float = 1e6,
    ):  # fmt: skip
        super().__init__()
        self.betas, self.clip, self.decay, self.refuse = betas, clip, decay, refuse
        self.register_buffer("mean", torch.zeros_like(of))
        self.register_buffer("square", torch.zeros_like(of))
        self.register_buffer("counts", torch.zeros(2, dtype=torch.float64, device=of.device))  # steps, and left out

    @torch.no_grad()
    def step(self, of: torch.Tensor, gradient: torch.Tensor, rate: float) -> torch.Tensor:
        """Moves ``of`` against the gradient, and returns the gradient's norm. Nothing is read from a device."""
        norm = torch.linalg.vector_norm(gradient)
        refused = ~(norm < self.refuse)  # or it is not a number
        self.counts += torch.stack([~refused, refused])
        torch._fused_adam_(
            [of], [gradient], [self.mean], [self.square], [], [self.counts[:1].float().squeeze()],
            lr=rate, beta1=self.betas[0], beta2=self.betas[1], weight_decay=self.decay, eps=1e-8,
            amsgrad=False, maximize=False,
            grad_scale=(norm / self.clip).clamp(min=1.0).float(), found_inf=refused.float(),
        )  # fmt: skip
        return norm


class Recorded:
    """A function of tensors that a GPU repeats by itself: hundreds of small operations then cost one launch.

    Called with tensors of the same shapes every time, it changes what it changes in place, draws no random numbers and
    reads nothing from the device. What it returns is overwritten by the next call. On a CPU it is just the function.
    """

    def __init__(self, function: Callable[..., torch.Tensor]):
        self.function, self.calls = function, 0

    def __call__(self, *given: torch.Tensor) -> torch.Tensor:
        if given[0].device.type == "cpu":
            return self.function(*given)
        self.calls += 1
        if self.calls == 1:  # libraries set themselves up at first use, which cannot be recorded
            return self.function(*given)
        if self.calls == 2:
            self.given, self.graph = [x.clone() for x in given], torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.returned = self.function(*self.given)
        for held, x in zip(self.given, given, strict=True):
            held.copy_(x)
        self.graph.replay()
        return self.returned


class Normaliser(torch.nn.Module):
    """Mean and variance of all observations so far; observations are given in units of their deviation."""

    LARGEST = 10.0  # of a normalised observation, in deviations
    LEAST_VARIANCE = 1e-5  # added to all: what never changes stays finite
    MEMORY = 4e6  # of observations: older ones fade, as those of a policy that has moved on should

    def __init__(self, size: int, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size, dtype=dtype, device=device))
        self.register_buffer("variance", torch.ones(size, dtype=dtype, device=device))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64, device=device))

    @torch.no_grad()
    def update(self, rows: torch.Tensor) -> None:
        """Takes in observations (rows, size)."""
        total = self.count + len(rows)
        share = (len(rows) / total).to(rows.dtype)
        apart = rows.mean(0) - self.mean
        within = self.variance.lerp(rows.var(0, unbiased=False), share)
        self.variance.copy_(within + apart**2 * share * (1 - share))
        self.mean.add_(apart * share)
        self.count.copy_(total.clamp(max=self.MEMORY))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1:] != self.mean.shape:
            raise PullbackError(f"an observation has shape {tuple(x.shape)}, but (worlds, {len(self.mean)}) at first")
        deviations = torch.rsqrt(self.variance + self.LEAST_VARIANCE)
        return ((x - self.mean) * deviations).clamp(-self.LARGEST, self.LARGEST)
