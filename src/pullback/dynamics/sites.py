"""Actuators that push at sites, as kernels read them."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.params import Parameter, has_direction
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.loops import dofs_above
from pullback.spatial import quat_bar_of_tangent, unit


def sites_struct(model: Model, flavour: Flavour, device: str):
    """The kernels' Sites."""
    result = specialise(flavour, "rows").Sites()
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    actuators = np.flatnonzero(model.actuator_site >= 0)
    sites = model.actuator_site[actuators]
    bodies = model.sites.body[sites]
    chains = [dofs_above(model.mujoco, int(body)) for body in bodies]
    result.actuator, result.body = ints(actuators), ints(bodies)
    result.site = ints(np.searchsorted(model.pushed_sites, sites))
    result.first = ints(np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]))
    result.dof = ints([d for chain in chains for d in chain])
    return result


def site_parameters(model: Model) -> dict[str, Parameter]:
    """Where sites are that actuators push at."""
    of = model.pushed_sites
    if not len(of):
        return {}
    turn = (unit, quat_bar_of_tangent)
    return {
        "site_pos": Parameter("m", ("site", "axis"), model.sites.pos, of=of),
        "site_quat": Parameter("1", ("site", "entry"), model.sites.quat, has_direction, of=of, form=turn),
    }
