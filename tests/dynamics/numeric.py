"""Gradients by central differences, every entry of every input at once: each perturbed copy is a world of its own.

A `Problem` is a rollout with a random pairing: the scalar Σ q_bar[t]·q[t] + v_bar[t]·v[t] as a function of the start,
the controls and every parameter. Its inputs are a flat dict of arrays: "q", "v", "controls" and the parameters' names.
"""

from __future__ import annotations

import numpy as np
from trees import random_states

import pullback as pb

STATE = ("q", "v", "controls")


def interior(system: pb.Articulated, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Parameters near those of the file, none of them at a bound, and what only has a direction of any length."""
    values = {name: np.array(value) for name, value in system.params.items()}
    for name, value in values.items():
        if name in ("mass", "armature", "stiffness", "damping", "fluid_density", "fluid_viscosity", "fluid_box"):
            value += rng.uniform(0.02, 0.1, size=value.shape)
        elif name == "inertia":
            value[:, :3] += rng.uniform(0.02, 0.05, size=(len(value), 1))
        elif name in ("body_quat", "joint_axis"):
            value *= rng.uniform(0.5, 2.0, size=(len(value), 1))
        else:
            value += 0.05 * rng.normal(size=value.shape)
    return values


class Problem:
    def __init__(self, xml: str, seed: int, *, steps: int, every: bool = True, force: float = 1.0):
        rng = np.random.default_rng(seed)
        self.model = pb.load(xml)
        self.system = pb.Articulated(self.model, contact=None)
        self.steps = steps
        m = self.model.mujoco
        q, v = random_states(m, rng, 1, unit=False)
        controls = force * rng.normal(size=(steps, m.nu))
        self.inputs = {"q": q[0], "v": v[0], "controls": controls, **interior(self.system, rng)}
        self.q_bar, self.v_bar = rng.normal(size=(steps + 1, m.nq)), rng.normal(size=(steps + 1, m.nv))
        rows = slice(0, 1) if every else slice(0, steps)
        self.q_bar[rows] = self.v_bar[rows] = 0  # the start's own share is a test of its own
        self.every = every

    def run(self, inputs: dict[str, np.ndarray], **options) -> pb.Run:
        """A rollout of one world from inputs as they are."""
        params = {name: value for name, value in inputs.items() if name not in STATE}
        state = self.system.state(inputs["q"], inputs["v"])
        return pb.rollout(self.system, state, inputs["controls"][:, None], params=params, **options)

    def gradient(self, **options) -> dict[str, np.ndarray]:
        """By the pullback."""
        q_bar, v_bar = self.q_bar[:, None], self.v_bar[:, None]
        if not self.every:
            q_bar, v_bar = q_bar[-1], v_bar[-1]
        bars = self.run(self.inputs).pullback(q_bar=q_bar, v_bar=v_bar, **options)
        return {"q": bars.state.q[0], "v": bars.state.v[0], "controls": bars.controls[:, 0], **bars.params}

    def values(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        """The pairing in each world; every input has a leading axis for worlds."""
        worlds = len(batch["q"])
        system = pb.Articulated(self.model, contact=None, worlds=worlds)
        params = {name: value for name, value in batch.items() if name not in STATE}
        controls = np.ascontiguousarray(np.moveaxis(batch["controls"], 1, 0))
        run = pb.rollout(system, system.state(batch["q"], batch["v"]), controls, params=params)
        return np.einsum("twi,ti->w", run.q, self.q_bar) + np.einsum("twi,ti->w", run.v, self.v_bar)

    def differences(self, h: float, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
        """By central differences: every entry of the inputs is moved by h times its size (1 if that is more)."""
        names = tuple(self.inputs) if names is None else names
        sizes = {name: self.inputs[name].size for name in names}
        count = sum(sizes.values())
        batch = {name: np.repeat(value[None], 2 * count, axis=0) for name, value in self.inputs.items()}
        moved, first = {}, 0
        for name, size in sizes.items():
            flat = batch[name].reshape(2 * count, -1)
            moved[name] = h * np.maximum(1.0, np.abs(self.inputs[name].reshape(-1)))
            rows, columns = np.arange(first, first + size), np.arange(size)
            flat[rows, columns] += moved[name]
            flat[count + rows, columns] -= moved[name]
            first += size
        values = self.values(batch)
        result, first = {}, 0
        for name, size in sizes.items():
            rows = slice(first, first + size)
            difference = values[:count][rows] - values[count:][rows]
            result[name] = (difference / (2 * moved[name])).reshape(self.inputs[name].shape)
            first += size
        return result


def errors(exact: dict[str, np.ndarray], numeric: dict[str, np.ndarray]) -> dict[str, float]:
    """Of each input's gradient: the largest difference against its largest entry.

    One that is nothing against the others is compared against a hundred-thousandth of theirs: below that is noise.
    """
    floor = 1e-5 * max(np.abs(x).max(initial=0.0) for x in numeric.values())
    return {
        name: np.abs(exact[name] - x).max(initial=0.0) / max(np.abs(x).max(initial=0.0), floor)
        for name, x in numeric.items()
    }


def best_errors(problem: Problem, exact: dict[str, np.ndarray], steps=(1e-4, 1e-5, 1e-6)) -> dict[str, float]:
    """The smallest error of each gradient over the step sizes."""
    every = [errors(exact, problem.differences(h)) for h in steps]
    return {name: min(found[name] for found in every) for name in every[0]}
