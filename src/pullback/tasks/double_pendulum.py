"""What slows down a double pendulum? The friction of its joints, a law that the model lacks, from recordings."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_seed
from pullback.core.system import State
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.neural import Law
from pullback.plan import LBFGS
from pullback.rollout import Run, rollout
from pullback.tasks.learned import HeldOut, Motion, windows
from pullback.tasks.residuals import Recording
from pullback.tasks.task import Camera, Curves, Task, task_factory
from pullback.tasks.variables import Parameters

LENGTHS, ROD, BOB, RADIUS = (0.3, 0.25), 0.08, 0.2, 0.025  # of the links [m], [kg], [kg], [m]
HEAVIER = 1.15  # the lower bob of the real one, against the data sheet [1]
DT, SECONDS, ROWS = 0.004, 3.0, 750  # timestep, and of a motion [s]; its steps
HIGHEST = 1.3  # of the angles from which it is let go [rad]: above, motions are chaotic and nobody can follow them
# The real friction of a joint, Stribeck's: dry, more of it where it hardly moves, and drag of air.
DRY, BREAKAWAY, SLOW, AIR = (0.03, 0.015), 1.6, 0.4, 5e-4  # [N·m], [1], [rad/s], [N·m/(rad/s)²]
SMOOTH = 0.02  # over which dry friction changes its sign [rad/s]
DAMPING = 0.02  # of the data sheet [N·m·s/rad]
NOISE = (2e-4, 5e-3)  # of recorded angles and speeds, standard deviation [rad], [rad/s]
MOTIONS, HELD_OUT, WINDOW, WINDOWS = 6, 2, 50, 60  # recorded, steps of a window, and how many are fitted
HIDDEN = (8, 8)
SPREAD = 2.0  # logarithms of the damping over that of the data sheet, at an output of one [1]

LINK = """<body name="link{i}" pos="0 0 {z}"><joint name="joint{i}" axis="0 1 0" damping="{damping}"/>
  <geom type="capsule" size="0.008" fromto="0 0 0 0 0 {end}" mass="{rod}"/>
  <geom type="sphere" size="{radius}" pos="0 0 {end}" mass="{bob}"/>{inner}</body>"""


def pendulum_file(damping: float = DAMPING, heavier: float = 1.0) -> str:
    """MJCF of two links that swing in a plane, each with a bob at its end."""
    body = ""
    for i in (1, 0):
        bob = BOB * heavier if i else BOB
        numbers = {"end": -LENGTHS[i], "rod": ROD, "radius": RADIUS, "bob": bob, "damping": damping}
        body = LINK.format(i=i, z=-LENGTHS[0] if i else 0.0, inner=body, **numbers)
    return (
        f'<mujoco><option timestep="{DT}"/><default><geom contype="0" conaffinity="0"/></default>'
        f"<worldbody>{body}</worldbody></mujoco>"
    )


def friction(v: np.ndarray) -> np.ndarray:
    """The real torques [N·m] at speeds (..., 2) [rad/s] of the joints, the lower of which is that between the links."""
    dry = np.array(DRY) * (1 + (BREAKAWAY - 1) * np.exp(-((v / SLOW) ** 2)))
    return -dry * np.tanh(v / SMOOTH) - AIR * np.abs(v) * v


def swing(q: np.ndarray, steps: int) -> State:
    """The motion of the real one, in MuJoCo, let go at angles (2,) [rad]: q and v (steps + 1, 2)."""
    model = mujoco.MjModel.from_xml_string(pendulum_file(damping=0.0, heavier=HEAVIER))
    data = mujoco.MjData(model)
    data.qpos[:] = q
    rows = []
    for _ in range(steps + 1):
        rows.append((data.qpos.copy(), data.qvel.copy()))
        data.qfrc_applied[:] = friction(data.qvel)
        mujoco.mj_step(model, data)
    return State(*(np.array(each) for each in zip(*rows, strict=True)))


def experiment(seed: int = 0) -> tuple[list[Motion], list[Motion]]:
    """Motions as they were measured, with noise, and some that are held out, without."""
    random = np.random.default_rng(check_seed(seed))
    motions = []
    for i in range(MOTIONS + HELD_OUT):
        real = swing(random.uniform(-HIGHEST, HIGHEST, 2), ROWS)
        noise = NOISE if i < MOTIONS else (0.0, 0.0)
        measured = State(*(x + size * random.normal(size=x.shape) for x, size in zip(real, noise, strict=True)))
        motions.append((measured, np.zeros((ROWS, 0))))
    return motions[:MOTIONS], motions[MOTIONS:]


def speeds_of(state, control):
    """Of each joint: how fast it moves, in features of about one, and which it is (worlds, joints, 4)."""
    import torch

    slow, fast = torch.asinh(state.v.abs() / SMOOTH) / 5, state.v.abs() / 10
    which = torch.eye(2, dtype=slow.dtype).expand(len(slow), 2, 2)
    return torch.cat([torch.stack([slow, fast], dim=-1), which], dim=-1)


def plain(device: str = "cpu") -> Articulated:
    """The pendulum of the data sheet."""
    return Articulated(load(pendulum_file()), contact=None, device=device)


def hybrid(seed: int = 0, device: str = "cpu") -> Law:
    """The same, whose damping is a function of a joint's speed: positive, so that it only ever takes energy."""
    from pullback.neural import perceptron

    network = perceptron(4, HIDDEN, 1, seed=seed)
    return Law(plain(device), network, parameter="damping", reads=speeds_of, scale=SPREAD)


