"""What holds a swimmer back? The drag of water that the model does not have, learned by one network for all links."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_seed
from pullback.core.system import State
from pullback.dynamics import Articulated
from pullback.model import load
from pullback.neural import Residual, perceptron
from pullback.plan import GaussNewton
from pullback.rollout import Run, rollout
from pullback.tasks.learned import HeldOut, Motion, windows
from pullback.tasks.residuals import Recording
from pullback.tasks.task import Camera, Curves, Task, task_factory
from pullback.tasks.variables import Parameters

LINKS, LENGTH, THICKNESS, MASS = 3, 0.3, 0.04, 0.5  # of the body [m], [m], [kg] a link
DT, SECONDS = 0.005, 5.0  # timestep, and of a motion that is judged [s]
DENSITY, VISCOSITY = 200.0, 0.5  # of the water [kg/m³], [Pa·s]
TORQUE, SLOWEST, FASTEST = 0.25, 0.6, 1.6  # of the strokes [N·m], and their frequencies [Hz]
STROKES, WINDOW, WINDOWS = 4, 20, 80  # motions recorded, steps of a window, and how many of those are fitted
HIDDEN = (12, 12)
FORCE = 0.5  # what an output of the network stands for [N, and a tenth of it in N·m]
SPEED = 0.5  # for features of about one [m/s, rad/s by a third of it]

LINK = """<body name="link{i}" pos="{x} 0 0">{joint}
  <geom type="capsule" size="{r}" fromto="0 0 0 {l} 0 0" mass="{m}"/>{inner}</body>"""
ROOT = """<joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
  <joint name="turn" axis="0 0 1"/>"""


def swimmer_file(density: float = 0.0, viscosity: float = 0.0) -> str:
    """MJCF of a chain of links in a plane, with a motor in each joint between them."""
    body = ""
    for i in reversed(range(LINKS)):
        joint = ROOT if i == 0 else f'<joint name="bend{i}" axis="0 0 1" damping="0.002"/>'
        place = {"i": i, "x": LENGTH if i else 0.0, "joint": joint, "inner": body}
        body = LINK.format(r=THICKNESS, l=LENGTH, m=MASS, **place)
    motors = "".join(f'<motor name="bend{i}" joint="bend{i}"/>' for i in range(1, LINKS))
    return (
        f'<mujoco><option timestep="{DT}" gravity="0 0 0" density="{density}" viscosity="{viscosity}"/>'
        f'<default><geom contype="0" conaffinity="0"/></default><worldbody>{body}</worldbody>'
        f"<actuator>{motors}</actuator></mujoco>"
    )


def strokes(random: np.random.Generator, steps: int) -> np.ndarray:
    """Torques (steps, nu) [N·m] of one way to swim."""
    time = DT * np.arange(steps)[:, None]
    frequency, size = random.uniform(SLOWEST, FASTEST), random.uniform(0.5, 1.0, LINKS - 1)
    phase = random.uniform(0, 2 * np.pi) + np.arange(LINKS - 1) * random.uniform(0.5, 1.5)
    return TORQUE * size * np.sin(2 * np.pi * frequency * time + phase)


def swim(controls: np.ndarray) -> State:
    """The motion of the real one, MuJoCo's in MuJoCo's fluid, from rest: q (steps + 1, nq), v (steps + 1, nv)."""
    model = mujoco.MjModel.from_xml_string(swimmer_file(DENSITY, VISCOSITY))
    data = mujoco.MjData(model)
    q, v = [data.qpos.copy()], [data.qvel.copy()]
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        q.append(data.qpos.copy())
        v.append(data.qvel.copy())
    return State(np.array(q), np.array(v))


def links_of(state, control):
    """Of every link its velocity and spin in its own axes, and the cosine and sine of its angle (worlds, 5 · links)."""
    import torch

    q, v = state.q, state.v
    angle, spin = torch.cumsum(q[:, 2:], dim=1), torch.cumsum(v[:, 2:], dim=1)
    along = torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1)  # (worlds, links, 2)
    across = torch.stack([-torch.sin(angle), torch.cos(angle)], dim=-1)
    swung = LENGTH * spin[..., None] * across  # of each end against its beginning
    middle = v[:, None, :2] + torch.cumsum(swung, dim=1) - swung / 2
    own = [torch.sum(middle * axis, dim=-1) / SPEED for axis in (along, across)]
    return torch.stack([*own, spin / (3 * SPEED), *along.unbind(-1)], dim=-1).flatten(1)


def drag_network(seed: int = 0):
    """From the features of all links to a wrench on each, by one perceptron that sees a link alone, in its own axes."""
    own = perceptron(3, HIDDEN, 3, seed=seed)
    from pullback.tasks.drag import Drag

    return Drag(own, LINKS)


def hybrid(seed: int = 0, device: str = "cpu") -> Residual:
    """The swimmer without water, and a network in the place of it."""
    plain = Articulated(load(swimmer_file()), contact=None, device=device)
    links = [f"link{i}" for i in range(LINKS)]
    return Residual(plain, drag_network(seed), reads=links_of, adds="wrench", on=links, scale=FORCE, seed=seed)


def apart(found: np.ndarray, real: np.ndarray) -> float:
    """Root mean square distance [m] of the links' ends in coordinates (rows, motions, nq), over all steps."""
    away = _ends(found.reshape(-1, found.shape[-1])) - _ends(real.reshape(-1, real.shape[-1]))
    return float(np.sqrt(np.mean(np.sum(away**2, axis=-1))))


