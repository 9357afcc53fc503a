"""``pullback simulate``: move a robot, or a System of one's own, and look at it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.progress import Progress, TimeRemainingColumn

from pullback.cli import common
from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError, SimulationError
from pullback.core.system import System
from pullback.core.trees import leaf_names, leaves, numbers, row, tree_map
from pullback.dynamics import energy
from pullback.rollout import Run, rollout
from pullback.view import Drawing, draw_run, export, save_motion

# A random control is held this long: white noise averages out before a robot moves. [s]
RANDOM_FOR = 0.1
# Steps between two looks at the clock take about this long. [s]
CHUNK_SECONDS = 0.25
FIRST_CHUNK = 20  # steps
# A motion that blew up is drawn until something moves as fast as no robot does: the rest is out of every picture.
WILD = 1e3  # [m/s or rad/s]

ABOUT = """\
Simulates a robot and writes DIR/motion.npz (q, v, controls, dt, and data for 'pullback view') and DIR/motion.html, a
replay for any browser.

ROBOT may also be a Python file with a function system() that returns a pullback.System. It needs a method state() for
the initial state and an attribute dt, its timestep in seconds; a method drawing(run) makes it visible.
"""


class Setup(NamedTuple):
    """What is simulated."""

    system: System
    start: Any
    control: np.ndarray | None  # (nu,) that of --control hold
    limits: np.ndarray  # (nu, 2) between which random controls lie
    energy: Callable[[Any], float] | None = None  # potential and kinetic, of the first world of a state [J]


def add(verbs) -> None:
    parser = verbs.add_parser("simulate", help="simulate a robot and write a replay", description=ABOUT)
    common.add_robot(parser, dtype="float64")
    common.add_common(parser, out="where to write (default out/ROBOT)")
    common.add_length(parser, "the motion", seconds=2.0)
    about = "zero (or the System's default), random within the control ranges, or hold: the keyframe's control"
    common.option(parser, "--control", about, str, "zero", choices=("zero", "random", "hold"))
    common.option(parser, "--worlds N", "number of copies of the robot", common.whole(1), 1)
    parser.set_defaults(run=run)


def run(args) -> int:
    setup = own_system(args) if args.robot.endswith(".py") else robot(args)
    controls = make_controls(setup, args, common.read_length(setup.system.dt, _numbers(setup), args, args.worlds))
    with common.held_folder(args.out or Path("out") / Path(args.robot).stem) as folder:
        summary = simulate_and_write(setup, controls, args, folder)
    common.report(args, summary, _text(summary))
    return 0


def robot(args) -> Setup:
    model = common.read_robot(args)
    keyframe = common.read_keyframe(model, args)
    common.read_length(model.timestep, model.nq + model.nv + model.nu, args, args.worlds)  # before all is allocated
    system = common.make_system(model, args, worlds=args.worlds)
    total = lambda state: float(np.sum(to_numpy(energy(system, state.q, state.v).value)[0]))  # noqa: E731
    return Setup(system, common.start_at(system, keyframe), keyframe.control, common.control_limits(model), total)


def own_system(args) -> Setup:
    for name in ("keyframe", "ignore", "anywhere"):
        if getattr(args, name):
            raise PullbackError(f"--{name} is for robots, and {args.robot} is a Python file: leave it out")
    if args.control == "hold":
        raise PullbackError(f"--control hold is for robots with a keyframe, and {args.robot} is a Python file")
    options = {"worlds": args.worlds, "dtype": args.dtype, "device": args.device, "seed": args.seed}
    system = common.from_file(args.robot, "system", options, (System,), "a pullback.System")
    for name in ("state", "dt"):
        if not hasattr(system, name):
            raise PullbackError(f"{type(system).__name__} of {args.robot} has no {name}, which simulate needs")
    system = system if system.worlds == args.worlds else system.in_worlds(args.worlds)
    return Setup(system, system.state(), None, np.tile([-1.0, 1.0], (system.nu, 1)))


def _numbers(setup: Setup) -> int:
    """Of a state and a control in one world."""
    return numbers(setup.start).shape[-1] + setup.system.nu


def simulate_and_write(setup: Setup, controls: np.ndarray, args, folder: Path) -> dict:
    """Simulates, writes the motion and its replay, and returns a summary."""
    system, title = setup.system, Path(args.robot).stem
    system.step(setup.start, controls[0])  # compiles: that is not what is timed
    states, seconds, problem = simulate(system, setup.start, controls)
    arrays = dict(zip(leaf_names(states), leaves(states), strict=True))
    steps = len(leaves(states)[0]) - 1
    summary = {
        "robot": args.robot,
        "steps": steps,
        "timestep": system.dt,
        "worlds": args.worlds,
        "dtype": system.dtype,
        "device": system.device,
        "final_time": steps * system.dt,
        "wall_seconds": seconds,
        "steps_per_second": steps * args.worlds / seconds,
        "motion": str(folder / "motion.npz"),
    }
    if setup.energy is not None:
        summary |= {f"energy_{name}": setup.energy(row(states, t)) for name, t in {"start": 0, "end": -1}.items()}
    drawing = drawn(system, states, controls, title, problem)
    save_motion(folder / "motion.npz", drawing, **arrays, controls=controls[:steps], dt=system.dt)
    if drawing is not None:
        summary["replay"] = str(export(drawing, folder / "motion.html"))
    if problem is not None:
        raise PullbackError(f"{problem}; the {steps} steps before are in {summary['motion']}")
    return summary


def make_controls(setup: Setup, args, steps: int) -> np.ndarray:
    """(steps, worlds, nu)"""
    shape = (steps, args.worlds, setup.system.nu)
    if args.control == "zero":
        return to_numpy(setup.system.default_controls(steps))
    if args.control == "hold":
        return np.broadcast_to(setup.control, shape).astype(setup.system.dtype)
    hold = max(1, round(RANDOM_FOR / setup.system.dt))
    draws = np.random.default_rng(args.seed).uniform(*setup.limits.T, (-(-steps // hold), *shape[1:]))
    return np.repeat(draws, hold, axis=0)[:steps].astype(setup.system.dtype)


def simulate(system: System, start, controls: np.ndarray) -> tuple[Any, float, SimulationError | None]:
    """All states (steps + 1, worlds, ...) and the seconds it took, with a progress bar where that is long.

    Where a step cannot be done, those before it, and why.
    """
    steps, done, chunk, seconds = len(controls), 0, FIRST_CHUNK, 0.0
    pieces, progress = [tree_map(lambda x: to_numpy(x)[None], start)], None
    try:
        while done < steps:
            began = time.perf_counter()
            piece = rollout(system, row(pieces[-1], -1), controls[done : done + chunk])
            took = time.perf_counter() - began
            pieces.append(tree_map(lambda x: to_numpy(x)[1:], piece.states))
            done, seconds = done + piece.steps, seconds + took
            chunk = max(1, min(4 * chunk, int(CHUNK_SECONDS * piece.steps / max(took, 1e-9))))
            if progress is None and seconds * (steps - done) / done > common.PROGRESS_AFTER:
                progress = _progress(steps)
            if progress is not None:
                progress.update(progress.task_ids[0], completed=done)
    except SimulationError as error:  # of a piece: that of the whole motion has all states, and speaks of the start
        problem = _whole(system, start, controls[: done + error.step + 1])
        return tree_map(to_numpy, problem.states), max(seconds, 1e-9), problem
    finally:
        if progress is not None:
            progress.stop()
    return tree_map(lambda *parts: np.concatenate(parts), *pieces), seconds, None


def _whole(system: System, start, controls: np.ndarray) -> SimulationError:
    """What ends a motion whose last step cannot be done."""
    try:
        rollout(system, start, controls)
    except SimulationError as error:
        return error
    raise PullbackError("the motion ended, and did not when it was simulated again: report this, with the robot's file")


def drawn(system: System, states, controls: np.ndarray, title: str, problem: SimulationError | None) -> Drawing | None:
    """What a motion looks like, of one that blew up as far as it can be shown; None if it has no looks."""
    if system.drawing is None:
        return None
    shown = states if problem is None else until_wild(states)
    run = Run(system, shown, controls[: len(leaves(shown)[0]) - 1], 1, system.hold_params())
    try:
        return draw_run(run, title=title)
    except PullbackError:
        if problem is None:
            raise
        return None


def until_wild(states):
    """The states before one whose velocities ``v`` are wild, but at least the first; all if there are no such."""
    v = getattr(states, "v", None)
    if not isinstance(v, np.ndarray):
        return states
    fastest = np.abs(v).max(axis=tuple(range(1, v.ndim)), initial=0.0)
    return row(states, slice(max(1, int(np.argmax(np.append(fastest, np.inf) > WILD)))))


def _progress(steps: int) -> Progress:
    progress = common.progress("simulating", TimeRemainingColumn())
    progress.add_task("", total=steps)
    progress.start()
    return progress


def _text(s: dict) -> str:
    worlds = "1 world" if s["worlds"] == 1 else f"{s['worlds']} worlds"
    of = "" if s["worlds"] == 1 else " (first world)"
    steps = f"{s['steps']} steps of {1e3 * s['timestep']:g} ms"
    lines = [
        f"{s['robot']}: {s['final_time']:g} s in {steps}, {worlds}, {s['dtype']}",
        f"speed:  {s['steps_per_second']:,.0f} steps/s on {s['device']} ({s['wall_seconds']:.2g} s)",
    ]
    if "energy_start" in s:
        lines.append(f"energy: {s['energy_start']:.6g} J at the start, {s['energy_end']:.6g} J at the end{of}")
    lines.append(f"motion: {s['motion']}")
    if "replay" in s:
        lines += [f"replay: {s['replay']}", f"look:   pullback view {s['motion']}"]
    return "\n".join(lines)
