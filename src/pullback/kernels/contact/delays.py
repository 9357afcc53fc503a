"""Controls that reach their actuator late, with the adjoint.

A state has the controls of the last steps, the newest first. What an actuator is given is a sum of them, with weights
that depend on its delay alone: steps are evenly spaced in time, and MuJoCo's interpolation between two of them is
linear in what it interpolates. After a step each sample is what the one before it was, and the newest is the control
itself.
"""

import warp as wp

from ..spatial.scalar import real
from ..tree.forces import in_range
from ..tree.structs import Tree, Workspace
from .rows import Rows


@wp.func
def late_control(r: Rows, n: int, slot: int):
    """Before its range."""
    total = real(0.0)
    for i in range(r.delays.first[n], r.delays.end[n]):
        total += r.delays.weight[r.node[0, slot], i] * r.act[i, slot]
    return total


@wp.func
def take_late_controls(m: Tree, s: Workspace, r: Rows, controls: wp.array3d(dtype=real), t: int, world: int, slot: int):
    """Drives of actuators with a delay, and by how much each sample changes in the step."""
    for n in range(r.delays.actuator.shape[0]):
        k = r.delays.actuator[n]
        s.drive[k, slot] = wp.clamp(late_control(r, n, slot), m.control_low[k], m.control_high[k])
        after = controls[t, world, k]
        for i in range(r.delays.first[n], r.delays.end[n]):
            r.pull[i, slot] = after - r.act[i, slot]
            after = r.act[i, slot]


@wp.func
def take_late_controls_adjoint(
    m: Tree, s: Workspace, r: Rows, controls_bar: wp.array3d(dtype=real), t: int, world: int, slot: int
):
    """From the cotangents of drives and pulls to those of samples and controls; no drive has one left."""
    for n in range(r.delays.actuator.shape[0]):
        k = r.delays.actuator[n]
        bar = s.drive_bar[k, slot] * in_range(late_control(r, n, slot), m.control_low[k], m.control_high[k])
        s.drive_bar[k, slot] = real(0.0)
        first = r.delays.first[n]
        controls_bar[t, world, k] = controls_bar[t, world, k] + r.pull_bar[first, slot]
        for i in range(first, r.delays.end[n]):
            own = bar * r.delays.weight[r.node[0, slot], i] - r.pull_bar[i, slot]
            if i + 1 < r.delays.end[n]:
                own += r.pull_bar[i + 1, slot]
            r.act_bar[i, slot] = r.act_bar[i, slot] + own
