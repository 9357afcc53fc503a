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

# Times those of the robot. With less damping, gradients of different starts agree on little; what it then takes of the
# torques is made up for: with the robot's own, policies learn to dive forwards.
DAMPING, TORQUES = 10.0, 1.75
LOW, UPRIGHT = 0.55, 0.4  # it has fallen if its pelvis, at 0.92 m when it stands, is lower [m], or its z points up less
# Of starts, in joints that it names, on either side; soles are level. [rad]
BENT = {"hip_flexion": 0.3, "knee_flexion": 0.6, "ankle_dorsiflexion": 0.3, "elbow_flexion": 0.3}
INSIDE = 0.02  # starts keep this far from the ends of ranges, where joints have a kink [rad]


class Humanoid(Runner):
    """``robots.humanoid()`` runs along x. Observation and reward are DiffRL's, with heights for this pelvis.

    Its joints are damped ten times as much as the robot's (10 N·m·s/rad in legs and spine, 3 in arms), and its motors
    1.75 times as strong. It starts with bent knees, a few centimetres over the floor. An episode ends when the pelvis
    is lower than 0.55 m or tilts by more than 66°.
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
        for motor in spec.actuators:
            motor.ctrlrange *= TORQUES
        return load(spec, integrator="implicitfast", timestep=self.timestep)

    def _tensors(self) -> None:
        super()._tensors()
        model = self.system.model.mujoco
        limits = np.full((model.nq, 2), (-np.inf, np.inf))
        hinges = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
        limits[model.jnt_qposadr[hinges]] = model.jnt_range[hinges] + (INSIDE, -INSIDE)
        self._low, self._high = self.tensor(limits.T)
        self._shoulders = [int(at) for at in model.jnt_qposadr[model.jnt_type == mujoco.mjtJoint.mjJNT_BALL]]
        pose = self.system.model.home.q.copy()
        for name, angle in BENT.items():
            for side in ("left", "right"):
                pose[model.joint(f"{side}_{name}").qposadr] = angle
        self._joints = self.tensor(pose[7:])

    def start(self, random: Random) -> State:
        q, v = scattered(random, self._joints, self.system.nv, heights=(0.90, 0.95), spread=0.1)
        q = torch.clamp(q, self._low, self._high)
        for at in self._shoulders:
            q[:, at : at + 4] = normalize(q[:, at : at + 4], dim=1)
        return State(q, v)

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        q, v = after.physics[:2]
        up, heading = up_and_heading(q[:, 3:7])
        height = height_reward(q[:, 2], LOW, tolerance=0.1, cap=0.1, slope=10.0)
        effort = -0.002 * (action * action).sum(1)
        return {"speed": v[:, 0], "up": 0.1 * up, "heading": heading, "height": height, "effort": effort}

    def terminated(self, state: EnvState) -> torch.Tensor:
        up, _ = up_and_heading(state.physics.q[:, 3:7])
        return (state.physics.q[:, 2] < LOW) | (up < UPRIGHT)
