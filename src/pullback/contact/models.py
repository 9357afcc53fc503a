"""The contact models: what to choose with ``Articulated(model, contact=...)``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pullback.contact.checks import mixed_solrefs, torsion_and_rolling, two_frictions
from pullback.contact.scene import Scene
from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.kernels import Flavour
from pullback.model.unsupported import Complaint

# Neighbours per two degrees of freedom of a chain, from which sweeps of ContactImpulse are faster by velocity. [1]
CROWD = 3


@dataclass(frozen=True, kw_only=True)
class Contact:
    """What all contact models share.

    max_contacts:  contacts that the workspace of a world holds; more at once are an error. None: as many as the shapes
                   of the model suggest.
    """

    max_contacts: int | None = None

    # Its module in ``kernels/contact``, or the path of one elsewhere.
    kernels: ClassVar[str]
    # Whether that acts by impulses on velocities, or else by forces.
    impulses: ClassVar[bool] = False
    # Rows per contact at most: 3, or 6 with torsional and rolling friction.
    most_rows: ClassVar[int] = 3
    # Sweeps of a solver that has any.
    sweeps: ClassVar[int] = 0

    def __post_init__(self):
        count = self.max_contacts
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise PullbackError(
                f"max_contacts must be a whole number of at least 1, or None, not {count!r}; contact=None switches "
                "contacts off"
            )

    def flavour(self, precision: str, scene: Scene) -> Flavour:
        """The kernels for the contacts of a scene."""
        return Flavour(precision, self.kernels, self.impulses, scene.rows, not scene.is_round)

    def complaints(self, scene: Scene) -> Iterator[Complaint]:
        """What it does not simulate of a scene."""
        yield from torsion_and_rolling(self, scene)
        yield from two_frictions(self, scene)

    def margins(self, margins: np.ndarray) -> np.ndarray:
        """Distances below which the pairs of shapes touch, from the margins that a file gives them [m]."""
        return margins

    def workspace(self, scene: Scene, contacts: int, nv: int) -> dict[str, tuple[int, ...]]:
        """How long the arrays of ``kernels/contact/rows.py`` are, by what they are along, for so many contacts."""
        sizes = {"world": 1, "contact": contacts, "chain": contacts * nv, "dof": nv, "entry": nv * nv}
        sizes |= {"joint row": scene.max_joint_rows, "joint chain": scene.max_joint_rows * scene.joint_width}
        return {name: (size,) for name, size in sizes.items()}


@dataclass(frozen=True, kw_only=True)
class ContactConvex(Contact):
    """MuJoCo's soft convex contact: pyramidal or elliptic cones, condim 1, 3, 4 and 6, solref and solimp, joint limits
    and friction loss, all as the file says.

    The accelerations are the solution of a convex problem, found by Newton's method to rounding, and differentiated at
    the solution by one linear solve. A solution that does not balance the forces is an error.
    """

    kernels: ClassVar[str] = "convex"
    most_rows: ClassVar[int] = 6

    def complaints(self, scene: Scene) -> Iterator[Complaint]:
        return mixed_solrefs(scene)


@dataclass(frozen=True, kw_only=True)
class ContactCompliant(Contact):
    """A smooth spring with dissipation along the normal, and Coulomb friction that is regularised at low speed.

    Depth beyond the surface is resisted by stiffness · depth · (1 - dissipation · speed of parting), at least zero;
    sliding by friction · normal force · speed / sqrt(speed² + slip_speed²). Joint limits are springs of the same kind.
    All of it has two continuous derivatives. Forces are taken at the end of the step to first order, which keeps stiff
    surfaces stable, and may hold a body back in the one step in which it parts. What is given here is where
    ``system.params`` starts, under the same names.

    contact_stiffness:   [N/m] of every surface; two in contact act in series. None: the weight of everything that
                         moves, on a single contact, sinks in by a millimetre.
    contact_dissipation: [s/m]
    smoothing:           [m] depth over which the force sets in. Softer gradients at touch-down, but forces that begin
                         this far before surfaces touch
    slip_speed:          [m/s] at which friction has 71 % of its full strength; slower than about a tenth of it a body
                         on a slope creeps
    limit_stiffness:     [N·m/rad or N/m] of joint limits. None: the largest moment of the weight at its centre of mass,
                         a metre away, turns them by a hundredth
    limit_dissipation:   [s/rad or s/m]
    limit_smoothing:     [rad or m]
    joint_slip_speed:    [rad/s or m/s] the same for friction loss
    """

    kernels: ClassVar[str] = "compliant"

    contact_stiffness: float | None = None
    contact_dissipation: float = 1.0
    smoothing: float = 1e-4
    slip_speed: float = 1e-2
    limit_stiffness: float | None = None
    limit_dissipation: float = 1.0
    limit_smoothing: float = 1e-3
    joint_slip_speed: float = 1e-2

    def __post_init__(self):
        super().__post_init__()
        for name in ("smoothing", "slip_speed", "limit_smoothing", "joint_slip_speed"):
            _require(self, name, lambda x: x > 0, "positive")
        for name in ("contact_stiffness", "limit_stiffness"):
            if getattr(self, name) is not None:
                _require(self, name, lambda x: x > 0, "positive, or None")
        for name in ("contact_dissipation", "limit_dissipation"):
            _require(self, name, lambda x: x >= 0, "at least zero")


@dataclass(frozen=True, kw_only=True)
class ContactImpulse(Contact):
    """Impulses that keep bodies apart and friction that stops sliding, as a complementarity problem of velocities
    (Qiao et al., Efficient Differentiable Simulation of Articulated Bodies, 2021).

    Projected Gauss-Seidel runs for a fixed number of sweeps, and the backward pass runs the same sweeps in reverse: the
    gradient is that of the computed step, converged or not. Joint limits and friction loss are rows of the same kind.
    Friction is bounded by the normal impulse in every sliding direction. Steps are semi-implicit Euler or implicitfast,
    not RK4. What is given here is where ``system.params`` starts, under the same names.

    sweeps:         of Gauss-Seidel; up and down in turn
    erp:            error reduction: share of the depth that is undone in a step [1]
    slop:           depth that is left alone, so that contacts at rest do not come and go [m]
    cfm:            softness: velocity that gives way to a unit of impulse [1/kg or 1/(kg·m²)]
    restitution:    of every shape; the larger of two counts [1]
    rest_speed:     bodies that meet slower than this do not bounce [m/s]
    """

    kernels: ClassVar[str] = "impulse_model"
    impulses: ClassVar[bool] = True

    sweeps: int = 50
    erp: float = 0.2
    slop: float = 1e-4
    cfm: float = 1e-6
    restitution: float = 0.0
    rest_speed: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        check_whole(self.sweeps, "sweeps")
        for name in ("erp", "restitution"):
            _require(self, name, lambda x: 0 <= x <= 1, "between 0 and 1")
        _require(self, "cfm", lambda x: x > 0, "positive: a row that nothing can move has no other softness")
        for name in ("slop", "rest_speed"):
            _require(self, name, lambda x: x >= 0, "at least zero")

    def complaints(self, scene: Scene) -> Iterator[Complaint]:
        yield from super().complaints(scene)
        if scene.model.integrator == "rk4":
            remedy = 'load it with integrator="euler" or "implicitfast"'
            yield "", "option", f"asks for RK4, but ContactImpulse changes velocities at once: {remedy}"

    def margins(self, margins: np.ndarray) -> np.ndarray:
        """Bodies that just touch are in contact here: they are rigid, and would sink by a step's velocity."""
        beyond = np.nextafter(margins, margins.dtype.type(np.inf))
        return np.maximum(beyond, np.finfo(margins.dtype).tiny)

    def workspace(self, scene: Scene, contacts: int, nv: int) -> dict[str, tuple[int, ...]]:
        blocks = contacts + scene.max_joint_rows
        # Where there are more neighbours, sweeps by velocity are faster. Neighbours are numbers of 16 bits.
        neighbours = min(blocks, CROWD * scene.longest_chain // 2) if blocks < 2**16 else 0
        lines = {"neighbour": neighbours, "side": 2, "sweep": self.sweeps, "line": self.sweeps + 1}
        return super().workspace(scene, blocks, nv) | {name: (size, blocks) for name, size in lines.items()}


# What a contact model may be called, in Python and on the command line: each as it is without arguments.
CONTACT_NAMES: dict[str, type[Contact]] = {
    "convex": ContactConvex,
    "impulse": ContactImpulse,
    "compliant": ContactCompliant,
}


def _require(model: Contact, name: str, holds, what: str) -> None:
    value = getattr(model, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value) or not holds(value):
        raise PullbackError(f"{name} of {type(model).__name__} must be a number that is {what}, not {value!r}")
