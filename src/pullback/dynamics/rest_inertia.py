"""Inverse weights of bodies, dofs and tendons in the file's pose, as in MuJoCo (``invweight0``), with their adjoint.

MuJoCo's compiler computes them from the mass matrix M in that pose, and the Jacobian J of each body's centre of mass:

    body     a third of the trace of J M⁻¹ Jᵀ, for translation and for rotation
    dof      the diagonal of M⁻¹, averaged over the three directions of a ball joint, and over those of a free one
    tendon   J M⁻¹ Jᵀ

They scale the stiffness of constraints. All arrays have a leading axis of worlds. This runs on the host when parameters
change, and takes some ten matrix products for each kind of tree (``rest_trees.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pullback.dynamics.rest_wraps import RestWraps
from pullback.dynamics.tendons import TendonLayout
from pullback.dynamics.tree import dof_tree
from pullback.model import BALL, FREE, SLIDE
from pullback.model.model import JOINT_DOFS
from pullback.spatial import quat_bar_of_tangent, unit, unit_adjoint, unit_quat_matrix

if TYPE_CHECKING:
    from pullback.dynamics.rest_trees import Trees

# Values below this are zero for MuJoCo.
MJMINVAL = mujoco.mjMINVAL
# The parameters that all trees depend on.
NAMES = ("mass", "com", "inertia", "body_pos", "body_quat", "joint_pos", "joint_axis", "armature")
# The layout of trees without tendons.
NO_TENDONS = SimpleNamespace(
    **dict.fromkeys(("ids", "sites", "geoms", "wrapping"), np.zeros(0, int)), spatial=False, fixed=(), spans=()
)
# The entries xx yy zz xy xz yz of a symmetric matrix.
ROW, COLUMN = np.array([0, 1, 2, 0, 0, 1]), np.array([0, 1, 2, 1, 2, 2])


def _inverse(M: np.ndarray) -> np.ndarray:
    """The inverse of each matrix; NaN where one is singular, which the step reports."""
    try:
        return np.linalg.inv(M)
    except np.linalg.LinAlgError:
        none = np.full(M.shape[1:], np.nan)
        return np.stack([_inverse(one[None])[0] for one in M]) if len(M) > 1 else none[None]


class RestInertia:
    """Inverse weights (worlds, items) of some trees: of their bodies for translation [1/kg] and for rotation
    [1/(kg·m²)], of their degrees of freedom, and of the tendons that join them. Copies of a tree count as worlds.

    names:  the parameters that they depend on
    """

    def __init__(self, trees: Trees, tendons: TendonLayout | None):
        self.trees = trees
        nbody, nv, parent = trees.nbody, trees.nv, trees.body_parent
        self.names = NAMES
        dof_body, dof_parent = dof_tree(trees)
        self.dof_body = dof_body
        above = np.eye(nv, dtype=bool)  # [d, e]: e carries d, or is d
        for d, up in enumerate(dof_parent):
            if up >= 0:
                above[d] |= above[up]
        self.mask = above | above.T  # where MuJoCo keeps entries of the mass matrix
        carried = np.zeros((nbody, nv), bool)
        for i in range(1, nbody):
            carried[i] = carried[parent[i]] | (dof_body == i)
        self.carried = carried.astype(float)

        # The axis of each degree of freedom, about which it turns or along which it slides.
        self.dof_joint = np.repeat(np.arange(trees.njoint), [JOINT_DOFS[int(kind)] for kind in trees.joint_type])
        kind, number = trees.joint_type[self.dof_joint], np.arange(nv) - trees.joint_v[self.dof_joint]
        self.turns = np.where(kind == FREE, number >= 3, kind != SLIDE).astype(float)
        self.along_joint = np.flatnonzero((kind != FREE) & (kind != BALL))
        self.of_body_axes = (kind == BALL) | ((kind == FREE) & (number >= 3))
        self.of_world_axes = (kind == FREE) & (number < 3)
        self.unit_axis = np.eye(3)[number % 3]
        self.anchored = np.flatnonzero(kind != FREE)

        # Weights of the averages over the directions of ball and free joints.
        group = self.dof_joint * 2 + ((kind == FREE) & (number >= 3))
        same = group[:, None] == group
        self.averaged = same / same.sum(axis=1, keepdims=True)

        # Bodies by depth in the tree. Free bodies are placed by the file's coordinates.
        depth = np.zeros(nbody, int)
        for i in range(1, nbody):
            depth[i] = depth[parent[i]] + 1
        self.free = trees.joint_body[trees.joint_type == FREE]
        bound = np.setdiff1d(np.arange(1, nbody), self.free)
        self.levels = [bound[depth[bound] == level] for level in range(1, depth.max(initial=0) + 1)]
        self.light = trees.is_light
        self._take_tendons(NO_TENDONS if tendons is None else tendons)

    def _take_tendons(self, tendons: TendonLayout | SimpleNamespace) -> None:
        """Takes the terms of fixed tendons, and the spans of spatial ones."""
        m, nv, nbody, number = self.trees.mujoco, self.trees.nv, self.trees.nbody, self.trees.body_number
        self.tendons, self.tendon_ids = len(tendons.ids), tendons.ids
        self.wraps, self.terms = np.zeros(0, int), np.zeros((self.tendons, nv, 0))
        self.sites = tendons.sites if tendons.spatial else np.zeros(0, int)
        # Points with Jacobians: centres of mass, sites, and centres of the geoms that tendons wrap around.
        bodies = number[m.site_bodyid[self.sites]], number[m.geom_bodyid[tendons.geoms]]
        self.point_body = np.concatenate([np.arange(nbody), *bodies])
        if self.tendons:
            self.names += ("tendon_armature",)
        if any(tendons.fixed):
            self.names += ("tendon_coef",)
            self.wraps, sums = tendons.terms
            self.terms = np.zeros((self.tendons, nv, len(self.wraps)))
            for t in np.flatnonzero(tendons.fixed):
                dofs = self.trees.dof_number[tendons.dofs[t]]
                self.terms[t, dofs] = sums[tendons.first[t] : tendons.first[t + 1]]
        if len(self.sites):
            self.names += ("site_pos",)
        spans = [(t, span) for t, spans in enumerate(tendons.spans) for span in spans]
        self.span_tendon = np.array([t for t, _ in spans], int)
        self.span_weight = np.array([span.weight for _, span in spans])
        ends = np.array([span.sites for _, span in spans], int).reshape(-1, 2)
        self.span_ends = nbody + np.searchsorted(self.sites, ends).T
        self.around = RestWraps(self.trees, [span for _, span in spans], tendons.geoms, self.sites)
        if len(tendons.geoms):
            self.names += ("geom_pos", "geom_quat", "geom_size")
        self.bare = tendons.wrapping  # they have no armature

    # --- the function -------------------------------------------------------------------------------

    def value(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inverse weights, from the parameters (1 or worlds, ...)."""
        return self._forward(values).found

    def _poses(self, values: Mapping[str, np.ndarray], worlds: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions (worlds, nbody, 3) and rotations (worlds, nbody, 3, 3) of bodies in the file's pose."""
        trees = self.trees
        x, R = np.zeros((worlds, trees.nbody, 3)), np.tile(np.eye(3), (worlds, trees.nbody, 1, 1))
        free = np.tile(trees.free_q0, (worlds // trees.copies, 1, 1))
        x[:, self.free], R[:, self.free] = free[..., :3], unit_quat_matrix(unit(free[..., 3:]))
        turn = unit_quat_matrix(unit(values["body_quat"]))
        for bodies in self.levels:
            up = trees.body_parent[bodies]
            x[:, bodies] = x[:, up] + np.einsum("wbij,wbj->wbi", R[:, up], values["body_pos"][:, bodies])
            R[:, bodies] = R[:, up] @ turn[:, bodies]
        return x, R

    def _forward(self, values: Mapping[str, np.ndarray]) -> SimpleNamespace:
        """The inverse weights, ``found``, and all intermediate results that the adjoint needs."""
        worlds = max(len(values[name]) for name in self.names)
        x, R = self._poses(values, worlds)
        frames = R[:, self.dof_body]
        axis = np.where(self.of_world_axes[:, None], self.unit_axis, 0.0) + np.zeros((worlds, 1, 1))
        local = np.where(self.of_body_axes[:, None], self.unit_axis, 0.0) + np.zeros((worlds, 1, 1))
        joints = self.dof_joint[self.along_joint]
        local[:, self.along_joint] = unit(values["joint_axis"][:, joints])
        axis = axis + np.einsum("wdij,wdj->wdi", frames, local)
        place = np.zeros((worlds, self.trees.nv, 3))
        place[:, self.anchored] = values["joint_pos"][:, self.dof_joint[self.anchored]]
        anchor = x[:, self.dof_body] + np.einsum("wdij,wdj->wdi", frames, place)
        places = values["com"] + np.zeros_like(x)
        if len(self.sites):
            own = values["site_pos"][:, self.sites] + np.zeros((worlds, 1, 1))
            places = np.concatenate([places, own], axis=1)
        if len(self.around.geoms):
            own = values["geom_pos"][:, self.around.geoms] + np.zeros((worlds, 1, 1))
            places = np.concatenate([places, own], axis=1)
        point = x[:, self.point_body] + np.einsum("wbij,wbj->wbi", R[:, self.point_body], places)

        # Jacobians of points, (worlds, n, 3, nv), of which the first are centres of mass
        arm = point[:, :, None] - anchor[:, None]
        slide = np.where(self.turns[:, None] > 0, np.cross(axis[:, None], arm), axis[:, None])
        Jp = np.moveaxis(self.carried[self.point_body][..., None] * slide, -1, -2)
        J = Jp[:, : self.trees.nbody]
        turning = self.carried * self.turns
        Jr = np.moveaxis(turning[..., None] * axis[:, None], -1, -2)
        full = np.zeros((*values["inertia"].shape[:2], 3, 3))
        full[..., ROW, COLUMN] = full[..., COLUMN, ROW] = values["inertia"]
        inertia = R @ full @ np.swapaxes(R, -1, -2)
        M = self._gram(values["mass"][..., None, None] * J, J) + self._gram(inertia @ Jr, Jr)
        d = np.arange(self.trees.nv)
        M[:, d, d] += values["armature"]
        Jt, along, length, wraps = self._tendon_jacobians(values, point, R, Jp, Jr)
        if self.tendons:
            armature = values["tendon_armature"][:, self.tendon_ids, None]
            M += self.mask * (np.swapaxes(armature * Jt, -1, -2) @ Jt)
        W = _inverse(M)

        tran, turn = (np.einsum("wbid,wbid->wb", x @ W[:, None], x) / 3 for x in (J, Jr))
        light = self.light
        inverse = 1.0 / np.where(light, np.maximum(MJMINVAL, values["mass"]), 1.0)
        body = np.where(light, inverse, tran)
        body_turn = np.where(light, 0.0, turn)
        of_dof = W[:, d, d] @ self.averaged.T
        of_dof = np.where(light[self.dof_body], inverse[:, self.dof_body], of_dof)
        of_tendon = np.einsum("wtd,wtd->wt", Jt @ W, Jt)
        found = np.concatenate([body, body_turn, of_dof, of_tendon], axis=1)
        names = "worlds R x frames axis anchor point arm Jp J Jr Jt along length wraps inertia W inverse found"
        known = locals()
        return SimpleNamespace(**{name: known[name] for name in names.split()})

    def _tendon_jacobians(
        self, values: Mapping[str, np.ndarray], point: np.ndarray, R: np.ndarray, Jp: np.ndarray, Jr: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, SimpleNamespace | None]:
        """Jacobians of tendons (worlds, n, nv), directions and lengths of straight spans, and the wrapping."""
        Jt = np.zeros((len(point), self.tendons, self.trees.nv))
        if len(self.wraps):
            Jt += np.einsum("tdn,wn->wtd", self.terms, values["tendon_coef"][:, self.wraps])
        start, end = self.span_ends
        apart = point[:, end] - point[:, start]
        length = np.linalg.norm(apart, axis=-1, keepdims=True)
        along = np.where(length > 0, apart / np.where(length > 0, length, 1.0), (1.0, 0.0, 0.0))
        rows, wraps = np.einsum("wsi,wsid->wsd", along, Jp[:, end] - Jp[:, start]), None
        if len(self.around.spans):
            wraps = self.around.forward(values, point, R, Jp, Jr)
            rows[:, self.around.spans] = np.where(wraps.there[..., None], wraps.rows, rows[:, self.around.spans])
        np.add.at(Jt, (slice(None), self.span_tendon), self.span_weight[:, None] * rows)
        return Jt, along, length, wraps

    @staticmethod
    def _gram(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Σ Aᵀ B over bodies and axes: (worlds, nv, nv)."""
        flat = lambda x: x.reshape(len(x), -1, x.shape[-1])  # noqa: E731
        return np.swapaxes(flat(A), -1, -2) @ flat(B)

    # --- the adjoint --------------------------------------------------------------------------------

    def adjoint(self, values: Mapping[str, np.ndarray], bar: np.ndarray) -> dict[str, np.ndarray]:
        """Cotangents (worlds, ...) of the parameters, from that of the inverse weights (1 or worlds, items)."""
        s = self._forward(values)
        worlds, nbody, nv = s.worlds, self.trees.nbody, self.trees.nv
        W, J, Jr, Jt, light, R = s.W, s.J, s.Jr, s.Jt, self.light, s.R
        bar = bar + np.zeros((worlds, 1))
        body, body_turn, of_dof, of_tendon = np.split(bar, np.cumsum([nbody, nbody, nv]), axis=1)
        mass_bar = -np.where(light, body, 0.0) * s.inverse**2
        slid = light[self.dof_body]
        np.add.at(
            mass_bar, (slice(None), self.dof_body), np.where(slid, -of_dof, 0.0) * s.inverse[:, self.dof_body] ** 2
        )
        of_dof = np.where(slid, 0.0, of_dof) @ self.averaged
        body, body_turn = np.where(light, 0.0, body), np.where(light, 0.0, body_turn)
        tran, turn = (x[..., None, None] / 3 for x in (body, body_turn))

        # L = tr(W G), with W = M⁻¹
        G = self._gram(tran * J, J) + self._gram(turn * Jr, Jr) + np.swapaxes(of_tendon[..., None] * Jt, -1, -2) @ Jt
        d = np.arange(nv)
        G[:, d, d] += of_dof
        M_bar = -W @ G @ W
        J_bar = 2 * (tran * (J @ W[:, None]) + values["mass"][..., None, None] * (J @ M_bar[:, None]))
        Jr_bar = 2 * (turn * (Jr @ W[:, None]) + s.inertia @ Jr @ M_bar[:, None])
        mass_bar += np.einsum("wbid,wbid->wb", J @ M_bar[:, None], J)
        inertia_bar = Jr @ M_bar[:, None] @ np.swapaxes(Jr, -1, -2)  # in world axes
        own = np.swapaxes(R, -1, -2) @ inertia_bar @ R
        bars = {
            "mass": mass_bar,
            "armature": M_bar[:, d, d],
            "inertia": own[..., ROW, COLUMN] * np.where(ROW == COLUMN, 1, 2),
        }
        Jp_bar, point_bar, spin_bar = np.zeros_like(s.Jp), np.zeros_like(s.point), np.zeros_like(s.x)
        Jp_bar[:, :nbody] = J_bar
        if self.tendons:
            masked = self.mask * M_bar
            armature = values["tendon_armature"][:, self.tendon_ids, None]
            Jt_bar = 2 * (of_tendon[..., None] * (Jt @ W) + armature * (Jt @ masked))
            bars["tendon_armature"] = np.zeros((worlds, *values["tendon_armature"].shape[1:]))
            own = np.where(self.bare, 0.0, np.einsum("wtd,wtd->wt", Jt @ masked, Jt))
            bars["tendon_armature"][:, self.tendon_ids] = own
            of_points = SimpleNamespace(Jp=Jp_bar, Jr=Jr_bar, point=point_bar, spin=spin_bar)
            bars |= self._tendons_adjoint(values, s, Jt_bar, of_points)
        if len(self.wraps):
            bars["tendon_coef"] = np.zeros((worlds, *values["tendon_coef"].shape[1:]))
            bars["tendon_coef"][:, self.wraps] = np.einsum("tdn,wtd->wn", self.terms, Jt_bar)
        return bars | self._through_poses(values, s, Jp_bar, point_bar, Jr_bar, inertia_bar, spin_bar)

    def _tendons_adjoint(
        self, values: Mapping[str, np.ndarray], s: SimpleNamespace, Jt_bar: np.ndarray, bars: SimpleNamespace
    ) -> dict[str, np.ndarray]:
        """Adds the cotangents of points, of their Jacobians and of rotations, from spans; returns those of geoms."""
        start, end = self.span_ends
        pull, found = self.span_weight[:, None] * Jt_bar[:, self.span_tendon], {}
        if s.wraps is not None:
            there, own = s.wraps.there[..., None], pull[:, self.around.spans]
            found = self.around.adjoint(values, s.wraps, np.where(there, own, 0.0), s.Jp, s.Jr, bars)
            pull[:, self.around.spans] = np.where(there, 0.0, own)
        rows = s.along[..., None] * pull[..., None, :]
        np.add.at(bars.Jp, (slice(None), end), rows)
        np.subtract.at(bars.Jp, (slice(None), start), rows)
        along_bar = np.einsum("wsid,wsd->wsi", s.Jp[:, end] - s.Jp[:, start], pull)
        along_bar -= s.along * np.sum(s.along * along_bar, axis=-1, keepdims=True)
        apart_bar = np.where(s.length > 0, along_bar / np.where(s.length > 0, s.length, 1.0), 0.0)
        np.add.at(bars.point, (slice(None), end), apart_bar)
        np.subtract.at(bars.point, (slice(None), start), apart_bar)
        return found

    def _through_poses(
        self,
        values: Mapping[str, np.ndarray],
        s: SimpleNamespace,
        Jp_bar: np.ndarray,
        point_bar: np.ndarray,
        Jr_bar: np.ndarray,
        inertia_bar: np.ndarray,
        spin_bar: np.ndarray,
    ) -> dict:
        """From cotangents of Jacobians, and of inertias in world axes, to those of the parameters of poses."""
        R, x, worlds, parent = s.R, s.x, s.worlds, self.trees.body_parent
        slide_bar = self.carried[self.point_body][..., None] * np.moveaxis(Jp_bar, -2, -1)  # (worlds, n, nv, 3)
        turn_bar = (self.carried * self.turns)[..., None] * np.moveaxis(Jr_bar, -2, -1)
        turns = self.turns[:, None]
        axis_bar = np.sum(np.where(turns > 0, np.cross(s.arm, slide_bar), slide_bar), axis=1) + turn_bar.sum(axis=1)
        arm_bar = turns * np.cross(slide_bar, s.axis[:, None])
        point_bar, anchor_bar = point_bar + arm_bar.sum(axis=2), -arm_bar.sum(axis=1)
        axis_bar = np.where(self.of_world_axes[:, None], 0.0, axis_bar)  # world axes do not depend on parameters

        # Cotangents of frames: of the position, and of a rotation vector in world axes.
        x_bar = np.zeros_like(x)
        np.add.at(x_bar, (slice(None), self.point_body), point_bar)
        turned = np.cross(s.point - x[:, self.point_body], point_bar)
        np.add.at(spin_bar, (slice(None), self.point_body), turned)
        A = s.inertia @ inertia_bar
        spin_bar += 2 * np.stack(
            [A[..., 1, 2] - A[..., 2, 1], A[..., 2, 0] - A[..., 0, 2], A[..., 0, 1] - A[..., 1, 0]], axis=-1
        )
        lever = s.anchor - x[:, self.dof_body]
        np.add.at(x_bar, (slice(None), self.dof_body), anchor_bar)
        by_dof = np.cross(lever, anchor_bar) + np.cross(s.axis, axis_bar)
        np.add.at(spin_bar, (slice(None), self.dof_body), by_dof)
        shape = (worlds, self.trees.njoint, 3)
        back = lambda frames, bar: np.einsum("w...ji,w...j->w...i", frames, bar)  # noqa: E731
        local, place = back(s.frames, axis_bar), back(s.frames, anchor_bar)
        places, nbody = back(R[:, self.point_body], point_bar), self.trees.nbody
        bars = {"com": places[:, :nbody], "joint_pos": np.zeros(shape), "joint_axis": np.zeros(shape)}
        if len(self.sites):
            bars["site_pos"] = np.zeros((worlds, *values["site_pos"].shape[1:]))
            bars["site_pos"][:, self.sites] = places[:, nbody : nbody + len(self.sites)]
        if len(self.around.geoms):
            bars["geom_pos"] = np.zeros((worlds, *values["geom_pos"].shape[1:]))
            bars["geom_pos"][:, self.around.geoms] = places[:, nbody + len(self.sites) :]
        np.add.at(bars["joint_pos"], (slice(None), self.dof_joint[self.anchored]), place[:, self.anchored])
        joints = self.dof_joint[self.along_joint]
        bars["joint_axis"][:, joints] = unit_adjoint(values["joint_axis"][:, joints], local[:, self.along_joint])

        bars |= {"body_pos": np.zeros_like(x), "body_quat": np.zeros((*x.shape[:2], 4))}
        for bodies in reversed(self.levels):
            up = parent[bodies]
            bars["body_pos"][:, bodies] = back(R[:, up], x_bar[:, bodies])
            turn = back(R[:, bodies], spin_bar[:, bodies])
            bars["body_quat"][:, bodies] = quat_bar_of_tangent(values["body_quat"][:, bodies], turn)
            moved = spin_bar[:, bodies] + np.cross(x[:, bodies] - x[:, up], x_bar[:, bodies])
            np.add.at(x_bar, (slice(None), up), x_bar[:, bodies])
            np.add.at(spin_bar, (slice(None), up), moved)
        return bars
