"""Materials: tables over temperature, with their sources.

What was checked, and against what, is said at each material. All values are in SI units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_number
from pullback.core.errors import PullbackError

# Upper bounds in SI units: a larger value is a mistake in the unit.
MOST = {"density": 1e6, "solidus": 1e5, "liquidus": 1e5, "latent_heat": 1e9, "absorptivity": 1.0, "emissivity": 1.0}


@dataclass(frozen=True, eq=False)
class Material:
    """Thermal properties of a material. Tables are constant beyond their ends.

    density:       [kg/m³], the same at all temperatures: the mesh does not expand
    temperatures:  (m,) [K], increasing, of the two tables
    conductivity:  (m,) [W/m/K]
    capacity:      (m,) [J/kg/K], without the latent heat
    solidus:       where melting begins [K]
    liquidus:      where it ends [K]
    latent_heat:   absorbed in between [J/kg]
    absorptivity:  share of the laser's power that the part absorbs [1]
    emissivity:    [1]
    source:        where the values are from
    """

    name: str
    density: float
    temperatures: np.ndarray
    conductivity: np.ndarray
    capacity: np.ndarray
    solidus: float
    liquidus: float
    latent_heat: float
    absorptivity: float
    emissivity: float
    source: str = ""

    def __post_init__(self):
        for name in ("temperatures", "conductivity", "capacity"):
            value = np.array(to_numbers(getattr(self, name), f"{name} of {self.name}"), dtype=float)
            if value.ndim != 1 or not len(value):
                raise PullbackError(f"{name} of {self.name} must be a row of numbers, not of shape {value.shape}")
            if len(value) != len(self.temperatures):
                raise PullbackError(
                    f"{name} of {self.name} has {len(value)} entries, but there are "
                    f"{len(self.temperatures)} temperatures"
                )
            wrong = ~(np.isfinite(value) & (value > 0))
            if np.any(wrong):
                entry = int(np.argmax(wrong))
                raise PullbackError(f"{name} of {self.name} must be above zero: entry {entry} is {value[entry]:g}")
            object.__setattr__(self, name, value)
        falling = np.diff(self.temperatures) <= 0
        if np.any(falling):
            raise PullbackError(
                f"temperatures of {self.name} must increase: entry {int(np.argmax(falling)) + 1} does not"
            )
        for name, most in MOST.items():
            value = check_number(getattr(self, name), f"{name} of {self.name}", least=0.0)
            if value > most:
                raise PullbackError(f"{name} of {self.name} must be at most {most:g}, not {value:g}")
            object.__setattr__(self, name, value)
        if not self.density > 0:
            raise PullbackError(f"density of {self.name} must be above zero, not {self.density!r}")
        if not self.solidus < self.liquidus:
            raise PullbackError(
                f"solidus of {self.name} must be below its liquidus, not {self.solidus:g} and {self.liquidus:g} K"
            )

    def conductivity_at(self, temperature) -> np.ndarray:
        """[W/m/K], straight lines between the entries of the table."""
        return np.interp(temperature, self.temperatures, self.conductivity)

    def capacity_at(self, temperature) -> np.ndarray:
        """[J/kg/K], straight lines between the entries of the table, without the latent heat."""
        return np.interp(temperature, self.temperatures, self.capacity)


def inconel_718() -> Material:
    """Inconel 718, the table that Mozaffar et al. simulate with.

    Tables, melting interval, latent heat, density and emissivity are those of their published notebook. Absorptivity:
    1, since their laser's 250 W are what the part takes up; give your own with ``dataclasses.replace``.

    Checked against two other sources:
    - a study in Scientific Reports 5 (2015) 16446, with k = 0.5603 + 0.0294 T - 7e-6 T², c_p = 360.56 + 0.2621 T -
      4e-5 T², of the melt 29.6 and 720, between 1533 and 1609 K, and 8100 kg/m³. Tables agree to 3 % but at 1073 K,
      where precipitates dissolve (26.9 here, 24.0 there; 680 and 596), the melt and its interval to all digits.
    - measurements of Agazhanov et al., J. Phys. Conf. Ser. 1382 (2019) 012175, up to 1375 K. Capacity agrees to 4 %
      where they give one, conductivity to 11 % (9.9 against 8.9 at 298 K, 16.2 against 17.4 at 673 K, 24.2 against
      26.7 at 1273 K); their density at room temperature is 8170 kg/m³, against a round 8000.

    The latent heat, 272 kJ/kg, was found nowhere else: simulations that name handbooks take 210 kJ/kg.
    """
    return Material(
        name="Inconel 718",
        density=8000.0,
        temperatures=[298.0, 473.0, 673.0, 873.0, 1073.0, 1273.0, 1443.0, 1609.0],
        conductivity=[8.9, 12.9, 17.4, 20.8, 26.9, 26.7, 29.3, 29.6],
        capacity=[435.0, 479.0, 515.0, 558.0, 680.0, 620.0, 650.0, 720.0],
        solidus=1533.15,
        liquidus=1609.15,
        latent_heat=272e3,
        absorptivity=1.0,
        emissivity=0.2,
        source=(
            "Mozaffar et al.: Differentiable simulation for material thermal response design in additive manufacturing "
            "processes, Additive Manufacturing 61 (2023), arXiv:2107.10919"
        ),
    )


def ti_6al_4v() -> Material:
    """Ti-6Al-4V. At 1268 K, where the α phase becomes β, both tables jump; here they do so over 20 K.

    Both tables were checked entry by entry against those of Cao, Gharghouri and Nash, J. Mater. Process. Technol. 237
    (2016) 409, as a public set-up of MOOSE quotes them: they are the same but for the jumps, at 1268 K and from solid
    (28.4 W/m/K, 759 J/kg/K) to melt at 1923 K, which here are spread over 20 K and over the melting interval. A second
    public set-up has the same conductivity up to 873 K and from 1373 K on, and a smooth transition in between. Mills'
    book itself was not at hand. The capacity agrees to 1 % with the fits 483.04 + 0.215 T (α) and 412.70 + 0.180 T (β),
    which were found with 831 J/kg/K of the melt, the melting interval and the latent heat. Of the melt's conductivity
    measurements differ by a fifth: Boivineau et al. (2006) have 29.0 W/m/K at 1950 K, here it is 34.0.

    The density is that of data sheets (4420 to 4430 kg/m³). Emissivity and absorptivity are usual values, from memory.
    """
    return Material(
        name="Ti-6Al-4V",
        density=4420.0,
        temperatures=[298, 373, 473, 573, 673, 773, 873, 973, 1073, 1173, 1258, 1278, 1373, 1473, 1573, 1673, 1773,
                      1877, 1923, 1973],
        conductivity=[7.0, 7.45, 8.75, 10.15, 11.35, 12.6, 14.2, 15.5, 17.8, 20.2, 22.7, 19.3, 21.0, 22.9, 23.7, 24.6,
                      25.8, 27.1, 33.4, 34.6],
        capacity=[546, 562, 584, 606, 629, 651, 673, 694, 714, 734, 753, 641, 660, 678, 696, 714, 732, 751, 831, 831],
        solidus=1877.0,
        liquidus=1923.0,
        latent_heat=286e3,
        absorptivity=0.4,
        emissivity=0.3,
        source=(
            "Mills: Recommended values of thermophysical properties for selected commercial alloys (2002), as in Cao, "
            "Gharghouri and Nash, J. Mater. Process. Technol. 237 (2016) 409"
        ),
    )  # fmt: skip


def steel_316l() -> Material:
    """Stainless steel 316L by Kim's fits: k = 9.248 + 0.01571 T, c_p = 459.3 + 0.1329 T; of the melt 12.41 + 0.003279 T
    and 770.4 [W/m/K, J/kg/K, T in K].

    Fits, melting interval, latent heat, density, emissivity and absorptivity were checked against the table of 316L in
    Oak Ridge's Mist, which quotes Kim (there with T in °C, and the conversion undone here); those of the solid also
    against another catalogue that quotes Kim in his own units, 0.09248 + 1.571e-4 T [W/cm/K] and 0.1097 + 3.174e-5 T
    [cal/g/K], and says that he measured up to 1200 K: beyond, they are extrapolated. The conductivity at room
    temperature agrees with a data sheet (14.6 W/m/K between 20 and 100 °C, here 14.4). mlhp's 316L, whose source is not
    named, has 31.6 W/m/K and 667 J/kg/K at 1573 K, here 34.0 and 668.
    """
    solid = np.array([298.0, 500.0, 750.0, 1000.0, 1250.0, 1500.0, 1670.0])
    melt = np.array([1730.0, 2200.0, 2800.0])
    return Material(
        name="316L",
        density=7955.0,
        temperatures=np.concatenate([solid, melt]),
        conductivity=np.concatenate([9.248 + 0.01571 * solid, 12.41 + 0.003279 * melt]),
        capacity=np.concatenate([459.3 + 0.1329 * solid, np.full(len(melt), 770.4)]),
        solidus=1670.0,
        liquidus=1730.0,
        latent_heat=268e3,
        absorptivity=0.36,
        emissivity=0.4,
        source="Kim: Thermophysical properties of stainless steels, ANL-75-55, Argonne National Laboratory (1975)",
    )
