"""``pullback simulate``: move a robot and look at it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pullback.cli.common import (
    PROGRESS_AFTER,
    add_common,
    add_length,
    add_robot,
    held_folder,
    make_system,
    progress_options,
    read_keyframe,
    read_length,
    read_robot,
    whole,
)
from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError, SimulationError
from pullback.core.system import State
from pullback.dynamics import Articulated, energy
from pullback.model import Keyframe, Model
from pullback.rollout import Run, rollout
from pullback.view import draw_run, save_motion, write_page

# A random control is held this long: white noise averages out before a robot moves. [s]
RANDOM_FOR = 0.1
# Steps between two looks at the clock take about this long. [s]
CHUNK_SECONDS = 0.25
FIRST_CHUNK = 20  # steps
REPLAY_FPS = 60  # of the page: it interpolates [1/s]
# A motion that blew up is drawn until something moves as fast as no robot does: the rest is out of every picture.
WILD = 1e3  # [m/s or rad/s]

ABOUT = """\
Simulates a robot and writes DIR/motion.npz (q, v, controls, dt, and what 'pullback view' draws) and DIR/motion.html, a
replay for any browser.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("simulate", help="simulate a robot and write a replay", description=ABOUT)
    add_robot(parser)
    add_common(parser, out="where to write (default out/ROBOT)")
    add_length(parser, "the motion", seconds=2.0)
    parser.add_argument(
        "--control",
        choices=("zero", "random", "hold"),
        default="zero",
        help="zero (default); random inside the controls' ranges; hold: that of the keyframe",
    )
    parser.add_argument("--worlds", type=whole(1), default=1, metavar="N", help="copies of the robot (default 1)")
    parser.set_defaults(run=run)


def run(args) -> int:
    model = read_robot(args)
    keyframe = read_keyframe(model, args)
    steps = read_length(model, args, args.worlds)
    system = make_system(model, args, worlds=args.worlds)
    controls = make_controls(model, keyframe, args, steps)
    start = system.state(keyframe.q, keyframe.v)
    with held_folder(args.out or Path("out") / Path(args.robot).stem) as folder:
        summary = simulated(system, start, controls, args, folder)
    if args.json:
        print(json.dumps(summary, indent=1))
    else:
        _show(summary)
    return 0


def simulated(system: Articulated, start: State, controls: np.ndarray, args, folder: Path) -> dict:
    """Simulates, writes what came of it, and sums it up."""
    model = system.model
    system.step(start, controls[0])  # compiles: that is not what is timed
    before = _energy(system, start)
    motion, seconds, problem = simulate(system, start, controls)
    steps, controls = len(motion.q) - 1, controls[: len(motion.q) - 1]
    after = _energy(system, State(motion.q[-1], motion.v[-1]))

    summary = {
        "robot": args.robot,
        "steps": steps,
        "timestep": model.timestep,
        "worlds": args.worlds,
        "dtype": system.dtype,
        "device": system.device,
        "final_time": steps * model.timestep,
        "wall_seconds": seconds,
        "steps_per_second": steps * args.worlds / seconds,
        "energy_start": before,
        "energy_end": after,
        "motion": str(folder / "motion.npz"),
        "replay": str(folder / "motion.html"),
    }
    tame = motion if problem is None else until_wild(motion)
    shown = Run(system, tame, controls[: len(tame.q) - 1], 1, system.hold_params())
    drawing = draw_run(shown, title=Path(args.robot).stem)
    save_motion(folder / "motion.npz", drawing, q=motion.q, v=motion.v, controls=controls, dt=model.timestep)
    write_page(folder / "motion.html", drawing.thinned(REPLAY_FPS))
    if problem is not None:
        raise PullbackError(f"{problem}; the {steps} steps before are in {summary['motion']}")
    return summary


