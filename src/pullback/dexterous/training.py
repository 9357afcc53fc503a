"""Training a policy, and what its proposals are worth by its own model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pullback.core.checks import check_seed
from pullback.core.errors import PullbackError
from pullback.core.threads import one_blas_thread
from pullback.dexterous import terms
from pullback.dexterous.policy import ContactPolicy
from pullback.dexterous.problem import ContactProblem, Training
from pullback.dexterous.scene import States
from pullback.dexterous.task import Manipulation
from pullback.plan import MatrixFreeGaussNewton, Progress, minimise
from pullback.spatial import unit_quat_matrix

UNSEEN = 1000  # seed of starts that no training draws


@dataclass(frozen=True)
class Quality:
    """How consistent the proposals of a policy are, from starts that were not trained on.

    gap:          distance between the two points of a contact, weighted by its force: mean [m]
    outside:      share of all force that is outside the cones of friction [1]
    penetration:  the deepest of each frame: mean [m]
    reached:      share of starts from which the object comes to its goal, as near as the task says [1]
    distance, angle: from the goal, means [m], [rad]
    shares:       of the loss, by the name of the residuals
    """

    gap: float
    outside: float
    penetration: float
    reached: float
    distance: float
    angle: float
    shares: dict[str, float]

    def summary(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if name != "shares"}


def train(
    task: Manipulation,
    *,
    seed: int = 0,
    iterations: int | None = None,
    samples: int | None = None,
    hidden: int = 64,
    method: MatrixFreeGaussNewton | None = None,
    checkpoint: Path | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> tuple[ContactPolicy, Progress]:
    """Trains a policy for a task and for physical consistency, by matrix-free Gauss-Newton.

    iterations:  the task's own if None
    samples:     starts per iteration, drawn anew in each; the task's own if None
    hidden:      size of the network
    checkpoint:  a file to resume from if it exists: the result is the same to the last bit
    watch:       called after every iteration
    """
    check_reach(task)
    policy = task.fresh_policy(check_seed(seed), hidden)
    problem = Training(task, policy, samples or task.samples)
    with one_blas_thread():
        found = minimise(
            problem, policy.weights, method or MatrixFreeGaussNewton(), iterations=iterations or task.iterations,
            seed=seed, checkpoint=checkpoint, watch=watch,
        )  # fmt: skip
    return policy.with_weights(found.x), found


def judge(task: Manipulation, policy: ContactPolicy, *, starts: int = 100, seed: int = UNSEEN) -> Quality:
    """Quality in the policy's own model, without noise."""
    batch = task.batch(np.random.default_rng(seed), starts, noisy=False)
    with one_blas_thread():
        return _judged(ContactProblem(task, policy, batch), policy.weights)


def _judged(problem: ContactProblem, weights: np.ndarray) -> Quality:
    task, scene = problem.task, problem.task.scene
    found, (_, x, u, _, _) = problem.blocks(weights)
    distance, angle = task.errors(States(*(part[-1] for part in x)), problem.batch.start)
    gaps, normals = problem.consistency.contacts(x, u)
    f = scene.split(u).f
    size = np.linalg.norm(f, axis=-1)
    outside = terms.cone(f, normals, {}, task.friction).value[..., 0]
    clear, _ = problem.consistency.clearance(x, scene.hand.pose(x.q), wants_slopes=False)
    deepest = np.max([np.maximum(-d, 0.0).max(-1) for d in clear.values()], axis=0)
    return Quality(
        gap=float(np.sum(gaps * size) / size.sum()),
        outside=float(outside.sum() / size.sum()),
        penetration=float(deepest.mean()),
        reached=float(np.mean((distance <= task.close) & (angle <= task.aligned))),
        distance=float(distance.mean()),
        angle=float(angle.mean()),
        shares=found.shares,
    )


def check_reach(task: Manipulation) -> None:
    """An error if no finger can come near the object, or the goal asks for what the frames leave no time for."""
    scene, hand = task.scene, task.scene.hand
    random = np.random.default_rng(0)
    low, high = (np.where(np.isfinite(bound), bound, hand.home + sign * np.pi) for bound, sign in
                 ((hand.low, -1), (hand.high, 1)))  # fmt: skip
    pose = hand.pose(np.concatenate([hand.home[None], random.uniform(low, high, (2000, scene.n))]))
    start = task.starts(random, 1)
    for name, body in zip(hand.tips, hand.tip_bodies, strict=True):
        turn = unit_quat_matrix(start.quat[0])
        off = scene.shape.distance((pose.at[:, body] - start.at[0]) @ turn)[0].min()
        spacing = np.ptp(pose.at[:, body], axis=0).max() / 5  # between two of the random postures, about
        if off > max(spacing, 0.02):
            raise PullbackError(
                f"{hand.tips[0] if len(hand.tips) == 1 else name!r} of task {task.name!r} comes no nearer to "
                f"{scene.name!r} than {1000 * off:.0f} mm: the hand cannot reach it; move one of them"
            )
