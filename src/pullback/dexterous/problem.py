"""Training a policy that proposes contacts, as one least-squares problem for matrix-free Gauss-Newton.

A linearisation keeps, for every frame of every sample, how the step moves (A, B), what the policy sees of a tangent
(F), and curvature and gradient of all residuals. A product with JᵀJ is then a recursion forwards in time, in which the
network answers to what it sees, one multiplication by the curvature, and a recursion backwards: nothing in it depends
on the number of residuals, and no automatic differentiation is needed.

The preconditioner takes each layer's block of JᵀJ for a Kronecker product (Martens and Grosse, Optimizing neural
networks with Kronecker-factored approximate curvature, 2015), where the curvature of outputs includes what they do to
later frames, by a Riccati-like recursion.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pullback.dexterous.consistency import Blocks, Goal
from pullback.dexterous.policy import ContactPolicy
from pullback.dexterous.scene import Batch
from pullback.dexterous.task import Manipulation
from pullback.plan import Found, Linearisation

FIRST_SHARE = 0.03  # of consistency at first


@dataclass(frozen=True)
class ContactProblem:
    """The weights of a policy as variables: a :class:`~pullback.plan.LeastSquares` problem.

    task, policy:  the policy's weights are not looked at: they are the variables
    batch:         samples
    share:         of consistency [1]
    """

    task: Manipulation
    policy: ContactPolicy
    batch: Batch
    share: float = 1.0

    @cached_property
    def goal(self) -> Goal:
        return self.task.goal(self.batch.start)

    @cached_property
    def consistency(self):
        return self.task.consistency(self.batch, self.share)

    def blocks(self, weights: np.ndarray, curvature: bool = False) -> tuple[Blocks, tuple]:
        """Loss and its parts; with the curvature also states, outputs, features and slopes."""
        policy = self.policy.with_weights(weights)
        x, u, seen = self.task.rollout(policy, self.batch)
        slopes = None
        if curvature:
            before, after = (type(x)(*(part[where] for part in x)) for where in (slice(None, -1), slice(1, None)))
            slopes = self.task.scene.slopes(before, after, u, self.batch)
        found = self.consistency(x, u, self.batch, self.goal, slopes)
        decay = self.consistency.weights.weights
        found.shares["weights"] = decay**2 * float(weights @ weights) / 2
        found.loss += found.shares["weights"]
        return found, (policy, x, u, seen, slopes)

    def __call__(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False) -> Found:
        with np.errstate(all="ignore"):  # a step that is too long may lead anywhere: its loss says so
            losses = np.array([self.blocks(x)[0].loss for x in points])
        gradients = np.array([self.linearise(x).gradient for x in points]) if wants_gradients else None
        return Found(losses, gradients, losses)

    def linearise(self, x: np.ndarray) -> Linearisation:
        found, (policy, states, _, seen, (A, B)) = self.blocks(x, curvature=True)
        before = type(states)(*(part[:-1] for part in states))
        return _linearised(found, policy, seen, self.task.see_slopes(before), A, B, x, self.consistency.weights.weights)


def _linearised(found, policy, seen, F, A, B, weights, decay) -> Linearisation:
    frames, samples, nx = A.shape[:3]
    h = policy.hidden(seen)
    bend = 1 - h**2
    second, scale = policy.second[:, :-1], policy.scale
    D = bend[..., :, None] * (policy.first[:, :-1] @ F)  # hidden values by states
    K = (scale[:, None] * second) @ D  # outputs by states
    ones = np.ones((*h.shape[:-1], 1))
    seen1, h1 = np.concatenate([seen, ones], axis=-1), np.concatenate([h, ones], axis=-1)
    AK = A + B @ K
    AKt, Bt, Kt = (np.ascontiguousarray(np.swapaxes(x, -1, -2)) for x in (AK, B, K))

    def backwards(x_bar: np.ndarray, u_bar: np.ndarray) -> np.ndarray:
        """The cotangent of the weights from those of states (frames + 1, samples, nx) and outputs."""
        later = np.array(x_bar)
        later[:-1] += _times(Kt, u_bar)
        for t in reversed(range(frames)):
            later[t] += _times(AKt[t], later[t + 1])
        u_bar = scale * (u_bar + _times(Bt, later[1:]))
        hidden_bar = bend * (u_bar @ second)
        flat = lambda x: x.reshape(-1, x.shape[-1])  # noqa: E731
        first = flat(hidden_bar).T @ flat(seen1)
        return np.concatenate([first.ravel(), (flat(u_bar).T @ flat(h1)).ravel()])

    def product(d: np.ndarray) -> np.ndarray:
        moved = policy.with_weights(d)
        own = scale * (h1 @ moved.second.T + (bend * (seen1 @ moved.first.T)) @ second.T)
        pushed = _times(B, own)
        x = np.zeros((frames + 1, samples, nx))
        for t in range(frames):
            x[t + 1] = _times(AK[t], x[t]) + pushed[t]
        u = own + _times(K, x[:-1])
        bent = _times(found.zz, np.concatenate([x[:-1], u], axis=-1))
        x_bar = _times(found.xx, x)
        x_bar[:-1] += bent[..., :nx]
        return backwards(x_bar, bent[..., nx:]) + decay**2 * d

    x_bar = np.array(found.x)
    x_bar[:-1] += found.z[..., :nx]
    gradient = backwards(x_bar, found.z[..., nx:]) + decay**2 * weights
    return Linearisation(found.loss, gradient, product, _kronecker(found, policy, h1, seen1, bend, K, AK, B, decay))


def _kronecker(found, policy, h1, seen1, bend, K, AK, B, decay):
    """The preconditioner: both layers by themselves."""
    frames, samples, nx = AK.shape[:3]
    reply = np.concatenate([np.broadcast_to(np.eye(nx), (frames, samples, nx, nx)), K], axis=-2)
    closed = np.swapaxes(reply, -1, -2) @ (found.zz @ reply)
    ahead = found.xx[-1]
    bent = []
    for t in reversed(range(frames)):
        bent.append(found.zz[t][..., nx:, nx:] + np.swapaxes(B[t], -1, -2) @ (ahead @ B[t]))
        ahead = found.xx[t] + closed[t] + np.swapaxes(AK[t], -1, -2) @ (ahead @ AK[t])
    outputs = policy.scale[:, None] * np.stack(bent[::-1]) * policy.scale
    second = policy.second[:, :-1]
    hidden = bend[..., :, None] * (second.T @ outputs @ second) * bend[..., None, :]
    layers = []
    for inputs, curvature in ((seen1, hidden), (h1, outputs)):
        rows = inputs.reshape(-1, inputs.shape[-1])
        layers.append((*np.linalg.eigh(curvature.mean((0, 1))), *np.linalg.eigh(rows.T @ rows)))

    def precondition(v: np.ndarray, damping: float) -> np.ndarray:
        parts = []
        for block, (outer, left, inner, right) in zip(np.split(v, [policy.first.size]), layers, strict=True):
            turned = left.T @ block.reshape(len(outer), len(inner)) @ right
            turned /= np.maximum(outer[:, None] * inner, 0.0) + damping + decay**2
            parts.append((left @ turned @ right.T).ravel())
        return np.concatenate(parts)

    return precondition


@dataclass(frozen=True)
class Training:
    """The same with new samples and noise in every iteration, and consistency that sets in: a
    :class:`~pullback.plan.Sampled` problem.

    samples:  per iteration
    most:     share of the weights of consistency at which they stay, from a few hundredths of them at first
    """

    task: Manipulation
    policy: ContactPolicy
    samples: int = 16
    most: float = 4.0

    def sample(self, random: np.random.Generator, iteration: int) -> ContactProblem:
        share = min(self.most, FIRST_SHARE ** (1 - iteration / self.task.ramp))
        return ContactProblem(self.task, self.policy, self.task.batch(random, self.samples), share)


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return (matrices @ vectors[..., None])[..., 0]
