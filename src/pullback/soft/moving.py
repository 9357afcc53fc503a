"""Shapes among soft bodies: their poses and velocities as kernels read them, and the cotangents of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pullback.core.arrays import as_items, to_numpy
from pullback.core.bars import Named
from pullback.core.checks import check_several
from pullback.core.errors import PullbackError
from pullback.soft.shapes import Shape
from pullback.spatial import quat_bar_of_tangent, unit_quat_matrix

if TYPE_CHECKING:
    from pullback.soft.elastic import Elastic
    from pullback.soft.particles import Particles


class AmongShapes:
    """A System with ``shapes`` that move according to its inputs."""

    shapes: tuple[Shape, ...]
    shape_params: ClassVar[tuple[str, ...]]  # parameters with one value per shape

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        """The motion of the shapes, if there are any.

        pose:   (shapes, 7) position [m] and quaternion wxyz in the world; default: the initial poses
        twist:  (shapes, 6) angular [rad/s], then linear velocity [m/s], in world axes; default: zero
        """
        return {name: x.shape for name, x in self.shapes_at_rest.items()} if self.shapes else {}

    @property
    def shapes_at_rest(self) -> dict[str, np.ndarray]:
        """The default values of the inputs."""
        pose = np.array([[*shape.position, *shape.quat] for shape in self.shapes]).reshape(-1, 7)
        return {"pose": pose, "twist": np.zeros((len(self.shapes), 6))}

    def among(self, shapes: Sequence[Shape] | Shape):
        """The same bodies, with their current parameters, among these shapes in addition to their own."""
        more = check_several(shapes, Shape, "a shape", "soft.Shape.sphere(centre, radius)")
        other = type(self)(**self._settings() | {"shapes": (*self.shapes, *more)})
        for name, value in self.params.items() if self.params.version else ():
            of_shapes = name in self.shape_params
            other.params[name] = _with_more(value, other.params[name], len(self.shapes)) if of_shapes else value
        return other


def _with_more(value: np.ndarray, own: np.ndarray, count: int) -> np.ndarray:
    """A parameter of the first ``count`` shapes, per world or not, extended by the values of more shapes in ``own``."""
    lead = value.shape[: value.ndim - own.ndim]
    new = np.broadcast_to(own[count:], (*lead, *own[count:].shape))
    return np.concatenate([value, new], axis=len(lead))


class Moving:
    """The poses and twists of shapes, from inputs.

    pose, twist:  (steps, worlds, shapes, 7 or 6); a single row for shapes that stand still
    """

    def __init__(self, soft: Particles | Elastic, inputs: Mapping | None, hold: int):
        self.soft: Any = soft
        self.hold = hold
        self.given = {name: to_numpy(x) for name, x in (inputs or {}).items()}
        self.moves = bool(self.given) and bool(soft.shapes)
        rest = {name: np.array(x)[None, None] for name, x in soft.shapes_at_rest.items()}
        rows = max((len(x) for x in self.given.values()), default=1)
        shape = (rows, soft.worlds)
        self.pose, self.twist = (
            np.broadcast_to(self.given.get(name, rest[name]), (*shape, *rest[name].shape[2:])) for name in rest
        )
        length = np.linalg.norm(self.pose[..., 3:], axis=-1)
        if np.any(length < 1e-12):
            step, world, k = (int(i) for i in np.argwhere(length < 1e-12)[0])
            raise PullbackError(
                f"the quaternion of shape {k} in world {world} at step {step} has zero length; the identity is "
                "(1, 0, 0, 0)"
            )


class Standing(Moving):
    """Shapes among particles: constant pose and velocity in each step."""

    soft: Particles

    def __init__(self, soft: Particles, inputs: Mapping | None, hold: int):
        super().__init__(soft, inputs, hold)
        quat = self.pose[..., 3:]
        self.arrays = {
            "rotation": unit_quat_matrix(quat / np.linalg.norm(quat, axis=-1, keepdims=True)),
            "position": self.pose[..., :3],
            "angular": self.twist[..., :3],
            "linear": self.twist[..., 3:],
        }

    def struct(self, first: int = 0, end: int | None = None):
        """The kernels' Shapes, from timestep ``first`` to ``end``."""
        stepper = self.soft._stepper
        struct, kinds = stepper.structs.Shapes(), stepper.structs.Shapes.vars
        struct.kind, struct.hold, struct.moves = stepper.shape_kind, stepper.shape_hold, int(self.moves)
        for name, array in self.arrays.items() if self.soft.shapes else ():
            if self.moves:
                array = np.repeat(array, self.hold, axis=0)[first:end]
            array = np.ascontiguousarray(array, dtype=self.soft.dtype)
            setattr(struct, name, as_items(array, kinds[name].type.dtype, 3))
        return struct

    def bars(self, motion_bar: np.ndarray) -> Named:
        """Cotangents of the given inputs, from motion_bar (timesteps, worlds, shapes, 12): rotation in world axes,
        translation, angular and linear velocity."""
        shape = (-1, self.hold, *motion_bar.shape[1:])
        bar = motion_bar.reshape(shape).sum(axis=1)
        local = np.einsum("twkji,twkj->twki", self.arrays["rotation"], bar[..., :3])
        pose_bar = np.concatenate([bar[..., 3:6], quat_bar_of_tangent(self.pose[..., 3:], local)], axis=-1)
        found = {"pose": pose_bar, "twist": bar[..., 6:]}
        return Named({name: found[name].astype(self.soft.dtype) for name in self.given})
