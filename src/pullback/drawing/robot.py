"""A drawing of a robot: the shapes and colours of a compiled MuJoCo model, and where its bodies are."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.drawing.drawing import Drawing, frame_rows
from pullback.drawing.flexes import drawn_flexes

# Browsers refuse or stall on pages far beyond this; better to say so while a file is written. [bytes]
MAX_POSE_BYTES = 256 * 2**20
# MuJoCo's own viewers show these groups at first; by custom the others hold collision shapes.
SHOWN_GROUPS = 3
# A geom of this colour that has a material takes the material's colour: MuJoCo's rule, this being the default colour.
UNSET_RGBA = (0.5, 0.5, 0.5, 1.0)

_Geom = mujoco.mjtGeom
# What a geom is drawn as, and which of MuJoCo's three sizes are those of a Drawing; the fourth is zero.
KINDS = {
    _Geom.mjGEOM_PLANE: ("plane", (0, 1, 3)),
    _Geom.mjGEOM_SPHERE: ("sphere", (0, 0, 0)),
    _Geom.mjGEOM_ELLIPSOID: ("sphere", (0, 1, 2)),
    _Geom.mjGEOM_CAPSULE: ("capsule", (0, 0, 1)),
    _Geom.mjGEOM_CYLINDER: ("cylinder", (0, 0, 1)),
    _Geom.mjGEOM_BOX: ("box", (0, 1, 2)),
}


def draw(model, q, *, dt: float, fps: float | None = None, title: str = "", ghost=None, losses=None, camera=None):
    """A :class:`Drawing` of a motion.

    model:   a :class:`pullback.Model`
    q:       (rows, nq) or (rows, worlds, nq)
    dt:      time between two rows [s]
    fps:     about how many rows per second to keep [1/s]; all of them if None, but no more than 3000
    title:   the model's name if empty
    ghost:   (nq,), (rows, nq) or (rows, worlds, nq) to compare with. The shorter of the two holds its last pose.
    losses:  (n,) of an optimiser, over its iterations
    camera:  eye and what it looks at, (2, 3) [m]
    """
    mj_model = getattr(model, "mujoco", None)
    if not isinstance(mj_model, mujoco.MjModel):
        raise PullbackError(f"model must be a pullback Model, not {type(model).__name__}")
    dt = check_number(dt, "dt")
    motions = [_motion("q", q, model.nq)]
    if ghost is not None:
        motions.append(_motion("ghost", ghost, model.nq, pose_allowed=True))
    rows = frame_rows(max(len(motion) for motion in motions), dt, fps)
    copies = sum(motion.shape[1] for motion in motions)
    needed = copies * world_bytes(model, rows)
    if needed > MAX_POSE_BYTES:
        raise PullbackError(
            f"{len(rows)} frames of {copies} worlds with {mj_model.nbody} bodies would take"
            f" {needed / 2**20:.0f} MiB, more than a browser handles well ({MAX_POSE_BYTES // 2**20} MiB):"
            " pass fewer worlds, or a lower fps"
        )
    drawing = Drawing(
        title=_model_name(mj_model),
        times=rows * dt,
        worlds=motions[0].shape[1],
        **drawn_flexes(mj_model, motions[0][np.minimum(rows, len(motions[0]) - 1), 0], drawn_shapes(mj_model)),
        body_moves=mj_model.body_weldid != 0,
        body_com=mj_model.body_ipos.copy(),
        poses=body_poses(mj_model, motions, rows),
    )
    return drawing.labelled(title=title, losses=losses, camera=camera)


def world_bytes(model, rows: np.ndarray) -> int:
    """What the poses of one world take."""
    return len(rows) * model.mujoco.nbody * 7 * 4


def body_poses(mj_model, motions: list[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Position and quaternion of each body, (frames, copies, bodies, 7) float32."""
    data = mujoco.MjData(mj_model)
    copies = [(motion, world) for motion in motions for world in range(motion.shape[1])]
    poses = np.empty((len(rows), len(copies), mj_model.nbody, 7), dtype=np.float32)
    for copy, (motion, world) in enumerate(copies):
        for frame, row in enumerate(np.minimum(rows, len(motion) - 1)):
            data.qpos[:] = motion[row, world]
            mujoco.mj_kinematics(mj_model, data)
            with np.errstate(over="ignore"):  # caught below, with a message that says where
                poses[frame, copy, :, :3] = data.xpos
                poses[frame, copy, :, 3:] = data.xquat
    if not np.isfinite(poses).all():
        frame, copy = np.argwhere(~np.isfinite(poses))[0][:2]
        raise PullbackError(f"bodies are too far away to draw at row {rows[frame]}, world {copies[copy][1]}")
    return poses


def _motion(name: str, values, nq: int, *, pose_allowed: bool = False) -> np.ndarray:
    """Coordinates as (rows, worlds, nq), checked."""
    motion = to_numbers(values, name).astype(float)
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


