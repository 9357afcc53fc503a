"""An LSTM whose state is an input and an output, so that it can be part of a System's state. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_kind, check_seed, check_whole, shown
from pullback.core.errors import PullbackError

GATES = 4  # input, forget, cell and output, in torch's order
MOST_LAYERS = 1000  # a larger number is a mistake


class LSTM(torch.nn.Module):
    """An LSTM for :class:`~pullback.neural.Actuator`, with a linear layer from its last hidden state to one torque.

    Maps (rows, inputs) and the state (rows, 2, layers, hidden), hidden and cell, to (rows, 1) and the next state.

    values:  weights by their names in torch.nn.LSTM, and "head.weight", "head.bias"; random if None
    """

    def __init__(
        self, inputs: int = 2, hidden: int = 8, layers: int = 2, *, seed: int = 0, values: Mapping | None = None
    ):
        super().__init__()
        inputs, hidden = check_whole(inputs, "inputs of an LSTM"), check_whole(hidden, "hidden units of an LSTM")
        layers = check_whole(layers, "layers of an LSTM", most=MOST_LAYERS)
        generator, shapes = torch.Generator().manual_seed(check_seed(seed)), {}
        for layer in range(layers):
            shapes[f"weight_ih_l{layer}"] = GATES * hidden, inputs if layer == 0 else hidden
            shapes[f"weight_hh_l{layer}"] = GATES * hidden, hidden
            shapes[f"bias_ih_l{layer}"] = shapes[f"bias_hh_l{layer}"] = (GATES * hidden,)
        for name, shape in shapes.items():
            size = shape[-1] if len(shape) > 1 else hidden
            value = torch.randn(shape, generator=generator, dtype=torch.float64) / size**0.5
            self.register_parameter(name, torch.nn.Parameter(value))
        self.head = torch.nn.Linear(hidden, 1, dtype=torch.float64)
        with torch.no_grad():
            self.head.weight.copy_(torch.randn((1, hidden), generator=generator, dtype=torch.float64) / hidden**0.5)
            self.head.bias.zero_()
        self.lstm_shape = layers, hidden
        if values is not None:
            self._take(values)

    def _take(self, values: Mapping) -> None:
        """Sets the weights."""
        check_kind(values, Mapping, "values of an LSTM")
        own = self.state_dict()
        if set(values) != set(own):
            odd = sorted(map(str, set(values) ^ set(own)))[0]
            raise PullbackError(f"values of this LSTM are {', '.join(own)}; {shown(odd)} is missing or too many")
        taken = {name: torch.from_numpy(to_numbers(value, name).astype(float)) for name, value in values.items()}
        for name, value in taken.items():
            if value.shape != own[name].shape or not torch.isfinite(value).all():
                shape = tuple(own[name].shape)
                raise PullbackError(f"{name} of the LSTM must be finite numbers {shape}, not of {tuple(value.shape)}")
        self.load_state_dict(taken)

    def forward(self, x, state):
        hidden, cells = [], []
        for layer in range(self.lstm_shape[0]):
            h, c = state[..., 0, layer, :], state[..., 1, layer, :]
            gates = x @ getattr(self, f"weight_ih_l{layer}").mT + getattr(self, f"bias_ih_l{layer}")
            gates = gates + h @ getattr(self, f"weight_hh_l{layer}").mT + getattr(self, f"bias_hh_l{layer}")
            enter, forget, cell, leave = gates.chunk(GATES, dim=-1)
            c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(cell)
            x = torch.sigmoid(leave) * torch.tanh(c)
            hidden.append(x)
            cells.append(c)
        return self.head(x), torch.stack([torch.stack(hidden, dim=-2), torch.stack(cells, dim=-2)], dim=-3)
