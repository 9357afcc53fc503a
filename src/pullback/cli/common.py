"""What the commands share: options, reading a robot, where results go, and when to say what."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from rich.console import Console

from pullback.contact import CONTACT_NAMES
from pullback.core.errors import PullbackError
from pullback.core.files import PARTIAL, write_text
from pullback.dynamics import Articulated
from pullback.model import Keyframe, Model, load
from pullback.model.robots import ROBOTS
from pullback.model.unsupported import KINDS
from pullback.tasks import TASKS

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    fcntl = None

LOCK = ".lock"  # in a folder of results: which process writes there
LOCKED_BYTE = 2**30  # where Windows locks the file: not where the process is named, or nobody could read it

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


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """That there is no such name; and the one that was meant, or all that there are."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"there is no {what} {name!r}; {hint}"


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


def add_robot(
    parser: argparse.ArgumentParser,
    *,
    default: str | None = None,
    several: bool = False,
    dtype: str | None = "float64",
) -> None:
    """A robot, which may be left out if there is a default, or several, and how they are read.

    ``dtype`` None stands for both.
    """
    optional = {} if default is None else {"nargs": "?", "default": default}
    parser.add_argument(
        "robots" if several else "robot",
        metavar="ROBOT",
        **({"nargs": "*"} if several else optional),
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
    if not several:
        add_keyframe(parser)
    add_anywhere(parser)


def add_keyframe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keyframe", metavar="NAME", help="where to start (default: 'home' if there is one)")


def add_anywhere(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--anywhere", action="store_true", help="let the file read from outside its own folder")


def add_length(parser: argparse.ArgumentParser, of: str, *, steps: int | None = None, seconds: float | None = None):
    """How long a motion is, in steps or in seconds; one of them is what it is unless told."""
    length = parser.add_mutually_exclusive_group()
    told = f" (default {steps})" if steps else ""
    length.add_argument("--steps", type=whole(1), metavar="N", help=f"length of {of} in steps{told}")
    told = f" (default {seconds:g})" if seconds else ""
    length.add_argument("--seconds", type=positive, metavar="S", help=f"length of {of} in seconds{told}")
    parser.set_defaults(usual_length=(steps, seconds))


def read_length(model: Model, args, worlds: int = 1) -> int:
    """The steps of a motion of so many worlds; an error if it does not fit into memory."""
    steps, seconds = (args.steps, args.seconds) if args.steps or args.seconds else args.usual_length
    refuse_large(model, steps or seconds / model.timestep, worlds)
    return steps or max(1, round(seconds / model.timestep))


def read_robot(args) -> Model:
    """The robot an argument speaks of."""
    return load_robot(args.robot, ignore=args.ignore, anywhere=args.anywhere)


def load_robot(name: str, *, ignore: Collection[str], anywhere: bool) -> Model:
    """A robot from a file, or a sample by its name."""
    if name in ROBOTS and not Path(name).is_file():
        return load(ROBOTS[name]())
    if name.endswith(".npz"):
        raise PullbackError(f"{name!r} is no robot but a motion: look at it with 'pullback view {name}'")
    if not Path(name).exists() and name in TASKS:
        raise PullbackError(f"{name!r} is no robot but a task: solve it with 'pullback optimize {name}'")
    if not Path(name).exists() and not Path(name).suffix and os.sep not in name:
        raise PullbackError(unknown("file and no sample robot", name, sorted(ROBOTS)))
    return load(Path(name), ignore=tuple(ignore), anywhere=anywhere)


def read_keyframe(model: Model, args) -> Keyframe:
    """The keyframe an argument speaks of, or home."""
    name = args.keyframe
    if name is None:
        return model.home
    if name not in model.keyframes:
        missing = unknown("keyframe", name, model.keyframes)
        raise PullbackError(missing if model.keyframes else f"there is no keyframe {name!r}; the file has none")
    return model.keyframes[name]


def refuse_large(model: Model, steps: float, worlds: int = 1) -> None:
    """An error now, rather than when memory has run out."""
    size = 8 * (steps + 1) * worlds * max(1, model.nq + model.nv + model.nu)
    if size > LARGEST_MOTION:
        raise PullbackError(
            f"a motion of {steps:.6g} steps and {worlds} worlds takes {size / 2**30:.3g} GiB: ask for less"
        )


def make_system(model: Model, args, *, worlds: int = 1) -> Articulated:
    contact = None if args.contact == "none" else args.contact
    return Articulated(model, contact, worlds=worlds, dtype=args.dtype, device=args.device)


def writable_folder(path: Path) -> Path:
    """The folder, made if need be; an error now rather than after the work."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        trial = path / ".pullback-writes-here"
        trial.touch()
        trial.unlink(missing_ok=True)  # another command may have tried too
    except OSError as error:
        raise PullbackError(f"cannot write to {str(path)!r}: {error.strerror or error}") from None
    return path


@contextlib.contextmanager
def held_folder(path: Path) -> Iterator[Path]:
    """A writable folder that no other command writes to meanwhile; what one that was killed left half done is removed.

    The lock is the operating system's, on an open file, and ends with the process however that ends.
    """
    with open(writable_folder(path) / LOCK, "a+b", buffering=0) as file:
        if not _locks(file.fileno()):
            file.seek(0)
            holder = file.read(32).decode(errors="replace").strip()
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise PullbackError(f"{str(path)!r} is in use by {who}: wait for it, or choose another folder with --out")
        try:
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
        except OSError as error:
            raise PullbackError(f"cannot write to {str(path)!r}: {error.strerror or error}") from None
        for left in path.glob(f"{PARTIAL}*"):
            left.unlink(missing_ok=True)
        yield path
        file.truncate(0)


def _locks(file: int) -> bool:
    """Whether an open file could be locked, or cannot be on this file system."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def write_json(path: Path, result) -> None:
    write_text(path, json.dumps(result, indent=1) + "\n")


# --- talking ----------------------------------------------------------------------------------------------------------


def console() -> Console:
    """For progress and notes: standard output is kept for results."""
    return Console(stderr=True)


def progress_options() -> dict:
    """Of a rich.progress.Progress: gone when done, and not in log files at all."""
    place = console()
    return {"console": place, "transient": True, "disable": not place.is_terminal}
