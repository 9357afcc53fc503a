"""How well and how fast are policies learned through the simulator? Judged in MuJoCo, on starts of their own.

    python benchmarks/learn.py [--json FILE] [--quick] [--only NAME ...]

Rows that name a peer train it in the same run, on the same simulator and cores. Times are those of training alone:
kernels are compiled before, evaluations during training are counted. Needs torch; stable-baselines3 for its PPO. All of
it takes some hours on two cores: answer questions one by one with --only.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from common import Result, main

from pullback.core.threads import one_torch_thread
from pullback.envs import make
from pullback.learn import SAPO, diagnose, evaluate, train

STARTS = 256
SEED = 31_000  # of the starts that policies are judged on
GOOD, RANDOM = 0.995, 0.97  # shares of a pendulum's greatest return


def judged(policy, env, *, steps=None, **options):
    return evaluate(policy, env, starts=STARTS, seed=SEED, steps=steps, plant="mujoco", **options)


def pendulums(quick: bool):
    """Return over the maximum, from a fixed start and from random ones (Qiao et al. 2021: table 4)."""
    seeds, links = (1, (1, 2)) if quick else (10, range(1, 8))
    for n in links:
        for spread, must in ((0.0, GOOD), (0.2, RANDOM)):
            env = make(f"pendulum-{n}", spread=spread)
            shares, seconds = [], []
            for seed in range(seeds if spread == 0 else min(seeds, 3)):
                training = train(env, "bptt", minutes=0.2 if quick else 0.9, seed=seed, evaluations=8, starts=16)
                shares.append(judged(training.policy, env).returns.mean() / (n * n / 2))
                seconds.append(training.seconds)
            start = "random starts" if spread else "fixed start"
            note = f"{len(shares)} seeds, {max(seconds):.0f} s at most; mean {np.mean(shares):.4f}"
            yield Result(f"pendulum of {n}, {start}: least return / maximum", min(shares), "", f">= {must}", "", note)


def cartpole(quick: bool):
    """Swing-up: the share of starts from which the pole is upright throughout the last second."""
    env, found = make("cartpole"), []
    for seed in range(1 if quick else 3):
        training = train(env, "sapo", minutes=0.1 if quick else 0.5, seed=seed, evaluations=3)
        found.append(float((judged(training.policy, env).metrics["upright"] > 0.999).mean()))
    note = f"{len(found)} seeds: {', '.join(f'{x:.3f}' for x in found)}"
    name = "cart-pole, 30 s: starts from which the pole is upright in the last second"
    yield Result(name, np.median(found), "", ">= 0.99", "", note)


def ant(quick: bool):
    """Speed and share upright after 90 s and 6 min of two cores, and two PPOs' after 6 min."""
    seeds, budgets = (1, (Budget(0.2),)) if quick else (3, (Budget(1.5, 4.5, 0.9), Budget(6.0, 5.5, 0.95)))
    for minutes, speed, upright in budgets:
        rows = [run("ant", "sapo", minutes, seed, evaluations=round(2 + minutes)) for seed in range(seeds)]
        median, note = medians(rows), "; ".join(map(told, rows))
        after = f"ant, {60 * minutes:.0f} s"
        yield Result(f"{after}: speed", median["speed"], "m/s", f">= {speed}", "", note)
        yield Result(f"{after}: upright after 10 s", median["survived"], "", f">= {upright}", "", note)
    for peer, found in (("PPO", run("ant", "ppo", minutes, 0)), ("stable-baselines3 PPO", baselines("ant", minutes))):
        yield Result(f"{after}: speed / PPO's", median["speed"] / found["speed"], "ratio", ">= 3", peer, told(found))
        if not quick:  # 4.5 m/s after 90 s are ours
            reached = found["speed"] >= budgets[0].speed
            ratio = None if reached else budgets[1].minutes / budgets[0].minutes
            name = f"ant: time to {budgets[0].speed} m/s / ours, at least"
            yield Result(name, ratio, "ratio", ">= 4", peer, "reached" if reached else f"not reached: {told(found)}")


