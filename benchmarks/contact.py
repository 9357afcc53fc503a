"""Are contacts right, in value and in gradient, and are they fast? One core, float64, peers in the same run.

    python benchmarks/contact.py [--json FILE] [--quick] [--only NAME ...]

What is asked is in the files beside this one: contact_detection, contact_gradients, contact_closed_forms, contact_long;
speed and memory are here.
"""

import copy
import statistics

from common import Result, interleave, main, one_core, peak_added_memory, version

one_core()  # before NumPy and JAX start their threads

import mujoco  # noqa: E402
import numpy as np  # noqa: E402
from contact_closed_forms import closed_forms  # noqa: E402
from contact_detection import detection  # noqa: E402
from contact_gradients import accelerations, checks, linearisation  # noqa: E402
from contact_long import drift, energy, momentum, thrown  # noqa: E402
from contact_scenes import MUJOCO, attempt, plate, quadruped, stance  # noqa: E402
from peers import Absent, mjx_gradient, mujoco_steps, newton_gradient  # noqa: E402

import pullback as pb  # noqa: E402

SWEEPS = 50

# --- a quadruped that stands and moves --------------------------------------------------------------------------------


def moving(model: pb.Model, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, int]:
    """A start (q, v), controls (steps, nu), and how many contacts there are on average and at least.

    Servos hold it in its stance and follow angles that stray from it at random, anew every 0.1 s.
    """
    rng = np.random.default_rng(0)
    stray = 0.02 * rng.normal(size=(steps // 50 + 1, model.nu))
    controls = stance(model) + np.repeat(stray, 50, axis=0)[:steps]
    m = model.mujoco
    data = mujoco.MjData(m)
    data.qpos[:], data.ctrl[:] = model.home.q, stance(model)
    mujoco.mj_step(m, data, 1000)
    q, v, contacts = data.qpos.copy(), data.qvel.copy(), []
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(m, data)
        contacts.append(data.ncon)
    return q, v, controls, statistics.mean(contacts), min(contacts)


def solved(m: mujoco.MjModel, name: str) -> tuple[mujoco.MjModel, str]:
    """MuJoCo's model with the solver that does what ours does, and its name."""
    m = copy.copy(m)
    if name == "convex":
        m.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        return m, "Newton"
    m.opt.solver = mujoco.mjtSolver.mjSOL_PGS
    m.opt.iterations, m.opt.tolerance = SWEEPS, 0.0  # all of them, as ours
    return m, f"PGS, {SWEEPS} iterations"


def speed(quick: bool):
    model = pb.load(quadruped(servos=True))
    steps = 500
    q, v, controls, contacts, least = moving(model, steps)
    v_bar = np.random.default_rng(1).normal(size=(1, model.nv))
    for name, contact in (("convex", pb.ContactConvex()), ("impulse", pb.ContactImpulse(sweeps=SWEEPS))):
        system = pb.Articulated(model, contact=contact, threads=1)
        start, given = system.state(q, v), controls[:, None]
        try:
            run = pb.rollout(system, start, given)
        except pb.PullbackError as error:
            yield Result(
                f"rollout step, quadruped on its feet, {name}", None, "ratio", "<= 1.2", MUJOCO, f"error: {error}"
            )
            continue
        m, solver = solved(model.mujoco, name)
        peer = mujoco_steps(m, q, v, controls, contacts=True)
        found = interleave(
            {
                "forward": lambda s=system, x=start, u=given: pb.rollout(s, x, u),
                "peer": peer.call,
                "backward": lambda r=run: r.pullback(v_bar=v_bar),
                "without params": lambda r=run: r.pullback(v_bar=v_bar, wants_params=False),
            },
            repeats=3 if quick else 15,
        )
        a_step = {key: seconds / steps * 1e6 for key, seconds in found.items()}
        note = f"{a_step['forward']:.1f} against {a_step['peer']:.1f} µs ({peer.how}, {solver}); "
        note += f"{contacts:.1f} contacts on average, at least {least}"
        ratio = a_step["forward"] / a_step["peer"]
        yield Result(f"rollout step, quadruped on its feet, {name}", ratio, "ratio", "<= 1.2", MUJOCO, note)
        both = a_step["forward"] + a_step["backward"]
        note = f"{a_step['backward']:.1f} µs back; {a_step['without params']:.1f} without gradients of parameters"
        figure = f"forward + backward / mj_step, quadruped on its feet, {name}"
        yield Result(figure, both / a_step["peer"], "ratio", "<= 5", MUJOCO, note)


def crowd(quick: bool):
    """One body of small balls, all of which touch the floor."""
    side = 18 if quick else 55
    model = pb.load(plate(side))
    contacts, steps = side * side, 5 if quick else 20
    timed, runs = {}, {}
    for name, contact in (("convex", pb.ContactConvex), ("impulse", pb.ContactImpulse)):
        system = pb.Articulated(model, contact=contact(max_contacts=contacts), threads=1)
        given = (system, system.state(), np.zeros((steps, 1, 0)))
        runs[name] = pb.rollout(*given)
        timed[name] = lambda given=given: pb.rollout(*given)
        timed[f"{name} back"] = lambda run=runs[name]: run.pullback(v_bar=np.ones((1, model.nv)))
    found = {key: 1e3 * seconds / steps for key, seconds in interleave(timed, repeats=3 if quick else 9).items()}
    count = f"{contacts:,}" if quick else "3,000"
    note = "{impulse:.2f} against {convex:.2f} ms".format(**found)
    ratio = found["impulse"] / found["convex"]
    title = f"ContactImpulse, one body with {count} contacts: step / ContactConvex's"
    yield Result(title, ratio, "ratio", "<= 5", "ContactConvex", note)
    note = "{impulse back:.2f} against {convex back:.2f} ms".format(**found)
    ratio = found["impulse back"] / found["convex back"]
    title = f"ContactImpulse, one body with {count} contacts: backward pass / ContactConvex's"
    yield Result(title, ratio, "ratio", "", "ContactConvex", note)


def gradients(quick: bool):
    """Ours is with respect to start and controls, and, in the notes, all parameters too; theirs to controls alone."""
    text = quadruped(feet_only=True, limits=False)
    model = pb.load(text)
    steps = 20 if quick else 100
    controls = 0.5 * np.random.default_rng(2).normal(size=(steps, model.nu))
    q, v = model.home.q, np.zeros(model.nv)
    ours = {}
    for name, contact in (("convex", pb.ContactConvex()), ("impulse", pb.ContactImpulse(sweeps=SWEEPS))):
        system = pb.Articulated(model, contact=contact, threads=1)
        start = system.state(q, v)

        def gradient(wants_params: bool, system=system, start=start, given=controls[:, None]):
            run = pb.rollout(system, start, given)
            return run.pullback(q_bar=run.q[-1] - model.mujoco.qpos0, v_bar=run.v[-1], wants_params=wants_params)

        ours[name] = lambda f=gradient: f(False)
        ours[f"{name}, params"] = lambda f=gradient: f(True)
    makers = {
        version("mujoco-mjx", "MJX"): ("<= 0.15", lambda: mjx_gradient(model.mujoco, steps, contacts=True)),
        version("newton", "Newton"): ("<= 0.05", lambda: newton_gradient(text, steps, contacts=True)),
    }
    for peer, (must, make) in makers.items():
        engine = peer.split()[0]
        names = {name: f"gradient step with contact, {name} / {engine}'s" for name in ("convex", "impulse")}
        if quick and engine == "MJX":
            for figure in names.values():
                yield Result(figure, None, "ratio", "", peer, "left out by --quick: it compiles for minutes")
            continue
        try:
            theirs, set_up = make()
        except Absent as reason:
            for figure in names.values():
                yield Result(figure, None, "ratio", must, peer, f"absent: {reason}")
            continue
        # what JAX computes in the background is waited for
        both = {**ours, "peer": lambda f=theirs: [np.asarray(x) for x in f(q, v, controls)]}
        found = {
            name: seconds / steps * 1e6
            for name, seconds in interleave(both, repeats=3 if quick else 9, least=0.1).items()
        }
        for name, figure in names.items():
            note = (
                f"{found[name]:.1f} against {found['peer']:.0f} µs ({found[f'{name}, params']:.1f} with all "
                f"parameters' too); its set-up: {set_up:.0f} s; four spheres on a plane"
            )
            note += "; one iteration of its solver" if engine == "MJX" else "; float32, springs for contacts"
            note += f"; {SWEEPS} sweeps" if name == "impulse" else ""
            yield Result(figure, found[name] / found["peer"], "ratio", must, peer, note)


# --- tables 1 to 3 of Qiao et al. 2021, with ContactImpulse -----------------------------------------------------------


def table_of(model: pb.Model, counts: tuple[int, ...], repeats: int) -> dict[str, dict[int, float | None]]:
    """Peak memory [MB], and times of a step there and back [µs], by the number of steps."""
    system = pb.Articulated(model, contact=pb.ContactImpulse(sweeps=SWEEPS), threads=1)
    start, v_bar = system.state(), np.ones((1, model.nv))
    result = {"memory": {}, "forward": {}, "backward": {}}
    timed = {}
    for steps in counts:
        controls = np.tile(stance(model), (steps, 1, 1))

        def gradient(controls=controls):
            pb.rollout(system, start, controls).pullback(v_bar=v_bar)

        added = peak_added_memory(gradient, repeats=9 if steps == counts[-1] else repeats)
        result["memory"][steps] = None if added is None else added / 1e6
        run = pb.rollout(system, start, controls)
        timed["forward", steps] = lambda controls=controls: pb.rollout(system, start, controls)
        timed["backward", steps] = lambda run=run: run.pullback(v_bar=v_bar)
    # the least: other work on the machine only ever adds, and more of it to long runs
    for (name, steps), seconds in interleave(timed, repeats=repeats, of=min).items():
        result[name][steps] = seconds / steps * 1e6
    return result


def tables(quick: bool):
    one = (50, 100, 500, 1000) if quick else (50, 100, 500, 1000, 5000)
    ten = (100, 200) if quick else (1000, 2000, 3000, 4000, 5000)
    paper = {
        "memory": "Qiao et al. 2021: 0.3, 0.3, 0.7, 1.2, 5.0 MB",
        "forward": "Qiao et al. 2021: 300, 300, 200, 200, 200 µs, on a machine of theirs",
        "backward": "Qiao et al. 2021: 1200, 1100, 1200, 1100, 1200 µs",
    }
    for robots, counts, most, repeats in ((1, one, 2, 3 if quick else 5), (10, ten, 20, 2 if quick else 3)):
        title = "one quadruped" if robots == 1 else f"{robots} quadrupeds in one scene"
        model = pb.load(quadruped(servos=True, robots=robots))

        def figures(title, model=model, counts=counts, most=most, repeats=repeats, robots=robots):
            found = table_of(model, counts, repeats)
            remark = paper if robots == 1 else {"memory": "Qiao et al. 2021: 5 KB a step"}
            last = counts[-1]
            memory = found["memory"][last]
            note = _listed(found["memory"], "MB", 2) + "; " + remark["memory"]
            yield Result(f"{title}: peak memory of a {last}-step gradient", memory, "MB", f"<= {most}", "", note)
            for name in ("forward", "backward"):
                long = [x for steps, x in found[name].items() if steps >= 500] or list(found[name].values())
                note = _listed(found[name], "µs a step", 1) + (f"; {remark[name]}" if name in remark else "")
                figure = f"{title}: {name}, longest over shortest time a step"
                yield Result(figure, max(long) / min(long), "ratio", "<= 1.3", "", note)

        yield from attempt(f"{title}, impulse", figures, "<= 1.3")


def _listed(values: dict[int, float | None], unit: str, digits: int) -> str:
    return ", ".join(f"{n} steps: {'?' if x is None else f'{x:.{digits}f}'}" for n, x in values.items()) + f" {unit}"


QUESTIONS = {
    "tables": tables,  # first: what a process has done before makes memory hard to measure
    "detection": detection,
    "accelerations": accelerations,
    "linearize": linearisation,
    "checks": checks,
    "closed_forms": closed_forms,
    "drift": drift,
    "energy": energy,
    "thrown": thrown,
    "momentum": momentum,
    "speed": speed,
    "crowd": crowd,
    "gradients": gradients,
}


def guarded(name: str, question):
    """What goes wrong in one question is a miss, and no reason to leave out the others."""
    return lambda quick: attempt(name, lambda title: question(quick), "== 0")


if __name__ == "__main__":
    main({name: guarded(name, question) for name, question in QUESTIONS.items()}, description=__doc__)
