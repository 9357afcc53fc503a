"""The humanoid that runs."""

from __future__ import annotations

import mujoco
import numpy as np
import torch
from torch.nn.functional import normalize

from pullback.core.system import State
from pullback.envs.environment import EnvState
from pullback.envs.random import Random
from pullback.envs.rotations import up_and_heading
from pullback.envs.runner import Runner, height_reward, scattered
from pullback.model import Model, load, robots

DAMPING = 10.0  # times that of the robot: with less, gradients of different starts agree on little
LOW = 0.55  # height of the pelvis below which it has fallen; it stands at 0.92 [m]
BENT = 0.02  # starts keep this far from the ends of ranges, where joints have a kink [rad]


class Humanoid(Runner):
    """``robots.humanoid()`` runs along x. Observation and reward are DiffRL's, with heights for this pelvis.

    Its joints are damped ten times as much as the robot's (10 N·m·s/rad in legs and spine, 3 in arms).
    """

    name = "humanoid"
    about = "a person-sized robot walks or runs along x"
    settings = {
        "sapo": {"reward_scale": 0.1, "window": 16, "target_memory": 0.9, "hidden": (256, 128), "worlds": 64},
        "shac": {"reward_scale": 0.1, "window": 16, "target_memory": 0.9, "hidden": (256, 128)},
        "ppo": {"reward_scale": 0.1, "hidden": (256, 128)},
    }

    def model(self) -> Model:
        spec = mujoco.MjSpec.from_string(robots.humanoid())
        for joint in spec.joints:
            joint.damping *= DAMPING
        return load(spec, integrator="implicitfast", timestep=self.timestep)

    def _tensors(self) -> None:
        super()._tensors()
        model = self.system.model.mujoco
        limits = np.full((model.nq, 2), (-np.inf, np.inf))
        hinges = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
        limits[model.jnt_qposadr[hinges]] = model.jnt_range[hinges] + (BENT, -BENT)
        self._low, self._high = self.tensor(limits.T)
        self._shoulders = [int(at) for at in model.jnt_qposadr[model.jnt_type == mujoco.mjtJoint.mjJNT_BALL]]
        self._joints = self.home().q[0, 7:]

    def start(self, random: Random) -> State:
        q, v = scattered(random, self._joints, self.system.nv, heights=(0.96, 1.02), spread=0.1)
        q = torch.clamp(q, self._low, self._high)
        for at in self._shoulders:
            q[:, at : at + 4] = normalize(q[:, at : at + 4], dim=1)
        return State(q, v)

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        q, v = after.physics
        up, heading = up_and_heading(q[:, 3:7])
        height = height_reward(q[:, 2], LOW, tolerance=0.1, cap=0.1, slope=10.0)
        effort = -0.002 * (action * action).sum(1)
        return {"speed": v[:, 0], "up": 0.1 * up, "heading": heading, "height": height, "effort": effort}

    def terminated(self, state: EnvState) -> torch.Tensor:
        return state.physics.q[:, 2] < LOW
