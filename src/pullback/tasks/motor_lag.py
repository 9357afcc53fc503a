"""What do a quadruped's motors really do? Lag, saturation and friction that no parameter has, learned on a stand."""

from __future__ import annotations

from functools import cache

import mujoco
import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_seed
from pullback.core.system import State
from pullback.dynamics import Articulated
from pullback.model import Model, load
from pullback.model.robots.quadrupeds import LEGS, quadruped
from pullback.neural import Actuator, perceptron
from pullback.plan import LBFGS, minimise
from pullback.rollout import Run, rollout
from pullback.tasks.learned import HeldOut, Motion, windows
from pullback.tasks.residuals import Recording
from pullback.tasks.task import Camera, Curves, Task, task_factory
from pullback.tasks.terms import StateGoal
from pullback.tasks.variables import Controls, Parameters

STIFFNESS, DAMPING = 60.0, 1.5  # of the servos [N·m/rad], [N·m·s/rad]
# The real motors: how late a torque is [s], where it saturates [N·m], dry friction of a joint [N·m], and over which
# speed it changes its sign [rad/s].
LAG, MOST, DRY, SMOOTH = 0.02, 9.0, 0.8, 0.1
DT, SECONDS = 0.002, 2.0  # timestep, and of a motion [s]
SWING, SLOWEST, FASTEST = 0.35, 0.5, 2.5  # of targets [rad], and their frequencies [Hz]
NOISE = (1e-4, 5e-3)  # of recorded angles and speeds, standard deviation [rad], [rad/s]
MOTIONS, HELD_OUT, WINDOW, WINDOWS = 6, 2, 40, 48  # recorded, steps of a window, and how many are fitted
HISTORY = (0, 1, 3, 6, 10, 15, 21, 28)  # timesteps ago of what the network reads
HIDDEN = (16, 16)
SCALES = {"pos_scale": 10.0, "vel_scale": 0.2, "torque_scale": 10.0}
GUESS = 200  # inputs around which the first guess is that of a plain servo


@cache
def on_a_stand() -> Model:
    """The sample quadruped with its trunk held, and nothing to touch."""
    spec = mujoco.MjSpec.from_string(quadruped())
    for key in list(spec.keys):
        spec.delete(key)
    spec.delete(next(joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE))
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    return load(spec, timestep=DT)


def home() -> np.ndarray:
    """Angles (12,) in which the legs hang [rad]."""
    return np.array(load(quadruped()).home.q[7:])


def torques(error: np.ndarray, v: np.ndarray, before: np.ndarray) -> np.ndarray:
    """What the real motors give (12,) [N·m] at position errors and speeds, after what they gave a timestep before."""
    asked = MOST * np.tanh((STIFFNESS * error - DAMPING * v) / MOST)
    return before + (1 - np.exp(-DT / LAG)) * (asked - before)


def move(targets: np.ndarray) -> State:
    """The motion of the real robot, in MuJoCo, from rest at home: q and v (steps + 1, 12)."""
    model = on_a_stand().mujoco
    data, torque, rows = mujoco.MjData(model), np.zeros(model.nu), []
    data.qpos[:] = home()
    for target in [*targets, None]:
        rows.append((data.qpos.copy(), data.qvel.copy()))
        if target is not None:
            torque = torques(target - data.qpos, data.qvel, torque)
            data.qfrc_applied[:] = torque - DRY * np.tanh(data.qvel / SMOOTH)
            mujoco.mj_step(model, data)
    return State(*(np.array(each) for each in zip(*rows, strict=True)))


def swings(random: np.random.Generator) -> np.ndarray:
    """Targets (steps, 12) [rad]: two waves for each joint, from home."""
    time = DT * np.arange(round(SECONDS / DT))[:, None]
    total = np.zeros((len(time), 3 * len(LEGS)))
    for _ in range(2):
        frequency = random.uniform(SLOWEST, FASTEST, total.shape[1])
        phase = random.uniform(0, 2 * np.pi, total.shape[1])
        total += SWING / 2 * (np.sin(2 * np.pi * frequency * time + phase) - np.sin(phase))
    return home() + total


def experiment(seed: int = 0) -> tuple[list[Motion], list[Motion]]:
    """Motions as they were measured, with noise, and some that are held out, without."""
    random = np.random.default_rng(check_seed(seed))
    motions = []
    for i in range(MOTIONS + HELD_OUT):
        targets = swings(random)
        real = move(targets)
        noise = NOISE if i < MOTIONS else (0.0, 0.0)
        measured = State(*(x + size * random.normal(size=x.shape) for x, size in zip(real, noise, strict=True)))
        motions.append((measured, targets))
    return motions[:MOTIONS], motions[MOTIONS:]


def plain(device: str = "cpu") -> Articulated:
    """The robot whose motors are what the data sheet says: servos, at once and without a limit."""
    system = Articulated(on_a_stand(), contact=None, device=device)
    count = system.nu
    system.params["gain"] = np.tile([STIFFNESS, 0.0, 0.0], (count, 1))
    system.params["bias"] = np.tile([0.0, -STIFFNESS, -DAMPING], (count, 1))
    return system


