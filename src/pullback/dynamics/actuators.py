"""Muscles, actuators between sites and other special actuators: the kernels' structs, and their parameters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS
from pullback.core.params import Parameter, positive
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.actuators import site_chains, wrapped_servos
from pullback.model.model import JOINT_DOFS
from pullback.model.unsupported import impossible_muscle

if TYPE_CHECKING:
    from pullback.dynamics.tendons import TendonLayout


def between_sites(model: Model) -> np.ndarray:
    """The actuators between two sites."""
    return np.flatnonzero(model.actuator_reference >= 0)


def entries_of(layout: TendonLayout, k: int, dofs: list[int]) -> list[int]:
    """The positions of dofs in the row of an actuator within the layout of tendons; -1 if it has no row."""
    if k not in layout.felt:
        return [-1] * len(dofs)
    row = len(layout.ids) + layout.felt.index(k)
    return [int(layout.first[row]) + layout.dofs[row].index(d) for d in dofs]


def actuators_struct(layout: TendonLayout, flavour: Flavour, device: str):
    """The kernels' Actuators."""
    model, module, real = layout.model, specialise(flavour, "rows"), PRECISIONS[flavour.precision]
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    result, own = module.Actuators(), model.muscles
    number, row = np.full((2, model.nu), -1)
    number[own.ids] = np.arange(len(own.ids))
    row[layout.felt] = len(layout.ids) + np.arange(len(layout.felt))
    result.wraps, result.row = ints(wrapped_servos(model)), ints(row)
    result.muscle, result.pulls, result.resists = ints(number), ints(own.pulls[own.ids]), ints(own.resists[own.ids])
    limits = np.column_stack([own.limits[own.ids], own.acc0[own.ids]]).astype(flavour.precision)
    result.limits = wp.array(limits, dtype=module.vec3, device=device)
    dofs, counts, carried = lifted_dofs(model)
    result.lift_dof, result.lift_counts = ints(dofs), ints(counts)
    result.lift_first = ints(np.concatenate([[0], np.cumsum([len(bodies) for bodies in carried])]))
    result.lift_body = ints([i for bodies in carried for i in bodies])
    pulled = model.actuator_tendon
    limited = np.append(np.isfinite(model.tendons.force_range).any(axis=1), False)
    result.held = ints(np.flatnonzero((pulled >= 0) & limited[pulled]))
    low, high = model.tendons.force_range[layout.ids].T.astype(flavour.precision)
    result.hold_low, result.hold_high = (wp.array(x, dtype=real, device=device) for x in (low, high))
    return result


def lifted_dofs(model: Model) -> tuple[list[int], list[int], list[list[int]]]:
    """The dofs of joints whose gravity compensation is treated specially.

    Returns the dofs; for each, 1 if the compensation counts as actuator force; and the bodies that each dof carries.
    """
    found: tuple[list[int], list[int], list[list[int]]] = ([], [], [])
    for j in np.flatnonzero(model.joint_lift):
        first, body = int(model.joint_v[j]), int(model.joint_body[j])
        carried = [body]
        carried += [i for i in range(body + 1, model.nbody) if body in _above(model, i)]
        for d in range(first, first + JOINT_DOFS[int(model.joint_type[j])]):
            for part, x in zip(found, (d, int(model.joint_lift[j] == 1), carried), strict=True):
                part.append(x)
    return found


def _above(model: Model, body: int) -> set[int]:
    """The ancestors of a body."""
    above = set()
    while body > 0:
        body = int(model.body_parent[body])
        above.add(body)
    return above


def site_pairs_struct(layout: TendonLayout, flavour: Flavour, device: str):
    """The kernels' SitePairs."""
    model, result = layout.model, specialise(flavour, "rows").SitePairs()
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    actuators = between_sites(model)
    sites = np.stack([model.actuator_site[actuators], model.actuator_reference[actuators]], axis=-1)
    cranks = model.actuator_crank[actuators] > 0
    result.actuator, result.crank = ints(actuators), ints(np.where(cranks, np.cumsum(cranks) - 1, -1))
    result.site, result.body = ints(np.searchsorted(layout.sites, sites)), ints(model.sites.body[sites])
    chains = [(int(k), chain) for k in actuators for chain in site_chains(model, int(k))]
    result.first = ints(np.concatenate([[0], np.cumsum([len(chain) for _, chain in chains])]))
    result.dof = ints([d for _, chain in chains for d in chain])
    result.entry = ints([e for k, chain in chains for e in entries_of(layout, k, chain)])
    return result


def crank_parameters(model: Model) -> dict[str, Parameter]:
    """The parameter of slider-cranks: the length of their rods."""
    cranks = np.flatnonzero(model.actuator_crank > 0)
    check = partial(_are_of, model.actuator_crank > 0)
    return {"crank": Parameter("m", ("actuator",), model.actuator_crank, check, of=cranks)} if len(cranks) else {}


def _are_of(used: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, str]:
    wrong, why = positive(length)
    return wrong & used, why


def muscle_parameters(model: Model) -> dict[str, Parameter]:
    """The parameters of muscles, for those that have a muscle's gain or bias."""
    own, ids = model.muscles, model.muscles.ids
    unit = "1, 1, N, N·m/s², 1, 1, 1/s, 1, 1"
    laws = {"muscle_gain": (own.gain, own.pulls), "muscle_bias": (own.bias, own.resists)}
    return {
        name: Parameter(unit, ("actuator", "entry"), law, partial(_are_of_muscles, used), of=ids)
        for name, (law, used) in laws.items()
        if used.any()
    }


def _are_of_muscles(used: np.ndarray, law: np.ndarray) -> tuple[np.ndarray, str]:
    wrong = [[impossible_muscle(row) for row in rows] for rows in law.reshape(-1, *law.shape[-2:])]
    what = "must have low < high, lmin < 1 < lmax, and scale and vmax positive"
    return np.array(wrong, bool).reshape(law.shape[:-1]) & used, what
