"""The differentiable parameters of an articulated System, and their form in the kernels."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Mapping
from functools import partial

import numpy as np
import warp as wp

from pullback.contact import Contact, Scene
from pullback.contact.params import geom_parameters, size_counts
from pullback.core.arrays import as_reals, empty, upload_per_world
from pullback.core.bars import Named
from pullback.core.launch import launch
from pullback.core.params import Derived, FieldValues, Parameter, has_direction, linear, not_negative
from pullback.dynamics.actuators import crank_parameters, muscle_parameters
from pullback.dynamics.ellipsoids import ellipsoid_parameters
from pullback.dynamics.flexes import flex_parameters
from pullback.dynamics.motors import motor_parameters
from pullback.dynamics.sites import site_parameters
from pullback.dynamics.tendons import TendonLayout
from pullback.dynamics.tree import Layout, curved_dampers, curved_joints, is_curved, zeros_struct
from pullback.kernels import specialise
from pullback.model import Model
from pullback.model.integrators import has_fluid
from pullback.model.tangent import rotations
from pullback.spatial import quat_bar_of_tangent, unit, unit_adjoint


def parameters(
    model: Model,
    layout: Layout,
    scene: Scene | None,
    contact: Contact | None,
    tendons: TendonLayout,
) -> dict[str, Parameter]:
    """All differentiable parameters of a model, at the file's values."""
    body, joint, actuator = ("body", "axis"), ("joint", "axis"), ("actuator", "entry")
    count = len(layout.source)  # of the kernels' joints
    # A body with a free joint has its pose in q: body_pos, body_quat, joint_pos and joint_axis have no effect on it.
    framed = np.setdiff1d(np.arange(model.nbody), layout.free_bodies)
    placed, along = np.flatnonzero(~layout.from_free), np.flatnonzero(~layout.from_free & ~layout.ball)
    frames = {"of": framed, "at": (framed,)}
    turned = {"form": (unit, quat_bar_of_tangent), "blank": np.tile((1.0, 0.0, 0.0, 0.0), (model.nbody, 1))}
    points = {"of": layout.source[placed], "blank": np.zeros((count, 3)), "at": (placed,)}
    axes = {"of": layout.source[along], "form": (unit, unit_adjoint), "blank": layout.free_axis, "at": (along,)}
    starts = [start for start, _ in rotations(model)]
    springs = (partial(_unit_quats, starts), partial(_unit_quats_adjoint, starts))
    massive, single = partial(_is_massive, model.body_mass), {"blank": np.zeros((1, 3)), "at": (0,)}
    definite = partial(_positive_definite, model.body_mass)
    table = {
        "mass": Parameter("kg", ("body",), model.body_mass, massive),
        "com": Parameter("m", body, model.body_com),
        "inertia": Parameter("kg·m²", ("body", "entry"), model.body_inertia, definite),
        "gravcomp": Parameter("1", ("body",), model.body_gravcomp),
        "body_pos": Parameter("m", body, model.body_pos, blank=np.zeros((model.nbody, 3)), **frames),
        "body_quat": Parameter("1", ("body", "entry"), model.body_quat, has_direction, **frames, **turned),
        "joint_pos": Parameter("m", joint, model.joint_pos, **points),
        "joint_axis": Parameter("1", joint, model.joint_axis, has_direction, **axes),
        "stiffness": Parameter(
            "N·m/rad or N/m", ("joint",), model.joint_stiffness, form=linear(np.eye(model.njoint)[layout.source])
        ),
        "spring_ref": Parameter(
            "rad or m", ("coordinate",), model.q_spring, partial(_has_directions, starts), form=springs
        ),
        "damping": Parameter("N·m·s/rad or N·s/m", ("dof",), model.dof_damping),
        "armature": Parameter("kg·m² or kg", ("dof",), model.dof_armature, not_negative),
        "gear": Parameter("1", actuator, model.actuator_gear),
        "gain": Parameter("N·m or N per unit", actuator, model.actuator_gain),
        "bias": Parameter("N·m or N per unit", actuator, model.actuator_bias),
        "gravity": Parameter("m/s²", ("axis",), model.gravity, **single),
    }
    if has_fluid(model):
        fluid = {"field": "fluid", "blank": np.zeros((2, 3))}
        density, viscosity = np.asarray(model.fluid_density), np.asarray(model.fluid_viscosity)
        table |= {
            "fluid_density": Parameter("kg/m³", (), density, not_negative, at=(0, 0), **fluid),
            "fluid_viscosity": Parameter("Pa·s", (), viscosity, not_negative, at=(0, 1), **fluid),
            "wind": Parameter("m/s", ("axis",), model.wind, at=(1,), **fluid),
            "fluid_box": Parameter("m", body, model.fluid_box, not_negative),
        }
    if model.na:
        table["activation"] = Parameter("s, s, 1", actuator, model.activations.law)
    table |= _of_curves(model, layout) | muscle_parameters(model) | motor_parameters(model) | crank_parameters(model)
    table |= site_parameters(model, tendons.sites) | flex_parameters(model) | ellipsoid_parameters(model)
    if len(tendons.ids):
        table |= _of_tendons(model, tendons)
    table |= contact.parameters(scene) if contact is not None else {}
    return table | (_of_wraps(model, tendons) if len(tendons.geoms) else {})


