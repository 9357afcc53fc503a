"""Pendulums of one to seven links that swing their tip to the top, as Qiao et al. (2021) have them."""

from __future__ import annotations

import torch

from pullback.core.checks import check_whole
from pullback.core.errors import PullbackError
from pullback.core.system import State
from pullback.envs.environment import Environment, EnvState
from pullback.envs.random import Random
from pullback.model import Model, load

LINK = 0.5  # [m]
MASS, MASSES = 1.0, 2.16  # of the first link, and of each other, at its far end [kg]
INERTIA, INERTIAS = 0.00494875, 0.00539427  # about these ends [kg·m²]
TIP_MASS, TIP_INERTIA = 0.01, 1e-4
TORQUE = 10.0  # [N·m]
COLOURS = ("0.16 0.40 0.58 1", "0.93 0.44 0.13 1")  # of links, by turns


class Pendulum(Environment):
    """A chain of links starts horizontal, and after 100 steps its tip is to be straight above the hub.

    The reward is by how much the tip's squared distance from the goal falls; at the end it counts once more. The return
    is n²/2 - 2 d², with d the distance at the end: at most n²/2.

    links:  1 to 7
    spread: of the angles at the start, uniform within ± this [rad]
    """

    hold = 1
    limit = 100
    timed = True
    contact = None
    settings = {
        "sapo": {"discount": 1.0},
        "shac": {"discount": 1.0},
        "bptt": {"discount": 1.0, "window": 100, "worlds": 64},  # with less noise, some seeds are stuck on the way up
    }

    def __init__(self, worlds: int = 1, *, links: int = 1, spread: float = 0.0, **options):
        if check_whole(links, "links") > 7:
            raise PullbackError(f"a pendulum has 1 to 7 links, not {links}")
        self.name, self.links, self.spread = f"pendulum-{links}", links, spread
        self.about = f"a pendulum of {links} link{'s' * (links > 1)} swings its tip to the top"
        # Values of the order of one: the return is at most n²/2.
        replayed = {"reward_scale": 2 / links**2, "discount": 0.98, "temperature": 0.005, "target_memory": 0.99}
        replayed |= {"random_steps": 400, "actor_every": 2, "horizon": 16}
        model = {"model_hidden": (128, 128), "model_passes": 5, "rollouts": 2000, "updates_per_step": 2.0}
        self.settings = {**self.settings, "sac": replayed, "mbpo": replayed | model}
        super().__init__(worlds, **options)

    def model(self) -> Model:
        return load(xml(self.links))

    def start(self, random: Random) -> State:
        angles = random.uniform(self.links, low=-self.spread, high=self.spread)
        return State(angles, torch.zeros_like(angles))

    def places(self, q: torch.Tensor) -> torch.Tensor:
        """Where links end, (worlds, links, 2): y and z [m]."""
        angles = q.cumsum(dim=1)
        return LINK * torch.stack([angles.cos().cumsum(dim=1), angles.sin().cumsum(dim=1)], dim=2)

    def distance(self, state: EnvState) -> torch.Tensor:
        """The tip's squared distance from the goal, (worlds,) [m²]."""
        tip = self.places(state.physics.q)[:, -1]
        return tip[:, 0] ** 2 + (tip[:, 1] - LINK * self.links) ** 2

    def observe(self, state: EnvState) -> torch.Tensor:
        time = (state.age / self.limit)[:, None].to(self.dtype)
        return torch.cat([state.physics.v, self.places(state.physics.q).flatten(1), time], dim=1)

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        now = self.distance(after)
        return {"approach": self.distance(before) - now, "end": torch.where(after.age == self.limit, -now, 0.0 * now)}

    def metrics(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        """share: the mean over an episode is the share of the highest return from the horizontal start, n²/2."""
        share = 1 - 4 * self.distance(after) / self.links**2
        return {"share": torch.where(after.age == self.limit, self.limit * share, 0.0 * share)}


def xml(links: int) -> str:
    """MJCF: links along y, hinges about x, masses at the far ends."""
    thick = 0.03 * links**0.5  # the longer, the further away they are looked at from
    nested = f'<inertial pos="0 {LINK} 0" mass="{TIP_MASS}" diaginertia="{TIP_INERTIA} {TIP_INERTIA} {TIP_INERTIA}"/>'
    nested = f'<body name="tip">{nested}<site name="tip" pos="0 {LINK} 0"/></body>'
    for i in reversed(range(links)):
        mass, inertia = (MASS, INERTIA) if i == 0 else (MASSES, INERTIAS)
        nested = f"""
        <body name="link{i}" pos="0 {0 if i == 0 else LINK} 0">
          <joint name="joint{i}" axis="1 0 0"/>
          <inertial pos="0 {LINK} 0" mass="{mass}" diaginertia="{inertia} {inertia} {inertia}"/>
          <geom type="capsule" fromto="0 0 0 0 {LINK} 0" size="{thick}" rgba="{COLOURS[i % 2]}"/>{nested}
        </body>"""
    motors = "".join(f'<motor joint="joint{i}" gear="{TORQUE}" ctrlrange="-1 1"/>' for i in range(links))
    return f"""
    <mujoco model="pendulum-{links}">
      <option timestep="{1 / 60!r}" gravity="0 0 -9.8"/>
      <default><joint type="hinge"/><geom contype="0" conaffinity="0" mass="0"/></default>
      <worldbody>
        <light pos="3 0 4" dir="-0.6 0 -0.8"/>
        <geom name="goal" type="sphere" size="{2 * thick}" pos="0 0 {LINK * links}" rgba="0.2 0.7 0.3 0.6"/>{nested}
      </worldbody>
      <actuator>{motors}</actuator>
    </mujoco>"""
