"""``pullback evaluate``: what is a policy worth, in Pullback and in MuJoCo?"""

from __future__ import annotations

from pullback.cli import common, policies
from pullback.core.errors import PullbackError

PLANTS = ("pullback", "mujoco")

ABOUT = """\
Runs the most likely actions of a policy, in Pullback and in MuJoCo itself, which then does all of the physics. The
initial states are random but always the same, and were used neither for training nor for selection. Prints means over
episodes of the return (the sum of rewards), of the share of episodes that did not terminate before their time limit,
of their length in control steps, and of the environment's own metrics; and the standard deviation of the returns.

POLICY is a folder that 'pullback train' wrote, or the policy.npz in it.
"""


def add(verbs) -> None:
    parser = verbs.add_parser("evaluate", help="evaluate a policy, in MuJoCo too", description=ABOUT)
    parser.add_argument("policy", metavar="POLICY", help="a folder that 'pullback train' wrote, or its policy.npz")
    common.add_common(parser, out="also write the result as DIR/evaluation.json")
    policies.add_env(parser)
    common.option(parser, "--plant", "the simulator (default both)", str, choices=PLANTS)
    common.option(parser, "--timestep S", "timestep of MuJoCo [s] (default: the environment's)", common.positive)
    common.option(parser, "--starts N", "number of episodes", common.whole(1), 256)
    common.option(parser, "--seconds S", "length of episodes in seconds (default: the time limit)", common.positive)
    parser.set_defaults(run=run)


def run(args) -> int:
    if args.timestep is not None and args.plant == "pullback":
        raise PullbackError("--timestep is for MuJoCo: leave it out, or --plant")
    folder = common.out_folder(args)
    policy, env = policies.read_policy(args.policy, args.env, args.device)
    plants = PLANTS if args.plant is None else (args.plant,)
    steps = policies.control_steps(env, args.seconds)
    options = {"starts": args.starts, "steps": steps, "timestep": args.timestep, "seed": args.seed}
    found = {plant: x.summary() for plant, x in policies.evaluate_in(plants, policy, env, **options).items()}
    result = {"policy": args.policy, "env": env.name, "starts": args.starts, "steps": steps}
    result |= {"seconds": steps * env.control_dt, "timestep": args.timestep, **found}
    text = f"{env.name}: {args.starts} episodes of {result['seconds']:g} s, means\n\n{policies.table(found)}"
    common.report(args, result, text, folder and folder / "evaluation.json")
    return 0
