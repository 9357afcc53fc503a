"""The textbook algorithms of articulated bodies, batched over worlds and times, each with its adjoint.

Each takes a robot, or a System around one, and a configuration. It returns an :class:`Evaluation`: its ``value``, and
a ``pullback`` from the value's cotangent to those of q, v, the joint accelerations or forces, and every parameter of
the robot.

    pose = kinematics(system, q, of="site")
    grads = pose.pullback(pose_bar)             # grads.q, grads.v, grads.x, grads.params

Configurations have shape (worlds, nq), or (times, worlds, nq) for a whole trajectory such as ``run.q``, in one launch.
Values, cotangents, v and x then have the same leading axis of times, which the shapes below leave out; parameters do
not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from pullback.core.arrays import checked, from_device, to_device, to_numbers, to_numpy, zeros
from pullback.core.bars import Named
from pullback.core.errors import PullbackError
from pullback.dynamics.articulated import Articulated
from pullback.dynamics.frames import Frames, empty_bars, frames_of, upload_frames
from pullback.dynamics.inside import Robot, of_robots
from pullback.dynamics.params import Cotangents
from pullback.kernels import specialise
from pullback.model.tangent import tangent_of_move
from pullback.spatial import quat_mul


class Gradients(NamedTuple):
    """Cotangents of an algorithm's arguments.

    q, v: of the shape of q and v; x: of the joint accelerations (inverse dynamics) or joint forces (forward dynamics),
    zero for algorithms that take neither; params: by name.
    """

    q: Any
    v: Any
    x: Any
    params: Named


@dataclass(frozen=True)
class Evaluation:
    """The result of an algorithm (``value``), and its pullback: ``pullback(bar)``, with bar of the value's shape,
    returns :class:`Gradients` q, v, x and params. ``pullback(bar, wants_params=False)`` saves the time for parameters.

    :func:`kinematics` also has a forward mode: ``pushforward(dq)``, with dq of the shape of q, is the tangent of the
    value as a NumPy array, from one sweep over the robot.
    """

    value: Any
    pullback: Callable[..., Gradients] = field(repr=False)
    pushforward: Callable[[Any], np.ndarray] | None = field(default=None, repr=False)


@of_robots
def kinematics(
    system: Robot, q, *, of: str = "body", names: tuple[str, ...] | None = None, params: Mapping | None = None
) -> Evaluation:
    """Poses (worlds, n, 7) of bodies, "geom"s, "site"s or "camera"s: position [m] and quaternion, in the world.

    of:    "body", "geom", "site", "camera", or "com": bodies' centres of mass, with the axes of the bodies
    names: which frames; all of that kind if None.
    """
    frames = frames_of(system, of, names, params)
    if not system._is_here(q):
        q = np.array(to_numbers(q, "q"))  # a copy, since the pushforward reads it again
    found = _evaluate(system, "KINEMATICS", (len(frames), 7), q, frames=frames, params=params)

    def pushforward(dq) -> np.ndarray:
        """The tangent of the poses: the velocities at v = dq, with quaternion rates from angular velocities."""
        coordinates = to_numpy(q)
        axes = ("times", "worlds", "nq")[-coordinates.ndim :]
        moved = checked(dq, coordinates.shape, system.dtype, "the tangent of q", axes)
        v = tangent_of_move(system.model, coordinates, moved)
        twists = to_numpy(_evaluate(system, "VELOCITY", (len(frames), 6), q, v, frames=frames, params=params).value)
        turn = np.concatenate([np.zeros_like(twists[..., :1]), twists[..., :3]], axis=-1)
        return np.concatenate([twists[..., 3:], 0.5 * quat_mul(turn, to_numpy(found.value)[..., 3:])], axis=-1)

    return replace(found, pushforward=pushforward)


@of_robots
def jacobian(
    system: Robot, q, *, of: str = "body", names: tuple[str, ...] | None = None, params: Mapping | None = None
) -> Evaluation:
    """Jacobians (worlds, n, 6, nv) [angular; linear] of the frames' velocities, in world axes at each frame's origin.

    names: which frames; all of that kind if None.
    """
    frames = frames_of(system, of, names, params)
    return _evaluate(system, "JACOBIAN", (len(frames), 6, system.nv), q, frames=frames, params=params)


@of_robots
def velocity(
    system: Robot, q, v, *, of: str = "body", names: tuple[str, ...] | None = None, params: Mapping | None = None
) -> Evaluation:
    """Velocities (worlds, n, 6) of bodies, "geom"s, "site"s or "camera"s: angular [rad/s], then that of the frame's
    origin [m/s], in world axes.

    names: which frames; all of that kind if None.
    """
    frames = frames_of(system, of, names, params)
    return _evaluate(system, "VELOCITY", (len(frames), 6), q, v, frames=frames, params=params)


@of_robots
def acceleration(
    system: Robot,
    q,
    v,
    a,
    *,
    of: str = "body",
    names: tuple[str, ...] | None = None,
    params: Mapping | None = None,
) -> Evaluation:
    """Accelerations (worlds, n, 6) of bodies, "geom"s, "site"s or "camera"s under joint accelerations a: angular
    [rad/s²], then that of the frame's origin [m/s²], in world axes. Gravity is not included.

    names: which frames; all of that kind if None.
    """
    frames = frames_of(system, of, names, params)
    return _evaluate(system, "ACCELERATION", (len(frames), 6), q, v, a, frames=frames, params=params)


@of_robots
def center_of_mass(system: Robot, q, *, params: Mapping | None = None) -> Evaluation:
    """Centre of mass (worlds, 3) of everything in the world [m]."""
    _require_mass(system, params)
    return _evaluate(system, "COM", (3,), q, params=params)


@of_robots
def center_of_mass_velocity(system: Robot, q, v, *, params: Mapping | None = None) -> Evaluation:
    """Velocity (worlds, 3) of the centre of mass of everything in the world [m/s]."""
    _require_mass(system, params)
    return _evaluate(system, "COM_VELOCITY", (3,), q, v, params=params)


@of_robots
def energy(system: Robot, q, v, *, params: Mapping | None = None) -> Evaluation:
    """Energies (worlds, 2) [J]: potential, of gravity and springs, and kinetic, of bodies and armature."""
    return _evaluate(system, "ENERGY", (2,), q, v, params=params)


@of_robots
def momentum(system: Robot, q, v, *, params: Mapping | None = None) -> Evaluation:
    """Momentum (worlds, 6) of everything: angular about the centre of mass [kg·m²/s], then linear [kg·m/s]."""
    _require_mass(system, params)
    return _evaluate(system, "MOMENTUM", (6,), q, v, params=params)


@of_robots
def inverse_dynamics(system: Robot, q, v, a, *, params: Mapping | None = None) -> Evaluation:
    """Joint forces (worlds, nv) that make the joint accelerations a: M a + bias (RNEA).

    M includes the armature. The bias includes Coriolis forces and gravity, minus gravity compensation. Springs,
    dampers, drag and actuators are not included.
    """
    return _evaluate(system, "RNEA", (system.nv,), q, v, a, params=params)


@of_robots
def mass_matrix(system: Robot, q, *, params: Mapping | None = None) -> Evaluation:
    """The mass matrix (worlds, nv, nv), armature included (CRBA)."""
    return _evaluate(system, "CRBA", (system.nv, system.nv), q, params=params)


@of_robots
def forward_dynamics(system: Robot, q, v, tau, *, params: Mapping | None = None) -> Evaluation:
    """Joint accelerations (worlds, nv) under the joint forces tau: M⁻¹ (tau - bias) in O(nv) (ABA).

    As in :func:`inverse_dynamics`, springs, dampers, drag and actuators are not included.
    """
    return _evaluate(system, "ABA", (system.nv,), q, v, tau, params=params)


# --- implementation --------------------------------------------------------------------------------


def _require_mass(system: Articulated, params: Mapping | None) -> None:
    mass = system.hold_params(params).values["mass"]
    if not np.all(np.sum(np.asarray(mass)[..., 1:], axis=-1) > 0):
        raise PullbackError("nothing in this model has mass, so there is no centre of mass")


def _evaluate(
    system: Articulated,
    mode: str,
    entry: tuple[int, ...],
    q,
    v=None,
    x=None,
    *,
    frames: Frames | None = None,
    params: Mapping | None = None,
) -> Evaluation:
    """Runs the algorithm ``mode``. ``entry`` is the shape of its value in one world at one time."""
    kernels = specialise(system.dtype, "tree.algorithms")
    real, device = system.dtype, system.device
    number = int(getattr(kernels, mode))
    q = q if hasattr(q, "shape") else to_numbers(q, "q")
    lead = tuple(q.shape[:1]) if len(q.shape) == 3 else ()  # the axis of times, if there is one
    nq, nv, worlds = system.nq, system.nv, system.worlds
    q, v, x = (_rows(system, lead, *each) for each in ((q, nq, "q"), (v, nv, "v"), (x, nv, "x")))
    kernel_params = system.hold_params(params)
    held = upload_frames(frames, system)
    shape = (q.shape[0], worlds, int(np.prod(entry[:-1])), entry[-1])
    value = zeros(shape, real, device)
    system._launch(kernels.evaluate, (system._tree, kernel_params.struct), (q, v), (number, held, x, value))

    def pullback(bar, *, wants_params: bool = True) -> Gradients:
        """Cotangents of all arguments, from the value's."""
        bar = _taken(system, bar, (*lead, worlds, *entry), "bar", ("row", "column", "entry")[-len(entry) :])
        bars = Cotangents(kernel_params, wanted=wants_params)
        q_bar, v_bar, x_bar = (zeros(a.shape, real, device) for a in (q, v, x))
        held_bar = empty_bars(frames, system)
        system._launch(
            kernels.evaluate_adjoint,
            (system._tree, kernel_params.struct, bars.struct),
            (q, v),
            (number, held, held_bar, x, bar.reshape(shape), int(wants_params), q_bar, v_bar, x_bar),
        )
        fields = (from_device(a).reshape((*lead, *a.shape[1:])) for a in (q_bar, v_bar, x_bar))
        named = bars.named()
        if frames is not None:
            frames.add_bars(kernel_params, named, held_bar.pos, held_bar.turn)
        return Gradients(*fields, named)

    return Evaluation(from_device(value).reshape((*lead, worlds, *entry)), pullback)


def _rows(system: Articulated, lead: tuple[int, ...], given, size: int, name: str) -> wp.array:
    """An argument (*lead, worlds, size) as (times, worlds, size) on the device; zeros if it is None."""
    rows = (*(lead or (1,)), system.worlds, size)
    if given is None:
        return zeros(rows, system.dtype, system.device)
    array = _taken(system, given, (*lead, system.worlds, size), name, ("nq" if name == "q" else "nv",))
    if name == "q" and not system._is_here(given):
        system._check_quaternions(to_numpy(given).reshape(-1, size))
    return array.reshape(rows)


def _taken(system: Articulated, given, shape: tuple[int, ...], name: str, axes: tuple[str, ...]) -> wp.array:
    """An array of this shape on the System's device, flat if it was uploaded; ``axes``: after times and worlds."""
    if system._is_here(given):
        return system._take(given, shape, name, axes)
    array = checked(given, shape, system.dtype, name, ("times", "worlds")[len(axes) - len(shape) :] + axes)
    # Flat, since Warp has no more than four axes; a copy, since the backward pass reads it again.
    return to_device(array.flatten(), system.dtype, system.device)
