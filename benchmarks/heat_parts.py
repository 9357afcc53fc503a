"""Parts that the heat benchmarks simulate."""

from __future__ import annotations

import numpy as np

from pullback import thermal

STEPS = 16_673  # of 0.02 s, as in the seed's study


def seed_part(steps: int = STEPS, **options) -> tuple[thermal.Heat, np.ndarray]:
    """A square tower of 28 layers of 1 mm on a plate of 100 × 100 × 10 mm, 15,280 elements, and its controls.

    Walls are three elements of 1 mm wide; the laser goes around them at 5 mm/s. Inconel 718, 0.02 s a step.
    """
    fine = 1e-3 * np.arange(19)
    margin = 41e-3 * (np.arange(1, 8) / 7) ** 1.5  # coarser towards the edge
    planes = np.concatenate([-margin[::-1], fine, 18e-3 + margin])
    z = np.concatenate([np.linspace(-10e-3, 0, 11), 1e-3 * np.arange(1, 29)])
    filled = np.zeros((32, 32, 38), dtype=bool)
    filled[:, :, :10] = True
    filled[7:25, 7:25, 10:] = thermal.frame(18, 18, 3)[:, :, None]
    mesh = thermal.grid(planes, planes, z, filled)
    corners = 1e-3 * np.array([(1.5, 1.5), (16.5, 1.5), (16.5, 16.5), (1.5, 16.5)])
    layers = [thermal.contour(corners, 1e-3 * k, speed=5e-3) for k in range(1, 29)]
    path = thermal.stack(layers, travel=0.1)
    born = thermal.births(mesh, path, reach=2.2e-3)
    settings = dict(dt=0.02, ambient=300.0, convection=50.0, spot_radius=1e-3, power=250.0, dtype="float32")
    heat = thermal.Heat(mesh, thermal.inconel_718(), path, born=born, **(settings | options))
    return heat, heat.default_controls(steps)


def plain() -> thermal.Material:
    """Figures that do not depend on temperature, for closed forms."""
    return thermal.Material("plain", 8000.0, [300.0], [20.0], [500.0], 5000.0, 6000.0, 0.0, 1.0, 0.0)


def still() -> thermal.Toolpath:
    """A laser that is never on."""
    return thermal.Toolpath([0.0, 1e6], np.zeros((2, 3)), [0.0, 0.0])


def wall(small: bool = False, **options) -> thermal.Heat:
    """A wall of four layers on a plate, 3,112 elements; or a small one with the same in it."""
    if small:
        mesh = thermal.printed(np.ones((4, 1)), 1e-3, layers=2, layer=1e-3, base=2e-3, base_cells=2, margin=1)
        length, layers = 4e-3, 2
    else:
        mesh = thermal.printed(np.ones((19, 2)), 1e-3, layers=4, layer=1e-3, base=4e-3, base_cells=4, margin=9)
        length, layers = 19e-3, 4
    middle = (1.0 if not small else 0.5) * 1e-3
    lines = [
        thermal.follow(np.array([(0.0, middle, 1e-3 * k), (length, middle, 1e-3 * k)]), speed=8e-3)
        for k in range(1, layers + 1)
    ]
    path = thermal.stack(lines, travel=0.1)
    born = thermal.births(mesh, path, reach=1.2e-3)
    settings = dict(dt=0.02, convection=50.0, spot_radius=1.5e-3, power=250.0)
    return thermal.Heat(mesh, thermal.inconel_718(), path, born=born, **(settings | options))
