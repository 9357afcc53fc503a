"""Tendons, as the kernels' struct: their entries per degree of freedom, and their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from pullback.contact import Scene
from pullback.core.arrays import PRECISIONS
from pullback.dynamics.tree import dof_tree
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.actuators import felt_actuators, has_more_actuators, moved_by
from pullback.model.tendons import equality_dofs, equality_members, spans_of, tendon_dofs, wraps_of
from pullback.model.unsupported import EQ_JOINT, spatial_tendons, wrapping_tendons

if TYPE_CHECKING:
    from pullback.dynamics.weights import InverseWeights


class TendonLayout:
    """The rows of a System along combinations of dofs, of three kinds: tendons; actuators that act on no hinge, slide
    or tendon and whose velocity feedback is implicit; and joints in equality constraints, one dof with coefficient 1.

    ids:      (n,) the tendons, by their index in the file
    felt:     (l,) the actuators
    joints:   (m,) the joints
    dofs:     the dofs of each row of all three kinds, the last dof first
    fixed:    (n,) whether a tendon is a sum of joint coordinates
    spans:    (n,) the spans of each tendon; empty if it is fixed
    sites:    the sites on tendons' paths, their side sites, and the sites of actuators
    geoms:    the geoms that tendons may wrap around
    """

    def __init__(self, model: Model, scene: Scene | None):
        m = self.mujoco = model.mujoco
        self.model, self.scene = model, scene
        equalities = [] if scene is None else scene.equalities
        used, joints = set(model.acting_tendons.tolist()), set()
        if scene is not None:
            used |= {*scene.limited_tendons.tolist(), *scene.lossy_tendons.tolist()}
        for e in equalities:
            (joints if m.eq_type[e] == EQ_JOINT else used).update(equality_members(m, e))
        self.ids, self.joints = np.array(sorted(used), int), np.array(sorted(joints), int)
        self.felt = felt_actuators(model)
        self.dofs = [tendon_dofs(m, t) for t in self.ids] + [moved_by(model, k) for k in self.felt]
        self.dofs += [[int(m.jnt_dofadr[j])] for j in self.joints]
        self.first = np.concatenate([[0], np.cumsum([len(dofs) for dofs in self.dofs])]).astype(int)
        spatial = spatial_tendons(m)
        self.fixed = [not spatial[t] for t in self.ids]
        self.spans = [[] if fixed else spans_of(m, t) for t, fixed in zip(self.ids, self.fixed, strict=True)]
        spans = [span for of_one in self.spans for span in of_one]
        on_paths = {site for span in spans for site in (*span.sites, span.side) if site >= 0}
        self.sites = np.union1d(model.pushed_sites, np.array(sorted(on_paths), int)).astype(int)
        self.geoms = np.unique([span.geom for span in spans if span.geom >= 0]).astype(int)

    def __bool__(self) -> bool:
        return bool(self.dofs)

    @property
    def adheres(self) -> bool:
        """Whether there are adhesion actuators."""
        return self.scene is not None and bool(np.any(self.model.actuator_body >= 0))

    @property
    def spatial(self) -> bool:
        """Whether one of the tendons is spatial."""
        return not all(self.fixed)

    @property
    def wrapping(self) -> np.ndarray:
        """(n,) whether each tendon may wrap around geoms."""
        return wrapping_tendons(self.mujoco)[self.ids]

    @property
    def shapes(self) -> np.ndarray:
        """The geoms of the kernels' shapes: those of the scene, then others that tendons wrap around."""
        known = np.zeros(0, int) if self.scene is None else self.scene.geoms
        return np.concatenate([known, np.setdiff1d(self.geoms, known)]).astype(int)

    def switches(self) -> dict[str, bool]:
        """Fields of a Flavour: which kernel features the System needs of those that are about tendons and actuators."""
        sites, loops = len(self.model.pushed_sites) > 0, self.scene is not None and len(self.scene.loops.index) > 0
        motors, actuators = len(self.model.motors.ids) > 0, has_more_actuators(self.model)
        activations, orientations = self.model.na > 0 or motors, len(self.model.orientations.ids) > 0
        return {
            "tendons": bool(self) or sites or activations or actuators or self.adheres or orientations,
            "spatial": self.spatial,
            "wraps": len(self.geoms) > 0,
            "sites": sites,
            "loops": loops,
            "activations": activations,
            "actuators": actuators,
            "motors": motors,
            "delays": len(self.model.delays.ids) > 0,
            "adhesion": self.adheres,
            "orientations": orientations,
        }

    @property
    def entries(self) -> int:
        """The number of entries in the rows of all kinds."""
        return int(self.first[-1])

    @property
    def own_entries(self) -> int:
        """The number of entries in the rows of tendons."""
        return int(self.first[len(self.ids)])

    @property
    def terms(self) -> tuple[np.ndarray, np.ndarray]:
        """The terms (n,) of fixed tendons, and a 0-1 table (entries, n) of which terms are summed in each entry."""
        m = self.mujoco
        wraps = np.array([w for t in self.ids[self.fixed] for w in wraps_of(m, t)], int)
        table, column = np.zeros((self.own_entries, len(wraps))), 0
        for number in np.flatnonzero(self.fixed):
            t = self.ids[number]
            for w in wraps_of(m, t):
                dof = int(m.jnt_dofadr[m.wrap_objid[w]])
                table[self.first[number] + self.dofs[number].index(dof), column] = 1.0
                column += 1
        return wraps, table

    def number(self, kind: int, member: int) -> int:
        """The row of a joint or tendon in an equality constraint."""
        if kind == EQ_JOINT:
            return len(self.ids) + len(self.felt) + int(np.searchsorted(self.joints, member))
        return int(np.searchsorted(self.ids, member))

    def struct(self, flavour: Flavour, weights: InverseWeights, device: str):
        """The kernels' Tendons."""
        m, scene = self.mujoco, self.scene
        module = specialise(flavour, "rows")
        tendons, precision = module.Tendons(), flavour.precision
        ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
        real = PRECISIONS[precision]

        def reals(x, dtype=real, width: int = 0):
            x = np.asarray(x, dtype=precision)
            return wp.array(np.pad(x, ((0, 0), (0, width - x.shape[1]))) if width else x, dtype=dtype, device=device)

        dof_q = np.zeros(m.nv, int)
        for j in range(m.njnt):
            dof_q[m.jnt_dofadr[j]] = m.jnt_qposadr[j]
        dofs = [d for of_one in self.dofs for d in of_one]
        tendons.first, tendons.dof, tendons.q = ints(self.first), ints(dofs), ints(dof_q[dofs])
        tendons.own, tendons.inert, pairs = len(self.ids), len(self.ids) + len(self.felt), self._pairs()
        tendons.own_pairs = int(np.count_nonzero(pairs[:, 0] < len(self.ids)))
        tendons.pair_tendon, tendons.pair_below, tendons.pair_above = (ints(x) for x in pairs.T)
        pulled = self.model.actuator_tendon
        on_joint = np.where(self.model.actuator_site >= 0, -2, -1)
        on_joint[self.model.motors.others] = -3
        on_joint[self.model.orientations.controls] = -5
        if self.adheres:
            on_joint[self.model.actuator_body >= 0] = -4
        tendons.actuator = ints(np.where(pulled >= 0, np.searchsorted(self.ids, pulled), on_joint))
        empty = np.zeros(0, int)
        limited, lossy, equalities = (
            (empty, empty, empty) if scene is None else (scene.limited_tendons, scene.lossy_tendons, scene.equalities)
        )
        tendons.limit, tendons.loss = (ints(np.searchsorted(self.ids, x)) for x in (limited, lossy))
        tendons.equality_weight = ints(weights.equality)
        self._relate(tendons, equalities, ints, reals)
        return tendons

    def _pairs(self) -> np.ndarray:
        """(n, 3): a row, and two of its entries, where the second one's dof is an ancestor of the first one's."""
        parent = dof_tree(self.model)[1]
        above = np.zeros((len(parent), len(parent)), bool)
        for d, up in enumerate(parent):
            if up >= 0:
                above[d], above[d, up] = above[up], True
        found = [
            (number, self.first[number] + i, self.first[number] + j)
            for number, dofs in enumerate(self.dofs)
            for i, d in enumerate(dofs)
            for j, e in enumerate(dofs)
            if above[d, e]
        ]
        self.above = above
        return np.array(found, int).reshape(-1, 3)

    def _relate(self, tendons, equalities, ints, reals) -> None:
        """Sets the equality constraints, and whether a row of any kind couples different branches."""
        m = self.mujoco
        one, two, rest, first, chain = [], [], [], [0], []
        entries: tuple[list[int], list[int]] = ([], [])
        for e in map(int, equalities):
            kind, members = int(m.eq_type[e]), equality_members(m, e)
            numbers = [self.number(kind, member) for member in members]
            is_joint = kind == EQ_JOINT
            rests = m.qpos0[m.jnt_qposadr[members]] if is_joint else m.tendon_length0[members]
            one.append(numbers[0])
            two.append(numbers[1] if len(numbers) > 1 else -1)
            rest.append(np.resize(np.append(rests, 0.0), 2))
            dofs = equality_dofs(m, e)
            chain += dofs
            first.append(len(chain))
            for side in range(2):
                own = self.dofs[numbers[side]] if side < len(numbers) else []
                at = self.first[numbers[side]] if side < len(numbers) else 0
                entries[side].extend(at + own.index(d) if d in own else -1 for d in dofs)
        tendons.equality_one, tendons.equality_two = ints(one), ints(two)
        tendons.equality_rest = reals(np.reshape(rest, (-1, 2)))
        tendons.equality_first, tendons.equality_dof = ints(first), ints(chain)
        tendons.equality_entry_one, tendons.equality_entry_two = (ints(x) for x in entries)
        chains = [*self.dofs[: len(self.ids)], *(chain[a:b] for a, b in zip(first, first[1:], strict=False))]
        tendons.coupled = int(any(not self.above[d, e] for x in chains for d, e in zip(x, x[1:], strict=False)))


def tendon_sizes(layout: TendonLayout) -> dict[str, tuple[int, ...]]:
    """The lengths of the arrays of ``kernels/contact/rows.py`` that tendons need."""
    return {"tendon": (len(layout.dofs),), "tendon entry": (layout.entries,)}
