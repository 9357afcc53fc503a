"""``pullback optimize`` of a task for a hand whose policy proposes its contacts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.progress import MofNCompleteColumn, TextColumn

from pullback.cli import common
from pullback.cli.view import show
from pullback.core.errors import PullbackError
from pullback.dexterous import (
    MODES,
    Chosen,
    Manipulation,
    Quality,
    draw_proposals,
    draw_trial,
    judge,
    train_and_choose,
    try_policy,
)
from pullback.view import export, plot_curve, save_motion

STATE = "state.npz"


def run(task: Manipulation, args) -> int:
    if args.method not in (None, "matrix-free"):
        raise PullbackError(f"{task.name} is trained by matrix-free Gauss-Newton: leave out --method")
    if args.device != "cpu":
        raise PullbackError(f"{task.name} is trained on the CPU: leave out --device")
    with common.result_folder(args, task.name) as folder:
        if args.fresh:
            for old in (folder / STATE, *folder.glob("state-*.npz")):
                old.unlink(missing_ok=True)
        if (folder / STATE).exists():
            common.console().print(f"resuming from {folder / STATE} (--fresh starts over)", style="dim")
        chosen = trained(task, args, folder / STATE)
        summary, drawing = write(task, chosen, folder)
    common.report(args, summary, _text(summary))
    if args.view:
        show(drawing, args)
    return 0 if summary["solved"] else 1


def trained(task: Manipulation, args, state: Path) -> Chosen:
    """Trains with a progress bar, which begins anew where the first weights do."""
    iterations = args.iterations or task.iterations
    with common.progress(task.name, MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.3g}")) as progress:
        bar = progress.add_task("", total=iterations, loss=float("nan"))
        watch = lambda found: progress.update(bar, completed=found.iterations, loss=found.losses[-1])  # noqa: E731
        return train_and_choose(task, seed=args.seed, iterations=iterations, checkpoint=state, watch=watch)


def write(task: Manipulation, chosen: Chosen, folder: Path):
    """Judges and tries the policy, writes all there is, and returns a summary and a drawing."""
    policy, found = chosen.policy, chosen.found
    quality = judge(task, policy)
    trials = {
        mode: {squeeze: try_policy(task, policy, mode=mode, squeeze=squeeze) for squeeze in (0.0, task.squeeze)}
        for mode in MODES
    }
    trial = trials[task.mode][task.squeeze]
    batch = task.batch(np.random.default_rng(0), 1, noisy=False)
    x, u, _ = task.rollout(policy, batch)
    camera = None if task.camera is None else (task.camera.eye, task.camera.target)
    proposals = draw_proposals(task, x, u, things=batch.things).labelled(camera=camera)
    shown = int(np.argmax(trial.held))
    drawing = draw_trial(task, trial, start=shown).labelled(camera=camera)
    save_motion(folder / "proposals.npz", proposals, q=x.q[:, 0], u=u[:, 0], dt=np.array(task.scene.dt))
    save_motion(folder / "result.npz", drawing, q=trial.q[:, shown], u=trial.u[:, shown], dt=np.array(trial.dt))
    summary = {
        "task": task.name,
        "about": task.about,
        "seed": chosen.seed,
        "tried": {str(seed): rate for seed, rate in chosen.rates.items()},
        "solved": bool(trial.rate >= task.target),
        "metric": trial.rate,
        "target": task.target,
        "unit": task.unit,
        "mode": task.mode,
        "squeeze": task.squeeze,
        "starts": len(trial.held),
        "iterations": found.iterations,
        "seconds": found.seconds,
        "loss": float(found.losses[-1]),
        "model": quality.summary(),
        "shares": quality.shares,
        "mujoco": {mode: {f"{1000 * s:g} mm": one.rate for s, one in rows.items()} for mode, rows in trials.items()},
        "policy": str(policy.save(folder / "policy.npz")),
        "result": str(folder / "result.npz"),
        "proposals": str(folder / "proposals.npz"),
        "curve": str(plot_curve(folder / "loss.png", found.losses, title=task.name, xlabel="iteration", ylabel="loss")),
        "replay": str(export(drawing, folder / "replay.html")),
    }
    common.write_json(folder / "result.json", summary)
    return summary, drawing


def _text(s: dict) -> str:
    q = Quality(**s["model"], shares=s["shares"])
    verdict = "solved" if s["solved"] else "not solved"
    lines = [
        f"{s['task']}: {s['about']}",
        f"{verdict}: held in {s['metric']:.0%} of {s['starts']} trials in MuJoCo ({s['mode']}, squeeze "
        f"{1000 * s['squeeze']:g} mm), target {s['target']:.0%}",
        *_choice(s),
        f"spent:  {s['iterations']} iterations, {s['seconds']:.2g} s",
        f"model:  goal reached in {q.reached:.0%} of the trials; contact points {1000 * q.gap:.2g} mm apart, "
        f"{100 * q.outside:.2g}% of the force outside the friction cone, penetration {1000 * q.penetration:.2g} mm",
        *(
            f"MuJoCo, {mode + ':':<10} " + ", ".join(f"{rate:.0%} with a squeeze of {by}" for by, rate in rows.items())
            for mode, rows in s["mujoco"].items()
        ),
        *(f"{name + ':':<11}{s[name]}" for name in ("policy", "result", "proposals", "curve", "replay")),
        f"look:      pullback view {s['result']}",
    ]
    return "\n".join(lines)


def _choice(s: dict) -> list[str]:
    if len(s["tried"]) == 1:
        return []
    rates = ", ".join(f"{rate:.0%} from seed {seed}" for seed, rate in s["tried"].items())
    return [f"chosen: seed {s['seed']}, on other starts: held in {rates}"]
