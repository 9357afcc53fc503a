"""Actuators that push at sites, as kernels read them, and the places of sites."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.params import Parameter, has_direction
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.loops import dofs_above
from pullback.spatial import quat_bar_of_tangent, unit


def sites_struct(model: Model, known: np.ndarray, flavour: Flavour, device: str):
    """The kernels' Sites; ``known`` are those whose places are parameters."""
    result = specialise(flavour, "rows").Sites()
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    actuators = np.flatnonzero(model.actuator_site >= 0)
    sites = model.actuator_site[actuators]
    bodies = model.sites.body[sites]
    chains = [dofs_above(model.mujoco, int(body)) for body in bodies]
    result.actuator, result.body = ints(actuators), ints(bodies)
    result.site = ints(np.searchsorted(known, sites))
    result.first = ints(np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]))
    result.dof = ints([d for chain in chains for d in chain])
    return result


def site_parameters(model: Model, of: np.ndarray) -> dict[str, Parameter]:
    """Where sites are that tendons pass through, and those that actuators push at; the latter are turned too."""
    table = {"site_pos": Parameter("m", ("site", "axis"), model.sites.pos, of=of)} if len(of) else {}
    if len(model.pushed_sites):
        turn = (unit, quat_bar_of_tangent)
        table["site_quat"] = Parameter("1", ("site", "entry"), model.sites.quat, has_direction, of=of, form=turn)
    return table