def enhancement(quick: bool):
    """Experience until SAC with policy enhancement and MBPO with sample enhancement have the best return of the method
    without it, over all the experience of that (Qiao et al. 2021: figure 5)."""
    rounds = {("pendulum-5", "sac"): 120, ("pendulum-5", "mbpo"): 40, ("ant", "sac"): 300, ("ant", "mbpo"): 40}
    for (name, method), updates in rounds.items():
        kind, shares, notes = "policy" if method == "sac" else "samples", [], []
        for seed in range(1 if quick else 3):
            options = {"updates": 3 if quick else updates, "seed": seed, "evaluations": 20, "starts": 64}
            plain, enhanced = (train(name, method, enhance=each, **options).log for each in (None, kind))
            best = max(row["eval return"] for row in plain if "eval return" in row)
            reached = [row for row in enhanced if row.get("eval return", -np.inf) >= best]
            shares.append(reached[0]["steps"] / plain[-1]["steps"] if reached else np.inf)
            again = sum(row.get("resimulated", 0) for row in enhanced) / enhanced[-1]["steps"]
            notes.append(f"{best:.3g} after {shares[-1]:.2f} of {plain[-1]['steps']} steps")
        note = "; ".join(notes) + (f"; {again:.0f} steps simulated again per step of experience" if again else "")
        title = f"{name}: {method} with enhanced {kind}, experience to the best return without it"
        yield Result(title, np.median(shares), "ratio", "<= 0.5", method, note)


def speed(quick: bool):
    """Control steps per second in training, and which share of the time goes to networks."""
    env = make("ant", timestep=0.005)
    learner = SAPO(reward_scale=0.1).begin(env, 0)
    system, physics, whole = learner.env.system, [], []

    def timed(function):
        def run(*given, **options):
            began = time.perf_counter()
            found = function(*given, **options)
            physics.append(time.perf_counter() - began)
            return found

        return run

    system.steps, system.step_pullback = timed(system.steps), timed(system.step_pullback)
    with one_torch_thread():
        for _ in range(5 if quick else 60):
            physics.clear()
            began = time.perf_counter()
            learner.update(0.0)
            seconds = time.perf_counter() - began
            whole.append((seconds, 1 - sum(physics) / seconds))
    seconds, share = np.median(whole[2:], axis=0)
    rate = learner.method.worlds * learner.method.window / seconds
    yield Result(
        "ant, 5 ms: control steps in training", rate, "1/s", ">= 7000", "", f"{1e3 * seconds:.0f} ms per update"
    )
    yield Result("ant, 5 ms: share of time outside of the simulator", share, "", "", "", "networks, mostly")


class Budget(NamedTuple):
    """Minutes of training, and what must come of them."""

    minutes: float
    speed: float = 0.0  # [m/s]
    upright: float = 0.0


def run(name: str, method: str, minutes: float, seed: int, **options) -> dict[str, float]:
    env = make(name)
    training = train(env, method, minutes=minutes, seed=seed, **options)
    return judge_runner(training.policy, env) | {"rate": training.steps / training.seconds}


def judge_runner(policy, env) -> dict[str, float]:
    """Speed over 10 s [m/s], where what an episode that ended early would have run counts as nothing."""
    found = judged(policy, env, steps=500)
    speed = float((found.metrics["speed"] * found.lengths / 500).mean())
    return {"speed": speed, "survived": float(found.survived.mean())}


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.median([row[name] for row in rows])) for name in rows[0]}


def told(row: dict[str, float]) -> str:
    return f"{row['speed']:.2f} m/s, {row['survived']:.0%} up, {row['rate']:.0f} steps/s"


