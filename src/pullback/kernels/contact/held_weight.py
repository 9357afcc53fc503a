"""Gravity compensation that counts as the force of actuators, where that is clamped or switched off, with the adjoint.

What holds up bodies is part of their weight (``tree/sweeps.py``). For a degree of freedom d here, let G be what it does
there, Σ S · F over the bodies that d carries, with F = -gravcomp · mass · gravity at their centres of mass. It is taken
out and, unless actuators are off, goes through the range of the joint with their force: clamp(actuation + G) - G.
"""

import warp as wp

from ..spatial.algebra import ang, lin, pack, velocity_at
from ..spatial.scalar import real, vec3
from ..tree.forces import in_range
from ..tree.structs import Params, Tree, Workspace, com_from_o
from .rows import Rows, push_body


@wp.func
def lift(p: Params, s: Workspace, i: int, world: int, slot: int):
    """What holds up body i, about o; and where it acts."""
    force = -(p.gravcomp[world, i] * p.mass[world, i]) * p.gravity[world, 0]
    arm = com_from_o(p, s, i, world, slot)
    return pack(wp.cross(arm, force), force), arm


@wp.func
def hold_weights(p: Params, s: Workspace, r: Rows, world: int, slot: int):
    """Takes G from tau, and adds it to the actuation."""
    for n in range(r.actuators.lift_dof.shape[0]):
        d = r.actuators.lift_dof[n]
        total = real(0.0)
        for k in range(r.actuators.lift_first[n], r.actuators.lift_first[n + 1]):
            W, _arm = lift(p, s, r.actuators.lift_body[k], world, slot)
            total += wp.dot(s.S[d, slot], W)
        s.tau[d, slot] = s.tau[d, slot] - total
        if r.actuators.lift_counts[n] == 1:
            s.actuation[d, slot] = s.actuation[d, slot] + total


@wp.func
def hold_weights_adjoint(
    m: Tree, p: Params, p_bar: Params, s: Workspace, r: Rows, world: int, slot: int, wants_params: int
):
    """Adds the cotangents of S, poses and parameters from tau_bar: none where the range lets all of it pass."""
    for n in range(r.actuators.lift_dof.shape[0]):
        d = r.actuators.lift_dof[n]
        passed = real(0.0)
        if r.actuators.lift_counts[n] == 1:
            passed = in_range(s.actuation[d, slot], m.dof_force_low[d], m.dof_force_high[d])
        bar = s.tau_bar[d, slot] * (passed - real(1.0))
        if bar != real(0.0):
            Y = bar * s.S[d, slot]
            for k in range(r.actuators.lift_first[n], r.actuators.lift_first[n + 1]):
                i = r.actuators.lift_body[k]
                W, arm = lift(p, s, i, world, slot)
                s.S_bar[d, slot] = s.S_bar[d, slot] + bar * W
                arm_bar = wp.cross(lin(W), ang(Y))
                push_body(s.W, i, arm, vec3(), arm_bar, real(1.0), slot)
                if wants_params == 1:
                    moved = velocity_at(Y, arm)
                    along = -wp.dot(moved, p.gravity[world, 0])
                    share = p.gravcomp[world, i]
                    mass = p.mass[world, i]
                    p_bar.gravcomp[world, i] = p_bar.gravcomp[world, i] + mass * along
                    p_bar.mass[world, i] = p_bar.mass[world, i] + share * along
                    p_bar.gravity[world, 0] = p_bar.gravity[world, 0] - (share * mass) * moved
                    p_bar.com[world, i] = p_bar.com[world, i] + wp.transpose(s.R[i, slot]) * arm_bar
