"""The box that represents a body in a fluid: it has uniform density, and the body's mass and moments of inertia, as in
MuJoCo. Here it is a function of parameters, with its adjoint.

Its axes are the file's principal axes of the body, also when parameters change. If ``fluid_box`` differs from its value
in the file, the edges are MuJoCo's times the ratio of the two.
"""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from pullback.core.params import Derived
from pullback.model import Model
from pullback.spatial import unit_quat_matrix

MJMINVAL = mujoco.mjMINVAL
# The symmetric matrix of xx yy zz xy xz yz, as flat rows.
FULL = np.array([0, 3, 4, 3, 1, 5, 4, 5, 2])


class FluidBox:
    """The kernels' field of edge lengths (1 or worlds, nbody, 3) [m]."""

    def __init__(self, model: Model):
        axes = unit_quat_matrix(model.fluid_quat)  # in columns
        # moments = turn · (xx yy zz xy xz yz)
        outer = np.einsum("bik,bjk->bkij", axes, axes).reshape(model.nbody, 3, 9)
        self._turn = np.zeros((model.nbody, 3, 6))
        np.add.at(self._turn, (slice(None), slice(None), FULL), outer)
        self._in_file = _edges(self._turn, model.body_mass[None], model.body_inertia[None])[0]

    def field(self) -> Derived:
        return Derived(("fluid_box", "mass", "inertia"), self._value, self._adjoint)

    def _value(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return values["fluid_box"] * _ratio(_edges(self._turn, values["mass"], values["inertia"])[0], self._in_file)

    def _adjoint(self, values: Mapping[str, np.ndarray], bar: np.ndarray) -> dict[str, np.ndarray]:
        edges, squares, mass, free = _edges(self._turn, values["mass"], values["inertia"])
        bar = bar[..., :3]
        square_bar = bar * _ratio(values["fluid_box"] / (2 * np.where(edges > 0, edges, 1.0)), self._in_file)
        # square = 6 (Σ moments - 2 moment) / mass, where it is above its lower bound
        mass_bar = -np.sum(square_bar * squares, axis=-1) / mass
        square_bar = free * 6 * square_bar / mass[..., None]
        moments_bar = square_bar.sum(axis=-1, keepdims=True) - 2 * square_bar
        inertia_bar = np.einsum("wbk,bke->wbe", moments_bar, self._turn)
        return {"fluid_box": bar * _ratio(edges, self._in_file), "mass": mass_bar, "inertia": inertia_bar}


def _edges(turn: np.ndarray, mass: np.ndarray, inertia: np.ndarray) -> tuple[np.ndarray, ...]:
    """Edge lengths (worlds, nbody, 3), their squares, the masses, and 1 where a square is above its lower bound."""
    moments = np.sum(turn * inertia[:, :, None], axis=-1)  # einsum's last bits depend on the number of worlds
    sums = moments.sum(axis=-1, keepdims=True) - 2 * moments
    has_mass = mass >= MJMINVAL
    mass = np.where(has_mass, mass, 1.0)
    squares = np.where(has_mass[..., None], 6 * np.maximum(MJMINVAL, sums) / mass[..., None], 0.0)
    return np.sqrt(squares), squares, mass, (sums > MJMINVAL).astype(float)


def _ratio(edges: np.ndarray, in_file: np.ndarray) -> np.ndarray:
    """Edges divided by those in the file; zero for bodies without mass."""
    return np.where(in_file > 0, edges / np.where(in_file > 0, in_file, 1.0), 0.0)
