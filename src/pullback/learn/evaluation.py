"""What a policy does, from starts that are always the same: in Pullback, or in MuJoCo itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import mujoco
import numpy as np
import torch

from pullback.core.checks import check_number, check_whole, shown
from pullback.core.errors import PullbackError
from pullback.core.system import System
from pullback.core.threads import one_torch_thread
from pullback.dynamics import Articulated
from pullback.envs import Environment, EnvState
from pullback.envs.environment import divided
from pullback.envs.registry import named
from pullback.learn.policy import Policy

PLANTS = ("pullback", "mujoco")
THREADS = 4  # that step MuJoCo
SAME = 1e-6  # by which parameters may differ from the robot's, as they do in float32 [1]


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one episode from each initial state.

    returns:   (starts,) sums of rewards, without discount
    lengths:   (starts,) control steps until it terminated, or all
    survived:  (starts,) booleans: it never terminated
    metrics:   the environment's own by name, (starts,), means over the steps of the episode
    terms:     parts of the reward likewise
    """

    returns: np.ndarray
    lengths: np.ndarray
    survived: np.ndarray
    metrics: dict[str, np.ndarray]
    terms: dict[str, np.ndarray]

    def summary(self) -> dict[str, float]:
        """Means over starts."""
        found = {"return": float(self.returns.mean()), "deviation": float(self.returns.std())}
        found |= {"survived": float(self.survived.mean()), "length": float(self.lengths.mean())}
        return found | {name: float(x.mean()) for name, x in self.metrics.items()}


@torch.no_grad()
@one_torch_thread()
def evaluate(
    policy: Policy | Callable,
    env: Environment | str,
    *,
    starts: int = 256,
    seed: int = 10_000,
    steps: int | None = None,
    plant: str = "pullback",
    timestep: float | None = None,
    watch: Callable[[EnvState], None] | None = None,
) -> Evaluation:
    """Runs the most likely actions of a policy from ``starts`` random initial states, which depend on ``seed`` only.

    policy:    or any function from observations (starts, n) to actions (starts, m), which are clipped to [-1, 1]
    env:       or the name of one
    steps:     control steps, fewer or more than the environment's time limit, which is the default
    plant:     "pullback", or "mujoco": mj_step in float64, without any of Pullback's physics
    timestep:  of MuJoCo; a control step is a multiple of it, to rounding [s]
    watch:     called with every state, including the first
    """
    if not isinstance(plant, str) or plant not in PLANTS:
        raise PullbackError(f"plant={shown(plant)} is not known: use {' or '.join(map(repr, PLANTS))}")
    if timestep is not None and plant != "mujoco":
        raise PullbackError("timestep is for plant='mujoco': make the environment with another for Pullback's own")
    env = named(env)
    starts, steps = check_whole(starts, "starts"), check_whole(env.limit if steps is None else steps, "steps")
    if isinstance(policy, Policy):
        policy.check(env)
        policy = copy.deepcopy(policy)
    elif not callable(policy):
        raise PullbackError(f"policy must be a Policy or a function, not {shown(policy)}: Policy.load reads a file")
    env = env.in_worlds(starts, dtype="float64" if plant == "mujoco" else None)
    if isinstance(policy, torch.nn.Module):
        policy = policy.to(device=env.device, dtype=env.dtype)
    simulate = MuJoCo(env, timestep) if plant == "mujoco" else None
    random = env.random(seed)
    state = env.reset(random)
    alive = torch.ones(starts, dtype=torch.bool, device=env.device)
    lengths = torch.zeros(starts, dtype=torch.int64, device=env.device)
    sums: dict[str, torch.Tensor] = {}
    if watch is not None:
        watch(state)
    for _ in range(steps):
        action = policy(env.check_observation(env.observe(state)))
        action = torch.as_tensor(action, dtype=env.dtype, device=env.device).clamp(-1, 1)
        done = env.step(state, action, random, plant=simulate)
        env.check_reward(done)
        lengths += alive
        metrics = env.check_metrics(env.metrics(state, action, done.state))
        rows = {"return": done.reward} | {f"term {k}": x for k, x in done.terms.items()}
        for name, x in (rows | {f"metric {k}": x for k, x in metrics.items()}).items():
            sums[name] = sums.get(name, 0.0) + torch.where(alive & ~done.failed, x, torch.zeros_like(x))
        alive = alive & ~done.terminated
        # An episode that is over stays at a start: what becomes of it does not count.
        state = env.reset_where(~alive, done.state, random)
        if watch is not None:
            watch(state)
        if not alive.any():
            break
    found = {name: x.cpu().numpy() for name, x in sums.items()}
    count = lengths.cpu().numpy()
    means = {name: x / np.maximum(count, 1) for name, x in found.items()}
    pick = lambda kind: {k.removeprefix(kind): x for k, x in means.items() if k.startswith(kind)}  # noqa: E731
    return Evaluation(found["return"], count, alive.cpu().numpy(), pick("metric "), pick("term "))


class MuJoCo:
    """An environment's robot in MuJoCo: one MjData per world, stepped by mj_step."""

    def __init__(self, env: Environment, timestep: float | None = None):
        system = env.system
        if (refusal := self.refusal(system)) is not None:
            raise PullbackError(f"plant='mujoco' {refusal}")
        self.model = copy.copy(system.model.mujoco)
        if system.contact is None:
            self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        self.hold = env.hold
        if timestep is not None:
            self.hold = divided(env.control_dt, check_number(timestep, "timestep"))
            self.model.opt.timestep = env.control_dt / self.hold
        self.data = [mujoco.MjData(self.model) for _ in range(system.worlds)]
        self.state_type = system.state_type
        self.pool = ThreadPoolExecutor(THREADS)

    @staticmethod
    def refusal(system: System) -> str | None:
        """Why MuJoCo cannot simulate this System, or None if it can."""
        if not isinstance(system, Articulated):
            return f"is for robots, not for {type(system).__name__}"
        own = Articulated(system.model, system.contact).params
        changed = [name for name, x in own.items() if not np.allclose(x, system.params[name], rtol=SAME, atol=0.0)]
        if changed:
            return f"has the robot as model() gives it, but {changed[0]} was changed in the System's params"
        return None

    def __call__(self, physics, control: torch.Tensor, hold: int):
        """The physics after a control step, and in which worlds MuJoCo warned that they are bad."""
        *before, u = (np.ascontiguousarray(x.cpu().numpy(), dtype=float) for x in (*physics, control))
        failed = np.zeros(len(u), dtype=bool)
        after = [x.copy() for x in before]

        def run(worlds: np.ndarray) -> None:
            for i in worlds:
                data = self.data[i]
                fields = (data.qpos, data.qvel, data.act)[: len(before)]
                for field, x in zip((*fields, data.ctrl), (*before, u), strict=True):
                    field[:] = x[i]
                mujoco.mj_step(self.model, data, self.hold)
                failed[i] = any(data.warning[kind].number for kind in BAD) or not np.all(np.isfinite(data.qpos))
                if failed[i]:
                    mujoco.mj_resetData(self.model, data)
                else:
                    for x, field in zip(after, fields, strict=True):
                        x[i] = field

        list(self.pool.map(run, np.array_split(np.arange(len(u)), THREADS)))
        like = physics[0]
        physics = self.state_type(*(torch.as_tensor(x).to(like) for x in after))
        return physics, torch.as_tensor(failed, device=like.device)


BAD = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
