"""Are gradients through impacts those of the trajectory, with refined steps, and what does it cost?

Bounces and slides have closed forms. Tossed bodies are compared with the same model at RK4 and a far shorter step, with
the same tolerance: the limit of short steps. Without refinement that limit is another: MuJoCo's force jumps as shapes
meet, and the derivative of a step, however short, does not know when within the step that is. So both are compared with
differences of the trajectory over a range, too.
"""

import numpy as np
from bounces import bounce, bounce_slope, bouncing_ball, slide, sliding_ball, tossed, tosses
from common import Result, interleave, main, one_core

import pullback as pb

STEP = 2e-3  # the nominal timestep [s]
TOLERANCE = 1e-3  # of tossed bodies [m]
TOLERANCES = (4e-3, 2e-3, 1e-3, 5e-4)  # of closed forms [m]
RANGE = 2e-2  # over which the trend of a trajectory is taken [m/s]


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def bounce_errors(integrator: str, tolerance: float | None, count: int) -> tuple[float, float]:
    """Of the height after a bounce [m] and its derivative by the height before, over starts [root mean square]."""
    heights, pick = np.linspace(0.25, 0.35, count), np.tile([0.0, 0.0, 1.0], (count, 1))
    system = pb.Articulated(bouncing_ball(STEP, integrator), worlds=count, refine=tolerance)
    run = pb.rollout(system, system.state(pick * heights[:, None]), steps=200)
    slope = run.pullback(q_bar=pick, wants_params=False).state.q[:, 2]
    return rms(run.final.q[:, 2] - bounce(heights, 0.4)), rms(slope - bounce_slope(heights, 0.4))


def slide_errors(integrator: str, tolerance: float | None, count: int) -> tuple[float, float]:
    """Of the way that a ball slides [m] and its derivative by the speed [s], over speeds [root mean square]."""
    speeds, along = np.linspace(1.8, 2.2, count), np.tile([1.0, 0.0, 0.0], (count, 1))
    system = pb.Articulated(sliding_ball(STEP, integrator), worlds=count, refine=tolerance)
    run = pb.rollout(system, system.state(0 * along, along * speeds[:, None]), steps=200)
    slope = run.pullback(q_bar=along, wants_params=False).state.v[:, 0]
    return rms(run.final.q[:, 0] - slide(speeds, 0.4)), rms(slope - 0.4)


def closed_forms(quick: bool):
    count = 8 if quick else 64
    for name, errors in {"bounce": bounce_errors, "slide": slide_errors}.items():
        for integrator in ("Euler", "RK4"):
            found = np.array([errors(integrator, tolerance, count) for tolerance in TOLERANCES])
            plain = errors(integrator, None, count)
            for what, values, without in zip(("value", "gradient"), found.T, plain, strict=True):
                order = np.polyfit(np.log(TOLERANCES), np.log(values), 1)[0]
                note = f"errors {', '.join(f'{e:.1e}' for e in values)} at tolerances of "
                note += f"{', '.join(f'{1e3 * t:g}' for t in TOLERANCES)} mm; {without:.1e} without refinement"
                yield Result(f"{name}, {integrator}, {what}: order in the tolerance", order, "", ">= 0.9", "", note)


def gradient(body: str, step: float, integrator: str, refine: float | None, q, v) -> np.ndarray:
    """Of the final place by all initial velocities, (worlds, 3, 6), after a second."""
    system = pb.Articulated(tossed(body, step, integrator), worlds=len(q), refine=refine)
    run = pb.rollout(system, system.state(q, v), steps=round(1 / step), checkpoint_every="sqrt")
    picks = [np.tile(np.eye(7)[i], (len(q), 1)) for i in range(3)]
    return np.stack([run.pullback(q_bar=pick, wants_params=False).state.v for pick in picks], axis=1)


def trend(body: str, q, v, *, points: int = 9) -> np.ndarray:
    """The same by straight lines through trajectories of 0.1 ms over a range of velocities."""
    count = len(q)
    offsets = np.linspace(-RANGE, RANGE, points)
    many = np.repeat(v, 6 * points, axis=0).reshape(count, 6, points, 6)
    for i in range(6):
        many[:, i, :, i] += offsets
    system = pb.Articulated(tossed(body, 1e-4), worlds=count * 6 * points)
    run = pb.rollout(
        system, system.state(np.repeat(q, 6 * points, 0), many.reshape(-1, 6)), steps=10_000, checkpoint_every=10_000
    )
    places = run.final.q[:, :3].reshape(count, 6, points, 3)
    return np.einsum("wipk,p->wki", places, offsets) / np.sum(offsets**2)


def apart(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Relative difference per toss."""
    return np.linalg.norm(found - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))


def tossed_bodies(quick: bool):
    q, v = tosses(2 if quick else 8)
    short = 2e-4 if quick else 1e-5
    for body in ("capsule", "cylinder", "box"):
        limit, line = gradient(body, short, "RK4", TOLERANCE, q, v), trend(body, q, v)
        near = gradient(body, 2 * short, "RK4", TOLERANCE, q, v)
        for integrator in ("Euler", "RK4"):
            found = gradient(body, STEP, integrator, TOLERANCE, q, v)
            plain = gradient(body, STEP, integrator, None, q, v)
            errors = 100 * apart(found, limit)
            note = f"of {len(q)} tosses {', '.join(f'{e:.1f}' for e in np.sort(errors))}; "
            note += f"median without refinement {100 * np.median(apart(plain, limit)):.0f}; the limit differs by "
            note += f"{100 * np.median(apart(near, limit)):.1f} from that at twice its step; against the trend over "
            note += f"±{RANGE} m/s: {100 * np.median(apart(found, line)):.0f}, without refinement "
            note += f"{100 * np.median(apart(plain, line)):.0f}"
            title = f"tossed {body}, {integrator}: gradient against the limit of short steps, median"
            yield Result(title, np.median(errors), "%", "<= 2", "", note)
            yield cost(body, integrator, q, v, repeats=3 if quick else 15)


def cost(body: str, integrator: str, q, v, repeats: int) -> Result:
    """Time of a second, forward and backward, against that without refinement, on one core."""

    def passes(refine):
        system = pb.Articulated(tossed(body, STEP, integrator), worlds=len(q), refine=refine, threads=1)
        bar = np.tile(np.eye(7)[0], (len(q), 1))
        start = system.state(q, v)
        return lambda: pb.rollout(system, start, steps=500).pullback(q_bar=bar, wants_params=False)

    seconds = interleave({"refined": passes(TOLERANCE), "plain": passes(None)}, repeats=repeats)
    title = f"tossed {body}, {integrator}: time / that of the plain rollout, forward and backward"
    return Result(title, seconds["refined"] / seconds["plain"], "ratio", "<= 5")


if __name__ == "__main__":
    one_core()
    main({"closed forms": closed_forms, "tossed bodies": tossed_bodies})
