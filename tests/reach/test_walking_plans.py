"""Footsteps, multi-contact and loco-manipulation on maps that are known exactly."""

import numpy as np
import pytest
from stand_ins import Ellipsoid, assert_linearisations_are_derivatives, foot_map, hand_map

from pullback import PullbackError
from pullback.reach.footsteps import Footsteps
from pullback.reach.locomanip import Door, LocoManipulation
from pullback.reach.multicontact import MultiContact
from pullback.reach.obstacles import Block, Disc, Wall
from pullback.reach.sqp import Options, minimise
from pullback.reach.walking import Stance, middle

GOAL = (2.0, 0.4, 0.5)
SQUEEZED = (Wall((1, 0), 0.6), Wall((-1, 0), 0))  # there is no place between these two
AROUND = (Disc(0.9, 0.1, 0.15), Block(1.5, -0.6, 0.2, 0.3, 0.4))


def problems():
    feet, hands = foot_map(), hand_map()
    walls = {"obstacles": AROUND[:1], "start": Stance((0.1, 0.1, 0.1), (0, -0.1, -0.1))}
    return {
        "footsteps": Footsteps(foot_map=feet, goal=GOAL, obstacles=AROUND, first="left", steps=7),
        "multicontact": MultiContact(foot_map=feet, hand_map=hands, goal=(1.0, 0.0, 0.1), **walls),
        "locomanip": LocoManipulation(foot_map=feet, hand_map=hands, obstacles=AROUND[1:]),
        "right hand": LocoManipulation(foot_map=feet, hand_map=hands, hand="right", first="left"),
    }


def first_guess(problem):
    return {"feet": problem.guesses()[0]} if isinstance(problem, Footsteps) else problem.guess()


@pytest.mark.parametrize("name", problems())
def test_linearisations_are_derivatives(name):
    problem = problems()[name]
    assert_linearisations_are_derivatives(problem.problem(), first_guess(problem), spread=0.05)


