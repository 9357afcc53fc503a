"""A bar for work that takes a while."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress


@contextlib.contextmanager
def progress_bar(what: str, total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A function that is told how much more was done. On a terminal it moves a bar, which is gone in the end."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not (wanted and console.is_terminal)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
