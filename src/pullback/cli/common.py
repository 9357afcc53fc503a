"""What the commands share: options, reading a robot, where results go, and when to say what."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import re
import runpy
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from pullback.contact import CONTACT_NAMES
from pullback.core.checks import unknown
from pullback.core.errors import PullbackError
from pullback.core.files import write_text
from pullback.core.folders import held_folder as held_folder
from pullback.core.folders import writable_folder as writable_folder
from pullback.dynamics import Articulated
from pullback.model import Keyframe, Model, load
from pullback.model.robots import SAMPLES
from pullback.model.unsupported import KINDS
from pullback.tasks import TASKS

# Work expected to take longer than this gets a progress bar. [s]
PROGRESS_AFTER = 2.0

ROBOT_FILES = (".xml", ".mjcf", ".urdf")

# Motions are kept in memory until they are written. [bytes]
LARGEST_MOTION = 4 * 2**30
LARGEST_SEED = 2**32 - 1  # that CMA-ES takes

# What --contact may be: the names that pullback.Articulated knows, and one for None.
CONTACTS = ("model", "none", *CONTACT_NAMES)

# How the library's hints are spelled here.
SPELLINGS = (
    (re.compile(r"pass contact=None"), "pass --contact none"),
    (re.compile(r"pass anywhere=True"), "pass --anywhere"),
    (re.compile(r"ignore=\(([^)]*)\)"), lambda found: _ignore_options(found[1])),
)


def _ignore_options(kinds: str) -> str:
    return " ".join(f"--ignore {kind}" for kind in re.findall(r"[\w-]+", kinds))


def one_line(error: Exception) -> str:
    """A message as one line, in the words of the command line."""
    text = " ".join(str(error).split())
    for pattern, spelling in SPELLINGS:
        text = pattern.sub(spelling, text)
    return text


class Paragraphs(argparse.HelpFormatter):
    """Fills each paragraph of a description to the terminal's width, where argparse makes one of all."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(fill(paragraph, width, indent) for paragraph in text.split("\n\n"))


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line and a PullbackError."""

    def __init__(self, **options):
        super().__init__(formatter_class=Paragraphs, **options)

    def error(self, message: str):
        raise PullbackError(f"{message} (see '{self.prog} --help')")

    def refuse(self, left_over: list[str]):
        """Says which arguments are not understood; of options, which one may have been meant."""
        option = next((word.partition("=")[0] for word in left_over if word.startswith("--")), None)
        known = [name for name in self._option_string_actions if name.startswith("--")]
        if option in known:
            self.error(f"{option} must stand after the command")
        self.error(unknown("option", option, known) if option else f"unrecognized arguments: {' '.join(left_over)}")

    def _check_value(self, action: argparse.Action, value) -> None:
        """That a value is one of the choices: argparse's own message lists all, however close one of them is."""
        if action.choices is not None and value not in action.choices:
            self.error(unknown((*action.option_strings, "command")[0], str(value), action.choices))


# --- options ----------------------------------------------------------------------------------------------------------


def number(kind: type, least: float, most: float = math.inf):
    """The type of an argument that is a finite number, float or int, of at least ``least`` and at most ``most``."""

    def parse(text: str):
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a {'whole ' * (kind is int)}number") from None
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"{text} is not finite")
        if not least <= value <= most:
            limit = f"less than {least}" if value < least else f"more than {most}"
            raise argparse.ArgumentTypeError(f"{text} is {limit}")
        return value

    return parse


