"""Motion files: what ``pullback simulate`` and ``pullback optimize`` write, and ``pullback view`` reads.

A motion file is a NumPy archive (.npz) without pickles. ``format`` says what it is. Arrays that start with ``draw_``
are the fields of a :class:`Drawing`: all that is needed to show the motion, without the robot's file, its meshes or
MuJoCo. The rest is for people and programs: the states, the controls, dt. docs/view.md lists them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from pullback.core.archives import read_arrays
from pullback.core.arrays import to_numpy
from pullback.core.checks import check_kind, check_path
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.files import whole_file
from pullback.dynamics import Articulated
from pullback.rollout import Run
from pullback.view.drawing import Drawing, draw, frame_rows
from pullback.view.pushes import body_gradients, record_contacts

FORMAT = "pullback motion 1"
PREFIX = "draw_"
# Kinds of dtypes, as NumPy calls them, of the fields that are not simply numbers.
DTYPES = {
    "U": ("title", "shape_kind", "paint_unit"),
    "b": ("body_moves",),
    "iu": ("paint", "worlds", "shape_mesh", "shape_body", "mesh_faces", "mesh_sizes", "contact_frame"),
}
# What files of earlier versions lack: nothing is painted then.
UNPAINTED = {
    "paint": np.zeros((0, 0), np.uint8), "paint_range": np.zeros(0), "paint_unit": np.array(""),
    "face_times": np.zeros((0, 2)),
}  # fmt: skip
KINDS = ("plane", "sphere", "capsule", "cylinder", "box", "mesh")


def draw_run(run: Run, *, title: str = "", ghost=None, losses=None, camera=None, bars=None) -> Drawing:
    """A drawing of a run of an Articulated System, with its contacts.

    bars: q_bar, v_bar of a loss, by name, whose gradients are drawn too; the rest as for :func:`draw`
    """
    check_kind(run, Run, "run", "pb.rollout(system, state, controls)")
    if bars is not None:
        check_kind(bars, Mapping, "bars", '{"q_bar": q_bar}')
    if not isinstance(run.system, Articulated):
        raise PullbackError(f"draw_run draws an Articulated System, not {type(run.system).__name__}")
    model = run.system.model
    if run.checkpoint_every != 1:
        raise PullbackError("a run that is drawn needs all its states: make it with checkpoint_every=1")
    q = to_numpy(run.q)
    steps = frame_rows(len(q), model.timestep)
    drawing = draw(model, q, dt=model.timestep, title=title, ghost=ghost, losses=losses, camera=camera)
    found = record_contacts(run.system, run.states, run.controls, steps, run.params)
    if bars:
        try:
            found["body_gradients"] = body_gradients(run, steps, **{str(name): bar for name, bar in bars.items()})
        except GradientOverflow:  # the motion can be shown all the same
            pass
    return replace(drawing, **found)


def save_motion(path, drawing: Drawing | None, **arrays) -> Path:
    """Write a motion file; ``arrays`` are kept beside the drawing. Without one it cannot be viewed, but still read."""
    path, drawn = check_path(path), {}
    if drawing is not None:
        check_kind(drawing, Drawing, "drawing", "draw_run(run)")
        drawn = {PREFIX + field.name: np.asarray(getattr(drawing, field.name)) for field in fields(drawing)}
    held = {name: to_numpy(array) for name, array in arrays.items()}
    pickled = [name for name, array in held.items() if array.dtype.hasobject]
    if pickled:
        raise PullbackError(f"{pickled[0]} is no array of numbers or text, which is all that a motion file holds")
    with whole_file(path) as partial, open(partial, "wb") as file:
        np.savez_compressed(file, format=np.array(FORMAT), **held, **drawn)
    return path


def load_motion(path) -> Drawing:
    """Read what is drawn in a motion file, or in the one that a folder of results holds."""
    path = check_path(path)
    if path.is_dir():
        held = [name for name in ("result.npz", "motion.npz") if (path / name).is_file()]
        if not held:
            raise PullbackError(f"the folder {str(path)!r} holds neither result.npz nor motion.npz")
        path = path / held[0]
    if path.is_file() and not zipfile.is_zipfile(path):
        raise PullbackError(
            f"{str(path)!r} is no motion file: those are the .npz that 'pullback simulate ROBOT' and "
            "'pullback optimize TASK' write"
        )
    try:
        drawn = read_arrays(path, lambda name: name.startswith(PREFIX))
        if not drawn:
            raise PullbackError(
                f"{str(path)!r} holds nothing to draw: write it with 'pullback simulate' or 'pullback optimize'"
            )
        wanted = [
            field.name for field in fields(Drawing) if PREFIX + field.name in drawn or field.name not in UNPAINTED
        ]
        held = UNPAINTED | {name: drawn[PREFIX + name] for name in wanted}
    except PullbackError:
        raise
    except FileNotFoundError:
        raise PullbackError(
            f"there is no file {str(path)!r}; 'pullback simulate ROBOT' and 'pullback optimize TASK' write motion files"
        ) from None
    except KeyError as error:
        raise PullbackError(f"{str(path)!r} is not a whole motion file: it has no {error.args[0]}") from None
    except Exception as error:  # there is no end to what can be wrong with an archive
        raise PullbackError(f"{str(path)!r} cannot be read as a motion file: {error}") from None
    if problem := _problem(held):
        raise PullbackError(f"{str(path)!r} is not a sound motion file: {problem}")
    texts = {name: str(held[name]) for name in ("title", "paint_unit")}
    return Drawing(**{**held, **texts, "worlds": int(held["worlds"])})


def _problem(held: dict[str, np.ndarray]) -> str:
    """What is wrong with the fields of a drawing, or "": files come from anywhere."""
    for name, array in held.items():
        if array.dtype.kind not in next((kinds for kinds, names in DTYPES.items() if name in names), "iuf"):
            return f"{PREFIX}{name} holds {array.dtype}"
    frames, shapes, bodies = held["times"].size, held["shape_kind"].size, held["body_moves"].size
    copies = held["poses"].shape[1] if held["poses"].ndim == 4 else 0
    meshes, contacts = held["mesh_sizes"].size // 2, held["contact_frame"].size
    vertices, faces = held["mesh_vertices"].size // 3, held["mesh_faces"].size // 3
    painted = bool(held["paint"].size)
    gradients = held["body_gradients"].shape
    if len(gradients) != 3 or gradients[0]:
        gradients = (frames, bodies, 3)
    expected = {
        **{"title": (), "worlds": (), "times": (frames,), "poses": (frames, copies, bodies, 7)},
        **{"shape_kind": (shapes,), "shape_size": (shapes, 3), "shape_mesh": (shapes,), "shape_body": (shapes,)},
        **{"shape_pos": (shapes, 3), "shape_quat": (shapes, 4), "shape_colours": (shapes, 2, 4)},
        **{"mesh_vertices": (vertices, 3), "mesh_faces": (faces, 3), "paint_unit": ()},
        **{"paint": (frames, vertices) if painted else (0, 0), "paint_range": (2 * painted,)},
        **{"face_times": (faces if held["face_times"].size else 0, 2)},
        **{"mesh_sizes": (meshes, 2), "body_moves": (bodies,), "body_com": (bodies, 3), "body_gradients": gradients},
        **{"contact_frame": (contacts,), "contact_pos": (contacts, 3), "contact_force": (contacts, 3)},
        **{"losses": (held["losses"].size,), "camera": (2 if held["camera"].size else 0, 3)},
    }
    for name, shape in expected.items():
        if held[name].shape != shape:
            return f"{PREFIX}{name} has shape {held[name].shape}, not {shape}"
        if held[name].dtype.kind == "f" and not np.isfinite(held[name]).all() and name != "losses":
            return f"{PREFIX}{name} is not finite"
    if not frames or not 1 <= held["worlds"] <= copies or np.any(np.diff(held["times"]) <= 0):
        return "there must be frames, their times rising, and worlds"
    if not set(held["shape_kind"].tolist()) <= set(KINDS):
        return f"a shape is one of {', '.join(KINDS)}"
    of_mesh = held["shape_mesh"][held["shape_kind"] == "mesh"]
    vertices, faces = held["mesh_sizes"].T
    inside = (
        _within(held["shape_body"], bodies)
        and _within(of_mesh, meshes)
        and np.all(held["mesh_sizes"] >= 0)
        and (vertices.sum(), faces.sum()) == (len(held["mesh_vertices"]), len(held["mesh_faces"]))
        and _within(held["mesh_faces"], np.repeat(vertices, faces)[:, None])
        and _within(held["contact_frame"], frames)
        and np.all(np.diff(held["contact_frame"]) >= 0)
    )
    return "" if inside else "an index in it leads nowhere"


def _within(index: np.ndarray, count) -> bool:
    return bool(np.all((index >= 0) & (index < count)))
