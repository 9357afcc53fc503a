"""Linearised half sums of squares, known by products with their Jacobian: the input of matrix-free Gauss-Newton."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.plan.problem import Found, Problem


@dataclass(frozen=True)
class Linearisation:
    """Half a sum of squares around a point: ½ |r + J d|² for small d.

    loss:          ½ |r|²
    gradient:      Jᵀ r, (n,)
    product:       the linear function d (n,) -> JᵀJ d (n,); called some thirty times
    precondition:  an approximation of (JᵀJ + damping)⁻¹ v (n,), given v (n,) and the damping; symmetric and positive
    """

    loss: float
    gradient: np.ndarray
    product: Callable[[np.ndarray], np.ndarray]
    precondition: Callable[[np.ndarray, float], np.ndarray] | None = None

    @classmethod
    def of(cls, residual: np.ndarray, jvp: Callable, vjp: Callable, precondition: Callable | None = None):
        """From the residuals r (m,), the function jvp: d (n,) -> J d (m,), and vjp: r_bar (m,) -> Jᵀ r_bar (n,)."""
        return cls(float(residual @ residual) / 2, vjp(residual), lambda d: vjp(jvp(d)), precondition)


@runtime_checkable
class LeastSquares(Problem, Protocol):
    """A problem that can be linearised. If its points lie on a manifold, such as quaternions, it also has
    ``retract(x, d)``: x (n,) moved by a tangent d, whose length may differ from that of x."""

    def linearise(self, x: np.ndarray, /) -> Linearisation:
        """The Linearisation at a point x (n,), with all nonlinear work done; tangents have the gradient's length."""


@runtime_checkable
class Sampled(Protocol):
    """A problem that changes with every iteration: minibatches, noise or weights."""

    def sample(self, random: np.random.Generator, iteration: int, /) -> LeastSquares:
        """The problem of one iteration, counted from 0. A repeated iteration gets the same random numbers."""


@dataclass(frozen=True, kw_only=True)
class TorchResiduals:
    """Half the sum of squares of a torch function, in float64 on the CPU.

    function:   maps x (n,) to residuals of any shape; with ``data``, maps x and these arrays
    data:       arrays (count, ...) whose rows are samples: see :class:`Minibatches`
    move:       a torch function that moves x (n,) by a tangent d (tangent,), and returns x for d = 0, such as
                :func:`turn_quaternions`; x + d if None
    tangent:    length of a tangent, if there is a ``move``
    metric:     maps x (n,) as a NumPy array to a number; None: the loss
    forward:    products with J by torch's forward mode, which evaluates the function again for each. Needed by
                functions without second derivatives, such as those of :mod:`pullback.torch`; otherwise the transpose of
                the transpose is used, which costs one backward pass
    """

    function: Callable
    data: tuple = ()
    move: Callable | None = None
    tangent: int | None = None
    metric: Callable[[np.ndarray], float] | None = None
    forward: bool = False

    def __post_init__(self):
        object.__setattr__(self, "data", tuple(_tensor(x) for x in self.data))
        if len(counts := {len(x) for x in self.data}) > 1:
            raise PullbackError(f"data of TorchResiduals has arrays of {sorted(counts)} samples: all need as many")
        if (self.move is None) != (self.tangent is None):
            raise PullbackError("TorchResiduals needs move and tangent together")

    def __call__(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False) -> Found:
        if wants_curvature:
            raise PullbackError("TorchResiduals has no matrix JᵀJ: use MatrixFreeGaussNewton")
        if wants_gradients and self.move is not None:
            raise PullbackError("TorchResiduals has gradients by tangents: use MatrixFreeGaussNewton")
        gradients = np.array([self.linearise(x).gradient for x in points]) if wants_gradients else None
        values = [self._residuals(_tensor(x)).detach().numpy().ravel() for x in points]
        losses = np.array([r @ r / 2 for r in values])
        metrics = losses if self.metric is None else np.array([float(self.metric(x)) for x in points])
        return Found(losses, gradients, metrics)

    @property
    def retract(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
        move = self.move
        return None if move is None else lambda x, d: move(_tensor(x), _tensor(d)).detach().numpy()

    def rows(self, chosen: np.ndarray) -> TorchResiduals:
        """The same problem with some of the samples."""
        return replace(self, data=tuple(x[chosen] for x in self.data))

    def linearise(self, x: np.ndarray) -> Linearisation:
        import torch

        at = _tensor(x)
        zero = torch.zeros(len(x) if self.tangent is None else self.tangent, dtype=torch.float64, requires_grad=True)

        def function(d):
            return self._residuals(at + d if self.move is None else self.move(at, d)).reshape(-1)

        with torch.enable_grad():
            residuals = function(zero)
            if not residuals.requires_grad:
                raise PullbackError("the residuals of TorchResiduals do not depend on x by operations of torch")
            dual = torch.zeros_like(residuals, requires_grad=True)
            transposed = None
            if not self.forward:
                (transposed,) = torch.autograd.grad(residuals, zero, dual, create_graph=True)

        def vjp(r_bar: np.ndarray) -> np.ndarray:
            return torch.autograd.grad(residuals, zero, _tensor(r_bar), retain_graph=True)[0].numpy()

        def jvp(d: np.ndarray) -> np.ndarray:
            if transposed is None:
                with torch.autograd.forward_ad.dual_level(), torch.no_grad():
                    moved = function(torch.autograd.forward_ad.make_dual(zero.detach(), _tensor(d)))
                    tangent = torch.autograd.forward_ad.unpack_dual(moved).tangent
            else:
                (tangent,) = torch.autograd.grad(transposed, dual, _tensor(d), retain_graph=True)
            return tangent.numpy()

        return Linearisation.of(residuals.detach().numpy(), jvp, vjp)

    def _residuals(self, x) -> Any:
        import torch

        found = self.function(x, *self.data)
        if not isinstance(found, torch.Tensor) or found.dtype != torch.float64:
            kind = getattr(found, "dtype", type(found).__name__)
            raise PullbackError(f"the function of TorchResiduals must return a float64 tensor, not {kind}")
        return found


@dataclass(frozen=True)
class Minibatches:
    """A problem of which each iteration uses ``batch`` random samples, without repetition within a batch."""

    problem: TorchResiduals
    batch: int

    def __post_init__(self):
        count = len(self.problem.data[0]) if self.problem.data else 0
        if check_whole(self.batch, "batch of Minibatches") > count:
            raise PullbackError(f"batch of Minibatches is {self.batch}, but data has {count} samples")

    def sample(self, random: np.random.Generator, iteration: int) -> TorchResiduals:
        return self.problem.rows(random.choice(len(self.problem.data[0]), self.batch, replace=False))


def turn_quaternions(x, d):
    """Torch quaternions x (4 k,) turned by d (3 k,) [rad] in their own frames: a retraction, exact to first order."""
    import torch

    aw, ax, ay, az = x.reshape(-1, 4).unbind(-1)
    bx, by, bz = (d.reshape(-1, 3) / 2).unbind(-1)
    turned = torch.stack(
        [
            aw - ax * bx - ay * by - az * bz,
            aw * bx + ax + ay * bz - az * by,
            aw * by - ax * bz + ay + az * bx,
            aw * bz + ax * by - ay * bx + az,
        ],
        dim=-1,
    )
    return (turned / torch.linalg.vector_norm(turned, dim=-1, keepdim=True)).reshape(-1)


def _tensor(x):
    import torch

    if isinstance(x, torch.Tensor):
        return x.detach().to(torch.float64)
    return torch.from_numpy(np.array(x, dtype=float))
