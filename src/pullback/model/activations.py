"""Activations: the states of a file's actuators."""

from __future__ import annotations

import mujoco
import numpy as np

from pullback.model.model import Activations, Delays
from pullback.model.motors import STATES, states_of_motor
from pullback.model.unsupported import (
    GAIN_DCMOTOR,
    RK4,
    actuator_complaint,
    gives_no_force,
    has_activation,
    in_disabled_group,
    spell,
)

# The kind of a switched-off actuator's activation, which stays constant.
AT_REST = "at rest"
SAMPLE = "sample"  # the kind of a control of an earlier step
# Times within a step [timesteps] at which a stage of Runge-Kutta evaluates forces.
NODES = (0.0, 0.5, 1.0)


def read_activations(m: mujoco.MjModel, delays: Delays) -> Activations:
    """The activations of a file, as in MuJoCo, or none if no supported actuator is driven by one; then the samples of
    delayed controls."""
    kind, owner = [""] * m.na, np.full(m.na, -1, np.int32)
    early, limits, law = np.zeros(m.na, bool), np.tile((-np.inf, np.inf), (m.na, 1)), np.zeros((m.nu, 3))
    driven = False
    for i in range(m.nactuator):
        if not has_activation(m, i) or actuator_complaint(m, i):
            continue  # an unsupported actuator, which the user chose to ignore: its activation is constant
        u, first, count = m.actuator_ctrladr[i], int(m.actuator_actadr[i]), int(m.actuator_actnum[i])
        circuit = m.actuator_gaintype[i] == GAIN_DCMOTOR
        kinds = [STATES[n] for n in states_of_motor(m, i)] or [spell(mujoco.mjtDyn, m.actuator_dyntype[i])]
        driven |= not gives_no_force(m, i)
        for n, a in enumerate(range(first, first + count)):
            kind[a], owner[a] = AT_REST if in_disabled_group(m, i) else kinds[n], u
            early[a] = m.actuator_actearly[i] and n == count - 1
            if m.actuator_actlimited[i] and not circuit:
                limits[a] = m.actuator_actrange[i]
            elif circuit and kinds[n] == "integral" and m.actuator_dynprm[i, 8] > 0:
                limits[a] = np.array([-1, 1]) * m.actuator_dynprm[i, 8]
        if not circuit:
            law[u] = m.actuator_dynprm[i, :3]
    if not driven:
        kind, owner, early, limits = [], owner[:0], early[:0], limits[:0]
    if samples := int(np.sum(delays.count)):
        kind += [SAMPLE] * samples
        owner = np.append(owner, np.repeat(delays.ids, delays.count)).astype(np.int32)
        early = np.append(early, np.zeros(samples, bool))
        limits = np.append(limits, np.tile((-np.inf, np.inf), (samples, 1)), axis=0)
    arrays = (owner, early, limits, law)
    for array in arrays:
        array.setflags(write=False)
    return Activations(tuple(kind), *arrays)


def read_delays(m: mujoco.MjModel) -> Delays:
    ids, weights = [], []
    for i in range(m.nactuator):
        if m.actuator_delay[i] > 0 and not (actuator_complaint(m, i) or gives_no_force(m, i)):
            ids.append(int(m.actuator_ctrladr[i]))
            weights.append(_weights(m, i))
    counts = np.array([weight.shape[1] for weight in weights], int)
    weight = np.concatenate([np.zeros((len(NODES), 0)), *weights], axis=1)
    weight.setflags(write=False)
    return Delays(np.array(ids, int), counts, weight)


def _weights(m: mujoco.MjModel, i: int) -> np.ndarray:
    """Weights (nodes, samples) of the controls of the last steps, newest first, in the control that reaches actuator i.

    They come from MuJoCo's own interpolation of samples that are evenly spaced in time.
    """
    data, count, interpolation = mujoco.MjData(m), *(int(x) for x in m.actuator_history[i])
    times, found = np.arange(-count, 0) * m.opt.timestep, np.zeros((len(NODES), count))
    for k, sample in enumerate(np.eye(count)[::-1]):
        mujoco.mj_initCtrlHistory(m, data, i, times, sample)
        for node, share in enumerate(NODES):
            read = mujoco.mj_readCtrl(m, data, i, share * m.opt.timestep, np.zeros((1, 1)), interpolation)
            found[node, k] = read.item()
    used = NODES if m.opt.integrator == RK4 else NODES[:1]
    return found[:, : 1 + int(np.flatnonzero(np.any(found[: len(used)] != 0, axis=0))[-1])]
