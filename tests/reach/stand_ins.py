"""Maps that are known exactly, for tests of the planners."""

import numpy as np

from pullback.reach import space


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
