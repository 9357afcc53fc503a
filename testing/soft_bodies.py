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


def towel(cells=(4, 1), shift=(0.013, 0.007), apart=0.8, **options) -> tuple[soft.Elastic, np.ndarray]:
    """A strip of cloth that touches itself, folded over with a shift along its sides; and where its vertices are then.

    apart: how far its layers are from each other, against the gap
    """
    material = soft.Membrane(young=300.0, poisson=0.3, density=0.2, viscosity=0.5, bending=2e-4, drag=0.4)
    length, width = 0.05 * cells[0], 0.05 * cells[1]
    body = soft.sheet((0, 0, 0), (length, 0, 0), (0, width, 0), cells, material, name="towel")
    settings = {
        "dt": 0.01,
        "damping": 0.3,
        "wind": (0.3, 0.1, 0.2),
        "gap": GAP,
        "contact_stiffness": 20.0,
        "threads": 1,
    }
    system = soft.Elastic(body, **settings | {"self_contact": True, "self_friction": 0.4} | options)
    x = body.points.copy()
    over = x[:, 0] > length / 2 + 1e-6
    x[over] = np.stack([length - x[over, 0] + shift[0], x[over, 1] + shift[1], np.full(over.sum(), apart * GAP)], 1)
    return system, x


def two_cubes(tilt=0.01, apart=0.7, turn=0.4, cells=1, **options) -> soft.Elastic:
    """A cube that touches another below it, tilted and turned against it.

    apart: how far its lowest corner is from the other, against the gap
    """
    material = soft.StableNeoHookean(young=2e4, density=1e3, viscosity=5.0)
    lower, upper = (
        soft.solid_block((0, 0, 0), (0.1, 0.1, 0.1), (cells,) * 3, material, name=name) for name in ("lower", "upper")
    )
    about_y = np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
    about_z = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    points = (upper.points - 0.05) @ (about_y @ about_z).T
    points += [0.05, 0.06, 0.1 + apart * GAP - points[:, 2].min()]
    upper = soft.Solid(points, upper.tets, material, name="upper")
    settings = {"dt": 0.01, "gap": GAP, "contact_stiffness": 1e3, "threads": 1}
    return soft.Elastic([lower, upper], **settings | {"self_contact": True, "self_friction": 0.4} | options)
