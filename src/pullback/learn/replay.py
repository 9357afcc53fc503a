"""Experience that is kept: a memory of transitions, and derivatives of the simulator at them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pullback.core.errors import PullbackError
from pullback.core.trees import leaves, tree_map, with_leaves
from pullback.envs import Environment, EnvState, Random

Columns = dict[str, torch.Tensor]  # by name, (rows, ...)


class Replay:
    """The last ``capacity`` rows of experience, in columns by name. New rows take the places of the oldest."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.columns: Columns = {}
        self.added = 0  # rows since the beginning

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, rows: Mapping[str, torch.Tensor]) -> None:
        """Appends rows, at most ``capacity`` of them; all columns have the same number."""
        count = len(next(iter(rows.values())))
        if count > self.capacity:
            raise PullbackError(f"{count} rows do not fit into a memory of capacity={self.capacity}: use a larger one")
        if not self.columns:
            self.columns = {name: x.new_zeros(self.capacity, *x.shape[1:]) for name, x in rows.items()}
        start = self.added % self.capacity
        first = min(count, self.capacity - start)
        for name, column in self.columns.items():
            column[start : start + first] = rows[name][:first]
            column[: count - first] = rows[name][first:]
        self.added += count

    def sample(self, count: int, generator: torch.Generator) -> Columns:
        """Rows drawn at random, each as likely as any other."""
        return self.rows(torch.randint(len(self), (count,), generator=generator, device=generator.device))

    def rows(self, index: torch.Tensor) -> Columns:
        return {name: x[index] for name, x in self.columns.items()}

    def arrays(self, prefix: str) -> Columns:
        """What is in it, by name."""
        kept = {f"{prefix}.{name}": x[: len(self)] for name, x in self.columns.items()}
        return kept | {f"{prefix}.added": torch.tensor(self.added)}

    def restore(self, arrays: Columns, prefix: str, device: torch.device) -> None:
        """The inverse of ``arrays``."""
        self.added, self.columns = int(arrays[f"{prefix}.added"]), {}
        held = {name.removeprefix(f"{prefix}."): x for name, x in arrays.items() if name.startswith(f"{prefix}.")}
        for name, x in held.items():
            if name != "added":
                if len(x) != len(self):
                    raise PullbackError(f"its memory has {len(x)} rows of {name}, but {len(self)} are needed")
                self.columns[name] = torch.zeros(self.capacity, *x.shape[1:], dtype=x.dtype, device=device)
                self.columns[name][: len(x)] = x.to(device)


def columns_of(state: EnvState) -> Columns:
    """An environment's state in columns, one row per world."""
    found = {f"state.physics.{i}": x for i, x in enumerate(leaves(state.physics))}
    found |= {f"state.extra.{name}": x for name, x in state.extra.items()}
    return found | {"state.action": state.action, "state.age": state.age}


def state_of(columns: Mapping[str, torch.Tensor], like: EnvState) -> EnvState:
    """The inverse of ``columns_of``."""
    physics = with_leaves(like.physics, (columns[f"state.physics.{i}"] for i in range(len(leaves(like.physics)))))
    extra = {name: columns[f"state.extra.{name}"] for name in like.extra}
    return EnvState(physics, columns["state.action"], extra, columns["state.age"])


def jacobians(env: Environment, state: EnvState, action: torch.Tensor, random: Random) -> torch.Tensor:
    """Derivatives (worlds, n + 1, actions) of the next observation (n) and of the reward (the last row) by the action.

    Each world is simulated in n + 1 copies, and each copy is pulled back from another entry: exact, in one launch
    forward and one backward. Worlds whose simulation fails have zeros.

    env, random:  in worlds·(n + 1) worlds
    """
    count = env.observation_size + 1
    repeat = lambda x: x.repeat_interleave(count, dim=0)  # noqa: E731
    extra = {name: repeat(x) for name, x in state.extra.items()}
    state = EnvState(tree_map(repeat, state.physics), repeat(state.action), extra, repeat(state.age))
    with torch.enable_grad():
        action = repeat(action.detach()).requires_grad_()
        done = env.step(state, action, random)
        outputs = torch.cat([env.observe(done.state), done.reward[:, None]], dim=1)
        units = torch.eye(count, dtype=env.dtype, device=env.device).repeat(len(action) // count, 1)
        (bar,) = torch.autograd.grad(outputs, action, units)
    return torch.where(done.failed[:, None], 0.0, bar).unflatten(0, (-1, count))


def nearby(rows: Columns, delta: torch.Tensor) -> Columns:
    """Sample enhancement: transitions of actions moved by ``delta`` (rows, actions), to first order.

    Y.-L. Qiao et al., Efficient Differentiable Simulation of Articulated Bodies, ICML 2021, section 5: a + δ leads to
    the observation s' + (∂s'/∂a) δ and the reward r + (∂r/∂a) δ. The observation moves by the full Jacobian.
    """
    action = (rows["action"] + delta).clamp(-1.0, 1.0)
    moved = torch.einsum("rna,ra->rn", rows["jacobian"], action - rows["action"])
    after, reward = rows["after"] + moved[:, :-1], rows["reward"] + moved[:, -1]
    return {**rows, "action": action, "after": after, "reward": reward}
