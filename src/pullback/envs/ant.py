"""The ant that runs."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from pullback.core.system import State
from pullback.envs.environment import EnvState
from pullback.envs.gymnasium_files import load_gymnasium
from pullback.envs.random import Random
from pullback.envs.rotations import up_and_heading
from pullback.envs.runner import Runner, scattered
from pullback.model import Model

MIDDLE = (0, 0, 0.85, 1, 0, 0, 0, *(0, 1, 0, -1), *(0, -1, 0, 1))  # of starts: over the floor, ankles bent [m, rad]
LOW, HIGH, UPRIGHT = 0.26, 1.0, 0.1  # heights between which the ant is up [m], and how far its z points up
FASTEST = 60.0  # of any joint: beyond, an episode is over [m/s, rad/s]


class Ant(Runner):
    """Gymnasium's ant runs along x. Rewards are DiffRL's: speed, and a little for height and orientation.

    An episode ends at a height of less than 0.26 m or more than 1 m, and when the torso has turned over, as in E.
    Heiden's "SHAC and SAPO locomotion with the MuJoCo Warp adjoint".
    """

    name = "ant"
    about = "a four-legged ant runs along x as fast as it can"
    settings = {
        "sapo": {"reward_scale": 0.1, "worlds": 64, "minibatches": 2},
        "shac": {"reward_scale": 0.1}, "ppo": {"reward_scale": 0.1},
        "sac": {"reward_scale": 0.1, "worlds": 16, "updates_per_step": 0.25, "actor_every": 2, "horizon": 4,
                "temperature": 0.03},
        "mbpo": {"reward_scale": 0.1, "worlds": 16, "window": 16, "updates_per_step": 2.0, "actor_every": 2,
                 "temperature": 0.03},
    }  # fmt: skip

    def model(self) -> Model:
        return load_gymnasium("ant", integrator="implicitfast", timestep=self.timestep)

    def start(self, random: Random) -> State:
        return scattered(random, self.tensor(MIDDLE[7:]), self.system.nv, heights=(0.65, 0.85))

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        q, v = after.physics[:2]
        up, heading = up_and_heading(q[:, 3:7])
        return {"speed": v[:, 0], "up": 0.1 * up, "heading": heading, "height": q[:, 2] - 0.27}

    def terminated(self, state: EnvState) -> torch.Tensor:
        q, v = state.physics[:2]
        up, _ = up_and_heading(q[:, 3:7])
        return (q[:, 2] < LOW) | (q[:, 2] > HIGH) | (up < UPRIGHT) | (v.abs().amax(1) > FASTEST)


class AntSeed(Ant):
    """The ant as Qiao et al., "Efficient Differentiable Simulation of Articulated Bodies" (ICML 2021) reward it.

    As in their code: observation (orientation, height, joints, 0.05 times all velocities: 27 numbers), reward (speed of
    the torso - 0.5 Σ a² + 1 for being alive), control steps of 50 ms, an end outside 0.2 m to 1 m, starts (±0.1 on
    coordinates, deviation 0.1 on velocities), torques of 150 N·m. Physics are MuJoCo's, with Gymnasium's ant, in steps
    of 2.5 ms with implicitfast: theirs is another simulator, in steps of 10 ms with RK4. Starts are at 0.85 m,
    over the floor, with ankles bent as far as Gymnasium's ranges ask.
    """

    name = "ant-seed"
    about = "the ant with the reward of Qiao et al. (2021): speed, less effort, and 1 for being alive"
    hold = 20
    settings = {**Ant.settings, "sapo": {**Ant.settings["sapo"], "window": 4}}

    def start(self, random: Random) -> State:
        near = self.tensor(MIDDLE) + random.uniform(self.system.nq, low=-0.1, high=0.1)
        q = torch.cat([near[:, :3], normalize(near[:, 3:7], dim=1), near[:, 7:]], dim=1)
        return State(q, 0.1 * random.normal(self.system.nv))

    def observe(self, state: EnvState) -> torch.Tensor:
        q, v = state.physics[:2]
        return torch.cat([normalize(q[:, 3:7], dim=1), q[:, 2:3], q[:, 7:], 0.05 * v], dim=1)

    def reward(self, before: EnvState, action: torch.Tensor, after: EnvState) -> dict[str, torch.Tensor]:
        speed = (after.physics.q[:, 0] - before.physics.q[:, 0]) / self.control_dt
        return {"speed": speed, "effort": -0.5 * (action * action).sum(1), "alive": torch.ones_like(speed)}

    def terminated(self, state: EnvState) -> torch.Tensor:
        height = state.physics.q[:, 2]
        return (height < 0.2) | (height > 1.0)
