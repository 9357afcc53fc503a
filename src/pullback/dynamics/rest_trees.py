"""Independent kinematic trees, and the inverse weights of a model from those of its trees.

The mass matrix has no entries between trees, unless a tendon joins them. So equal trees, such as the boxes of a pile or
the vertices of a cloth, are batched as worlds are. All other trees share one matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pullback.dynamics.rest_inertia import NAMES, RestInertia
from pullback.dynamics.tendons import TendonLayout
from pullback.model import FREE, Model
from pullback.model.model import JOINT_DOFS

# Equal trees are batched from so many on; a batch of fewer costs more calls of NumPy than its blocks save.
FEWEST_COPIES = 4
# The items that the rows of a parameter belong to. A tree takes its own rows, and all rows of other parameters.
ROWS_OF = {
    **dict.fromkeys(("mass", "com", "inertia", "body_pos", "body_quat"), "bodies"),
    **dict.fromkeys(("joint_pos", "joint_axis"), "joints"),
    "armature": "dofs",
}


@dataclass(frozen=True)
class Trees:
    """Equal trees of a model, each with its ancestors. The first body of each is the world.

    bodies, joints, dofs:  (copies, n) indices in the model
    """

    model: Model
    bodies: np.ndarray
    joints: np.ndarray
    dofs: np.ndarray

    @classmethod
    def of(cls, model: Model, copies: list[np.ndarray]) -> Trees:
        """The trees of these bodies. copies: the bodies (n,) of each tree in ascending order, without ancestors."""
        found = []
        for bodies in copies:
            carriers = {0}
            for body in map(int, bodies):
                while body not in carriers:
                    carriers.add(body)
                    body = int(model.body_parent[body])
            joints = np.flatnonzero(np.isin(model.joint_body, list(carriers)))
            firsts, kinds = model.joint_v[joints], model.joint_type[joints]
            dofs = [first + k for first, kind in zip(firsts, kinds, strict=True) for k in range(JOINT_DOFS[int(kind)])]
            found.append((np.array(sorted(carriers)), joints, np.array(dofs, int)))
        return cls(model, *(np.stack(x) for x in zip(*found, strict=True)))

    @property
    def copies(self) -> int:
        return len(self.bodies)

    @property
    def nbody(self) -> int:
        return self.bodies.shape[1]

    @property
    def njoint(self) -> int:
        return self.joints.shape[1]

    @property
    def nv(self) -> int:
        return self.dofs.shape[1]

    @property
    def mujoco(self):
        return self.model.mujoco

    # The following are properties of the first copy, in its own numbering; they are the same for all copies.

    @cached_property
    def body_number(self) -> np.ndarray:
        """(nbody of the model,) the number of each body in the tree, or -1."""
        return _numbers(self.bodies[0], self.model.nbody)

    @cached_property
    def dof_number(self) -> np.ndarray:
        return _numbers(self.dofs[0], self.model.nv)

    @cached_property
    def body_parent(self) -> np.ndarray:
        return self.body_number[self.model.body_parent[self.bodies[0]]]

    @cached_property
    def joint_type(self) -> np.ndarray:
        return self.model.joint_type[self.joints[0]]

    @cached_property
    def joint_body(self) -> np.ndarray:
        return self.body_number[self.model.joint_body[self.joints[0]]]

    @cached_property
    def joint_v(self) -> np.ndarray:
        return self.dof_number[self.model.joint_v[self.joints[0]]]

    @cached_property
    def is_light(self) -> np.ndarray:
        """Bodies on the world that only slide along its axes and have no children: MuJoCo uses 1/mass for those."""
        return self.mujoco.body_simple[self.bodies[0]] == 2

    @property
    def free_q0(self) -> np.ndarray:
        """The file's coordinates of the free bodies of each copy: (copies, n, 7)."""
        first = self.model.joint_q[self.joints[:, self.joint_type == FREE]]
        return self.model.q0[first[..., None] + np.arange(7)]

    @property
    def form(self) -> tuple:
        """A key that is the same for equal trees."""
        return tuple(x.tobytes() for x in (self.body_parent, self.joint_type, self.joint_body, self.is_light))

    # --- parameters of the trees, with copies batched as worlds ---------------------------------------

    def taken(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Parameters of the trees, (1 or worlds · copies, ...), from those of the model, (1 or worlds, ...)."""
        worlds, found = max(map(len, values.values())), dict(values)
        for name in set(values).intersection(ROWS_OF):
            own = values[name][:, getattr(self, ROWS_OF[name])]
            if self.copies > 1:
                own = np.broadcast_to(own, (worlds, *own.shape[1:]))
            found[name] = own.reshape(-1, *own.shape[2:])
        return found

    def add_bars(self, total: dict[str, np.ndarray], bars: Mapping[str, np.ndarray]) -> None:
        """The transpose of ``taken``: adds cotangents (worlds · copies, ...) to those of the model."""
        for name, bar in bars.items():
            if name in ROWS_OF:
                numbers = getattr(self, ROWS_OF[name])
                np.add.at(total[name], (slice(None), numbers), bar.reshape(-1, *numbers.shape, *bar.shape[2:]))
            else:
                total[name] += bar


def _numbers(items: np.ndarray, count: int) -> np.ndarray:
    numbers = np.full(count, -1)
    numbers[items] = np.arange(len(items))
    return numbers


class RestWeights:
    """Inverse weights (worlds, items) of a model: of all bodies for translation [1/kg], of all bodies for rotation
    [1/(kg·m²)], of all degrees of freedom, and of the tendons in a System's layout.

    names:  the parameters that they depend on
    """

    def __init__(self, model: Model, tendons: TendonLayout):
        m = model.mujoco
        self.tendon_ids = tendons.ids
        self._starts = np.cumsum([0, model.nbody, model.nbody, model.nv])
        self.items = int(self._starts[-1]) + len(tendons.ids)
        touched = _touched_bodies(model, tendons)
        joined = np.isin(m.body_treeid, np.setdiff1d(m.body_treeid[touched], -1))
        joined[touched] = True
        alike: dict[tuple, list[np.ndarray]] = {}
        for number in range(m.ntree):
            bodies = np.flatnonzero(m.body_treeid == number)
            if not joined[bodies[0]]:
                alike.setdefault(Trees.of(model, [bodies]).form, []).append(bodies)
        parts = [(Trees.of(model, copies), None) for copies in alike.values() if len(copies) >= FEWEST_COPIES]
        few = [bodies for copies in alike.values() if len(copies) < FEWEST_COPIES for bodies in copies]
        together = np.sort(np.concatenate([np.flatnonzero(joined), *few]))
        if len(together):
            parts.append((Trees.of(model, [together]), tendons if len(tendons.ids) else None))
        self.parts = [RestInertia(*part) for part in parts]
        self.names = tuple(dict.fromkeys([*NAMES, *(name for part in self.parts for name in part.names)]))

    @property
    def size(self) -> int:
        """The total size of the Jacobians of one world."""
        return sum(6 * part.trees.copies * part.trees.nbody * part.trees.nv for part in self.parts)

    def _places(self, part: RestInertia) -> np.ndarray:
        """The indices (copies, items) of a part's items among those of the model."""
        trees = part.trees
        own = trees.bodies, trees.bodies, trees.dofs, np.tile(np.arange(part.tendons), (trees.copies, 1))
        return np.concatenate([start + numbers for start, numbers in zip(self._starts, own, strict=True)], axis=1)

    def value(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inverse weights, from the parameters (1 or worlds, ...)."""
        found = np.zeros((max(map(len, values.values())), self.items))
        for part in self.parts:
            places = self._places(part)
            found[:, places] = part.value(part.trees.taken(values)).reshape(-1, *places.shape)
        return found

    def adjoint(self, values: Mapping[str, np.ndarray], bar: np.ndarray) -> dict[str, np.ndarray]:
        """Cotangents (worlds, ...) of the parameters from that of the inverse weights (1 or worlds, items)."""
        worlds = max(len(bar), *map(len, values.values()))
        bar = np.broadcast_to(bar, (worlds, bar.shape[1]))
        total = {name: np.zeros((worlds, *values[name].shape[1:])) for name in self.names}
        for part in self.parts:
            own = bar[:, self._places(part)]
            part.trees.add_bars(total, part.adjoint(part.trees.taken(values), own.reshape(-1, own.shape[-1])))
        return total


def _touched_bodies(model: Model, tendons: TendonLayout) -> np.ndarray:
    """Bodies that tendons move, or that their paths touch."""
    m = model.mujoco
    if not len(tendons.ids):
        return np.zeros(0, int)
    dofs = [d for of_one in tendons.dofs[: len(tendons.ids)] for d in of_one]
    sites = tendons.sites if tendons.spatial else np.zeros(0, int)
    return np.unique(np.concatenate([m.dof_bodyid[dofs], m.site_bodyid[sites], m.geom_bodyid[tendons.geoms]])).astype(
        int
    )
