"""Do contacts do what paper and pencil say, and their gradients too? Part of contact.py.

Each case is simulated with ever shorter timesteps. A step is of first order, so errors should halve with it; an impact
falls somewhere inside a step, so errors are root mean squares over starts that put it at different places there. What
is asked for is the order, the exponent of the timestep that the errors fall with.
"""

from collections.abc import Callable

import mujoco
import numpy as np
from common import Result
from contact_scenes import FLOOR, MODELS, MUJOCO, attempt, scene
from oracles import precise

import pullback as pb

GRAVITY = 9.81  # [m/s²]
STEPS = (4e-3, 2e-3, 1e-3, 5e-4)  # [s]
EXACT = 1e-9  # errors below this at every timestep are rounding, and have no order
PHASES = 16  # starts
RADIUS = 0.1  # [m]
Errors = dict[str, list[float]]  # what: one a timestep


def order(errors: list[float], timesteps=STEPS) -> float:
    return float(np.polyfit(np.log(timesteps), np.log(np.maximum(errors, 1e-300)), 1)[0])


# Which step an impact falls on does not change with the start, until it jumps: the derivative of the stepped motion is
# not that of the motion that it stands for. What depends on when or how fast bodies meet has it.
JUMPS = ("d height / d drop", "d places / d velocities")


def figures_of(title: str, errors: Errors, timesteps=STEPS):
    """For everything that was compared: the order of its error, or the error itself where that is rounding."""
    for what, values in errors.items():
        note = "relative errors " + ", ".join(f"{e:.1e}" for e in values)
        note += f" at dt = {', '.join(f'{1e3 * h:g}' for h in timesteps)} ms"
        if max(values) <= EXACT:
            yield Result(f"{title}, {what}: relative error", max(values), "", f"<= {EXACT:g}", "closed form", note)
        else:
            if what in JUMPS:
                note += "; the derivative is that of the steps, in which the moment of impact does not move"
            # places after an impact are not asked for, but shown
            must = "" if what == "d places / d velocities" else ">= 0.8"
            yield Result(f"{title}, {what}: order in dt", order(values, timesteps), "", must, "closed form", note)


