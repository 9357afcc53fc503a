"""``pullback envs``: what there is to train policies for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback.cli import common
from pullback.cli.common import ROBOT_FILES
from pullback.core.checks import counted
from pullback.core.errors import PullbackError
from pullback.model.robots import SAMPLES
from pullback.tasks import TASKS

if TYPE_CHECKING:
    from pullback.envs import Environment

ABOUT = "Lists the environments that 'pullback train' knows by name, one line each, with their names in Gymnasium."


def add(verbs) -> None:
    parser = verbs.add_parser("envs", help="list the environments that come with Pullback", description=ABOUT)
    common.add_common(parser, out="also write the list as DIR/envs.json")
    parser.set_defaults(run=run)


def run(args) -> int:
    envs, _ = common.learning()
    folder = common.out_folder(args)
    listed = [_plain(name, envs.make(name, device=args.device)) for name in envs.ENVS]
    width = max(len(env["name"]) for env in listed)
    lines = [
        f"{e['name']:<{width}}  {e['about']} ({e['observations']} observations, {counted(e['actions'], 'action')}, "
        f"every {1e3 * e['control_step']:.3g} ms for {e['time_limit']:.3g} s; in Gymnasium: {e['gymnasium']})"
        for e in listed
    ]
    common.report(args, listed, "\n".join(lines), folder and folder / "envs.json")
    return 0


def _plain(name: str, env: Environment) -> dict:
    from pullback.envs.registry import identifier  # needs PyTorch, which other commands do without

    sizes = {"observations": env.observation_size, "actions": env.action_size}
    times = {"control_step": env.control_dt, "time_limit": env.limit * env.control_dt}
    return {"name": name, "gymnasium": identifier(name), "about": env.about, **sizes, **times, "steps": env.limit}


def read_env(name: str, device: str = "cpu") -> Environment:
    """An environment by its name, or from a Python file of the user's."""
    envs, _ = common.learning()
    if name in envs.ENVS:
        return envs.make(name, device=device)
    if not name.endswith(".py"):
        if name in TASKS:
            raise PullbackError(f"{name!r} is no environment but a task: solve it with 'pullback optimize {name}'")
        if name in SAMPLES or name.endswith(ROBOT_FILES):
            raise PullbackError(f"{name!r} is no environment but a robot: write one around it, with a reward (ENV.py)")
        raise PullbackError(f"{common.unknown('environment', name, envs.ENVS)} (or give a Python file)")
    env = common.from_file(name, "env", {"device": device}, (envs.Environment,), "a pullback.envs.Environment")
    if not env.name:
        raise PullbackError(f"the environment of {name} needs a name, which its policies then belong to")
    return env
