"""A hand, an object and a table, from one robot file: what proposed contacts act on, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np

from pullback.core.checks import check_number
from pullback.core.errors import PullbackError
from pullback.dexterous.hand import HINGE, Hand
from pullback.dexterous.objects import Objects
from pullback.dexterous.shapes import HalfSpace, Shape, Union, shape_of
from pullback.model import Model
from pullback.spatial import cross_matrix, log_jacobian, quat_exp, quat_mul, unit_quat_matrix

FREE = int(mujoco.mjtJoint.mjJNT_FREE)
CONTACT = 9  # numbers of a proposed contact: a point on the object, one on what touches it, a force


class States(NamedTuple):
    """Of a batch. Tangents have n + 12 numbers: joints, position, rotation in the object's frame, and velocities."""

    q: np.ndarray  # (..., n) joints of the hand [rad or m]
    at: np.ndarray  # (..., 3) the object [m]
    quat: np.ndarray  # (..., 4)
    v: np.ndarray  # (..., 3) in the world [m/s]
    omega: np.ndarray  # (..., 3) in the object's frame [rad/s]


class Batch(NamedTuple):
    """A batch of random samples of a task.

    start:  at rest or not, (samples, ...)
    mass:   of the object against that of the file (samples,) [1]
    noise:  what moves the states behind each frame (frames, samples, n + 6): joints, position, and rotation about
            the world's axes
    things: the object of each sample, where it is not that of the file
    """

    start: States
    mass: np.ndarray
    noise: np.ndarray
    things: Objects | None = None


@dataclass(frozen=True)
class Proposed:
    """What a policy puts out (..., nu), taken apart."""

    rates: np.ndarray  # (..., n) of the joints [rad/s or m/s]
    p: np.ndarray  # (..., contacts, 3) on the object, in its frame [m]
    s: np.ndarray  # (..., contacts, 3) on what touches it, in its own frame [m]
    f: np.ndarray  # (..., contacts, 3) on the object, in its frame [N]


@dataclass(frozen=True)
class Support:
    """What may hold the object from below, and does not move.

    shape, at:  and where its frame is in the world (3,) [m]
    """

    name: str
    shape: Shape
    at: np.ndarray


