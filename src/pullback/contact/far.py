"""Long-range forces in the backward pass alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.contact.points import Points, _points, pair_masses
from pullback.contact.scene import ELLIPSOID, MESH, PLANE, Scene
from pullback.core.checks import check_number
from pullback.core.errors import PullbackError

STANDARD_GRAVITY = 9.81  # [m/s²]


@dataclass(frozen=True, kw_only=True)
class Far:
    """A surrogate gradient for shapes that do not touch: ``ContactConvex(far=Far())`` leaves the steps unchanged, and
    adds long-range forces between shapes that may touch to the backward pass.

    Gradients are those of steps to which a force F(q) - F(q₀) is applied along the degrees of freedom, at q₀ = q: it is
    zero and has the derivative of F, the force of :class:`ContactLongRange`'s potential. F is softened, so that its
    derivative is bounded for all poses of the shapes: each surface is moved inwards, and the potential of the remaining
    shapes is finite even where they overlap. So gradients are not those of the steps, but include the effect of F.
    Gradients with respect to controls and parameters include it through the state; those of a single step include it
    directly only for parameters that place shapes.

    gap:     [m] sets the strength of F, which is proportional to its square, as in ContactLongRange. None: a thousandth
             of the length
    length:  [m] size of the scene; F decays beyond it. None: the median radius of all shapes that may touch
    inset:   fraction of a shape's inner radius by which its surface is moved inwards [1]
    """

    gap: float | None = None
    length: float | None = None
    inset: float = 0.5

    def __post_init__(self):
        for name in ("gap", "length"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), f"{name} of Far")
        if check_number(self.inset, "inset of Far") > 1:
            raise PullbackError(f"inset of Far is a share, above 0 and up to 1, not {self.inset!r}")

    def length_of(self, scene: Scene) -> float:
        """The size of the scene [m]."""
        return self.length or scene.median_radius

    def strengths(self, scene: Scene) -> np.ndarray:
        """The strength μ of each pair's potential (npair,) [J]."""
        length = self.length_of(scene)
        gap = self.gap or 1e-3 * length
        return pair_masses(scene) * STANDARD_GRAVITY * gap**2 / (2 * length)

    def insets(self, scene: Scene) -> np.ndarray:
        """The distance by which the surface of each shape is moved inwards (nshape,) [m]; zero for planes."""
        inner = scene.model.mujoco.geom_aabb[scene.geoms, 3:].min(axis=1)
        return np.where(scene.kind == PLANE, 0.0, self.inset * inner)

    def points(self, scene: Scene) -> Points:
        """The shapes as hulls of points, before their scaling by ``core_scale``: the ends of an ellipsoid's axes; the
        corners of a mesh's bounding box, already moved inwards [m]."""
        each = [_core_points(scene, shape, inset) for shape, inset in enumerate(self.insets(scene))]
        return Points(np.cumsum([0, *map(len, each)]), np.concatenate([np.zeros((0, 3)), *each]))


def _core_points(scene: Scene, shape: int, inset: float) -> np.ndarray:
    if scene.kind[shape] == ELLIPSOID:
        return np.concatenate([np.eye(3), -np.eye(3)])
    if scene.kind[shape] == MESH:
        middle, half = scene.model.mujoco.geom_aabb[scene.geoms[shape]].reshape(2, 3)
        corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=-1).reshape(8, 3)
        return middle + corners * (half - inset)
    return _points(scene, shape)
