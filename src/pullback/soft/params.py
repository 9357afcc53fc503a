"""The differentiable parameters of Particles, and their form in the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pullback.core.arrays import upload_per_world
from pullback.core.bars import Named
from pullback.core.params import FieldValues, Parameter, not_negative, positive
from pullback.kernels import SoftFlavour, specialise
from pullback.kernels.soft import kinds
from pullback.soft.bodies import Body, Muscle, Wall
from pullback.soft.shapes import Shape

# Parameters of groups: index in the material's numbers, unit, bounds, and whether only some materials have it.
GROUP = {
    "shear": (kinds.SHEAR, "Pa", not_negative, False),
    "lame": (kinds.LAME, "Pa", not_negative, False),
    "density": (kinds.DENSITY, "kg/m³", positive, False),
    "viscosity": (kinds.VISCOSITY, "Pa·s", not_negative, False),
    "yield_stress": (kinds.YIELD, "Pa", not_negative, True),
    "friction_angle": (kinds.ANGLE, "rad", not_negative, True),
    "hardening": (kinds.HARDENING, "1", not_negative, True),
    "compression": (kinds.COMPRESSION, "1", not_negative, True),
    "stretch": (kinds.STRETCH, "1", not_negative, True),
}


def parameters(
    bodies: Sequence[Body],
    muscles: Sequence[Muscle],
    walls: Sequence[Wall],
    shapes: Sequence[Shape],
    gravity: np.ndarray,
) -> dict[str, Parameter]:
    """All differentiable parameters, at their initial values."""
    numbers = np.array([body.material.numbers for body in bodies])
    blank = np.zeros((len(bodies), kinds.PLACES))
    exponents = np.where(np.arange(kinds.PLACES) == kinds.EXPONENT, numbers, 0.0)
    table = {}
    for name, (place, unit, check, optional) in GROUP.items():
        if not optional or np.any(numbers[:, place]):
            of = {"field": "groups", "blank": blank if table else exponents, "at": (slice(None), int(place))}
            table[name] = Parameter(unit, ("group",), numbers[:, place], check, **of)
    at = (0, slice(len(gravity)))
    table["gravity"] = Parameter("m/s²", ("axis",), gravity, field="gravity", blank=np.zeros((1, 3)), at=at)
    if walls:
        table["friction"] = Parameter("1", ("wall",), _frictions(walls), not_negative)
    if shapes:
        size = np.array([shape.size for shape in shapes], dtype=float)
        table["shape_size"] = Parameter("m", ("shape", "axis"), size, not_negative)
        table["shape_friction"] = Parameter("1", ("shape",), _frictions(shapes), not_negative)
    if muscles:
        table["strength"] = Parameter("Pa", ("muscle",), np.array([float(muscle.strength) for muscle in muscles]))
    return table


def _frictions(surfaces: Sequence[Wall] | Sequence[Shape]) -> np.ndarray:
    """The friction of walls or shapes, with zero for sticky ones, which have a law of their own."""
    return np.array([one.friction if np.isfinite(one.friction) else 0.0 for one in surfaces], dtype=float)


class KernelLaw(FieldValues):
    """Values of all parameters in the form that kernels read, and the map of cotangents back to parameters."""

    FIELDS = ("groups", "gravity", "friction", "strength", "shape_friction", "shape_size")

    def __init__(self, table: Mapping[str, Parameter], values: Mapping, worlds: int, flavour: SoftFlavour, device: str):
        super().__init__(table, values, worlds)
        self.flavour, self.precision, self.device = flavour, flavour.precision, device
        self.groups = self.field("groups")
        module = specialise(flavour, "structs")
        self.struct = module.Law()
        for name in self.FIELDS:
            kind = module.Law.vars[name].type.dtype
            array = upload_per_world(self.field(name), kind, worlds, self.precision, device)
            setattr(self.struct, name, array)

    def __reduce__(self):
        """Copies and pickles are made from the values: the kernels' structs hold addresses."""
        return KernelLaw, (self.table, self.values, self.worlds, self.flavour, self.device)

    def user_bars(self, bars: Mapping[str, np.ndarray]) -> Named:
        """Cotangents in the shapes of the parameters' values, from those of fields (worlds, items, ...)."""

        def field_bar(name: str, per_world: bool) -> np.ndarray:
            return bars[name] if per_world else bars[name].sum(axis=0, keepdims=True)

        return Named(self.bars(field_bar, self.precision))
