"""A motion as one HTML file that any browser can play: no server, no network, nothing to install.

The page (``replay.html`` and its scripts) is a small WebGL2 viewer. This module fills in what it shows: the shapes of
the model, the pose of every moving body at every frame as packed float32, and the arrows of every frame. A body's pose
and a shape's fixed place on its body give the shape's pose; storing bodies keeps the files of robots with many visual
meshes small.
"""

from __future__ import annotations

import base64
import html
import json
import re
from importlib import resources
from pathlib import Path

import numpy as np

from pullback.core.checks import check_kind
from pullback.core.files import write_text
from pullback.drawing.drawing import PALETTE, Arrows, Drawing
from pullback.drawing.robot import draw
from pullback.drawing.surfaces import Surface, bead, simple_surface

MAX_LOSS_POINTS = 1000  # the loss is drawn about 200 pixels wide

# The page's program, in the order in which the parts build on each other.
PAGE_SCRIPTS = ("replay_scene.js", "replay_draw.js", "replay_page.js")


def write_replay(path, model, q, *, dt: float, fps: float = 60, title: str = "", ghost=None, loss=None) -> Path:
    """Write a self-contained HTML file that replays a motion in 3D, and return its path.

    path:  where to write; its folder must exist
    loss:  (n,) an optimiser's loss over its iterations, drawn as a small curve

    The others are those of :func:`draw`. Worlds are drawn together, all but the first translucent. Kept rows are exact;
    the page interpolates between them. Open it with ``#t=1.5`` after its address to start paused at 1.5 s.
    """
    return write_page(path, draw(model, q, dt=dt, fps=fps, title=title, ghost=ghost, losses=loss))


def write_page(path, drawing: Drawing) -> Path:
    """Write a drawing as a self-contained HTML file, and return its path."""
    check_kind(drawing, Drawing, "drawing", "draw_run(run)")
    fills = {
        "TITLE": html.escape(drawing.title or "Replay"),
        "SCENE": _script_safe_json(_scene(drawing)),
        "SCRIPTS": "\n".join(_page_part(name) for name in PAGE_SCRIPTS),
    }
    # One pass, so that a title which looks like a placeholder stays a title.
    page = re.sub(r"@@(TITLE|SCENE|SCRIPTS)@@", lambda place: fills[place[1]], _page_part("replay.html"))
    return write_text(path, page)


def _scene(drawing: Drawing) -> dict:
    """What the page reads."""
    bodies = np.unique(drawing.shape_body[drawing.body_moves[drawing.shape_body]])
    arrow = _packed_mesh(simple_surface("arrow", (1.0, 1.0, 1.0)))
    return {
        "duration": drawing.duration,
        "frame_dt": float(drawing.times[1]) if drawing.frames > 1 else 0.0,  # of all but the last: at the duration
        "frames": drawing.frames,
        "worlds": drawing.worlds,
        "ghosts": drawing.copies - drawing.worlds,
        "bodies": len(bodies),
        # (frames, worlds + ghosts, bodies, 7): position [m] and quaternion wxyz of the body's frame in the world
        "poses": _packed(drawing.poses[:, :, bodies], "<f4"),
        "geoms": [_geom(drawing, shape, bodies) for shape in range(len(drawing.shape_kind))],
        "meshes": [*map(_packed_mesh, drawing.meshes), arrow],  # the arrow is the last
        "forces": _packed_arrows([drawing.force_arrows(frame) for frame in range(drawing.frames)]),
        "gradients": _packed_arrows([drawing.gradient_arrows(frame) for frame in range(drawing.frames)]),
        "ball": _short(drawing.ball_radius),
        "camera": _short(drawing.camera),
        "loss": _thin(drawing.losses) if len(drawing.losses) else None,
        "paint": _paint(drawing) if len(drawing.paint) else None,
        "points": _points(drawing) if len(drawing.points) else None,
    }


