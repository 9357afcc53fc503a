"""Named problems, and the means to write one's own."""

from pullback.tasks import (
    footsteps,
    golf,
    grasp,
    hop,
    identify,
    locomanip,
    multicontact,
    placement,
    racecar,
    throw,
)
from pullback.tasks.chain import solve
from pullback.tasks.planning import Planning
from pullback.tasks.residuals import Recording, Residuals
from pullback.tasks.task import Camera, Loss, Task
from pullback.tasks.tracking import Tracking
from pullback.tasks.variables import Controls, Factors, Parameters

# What makes each: a task is made when it is asked for.
TASKS = {
    "throw": throw.throw,
    "golf": golf.golf,
    "racecar": racecar.racecar,
    "hop": hop.hop,
    "grasp": grasp.grasp,
    "identify": identify.identify,
    "footsteps": footsteps.footsteps,
    "multicontact": multicontact.multicontact,
    "locomanip": locomanip.locomanip,
    "placement": placement.placement,
}

__all__ = [
    "TASKS",
    "Camera",
    "Controls",
    "Factors",
    "Loss",
    "Parameters",
    "Planning",
    "Recording",
    "Residuals",
    "Task",
    "Tracking",
    "solve",
]
