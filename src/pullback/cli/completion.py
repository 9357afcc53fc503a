"""``pullback --completion SHELL``: a script with which a shell completes verbs, options, names and files.

The script is written once and holds all words, so that a press of the tabulator starts no Python.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from pullback.model.robots import ROBOTS
from pullback.tasks import TASKS

SHELLS = ("bash", "zsh", "fish")

# What an argument may be besides a file, by what its help calls it.
NAMES = {"ROBOT": tuple(ROBOTS), "TASK": tuple(TASKS)}


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    for each in _all_parsers(parser):
        for action in each._actions:
            if completer := _completer(action):
                action.complete = completer
    return shtab.complete(parser, shell)


def _all_parsers(parser: argparse.ArgumentParser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _completer(action: argparse.Action) -> dict | None:
    """How shtab spells what may stand there: names of ours or files, a folder, or what argparse knows itself."""
    if action.metavar in NAMES:
        return _names_or_files(action.metavar.lower(), NAMES[action.metavar])
    if action.metavar == "DIR":
        return shtab.DIRECTORY
    is_file = action.metavar == "FILE" or action.type is Path
    return shtab.FILE if is_file else None


def _names_or_files(what: str, names: tuple[str, ...]) -> dict:
    words = " ".join(names)
    function = f"_pullback_{what}_or_file"  # shtab lets bash treat what a function with "_file" gives as files
    return {
        "bash": function,
        "zsh": function,
        "fish": f"{words} (__fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'{function}() {{ compgen -W "{words}" -- "$1"; compgen -f -- "$1"; }}',
            "zsh": f"{function}() {{ _alternative 'names:name:({words})' 'files:file:_files' }}",
        },
    }
