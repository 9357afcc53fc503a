"""A task of one's own: a crane moves its load by half a metre and brings it to rest, in two seconds.

The crane is the sample cart-pole with its pole hanging down. What a task needs is in ``task()``: a System, a start,
what to look for, a loss with its cotangents, and a figure that says when it is solved.

Run: pullback optimize examples/05_my_task.py
"""

import numpy as np

import pullback as pb
from pullback.plan import LBFGS, REACHED, minimise
from pullback.tasks import Controls, Loss, Task

GOAL = np.array([0.5, 0.0, 0.0, 0.0])  # place of the cart [m], angle of the load [rad], and their velocities
WEIGHT = np.array([1.0, 1.0, 0.3, 0.3])


def task() -> Task:
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    steps = round(2.0 / system.model.timestep)

    def away(run):
        return np.concatenate([run.q[-1], run.v[-1]], axis=1) - GOAL

    def loss(run):
        bar = WEIGHT * away(run)
        return Loss((bar * away(run)).sum(axis=1) / 2, {"q_bar": bar[:, :2], "v_bar": bar[:, 2:]})

    return Task(
        name="crane",
        about="move a hanging load by half a metre and bring it to rest",
        system=system,
        start=system.state(q=[0.0, 0.0]),
        find=Controls(steps, hold=20),
        loss=loss,
        figure=lambda run: np.abs(away(run)).max(axis=1),
        target=0.01,
        unit="m, rad",
        method=LBFGS(),
    )


if __name__ == "__main__":
    crane = task()
    x, low, high = crane.begin()
    found = minimise(crane, x, crane.method, iterations=100, target=crane.target, low=low, high=high)
    cart, angle = crane.run(found.x).q[-1, 0]
    print(f"success: {found.stopped}" if found.stopped == REACHED else f"no success: {found.stopped}", end=" ")
    print(f"after {found.iterations} motions: cart at {cart:.3f} m, load at {angle:+.3f} rad")
