"""The picture of docs/tutorials/reachability.md: what the sample arm reaches with its tool pointing down.

Learns a network from 300,000 poses (about two minutes), and labels every point of the slice by inverse kinematics.

Run: python docs/plots/reach_slice.py [FOLDER]        (FOLDER: docs/images unless told)
"""

import sys
from pathlib import Path

import pullback as pb
from pullback.view import plot_slice

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "images"
DOWN = (0.5, 0.0, 0.3, 0.0, 1.0, 0.0, 0.0)  # half a turn about x


def main() -> None:
    arm = pb.load(pb.robots.arm())
    data = pb.reach.sample(arm, "base", "tip", "SE3", n=300_000)
    rmap = pb.reach.ReachabilityMap("SE3", "network").fit(data.poses, data.reachable)
    limb = pb.reach.Limb(arm, "base", "tip", "SE3")
    path = plot_slice(
        FOLDER / "reach_slice.png",
        rmap,
        at=DOWN,
        axes=(0, 2),
        ranges=[(-1.0, 1.0), (-0.2, 1.2)],
        title="Tool pointing down, y = 0",
        truth=lambda poses: limb.solve(poses).reached,
    )
    print(path)


if __name__ == "__main__":
    main()
