"""Forces of contacts and joint limits at given joint accelerations, with their adjoint; see the kernels of that name.

They are explicit functions there. How accelerations depend on state, control and parameters is ``Instant``'s part.
"""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS, require_space, to_numpy, zeros
from pullback.core.errors import PullbackError
from pullback.dynamics.articulated import Articulated
from pullback.dynamics.params import Cotangents, KernelParams
from pullback.kernels import specialise

# Numbers of a contact or of a limit's side, in the kernels' Felt.
FIELDS = {"pos": 3, "force": 3, "moment": 3, "load": 1, "limit": 3}


class Felt:
    """What contacts and limits exert in states q, v with accelerations a (times, worlds, ...), of ContactConvex.

    values: arrays (times, worlds, contact, 3) pos [m], force [N] and moment [N·m] on the second shape of the pair, and
            load [N] along the normal (..., 1); and limit (times, worlds, limit, side, 3): distance beyond the margin,
            velocity and force. Zero where there is none.
    geoms:  (times, worlds, contact, 2), by number; normal: (times, worlds, contact, 3), from the first to the second
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
        """The kernels' struct, of zeros."""
        felt = self.kernels.Felt()
        for name, shape in self.shapes.items():
            kind = PRECISIONS[self.system.dtype] if FIELDS[name] == 1 else self.kernels.vec3
            setattr(felt, name, wp.zeros(shape, dtype=kind, device=self.system.device))
        return felt

    def _numbers(self, array: wp.array, name: str) -> np.ndarray:
        numbers = array.numpy().astype(float).reshape(*self.shapes[name], FIELDS[name])
        return numbers.reshape(*numbers.shape[:2], -1, 2, 3) if name == "limit" else numbers

    def pullback(self, bars: dict[str, np.ndarray], *, wants_params: bool) -> tuple[list[np.ndarray], dict]:
        """Cotangents of q, v and a, and of parameters, from those of the values."""
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
