"""A policy: what learning gives. It acts, and is kept in files that any program can read."""

from __future__ import annotations

import itertools
import json
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from pullback.core.archives import read_arrays
from pullback.core.arrays import check_device
from pullback.core.checks import check_kind, check_number, check_whole, check_wholes, counted
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file
from pullback.envs import Environment
from pullback.learn.networks import Normaliser, Perceptrons

FORMAT = 1  # of policy files
LARGEST = 2**30  # of a policy file [bytes]
LOG_DEVIATION = (-5.0, 2.0)  # between which the logarithm of an action's deviation may lie


class Policy(torch.nn.Module):
    """A policy whose actions are the hyperbolic tangent of a normal distribution, with mean and deviation by a network.

    env:        name of the environment that it was made for
    hidden:     sizes of the network's layers
    """

    def __init__(
        self, env: str, observations: int, actions: int, *, hidden: Sequence[int] = (128, 128),
        log_deviation: float = -1.0, generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu",
    ):  # fmt: skip
        super().__init__()
        check_kind(env, str, "env of a Policy", "'cartpole'")
        self.env, self.hidden = env, check_wholes(hidden, "hidden")
        self.observations, self.actions = check_whole(observations, "observations"), check_whole(actions, "actions")
        self.log_deviation = check_number(log_deviation, "log_deviation", above=None)  # at first
        observations, actions, hidden = self.observations, self.actions, self.hidden
        options = {"dtype": dtype, "device": device}
        self.normaliser = Normaliser(observations, **options)
        self.network = Perceptrons(1, observations, hidden, 2 * actions, gain=0.1, generator=generator, **options)

    def distribution(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and logarithm of the deviation, (rows, actions) each, before the hyperbolic tangent."""
        return self.of_normalised(self.normaliser(observation))

    def of_normalised(self, x: torch.Tensor, weights: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """The same for normalised observations, with other ``weights`` of the network if there are any."""
        mean, log_deviation = self.network(x, weights)[0].chunk(2, dim=-1)
        return mean, (log_deviation + self.log_deviation).clamp(*LOG_DEVIATION)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """The most likely action (rows, actions), with gradients."""
        return self.distribution(observation)[0].tanh()

    @torch.no_grad()
    def act(self, observation, *, generator: torch.Generator | None = None):
        """Actions in [-1, 1] for observations (rows, n) or (n,), as an array or a tensor: what is given is returned.

        The most likely ones, or random ones if there is a generator.
        """
        flat = self.network.flat
        x = torch.as_tensor(np.asarray(observation) if not torch.is_tensor(observation) else observation).to(flat)
        if x.shape[-1:] != (self.observations,) or x.ndim not in (1, 2):
            raise PullbackError(
                f"the policy for {self.env!r} takes observations (rows, {self.observations}), not {tuple(x.shape)}"
            )
        mean, log_deviation = self.distribution(x.reshape(-1, self.observations))
        if generator is not None:
            noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
            mean = mean + log_deviation.exp() * noise
        action = mean.tanh().reshape(*x.shape[:-1], self.actions)
        return action if torch.is_tensor(observation) else action.cpu().numpy()

    def check(self, env: Environment) -> None:
        """An error if the policy was made for another robot."""
        mine, theirs = (self.env, self.observations, self.actions), (env.name, env.observation_size, env.action_size)
        if mine != theirs:
            say = lambda name, seen, done: f"{name!r} ({seen} observations, {counted(done, 'action')})"  # noqa: E731
            raise PullbackError(f"the policy is for {say(*mine)}, not for {say(*theirs)}")

    # --- files -------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Writes an .npz: weights, normaliser, and a header in JSON."""
        header = {"format": FORMAT, "env": self.env, "observations": self.observations, "actions": self.actions}
        header |= {"hidden": self.hidden, "log_deviation": self.log_deviation}
        arrays = {name: x.detach().cpu().numpy() for name, x in self.state_dict().items()}
        with whole_file(Path(path)) as partial, open(partial, "wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path, *, device: torch.device | str = "cpu") -> Policy:
        """Reads what ``save`` wrote. Nothing in the file is run."""
        device = check_device(device)
        try:
            arrays = read_arrays(Path(path), largest=LARGEST)
            header = json.loads(str(arrays.pop("header", "{}")))
            if "format" not in header:
                raise PullbackError("Policy.save did not write it")
            if header.pop("format") != FORMAT:
                raise PullbackError("it was written by another version")
            _check_sizes(header, arrays)
            policy = cls(header["env"], header["observations"], header["actions"], hidden=header["hidden"],
                         log_deviation=header["log_deviation"], device=device)  # fmt: skip
            policy.load_state_dict({name: torch.as_tensor(x) for name, x in arrays.items()})
        except FileNotFoundError:
            raise PullbackError(f"there is no file {str(path)!r}") from None
        except IsADirectoryError:
            raise PullbackError(f"{str(path)!r} is a folder: give the policy.npz in it") from None
        except zipfile.BadZipFile:
            hint = "give the policy.npz that Policy.save or a training wrote, or for commands its folder"
            raise PullbackError(f"{str(path)!r} cannot be read as a policy: it is no .npz file; {hint}") from None
        except Exception as error:  # there is no end to what can be wrong with a file
            reason = " ".join(str(error).split()) or type(error).__name__
            raise PullbackError(f"{str(path)!r} cannot be read as a policy: {reason}") from error
        return policy

    def export_onnx(self, path: str | Path) -> Path:
        """Writes an ONNX file: from "observation" (rows, n) to "action" (rows, actions), normaliser included."""
        from pullback.learn.onnx import write_onnx

        return write_onnx(self, Path(path))


def _check_sizes(header: dict, arrays: dict[str, np.ndarray]) -> None:
    """That a file holds what its header says, before anything of that size is made."""
    sizes = [header["observations"], *header["hidden"], 2 * header["actions"]]
    if not all(isinstance(n, int) and n > 0 for n in sizes):
        raise PullbackError(f"its header has layers of sizes {sizes}")
    check_number(header["log_deviation"], "its log_deviation", above=None)
    # a matrix and a bias per layer, and scale and shift of the LayerNorm of all but the last
    count = sum(n * m + 3 * m for n, m in itertools.pairwise(sizes)) - 2 * sizes[-1]
    wanted = {"network.flat": (count,), "normaliser.mean": sizes[:1], "normaliser.variance": sizes[:1]}
    for name, shape in {**wanted, "normaliser.count": ()}.items():
        if name not in arrays:
            raise PullbackError(f"it has no {name}")
        if arrays[name].shape != tuple(shape):
            raise PullbackError(f"its {name} has shape {arrays[name].shape}, but its header says {tuple(shape)}")
        if not np.all(np.isfinite(arrays[name])):
            raise PullbackError(f"its {name} is not finite")


def log_likelihood(u: torch.Tensor, noise: torch.Tensor, log_deviation: torch.Tensor) -> torch.Tensor:
    """Of actions tanh(u), where u = mean + deviation · noise (..., actions) is normal: (...)."""
    of_normal = -0.5 * noise**2 - log_deviation - 0.5 * math.log(2 * math.pi)
    # log(1 - tanh² u), without loss of digits where the hyperbolic tangent is close to 1
    slope = 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))
    return (of_normal - slope).sum(dim=-1)