@pytest.mark.parametrize("obstacle", [*AROUND, Wall((0.6, 0.8), 0.3)])
def test_distances_of_obstacles(obstacle):
    points = np.random.default_rng(1).uniform(-1, 2.5, size=(200, 2))
    distance, way = obstacle.distance(points)
    assert (distance < 0).any() and (distance > 0).any()
    expected = [(obstacle.distance(points + e)[0] - obstacle.distance(points - e)[0]) / 2e-6 for e in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(way, np.transpose(expected), atol=1e-5)
    # Along the gradient one comes to the surface.
    outside = distance > 0
    np.testing.assert_allclose(obstacle.distance((points - distance[:, None] * way)[outside])[0], 0, atol=1e-9)


def test_footsteps_go_around_obstacles():
    feet_map = foot_map()
    problem = Footsteps(foot_map=feet_map, goal=GOAL, obstacles=AROUND, steps=16)
    plan = problem.plan()
    assert plan.solved and "solved in" in plan.report()
    assert plan.feet.shape == (18, 3) and plan.sides[2:4] == ("right", "left")
    assert np.linalg.norm(plan.feet[-1] - GOAL) < 5e-3
    # What the optimiser says is what a loop over the steps finds.
    for i in range(2, 18):
        seen = feet_map.space.relative(plan.feet[i - 1], plan.feet[i])
        seen = seen * (1, -1, -1) if plan.sides[i] == "left" else seen
        assert feet_map.evaluate(seen[None])[0][0] > -1e-3
        turn = np.array([np.cos(plan.feet[i, 2]), np.sin(plan.feet[i, 2])])
        for ahead in (0.0, 0.14):
            for obstacle in AROUND:
                assert obstacle.distance((plan.feet[i, :2] + ahead * turn)[None])[0][0] > 0.1 - 2e-3
    straight = problem.guesses()[0]
    assert np.abs(straight - plan.feet[2:]).max() > 0.05


def test_one_evaluation_a_linearisation():
    """All steps are looked up in the map at once."""
    problem = Footsteps(foot_map=foot_map(), goal=GOAL)
    guess = problem.guesses()[0] + np.random.default_rng(0).normal(scale=0.1, size=(16, 3))
    problem.foot_map.calls = 0
    found = minimise(problem.problem(), {"feet": guess})
    assert problem.foot_map.calls == found.evaluations > 1


def test_hands_are_on_the_wall_and_within_reach():
    hands = hand_map()
    problem = MultiContact(foot_map=foot_map(), hand_map=hands, goal=(1.2, 0.1, 0.0))
    plan = problem.plan()
    assert plan.solved and plan.hand.shape == (13, 3) and np.isnan(plan.hand[0]).all()
    np.testing.assert_allclose(plan.hand[1:, 1], 0.6, atol=1e-3)
    assert plan.hand[1:, 2].min() > 0.7 - 1e-3 and plan.hand[1:, 2].max() < 0.9 + 1e-3
    frames = middle(plan.left, plan.right)
    for frame, hand in zip(frames[1:], plan.hand[1:], strict=True):
        c, s = np.cos(frame[2]), np.sin(frame[2])
        away = hand[:2] - frame[:2]
        seen = np.array([c * away[0] + s * away[1], -s * away[0] + c * away[1], hand[2]])
        assert hands.evaluate(seen[None])[0][0] > -1e-3
    # A hand stays while two feet step, and moves on in a stance that both holds serve.
    assert len(np.unique(plan.hand[1:].round(6), axis=0)) == 4
    np.testing.assert_array_equal(plan.left[3], plan.left[4])
    assert np.abs(plan.hand[3] - plan.hand[4]).max() > 0.05


def test_a_door_is_opened():
    door = Door()
    problem = LocoManipulation(foot_map=foot_map(), hand_map=hand_map(), door=door)
    plan = problem.plan()
    assert plan.solved
    np.testing.assert_allclose(plan.hand[0], (0.75, 0.15, 0.95), atol=1e-12)
    end = door.handle(np.array([-np.deg2rad(100)]))[0][0]
    np.testing.assert_allclose(plan.hand[-1], end, atol=0.02)
    np.testing.assert_allclose(np.hypot(plan.hand[:, 0] - 0.75, plan.hand[:, 1] - 0.9), 0.75, atol=1e-9)
    assert np.hypot(plan.feet[2:, 0] - 0.75, plan.feet[2:, 1] - 0.9).min() > 0.85 - 2e-3


@pytest.mark.parametrize(
    "problem, name",
    [
        (lambda: Footsteps(foot_map=foot_map(), goal=(30.0, 0.0, 0.0)), "misses the goal"),
        (lambda: Footsteps(foot_map=foot_map(), goal=GOAL, obstacles=[Disc(*GOAL[:2], 0.4)]), "misses the goal"),
        (
            lambda: Footsteps(foot_map=foot_map(), goal=GOAL, steps=3, obstacles=SQUEEZED),
            "Wall",
        ),
        (lambda: Footsteps(foot_map=foot_map(), goal=GOAL, threshold=2.0), "out of reach"),
        (lambda: MultiContact(foot_map=foot_map(), hand_map=hand_map(), goal=(1, -3, 0), wall=2.5), "hold 1 is out of"),
        (lambda: LocoManipulation(foot_map=foot_map(), hand_map=hand_map(), door=Door(height=3.0)), "handle is out of"),
    ],
)
def test_what_cannot_be_done_is_named(problem, name):
    plan = problem().plan()
    assert not plan.solved and np.isfinite(plan.feet).all()
    assert any(name in problem.name and problem.amount > 1e-3 for problem in plan.problems)
    assert "not solved" in plan.report() and "violated by" in plan.report()


def test_a_goal_out_of_reach_is_approached():
    """As far as steps go, and the report says what is missing."""
    plan = Footsteps(foot_map=foot_map(), goal=(30.0, 0.0, 0.0), steps=4).plan()
    assert plan.solution.feasible and plan.feet[-1, 0] > 0.8
    assert plan.problems[0].amount == pytest.approx(30 - plan.feet[-1, 0], abs=0.2)


def test_obstacles_of_the_user_are_counted_from_zero():
    """Whatever else the feet keep clear of."""
    everywhere = [Block(0, 0, 50, 50)]
    for problem, own in (
        (MultiContact(**BOTH, goal=GOAL, wall=-5.0, obstacles=everywhere), "the wall"),
        (LocoManipulation(**BOTH, door=Door(radius=9.0), obstacles=everywhere), "where the door moves"),
    ):
        violated = {one.name for one in problem.plan(Options(iterations=1)).problems}
        assert f"step 1 is too near to {own}" in violated
        assert "step 1 is too near to obstacle 0 (Block)" in violated
        assert not any("obstacle 1" in name for name in violated)


def on_cuda():
    rmap = foot_map()
    rmap.device = "cuda:0"
    return rmap


BOTH = {"foot_map": foot_map(), "hand_map": hand_map()}
BAD = {
    "in SE2, not one in R3": lambda: Footsteps(foot_map=hand_map(), goal=GOAL),
    "in SE2, not 'NoneType'": lambda: Footsteps(foot_map=None, goal=GOAL),
    "goal must be three": lambda: Footsteps(foot_map=foot_map(), goal=(1.0, 2.0)),
    "goal must be three finite": lambda: Footsteps(foot_map=foot_map(), goal=(1.0, np.nan, 0.0)),
    "distance": lambda: Footsteps(foot_map=foot_map(), goal=GOAL, obstacles=["a tree"]),
    "steps": lambda: Footsteps(foot_map=foot_map(), goal=GOAL, steps=0),
    "first": lambda: Footsteps(foot_map=foot_map(), goal=GOAL, first="middle"),
    "radius": lambda: Disc(0, 0, -1),
    "length one": lambda: Wall((1, 1), 0),
    "odd": lambda: MultiContact(foot_map=foot_map(), hand_map=hand_map(), goal=GOAL, steps=4),
    "heights": lambda: MultiContact(foot_map=foot_map(), hand_map=hand_map(), goal=GOAL, heights=(1, 0)),
    "hand_map": lambda: MultiContact(foot_map=foot_map(), hand_map=Ellipsoid("R2", (0, 0), (1, 1)), goal=GOAL),
    "foot_map is on cuda:0, but plans are made on the CPU": lambda: Footsteps(foot_map=on_cuda(), goal=GOAL),
    "up to 1e": lambda: Footsteps(foot_map=foot_map(), goal=(1e200, 0, 0)),
    "steps must be a whole number": lambda: MultiContact(**BOTH, goal=GOAL, steps="nine"),
    "a method distance, not int": lambda: MultiContact(**BOTH, goal=GOAL, obstacles=[3]),
    "method distance, not str": lambda: LocoManipulation(**BOTH, obstacles=["a tree"]),
    "soles must be points": lambda: Footsteps(foot_map=foot_map(), goal=GOAL, soles=[]),
    "threshold of Footsteps must be a number": lambda: Footsteps(foot_map=foot_map(), goal=GOAL, threshold=np.inf),
    "tolerance of Footsteps": lambda: Footsteps(foot_map=foot_map(), goal=GOAL, tolerance=np.nan),
    "smoothing of Footsteps": lambda: Footsteps(foot_map=foot_map(), goal=GOAL, smoothing=-1.0),
    "wall of MultiContact": lambda: MultiContact(**BOTH, goal=GOAL, wall=np.nan),
    "opened of LocoManipulation": lambda: LocoManipulation(**BOTH, opened="wide"),
    "x of Door": lambda: Door(x=np.nan),
    "y of Disc": lambda: Disc(0, np.inf, 1),
    "yaw of Block": lambda: Block(0, 0, 1, 1, np.nan),
    "offset of Wall": lambda: Wall((1, 0), np.nan),
    "two numbers": lambda: Wall((1, 0, 0), 0),
    "hand must be": lambda: LocoManipulation(foot_map=foot_map(), hand_map=hand_map(), hand="third"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input(kind):
    with pytest.raises(PullbackError) as error:
        BAD[kind]()
    assert kind in str(error.value) and "\n" not in str(error.value)
