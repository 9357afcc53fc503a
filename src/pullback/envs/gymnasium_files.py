"""Robots of Gymnasium, from its own files where it is installed, and from ours where it is not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from pullback.model import Model, load, robots


def load_gymnasium(name: str, **options) -> Model:
    """ "ant" or "hopper", with options of :func:`pullback.load`."""
    found = find_spec("gymnasium")
    if found is not None and found.origin is not None:
        file = Path(found.origin).parent / "envs" / "mujoco" / "assets" / f"{name}.xml"
        if file.exists():
            return load(file, **options)
    return load(robots.ROBOTS[name](), **options)
