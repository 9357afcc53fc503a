"""The gradient of a loss as something that can be drawn on a robot: what a push on a body would change."""

from __future__ import annotations

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.core.system import State
from pullback.dynamics import Articulated, jacobian, kinematics, mass_matrix
from pullback.rollout import Run
from pullback.view.drawing import matrices

TOGETHER = 256  # steps that are looked at side by side: their Jacobians are a few megabytes


def body_gradients(run: Run, steps, **bars) -> np.ndarray:
    """How the loss changes with a push on a body: (n, nbody, 3) [loss / (N·s)], in the world's axes.

    run:    of an Articulated System; its first world counts
    steps:  (n,) at which the bodies are pushed
    bars:   q_bar, v_bar of the loss, as for ``run.pullback``

    A push is an impulse P [N·s] on the centre of mass of body b, right before step t. It changes the velocities by
    M⁻¹ Jᵀ P, where J is the Jacobian of the centre of mass, and the motion goes on from there under the same controls.
    With the cotangent v_bar of the state at t, all that follows included, the loss changes by P · (J M⁻¹ v_bar). That
    vector is the gradient. Unlike a derivative by the position of a body it is the same however the robot's coordinates
    are chosen, and it is zero in directions in which the joints do not let the body move.
    """
    check_kind(run, Run, "run", "pb.rollout(system, state, controls)")
    system = run.system
    if not isinstance(system, Articulated):
        raise PullbackError(f"only bodies of an Articulated System can be pushed, not those of {type(system).__name__}")
    v_bar = run.adjoints(steps, **bars).v[:, 0]
    q = to_numpy(run.q)[steps, 0]
    # Many steps are looked at side by side, as if each were a world.
    together = system.in_worlds(min(len(steps), TOGETHER))
    params = {
        name: value[0] if system.params.is_per_world(name, value) else value
        for name, value in run.params.values.items()
    }
    found = np.empty((len(steps), system.model.nbody, 3))
    for first in range(0, len(steps), TOGETHER):
        rows = np.minimum(np.arange(first, first + together.worlds), len(steps) - 1)
        moved = _speeds(together, q[rows], v_bar[rows], params)
        found[first : first + TOGETHER] = moved[: len(steps) - first]
    return found


def _speeds(system: Articulated, q: np.ndarray, v_bar: np.ndarray, params) -> np.ndarray:
    """Velocities (worlds, nbody, 3) of the centres of mass when the joints move by M⁻¹ v_bar."""
    inertia = to_numpy(mass_matrix(system, q, params=params).value)
    moved = np.linalg.solve(inertia, v_bar[..., None])
    speeds = (to_numpy(jacobian(system, q, params=params).value) @ moved[:, None])[..., 0]  # [angular; linear]
    poses = to_numpy(kinematics(system, q, params=params).value)
    arms = np.einsum("wnij,nj->wni", matrices(poses[..., 3:]), system.model.body_com)  # from a body's origin to its com
    return speeds[..., 3:] + np.cross(speeds[..., :3], arms)


def record_contacts(system: Articulated, states: State, controls, steps, params=None) -> dict[str, np.ndarray]:
    """Contacts of the first world at some steps, as the fields of a Drawing; nothing where there are no contacts.

    states (rows, worlds, ...), controls (rows - 1, worlds, nu). A contact belongs to the step that follows a state, so
    the last state shows those of the step before it.
    """
    if getattr(system, "contact", None) is None or not len(controls):
        return {}
    moves = system.model.mujoco.body_weldid[system.model.geoms.body] != 0
    frames, pos, force = [], [np.zeros((0, 3))], [np.zeros((0, 3))]
    for frame, step in enumerate(steps):
        step = min(int(step), len(controls) - 1)
        points = system.contacts(State(states.q[step], states.v[step]), controls[step], params=params)[0]
        # The force is on the second geom; what moves is what one wants to see pushed.
        sign = np.where(moves[points.geom_ids[:, 1]], 1.0, -1.0)
        frames += [frame] * len(points)
        pos.append(points.pos)
        force.append(sign[:, None] * points.force)
    return {
        "contact_frame": np.array(frames, dtype=np.int32),
        "contact_pos": np.concatenate(pos),
        "contact_force": np.concatenate(force),
    }