def compared(found: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> dict[str, float]:
    """Root mean squares of relative errors over the starts."""
    result = {}
    for what, value in found.items():
        scale = np.abs(exact[what]).max()
        result[what] = float(np.sqrt(np.mean((value - exact[what]) ** 2)) / (scale or 1.0))
    return result


def over_timesteps(case: Callable[[float], dict[str, float]], timesteps=STEPS) -> Errors:
    errors: Errors = {}
    for h in timesteps:
        for what, error in case(h).items():
            errors.setdefault(what, []).append(error)
    return errors


def final(system, q, v, time: float):
    """A run to ``time``, a whole number of steps."""
    steps = round(time / system.model.timestep)
    assert abs(steps * system.model.timestep - time) < 1e-9
    return pb.rollout(system, system.state(q, v), steps=steps)


# --- impacts ----------------------------------------------------------------------------------------------------------

BALL = '<body name="{0}"><joint type="slide" axis="{1}"/><geom name="{0}" size="{2}" mass="{3}"/></body>'


def head_on(h: float) -> dict[str, float]:
    """Two balls of one mass meet head-on and swap velocities."""
    world = BALL.format("left", "1 0 0", RADIUS, 1.3) + BALL.format("right", "1 0 0", RADIUS, 1.3)
    model = pb.load(scene(world, timestep=h, gravity=(0, 0, 0)))
    system = pb.Articulated(model, contact=pb.ContactImpulse(restitution=1.0, cfm=1e-12, slop=0.0), worlds=PHASES)
    v = np.tile([1.0, -0.5], (PHASES, 1))
    gap = 0.3 + 0.05 * np.linspace(0, 1, PHASES, endpoint=False)
    q = np.stack([-RADIUS - gap / 2, RADIUS + gap / 2], axis=1)
    time = 0.48
    run = final(system, q, v, time)
    meet = gap / (v[:, 0] - v[:, 1])
    swapped = v[:, ::-1]
    found = {"velocities": run.v[-1], "places": run.q[-1]}
    exact = {"velocities": swapped, "places": q + v * meet[:, None] + swapped * (time - meet)[:, None]}
    jacobian, places = np.empty((PHASES, 2, 2)), np.empty((PHASES, 2, 2))
    for ball in range(2):
        bar = np.tile(np.eye(2)[ball], (PHASES, 1))
        jacobian[:, ball] = run.pullback(v_bar=bar).state.v
        places[:, ball] = run.pullback(q_bar=bar).state.v
    found |= {"d velocities / d velocities": jacobian, "d places / d velocities": places}
    exact |= {
        "d velocities / d velocities": np.tile([[0.0, 1.0], [1.0, 0.0]], (PHASES, 1, 1)),
        # x1 = q1 + v1 t + v2 (T - t) with t = (q2 - q1 - 2r) / (v1 - v2): swapping makes it q2 - 2r + v2 T
        "d places / d velocities": np.tile([[0.0, time], [time, 0.0]], (PHASES, 1, 1)),
    }
    return compared(found, exact)


def bounce(h: float) -> dict[str, float]:
    """A ball falls on the floor and rises to e² of the height; how high it would rise follows from its energy."""
    model = pb.load(scene(BALL.format("ball", "0 0 1", RADIUS, 1.0) + FLOOR, timestep=h))
    e = 0.6
    system = pb.Articulated(model, contact=pb.ContactImpulse(restitution=e, cfm=1e-12, slop=0.0), worlds=PHASES)
    system.params["restitution"] = np.full((PHASES, model.mujoco.ngeom), e)  # a gradient for each world
    drop = 0.5 + 0.05 * np.linspace(0, 1, PHASES, endpoint=False)
    run = final(system, RADIUS + drop[:, None], np.zeros((PHASES, 1)), 0.6)
    q, v = run.q[-1], run.v[-1]
    grads = run.pullback(q_bar=np.ones_like(q), v_bar=v / GRAVITY)
    found = {
        "height": (q - RADIUS + v**2 / (2 * GRAVITY))[:, 0],
        "d height / d drop": grads.state.q[:, 0],
        # of both surfaces the larger counts: what one gets the other does not
        "d height / d restitution": grads.params["restitution"].sum(axis=1),
    }
    exact = {
        "height": e**2 * drop,
        "d height / d drop": np.full(PHASES, e**2),
        "d height / d restitution": 2 * e * drop,
    }
    return compared(found, exact)


# --- friction ---------------------------------------------------------------------------------------------------------

# A body that does not turn.
RIDER = """<body name="rider" pos="0 0 {radius}"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
  <joint type="slide" axis="0 0 1"/><geom name="rider" size="{radius}" mass="1.2" friction="{mu} 0 0"/></body>"""
SETTLE = 4.0  # until a rider lies still [s]
MU, SPEED, STOPPED = 0.4, 1.5, 1.0  # [1], [m/s], [s]


def rider(h: float, contact, *, slope: float = 0.0, mu: float = MU):
    """A System with a world of its own friction for each start, and the depth at which the rider lies still."""
    world = RIDER.format(radius=RADIUS, mu=mu) + '<geom name="floor" type="plane" size="9 9 1" friction="0.01 0 0"/>'
    across, down = GRAVITY * np.sin(slope), -GRAVITY * np.cos(slope)
    model = pb.load(scene(world, timestep=h, gravity=(across, 0, down)))
    system = pb.Articulated(model, contact=contact, worlds=PHASES)
    lying = pb.rollout(system, system.state(), steps=round(SETTLE / h), params={"gravity": (0, 0, down)})
    system.params["friction"] = np.tile(np.asarray(system.params["friction"]), (PHASES, 1, 1))
    return system, lying.q[-1, 0, 2]


def stop(h: float, name: str) -> dict[str, float]:
    """A body slides until friction has stopped it. Regularised friction stops it later, by a known amount."""
    system, rest = rider(h, MODELS[name])
    speed = SPEED + 0.02 * np.linspace(0, 1, PHASES, endpoint=False)
    q, v = np.tile([0.0, 0.0, rest], (PHASES, 1)), np.stack([speed, 0 * speed, 0 * speed], axis=1)
    run = final(system, q, v, STOPPED)
    grads = run.pullback(q_bar=np.tile([1.0, 0.0, 0.0], (PHASES, 1)))
    found = {
        "distance": run.q[-1, :, 0],
        "d distance / d speed": grads.state.v[:, 0],
        "d distance / d friction": grads.params["friction"][:, :, 0].sum(axis=1),
    }
    if name == "convex":
        return against_mujoco(found, system.model, q, speed)
    slip = slip_speed(name)
    root = np.hypot(speed, slip)
    # v dv/dx = -mu g v / sqrt(v² + slip²), from the speed down to zero
    path = 0.5 * (speed * root + (slip**2 * np.arcsinh(speed / slip) if slip else 0.0))
    exact = {
        "distance": path / (MU * GRAVITY),
        "d distance / d speed": root / (MU * GRAVITY),
        "d distance / d friction": -path / (MU**2 * GRAVITY),
    }
    return compared(found, exact)


def slip_speed(name: str) -> float:
    return MODELS[name].slip_speed if name == "compliant" else 0.0


def against_mujoco(found: dict, model: pb.Model, q: np.ndarray, speed: np.ndarray) -> dict[str, float]:
    """Relative errors against MuJoCo, whose soft contact stops a body where its own parameters say.

    Its derivatives are central differences of several widths, of which the best counts for each start: a body that
    hops as it slides has kinks close by.
    """
    m = precise(model.mujoco)
    data = mujoco.MjData(m)

    def distances(speed: np.ndarray, mu: float) -> np.ndarray:
        m.geom("rider").friction[0] = mu
        result = []
        for place, v in zip(q, speed, strict=True):
            mujoco.mj_resetData(m, data)
            data.qpos[:], data.qvel[:] = place, (v, 0, 0)
            mujoco.mj_step(m, data, round(STOPPED / m.opt.timestep))
            result.append(data.qpos[0])
        return np.array(result)

    widths = (1e-6, 1e-7, 1e-8)
    exact = {
        "distance": [distances(speed, MU)],
        "d distance / d speed": [(distances(speed + d, MU) - distances(speed - d, MU)) / (2 * d) for d in widths],
        "d distance / d friction": [(distances(speed, MU + d) - distances(speed, MU - d)) / (2 * d) for d in widths],
    }
    return {
        what: float(np.max(np.min(np.abs(np.array(values) - found[what]), axis=0)) / np.abs(found[what]).max())
        for what, values in exact.items()
    }


def slide_down(h: float, name: str) -> dict[str, float]:
    """A body slides down a slope that is too steep for it."""
    slope, mu = 0.6, 0.3
    system, rest = rider(h, MODELS[name], slope=slope, mu=mu)
    speed = 1.0 + 0.1 * np.linspace(0, 1, PHASES, endpoint=False)  # sliding from the start
    q, v = np.tile([0.0, 0.0, rest], (PHASES, 1)), np.stack([speed, 0 * speed, 0 * speed], axis=1)
    time = 0.4
    run = final(system, q, v, time)
    grads = run.pullback(v_bar=np.tile([1.0 / time, 0.0, 0.0], (PHASES, 1)))
    found = {
        "acceleration": (run.v[-1, :, 0] - speed) / time,
        "d acceleration / d friction": grads.params["friction"][:, :, 0].sum(axis=1),
    }
    exact = {
        "acceleration": np.full(PHASES, GRAVITY * (np.sin(slope) - mu * np.cos(slope))),
        "d acceleration / d friction": np.full(PHASES, -GRAVITY * np.cos(slope)),
    }
    return compared(found, exact)


def creep(h: float, name: str) -> tuple[float, float]:
    """How fast a body creeps down a slope that it should stick to, after a second [m/s], and what is expected."""
    slope, mu = 0.2, 0.4
    system, rest = rider(h, MODELS[name], slope=slope, mu=mu)
    q = np.tile([0.0, 0.0, rest], (PHASES, 1))
    found = float(np.abs(final(system, q, np.zeros((PHASES, 3)), 1.0).v[-1, :, 0]).max())
    if name == "convex":
        m = precise(system.model.mujoco)
        data = mujoco.MjData(m)
        data.qpos[:] = q[0]
        mujoco.mj_step(m, data, round(1.0 / h))
        return found, float(data.qvel[0])
    load = np.tan(slope) / mu  # share of the friction there is that is needed
    return found, slip_speed(name) * load / np.sqrt(1 - load**2)


# --- figures ----------------------------------------------------------------------------------------------------------


def closed_forms(quick: bool):
    timesteps = STEPS[1:] if quick else STEPS
    for title, case in {"elastic head-on balls": head_on, "a bounce": bounce}.items():
        of_case = lambda t, c=case: figures_of(t, over_timesteps(c, timesteps), timesteps)  # noqa: E731
        yield from attempt(f"{title}, impulse", of_case, ">= 0.8")
    for name in MODELS:
        for title, case in (("sliding to rest", stop), ("sliding down a slope", slide_down)):
            if (name, case) == ("convex", slide_down):
                continue  # its soft friction has no such limit; what it does is in the figures against MuJoCo
            of_case = lambda t, c=case, n=name: friction_results(t, c, n, timesteps)  # noqa: E731
            yield from attempt(f"{title}, {name}", of_case, ">= 0.8")
        yield from attempt(f"sticking on a slope, {name}", lambda t, n=name: creep_results(t, n), "<= 1e-6")


def friction_results(title: str, case, name: str, timesteps):
    errors = over_timesteps(lambda h: case(h, name), timesteps)
    if name != "convex":
        yield from figures_of(title, errors, timesteps)
        return
    for what, values in errors.items():
        note = f"its friction is soft: not that of Coulomb; at dt = {', '.join(f'{1e3 * h:g}' for h in timesteps)} ms"
        yield Result(f"{title}, {what}: relative error", max(values), "", "<= 1e-6", MUJOCO, note)


def creep_results(title: str, name: str):
    found, expected = creep(2e-3, name)
    note = f"creeps at {found:.2g} m/s; expected {expected:.2g} m/s"
    error = abs(found - expected) / (expected or 1.0)
    unit = "" if expected else "m/s"
    peer = MUJOCO if name == "convex" else "closed form"
    yield Result(f"{title}: error of the speed of creep", error, unit, "<= 1e-6", peer, note)
