"""Soft bodies, sand, snow and water as particles, as a System."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import (
    check_device,
    check_precision,
    from_device,
    full_shape,
    require_space,
    to_numbers,
    to_numpy,
)
from pullback.core.checks import check_number, check_several, check_whole, check_wholes
from pullback.core.errors import PullbackError
from pullback.core.kernel_system import KernelSystem, kept_steps, stay
from pullback.core.launch import cores_to_use
from pullback.core.params import NamedParams
from pullback.core.status import Status
from pullback.core.system import check_inputs
from pullback.core.trees import tree_map
from pullback.drawing import Drawing
from pullback.kernels import SoftFlavour
from pullback.kernels.soft import kinds
from pullback.soft.backward import ParticlesBackward
from pullback.soft.bodies import Body, Wall
from pullback.soft.drawing import draw_particles
from pullback.soft.materials import sound_speed
from pullback.soft.moving import AmongShapes, Standing
from pullback.soft.params import KernelLaw, parameters
from pullback.soft.shapes import SIZES, Shape
from pullback.soft.stepper import stepper_of

# The longest stable step, relative to the time in which a pressure wave crosses a cell. Other codes use up to 0.7. [1]
LONGEST_STEP = 0.75
# The longest stable viscous step, relative to dx² density / viscosity. [1]
LONGEST_VISCOUS_STEP = 0.2
MOST_WALLS = 30


class ParticleState(NamedTuple):
    """n particles in d dimensions, 2 or 3.

    x:   (worlds, n, d) positions [m]
    v:   (worlds, n, d) velocities [m/s]
    C:   (worlds, n, d, d) velocity gradients [1/s]
    F:   (worlds, n, d, d) deformation gradients; of the elastic part if a material yields [1]
    Jp:  (worlds, n) for snow, the plastic volume ratio [1]; other materials do not change it
    """

    x: Any
    v: Any
    C: Any
    F: Any
    Jp: Any


class ShapedState(NamedTuple):
    """A :class:`ParticleState` of particles among shapes, and the impulses that the shapes received.

    impulse:  (worlds, shapes, 6) momentum transferred from the particles to each shape since it was set to zero:
              angular, about the world's origin [N·m·s], then linear [N·s]
    """

    x: Any
    v: Any
    C: Any
    F: Any
    Jp: Any
    impulse: Any


class Particles(AmongShapes, KernelSystem):
    """Moving least squares material point method: particles carry the material, a grid carries their momentum.

    bodies:   one or several :class:`Body`; ``block`` makes one
    dx:       distance between grid nodes [m]; use about 2 particles per cell and axis
    cells:    (d,) grid nodes along each axis. Particles must stay half a cell from the first and 1.5 from the last node
    dt:       timestep [s]: at most 0.75 dx/c, with c = sqrt((lambda + 2 mu)/density) the speed of pressure waves
    origin:   (d,) position of the first node [m]
    gravity:  (d,) [m/s²]; 9.81 along minus the last axis if None
    walls:    one or several :class:`Wall`; ``room`` makes some. They act on the nodes behind them, one after the other
    shapes:   one or several :class:`Shape`, in three dimensions: obstacles that move according to the inputs ``pose``
              and ``twist``, or stand still
    device:   "cpu" or "cuda"; on CUDA, states and their cotangents stay there as Warp arrays
    threads:  CPU threads; one per core if None

    A control has one number per muscle. The last axis is up. Parameters are ``shear``, ``lame``, ``density`` and
    ``viscosity`` of each body; ``gravity``; ``friction`` of walls; ``strength`` of muscles; ``shape_size`` and
    ``shape_friction``. With shapes, the state includes their impulses: :class:`ShapedState`.
    """

    backward_type = ParticlesBackward
    least_controls = 1
    made_with = ("bodies", "dx", "cells", "dt", "origin", "gravity", "walls", "shapes")
    shape_kinds = tuple(SIZES)
    shape_params = ("shape_size", "shape_friction")

    def __init__(
        self,
        bodies: Sequence[Body] | Body,
        *,
        dx: float,
        cells: Sequence[int],
        dt: float,
        origin=None,
        gravity=None,
        walls: Sequence[Wall] | Wall = (),
        shapes: Sequence[Shape] | Shape = (),
        worlds: int = 1,
        dtype: str = "float64",
        device: str = "cpu",
        threads: int | None = None,
    ):
        self.bodies = check_several(bodies, Body, "a body", "soft.block(low, high, counts, material)")
        self.walls = check_several(walls, Wall, "a wall", "soft.Wall(point, normal)")
        self.shapes = check_several(shapes, Shape, "a shape", "soft.Shape.sphere(centre, radius)")
        self.state_type = ShapedState if self.shapes else ParticleState
        if not self.bodies:
            raise PullbackError("Particles needs at least one body")
        self.dim = self.bodies[0].points.shape[1]
        self.cells = check_wholes(cells, "cells", 4)
        own = [*(body.points.shape[1] for body in self.bodies), *(len(w.normal) for w in self.walls), len(self.cells)]
        if set(own) != {self.dim}:
            raise PullbackError(f"bodies, walls and cells must all be of {self.dim} axes")
        if self.shapes and self.dim != 3:
            raise PullbackError("shapes are for particles in space: use walls in the plane")
        if len(self.walls) > MOST_WALLS:
            raise PullbackError(f"there may be {MOST_WALLS} walls, not {len(self.walls)}")
        self.dx, self.dt = check_number(dx, "dx"), check_number(dt, "dt")
        up = np.eye(self.dim)[-1]
        self.origin = self._vector(np.zeros(self.dim) if origin is None else origin, "origin")
        self.gravity = self._vector(-9.81 * up if gravity is None else gravity, "gravity")
        self.worlds, self.dtype, self.device = (
            check_whole(worlds, "worlds"),
            check_precision(dtype),
            check_device(device),
        )
        if self.shapes and self.device != "cpu":
            raise PullbackError(f"Particles among shapes run on the CPU alone: use device='cpu', not {self.device!r}")
        self.group = np.repeat(np.arange(len(self.bodies)), [len(body.points) for body in self.bodies])
        self.muscles = list(dict.fromkeys(body.muscle for body in self.bodies if body.muscle is not None))
        self.n, self.nu = len(self.group), len(self.muscles)
        yields = any(body.material.yields for body in self.bodies)
        self.flavour = SoftFlavour(self.dtype, self.dim, yields, bool(self.shapes))
        names = {"group": [body.name for body in self.bodies]} if all(body.name for body in self.bodies) else {}
        table = parameters(self.bodies, self.muscles, self.walls, self.shapes, self.gravity)
        self.params = NamedParams(table, self.worlds, names)
        what = f"a state of {self.worlds} worlds with {self.n} particles"
        shape = (1, self.worlds, self.n, self.dim, self.dim)
        require_space(shape, self.dtype, self.device, what, "use fewer worlds, or dtype='float32'")
        self._threads = threads
        self._stepper = stepper_of(self, cores_to_use(threads))
        self.hold_params()  # raises an error for an unstable step

    def __repr__(self) -> str:
        return (
            f"Particles(n={self.n}, d={self.dim}, bodies={len(self.bodies)}, muscles={self.nu}, cells={self.cells}, "
            f"dx={self.dx:g}, dt={self.dt:g}, worlds={self.worlds}, dtype={self.dtype!r})"
        )

    def _vector(self, value, name: str) -> np.ndarray:
        vector = to_numbers(value, name).astype(float)
        if vector.shape != (self.dim,) or not np.isfinite(vector).all():
            raise PullbackError(f"{name} must be {self.dim} finite numbers, not {value!r}")
        return vector

    def drawing(self, run, *, ghost=None, bars=None) -> Drawing:
        """The first world, coloured by the controls of muscles, or by strain without muscles; no ghost and no bars."""
        return draw_particles(run)

    # --- states, controls, parameters ---------------------------------------------------------------

    def state(self, x=None, v=None, C=None, F=None, Jp=None) -> ParticleState | ShapedState:
        """A state of all worlds. By default the bodies are at rest, and not deformed.

        x, v: (worlds, n, d), (n, d) or (d,); C, F: (worlds, n, d, d), (n, d, d) or (d, d); Jp: (worlds, n), (n,) or ()
        """
        points = np.concatenate([body.points for body in self.bodies])
        rest = {"x": points, "v": 0.0, "C": 0.0, "F": np.eye(self.dim), "Jp": 1.0, "impulse": 0.0}
        given = {"x": x, "v": v, "C": C, "F": F, "Jp": Jp}
        fields = []
        for name in self.state_type._fields:
            value = to_numbers(rest[name] if given.get(name) is None else given[name], name)
            shape, axes = self._form(name)
            try:
                value = np.broadcast_to(value, shape)
            except ValueError:
                raise PullbackError(f"{name} has shape {value.shape}, but {shape} is needed") from None
            fields.append(from_device(self._take(value.copy(), shape, name, axes)))
        return self.state_type(*fields)

    def _form(self, field):
        if field == "impulse":
            return (self.worlds, len(self.shapes), 6), ("worlds", "shape", "axis")
        tail = {"Jp": (), "x": (self.dim,), "v": (self.dim,)}.get(field, (self.dim, self.dim))
        return (self.worlds, self.n, *tail), ("worlds", "particle", "axis", "column")[: 2 + len(tail)]

    def _take_state(self, state, name: str = ""):
        taken = tree_map(from_device, super()._take_state(state, name))
        if not name and not self._is_here(state[0]):  # a state on a GPU is not copied to the host: the step checks it
            self._refuse_outside(to_numpy(taken.x))
        return taken

    def _refuse_outside(self, x: np.ndarray) -> None:
        low, high = self.bounds
        outside = np.any((x < low) | (x >= high), axis=-1)
        if np.any(outside):
            world, particle = (int(i) for i in np.argwhere(outside)[0])
            raise PullbackError(
                f"particle {particle} in world {world} at {_shown(x[world, particle])} is not within the grid, which "
                f"holds particles from {_shown(low)} to {_shown(high)}: use more cells, or another origin",
                worlds=np.flatnonzero(outside.any(axis=1)),
            )

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The range of valid positions, (d,) each [m]: all nodes around a particle must be on the grid."""
        # with a thousandth of a cell to spare for rounding
        return self.origin + 0.501 * self.dx, self.origin + (np.array(self.cells) - 1.501) * self.dx

    def _kernel_params_of(self, values: Mapping, like: KernelLaw | None = None) -> KernelLaw:
        law = KernelLaw(self.params.table, values, self.worlds, self.flavour, self.device)
        limits = self._limits(law)
        unstable = ~(self.dt <= limits * (1 + 1e-9))
        if np.any(unstable):
            world, group = (int(i) for i in np.argwhere(unstable)[0])
            name = self.bodies[group].name or f"body {group}"
            raise PullbackError(
                f"a step of dt={self.dt:g} s is unstable: the longest for {name} is {limits[world, group]:.4g} s; use "
                "a smaller dt, a larger dx, or softer or denser material",
                worlds=np.flatnonzero(unstable.any(axis=1)) if len(limits) == self.worlds else (),
            )
        return law

    def _limits(self, law: KernelLaw) -> np.ndarray:
        """The longest stable step of each group (1 or worlds, groups) [s]."""
        shear, lame, density, viscosity = np.moveaxis(law.groups[..., :4], -1, 0)
        with np.errstate(all="ignore"):
            elastic = LONGEST_STEP * self.dx / sound_speed(shear, lame, density)
            viscous = LONGEST_VISCOUS_STEP * self.dx**2 * density / viscosity
        return np.fmin(elastic, viscous)

    @property
    def longest_dt(self) -> float:
        """The longest stable timestep [s]."""
        return float(self._limits(self.hold_params()).min())

    # --- many steps at once -------------------------------------------------------------------------

    def steps(
        self,
        state: ParticleState,
        controls,
        *,
        keep_every: int = 1,
        hold: int = 1,
        params: Mapping | None = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
    ) -> ParticleState | ShapedState:
        """The states after every keep_every-th step and the last: x (rows, worlds, n, d) and so on."""
        start = self._take_state(state)
        moving = Standing(self, check_inputs(self, inputs, len(controls)), hold)
        controls = self._take_controls(controls, hold)
        law, count = self.hold_params(params), controls.shape[0]
        kept = kept_steps(count, keep_every)
        rows = self._rows(len(kept), start)
        now = rows if keep_every == 1 else self._rows(2, start)
        codes = self._stepper.forward(law, controls, moving.struct(), now, rows, keep_every)
        failed = np.flatnonzero(codes[:, 1] >= 0)
        if len(failed):
            self._note_failure(codes, now, rows, kept, status)
        if status is not None and not len(failed):
            status.set(codes[:, :2], lambda world, code, step: "")
        return rows

    def _rows(self, count: int, start):
        """Uninitialised states, except the first, which is ``start``."""
        for x in start:
            require_space((count, *full_shape(x)), self.dtype, self.device)
        return self._stepper.rows(count, start)

    def _note_failure(self, codes: np.ndarray, now, rows, kept: np.ndarray, status: Status | None) -> None:
        """Worlds that failed keep their last state; without a status, the first failure is an error."""
        ring, reasons = len(now.x), {}
        now, ours = tree_map(to_numpy, now), tree_map(to_numpy, rows)
        for world in map(int, np.flatnonzero(codes[:, 1] >= 0)):
            code, step, particle = map(int, codes[world])
            reasons[world] = self._reason(world, code, step, particle, now.x[(step + 1) % ring, world, particle])
        for x, states in zip(ours, now, strict=True):
            stay(x, states, codes, kept)
        if status is None:
            self._refuse_failure(codes, reasons, ours, kept)
        if self.device != "cpu":  # on the CPU, ``ours`` are views of the rows
            tree_map(lambda x, y: x.assign(y), rows, ours)
        status.set(codes[:, :2], lambda world, code, step: reasons[world])

    def _reason(self, world: int, code: int, step: int, particle: int, x: np.ndarray) -> str:
        """The message for a world that failed."""
        name = self.bodies[self.group[particle]].name or f"body {self.group[particle]}"
        which = f"particle {particle} of {name} in world {world}"
        if code == kinds.INVERTED:
            return (
                f"{which} was turned inside out at step {step}: use a smaller dt (now {self.dt:g} s) or smaller forces"
            )
        if not np.isfinite(x).all():
            return f"the place of {which} is not finite at step {step}: use a smaller dt (now {self.dt:g} s)"
        low, high = self.bounds
        return (
            f"{which} left the grid at step {step}, to {_shown(x)}: it holds particles from {_shown(low)} to "
            f"{_shown(high)}; use walls, or more cells"
        )


def _shown(x: np.ndarray) -> str:
    return "(" + ", ".join(f"{a:.4g}" for a in x) + ")"
