"""A humanoid walks to a goal around obstacles, on its reachability map."""

from __future__ import annotations

import numpy as np

from pullback.reach import Block, Disc, Footsteps, Maps, Plan
from pullback.tasks.planning import Planning, Scene, walking_task
from pullback.tasks.task import task_factory

FREE = 0.45  # round the start and the goal: no obstacle is nearer [m]
FURTHEST = 3.0  # goal: sixteen steps of 0.19 m [m]


def random_footsteps(foot_map, seed: int = 0) -> Footsteps:
    """A goal 1 to 3 m away, in any direction ahead, and up to four obstacles on the way to it."""
    rng = np.random.default_rng(seed)
    distance, way = rng.uniform(1.0, FURTHEST), rng.uniform(-0.8, 0.8)
    goal = (distance * np.cos(way), distance * np.sin(way), way + rng.uniform(-0.6, 0.6))
    obstacles = []
    for _ in range(int(rng.integers(1, 5))):
        along, aside = rng.uniform(0.2, 0.9) * distance, rng.uniform(-0.8, 0.8)
        x, y = along * np.cos(way) - aside * np.sin(way), along * np.sin(way) + aside * np.cos(way)
        if rng.random() < 0.5:
            one, size = Disc(x, y, rng.uniform(0.08, 0.25)), 0.25
        else:
            one, size = Block(x, y, *rng.uniform(0.08, 0.22, size=2), rng.uniform(-1.5, 1.5)), 0.31
        if min(np.hypot(x, y), np.hypot(x - goal[0], y - goal[1])) > FREE + size:
            obstacles.append(one)
    return Footsteps(foot_map=foot_map, goal=goal, obstacles=tuple(obstacles))


@task_factory
def footsteps(seed: int = 0) -> Planning:
    def surroundings(scene: Scene, problem: Footsteps, plan: Plan, maps: Maps) -> dict:
        scene.obstacles(problem.obstacles)
        return {"arrays": {"goal": np.array(problem.goal)}}

    about = "plan sixteen steps of a humanoid to a goal, around obstacles"
    return walking_task("footsteps", about, seed, lambda maps, seed: random_footsteps(maps.foot, seed), surroundings)
