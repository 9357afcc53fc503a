"""Tasks that plan on reachability maps: no System and no steps in time, but a plan that is checked and can be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from pullback.core.checks import check_number, check_seed
from pullback.model import Model, load
from pullback.model.robots import humanoid
from pullback.reach import (
    Block,
    Disc,
    Humanoid,
    Plan,
    ReachabilityMap,
    Stance,
    Wall,
    check_plan,
    humanoid_maps,
    sample_humanoid,
)
from pullback.reach.humanoid import CONTACT, on_floor
from pullback.reach.sqp import Options
from pullback.reach.surface import iso_surface
from pullback.reach.trajectory import ROWS, plan_trajectory
from pullback.reach.walking import middle
from pullback.tasks.task import Camera, FromFactory, Origin

STEP_SECONDS = 0.8  # from one moment of a plan to the next, in a film [s]
SOLE = (0.129, 0.045, 0.002)  # half sizes of a footprint [m]
SOLE_AHEAD = 0.069  # of the ankle: its middle [m]
HALF_STANCE = 0.09  # from the middle between the feet to each [m]
LEFT, RIGHT, SOLID, PANEL = (0.16, 0.40, 0.78, 1), (0.93, 0.44, 0.13, 1), (0.45, 0.47, 0.5, 1), (0.75, 0.62, 0.45, 1)
WITHIN_REACH = (0.20, 0.47, 0.95, 0.16)  # colour of a map's surface
TALL = 0.4  # of an obstacle, as it is drawn [m]
_Kind = mujoco.mjtGeom


@dataclass(frozen=True)
class Planned:
    """A plan, what inverse kinematics makes of it, and a trajectory along it."""

    solved: bool  # the plan is as it was asked for, and its contacts are reached
    metric: float  # the largest distance of a contact from its place [m]
    report: str
    iterations: int
    seconds: float  # of planning
    contacts: int
    reached: int  # of the contacts, within 5 mm
    arrays: dict[str, np.ndarray]  # by name
    model: Model  # the robot and what is around it
    q: np.ndarray  # (rows, nq)
    dt: float  # between two rows [s]


@dataclass(frozen=True, kw_only=True)
class Planning(FromFactory):
    """A problem that is solved by :mod:`pullback.reach`.

    name, about:   of the task; ``about`` in one line
    solve:         with these options
    target, unit:  a planned contact is reached by inverse kinematics to within this
    """

    name: str
    about: str
    solve: Callable[[Options | None], Planned]
    target: float = CONTACT
    unit: str = "m"
    camera: Camera | None = None
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __post_init__(self):
        check_number(self.target, "target of a Planning")


def walking_task(name: str, about: str, seed: int, problem_of: Callable, surroundings: Callable) -> Planning:
    """A task that plans steps of the sample humanoid on its reachability maps.

    problem_of:    (maps, seed): the problem, which has ``plan(options)``
    surroundings:  (scene, problem, plan, maps): draws what is around the robot, and returns keywords for
                   :func:`walked`
    """
    seed = check_seed(seed)

    def solve(options: Options | None) -> Planned:
        robot, scene = sample_humanoid(), Scene()
        maps = humanoid_maps(robot)
        problem = problem_of(maps, seed)
        plan = problem.plan(options)
        return walked(robot, plan, scene, **surroundings(scene, problem, plan, maps))

    return Planning(name=name, about=about, solve=solve)


def stance_at(x: float, y: float, yaw: float) -> Stance:
    """Feet side by side, with the middle between them at this place [m, m, rad]."""
    c, s = HALF_STANCE * np.cos(yaw), HALF_STANCE * np.sin(yaw)
    return Stance((x - s, y + c, yaw), (x + s, y - c, yaw))


def walked(
    robot: Humanoid, plan: Plan, scene: Scene, *, arrays: dict, hand_map: ReachabilityMap | None = None,
    extra: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Planned:  # fmt: skip
    """A plan of the sample humanoid, checked, and a trajectory along it.

    arrays:    of the result besides those of the plan
    hand_map:  drawn around the stance, if given
    extra:     coordinates (rows, k) of what else moves in the scene, of the places of the hand (rows, 3)
    """
    check = check_plan(robot, plan)
    q, hand = plan_trajectory(robot, plan, check)
    scene.footprints(plan)
    if extra is not None:
        q = np.concatenate([q, extra(hand)], axis=1)
    if hand_map is not None:
        scene.surface(hand_map, robot.holds)
        frames = middle(plan.left, plan.right)
        frames = np.concatenate([np.repeat(frames[:-1], ROWS, axis=0), frames[-1:]])
        q = np.concatenate([q, on_floor(frames)], axis=1)
    sides = np.array([side == "left" for side in plan.sides])
    kept = {"feet": plan.feet, "is_left": sides, "left": plan.left, "right": plan.right, "hand": plan.hand}
    return Planned(
        solved=plan.solved and check.reached == check.contacts,
        metric=check.worst,
        report=plan.report(),
        iterations=plan.solution.iterations,
        seconds=plan.seconds,
        contacts=check.contacts,
        reached=check.reached,
        arrays=kept | {"postures": check.postures.q} | arrays,
        model=scene.model(),
        q=q,
        dt=STEP_SECONDS / ROWS,
    )


class Scene:
    """A robot and things to look at around it."""

    def __init__(self, robot: str | None = None):
        self.spec = mujoco.MjSpec.from_string(robot or humanoid())
        for key in self.spec.keys:  # of the robot alone: more may move here
            self.spec.delete(key)

    def shape(self, kind, pos, size, rgba, *, body=None, yaw: float = 0.0) -> None:
        quat = (np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))
        where = self.spec.worldbody if body is None else body
        where.add_geom(type=kind, pos=pos, size=size, quat=quat, rgba=rgba, contype=0, conaffinity=0, mass=0)

    def obstacles(self, shapes: Sequence, tall: float = TALL) -> None:
        """Those that come with Pullback, so tall [m]; others are not drawn."""
        for one in shapes:
            if isinstance(one, Disc):
                self.shape(_Kind.mjGEOM_CYLINDER, (one.x, one.y, tall / 2), (one.radius, tall / 2, 0), SOLID)
            elif isinstance(one, Block):
                size = (one.half_length, one.half_width, tall / 2)
                self.shape(_Kind.mjGEOM_BOX, (one.x, one.y, tall / 2), size, SOLID, yaw=one.yaw)
            elif isinstance(one, Wall):
                x, y = np.multiply(one.normal, one.offset - 0.02)
                yaw = np.arctan2(one.normal[1], one.normal[0])
                self.shape(_Kind.mjGEOM_BOX, (x, y, tall), (0.02, 2.0, tall), SOLID, yaw=yaw)

    def footprints(self, plan: Plan) -> None:
        for number, ((x, y, yaw), side) in enumerate(zip(plan.feet, plan.sides, strict=True)):
            pos = (x + SOLE_AHEAD * np.cos(yaw), y + SOLE_AHEAD * np.sin(yaw), 0.001 * (1 + number / 100))
            self.shape(_Kind.mjGEOM_BOX, pos, SOLE, LEFT if side == "left" else RIGHT, yaw=yaw)

    def points(self, points: np.ndarray, radius: float = 0.03) -> None:
        """Places to touch (n, 3) [m]."""
        for point in points:
            self.shape(_Kind.mjGEOM_SPHERE, point, (radius, 0, 0), LEFT)

    def body(self, name: str, pos, **joint):
        body = self.spec.worldbody.add_body(name=name, pos=pos)
        body.add_joint(name=name, **joint)
        body.mass, body.inertia, body.explicitinertial = 1.0, (1.0, 1.0, 1.0), True
        return body

    def surface(self, reach_map: ReachabilityMap, bounds) -> None:
        """The surface of a map in R3, as a body that floats."""
        vertices, faces = iso_surface(reach_map, bounds)
        mesh = self.spec.add_mesh(name="map", uservert=vertices.ravel(), userface=faces.ravel())
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        body = self.body("map", (0, 0, 0), type=mujoco.mjtJoint.mjJNT_FREE)
        body.add_geom(type=_Kind.mjGEOM_MESH, meshname="map", rgba=WITHIN_REACH, contype=0, conaffinity=0, mass=0)

    def model(self) -> Model:
        return load(self.spec)
