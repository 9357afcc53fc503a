"""Joint accelerations in a state under all forces of a System, with their adjoint: MuJoCo's ``qacc``.

They are (v' - v) / h of a step without implicit damping, and their adjoint is that of this step. With contact models
that use impulses they are means over the step.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.params import FieldValues
from pullback.dynamics.articulated import Articulated


def explicit(system: Articulated, *, sweeps: bool = True) -> Articulated:
    """The same System with steps of a = M⁻¹ f, without implicit damping, stages or substeps. Cached in the System.

    sweeps: with MuJoCo's noslip sweeps, if the file asks for them
    """
    sweeps = sweeps or system._scene is None or not system._scene.noslip
    if sweeps not in system._explicit:
        model = replace(system.model, integrator="euler", implicit_damping=False)
        if not sweeps:
            model = replace(model, mujoco=copy.copy(model.mujoco))
            model.mujoco.opt.noslip_iterations = 0
        system._explicit[sweeps] = system._copied(model=model, refine=None)
    return system._explicit[sweeps]


class Instant:
    """Accelerations (times, worlds, nv) in states q, v, act under controls (times, worlds, ...).

    system: one with ``explicit`` steps; held: values of parameters
    """

    def __init__(self, system: Articulated, held: FieldValues, q, v, act, control):
        self.system = system
        self.held = self.system.hold_params(held)
        self.given = [np.ascontiguousarray(x, dtype=system.dtype) for x in (q, v, act, control)]
        self.states = [self._step(*row) for row in zip(*self.given, strict=True)]

    def _step(self, q, v, act, control) -> Any:
        """The states before and after a step."""
        state = self.system.state(q, v, act=act) if self.system.na else self.system.state(q, v)
        return self.system.steps(state, control[None], params=self.held)

    def value(self) -> np.ndarray:
        moved = [np.diff(to_numpy(states.v).astype(float), axis=0)[0] for states in self.states]
        return np.array(moved).reshape(self.given[1].shape) / self.system.dt

    def pullback(self, a_bar: np.ndarray, *, wants_params: bool) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """Cotangents of q, v, act and control, and of the parameters by name."""
        system, bars = self.system, [np.zeros(x.shape) for x in self.given]
        a_bar = a_bar.reshape(self.given[1].shape)
        params: dict[str, np.ndarray] = {}
        for t, (states, bar) in enumerate(zip(self.states, a_bar / system.dt, strict=True)):
            bar = bar.astype(system.dtype)
            after = system.state_type(*(x[1] for x in states))
            nothing = [np.zeros(x.shape, system.dtype) for x in after]
            after_bar = system.state_type(*nothing)._replace(v=bar)
            options = {"params": self.held, "wants_params": wants_params}
            backward = system.backward(self.given[3][t][None], after, after_bar, **options)
            backward.through(states, 0, 1)
            found = backward.finish(system.state_type(*(x[0] for x in states)))
            for into, x in zip(bars, found.state, strict=False):
                into[t] = to_numpy(x)
            bars[1][t] -= bar
            bars[3][t] = to_numpy(found.control)[0]
            for name, x in found.params.items():
                params[name] = params.get(name, 0.0) + x
        return bars, params
