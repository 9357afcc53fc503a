"""Identify the masses of an arm's links from recorded motions.

A "real" arm is recorded: from several poses it gets random torques for a fifth of a second, and its joint angles and
velocities are measured with noise. A second arm, with wrong masses, gets the same torques; the gradient of the
mismatch with respect to its masses corrects them. Each recording is a world; all worlds share the masses.

Run: python examples/03_identify_mass.py [--quick]
"""

import argparse

import numpy as np
from rich.progress import track

import pullback as pb

RECORDINGS = 16
STEPS = 100  # of 2 ms
ANGLE_NOISE, SPEED_NOISE = 1e-3, 1e-2  # standard deviations [rad, rad/s]

# The first link turns about a vertical axis through its centre of mass: its mass changes no motion, so there is
# nothing to find. (pb.check_system would say "no influence here".)
LINKS = [f"link{i}" for i in range(2, 8)]


def record(system: pb.Articulated, random: np.random.Generator):
    """Start, torques, and what was measured of the motion."""
    home = system.model.home.q
    start = system.state(home + random.uniform(-0.7, 0.7, (RECORDINGS, system.nq)), np.zeros((RECORDINGS, system.nv)))
    strength = 0.5 * system.model.control_range[:, 1]
    torques = np.tile(random.uniform(-1, 1, (4, 1, RECORDINGS, system.nu)), (1, STEPS // 4, 1, 1)) * strength
    torques = torques.reshape(STEPS, RECORDINGS, system.nu)
    run = pb.rollout(system, start, torques)
    q = run.q + ANGLE_NOISE * random.standard_normal(run.q.shape)
    v = run.v + SPEED_NOISE * random.standard_normal(run.v.shape)
    return start, torques, q, v


def mismatch(system: pb.Articulated, recording, mass: np.ndarray):
    """Mean squared difference from the measurements, in units of their noise, and its gradient."""
    start, torques, q, v = recording
    run = pb.rollout(system, start, torques, params={"mass": mass})
    q_off, v_off = (run.q - q) / ANGLE_NOISE, (run.v - v) / SPEED_NOISE
    count = q_off.size + v_off.size
    grads = run.pullback(q_bar=2 * q_off / ANGLE_NOISE / count, v_bar=2 * v_off / SPEED_NOISE / count)
    return (np.sum(q_off**2) + np.sum(v_off**2)) / count, grads.params["mass"]


def identify(system: pb.Articulated, recording, guess: np.ndarray, bodies: list[int], iterations: int) -> np.ndarray:
    """BFGS on the logarithm of the masses, which keeps them positive."""

    def at(x: np.ndarray):
        mass = guess.copy()
        mass[bodies] = np.exp(x)
        value, mass_bar = mismatch(system, recording, mass)
        return value, mass_bar[bodies] * mass[bodies]  # by the logarithm

    x = np.log(guess[bodies])
    value, gradient = at(x)
    inverse = 0.1 * np.eye(len(x)) / np.linalg.norm(gradient)  # of the Hessian; the first step changes masses by 10 %
    for k in track(range(iterations), description="identifying"):
        step = -inverse @ gradient
        new_value, new_gradient = at(x + step)
        while new_value > value + 1e-4 * gradient @ step and np.abs(step).max() > 1e-9:
            step = step / 2
            new_value, new_gradient = at(x + step)
        turn = new_gradient - gradient
        if step @ turn > 0:
            if k == 0:
                inverse = np.eye(len(x)) * (step @ turn) / (turn @ turn)
            left = np.eye(len(x)) - np.outer(step, turn) / (step @ turn)
            inverse = left @ inverse @ left.T + np.outer(step, step) / (step @ turn)
        x, value, gradient = x + step, new_value, new_gradient
    mass = guess.copy()
    mass[bodies] = np.exp(x)
    return mass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer iterations")
    quick = parser.parse_args().quick

    model = pb.load(pb.robots.arm())
    system = pb.Articulated(model, contact=None, worlds=RECORDINGS)  # joint limits are off: the motions are short
    bodies = [model.body_names.index(name) for name in LINKS]
    random = np.random.default_rng(0)
    recording = record(system, random)

    true, guess = system.params["mass"], system.params["mass"].copy()
    guess[bodies] *= random.uniform(0.6, 1.6, len(bodies))
    found = identify(system, recording, guess, bodies, 40 if quick else 60)

    print(f"{'link':8}{'true [kg]':>11}{'guess [kg]':>12}{'found [kg]':>12}{'error':>9}")
    for name, b in zip(LINKS, bodies, strict=True):
        print(f"{name:8}{true[b]:11.3f}{guess[b]:12.3f}{found[b]:12.3f}{found[b] / true[b] - 1:9.2%}")
    before, after = (mismatch(system, recording, mass)[0] for mass in (guess, found))
    worst = max(abs(found[b] / true[b] - 1) for b in bodies)
    print(f"mean squared mismatch, in units of the noise: {before:.1f} -> {after:.3f} (1 is the noise itself)")
    print("success: every mass is within 5 %" if worst < 0.05 else f"no success: a mass is off by {worst:.0%}")


if __name__ == "__main__":
    main()