def positive(text: str) -> float:
    """An argument that is a positive number."""
    value = number(float, -math.inf)(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def whole(least: int, most: float = math.inf):
    return number(int, least, most)


def option(parser, usage: str, about: str, kind=None, default=None, **more) -> None:
    """An option such as "--settle S", or a switch such as "--json"; the help says what it is by default."""
    name, *metavar = usage.split()
    if metavar:
        more["metavar"] = metavar[0]
    if metavar or "choices" in more:
        more |= {"type": kind, "default": default}
    else:
        more["action"] = "store_true"
    shown = f"{default:g}" if isinstance(default, float) else default
    parser.add_argument(name, help=about + (f" (default {shown})" if default else ""), **more)


def add_common(parser: argparse.ArgumentParser, *, out: str) -> None:
    """The options that nearly every command has."""
    option(parser, "--seed N", "seed of all random numbers (default 0)", whole(0, LARGEST_SEED), 0)
    add_device(parser)
    option(parser, "--out DIR", out, Path)
    option(parser, "--json", "print the result as JSON")


def add_device(parser: argparse.ArgumentParser) -> None:
    option(parser, "--device DEVICE", "cpu, cuda, cuda:1, ...", str, "cpu")


def add_workers(parser: argparse.ArgumentParser, *, default: str = "one per core") -> None:
    """Where work is done that is spread over processes."""
    option(parser, "--workers N", f"processes that share the work (default: {default})", whole(1))
    option(parser, "--cpus N", "threads of each worker ", whole(1), 1)
    option(parser, "--address A", "of a Ray cluster to use, such as auto or HEAD:6379 (default: this machine)", str)


def workers_of(args) -> dict:
    """The same as keywords."""
    return {"workers": args.workers, "cpus": args.cpus, "address": args.address}


def add_robot(parser: argparse.ArgumentParser, *, nargs: str | None = None, default=None, dtype=None) -> None:
    """A robot, as many of them as ``nargs`` says, and how they are read. ``dtype`` None stands for both."""
    parser.add_argument(
        "robots" if nargs == "*" else "robot",
        metavar="ROBOT",
        nargs=nargs,
        default=default,
        help=f"an MJCF or URDF file, or a sample robot: {', '.join(sorted(SAMPLES))}"
        + (f" (default {default})" if default else ""),
    )
    both = "" if dtype else " (default both)"
    option(parser, "--dtype", f"precision{both}", str, dtype, choices=("float64", "float32"))
    kinds = f"may be repeated. KIND is one of {', '.join(sorted(KINDS))}"
    dropped = f"drop elements that are not supported; {kinds}"
    option(parser, "--ignore KIND", dropped, str, [], action="append", choices=sorted(KINDS))
    what = "contacts, limits and friction loss as in the file (model), none at all, or by this contact model"
    option(parser, "--contact", what, str, "model", choices=CONTACTS)
    if nargs != "*":
        add_keyframe(parser)
    add_anywhere(parser)


def add_keyframe(parser: argparse.ArgumentParser) -> None:
    option(parser, "--keyframe NAME", "initial state (default: 'home' if there is one)")


def add_anywhere(parser: argparse.ArgumentParser) -> None:
    option(parser, "--anywhere", "let the file read from outside its own folder")


def add_length(parser: argparse.ArgumentParser, of: str, *, steps: int | None = None, seconds: float | None = None):
    """How long a motion is, in steps or in seconds; one of them has a default."""
    length = parser.add_mutually_exclusive_group()
    usual = f" (default {steps})" if steps else ""
    option(length, "--steps N", f"length of {of} in steps{usual}", whole(1))
    usual = f" (default {seconds:g})" if seconds else ""
    option(length, "--seconds S", f"length of {of} in seconds{usual}", positive)
    parser.set_defaults(usual_length=(steps, seconds))


def read_length(dt: float, numbers: int, args, worlds: int = 1) -> int:
    """The steps of a motion of so many worlds; an error if it does not fit into memory. numbers: of a row of a world"""
    steps, seconds = (args.steps, args.seconds) if args.steps or args.seconds else args.usual_length
    refuse_large(steps or seconds / dt, numbers, worlds)
    return steps or max(1, round(seconds / dt))


def read_robot(args) -> Model:
    """The robot an argument speaks of."""
    return load_robot(args.robot, ignore=args.ignore, anywhere=args.anywhere)


def load_robot(name: str, *, ignore: Collection[str], anywhere: bool) -> Model:
    """A robot from a file, or a sample by its name."""
    if name in SAMPLES and not Path(name).is_file():
        return load(SAMPLES[name]())
    if name.endswith(".npz"):
        raise PullbackError(f"{name!r} is no robot but a motion: look at it with 'pullback view {name}'")
    if not Path(name).exists() and name in TASKS:
        raise PullbackError(f"{name!r} is no robot but a task: solve it with 'pullback optimize {name}'")
    if not Path(name).exists() and not Path(name).suffix and os.sep not in name:
        raise PullbackError(unknown("file and no sample robot", name, sorted(SAMPLES)))
    return load(Path(name), ignore=tuple(ignore), anywhere=anywhere)


def start_at(system: Articulated, keyframe: Keyframe):
    """The state of a keyframe."""
    return system.state(keyframe.q, keyframe.v, **({"act": keyframe.act} if system.na else {}))


def read_keyframe(model: Model, args) -> Keyframe:
    """The keyframe an argument speaks of, or home."""
    name = args.keyframe
    if name is None:
        return model.home
    if name not in model.keyframes:
        missing = unknown("keyframe", name, model.keyframes)
        raise PullbackError(missing if model.keyframes else f"there is no keyframe {name!r}; the file has none")
    return model.keyframes[name]


def refuse_large(steps: float, numbers: int, worlds: int = 1) -> None:
    """An error now, rather than when memory has run out."""
    size = 8 * (steps + 1) * worlds * max(1, numbers)
    if size > LARGEST_MOTION:
        raise PullbackError(
            f"a motion of {steps:.6g} steps and {worlds} worlds takes {size / 2**30:.3g} GiB: ask for less"
        )


def control_limits(model: Model) -> np.ndarray:
    """Between which controls may lie, (nu, 2); -1 and 1 where the file does not say."""
    return np.where(model.control_limited[:, None], model.control_range, (-1.0, 1.0))


def make_system(model: Model, args, *, worlds: int = 1) -> Articulated:
    contact = None if args.contact == "none" else args.contact
    return Articulated(model, contact, worlds=worlds, dtype=args.dtype, device=args.device)


def from_file(path: str, names: str | tuple[str, ...], options: dict, kinds: tuple[type, ...], what: str, wanted=()):
    """What a function of a user's Python file gives, called with those of the options that it takes, and all wanted."""
    names = (names,) if isinstance(names, str) else names
    if not Path(path).is_file():
        raise PullbackError(f"there is no file {path!r}")
    sys.path.insert(0, str(Path(path).resolve().parent))  # as Python does: a file imports what lies beside it
    try:
        found = runpy.run_path(path)
        made = next((found[name] for name in names if name in found), None)
        made = call(made, options, wanted) if callable(made) else made
    except PullbackError:
        raise
    except Exception as error:  # the user's own code
        raise PullbackError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    if not isinstance(made, kinds):
        functions = " or ".join(f"{name}()" for name in names)
        raise PullbackError(f"{path} needs a function {functions} that gives {what}")
    return made


def learning():
    """:mod:`pullback.envs` and :mod:`pullback.learn`, imported only by commands that use PyTorch."""
    try:
        from pullback import envs, learn
    except ImportError as error:
        raise PullbackError(str(error)) from None
    return envs, learn


def call(make: Callable, options: dict, wanted: Collection[str] = ()):
    """``make`` with those of the options that it takes; an error if one that is wanted is not among them."""
    taken = inspect.signature(make).parameters
    for name in wanted:
        if name not in taken:
            raise PullbackError(unknown("option", name, taken) if taken else f"there are no options, such as {name!r}")
    return make(**{name: value for name, value in options.items() if name in taken})


def out_folder(args) -> Path | None:
    """The folder of --out, if there is one."""
    return None if args.out is None else writable_folder(args.out)


def result_folder(args, *names: str | None):
    """The folder of --out, or out/NAMES-SEED, held while it is written to."""
    usual = "-".join(str(x) for x in (*names, args.seed) if x)
    return held_folder(args.out or Path("out") / usual)


def write_json(path: Path, result) -> None:
    write_text(path, json.dumps(result, indent=1) + "\n")


# --- talking ----------------------------------------------------------------------------------------------------------


def console() -> Console:
    """For progress and notes: standard output is kept for results."""
    return Console(stderr=True)


def report(args, result, text: str | None, file: Path | None = None) -> None:
    """Prints a result as text (None: it is printed already), or as JSON if asked for; writes it to a file if given."""
    if file is not None:
        write_json(file, result)
    if args.json or text is not None:
        print(json.dumps(result, indent=1) if args.json else text)


def progress(text: str, *columns: ProgressColumn) -> Progress:
    """A bar that is gone when it is done, and not in log files at all."""
    place = console()
    columns = (TextColumn(text), BarColumn(), *columns, TimeElapsedColumn())
    return Progress(*columns, console=place, transient=True, disable=not place.is_terminal)
