"""The network of the task swimmer: a torch module, imported when one is made."""

from __future__ import annotations

import torch

FEATURES = 5  # of a link: velocity along and across it, spin, cosine and sine of its angle
LEVER = 0.1  # of a torque against a force, for outputs of like size [m]


class Drag(torch.nn.Module):
    """From features (rows, 5 · links) to wrenches (rows, 6 · links) in world axes, by one network for all links."""

    def __init__(self, own: torch.nn.Module, links: int):
        super().__init__()
        self.own, self.links = own, links

    def forward(self, features):
        link = features.unflatten(-1, (self.links, FEATURES))
        along, across, torque = self.own(link[..., :3]).unbind(-1)
        cos, sin, none = link[..., 3], link[..., 4], torch.zeros_like(torque)
        force = [cos * along - sin * across, sin * along + cos * across]
        return torch.stack([none, none, LEVER * torque, *force, none], dim=-1).flatten(-2)
