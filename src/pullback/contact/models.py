"""The contact models, for ``Articulated(model, contact=...)``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from pullback.contact.checks import (
    many_trees,
    mixed_solrefs,
    sweeps_against_slip,
    tendons_and_equalities,
    torsion_and_rolling,
    two_frictions,
)
from pullback.contact.far import STANDARD_GRAVITY, Far
from pullback.contact.params import (
    column,
    constant,
    equality_law,
    equality_parameters,
    limit_column,
    limits,
    materials,
    of_one_sign,
    shared_parameters,
)
from pullback.contact.points import HULL_KINDS, LEAF_POINTS
from pullback.contact.scene import MESH, NAMES, Scene
from pullback.contact.springs import equality_springs
from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.core.params import Parameter, not_negative, positive, up_to_one
from pullback.kernels import Flavour
from pullback.model import BALL
from pullback.model.unsupported import Complaint, label

# ContactImpulse sweeps over velocities if contacts have more neighbours than this per two dofs of a chain. [1]
CROWD = 3
# Default stiffnesses: the total weight sinks into a surface by this [m], and at a metre turns a limit by this [rad].
SINKS_IN, TURNS = 1e-3, 1e-2


@dataclass(frozen=True, kw_only=True)
class Contact:
    """The base class of all contact models.

    max_contacts:  contacts that the workspace of a world holds; more at once are an error. None: a number estimated
                   from the shapes of the model
    far:           long-range forces in the backward pass only: a surrogate, see :class:`Far`. None: exact gradients
    """

    max_contacts: int | None = None
    far: Far | None = None

    # Its module in ``kernels/contact``, or the path of a module elsewhere.
    kernels: ClassVar[str]
    # Whether it acts by impulses on velocities; otherwise by forces.
    impulses: ClassVar[bool] = False
    # Whether a step is the minimum of its potential.
    potential: ClassVar[bool] = False
    # Whether it supports constraints that couple joints: limits and friction loss of tendons, equality constraints.
    couples: ClassVar[bool] = False
    # Whether constraints are scaled by inverse weights that follow the parameters; otherwise by those of the file.
    follows_inertia: ClassVar[bool] = False
    # The most rows per contact: 3, or 6 with torsional and rolling friction.
    most_rows: ClassVar[int] = 3
    # Its settings that are also fields of the kernels' Shapes.
    settings: ClassVar[tuple[str, ...]] = ()

    def parameters(self, scene: Scene) -> dict[str, Parameter]:
        """All parameters that this model reads, by name."""
        return shared_parameters(scene)

    def __post_init__(self):
        count = self.max_contacts
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise PullbackError(
                f"max_contacts must be a whole number of at least 1, or None, not {count!r}; contact=None switches "
                "contacts off"
            )
        if not isinstance(self.far, Far | None):
            raise PullbackError(f"far must be a pullback.Far(), or None, not {self.far!r}")

    def flavour(self, precision: str, scene: Scene) -> Flavour:
        """The Flavour of kernels for the contacts of a scene."""
        return Flavour(precision, self.kernels, self.impulses, scene.rows, not scene.is_round)

    @classmethod
    def flavours(cls, precision: str) -> list[Flavour]:
        """All Flavours of kernels for scenes without tendons, sites and loops."""
        rows = sorted({cls.most_rows, 3})
        return [Flavour(precision, cls.kernels, cls.impulses, n, shapes) for n in rows for shapes in (True, False)]

    def contacts_of(self, scene: Scene) -> int:
        """The number of contacts that the workspace of a world holds."""
        return scene.max_contacts if self.max_contacts is None else self.max_contacts

    def complaints(self, scene: Scene) -> Iterator[Complaint]:
        """The parts of a scene that this model does not simulate."""
        yield from sweeps_against_slip(self, scene)
        yield from torsion_and_rolling(self, scene)
        yield from two_frictions(self, scene)
        yield from tendons_and_equalities(self, scene)

    def margins(self, margins: np.ndarray) -> np.ndarray:
        """The distances [m] at which pairs of shapes are in contact, from the margins of the file."""
        return margins

    def workspace(self, scene: Scene, contacts: int, nv: int) -> dict[str, tuple[int, ...]]:
        """The lengths of the arrays of ``kernels/contact/rows.py`` for so many contacts, by the kind of axis."""
        sizes = {"world": 1, "contact": contacts, "chain": contacts * nv, "dof": nv, "entry": nv * nv}
        sizes |= {"joint row": scene.max_joint_rows, "joint chain": scene.max_joint_rows * scene.joint_width}
        return {name: (size,) for name, size in sizes.items()}


@dataclass(frozen=True, kw_only=True)
class ContactConvex(Contact):
    """MuJoCo's soft convex contact: pyramidal or elliptic cones, condim 1, 3, 4 and 6, solref and solimp, limits and
    friction loss of joints and tendons, equality constraints, no-slip sweeps, all as the file says.

    The accelerations are the solution of a convex problem, found by Newton's method to rounding, and differentiated at
    the solution by one linear solve. A solution that does not balance the forces is an error.
    """

    kernels: ClassVar[str] = "convex"
    couples: ClassVar[bool] = True
    follows_inertia: ClassVar[bool] = True
    most_rows: ClassVar[int] = 6

    def flavour(self, precision: str, scene: Scene) -> Flavour:
        return super().flavour(precision, scene)._replace(noslip=scene.noslip)

    def complaints(self, scene: Scene) -> Iterator[Complaint]:
        return mixed_solrefs(scene)

    def workspace(self, scene: Scene, contacts: int, nv: int) -> dict[str, tuple[int, ...]]:
        if not scene.noslip:
            return super().workspace(scene, contacts, nv)
        blocks = contacts + len(scene.lossy) + len(scene.lossy_tendons)
        lines = {"sweep line": (scene.model.mujoco.opt.noslip_iterations + 1, blocks)}
        return super().workspace(scene, blocks, nv) | lines

    def parameters(self, scene: Scene) -> dict[str, Parameter]:
        m, table = scene.model.mujoco, super().parameters(scene)
        ref, imp, row_imp = "s, 1 or 1/s², 1/s", "1, 1, m, 1, 1", "1, 1, rad or m, 1, 1"
        own_ref, pair_ref = materials(scene, "solref", 2)
        own_imp, pair_imp = materials(scene, "solimp", 5)
        if len(scene.geoms):
            axes, signs = ("geom", "entry"), partial(of_one_sign, scene.geoms[scene.own_materials])
            table["solref"] = Parameter(ref, axes, m.geom_solref, signs, **own_ref)
            table["solimp"] = Parameter(imp, axes, m.geom_solimp, **own_imp)
        if len(scene.explicit):
            axes, signs = ("pair", "entry"), partial(of_one_sign, np.arange(len(scene.explicit)))
            table["pair_solref"] = Parameter(ref, axes, m.pair_solref[scene.explicit], signs, **pair_ref)
            table["pair_solimp"] = Parameter(imp, axes, m.pair_solimp[scene.explicit], **pair_imp)
        if len(scene.limited):
            axes, signs = ("joint", "entry"), partial(of_one_sign, scene.limited)
            table["limit_solref"] = Parameter(ref, axes, m.jnt_solref, signs, **limits(scene, "limit_solref", 2)[0])
            table["limit_solimp"] = Parameter(row_imp, axes, m.jnt_solimp, **limits(scene, "limit_solimp", 5)[0])
        if len(scene.limited_tendons):
            axes, signs = ("tendon", "entry"), partial(of_one_sign, scene.limited_tendons)
            ref_at, imp_at = limits(scene, "limit_solref", 2)[1], limits(scene, "limit_solimp", 5)[1]
            table["tendon_limit_solref"] = Parameter(ref, axes, m.tendon_solref_lim, signs, **ref_at)
            table["tendon_limit_solimp"] = Parameter(row_imp, axes, m.tendon_solimp_lim, **imp_at)
        return table | equality_parameters(scene) | equality_law(scene)


@dataclass(frozen=True, kw_only=True)
class ContactCompliant(Contact):
    """A smooth spring with dissipation along the normal, and Coulomb friction that is regularised at low speed.

    The normal force is stiffness · depth · (1 - dissipation · separation speed), at least zero; the friction force is
    friction · normal force · speed / sqrt(speed² + slip_speed²). Limits are springs of the same kind, and equality
    constraints are springs and dampers in both directions. All of these have two continuous derivatives. Forces are
    evaluated at the end of the step to first order, which keeps stiff surfaces stable, and may hold a body back in the
    one step in which it separates. The arguments are initial values of the parameters of the same names in
    ``system.params``.

    contact_stiffness:   [N/m] of every surface; two in contact act in series. None: the weight of everything that
                         moves, on a single contact, sinks in by a millimetre.
    contact_dissipation: [s/m]
    smoothing:           [m] depth over which the force sets in. A larger value gives smoother gradients at touch-down,
                         but forces that begin at this distance
    slip_speed:          [m/s] at which friction has 71 % of its full strength; bodies that should stick creep
                         at lower speeds
    limit_stiffness:     [N·m/rad or N/m] of limits of joints and tendons. None: the largest moment of the weight at its
                         centre of mass, a metre away, turns them by a hundredth
    limit_dissipation:   [s/rad or s/m]
    limit_smoothing:     [rad or m]
    joint_slip_speed:    [rad/s or m/s] the same for friction loss
    equality_stiffness:  [N/m or N·m/rad] of equality constraints. None: each yields to a steady load as much as solref
                         and solimp allow in MuJoCo
    equality_damping:    [N·s/m or N·m·s/rad] of the same. None: critical, at the inverse weights of the file
    """

    kernels: ClassVar[str] = "compliant"
    couples: ClassVar[bool] = True

    contact_stiffness: float | None = None
    contact_dissipation: float = 1.0
    smoothing: float = 1e-4
    slip_speed: float = 1e-2
    limit_stiffness: float | None = None
    limit_dissipation: float = 1.0
    limit_smoothing: float = 1e-3
    joint_slip_speed: float = 1e-2
    equality_stiffness: float | None = None
    equality_damping: float | None = None

    def __post_init__(self):
        super().__post_init__()
        for name in ("smoothing", "slip_speed", "limit_smoothing", "joint_slip_speed"):
            _require(self, name, lambda x: x > 0, "positive")
        for name in ("contact_stiffness", "limit_stiffness", "equality_stiffness", "equality_damping"):
            if getattr(self, name) is not None:
                _require(self, name, lambda x: x > 0, "positive, or None")
        for name in ("contact_dissipation", "limit_dissipation"):
            _require(self, name, lambda x: x >= 0, "at least zero")

    def parameters(self, scene: Scene) -> dict[str, Parameter]:
        m, table = scene.model.mujoco, super().parameters(scene)
        weight = float(m.body_mass.sum() * (np.linalg.norm(m.opt.gravity) or STANDARD_GRAVITY))

        def springs(axis: str, unit: str, value: float, check, field: str, number: int) -> Parameter:
            if axis == "geom":
                return Parameter(unit, (axis,), np.full(m.ngeom, value), check, **column(field, number, scene.geoms))
            count, at = {"joint": (m.njnt, 0), "tendon": (m.ntendon, 1)}[axis]
            return Parameter(unit, (axis,), np.full(count, value), check, **limit_column(scene, field, number)[at])

        def law(unit: str, value: float, number: int) -> Parameter:
            return Parameter(unit, (), np.asarray(value), positive, **constant("compliance", number))

        if len(scene.geoms):
            stiffness = self.contact_stiffness or 2 * weight / SINKS_IN  # two surfaces act in series
            dissipation = self.contact_dissipation
            table["contact_stiffness"] = springs("geom", "N/m", stiffness, positive, "surface", 0)
            table["contact_dissipation"] = springs("geom", "s/m", dissipation, not_negative, "surface", 1)
            table["smoothing"] = law("m", self.smoothing, 0)
            table["slip_speed"] = law("m/s", self.slip_speed, 1)
        limited = {"limit": ("joint", scene.limited), "tendon_limit": ("tendon", scene.limited_tendons)}
        for name, (axis, items) in limited.items():
            if len(items):
                stiffness, dissipation = self.limit_stiffness or weight / TURNS, self.limit_dissipation
                unit = "s/rad or s/m"
                table[f"{name}_stiffness"] = springs(axis, "N·m/rad or N/m", stiffness, positive, "limit_spring", 0)
                table[f"{name}_dissipation"] = springs(axis, unit, dissipation, not_negative, "limit_spring", 1)
                table["limit_smoothing"] = law("rad or m", self.limit_smoothing, 2)
        if len(scene.lossy) or len(scene.lossy_tendons):
            table["joint_slip_speed"] = law("rad/s or m/s", self.joint_slip_speed, 3)
        of = scene.all_equalities
        if len(of):

            def held(unit: str, value: np.ndarray, check, first: int) -> Parameter:
                axes, at, blank = ("equality", "part"), (slice(None), slice(first, first + 2)), np.zeros((len(of), 4))
                return Parameter(unit, axes, value, check, field="equality_spring", of=of, blank=blank, at=at)

            pull, brake = equality_springs(scene, self.equality_stiffness, self.equality_damping)
            table["equality_stiffness"] = held("N/m or N·m/rad", pull, positive, 0)
            table["equality_damping"] = held("N·s/m or N·m·s/rad", brake, not_negative, 2)
        return table | equality_parameters(scene)


@dataclass(frozen=True, kw_only=True)
class ContactImpulse(Contact):
    """Rigid contact with Coulomb friction, as a complementarity problem of velocities and impulses
    (Qiao et al., Efficient Differentiable Simulation of Articulated Bodies, 2021).

    Projected Gauss-Seidel runs for a fixed number of sweeps, and the backward pass runs the same sweeps in reverse: the
    gradient is that of the computed step, converged or not. Limits, friction loss and equality constraints are rows of
    the same kind. Friction is bounded by the normal impulse in every sliding direction. Steps are semi-implicit Euler
    or implicitfast, not RK4. The arguments are initial values of the parameters of the same names in ``system.params``.

    sweeps:         of Gauss-Seidel, alternately forwards and backwards
    erp:            error reduction: fraction of the depth that is removed per step [1]
    slop:           depth that is not corrected, so that resting contacts do not come and go [m]
    cfm:            compliance: velocity per unit of impulse [1/kg or 1/(kg·m²)]
    restitution:    of every shape; the larger of two counts [1]
    rest_speed:     bodies that collide more slowly than this do not bounce [m/s]
    """

    kernels: ClassVar[str] = "impulse_model"
    couples: ClassVar[bool] = True
    impulses: ClassVar[bool] = True
    settings: ClassVar[tuple[str, ...]] = ("sweeps", "rest_speed")

    sweeps: int = 50
    erp: float = 0.2
    slop: float = 1e-4
    cfm: float = 1e-6
    restitution: float = 0.0
    rest_speed: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        check_whole(self.sweeps, "sweeps")
        for name in ("erp", "restitution"):
            _require(self, name, lambda x: 0 <= x <= 1, "between 0 and 1")
        _require(self, "cfm", lambda x: x > 0, "positive: a row that nothing can move has no other softness")
        for name in ("slop", "rest_speed"):
            _require(self, name, lambda x: x >= 0, "at least zero")

    def complaints(self, scene: Scene) -> Iterator[Complaint]:
        yield from super().complaints(scene)
        yield from many_trees(self, scene)
        if scene.model.integrator == "rk4":
            remedy = 'load it with integrator="euler" or "implicitfast"'
            yield "", "option", f"asks for RK4, but ContactImpulse changes velocities at once: {remedy}"

    def margins(self, margins: np.ndarray) -> np.ndarray:
        """Margins just above those of the file: bodies are rigid, so they are in contact when they just touch."""
        beyond = np.nextafter(margins, margins.dtype.type(np.inf))
        return np.maximum(beyond, np.finfo(margins.dtype).tiny)

    def workspace(self, scene: Scene, contacts: int, nv: int) -> dict[str, tuple[int, ...]]:
        blocks = contacts + scene.max_joint_rows
        # With more neighbours, sweeps over velocities are faster. Neighbours are stored as 16-bit indices.
        neighbours = min(blocks, CROWD * scene.longest_chain // 2) if blocks < 2**16 else 0
        lines = {"neighbour": neighbours, "side": 2, "sweep": self.sweeps, "line": self.sweeps + 1}
        return super().workspace(scene, blocks, nv) | {name: (size, blocks) for name, size in lines.items()}

    def parameters(self, scene: Scene) -> dict[str, Parameter]:
        table = super().parameters(scene)
        if len(scene.geoms):
            value = np.full(scene.model.mujoco.ngeom, self.restitution)
            table["restitution"] = Parameter("1", ("geom",), value, up_to_one, of=scene.geoms)
        table["erp"] = Parameter("1", (), np.asarray(self.erp), up_to_one, **constant("impulse", 0))
        if len(scene.geoms):
            table["slop"] = Parameter("m", (), np.asarray(self.slop), not_negative, **constant("impulse", 2))
        table["cfm"] = Parameter("1/kg or 1/(kg·m²)", (), np.asarray(self.cfm), positive, **constant("impulse", 1))
        return table | equality_parameters(scene)


@dataclass(frozen=True, kw_only=True)
class ContactLongRange(Contact):
    """A potential between all shapes that is infinite where they touch and whose force vanishes nowhere, so that there
    is a gradient before anything touches (Ye, Wu, Pan and Komura, 2026).

    The velocity after a step minimises ½ (v - free)ᵀ M (v - free) + Σ μ P(q ⊕ h v) + friction(v), where P is the
    potential of a pair of shapes and ``free`` the velocity without contact: implicit, inelastic contact that shapes
    cannot pass through. Friction uses the forces and normals before the step, of nearby shapes. The gradient is taken
    at the minimum by one linear solve with the exact Hessian. Shapes are convex hulls of points, rounded by a radius:
    spheres, capsules, boxes, cylinders (polygons of 12 corners inside them), meshes, or the triangles of meshes. Bodies
    must not overlap in the initial state. Only float64, and Euler or implicitfast. The arguments are initial values of
    the parameters of the same names in ``system.params``.

    gap:               [m] at which a box rests on a plane under its own weight. A smaller gap is more accurate, and
                       has weaker long-range forces: in proportion to its square. None: a thousandth of the length
    length:            [m] size of the scene; forces decay beyond it. None: the median radius of all shapes that may
                       touch
    limit_gap:         [rad or m] at which joint limits begin to push
    limit_force:       [N·m or N] of a joint limit at half of that. None: the weight of everything that moves, at a
                       metre
    joint_slip_speed:  [rad/s or m/s] at which friction loss has 71 % of its full strength
    substep_share:     a step in which shapes could collide is divided into substeps, in which they move by this
                       fraction of the smaller inner radius; otherwise shapes could slip around each other. Larger
                       values save time where bodies are pushed rather than hit [1]
    max_substeps:      largest number of substeps. A step that was not solved is divided too. The number of substeps is
                       not differentiated
    frictionless:      makes all surfaces frictionless, whatever the file says
    slip_speed:        [m/s] at which friction has 71 % of its full strength; bodies that should stick creep at lower
                       speeds
    meshes:            "hull": a mesh is its convex hull. "triangles": it is its triangles, each with its share of the
                       area, in a hierarchy of balls; in contact with a plane it is its hull. Such meshes must be
                       closed, and have friction with planes only
    blend:             [1] two nodes of such hierarchies whose balls are apart are merged to one point each while their
                       distance grows by this fraction. Larger values are smoother, closer to the sum over all pairs of
                       triangles, and slower
    """

    kernels: ClassVar[str] = "longrange"
    potential: ClassVar[bool] = True
    settings: ClassVar[tuple[str, ...]] = ("max_substeps", "substep_share")

    gap: float | None = None
    length: float | None = None
    limit_gap: float = 1e-2
    limit_force: float | None = None
    joint_slip_speed: float = 1e-3
    substep_share: float = 0.03
    max_substeps: int = 256
    frictionless: bool = False
    slip_speed: float = 1e-3
    meshes: Literal["hull", "triangles"] = "hull"
    blend: float = 0.1

    def __post_init__(self):
        super().__post_init__()
        if self.meshes not in ("hull", "triangles"):
            raise PullbackError(f"meshes of ContactLongRange are 'hull' or 'triangles', not {self.meshes!r}")
        if self.max_contacts is not None:
            raise PullbackError("max_contacts has no meaning for ContactLongRange: every pair of shapes acts, always")
        if self.far is not None:
            raise PullbackError("far has no meaning for ContactLongRange, whose steps have long range themselves")
        check_whole(self.max_substeps, "max_substeps")
        for name in ("limit_gap", "joint_slip_speed", "slip_speed", "blend", "substep_share"):
            _require(self, name, lambda x: x > 0, "positive")
        for name in ("gap", "length", "limit_force"):
            if getattr(self, name) is not None:
                _require(self, name, lambda x: x > 0, "positive, or None")

    def flavour(self, precision: str, scene: Scene) -> Flavour:
        if precision != "float64":
            raise PullbackError(
                "ContactLongRange needs dtype='float64': what shapes do to each other from afar is 1e-9 to 1e-7 of "
                "their momentum, which float32 rounds off"
            )
        hulls, triangles = self.flavours(precision)
        return triangles if self.has_triangles(scene) else hulls

    def has_triangles(self, scene: Scene) -> bool:
        """Whether a mesh may touch something other than a plane, and is represented by its triangles there."""
        return self.meshes == "triangles" and bool(np.any(scene.kind[scene.pair_shapes[scene.plane_pairs :]] == MESH))

    @classmethod
    def flavours(cls, precision: str) -> list[Flavour]:
        plain = Flavour("float64", cls.kernels, all_shapes=False, potential=True)
        return [plain, plain._replace(triangles=True)] if precision == "float64" else []

    def contacts_of(self, scene: Scene) -> int:
        return len(scene.pair_shapes)

    def complaints(self, scene: Scene) -> Iterator[Complaint]:
        yield from super().complaints(scene)
        m = scene.model.mujoco
        for geom, kind in zip(scene.geoms, scene.kind, strict=True):
            if int(kind) not in HULL_KINDS:
                yield "", label(m, "geom", geom), f"is of type {NAMES[int(kind)]}, unsupported by ContactLongRange"
        for joint in scene.limited:
            if scene.model.joint_type[joint] == BALL:
                yield "", label(m, "joint", joint), "limits a ball joint, unsupported by ContactLongRange"
        for (first, second), times in zip(*np.unique(scene.pair_shapes, axis=0, return_counts=True), strict=True):
            if times > 1:
                pair = " and ".join(label(m, "geom", scene.geoms[i]) for i in (first, second))
                yield "", pair, f"are a pair that is listed {times} times: ContactLongRange has one potential for both"
        if scene.model.integrator == "rk4":
            remedy = 'load it with integrator="euler" or "implicitfast"'
            yield "", "option", f"asks for RK4, but ContactLongRange is implicit: {remedy}"
        if self.has_triangles(scene) and not self.frictionless:
            solid = scene.pair_shapes[scene.plane_pairs :]
            rough = solid[(scene.pair_dim[scene.plane_pairs :] > 1) & (scene.kind[solid] == MESH).any(axis=1)]
            for first, second in scene.geoms[rough]:
                remedy = "set condim to 1, use frictionless=True, or meshes='hull'"
                pair = f"{label(m, 'geom', first)} and {label(m, 'geom', second)}"
                yield "", pair, f"have friction, which meshes='triangles' have with planes alone: {remedy}"

    def workspace(self, scene: Scene, contacts: int, nv: int) -> dict[str, tuple[int, ...]]:
        sizes = {"chain": 1, "joint row": 1, "joint chain": 1, "coordinate": scene.model.nq}
        sizes |= {"point": len(scene.points.local), "pair": contacts, "limit": 2 * len(scene.limited)}
        sizes |= {"body": scene.model.nbody, "substep": self.max_substeps * max(scene.model.nq, nv)}
        if self.has_triangles(scene):
            levels = 2 * scene.balls.depth
            sizes["point"] += LEAF_POINTS
            sizes |= {"shape": len(scene.geoms), "visit": 2 * levels + 2, "blend": levels + 2}
        return super().workspace(scene, contacts, nv) | {name: (size,) for name, size in sizes.items()}

    def parameters(self, scene: Scene) -> dict[str, Parameter]:
        m, table = scene.model.mujoco, super().parameters(scene)
        rough = not self.frictionless and bool(np.any(scene.pair_dim > 1))
        for unused in () if rough else ("friction", "pair_friction"):
            table.pop(unused, None)

        def law(unit: str, value: float, field: str, number: int) -> Parameter:
            return Parameter(unit, (), np.asarray(value), positive, **constant(field, number))

        if len(scene.geoms):
            length = self.length or scene.median_radius
            table["gap"] = law("m", self.gap or 1e-3 * length, "reach", 0)
            table["length"] = law("m", length, "reach", 1)
        if rough:
            table["slip_speed"] = law("m/s", self.slip_speed, "slip", 0)
        if len(scene.limited):
            weight = float(m.body_mass.sum() * (np.linalg.norm(m.opt.gravity) or STANDARD_GRAVITY))
            table["limit_gap"] = law("rad or m", self.limit_gap, "reach", 2)
            table["limit_force"] = law("N·m or N", self.limit_force or weight, "reach", 3)
        if len(scene.lossy):
            table["joint_slip_speed"] = law("rad/s or m/s", self.joint_slip_speed, "slip", 1)
        return table


# Names of the contact models in Python and on the command line; they stand for the models with default arguments.
CONTACT_NAMES: dict[str, type[Contact]] = {
    "convex": ContactConvex,
    "impulse": ContactImpulse,
    "compliant": ContactCompliant,
    "longrange": ContactLongRange,
}


def _require(model: Contact, name: str, holds, what: str) -> None:
    value = getattr(model, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value) or not holds(value):
        raise PullbackError(f"{name} of {type(model).__name__} must be a number that is {what}, not {value!r}")