def baselines(name: str, minutes: float) -> dict[str, float]:
    """PPO of stable-baselines3 with normalised observations and rewards, and otherwise its defaults."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import VecNormalize

    from pullback.envs.stable_baselines import VecEnv

    class Clock(BaseCallback):
        def _on_training_start(self):
            self.began = time.perf_counter()

        def _on_step(self) -> bool:
            return time.perf_counter() - self.began < 60 * minutes

    torch.set_num_threads(1)
    env = VecNormalize(VecEnv(name, 64))
    peer = PPO("MlpPolicy", env, n_steps=64, batch_size=512, seed=0, device="cpu")
    peer.learn(10**9, callback=Clock())

    def act(seen: torch.Tensor) -> torch.Tensor:
        action, _ = peer.predict(env.normalize_obs(seen.numpy()), deterministic=True)
        return torch.as_tensor(action).to(seen)

    return judge_runner(act, make(name)) | {"rate": peer.num_timesteps / (60 * minutes)}


def quadruped(quick: bool):
    """Follows commands: error of the velocity, and share upright, over 10 s."""
    env, rows = make("quadruped"), []
    for seed in range(1 if quick else 3):
        training = train(env, "sapo", minutes=0.2 if quick else 20, seed=seed, evaluations=10)
        found = judged(training.policy, env, steps=500)
        rows.append((float(found.metrics["error"].mean()), float(found.survived.mean())))
    note = "; ".join(f"{error:.3f} m/s, {up:.1%} up" for error, up in rows)
    errors, upright = zip(*rows, strict=True)
    yield Result("quadruped, 20 min: error of the velocity, worst seed", max(errors), "m/s", "<= 0.08", "", note)
    yield Result("quadruped, 20 min: upright after 10 s, worst seed", min(upright), "", ">= 0.98", "", note)


def humanoid(quick: bool):
    """Walks forward."""
    rows = [run("humanoid", "sapo", 0.2 if quick else 20, seed) for seed in range(1 if quick else 3)]
    median, note = medians(rows), "; ".join(map(told, rows))
    yield Result("humanoid, 20 min: speed", median["speed"], "m/s", ">= 1.0", "", note)
    yield Result("humanoid, 20 min: upright after 10 s", median["survived"], "", "", "", note)


def gpu(quick: bool):
    """What a GPU learns in a minute or three, judged in MuJoCo like all others."""
    wanted = (
        ("ant", 1.0, {"speed": ("m/s", ">= 6.3")}),
        ("quadruped", 1.0, {"error": ("m/s", "<= 0.06")}),
        ("humanoid", 3.0, {"speed": ("m/s", ">= 2")}),
    )
    for name, minutes, metrics in wanted:
        title = f"GPU, {name}, {60 * minutes:.0f} s"
        rows = {f"{title}: {metric}": each for metric, each in metrics.items()}
        if not torch.cuda.is_available():
            yield from (Result(row, None, unit, must, "", "absent: no GPU") for row, (unit, must) in rows.items())
            continue
        env = make(name, device="cuda")
        training = train(env, "sapo", minutes=0.1 if quick else minutes, evaluations=4)
        found = judged(training.policy, make(name), steps=500)
        values = {metric: x.mean() for metric, x in found.metrics.items()}
        if "speed" in values:
            values["speed"] = (found.metrics["speed"] * found.lengths / 500).mean()
        note = f"{torch.cuda.get_device_name()}; {found.survived.mean():.1%} upright after 10 s; "
        note += f"{training.steps / training.seconds:.0f} control steps/s in training"
        for metric, (row, (unit, must)) in zip(metrics, rows.items(), strict=True):
            yield Result(row, float(values[metric]), unit, must, "", note)


def transplant(quick: bool):
    """The ant with the reward of Qiao et al. (2021: table 5), trained in Pullback and taken to MuJoCo."""
    env, rows = make("ant-seed"), []
    for seed in range(1 if quick else 3):
        policy = train(env, "sapo", minutes=0.2 if quick else 6, seed=seed).policy
        here = evaluate(policy, env, starts=STARTS, seed=SEED).returns.mean()
        rows.append((judged(policy, env).returns.mean(), here))
    note = "; ".join(f"{there:.0f} in MuJoCo, {here:.0f} in Pullback" for there, here in rows)
    there, here = np.array(rows).T
    off = float(np.abs(there / here - 1).max())
    yield Result("ant-seed: return in MuJoCo", np.median(there), "", ">= 3500", "Qiao et al. 1735", note)
    yield Result("ant-seed: return in MuJoCo / in Pullback, off 1 by", off, "", "<= 0.01", "", note)


def gradients(quick: bool):
    """Half-batch cosine and slope against differences at 8 control steps, of a policy that has begun to learn."""
    names = ("pendulum-3", "ant") if quick else ("pendulum-5", "cartpole", "hopper", "half-cheetah", "ant", "quadruped")
    for name in names:
        env = make(name)
        training = train(env, "sapo", updates=5 if quick else 100, evaluations=1, starts=4)
        row = next(row for row in diagnose(training.policy, env, horizons=(8,)).horizons if row.steps == 8)
        yield Result(f"{name}: cosine of half-batch gradients, 8 control steps", row.cosine, "", ">= 0.85")
        off = abs(row.slope - 1)
        yield Result(f"{name}: slope of the loss against differences, off by", off, "", "<= 0.05")


def interrupted(quick: bool):
    """Killed at random moments and resumed: the same bits."""
    count, same = (2 if quick else 10), 0
    command = "from pullback.learn import train; train('pendulum-2', 'sapo', updates=60, seed={}, out={!r}, worlds=32)"
    rng = np.random.default_rng(0)
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            whole, parts = Path(folder) / "whole", Path(folder) / "parts"
            subprocess.run([sys.executable, "-c", command.format(seed, str(whole))], check=True)
            for wait in rng.uniform(4.0, 12.0, 2):
                process = subprocess.Popen([sys.executable, "-c", command.format(seed, str(parts))])
                time.sleep(wait)
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            subprocess.run([sys.executable, "-c", command.format(seed, str(parts))], check=True)
            with np.load(whole / "checkpoint.npz") as a, np.load(parts / "checkpoint.npz") as b:
                same += all(np.array_equal(a[name], b[name]) for name in set(a) - {"header"})
    yield Result("killed twice and resumed: trainings that end with the same bits", same, "", f">= {count}")


def failures(quick: bool):
    """One world in 64 is made to blow up every 100 control steps: training goes on."""
    calm, returns = make("hopper"), {}

    class Wild(type(calm)):
        calls = 0

        def _simulate(self, physics, control, hold):
            Wild.calls += 1
            if Wild.calls % 100 == 0 and len(control) >= 64:
                bad = (torch.arange(len(control)) % 64 == 0)[:, None]
                physics = physics._replace(v=torch.where(bad, 1e30, physics.v))
            return super()._simulate(physics, control, hold)

    for env in (calm, Wild()):
        training = train(env, "sapo", updates=10 if quick else 200, evaluations=2, starts=16)
        failed = sum(row["failed"] for row in training.log)
        returns[type(env)] = (judged(training.policy, calm, steps=500).returns.mean(), failed)
    (without, _), (with_failures, failed) = returns.values()
    note = f"{failed:.0f} worlds failed"
    ratio = with_failures / without if failed else None
    yield Result("one world in 64 blows up every 100 steps: return / without", ratio, "ratio", ">= 0.9", "", note)


if __name__ == "__main__":
    robots = {"ant": ant, "quadruped": quadruped, "humanoid": humanoid, "gpu": gpu, "transplant": transplant}
    trust = {"speed": speed, "gradients": gradients, "interrupted": interrupted, "failures": failures}
    main({"pendulums": pendulums, "cartpole": cartpole, "enhancement": enhancement, **robots, **trust})