def _paint(drawing: Drawing) -> dict:
    """Colours of the vertices of all meshes at every frame, (frames, n) uint8, and when their faces are seen (m, 2)."""
    starts = np.cumsum([0, *drawing.mesh_sizes[:, 0]])
    source = np.concatenate([start + mesh.source for start, mesh in zip(starts[:-1], drawing.meshes, strict=True)])
    always = np.tile([-1.0, 2 * drawing.duration + 1.0], (len(drawing.mesh_faces), 1))
    return {
        "palette": _packed(np.round(255 * PALETTE), "u1"),
        "range": _short(drawing.paint_range),
        "unit": drawing.paint_unit,
        "shades": _packed(drawing.paint[:, source], "u1"),
        "times": _packed(drawing.face_times if len(drawing.face_times) else always, "<f4"),
        # (frames, n, 3) of those that are deformed [m]
        "motion": _packed(drawing.mesh_motion[:, source], "<f4") if len(drawing.mesh_motion) else None,
        "starts": [  # of the vertices and faces of each mesh
            np.cumsum([0, *(len(mesh.vertices) for mesh in drawing.meshes)]).tolist(),
            np.cumsum([0, *drawing.mesh_sizes[:, 1]]).tolist(),
        ],
    }


def _points(drawing: Drawing) -> dict:
    """Places (frames, n, 3) float32, shades (frames, n) uint8 and radii (n,) float32 of balls, and one of them."""
    return {
        "places": _packed(drawing.points, "<f4"),
        "shades": _packed(drawing.point_paint, "u1"),
        "radius": _packed(drawing.point_radius, "<f4"),
        "palette": _packed(np.round(255 * PALETTE), "u1"),
        "range": _short(drawing.paint_range),
        "unit": drawing.paint_unit,
        "bead": _packed_mesh(bead()),
    }


def _geom(drawing: Drawing, shape: int, bodies: np.ndarray) -> dict:
    kind, size, body = str(drawing.shape_kind[shape]), drawing.shape_size[shape], drawing.shape_body[shape]
    round_ends = kind == "capsule"
    middle, half = drawing.half_box(shape)
    pos, quat = drawing.place(shape)
    entry = {
        "shape": f"mesh {drawing.shape_mesh[shape]}" if kind == "mesh" else kind,
        "scale": [size[0]] * 3 if round_ends else size,
        "stretch": size[2] if round_ends else 0.0,
        "body": int(np.searchsorted(bodies, body)) if drawing.body_moves[body] else -1,
        "pos": pos,
        "quat": quat,
        "box": [*middle, *half],
        "colours": drawing.shape_colours[shape],
    }
    return {key: _short(value) for key, value in entry.items()}


def _thin(loss: np.ndarray) -> list:
    kept = np.unique(np.linspace(0, loss.size - 1, min(loss.size, MAX_LOSS_POINTS)).round().astype(int))
    return [[int(iteration), _short(loss[iteration])] for iteration in kept]


# --- writing it down --------------------------------------------------------------------------------------------------


def _packed_mesh(mesh: Surface) -> dict:
    """Positions (n, 3) float32, normals (n, 4) int8 with one to pad, indices (3m,) uint32."""
    padded = np.pad(mesh.normals, ((0, 0), (0, 1)))
    return {
        "positions": _packed(mesh.vertices, "<f4"),
        "normals": _packed(padded, "i1"),
        "indices": _packed(mesh.faces, "<u4"),
    }


def _packed_arrows(frames: list[Arrows]) -> dict | None:
    """The arrows of all frames, one after the other (n, 10), and where those of each frame start (frames + 1,)."""
    starts = np.cumsum([0, *(len(arrows.pos) for arrows in frames)])
    if starts[-1] == 0:
        return None
    rows = np.concatenate([np.concatenate(arrows, axis=1) for arrows in frames])
    return {"starts": _packed(starts, "<u4"), "rows": _packed(rows, "<f4")}


def _page_part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _packed(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode("ascii")


def _short(value):
    """Numbers to seven digits, which is what float32 holds, inside whatever lists or arrays they come in."""
    if isinstance(value, str | int):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return [_short(entry) for entry in value]
    return float(f"{float(value):.7g}")


def _script_safe_json(value) -> str:
    """JSON that cannot end the script element it is put into."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
