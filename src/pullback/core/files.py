"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from pullback.core.checks import check_path
from pullback.core.errors import PullbackError

# Prefix of the names of files that are not complete yet. A killed process may leave one behind.
PARTIAL = ".partial-"


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside ``path`` to write to, and moves the file to ``path`` at the end.

    Readers find the old file or the new one, never a part of it, and two writers at once do not mix. If writing fails,
    as on a full disk, the old file stays, the temporary one is deleted, and the error is one line.
    """
    path = check_path(path)
    if not path.name or "\0" in str(path):
        raise PullbackError(f"cannot write {str(path)!r}: that is not the name of a file")
    target = Path(os.path.realpath(path))  # a link stays one
    replaceable = os.path.isfile(target) or not os.path.exists(target)  # /dev/null is not
    partial = target.with_name(f"{PARTIAL}{secrets.token_hex(4)}{target.suffix}") if replaceable else target
    try:
        yield partial
        if replaceable:
            os.replace(partial, target)
    except OSError as error:
        raise PullbackError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    finally:
        if replaceable:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> Path:
    """Writes a text as UTF-8. Characters that UTF-8 cannot encode become question marks."""
    with whole_file(path) as partial:
        partial.write_bytes(text.encode("utf-8", errors="replace"))
    return Path(path)
