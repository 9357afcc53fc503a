"""Contacts, limits, friction loss and equality constraints of a file, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import mujoco
import numpy as np

from pullback.contact.hulls import MOST_PRISMS, Hulls, prism_count
from pullback.contact.points import Points
from pullback.contact.triangles import Balls
from pullback.core.errors import PullbackError
from pullback.model import BALL, Model
from pullback.model.constraints import touching_pairs
from pullback.model.load import inertial_frames
from pullback.model.loops import Loops
from pullback.model.tendons import equality_dofs, tendon_dofs
from pullback.model.unsupported import (
    EQ_JOINT,
    EQ_TENDON,
    Complaint,
    Disable,
    Enable,
    acting_equalities,
    disabled,
    label,
    pair_label,
)

PLANE, HEIGHT_FIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)
KINDS = (PLANE, HEIGHT_FIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH)
NAMES = {int(kind): name.rpartition("_")[2].lower() for name, kind in mujoco.mjtGeom.__members__.items()}

# The number of entries of geom_size that each shape uses; a plane's are only drawn, a mesh's are its bounding box.
SIZES = {PLANE: 0, HEIGHT_FIELD: 0, SPHERE: 1, CAPSULE: 2, ELLIPSOID: 3, CYLINDER: 2, BOX: 3, MESH: 0}

# The most contacts per pair of shapes; 1 for pairs that are not listed.
MOST_CONTACTS = {
    **{(PLANE, CAPSULE): 2, (PLANE, CYLINDER): 4, (PLANE, BOX): 4, (PLANE, MESH): 4},
    **{(CAPSULE, CAPSULE): 2, (CAPSULE, BOX): 2, (BOX, BOX): 8},
    **{(CAPSULE, CYLINDER): 2, (CAPSULE, MESH): 2, (CYLINDER, CYLINDER): 4, (CYLINDER, BOX): 4},
    **{(CYLINDER, MESH): 4, (BOX, MESH): 4, (MESH, MESH): 4},
    **{(HEIGHT_FIELD, kind): 50 for kind in (SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH)},
}
# Bound of the workspace if all pairs at once would be far too many contacts: so many per shape, and some more. [1]
CONTACTS_A_SHAPE, CONTACTS_MORE = 4, 16


@dataclass(frozen=True)
class Scene:
    """Shapes that may touch, their pairs, joints and tendons with limits or friction loss, and equality constraints.

    Materials are those of the shapes, in their order, followed by one for each explicit ``<pair>``.
    """

    model: Model
    geoms: np.ndarray  # (nshape,) the geom of each shape
    kind: np.ndarray  # (nshape,) MuJoCo's type of geom
    body: np.ndarray  # (nshape,)
    plane_pairs: int  # number of pairs with a plane, or that repeat another pair: they come first
    pair_shapes: np.ndarray  # (npair, 2), the lower type first
    pair_materials: np.ndarray  # (npair, 2)
    pair_share: np.ndarray  # (npair,) weight of the first material in the mixture [1]
    pair_dim: np.ndarray  # (npair,) condim: 1, 3, 4 or 6
    pair_margin: np.ndarray  # (npair,) distance at which shapes begin to push [m]
    pair_gap: np.ndarray  # (npair,) additional distance over which adhesion still acts [m]
    pair_solref_friction: np.ndarray  # (npair, 2) as solref; zeros: the same as along the normal
    explicit: np.ndarray  # (n,) the explicit pairs that are used, by index in the file
    limited: np.ndarray  # (n,) joints with limits
    lossy: np.ndarray  # (n,) degrees of freedom with friction loss
    limited_tendons: np.ndarray  # (n,)
    lossy_tendons: np.ndarray  # (n,)
    equalities: np.ndarray  # (n,) equality constraints on joints and tendons
    loops: Loops  # equality constraints that close loops
    hulls: Hulls = field(repr=False)

    @staticmethod
    def of(model: Model) -> Scene:
        m = model.mujoco
        if m.nbody != model.nbody or m.nv != model.nv:
            raise PullbackError("this Model was changed since it was loaded: its contacts are not known (contact=None)")
        constrained = not disabled(m, Disable.mjDSBL_CONSTRAINT)
        pairs = np.zeros((0, 2), int)
        if constrained and not disabled(m, Disable.mjDSBL_CONTACT):
            pairs = touching_pairs(m)
        limits = constrained and not disabled(m, Disable.mjDSBL_LIMIT)
        losses = constrained and not disabled(m, Disable.mjDSBL_FRICTIONLOSS)

        # a constraint that no degree of freedom can move has no effect
        moving = np.array([bool(tendon_dofs(m, t)) for t in range(m.ntendon)], bool).reshape(m.ntendon)
        equalities = [e for e in acting_equalities(m, EQ_JOINT, EQ_TENDON) if equality_dofs(m, e)]
        swap = m.geom_type[pairs[:, 0]] > m.geom_type[pairs[:, 1]]
        pairs[swap] = pairs[swap, ::-1]
        explicit_of: dict[frozenset[int], list[int]] = {}
        for i, (a, b) in enumerate(zip(m.pair_geom1, m.pair_geom2, strict=True)):
            explicit_of.setdefault(frozenset((int(a), int(b))), []).append(i)
        # Several explicit pairs of the same geoms each make contacts. The broad phase finds one of them; the others are
        # tested in every step, as planes are.
        more = [len(explicit_of.get(frozenset(pair), [0])) - 1 for pair in pairs.tolist()]
        swept = np.append(m.geom_type[pairs[:, 0]] != PLANE, np.zeros(sum(more), bool))
        pairs = np.concatenate([pairs, np.repeat(pairs, more, axis=0)])
        order = np.argsort(swept, kind="stable")
        pairs, swept = pairs[order], swept[order]
        geoms, shapes = np.unique(pairs, return_inverse=True)
        shapes = shapes.reshape(pairs.shape)
        explicit: list[int] = []
        own = [explicit_of.get(frozenset(pair)) for pair in pairs.tolist()]
        rows = [_pair(m, g1, g2, of.pop() if of else None) for (g1, g2), of in zip(pairs.tolist(), own, strict=True)]
        materials = []
        for (i, j), row in zip(shapes.tolist(), rows, strict=True):
            if row["explicit"] is not None:
                materials.append((len(geoms) + len(explicit),) * 2)
                explicit.append(row["explicit"])
            else:
                materials.append({None: (i, j), 0: (i, i), 1: (j, j)}[row["only"]])
        column = lambda name, empty=(): np.array([row[name] for row in rows]).reshape(len(rows), *empty)  # noqa: E731
        return Scene(
            model=model,
            geoms=geoms,
            kind=m.geom_type[geoms],
            body=m.geom_bodyid[geoms],
            plane_pairs=int(np.sum(~swept)),
            pair_shapes=shapes,
            pair_materials=np.array(materials, int).reshape(-1, 2),
            pair_share=column("share"),
            pair_dim=column("dim"),
            pair_margin=column("margin"),
            pair_gap=column("gap"),
            pair_solref_friction=column("solref_friction", (2,)),
            explicit=np.array(explicit, int),
            limited=np.flatnonzero(m.jnt_limited) if limits else np.zeros(0, int),
            lossy=np.flatnonzero(m.dof_frictionloss > 0) if losses else np.zeros(0, int),
            limited_tendons=np.flatnonzero(moving & (m.tendon_limited > 0)) if limits else np.zeros(0, int),
            lossy_tendons=np.flatnonzero(moving & (m.tendon_frictionloss > 0)) if losses else np.zeros(0, int),
            equalities=np.array(equalities, int),
            loops=Loops.of(m),
            hulls=Hulls.of(m, geoms),
        )

    @cached_property
    def points(self) -> Points:
        """The shapes as hulls of points, for long-range contact."""
        return Points.of(self)

    @cached_property
    def balls(self) -> Balls:
        """The meshes as triangles in a hierarchy of balls, for long-range contact."""
        return Balls.of(self)

    @property
    def median_radius(self) -> float:
        """The median bounding radius of all shapes but planes [m]; 1 if there are none."""
        solid = self.geoms[self.kind != PLANE]
        return float(np.median(self.model.mujoco.geom_rbound[solid])) if len(solid) else 1.0

    @property
    def max_contacts(self) -> int:
        """The default number of contacts that the workspace holds."""
        kinds = self.kind[self.pair_shapes]
        every = sum(MOST_CONTACTS.get((int(a), int(b)), 1) for a, b in kinds)
        fields = int(np.sum(self.kind == HEIGHT_FIELD)) * MOST_CONTACTS[HEIGHT_FIELD, SPHERE]
        return min(every, CONTACTS_A_SHAPE * len(self.geoms) + CONTACTS_MORE + fields)

    @property
    def is_round(self) -> bool:
        """Whether all pairs have closed forms: with a plane, most with a sphere, or two capsules."""
        simple = {(SPHERE, SPHERE), (SPHERE, CAPSULE), (SPHERE, CYLINDER), (SPHERE, BOX), (CAPSULE, CAPSULE)}
        kinds = self.kind[self.pair_shapes].tolist()
        return all(a == PLANE or (a, b) in simple for a, b in kinds)

    @property
    def grids(self) -> tuple[np.ndarray, np.ndarray]:
        """The grids of height fields: points along y and x (nshape, 2); half widths along x and y, and depth
        (nshape, 3) [m]. Zeros for other shapes."""
        m, found = self.model.mujoco, self.kind == HEIGHT_FIELD
        points, size = np.zeros((len(self.geoms), 2), int), np.zeros((len(self.geoms), 3))
        fields = m.geom_dataid[self.geoms[found]]
        points[found] = np.stack([m.hfield_nrow[fields], m.hfield_ncol[fields]], axis=1)
        size[found] = m.hfield_size[fields][:, [0, 1, 3]]
        return points, size

    @property
    def has_side_lines(self) -> bool:
        """Whether clipping may find contacts between the side of a capsule or cylinder and a face."""
        kinds = self.kind[self.pair_shapes]
        found = (kinds[:, 0] == CAPSULE) & np.isin(kinds[:, 1], (CYLINDER, MESH))
        return bool(np.any(found | ((kinds[:, 0] == CYLINDER) & (kinds[:, 1] >= CYLINDER))))

    @property
    def own_materials(self) -> np.ndarray:
        """The shapes whose own friction, solref and solimp are used in some pair, by index."""
        return np.unique(self.pair_materials[self.pair_materials < len(self.geoms)])

    @property
    def felt_gap(self) -> np.ndarray:
        """The gaps of pairs (npair,) [m] if there is adhesion, else zeros: nothing else uses gaps."""
        return self.pair_gap if np.any(self.model.actuator_body >= 0) else np.zeros(len(self.pair_gap))

    @property
    def fences(self) -> np.ndarray:
        """Half of the largest margin of each shape (nshape,) [m]: shapes farther apart than the sum do not touch."""
        fence = np.zeros(len(self.geoms))
        for side in range(2):
            np.maximum.at(fence, self.pair_shapes[:, side], (self.pair_margin + self.felt_gap) / 2)
        return fence

    @property
    def pair_of(self) -> np.ndarray:
        """(nshape, nshape) the pair of two shapes that are not planes, or -1."""
        table = np.full((len(self.geoms),) * 2, -1, np.int32)
        first, second = self.pair_shapes[self.plane_pairs :].T
        table[first, second] = table[second, first] = np.arange(self.plane_pairs, len(self.pair_shapes))
        return table

    @property
    def max_joint_rows(self) -> int:
        """The most rows of joints and tendons: one per friction loss, two per limited joint (one for a ball joint) or
        tendon, one per equality constraint on joints or tendons, and those of loops."""
        ball = self.model.joint_type[self.limited] == BALL
        tendons = len(self.lossy_tendons) + 2 * len(self.limited_tendons)
        joints = len(self.lossy) + int(np.sum(2 - ball))
        return joints + tendons + len(self.equalities) + int(self.loops.rows.sum())

    @property
    def all_equalities(self) -> np.ndarray:
        """The equality constraints on joints and tendons, then those that close loops."""
        return np.concatenate([self.equalities, self.loops.index])

    @property
    def joint_width(self) -> int:
        """The most degrees of freedom in a row of joints, tendons or equalities; a limited ball joint has 3."""
        m = self.model.mujoco
        chains = [tendon_dofs(m, t) for t in (*self.limited_tendons, *self.lossy_tendons)]
        chains += [equality_dofs(m, e) for e in self.equalities]
        joints = 3 if np.any(self.model.joint_type[self.limited] == BALL) else 1
        return max([joints, *map(len, chains), *map(len, self.loops.chains)])

    @property
    def longest_chain(self) -> int:
        """The largest number of degrees of freedom from a tip to the root."""
        lengths: list[int] = []
        for parent in self.model.mujoco.dof_parentid:
            lengths.append(1 + (lengths[parent] if parent >= 0 else 0))
        return max(lengths, default=0)

    @property
    def noslip(self) -> bool:
        """Whether the file asks for noslip sweeps, and something has friction."""
        m = self.model.mujoco
        rubs = np.any(self.pair_dim > 1) or len(self.lossy) > 0 or len(self.lossy_tendons) > 0
        return bool(m.opt.noslip_iterations > 0 and rubs)

    @property
    def pair_ranks(self) -> np.ndarray:
        """The rank of each pair in MuJoCo's order of contacts (npair,): by bodies, with explicit pairs first."""
        m, geoms = self.model.mujoco, self.geoms[self.pair_shapes]
        bodies = np.sort(m.geom_bodyid[geoms], axis=1).reshape(-1, 2)
        material = self.pair_materials[:, 0]
        explicit = np.full(len(geoms), m.npair)
        explicit[material >= len(self.geoms)] = self.explicit[material[material >= len(self.geoms)] - len(self.geoms)]
        rank = np.empty(len(geoms), int)
        rank[np.lexsort((geoms[:, 1], geoms[:, 0], explicit, bodies[:, 1], bodies[:, 0]))] = np.arange(len(geoms))
        return rank

    @property
    def rows(self) -> int:
        """Rows per contact: 3, or 6 if one has torsional or rolling friction."""
        return 6 if np.any(self.pair_dim > 3) else 3