def _of_curves(model: Model, layout: Layout) -> dict[str, Parameter]:
    """Quadratic and cubic terms of springs and dampers, if joints in the file have some."""
    springs, dampers, table = curved_joints(model, layout), curved_dampers(model), {}
    if len(springs):
        unit_, rows = "N·m/rad² or N/m², and per rad or m", np.eye(model.njoint)[layout.source[springs]]
        form = linear(np.einsum("kj,ab->kajb", rows, np.eye(2)))
        table["stiffness_poly"] = Parameter(unit_, ("joint", "power"), model.joint_stiffness_poly, form=form)
    if len(dampers):
        unit_ = "N·m·s²/rad² or N·s²/m², and times s/rad or s/m"
        table["damping_poly"] = Parameter(unit_, ("dof", "power"), model.dof_damping_poly, of=dampers)
    return table


def _of_tendons(model: Model, layout: TendonLayout) -> dict[str, Parameter]:
    """The parameters of tendons: stiffness, damping, armature, spring lengths, coefficients of fixed tendons."""
    value, of, (terms, sums), axes = model.tendons, layout.ids, layout.terms, ("tendon",)
    every, wrapping = np.ones(len(of), bool), layout.wrapping
    bare = partial(_is_bare, of[wrapping])

    def law(unit: str, value: np.ndarray, number: int | slice, which: np.ndarray = every, **options) -> Parameter:
        of_all = {"field": "tendon", "of": of[which], "blank": np.zeros((len(of), 5)), "at": (which, number)}
        return Parameter(unit, (*axes, "end")[: value.ndim], value, **of_all, **options)

    def curve(unit: str, value: np.ndarray, first: int) -> Parameter:
        of_all = {"of": of, "blank": np.zeros((len(of), 4)), "at": (slice(None), slice(first, first + 2))}
        return Parameter(unit, (*axes, "power"), value, field="tendon_poly", **of_all)

    curves = {}
    if is_curved(model):  # also if only joints have such terms: the kernels then read these fields
        curves["tendon_stiffness_poly"] = curve("N/m² or N·m/rad², and per m or rad", value.stiffness_poly, 0)
        unit_ = "N·s²/m² or N·m·s²/rad², and times s/m or s/rad"
        curves["tendon_damping_poly"] = curve(unit_, value.damping_poly, 2)

    coef = Parameter("1 or m/rad", ("term",), model.mujoco.wrap_prm, of=terms, form=linear(sums))
    return (
        ({"tendon_coef": coef} if any(layout.fixed) else {})
        | curves
        | {
            "tendon_stiffness": law("N·m/rad or N/m", value.stiffness, 0),
            "tendon_damping": law("N·m·s/rad or N·s/m", value.damping, 1),
            "tendon_armature": law("kg·m² or kg", value.armature, 2, ~wrapping, check=bare),
            "tendon_spring": law("rad or m", value.spring, slice(3, 5), check=partial(_ends_in_order, of)),
        }
    )


def _of_wraps(model: Model, layout: TendonLayout) -> dict[str, Parameter]:
    """The parameters of geoms that tendons wrap around. A sphere or cylinder has a radius; its length has no effect."""
    counts = np.ones(len(layout.shapes), int)
    if layout.scene is not None:
        counts[: len(layout.scene.geoms)] = size_counts(layout.scene)
    return geom_parameters(model.mujoco, layout.shapes, counts)


