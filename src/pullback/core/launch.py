"""Starting Warp and launching kernels, from any thread, on a given number of cores.

Warp prints a greeting when it starts and a report for every module that it loads. Both are suppressed here. Compiling
kernels for the first time can take a minute, and is announced by one line on standard error. ``wp.config.log_level``
overrides this: LOG_WARNING suppresses that line too, and LOG_DEBUG shows all that Warp prints. Warp's settings are
restored after every call, so that the user's own kernels report as usual.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor, wait

import warp as wp

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.core.folders import LOOK_EVERY, locks

# Warp loads a kernel's module at its first launch, and not safely from several threads at once.
_loading = threading.Lock()
_loaded: set[tuple] = set()  # (module, device, threads per block)
_started = False
_most_cores: int | None = None  # the most that this process may use, if it was limited

# CUDA threads per block. A thread works on one world for a long time, so the blocks of some ten thousand worlds must be
# spread over all multiprocessors.
BLOCK = 64
# The value of the gate of kernels that wait for each other when one of them cannot start; arrivals leave it negative.
CLOSED = -(2**30)
NO_DRIVER = b"Warp CUDA warning: Could not find or load the NVIDIA CUDA driver."


_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """The CPU threads of one System, or of any other owner of a workspace, and the lock that guards the workspace.

    A fork copies no threads, and may copy a locked lock whose owner does not exist: a child process gets new ones.
    """

    def __init__(self):
        self.renew()
        _crews.add(self)

    def renew(self) -> None:
        self.lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def launch(self, commands: list[wp.Launch], gate: wp.array | None = None) -> None:
        """Launches all commands at the same time. The caller holds the lock; the number of commands never changes.

        gate: (1,) int32 for kernels that wait for each other. They meet there first, as in ``kernels/cores.py``. If a
        thread cannot be started, the gate is closed, and the kernels that arrived return without any effect.
        """
        if gate is not None:
            gate.zero_()
        if len(commands) == 1:
            commands[0].launch()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(commands))
        running = []
        try:
            for command in commands:
                running.append(self._pool.submit(command.launch))
        except BaseException:
            if gate is not None:
                gate.numpy()[0] = CLOSED
            self._pool.shutdown(cancel_futures=True)  # waits for the running ones
            self._pool = None
            raise
        try:
            for future in running:
                future.result()
        finally:
            wait(running)  # after an interrupt too: they use the workspace until they end


def _renew_in_child() -> None:
    global _loading
    _loading = threading.Lock()
    for crew in list(_crews):
        crew.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)


def start_warp() -> None:
    """wp.init without its output."""
    global _started
    with _loading:
        if not _started:
            with _quiet(), _without_driver_warning(), _cache_at_fault():
                wp.init()
            _started = True


def load(module: wp.Module, device: str, block_dim: int = BLOCK) -> bool:
    """Loads a module of kernels, compiling it unless it is in Warp's cache; returns whether it was compiled."""
    key = (module, device, block_dim)
    if key in _loaded:
        return False
    start_warp()
    with _loading, _compiling_alone(module, device, block_dim):
        compiled = not _is_cached(module, device, block_dim)
        if compiled and wp.config.log_level == wp.LOG_INFO:
            name = module.name.removeprefix("pullback.kernels.")
            long = "up to a minute" if device == "cpu" else "some minutes"
            note = f"Compiling kernels {name} for {device} (first use: {long}; cached afterwards)"
            print(note, file=sys.stderr, flush=True)
        with _quiet(), _cache_at_fault():
            wp.load_module(module, device=device, block_dim=block_dim)
        _loaded.add(key)
    return compiled


class Recorder:
    """Recorded launches of kernels: launching a recorded one again costs a fifth of a new launch."""

    def __init__(self):
        self._recorded: dict = {}  # kernel: (command, the inputs it holds)

    def record(self, kernel, dim: int, inputs: tuple, device: str) -> wp.Launch:
        """A kernel with these inputs, ready to be launched. A kernel must always come with the same dim and device."""
        if kernel in self._recorded:
            command, held = self._recorded[kernel]
            for i, (new, old) in enumerate(zip(inputs, held, strict=True)):
                if new is not old:
                    command.set_param_at_index(i, new)
        else:
            command = launch(kernel, dim, list(inputs), device, record_cmd=True)
        self._recorded[kernel] = (command, inputs)
        return command


def launch(kernel, dim, inputs: list, device: str, *, block_dim: int = BLOCK, **options) -> wp.Launch | None:
    """wp.launch, serialised over the whole process."""
    load(kernel.module, device, block_dim)
    with _loading:
        return wp.launch(kernel, dim=dim, inputs=inputs, device=device, block_dim=block_dim, **options)


def cores_to_use(threads: int | None) -> int:
    """The number of CPU threads that was asked for; if None, all cores that this process may use."""
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cores if _most_cores is None else min(cores, _most_cores)
    return check_whole(threads, "threads")


def limit_cores(cores: int) -> None:
    """Limits this process to so many cores from now on, as for a worker that shares a machine with others."""
    global _most_cores
    _most_cores = check_whole(cores, "cores")


def shares(count: int, parts: int) -> list[tuple[int, int]]:
    """(first, end) of each of ``parts`` nearly equal parts of ``count`` items."""
    bounds = [count * part // parts for part in range(parts + 1)]
    return list(itertools.pairwise(bounds))


def _quiet() -> wp.ScopedLogLevel:
    level = wp.config.log_level
    return wp.ScopedLogLevel(max(level, wp.LOG_WARNING) if level > wp.LOG_DEBUG else level)


def _is_cached(module: wp.Module, device: str, block_dim: int) -> bool:
    """Whether a compiled module is in Warp's cache. There is no public way to ask, so this looks for its file."""
    place = wp.get_device(device)
    block = 1 if place.is_cpu and not wp.config.enable_cpu_blocks else block_dim
    try:
        folder = os.path.join(wp.config.kernel_cache_dir, module.get_module_identifier(block))
        return os.path.exists(os.path.join(folder, module._get_compile_output_name(place, block_dim=block)))
    except (AttributeError, TypeError):  # a Warp version with other internals: print no note then
        return True


@contextlib.contextmanager
def _cache_at_fault():
    try:
        yield
    except OSError as error:
        raise PullbackError(
            f"compiled kernels cannot be kept: {error}; set the environment variable WARP_CACHE_PATH to a folder with "
            "room that may be written to"
        ) from None


@contextlib.contextmanager
def _compiling_alone(module: wp.Module, device: str, block_dim: int):
    """If several processes need a module, one compiles it; the others wait and then find it in the cache."""
    with contextlib.ExitStack() as stack:
        if not _is_cached(module, device, block_dim):
            with contextlib.suppress(OSError):
                name = f"{module.name}-{device.replace(':', '-')}.lock"
                file = stack.enter_context(open(os.path.join(wp.config.kernel_cache_dir, name), "a+b", buffering=0))
                while not locks(file.fileno()):
                    time.sleep(LOOK_EVERY)
        yield


@contextlib.contextmanager
def _without_driver_warning():
    """Drops the line about a missing CUDA driver, which Warp's C++ code writes directly to the file descriptor."""
    try:
        file, kept = tempfile.TemporaryFile(), os.dup(2)
    except OSError:  # no standard error, or no place for a temporary file
        yield
        return
    with file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            said = [line for line in file if not line.startswith(NO_DRIVER)]
            os.write(2, b"".join(said))
