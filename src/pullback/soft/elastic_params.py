"""The differentiable parameters of an Elastic System, and their form in the kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import warp as wp

from pullback.core.arrays import upload_per_world
from pullback.core.bars import Named
from pullback.core.params import FieldValues, Parameter, anything, not_negative, positive
from pullback.kernels import ElasticFlavour, specialise
from pullback.kernels.elastic import kinds
from pullback.soft.elastic_bodies import Bodies, Cloth, Solid
from pullback.soft.elastic_materials import PLACES
from pullback.soft.shapes import Shape

# Parameters of solids and of cloth: index in the material's numbers, unit and bounds.
Record = tuple[int, str, Callable]
SOLID: dict[str, Record] = {
    "shear": (kinds.SHEAR, "Pa", not_negative),
    "lame": (kinds.LAME, "Pa", anything),
    "density": (kinds.DENSITY, "kg/m³", positive),
    "viscosity": (kinds.VISCOSITY, "Pa·s", not_negative),
}
CLOTH: dict[str, Record] = {
    "cloth_shear": (kinds.SHEAR, "N/m", not_negative),
    "cloth_lame": (kinds.LAME, "N/m", anything),
    "cloth_density": (kinds.DENSITY, "kg/m²", positive),
    "cloth_viscosity": (kinds.VISCOSITY, "N·s/m", not_negative),
    "bending": (kinds.BENDING, "N·m", not_negative),
    "drag": (kinds.DRAG, "N·s/m³", not_negative),
}


def parameters(
    bodies: Bodies,
    shapes: Sequence[Shape],
    *,
    gravity: np.ndarray,
    wind: np.ndarray,
    damping: float,
    contact_stiffness: float,
    self_friction: float | None,
) -> dict[str, Parameter]:
    """All differentiable parameters, at their initial values; self_friction is None without self-contact."""
    table = {}
    for kind, field, axis, records in ((Solid, "solids", "solid", SOLID), (Cloth, "cloths", "cloth", CLOTH)):
        numbers = np.array([body.material.numbers for body in bodies if isinstance(body, kind)])
        for name, (place, unit, check) in records.items() if len(numbers) else ():
            at = {"field": field, "blank": np.zeros((len(numbers), PLACES)), "at": (slice(None), int(place))}
            table[name] = Parameter(unit, (axis,), numbers[:, place], check, **at)

    def around(unit: str, value, check: Callable, place: int) -> Parameter:
        size, axes = (slice(place, place + 3), ("axis",)) if np.ndim(value) else (place, ())
        at = {"field": "around", "blank": np.zeros((1, PLACES)), "at": (0, size)}
        return Parameter(unit, axes, np.asarray(value, dtype=float), check, **at)

    table["gravity"] = around("m/s²", gravity, anything, int(kinds.GRAVITY))
    if "drag" in table:
        table["wind"] = around("m/s", wind, anything, int(kinds.WIND))
    table["damping"] = around("1/s", damping, not_negative, int(kinds.DAMPING))
    if shapes or self_friction is not None:
        table["contact_stiffness"] = around("N/m", contact_stiffness, positive, int(kinds.STIFFNESS))
    # The friction of each shape, followed by that of self-contact.
    frictions, own = np.array([shape.friction for shape in shapes], dtype=float), int(self_friction is not None)
    blank = np.zeros(len(shapes) + own)
    if shapes:
        at = {"field": "friction", "blank": blank, "at": (slice(len(shapes)),)}
        table["friction"] = Parameter("1", ("shape",), frictions, not_negative, **at)
    if own:
        at = {"field": "friction", "blank": blank, "at": (len(shapes),)}
        table["self_friction"] = Parameter("1", (), np.asarray(self_friction, dtype=float), not_negative, **at)
    return table


class KernelLaw(FieldValues):
    """Values of all parameters in the form that kernels read, and the map of cotangents back to parameters."""

    FIELDS = ("solids", "cloths", "around", "friction")

    def __init__(
        self, table: Mapping[str, Parameter], values: Mapping, worlds: int, flavour: ElasticFlavour, device: str
    ):
        super().__init__(table, values, worlds)
        self.flavour, self.precision, self.device = flavour, flavour.precision, device
        module = specialise(flavour, "structs")
        self.struct = module.Law()
        for name in self.FIELDS:
            kind = module.Law.vars[name].type.dtype
            setattr(self.struct, name, upload_per_world(self.field(name), kind, worlds, self.precision, device))

    def __reduce__(self):
        """Copies and pickles are made from the values: the kernels' structs hold addresses."""
        return KernelLaw, (self.table, self.values, self.worlds, self.flavour, self.device)

    def zero_bars(self):
        module = specialise(self.flavour, "structs")
        bars = module.LawBar()
        for name in self.FIELDS:
            kind = module.LawBar.vars[name].type.dtype
            shape = (self.worlds, getattr(self.struct, name).shape[1])
            setattr(bars, name, wp.zeros(shape, dtype=kind, device=self.device))
        return bars

    def user_bars(self, bars) -> Named:
        """Cotangents in the shapes of the parameters' values."""
        found = {name: getattr(bars, name).numpy() for name in self.FIELDS}

        def field_bar(name: str, per_world: bool) -> np.ndarray:
            return found[name] if per_world else found[name].sum(axis=0, keepdims=True)

        return Named(self.bars(field_bar, self.precision))
