"""A network that corrects the control or another input of a System."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_kind, check_whole, check_word, shown, unknown
from pullback.core.errors import PullbackError
from pullback.core.system import System, input_shape
from pullback.core.trees import leaves, tree_map
from pullback.dynamics.driven import Layer, Wiring
from pullback.neural.features import Ranges, Reads, Violations
from pullback.neural.hybrid import Front, Hybrid, check_where
from pullback.neural.in_kernel import KERNEL, InKernel, perceptron_layers, refuse
from pullback.neural.network import Network, perceptron

FORMS = ("free", "dissipative", "conservative")
STARTING_DAMPING = 1e-3  # of dissipative forms with a perceptron made here: at zero, the gradient would be zero [scale]


class Residual(Hybrid):
    """A System whose control, or one of its other inputs, is corrected by a network of state and control.

        u' = u + scale · net(reads),    or an additional force or wrench

    The result is a System like the inner one, with the weights among its ``params``: "net.0.weight" and so on. With a
    last layer of zeros, it equals the inner System to the last bit.

    system:   any System
    module:   a ``torch.nn.Module`` from (rows, features) to (rows, outputs), which is copied; or sizes of hidden
              layers, such as (32, 32), for a perceptron whose last layer is zero
    reads:    the features that the network gets: see :class:`Reads`
    adds:     "control"; or the name of one of the System's inputs: "force" (along degrees of freedom, [N·m or N]) or
              "wrench" (torque and force on bodies in world axes, [N·m, N]) of a robot
    on:       the actuators, joints or bodies that are corrected, by name or index; all if None
    scale:    the correction for an output of one: one number, or one per output, in the units of the corrected input;
              for a dissipative form one number, or one per degree of freedom; for a conservative one, one number
    form:     of a force: "free"; "dissipative": -L Lᵀ v, where the network computes the n (n + 1) / 2 entries of L row
              by row, so that it only removes energy from the n degrees of freedom it acts on; "conservative": -dV/dq,
              where the network computes V from coordinates alone
    name:     prefix of the weights' names
    ranges:   of the features in training: see :meth:`calibrated`
    normalise: whether the network gets features in units of their standard deviation over the ranges; None: only a
              perceptron that is made here does
    where:    "torch": between steps; or "kernel": inside a robot's kernels, so that a rollout is one launch, for
              perceptrons with tanh, softsign, ELU or ReLU, named reads and the free form
    seed:     of the initial weights, if sizes of layers are given
    """

    def __init__(
        self,
        system: System,
        module: Any,
        *,
        reads: Sequence[str] | Callable = ("q", "v", "u"),
        adds: str = "control",
        on: Sequence | None = None,
        scale: Any = 1.0,
        form: str = "free",
        name: str = "net",
        ranges: Ranges | None = None,
        normalise: bool | None = None,
        where: str = "torch",
        seed: int = 0,
    ):
        check_kind(system, System, "system", "pb.Articulated(model)")
        self.adds, self.on, self.form, self.seed = adds, on, form, seed
        self.where = check_where(where)
        if not isinstance(adds, str):
            raise PullbackError(f"adds is 'control' or the name of an input, not {shown(adds)}")
        if adds != "control":
            if adds not in system.inputs:
                raise PullbackError(unknown("input", str(adds), ["control", *system.inputs]))
            shape = input_shape(system, adds)
        else:
            shape = (system.nu,)
        if not shape[0]:
            raise PullbackError(f"there is no {adds} to add to: the System has none")
        check_word(form, "form", FORMS)
        if form != "free" and adds != "force":
            raise PullbackError(f"a {form} form is of a force: use adds='force'")
        self.shape = shape
        self.places = _places(system, adds, on, shape[0])
        self.reads = reads
        self._reads = Reads(system, reads)
        outputs = _outputs(form, len(self.places), shape)
        count = None if self._reads.labels is None else len(self._reads.labels)
        if form == "conservative":
            if on is not None:
                raise PullbackError("a conservative force is along all degrees of freedom: leave on out")
            if not callable(reads) and (other := set(self._reads.reads) - {"q", "angles", "position"}):
                raise PullbackError(f"a conservative force depends on coordinates alone: do not read {other.pop()!r}")
        made_here = isinstance(module, Sequence) and not isinstance(module, str)
        self.normalise = made_here if normalise is None else bool(normalise)
        if made_here:
            if count is None:
                raise PullbackError("sizes of layers need named reads: with a function, give a torch.nn.Module")
            module = perceptron(count, module, outputs, seed=seed)
            if form == "dissipative":
                _damp(module, len(self.places))
        self.module = module
        size = len(self.places) if form == "dissipative" else outputs
        found = to_numbers(scale, "scale").astype(float)
        if found.shape not in ((), (size,)) or not np.all((found > 0) & np.isfinite(found)):
            raise PullbackError(f"scale must be positive: one number or ({size},), not {shown(scale)}")
        self.scale = found.reshape(()) if form == "conservative" else found  # a single scale, of the potential
        self.ranges = ranges
        if ranges is not None:
            check_kind(ranges, Ranges, "ranges", "Ranges.of(features)")
            if count is not None and np.shape(ranges.low) != (count,):
                raise PullbackError(f"ranges are of {len(ranges.low)} features, but the network reads {count}")
        network = Network(module, name, system.dtype)
        super().__init__(system, (network,))
        self._outputs = outputs
        if hasattr(system, "state"):  # a module that does not fit raises an error now
            self.front(self.state(), self.default_controls(1)[0])
        if self.where == KERNEL:
            layers, sources = perceptron_layers(self.networks[0])
            self._kernel = InKernel(self, sources, self._wiring(layers))

    def __repr__(self) -> str:
        return f"Residual({self.system!r}, adds={self.adds!r}, {self.networks[0].size} weights)"

    def _settings(self) -> dict[str, Any]:
        names = ("system", "module", "reads", "adds", "on", "scale", "form", "ranges", "normalise", "where", "seed")
        return {name: getattr(self, name) for name in names} | {"name": self.networks[0].name}

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the features."""
        return self._reads.labels or ()

    def trained(self):
        """The torch module with the current weights of the parameters."""
        return self.networks[0].with_weights(self.params)

    # --- the front -------------------------------------------------------------------------------------------------

    def _front(self, front: Front, weights) -> Front:
        import torch

        state = front.state
        if self.form == "conservative":
            force = self._conservative(state, weights)
        else:
            out = self._network(self._reads(state, front.control), weights)
            force = self._dissipative(out, state.v) if self.form == "dissipative" else out
        if self.form != "dissipative":
            force = force * torch.as_tensor(self.scale, dtype=force.dtype)
        if self.adds == "control":
            return front._replace(control=_scatter(front.control, self.places, force))
        given = front.inputs.get(self.adds)
        if given is None:
            given = torch.zeros((len(force), *self.shape), dtype=force.dtype)
        added = _scatter(given, self.places, force.reshape(len(force), len(self.places), *self.shape[1:]))
        return front._replace(inputs={**front.inputs, self.adds: added})

    def _wiring(self, layers: list[Layer]) -> Wiring:
        """The Wiring of the network, for kernels."""
        if self.form != "free":
            raise refuse(f"a {self.form} form needs torch")
        if self.adds not in ("control", "force", "wrench"):
            raise refuse(f"kernels add to control, force or wrench, not to {self.adds!r}")
        features = self._reads.wires()
        centre, gain = np.zeros(len(features)), np.ones(len(features))
        if self.ranges is not None and self.normalise:
            centre, gain = np.asarray(self.ranges.centre), 1.0 / np.asarray(self.ranges.spread)
        each = int(np.prod(self.shape[1:], dtype=int))
        places = (each * self.places[:, None] + np.arange(each)).reshape(1, -1)
        scale = np.broadcast_to(self.scale, self._outputs)
        return Wiring(layers, [features], self.adds, places, scale, centre, gain, controls=self.nu)

    def _network(self, features, weights):
        import torch

        if self.ranges is not None and self.normalise:
            centre, spread = (
                torch.as_tensor(x, dtype=features.dtype) for x in (self.ranges.centre, self.ranges.spread)
            )
            features = (features - centre) / spread
        found = self.networks[0](weights, features[:, None])
        shape = tuple(getattr(found, "shape", ()))
        if shape != (len(features), 1, self._outputs):
            size = shape[-1] if shape else type(found).__name__
            raise PullbackError(
                f"the module of {self.networks[0].name!r} gives {size} outputs for each world, but adds={self.adds!r} "
                f"needs {self._outputs}"
            )
        return found[:, 0]

    def _dissipative(self, out, v):
        """-S L Lᵀ S v, with S the root of the scale: scaling on one side only could make some motions gain energy."""
        import torch

        n = len(self.places)
        rows, columns = np.tril_indices(n)
        factor = torch.zeros((len(out), n, n), dtype=out.dtype)
        factor = factor.index_put((torch.arange(len(out))[:, None], *map(torch.as_tensor, (rows, columns))), out)
        root = torch.as_tensor(np.sqrt(np.broadcast_to(self.scale, n)), dtype=out.dtype)
        factor = root[:, None] * factor
        slow = factor.mT @ v[:, self.places, None]
        return -(factor @ slow)[..., 0]

    def _conservative(self, state, weights):
        """-dV/dq, along the degrees of freedom."""
        import torch

        with torch.enable_grad():
            q = state.q if state.q.requires_grad else state.q.detach().requires_grad_()
            potential = self._network(self._reads(state._replace(q=q), None if callable(self.reads) else q), weights)
            (slope,) = torch.autograd.grad(potential.sum(), q, create_graph=True)
        return -tangent_of(self.system.model, q, slope)

    # --- ranges ----------------------------------------------------------------------------------------------------

    def features(self, states, controls) -> np.ndarray:
        """The features (rows, worlds, n) of states (rows, worlds, ...) and controls (rows, worlds, nu)."""
        import torch

        with torch.no_grad():
            lead = np.shape(leaves(states)[0])[:2]
            for x in (*leaves(states), controls):
                if np.shape(x)[:2] != lead or len(lead) < 2 or not lead[0]:
                    raise PullbackError(
                        "features are of states (rows, worlds, ...) and as many controls (rows, worlds, nu), of at "
                        f"least one row, not of shapes {np.shape(leaves(states)[0])} and {np.shape(controls)}"
                    )
            flat = lambda x: np.array(to_numpy(x), dtype=self.dtype).reshape(lead[0] * lead[1], *np.shape(x)[2:])  # noqa: E731
            tensor = lambda x: torch.from_numpy(flat(x))  # noqa: E731
            found = self._reads(tree_map(tensor, self._split(states)[0]), tensor(controls))
            return found.numpy().reshape(*lead, -1)

    def calibrated(self, states, controls) -> Residual:
        """The same System with ``ranges`` from these states (rows, worlds, ...) and controls (rows, worlds, nu).

        A perceptron that was made here then gets features in units of their standard deviation.
        """
        features = self.features(states, controls)
        return self._copied(ranges=Ranges.of(features.reshape(-1, features.shape[-1])))

    def violations(self, run) -> Violations:
        """How often, and how far, a run left the network's ranges."""
        if self.ranges is None:
            raise PullbackError("the network has no ranges to leave: residual.calibrated(states, controls) sets them")
        run = run.timesteps()
        states = tree_map(lambda x: to_numpy(x)[: run.steps], run.every_state())
        beyond = self.ranges.outside(self.features(states, to_numpy(run.controls)))
        flat = beyond.reshape(-1, beyond.shape[-1])
        worst = flat.max(axis=0, initial=0.0)
        return Violations(self.labels, np.count_nonzero(flat, axis=0), worst, len(flat))


