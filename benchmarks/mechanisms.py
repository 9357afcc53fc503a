"""Closed loops, coupled tendons, thrusters and servos: are they MuJoCo's, are gradients right, and are they fast?

    python benchmarks/mechanisms.py [--json FILE] [--quick] [--only NAME ...]

The robots are those of ``testing/mechanisms.py``, at states along random motions, in contact where they stand or grasp.

- accelerations: ``qacc`` against MuJoCo's, with damping explicit so that a step of Euler shows it; the largest
  difference over the largest acceleration of a state;
- gradients: ``check_system``, all parameters;
- recompiled: masses, inertias and centres of mass that are set as parameters, beside the file with those numbers,
  through MuJoCo's compiler, in one motion of 1,000 steps with contact; and the gradient of where it ends;
- speed: against ``mj_step`` of the same motion, MuJoCo's solver as in the file.
"""

from common import Result, interleave, main, one_core, version

one_core()

import mujoco  # noqa: E402
import numpy as np  # noqa: E402
from mechanisms import MECHANISMS, along_a_motion, mechanism  # noqa: E402
from oracles import precise  # noqa: E402
from peers import mujoco_steps  # noqa: E402
from recompiled import other_numbers, recompiled  # noqa: E402

import pullback as pb  # noqa: E402
from pullback.rollout.check import AGREES, KINK  # noqa: E402

MUJOCO = version("mujoco", "MuJoCo")
STATES, STEPS = 1000, 1000
WIDTHS = (1e-5, 1e-6, 1e-7)  # of differences by parameters, relative
# implicitfast takes no account of the air.
INTEGRATORS = {name: ("Euler", "RK4" if name == "drone" else "implicitfast") for name in MECHANISMS}
TIMED = ("four-bar linkage", "hand")

