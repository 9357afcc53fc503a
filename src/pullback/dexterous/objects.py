"""What a hand holds: one object in a file with a robot, or another one in every sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import mujoco
import numpy as np

from pullback.core.checks import check_kind, check_number
from pullback.core.errors import PullbackError
from pullback.dexterous.shapes import Assorted, Box, Capsule, Cylinder, Placed, Shape
from pullback.model import Model, load

HINGE_DAMPING = 1e-4  # [N·m·s/rad]
COLOUR = (0.20, 0.47, 0.95, 0.55)  # so that one sees the contacts
BASE_COLOUR = (0.93, 0.62, 0.24, 1.0)
FRICTION = 1.0  # in the simulator: policies propose with less
KINDS = ("box", "cylinder", "capsule")
LYING = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # takes z to x
LYING_QUAT = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)
_GEOMS = dict(
    zip(KINDS, (mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE), strict=True)
)


def with_object(
    robot: str,
    kind,
    size: tuple,
    mass: float,
    pos: tuple,
    name: str,
    hinge: tuple | None = None,
    quat: tuple = (1.0, 0.0, 0.0, 0.0),
    base: tuple[tuple, float, tuple] | None = None,
    home: Sequence[float] | None = None,
) -> Model:
    """A robot and an object, as one file.

    hinge:  the axis about which the object turns; it is free if None
    quat:   how its geom is turned in it
    base:   a box on the table, the body "base": half edges [m], mass [kg] and place [m]
    home:   joints of the robot at home [rad or m]; those of its file if None
    """
    spec = mujoco.MjSpec.from_string(robot)
    if home is None and not spec.keys:
        raise PullbackError("the robot's file has no keyframe that says where home is: give home=")
    home = [float(x) for x in (spec.keys[0].qpos if home is None else home)]
    for key in list(spec.keys):  # none of them knows of the object
        spec.delete(key)
    touches = {"friction": (FRICTION, 0.005, 0.0001), "contype": 1, "conaffinity": 1}
    if base is not None:
        half, its_mass, at = base
        body = spec.worldbody.add_body(name="base", pos=at)
        body.add_freejoint(name="base")
        body.add_geom(name="base", type=_GEOMS["box"], size=half, mass=its_mass, rgba=BASE_COLOUR, **touches)
        home += [*at, 1.0, 0.0, 0.0, 0.0]
    body = spec.worldbody.add_body(name=name, pos=pos)
    if hinge is None:
        body.add_freejoint(name=name)
    else:
        body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=hinge, damping=HINGE_DAMPING)
    body.add_geom(name=name, type=kind, size=size, mass=mass, rgba=COLOUR, quat=quat, **touches)
    placed = [*pos, 1.0, 0.0, 0.0, 0.0] if hinge is None else [0.0]
    spec.add_key(name="home", qpos=[*home, *placed])
    return load(spec)


@dataclass(frozen=True)
class Objects:
    """The objects of a batch: boxes, upright cylinders, and capsules that lie along their x axis.

    robot:   the file of the hand
    mass:    of each [kg]
    kind:    index in KINDS (samples,)
    half:    half of their extents along their axes (samples, 3) [m]: of a cylinder and a capsule two of them are equal
    """

    robot: str
    mass: float
    kind: np.ndarray
    half: np.ndarray

    @cached_property
    def shape(self) -> Shape:
        x, y, z = self.half.T
        capsule = Capsule(z, np.maximum(x - z, 0.0))
        return Assorted(self.kind, (Box(self.half), Cylinder(y, z), Placed(capsule, np.zeros(3), LYING)))

    @cached_property
    def inertia(self) -> np.ndarray:
        """About their centres (samples, 3, 3) [kg·m²]."""
        x, y, z = self.half.T
        box = np.stack([y * y + z * z, x * x + z * z, x * x + y * y], axis=-1) / 3
        side = y * y / 4 + z * z / 3
        cylinder = np.stack([side, side, y * y / 2], axis=-1)
        long, r = np.maximum(x - z, 0.0), z  # a capsule: its cylinder, and a ball cut in halves
        tube, ball = 2 * long, 4 * r / 3  # shares of the volume over πr²
        along = (tube * r * r / 2 + ball * 2 * r * r / 5) / (tube + ball)
        across = (tube * (r * r / 4 + long * long / 3) + ball * (2 * r * r / 5 + long * long + 3 * long * r / 4)) / (
            tube + ball
        )
        capsule = np.stack([along, across, across], axis=-1)
        own = np.stack([box, cylinder, capsule])[self.kind, np.arange(len(self.kind))]
        return self.mass * own[:, :, None] * np.eye(3)

    @cached_property
    def seen(self) -> np.ndarray:
        """What a policy sees of them (samples, 6), about one: which kind it is, and its extents."""
        return np.concatenate([np.eye(len(KINDS))[self.kind], (self.half - 0.03) / 0.01], axis=-1)

    def model(self, sample: int) -> Model:
        """The file of the hand with one of them."""
        name, (x, y, z) = KINDS[self.kind[sample]], self.half[sample]
        size = {"box": (x, y, z), "cylinder": (y, z, 0.0), "capsule": (z, x - z, 0.0)}[name]
        quat = LYING_QUAT if name == "capsule" else (1.0, 0.0, 0.0, 0.0)
        return with_object(self.robot, _GEOMS[name], size, self.mass, (0.0, 0.0, z), "object", quat=quat)


@dataclass(frozen=True)
class Assortment:
    """Random objects, in equal numbers of each kind.

    least, most:  of half extents [m]. A capsule is thinner than the others, and up to twice as long as thick
    """

    robot: str
    mass: float = 0.01
    least: float = 0.02
    most: float = 0.035

    SEEN = len(KINDS) + 3

    def __post_init__(self):
        check_kind(self.robot, str, "robot of an Assortment", "pb.robots.hand()")
        for name in ("mass", "least"):
            check_number(getattr(self, name), f"{name} of an Assortment")
        check_number(self.most, "most of an Assortment", least=self.least)

    def __call__(self, random: np.random.Generator, samples: int) -> Objects:
        kind = random.integers(len(KINDS), size=samples)
        half = random.uniform(self.least, self.most, (samples, 3))
        longer = random.uniform(1.3, 2.0, samples)
        thin = self.least + 0.5 * (half[:, 2] - self.least)
        cylinder = np.stack([half[:, 1], half[:, 1], half[:, 2]], axis=-1)
        capsule = np.stack([longer * thin, thin, thin], axis=-1)
        return Objects(self.robot, self.mass, kind, np.stack([half, cylinder, capsule])[kind, np.arange(samples)])
