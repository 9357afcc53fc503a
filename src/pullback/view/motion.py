"""Motion files: what ``pullback simulate`` and ``pullback optimize`` write, and ``pullback view`` reads.

A motion file is a NumPy archive (.npz) without pickles. ``format`` says what it is. Arrays that start with ``draw_``
are the fields of a :class:`Drawing`: all that is needed to show the motion, without the robot's file, its meshes or
MuJoCo. The rest is for people and programs: the states, the controls, dt. docs/view.md lists them.
"""

from __future__ import annotations

import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from pullback.core.archives import read_arrays
from pullback.core.arrays import to_numpy
from pullback.core.checks import check_kind, check_path
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file
from pullback.drawing import Drawing
from pullback.rollout import Run

FORMAT = "pullback motion 1"
PREFIX = "draw_"


def draw_run(run: Run, *, title: str = "", ghost=None, losses=None, camera=None, bars=None) -> Drawing:
    """A drawing of a run of any System that has a method ``drawing``.

    ghost:   to compare with, as the System takes it: coordinates of a robot, as for :func:`draw`
    losses:  (n,) of an optimiser, over its iterations
    camera:  eye and what it looks at, (2, 3) [m]
    bars:    cotangents of a loss by the states, by name: q_bar, v_bar of a robot, whose gradients are drawn too
    """
    check_kind(run, Run, "run", "pb.rollout(system, state, controls)")
    kind = type(run.system).__name__
    if run.system.drawing is None:
        raise PullbackError(f"{kind} does not say what it looks like: give it a method drawing(run, *, ghost, bars)")
    drawing = run.system.drawing(run, ghost=ghost, bars=bars)
    check_kind(drawing, Drawing, f"what {kind}.drawing returns")
    if wrong := drawing.problem():
        raise PullbackError(f"what {kind}.drawing returns cannot be drawn: {wrong}")
    return drawing.labelled(title=title, losses=losses, camera=camera)


def save_motion(path, drawing: Drawing | None, **arrays) -> Path:
    """Write a motion file; ``arrays`` are kept beside the drawing. Without one it cannot be viewed, but still read."""
    path, drawn = check_path(path), {}
    if drawing is not None:
        check_kind(drawing, Drawing, "drawing", "draw_run(run)")
        drawn = {PREFIX + name: array for name, array in drawing.arrays().items()}
    held = {name: to_numpy(array) for name, array in arrays.items()}
    pickled = [name for name, array in held.items() if array.dtype.hasobject]
    if pickled:
        raise PullbackError(f"{pickled[0]} is no array of numbers or text, which is all that a motion file holds")
    with whole_file(path) as partial, open(partial, "wb") as file:
        np.savez_compressed(file, format=np.array(FORMAT), **held, **drawn)
    return path


def load_motion(path) -> Drawing:
    """Read the drawing of a motion file, or of a folder of results."""
    path = check_path(path)
    if path.is_dir():
        held = [name for name in ("result.npz", "motion.npz") if (path / name).is_file()]
        if not held:
            raise PullbackError(f"the folder {str(path)!r} holds neither result.npz nor motion.npz")
        path = path / held[0]
    writers = "'pullback simulate ROBOT' and 'pullback optimize TASK' write"
    if not path.exists():
        raise PullbackError(f"there is no file {str(path)!r}; {writers} motion files")
    if path.is_file() and not zipfile.is_zipfile(path):
        raise PullbackError(f"{str(path)!r} is no motion file: those are the .npz that {writers}")
    try:
        drawn = read_arrays(path, lambda name: name.startswith(PREFIX))
    except Exception as error:  # there is no end to what can be wrong with an archive
        raise PullbackError(f"{str(path)!r} cannot be read as a motion file: {error}") from None
    if not drawn:
        raise PullbackError(f"{str(path)!r} holds nothing to draw: those that do are what {writers}")
    held = {field.name: drawn[PREFIX + field.name] for field in fields(Drawing) if PREFIX + field.name in drawn}
    try:
        drawing = Drawing(**held)
    except TypeError:
        needed = [field.name for field in fields(Drawing) if field.default is field.default_factory]
        missing = next(name for name in needed if name not in held)
        raise PullbackError(f"{str(path)!r} is not a whole motion file: it has no {PREFIX}{missing}") from None
    if wrong := drawing.problem(PREFIX):
        raise PullbackError(f"{str(path)!r} is not a sound motion file: {wrong}")
    texts = {name: str(getattr(drawing, name)) for name in ("title", "paint_unit")}
    return replace(drawing, worlds=int(drawing.worlds), **texts)