def _outputs(form: str, count: int, shape: tuple[int, ...]) -> int:
    """The number of outputs of the network per world."""
    if form == "conservative":
        return 1
    return count * (count + 1) // 2 if form == "dissipative" else count * int(np.prod(shape[1:], dtype=int))


def _damp(module, count: int) -> None:
    """Sets the initial biases to a small damping of every degree of freedom."""
    import torch

    rows, columns = np.tril_indices(count)
    with torch.no_grad():
        module[-1].bias.copy_(torch.as_tensor(np.where(rows == columns, STARTING_DAMPING**0.5, 0.0)))


def _places(system: System, adds: str, on, count: int) -> np.ndarray:
    """The indices of the corrected entries."""
    if on is None:
        return np.arange(count)
    names: dict[Any, list[int]] = {i: [i] for i in range(count)}
    model = getattr(system, "model", None)
    if model is not None and adds == "force":
        ends = [*model.joint_v[1:], model.nv]
        spans = zip(model.joint_names, model.joint_v, ends, strict=True)
        names |= {name: list(range(int(first), int(end))) for name, first, end in spans}
    elif model is not None:
        known = model.actuator_names if adds == "control" else model.body_names if adds == "wrench" else ()
        names |= {name: [i] for i, name in enumerate(known)}
    on = list(on) if isinstance(on, Iterable) and not isinstance(on, str) else [on]
    found: list[int] = []
    for name in on:
        key = name if isinstance(name, str) else check_whole(name, "what on names by index", 0)
        if key not in names:
            raise PullbackError(unknown(f"{adds} on", str(name), [str(n) for n in names]))
        found += names[key]
    if not found or len(set(found)) < len(found):
        raise PullbackError(f"on must name what is corrected, each once, not {shown(on)}")
    return np.array(found)


def _scatter(given, places: np.ndarray, added):
    """given (worlds, n, ...), with ``added`` at ``places`` of its second axis."""
    import torch

    if len(places) == given.shape[1]:
        return given + added[:, np.argsort(places)]
    return given.index_add(1, torch.as_tensor(places), added)


def tangent_of(model, q, q_bar):
    """Cotangents (worlds, nv) of the tangent space from those (worlds, nq) of the stored coordinates, in torch."""
    import torch

    from pullback.model.tangent import rotations, scalars

    plain_q, plain_v = map(torch.as_tensor, scalars(model))
    found = torch.zeros((len(q), model.nv), dtype=q.dtype).index_copy(1, plain_v, q_bar[:, plain_q])
    for i, d in rotations(model):
        a, b = q[:, i : i + 4], q_bar[:, i : i + 4]
        real, real_bar, part, part_bar = a[:, :1], b[:, :1], a[:, 1:], b[:, 1:]
        turn = 0.5 * (real * part_bar - real_bar * part - torch.linalg.cross(part, part_bar))
        found = found.index_copy(1, torch.arange(d, d + 3), turn)
    return found
