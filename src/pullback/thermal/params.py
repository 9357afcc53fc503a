"""The differentiable parameters of a Heat System, and the kernels' form of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import warp as wp

from pullback.core.arrays import to_device, upload_per_world
from pullback.core.bars import Named
from pullback.core.params import FieldValues, Parameter, linear, not_negative, positive
from pullback.kernels import specialise
from pullback.thermal.law import Pieces
from pullback.thermal.materials import Material

STEFAN_BOLTZMANN = 5.670374419e-8  # [W/m²/K⁴]
# Where the ratio of conductivity to capacity is looked at, on each piece of the temperature axis.
SAMPLES = np.linspace(0.0, 1.0, 9)


def parameters(material: Material, pieces: Pieces, convection: float, ambient: float) -> dict[str, Parameter]:
    """All differentiable parameters, at the values they start with."""

    def scalar(unit: str, value: float, check, place: int) -> Parameter:
        """One number, and its place in the kernels' ``scalars``."""
        return Parameter(unit, (), np.asarray(value), check, field="scalars", blank=np.zeros(8), at=(place,))

    entries = ("entry",)
    return {
        "conductivity": Parameter("W/m/K", entries, material.conductivity, positive, form=linear(pieces.potential)),
        "capacity": Parameter("J/kg/K", entries, material.capacity, positive, form=linear(pieces.table)),
        "latent_heat": Parameter(
            "J/kg", (), np.asarray(material.latent_heat), not_negative, field="capacity", form=linear(pieces.latent)
        ),
        "density": scalar("kg/m³", material.density, positive, 0),
        "absorptivity": scalar("1", material.absorptivity, not_negative, 3),
        "emissivity": scalar("1", material.emissivity, not_negative, 2),
        "convection": scalar("W/m²/K", convection, not_negative, 1),
        "ambient": scalar("K", ambient, positive, 4),
        "offset": Parameter("m", ("axis",), np.zeros(3), field="scalars", blank=np.zeros(8), at=(slice(5, 8),)),
    }


class KernelLaw(FieldValues):
    """Values of all parameters as the kernels read them, and the backward pass of cotangents."""

    def __init__(
        self, table: Mapping[str, Parameter], values: Mapping, worlds: int, pieces: Pieces, precision: str, device: str
    ):
        super().__init__(table, values, worlds)
        self.pieces, self.precision, self.device = pieces, precision, device
        self.capacity, self.potential, self.scalars = map(self.field, ("capacity", "conductivity", "scalars"))
        self.struct = self._upload()

    def __reduce__(self):
        """Copies and pickles are made of the values anew: kernels' structs hold addresses."""
        return KernelLaw, (self.table, self.values, self.worlds, self.pieces, self.precision, self.device)

    def _upload(self):
        module, pieces = specialise(self.precision, "heat.elements"), self.pieces
        law = module.Law()
        for name in ("bounds", "anchor"):
            array = np.ascontiguousarray(getattr(pieces, name), dtype=self.precision)
            setattr(law, name, to_device(array, self.precision, self.device))
        law.bins = wp.array(pieces.bins.astype(np.int32), dtype=wp.int32, device=self.device)
        law.bins_first, law.bins_last = float(pieces.bounds[1]), float(pieces.bounds[-2])
        law.bins_a_kelvin = (len(pieces.bins) - 1) / (law.bins_last - law.bins_first)
        arrays = {"capacity": self.capacity, "conductivity": self.potential, "scalars": self.scalars}
        for name, array in arrays.items():
            kind = module.Law.vars[name].type.dtype
            setattr(law, name, upload_per_world(array, kind, self.worlds, self.precision, self.device))
        return law

    def zero_bars(self, lanes: int):
        """Cotangents, one set per lane and world."""
        module = specialise(self.precision, "heat.elements")
        bar = module.LawBar()
        rows, count = lanes * self.worlds, len(self.pieces.anchor)
        bar.capacity = wp.zeros((rows, count), dtype=module.wide4, device=self.device)
        bar.conductivity = wp.zeros((rows, count), dtype=module.wide4, device=self.device)
        bar.scalars = wp.zeros((rows, self.scalars.shape[1]), dtype=wp.float64, device=self.device)
        return bar

    def user_bars(self, bar, path_bar: wp.array) -> Named:
        """Cotangents in the shapes of the user's arrays; path_bar (worlds, scalars) are those from along the path."""
        names = ("capacity", "conductivity", "scalars")
        arrays = {name: getattr(bar, name).numpy() for name in names}
        found = {name: x.reshape(-1, self.worlds, *x.shape[1:]).sum(axis=0) for name, x in arrays.items()}
        found["scalars"] += path_bar.numpy()

        def field_bar(name: str, per_world: bool) -> np.ndarray:
            return found[name] if per_world else found[name].sum(axis=0, keepdims=True)

        return Named(self.bars(field_bar, self.precision))

    def explicit_limits(self, fastest: float, widest: float) -> np.ndarray:
        """The longest stable explicit step of each set of parameters [s], whatever temperatures of the table occur.

        The fastest mode of a whole is not faster than that of its fastest element by itself, with its own share of
        volume and of exposed faces; and a step is stable up to 2 over that rate.
        """
        inner = self.pieces.bounds[1:-1]
        T = (inner[:-1, None] + SAMPLES * np.diff(inner)[:, None]).ravel()
        rates = []
        for w in range(max(len(x) for x in (self.capacity, self.potential, self.scalars))):
            capacity, potential, scalars = (
                x[min(w, len(x) - 1)] for x in (self.capacity, self.potential, self.scalars)
            )
            density, convection, emissivity = scalars[:3]
            with np.errstate(all="ignore"):  # what is beyond all numbers is no stable step
                c, k = self.pieces.at(T, capacity), self.pieces.at(T, potential[:, 1:])
                loss = convection + 4 * STEFAN_BOLTZMANN * emissivity * T**3
                rates.append(np.max((fastest * k + widest * loss) / density / c))
        rates = np.array(rates)
        return np.divide(2.0, rates, out=np.full(rates.shape, np.inf), where=rates != 0)
