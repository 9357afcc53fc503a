"""The command line: ``pullback COMMAND robot.xml``. One file per command; what they share is in ``common``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pullback.cli import (
    bench,
    check,
    compile,
    completion,
    envs,
    evaluate,
    optimize,
    simulate,
    sweep,
    tasks,
    train,
    view,
)
from pullback.cli.common import Parser, one_line
from pullback.core.errors import PullbackError
from pullback.version import __version__

COMMANDS = (tasks, optimize, envs, train, evaluate, sweep, simulate, view, check, bench, compile)

__all__ = ["main"]


def make_parser() -> Parser:
    parser = Parser(
        prog="pullback",
        description="Differentiable simulation for robotics.",
        epilog="'pullback COMMAND --help' describes a command and its options.",
    )
    parser.add_argument("--version", action="version", version=f"pullback {__version__}")
    parser.add_argument(
        "--completion",
        action=Completion,
        choices=completion.SHELLS,
        metavar="SHELL",
        help=f"print a script with which SHELL completes commands: {', '.join(completion.SHELLS)}",
    )
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    for command in COMMANDS:
        command.add(commands)
    parser.commands = commands.choices
    return parser


class Completion(argparse.Action):
    """Prints the script and ends, as --help does, whether there is a command or not."""

    def __call__(self, parser, namespace, values, option_string=None):
        print(completion.script(parser, values))
        parser.exit()


def run(argv: Sequence[str] | None) -> int:
    parser = make_parser()
    args, left_over = parser.parse_known_args(argv)
    if args.command is None:
        parser.error(f"give a command: {', '.join(parser.commands)}")
    if left_over:
        parser.commands[args.command].refuse(left_over)
    done = args.run(args)
    sys.stdout.flush()  # what cannot be written is found out here, and not when Python ends
    return done


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns 0, 1 where a check found something wrong, or 2 after bad input, with one line why."""
    try:
        return run(argv)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (Python flushes it at exit)
        return 0
    except (PullbackError, OSError, OverflowError, MemoryError) as error:
        memory = "not enough memory: " if isinstance(error, MemoryError) else ""
        print(f"pullback: {memory}{one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pullback: stopped", file=sys.stderr)
        return 130
