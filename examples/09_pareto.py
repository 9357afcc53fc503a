"""Several wishes at once: an even melt pool, a cool part and little energy, by the power and the speed of a laser.

The laser of the task ``melt-pool`` may change its power and how fast it goes along its path. Each solution is the best
for other weights of the three wishes; of those on the front, none is better than another in all of them.

Run: python examples/09_pareto.py [--quick]
"""

import sys
from pathlib import Path

import numpy as np

from pullback.tasks import TASKS, Loss, pareto
from pullback.view import plot_front

QUICK = "--quick" in sys.argv
task = TASKS["melt-pool"](by="both")
heat = task.system
bottom = np.flatnonzero(heat.mesh.nodes[:, 2] < heat.mesh.low[2] + 1e-9)


def energy(run):
    """That the laser spends [J]."""
    bar = np.zeros(run.controls.shape)
    bar[:, :, 0] = heat.dt
    return Loss(heat.dt * run.controls[:, :, 0].sum(axis=0), {"T_bar": np.zeros(run.T.shape)}, bar)


def warmth(run):
    """Of the bottom of the plate: the mean square of its rise over all times [K²]."""
    rise = run.T[:, :, bottom] - 300.0
    T_bar = np.zeros(run.T.shape)
    T_bar[:, :, bottom] = 2 * rise / (rise.shape[0] * rise.shape[2])
    return Loss((rise**2).mean(axis=(0, 2)), {"T_bar": T_bar})


objectives = {"uneven pool": task.loss, "warm bottom": warmth, "energy": energy}
divisions, iterations = (1, 3) if QUICK else (3, 25)
watch = lambda done, count: print(f"{done} of {count}", end="\r", file=sys.stderr, flush=True)  # noqa: E731
front = pareto(task, objectives, divisions=divisions, iterations=iterations, watch=watch)

pool, bottom_rise, joules = 100 * np.sqrt(2 * front.values[:, 0]), np.sqrt(front.values[:, 1]), front.values[:, 2]
print("  weights             depth off [%]   bottom [K]   energy [J]")
for row, weights in enumerate(front.weights):
    shares = " ".join(f"{weight:5.2f}" for weight in weights)
    mark = "*" if front.best[row] else " "
    print(f"{mark} {shares}   {pool[row]:13.1f}   {bottom_rise[row]:10.1f}   {joules[row]:10.1f}")
folder = Path("out/pareto")
folder.mkdir(parents=True, exist_ok=True)
labels = ("depth of the pool, off the wanted [%]", "rise at the bottom [K]", "energy [J]")
values = np.column_stack([pool, bottom_rise, joules])
print(plot_front(folder / "front.png", values, front.best, labels=labels, title="melt pool, temperature, energy"))
print(
    f"success: {front.best.sum()} of {len(values)} solutions are on the front" if front.best.sum() > 1 else "no front"
)