def ends(q: np.ndarray) -> np.ndarray:
    """Where the links end (..., links, 2) [m] at angles (..., 2)."""
    angle = np.cumsum(q, axis=-1)
    link = np.array(LENGTHS)[:, None] * np.stack([-np.sin(angle), -np.cos(angle)], axis=-1)
    return np.cumsum(link, axis=-2)


def apart(found: np.ndarray, real: np.ndarray) -> float:
    """Root mean square distance [m] of the lower end in motions (rows, motions, 2)."""
    return float(np.sqrt(np.mean(np.sum((ends(found) - ends(real))[..., 1, :] ** 2, axis=-1))))


@task_factory
def double_pendulum(device: str = "cpu", seed: int = 0) -> Task:
    system = hybrid(seed, device)
    known, unseen = experiment(seed)
    recorded, controls = windows(known, WINDOW, WINDOWS, np.random.default_rng(seed))
    weights = system.networks[0].weights
    lower = system.model.body_names.index("link1")
    entries = {"mass": [lower], **dict.fromkeys(weights, ...)}
    find = Parameters(WINDOW, entries, controls=controls, linear=tuple(weights))
    metric = HeldOut(system, unseen, apart, tuple(entries), WINDOWS)

    def curves(run: Run) -> list[Curves]:
        """A motion held out, and the friction of the lower joint: real, learned, and without."""
        found, real = metric.found(run), unseen[0][0]
        time, start = DT * np.arange(ROWS + 1), system.state(real.q[0], real.v[0])
        paths = {"real": real.q}
        for name, one, params in (("hybrid", system, found), ("data sheet", system.system, None)):
            paths[name] = to_numpy(rollout(one, start, steps=ROWS, params=params).q)[:, 0]
        swings = {name: ends(q)[:, 1, 0] for name, q in paths.items()}
        v = np.linspace(0.0, 6.0, 121)
        learned = [
            -system.front(system.state(v=[0.0, x]), np.zeros((1, 0)), found).params["damping"][0, 1] * x for x in v
        ]
        laws = {"real": friction(np.stack([v, v], axis=-1))[:, 1], "hybrid": learned, "data sheet": -DAMPING * v}
        return [
            Curves("motion", time, swings, "time [s]", "place of the lower end along x [m]"),
            Curves("friction", v, laws, "speed of the lower joint [rad/s]", "torque of friction [N·m]"),
        ]

    return Task(
        name="double-pendulum",
        about="learn the friction of a double pendulum's joints, and a mass, from six noisy recordings",
        system=system,
        start=State(recorded.q[0], recorded.v[0]),
        find=find,
        loss=Recording(system.model, recorded.q, recorded.v),
        metric=metric,
        target=0.005,
        unit="m, rms error of the end over 3 s",
        evaluate_at_end=True,
        method=LBFGS(),
        iterations=150,
        camera=Camera((0.0, -1.6, -0.3), (0.0, 0.0, -0.3)),
        curves=curves,
    )
