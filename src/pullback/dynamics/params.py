"""The differentiable parameters of an articulated System: names, shapes, checks, and the kernels' form of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from pullback.contact import Contact, Scene
from pullback.contact.params import FIELDS, check_contact_parameter, contact_parameters, kernel_form, user_form
from pullback.core.arrays import upload_per_world
from pullback.core.errors import PullbackError
from pullback.core.params import NamedParams, Parameter
from pullback.core.system import Named
from pullback.dynamics.tree import Layout, zeros_struct
from pullback.kernels import specialise
from pullback.model import Model
from pullback.model.tangent import rotations
from pullback.spatial import quat_bar_of_tangent, unit


def parameters(model: Model, scene: Scene | None = None, contact: Contact | None = None) -> dict[str, Parameter]:
    """All differentiable parameters of a model, at the values the file gave."""
    table = {
        "mass": Parameter("kg", ("body",), model.body_mass),
        "com": Parameter("m", ("body", "axis"), model.body_com),
        "inertia": Parameter("kg·m²", ("body", "entry"), model.body_inertia),
        "gravcomp": Parameter("1", ("body",), model.body_gravcomp),
        "body_pos": Parameter("m", ("body", "axis"), model.body_pos),
        "body_quat": Parameter("1", ("body", "entry"), model.body_quat),
        "joint_pos": Parameter("m", ("joint", "axis"), model.joint_pos),
        "joint_axis": Parameter("1", ("joint", "axis"), model.joint_axis),
        "stiffness": Parameter("N·m/rad or N/m", ("joint",), model.joint_stiffness),
        "spring_ref": Parameter("rad or m", ("coordinate",), model.q_spring),
        "damping": Parameter("N·m·s/rad or N·s/m", ("dof",), model.dof_damping),
        "armature": Parameter("kg·m² or kg", ("dof",), model.dof_armature),
        "gear": Parameter("1", ("actuator", "entry"), model.actuator_gear),
        "gain": Parameter("N·m or N a unit", ("actuator", "entry"), model.actuator_gain),
        "bias": Parameter("N·m or N a unit", ("actuator", "entry"), model.actuator_bias),
        "gravity": Parameter("m/s²", ("axis",), model.gravity),
    }
    if model.fluid_density or model.fluid_viscosity:
        table |= {
            "fluid_density": Parameter("kg/m³", (), np.asarray(model.fluid_density)),
            "fluid_viscosity": Parameter("Pa·s", (), np.asarray(model.fluid_viscosity)),
            "wind": Parameter("m/s", ("axis",), model.wind),
            "fluid_box": Parameter("m", ("body", "axis"), model.fluid_box),
        }
    if scene is not None:
        table |= {name: Parameter(*entry) for name, entry in contact_parameters(scene, contact).items()}
    return table


class Params(NamedParams):
    """``system.params``: read an array by name, or set one: ``system.params["mass"] = new_mass``.

    Arrays are read-only; set a changed copy, or one number for all entries. An array with a leading axis of size
    ``worlds`` gives each world its own.
    """

    def __init__(self, model: Model, worlds: int, scene: Scene | None = None, contact: Contact | None = None):
        self._model, self._scene = model, scene
        super().__init__(parameters(model, scene, contact), worlds)

    def check_value(self, name: str, array: np.ndarray) -> None:
        """Refuses what no robot could have."""
        if name == "mass":
            bodies = np.arange(self._model.nbody) > 0  # the world's own mass is of no account
            wrong = (array < 0) | ((array == 0) & (self._model.body_mass > 0))
            self._refuse(name, wrong & bodies, "must be positive")
        elif name == "inertia":
            self._refuse(name, ~_positive_definite(array, self._model), "is not that of a body (positive definite)")
        elif name in ("armature", "fluid_density", "fluid_viscosity", "fluid_box"):
            self._refuse(name, array < 0, "must not be negative")
        elif name in ("body_quat", "joint_axis"):
            self._refuse(name, np.linalg.norm(array, axis=-1) < 1e-12, "has no direction: it is of zero length")
        elif name == "spring_ref":
            for start, _ in rotations(self._model):
                short = np.linalg.norm(array[..., start : start + 4], axis=-1) < 1e-12
                self._refuse(name, short, "has no direction: its quaternion is of zero length", item=start)
        elif self._scene is not None:
            found = check_contact_parameter(self._scene, name, array)
            if found is not None:
                self._refuse(name, *found)

    def _refuse(self, name: str, wrong: np.ndarray, why: str, item: int | None = None) -> None:
        """An error that names the first place where ``wrong`` is true; ``item`` stands for the first axis."""
        if not np.any(wrong):
            return
        index = [int(i) for i in np.argwhere(wrong)[0]] if np.ndim(wrong) else []
        rows = len(self._table[name].axes) - (self._table[name].axes[-1:] == ("entry",) or name == "joint_axis")
        per_world = len(index) > rows - (item is not None)
        world = f" in world {index.pop(0)}" if per_world else ""
        axis = (self._table[name].axes or ("",))[0]
        item = index[0] if item is None and index else item
        if axis == "coordinate":
            axis, item = "joint", int(np.searchsorted(self._model.joint_q, item, side="right")) - 1
        names = {
            "body": self._model.body_names,
            "joint": self._model.joint_names,
            "geom": self._model.geoms.names,
        }.get(axis, ())
        where = "" if item is None else f" of {names[item]!r}" if names else f" at {axis} {item}"
        raise PullbackError(f"parameter {name!r}{where}{world} {why}")


def _positive_definite(inertia: np.ndarray, model: Model) -> np.ndarray:
    """Whether no moment is negative; a thin rod has one of zero, to rounding, and a point mass three."""
    xx, yy, zz, xy, xz, yz = np.moveaxis(inertia, -1, 0)
    full = np.stack([np.stack([xx, xy, xz], -1), np.stack([xy, yy, yz], -1), np.stack([xz, yz, zz], -1)], -2)
    moments = np.linalg.eigvalsh(full)
    massless = model.body_mass == 0  # the world, and frames: nothing to be definite about
    return (moments[..., 0] >= -1e-12 * moments[..., 2].clip(0)) | massless


# --- the kernels' form -----------------------------------------------------------------------------

# Kernel fields that are the user's array as it is.
STRAIGHT = ("mass", "com", "inertia", "gravcomp", "damping", "armature", "gear", "gain", "bias", "fluid_box")


class KernelParams:
    """Values of all parameters as the kernels read them, and the way back for cotangents."""

    def __init__(
        self,
        model: Model,
        layout: Layout,
        values: Mapping,
        worlds: int,
        precision: str,
        device: str,
        scene: Scene | None = None,
        contact: Contact | None = None,
    ):
        self.model, self.layout, self.worlds = model, layout, worlds
        self.precision, self.device, self.scene, self.contact = precision, device, scene, contact
        self.values = dict(values)
        table = parameters(model, scene, contact)
        self.contact_names = set(table) - set(parameters(model))
        self.per_world = {n: np.ndim(v) > len(table[n].shape) for n, v in self.values.items()}
        module = specialise(precision, "tree")
        self.struct = module.Params()
        for name, variable in module.Params.vars.items():
            array = self._kernel_form(name)
            setattr(self.struct, name, upload_per_world(array, variable.type.dtype, worlds, precision, device))

    def __reduce__(self):
        """Copies and pickles are made of the values anew: kernels' structs hold addresses."""
        made_of = (self.model, self.layout, self.values, self.worlds, self.precision, self.device)
        return KernelParams, (*made_of, self.scene, self.contact)

    def _batched(self, name: str) -> np.ndarray:
        """The user's array with a leading axis of 1 or worlds."""
        value = np.asarray(self.values[name], dtype=np.float64)
        return value if self.per_world[name] else value[None]

    def _kernel_form(self, name: str) -> np.ndarray:
        """(1 or worlds, items, entries)"""
        model, layout = self.model, self.layout
        if name in FIELDS:
            return kernel_form(self.scene, self.contact, name, self.values, self._batched)
        if name == "fluid_quat":
            return model.fluid_quat[None]
        if name == "fluid_box" and name not in self.values:
            return model.fluid_box[None]
        if name in STRAIGHT:
            return self._batched(name)
        if name == "body_pos":
            value = self._batched(name).copy()
            value[:, layout.free_bodies] = 0.0  # a free joint's coordinates are the pose itself
            return value
        if name == "body_quat":
            value = unit(self._batched(name))
            value[:, layout.free_bodies] = (1.0, 0.0, 0.0, 0.0)
            return value
        if name == "joint_pos":
            return np.where(layout.from_free[:, None], 0.0, self._batched(name)[:, layout.source])
        if name == "joint_axis":
            value = unit(self._batched(name)[:, layout.source])
            return np.where(layout.from_free[:, None], layout.free_axis, value)
        if name == "stiffness":
            return self._batched(name)[:, layout.source]
        if name == "spring_ref":
            value = self._batched(name).copy()
            for i in layout.q[layout.ball]:
                value[:, i : i + 4] = unit(value[:, i : i + 4])
            return value
        if name == "gravity":
            return self._batched(name)[:, None]
        assert name == "fluid", name
        if "wind" not in self.values:
            return np.zeros((1, 2, 3))
        density, viscosity, wind = (self._batched(n) for n in ("fluid_density", "fluid_viscosity", "wind"))
        fluid = np.zeros((max(len(density), len(viscosity), len(wind)), 2, 3))
        fluid[:, 0, 0], fluid[:, 0, 1], fluid[:, 1] = density, viscosity, wind
        return fluid

    def zero_bars(self):
        """A struct of cotangents, one set a world: summing them in a fixed order keeps results reproducible."""
        struct = specialise(self.precision, "tree").Params
        shapes = {name: getattr(self.struct, name).shape for name in struct.vars}
        what = f"the cotangents of the parameters of {self.worlds} worlds"
        return zeros_struct(struct, shapes, self.device, what=what, remedy="use fewer worlds, or wants_params=False")

    @functools.cached_property
    def no_bars(self):
        """A struct that stands where cotangents of parameters are not wanted: no kernel writes to it."""
        return specialise(self.precision, "tree").Params()

    def user_bars(self, bars) -> Named:
        """Cotangents in the shapes of the user's arrays."""
        return Named({name: self._user_form(name, bars) for name in self.values})

    def _user_form(self, name: str, bars) -> np.ndarray:
        model, layout = self.model, self.layout

        def total(field: str) -> np.ndarray:
            array = getattr(bars, field).numpy()
            return array if self.per_world[name] else array.sum(axis=0, keepdims=True)

        value = self._batched(name)
        if name in self.contact_names:
            bar = user_form(self.scene, name, value, total)
        elif name in STRAIGHT:
            bar = total(name)
        elif name == "body_pos":
            bar = total(name)
            bar[:, layout.free_bodies] = 0.0
        elif name == "body_quat":
            bar = quat_bar_of_tangent(value, total(name)[..., :3])
            bar[:, layout.free_bodies] = 0.0
        elif name in ("joint_pos", "joint_axis"):
            kernel_bar = total(name)
            kernel_bar[:, layout.from_free] = 0.0
            if name == "joint_axis":
                kernel_bar[:, layout.ball] = 0.0  # a ball joint has no axis
            bar = np.zeros((len(kernel_bar), model.njoint, 3))
            bar[:, layout.source] = kernel_bar  # one kernel joint a joint, but for free joints, which are zero
            if name == "joint_axis":
                length = np.linalg.norm(value, axis=-1, keepdims=True)
                axis = value / length
                bar = (bar - axis * np.sum(axis * bar, axis=-1, keepdims=True)) / length
        elif name == "stiffness":
            kernel_bar = total(name)
            bar = np.zeros((len(kernel_bar), model.njoint))
            np.add.at(bar, (slice(None), layout.source), kernel_bar)
        elif name == "spring_ref":
            bar = total(name)
            for i in layout.q[layout.ball]:
                bar[:, i : i + 4] = quat_bar_of_tangent(value[:, i : i + 4], bar[:, i : i + 3])
        elif name == "gravity":
            bar = total(name)[:, 0]
        elif name == "wind":
            bar = total("fluid")[:, 1]
        else:
            bar = total("fluid")[:, 0, {"fluid_density": 0, "fluid_viscosity": 1}[name]]
        bar = np.asarray(bar, dtype=self.precision)
        return bar if self.per_world[name] else bar[0]
