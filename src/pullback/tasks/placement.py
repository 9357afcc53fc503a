"""A place for an arm from which it reaches ten targets over a pallet."""

from __future__ import annotations

import numpy as np

from pullback.core.checks import check_seed
from pullback.model import Model, load
from pullback.model.robots import arm
from pullback.reach import Block, Placement, ReachabilityMap, check_place, sample
from pullback.reach.limb import TOLERANCE
from pullback.reach.sqp import Options
from pullback.reach.walking import SE2
from pullback.tasks.planning import Planned, Planning, Scene
from pullback.tasks.task import task_factory

TARGETS = 10
PALLET = (0.2, 0.3)  # half sizes of the pallet [m]
HEIGHTS = (0.1, 0.7)  # of the targets [m]
MARGIN = 0.15  # from the middle of the base to the pallet [m]
SAMPLES = 8000
ROWS, SECONDS = 20, 0.05  # of a motion to the next target; between two of them [s]


def arm_map(model: Model, *, seed: int = 0, progress: bool = True) -> ReachabilityMap:
    """Where the tip of the sample arm can be, in R3: learned in a few seconds."""
    samples = sample(model, "base", "tip", "R3", n=SAMPLES, seed=seed, progress=progress)
    return ReachabilityMap("R3").fit(samples.poses, samples.reachable)


def random_placement(reach_map: ReachabilityMap, seed: int = 0) -> Placement:
    """A pallet somewhere, and targets over it."""
    rng = np.random.default_rng(seed)
    x, y, yaw = rng.uniform((-1, -1, -np.pi), (1, 1, np.pi))
    local = rng.uniform((-PALLET[0], -PALLET[1], HEIGHTS[0]), (PALLET[0], PALLET[1], HEIGHTS[1]), size=(TARGETS, 3))
    c, s = np.cos(yaw), np.sin(yaw)
    targets = np.stack([x + c * local[:, 0] - s * local[:, 1], y + s * local[:, 0] + c * local[:, 1], local[:, 2]], 1)
    return Placement(reach_map=reach_map, targets=targets, obstacles=(Block(x, y, *PALLET, yaw),), margin=MARGIN)


@task_factory
def placement(seed: int = 0) -> Planning:
    seed = check_seed(seed)

    def solve(options: Options | None) -> Planned:
        model = load(arm())
        problem = random_placement(arm_map(model), seed)
        place = problem.plan(options)
        found = check_place(model, "base", "tip", place)
        # The robot stays at the origin of its world: the pallet and the targets are brought to it.
        scene, (pallet,) = Scene(arm()), problem.obstacles
        x, y, yaw = SE2.relative(place.base, np.array([pallet.x, pallet.y, pallet.yaw]))
        scene.obstacles([Block(x, y, pallet.half_length, pallet.half_width, yaw)], tall=HEIGHTS[0] - 0.03)
        scene.points(place.seen, 0.02)
        stops = np.concatenate([model.home.q[None], found.q])
        share = 0.5 - 0.5 * np.cos(np.pi * np.arange(ROWS) / ROWS)
        q = (stops[:-1, None] + share[:, None] * np.diff(stops, axis=0)[:, None]).reshape(-1, model.nq)
        return Planned(
            solved=place.solved and bool(found.reached.all()),
            metric=float(found.error.max()),
            report=place.report(),
            iterations=place.solution.iterations,
            seconds=place.seconds,
            contacts=len(found.reached),
            reached=int(found.reached.sum()),  # to TOLERANCE, and nothing touches
            arrays={"base": place.base, "targets": problem.targets, "postures": found.q},
            model=scene.model(),
            q=np.concatenate([q, stops[-1:]]),
            dt=SECONDS,
        )

    return Planning(
        name="placement",
        about="find a place for an arm from which it reaches ten targets over a pallet",
        solve=solve,
        target=TOLERANCE,
    )