def _is_bare(wrapping: np.ndarray, armature: np.ndarray) -> tuple[np.ndarray, str]:
    """Bounds of armature: none for tendons that wrap around geoms, as in MuJoCo."""
    loaded = (armature != 0) & np.isin(np.arange(armature.shape[-1]), wrapping)
    if np.any(loaded):
        return loaded, "must be zero, since the tendon wraps around a geom, but is {:g}"
    return not_negative(armature)


def _ends_in_order(used: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, str]:
    known = np.isin(np.arange(ends.shape[-2]), used)
    return (ends[..., 0] > ends[..., 1]) & known, "must have its shorter length first"


def item_names(model: Model) -> dict[str, list[str]]:
    """Names of the items along an axis of a parameter, by the name of the axis."""
    joints = np.searchsorted(model.joint_q, np.arange(model.nq), side="right") - 1
    return {
        "body": model.body_names,
        "joint": model.joint_names,
        "coordinate": [model.joint_names[j] for j in joints],
        "geom": model.geoms.names,
        "tendon": model.tendons.names,
        "site": model.sites.names,
        "flex": model.flexes.names,
    }


# --- forms and bounds -------------------------------------------------------------------------------


def _unit_quats(starts: list[int], value: np.ndarray) -> np.ndarray:
    """Coordinates (worlds, nq) with unit quaternions at ``starts``."""
    value = value.copy()
    for i in starts:
        value[:, i : i + 4] = unit(value[:, i : i + 4])
    return value


def _unit_quats_adjoint(starts: list[int], value: np.ndarray, bar: np.ndarray) -> np.ndarray:
    bar = bar.copy()
    for i in starts:
        bar[:, i : i + 4] = quat_bar_of_tangent(value[:, i : i + 4], bar[:, i : i + 3])
    return bar


def _has_directions(starts: list[int], value: np.ndarray) -> tuple[np.ndarray, str]:
    wrong = np.zeros(value.shape, bool)
    for i in starts:
        wrong[..., i], _ = has_direction(value[..., i : i + 4])
    return wrong, "has no direction: its quaternion is of zero length"


def _is_massive(in_file: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, str]:
    bodies = np.arange(len(in_file)) > 0  # the world's own mass has no effect
    return ((mass < 0) | ((mass == 0) & (in_file > 0))) & bodies, "must be positive, but is {:g}"


def _positive_definite(mass: np.ndarray, inertia: np.ndarray) -> tuple[np.ndarray, str]:
    """Bounds of inertia: no negative moment. A thin rod has one that is zero up to rounding, and a point mass three."""
    xx, yy, zz, xy, xz, yz = np.moveaxis(inertia, -1, 0)
    full = np.stack([np.stack([xx, xy, xz], -1), np.stack([xy, yy, yz], -1), np.stack([xz, yz, zz], -1)], -2)
    moments = np.linalg.eigvalsh(full)
    massless = mass == 0  # the world, and frames without mass
    definite = (moments[..., 0] >= -1e-12 * moments[..., 2].clip(0)) | massless
    return ~definite, "is not that of a body (positive definite)"


# --- the form in the kernels -----------------------------------------------------------------------


class KernelParams(FieldValues):
    """Values of all parameters in the form that kernels read.

    like:    another such object, from which fields are taken if the arrays of their parameters are the same objects
    derived: fields that are functions of several parameters
    spare:   free memory for cotangents, to be used again; one list per System
    """

    def __init__(
        self,
        table: Mapping[str, Parameter],
        values: Mapping,
        worlds: int,
        precision: str,
        device: str,
        *,
        like: KernelParams | None = None,
        spare: list | None = None,
        derived: Mapping[str, Derived] | None = None,
    ):
        super().__init__(table, values, worlds, derived)
        self.precision, self.device, self.spare = precision, device, [] if spare is None else spare
        struct = specialise(precision, "tree.structs").Params
        self.struct = struct()
        for name, variable in struct.vars.items():
            if like is not None and all(self.values[n] is like.values[n] for n in self.entering.get(name, ())):
                array = getattr(like.struct, name)
            else:
                array = upload_per_world(self.field(name), variable.type.dtype, worlds, precision, device)
            setattr(self.struct, name, array)

    def __reduce__(self):
        """Copies and pickles are made from the values: the kernels' structs hold addresses."""
        make = functools.partial(KernelParams, derived=self.derived)
        return make, (self.table, self.values, self.worlds, self.precision, self.device)

    @functools.cached_property
    def no_bars(self):
        """An empty struct for when cotangents are not wanted: no kernel writes to it."""
        return specialise(self.precision, "tree.structs").Params()


