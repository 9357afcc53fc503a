"""The differentiable parameters of a Heat System, and the kernels' form of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import warp as wp

from pullback.core.arrays import to_device, upload_per_world
from pullback.core.errors import PullbackError
from pullback.core.params import NamedParams, Parameter
from pullback.core.system import Named
from pullback.kernels import specialise
from pullback.thermal.law import Pieces
from pullback.thermal.materials import Material

STEFAN_BOLTZMANN = 5.670374419e-8  # [W/m²/K⁴]
# Places of the parameters in the kernels' ``scalars``; those of the offset follow.
SCALARS = ("density", "convection", "emissivity", "absorptivity", "ambient")
POSITIVE = ("conductivity", "capacity", "density", "ambient")
# Where the ratio of conductivity to capacity is looked at, on each piece of the temperature axis.
SAMPLES = np.linspace(0.0, 1.0, 9)


def parameters(material: Material, convection: float, ambient: float) -> dict[str, Parameter]:
    """All differentiable parameters, at the values they start with."""
    return {
        "conductivity": Parameter("W/m/K", ("entry",), material.conductivity),
        "capacity": Parameter("J/kg/K", ("entry",), material.capacity),
        "latent_heat": Parameter("J/kg", (), np.asarray(material.latent_heat)),
        "density": Parameter("kg/m³", (), np.asarray(material.density)),
        "absorptivity": Parameter("1", (), np.asarray(material.absorptivity)),
        "emissivity": Parameter("1", (), np.asarray(material.emissivity)),
        "convection": Parameter("W/m²/K", (), np.asarray(convection)),
        "ambient": Parameter("K", (), np.asarray(ambient)),
        "offset": Parameter("m", ("axis",), np.zeros(3)),
    }


class HeatParams(NamedParams):
    """``heat.params``: read an array by name, or set one: ``heat.params["convection"] = 20.0``."""

    def check_value(self, name: str, array: np.ndarray) -> None:
        if name == "offset":
            return
        wrong = array <= 0 if name in POSITIVE else array < 0
        if np.any(wrong):
            where = np.argwhere(wrong)[0] if np.ndim(wrong) else ()
            value = array[tuple(where)]
            axes = ("world", *self.axes(name))[-len(where) :] if len(where) else ()
            place = "".join(f" at {axis} {int(i)}" for axis, i in zip(axes, where, strict=True))
            least = "above zero" if name in POSITIVE else "not negative"
            worlds = np.unique(np.argwhere(wrong)[:, 0]) if axes[:1] == ("world",) else ()
            raise PullbackError(f"parameter {name!r} must be {least}, but is {value:g}{place}", worlds=worlds)


class KernelLaw:
    """Values of all parameters as the kernels read them, and the way back for cotangents."""

    def __init__(self, pieces: Pieces, values: Mapping, per_world: Mapping, worlds: int, precision: str, device: str):
        self.pieces, self.worlds, self.precision, self.device = pieces, worlds, precision, device
        self.values, self.per_world = dict(values), dict(per_world)
        self.capacity = np.einsum("pkm,wm->wpk", pieces.table, self._batched("capacity")) + np.einsum(
            "pk,w->wpk", pieces.latent, self._batched("latent_heat")
        )
        self.potential = np.einsum("pkm,wm->wpk", pieces.potential, self._batched("conductivity"))
        self.scalars = np.zeros((max(len(self._batched(n)) for n in (*SCALARS, "offset")), len(SCALARS) + 3))
        for k, name in enumerate(SCALARS):
            self.scalars[:, k] = self._batched(name)
        self.scalars[:, len(SCALARS) :] = self._batched("offset")
        self.struct = self._upload()

    def __reduce__(self):
        """Copies and pickles are made of the values anew: kernels' structs hold addresses."""
        return KernelLaw, (self.pieces, self.values, self.per_world, self.worlds, self.precision, self.device)

    def _batched(self, name: str) -> np.ndarray:
        """The user's array with a leading axis of 1 or worlds."""
        value = np.asarray(self.values[name], dtype=np.float64)
        return value if self.per_world[name] else value[None]

    def _upload(self):
        module, pieces = specialise(self.precision, "heat"), self.pieces
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
        """Cotangents, one set a lane and world."""
        module = specialise(self.precision, "heat")
        bar = module.LawBar()
        rows, count = lanes * self.worlds, len(self.pieces.anchor)
        bar.capacity = wp.zeros((rows, count), dtype=module.wide4, device=self.device)
        bar.conductivity = wp.zeros((rows, count), dtype=module.wide4, device=self.device)
        bar.scalars = wp.zeros((rows, self.scalars.shape[1]), dtype=wp.float64, device=self.device)
        return bar

    def user_bars(self, bar, path_bar: wp.array) -> Named:
        """Cotangents in the shapes of the user's arrays; path_bar (worlds, scalars) are those from along the path."""
        capacity, potential, scalars = (
            x.numpy().reshape(-1, self.worlds, *x.numpy().shape[1:]).sum(axis=0)
            for x in (bar.capacity, bar.conductivity, bar.scalars)
        )
        scalars = scalars + path_bar.numpy()
        found = {
            "conductivity": np.einsum("pkm,wpk->wm", self.pieces.potential, potential),
            "capacity": np.einsum("pkm,wpk->wm", self.pieces.table, capacity[..., :3]),
            "latent_heat": np.einsum("pk,wpk->w", self.pieces.latent, capacity[..., :3]),
            "offset": scalars[:, len(SCALARS) :],
            **{name: scalars[:, k] for k, name in enumerate(SCALARS)},
        }
        result = Named()
        for name in self.values:
            bar = found[name] if self.per_world[name] else found[name].sum(axis=0)
            result[name] = np.asarray(bar, dtype=self.precision)
        return result

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
