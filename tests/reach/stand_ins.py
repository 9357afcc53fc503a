"""Maps that are known exactly, and the derivatives of a problem, for tests of the planners."""

import numpy as np

from pullback.reach import space
from pullback.reach.sqp import FIXED, Variables


class Ellipsoid:
    """1 - |(pose - middle) / radii|²: positive inside."""

    def __init__(self, name, middle, radii):
        self.space, self.middle, self.radii = space(name), np.array(middle), np.array(radii)
        self.calls = 0

    def evaluate(self, poses):
        self.calls += 1
        apart = (poses - self.middle) / self.radii
        return 1 - np.sum(apart**2, axis=1), -2 * apart / self.radii


def foot_map() -> Ellipsoid:
    return Ellipsoid("SE2", (0.0, -0.25, 0.0), (0.4, 0.15, 0.5))


def hand_map() -> Ellipsoid:
    return Ellipsoid("R3", (0.3, 0.4, 0.9), (0.45, 0.4, 0.5))


def assert_linearisations_are_derivatives(problem, poses, spread=0.0):
    """Every entry of every row against central differences, at poses that are moved by random steps first."""
    variables = Variables(problem.spaces, {name: len(group) for name, group in poses.items()})
    poses = variables.moved(poses, np.random.default_rng(0).normal(scale=spread, size=variables.size))

    def blocks(step):
        here = problem.linearise(variables.moved(poses, step))
        return [*here.residuals, *(constraint.rows for constraint in here.constraints)]

    def values(step):
        return np.concatenate([block.values for block in blocks(step)])

    rows = []
    for block in blocks(np.zeros(variables.size)):
        for columns, entries in zip(block.columns, block.entries, strict=True):
            rows.append(np.zeros(variables.size))
            np.add.at(rows[-1], columns[columns != FIXED], entries[columns != FIXED])
    h = 1e-6
    expected = np.stack([(values(h * e) - values(-h * e)) / (2 * h) for e in np.eye(variables.size)], axis=1)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(rows, expected, atol=1e-6)
