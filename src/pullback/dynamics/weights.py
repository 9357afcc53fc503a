"""The inverse weights of constraints, which scale their stiffness, in the form that kernels read.

Kernels have one number per combination that some constraint needs: for a contact the sum of both bodies' weights, for a
joint limit the weight of its dof. Constraints hold indices into these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pullback.contact import Contact, Scene
from pullback.core.params import Derived, Parameter
from pullback.dynamics.fluid_box import FluidBox
from pullback.dynamics.rest_trees import RestWeights
from pullback.dynamics.tendons import TendonLayout
from pullback.model import Model
from pullback.model.tendons import equality_members
from pullback.model.unsupported import EQ_JOINT

# The most numbers in the Jacobians of worlds that are evaluated in one batch: some 100 MB in total.
NUMBERS_AT_ONCE = 1 << 20


class InverseWeights:
    """The inverse weights that the constraints of a System need, and the indices of each constraint's.

    pair, limit, loss, tendon_limit, tendon_loss, equality: (n,) indices; loop: (n, 2) indices, for translation and
    rotation
    """

    def __init__(self, model: Model, scene: Scene | None, contact: Contact | None, tendons: TendonLayout):
        m = model.mujoco
        self.rest = RestWeights(model, tendons) if contact is not None and contact.follows_inertia else None
        self._members, self.compiled = np.zeros((0, 2), int), np.zeros(0)
        none = np.zeros(0, int)
        self.pair = self.limit = self.loss = self.tendon_limit = self.tendon_loss = self.equality = none
        self.loop = np.zeros((0, 2), int)
        if scene is None:
            return
        nbody, first_dof, first_tendon = m.nbody, 2 * m.nbody, 2 * m.nbody + m.nv
        of_tendons = m.tendon_invweight0[tendons.ids] if len(tendons.ids) else np.zeros(0)
        self.compiled = np.concatenate([*m.body_invweight0.T, m.dof_invweight0, of_tendons])
        nothing = len(self.compiled)
        dof_of = lambda joints: first_dof + m.jnt_dofadr[joints]  # noqa: E731
        tendon_of = lambda ids: first_tendon + np.searchsorted(tendons.ids, ids)  # noqa: E731
        equalities = np.full((len(scene.equalities), 2), nothing)
        for row, e in enumerate(map(int, scene.equalities)):
            members = np.array(equality_members(m, e))
            equalities[row, : len(members)] = (dof_of if m.eq_type[e] == EQ_JOINT else tendon_of)(members)
        loops = scene.loops.body.reshape(-1, 2)
        single = (dof_of(scene.limited), first_dof + scene.lossy)
        single += (tendon_of(scene.limited_tendons), tendon_of(scene.lossy_tendons))
        single = [np.stack([x, np.full_like(x, nothing)], axis=-1) for x in single]
        members = [scene.body[scene.pair_shapes], *single, equalities, loops, nbody + loops]
        rows = np.sort(np.concatenate([np.reshape(x, (-1, 2)) for x in members]), axis=1)
        self._members, numbers = np.unique(rows, axis=0, return_inverse=True)
        numbers = np.split(numbers.ravel(), np.cumsum([len(x) for x in members]))
        self.pair, self.limit, self.loss, self.tendon_limit, self.tendon_loss, self.equality = numbers[:6]
        self.loop = np.stack(numbers[6:8], axis=-1)

    def __len__(self) -> int:
        return len(self._members)

    def _combined(self, weights: np.ndarray) -> np.ndarray:
        padded = np.pad(weights, ((0, 0), (0, 1)))
        return padded[:, self._members].sum(axis=-1)

    def field(self, table: Mapping[str, Parameter]) -> Derived:
        """The kernels' field. At the file's values it has exactly the bits of MuJoCo's compiler."""
        if self.rest is None:
            return Derived((), self._of_file, self._no_bars)
        self._start = {name: np.asarray(table[name].value, np.float64) for name in self.rest.names}
        return Derived(self.rest.names, self._value, self._adjoint)

    def _of_file(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return self._combined(self.compiled[None])

    def _no_bars(self, values: Mapping[str, np.ndarray], bar: np.ndarray) -> dict[str, np.ndarray]:
        return {}

    def _value(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        worlds = max(map(len, values.values()))
        same = np.ones(worlds, bool)
        for name, value in values.items():
            same &= np.all((value == self._start[name]).reshape(len(value), -1), axis=1)
        weights = np.repeat(self.compiled[None], worlds, axis=0)
        for some in self._portions(np.flatnonzero(~same)):
            weights[some] = self.rest.value(_of_worlds(values, some))
        return self._combined(weights)

    def _adjoint(self, values: Mapping[str, np.ndarray], bar: np.ndarray) -> dict[str, np.ndarray]:
        worlds = max(len(bar), *map(len, values.values()))
        bars = {name: np.zeros((worlds, *value.shape[1:])) for name, value in values.items()}
        bar = bar + np.zeros((worlds, 1))
        weight_bar = np.zeros((worlds, len(self.compiled) + 1))
        for side in range(2):
            np.add.at(weight_bar, (slice(None), self._members[:, side]), bar)
        for some in self._portions(np.flatnonzero(np.any(bar != 0, axis=1))):
            found = self.rest.adjoint(_of_worlds(values, some), weight_bar[some, :-1])
            for name, value in found.items():
                bars[name][some] = value
        return bars

    def _portions(self, worlds: np.ndarray) -> list[np.ndarray]:
        size = max(1, NUMBERS_AT_ONCE // max(1, self.rest.size))
        return [worlds[i : i + size] for i in range(0, len(worlds), size)]


def derived_fields(model: Model, table: Mapping[str, Parameter], weights: InverseWeights) -> dict[str, Derived]:
    """The kernels' fields that are functions of several parameters together, by name."""
    fields = {"weight": weights.field(table)} if len(weights) else {}
    return fields | ({"fluid_box": FluidBox(model).field()} if "fluid_box" in table else {})


def _of_worlds(values: Mapping[str, np.ndarray], some: np.ndarray) -> dict[str, np.ndarray]:
    """The values of some worlds; values that all worlds share are unchanged."""
    return {name: value if len(value) == 1 else value[some] for name, value in values.items()}
