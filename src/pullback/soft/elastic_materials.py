"""Materials of elastic solids and cloth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.kernels.elastic import kinds

PLACES = 8  # numbers per group in kernels


@dataclass(frozen=True, kw_only=True)
class SolidMaterial:
    """The base class of materials of solids.

    young:      Young's modulus [Pa]
    poisson:    Poisson's ratio [1]
    density:    [kg/m³]
    viscosity:  stress per rate of strain (Kelvin-Voigt) [Pa·s]
    """

    kind: ClassVar[int]

    young: float
    poisson: float = 0.3
    density: float
    viscosity: float = 0.0

    def __post_init__(self):
        check_number(self.young, "young")
        check_number(self.density, "density")
        check_number(self.viscosity, "viscosity", least=0.0)
        if not -1.0 < check_number(self.poisson, "poisson", above=None) < 0.5:
            raise PullbackError(f"poisson must lie between -1 and 0.5, not {self.poisson!r}")

    @property
    def numbers(self) -> np.ndarray:
        """The material's numbers (8,), in the order of ``kernels/elastic/kinds.py``."""
        values = np.zeros(PLACES)
        values[kinds.SHEAR] = shear = self.young / (2 * (1 + self.poisson))
        values[kinds.LAME] = 2 * shear * self.poisson / (1 - 2 * self.poisson)
        values[kinds.DENSITY], values[kinds.VISCOSITY] = self.density, self.viscosity
        return values


@dataclass(frozen=True, kw_only=True)
class StableNeoHookean(SolidMaterial):
    """Rubber or flesh: Smith, de Goes and Kim (2018). Its energy is finite even if an element is inverted."""

    kind: ClassVar[int] = int(kinds.NEO_HOOKEAN)


@dataclass(frozen=True, kw_only=True)
class StVK(SolidMaterial):
    """Saint Venant-Kirchhoff: Hooke's law for Green's strain, for small strains; it softens when it is crushed."""

    kind: ClassVar[int] = int(kinds.SAINT_VENANT)


@dataclass(frozen=True, kw_only=True)
class Membrane:
    """Cloth as a neo-Hookean membrane with bending stiffness.

    young:      stiffness against stretch: Young's modulus times thickness [N/m]
    poisson:    Poisson's ratio, in plane stress [1]
    density:    [kg/m²]
    viscosity:  tension per rate of strain [N·s/m]
    bending:    flexural rigidity [N·m]
    drag:       force of the air per area and normal velocity [N·s/m³]
    """

    kind: ClassVar[int] = int(kinds.NEO_HOOKEAN)

    young: float
    poisson: float = 0.3
    density: float
    viscosity: float = 0.0
    bending: float = 0.0
    drag: float = 0.0

    def __post_init__(self):
        check_number(self.young, "young")
        check_number(self.density, "density")
        for name in ("viscosity", "bending", "drag"):
            check_number(getattr(self, name), name, least=0.0)
        if not -1.0 < check_number(self.poisson, "poisson", above=None) < 1.0:
            raise PullbackError(f"poisson of cloth must lie between -1 and 1, not {self.poisson!r}")

    @property
    def numbers(self) -> np.ndarray:
        """The material's numbers (8,), in the order of ``kernels/elastic/kinds.py``."""
        values = np.zeros(PLACES)
        values[kinds.SHEAR] = self.young / (2 * (1 + self.poisson))
        values[kinds.LAME] = self.young * self.poisson / (1 - self.poisson**2)
        values[kinds.DENSITY], values[kinds.VISCOSITY] = self.density, self.viscosity
        values[kinds.BENDING], values[kinds.DRAG] = self.bending, self.drag
        return values


@dataclass(frozen=True, kw_only=True)
class StVKMembrane(Membrane):
    """Cloth as a Saint Venant-Kirchhoff membrane: Hooke's law for Green's strain."""

    kind: ClassVar[int] = int(kinds.SAINT_VENANT)
