"""Where an arm can pick objects from a shelf: a map that is learned once and evaluated in microseconds.

Poses of the tool are sampled and labelled by inverse kinematics, and a map is fitted to them. Grasps that are out of
reach then move along the gradient of the map until they are reachable. Inverse kinematics checks every grasp.

Run: python examples/08_reach.py [--quick]
"""

import sys
import time

import numpy as np

import pullback as pb

SAMPLES = 6_000 if "--quick" in sys.argv else 40_000
GRASPS = 200
MARGIN = 1.0  # of the map's value: a grasp should be inside by more than a hair
STEP = 0.02  # the farthest that a grasp moves in one go [m, rad]


def grasps(rng: np.random.Generator) -> np.ndarray:
    """Places on a shelf in front of the arm, partly too far away (n, 3) [m]."""
    return rng.uniform((0.4, -0.5, 0.2), (0.95, 0.5, 0.8), (GRASPS, 3))


def pull_inside(rmap: pb.reach.ReachabilityMap, poses: np.ndarray) -> np.ndarray:
    """Every pose moved along the gradient, by short steps, until its value is above the margin."""
    for _ in range(200):
        value, gradient = rmap.evaluate(poses)
        outside = value < MARGIN
        if not outside.any():
            break
        slope = np.linalg.norm(gradient, axis=1, keepdims=True)
        # As far as the linearised map says, and no farther than STEP.
        length = np.minimum(STEP, (MARGIN - value[:, None]) / np.maximum(slope, 1e-9) + 1e-3)
        steps = np.where(outside[:, None], length * gradient / np.maximum(slope, 1e-9), 0.0)
        poses = rmap.space.integrate(poses, steps)
    return poses


def main() -> None:
    arm = pb.load(pb.robots.arm())
    start = time.perf_counter()
    data = pb.reach.sample(arm, "base", "tip", "R3", n=SAMPLES, seed=0)
    train, test = data.split(int(0.9 * SAMPLES))
    print(f"{len(data)} poses labelled in {time.perf_counter() - start:.1f} s")

    rmap = pb.reach.ReachabilityMap("R3").fit(train.poses, train.reachable)
    print(f"intersection over union on {len(test)} other poses: {rmap.score(test.poses, test.reachable):.3f}")

    wanted = grasps(np.random.default_rng(1))
    moved = pull_inside(rmap, wanted)
    before, after = (pb.reach.inverse(arm, "base", "tip", poses, "R3").reached for poses in (wanted, moved))
    far = np.linalg.norm(moved - wanted, axis=1)
    print(f"within reach as they were: {before.sum()} of {GRASPS}; the others move by {far[far > 0].mean():.2f} m")
    share = after.mean()
    verdict = "success" if share > 0.98 else "no success"
    print(f"{verdict}: inverse kinematics reaches {after.sum()} of {GRASPS} where the map has moved them")


if __name__ == "__main__":
    main()
