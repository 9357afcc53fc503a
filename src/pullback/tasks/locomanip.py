"""A humanoid opens a door while it walks, on its reachability maps."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.reach import Door, LocoManipulation, Maps, Plan
from pullback.tasks.planning import PANEL, SOLID, Planning, Scene, stance_at, walking_task
from pullback.tasks.task import task_factory


def random_locomanip(maps: Maps, seed: int = 0) -> LocoManipulation:
    """A door to be opened by about 100 degrees; where one stands and how large the door is depend on the seed."""
    if seed == 0:
        return LocoManipulation(foot_map=maps.foot, hand_map=maps.hand)
    rng = np.random.default_rng(seed)
    x, y, turn = rng.uniform((0.15, -0.08, -0.2), (0.3, 0.08, 0.2))
    return LocoManipulation(
        foot_map=maps.foot,
        hand_map=maps.hand,
        opened=-np.deg2rad(rng.uniform(80.0, 110.0)),
        door=Door(radius=rng.uniform(0.7, 0.8), height=rng.uniform(0.85, 1.1)),
        start=stance_at(x, y, turn),
    )


@task_factory
def locomanip(seed: int = 0) -> Planning:
    def surroundings(scene: Scene, problem: LocoManipulation, plan: Plan, maps: Maps) -> dict:
        door = problem.door
        _draw(scene, door)

        def angles(hand: np.ndarray) -> np.ndarray:
            return np.arctan2(hand[:, 1] - door.y, hand[:, 0] - door.x)[:, None]

        opened = problem.all_angles(plan.solution.poses)
        return {"arrays": {"opened": opened}, "extra": angles, "hand_map": maps.hand}

    about = "plan eight steps of a humanoid while its hand opens a door"
    return walking_task("locomanip", about, seed, random_locomanip, surroundings)


def _draw(scene: Scene, door: Door) -> None:
    """The door along its own x axis, and the post that it hangs on."""
    body = scene.body("door", (door.x, door.y, 0), type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0, 0, 1))
    box, half = mujoco.mjtGeom.mjGEOM_BOX, door.radius / 2
    scene.shape(box, (half - 0.02, 0, 1.0), (half - 0.03, 0.015, 0.95), PANEL, body=body)
    scene.shape(mujoco.mjtGeom.mjGEOM_SPHERE, (door.radius, 0, door.height), (0.025, 0, 0), SOLID, body=body)
    scene.shape(mujoco.mjtGeom.mjGEOM_CYLINDER, (door.x, door.y, 1.0), (0.03, 1.0, 0), SOLID)
