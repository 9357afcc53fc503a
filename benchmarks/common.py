"""What every benchmark shares: figures and their verdicts, fair timing, peak memory, one core, and the command line.

A benchmark file is one function that yields figures::

    from common import Result, interleave, main

    def figures(quick):
        seconds = interleave({"ours": ours, "peer": peer}, repeats=3 if quick else 15)
        yield Result("time a step against MuJoCo", seconds["ours"] / seconds["peer"], "ratio", must="<= 1.0")

    if __name__ == "__main__":
        main(figures)
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime
import gc
import importlib.metadata
import json
import math
import operator
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# Random robots, oracles and wrong Systems, which the tests use too. Import this module before those.
sys.path.insert(0, str(Path(__file__).parents[1] / "testing"))

# One repeat must last this long [s]: far above the timer's resolution and one scheduler tick, short enough that
# ours and the peer's repeats see the same noise.
REPEAT_SECONDS = 0.02

# Packages whose versions belong beside a figure.
PACKAGES = ("pullback", "numpy", "warp-lang", "mujoco", "mujoco-mjx", "jax", "newton", "pin", "taichi", "torch")

# Read by the numerical libraries when they are first imported.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

_COMPARISONS = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}


# Figures


def met(value: float | None, must: str) -> bool:
    """Whether `value` meets `must` ("<= 1.0", ">= 5e6", "== 0"; "" demands nothing and is always met).

    A missing value or a NaN meets no demand: a figure that was not measured must never count as a success.
    """
    if not must.strip():
        return True
    match = re.fullmatch(r"\s*(<=|>=|==|<|>)\s*(\S+)\s*", must)
    if match is None:
        raise ValueError(f'must = {must!r} is not of the form "<= 1.0"')
    bound = float(match[2])
    if value is None or math.isnan(value):
        return False
    return bool(_COMPARISONS[match[1]](value, bound))


@dataclass(frozen=True)
class Result:
    """One measured number. `value` is None where nothing could be measured (say why in `note`)."""

    figure: str
    value: float | None
    unit: str = ""
    must: str = ""
    peer: str = ""
    note: str = ""

    def __post_init__(self):
        if self.value is not None:
            object.__setattr__(self, "value", float(self.value))  # numpy scalars do not survive json
        met(self.value, self.must)  # a malformed `must` is an error here, next to the line that wrote it

    @property
    def ok(self) -> bool:
        return met(self.value, self.must)

    def as_dict(self) -> dict:
        """The object of the JSON file. Infinity and NaN, which JSON does not have, become null."""
        finite = self.value is not None and math.isfinite(self.value)
        return {
            "figure": self.figure,
            "value": self.value if finite else None,
            "unit": self.unit,
            "must": self.must,
            "ok": self.ok,
            "peer": self.peer,
            "note": self.note,
        }


def table(figures: Iterable[Result]) -> str:
    """Aligned text, one figure a line."""
    header = ("", "figure", "value", "unit", "must", "peer", "note")
    rows = [header]
    for f in figures:
        verdict = "" if not f.must else "ok" if f.ok else "MISS"
        value = "-" if f.value is None else f"{f.value:.4g}"
        rows.append((verdict, f.figure, value, f.unit, f.must, f.peer, f.note))
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    rows.insert(1, tuple("-" * w for w in widths))
    lines = []
    for row in rows:
        cells = [cell.ljust(w) for cell, w in zip(row, widths, strict=True)]
        if row[2] != header[2]:
            cells[2] = row[2].rjust(widths[2])  # numbers to the right
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


Question = Callable[[bool], Iterable[Result]]


def main(
    figures: Question | Mapping[str, Question], argv: list[str] | None = None, *, description: str | None = None
) -> list[Result]:
    """The command line of a benchmark file: `figures(quick)` yields the figures; they are printed and written.

    Several questions, by name, are answered in turn; `--only NAME` chooses among them. A missed target is a result, not
    a failure of the benchmark: the exit code stays 0 and the misses are counted.
    """
    if description is None:
        description = sys.modules["__main__"].__doc__
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too, with --only into it")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller sizes, to see that it runs")
    questions = figures if isinstance(figures, Mapping) else {"": figures}
    if len(questions) > 1:
        names = ", ".join(questions)
        parser.add_argument("--only", metavar="NAME", nargs="+", choices=list(questions), help=f"some of {names}")
    arguments = parser.parse_args(argv)
    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json: no such folder: {arguments.json.absolute().parent}")  # now, not after the measurements

    results = []
    for name, question in questions.items():
        if name in (getattr(arguments, "only", None) or questions):
            start = time.perf_counter()
            results += question(arguments.quick)
            _write(results, arguments.json, merge=getattr(arguments, "only", None) is not None)
            if name:
                print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    print(table(results))
    misses = [f for f in results if not f.ok]
    demands = sum(1 for f in results if f.must)
    print(f"\n{len(results)} figures, {demands} with a target, {len(misses)} missed" + (":" if misses else "."))
    for f in misses:
        value = "not measured" if f.value is None else f"{f.value:.4g} {f.unit}".rstrip()
        print(f"  MISS  {f.figure}: {value}, must be {f.must}")
    return results


def _write(results: list[Result], path: Path | None, *, merge: bool) -> None:
    """Writes results to a file, in the place of those of the same name where others are to stay in it."""
    if path is None:
        return
    rows = json.loads(path.read_text(encoding="utf-8")) if merge and path.exists() else []
    named = {(row["figure"], row["peer"]): row for row in (*rows, *(f.as_dict() for f in results))}
    text = json.dumps(list(named.values()), indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


# Time


def _seconds(f: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        f()
    return time.perf_counter() - start


def _calls_a_repeat(f: Callable[[], object], least: float) -> int:
    """How many calls make a repeat last `least` seconds. Calls `f` at least twice, which also warms it up."""
    f()
    calls = 1
    while (taken := _seconds(f, calls)) < least:
        # Towards the aim in one go, but never by more than tenfold: the first timings are the least reliable.
        calls = min(10 * calls, max(calls + 1, math.ceil(1.1 * calls * least / max(taken, 1e-9))))
    return calls


def interleave(
    functions: Mapping[str, Callable[[], object]],
    *,
    repeats: int = 15,
    least: float = REPEAT_SECONDS,
    of: Callable = statistics.median,
) -> dict[str, float]:
    """Seconds a call of each function: ``of`` (medians of) interleaved repeats (ours, peer, ours, peer, ...).

    A repeat calls a function as often as it takes to last `least` seconds. The garbage collector is off meanwhile.
    """
    calls = {name: _calls_a_repeat(f, least) for name, f in functions.items()}
    taken = {name: [] for name in functions}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, f in functions.items():
                taken[name].append(_seconds(f, calls[name]) / calls[name])
    finally:
        if collecting:
            gc.enable()
    return {name: of(values) for name, values in taken.items()}


# Memory


def _status_bytes(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in /proc/self/status")


@contextlib.contextmanager
def _small_pages(libc: ctypes.CDLL):
    """No transparent huge pages for what is allocated inside: one touched byte would count as 2 MiB."""
    set_disable, get_disable = 41, 42  # PR_SET_THP_DISABLE and PR_GET_THP_DISABLE of linux/prctl.h
    before = libc.prctl(get_disable, 0, 0, 0, 0)
    libc.prctl(set_disable, 1, 0, 0, 0)
    try:
        yield
    finally:
        if before == 0:
            libc.prctl(set_disable, 0, 0, 0, 0)


def peak_added_memory(f: Callable[[], object], *, repeats: int = 9) -> int | None:
    """Peak resident memory [bytes] that running `f` adds to the process; None where the kernel cannot tell (not Linux).

    `f` runs once beforehand, so code, caches and lasting scratch are not counted: this is what each further run needs.
    What `f` returns is counted, since it lives at the end of the run, and is then dropped. The least of `repeats`: what
    else goes on in the process, such as a new arena of Python's allocator, can only add to it.
    """
    reset = Path("/proc/self/clear_refs")
    if not (sys.platform.startswith("linux") and os.access(reset, os.W_OK)):
        return None
    libc = ctypes.CDLL(None)
    trim = getattr(libc, "malloc_trim", lambda pad: 0)  # glibc only; other C libraries give memory back themselves
    added = []
    with _small_pages(libc):
        f()
        for _ in range(repeats):
            # Freed memory that the allocator keeps would be used again by `f` without raising the peak: give it back.
            gc.collect()
            trim(0)
            reset.write_text("5")  # the peak (VmHWM) starts again from the present
            before = _status_bytes("VmRSS")
            result = f()
            added.append(max(0, _status_bytes("VmHWM") - before))
            del result
    return min(added)


# Machine


def one_core(core: int | None = None) -> contextlib.ExitStack:
    """Keep the whole process on one core. Call it for good, or use it as `with one_core():`.

    Threads that exist already are moved too (a BLAS starts its pool when numpy is imported); threads started later
    inherit the core, and libraries that size their pools by the cores they may use (XLA) then start one thread. The
    environment variables reach libraries imported after this call, so call it early.
    """
    stack = contextlib.ExitStack()
    for name in THREAD_VARIABLES:
        stack.callback(_set_environment, name, os.environ.get(name))
        os.environ[name] = "1"
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        # The last core by default: interrupts tend to be served by the first.
        chosen = {max(allowed) if core is None else core}
        if not chosen <= allowed:
            raise ValueError(f"core {core} is not among the cores this process may use: {sorted(allowed)}")
        _pin(chosen)
        stack.callback(_pin, allowed)
    return stack


def _set_environment(name: str, value: str | None):
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _pin(cores: set[int]):
    os.sched_setaffinity(0, cores)  # the calling thread; those it starts inherit
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # a thread may end while we look
            os.sched_setaffinity(int(task), cores)


def version(package: str, name: str) -> str:
    """The name of a peer with its version, if it is installed."""
    try:
        return f"{name} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return name


def machine() -> dict:
    """CPU, cores, system, versions and date, for the head of a page of results."""
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:
        usable = os.cpu_count()
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
