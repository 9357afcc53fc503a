"""Pinocchio's model of a robot that MuJoCo has loaded: an oracle of derivatives, and a peer in benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin


@dataclass(frozen=True)
class Pinocchio:
    """A `pinocchio.Model` of a MuJoCo model. Everything public takes and gives MuJoCo's coordinates.

    A free joint is a translation followed by a ball, so that velocities, accelerations, forces and tangents are
    MuJoCo's, number for number (linear in the world's axes, angular in the body's); only `q` is stored differently.

    With `free_flyer` it is Pinocchio's own, faster free flyer. Then `to_pinocchio`, `from_pinocchio` and `aba` still
    convert (exactly, as long as the free joint has no armature), but `aba_derivatives` is refused: that variant is for
    timing `model` and `data` directly.
    """

    model: Any
    data: Any
    order: np.ndarray  # (nq,) q_pinocchio = q_mujoco[order] - offset
    offset: np.ndarray  # (nq,)
    quaternions: tuple[int, ...]  # where each quaternion starts, the same in both
    flyers: tuple[tuple[int, int], ...]  # (q, v) addresses of the free flyers

    def to_pinocchio(self, q, v) -> tuple[np.ndarray, np.ndarray]:
        """MuJoCo's `q (nq,)`, `v (nv,)` in Pinocchio's coordinates."""
        q = np.asarray(q, dtype=np.float64)[self.order] - self.offset
        v = np.array(v, dtype=np.float64)
        for i in self.quaternions:
            q[i : i + 4] /= np.linalg.norm(q[i : i + 4])  # as MuJoCo does before use
        for i, j in self.flyers:
            v[j : j + 3] = self._rotation(q, i).T @ v[j : j + 3]
        return q, v

    def from_pinocchio(self, q, v) -> tuple[np.ndarray, np.ndarray]:
        """The inverse of `to_pinocchio`."""
        v = np.array(v, dtype=np.float64)
        for i, j in self.flyers:
            v[j : j + 3] = self._rotation(q, i) @ v[j : j + 3]
        back = np.empty(len(self.order))
        back[self.order] = np.asarray(q) + self.offset
        return back, v

    def force_to_pinocchio(self, q, tau) -> np.ndarray:
        """MuJoCo's generalised force `tau (nv,)` at MuJoCo's `q` in Pinocchio's coordinates."""
        q, tau = self.to_pinocchio(q, tau)  # a rotation turns a force as it turns a velocity
        return tau

    def aba(self, q, v, tau) -> np.ndarray:
        """Acceleration `(nv,)`; `tau` holds every generalised force but gravity and the bias."""
        tau = self.force_to_pinocchio(q, tau)
        q, v = self.to_pinocchio(q, v)
        a = pin.aba(self.model, self.data, q, v, tau).copy()
        for i, j in self.flyers:
            # v_world = R v_body, differentiated: a_world = R (a_body + w x v_body).
            a[j : j + 3] = self._rotation(q, i) @ (a[j : j + 3] + np.cross(v[j + 3 : j + 6], v[j : j + 3]))
        return a

    def aba_derivatives(self, q, v, tau) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`(da/dq, da/dv, da/dtau)`, each `(nv, nv)`, with respect to MuJoCo's tangent (that of `mj_integratePos`)."""
        if self.flyers:
            raise ValueError("free flyers have another tangent: build the model with free_flyer=False")
        q, v = self.to_pinocchio(q, v)
        da_dq, da_dv, da_dtau = pin.computeABADerivatives(self.model, self.data, q, v, np.asarray(tau, np.float64))
        return da_dq.copy(), da_dv.copy(), da_dtau.copy()

    @staticmethod
    def _rotation(q: np.ndarray, i: int) -> np.ndarray:
        x, y, z, w = q[i + 3 : i + 7]
        return pin.Quaternion(w, x, y, z).toRotationMatrix()


def pinocchio_model(mj_model, *, free_flyer: bool = False) -> Pinocchio:
    """Pinocchio's model of the tree in `mj_model`: every joint type, several joints a body, welded bodies, armature.

    Passive forces (damping, springs, fluid) and actuators are not part of it: they belong in `tau`. Pinocchio has no
    armature of tendons.
    """
    kinds = mujoco.mjtJoint
    model = pin.Model()
    gravity_off = mj_model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    model.gravity.linear = np.zeros(3) if gravity_off else mj_model.opt.gravity.copy()

    order = np.arange(mj_model.nq)
    offset = np.zeros(mj_model.nq)
    quaternions, flyers = [], []
    # Where each body's frame lies: the Pinocchio joint that carries it, and its placement there.
    carrier, placement = [0] * mj_model.nbody, [pin.SE3.Identity() for _ in range(mj_model.nbody)]

    def shift(p) -> Any:
        return pin.SE3(np.eye(3), np.array(p))

    def quaternion_at(i: int):
        order[i : i + 4] = i + np.array([1, 2, 3, 0])  # wxyz to xyzw
        quaternions.append(i)

    for body in range(1, mj_model.nbody):
        parent = mj_model.body_parentid[body]
        at = carrier[parent]
        frame = placement[parent] * pin.SE3(pin.Quaternion(*mj_model.body_quat[body]), mj_model.body_pos[body].copy())
        first = mj_model.body_jntadr[body]
        for joint in range(first, first + mj_model.body_jntnum[body]):
            kind, i, j = mj_model.jnt_type[joint], mj_model.jnt_qposadr[joint], mj_model.jnt_dofadr[joint]
            name, axis, anchor = f"joint{joint}", mj_model.jnt_axis[joint].copy(), mj_model.jnt_pos[joint]
            if kind == kinds.mjJNT_FREE:
                # Its coordinates are the pose in the world: the body's own placement does not enter.
                if free_flyer:
                    at = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), name)
                    flyers.append((int(i), int(j)))
                else:
                    at = model.addJoint(0, pin.JointModelTranslation(), pin.SE3.Identity(), name + "_position")
                    at = model.addJoint(at, pin.JointModelSpherical(), pin.SE3.Identity(), name)
                quaternion_at(i + 3)
                frame = pin.SE3.Identity()
                continue
            if kind == kinds.mjJNT_BALL:
                motion = pin.JointModelSpherical()
                quaternion_at(i)
            else:
                hinge = kind == kinds.mjJNT_HINGE
                motion = (pin.JointModelRevoluteUnaligned if hinge else pin.JointModelPrismaticUnaligned)(axis)
                offset[i] = mj_model.qpos0[i]
            # MuJoCo moves the body frame about the anchor, joint after joint: frame · T(anchor) · motion · T(-anchor).
            at = model.addJoint(at, motion, frame * shift(anchor), name)
            frame = shift(-anchor)
        carrier[body], placement[body] = at, frame

        turn = pin.Quaternion(*mj_model.body_iquat[body]).toRotationMatrix()
        spread = turn @ np.diag(mj_model.body_inertia[body]) @ turn.T
        inertia = pin.Inertia(float(mj_model.body_mass[body]), mj_model.body_ipos[body].copy(), spread)
        if at != 0:  # what is fixed to the world does not move
            model.appendBodyToJoint(at, inertia, frame)

    model.armature = mj_model.dof_armature.copy()
    if (model.nq, model.nv) != (mj_model.nq, mj_model.nv):
        raise RuntimeError(f"pinocchio counts {model.nq}, {model.nv}; MuJoCo {mj_model.nq}, {mj_model.nv}")
    return Pinocchio(model, model.createData(), order, offset, tuple(quaternions), tuple(flyers))
