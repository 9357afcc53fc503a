"""A motion as one HTML file that any browser can play: no server, no network, nothing to install.

The page (``replay.html`` and its scripts) is a small WebGL2 viewer. This module fills in what it shows: the shapes of
the model, and the pose of every moving body at every frame, as packed float32. A body's pose and a shape's fixed place
on its body give the shape's pose; storing bodies keeps the files of robots with many visual meshes small.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
from importlib import resources
from pathlib import Path

import mujoco
import numpy as np

from pullback.core.errors import PullbackError

# MuJoCo's own viewers show these groups at first; by custom the others hold collision shapes.
SHOWN_GROUPS = 3
# A geom of this colour that has a material takes the material's colour: MuJoCo's rule, this being the default colour.
UNSET_RGBA = (0.5, 0.5, 0.5, 1.0)
# Faces of a mesh that meet at a smaller angle are shaded as one smooth surface; a sharper edge stays visible.
CREASE_ANGLE = math.radians(35.0)
# Browsers refuse or stall on pages far beyond this; better to say so while the file is written. [bytes]
MAX_POSE_BYTES = 256 * 2**20
MAX_LOSS_POINTS = 1000  # the loss is drawn about 200 pixels wide

# The page's program, in the order in which the parts build on each other.
PAGE_SCRIPTS = ("replay_scene.js", "replay_draw.js", "replay_page.js")

_Geom = mujoco.mjtGeom


def write_replay(path, model, q, *, dt: float, fps: float = 60, title: str = "", ghost=None, loss=None) -> Path:
    """Write a self-contained HTML file that replays a motion in 3D, and return its path.

    Args:
        path: where to write; its folder must exist.
        model: a :class:`pullback.Model`.
        q: (T+1, nq) or (T+1, worlds, nq) coordinates. Worlds are drawn together, all but the first translucent.
        dt: time between two rows of ``q`` [s].
        fps: about how many rows a second to keep [1/s]. Kept rows are exact; the page interpolates between them.
        title: shown on the page; the model's name if empty.
        ghost: (nq,), (rows, nq) or (rows, worlds, nq) coordinates to compare with, such as a target or the motion
            before optimising, drawn translucent in one colour. The shorter of motion and ghost holds its last pose.
        loss: (n,) an optimiser's loss over its iterations, drawn as a small curve.

    Open the page with ``#t=1.5`` after its address to start paused at 1.5 s.
    """
    mj_model = getattr(model, "mujoco", None)
    if not isinstance(mj_model, mujoco.MjModel):
        raise PullbackError(f"model must be a pullback Model, not {type(model).__name__}")
    dt = _positive("dt", dt)
    fps = _positive("fps", fps)
    if not isinstance(title, str):
        raise PullbackError(f"title must be a string, not {type(title).__name__}")
    motions = [_motion("q", q, model.nq)]
    if ghost is not None:
        motions.append(_motion("ghost", ghost, model.nq, pose_allowed=True))
    losses = None if loss is None else _loss(loss)

    last_row = max(len(motion) for motion in motions) - 1
    stride = max(1, round(1.0 / (fps * dt)))
    rows = np.append(np.arange(0, last_row, stride), last_row)
    copies = sum(motion.shape[1] for motion in motions)

    shown = _shown_geoms(mj_model)
    moving = mj_model.body_weldid[mj_model.geom_bodyid[shown]] != 0
    bodies = np.unique(mj_model.geom_bodyid[shown][moving])
    pose_bytes = len(rows) * copies * len(bodies) * 7 * 4
    if pose_bytes > MAX_POSE_BYTES:
        raise PullbackError(
            f"{len(rows)} frames of {copies} worlds with {len(bodies)} moving bodies would take"
            f" {pose_bytes / 2**20:.0f} MiB, more than a browser handles well ({MAX_POSE_BYTES // 2**20} MiB):"
            " pass fewer worlds, or a lower fps"
        )

    geoms, meshes = _scene_geoms(mj_model, shown, bodies)
    scene = {
        "duration": last_row * dt,
        "frame_dt": stride * dt,  # of all frames but the last, which is at the duration
        "frames": len(rows),
        "worlds": motions[0].shape[1],
        "ghosts": copies - motions[0].shape[1],
        "bodies": len(bodies),
        # (frames, worlds + ghosts, bodies, 7): position [m] and quaternion wxyz of the body's frame in the world
        "poses": _packed(_body_poses(mj_model, motions, rows, bodies), "<f4"),
        "geoms": geoms,
        "meshes": meshes,
        "loss": losses,
    }
    fills = {
        "TITLE": html.escape(title or _model_name(mj_model) or "Replay"),
        "SCENE": _script_safe_json(scene),
        "SCRIPTS": "\n".join(_page_part(name) for name in PAGE_SCRIPTS),
    }
    # One pass, so that a title which looks like a placeholder stays a title.
    page = re.sub(r"@@(TITLE|SCENE|SCRIPTS)@@", lambda place: fills[place[1]], _page_part("replay.html"))

    try:
        target = Path(path)
        # A name with broken characters should not stop a replay from being written.
        target.write_bytes(page.encode("utf-8", errors="replace"))
    except (OSError, TypeError, ValueError) as problem:
        raise PullbackError(f"cannot write the replay to {path!r}: {problem}") from None
    return target


# What the caller gives


def _positive(name: str, value) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise PullbackError(f"{name} must be a number, not {value!r}") from None
    if not (math.isfinite(number) and number > 0.0):
        raise PullbackError(f"{name} must be positive and finite, not {number}")
    return number


def _real_array(name: str, values) -> np.ndarray:
    try:
        array = np.asarray(values)
        if not (np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)):
            raise TypeError(f"it holds {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise PullbackError(f"{name} must be an array of real numbers: {problem}") from None


def _motion(name: str, values, nq: int, *, pose_allowed: bool = False) -> np.ndarray:
    """Coordinates as (rows, worlds, nq), checked."""
    motion = _real_array(name, values)
    given = motion.shape
    if motion.ndim == 1 and pose_allowed:
        motion = motion[None]
    if motion.ndim == 2:
        motion = motion[:, None]
    if motion.ndim != 3 or motion.shape[2] != nq:
        allowed = f"(nq,), (rows, nq) or (rows, worlds, nq) with nq = {nq}"
        raise PullbackError(f"{name} must have shape {allowed if pose_allowed else allowed[7:]}, not {given}")
    if motion.shape[0] == 0 or motion.shape[1] == 0:
        raise PullbackError(f"{name} of shape {given} has no {'rows' if motion.shape[0] == 0 else 'worlds'} to show")
    if not np.isfinite(motion).all():
        row, world, coordinate = np.argwhere(~np.isfinite(motion))[0]
        raise PullbackError(f"{name} is not finite at row {row}, world {world}, coordinate {coordinate}")
    return motion


def _loss(values) -> list[float]:
    loss = _real_array("loss", values)
    if loss.ndim != 1 or loss.size == 0:
        raise PullbackError(f"loss must have shape (n,) with n >= 1, not {loss.shape}")
    if not np.isfinite(loss).all():
        raise PullbackError(f"loss[{int(np.argmin(np.isfinite(loss)))}] is not finite")
    kept = np.unique(np.linspace(0, loss.size - 1, min(loss.size, MAX_LOSS_POINTS)).round().astype(int))
    return [[int(iteration), _short(loss[iteration])] for iteration in kept]


# What moves


def _body_poses(mj_model, motions: list[np.ndarray], rows: np.ndarray, bodies: np.ndarray) -> np.ndarray:
    """Position and quaternion of each body, (frames, copies, bodies, 7) float32."""
    data = mujoco.MjData(mj_model)
    copies = [(motion, world) for motion in motions for world in range(motion.shape[1])]
    poses = np.empty((len(rows), len(copies), len(bodies), 7), dtype=np.float32)
    for copy, (motion, world) in enumerate(copies):
        for frame, row in enumerate(np.minimum(rows, len(motion) - 1)):
            data.qpos[:] = motion[row, world]
            mujoco.mj_kinematics(mj_model, data)
            with np.errstate(over="ignore"):  # caught below, with a message that says where
                poses[frame, copy, :, :3] = data.xpos[bodies]
                poses[frame, copy, :, 3:] = data.xquat[bodies]
    if not np.isfinite(poses).all():
        frame, copy = np.argwhere(~np.isfinite(poses))[0][:2]
        raise PullbackError(f"bodies are too far away to draw at row {rows[frame]}, world {copies[copy][1]}")
    return poses


# What is drawn


def _shown_geoms(mj_model) -> np.ndarray:
    """Indices of the geoms to draw."""
    drawable = np.array([_geom_rgba(mj_model, geom)[3] > 0.0 for geom in range(mj_model.ngeom)], dtype=bool)
    in_shown_group = mj_model.geom_group < SHOWN_GROUPS
    on_moving_body = mj_model.body_weldid[mj_model.geom_bodyid] != 0
    if not (drawable & in_shown_group & on_moving_body).any():
        in_shown_group |= on_moving_body  # a robot made of collision shapes alone is better seen than missing
    return np.flatnonzero(drawable & in_shown_group)


def _scene_geoms(mj_model, shown: np.ndarray, bodies: np.ndarray) -> tuple[list[dict], list[dict]]:
    """The page's geoms and the meshes they use."""
    data = mujoco.MjData(mj_model)
    mujoco.mj_kinematics(mj_model, data)
    slot_of_body = {int(body): slot for slot, body in enumerate(bodies)}
    geoms, meshes, slot_of_mesh = [], [], {}
    for geom in shown:
        kind, size, asset = _Geom(mj_model.geom_type[geom]), mj_model.geom_size[geom], int(mj_model.geom_dataid[geom])
        entry = {"scale": [1.0, 1.0, 1.0], "stretch": 0.0}
        if kind == _Geom.mjGEOM_PLANE:
            entry.update(shape="plane", scale=[*size[:2], 1.0])  # half sizes; zero: endless
        elif kind == _Geom.mjGEOM_SPHERE:
            entry.update(shape="sphere", scale=[size[0]] * 3)
        elif kind == _Geom.mjGEOM_ELLIPSOID:
            entry.update(shape="sphere", scale=size)
        elif kind == _Geom.mjGEOM_CAPSULE:
            entry.update(shape="capsule", scale=[size[0]] * 3, stretch=size[1])
        elif kind == _Geom.mjGEOM_CYLINDER:
            entry.update(shape="cylinder", scale=[size[0], size[0], size[1]])
        elif kind == _Geom.mjGEOM_BOX:
            entry.update(shape="box", scale=size)
        elif asset >= 0:  # a mesh, a signed distance field that comes with one, or a height field
            key = (kind == _Geom.mjGEOM_HFIELD, asset)
            if key not in slot_of_mesh:
                slot_of_mesh[key] = len(meshes)
                meshes.append(_packed_mesh(*(_height_field(mj_model, asset) if key[0] else _mesh(mj_model, asset))))
            entry.update(shape=f"mesh {slot_of_mesh[key]}")
        else:
            continue

        body = slot_of_body.get(int(mj_model.geom_bodyid[geom]), -1)
        if body < 0:  # fixed to the world: its pose there, once
            pos, quat = data.geom_xpos[geom], np.empty(4)
            mujoco.mju_mat2Quat(quat, data.geom_xmat[geom])
        else:
            pos, quat = mj_model.geom_pos[geom], mj_model.geom_quat[geom]
        colours = _geom_colours(mj_model, geom)
        entry.update(body=body, pos=pos, quat=quat, box=mj_model.geom_aabb[geom], colours=colours)
        geoms.append({key: _short(value) for key, value in entry.items()})
    return geoms, meshes


