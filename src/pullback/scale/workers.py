"""Workers: processes of this machine, or actors of a Ray cluster. If one dies, it is replaced and its job repeated.

A job is an importable function and its arguments. Data that many jobs need is shared: it is sent to each worker once.
Results do not depend on which worker did a job, since all have the same number of threads.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import socket
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pullback.core.checks import check_kind, check_whole
from pullback.core.errors import PullbackError
from pullback.core.launch import cores_to_use, limit_cores

TRIES = 3  # consecutive deaths of workers, in one job or while they start, before giving up
PATIENCE = 10.0  # time to wait for a cluster that does not answer [s]
THREADS = "OMP_NUM_THREADS"  # environment variable of numerical libraries, read when they are imported
GUARD = "if __name__ == '__main__':"


class Gone(Exception):
    """The worker has died."""


class Shared(NamedTuple):
    """Shared data of jobs: its number, and the pickled data in the form that workers receive."""

    number: int
    data: Any


class Server:
    """The worker's side: does jobs, and keeps their shared data until it receives different data."""

    def __init__(self, cpus: int):
        limit_cores(cpus)
        self._held: dict[int, Any] = {}

    def answer(self, job: bytes, numbers: Sequence[int], *data: bytes) -> bytes:
        """The result of a job, or its error, pickled.

        data:  the shared data with these numbers; empty where it was sent before
        """
        try:
            pairs = zip(numbers, data, strict=True)
            self._held = {n: self._held[n] if n in self._held else pickle.loads(x) for n, x in pairs}
            function, args = pickle.loads(job)
            return pickle.dumps(function(*self._held.values(), *args), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            if not isinstance(error, PullbackError):
                error.add_note("in a worker:\n" + traceback.format_exc())
            return _pickled(error)

    def hello(self) -> bytes:
        return pickle.dumps(None)


def _pickled(error: Exception) -> bytes:
    """A pickled error; an error that cannot be pickled is replaced by one with the same text."""
    with contextlib.suppress(Exception):
        text = pickle.dumps(error)
        pickle.loads(text)
        return text
    return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


# --- processes --------------------------------------------------------------------------------------------------------


class Process:
    """A process of this machine, which ends when its parent process ends."""

    def __init__(self, cpus: int):
        context = multiprocessing.get_context("spawn")  # a fork would not survive Warp's threads
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, cpus), daemon=True)
        before = os.environ.get(THREADS)
        os.environ[THREADS] = str(cpus)
        try:
            self._process.start()
        finally:
            os.environ.pop(THREADS) if before is None else os.environ.update({THREADS: before})
            theirs.close()
        self._has: set[int] = set()

    def send(self, job: bytes, shared: Sequence[Shared]) -> None:
        numbers = [one.number for one in shared]
        with contextlib.suppress(OSError):  # ``receive`` will notice a dead worker
            self._pipe.send((job, numbers))
            for one in shared:
                self._pipe.send_bytes(b"" if one.number in self._has else one.data)
        self._has = set(numbers)

    def receive(self) -> bytes:
        try:
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise Gone from None

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


