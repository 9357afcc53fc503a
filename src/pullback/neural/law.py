"""Parameters as functions of the state and control: friction of speed, drag of speed, heat loss of temperature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.checks import check_kind, check_number, check_word, unknown
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.wrapper import table_of
from pullback.neural.features import Reads
from pullback.neural.hybrid import Front, Hybrid
from pullback.neural.network import Network, perceptron

FORMS = ("factor", "sum")


class Law(Hybrid):
    """A System in which entries of a parameter are functions of state and control, in every world and step.

        value = parameter · exp(scale · net(reads)),    or parameter + scale · net(reads)

    The parameter itself remains one of the ``params``. With a last layer of zeros nothing changes. With form="factor",
    positive parameters stay positive.

    system:     any System
    module:     a ``torch.nn.Module`` from (rows, features) to (rows, entries), or sizes of hidden layers
    parameter:  its name
    entries:    an index of the entries that become functions, such as (1, 0); all if None
    reads:      as in :class:`~pullback.neural.Residual`. A function may also return (worlds, entries, features): the
                network then computes one number for each entry from its own features, such as damping from the speed of
                its joint
    form:       "factor" or "sum"
    scale:      factor of the network's output; with form="sum" in the unit of the parameter
    name:       prefix of the weights' names
    seed:       of the initial weights, if sizes of layers are given
    """

    def __init__(
        self,
        system: System,
        module: Any,
        *,
        parameter: str,
        entries: Any = None,
        reads: Sequence[str] | Callable = ("q", "v"),
        form: str = "factor",
        scale: float = 1.0,
        name: str = "law",
        seed: int = 0,
    ):
        check_kind(system, System, "system", "pb.Articulated(model)")
        table = table_of(system)
        if not isinstance(parameter, str) or parameter not in table:
            raise PullbackError(unknown("parameter", str(parameter), table))
        check_word(form, "form", FORMS)
        self.parameter, self.entries, self.form, self.seed = parameter, entries, form, seed
        self.scale, self.reads, self._reads = check_number(scale, "scale"), reads, Reads(system, reads)
        self.mask = np.zeros(table[parameter].shape, dtype=bool)
        try:
            self.mask[... if entries is None else entries] = True
        except IndexError:
            shape = self.mask.shape
            raise PullbackError(f"{entries!r} is no index of {parameter!r}, which has shape {shape}") from None
        self.count = int(self.mask.sum())
        if form == "factor" and not np.any(np.asarray(system.params[parameter])[..., self.mask]):
            raise PullbackError(f"{parameter!r} is zero, which no factor changes: set it, or use form='sum'")
        if isinstance(module, Sequence) and not isinstance(module, str):
            if self._reads.labels is None:
                raise PullbackError("sizes of layers need named reads: with a function, give a torch.nn.Module")
            module = perceptron(len(self._reads.labels), module, self.count, seed=seed)
        self.module = module
        super().__init__(system, (Network(module, name, system.dtype),), replaces=(parameter,))
        if hasattr(system, "state"):  # a module that does not fit raises an error now
            self.front(self.state(), self.default_controls(1)[0])

    def __repr__(self) -> str:
        return f"Law({self.system!r}, {self.parameter!r}, {self.networks[0].size} weights)"

    def _settings(self) -> dict[str, Any]:
        names = ("system", "module", "parameter", "entries", "reads", "form", "scale", "seed")
        return {name: getattr(self, name) for name in names} | {"name": self.networks[0].name}

    def trained(self):
        """The torch module with the current weights of the parameters."""
        return self.networks[0].with_weights(self.params)

    def _front(self, front: Front, weights) -> Front:
        import torch

        features = self._reads(front.state, front.control, rows=3)
        found = self.networks[0](weights, features if features.ndim == 3 else features[:, None])
        shape, worlds = tuple(getattr(found, "shape", ())), len(features)
        wanted = (worlds, self.count, 1) if features.ndim == 3 else (worlds, 1, self.count)
        if shape != wanted:
            size = shape[-1] if shape else type(found).__name__
            raise PullbackError(
                f"the module of {self.networks[0].name!r} gives {size} outputs, but {wanted[2]} is needed for "
                f"{self.count} entries of {self.parameter!r}"
            )
        moved = self.scale * found.reshape(worlds, self.count)
        base = front.params[self.parameter]
        base = base if base.ndim > self.mask.ndim else base[None]
        flat = base.reshape(len(base), self.mask.size).expand(worlds, -1)
        where = torch.as_tensor(np.flatnonzero(self.mask))
        value = flat[:, where] * torch.exp(moved) if self.form == "factor" else flat[:, where] + moved
        changed = flat.index_copy(1, where, value).reshape(worlds, *self.mask.shape)
        return front._replace(params={**front.params, self.parameter: changed})
