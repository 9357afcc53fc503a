"""The hand that acts: where its links are, how points on them move, and the derivatives of both, for whole batches.

Everything is in closed form. With ω_j and J_j the angular velocity and the velocity of a point per unit of the rate of
joint j, a point moves by V = Σ J_j u_j, and

    ∂V/∂q_j = ω_j × (V - V_<j) + Ω_<j × J_j

where V_<j and Ω_<j are the parts of the joints before j: what comes after a joint is turned by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from pullback.core.errors import PullbackError
from pullback.dexterous.shapes import Shape, Union, shape_of
from pullback.model import Model
from pullback.spatial import cross_matrix

FIRM = 1e-4  # damping of the way from tips to joints, against singular postures [m²]
SLIDE, HINGE = int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE)


@dataclass(frozen=True)
class Pose:
    """Where a batch of hands is.

    at, turn:       of every body: (..., nbody, 3) [m], (..., nbody, 3, 3)
    axis, anchor:   of every joint, in the world: (..., n, 3), (..., n, 3) [m]
    """

    at: np.ndarray
    turn: np.ndarray
    axis: np.ndarray
    anchor: np.ndarray


class Hand:
    """A robot whose bodies touch things: hinges and slides, in any number of fingers.

    model:   of a scene, with position servos as actuators if the hand is to be tried in a simulator
    tips:    names of the bodies that may propose contacts, one each
    bodies:  how many bodies of the file, from the first, belong to the hand; all if None
    """

    def __init__(self, model: Model, tips: Sequence[str], bodies: int | None = None):
        self.model, self.tips, m = model, tuple(tips), model.mujoco
        self.bodies = m.nbody if bodies is None else bodies
        joints = np.flatnonzero(m.jnt_bodyid < self.bodies)
        if wrong := [m.joint(j).name or int(j) for j in joints if m.jnt_type[j] not in (SLIDE, HINGE)]:
            raise PullbackError(f"joint {wrong[0]!r} is neither a hinge nor a slide: a hand has no others")
        if coupled := [name for name in model.constraints if name.startswith("equality")]:
            raise PullbackError(
                f"{coupled[0].split(': ', 1)[1]} couples what a hand moves joint by joint: load the model with "
                "ignore=('equality',), and let servos move all joints"
            )
        if not self.tips or not len(joints):
            raise PullbackError("a hand needs joints, and tips that name a body at least that may touch")
        self.n = len(joints)
        self.tip_bodies = [self._body(name) for name in self.tips]
        limited, self.slides = m.jnt_limited[joints], m.jnt_type[joints] == SLIDE
        self.low = np.where(limited, m.jnt_range[joints, 0], -np.inf)
        self.high = np.where(limited, m.jnt_range[joints, 1], np.inf)
        self.home = model.home.q[: self.n].copy()
        self.carries = np.zeros((self.bodies, self.n), dtype=bool)  # whether a joint moves a body
        for body in range(1, self.bodies):
            first, count = m.body_jntadr[body], m.body_jntnum[body]
            self.carries[body] = self.carries[m.body_parentid[body]]
            self.carries[body, first : first + count] = True
        solid = (m.geom_contype | m.geom_conaffinity) > 0
        mine = [g for g in range(m.ngeom) if m.geom_bodyid[g] < self.bodies]
        self.solids = [g for g in mine if solid[g] and self.carries[m.geom_bodyid[g]].any()]
        self.tip_shapes = [self._shape(body) for body in self.tip_bodies]
        self.tip_points = np.array([_end(shape) for shape in self.tip_shapes])  # in their bodies' frames [m]
        balls = [shape_of(m, g).balls() for g in self.solids]
        self.ball_bodies = np.concatenate(
            [np.full(len(r), m.geom_bodyid[g]) for g, (_, r) in zip(self.solids, balls, strict=True)]
        )
        self.ball_centres = np.concatenate([c for c, _ in balls])  # in their bodies' frames [m]
        self.ball_radii = np.concatenate([r for _, r in balls])
        self._base = np.zeros((self.bodies, 9))
        for body in range(self.bodies):
            mujoco.mju_quat2Mat(self._base[body], m.body_quat[body])

    def _body(self, name: str) -> int:
        body = mujoco.mj_name2id(self.model.mujoco, mujoco.mjtObj.mjOBJ_BODY, name)
        if not 0 <= body < self.bodies:
            raise PullbackError(f"the hand has no body {name!r}, which tips names")
        return body

    def _shape(self, body: int) -> Shape:
        geoms = [g for g in self.solids if self.model.mujoco.geom_bodyid[g] == body]
        if not geoms:
            raise PullbackError(f"body {self.model.mujoco.body(body).name!r} has no geom that touches: it is no tip")
        return Union(tuple(shape_of(self.model.mujoco, g) for g in geoms))

    def pose(self, q: np.ndarray) -> Pose:
        """Of joint positions (..., n) [rad or m]."""
        m, lead = self.model.mujoco, q.shape[:-1]
        at, turn = np.zeros((*lead, self.bodies, 3)), np.zeros((*lead, self.bodies, 3, 3))
        axis, anchor = np.zeros((*lead, self.n, 3)), np.zeros((*lead, self.n, 3))
        turn[..., 0, :, :] = np.eye(3)
        for body in range(1, self.bodies):
            parent = m.body_parentid[body]
            R = turn[..., parent, :, :] @ self._base[body].reshape(3, 3)
            x = at[..., parent, :] + turn[..., parent, :, :] @ m.body_pos[body]
            for j in range(m.body_jntadr[body], m.body_jntadr[body] + m.body_jntnum[body]):
                axis[..., j, :] = R @ m.jnt_axis[j]
                anchor[..., j, :] = x + R @ m.jnt_pos[j]
                moved = q[..., j] - m.qpos0[j]
                if self.slides[j]:
                    x = x + moved[..., None] * axis[..., j, :]
                    continue
                K = cross_matrix(m.jnt_axis[j])
                angle = moved[..., None, None]
                R = R @ (np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * (K @ K))
                x = anchor[..., j, :] - R @ m.jnt_pos[j]
            at[..., body, :], turn[..., body, :, :] = x, R
        return Pose(at, turn, axis, anchor)

    def points(self, pose: Pose, bodies, local: np.ndarray) -> np.ndarray:
        """Points (..., k, 3) in the frames of bodies (k,) as points in the world [m]."""
        return pose.at[..., bodies, :] + (pose.turn[..., bodies, :, :] @ local[..., None])[..., 0]

    def jacobians(self, pose: Pose, bodies, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By the joints, of points (..., k, 3) in the world on bodies (k,): velocities and angular velocities
        (..., k, 3, n)."""
        carried = self.carries[bodies][:, None, :]
        axis = np.swapaxes(pose.axis, -1, -2)[..., None, :, :]  # (..., 1, 3, n)
        arm = points[..., :, :, None] - np.swapaxes(pose.anchor, -1, -2)[..., None, :, :]
        velocity = np.where(self.slides, axis, _cross(axis, arm))
        return velocity * carried, np.where(self.slides, 0.0, axis) * carried

    def shifted(self, q: np.ndarray, shift: np.ndarray, steps: int = 20) -> np.ndarray:
        """Joint positions (n,) at which the tips are elsewhere by a shift (3,) [m], near those given."""
        goal = self.points(self.pose(q), self.tip_bodies, self.tip_points) + shift
        for left in range(steps, 0, -1):
            pose = self.pose(q)
            points = self.points(pose, self.tip_bodies, self.tip_points)
            J = self.jacobians(pose, self.tip_bodies, points)[0].reshape(-1, self.n)
            way = ((goal - points) / left).ravel()
            q = np.clip(q + J.T @ np.linalg.solve(J @ J.T + FIRM * np.eye(len(J)), way), self.low, self.high)
        return q

    def velocity_slopes(self, J: np.ndarray, W: np.ndarray, u: np.ndarray) -> np.ndarray:
        """How velocities Σ J_j u_j of points move with the joints (..., k, 3, n), of Jacobians (..., k, 3, n) and rates
        u (..., n) [rad/s or m/s]."""
        moves, turns = J * u[..., None, None, :], W * u[..., None, None, :]
        before = np.cumsum(moves, axis=-1) - moves
        turned_before = np.cumsum(turns, axis=-1) - turns
        return _cross(W, moves.sum(-1, keepdims=True) - before) + _cross(turned_before, J)


def _end(shape: Shape) -> np.ndarray:
    """The point (3,) of a tip with which it first comes to a thing [m]: the far end of a round one, or its middle."""
    centres, radii = shape.balls()
    far = np.linalg.norm(centres, axis=-1).argmax()
    return centres[far] if radii[far] > 0 else centres.mean(axis=0)


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross products of columns (..., 3, n)."""
    ax, ay, az = np.moveaxis(a, -2, 0)
    bx, by, bz = np.moveaxis(b, -2, 0)
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-2)
