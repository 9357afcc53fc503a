"""Actuator networks: from a joint's target and measured positions to its torque (Hwangbo et al., 2019)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import require_space, to_numpy
from pullback.core.checks import check_kind, check_names, check_number, check_path, check_wholes, check_word, unknown
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.trees import is_state
from pullback.dynamics.driven import Feature, Layer, Wiring
from pullback.model import HINGE, SLIDE
from pullback.neural.hybrid import Front, Hybrid, check_where
from pullback.neural.in_kernel import KERNEL, InKernel, perceptron_layers, refuse
from pullback.neural.network import Network, perceptron

ORDERS = ("pos_vel", "vel_pos")
PAIR = 2  # numbers of a joint at one time: position error and velocity


class ActuatorState(NamedTuple):
    """The state of a robot with actuator networks: coordinates (worlds, nq), velocities (worlds, nv), and the memory of
    the network for each joint: (worlds, joints, times, 2), or (worlds, joints, 2, layers, hidden) for an LSTM."""

    q: Any
    v: Any
    memory: Any


class Actuator(Hybrid):
    """A robot whose joints are driven by one actuator network: its controls are target positions (worlds, joints).

    Torque = torque_scale · net(position error and velocity now, and at earlier timesteps), along the joint. The memory
    of the network is part of the state, so that checkpoints and gradients include it. The torques replace those of the
    model's actuators, which must be motors and get zero controls.

    system:   a robot
    module:   a ``torch.nn.Module`` from (rows, 2 · times) to (rows, 1), sizes of hidden layers such as (32, 32), or a
              :class:`~pullback.neural.LSTM`; :func:`read_actuator` reads those that legged_gym and Isaac Lab export
    history:  which timesteps the network reads, counted backwards; 0 is now. An LSTM reads only the current one
    order:    "pos_vel": first all position errors, then all velocities; or "vel_pos"
    joints:   names of hinges and slides; None: those of the model's actuators, in their order
    limit:    of the torque [N·m or N]; None: no limit
    pos_scale, vel_scale, torque_scale: factors of position errors, velocities and torques
    where:    "torch": between steps; or "kernel": inside the robot's kernels, so that a rollout is one launch, for
              perceptrons with tanh, softsign, ELU or ReLU
    name:     prefix of the weights' names
    seed:     of the initial weights, if sizes of layers are given: they result in small torques
    """

    state_type = ActuatorState

    def __init__(
        self,
        system: System,
        module: Any,
        *,
        history: Sequence[int] = (0, 1, 2),
        order: str = "pos_vel",
        joints: Sequence[str] | None = None,
        limit: float | None = None,
        pos_scale: float = 1.0,
        vel_scale: float = 1.0,
        torque_scale: float = 1.0,
        where: str = "torch",
        name: str = "net",
        seed: int = 0,
    ):
        check_kind(system, System, "system", "pb.Articulated(model)")
        model = getattr(system, "model", None)
        if model is None or "force" not in system.inputs:
            raise PullbackError(f"an Actuator needs a robot, not a System such as {type(system).__name__}")
        if getattr(system, "na", 0):
            raise PullbackError("an Actuator replaces motors, but actuators of this robot have activations")
        if np.any(system.params["bias"]):
            first = int(np.flatnonzero(np.any(system.params["bias"] != 0, axis=1))[0])
            raise PullbackError(
                f"actuator {model.actuator_names[first]!r} acts without control, as servos do: make it a motor, whose "
                "place the network takes"
            )
        check_word(order, "order", ORDERS)
        self.history = check_wholes(history, "history", 0)
        if not self.history or len(set(self.history)) < len(self.history):
            raise PullbackError(f"history must be different numbers of timesteps ago, not {history!r}")
        self.order, self.joints, self.seed = order, joints, seed
        self.where = check_where(where)
        self.limit = None if limit is None else check_number(limit, "limit")
        self.scales = [check_number(x, "a scale") for x in (pos_scale, vel_scale, torque_scale)]
        self.in_q, self.in_v = _joints(model, joints)
        if isinstance(module, Sequence) and not isinstance(module, str):
            module = perceptron(PAIR * len(self.history), module, 1, seed=seed, zero=False)
        self.module, self.lstm = module, getattr(module, "lstm_shape", None)
        super().__init__(system, (Network(module, name, system.dtype),))
        self.nu, self.state_type = len(self.in_q), ActuatorState
        self.front(self.state(), self.default_controls(1)[0])  # a module that does not fit raises an error now
        if self.where == KERNEL:
            if self.lstm:
                raise refuse("an LSTM is no perceptron")
            layers, sources = perceptron_layers(self.networks[0])
            self._kernel = InKernel(self, sources, self._wiring(layers))

    def __repr__(self) -> str:
        kind = "LSTM" if self.lstm else f"history={self.history}"
        return f"Actuator({self.system!r}, {self.nu} joints, {kind}, {self.networks[0].size} weights)"

    def _settings(self) -> dict[str, Any]:
        names = ("system", "module", "history", "order", "joints", "limit", "where", "seed")
        scales = dict(zip(("pos_scale", "vel_scale", "torque_scale"), self.scales, strict=True))
        return {name: getattr(self, name) for name in names} | scales | {"name": self.networks[0].name}

    def trained(self):
        """The torch module with the current weights of the parameters."""
        return self.networks[0].with_weights(self.params)

    # --- states ----------------------------------------------------------------------------------------------------

    @property
    def remembered(self) -> tuple[int, ...]:
        """The shape of the memory in one world."""
        if self.lstm:
            return (self.nu, 2, *self.lstm)
        return (self.nu, max(self.history), PAIR)

    def state(self, q=None, v=None, memory=None) -> ActuatorState:
        """A state of all worlds: q and v as for the robot; the memory (worlds, ...) is zero if None."""
        if not hasattr(self.system, "state"):
            raise PullbackError(f"{type(self.system).__name__} has no state()")
        inner = self.system.state(q, v)
        shape = (self.worlds, *self.remembered)
        require_space(shape, self.dtype, "cpu", f"a history of {max(self.history)} timesteps", "use a shorter one")
        memory = np.zeros(shape, self.dtype) if memory is None else np.array(to_numpy(memory), dtype=self.dtype)
        if memory.shape != shape:
            raise PullbackError(f"memory has shape {memory.shape}, but {shape} is needed")
        return ActuatorState(to_numpy(inner.q), to_numpy(inner.v), memory)

    @property
    def control_range(self) -> np.ndarray:
        """Ranges of the targets (joints, 2): those of the joints, or one unit to either side of home without limits."""
        robot: Any = self.system
        m, home = robot.model.mujoco, robot.model.home.q[self.in_q]
        limited, where = m.jnt_limited.astype(bool), np.searchsorted(m.jnt_qposadr, self.in_q)
        free = np.stack([home - 1, home + 1], axis=1)
        return np.where(limited[where, None], m.jnt_range[where], free)

    def default_controls(self, steps: int) -> np.ndarray:
        """Targets (steps, worlds, joints) at the robot's home."""
        home = self.system.model.home.q[self.in_q]
        return np.tile(home.astype(self.dtype), (steps, self.worlds, 1))

    def _split(self, state):
        if is_state(state) and hasattr(state, "memory"):
            return self.system.state_type(state.q, state.v), (state.memory,)
        return state, ()

    def _join(self, inner, memory):
        return ActuatorState(inner.q, inner.v, memory[0])

    def difference(self, start, end, *, leading: int = 1):
        inner = super().difference(self._split(start)[0], self._split(end)[0], leading=leading)
        moved = to_numpy(end.memory) - to_numpy(start.memory)
        return np.concatenate([inner, moved.reshape(*inner.shape[:-1], -1)], axis=-1)

    def difference_jacobian(self, apart):
        size, inner = apart.shape[-1], apart.shape[-1] - int(np.prod(self.remembered))
        result = np.broadcast_to(np.eye(size), (*apart.shape, size)).copy()
        result[..., :inner, :inner] = super().difference_jacobian(apart[..., :inner])
        return result

    def state_bar(self, state, tangent_bar):
        at = tangent_bar.shape[-1] - int(np.prod(self.remembered))
        inner = super().state_bar(self._split(state)[0], tangent_bar[..., :at])
        return self._join(inner, (tangent_bar[..., at:].reshape(*tangent_bar.shape[:-1], *self.remembered),))

    def tangent_bar(self, state, bars):
        inner = super().tangent_bar(self._split(state)[0], self._split(bars)[0])
        memory = to_numpy(bars.memory)
        return np.concatenate([inner, memory.reshape(len(memory), -1)], axis=-1)

    def recorded(self, states, targets: np.ndarray, hold: int) -> ActuatorState:
        """States (rows, ...) with the memory that each would have, from recorded coordinates, velocities and targets.

        Between rows, the last known row is used. The first rows, whose history is not known, are left out; the memory
        of an LSTM is zero in the first row.
        """
        import torch

        rows = len(states.q)
        after = np.concatenate([targets, targets[-1:]])  # the last row has no target of its own
        pairs = np.stack([after - states.q[:, self.in_q], states.v[:, self.in_v]], axis=-1)  # (rows, joints, 2)
        memory = np.zeros((rows, *self.remembered), self.dtype)
        if not self.lstm:
            for back in range(memory.shape[2]):
                ago = np.maximum(np.arange(rows) - -(-(back + 1) // hold), 0)
                memory[:, :, back] = pairs[ago]
            known = min(-(-max(self.history) // hold), rows - 2)
            return ActuatorState(states.q[known:], states.v[known:], memory[known:])
        one = self.in_worlds(1)
        weights = one._tensors(one.hold_params())
        with torch.no_grad():
            now = torch.zeros((1, *self.remembered), dtype=self.networks[0].dtype)
            for row in range(rows):
                memory[row] = now[0].numpy()
                for _ in range(hold):
                    now = self._recur(weights, torch.as_tensor(pairs[row : row + 1]), now)[1]
        return ActuatorState(states.q, states.v, memory)

    # --- the front -------------------------------------------------------------------------------------------------

    def _front(self, front: Front, weights) -> Front:
        import torch

        state, (memory,) = front.state, front.memory
        error = front.control - state.q[:, self.in_q]
        now = torch.stack([error, state.v[:, self.in_v]], dim=-1)  # (worlds, joints, 2)
        torque, memory = self._recur(weights, now, memory) if self.lstm else self._recall(weights, now, memory)
        torque = torque * self.scales[2]
        if self.limit is not None:
            torque = torch.clamp(torque, -self.limit, self.limit)
        given = front.inputs.get("force")
        if given is None:
            given = torch.zeros_like(state.v)
        force = given.index_add(1, torch.as_tensor(self.in_v), torque)
        none = torch.zeros((len(torque), self.system.nu), dtype=torque.dtype)
        return front._replace(control=none, inputs={**front.inputs, "force": force}, memory=(memory,))

    def _wiring(self, layers: list[Layer]) -> Wiring:
        """The Wiring of the network, for kernels."""
        times, rows = max(self.history), []
        for j, (q, v) in enumerate(zip(self.in_q.tolist(), self.in_v.tolist(), strict=True)):
            ago = [2 * (j * times + back - 1) for back in self.history]
            errors = [Feature("memory", at) if at >= 2 * j * times else Feature("error", q, v, j) for at in ago]
            speeds = [Feature("memory", at + 1) if at >= 2 * j * times else Feature("velocity", v) for at in ago]
            rows.append([*errors, *speeds] if self.order == "pos_vel" else [*speeds, *errors])
        pair = self.scales[:2] if self.order == "pos_vel" else self.scales[1::-1]
        return Wiring(
            layers, rows, "force", self.in_v[:, None], np.array(self.scales[2:]),
            centre=np.zeros(len(rows[0])), gain=np.repeat(pair, len(self.history)), controls=self.nu,
            limit=np.inf if self.limit is None else self.limit, replaces=True,
            pairs=np.stack([self.in_q, self.in_v], axis=1), times=times,
        )  # fmt: skip

    def _recall(self, weights, now, memory):
        """Torques (worlds, joints) of a perceptron, and the history after the step."""
        import torch

        every = torch.cat([now[:, :, None], memory], dim=2)  # (worlds, joints, times, 2)
        read = every[:, :, list(self.history)]
        parts = [self.scales[0] * read[..., 0], self.scales[1] * read[..., 1]]
        features = torch.cat(parts if self.order == "pos_vel" else parts[::-1], dim=-1)
        found = self.networks[0](weights, features)
        return self._one_each(found), every[:, :, : memory.shape[2]]

    def _recur(self, weights, now, memory):
        """Torques (worlds, joints) of an LSTM, and its state after the step."""
        import torch

        scaled = now * torch.as_tensor(self.scales[:2], dtype=now.dtype)
        features = scaled if self.order == "pos_vel" else scaled.flip(-1)
        found, memory = self.networks[0](weights, features, memory)
        return self._one_each(found), memory

    def _one_each(self, found):
        shape = tuple(getattr(found, "shape", ()))
        if shape[2:] not in ((), (1,)) or shape[1:2] != (self.nu,):
            size = shape[-1] if shape else type(found).__name__
            name = self.networks[0].name
            raise PullbackError(f"the module of {name!r} gives {size} outputs for each joint, but 1 is needed")
        return found.reshape(shape[:2])


def _joints(model, names) -> tuple[np.ndarray, np.ndarray]:
    """The indices of joints in q and in v."""
    if names is None:
        elsewhere = (model.actuator_tendon >= 0) | (model.actuator_site >= 0) | ~np.any(model.actuator_gear, axis=1)
        if np.any(elsewhere):
            name = model.actuator_names[int(np.argmax(elsewhere))]
            raise PullbackError(f"actuator {name!r} acts on no joint: name those that the network drives by joints=")
        found = [int(j) for j in getattr(model, "actuator_joint", ())] or [
            j for j, kind in enumerate(model.joint_type) if kind in (HINGE, SLIDE)
        ]
    else:
        known, names = list(model.joint_names), check_names(names, "joints")
        if missing := [name for name in names if name not in known]:
            raise PullbackError(unknown("joint", str(missing[0]), known))
        found = [known.index(name) for name in names]
    for j in found:
        if model.joint_type[j] not in (HINGE, SLIDE):
            raise PullbackError(
                f"joint {model.joint_names[j]!r} is no hinge or slide: an actuator network has one angle"
            )
    if not found or len(set(found)) < len(found):
        raise PullbackError("an Actuator needs hinges or slides, each once: name them by joints=")
    return np.array([model.joint_q[j] for j in found]), np.array([model.joint_v[j] for j in found])


ACTIVATIONS = ("Softsign", "ELU", "ReLU", "Tanh", "Sigmoid", "SiLU", "LeakyReLU", "Softplus", "GELU")


def read_actuator(path):
    """The actuator network in a TorchScript file as legged_gym and Isaac Lab export it: a perceptron or an LSTM.

    It is rebuilt from the weights and the types of its layers; an LSTM includes the linear layer after it. Give it to
    :class:`Actuator` with the scales and the order that it was trained with; an LSTM of legged_gym has none.
    """
    import torch

    path = check_path(path)
    try:
        script = torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise PullbackError(f"{str(path)!r} cannot be read as TorchScript: {reason}") from error
    weights = {name: value.detach().double() for name, value in script.state_dict().items()}
    recurrent = {name: value for name, value in weights.items() if re.search(r"(weight|bias)_[ih]h_l\d+$", name)}
    rest = {name: value for name, value in weights.items() if name not in recurrent}
    matrices = [name for name, value in rest.items() if name.endswith("weight") and value.ndim == 2]
    if not matrices:
        raise PullbackError(f"{str(path)!r} has no linear layer: it is no actuator network")
    layers = []
    for name in matrices:
        bias = rest.get(f"{name.removesuffix('weight')}bias")
        layer = torch.nn.Linear(*rest[name].shape[::-1], bias=bias is not None, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(rest[name])
            if bias is not None:
                layer.bias.copy_(bias)
        layers.append(layer)
    if recurrent:
        if len(layers) != 1:
            raise PullbackError(f"{str(path)!r} has {len(layers)} linear layers behind its LSTM, but 1 is known")
        return _lstm({name.rsplit(".", 1)[-1]: value for name, value in recurrent.items()}, layers[0])
    bends = [m.original_name for _, m in script.named_modules() if m.original_name in ACTIVATIONS]
    if len(set(bends)) != 1:
        found = ", ".join(sorted(set(bends))) or "none that is known"
        raise PullbackError(f"{str(path)!r} must have one kind of activation between its layers, not {found}")
    bend = getattr(torch.nn, bends[0])
    parts = [part for layer in layers for part in (layer, bend())]
    return torch.nn.Sequential(*(parts if len(bends) == len(layers) else parts[:-1]))


def _lstm(recurrent: dict, head):
    """An LSTM with these weights, named as in torch, and a linear layer after it."""
    from pullback.neural.recurrent import LSTM

    layers = sum(name.startswith("weight_hh_l") for name in recurrent)
    inputs, hidden = recurrent["weight_ih_l0"].shape[1], recurrent["weight_hh_l0"].shape[1]
    made = LSTM(inputs, hidden, layers)
    values = {name: recurrent.get(name, 0.0 * value) for name, value in made.state_dict().items()}
    values |= {f"head.{name}": value for name, value in head.state_dict().items()}
    made.load_state_dict(values)
    return made