def _ends(q: np.ndarray) -> np.ndarray:
    """Where the links end (steps, links, 2) [m]."""
    angle = np.cumsum(q[:, 2:], axis=1)
    return q[:, None, :2] + LENGTH * np.cumsum(np.stack([np.cos(angle), np.sin(angle)], axis=-1), axis=1)


def experiment(seed: int = 0) -> tuple[list[Motion], list[Motion]]:
    """Real motions, states and controls of each: those recorded, and two that are held out."""
    random = np.random.default_rng(check_seed(seed))
    controls = [strokes(random, round(SECONDS / DT)) for _ in range(STROKES + 2)]
    motions = [(swim(each), each) for each in controls]
    return motions[:STROKES], motions[STROKES:]


@task_factory
def swimmer(device: str = "cpu", seed: int = 0) -> Task:
    system = hybrid(seed, device)
    known, unseen = experiment(seed)
    recorded, controls = windows(known, WINDOW, WINDOWS, np.random.default_rng(seed))
    weights = {name: ... for name in system.networks[0].weights}
    find = Parameters(WINDOW, weights, controls=controls, linear=tuple(weights))

    metric = HeldOut(system, unseen, apart, tuple(weights), WINDOWS)

    def curves(run: Run) -> list[Curves]:
        """Where the tail is in a motion held out: really, with the network, and without water."""
        real, strokes_of = unseen[0]
        time, start = DT * np.arange(len(real.q)), system.state(real.q[0], real.v[0])
        learned = rollout(system, start, strokes_of[:, None], params=metric.found(run))
        plain = rollout(system.system, start, strokes_of[:, None])
        paths = {"real": real.q, "hybrid": to_numpy(learned.q)[:, 0], "without water": to_numpy(plain.q)[:, 0]}
        lines = {name: _ends(q)[:, -1, 0] for name, q in paths.items()}
        return [Curves("tail", time, lines, "time [s]", "place of the last link's end along x [m]")]

    return Task(
        name="swimmer",
        about="learn the drag of water, which a swimmer's model lacks, from four recordings",
        system=system,
        start=State(recorded.q[0], recorded.v[0]),
        find=find,
        loss=Recording(system.model, recorded.q, recorded.v),
        metric=metric,
        target=0.06,
        unit="m, rms error of the links' ends over 5 s",
        evaluate_at_end=True,
        method=GaussNewton(tolerance=1e-5),
        iterations=40,
        camera=Camera((0.0, -0.6, 1.8), (0.3, 0.0, 0.0)),
        curves=curves,
    )
