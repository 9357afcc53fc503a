"""Returns of pieces of episodes."""

from __future__ import annotations

import torch


def td_lambda(
    rewards: torch.Tensor, values: torch.Tensor, ends: torch.Tensor, *, discount: float, trust: float
) -> torch.Tensor:
    """Targets (steps, worlds) for values of the states at the start of each step, TD(λ) with λ = ``trust``.

    rewards:  (steps, worlds)
    values:   (steps, worlds) of the states after each step, before any reset; zero where an episode terminated
    ends:     (steps, worlds) booleans: the episode ended here, or nothing is known of what comes next
    """
    targets = torch.empty_like(rewards)
    later = torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        mixed = torch.where(ends[t], values[t], (1 - trust) * values[t] + trust * later)
        later = rewards[t] + discount * mixed
        targets[t] = later
    return targets
