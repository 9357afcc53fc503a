"""Drawings of runs of robots: bodies, contact forces, and gradients of a loss with respect to pushes on bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.checks import check_kind
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.trees import row, tree_map
from pullback.drawing import Drawing, draw
from pullback.drawing.drawing import frame_rows
from pullback.drawing.robot import MAX_POSE_BYTES, world_bytes
from pullback.dynamics.algorithms import jacobian, kinematics, mass_matrix
from pullback.dynamics.articulated import Articulated
from pullback.spatial import unit_quat_matrix

TOGETHER = 256  # steps that are evaluated in one batch: their Jacobians take a few megabytes
# More copies of a robot on top of each other are unreadable. [worlds]
DRAWN_WORLDS = 16


def draw_robots(run, *, ghost=None, bars: Mapping | None = None) -> Drawing:
    """The drawing of a run of an Articulated System: its first worlds, and the contacts of the first one.

    ghost:  coordinates to compare with, as for :func:`pullback.view.draw`
    bars:   q_bar, v_bar of a loss, by name, whose gradients are drawn too
    """
    if run.checkpoint_every != 1:
        raise PullbackError("a run that is drawn needs all its states: make it with checkpoint_every=1")
    if bars is not None:
        check_kind(bars, Mapping, "bars", '{"q_bar": q_bar}')
    model, dt = run.system.model, run.hold * run.system.model.timestep
    rows = frame_rows(run.steps + 1, dt)
    worlds = min(DRAWN_WORLDS, max(1, MAX_POSE_BYTES // world_bytes(model, rows)))
    drawing = draw(model, to_numpy(run.q)[:, :worlds], dt=dt, ghost=ghost)
    found = record_contacts(run, rows)
    if bars:
        try:
            found["body_gradients"] = body_gradients(run, rows, **{str(name): bar for name, bar in bars.items()})
        except GradientOverflow:  # the motion can be shown all the same
            pass
    return replace(drawing, **found)


def record_contacts(run, steps) -> dict[str, np.ndarray]:
    """The contacts of the first world at some steps, as the fields of a Drawing; empty without a contact model.

    A contact belongs to the step that follows a state, so the last state shows those of the step before it.
    """
    if run.system.contact is None or not run.steps:
        return {}
    system, params = _in_worlds(run, 1)
    moves = system.model.mujoco.body_weldid[system.model.geoms.body] != 0
    states, controls = tree_map(lambda x: to_numpy(x)[:, :1], run.states), to_numpy(run.controls)[:, :1]
    inputs = {name: to_numpy(x)[:, :1] for name, x in run.inputs.items()}
    frames, pos, force = [], [np.zeros((0, 3))], [np.zeros((0, 3))]
    for frame, step in enumerate(np.minimum(steps, run.steps - 1)):
        acting = {name: x[step] for name, x in inputs.items()} or None
        points = system.contacts(row(states, step), controls[step], params, inputs=acting)[0]
        # The force is that on the second geom; where only the first one can move, show the force on that.
        sign = np.where(moves[points.geom_ids[:, 1]], 1.0, -1.0)
        frames += [frame] * len(points)
        pos.append(points.pos)
        force.append(sign[:, None] * points.force)
    return {
        "contact_frame": np.array(frames, dtype=np.int32),
        "contact_pos": np.concatenate(pos),
        "contact_force": np.concatenate(force),
    }


def body_gradients(run, steps, **bars) -> np.ndarray:
    """Gradients (n, nbody, 3) of a loss with respect to pushes on bodies [loss / (N·s)], in world axes.

    run:    of an Articulated System; its first world counts
    steps:  (n,) at which the bodies are pushed
    bars:   q_bar, v_bar of the loss, as for ``run.pullback``

    A push is an impulse P [N·s] on the centre of mass of body b, right before step t. It changes the velocities by
    M⁻¹ Jᵀ P, where J is the Jacobian of the centre of mass, and the motion goes on from there under the same controls.
    With the cotangent v_bar of the state at t, all that follows included, the loss changes by P · (J M⁻¹ v_bar). That
    vector is the gradient. Unlike a derivative with respect to a body's position it does not depend on the choice of
    coordinates, and it is zero in directions in which the joints do not let the body move.
    """
    check_kind(getattr(run, "system", None), Articulated, "the System of the run")
    v_bar = run.adjoints(steps, **bars).v[:, 0]
    q = to_numpy(run.q)[steps, 0]
    # Many steps are evaluated in one batch, one world per step.
    together, params = _in_worlds(run, min(len(steps), TOGETHER))
    found = np.empty((len(steps), together.model.nbody, 3))
    for first in range(0, len(steps), TOGETHER):
        rows = np.minimum(np.arange(first, first + together.worlds), len(steps) - 1)
        moved = _speeds(together, q[rows], v_bar[rows], params)
        found[first : first + TOGETHER] = moved[: len(steps) - first]
    return found


def _in_worlds(run, worlds: int) -> tuple[Articulated, dict]:
    """A System with so many worlds, and the parameters of a run's first world."""
    own = run.system.params
    params = {name: x[0] if own.is_per_world(name, x) else x for name, x in run.params.values.items()}
    return run.system if run.system.worlds == worlds else run.system.in_worlds(worlds), params


def _speeds(system: Articulated, q: np.ndarray, v_bar: np.ndarray, params) -> np.ndarray:
    """Velocities (worlds, nbody, 3) of the centres of mass when the joints move by M⁻¹ v_bar."""
    inertia = to_numpy(mass_matrix(system, q, params=params).value)
    moved = np.linalg.solve(inertia, v_bar[..., None])
    speeds = (to_numpy(jacobian(system, q, params=params).value) @ moved[:, None])[..., 0]  # [angular; linear]
    poses = to_numpy(kinematics(system, q, params=params).value)
    arms = np.einsum("wnij,nj->wni", unit_quat_matrix(poses[..., 3:]), system.model.body_com)  # from origin to com
    return speeds[..., 3:] + np.cross(speeds[..., :3], arms)
