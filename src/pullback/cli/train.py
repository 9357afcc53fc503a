"""``pullback train``: train a policy, evaluate it in MuJoCo, and look at it."""

from __future__ import annotations

import argparse
import ast
import functools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.progress import TextColumn

from pullback import scale
from pullback.cli import common, policies
from pullback.cli.envs import read_env
from pullback.cli.evaluate import PLANTS
from pullback.core.errors import PullbackError
from pullback.core.trees import leaf_names, leaves
from pullback.view import export, plot_lines, save_motion

if TYPE_CHECKING:
    from pullback.envs import Environment
    from pullback.learn import Training

MINUTES = 2.0  # of training by default
HELD = ("checkpoint.npz", "policy.npz", "settings.json", "log.csv", "result.json")  # that --fresh deletes

ABOUT = """\
Trains a policy with gradients through the simulator, and writes to DIR: policy.npz (the best policy so far), log.csv,
settings.json, and checkpoint.npz, from which the same command resumes an interrupted training; at the end also
result.json, curve.png (the return over time), motion.npz and replay.html (an episode, for any browser). The policy is
evaluated in Pullback and in MuJoCo, from 256 initial states that were used neither for training nor for selection.

ENV is a name from 'pullback envs', or a Python file with a function env() that returns a pullback.envs.Environment.
With --updates instead of --minutes, the same seed gives the same result to the last bit, on a CPU. Only one command at
a time can write to DIR.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("train", help="train a policy through the simulator", description=ABOUT)
    parser.add_argument("env", metavar="ENV", help="a name from 'pullback envs', or a Python file")
    common.add_common(parser, out="where to write (default out/ENV, or out/ENV-METHOD-SEED)")
    common.option(parser, "--method NAME", "sapo, shac, bptt, ppo, sac or mbpo (default sapo)", str)
    length = parser.add_mutually_exclusive_group()
    common.option(length, "--minutes M", f"length of the training in minutes (default {MINUTES:g})", common.positive)
    common.option(length, "--updates N", "length of the training in updates of the policy", common.whole(1))
    common.option(parser, "--worlds N", "worlds simulated in parallel (default: the method's)", common.whole(1))
    about = "an option of the method, such as window=16; may be repeated"
    common.option(parser, "--set NAME=VALUE", about, setting, [], action="append")
    common.add_workers(parser, default="none: use this process only")
    about = "number of parts into which worlds are divided for workers; affects the result (default 4)"
    common.option(parser, "--shards N", about, common.whole(1))
    common.option(parser, "--fresh", "start over, and ignore earlier progress in DIR")
    parser.set_defaults(run=run)


def setting(text: str) -> tuple[str, Any]:
    """An argument such as window=16 or hidden=(64,64)."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word: the method says whether it has such


def run(args) -> int:
    _, learn = common.learning()
    env = read_env(args.env, args.device)
    method = args.method or "sapo"
    options = dict(args.set) | ({} if args.worlds is None else {"worlds": args.worlds})
    length = {"updates": args.updates} if args.updates else {"minutes": args.minutes or MINUTES}
    train = learn.train
    if args.workers or args.address:
        make = functools.partial(read_env, args.env, args.device)
        given = common.workers_of(args) | ({} if args.shards is None else {"shards": args.shards})
        train = functools.partial(scale.train, make=make, **given)
    elif args.shards:
        raise PullbackError("--shards is of a training on workers: give --workers too")
    learn.training.make_method(method, env, options)  # says what is wrong with the options before a folder is made
    with common.result_folder(args, env.name, args.method) as folder:
        if args.fresh:
            start_over(folder)
        if (folder / "checkpoint.npz").exists():
            common.console().print(f"resuming from {folder / 'checkpoint.npz'} (--fresh starts over)", style="dim")
        with common.progress(env.name, TextColumn("{task.fields[about]}")) as progress:
            bar = progress.add_task("", total=1.0, about="compiling")
            watch = lambda training, share: progress.update(bar, completed=share, about=_about(training))  # noqa: E731
            training = train(env, method, seed=args.seed, out=folder, watch=watch, **length, **options)
        summary = write_result(folder, env, method, args.seed, training)
    common.report(args, summary, _text(summary, own=f" --env {args.env}" if args.env.endswith(".py") else ""))
    return 0


def start_over(folder: Path) -> None:
    for name in HELD:
        (folder / name).unlink(missing_ok=True)
    if (folder / "tensorboard").is_dir():
        shutil.rmtree(folder / "tensorboard")


def write_result(folder: Path, env: Environment, method: str, seed: int, training: Training) -> dict:
    """Evaluates the best policy, writes what there is to look at, and returns a summary."""
    found = policies.evaluate_in(PLANTS, training.policy, env)
    summary = {
        "env": env.name,
        "about": env.about,
        "method": method,
        "seed": seed,
        "updates": len(training.log),
        "steps": training.steps,
        "seconds": training.seconds,
        **{plant: evaluation.summary() for plant, evaluation in found.items()},
        "policy": str(folder / policies.POLICY),
    }
    rows = [row for row in training.log if np.isfinite(row.get("eval return", np.nan))]
    if rows:
        curve = {"return": [row["eval return"] for row in rows]}
        labels = {"title": f"{env.name}: {method}", "xlabel": "time [s]", "ylabel": "return"}
        summary["curve"] = str(plot_lines(folder / "curve.png", [row["seconds"] for row in rows], curve, **labels))
    if (shown := policies.film(training.policy, env)) is not None:
        run, drawing = shown
        arrays = dict(zip(leaf_names(run.states), leaves(run.states), strict=True))
        save_motion(folder / "motion.npz", drawing, **arrays, controls=run.controls, dt=env.control_dt)
        summary["replay"] = str(export(drawing, folder / "replay.html"))
    common.write_json(folder / "result.json", summary)
    return summary


def _about(training: Training) -> str:
    """What a bar says of a training."""
    reward = training.log[-1].get("reward", np.nan)
    best = f", best return {training.best:.4g}" if np.isfinite(training.best) else ""
    return f"{training.steps / max(training.seconds, 1e-9):,.0f} steps/s, reward {reward:.3g}{best}"


def _text(s: dict, own: str) -> str:
    found = {plant: s[plant] for plant in PLANTS if plant in s}
    lines = [
        f"{s['env']}: {s['about']}" if s["about"] else s["env"],
        f"{s['method']}, seed {s['seed']}: {s['updates']} updates, {s['steps']:,} control steps, {s['seconds']:.3g} s",
        f"\n{policies.table(found)}\n",
        *(f"{name + ':':<8}{s[name]}" for name in ("policy", "curve", "replay") if name in s),
        f"look:   pullback view {Path(s['policy']).parent}",
        f"check:  pullback check {Path(s['policy']).parent}{own}",
    ]
    return "\n".join(lines)
