"""``pullback --completion SHELL``: a script with which a shell completes verbs, options, names and files.

The script is written once and holds all words, so that a press of the tabulator starts no Python.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from pullback.cli import common
from pullback.core.errors import PullbackError
from pullback.model.robots import SAMPLES
from pullback.tasks import TASKS

SHELLS = ("bash", "zsh", "fish")

# What an argument may be, by what its help calls it: a name of ours, or a file whose name ends so.
NAMES = {"ROBOT": tuple(SAMPLES), "TASK": tuple(TASKS), "FILE": tuple(SAMPLES), "POLICY": ()}
ENDINGS = {
    "ROBOT": ("xml", "urdf", "mjcf"), "TASK": ("py",), "ENV": ("py",), "POLICY": ("npz",),
    "FILE": ("npz", "xml", "urdf", "mjcf"),
}  # fmt: skip


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
    if action.metavar in ENDINGS:
        names = _environments() if action.metavar == "ENV" else NAMES[action.metavar]
        return _names_or_files(action.metavar.lower(), names, ENDINGS[action.metavar])
    if action.metavar == "DIR":
        return shtab.DIRECTORY
    return shtab.FILE if action.type is Path else None


def _environments() -> tuple[str, ...]:
    """Their names, where PyTorch is installed, without which there are none."""
    try:
        return tuple(common.learning()[0].ENVS)
    except PullbackError:
        return ()


def _names_or_files(what: str, names: tuple[str, ...], endings: tuple[str, ...]) -> dict:
    words = " ".join(names)
    function = f"_pullback_{what}_or_file"  # shtab lets bash treat what a function with "_file" gives as files
    in_bash = "; ".join(f"compgen -f -X '!*.{ending}' -- \"$1\"" for ending in endings)
    in_zsh = f'_files -g "*.({"|".join(endings)})"'
    in_fish = " ".join(f"(__fish_complete_suffix .{ending})" for ending in endings)
    return {
        "bash": function,
        "zsh": function,
        "fish": f"{words} {in_fish}",
        "preamble": {
            "bash": f'{function}() {{ compgen -W "{words}" -- "$1"; {in_bash}; compgen -d -- "$1"; }}',
            "zsh": f"{function}() {{ _alternative 'names:name:({words})' 'files:file:{in_zsh}' }}",
        },
    }
