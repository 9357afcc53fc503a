"""A cue ball that has not touched anything yet sends two of fifteen balls to their marks."""

from __future__ import annotations

from functools import cache

import numpy as np

from pullback.contact import ContactLongRange
from pullback.core.checks import check_seed
from pullback.dynamics import Articulated
from pullback.model import Model, load
from pullback.model.robots.scene import SOLID, Stage, add, decoration, document, stage
from pullback.plan import CMA, Adam
from pullback.rollout import rollout
from pullback.tasks.distant import COARSE, at_goals
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import InitialState

TIMESTEP, STEPS = 0.04, 100  # [s], of the trajectory
RADIUS, MASS, DRAG = 0.1, 1.0, 0.5  # of a ball [m], [kg], of the cloth [N·s/m]
ROWS, PITCH = 5, 0.26  # of the rack; between the centres of neighbours [m]
JITTER = 0.02  # by which balls are out of place at most [m]
LOW, HIGH = np.array([-2.2, -0.8]), np.array([-0.8, 0.8])  # where the cue ball may start [m]
SLOWEST, FASTEST = 1.5, 2.5  # of the shot that made the goals [m/s]
FAR = 0.4  # the goals are at least so far from where the balls are [m]
NEAR = 0.1  # a ball is at its goal: its middle is no farther away [m]
GAP = 1e-3  # of the contact [m]
EYE, LOOK = (-1.6, -1.9, 2.4), (-0.1, 0.1, 0.0)  # of the camera [m]


def rack() -> np.ndarray:
    """Places of all balls (16, 2) [m], the cue ball's first."""
    balls = [(row * PITCH * np.sqrt(0.75), (k - row / 2) * PITCH) for row in range(ROWS) for k in range(row + 1)]
    return np.concatenate([[(LOW + HIGH) / 2], balls])


def balls(targets: tuple[int, ...] = (), goals: np.ndarray | None = None) -> str:
    """Sixteen balls of 1 kg on a cloth that slows them down. 32 DoF.

    A ball slides along x and y: slides "x0", "y0" (the cue ball) to "y15". Nothing rolls, and nothing has friction.
    Targets are coloured, and so are their goals (k, 2).
    """
    root, world, _ = stage(Stage("billiards", TIMESTEP, EYE, LOOK, touchable=False))
    colours = dict(zip(targets, ("accent", "blue"), strict=False))
    for i, (x, y) in enumerate(rack()):
        ball = add(world, "body", name=f"ball{i}", pos=(x, y, RADIUS))
        for axis, name in (((1, 0, 0), "x"), ((0, 1, 0), "y")):
            add(ball, "joint", name=f"{name}{i}", type="slide", axis=axis, damping=DRAG)
        material = "shell" if i == 0 else colours.get(i, "steel")
        add(ball, "geom", name=f"ball{i}", size=RADIUS, mass=MASS, condim=1, material=material,
            **(SOLID | {"conaffinity": 1}))  # fmt: skip
    for target, goal in zip(targets, () if goals is None else goals, strict=False):
        decoration(world, "cylinder", colours[target], size=(NEAR, 0.002), pos=(*goal, 0))
    return document(root)


@cache
def _table() -> Model:
    return load(balls())


def shot(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A start (32,) of all balls, two targets (2,), their goals (2, 2) [m], and a shot (4,) that leads there.

    Goals are where a random shot takes the two balls that it moves most.
    """
    random, system = (
        np.random.default_rng(check_seed(seed)),
        Articulated(_table(), ContactLongRange(gap=GAP, substep_share=COARSE)),
    )
    places = rack() + random.uniform(-JITTER, JITTER, (16, 2))
    places[0] = random.uniform(LOW, HIGH)
    while True:
        cue = random.uniform(LOW, HIGH)
        at = places[random.integers(1, 7)] + random.uniform(-RADIUS, RADIUS, 2) / 2
        velocity = (at - cue) / np.linalg.norm(at - cue) * random.uniform(SLOWEST, FASTEST)
        begun = np.concatenate([[cue], places[1:]])
        start = system.state((begun - rack()).ravel(), np.append(velocity, np.zeros(30)))
        ended = rollout(system, start, steps=STEPS).q[-1, 0].reshape(16, 2) + rack()
        moved = np.linalg.norm(ended - begun, axis=1)
        targets = 1 + np.argsort(-moved[1:])[:2]
        if moved[targets].min() > FAR:
            return (places - rack()).ravel(), targets, ended[targets], np.append(cue - rack()[0], velocity)


@task_factory
def billiards(device: str = "cpu", seed: int = 0) -> Task:
    q, targets, goals, _ = shot(seed)
    model = load(balls(tuple(targets.tolist()), goals))
    system = Articulated(model, ContactLongRange(gap=GAP, substep_share=COARSE), device=device)
    entries = [[2 * target, 2 * target + 1] for target in targets.tolist()]
    loss, metric = at_goals(entries, goals - rack()[targets], NEAR / 2)
    return Task(
        name="billiards",
        about="place the cue ball and hit it so that two balls of a rack come to their marks",
        system=system,
        start=system.state(q),
        find=InitialState(
            STEPS,
            {"q": [0, 1], "v": [0, 1]},
            guess={"q": q[:2], "v": 0.0},
            scale={"q": 0.3},
            low={"q": LOW - rack()[0]},
            high={"q": HIGH - rack()[0]},
        ),
        loss=loss,
        metric=metric,
        target=NEAR,
        unit="m",
        method=Adam(rate=0.1, beta1=0.3, beta2=0.5, decay=150),
        iterations=150,
        baseline=CMA(spread=1.0),
        baseline_iterations=100,
        camera=Camera(EYE, LOOK),
    )