def _model_name(mj_model) -> str:
    return bytes(mj_model.names).split(b"\0", 1)[0].decode("utf-8", errors="replace")


# --- shapes -----------------------------------------------------------------------------------------------------------


def drawn_shapes(mj_model) -> dict[str, np.ndarray]:
    """The fields of a Drawing that say what its shapes and meshes are."""
    shapes = [geom for geom in _shown_geoms(mj_model) if _kind(mj_model, geom)]
    is_field = mj_model.geom_type == int(_Geom.mjGEOM_HFIELD)
    assets = [
        (bool(is_field[geom]), int(mj_model.geom_dataid[geom])) if _kind(mj_model, geom) == "mesh" else None
        for geom in shapes
    ]
    used = list(dict.fromkeys(asset for asset in assets if asset))
    meshes = [(height_field if of_field else _mesh)(mj_model, index) for of_field, index in used]
    return {
        "shape_kind": np.array([_kind(mj_model, geom) for geom in shapes], dtype="U8"),
        "shape_size": np.array([_size(mj_model, geom) for geom in shapes]).reshape(-1, 3),
        "shape_mesh": np.array([used.index(asset) if asset else -1 for asset in assets], dtype=np.int32),
        "shape_body": mj_model.geom_bodyid[shapes].astype(np.int32),
        "shape_pos": mj_model.geom_pos[shapes].reshape(-1, 3),
        "shape_quat": mj_model.geom_quat[shapes].reshape(-1, 4),
        "shape_colours": np.array([_colours(mj_model, geom) for geom in shapes]).reshape(-1, 2, 4),
        "mesh_vertices": np.concatenate([np.zeros((0, 3)), *(v for v, _ in meshes)]).astype(np.float32),
        "mesh_faces": np.concatenate([np.zeros((0, 3)), *(f for _, f in meshes)]).astype(np.int32),
        "mesh_sizes": np.array([(len(v), len(f)) for v, f in meshes], dtype=np.int32).reshape(-1, 2),
    }


def _kind(mj_model, geom: int) -> str:
    """What a geom is drawn as, or "" if nothing is known of its surface."""
    if kind := KINDS.get(_Geom(mj_model.geom_type[geom])):
        return kind[0]
    # else a mesh, a signed distance field that comes with one, or a height field
    return "mesh" if mj_model.geom_dataid[geom] >= 0 else ""


def _size(mj_model, geom: int) -> np.ndarray:
    kind = KINDS.get(_Geom(mj_model.geom_type[geom]))
    return np.ones(3) if kind is None else np.append(mj_model.geom_size[geom], 0.0)[list(kind[1])]


def _shown_geoms(mj_model) -> np.ndarray:
    """Indices of the geoms to draw."""
    drawable = np.array([_rgba(mj_model, geom)[3] > 0.0 for geom in range(mj_model.ngeom)], dtype=bool)
    in_shown_group = mj_model.geom_group < SHOWN_GROUPS
    on_moving_body = mj_model.body_weldid[mj_model.geom_bodyid] != 0
    if not (drawable & in_shown_group & on_moving_body).any():
        in_shown_group |= on_moving_body  # a robot made of collision shapes alone is better seen than missing
    return np.flatnonzero(drawable & in_shown_group)


def _rgba(mj_model, geom: int) -> np.ndarray:
    material = mj_model.geom_matid[geom]
    rgba = mj_model.geom_rgba[geom]
    if material >= 0 and np.array_equal(rgba, np.float32(UNSET_RGBA)):
        rgba = mj_model.mat_rgba[material]
    return np.clip(np.nan_to_num(rgba), 0.0, 1.0)


def _colours(mj_model, geom: int) -> np.ndarray:
    """Two colours, (2, 4) RGBA: those of a plane's squares, or the same one twice.

    Textures are not drawn, but their colours are kept: a plane takes one from the middle of each of two neighbouring
    squares, which is where a checkerboard has them; any other shape takes the mean.
    """
    colours = np.tile(_rgba(mj_model, geom), (2, 1))
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


def height_field(mj_model, field: int) -> tuple[np.ndarray, np.ndarray]:
    """The upper surface of a height field as vertices (n, 3) and faces (m, 3)."""
    rows, columns, start = (int(a[field]) for a in (mj_model.hfield_nrow, mj_model.hfield_ncol, mj_model.hfield_adr))
    half_x, half_y, top, _ = mj_model.hfield_size[field]
    y, x = np.meshgrid(np.linspace(-half_y, half_y, rows), np.linspace(-half_x, half_x, columns), indexing="ij")
    z = top * mj_model.hfield_data[start : start + rows * columns]
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    right, above, across = corner + 1, corner + columns, corner + columns + 1
    faces = np.concatenate([np.stack([corner, right, across], 1), np.stack([corner, across, above], 1)])
    return np.stack([x.ravel(), y.ravel(), z], axis=1), faces