class Scene:
    """A hand, an object and a table, the plane z = 0, from a robot file.

    model:     all in one file. The object is the last body, a child of the world, its frame in its centre of mass
    base:      name of the body before it, free as well, on which the object may be put. It stands where it is at home,
               and policies take it for fixed
    tips:      names of the bodies of the hand that may touch, one contact each
    dt:        length of a frame [s]
    table:     whether the object may be held by the table: one more contact behind those of the tips
    force:     what forces are measured against [N]; the weight of the object if None
    """

    def __init__(
        self, model: Model, tips: Sequence[str], *, dt: float, table: bool = True, force: float | None = None,
        base: str | None = None,
    ):  # fmt: skip
        m = model.mujoco
        body = m.nbody - 1
        self._made = {"tips": tuple(tips), "dt": dt, "table": table, "force": force, "base": base}
        self.model, self.dt, self.table, self.name = model, check_number(dt, "dt"), table, m.body(body).name
        if m.body_parentid[body] or m.body_jntnum[body] != 1:
            raise PullbackError(
                f"body {self.name!r}, the last, is no object: it needs a joint, and the world as parent"
            )
        self.hand = Hand(model, tips, body if base is None else body - 1)
        self.supports = [Support("table", HalfSpace(0.0), np.zeros(3))] if table else []
        self.between = 0 if base is None else 7  # coordinates between those of the hand and those of the object
        if base is not None:
            self.supports.append(self._based(base, body - 1))
        geoms = [g for g in range(m.ngeom) if m.geom_bodyid[g] == body and m.geom_contype[g] | m.geom_conaffinity[g]]
        if not geoms or np.linalg.norm(m.body_ipos[body]) > 1e-6:
            raise PullbackError(f"body {self.name!r} needs geoms that touch, and its centre of mass in its origin")
        self.shape = Union(tuple(shape_of(m, g) for g in geoms))
        self.contacts = len(self.hand.tips) + len(self.supports)
        self.n, self.nx, self.nu = self.hand.n, self.hand.n + 12, self.hand.n + CONTACT * self.contacts
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, m.body_iquat[body])
        turn = turn.reshape(3, 3)
        self.mass, self.inertia = float(m.body_mass[body]), turn @ np.diag(m.body_inertia[body]) @ turn.T
        self.weight = self.mass * float(np.linalg.norm(m.opt.gravity)) if force is None else force
        if not 0 < self.weight < np.inf:
            raise PullbackError(f"{self.name!r} has no weight to measure forces against: give force in newtons")
        joint = m.body_jntadr[body]
        self.free = m.jnt_type[joint] == FREE
        if self.free:
            self.lightness, self.ease = 1 / self.mass, np.linalg.inv(self.inertia)
        elif m.jnt_type[joint] == HINGE and not np.any(m.jnt_pos[joint]):
            axis, dof = m.jnt_axis[joint], m.jnt_dofadr[joint]
            self.axis, self.lightness = axis.copy(), 0.0
            self.ease = np.outer(axis, axis) / (axis @ self.inertia @ axis + m.dof_armature[dof])
        else:
            raise PullbackError(f"the joint of {self.name!r} is neither free nor a hinge through its origin")
        self.gravity = m.opt.gravity.copy() if self.free else np.zeros(3)
        first = self.n + self.between
        at = model.home.q[first : first + 7] if self.free else (*m.body_pos[body], *m.body_quat[body])
        self.home = np.array(at[:3]), np.array(at[3:])  # where the object is at home [m], and how it is turned

    def _based(self, name: str, body: int) -> Support:
        m = self.model.mujoco
        joint = m.body_jntadr[body]
        if m.body(body).name != name or m.body_jntnum[body] != 1 or m.jnt_type[joint] != FREE:
            raise PullbackError(f"{name!r}, the base, is to be a free body, the one before {self.name!r} in the file")
        geoms = [g for g in range(m.ngeom) if m.geom_bodyid[g] == body and m.geom_contype[g] | m.geom_conaffinity[g]]
        at = self.model.home.q[m.jnt_qposadr[joint] :][:7]
        if not geoms or not np.allclose(at[3:], (1, 0, 0, 0)):
            raise PullbackError(f"{name!r}, the base, needs geoms that touch, and to stand unturned at home")
        return Support(name, Union(tuple(shape_of(m, g) for g in geoms)), np.array(at[:3]))

    def with_thing(self, things: Objects, sample: int) -> Scene:
        """The same with one of several objects."""
        return Scene(things.model(sample), **self._made)

    def shape_of(self, batch: Batch) -> Shape:
        """Of the objects of a batch."""
        return self.shape if batch.things is None else batch.things.shape

    def inertia_of(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Of the objects of a batch, and what a torque does to them: (3, 3), or one per sample."""
        if batch.things is None:
            return self.inertia, self.ease
        return batch.things.inertia, np.linalg.inv(batch.things.inertia)

    def split(self, u: np.ndarray) -> Proposed:
        contacts = u[..., self.n :].reshape(*u.shape[:-1], self.contacts, 3, 3)
        return Proposed(u[..., : self.n], *(contacts[..., k, :] for k in range(3)))

    def support(self, contact: int) -> Support | None:
        """What a contact is with, if it is not with a tip."""
        return None if contact < len(self.hand.tips) else self.supports[contact - len(self.hand.tips)]

    def columns(self, contact: int) -> tuple[slice, slice, slice]:
        """Where point, point of what touches, and force of a contact are in what a policy puts out."""
        first = self.n + CONTACT * contact
        return tuple(slice(first + 3 * k, first + 3 * k + 3) for k in range(3))

    def step(self, x: States, u: np.ndarray, batch: Batch, frame: int) -> States:
        """The states behind a frame, in which the proposed forces move the object.

        Forces turn with the object. With a force of the table that stays vertical it would be a pendulum upside down,
        which falls over a thousand times faster than training could hold it.
        """
        given, turn = self.split(u), unit_quat_matrix(x.quat)
        mass, (inertia, ease) = batch.mass[:, None], self.inertia_of(batch)
        force = (turn @ given.f.sum(-2)[..., None])[..., 0]
        torque = np.cross(given.p, given.f).sum(-2) / mass - np.cross(x.omega, _through(x.omega, inertia))
        v = x.v + self.dt * (self.lightness / mass * force + self.gravity)
        omega = x.omega + self.dt * _through(torque, ease)
        quat = quat_mul(x.quat, quat_exp(self.dt * omega))
        q, at, turned = np.split(batch.noise[frame], [self.n, self.n + 3], axis=-1)
        moved = x.q + self.dt * given.rates + q, x.at + self.dt * v + at
        return States(*moved, quat_mul(quat_exp(turned), quat), v, omega)

    def moved(self, x: States, d: np.ndarray) -> States:
        """States moved by tangents (..., n + 12)."""
        q, at, turn, v, omega = np.split(d, [self.n, self.n + 3, self.n + 6, self.n + 9], axis=-1)
        return States(x.q + q, x.at + at, quat_mul(x.quat, quat_exp(turn)), x.v + v, x.omega + omega)

    def slopes(self, x: States, after: States, u: np.ndarray, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """How each step moves with its state, A (frames, samples, nx, nx), and outputs, B (frames, samples, nx, nu).

        x, after: states (frames, samples, ...) before and behind each; noise moves nothing but places
        """
        n, dt, lead = self.n, self.dt, u.shape[:-1]
        given, turn = self.split(u), unit_quat_matrix(x.quat)
        q, at, rot, v, om = (slice(0, n), *(slice(n + 3 * k, n + 3 * k + 3) for k in range(4)))
        A, B = np.zeros((*lead, self.nx, self.nx)), np.zeros((*lead, self.nx, self.nu))
        for where in (q, at, v):
            A[..., where, where] = np.eye(where.stop - where.start)
        B[..., q, q] = dt * np.eye(n)
        mass = batch.mass[:, None, None]
        inertia, ease = self.inertia_of(batch)
        ease = dt * ease
        gyro = cross_matrix(x.omega) @ inertia - cross_matrix(_through(x.omega, inertia))
        A[..., om, om] = np.eye(3) - ease @ gyro
        light = dt * self.lightness / mass
        for k in range(self.contacts):
            p, _, f = self.columns(k)
            B[..., om, p] = -ease @ cross_matrix(given.f[..., k, :]) / mass
            B[..., om, f] = ease @ cross_matrix(given.p[..., k, :]) / mass
            B[..., v, f] = light * turn
        A[..., v, rot] = -light * turn @ cross_matrix(given.f.sum(-2))
        angle = dt * after.omega
        back = np.swapaxes(unit_quat_matrix(quat_exp(angle)), -1, -2)
        onwards = dt * np.linalg.inv(log_jacobian(angle))
        for matrix in (A, B):
            matrix[..., at, :] += dt * matrix[..., v, :]
            matrix[..., rot, :] += onwards @ matrix[..., om, :]
        A[..., rot, rot] += back
        return A, B


def _through(vectors: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Symmetric matrices (3, 3) or (samples, 3, 3) times vectors (..., samples, 3)."""
    return vectors @ matrices if matrices.ndim == 2 else (vectors[..., None, :] @ matrices)[..., 0, :]
