"""What actuators act on, and which of them are more than gain · drive + bias at one joint, tendon or site."""

from __future__ import annotations

import numpy as np

from pullback.model.integrators import is_implicit
from pullback.model.loops import dofs_above
from pullback.model.model import BALL, FREE, JOINT_DOFS, Model
from pullback.model.unsupported import feels_velocity, wrapped_servo


def file_actuator(model: Model, k: int) -> int:
    """The file's actuator that control k belongs to: the last one whose controls start at k or before."""
    m = model.mujoco
    return int(np.flatnonzero(m.actuator_ctrladr <= k)[-1])


def moved_by(model: Model, k: int) -> list[int]:
    """The degrees of freedom that an actuator on a joint or at sites acts on, in descending order."""
    site = model.actuator_site[k]
    if site < 0:
        joint = model.actuator_joint[k]
        first = int(model.joint_v[joint])
        return list(range(first, first + JOINT_DOFS[int(model.joint_type[joint])]))[::-1]
    return sorted({d for chain in site_chains(model, k) for d in chain}, reverse=True)


def site_chains(model: Model, k: int) -> list[list[int]]:
    """For each of the one or two sites of an actuator, the degrees of freedom that move it and not the other site."""
    sites = [s for s in (int(model.actuator_site[k]), int(model.actuator_reference[k])) if s >= 0]
    chains = [dofs_above(model.mujoco, int(model.sites.body[site])) for site in sites]
    common = set(chains[0]).intersection(*chains[1:]) if len(chains) > 1 else set()
    return [[d for d in chain if d not in common] for chain in chains]


def felt_actuators(model: Model) -> list[int]:
    """The actuators on sites, ball or free joints whose velocity feedback the integrator treats implicitly."""
    found: list[int] = []
    if not is_implicit(model):
        return found
    for k in range(model.nu):
        turns = model.actuator_site[k] >= 0 or (
            model.njoint > 0 and model.joint_type[model.actuator_joint[k]] in (BALL, FREE)
        )
        acts = model.actuator_tendon[k] < 0 and np.any(model.actuator_gear[k])
        if acts and turns and feels_velocity(model.mujoco, file_actuator(model, k)) and moved_by(model, k):
            found.append(k)
    return found


def wrapped_servos(model: Model) -> np.ndarray:
    """Which actuators are servos of rotations (nu,): 1 of a ball joint, 2 between sites, else 0."""
    wraps = np.zeros(model.nu, int)
    for k in np.flatnonzero(np.any(model.actuator_gear, axis=1) & np.any(model.actuator_gain, axis=1)):
        wraps[k] = wrapped_servo(model.mujoco, file_actuator(model, int(k)))
    return wraps


def has_more_actuators(model: Model) -> bool:
    """Whether some actuator is more than gain · drive + bias at a joint, a tendon or a site."""
    pulled = model.actuator_tendon[model.actuator_tendon >= 0]
    held = np.isfinite(model.tendons.force_range[pulled]).any()
    between = np.any(model.actuator_reference >= 0)
    lifted = np.any(model.joint_lift)
    return bool(len(model.muscles.ids) or len(model.motors.ids) or held or between or lifted) or bool(
        felt_actuators(model) or np.any(wrapped_servos(model))
    )
