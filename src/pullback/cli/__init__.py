"""The command line: ``pullback VERB robot.xml``. One file a verb; what they share is in ``common``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pullback.cli import bench, check, completion, optimize, simulate, tasks, view
from pullback.cli.common import Parser, one_line
from pullback.core.errors import PullbackError
from pullback.version import __version__

VERBS = (tasks, optimize, simulate, view, check, bench)

__all__ = ["main"]


def make_parser() -> Parser:
    parser = Parser(
        prog="pullback",
        description="Differentiable robot simulation: systems that step, and step back.",
        epilog="'pullback VERB --help' says more about each.",
    )
    parser.add_argument("--version", action="version", version=f"pullback {__version__}")
    parser.add_argument(
        "--completion",
        action=Completion,
        choices=completion.SHELLS,
        metavar="SHELL",
        help=f"print a script with which SHELL completes commands: {', '.join(completion.SHELLS)}",
    )
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    for verb in VERBS:
        verb.add(verbs)
    return parser


class Completion(argparse.Action):
    """Prints the script and ends, as --help does, whether there is a verb or not."""

    def __call__(self, parser, namespace, values, option_string=None):
        print(completion.script(parser, values))
        parser.exit()


def run(argv: Sequence[str] | None) -> int:
    args, unknown = make_parser().parse_known_args(argv)
    if unknown:  # argparse would point to the help of all verbs
        raise PullbackError(f"unrecognized arguments: {' '.join(unknown)} (see 'pullback {args.verb} --help')")
    return args.run(args)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns 0, 1 where a check found something wrong, or 2 after bad input, with one line why."""
    try:
        return run(argv)
    except PullbackError as error:
        print(f"pullback: {one_line(error)}", file=sys.stderr)
        return 2
    except (OSError, OverflowError) as error:
        if isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (Python flushes it at exit)
            return 0
        print(f"pullback: {one_line(error)}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"pullback: not enough memory: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pullback: stopped", file=sys.stderr)
        return 130