class Processes:
    """Workers on this machine."""

    dumps = staticmethod(pickle.dumps)

    def __init__(self, cpus: int):
        self._cpus = cpus

    def count(self) -> int:
        return max(1, cores_to_use(None) // self._cpus)

    def room(self) -> float:
        return math.inf

    def start(self) -> Process:
        return Process(self._cpus)

    def put(self, data: bytes) -> bytes:
        return data

    def wait(self, workers: Sequence[Process]) -> Process:
        """A worker that has answered or died."""
        ready = multiprocessing.connection.wait([worker._pipe for worker in workers])[0]
        return next(worker for worker in workers if worker._pipe is ready)


def _serve(pipe, cpus: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # interrupts are handled by the parent process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server = Server(cpus)
    with contextlib.suppress(EOFError, OSError):  # the parent process is gone
        pipe.send_bytes(server.hello())
        while True:
            job, numbers = pipe.recv()
            pipe.send_bytes(server.answer(job, numbers, *[pipe.recv_bytes() for _ in numbers]))


def _end_with_parent() -> None:
    """Ends this process with its parent, also during a job: a new process may repeat the job in the same folder."""
    multiprocessing.parent_process().join()
    os._exit(1)


# --- Ray --------------------------------------------------------------------------------------------------------------


class Actor:
    """An actor of a Ray cluster."""

    def __init__(self, ray, cpus: int):
        self._ray = ray
        options = {"num_cpus": cpus, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(Server).options(**options).remote(cpus)
        self.pending = self._actor.hello.remote()

    def send(self, job: bytes, shared: Sequence[Shared]) -> None:
        self.pending = self._actor.answer.remote(job, [one.number for one in shared], *[one.data for one in shared])

    def receive(self) -> bytes:
        try:
            return self._ray.get(self.pending)
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError):
            raise Gone from None

    def stop(self) -> None:
        if self._ray.is_initialized():
            self._ray.kill(self._actor)


class Cluster:
    """Workers on a running Ray cluster; this class does not start one."""

    def __init__(self, cpus: int, address: str):
        try:
            import ray
        except ImportError:
            raise PullbackError(f"address={address!r} is a Ray cluster's: pip install 'pullback[ray]'") from None
        self._ray, self._cpus, self.dumps = ray, cpus, ray.cloudpickle.dumps
        if not ray.is_initialized():
            handler = signal.getsignal(signal.SIGTERM)
            try:
                _look_for(address)
                ray.init(address=address, logging_level="warning")
            except (OSError, ValueError) as error:
                raise PullbackError(
                    f"there is no Ray cluster at {address!r}: start one with 'ray start --head' ({error})"
                ) from None
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(signal.SIGTERM, handler)
        if self.count() < 1:
            raise PullbackError(f"no worker of {cpus} CPUs fits into the Ray cluster at {address!r}")

    def count(self) -> int:
        nodes = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        return sum(int(cpu // self._cpus) for cpu in nodes)

    room = count  # the other workers start when there is room

    def start(self) -> Actor:
        return Actor(self._ray, self._cpus)

    def put(self, data: bytes):
        return self._ray.put(data)

    def wait(self, workers: Sequence[Actor]) -> Actor:
        ready, _ = self._ray.wait([worker.pending for worker in workers])
        return next(worker for worker in workers if worker.pending == ready[0])


def _look_for(address: str) -> None:
    """Raises an OSError if nothing listens at an address: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()


# --- the pool ---------------------------------------------------------------------------------------------------------

Choose = Callable[[Any, list[int], Sequence], int | None]


def first(worker, waiting: list[int], workers: Sequence) -> int | None:
    """The job that has waited longest."""
    return waiting[0]


class Pool:
    """Several workers, until the pool is closed.

    workers:  number of workers; None: as many as there are resources for
    cpus:     CPUs and threads of each
    address:  of a running Ray cluster, such as "auto" or "head:6379"; None: this machine
    most:     the most workers that are useful
    """

    def __init__(
        self, workers: int | None = None, *, cpus: int = 1, address: str | None = None, most: int | None = None
    ):
        cpus = check_whole(cpus, "cpus")
        if address is not None:
            check_kind(address, str, "address", '"auto"')
        self._place = Processes(cpus) if address is None else Cluster(cpus, address)
        count = self._place.count() if workers is None else check_whole(workers, "workers")
        count = count if most is None else min(count, most)
        self._numbers, self._runs = itertools.count(), itertools.count()
        self._failed = 0  # consecutive failures of workers to start
        self._busy: dict = {}  # worker: (run, job) that it is doing, or None while it starts
        self._idle: list = []
        self._closed = False
        for _ in range(count):
            self._busy[self._place.start()] = None
        with self._closed_by_interrupts():
            while len(self._idle) < min(count, self._place.room()):
                self._hear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        for worker in self.workers:
            worker.stop()
        self._busy, self._idle, self._closed = {}, [], True

    @property
    def workers(self) -> list:
        return [*self._busy, *self._idle]

    def share(self, value) -> Shared:
        """Shared data that jobs get as their first arguments."""
        return Shared(next(self._numbers), self._place.put(self._place.dumps(value)))

    def run(
        self, function: Callable, jobs: Sequence[tuple], shared: Sequence[Shared] = (), *, choose: Choose = first
    ) -> Iterator[tuple[int, Any]]:
        """Calls ``function(*shared, *job)`` for all jobs, and yields (index of the job, result) as they end.

        The result is an Exception if the function raised one, or if three workers died in the job.

        choose:  maps (a worker, indices of waiting jobs, all workers) to the job that the worker does next, or None
        """
        if self._closed:
            raise PullbackError("these workers were closed")
        run, deaths = next(self._runs), Counter()
        waiting, left = list(range(len(jobs))), len(jobs)
        while left:
            with self._closed_by_interrupts():
                for worker in list(self._idle):
                    if waiting and (job := choose(worker, waiting, self.workers)) is not None:
                        waiting.remove(job)
                        self._idle.remove(worker)
                        self._busy[worker] = run, job
                        worker.send(self._place.dumps((function, jobs[job])), shared)
                doing, found = self._hear()
            if doing is None or doing[0] != run:  # a worker has started, or has finished a job of an abandoned run
                continue
            job = doing[1]
            if found is Gone:
                deaths[job] += 1
                if deaths[job] < TRIES:
                    waiting.insert(0, job)
                    continue
                found = PullbackError(f"job {job} was given up: {TRIES} workers died of it, one after the other")
            left -= 1
            yield job, found

    def _hear(self) -> tuple[tuple[int, int] | None, Any]:
        """Waits for any worker. Returns its (run, job) and the result, which is Gone if it died and was replaced."""
        worker = self._place.wait(list(self._busy))
        doing = self._busy.pop(worker)
        try:
            found = pickle.loads(worker.receive())
        except Gone:
            worker.stop()
            self._busy[self._place.start()] = None
            self._failed += doing is None
            if self._failed >= TRIES:
                self.close()
                raise PullbackError(
                    f"workers die while they start: see above, or write {GUARD!r} in a script that uses workers"
                ) from None
            return doing, Gone
        self._idle.append(worker)
        self._failed = 0
        return doing, found

    @contextlib.contextmanager
    def _closed_by_interrupts(self) -> Iterator[None]:
        """Closes the pool on an interrupt, which may have come in the middle of a message."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self.close()
            raise
