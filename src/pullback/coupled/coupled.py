"""A robot and particles or elastic bodies as one System, in contact with each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import checked, to_numbers, to_numpy
from pullback.core.checks import check_kind, check_several
from pullback.core.errors import PullbackError, SimulationError
from pullback.core.named_system import NamedSystem
from pullback.core.status import Status
from pullback.core.system import Bars, Named, State
from pullback.core.trees import numbers, row
from pullback.core.wrapper import HeldParts, joined_params
from pullback.coupled.drawing import draw_coupled
from pullback.coupled.geoms import geom_shapes
from pullback.coupled.wrenches import wrenches, wrenches_adjoint
from pullback.drawing import Drawing
from pullback.dynamics import Articulated, algorithms
from pullback.dynamics.health import FASTEST
from pullback.soft import Elastic, Particles
from pullback.soft.carried import carry_on, carry_on_adjoint

# Relative tolerance of the ratio of the two timesteps, which should be a whole number: rounding of decimals. [1]
SAME_TIME = 1e-9
ROBOT, SOFT = "robot.", "soft."  # prefixes of the parameters' names


class CoupledState(NamedTuple):
    """robot: State(q, v); soft: soft.ShapedState(x, v, C, F, Jp, impulse), or soft.ShapedElasticState(x, v, impulse)"""

    robot: Any
    soft: Any


class Motion(NamedTuple):
    """Evaluations of the shapes' poses and twists and of their bodies' centres of mass, and the inputs that follow.

    inputs:  inputs of the soft bodies by name, (substeps, worlds, shapes, 7 or 6)
    """

    pose: algorithms.Evaluation
    twist: algorithms.Evaluation
    com: algorithms.Evaluation
    inputs: dict[str, np.ndarray]


class Coupled(NamedSystem):
    """A robot and soft bodies in contact: geoms of the robot push the soft bodies, and the reaction acts on its bodies.

    robot:     an :class:`~pullback.Articulated` on the CPU; its timestep is a whole multiple of the soft bodies'
    soft:      :class:`~pullback.soft.Particles` or :class:`~pullback.soft.Elastic` without shapes of its own, with the
               same number of worlds
    shapes:    names of the geoms in contact with the soft bodies: planes, spheres, capsules and boxes, for particles
               also cylinders; geoms of the world may be included. All others pass through the soft bodies
    friction:  of these geoms, one number or one per geom; math.inf is sticky, for particles. None: the friction of each
               geom in the file

    A state is a ``CoupledState(robot, soft)``. A control has the robot's numbers, then those of muscles or handles.
    Parameters are those of both, for example "robot.mass" and "soft.lame". Inputs are the robot's.
    """

    state_type = CoupledState

    def __init__(
        self,
        robot: Articulated,
        soft: Particles | Elastic,
        *,
        shapes: Sequence[str] | str,
        friction: float | Sequence[float] | None = None,
    ):
        check_kind(robot, Articulated, "robot", "pb.Articulated(model)")
        if not isinstance(soft, Particles | Elastic):
            raise PullbackError(f"soft must be soft.Particles or soft.Elastic, not {type(soft).__name__}")
        self._whose = "the particles" if isinstance(soft, Particles) else "the elastic bodies"
        self._refuse_mismatch(robot, soft)
        self.shapes = check_several(shapes, str, "a name in shapes")
        self.friction = friction
        self._bodies, found = geom_shapes(robot.model, self.shapes, friction, soft)
        self._bare = soft
        self.robot, self.soft = robot, soft.among(found)
        self.substeps = round(robot.dt / soft.dt)
        self.worlds, self.nu, self.dtype, self.device = robot.worlds, robot.nu + soft.nu, robot.dtype, "cpu"
        self.inputs, self.surrogate = robot.inputs, robot.surrogate
        self.params = joined_params({ROBOT: robot, SOFT: self.soft}, {}, self.worlds)
        self._carriers = tuple(robot.model.body_names[b] for b in self._bodies)

    def _refuse_mismatch(self, robot: Articulated, soft: Particles | Elastic) -> None:
        whose = self._whose
        for name in ("worlds", "dtype"):
            mine, other = getattr(robot, name), getattr(soft, name)
            if mine != other:
                raise PullbackError(
                    f"the robot has {name}={mine!r}, but {whose} have {name}={other!r}: make both with the same"
                )
        if robot.device != "cpu" or soft.device != "cpu":
            raise PullbackError("a robot among soft bodies runs on the CPU alone: make both with device='cpu'")
        if robot.na:
            raise PullbackError("a robot among soft bodies has actuators without activations: use motors or servos")
        if soft.shapes or getattr(soft, "dim", 3) != 3:
            raise PullbackError(
                f"{whose} around a robot are in space, and without shapes of their own: geoms of the robot's file, "
                "such as its floor, may be among those named in shapes"
            )
        ratio = robot.dt / soft.dt
        if round(ratio) < 1 or abs(ratio / round(ratio) - 1) > SAME_TIME:
            raise PullbackError(
                f"the timestep of the robot, {robot.dt:g} s, must be a whole multiple of that of {whose}, "
                f"{soft.dt:g} s: use dt={robot.dt / max(1, np.ceil(ratio)):.10g} for {whose}, or another "
                "timestep in the robot's file"
            )

    def __repr__(self) -> str:
        return f"Coupled({self.robot!r}, {self.soft!r}, shapes={self.shapes!r}, substeps={self.substeps})"

    @property
    def dt(self) -> float:
        """Timestep [s], the robot's."""
        return self.robot.dt

    @property
    def model(self):
        """The robot's model."""
        return self.robot.model

    def exact(self) -> Coupled:
        return self if self.surrogate is None else self._copied(robot=self.robot.exact())

    def state(self, robot=None, soft=None) -> CoupledState:
        """A state of all worlds, from ``coupled.robot.state(...)`` and ``coupled.soft.state(...)``; None: their initial
        states."""
        robot = self.robot.state() if robot is None else robot
        soft = self.soft.state() if soft is None else soft
        if isinstance(soft, tuple) and len(soft) == len(self.soft.state_type._fields) - 1:  # a state without impulses
            soft = self.soft.state_type(*soft, self.soft.state().impulse)
        return CoupledState(robot, soft)

    def drawing(self, run, *, ghost=None, bars=None) -> Drawing:
        """The robots of a run, and the soft bodies of its first world. ``bars`` are not drawn."""
        return draw_coupled(run, ghost=ghost)

    # --- copies and parameters -------------------------------------------------------------------------------------

    def _held_of(self, values, like=None) -> HeldParts:
        return HeldParts(self.params.table, values, {ROBOT: self.robot, SOFT: self.soft}, self)

    def _settings(self) -> dict[str, Any]:
        return {"robot": self.robot, "soft": self._bare, "shapes": self.shapes, "friction": self.friction}

    def _made_again(self, *, worlds, dtype):
        parts = {name: self._settings()[name].in_worlds(worlds, dtype=dtype) for name in ("robot", "soft")}
        return type(self)(**self._settings() | parts)

    # --- the contract ----------------------------------------------------------------------------------------------

    def step(self, state, control=None, params=None, *, inputs: Mapping | None = None) -> CoupledState:
        """The state after one timestep of the robot. control: (worlds, nu), zero if None; inputs: the robot's."""
        state, held = self._taken(state), self.hold_params(params)
        push, pull = self._split(control)
        motion = self._motion(state.robot, held)
        start = state.soft._replace(impulse=np.zeros_like(state.soft.impulse))
        with _part(self._whose):
            rows = self._substeps(start, pull, motion, held, keep_every=self.substeps)
        given = row(rows, 1).impulse
        with _part("the robot"):
            acting = self._acting(inputs, given, motion)
            robot = self.robot.step(state.robot, push, held.parts[ROBOT], inputs=acting)
        return CoupledState(robot, row(rows, 1)._replace(impulse=state.soft.impulse + given))

    def pullback(self, state, control, next_bar, params=None, *, inputs=None, wants_params: bool = True) -> Bars:
        held, given = self.hold_params(params), {"inputs": inputs} if inputs else {}
        after = self.step(state, control, held, **given)
        return self.pullback_between(state, control, after, next_bar, held, wants_params=wants_params, **given)

    def pullback_between(
        self, state, control, after, next_bar, params=None, *, inputs=None, wants_params: bool = True
    ) -> Bars:
        state, held = self._taken(state), self.hold_params(params)
        push, pull = self._split(control)
        motion = self._motion(state.robot, held)
        start = state.soft._replace(impulse=np.zeros_like(state.soft.impulse))
        rows = self._substeps(start, pull, motion, held, keep_every=1)
        given, com, duration = rows.impulse[-1], _places(motion.com), self.dt
        robot_bar, soft_bar = self._filled(next_bar)

        between = (state.robot, push, after.robot, robot_bar, held.parts[ROBOT])
        with _part("the robot"):
            of_robot = self.robot.pullback_between(
                *between, inputs=self._acting(inputs, given, motion), wants_params=wants_params
            )
        wrench_bar = of_robot.inputs["wrench"]
        impulse_bar, com_bar = wrenches_adjoint(given, com, self._bodies, duration, to_numpy(wrench_bar))

        with _part(self._whose):
            of_soft = self._substeps_back(
                rows, pull, motion, soft_bar._replace(impulse=soft_bar.impulse + impulse_bar), held, wants_params
            )
        moved = (to_numpy(motion.pose.value), to_numpy(motion.twist.value), self.soft.dt)
        pose_bar, twist_bar = carry_on_adjoint(*moved, of_soft.inputs["pose"], of_soft.inputs["twist"])
        com_bar = np.concatenate([com_bar, np.zeros((*com_bar.shape[:2], 4), com_bar.dtype)], axis=-1)
        of_motion = [
            evaluation.pullback(bar.astype(self.dtype), wants_params=wants_params)
            for evaluation, bar in ((motion.pose, pose_bar), (motion.twist, twist_bar), (motion.com, com_bar))
        ]
        state_bar = CoupledState(
            State(
                to_numpy(of_robot.state.q) + sum(to_numpy(bars.q) for bars in of_motion),
                to_numpy(of_robot.state.v) + sum(to_numpy(bars.v) for bars in of_motion),
            ),
            of_soft.state._replace(impulse=soft_bar.impulse),
        )
        control_bar = np.concatenate([to_numpy(of_robot.control), of_soft.control.sum(axis=0)], axis=-1)
        params_bar = {}
        if wants_params:
            sums = {n: bar + sum(bars.params[n] for bars in of_motion) for n, bar in of_robot.params.items()}
            params_bar = {ROBOT + name: bar for name, bar in sums.items()}
            params_bar |= {SOFT + name: bar for name, bar in of_soft.params.items()}
        inputs_bar = {name: of_robot.inputs[name] for name in inputs or ()}
        return Bars(state_bar, control_bar, Named(params_bar), Named(inputs_bar))

    def steps(
        self,
        state,
        controls,
        *,
        keep_every: int = 1,
        hold: int = 1,
        params: Mapping | None = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
    ):
        """The states after every keep_every-th step and the last; see :meth:`System.steps`."""
        options: dict[str, Any] = {"keep_every": keep_every, "hold": hold, "params": params, "inputs": inputs}
        try:
            return super().steps(self._taken(state), controls, **options, status=status)
        except SimulationError as error:
            if error.step is not None and f"at step {error.step}" not in str(error):
                error.args = (f"{error} (at step {error.step})",)
            raise

    # --- pieces of a step ------------------------------------------------------------------------------------------

    def _taken(self, state) -> CoupledState:
        if not isinstance(state, tuple) or len(state) != 2 or not all(isinstance(part, tuple) for part in state):
            raise PullbackError("a state is a CoupledState(robot, soft): make one with coupled.state(...)")
        robot, soft = state
        kind = self.soft.state_type
        if len(robot) != 2 or len(soft) != len(kind._fields):
            raise PullbackError(
                f"a state is a CoupledState(robot=State(q, v), soft={kind.__name__}({', '.join(kind._fields)})): make "
                "one with coupled.state(...)"
            )
        return CoupledState(State(*map(to_numpy, robot)), kind(*map(to_numpy, soft)))

    def _split(self, control) -> tuple[np.ndarray, np.ndarray]:
        """The controls of the robot, and those of muscles or handles."""
        if control is None:
            control = self.default_controls(1)[0]
        control = checked(control, (self.worlds, self.nu), self.dtype, "control", ("worlds", "nu"))
        return control[:, : self.robot.nu], control[:, self.robot.nu :]

    def _motion(self, robot: State, held: HeldParts) -> Motion:
        of, params = {"of": "geom", "names": self.shapes}, held.parts[ROBOT]
        with _part("the robot"):
            pose = algorithms.kinematics(self.robot, robot.q, **of, params=params)
            twist = algorithms.velocity(self.robot, robot.q, robot.v, **of, params=params)
            com = algorithms.kinematics(self.robot, robot.q, of="com", names=self._carriers, params=params)
        with np.errstate(over="ignore", invalid="ignore"):
            poses, twists = carry_on(to_numpy(pose.value), to_numpy(twist.value), self.soft.dt, self.substeps)
        sound = np.isfinite(poses).all(axis=(0, -1)) & np.all(np.abs(twists) <= FASTEST, axis=(0, -1))
        if not sound.all():
            world, shape = (int(i) for i in np.argwhere(~sound)[0])
            raise SimulationError(
                f"the robot: geom {self.shapes[shape]!r} in world {world} is not finite or too fast: it blew up; "
                f"use a smaller timestep (now {self.dt:g} s), or gentler controls and gains",
                world=world,
                worlds=np.flatnonzero(~sound.all(axis=1)),
            )
        return Motion(pose, twist, com, {"pose": poses.astype(self.dtype), "twist": twists})

    def _acting(self, inputs: Mapping | None, given: np.ndarray, motion: Motion) -> dict[str, np.ndarray]:
        """The robot's inputs: the given ones, plus the wrenches from the impulses of the shapes."""
        size = (given, _places(motion.com), self._bodies, self.model.nbody, self.dt)
        acting = {name: to_numbers(x, f"input {name!r}") for name, x in (inputs or {}).items()}
        shape = (self.worlds, self.model.nbody, 6)
        if "wrench" in acting:
            acting["wrench"] = checked(
                acting["wrench"], shape, self.dtype, "input 'wrench'", ("worlds", "body", "axis")
            )
        acting["wrench"] = acting.get("wrench", 0.0) + wrenches(*size)
        return acting

    def _substeps(self, start, pull: np.ndarray, motion: Motion, held: HeldParts, *, keep_every: int):
        pulls = np.repeat(pull[None], self.substeps, axis=0)
        options = {"keep_every": keep_every, "params": held.parts[SOFT], "inputs": motion.inputs}
        return self.soft.steps(start, pulls, **options)

    def _substeps_back(self, rows, pull, motion: Motion, final_bar, held: HeldParts, wants_params: bool) -> Bars:
        pulls = np.repeat(pull[None], self.substeps, axis=0)
        options = {"params": held.parts[SOFT], "inputs": motion.inputs, "wants_params": wants_params}
        backward = self.soft.backward(pulls, row(rows, self.substeps), final_bar, **options)
        backward.through(rows, 0, self.substeps)
        return backward.finish(row(rows, 0))

    def _filled(self, bars) -> tuple[State, Any]:
        """The cotangent of a state with arrays for the parts that need them; parts may be None."""
        (robot, soft), kind = bars, self.soft.state_type
        robot = State(None, None) if robot is None else robot
        soft = kind(*[None] * len(kind._fields)) if soft is None else soft
        impulse = np.zeros((self.worlds, len(self.shapes), 6), self.dtype)
        return State(*robot), kind(*soft)._replace(impulse=impulse if soft[-1] is None else to_numpy(soft[-1]))

    # --- the tangent space: the robot's, followed by the real numbers of the soft bodies ----------------------------

    def difference(self, start, end, *, leading: int = 1) -> np.ndarray:
        robot = self.robot.difference(start.robot, end.robot, leading=leading)
        return np.concatenate([robot, numbers(end.soft, leading) - numbers(start.soft, leading)], axis=-1)

    def difference_jacobian(self, apart: np.ndarray) -> np.ndarray:
        found = np.broadcast_to(np.eye(apart.shape[-1]), (*apart.shape, apart.shape[-1])).copy()
        n = 2 * self.robot.nv
        found[..., :n, :n] = self.robot.difference_jacobian(apart[..., :n])
        return found

    def state_bar(self, state, tangent_bar: np.ndarray) -> CoupledState:
        n = 2 * self.robot.nv
        robot = self.robot.state_bar(state.robot, tangent_bar[..., :n])
        return CoupledState(robot, self.soft.state_bar(state.soft, tangent_bar[..., n:]))

    def tangent_bar(self, state, bars) -> np.ndarray:
        robot = self.robot.tangent_bar(state.robot, bars.robot)
        return np.concatenate([robot, self.soft.tangent_bar(state.soft, bars.soft)], axis=-1)


def _places(com: algorithms.Evaluation) -> np.ndarray:
    return to_numpy(com.value)[..., :3]


@contextmanager
def _part(name: str) -> Iterator[None]:
    """Prefixes errors with the part they come from. Steps in messages of a part are substeps, counted per step."""
    try:
        yield
    except PullbackError as error:
        own = "substep" if name != "the robot" else None
        text = re.sub(r" at step (\d+)", rf" in {own} \1" if own else "", str(error))
        told = {"worlds": error.worlds}
        if isinstance(error, SimulationError):
            raise type(error)(f"{name}: {text}", world=error.world, **told) from error
        raise PullbackError(f"{name}: {text}", **told) from error
