"""``pullback bench``: how fast is this robot, on this machine?"""

from __future__ import annotations

import copy
import gc
import math
import statistics
import time
from collections.abc import Callable

import mujoco
import mujoco.rollout
import numpy as np

from pullback.cli import common
from pullback.core.arrays import from_device, to_device
from pullback.core.errors import PullbackError
from pullback.core.launch import cores_to_use
from pullback.model import Keyframe, Model
from pullback.rollout import rollout

PUSH = 0.2  # standard deviation of what is added to each velocity, so that worlds differ [m/s or rad/s]
REPEATS = 5  # of each timing, in turn, so that what else the machine does hits all alike
LEAST = 0.02  # that one repeat lasts, far above the timer's resolution [s]
WORLDS = {"cpu": 64, "cuda": 8192}  # of the batch, by default
WORK = ("forward", "gradient", "with parameters")
BLOWN_UP = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC")  # after these mj_step starts again from home

ABOUT = """\
Measures the speed of a robot's simulation on this machine: the forward pass, the gradient with respect to the initial
state and the controls (forward and backward), and the gradient with respect to all parameters too; for one world and
for many, in both precisions. MuJoCo's mj_step makes the same motion in the same process. Both use one thread for one
world and all cores for many. Results are medians of interleaved repeats.

The motion starts at a keyframe with a small random push, under the keyframe's control. MuJoCo simulates the file
unchanged: with the file's own solver, and with elements that --ignore drops in Pullback. --contact none also disables
MuJoCo's constraints.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("bench", help="compare a robot's speed with MuJoCo's mj_step", description=ABOUT)
    common.add_robot(parser, nargs="?", default="quadruped")
    common.add_common(parser, out="also write the results as DIR/bench.json")
    common.add_length(parser, "the motion", steps=200)
    most = f"worlds of the batch (default {WORLDS['cpu']}, or {WORLDS['cuda']} on CUDA)"
    common.option(parser, "--worlds N", most, common.whole(2))
    parser.set_defaults(run=run)


def run(args) -> int:
    model = common.read_robot(args)
    folder = common.out_folder(args)
    keyframe = common.read_keyframe(model, args)
    dtypes = ("float64", "float32") if args.dtype is None else (args.dtype,)
    many = args.worlds or WORLDS["cpu" if args.device == "cpu" else "cuda"]
    args.steps = common.read_length(model.timestep, model.nq + model.nv + model.nu, args, many)
    functions = {}
    for worlds in (1, many):
        functions["mj_step", "float64", worlds, "forward"] = mujoco_motion(model, keyframe, args, worlds)
        for args.dtype in dtypes:
            for work, function in pullback_motions(model, keyframe, args, worlds).items():
                functions["pullback", args.dtype, worlds, work] = function
    seconds = interleaved(functions)
    speed = {key: args.steps * key[2] / taken for key, taken in seconds.items()}  # world-steps per second
    rows = [
        {
            **dict(zip(("engine", "dtype", "worlds", "work"), key, strict=True)),
            "steps_per_second": value,
            "against_mj_step": value / speed["mj_step", "float64", key[2], "forward"],
        }
        for key, value in speed.items()
    ]
    result = {
        "robot": args.robot,
        "contact": args.contact,
        "device": args.device,
        "cores": cores_to_use(None),
        "steps": args.steps,
        "timestep": model.timestep,
        "mujoco": mujoco.__version__,
        "rows": rows,
    }
    common.report(args, result, _text(result), folder and folder / "bench.json")
    return 0


# --- what is timed ----------------------------------------------------------------------------------------------------


def start_of(model: Model, keyframe: Keyframe, args, worlds: int) -> tuple[np.ndarray, np.ndarray]:
    """q (worlds, nq) and v (worlds, nv) of the pushed keyframe, the same for every engine and precision."""
    push = PUSH * np.random.default_rng(args.seed).standard_normal((worlds, model.nv))
    return np.tile(keyframe.q, (worlds, 1)), keyframe.v + push


def pullback_motions(model: Model, keyframe: Keyframe, args, worlds: int) -> dict[str, Callable]:
    system = common.make_system(model, args, worlds=worlds)
    start = system.state(*start_of(model, keyframe, args, worlds), **({"act": keyframe.act} if model.na else {}))
    # on the device beforehand, as states are: copies are not what is timed
    controls, v_bar = (
        from_device(to_device(array.astype(system.dtype), system.dtype, system.device))
        for array in (np.broadcast_to(keyframe.control, (args.steps, worlds, model.nu)), np.ones((worlds, model.nv)))
    )
    rollout(system, start, controls[:1]).pullback(v_bar=v_bar)  # compiles: that is not what is timed

    def forward():
        return rollout(system, start, controls)

    def gradient():
        return forward().pullback(v_bar=v_bar, wants_params=False)

    def with_parameters():
        return forward().pullback(v_bar=v_bar)

    return dict(zip(WORK, (forward, gradient, with_parameters), strict=True))


def mujoco_motion(model: Model, keyframe: Keyframe, args, worlds: int) -> Callable:
    """The same by mj_step: one world on this thread, many by MuJoCo's own pool of threads."""
    compiled = copy.copy(model.mujoco)
    if args.contact == "none":
        flags = mujoco.mjtDisableBit
        compiled.opt.disableflags |= flags.mjDSBL_CONSTRAINT | flags.mjDSBL_CONTACT
    q, v = start_of(model, keyframe, args, worlds)
    data = mujoco.MjData(compiled)

    def one():
        mujoco.mj_resetData(compiled, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = q[0], v[0], keyframe.control
        data.act[: model.na] = keyframe.act
        mujoco.mj_step(compiled, data, nstep=args.steps)
        return data

    mujoco.set_mju_user_warning(lambda message: None)  # read from the data; else MuJoCo writes a file of its own
    warnings = one().warning
    bad = [name for name in BLOWN_UP if warnings[getattr(mujoco.mjtWarning, name)].number]
    if bad:
        raise PullbackError(f"the motion blows up in MuJoCo ({bad[0]}): try fewer --steps or another --keyframe")
    if worlds == 1:
        return one
    mujoco.mj_resetData(compiled, data)
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS
    starts = np.zeros((worlds, mujoco.mj_stateSize(compiled, full)))
    for world in range(worlds):
        data.qpos[:], data.qvel[:] = q[world], v[world]
        data.act[: model.na] = keyframe.act
        mujoco.mj_getState(compiled, data, starts[world], full)
    controls = np.broadcast_to(keyframe.control, (worlds, args.steps, model.nu)).copy()
    threads = cores_to_use(None)
    pool, places = mujoco.rollout.Rollout(nthread=threads), [mujoco.MjData(compiled) for _ in range(threads)]
    return lambda: pool.rollout(compiled, places, starts, controls)


# --- timing -----------------------------------------------------------------------------------------------------------


def timed(function: Callable, calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - began


def calls_a_repeat(function: Callable) -> int:
    """How many calls make a repeat long enough; the first one, which fills caches, does not count."""
    function()
    return math.ceil(LEAST / max(timed(function, 1), 1e-9))


def interleaved(functions: dict) -> dict:
    """Seconds a call of each, the median of repeats in turn. The garbage collector is off meanwhile."""
    calls = {key: calls_a_repeat(function) for key, function in functions.items()}
    taken = {key: [] for key in functions}
    gc.collect()
    gc.disable()
    try:
        with common.progress("timing") as progress:
            for _ in progress.track(range(REPEATS)):
                for key, function in functions.items():
                    taken[key].append(timed(function, calls[key]) / calls[key])
    finally:
        gc.enable()
    return {key: statistics.median(values) for key, values in taken.items()}


def _text(s: dict) -> str:
    lines = [
        f"{s['robot']}: {s['steps']} steps of {1e3 * s['timestep']:g} ms, contact: {s['contact']}, {s['device']}, "
        f"{s['cores']} cores. World-steps per second, and as a multiple of mj_step's:\n",
        f"{'':<18}{'worlds':>8}" + "".join(f"{work:>22}" for work in WORK),
    ]
    by_engine: dict[tuple, list] = {}
    for row in s["rows"]:
        cell = f"{row['steps_per_second']:>14,.0f}{row['against_mj_step']:>7.2f}×"
        by_engine.setdefault((row["engine"], row["dtype"], row["worlds"]), []).append(cell)
    for (engine, dtype, worlds), cells in by_engine.items():
        lines.append(f"{engine:<9}{dtype:<9}{worlds:>8}" + "".join(cells))
    return "\n".join(lines)