def geom_frames(m: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Positions (ngeom, 3) [m] and quaternions (ngeom, 4) of geoms in their bodies, as MuJoCo has them: it snaps a geom
    within 1e-6 of its body's frame, or inertial frame, to that frame."""
    same, body, kinds = m.geom_sameframe, m.geom_bodyid, mujoco.mjtSameFrame
    pos, quat = m.geom_pos.copy(), m.geom_quat.copy()
    inertia, inertia_turn = same == kinds.mjSAMEFRAME_INERTIA, same == kinds.mjSAMEFRAME_INERTIAROT
    pos[same == kinds.mjSAMEFRAME_BODY] = 0.0
    body_pos, body_quat = inertial_frames(m)
    pos[inertia] = body_pos[body[inertia]]
    quat[(same == kinds.mjSAMEFRAME_BODY) | (same == kinds.mjSAMEFRAME_BODYROT)] = (1.0, 0.0, 0.0, 0.0)
    quat[inertia | inertia_turn] = body_quat[body[inertia | inertia_turn]]
    return pos, quat


def _pair(m: mujoco.MjModel, g1: int, g2: int, explicit: int | None) -> dict:
    """The contact parameters of two geoms: those of an explicit pair, or mixed from both."""
    if explicit is not None:
        return {
            "explicit": explicit,
            "only": None,
            "share": 1.0,
            "dim": int(m.pair_dim[explicit]),
            "margin": float(m.pair_margin[explicit]),
            "gap": float(m.pair_gap[explicit]),
            "solref_friction": m.pair_solreffriction[explicit],
        }
    priority = m.geom_priority[[g1, g2]]
    only = None if priority[0] == priority[1] else int(np.argmax(priority))
    mix1, mix2 = m.geom_solmix[[g1, g2]]
    small1, small2 = mix1 < mujoco.mjMINVAL, mix2 < mujoco.mjMINVAL
    share = 0.5 if small1 and small2 else 0.0 if small1 else 1.0 if small2 else mix1 / (mix1 + mix2)
    dims = m.geom_condim[[g1, g2]]
    return {
        "explicit": None,
        "only": only,
        "share": float(share),
        "dim": int(dims.max() if only is None else dims[only]),
        "margin": float(m.geom_margin[[g1, g2]].sum()),
        "gap": float(m.geom_gap[[g1, g2]].sum()),
        "solref_friction": np.zeros(2),
    }


def contact_complaints(scene: Scene) -> Iterator[Complaint]:
    """Contacts of a file that no contact model simulates."""
    m = scene.model.mujoco
    for g in scene.geoms:
        if int(m.geom_type[g]) not in KINDS:
            kind = NAMES[int(m.geom_type[g])]
            yield "", label(m, "geom", g), f"is a {kind}, which cannot touch: set its contype and conaffinity to 0"
        if m.geom_type[g] == HEIGHT_FIELD and prism_count(m, int(m.geom_dataid[g])) > MOST_PRISMS:
            yield "", label(m, "geom", g), f"is a height field of more than {MOST_PRISMS // 2:,} cells"
        if np.any(m.geom_adhesion[g]):
            yield "", label(m, "geom", g), "has adhesion"
        if np.any(m.geom_surfacevel[g]):
            yield "", label(m, "geom", g), "has a surface velocity"
    flags = {"mjENBL_OVERRIDE": "overrides contact parameters", "mjENBL_DIAGEXACT": "asks for exact diagonals"}
    flags["mjENBL_SPECULATIVE"] = "asks for speculative contacts"
    for name, what in flags.items():
        if hasattr(Enable, name) and m.opt.enableflags & int(getattr(Enable, name)):
            yield "", "option", what
    for p in np.flatnonzero(m.pair_adhesion):
        yield "", pair_label(m, p), "has adhesion"
