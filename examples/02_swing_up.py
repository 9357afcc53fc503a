"""Swing up a cart-pole by gradient descent through the simulator, from no force at all.

The plan consists of 600 forces on the cart over three seconds, all zero at first, so that the pole hangs still. Each
iteration simulates the plan, measures how far the motion is from standing upright over the middle, computes the
gradient of this loss with respect to the 600 forces, and improves them with Adam.

Run: python examples/02_swing_up.py [--quick]
"""

import argparse
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import pullback as pb
from pullback.view import plot_curve, write_replay

OUT = Path("out/swing_up")
SECONDS = 3.0
HOLD = 0.6  # the pole should stand still for this long at the end [s]
# Cart at 0 m, pole at π rad: upright, reached the positive way round. A loss that did not care which way, such as
# 1 + cos(angle), is flat at the hanging pole, and nothing would ever move.
TARGET = np.array([0.0, np.pi, 0.0, 0.0])  # x, angle, and their velocities
WHILE_MOVING = np.array([0.02, 0.01, 0.0, 0.0])  # weights of the squared distance to it, a second
AT_THE_END = np.array([1.0, 1.0, 0.1, 0.1])  # the same, averaged over HOLD
EFFORT = 1e-4  # weight of the squared force [1/(N²·s)]
STRONGEST = 9.9  # [N]; the motor gives 10 N and no more: a force beyond that would have no gradient
RATE = 0.3  # of Adam at the start; falls to zero as a cosine [N]


class Plan:
    """The swing-up as a function of the forces, with its gradient."""

    def __init__(self):
        self.model = pb.load(pb.robots.cartpole())
        self.system = pb.Articulated(self.model, threads=1)
        self.dt = self.model.timestep
        self.steps = round(SECONDS / self.dt)
        self.start = self.system.state(q=[0.0, 0.0], v=[0.0, 0.0])  # hanging, at rest
        self.weights = np.tile(WHILE_MOVING * self.dt, (self.steps + 1, 1))
        self.weights[-self.tail(HOLD) :] += AT_THE_END / self.tail(HOLD)

    def tail(self, seconds: float) -> int:
        return round(seconds / self.dt)

    def loss_and_gradient(self, forces: np.ndarray):
        run = pb.rollout(self.system, self.start, forces)
        away = np.concatenate([run.q, run.v], axis=2)[:, 0] - TARGET
        loss = np.sum(self.weights * away**2) + EFFORT * self.dt * np.sum(forces**2)
        bar = 2 * (self.weights * away)[:, None]
        grads = run.pullback(q_bar=bar[..., :2], v_bar=bar[..., 2:], wants_params=False)
        return loss, grads.controls + 2 * EFFORT * self.dt * forces, run, away


def optimise(plan: Plan, iterations: int):
    forces = np.zeros((plan.steps, 1, 1))
    mean, square = np.zeros_like(forces), np.zeros_like(forces)
    losses = []
    columns = ("[progress.description]{task.description}", "loss {task.fields[loss]:.3f}")
    with Progress(TextColumn(columns[0]), BarColumn(), MofNCompleteColumn(), TextColumn(columns[1]),
                  TimeElapsedColumn()) as bar:  # fmt: skip
        task = bar.add_task("swinging up", total=iterations, loss=float("nan"))
        for k in range(1, iterations + 1):
            loss, gradient, _, _ = plan.loss_and_gradient(forces)
            losses.append(loss)
            mean = 0.9 * mean + 0.1 * gradient  # Adam
            square = 0.99 * square + 0.01 * gradient**2
            rate = RATE * (1 + np.cos(np.pi * k / iterations)) / 2
            step = (mean / (1 - 0.9**k)) / (np.sqrt(square / (1 - 0.99**k)) + 1e-12)
            forces = np.clip(forces - rate * step, -STRONGEST, STRONGEST)
            bar.update(task, advance=1, loss=loss)
    return forces, losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer iterations, a rougher result")
    quick = parser.parse_args().quick

    plan = Plan()
    forces, losses = optimise(plan, 400 if quick else 2000)
    loss, _, run, away = plan.loss_and_gradient(forces)
    losses.append(loss)

    OUT.mkdir(parents=True, exist_ok=True)
    title = "Swing-up of a cart-pole from zero force"
    curve = plot_curve(OUT / "loss.png", losses, title=title, xlabel="iteration", ylabel="loss")
    replay = write_replay(OUT / "replay.html", plan.model, run.q, dt=plan.dt, title=title, loss=losses)

    cart, angle, cart_speed, turning = away[-1]
    held = np.abs(away[-plan.tail(0.3) :, 1]).max()
    print(f"at {SECONDS:g} s: pole {angle:+.4f} rad from upright, turning at {turning:+.4f} rad/s,")
    print(f"          cart {cart:+.4f} m from the middle, at {cart_speed:+.4f} m/s")
    print(f"over the last 0.3 s the pole was never more than {held:.4f} rad from upright")
    print("success: the pole stands" if abs(angle) < 0.1 and held < 0.2 else "no success: the pole does not stand")
    print(f"loss:   {curve}\nreplay: {replay}")


if __name__ == "__main__":
    main()
