"""Named problems, and the means to write one's own."""

from pullback.tasks import golf, grasp, hop, racecar, throw
from pullback.tasks.chain import solve
from pullback.tasks.task import Camera, Loss, Task
from pullback.tasks.tracking import Tracking
from pullback.tasks.variables import Controls, Parameters

# What makes each: a task is made when it is asked for.
TASKS = {"throw": throw.throw, "golf": golf.golf, "racecar": racecar.racecar, "hop": hop.hop, "grasp": grasp.grasp}

__all__ = ["TASKS", "Camera", "Controls", "Loss", "Parameters", "Task", "Tracking", "solve"]
