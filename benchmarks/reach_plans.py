"""How soon are plans made on reachability maps, how many are good, and what would it take without the maps?

    python benchmarks/reach_plans.py [--json FILE] [--quick] [--only NAME ...]

Every plan is checked: inverse kinematics of the whole humanoid (or the arm) looks for joint angles, within their limits
and with legs apart, at every moment of the plan. The planner without maps is in the file beside this one,
reach_joint_angles. Maps are learned beforehand and kept in the user's cache.
"""

import statistics

import numpy as np
from common import Result, main, one_core
from reach_joint_angles import JointAngleFootsteps

import pullback as pb
from pullback.reach import check_plan, humanoid_maps, inverse, sample_humanoid
from pullback.tasks.footsteps import random_footsteps
from pullback.tasks.locomanip import random_locomanip
from pullback.tasks.multicontact import random_multicontact
from pullback.tasks.placement import arm_map, random_placement

WALKS = {
    "footsteps": (lambda maps, seed: random_footsteps(maps.foot, seed), 0.2),
    "multi-contact": (random_multicontact, 0.5),
    "loco-manipulation": (random_locomanip, 0.5),
}


def walks(quick: bool):
    robot, count = sample_humanoid(), 10 if quick else 100
    maps = humanoid_maps(robot)
    for name, (make, most) in WALKS.items():
        with one_core():
            make(maps, 0).plan()  # kernels are loaded
            plans = [make(maps, seed).plan() for seed in range(1, count + 1)]
        seconds = [plan.seconds for plan in plans]
        note = (
            f"of {count} random problems; 90th percentile {np.percentile(seconds, 90):.2g} s, most {max(seconds):.2g} s"
        )
        yield Result(f"{name}: planning time, median", statistics.median(seconds), "s", f"<= {most}", "", note)
        good = [plan for plan in plans if plan.solved]
        iterations = f"iterations: median {statistics.median(plan.solution.iterations for plan in plans):g}"
        yield Result(f"{name}: problems solved", len(good) / count, "share", ">= 0.95", "", iterations)
        checks = [check_plan(robot, plan) for plan in good]
        contacts, reached = sum(c.contacts for c in checks), sum(c.reached for c in checks)
        note = f"{contacts} contacts; {sum(c.reached == c.contacts for c in checks)} of {len(good)} plans in full"
        yield Result(
            f"{name}: contacts that inverse kinematics reaches within 5 mm",
            reached / contacts,
            "share",
            ">= 0.98",
            "",
            note,
        )


def places(quick: bool):
    model, count = pb.load(pb.robots.arm()), 10 if quick else 100
    reach_map = arm_map(model, progress=False)
    with one_core():
        random_placement(reach_map, 0).plan()
        found = [random_placement(reach_map, seed).plan() for seed in range(1, count + 1)]
    seconds = [place.seconds for place in found]
    yield Result("placement: planning time, median", statistics.median(seconds), "s", note=f"most {max(seconds):.2g} s")
    good = [place for place in found if place.solved]
    yield Result("placement: problems solved", len(good) / count, "share", ">= 0.95")
    reached = inverse(model, "base", "tip", np.concatenate([place.seen for place in good]), "R3").reached
    share, note = np.mean(reached), f"{len(reached)} targets; to 2 mm, and nothing touches"
    yield Result("placement: targets reached within 5 mm by inverse kinematics", share, "share", ">= 0.98", "", note)


def joint_angles(quick: bool):
    """The same footstep problems, the same optimiser and QP solver; joint angles in place of the map."""
    maps, count = humanoid_maps(), 2 if quick else 10
    problems = [random_footsteps(maps.foot, seed) for seed in range(1, count + 1)]
    ratios, solved, ours, theirs = [], 0, [], []
    with one_core():
        problems[0].plan()
        JointAngleFootsteps(problems[0]).linearise_once()
        for problem in problems:
            plan, other = problem.plan(), JointAngleFootsteps(problem).plan()
            ours.append(plan.seconds)
            theirs.append(other.seconds)
            ratios.append(other.seconds / plan.seconds)
            solved += other.solved
    note = f"{statistics.median(theirs):.3g} s against {statistics.median(ours):.3g} s; {solved} of {count} solved"
    yield Result(
        "footsteps with joint angles as variables / with the map: time",
        statistics.median(ratios),
        "ratio",
        ">= 10",
        "",
        note,
    )


QUESTIONS = {"walks": walks, "places": places, "joint-angles": joint_angles}


if __name__ == "__main__":
    main(QUESTIONS)
