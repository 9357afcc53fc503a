"""Problems that live on workers, for tests and benchmarks: imported there by name."""

from __future__ import annotations

import os
import signal

import numpy as np

import pullback as pb
from pullback.scale import Shard


def quadratic(shard: Shard):
    """Random, badly scaled, so that another order of the sum has other bits."""
    random = shard.random()
    target, scale = random.normal(size=1000), 10.0 ** random.uniform(-8, 8, 1000)

    def evaluate(x):
        return 0.5 * np.sum(scale * (x - target) ** 2), scale * (x - target)

    return evaluate


def pendulums(shard: Shard, steps: int = 20, worlds: int = 3):
    """The swing of some pendulums from random angles, by the controls and by the masses that all of them share."""
    system = pb.Articulated(pb.load(pb.robots.acrobot()), contact=None, worlds=worlds)
    q = shard.random().uniform(-1, 1, (worlds, system.model.nq))

    def evaluate(controls, mass):
        steps, nu = controls.shape
        given = np.broadcast_to(controls[:, None], (steps, worlds, nu))
        run = pb.rollout(system, system.state(q), given, params={"mass": mass})
        grads = run.pullback(q_bar=run.q[-1])
        return {"loss": np.sum(run.q[-1] ** 2) / 2, "controls": grads.controls.sum(1), "mass": grads.params["mass"]}

    return evaluate


def deadly(shard: Shard):
    """Kills its worker the first few times that some shards are evaluated, which files in a folder count."""
    evaluate = quadratic(shard)

    def evaluated(x, folder: str, victims: tuple[int, ...], times: int):
        for attempt in range(times):
            mark = os.path.join(folder, f"{shard.number}-{attempt}")
            if shard.number in victims and not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
        return evaluate(x)

    return evaluated


def broken(shard: Shard):
    def evaluate(error):
        if shard.number == 2:
            raise error

    return evaluate


def scaled(shard: Shard):
    return lambda x, factor: x * factor


def where(shard: Shard):
    """Which process evaluates it."""
    return os.getpid


def nothing(shard: Shard):
    """What a build without a return gives."""


BUILDS = {build.__name__: build for build in (quadratic, pendulums, deadly, broken, scaled, where)}


def any_of(shard: Shard):
    """All of the above, called with a name first: workers take a second to start, so tests share them."""
    built = {}

    def evaluate(name: str, *args):
        if name not in built:
            built[name] = BUILDS[name](shard)
        return built[name](*args)

    return evaluate
