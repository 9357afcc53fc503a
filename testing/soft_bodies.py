"""Elastic bodies that tests share."""

import numpy as np

from pullback import soft

SOLIDS = (soft.StableNeoHookean, soft.StVK)
CLOTHS = (soft.Membrane, soft.StVKMembrane)
GAP = 3e-3


def bar(kind=soft.StableNeoHookean, cells=(3, 1, 1), **options) -> soft.Elastic:
    """A bar with one end fixed and a handle at the other."""
    material = kind(young=1e5, poisson=0.4, density=1e3, viscosity=20.0)
    body = soft.solid_block((0, 0, 0), (0.3, 0.1, 0.1), cells, material, name="bar")
    left, right = (np.flatnonzero(np.isclose(body.points[:, 0], x)) for x in (0.0, 0.3))
    settings = {"dt": 0.01, "fixed": left, "handles": [right[:2]], "damping": 0.3, "threads": 1}
    return soft.Elastic(body, **settings | options)


def flag(kind=soft.Membrane, cells=(3, 3), **options) -> soft.Elastic:
    """A square of cloth in the wind, held by two corners."""
    material = kind(young=300.0, poisson=0.3, density=0.2, viscosity=0.5, bending=2e-3, drag=0.4)
    body = soft.sheet((0, 0, 0.3), (0.3, 0, 0), (0, 0.3, 0), cells, material, name="flag")
    settings = {
        "dt": 0.01,
        "fixed": [0],
        "handles": [[cells[1]]],
        "damping": 0.3,
        "wind": (1.0, 2.0, 0.5),
        "threads": 1,
    }
    return soft.Elastic(body, **settings | options)


def cube(kind=soft.StVK) -> soft.Solid:
    material = kind(young=2e4, density=1e3, viscosity=5.0)
    return soft.solid_block((-0.05, -0.05, 0.001), (0.05, 0.05, 0.101), (1, 1, 1), material, name="cube")


def around_the_cube() -> list[soft.Shape]:
    """One shape of each kind, half a gap from the cube, and a box that is near a corner of it."""
    return [
        soft.Shape.plane((0, 0, 0), (0, 0, 1), friction=0.5),
        soft.Shape.sphere((0.1, 0.05, 0.001), 0.0485, friction=0.3),
        soft.Shape.capsule((-0.1, 0.05, -0.1), (-0.1, 0.05, 0.2), 0.0485, friction=0.4),
        soft.Shape.box((0, 0.1, 0), (0.07, 0.0485, 0.3), friction=0.2),
        soft.Shape.box((0.05, -0.109, 0.101), (0.03, 0.05, 0.02), quat=(1, 0, 0, 0.3), friction=0.6),
    ]


def surrounded(**options) -> soft.Elastic:
    """The cube among these shapes."""
    settings = {"dt": 0.01, "shapes": around_the_cube(), "gap": GAP, "contact_stiffness": 1e4, "threads": 1}
    return soft.Elastic(cube(), **settings | options)


def moving(system, seed: int = 0, size: float = 0.3) -> dict[str, np.ndarray]:
    """Shapes at rest, with quaternions of any length, and velocities."""
    random = np.random.default_rng(seed)
    pose = np.repeat(system.shapes_at_rest["pose"][None], system.worlds, axis=0)
    pose[..., 3:] *= random.uniform(0.5, 2.0, size=(*pose.shape[:2], 1))
    return {"pose": pose, "twist": size * random.normal(size=(*pose.shape[:2], 6))}


def shaken(system: soft.Elastic, seed: int, size: float = 0.01, speed: float = 0.3) -> soft.ElasticState:
    """Near rest, with a random velocity."""
    random = np.random.default_rng(seed)
    start = system.state()
    x = start.x + size * random.normal(size=start.x.shape)
    return system.state(x, speed * random.normal(size=start.v.shape))


def masses(system) -> np.ndarray:
    """Of all vertices (n,) [kg]."""
    mass = np.zeros(system.n)
    for body, start in zip(system.bodies, system.mesh.offsets, strict=False):
        elements = body.tets if isinstance(body, soft.Solid) else body.triangles
        edges = body.points[elements[:, 1:]] - body.points[elements[:, :1]]
        if isinstance(body, soft.Solid):
            size = np.abs(np.linalg.det(edges)) / 6
        else:
            size = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2
        share = np.repeat(body.material.density * size / elements.shape[1], elements.shape[1])
        np.add.at(mass, start + elements.ravel(), share)
    return mass
