"""The differentiable parameters of an articulated System, and the kernels' form of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from pullback.contact import Contact, Scene
from pullback.core.arrays import upload_per_world
from pullback.core.params import FieldValues, Parameter, has_direction, linear, not_negative
from pullback.core.system import Named
from pullback.dynamics.tree import Layout, zeros_struct
from pullback.kernels import specialise
from pullback.model import Model
from pullback.model.tangent import rotations
from pullback.spatial import quat_bar_of_tangent, unit, unit_adjoint


def parameters(
    model: Model, layout: Layout, scene: Scene | None = None, contact: Contact | None = None
) -> dict[str, Parameter]:
    """All differentiable parameters of a model, at the values the file gave."""
    body, joint, actuator = ("body", "axis"), ("joint", "axis"), ("actuator", "entry")
    count = len(layout.source)  # of the kernels' joints
    # A free joint's coordinates are the pose itself, of its body in the world and of the kernels' joints that it is.
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
        "gain": Parameter("N·m or N a unit", actuator, model.actuator_gain),
        "bias": Parameter("N·m or N a unit", actuator, model.actuator_bias),
        "gravity": Parameter("m/s²", ("axis",), model.gravity, **single),
    }
    if model.fluid_density or model.fluid_viscosity:
        fluid = {"field": "fluid", "blank": np.zeros((2, 3))}
        density, viscosity = np.asarray(model.fluid_density), np.asarray(model.fluid_viscosity)
        table |= {
            "fluid_density": Parameter("kg/m³", (), density, not_negative, at=(0, 0), **fluid),
            "fluid_viscosity": Parameter("Pa·s", (), viscosity, not_negative, at=(0, 1), **fluid),
            "wind": Parameter("m/s", ("axis",), model.wind, at=(1,), **fluid),
            "fluid_box": Parameter("m", body, model.fluid_box, not_negative),
        }
    return table | (contact.parameters(scene) if contact is not None else {})


def item_names(model: Model) -> dict[str, list[str]]:
    """What the items that an axis of a parameter counts are called."""
    joints = np.searchsorted(model.joint_q, np.arange(model.nq), side="right") - 1
    return {
        "body": model.body_names,
        "joint": model.joint_names,
        "coordinate": [model.joint_names[j] for j in joints],
        "geom": model.geoms.names,
    }


# --- forms and bounds -------------------------------------------------------------------------------


def _unit_quats(starts: list[int], value: np.ndarray) -> np.ndarray:
    """Coordinates (worlds, nq) whose quaternions, which begin at ``starts``, are of unit length."""
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
    bodies = np.arange(len(in_file)) > 0  # the world's own mass is of no account
    return ((mass < 0) | ((mass == 0) & (in_file > 0))) & bodies, "must be positive, but is {:g}"


def _positive_definite(mass: np.ndarray, inertia: np.ndarray) -> tuple[np.ndarray, str]:
    """No moment is negative; a thin rod has one of zero, to rounding, and a point mass three."""
    xx, yy, zz, xy, xz, yz = np.moveaxis(inertia, -1, 0)
    full = np.stack([np.stack([xx, xy, xz], -1), np.stack([xy, yy, yz], -1), np.stack([xz, yz, zz], -1)], -2)
    moments = np.linalg.eigvalsh(full)
    massless = mass == 0  # the world, and frames: nothing to be definite about
    definite = (moments[..., 0] >= -1e-12 * moments[..., 2].clip(0)) | massless
    return ~definite, "is not that of a body (positive definite)"


# --- the kernels' form -----------------------------------------------------------------------------


class KernelParams(FieldValues):
    """Values of all parameters as the kernels read them, and the backward pass of cotangents."""

    def __init__(self, table: Mapping[str, Parameter], values: Mapping, worlds: int, precision: str, device: str):
        super().__init__(table, values, worlds)
        self.precision, self.device = precision, device
        struct = specialise(precision, "tree.structs").Params
        self.struct = struct()
        for name, variable in struct.vars.items():
            array = upload_per_world(self.field(name), variable.type.dtype, worlds, precision, device)
            setattr(self.struct, name, array)

    def __reduce__(self):
        """Copies and pickles are made of the values anew: kernels' structs hold addresses."""
        return KernelParams, (self.table, self.values, self.worlds, self.precision, self.device)

    def zero_bars(self):
        """A struct of cotangents, one set a world: summing them in a fixed order keeps results reproducible."""
        struct = specialise(self.precision, "tree.structs").Params
        shapes = {n: getattr(self.struct, n).shape if self.entering(n) else (self.worlds, 0) for n in struct.vars}
        what = f"the cotangents of the parameters of {self.worlds} worlds"
        return zeros_struct(struct, shapes, self.device, what=what, remedy="use fewer worlds, or wants_params=False")

    def no_bars(self):
        """A struct that stands where cotangents of parameters are not wanted."""
        return specialise(self.precision, "tree.structs").Params()

    def user_bars(self, bars) -> Named:
        """Cotangents in the shapes of the user's arrays."""

        def field_bar(name: str, per_world: bool) -> np.ndarray:
            array = getattr(bars, name).numpy()
            return array if per_world else array.sum(axis=0, keepdims=True)

        return Named(self.bars(field_bar, self.precision))
