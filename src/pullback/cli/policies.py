"""What commands do with the policy in a file: read it, find its environment, evaluate and draw it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pullback.cli import common
from pullback.cli.envs import read_env
from pullback.core.errors import PullbackError
from pullback.rollout import Run
from pullback.view import Drawing, draw_run

if TYPE_CHECKING:
    from pullback.envs import Environment
    from pullback.learn import Evaluation, Policy

POLICY = "policy.npz"
STARTS = 10_000  # seed of the starts that policies are evaluated on: training has others
FILM = 10.0  # what is drawn of an episode at most [s]


def is_policy(name: str) -> bool:
    """Whether this is a policy's file, or a folder with one."""
    path = Path(name)
    return path.name == POLICY or (path.is_dir() and (path / POLICY).is_file())


def add_env(parser) -> None:
    about = "the policy's environment, if it is one of your own: a Python file with a function env()"
    common.option(parser, "--env ENV", about, str)


def read_policy(name: str, env: str | None, device: str = "cpu") -> tuple[Policy, Environment]:
    """A policy from its file or folder, and its environment."""
    envs, learn = common.learning()
    path = Path(name) / POLICY if Path(name).is_dir() else Path(name)
    if path.name == POLICY and path.parent.is_dir() and not path.exists():
        raise PullbackError(f"the folder {str(path.parent)!r} holds no {POLICY}, as 'pullback train' writes it")
    policy = learn.Policy.load(path, device=device)
    if env is None and policy.env not in envs.ENVS:
        # A path is not kept with a policy: what is in a stranger's file must not decide which program is run.
        raise PullbackError(f"{policy.env!r} does not come with Pullback: name its file with --env FILE.py")
    found = read_env(env or policy.env, device)
    policy.check(found)
    return policy, found


def control_steps(env: Environment, seconds: float | None) -> int:
    """Of an episode of so many seconds, or of the environment's time limit."""
    return env.limit if seconds is None else min(env.limit, max(1, round(seconds / env.control_dt)))


def evaluate_in(
    plants: tuple[str, ...], policy: Policy, env: Environment, *, seed: int = 0, **options
) -> dict[str, Evaluation]:
    """Evaluations by plant, with a bar. Of several, MuJoCo is left out, with a note, for what it cannot simulate."""
    _, learn = common.learning()
    found = {}
    if len(plants) > 1 and (refusal := learn.evaluation.MuJoCo.refusal(env.system)) is not None:
        common.console().print(f"note: not evaluated in MuJoCo, which {refusal}", style="dim")
        plants = tuple(plant for plant in plants if plant != "mujoco")
    with common.progress("evaluating") as progress:
        bar = progress.add_task("", total=len(plants))
        for plant in plants:
            timestep = options.get("timestep") if plant == "mujoco" else None
            given = options | {"plant": plant, "timestep": timestep, "seed": STARTS + seed}
            found[plant] = learn.evaluate(policy, env, **given)
            progress.advance(bar)
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    """Summaries of evaluations, one column per plant."""
    titles = {"pullback": "Pullback", "mujoco": "MuJoCo"}
    names = list(dict.fromkeys(name for summary in found.values() for name in summary))
    width = max(len(name) for name in names) + 2
    lines = [" " * width + "".join(f"{titles[plant]:>12}" for plant in found)]
    for name in names:
        form = "{:>11.1f}%" if name == "survived" else "{:>12.4g}"
        scale = 100 if name == "survived" else 1
        lines.append(f"{name:<{width}}" + "".join(form.format(scale * summary[name]) for summary in found.values()))
    return "\n".join(lines)


def film(policy: Policy, env: Environment) -> tuple[Run, Drawing] | None:
    """An episode of a policy, as numbers and as a drawing; None if its System has no looks."""
    if env.system.drawing is None:
        return None
    _, learn = common.learning()
    run = learn.record(policy, env, seed=STARTS, steps=control_steps(env, FILM))
    return run, draw_run(run, title=env.name)
