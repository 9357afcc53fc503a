"""Equality constraints that close loops, as the kernels' struct."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.contact import Scene
from pullback.core.arrays import PRECISIONS
from pullback.dynamics.weights import InverseWeights
from pullback.kernels import Flavour, specialise


def loops_struct(scene: Scene, flavour: Flavour, weights: InverseWeights, device: str):
    """The kernels' Loops."""
    m, loops = scene.model.mujoco, scene.loops
    result, real = specialise(flavour, "rows").Loops(), PRECISIONS[flavour.precision]
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    reals = lambda x: wp.array(np.asarray(x, dtype=flavour.precision), dtype=real, device=device)  # noqa: E731
    result.rows, result.body = ints(loops.rows), ints(loops.body)
    result.weight = ints(weights.loop)
    result.first = ints(np.concatenate([[0], np.cumsum([len(chain) for chain in loops.chains])]))
    result.dof = ints([d for chain in loops.chains for d, _, _ in chain])
    result.moves = reals([carries for chain in loops.chains for _, *carries in chain])
    result.first_law = len(scene.equalities)
    # In a chain on a single branch, each dof's parent is its successor; otherwise the row couples branches.
    branches = (m.dof_parentid[d] != e for x in loops.chains for (d, *_), (e, *_) in zip(x, x[1:], strict=False))
    result.coupled = int(any(branches))
    return result
