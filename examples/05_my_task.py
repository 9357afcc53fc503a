"""A task of your own: a crane moves its load by half a metre and brings it to rest, in two seconds.

The crane is the sample cart-pole with its pole hanging down. ``task()`` defines the System, the initial state,
the decision variables, the loss, and the metric that decides when the task is solved.

Run: pullback optimize examples/05_my_task.py
"""

import pullback as pb
from pullback.plan import LBFGS, REACHED, minimise
from pullback.tasks import Controls, StateGoal, Task

PLACE = [0.5, 0.0]  # of the cart [m], and the angle of the load [rad]


def task() -> Task:
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    return Task(
        name="crane",
        about="move a hanging load by half a metre and bring it to rest",
        system=system,
        start=system.state(q=[0.0, 0.0]),
        find=Controls(steps=round(2.0 / system.model.timestep), hold=20),
        loss=StateGoal(q=PLACE) + 0.3 * StateGoal(v=0.0),
        metric=StateGoal(q=PLACE, v=0.0).distance,
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