# A box that is set down a little askew, rocks and slides to rest.
BOX = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 1"/>
<body name="box" pos="0 0 0.11" euler="3 2 0"><freejoint/>
  <geom type="box" size="0.15 0.1 0.1" mass="1" friction="0.6"/></body></worldbody></mujoco>"""


def accelerations(quick: bool):
    count = 100 if quick else STATES
    for name in MECHANISMS:
        spec = mujoco.MjSpec.from_string(mechanism(name))
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
        model = pb.load(spec)
        m = precise(model.mujoco)
        q, v, act, controls = along_a_motion(m, count)
        system = pb.Articulated(model, worlds=count)
        state = system.state(q, v, act) if system.na else system.state(q, v)
        ours = (system.step(state, controls).v - v) / m.opt.timestep
        data, theirs, rows = mujoco.MjData(m), np.empty_like(ours), 0
        for k in range(count):
            mujoco.mj_resetData(m, data)
            data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = q[k], v[k], act[k], controls[k]
            mujoco.mj_forward(m, data)
            theirs[k], rows = data.qacc, rows + data.nefc
        errors = np.abs(ours - theirs).max(axis=1) / np.abs(theirs).max(axis=1)
        note = f"{rows / count:.1f} rows of constraints on average; median {np.median(errors):.0e}"
        title = f"{name}: qacc at {count:,} states, 99.9th percentile"
        yield Result(title, np.quantile(errors, 0.999), "", "<= 1e-6", MUJOCO, note)


def most_constrained(m: mujoco.MjModel, count: int) -> list[tuple[np.ndarray, ...]]:
    """Of states along a motion, one with most limits that hold and others with most rows of constraints."""
    states, data = list(zip(*along_a_motion(m, 100, seed=1), strict=True)), mujoco.MjData(m)
    limits, rows = [], []
    for q, v, act, control in states:
        data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = q, v, act, control
        mujoco.mj_forward(m, data)
        limits.append(data.nl)
        rows.append(data.nefc)
    return [states[int(np.argmax(limits))], *(states[k] for k in np.argsort(rows)[-count + 1 :])]


def gradients(quick: bool):
    for name in MECHANISMS:
        worst, about, kinks, silent = 0.0, "", 0, None
        for integrator in INTEGRATORS[name]:
            model = pb.load(mechanism(name, integrator=integrator))
            system = pb.Articulated(model)
            for q, v, act, control in most_constrained(precise(model.mujoco), 2):
                state = system.state(q, v, act) if system.na else system.state(q, v)
                try:
                    rows = pb.check_system(system, state, control[None]).rows
                except pb.rollout.WrongGradient as error:
                    rows = error.report.rows
                for row in rows:
                    kinks += row.status == KINK
                    if row.error > worst:
                        worst, about = row.error, f"worst: {row.worst}, {integrator}; "
                moved = {row.field for row in rows if row.status in (AGREES, KINK)}
                silent = {row.field for row in rows} - moved if silent is None else silent - moved
        about += f"{kinks} fields at kinks; without influence: {', '.join(sorted(silent or ())) or 'none'}"
        yield Result(f"{name}: check_system, all parameters, worst error", worst, "", "<= 1e-6", "", about)


def moved_as_recompiled(xml: str, numbers: dict, steps: int) -> np.ndarray:
    """q (nq,) after so many steps of MuJoCo, of the file with these numbers."""
    m = precise(recompiled(xml, numbers))
    data = mujoco.MjData(m)
    mujoco.mj_step(m, data, steps)
    return data.qpos.copy()


def parameters(quick: bool):
    steps = 100 if quick else STEPS
    for name, xml in {"box": BOX, "four-bar linkage": mechanism("four-bar linkage")}.items():
        model = pb.load(xml)
        system = pb.Articulated(model)
        numbers = other_numbers(model, 1, 0.2)
        run = pb.rollout(system, system.state(model.q0), steps=steps, params=numbers)
        touching = np.mean([len(run.contacts(t)[0]) for t in range(0, steps, 10)]) if model.mujoco.ngeom else 0
        apart = np.abs(run.final.q[0] - moved_as_recompiled(xml, numbers, steps)).max()
        title = f"{name}: mass, inertia, com by params beside a file with them, {steps:,} steps"
        yield Result(title, apart, "m or rad", "<= 1e-8", MUJOCO, f"{touching:.1f} contacts on average")
        q_bar = np.random.default_rng(2).normal(size=(1, model.nq))
        bars = run.pullback(q_bar=q_bar).params
        for parameter in ("mass", "inertia", "com"):
            away = other_numbers(model, 5, 0.2)[parameter] - numbers[parameter]
            found = float(np.sum(bars[parameter] * away))
            slopes = []
            for h in WIDTHS:
                moved = (numbers | {parameter: numbers[parameter] + side * h * away} for side in (1, -1))
                ends = [moved_as_recompiled(xml, each, steps) for each in moved]
                slopes.append(float(q_bar[0] @ (ends[0] - ends[1])) / (2 * h))
            error = min(abs(found - slope) for slope in slopes) / max(abs(found), abs(slopes[1]))
            title = f"{name}: gradient of where it ends by {parameter}, after {steps:,} steps"
            yield Result(title, error, "", "<= 1e-5", f"{MUJOCO}, recompiled", f"slope {found:.3g}")


def speed(quick: bool):
    steps = 100 if quick else 500
    for name in TIMED:
        model = pb.load(mechanism(name))
        m, rng = model.mujoco, np.random.default_rng(0)
        low, high = np.where(m.actuator_ctrllimited[:, None], m.actuator_ctrlrange, (-1.0, 1.0)).T
        controls = np.repeat(rng.uniform(low, high, (steps // 10, m.nu)), 10, axis=0)
        system = pb.Articulated(model, threads=1)
        start, given, bar = system.state(model.q0), controls[:, None], np.ones((1, model.nv))
        run = pb.rollout(system, start, given)
        peer = mujoco_steps(m, model.q0, np.zeros(model.nv), controls, contacts=True)
        took = interleave(
            {
                "ours": lambda s=system, x=start, u=given: pb.rollout(s, x, u),
                "back": lambda r=run, bar=bar: r.pullback(v_bar=bar),
                "peer": peer.call,
            },
            repeats=3 if quick else 15,
        )
        each = {key: 1e6 * seconds / steps for key, seconds in took.items()}
        note = f"{each['ours']:.1f} and {each['back']:.1f} back, against {each['peer']:.1f} µs ({peer.how})"
        yield Result(f"{name}: rollout step / mj_step", took["ours"] / took["peer"], "ratio", "<= 1.3", MUJOCO, note)
        both = (took["ours"] + took["back"]) / took["peer"]
        yield Result(f"{name}: forward + backward / mj_step", both, "ratio", "<= 5", MUJOCO)


if __name__ == "__main__":
    questions = {"accelerations": accelerations, "gradients": gradients, "recompiled": parameters, "speed": speed}
    main(questions)
