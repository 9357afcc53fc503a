"""The command line: ``pullback VERB robot.xml``. One file a verb; what they share is in ``common``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from pullback.cli import check, optimize, simulate, tasks, view
from pullback.cli.common import Parser, one_line
from pullback.core.errors import PullbackError
from pullback.version import __version__

VERBS = (tasks, optimize, simulate, view, check)

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns 0, 1 where a check found something wrong, or 2 after bad input, with one line why."""
    parser = Parser(
        prog="pullback",
        description="Differentiable robot simulation: systems that step, and step back.",
        epilog="'pullback VERB --help' says more about each.",
    )
    parser.add_argument("--version", action="version", version=f"pullback {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb in VERBS:
        verb.add(verbs)
    try:
        args = parser.parse_args(argv)
        return args.run(args)
    except PullbackError as error:
        print(f"pullback: {one_line(error)}", file=sys.stderr)
        return 2
    except (OSError, OverflowError) as error:
        if isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (Python flushes it at exit)
            return 0
        print(f"pullback: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pullback: stopped", file=sys.stderr)
        return 130
