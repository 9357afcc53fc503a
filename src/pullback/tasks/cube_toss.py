"""Real tosses of a cube: its shape, friction and restitution, and what a network adds, from recordings.

The data are DAIR Lab's (ContactNets, 2020): position 3, quaternion wxyz 4, velocity 3, angular velocity 3 (in the axes
of the cube) of each row, lengths in units of the half width, 1/148 s apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pullback.contact import ContactImpulse
from pullback.core.archives import read_arrays
from pullback.core.arrays import to_numpy
from pullback.core.checks import check_path
from pullback.core.errors import PullbackError
from pullback.core.system import State, System
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.neural import Recording, Residual, perceptron
from pullback.rollout import rollout
from pullback.spatial import quat_conj, quat_log, quat_mul

RATE = 148.0  # of the recordings [Hz]
HALF, MASS, INERTIA = 0.0524, 0.37, 8.1e-4  # as published: half width [m], [kg], [kg·m²]
FRICTION, RESTITUTION = 0.18, 0.125  # as published [1]
# Of a recorded row: position [m], rotation [rad], velocity [m/s] and angular velocity [rad/s].
NOISE = np.repeat([1e-3, 0.01, 0.03, 0.5], 3)
GRAVITY = 9.81  # [m/s²]
FEATURES = 1 + 9 + 6  # of the network: height, rotation, velocities
WRENCH = np.repeat([0.01, 0.1], 3)  # what its outputs stand for: torque [N·m], force [N]


def cube_file(half: float = HALF, friction: float = FRICTION) -> str:
    """MJCF of a cube above a plate."""
    return f"""<mujoco><option timestep="{1 / RATE}" gravity="0 0 -{GRAVITY}"/><worldbody>
      <geom name="plate" type="plane" size="5 5 1" friction="0 0 0"/>
      <body name="cube" pos="0 0 {half}"><freejoint name="toss"/>
        <inertial pos="0 0 0" mass="{MASS}" diaginertia="{INERTIA} {INERTIA} {INERTIA}"/>
        <geom name="cube" type="box" size="{half} {half} {half}" friction="{friction} 0 0"/></body>
      </worldbody></mujoco>"""


def cube(half: float = HALF, friction: float = FRICTION, worlds: int = 1) -> Articulated:
    """The cube with rigid contact: shape, friction and restitution are parameters."""
    system = Articulated(load(cube_file(half, friction)), ContactImpulse(), worlds=worlds)
    system.params["restitution"] = RESTITUTION
    return system


def hybrid(system: Articulated | None = None, hidden: Sequence[int] = (8,), seed: int = 0) -> Residual:
    """The same with a wrench on the cube by a network that knows where it is above the plate, and how it moves."""
    module = perceptron(FEATURES, hidden, 6, seed=seed)
    options = {"adds": "wrench", "on": ("cube",), "scale": WRENCH, "normalise": True}
    return Residual(system or cube(), module, reads=height_rotation_and_speed, **options)


def height_rotation_and_speed(state, control):
    """Height [m], rotation matrix by columns, velocity and angular velocity, (worlds, 16)."""
    import torch

    from pullback.neural.features import rotation_columns

    return torch.cat([state.q[:, 2:3], rotation_columns(state.q[:, 3:7]), state.v], dim=1)


def physics() -> dict:
    """What is fitted: three half edges, friction and restitution.

    How high the plate is cannot be told from the half edges by windows that hold little but flight, and is zero.
    """
    box = load(cube_file()).geoms.names.index("cube")
    found = {f"half edge {axis}": ("geom_size", (box, i)) for i, axis in enumerate("xyz")}
    return found | {"friction": ("friction", (box, 0)), "restitution": ("restitution", ...)}


def read_tosses(path) -> list[Recording]:
    """The tosses of an .npz with ``rows`` (n, 13) and ``lengths`` (tosses,), in SI units."""
    path = check_path(path)
    try:
        arrays = read_arrays(path, wanted=lambda name: name in ("rows", "lengths", "ids"))
        rows, lengths = np.asarray(arrays["rows"], dtype=float), arrays["lengths"].astype(int)
        pieces = np.split(rows, np.cumsum(lengths)[:-1])
        if rows.ndim != 2 or rows.shape[1] != 13 or lengths.sum() != len(rows):
            raise ValueError("rows must be (n, 13), and lengths add up to n")
    except Exception as error:  # there is no end to what can be wrong with an archive
        raise PullbackError(f"{str(path)!r} cannot be read as tosses: {error}") from error
    ids = arrays.get("ids", np.arange(len(pieces)))
    return [_toss(piece, f"toss {name}") for piece, name in zip(pieces, ids, strict=True)]


def _toss(rows: np.ndarray, name: str) -> Recording:
    quat = rows[:, 3:7] / np.linalg.norm(rows[:, 3:7], axis=1, keepdims=True)
    q = np.concatenate([HALF * rows[:, :3], quat], axis=1)
    v = np.concatenate([HALF * rows[:, 7:10], rows[:, 10:13]], axis=1)
    return Recording(State(q, v), np.zeros((len(rows) - 1, 0)), times=np.arange(len(rows)) / RATE, name=name)


def toss_errors(q: np.ndarray, real: np.ndarray) -> tuple[float, float]:
    """Mean distance [m] and mean angle [rad] over a toss of coordinates (rows, 7), against those recorded."""
    turned = np.linalg.norm(quat_log(quat_mul(quat_conj(real[:, 3:]), q[:, 3:])), axis=1)
    return float(np.linalg.norm(q[:, :3] - real[:, :3], axis=1).mean()), float(turned.mean())


def errors_of(system: System, tosses: Sequence[Recording]) -> np.ndarray:
    """The same of a System that starts where each toss does, (tosses, 2)."""
    wide = system.in_worlds(len(tosses))
    longest = max(toss.rows for toss in tosses) - 1
    start = State(*(np.stack([x[0] for x in each]) for each in zip(*(toss.states for toss in tosses), strict=True)))
    run = rollout(wide, start, np.zeros((longest, len(tosses), 0)))
    q = to_numpy(run.q)
    return np.array([toss_errors(q[: toss.rows, i], toss.states.q) for i, toss in enumerate(tosses)])