def servo_network(seed: int):
    """A perceptron that begins close to the plain servo: fitted to it at random inputs, not to any recording."""
    network = perceptron(2 * len(HISTORY), HIDDEN, 1, seed=seed, zero=False)  # says how to get torch

    import torch

    random = torch.Generator().manual_seed(seed)
    now = torch.randn((GUESS, 2, 1), generator=random, dtype=torch.float64)
    x = (now + 0.1 * torch.randn((GUESS, 2, len(HISTORY)), generator=random, dtype=torch.float64)).flatten(1)
    gains = STIFFNESS / SCALES["pos_scale"], DAMPING / SCALES["vel_scale"]
    wanted = (gains[0] * x[:, :1] - gains[1] * x[:, len(HISTORY) : len(HISTORY) + 1]) / SCALES["torque_scale"]
    with torch.no_grad():
        bent = torch.cat([network[:-1](x), torch.ones_like(x[:, :1])], dim=1)
        last = torch.linalg.lstsq(bent.T @ bent + 1e-3 * torch.eye(bent.shape[1]).double(), bent.T @ wanted).solution
        network[-1].weight.copy_(last[:-1].T)
        network[-1].bias.copy_(last[-1])
    return network


def hybrid(seed: int = 0, device: str = "cpu") -> Actuator:
    """The robot with one network for all its motors, inside its kernels."""
    robot = Articulated(on_a_stand(), contact=None, device=device)
    return Actuator(robot, servo_network(seed), history=HISTORY, where="kernel", **SCALES)


def apart(found: np.ndarray, real: np.ndarray) -> float:
    """Root mean square of what angles are apart, over all joints and steps [rad]."""
    return float(np.sqrt(np.mean((found - real) ** 2)))


def controller(system, wanted: np.ndarray, iterations: int = 60) -> np.ndarray:
    """Targets (steps, 12) with which a System's joints follow wanted angles (steps + 1, 12), found by gradients."""
    steps = len(wanted) - 1
    task = Task(
        name="follow", about="follow fast angles", system=system, start=system.state(wanted[0]),
        find=Controls(steps, scale=1.0, start=wanted[:-1]), loss=StateGoal(q=wanted, when="path"), target=0.0,
        metric=lambda run: np.sqrt(np.mean((to_numpy(run.q) - wanted[:, None]) ** 2, axis=(0, 2))),
    )  # fmt: skip
    found = minimise(task, task.begin()[0], LBFGS(), iterations=iterations)
    return task.find.decode(system, found.x[None])[0][:, 0]


@task_factory
def motor_lag(device: str = "cpu", seed: int = 0) -> Task:
    system = hybrid(seed, device)
    known, unseen = experiment(seed)
    states = [(system.recorded(states, targets, 1), targets) for states, targets in known]
    motions = [(x, targets[len(targets) + 1 - len(x.q) :]) for x, targets in states]
    recorded, controls = windows(motions, WINDOW, WINDOWS, np.random.default_rng(seed))
    weights = tuple(system.networks[0].weights)
    metric = HeldOut(system, unseen, apart, weights, WINDOWS)

    def curves(run: Run) -> list[Curves]:
        """The angle of a calf in a motion held out, and its start at close range."""
        real, targets = unseen[0]
        time, found = DT * np.arange(len(real.q)), metric.found(run)
        paths = {"real": real.q}
        for name, one, params in (("hybrid", system, found), ("servos", plain(), None)):
            start = one.state(real.q[0], real.v[0])
            paths[name] = to_numpy(rollout(one, start, targets[:, None], params=params).q)[:, 0]
        calf, part = 2, slice(0, 300)
        lines = {name: q[:, calf] for name, q in paths.items()} | {"target": np.append(targets[:, calf], np.nan)}
        errors = {name: 1e3 * (q - real.q)[:, calf] for name, q in paths.items() if name != "real"}
        near = {name: x[part] for name, x in lines.items()}
        return [
            Curves("calf", time[part], near, "time [s]", "angle [rad]"),
            Curves("error", time, errors, "time [s]", "angle, from the real one [mrad]"),
        ]

    return Task(
        name="motor-lag",
        about="learn the lag, saturation and friction of a quadruped's motors, with one network for all of them",
        system=system,
        start=type(recorded)(*(x[0] for x in recorded)),
        find=Parameters(WINDOW, dict.fromkeys(weights, ...), controls=controls, linear=weights),
        loss=Recording(system.model, recorded.q, recorded.v),
        metric=metric,
        target=0.0023,
        unit="rad, rms error of the joints over 2 s",
        evaluate_at_end=True,
        method=LBFGS(),
        iterations=400,
        camera=Camera((1.0, -1.4, 0.7), (0.0, 0.0, 0.3)),
        curves=curves,
    )
