"""Actuators at sites, as the kernels' struct, and the parameters of sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.params import Parameter, has_direction
from pullback.dynamics.actuators import entries_of
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.actuators import site_chains
from pullback.spatial import quat_bar_of_tangent, unit

if TYPE_CHECKING:
    from pullback.dynamics.tendons import TendonLayout


def sites_struct(layout: TendonLayout, flavour: Flavour, device: str):
    """The kernels' Sites."""
    result = specialise(flavour, "rows").Sites()
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    model = layout.model
    actuators = np.flatnonzero((model.actuator_site >= 0) & (model.actuator_reference < 0))
    sites = model.actuator_site[actuators]
    bodies = model.sites.body[sites]
    chains = [site_chains(model, int(k))[0] for k in actuators]
    result.actuator, result.body = ints(actuators), ints(bodies)
    result.site = ints(np.searchsorted(layout.sites, sites))
    result.first = ints(np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]))
    result.dof = ints([d for chain in chains for d in chain])
    of_all = zip(actuators.tolist(), chains, strict=True)
    result.entry = ints([e for k, chain in of_all for e in entries_of(layout, k, chain)])
    return result


def site_parameters(model: Model, of: np.ndarray) -> dict[str, Parameter]:
    """The parameters of sites: positions of those on tendons or with actuators; orientations if some have actuators."""
    table = {"site_pos": Parameter("m", ("site", "axis"), model.sites.pos, of=of)} if len(of) else {}
    if len(model.pushed_sites):
        turn = (unit, quat_bar_of_tangent)
        table["site_quat"] = Parameter("1", ("site", "entry"), model.sites.quat, has_direction, of=of, form=turn)
    return table
