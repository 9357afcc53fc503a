"""Tosses of a cube: its shape, friction and restitution, and what a network adds, from recordings.

Those of ``read_tosses`` are DAIR Lab's (ContactNets, 2020): position 3, quaternion wxyz 4, velocity 3, angular velocity
3 (in the axes of the cube) of each row, lengths in units of the half width, 1/148 s apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pullback.contact import ContactImpulse
from pullback.core.archives import read_arrays
from pullback.core.arrays import to_numpy
from pullback.core.checks import check_path, check_seed
from pullback.core.errors import PullbackError
from pullback.core.system import State, System
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.neural import Recording, Residual, perceptron, read_recordings
from pullback.plan import LBFGS
from pullback.rollout import Run, rollout
from pullback.spatial import quat_conj, quat_exp, quat_log, quat_mul
from pullback.tasks import residuals
from pullback.tasks.learned import found_params, windows
from pullback.tasks.task import Camera, Curves, Task, task_factory
from pullback.tasks.variables import Parameters

RATE = 148.0  # of the recordings [Hz]
HALF, MASS, INERTIA = 0.0524, 0.37, 8.1e-4  # as published: half width [m], [kg], [kg·m²]
FRICTION, RESTITUTION = 0.18, 0.125  # as published [1]
# Of a recorded row: position [m], rotation [rad], velocity [m/s] and angular velocity [rad/s].
NOISE = np.repeat([1e-3, 0.01, 0.03, 0.5], 3)
GRAVITY = 9.81  # [m/s²]
FEATURES = 1 + 9 + 6  # of the network: height, rotation, velocities
WRENCH = np.repeat([0.01, 0.1], 3)  # what its outputs stand for: torque [N·m], force [N]
# Of the task: tosses that are made up where there is no data, rows of each, and how far the guess is off.
TOSSES, ROWS, WIDER, ROUGHER = 12, 75, 1.33, 2.0  # [1], [1], [1], [1]
MADE_UP = {"half": 0.05, "friction": 0.25}  # the cube of those [m], [1]
WINDOW, WINDOWS = 15, 100  # rows of a window, and how many are fitted


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


def errors_of(system: System, tosses: Sequence[Recording], params: Mapping | None = None) -> np.ndarray:
    """The same of a System that starts where each toss does, (tosses, 2); infinite where it cannot be simulated."""
    wide = system.in_worlds(len(tosses))
    longest = max(toss.rows for toss in tosses) - 1
    start = State(*(np.stack([x[0] for x in each]) for each in zip(*(toss.states for toss in tosses), strict=True)))
    run = rollout(wide, start, np.zeros((longest, len(tosses), 0)), params=params, on_failure="mask")
    q, failed = to_numpy(run.q), run.status.failed
    each = [toss_errors(q[: toss.rows, i], toss.states.q) for i, toss in enumerate(tosses)]
    return np.where(failed[:, None], np.inf, np.array(each))


def made_up_tosses(seed: int = 0, count: int = TOSSES) -> list[Recording]:
    """Tosses of another cube, as they would be measured."""
    system, random = cube(**MADE_UP, worlds=count), np.random.default_rng(check_seed(seed))
    place = np.concatenate([np.zeros((count, 2)), random.uniform(0.1, 0.15, (count, 1))], axis=1)
    q = np.concatenate([place, quat_exp(random.normal(size=(count, 3)))], axis=1)
    v = np.concatenate([random.normal(size=(count, 3)) * [1.0, 1.0, 0.5], 4 * random.normal(size=(count, 3))], axis=1)
    run = rollout(system, system.state(q, v), steps=ROWS - 1)
    noise = 0.2 * NOISE * random.normal(size=(ROWS, count, 12))
    q, v = to_numpy(run.q), to_numpy(run.v) + noise[..., 6:]
    q = np.concatenate([q[..., :3] + noise[..., :3], quat_mul(q[..., 3:], quat_exp(noise[..., 3:6]))], axis=-1)
    times = np.arange(ROWS) / RATE
    return [Recording(State(q[:, i], v[:, i]), times=times, name=f"toss {i}") for i in range(count)]


def read_data(path) -> list[Recording]:
    """Tosses: a folder of recordings, in the format of :func:`pullback.neural.read_recordings`, or a file as
    :func:`read_tosses` has it."""
    path = check_path(path)
    tosses = read_recordings(path) if path.is_dir() else read_tosses(path)
    for toss in tosses:
        toss.fitted(cube())  # what does not fit is said now
        if toss.rows <= WINDOW:
            raise PullbackError(f"{toss.name} has {toss.rows} rows, but a window of {WINDOW} rows is fitted")
    if len(tosses) < 2:
        raise PullbackError(f"{str(path)!r} has one toss, but one is fitted and another is held out")
    return tosses


@task_factory
def cube_toss(device: str = "cpu", seed: int = 0, data: str | None = None) -> Task:
    """``data``: tosses of your own: see :func:`read_data`; those of a cube that is made up, if None."""
    tosses = made_up_tosses(seed) if data is None else read_data(data)
    count = max(1, round(len(tosses) / 6))
    known, unseen = tosses[:-count], tosses[-count:]
    system = hybrid(cube(WIDER * HALF, ROUGHER * FRICTION), seed=seed)
    motions = [(toss.states, np.zeros((toss.rows - 1, 0))) for toss in known]
    recorded, controls = windows(motions, WINDOW, WINDOWS, np.random.default_rng(seed))
    box, weights = system.model.geoms.names.index("cube"), tuple(system.networks[0].weights)
    entries = {"geom_size": (box, slice(None)), "friction": (box, 0), "restitution": ..., **dict.fromkeys(weights, ...)}

    def metric(run: Run) -> np.ndarray:
        """Of tosses held out; the windows of a point have the same parameters."""
        firsts = range(0, run.system.worlds, WINDOWS)
        return np.repeat(
            [errors_of(system, unseen, found_params(run, entries, first))[:, 0].mean() for first in firsts], WINDOWS
        )

    def curves(run: Run) -> list[Curves]:
        """The height of a cube that was held out: measured, with what was found, and with the first guess."""
        toss = unseen[0]
        time, start = np.arange(toss.rows) / RATE, system.state(toss.states.q[0], toss.states.v[0])
        paths = {"measured": toss.states.q}
        for name, params in (("found", found_params(run, entries)), ("first guess", None)):
            paths[name] = to_numpy(rollout(system, start, steps=toss.rows - 1, params=params).q)[:, 0]
        lines = {name: 100 * q[:, 2] for name, q in paths.items()}
        return [Curves("height", time, lines, "time [s]", "height of the cube's middle [cm]")]

    return Task(
        name="cube-toss",
        about="find a cube's shape, friction and restitution, and a network for the rest, from recorded tosses",
        system=system,
        start=State(recorded.q[0], recorded.v[0]),
        find=Parameters(WINDOW, entries, controls=controls, linear=weights),
        loss=residuals.Recording(system.model, recorded.q, recorded.v, scales=NOISE),
        metric=metric,
        target=0.005,
        unit="m, mean error over tosses held out",
        evaluate_at_end=True,
        method=LBFGS(),
        iterations=50,
        camera=Camera((0.6, -1.0, 0.5), (0.2, 0.0, 0.05)),
        curves=curves,
    )
