"""Model predictive control: a pole is swung up and balanced although its mass differs from the model's.

Plans look two seconds ahead; every 50 ms iLQR replans from the current state of the real cart. The real pole is a fifth
heavier than the model's. If a single plan, made with the wrong mass, is executed without feedback, the pole falls.

Run: python examples/07_mpc.py
"""

import numpy as np

import pullback as pb
from pullback.plan import ILQR, minimise, receding
from pullback.tasks import Controls, Task, Tracking

UPRIGHT = pb.State(np.array([0.0, np.pi]), np.zeros(2))  # place of the cart [m], angle of the pole [rad]; at rest


def task(seconds: float) -> Task:
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    steps = round(seconds / system.model.timestep)
    weights = np.tile([0.3, 1.0, 0.03, 0.03], (steps + 1, 1))
    weights[-1] = [20.0, 100.0, 10.0, 10.0]
    return Task(
        name="balance",
        about="swing a pole up and keep it there",
        system=system,
        start=system.state(q=[0.0, 0.0]),
        find=Controls(steps, hold=10),
        loss=Tracking(UPRIGHT, weights, effort=1e-2),
        metric=lambda run: np.abs(run.q[-1] - UPRIGHT.q).max(axis=1),
        target=0.1,
        unit="m, rad",
        method=ILQR(),
    )


def real_cart(system: pb.Articulated) -> pb.Articulated:
    plant = system.in_worlds(1)
    plant.params["mass"] = system.params["mass"] * np.array([1.0, 1.0, 1.2])  # world, cart, pole
    return plant


def worst(run, last: float = 1.0) -> float:
    """The pole's largest angle from upright in the last second [rad]."""
    steps = round(last / run.system.model.timestep)
    return float(np.abs(run.q[-steps:, 0, 1] - np.pi).max())


if __name__ == "__main__":
    ahead, once = task(seconds=2.0), task(seconds=4.0)
    plant = real_cart(ahead.system)
    driven = receding(ahead, ILQR(), ticks=80, apply=10, iterations=4, plant=plant)
    x, low, high = once.begin()
    plan = once.run(minimise(once, x, ILQR(), iterations=60, low=low, high=high).x)
    blind = pb.rollout(plant, once.start, plan.controls)
    stands = "success" if worst(driven.run) < 0.2 < worst(blind) else "no success"
    print(f"{stands}: planned anew every 50 ms, the pole stays within {worst(driven.run):.3f} rad in the last second")
    print(f"planned once it is {worst(blind):.3f} rad away, and {worst(plan):.3f} in the plan itself")