def neighbours_are_worlds(device: str) -> bool:
    """Whether neighbours in memory belong to different worlds, as threads of a GPU need, or to the same world (CPU)."""
    return device != "cpu"


class Cotangents:
    """Cotangents of the kernels' fields, one set per world, and of the parameters that enter them.

    struct:  the arrays that kernels add to; empty unless they are ``wanted``
    """

    def __init__(self, params: KernelParams, *, wanted: bool = True):
        self.params, self.wanted = params, wanted
        self.struct, self._numbers = params.no_bars, {}
        if not wanted:
            return
        try:
            memory = params.spare.pop()
        except IndexError:
            memory = _memory_for(params)
        block, self.struct, self._numbers = memory
        block.zero_()
        weakref.finalize(self, _give_back, params.spare, memory).atexit = False

    def clear_failed(self, kernel, codes: wp.array) -> None:
        """Sets the cotangents of failed worlds to zero."""
        for numbers in self._numbers.values():
            launch(kernel, self.params.worlds, [codes, numbers], self.params.device)

    def named(self) -> Named:
        """The cotangents of the parameters, in the shapes of their values; empty if they are not wanted.

        Only sums over worlds, and cotangents of values that differ between worlds, are copied to the host.
        """
        if not self.wanted:
            return Named()
        per_world, entering = self.params.per_world, self.params.entering
        shared = {n: x for n, x in self._numbers.items() if not all(per_world[name] for name in entering[n])}
        sums = sums_over_worlds(shared, self.params.precision)

        def field_bar(name: str, per_world: bool) -> np.ndarray:
            array = getattr(self.struct, name)
            if per_world:
                return array.contiguous().numpy()
            shape = (1, array.shape[1], *getattr(array.dtype, "_shape_", ()))
            return sums[name].reshape(shape) if name in sums else np.zeros(shape)

        return Named(self.params.bars(field_bar, self.params.precision))


def _memory_for(params: KernelParams) -> tuple:
    """One block of zeros, the struct of arrays [world, item] in it, and the numbers of each array in the order of
    memory: [item, world, entry], or [0, world, number]."""
    struct, worlds = specialise(params.precision, "tree.structs").Params, params.worlds
    items = {name: getattr(params.struct, name).shape[1] for name in params.entering}
    turned = neighbours_are_worlds(params.device)
    shapes = {n: (items.get(n, 0), worlds) if turned else (worlds, items.get(n, 0)) for n in struct.vars}
    what = f"the cotangents of the parameters of {worlds} worlds"
    result = zeros_struct(struct, shapes, params.device, what=what, remedy="use fewer worlds, or wants_params=False")
    numbers = {}
    for name, shape in shapes.items():
        array = getattr(result, name)
        if array.size:
            numbers[name] = as_reals(array, shape[0] if turned else 1, worlds, params.precision)
        if turned:
            setattr(result, name, array.transpose())
    return array.block, result, numbers


def _give_back(spare: list, memory: tuple) -> None:
    if not spare:
        spare.append(memory)


def sums_over_worlds(numbers: dict[str, wp.array], precision: str) -> dict[str, np.ndarray]:
    """The sums over the middle axis of arrays (items, worlds, entries), in a fixed order, as flat arrays."""
    if all(x.device.is_cpu for x in numbers.values()):
        return {name: x.numpy().sum(axis=1).ravel() for name, x in numbers.items()}
    return sums_by_kernels(numbers, precision)


def sums_by_kernels(numbers: dict[str, wp.array], precision: str) -> dict[str, np.ndarray]:
    """The same sums on the arrays' device, in two stages; all of them are copied to the host at once."""
    kernel = specialise(precision, "tree.parameters").sum_worlds
    worlds, device = next((x.shape[1], str(x.device)) for x in numbers.values())
    groups = math.isqrt(worlds - 1) + 1
    sizes = [x.shape[0] * x.shape[2] for x in numbers.values()]
    ends = np.cumsum(sizes)
    parts, total = (empty((1, rows, int(ends[-1])), precision, device) for rows in (groups, 1))
    for x, end, size in zip(numbers.values(), ends, sizes, strict=True):
        launch(kernel, (x.shape[0], groups, x.shape[2]), [x, groups, int(end - size), parts], device)
    launch(kernel, (1, 1, int(ends[-1])), [parts, 1, 0, total], device)
    return dict(zip(numbers, np.split(total.numpy().ravel(), ends[:-1]), strict=True))
