"""Folders of results: checks that they can be written to, and locks them for one process at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pullback.core.errors import PullbackError
from pullback.core.files import PARTIAL

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = ".lock"  # file in a folder of results that names the process that writes there
LOCKED_BYTE = 2**30  # the byte of it that Windows locks: outside of the text, which others could not read otherwise
LOOK_EVERY = 0.1  # while waiting for a lock [s]


def writable_folder(path: Path) -> Path:
    """The folder, created if necessary. Raises an error now rather than after the work if it cannot be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        trial = path / ".pullback-writes-here"
        trial.touch()
        trial.unlink(missing_ok=True)  # another process may have deleted it
    except OSError as error:
        raise PullbackError(f"cannot write to {str(path)!r}: {error.strerror or error}") from None
    return path


@contextlib.contextmanager
def held_folder(path: Path, *, patience: float = 0.0) -> Iterator[Path]:
    """A writable folder, locked against other commands. Incomplete files of a killed command are removed first.

    The lock is the operating system's, on an open file, so it ends with the process, however that ends.

    patience:  how long to wait for another process that holds the lock [s]
    """
    with open(writable_folder(path) / LOCK, "a+b", buffering=0) as file:
        until = time.monotonic() + patience
        while not locks(file.fileno()):
            if time.monotonic() < until:
                time.sleep(LOOK_EVERY)
                continue
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


def locks(file: int) -> bool:
    """Whether an open file is locked now. Also True where the file system does not support locks."""
    try:
        if sys.platform == "win32":
            os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