def make_controls(model: Model, keyframe: Keyframe, args, steps: int) -> np.ndarray:
    """(steps, worlds, nu)"""
    shape = (steps, args.worlds, model.nu)
    if args.control == "zero":
        return np.zeros(shape, dtype=args.dtype)
    if args.control == "hold":
        return np.broadcast_to(keyframe.control, shape).astype(args.dtype)
    hold = max(1, round(RANDOM_FOR / model.timestep))
    low, high = np.where(model.control_limited[:, None], model.control_range, (-1.0, 1.0)).T
    draws = np.random.default_rng(args.seed).uniform(low, high, (-(-steps // hold), *shape[1:]))
    return np.repeat(draws, hold, axis=0)[:steps].astype(args.dtype)


def simulate(system: Articulated, state: State, controls: np.ndarray) -> tuple[State, float, SimulationError | None]:
    """All states (steps + 1, worlds, ...) and the seconds it took, with a progress bar where that is long.

    Where a step cannot be done, those before it, and why.
    """
    steps, done, chunk, seconds = len(controls), 0, FIRST_CHUNK, 0.0
    now, pieces = state, [State(*(to_numpy(x)[None] for x in state))]
    progress = None
    try:
        while done < steps:
            began = time.perf_counter()
            piece = rollout(system, now, controls[done : done + chunk]).states
            took = time.perf_counter() - began
            pieces.append(State(*(to_numpy(field)[1:] for field in piece)))
            now = State(*(field[-1] for field in pieces[-1]))
            count, seconds = len(piece.q) - 1, seconds + took
            done += count
            chunk = max(1, min(4 * chunk, int(CHUNK_SECONDS * count / max(took, 1e-9))))
            if progress is None and seconds * (steps - done) / done > PROGRESS_AFTER:
                progress = _progress(steps)
            if progress is not None:
                progress.update(progress.task_ids[0], completed=done)
    except SimulationError as error:  # of a piece: that of the whole motion has all states, and speaks of the start
        problem = _whole(system, state, controls[: done + error.step + 1])
        return State(*(to_numpy(x) for x in problem.states)), max(seconds, 1e-9), problem
    finally:
        if progress is not None:
            progress.stop()
    return State(*(np.concatenate(field) for field in zip(*pieces, strict=True))), seconds, None


def _whole(system: Articulated, state: State, controls: np.ndarray) -> SimulationError:
    """What ends a motion whose last step cannot be done."""
    try:
        rollout(system, state, controls)
    except SimulationError as error:
        return error
    raise PullbackError("the motion ended, and did not when it was simulated again: report this, with the robot's file")


def until_wild(motion: State) -> State:
    """The states before one that is wild; at least the first."""
    fastest = np.abs(motion.v).max(axis=(1, 2), initial=0.0)
    rows = max(1, int(np.argmax(np.append(fastest, np.inf) > WILD)))
    return State(motion.q[:rows], motion.v[:rows])


def _progress(steps: int) -> Progress:
    columns = (TextColumn("simulating"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    progress = Progress(*columns, **progress_options())
    progress.add_task("", total=steps)
    progress.start()
    return progress


def _energy(system: Articulated, state: State) -> float:
    """Potential and kinetic energy of the first world [J]."""
    return float(np.sum(to_numpy(energy(system, state.q, state.v).value)[0]))


def _show(s: dict) -> None:
    worlds = "1 world" if s["worlds"] == 1 else f"{s['worlds']} worlds"
    of = "" if s["worlds"] == 1 else " (first world)"
    steps = f"{s['steps']} steps of {1e3 * s['timestep']:g} ms"
    print(f"{s['robot']}: {s['final_time']:g} s in {steps}, {worlds}, {s['dtype']}")
    print(f"speed:  {s['steps_per_second']:,.0f} steps/s on {s['device']} ({s['wall_seconds']:.2g} s)")
    print(f"energy: {s['energy_start']:.6g} J at the start, {s['energy_end']:.6g} J at the end{of}")
    print(f"motion: {s['motion']}")
    print(f"replay: {s['replay']}")
    print(f"look:   pullback view {s['motion']}")
