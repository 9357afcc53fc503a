"""Toolpaths from G-code: of printers (E says when material is deposited) and of lasers (M3, M5 and S)."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field

import numpy as np

from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.thermal.toolpath import Toolpath

# Straight pieces that an arc is cut into, at most: more are a mistake in the file.
MOST_PIECES = 100_000
WORD = re.compile(r"([A-Z])\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))")
LINE = re.compile(r"\s*(N[0-9]+\s*)?[GM][0-9]+\s+[A-Z]", re.IGNORECASE)  # how one begins
# Codes that neither move the machine nor switch the laser: planes, feed modes, fans, heaters, ends of programs, tools.
IGNORED = {"G17", "G40", "G49", "G54", "G61", "G64", "G80", "G91.1", "G94"} | {
    f"M{n}" for n in (0, 1, 2, 6, 7, 8, 9, 17, 18, 30, 73, 84, 104, 105, 106, 107, 109, 110, 117, 140, 141, 190, 191,
                      201, 203, 204, 205, 220, 221, 400, 900)
}  # fmt: skip
# Homing and bed levelling, ignored before the first move: where the machine comes from is not part of the path.
HOMING = ("G28", "G29")
# Letters that are allowed in a line, and with codes that take others. Those of an ignored M have their own meanings.
LETTERS = "XYZEFS"
LETTERS_OF = {"G2": LETTERS + "IJR", "G3": LETTERS + "IJR", "G4": "PSF", "G64": LETTERS + "P", "G92": "XYZE"}
# The strength of a laser for which the file gives none.
FULL = math.inf


@dataclass
class _Machine:
    """The modal state of the controller, and the path so far."""

    unit: float = 1e-3  # [m]
    absolute: bool = True
    absolute_e: bool = True
    feed: float | None = None  # [m/s]
    motion: str | None = None  # G0 to G3, which a line of bare coordinates repeats
    place: np.ndarray = field(default_factory=lambda: np.zeros(3))
    e: float = 0.0
    laser: bool = False
    strength: float | None = None
    times: list = field(default_factory=lambda: [0.0])
    points: list = field(default_factory=list)
    on: list = field(default_factory=list)  # S of the laser, or FULL, or 0; one fewer than points
    lines: list = field(default_factory=list)  # the line of the file for each of these


def from_gcode(source: str | os.PathLike, *, travel: float | None = None, tolerance: float = 1e-5) -> Toolpath:
    """The path of a G-code file, or of its text: what has a line break, or begins like "G1 X1" and is no file.

    travel:     speed of G0 [m/s]; None for that of the last F, as simple machines do
    tolerance:  how far straight pieces may be from an arc [m]

    Known: G0, G1, G2, G3 (in the plane of x and y), G4 (P in milliseconds, S in seconds), G20, G21, G90, G91, G92 of E,
    M3, M4, M5, M82, M83, F, S and E; and codes that move nothing, such as those of fans and heaters. The machine begins
    at its origin. The laser is on with M3 or M4, as strong as S against the largest S of the file, or on moves that
    feed material (E rises); on others, and on all of G0, it is off: they travel. M2 and M30 end the program. Comments
    and line numbers are passed over. A line that is broken, or has a code or a letter that is not known, is an error
    that names it.
    """
    if travel is not None:
        travel = check_number(travel, "travel")
    tolerance = check_number(tolerance, "tolerance")
    text, name = _text(source)
    machine = _Machine()
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            codes = _execute(machine, _words(line), travel, tolerance)
        except PullbackError as error:
            raise PullbackError(f"line {number} of {name}: {error}: {line.strip()!r}") from None
        machine.lines += [number] * (len(machine.on) - len(machine.lines))
        if {"M2", "M30"} & set(codes):
            break
    if len(machine.points) < 2:
        raise PullbackError(f"{name} moves nothing")
    on = np.array(machine.on)
    if not np.any(on > 0):
        raise PullbackError(f"{name} never switches the laser on: it needs M3 with S, or moves with E")
    strongest = np.max(on, where=on < FULL, initial=0.0) or 1.0
    on = np.where(on < FULL, on / strongest, 1.0)
    return Toolpath(machine.times, machine.points, np.append(on, 0.0), np.array([*machine.lines, machine.lines[-1]]))


def _text(source) -> tuple[str, str]:
    if isinstance(source, str) and ("\n" in source or (LINE.match(source) and not os.path.exists(source))):
        return source, "the G-code"
    if not isinstance(source, str | os.PathLike):
        raise PullbackError(f"G-code is its text or the path of a file, not {type(source).__name__}")
    try:
        with open(source, encoding="utf-8-sig") as file:
            return file.read(), repr(str(source))
    except (OSError, ValueError) as error:
        raise PullbackError(f"G-code {str(source)!r} cannot be read: {error}") from None


def _words(line: str) -> list[tuple[str, float]]:
    """Letters and numbers of a line, without comments, line numbers and checksums."""
    line = re.sub(r"\([^()]*\)", " ", line).split(";")[0].split("*")[0].strip().upper()
    line = re.sub(r"^N[0-9]+\s*", "", line)
    if line == "" or re.fullmatch(r"%|O[0-9]+|T0", line):  # ends of the file, a program's number, the only tool
        return []
    if re.match(r"M117\b", line):  # a message for the display
        return [("M", 117.0)]
    if re.fullmatch(r"G2[89]\b[^GM]*", line):  # the axes have no number
        return [("G", float(line[1:3]))]
    words = [(letter, float(value)) for letter, value in WORD.findall(line)]
    if WORD.sub("", line).strip():
        raise PullbackError("not letters with a number each")
    for letter, value in words:
        if not math.isfinite(value):
            raise PullbackError(f"the number of {letter} is too large")
    return words


def _execute(machine: _Machine, words: list, travel: float | None, tolerance: float) -> list[str]:
    """Executes a line. Returns its codes."""
    codes = [f"{letter}{value:.12g}" for letter, value in words if letter in "GM"]
    letters = [letter for letter, _ in words if letter not in "GM"]
    if len(set(letters)) < len(letters):
        raise PullbackError("a letter is there twice")
    values = dict(words)
    for name in ("G", "M"):
        values.pop(name, None)
    moves = [code for code in codes if code in ("G0", "G1", "G2", "G3")]
    if len(moves) + ("G4" in codes) + ("G92" in codes) > 1:
        raise PullbackError("two ways to move, or a move and G4 or G92, in one line")
    for code in codes:
        _set_mode(machine, code)
    is_note = any(code in IGNORED and code[0] == "M" for code in codes)
    if moves or not is_note:
        _require_known(codes, moves[0] if moves else machine.motion, values)
    if "F" in values and (moves or not is_note):
        machine.feed = values["F"] * machine.unit / 60
        if machine.feed <= 0:
            raise PullbackError("a feed F must be above zero")
    if "S" in values and "G4" not in codes and (not is_note or {"M3", "M4"} & set(codes)):
        if values["S"] < 0:
            raise PullbackError("a strength S must not be negative")
        machine.strength = values["S"]
    if "G4" in codes:
        _dwell(machine, values)
    elif "G92" in codes:
        _reset(machine, values)
    else:
        machine.motion = moves[0] if moves else machine.motion
        if moves or (not is_note and any(letter in values for letter in "XYZE")):
            _move(machine, values, travel, tolerance)
    return codes


def _require_known(codes: list[str], motion: str | None, values: dict) -> None:
    """Refuses unknown letters rather than ignore them: one could be another axis, or the centre of an arc."""
    special = [code for code in codes if code in LETTERS_OF] or [motion]
    for letter in values:
        if letter not in LETTERS_OF.get(special[0], LETTERS):
            raise PullbackError(f"{letter} is not known here")


def _set_mode(machine: _Machine, code: str) -> None:
    if code in ("G0", "G1", "G2", "G3", "G4", "G92") or code in IGNORED:
        return
    elif code in HOMING:
        if machine.points:
            raise PullbackError(f"{code} is not known after the first move")
    elif code in ("G20", "G21"):
        machine.unit = 0.0254 if code == "G20" else 1e-3
    elif code in ("G90", "G91"):
        machine.absolute = machine.absolute_e = code == "G90"
    elif code in ("M82", "M83"):
        machine.absolute_e = code == "M82"
    elif code in ("M3", "M4", "M5"):
        machine.laser = code != "M5"
    else:
        raise PullbackError(f"{code} is not known")


def _strength(machine: _Machine) -> float:
    return (FULL if machine.strength is None else machine.strength) if machine.laser else 0.0


def _dwell(machine: _Machine, values: dict) -> None:
    """P in milliseconds, or S in seconds."""
    seconds = values.get("S", values.get("P", 0.0) / 1000)
    if seconds < 0:
        raise PullbackError("a dwell must not be negative")
    strength = _strength(machine)
    if seconds > 0 and (machine.points or strength > 0):
        _go(machine, machine.place, seconds, strength)


def _reset(machine: _Machine, values: dict) -> None:
    """G92 sets the coordinates of the current position, which is supported for E only: it leaves the path as it is."""
    if any(letter in values for letter in "XYZ"):
        raise PullbackError("G92 of X, Y or Z is not known, only of E")
    if "E" not in values:
        raise PullbackError("G92 needs E: of all axes at once it is not known")
    machine.e = values["E"]


def _move(machine: _Machine, values: dict, travel: float | None, tolerance: float) -> None:
    if machine.motion is None:
        raise PullbackError("coordinates before any G0 or G1")
    target = machine.place.copy()
    for axis, letter in enumerate("XYZ"):
        if letter in values:
            target[axis] = values[letter] * machine.unit + (0.0 if machine.absolute else machine.place[axis])
    fed = 0.0
    if "E" in values:
        fed = values["E"] - (machine.e if machine.absolute_e else 0.0)
        machine.e += fed
    route = [target] if machine.motion in ("G0", "G1") else _arc(machine, values, target, tolerance)
    rapid = machine.motion == "G0"
    speed = travel if rapid and travel is not None else machine.feed
    if speed is None:
        raise PullbackError("a move before any feed F" + (", and no travel speed is given" if rapid else ""))
    strength = 0.0 if rapid else _strength(machine) or (FULL if fed > 0 else 0.0)
    for point in route:
        length = float(np.linalg.norm(point - machine.place))
        if length > 0:
            _go(machine, point, length / speed, strength)


def _go(machine: _Machine, point: np.ndarray, seconds: float, strength: float) -> None:
    time = machine.times[-1] + seconds
    if not machine.times[-1] < time < math.inf:
        raise PullbackError(f"a move of {seconds:g} s after {machine.times[-1]:g} s is too short or too long")
    if not machine.points:  # where the machine was before is not part of the path
        machine.points.append(machine.place.copy())
    machine.times.append(time)
    machine.points.append(np.array(point))
    machine.on.append(strength)
    machine.place = np.array(point)


def _arc(machine: _Machine, values: dict, target: np.ndarray, tolerance: float) -> list[np.ndarray]:
    """Points along an arc, clockwise for G2, with z in equal steps."""
    start, turn = machine.place, -1.0 if machine.motion == "G2" else 1.0
    centre = _centre(machine, values, target, turn)
    out, back = start[:2] - centre, target[:2] - centre
    radius = float(np.hypot(*out))
    if radius == 0 or abs(np.hypot(*back) - radius) > max(1e-3 * radius, 1e-5):
        raise PullbackError("the ends of an arc are not at the same distance from its centre")
    sweep = turn * (math.atan2(*back[::-1]) - math.atan2(*out[::-1])) % (2 * math.pi)
    sweep = sweep if sweep > 1e-9 else 2 * math.pi  # back to where it began: a full circle
    step = 2 * math.acos(max(1 - tolerance / radius, 0.0))
    if sweep > MOST_PIECES * step:
        raise PullbackError(f"an arc of radius {radius:g} m has more than {MOST_PIECES} straight pieces")
    count = max(1, math.ceil(sweep / step))
    share = np.arange(1, count) / count
    angle = math.atan2(*out[::-1]) + turn * share * sweep
    around = centre + radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return [*np.column_stack([around, start[2] + share * (target[2] - start[2])]), target]


def _centre(machine: _Machine, values: dict, target: np.ndarray, turn: float) -> np.ndarray:
    start = machine.place
    if "I" in values or "J" in values:
        if "R" in values:
            raise PullbackError("an arc has a centre, I and J, or a radius R, not both")
        return start[:2] + machine.unit * np.array([values.get("I", 0.0), values.get("J", 0.0)])
    if "R" not in values:
        raise PullbackError("an arc needs its centre, I and J, or its radius R")
    chord = target[:2] - start[:2]
    length, radius = float(np.hypot(*chord)), values["R"] * machine.unit
    if not 0 < length <= 2 * abs(radius) * (1 + 1e-9):
        raise PullbackError("an arc of this radius R does not reach from end to end")
    height = math.sqrt(max(radius**2 - length**2 / 4, 0.0))
    left = np.array([-chord[1], chord[0]]) / length  # of the chord; a negative R means the longer way round
    return start[:2] + chord / 2 + math.copysign(height, radius) * turn * left
