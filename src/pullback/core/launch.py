"""Starting Warp and launching kernels: from any thread, on how many cores, and without a word unless it takes long.

Warp greets when it starts and reports every module that it loads, on standard output. Here it does neither. What can
take a minute, compiling kernels for the first time, is one line on standard error. ``wp.config.log_level`` has the last
word: LOG_WARNING drops that line too, and LOG_DEBUG shows all that Warp says. Warp's settings are as they were after
every call, so that the user's own kernels report as they always do.
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
_loaded: set[tuple] = set()  # (module, device, threads a block)
_started = False
_most_cores: int | None = None  # that this process may use, if it was told

# CUDA threads a block. A thread works on a world of its own for a long time, so what counts is that the blocks of some
# ten thousand worlds are spread over all multiprocessors.
BLOCK = 64
# What the gate of kernels that wait for each other holds once one of them cannot come; arrivals leave it negative.
CLOSED = -(2**30)
NO_DRIVER = b"Warp CUDA warning: Could not find or load the NVIDIA CUDA driver."


_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """The CPU threads of one System, or whatever else has one workspace, and the lock that guards that workspace.

    A fork copies no threads, and maybe a lock whose owner is not there: a child process starts with new ones.
    """

    def __init__(self):
        self.renew()
        _crews.add(self)

    def renew(self) -> None:
        self.lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def launch(self, commands: list[wp.Launch], gate: wp.array | None = None) -> None:
        """All of them at the same time. The caller holds the lock, and always comes with as many.

        gate: (1,) int32 of kernels that wait for each other. They meet there first, as ``kernels/cores.py`` does;
        if a thread cannot be started, it is closed, and those that came leave without having done anything.
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
            self._pool.shutdown(cancel_futures=True)  # waits for those that run
            self._pool = None
            raise
        try:
            for future in running:
                future.result()
        finally:
            wait(running)  # after an interrupt too: the workspace is theirs until then


def _renew_in_child() -> None:
    global _loading
    _loading = threading.Lock()
    for crew in list(_crews):
        crew.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)


def start_warp() -> None:
    """wp.init, quietly."""
    global _started
    with _loading:
        if not _started:
            with _quiet(), _without_driver_warning(), _cache_at_fault():
                wp.init()
            _started = True


def load(module: wp.Module, device: str, block_dim: int = BLOCK) -> bool:
    """Compiles a module of kernels unless Warp has it in its cache, loads it, and says whether it was compiled."""
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
    """Launches of kernels, kept for the next time: starting one again costs a fifth of a new one."""

    def __init__(self):
        self._recorded: dict = {}  # kernel: (command, the inputs it holds)

    def record(self, kernel, dim: int, inputs: tuple, device: str) -> wp.Launch:
        """A kernel with these inputs, ready to be launched. Always with the same dim and device."""
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
    """wp.launch, one at a time in the whole process."""
    load(kernel.module, device, block_dim)
    with _loading:
        return wp.launch(kernel, dim=dim, inputs=inputs, device=device, block_dim=block_dim, **options)


def cores_to_use(threads: int | None) -> int:
    """As many CPU threads as were asked for; all cores that this process may use if None."""
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cores if _most_cores is None else min(cores, _most_cores)
    return check_whole(threads, "threads")


def limit_cores(cores: int) -> None:
    """At most so many for this process from now on, as for a worker that shares a machine with others."""
    global _most_cores
    _most_cores = check_whole(cores, "cores")


def shares(count: int, parts: int) -> list[tuple[int, int]]:
    """First and end of as many parts of ``count`` items, as equal as they can be."""
    bounds = [count * part // parts for part in range(parts + 1)]
    return list(itertools.pairwise(bounds))


def _quiet() -> wp.ScopedLogLevel:
    level = wp.config.log_level
    return wp.ScopedLogLevel(max(level, wp.LOG_WARNING) if level > wp.LOG_DEBUG else level)


def _is_cached(module: wp.Module, device: str, block_dim: int) -> bool:
    """Whether Warp has compiled this before. There is no public way to ask, so look where it would keep it."""
    place = wp.get_device(device)
    block = 1 if place.is_cpu and not wp.config.enable_cpu_blocks else block_dim
    try:
        folder = os.path.join(wp.config.kernel_cache_dir, module.get_module_identifier(block))
        return os.path.exists(os.path.join(folder, module._get_compile_output_name(place, block_dim=block)))
    except (AttributeError, TypeError):  # another Warp: no note then
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
    """Of several processes that need a module, one compiles it, and the others wait and find it in the cache."""
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
    """Drops one line, which Warp's C++ writes straight to the descriptor: a computer without CUDA is no problem."""
    try:
        file, kept = tempfile.TemporaryFile(), os.dup(2)
    except OSError:  # no standard error, or nowhere to put it
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
