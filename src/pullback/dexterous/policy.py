"""Policies that propose contacts: a small network in NumPy, kept without pickle, and as a torch module."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pullback.core.archives import read_arrays
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file

FORMAT = 1  # of policy files
LARGEST = 2**26  # of a policy file [bytes]


@dataclass(frozen=True)
class ContactPolicy:
    """A network with one hidden layer of hyperbolic tangents: features (n,) to joint rates and contacts (m,).

    task:    name of the task that it was trained for
    first:   (hidden, n + 1), the last column for the constant 1
    second:  (m, hidden + 1)
    usual:   (m,) what it puts out where the second layer gives zero
    scale:   (m,) what one unit of the second layer stands for
    """

    task: str
    first: np.ndarray
    second: np.ndarray
    usual: np.ndarray
    scale: np.ndarray

    def hidden(self, features: np.ndarray) -> np.ndarray:
        """Of features (..., n), (..., hidden)."""
        return np.tanh(features @ self.first[:, :-1].T + self.first[:, -1])

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Outputs (..., m) of features (..., n)."""
        return self.usual + self.scale * (self.hidden(features) @ self.second[:, :-1].T + self.second[:, -1])

    @property
    def weights(self) -> np.ndarray:
        """Both layers as one vector: the variables of training."""
        return np.concatenate([self.first.ravel(), self.second.ravel()])

    def with_weights(self, weights: np.ndarray) -> ContactPolicy:
        first, second = np.split(np.asarray(weights, dtype=float), [self.first.size])
        shaped = first.reshape(self.first.shape), second.reshape(self.second.shape)
        return ContactPolicy(self.task, *shaped, self.usual, self.scale)

    @classmethod
    def fresh(
        cls, task: str, features: int, hidden: int, usual: np.ndarray, scale: np.ndarray, random: np.random.Generator
    ) -> ContactPolicy:
        """Random weights: features of about one give hidden values of about one, and outputs near the usual ones."""
        first = random.standard_normal((hidden, features + 1)) / np.sqrt(features + 1)
        second = 1e-3 * random.standard_normal((len(usual), hidden + 1)) / np.sqrt(hidden + 1)
        return cls(task, first, second, np.array(usual, dtype=float), np.array(scale, dtype=float))

    def module(self):
        """The same as a torch module in float64, which takes and gives tensors."""
        import torch

        def linear(matrix, bias):
            layer = torch.nn.Linear(matrix.shape[1], matrix.shape[0], dtype=torch.float64)
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(matrix)))
                layer.bias.copy_(torch.from_numpy(np.ascontiguousarray(bias)))
            return layer

        scale = self.scale[:, None]
        inner = linear(self.first[:, :-1], self.first[:, -1])
        outer = linear(scale * self.second[:, :-1], self.usual + self.scale * self.second[:, -1])
        return torch.nn.Sequential(inner, torch.nn.Tanh(), outer)

    def save(self, path: str | Path) -> Path:
        """Writes an .npz: the arrays, and a header in JSON."""
        header = np.array(json.dumps({"format": FORMAT, "kind": "contacts", "task": self.task}))
        arrays = {name: getattr(self, name) for name in ("first", "second", "usual", "scale")}
        with whole_file(Path(path)) as partial, open(partial, "wb") as file:
            np.savez(file, header=header, **arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> ContactPolicy:
        """Reads what ``save`` wrote. Nothing in the file is run."""
        try:
            arrays = read_arrays(Path(path), largest=LARGEST)
            header = json.loads(str(arrays["header"]))
            policy = cls(str(header["task"]), *(arrays[name] for name in ("first", "second", "usual", "scale")))
            known = header["format"] == FORMAT and header["kind"] == "contacts"
        except FileNotFoundError:
            raise PullbackError(f"there is no file {str(path)!r}") from None
        except Exception as error:  # there is no end to what can be wrong with a file
            raise PullbackError(f"{str(path)!r} cannot be read as a policy of contacts: {error}") from error
        hidden, outputs = policy.first.shape[0], policy.second.shape[0]
        fits = policy.second.shape[1:] == (hidden + 1,) and policy.usual.shape == policy.scale.shape == (outputs,)
        if (
            not known
            or not fits
            or not all(np.all(np.isfinite(x)) for x in vars(policy).values() if not isinstance(x, str))
        ):
            raise PullbackError(f"{str(path)!r} cannot be read as a policy of contacts: its arrays do not fit together")
        return policy
