"""What the commands share: options, reading a robot, where results go, and when to say what."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import threading
from collections.abc import Collection
from pathlib import Path

import warp as wp
from rich.console import Console

from pullback.contact import CONTACT_NAMES
from pullback.core.errors import PullbackError
from pullback.dynamics import Articulated
from pullback.model import Keyframe, Model, load
from pullback.model.robots import ROBOTS
from pullback.model.unsupported import KINDS

# A first step that takes longer than this is compiling kernels. [s]
COMPILING_AFTER = 1.0
# Work expected to take longer than this gets a progress bar. [s]
PROGRESS_AFTER = 2.0

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


# --- options ----------------------------------------------------------------------------------------------------------


def positive(text: str) -> float:
    """An argument that is a positive number."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text} is not positive and finite")
    return value


def not_negative(text: str) -> float:
    """An argument that is a number of at least zero."""
    return 0.0 if text.strip() in ("0", "0.0") else positive(text)


def whole(least: int, most: float = math.inf):
    """The type of an argument that is a whole number of at least ``least`` and at most ``most``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        if value > most:
            raise argparse.ArgumentTypeError(f"{text} is more than {most}")
        return value

    return parse


def add_common(parser: argparse.ArgumentParser, *, out: str) -> None:
    """The options every command has."""
    parser.add_argument(
        "--seed", type=whole(0, LARGEST_SEED), default=0, metavar="N", help="of all that is random (default 0)"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... (default cpu)")
    parser.add_argument("--out", type=Path, metavar="DIR", help=out)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_robot(parser: argparse.ArgumentParser, *, default: str | None = None, dtype: str | None = "float64") -> None:
    """A robot, which may be left out if there is a default, and how it is read. ``dtype`` None stands for both."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        **({} if default is None else {"nargs": "?", "default": default}),
        help=f"an MJCF or URDF file, or a sample robot: {', '.join(sorted(ROBOTS))}"
        + (f" (default {default})" if default else ""),
    )
    parser.add_argument(
        "--dtype", choices=("float64", "float32"), default=dtype, help=f"precision (default {dtype or 'both'})"
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="KIND",
        choices=sorted(KINDS),
        help=f"drop elements that are not supported; may be repeated. KIND is one of {', '.join(sorted(KINDS))}",
    )
    parser.add_argument(
        "--contact",
        choices=CONTACTS,
        default="model",
        help="contacts, limits and friction loss as in the file (default), none at all, or by this contact model",
    )
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How any robot is read."""
    parser.add_argument("--keyframe", metavar="NAME", help="where to start (default: 'home' if there is one)")
    parser.add_argument("--anywhere", action="store_true", help="let the file read from outside its own folder")


def read_robot(args) -> Model:
    """The robot an argument speaks of."""
    return load_robot(args.robot, ignore=args.ignore, anywhere=args.anywhere)


def load_robot(name: str, *, ignore: Collection[str], anywhere: bool) -> Model:
    """A robot from a file, or a sample by its name."""
    if name in ROBOTS and not Path(name).is_file():
        return load(ROBOTS[name]())
    if not Path(name).exists() and not Path(name).suffix and os.sep not in name:
        raise PullbackError(f"there is no file and no sample robot {name!r}; samples are {', '.join(sorted(ROBOTS))}")
    return load(Path(name), ignore=tuple(ignore), anywhere=anywhere)


def read_keyframe(model: Model, args) -> Keyframe:
    """The keyframe an argument speaks of, or home."""
    name = args.keyframe
    if name is None:
        return model.home
    if name not in model.keyframes:
        known = f"there are {', '.join(model.keyframes)}" if model.keyframes else "the file has none"
        raise PullbackError(f"there is no keyframe {name!r}; {known}")
    return model.keyframes[name]


def refuse_large(model: Model, steps: float, worlds: int = 1) -> None:
    """An error now, rather than when memory has run out."""
    size = 8 * (steps + 1) * worlds * max(1, model.nq + model.nv + model.nu)
    if size > LARGEST_MOTION:
        raise PullbackError(
            f"a motion of {steps:.6g} steps and {worlds} worlds takes {size / 2**30:.3g} GiB: ask for less"
        )


def make_system(model: Model, args, *, worlds: int = 1) -> Articulated:
    with quiet_warp():
        contact = None if args.contact == "none" else args.contact
        return Articulated(model, contact, worlds=worlds, dtype=args.dtype, device=args.device)


def writable_folder(path: Path) -> Path:
    """The folder, made if need be; an error now rather than after the work."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        trial = path / ".pullback-writes-here"
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise PullbackError(f"cannot write to {str(path)!r}: {error.strerror or error}") from None
    return path


def write_json(path: Path, result) -> None:
    try:
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise PullbackError(f"cannot write {str(path)!r}: {error.strerror or error}") from None


# --- talking ----------------------------------------------------------------------------------------------------------


def console() -> Console:
    """For progress and notes: standard output is kept for results."""
    return Console(stderr=True)


def progress_options() -> dict:
    """Of a rich.progress.Progress: gone when done, and not in log files at all."""
    place = console()
    return {"console": place, "transient": True, "disable": not place.is_terminal}


@contextlib.contextmanager
def quiet_warp():
    """Warp starts without a word. A missing CUDA driver is reported by its C++ part, straight to the descriptor."""
    wp.config.log_level = wp.LOG_ERROR
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no standard error to keep quiet
        yield
        return
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def compiling_note():
    """Says so when what is done here takes as long as compiling does."""

    def note():
        console().print("compiling kernels for the first time, which may take a minute ...", style="dim")

    timer = threading.Timer(COMPILING_AFTER, note)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
