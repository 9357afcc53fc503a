"""What is this robot really like? Masses, inertias and frictions of a quadruped's links from a noisy recording."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pullback.contact import ContactCompliant
from pullback.core.checks import check_seed
from pullback.core.system import State
from pullback.dynamics import Articulated
from pullback.model import Model, load
from pullback.model.robots.quadrupeds import LEGS, quadruped
from pullback.model.tangent import integrate
from pullback.plan import CMA, GaussNewton
from pullback.rollout import Run, rollout
from pullback.spatial import quat_exp
from pullback.tasks.residuals import Recording, channel_deviations
from pullback.tasks.task import Camera, Task, task_factory
from pullback.tasks.variables import Factors

SECONDS = 0.24  # of each motion: short, for a robot that slides and tumbles soon depends on everything too strongly
# Of each motion: how far the robot is lifted before it is let go [m], and how far its servos swing [rad]. Feet slide
# under a robot that stands or lands early; legs that swing in the air tell most about their own inertia and damping.
# None lands late: whether a foot touches in the last steps would decide on a jump, which no gradient sees coming.
MOTIONS = ((0.0, 0.3), (0.0, 0.3), (0.0, 0.3), (0.03, 0.4), (0.5, 0.45), (0.5, 0.45), (0.5, 0.45))
SHARES = (0.7, 1.0, 1.0)  # of that swing for hip, thigh and calf: hips have the weaker motors [1]
TILT = 0.1  # of a lifted robot [rad]
WAVES, SLOWEST, FASTEST = 3, 1.5, 7.0  # sines in the target of each servo, and their frequencies [Hz]
STIFFNESS, DAMPING = 35.0, 0.5  # of the servos [N·m/rad], [N·m·s/rad]
FRICTION = 0.6  # of the feet, by the data sheet [1]
OFF = (0.05, 0.3)  # how far the real robot is from its data sheet, at least and at most [1]
MOST = 1.5  # times more or less than the data sheet says, at most [1]
NOISE = 0.01  # of the recording, against the standard deviation of each channel [1]
EXPERIMENT = 0  # seed of the motions: the experiment is always the same, the robot and the noise are not

EYE, LOOK = (0.8, -1.8, 0.7), (0, 0, 0.3)  # of the camera [m]


def servoed_quadruped(device: str = "cpu") -> Articulated:
    """The sample quadruped as its data sheet has it, its motors made servos whose controls are angles [rad].

    Of two surfaces in contact the rougher counts, so the floor is made slippery, for the feet's friction to matter.
    """
    model = load(quadruped())
    # Smooth over 1 mm and 2 cm/s, so that the sensitivities of the motion are smooth as well.
    contact = ContactCompliant(contact_stiffness=2e4, smoothing=1e-3, slip_speed=0.02)
    system = Articulated(model, contact, device=device)
    friction = np.array(system.params["friction"])
    friction[:, 0] = 0.0
    friction[_feet(model), 0] = FRICTION
    system.params["friction"] = friction
    system.params["gain"] = np.tile([STIFFNESS, 0.0, 0.0], (model.nu, 1))
    system.params["bias"] = np.tile([0.0, -STIFFNESS, -DAMPING], (model.nu, 1))
    return system


def _feet(model: Model) -> list[int]:
    return [model.geoms.names.index(f"{leg}_foot") for leg, _, _ in LEGS]


def wanted(model: Model) -> dict[str, tuple[str, object]]:
    """The decision variables: 13 masses, 3 + 8 inertias, 12 joint dampings and 4 coefficients of friction."""
    body = model.body_names.index
    legs = [leg for leg, _, _ in LEGS]
    groups = {"mass trunk": ("mass", body("trunk"))}
    for link in ("hip", "thigh", "calf"):
        groups |= {f"mass {leg}_{link}": ("mass", body(f"{leg}_{link}")) for leg in legs}
    groups |= {f"inertia trunk {axis}": ("inertia", (body("trunk"), i)) for i, axis in enumerate("xyz")}
    # The inertia of a hip is a tenth of the armature of its motor, which hides it: it is taken from the data sheet.
    for link in ("thigh", "calf"):
        groups |= {f"inertia {leg}_{link}": ("inertia", body(f"{leg}_{link}")) for leg in legs}
    for joint, dof in zip(model.joint_names[1:], model.joint_v[1:], strict=True):
        groups[f"damping {joint}"] = ("damping", int(dof))
    return groups | {f"friction {leg}": ("friction", (i, 0)) for leg, i in zip(legs, _feet(model), strict=True)}


def experiment(system: Articulated) -> tuple[State, np.ndarray]:
    """Starts at rest (motions, ...) and the angles that the servos are told (steps, motions, nu)."""
    model, random = system.model, np.random.default_rng(EXPERIMENT)
    count, steps = len(MOTIONS), round(SECONDS / model.timestep)
    lift, swing = np.array(MOTIONS).T
    q = np.tile(model.home.q, (count, 1))
    q[:, 2] += lift
    q[:, 3:7] = quat_exp(random.uniform(-TILT, TILT, (count, 3)) * (lift > 0)[:, None])
    time = model.timestep * np.arange(steps)[:, None, None]
    wave = np.zeros((steps, count, model.nu))
    for _ in range(WAVES):
        frequency = random.uniform(SLOWEST, FASTEST, (count, model.nu))
        phase = random.uniform(0, 2 * np.pi, (count, model.nu))
        wave += np.sin(2 * np.pi * frequency * time + phase) - np.sin(phase)  # from rest, without a jump
    swing = swing[:, None] * np.tile(SHARES, len(LEGS))
    targets = model.home.q[7:] + swing * wave / np.abs(wave).max(axis=0)
    return system.in_worlds(count).state(q), targets


def real_robot(model: Model, names: list[str], random: np.random.Generator) -> np.ndarray:
    """True factors of what the data sheet says, (n,): 5 to 30 % more or less, and a trunk that can exist."""
    trunk = [i for i, name in enumerate(names) if name.startswith("inertia trunk")]
    moments = model.body_inertia[model.body_names.index("trunk"), :3]
    while True:
        factors = 1 + random.uniform(*OFF, len(names)) * random.choice([-1, 1], len(names))
        if np.all(2 * (moments * factors[trunk]) <= np.sum(moments * factors[trunk])):  # no moment beyond the others
            return factors


def record(system: Articulated, find: Factors, start: State, truth: np.ndarray, random: np.random.Generator):
    """The motion of the real robot as it was measured, with noise in every coordinate and velocity."""
    model, wide = system.model, system.in_worlds(len(start.q))
    controls, params = find.decode(wide, np.repeat(np.log(truth)[None], len(start.q), axis=0))
    run = rollout(wide, start, controls, params=params)
    noise = NOISE * channel_deviations(model, run.q, run.v) * random.standard_normal((*run.v.shape[:2], 2 * model.nv))
    return Recording(model, integrate(model, run.q, noise[..., : model.nv]), run.v + noise[..., model.nv :])


def worst_error(run: Run, groups: Mapping[str, tuple[str | tuple[str, ...], object]], truth: np.ndarray) -> np.ndarray:
    """The largest error of the factors (n,) of groups of parameters, against the truth, (worlds,) [%]."""
    factors = []
    for names, index in groups.values():
        name = names if isinstance(names, str) else names[0]
        sheet, values = run.system.params[name], run.params.values[name]
        first = np.arange(sheet.size).reshape(sheet.shape)[index].flat[0]  # of the entries that share the factor
        factors.append(values.reshape(run.system.worlds, -1)[:, first] / sheet.flat[first])
    return 100 * np.abs(np.array(factors) / truth[:, None] - 1).max(axis=0)


@task_factory
def identify(device: str = "cpu", seed: int = 0) -> Task:
    system = servoed_quadruped(device)
    model, random = system.model, np.random.default_rng(check_seed(seed))
    groups = wanted(model)
    start, targets = experiment(system)
    find = Factors(len(targets), groups, targets, most=MOST)
    truth = real_robot(model, list(groups), random)
    recording = record(system, find, start, truth, random)

    return Task(
        name="identify",
        about="find the masses, inertias and frictions of a quadruped from a recording with 1 % noise",
        system=system,
        start=start,
        find=find,
        loss=recording,
        metric=lambda run: worst_error(run, groups, truth),
        target=2.0,
        unit="% error of the worst parameter",
        evaluate_at_end=True,
        truth=truth,
        method=GaussNewton(),
        iterations=30,
        baseline=CMA(spread=0.1),
        baseline_iterations=300,
        camera=Camera(EYE, LOOK),
    )
