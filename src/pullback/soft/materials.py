"""Materials of soft bodies, sand, snow and water."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.kernels.soft import kinds


@dataclass(frozen=True, kw_only=True)
class Material:
    """The base class of materials of particles.

    density:    [kg/m³], in the plane [kg/m²]
    viscosity:  tau += viscosity J (C + C^T), with C the velocity gradient [Pa·s]
    """

    kind: ClassVar[int]
    yields: ClassVar[bool] = False  # needs singular values

    density: float
    viscosity: float = 0.0

    def __post_init__(self):
        check_number(self.density, "density")
        check_number(self.viscosity, "viscosity", least=0.0)

    @property
    def lame(self) -> tuple[float, float]:
        """Lamé's mu and lambda [Pa]."""
        raise NotImplementedError

    @property
    def numbers(self) -> np.ndarray:
        """The material's numbers (10,), in the order of ``kernels/soft/kinds.py``."""
        values = np.zeros(kinds.PLACES)
        values[kinds.SHEAR], values[kinds.LAME] = self.lame
        values[kinds.DENSITY], values[kinds.VISCOSITY] = self.density, self.viscosity
        return values


@dataclass(frozen=True, kw_only=True)
class Elastic(Material):
    """A solid with Young's modulus [Pa] and Poisson's ratio; in the plane, that of plane strain."""

    young: float
    poisson: float = 0.3

    def __post_init__(self):
        super().__post_init__()
        check_number(self.young, "young")
        if not -1.0 < check_number(self.poisson, "poisson", above=None) < 0.5:
            raise PullbackError(f"poisson must lie between -1 and 0.5, not {self.poisson!r}")

    @property
    def lame(self) -> tuple[float, float]:
        shear = self.young / (2 * (1 + self.poisson))
        return shear, 2 * shear * self.poisson / (1 - 2 * self.poisson)


@dataclass(frozen=True, kw_only=True)
class NeoHookean(Elastic):
    """tau = mu (F F^T - I) + lambda log J I. Its energy is infinite at zero volume."""

    kind: ClassVar[int] = int(kinds.NEO_HOOKEAN)


@dataclass(frozen=True, kw_only=True)
class Corotated(Elastic):
    """tau = 2 mu (F - R) F^T + lambda J (J - 1) I: linear in stretch."""

    kind: ClassVar[int] = int(kinds.COROTATED)


@dataclass(frozen=True, kw_only=True)
class Water(Material):
    """A fluid with pressure bulk/exponent (J^-exponent - 1), where J is the volume relative to rest (Tait's law)."""

    kind: ClassVar[int] = int(kinds.WATER)

    bulk: float
    exponent: float = 7.0

    def __post_init__(self):
        super().__post_init__()
        check_number(self.bulk, "bulk")
        check_number(self.exponent, "exponent")

    @property
    def lame(self) -> tuple[float, float]:
        return 0.0, self.bulk

    @property
    def numbers(self) -> np.ndarray:
        values = super().numbers
        values[kinds.EXPONENT] = self.exponent
        return values


@dataclass(frozen=True, kw_only=True)
class Hencky(Elastic):
    """tau = U (2 mu e + lambda tr e) U^T with e the logarithm of the stretch."""

    kind: ClassVar[int] = int(kinds.HENCKY)
    yields: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class VonMises(Hencky):
    """Metal, clay or dough: Hencky's elasticity, with volume-preserving plastic flow where the deviator of tau reaches
    ``yield_stress`` [Pa]."""

    kind: ClassVar[int] = int(kinds.VON_MISES)

    yield_stress: float

    def __post_init__(self):
        super().__post_init__()
        check_number(self.yield_stress, "yield_stress")

    @property
    def numbers(self) -> np.ndarray:
        values = super().numbers
        values[kinds.YIELD] = self.yield_stress
        return values


@dataclass(frozen=True, kw_only=True)
class Sand(Hencky):
    """The Drucker-Prager law: shear strength proportional to pressure, by a friction angle [rad], without tension."""

    kind: ClassVar[int] = int(kinds.SAND)

    friction_angle: float = math.radians(30.0)

    def __post_init__(self):
        super().__post_init__()
        if not 0 < check_number(self.friction_angle, "friction_angle") < math.pi / 2:
            raise PullbackError(f"friction_angle must be between 0 and pi/2 [rad], not {self.friction_angle!r}")

    @property
    def numbers(self) -> np.ndarray:
        values = super().numbers
        values[kinds.ANGLE] = self.friction_angle
        return values


@dataclass(frozen=True, kw_only=True)
class Snow(Elastic):
    """Corotated elasticity that yields beyond small strains, and hardens when it is compressed.

    compression:  strain above which it is crushed [1]
    stretch:      strain above which it tears [1]
    hardening:    stiffness grows as exp(hardening (1 - Jp)) [1]
    """

    kind: ClassVar[int] = int(kinds.SNOW)
    yields: ClassVar[bool] = True

    compression: float = 2.5e-2
    stretch: float = 7.5e-3
    hardening: float = 10.0

    def __post_init__(self):
        super().__post_init__()
        for name in ("compression", "stretch", "hardening"):
            check_number(getattr(self, name), name)
        if not self.compression < 1:
            raise PullbackError(f"compression must be below 1, not {self.compression!r}")

    @property
    def numbers(self) -> np.ndarray:
        values = super().numbers
        values[[kinds.COMPRESSION, kinds.STRETCH, kinds.HARDENING]] = self.compression, self.stretch, self.hardening
        return values


def sound_speed(shear: np.ndarray, lame: np.ndarray, density: np.ndarray) -> np.ndarray:
    """The speed of pressure waves in a material at rest [m/s]."""
    return np.sqrt((lame + 2 * shear) / density)
