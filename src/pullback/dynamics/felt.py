"""Forces of contacts and joint limits at given joint accelerations, with their adjoint; see the kernels ``felt``.

They are explicit functions of q, v and accelerations. How accelerations depend on state, control and parameters is in
``Instant``.
"""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS, require_space, to_numpy, zeros
from pullback.core.errors import PullbackError
from pullback.dynamics.articulated import Articulated
from pullback.dynamics.params import Cotangents, KernelParams
from pullback.kernels import specialise

# Numbers per contact, or per side of a limit, in the kernels' struct Felt.
FIELDS = {"pos": 3, "force": 3, "moment": 3, "load": 1, "limit": 3}


class Felt:
    """The forces of contacts and limits in states q, v with accelerations a (times, worlds, ...), of ContactConvex.

    values: arrays (times, worlds, contact, 3) pos [m], force [N] and moment [N·m] on the second shape of the pair;
            load (times, worlds, contact, 1) [N], the normal force; and limit (times, worlds, limit, side, 3): distance
            beyond the margin, velocity and force. Zero where there is no contact.
    geoms:  (times, worlds, contact, 2) indices of geoms; normal: (times, worlds, contact, 3), from the first to the
            second
    """

    def __init__(self, system: Articulated, held: KernelParams, q, v, a):
        self.system, self.held = system, held
        self.kernels, scene = specialise(system._flavour, "felt"), system._scene
        self.given = [wp.clone(system._own(x)) for x in (q, v, a)]
        times, most = len(q), system.max_contacts
        lead = (times, system.worlds)
        require_space(
            (*lead, most), self.kernels.vec3, system.device, "the contacts of all states", "use fewer at once"
        )
        self.shapes = {name: (*lead, most) for name in FIELDS} | {"limit": (*lead, 2 * len(scene.limited))}
        felt = self._struct()
        normal = wp.zeros((*lead, most), dtype=self.kernels.vec3, device=system.device)
        pair = wp.zeros((*lead, most), dtype=wp.int32, device=system.device)
        count = wp.zeros(lead, dtype=wp.int32, device=system.device)
        system._launch(
            self.kernels.feel,
            (system._tree, system._shapes, held.struct),
            (),
            (*self.given, felt, normal, pair, count),
            with_contacts=True,
        )
        found = count.numpy()
        if found.max(initial=0) > most:
            world = int(np.argwhere(found > most)[0][1])
            raise PullbackError(
                f"world {world} has more than {most} contacts: use a higher max_contacts", worlds=[world]
            )
        there = np.arange(most) < found[..., None]
        self.geoms = np.where(there[..., None], scene.geoms[scene.pair_shapes[pair.numpy()]], -1)
        self.normal = normal.numpy().astype(float)
        self.values = {name: self._numbers(getattr(felt, name), name) for name in FIELDS}

    def _struct(self):
        """The kernels' struct, filled with zeros."""
        felt = self.kernels.Felt()
        for name, shape in self.shapes.items():
            kind = PRECISIONS[self.system.dtype] if FIELDS[name] == 1 else self.kernels.vec3
            setattr(felt, name, wp.zeros(shape, dtype=kind, device=self.system.device))
        return felt

    def _numbers(self, array: wp.array, name: str) -> np.ndarray:
        numbers = array.numpy().astype(float).reshape(*self.shapes[name], FIELDS[name])
        return numbers.reshape(*numbers.shape[:2], -1, 2, 3) if name == "limit" else numbers

    def pullback(self, bars: dict[str, np.ndarray], *, wants_params: bool) -> tuple[list[np.ndarray], dict]:
        """Cotangents of q, v, a and parameters, from those of the values."""
        system, dtype = self.system, self.system.dtype
        felt = self._struct()
        for name, bar in bars.items():
            flat = np.ascontiguousarray(bar.reshape(*self.shapes[name], FIELDS[name]), dtype=dtype)
            array = getattr(felt, name)
            wp.copy(array, wp.array(flat.squeeze(-1) if FIELDS[name] == 1 else flat, dtype=array.dtype))
        params_bar = Cotangents(self.held, wanted=wants_params)
        given_bars = [zeros(x.shape, dtype, system.device) for x in self.given]
        system._launch(
            self.kernels.feel_adjoint,
            (system._tree, system._shapes, self.held.struct, params_bar.struct),
            (),
            (*self.given, felt, int(wants_params), *given_bars),
            with_contacts=True,
        )
        return [to_numpy(x) for x in given_bars], params_bar.named()
