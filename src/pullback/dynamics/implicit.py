"""Steps that are implicit in velocity-dependent forces on bodies, as the kernels' struct."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.dynamics.tree import lone_free_bodies
from pullback.kernels import Flavour, specialise
from pullback.model import Model


def implicit_struct(model: Model, flavour: Flavour, device: str):
    """The kernels' Implicit."""
    exact = np.full(model.nbody, model.integrator == "implicit")
    for first, end in lone_free_bodies(model):
        exact[first:end] = True
    result = specialise(flavour, "implicit_fields").Implicit()
    result.exact = wp.array(exact.astype(np.int32), dtype=wp.int32, device=device)
    return result
