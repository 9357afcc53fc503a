"""A quadruped that follows commands."""

from __future__ import annotations

import mujoco
import numpy as np
import torch

from pullback.core.system import State
from pullback.envs.environment import Environment, EnvState
from pullback.envs.random import Random
from pullback.envs.rotations import into_body
from pullback.envs.runner import scattered
from pullback.model import Model, load, robots

# Of servos: with two thirds of this stiffness, it sinks and falls over from its home pose. [N·m/rad, N·m·s/rad]
STIFFNESS, DAMPING = 120.0, 4.0
REACH = {"hip": 0.3, "thigh": 0.5, "calf": 0.5}  # of targets from the home pose, for an action of one [rad]
FASTEST = 1.0  # command, forwards, sideways and of turning [m/s, rad/s]
COMMAND = 500  # control steps after which there is another command: 10 s
CHANGE = 250  # in training, it changes besides, at random, every so many control steps in the mean: 5 s
TILT = 0.5  # it has fallen if its z points up less than this


class Quadruped(Environment):
    """``robots.quadruped()`` follows commands: speeds forwards and sideways, and of turning.

    Task, observation and reward are those of Isaac Lab's flat velocity environments but for the reward for feet in the
    air, which has no gradient. Actions are targets of position servos, up to 0.5 rad (hips: 0.3 rad) from the home
    pose. There is another command every 10 s, and in training also at random, every 5 s in the mean. An episode of 20 s
    ends when the trunk touches the floor or tilts by more than 60°.
    """

    name = "quadruped"
    about = "a four-legged robot follows commands: forwards, sideways, turning"
    hold, timestep = 8, 0.0025
    limit = 1000
    settings = {
        "sapo": {"reward_scale": 0.3, "worlds": 64, "minibatches": 2},
        "shac": {"reward_scale": 0.3, "worlds": 256},
        "ppo": {"reward_scale": 0.3, "worlds": 1024},
    }

    def model(self) -> Model:
        spec = mujoco.MjSpec.from_string(robots.quadruped())
        home = np.array(spec.keys[0].qpos)[7:]
        for i, motor in enumerate(spec.actuators):
            motor.forcerange, motor.forcelimited = motor.ctrlrange, True
            motor.set_to_position(kp=STIFFNESS, kv=DAMPING)
            reach = REACH[motor.name.split("_")[1]]
            motor.ctrlrange = (home[i] - reach, home[i] + reach)
        return load(spec, integrator="implicitfast", timestep=self.timestep)

    def _tensors(self) -> None:
        super()._tensors()
        model = self.system.model.mujoco
        self._pose, self._up = self.home().q[0, 7:], self.tensor([0, 0, 1])
        trunk = model.geom("trunk")
        self._trunk = self.tensor(np.stack([trunk.pos, trunk.size]))

    def start(self, random: Random) -> State:
        height = self.system.model.home.q[2]
        return scattered(random, self._pose, self.system.nv, heights=(height + 0.03, height + 0.08), spread=0.1)

    def begin(self, random: Random) -> dict[str, torch.Tensor]:
        return {"command": random.uniform(3, low=-FASTEST, high=FASTEST)}

    def update(self, before: EnvState, action: torch.Tensor, after: EnvState, random: Random) -> dict:
        again = (after.age % COMMAND == 0)[:, None]
        return {"command": torch.where(again, self.begin(random)["command"], after.extra["command"])}

    def disturb(self, state: EnvState, random: Random) -> EnvState:
        change = random.uniform(1) < 1 / CHANGE
        command = torch.where(change, self.begin(random)["command"], state.extra["command"])
        return state._replace(extra={"command": command})

    def moving(self, state: EnvState) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Velocity [m/s], angular velocity [rad/s] and the world's z, all in the trunk's axes, (worlds, 3) each."""
        q, v = state.physics[:2]
        up = into_body(q[:, 3:7], self._up.expand_as(v[:, :3]))
        return into_body(q[:, 3:7], v[:, :3]), v[:, 3:6], up

    def observe(self, state: EnvState) -> torch.Tensor:
        q, v = state.physics[:2]
        velocity, turning, up = self.moving(state)
        joints = (q[:, 7:] - self._pose, v[:, 6:])
        return torch.cat([velocity, turning, -up, state.extra["command"], *joints, state.action], dim=1)

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        velocity, turning, up = self.moving(after)
        command, speeds = before.extra["command"], after.physics.v[:, 6:]
        torque = STIFFNESS * (self.control(after, action) - after.physics.q[:, 7:]) - DAMPING * speeds
        faster = (speeds - before.physics.v[:, 6:]) / self.control_dt
        error = squares(velocity[:, :2] - command[:, :2])
        return {
            "velocity": 1.5 * torch.exp(-error / 0.25),
            "precision": 1.5 * torch.exp(-error / 0.03),
            "turning": 0.75 * torch.exp(-((turning[:, 2] - command[:, 2]) ** 2) / 0.25),
            "bouncing": -2.0 * velocity[:, 2] ** 2,
            "rolling": -0.05 * squares(turning[:, :2]),
            "torque": -2e-4 * squares(torque),
            "acceleration": -2.5e-7 * squares(faster),
            "jerk": -0.01 * squares(action - before.action),
            "tilt": -2.5 * squares(up[:, :2]),
        }

    def terminated(self, state: EnvState) -> torch.Tensor:
        *_, up = self.moving(state)
        middle, half = self._trunk
        lowest = state.physics.q[:, 2] + (up * middle).sum(1) - (up.abs() * half).sum(1)  # corner of the trunk's box
        return (lowest < 0) | (up[:, 2] < TILT)

    def metrics(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        """error: of the velocity [m/s]; turning_error: of the speed of turning [rad/s]."""
        velocity, turning, _ = self.moving(after)
        command = before.extra["command"]
        error = squares(velocity[:, :2] - command[:, :2]).sqrt()
        return {"error": error, "turning_error": (turning[:, 2] - command[:, 2]).abs()}


def squares(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum(dim=1)
