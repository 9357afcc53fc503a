"""An environment whose episodes end in both ways within a few steps, after what its actions decide."""

import numpy as np

from pullback.envs.pendulum import Pendulum


class Falling(Pendulum):
    """Terminated when the first link has fallen by 0.4 rad, truncated after 9 steps."""

    limit = 9

    def terminated(self, state):
        return state.physics.q[:, 0] < -0.4

    def metrics(self, before, action, after):
        return {"angle": after.physics.q[:, 0]}


def pushes(worlds: int, steps: int) -> np.ndarray:
    """Actions (steps, worlds, 1) that push the first worlds down and the last ones up, in float32."""
    noise = np.random.default_rng(0).uniform(-0.2, 0.2, (steps, worlds, 1))
    return np.clip(np.linspace(-1, 0.8, worlds)[:, None] + noise, -1, 1).astype(np.float32)
