"""A drawing of heat: the part coloured by its temperature, growing as it is printed, and the laser on its way."""

from __future__ import annotations

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.drawing import Drawing
from pullback.drawing.drawing import FORCE_COLOUR, MOST_FRAMES
from pullback.thermal.mesh import Mesh
from pullback.thermal.toolpath import Toolpath

LASER_LENGTH, LASER_WIDTH = 0.18, 0.006  # against the diagonal of the part [1]
HOTTER = 200.0  # than the liquidus is the end of the colour scale of a run [K]
USUAL_FRAMES = 300  # colours of every node at every frame are many numbers


def draw_heat(
    mesh: Mesh,
    times,
    temperatures,
    *,
    born=None,
    path: Toolpath | None = None,
    clock=None,
    limits: tuple[float, float] | None = None,
    frames: int = USUAL_FRAMES,
    title: str = "",
    losses=None,
    camera=None,
) -> Drawing:
    """A :class:`Drawing` of a part over time.

    times:         (rows,) [s], rising
    temperatures:  (rows, nodes) [K]
    born:          (elements,) [s] when each is deposited, by the clock; None if all are there
    path:          of the laser
    clock:         (rows,) [s] time on the path, where the laser is faster or slower than it says; None for times
    limits:        the temperatures of the ends of the colour scale [K]; None for the coldest and the hottest
    frames:        so many rows are kept at most
    losses, camera: as for :func:`pullback.view.draw`
    """
    times, temperatures = to_numbers(times, "times").astype(float), to_numbers(temperatures, "temperatures")
    if times.ndim != 1 or not len(times) or temperatures.shape != (len(times), len(mesh.nodes)):
        raise PullbackError(
            f"temperatures has shape {temperatures.shape}, but ({len(times)}, {len(mesh.nodes)}) is needed: one per "
            "time and node"
        )
    if not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
        raise PullbackError("times must be finite and rise")
    check_whole(frames, "frames", most=MOST_FRAMES)
    stride = -(-len(times) // frames)
    rows = np.unique(np.append(np.arange(0, len(times) - 1, stride), len(times) - 1))
    clock = times if clock is None else to_numbers(clock, "clock").astype(float)
    if clock.shape != times.shape or not np.all(np.isfinite(clock)) or np.any(np.diff(clock) < 0):
        raise PullbackError("clock must have one number per time, none smaller than the one before")
    if born is not None:  # from time on the path to time
        born = to_numbers(born, "born").astype(float)
        if born.shape != (len(mesh.elements),) or np.any(np.isnan(born)):
            raise PullbackError(f"born must be {len(mesh.elements)} times, one per element")
        born = np.where(born <= clock[-1], np.interp(born, clock, times - times[0]), np.inf)
    shown, times, clock = temperatures[rows].astype(float), times[rows] - times[0], clock[rows]
    if not np.all(np.isfinite(shown)):
        raise PullbackError(f"the temperature is not finite at row {rows[np.argwhere(~np.isfinite(shown))[0][0]]}")
    low, high = limits or (float(shown.min()), max(float(shown.max()), float(shown.min()) + 1.0))
    if not -np.inf < low < high < np.inf:
        raise PullbackError(f"limits must be two temperatures that rise, not {limits!r}")
    quads, seen = _faces_in_time(mesh, born, float(times[-1]))
    used, faces = np.unique(quads, return_inverse=True)
    quads = faces.reshape(-1, 4)
    size = float(np.linalg.norm(mesh.high - mesh.low))
    shapes = 1 if path is None else 2
    drawing = Drawing(
        title="Heat",
        times=times,
        worlds=1,
        shape_kind=np.array(["mesh", "cylinder"][:shapes]),
        shape_size=np.array([(1.0, 1.0, 1.0), size * np.array([LASER_WIDTH, LASER_WIDTH, LASER_LENGTH / 2])])[:shapes],
        shape_mesh=np.array([0, -1])[:shapes],
        shape_body=np.array([1, 2])[:shapes],
        shape_pos=np.array([(0, 0, 0), (0, 0, size * LASER_LENGTH / 2)], dtype=float)[:shapes],
        shape_quat=np.tile([1.0, 0.0, 0.0, 0.0], (shapes, 1)),
        shape_colours=np.array([[(0.5, 0.5, 0.5, 1.0)] * 2, [FORCE_COLOUR] * 2])[:shapes],
        mesh_vertices=mesh.nodes[used].astype(np.float32),
        mesh_faces=np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]).astype(np.int32),
        mesh_sizes=np.array([[len(used), 2 * len(quads)]]),
        # The part does not move, but it is what is looked at: the camera frames what moves.
        body_moves=np.array([False, True, True])[: shapes + 1],
        body_com=np.zeros((shapes + 1, 3)),
        poses=_poses(path, clock, shapes, size),
        paint=np.clip(np.round(255 * (shown[:, used] - low) / (high - low)), 0, 255).astype(np.uint8),
        paint_range=np.array([low, high]),
        paint_unit="K",
        face_times=np.concatenate([seen, seen]),
    )
    return drawing.labelled(title=title, losses=losses, camera=camera)


def draw_heating(run) -> Drawing:
    """The first world of a run of a Heat System, from the states that it has kept."""
    heat = run.system
    # Colours from the ambient to well above the melting point: of the hottest spot alone little would be seen.
    limits = (float(np.min(run.params.values["ambient"])), float(heat.material.liquidus) + HOTTER)
    times, clock = heat.dt * run.hold * run.kept, to_numpy(run.s)[:, 0, 0]
    return draw_heat(
        heat.mesh, times, to_numpy(run.T)[:, 0], born=heat.born, path=heat.toolpath, clock=clock, limits=limits
    )


def _faces_in_time(mesh: Mesh, born, duration: float) -> tuple[np.ndarray, np.ndarray]:
    """Faces (f, 4) that are ever seen, corners turning outwards, and from when and until when (f, 2) [s]."""
    corners, owner, beyond = mesh.faces()
    after = 2 * duration + 1.0  # of all that is shown
    born = np.full(len(mesh.elements), -1.0) if born is None else np.clip(np.asarray(born, dtype=float), -1.0, after)
    other = np.where(beyond < 0, after, born[beyond])
    outwards = born[owner] <= other  # else it is first seen from the other side
    corners = np.where(outwards[:, None], corners, corners[:, ::-1])
    seen = np.stack([np.minimum(born[owner], other), np.maximum(born[owner], other)], axis=1)
    ever = seen[:, 0] < seen[:, 1]
    return corners[ever], seen[ever]


def _poses(path: Toolpath | None, clock: np.ndarray, shapes: int, size: float) -> np.ndarray:
    """Of the world, the part and the laser, (frames, 1, bodies, 7); the laser is lifted while it is off."""
    poses = np.zeros((len(clock), 1, shapes + 1, 7), dtype=np.float32)
    poses[..., 3] = 1.0
    if path is not None:
        places, on = path.at(clock)
        poses[:, 0, 2, :3] = places
        poses[:, 0, 2, 2] += np.where(on > 0, 0.0, size * LASER_LENGTH / 2)
    return poses
