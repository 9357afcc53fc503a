"""A humanoid walks along a wall with a hand on it, on its reachability maps."""

from __future__ import annotations

import numpy as np

from pullback.reach import Maps, MultiContact, Plan, Wall
from pullback.tasks.planning import Planning, Scene, stance_at, walking_task
from pullback.tasks.task import task_factory


def random_multicontact(maps: Maps, seed: int = 0) -> MultiContact:
    """A goal 0.6 to 2.2 m along a wall; seed 0 has the wall at 0.6 m, others start nearer to it or further away."""
    rng = np.random.default_rng(seed)
    wall = 0.6 if seed == 0 else rng.uniform(0.5, 0.75)
    y, turn = rng.uniform((-0.2, -0.4), (0.05, 0.4))
    return MultiContact(
        foot_map=maps.foot,
        hand_map=maps.hand,
        goal=rng.uniform((0.6, -0.2, -0.5), (2.2, 0.2, 0.5)),
        wall=wall,
        start=stance_at(0.0, y, turn),
    )


@task_factory
def multicontact(seed: int = 0) -> Planning:
    def surroundings(scene: Scene, problem: MultiContact, plan: Plan, maps: Maps) -> dict:
        scene.obstacles([Wall((0.0, -1.0), -problem.wall)])
        scene.points(np.unique(plan.hand[1:], axis=0))
        return {"arrays": {"goal": np.array(problem.goal)}, "hand_map": maps.hand}

    about = "plan nine steps of a humanoid along a wall, and four places for its hand on it"
    return walking_task("multicontact", about, seed, random_multicontact, surroundings)
