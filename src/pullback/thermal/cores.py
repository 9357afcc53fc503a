"""How a part is shared among the cores of a CPU."""

from __future__ import annotations

import threading

import numpy as np
import warp as wp

from pullback.core.launch import launch
from pullback.kernels import specialise

# A core that has fewer elements than this waits for the others longer than it works.
LEAST_ELEMENTS = 400


def shares_of(precision: str, worlds: int, elements: int, cores: int, device: str = "cpu") -> list:
    """Worlds for each core, or a share of every world if there are fewer worlds than cores."""
    share = specialise(precision, "heat.cores").Share
    arrived = wp.zeros(1, dtype=wp.int32, device=device)
    if worlds >= cores:
        bounds = np.linspace(0, worlds, cores + 1).astype(int)
        shares = [(a, b, 0, 1) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    else:
        cores = max(1, min(cores, worlds * elements // LEAST_ELEMENTS))
        shares = [(0, worlds, core, cores) for core in range(cores)]
    result = []
    for lane, numbers in enumerate(shares):
        mine = share()
        mine.first_world, mine.end_world, mine.core, mine.cores = (int(x) for x in numbers)
        mine.lane, mine.arrived = lane, arrived
        result.append(mine)
    return result


def on_cores(kernel, shares: list, inputs_of) -> None:
    """The kernel on every core at once; inputs_of(share) are its inputs."""
    commands = [launch(kernel, 1, inputs_of(share), "cpu", record_cmd=True) for share in shares]
    shares[0].arrived.zero_()
    # Threads of their own, not of a pool: a pool's may be gone after a fork, and the others would wait for ever.
    others = [threading.Thread(target=command.launch) for command in commands[1:]]
    for other in others:
        other.start()
    commands[0].launch()
    for other in others:
        other.join()


def launches_of(steps: int, at_once: int) -> list[tuple[int, int]]:
    """First and end of at most ``at_once`` steps each, at least one."""
    at_once = max(1, at_once)
    return [(first, min(first + at_once, steps)) for first in range(0, steps, at_once)]
