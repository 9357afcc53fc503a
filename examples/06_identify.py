"""Masses and joint damping of an arm from a recorded motion, with confidence intervals.

A recording is three arrays: torques (steps, motions, nu), coordinates q (steps + 1, motions, nq) and velocities v. Here
a "real" arm, which differs from its data sheet, is simulated and measured with noise; with a recording of your own,
replace ``measure``. Gauss-Newton finds the factors by which the data sheet is wrong. Parameters that the motion does
not determine are reported: the first link turns about a vertical axis through its centre of mass, so its mass has no
effect.

Run: python examples/06_identify.py, or pullback optimize examples/06_identify.py --seed 1
"""

import numpy as np

import pullback as pb
from pullback.plan import CONVERGED, GaussNewton, minimise
from pullback.tasks import Factors, Recording, Task

MOTIONS, STEPS = 6, 150  # of 2 ms
NOISE = 0.01  # of the measurements, against the standard deviation of each channel
LINKS = [f"link{i}" for i in range(1, 8)]


def experiment(model: pb.Model):
    """Poses that motions start from, at rest, and slowly changing torques."""
    random = np.random.default_rng(0)
    q = model.home.q + random.uniform(-0.5, 0.5, (MOTIONS, model.nq))
    knots = random.uniform(-0.3, 0.3, (6, MOTIONS, model.nu)) * model.control_range[:, 1]
    return q, np.repeat(knots, STEPS // len(knots), axis=0)


def measure(system: pb.Articulated, start: pb.State, torques: np.ndarray, wanted: dict, seed: int):
    """What is recorded of an arm whose parameters differ from the data sheet, and the true factors."""
    random = np.random.default_rng(seed)
    factors = 1 + random.uniform(0.1, 0.3, len(wanted)) * random.choice([-1, 1], len(wanted))
    real = {name: np.array(system.params[name]) for name, _ in wanted.values()}
    for (name, index), factor in zip(wanted.values(), factors, strict=True):
        real[name][index] *= factor
    run = pb.rollout(system, start, torques, params=real)
    q, v = (x + NOISE * x.std(axis=(0, 1)) * random.standard_normal(x.shape) for x in (run.q, run.v))
    return q, v, factors


def task(seed: int = 0) -> Task:
    model = pb.load(pb.robots.arm())
    system = pb.Articulated(model, contact=None)  # joint limits are off: the motions are short
    wanted = {f"mass of {link}": ("mass", model.body_names.index(link)) for link in LINKS}
    wanted |= {f"damping of {joint}": ("damping", i) for i, joint in enumerate(model.joint_names[: len(LINKS)])}
    q, torques = experiment(model)
    several = system.in_worlds(MOTIONS)
    start = several.state(q)
    q, v, factors = measure(several, start, torques, wanted, seed)

    recording = Recording(model, q, v)
    return Task(
        name="arm",
        about="masses and damping of an arm from a recorded motion",
        system=system,
        start=start,
        find=Factors(STEPS, wanted, torques, most=2.0),
        loss=recording,
        metric=lambda run: 100 * np.sqrt(np.mean(recording(run).values ** 2, axis=(0, 2))),
        target=1.2,
        unit="% of the signal left unexplained",
        evaluate_at_end=True,
        truth=factors,
        method=GaussNewton(),
    )


if __name__ == "__main__":
    arm = task()
    x, low, high = arm.begin()
    found = minimise(arm, x, arm.method, iterations=20, low=low, high=high)
    known = arm.estimate(found.x)
    print(known.table(arm.truth))
    sure = [label not in sum(known.undetermined, ()) for label in known.labels]
    worst = np.abs(known.values / arm.truth - 1)[sure].max()
    print(f"noise of the recording: {known.noise:.2%} of the signal, found in {found.iterations} iterations")
    inside = f"{known.covers(arm.truth)[sure].sum()} of {sum(sure)} in their intervals"
    success = found.stopped == CONVERGED and known.covers_all(arm.truth)
    print(f"{'success' if success else 'no success'}: errors of {worst:.1%} at most, {inside}")
