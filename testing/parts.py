"""Small parts that tests of heat share."""

import numpy as np

from pullback import thermal


def crooked_part(**options) -> thermal.Heat:
    """Twenty-four bent hexahedra, half of them born along the way, with everything that heat can do in a step."""
    random = np.random.default_rng(3)
    straight = thermal.block((4e-3, 3e-3, 2e-3), (4, 3, 2))
    mesh = thermal.Mesh(straight.nodes + 5e-5 * random.standard_normal(straight.nodes.shape), straight.elements)
    points = 1e-3 * np.array([(0.5, 1.0, 2.0), (3.0, 1.0, 2.0), (3.0, 2.0, 2.0)])
    path = thermal.Toolpath([0.0, 1.0, 2.0], points, [1.0, 0.7, 0.0])
    born = np.concatenate([np.full(12, -np.inf), np.linspace(0.2, 1.0, 12)])
    settings = dict(born=born, dt=0.02, convection=50.0, spot_radius=1e-3, power=100.0)
    heat = thermal.Heat(mesh, thermal.inconel_718(), path, **(settings | options))
    heat.params["offset"] = (1e-4, -2e-4, 5e-5)  # so that differences know how large one is
    return heat


def warm_state(heat: thermal.Heat, seed: int = 0, hottest: float = 1800.0) -> thermal.HeatState:
    """Temperatures from cold to molten, each world at another place of the path."""
    random = np.random.default_rng(seed)
    return heat.state(random.uniform(300.0, hottest, (heat.worlds, heat.n)), np.linspace(0.45, 0.61, heat.worlds))


def controls_near(heat: thermal.Heat, steps: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    controls = heat.default_controls(steps)
    return (controls * random.uniform(0.8, 1.2, controls.shape)).astype(heat.dtype)
