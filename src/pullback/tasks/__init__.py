"""Named problems, and the means to write one's own."""

from pullback.tasks import (
    ant_push,
    billiards,
    cube_toss,
    double_pendulum,
    drape,
    dwell,
    footsteps,
    gather,
    golf,
    grasp,
    grip,
    heat_residual,
    heat_treatment,
    hop,
    identify,
    identify_beam,
    identify_material,
    laser_history,
    locomanip,
    manipulations,
    melt_pool,
    motor_lag,
    mould,
    multicontact,
    open_door,
    placement,
    push,
    racecar,
    sand_slope,
    soft_throw,
    soft_walker,
    sort,
    swimmer,
    t_shirt,
    throw,
)
from pullback.tasks.autodiff import JaxLoss, TorchLoss
from pullback.tasks.chain import solve
from pullback.tasks.loss import Loss, Term
from pullback.tasks.pareto import Front, pareto
from pullback.tasks.planning import Planning
from pullback.tasks.residuals import Recording, Residuals
from pullback.tasks.schedules import Network, Rhythm, Schedule, Waves
from pullback.tasks.shapes import ShapePath
from pullback.tasks.task import Camera, Curves, Task
from pullback.tasks.terms import Effort, Orientation, Position, Smoothness, StateGoal
from pullback.tasks.timing import Timing, always_on, pauses
from pullback.tasks.tracking import Tracking
from pullback.tasks.variables import Controls, Factors, InitialState, Launch, Parameters

ROBOTS = (throw.throw, golf.golf, racecar.racecar, hop.hop, grasp.grasp, identify.identify, identify_beam.identify_beam)
DISTANT = (billiards.billiards, push.push, gather.gather, sort.sort, ant_push.ant_push)
HEAT = (laser_history.laser_history, heat_treatment.heat_treatment, identify_material.identify_material)
LEARNED = (
    double_pendulum.double_pendulum,
    swimmer.swimmer,
    motor_lag.motor_lag,
    cube_toss.cube_toss,
    heat_residual.heat_residual,
)
LASER = (melt_pool.melt_pool, melt_pool.melt_pool_timing, dwell.dwell)
REACH = (footsteps.footsteps, multicontact.multicontact, locomanip.locomanip, placement.placement)
SOFT = (
    soft_walker.soft_walker,
    soft_walker.soft_walker_3d,
    soft_throw.soft_throw,
    drape.drape,
    t_shirt.t_shirt,
    sand_slope.sand_slope,
    mould.mould,
    grip.grip,
    open_door.open_door,
)
HANDS = (
    manipulations.grasp_cube,
    manipulations.grasp_any,
    manipulations.push_cube,
    manipulations.reorient,
    manipulations.flip_y,
    manipulations.flip_z,
    manipulations.turn_wheel,
)
# What makes each, by name: a task is made when it is asked for.
MAKERS = (*ROBOTS, *DISTANT, *LEARNED, *HEAT, *LASER, *REACH, *SOFT, *HANDS)
TASKS = {make.__name__.replace("_", "-"): make for make in MAKERS}

__all__ = [
    "always_on",
    "TASKS",
    "pauses",
    "Position",
    "Task",
    "Planning",
    "Network",
    "solve",
    "StateGoal",
    "Orientation",
    "Controls",
    "Effort",
    "Camera",
    "Factors",
    "Launch",
    "InitialState",
    "Smoothness",
    "Residuals",
    "TorchLoss",
    "Curves",
    "Tracking",
    "pareto",
    "JaxLoss",
    "Front",
    "Rhythm",
    "Schedule",
    "ShapePath",
    "Parameters",
    "Recording",
    "Term",
    "Loss",
    "Timing",
    "Waves",
]
