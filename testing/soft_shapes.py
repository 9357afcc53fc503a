"""Particles among shapes of every kind, which move in all ways: for checks of gradients."""

import math

import numpy as np
from crowds import KINDS, crowd

from pullback import soft
from pullback.core.bars import Bars
from pullback.core.wrapper import Wrapper

CENTRE = np.array([0.45, 0.45, 0.33])  # of the particles of a crowd
SHAPES = {
    "plane": lambda **o: soft.Shape.plane(CENTRE - 0.02, (0.2, 0.1, 1.0), **o),
    "sphere": lambda **o: soft.Shape.sphere(CENTRE + 0.03, 0.09, **o),
    "capsule": lambda **o: soft.Shape.capsule(CENTRE - 0.04, CENTRE + (0.1, 0.0, 0.04), 0.05, **o),
    "box": lambda **o: soft.Shape.box(CENTRE - 0.02, (0.1, 0.05, 0.07), quat=(1.0, 0.2, -0.3, 0.1), **o),
    "cylinder": lambda **o: soft.Shape.cylinder(CENTRE - 0.06, CENTRE + 0.03, 0.08, **o),
}
HOLDS = {"slip": {}, "Coulomb": {"friction": 0.4}, "sticky": {"friction": math.inf}, "clamped": {"clamped": True}}


def among(kinds, hold: str = "Coulomb", wall: str = "free", **options) -> soft.Particles:
    """Some particles, and shapes that overlap."""
    return crowd(3, KINDS["neo-Hookean"], wall, shapes=[SHAPES[kind](**HOLDS[hold]) for kind in kinds], **options)


def moving(system: soft.Particles, seed: int = 0) -> dict[str, np.ndarray]:
    """Poses that are off those at rest, with quaternions of any length, and velocities."""
    random = np.random.default_rng(seed)
    pose = np.repeat(system.shapes_at_rest["pose"][None], system.worlds, axis=0)
    pose += random.normal(size=pose.shape) * np.array([0.01] * 3 + [0.2] * 4)
    twist = random.normal(size=(*pose.shape[:2], 6)) + np.array([0.0] * 5 + [1.5])  # upwards: the crowd falls
    return {"pose": pose, "twist": twist}


class Driven(Wrapper):
    """Particles whose control also has the poses and twists of shapes, so that a check of gradients moves them."""

    def __init__(self, system: soft.Particles):
        super().__init__(system, {})
        self.own = system.nu
        self.nu, self.inputs = system.nu + 13 * len(system.shapes), {}

    def _settings(self):
        return {"system": self.system}

    def inside(self, run):
        raise NotImplementedError

    def control(self, control, inputs) -> np.ndarray:
        moved = np.concatenate([inputs["pose"], inputs["twist"]], axis=-1)
        return np.concatenate([control, moved.reshape(self.worlds, -1)], axis=-1)

    def _given(self, control):
        moved = control[:, self.own :].reshape(self.worlds, -1, 13)
        return control[:, : self.own], {"pose": moved[..., :7], "twist": moved[..., 7:]}

    def step(self, state, control, params=None):
        control, inputs = self._given(control)
        return self.system.step(state, control, self.hold_params(params).parts[""], inputs=inputs)

    def pullback_between(self, state, control, after, next_bar, params=None, *, inputs=None, wants_params=True):
        control, moved = self._given(control)
        bars = self.system.pullback(state, control, next_bar, self.hold_params(params).parts[""], inputs=moved)
        return Bars(bars.state, self.control(bars.control, bars.inputs), bars.params)