def _geom_rgba(mj_model, geom: int) -> np.ndarray:
    material = mj_model.geom_matid[geom]
    rgba = mj_model.geom_rgba[geom]
    if material >= 0 and np.array_equal(rgba, np.float32(UNSET_RGBA)):
        rgba = mj_model.mat_rgba[material]
    return np.clip(np.nan_to_num(rgba), 0.0, 1.0)


def _geom_colours(mj_model, geom: int) -> np.ndarray:
    """Two colours, (2, 4) RGBA: those of a plane's squares, or the same one twice.

    Textures are not drawn, but their colours are kept: a plane takes one from the middle of each of two neighbouring
    quarters, which are the squares of a checker texture; anything else takes the mean.
    """
    colours = np.tile(_geom_rgba(mj_model, geom), (2, 1))
    is_plane = mj_model.geom_type[geom] == _Geom.mjGEOM_PLANE
    material = mj_model.geom_matid[geom]
    texture = mj_model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB] if material >= 0 else -1
    if texture >= 0 and mj_model.tex_nchannel[texture] >= 3:
        height, width = int(mj_model.tex_height[texture]), int(mj_model.tex_width[texture])
        channels, start = int(mj_model.tex_nchannel[texture]), int(mj_model.tex_adr[texture])
        pixels = mj_model.tex_data[start : start + height * width * channels].reshape(height, width, channels)
        if is_plane:
            tints = pixels[height // 4, [width // 4, 3 * width // 4], :3]
        else:
            tints = pixels[..., :3].mean(axis=(0, 1))
        colours[:, :3] *= np.asarray(tints, dtype=np.float64) / 255.0
    if is_plane and np.array_equal(colours[0], colours[1]):
        colours[1, :3] *= 0.9  # a floor of one colour gets faint squares: without them motion over it cannot be seen
    return colours


def _mesh(mj_model, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) and faces (m, 3)."""
    vertex, vertices = mj_model.mesh_vertadr[mesh], mj_model.mesh_vertnum[mesh]
    face, faces = mj_model.mesh_faceadr[mesh], mj_model.mesh_facenum[mesh]
    return mj_model.mesh_vert[vertex : vertex + vertices], mj_model.mesh_face[face : face + faces]


def _height_field(mj_model, field: int) -> tuple[np.ndarray, np.ndarray]:
    """The upper surface of a height field as vertices (n, 3) and faces (m, 3)."""
    rows, columns, start = (int(a[field]) for a in (mj_model.hfield_nrow, mj_model.hfield_ncol, mj_model.hfield_adr))
    half_x, half_y, top, _ = mj_model.hfield_size[field]
    y, x = np.meshgrid(np.linspace(-half_y, half_y, rows), np.linspace(-half_x, half_x, columns), indexing="ij")
    z = top * mj_model.hfield_data[start : start + rows * columns]
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    right, above, across = corner + 1, corner + columns, corner + columns + 1
    faces = np.concatenate([np.stack([corner, right, across], 1), np.stack([corner, across, above], 1)])
    return np.stack([x.ravel(), y.ravel(), z], axis=1), faces


def _packed_mesh(vertices: np.ndarray, faces: np.ndarray) -> dict:
    """A mesh with normals: positions (n, 3) float32, normals (n, 4) int8 with one to pad, indices (3m,) uint32."""
    corner_normals = _crease_normals(vertices, faces)
    quantised = np.zeros((faces.size, 4), dtype=np.int8)
    quantised[:, :3] = np.round(corner_normals * 127.0)
    # Corners that share a vertex and a normal become one.
    keys = np.column_stack([faces.reshape(-1, 1), quantised[:, :3].astype(np.int64)])
    unique, indices = np.unique(keys, axis=0, return_inverse=True)
    normals = np.zeros((len(unique), 4))
    normals[:, :3] = unique[:, 1:]
    return {
        "positions": _packed(vertices[unique[:, 0]], "<f4"),
        "normals": _packed(normals, "i1"),
        "indices": _packed(indices, "<u4"),
    }


def _crease_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """A unit normal for each corner of each face, (3m, 3): the mean over the faces around that meet without a crease.

    MuJoCo stores normals too, but averages them over sharp edges, which makes machined parts look inflated.
    """
    corners = vertices[faces].astype(np.float64)
    area_normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(area_normals, axis=1, keepdims=True)
    directions = np.divide(area_normals, lengths, out=np.zeros_like(area_normals), where=lengths > 0.0)

    # Files repeat a vertex where textures have seams; such copies are one point of the surface.
    point_of_vertex = np.unique(vertices, axis=0, return_inverse=True)[1].ravel()
    by_point = np.argsort(point_of_vertex[faces.ravel()], kind="stable")
    points = point_of_vertex[faces.ravel()][by_point]
    face_of = by_point // 3
    _, start, count = np.unique(points, return_index=True, return_counts=True)
    start, count = np.repeat(start, count), np.repeat(count, count)

    sums = area_normals[face_of].copy()
    position = np.arange(len(points)) - start
    for shift in range(1, int(count.max(initial=1))):  # each corner meets the others at its point, one after another
        here = np.flatnonzero(count > shift)
        mine, other = face_of[here], face_of[start[here] + (position[here] + shift) % count[here]]
        smooth = np.einsum("ij,ij->i", directions[mine], directions[other]) > math.cos(CREASE_ANGLE)
        sums[here[smooth]] += area_normals[other[smooth]]
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    normals = np.empty_like(sums)
    normals[by_point] = np.divide(sums, lengths, out=np.tile([0.0, 0.0, 1.0], (len(sums), 1)), where=lengths > 0.0)
    return normals


# Writing it down


def _page_part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _model_name(mj_model) -> str:
    return bytes(mj_model.names).split(b"\0", 1)[0].decode("utf-8", errors="replace")


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
