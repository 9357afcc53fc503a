"""Does anything that is handed to the library end it? Random files, whole and broken, loaded, stepped, pulled back.

Every case runs in a worker process, so that a crash is one more figure, and has a time limit. What may come of it is a
result of finite numbers or a PullbackError of one line. To repeat a case, in the folder testing:
python -c "import fuzz_cases; fuzz_cases.attempt(NUMBER)"

Run: python benchmarks/fuzz.py [--json FILE] [--quick]; FUZZ_CASES, FUZZ_FIRST, FUZZ_SECONDS and FUZZ_WORKERS say how
many cases, from which on, for how long at most, and by how many workers.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator

from common import Result, main

CASES = int(os.environ.get("FUZZ_CASES", "100000"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
SECONDS = float(os.environ.get("FUZZ_SECONDS", "inf"))  # it ends after these, whatever is left
WORKERS = int(os.environ.get("FUZZ_WORKERS", "2"))
PATIENCE = 300.0  # with a case, which takes a hundredth of a second [s]
COMPILING = 3600.0  # with one whose kernels are new to a worker, and may not be in the cache [s]
STARTED = "started"
STEPS = "steps"  # what a worker says before it launches kernels
MEMORY = 2**33  # of a worker, beyond which nothing is given to it [bytes]


def serve(pipe) -> None:
    import faulthandler
    import resource

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    import mujoco
    from fuzz_cases import attempt

    mujoco.set_mju_user_warning(lambda message: None)  # else MuJoCo writes a log
    pipe.send(None)
    while True:
        number = pipe.recv()
        try:
            pipe.send(("", attempt(number, lambda kernels: pipe.send((STEPS, kernels)))))
        except BaseException as error:  # whatever it is, that is the question
            last = traceback.extract_tb(error.__traceback__)[-1]
            pipe.send((type(error).__name__, f"{error!s:.200} ({os.path.basename(last.filename)}:{last.lineno})"))


class Worker:
    """A process that tries one case after the other."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.kernels: set[str] = set()  # that it has launched
        self.number, self.until = None, time.monotonic() + COMPILING

    def give(self, number: int) -> None:
        self.number, self.until = number, time.monotonic() + PATIENCE
        self.pipe.send(number)

    def hear(self, ready: bool) -> tuple[str, str] | None:
        """What went wrong, or "", and how far the case came; None if it is not at its end."""
        if not ready:
            if time.monotonic() <= self.until:
                return None
            self.stop()
            return "hang", f"no answer within {PATIENCE:g} s"
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            self.stop()
            return "crash", f"ended with {self.process.exitcode}"
        if answer is not None and answer[0] == STEPS:
            self.until = time.monotonic() + (PATIENCE if answer[1] in self.kernels else COMPILING)
            self.kernels.add(answer[1])
            return None
        return answer or ("", STARTED)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def outcomes(numbers: Iterator[int]) -> Iterator[tuple[int, str, str]]:
    """What came of every case: (number, what went wrong or "", how far it came)."""
    workers = [Worker() for _ in range(WORKERS)]
    while workers:
        ready = multiprocessing.connection.wait([worker.pipe for worker in workers], timeout=1.0)
        for worker in list(workers):
            answer = worker.hear(worker.pipe in ready)
            if answer is None:
                continue
            if worker.number is not None:
                yield worker.number, *answer
            elif answer[0]:
                raise RuntimeError(f"a worker does not start: {answer}")
            if worker.process.exitcode is not None:
                workers[workers.index(worker)] = Worker()
            elif (number := next(numbers, None)) is not None:
                worker.give(number)
            else:
                worker.stop()
                workers.remove(worker)


def fuzz(quick: bool) -> Iterator[Result]:
    found, wrong, began = Counter(), Counter(), time.monotonic()
    count = 300 if quick else CASES

    def numbers() -> Iterator[int]:
        for number in range(FIRST, FIRST + count):
            if time.monotonic() - began > SECONDS:
                return
            yield number

    for number, what, said in outcomes(numbers()):
        if what:
            kind = what if what in ("crash", "hang") else "error"
            wrong[kind] += 1
            print(f"case {number}: {what}: {said}", file=sys.stderr, flush=True)
        else:
            found[said] += 1
        done = found.total() + wrong.total()
        if done % 1000 == 0:
            print(f"{done} cases, {time.monotonic() - began:.0f} s: {dict(found)}", file=sys.stderr, flush=True)
    note = ", ".join(f"{n} {stage}" for stage, n in found.most_common())
    yield Result("models and states that were tried", found.total() + wrong.total(), "", ">= 100000", note=note)
    for kind, about in (
        ("crash", "crashes"), ("hang", f"hangs, over {PATIENCE:g} s"),
        ("error", "errors other than a PullbackError of one line, or numbers that are not finite"),
    ):  # fmt: skip
        yield Result(f"models and states: {about}", wrong[kind], "", "== 0")


if __name__ == "__main__":
    main(fuzz)
