"""Elastic solids and cloth on meshes, as a System: implicit steps with contact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import (
    check_device,
    check_precision,
    checked,
    empty,
    from_device,
    require_space,
    to_numbers,
)
from pullback.core.checks import check_kind, check_number, check_several, check_whole, shown
from pullback.core.errors import PullbackError
from pullback.core.kernel_system import KernelSystem, kept_steps, stay
from pullback.core.launch import cores_to_use
from pullback.core.params import NamedParams
from pullback.core.status import Status
from pullback.core.system import check_inputs
from pullback.core.trees import tree_map
from pullback.drawing import Drawing
from pullback.kernels import ElasticFlavour
from pullback.kernels.status import OVERLAP
from pullback.soft.carried import Carried
from pullback.soft.elastic_backward import ElasticBackward
from pullback.soft.elastic_bodies import Cloth, Solid
from pullback.soft.elastic_drawing import draw_elastic
from pullback.soft.elastic_mesh import ElasticMesh
from pullback.soft.elastic_params import KernelLaw, parameters
from pullback.soft.elastic_stepper import ElasticStepper
from pullback.soft.moving import AmongShapes
from pullback.soft.self_contact import CONTACTS, Surfaces, reason
from pullback.soft.shapes import Shape

FREE, FIXED = -1, -2


class ElasticState(NamedTuple):
    """Positions and velocities of the vertices.

    x:  (worlds, n, 3) position [m]
    v:  (worlds, n, 3) velocity [m/s]
    """

    x: Any
    v: Any


class ShapedElasticState(NamedTuple):
    """An :class:`ElasticState` of bodies among shapes, and the impulses that the shapes received.

    impulse:  (worlds, shapes, 6) momentum transferred from the vertices to each shape since it was set to zero:
              angular, about the world's origin [N·m·s], then linear [N·s]
    """

    x: Any
    v: Any
    impulse: Any


class Elastic(AmongShapes, KernelSystem):
    """Solids of tetrahedra and cloth of triangles, in ``worlds`` copies; implicit steps of backward Euler.

    bodies:             :class:`Solid` and :class:`Cloth`; vertices are numbered consecutively over all of them
    dt:                 timestep [s]
    fixed:              indices of vertices that never move
    handles:            lists of vertices moved by controls: a control is the velocity (3,) [m/s] of each handle
    gravity:            (3,) [m/s²]
    wind:               velocity of the air (3,) [m/s], which acts on cloth with ``drag``
    damping:            decay rate of all motion [1/s]
    shapes:             obstacles for the vertices, see :class:`Shape`. They move as the inputs ``pose`` and
                        ``twist``, or stand still; the state then includes their impulses: :class:`ShapedElasticState`
    contact_stiffness:  of the barrier around shapes [N/m]
    gap:                distance at which a shape begins to push [m]
    slip:               velocity below which friction is weaker [m/s]
    self_contact:       whether the surfaces of bodies are in contact with each other and with themselves
    self_friction:      friction coefficient of that contact [1]
    max_contacts:       pairs of a vertex and a face, or of two edges, within the gap, that the workspace of a world
                        holds; more at once are an error. None: a number in proportion to the vertices
    tolerance:          largest residual force on a vertex in a solved step, relative to its stiffness times the size of
                        all bodies [1]; None: what rounding allows. Gradients are those of exact steps
    threads:            CPU threads; one per core if None

    A step minimises the potential m |x' - x - h v - h² g|²/(2 h²) + elastic energies + barriers + dissipations, by
    Newton's method with the exact Hessian and a line search. It is stable for any ``dt``, and damps fast motion.
    """

    backward_type = ElasticBackward
    least_controls = 1
    made_with = (
        *("bodies", "dt", "fixed", "handles", "gravity", "wind", "damping", "shapes", "contact_stiffness"),
        *("gap", "slip", "self_contact", "self_friction", "tolerance"),
    )
    shape_kinds = ("plane", "sphere", "capsule", "box")
    shape_params = ("friction",)

    def __init__(
        self,
        bodies: Sequence[Solid | Cloth] | Solid | Cloth,
        *,
        dt: float,
        fixed=(),
        handles: Sequence = (),
        gravity=(0.0, 0.0, -9.81),
        wind=(0.0, 0.0, 0.0),
        damping: float = 0.0,
        shapes: Sequence[Shape] | Shape = (),
        contact_stiffness: float = 1e3,
        gap: float = 2e-3,
        slip: float = 1e-3,
        self_contact: bool = False,
        self_friction: float = 0.0,
        max_contacts: int | None = None,
        tolerance: float | None = None,
        worlds: int = 1,
        dtype: str = "float64",
        device: str = "cpu",
        threads: int | None = None,
    ):
        several = isinstance(bodies, Iterable) and not isinstance(bodies, str)
        self.bodies = tuple(bodies) if several else (bodies,)
        if not self.bodies or not all(isinstance(body, Solid | Cloth) for body in self.bodies):
            raise PullbackError("bodies must be some soft.Solid or soft.Cloth")
        self.shapes = check_several(shapes, Shape, "a shape", "soft.Shape.plane((0, 0, 0), (0, 0, 1))")
        for k, shape in enumerate(self.shapes):
            if shape.kind not in self.shape_kinds or shape.clamped or not np.isfinite(shape.friction):
                raise PullbackError(
                    f"shape {k}: Elastic has planes, spheres, capsules and boxes, of finite friction, that do not clamp"
                )
        self.state_type = ShapedElasticState if self.shapes else ElasticState
        self.mesh = ElasticMesh.of(self.bodies)
        self.n = len(self.mesh.points)
        self.dt, self.gap, self.slip = check_number(dt, "dt"), check_number(gap, "gap"), check_number(slip, "slip")
        self.tolerance = None if tolerance is None else check_number(tolerance, "tolerance")
        self.fixed = self._vertices(fixed, "fixed")
        if isinstance(handles, str) or not isinstance(handles, Iterable):
            raise PullbackError(f"handles must be lists of vertices, one per handle, not {shown(handles)}")
        self.handles = tuple(self._vertices(handle, f"handle {i}") for i, handle in enumerate(handles))
        self.nu = 3 * len(self.handles)
        self.handle = self._held_by()
        self.gravity, self.wind = (self._three(x, name) for x, name in ((gravity, "gravity"), (wind, "wind")))
        self.damping = check_number(damping, "damping", least=0.0)
        self.contact_stiffness = check_number(contact_stiffness, "contact_stiffness")
        self.worlds = check_whole(worlds, "worlds")
        self.dtype, self.device = check_precision(dtype), check_device(device)
        if self.device != "cpu":
            raise PullbackError(f"Elastic runs on the CPU alone: use device='cpu', not {self.device!r}")
        self._threads = threads
        check_kind(self_contact, bool, "self_contact", "True")
        self.self_contact = self_contact
        self.self_friction = check_number(self_friction, "self_friction", least=0.0)
        self.surfaces = Surfaces(self.mesh.points, self.bodies, self.mesh.offsets) if self.self_contact else None
        if self.surfaces:
            self.surfaces.check_gap(self.gap)
        elif self.self_friction or max_contacts is not None:
            raise PullbackError("self_friction and max_contacts are of contact with self_contact=True")
        self._most = None if max_contacts is None else check_whole(max_contacts, "max_contacts")
        self.flavour = ElasticFlavour(self.dtype, self.self_contact)
        table = parameters(
            self.bodies,
            self.shapes,
            gravity=self.gravity,
            wind=self.wind,
            damping=self.damping,
            contact_stiffness=self.contact_stiffness,
            self_friction=self.self_friction if self.self_contact else None,
        )
        self.params = NamedParams(table, self.worlds)
        what = f"a state of {self.worlds} worlds with {self.n} vertices"
        require_space((1, self.worlds, self.n, 3), self.dtype, self.device, what)
        self._stepper = ElasticStepper(self, cores_to_use(threads))

    def __repr__(self) -> str:
        elements = len(self.mesh.arrays["tets"]) + len(self.mesh.arrays["triangles"])
        return (
            f"Elastic(vertices={self.n}, elements={elements}, dt={self.dt:g}, worlds={self.worlds}, "
            f"dtype={self.dtype!r}, device={self.device!r})"
        )

    @property
    def max_contacts(self) -> int:
        """The number of contacts between bodies that the workspace of a world holds."""
        if self.surfaces is None:
            return 0
        return CONTACTS * len(self.surfaces.vertices) if self._most is None else self._most

    @staticmethod
    def _three(x, name: str) -> np.ndarray:
        x = to_numbers(x, name).astype(float)
        if x.shape != (3,) or not np.isfinite(x).all():
            raise PullbackError(f"{name} must be three finite numbers")
        return x

    def _vertices(self, given, name: str) -> np.ndarray:
        numbers = to_numbers(given, name)
        if numbers.size and (numbers.ndim != 1 or numbers.dtype.kind not in "iu"):
            raise PullbackError(f"{name} must be a list of numbers of vertices")
        if numbers.size and not (0 <= numbers.min() and numbers.max() < self.n):
            raise PullbackError(f"{name} names a vertex that is not there: there are {self.n}")
        return np.unique(numbers.astype(np.int32))

    def _held_by(self) -> np.ndarray:
        held = np.full(self.n, FREE)
        for i, handle in enumerate(self.handles):
            if np.any(held[handle] != FREE):
                vertex = handle[np.argmax(held[handle] != FREE)]
                raise PullbackError(f"vertex {vertex} is part of two handles: {held[vertex]} and {i}")
            held[handle] = i
        if np.any(held[self.fixed] != FREE):
            vertex = self.fixed[np.argmax(held[self.fixed] != FREE)]
            raise PullbackError(f"vertex {vertex} is fixed, and part of handle {held[vertex]}")
        held[self.fixed] = FIXED
        return held

    # --- states and controls --------------------------------------------------------------------------

    def state(self, x=None, v=None) -> ElasticState | ShapedElasticState:
        """A state with the bodies at rest, except for the given arrays: (n, 3) or (worlds, n, 3)."""
        shape = (self.worlds, self.n, 3)
        fields = []
        for name, value, usual in (("x", x, self.mesh.points), ("v", v, np.zeros(3))):
            value = to_numbers(usual if value is None else value, name)
            try:
                value = np.broadcast_to(value, shape)
            except ValueError:
                raise PullbackError(f"{name} has shape {value.shape}, but {shape} is needed") from None
            fields.append(checked(value.copy(), shape, self.dtype, name, ("worlds", "vertex", "axis")))
        if self.shapes:
            fields.append(np.zeros(self._form("impulse")[0], self.dtype))
        return self.state_type(*fields)

    def _form(self, field):
        if field == "impulse":
            return (self.worlds, len(self.shapes), 6), ("worlds", "shape", "axis")
        return (self.worlds, self.n, 3), ("worlds", "vertex", "axis")

    def vertices_of(self, body: int) -> slice:
        """The indices of a body's vertices; ``body`` is its index."""
        return slice(int(self.mesh.offsets[body]), int(self.mesh.offsets[body + 1]))

    def _kernel_params_of(self, values: Mapping, like: KernelLaw | None = None) -> KernelLaw:
        return KernelLaw(self.params.table, values, self.worlds, self.flavour, self.device)

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"max_contacts": self._most}

    # --- many steps at once ---------------------------------------------------------------------------

    def steps(
        self,
        state: ElasticState,
        controls,
        *,
        keep_every: int = 1,
        hold: int = 1,
        params: Mapping | None = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
    ) -> ElasticState | ShapedElasticState:
        """The states after every keep_every-th step and the last: x and v (rows, worlds, n, 3)."""
        start = self._take_state(state)
        moving = Carried(self, check_inputs(self, inputs, len(controls)), hold)
        controls = self._take_controls(controls, hold)
        law, count = self.hold_params(params), controls.shape[0]
        kept = kept_steps(count, keep_every)
        rows = tree_map(lambda x: empty((len(kept), *x.shape), self.dtype, self.device), start)
        codes, culprits, now = self._stepper.forward(law, controls, moving.struct(), start, rows, keep_every)
        failed = np.flatnonzero(codes[:, 1] >= 0)
        reasons = {int(w): self._reason(int(w), *map(int, codes[w]), int(culprits[w]), now[0], moving) for w in failed}
        if len(failed):
            if status is None:
                self._refuse_failure(codes, reasons, tree_map(from_device, rows), kept)
            for x, at in zip(rows, now, strict=True):
                stay(x.numpy(), at, codes, kept)  # changes the rows: x.numpy() is a view
        if status is not None:
            status.set(codes, lambda world, code, step: reasons[world])
        return tree_map(from_device, rows)

    def _reason(self, world: int, code: int, step: int, vertex: int, now: np.ndarray, moving: Carried) -> str:
        """The message for a world that failed."""
        if vertex >= self.n:
            return reason(self, world, code, step, vertex, now[step % 2, world])
        body = int(np.searchsorted(self.mesh.offsets, vertex, side="right")) - 1
        which = f"vertex {vertex} ({self.bodies[body].name or f'body {body}'}) in world {world}"
        x = now[step % 2, world, vertex].astype(float)
        where = "(" + ", ".join(f"{a:.4g}" for a in x) + ")"
        if code == OVERLAP:
            poses = moving.starts[step * moving.moves, world]
            distances = [float(s.moved_to(pose).distance(x)) for s, pose in zip(self.shapes, poses, strict=True)]
            shape = int(np.argmin(distances))
            if distances[shape] > 0:
                return (
                    f"shapes that move leave no room for {which} at {where} in step {step}: move them less in a step, "
                    "or not so close to each other"
                )
            return (
                f"{which} at {where} is inside of shape {shape}, a {self.shapes[shape].kind}, by "
                f"{-distances[shape]:.3g} m at step {step}: start outside of all shapes, and move them as their "
                "twist says"
            )
        return (
            f"the implicit solver did not converge in world {world} at step {step}: the forces on {which} at {where} "
            f"are not in balance; use a smaller dt (now {self.dt:g} s), or look at what is moved or pressed there"
        )

    def drawing(self, run, *, ghost=None, bars=None) -> Drawing:
        """The first world: surfaces coloured by the largest principal strain, and the shapes."""
        return draw_elastic(run)
