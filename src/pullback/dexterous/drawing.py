"""What a policy proposes, as a drawing: contacts and forces beside the motion that they explain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pullback.dexterous.objects import Objects
from pullback.dexterous.scene import Scene, States
from pullback.dexterous.task import Manipulation
from pullback.dexterous.trial import Trial, coordinates, measured
from pullback.drawing import Drawing, draw
from pullback.model import Model
from pullback.spatial import unit_quat_matrix


def draw_proposals(
    task: Manipulation, x: States, u: np.ndarray, *, sample: int = 0, things: Objects | None = None
) -> Drawing:
    """The motion of the policy's own model, as ``task.rollout`` gives it, with proposed contacts and forces.

    x, u:    states (frames + 1, samples, ...) and outputs (frames, samples, nu)
    sample:  which one
    things:  the batch's
    """
    one = States(*(part[:, sample] for part in x))
    drawing = draw(_model(task, things, sample), coordinates(task.scene, one), dt=task.scene.dt, title=task.name)
    return _with_contacts(drawing, task.scene, one, u[:, sample])


def draw_trial(task: Manipulation, trial: Trial, *, start: int = 0) -> Drawing:
    """A trial in a simulator, with the contacts that the policy proposed.

    start:  which one
    """
    q, scene = trial.q[:, start], task.scene
    drawing = draw(_model(task, trial.things, start), q, dt=trial.dt, title=task.name)
    x = measured(scene, q, np.zeros((len(q), scene.model.nv)), trial.at[start])
    return _with_contacts(drawing, scene, x, trial.u[:, start])


def _model(task: Manipulation, things: Objects | None, sample: int) -> Model:
    return task.scene.model if things is None else things.model(sample)


def _with_contacts(drawing: Drawing, scene: Scene, x: States, u: np.ndarray) -> Drawing:
    given, frames = scene.split(u), len(u)
    turn = unit_quat_matrix(x.quat[:frames])[:, None]
    at = x.at[:frames, None] + (turn @ given.p[..., None])[..., 0]
    force = (turn @ given.f[..., None])[..., 0]
    rows = np.repeat(np.arange(frames), scene.contacts)
    poses = drawing.poses.copy()
    poses[:, 0, -1, :3] = x.at  # where the hinge of an object is, the file does not know
    arrows = {"contact_frame": rows, "contact_pos": at.reshape(-1, 3), "contact_force": force.reshape(-1, 3)}
    return replace(drawing, poses=poses, **arrows)
