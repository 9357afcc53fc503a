"""Several objectives for a laser's power: a temperature history, an even melt pool, and little energy.

The power of the laser of the task ``melt-pool`` is optimised. The underside of the plate should warm linearly, and by
less than it does with a pool of the target depth. Each solution is the best for one set of weights of the three
objectives; none of those on the front is better than another in all objectives.

Run: python examples/09_pareto.py [--quick]
"""

import sys
from pathlib import Path

import numpy as np

from pullback.tasks import TASKS, Loss, pareto
from pullback.view import plot_front

QUICK = "--quick" in sys.argv
task = TASKS["melt-pool"]()
heat = task.system
bottom = np.flatnonzero(heat.mesh.nodes[:, 2] < heat.mesh.low[2] + 1e-9)
wanted = np.linspace(0, 150, task.find.steps + 1)  # rise of the underside over time [K]


def energy(run):
    """That the laser spends [J]."""
    bar = np.zeros(run.controls.shape)
    bar[:, :, 0] = heat.dt
    return Loss(heat.dt * run.controls[:, :, 0].sum(axis=0), {"T_bar": np.zeros(run.T.shape)}, bar)


def history(run):
    """Of the underside: the mean square distance of its mean rise from the wanted one [K²]."""
    off = run.T[:, :, bottom].mean(axis=2) - 300.0 - wanted[:, None]  # (steps + 1, worlds)
    T_bar = np.zeros(run.T.shape)
    T_bar[:, :, bottom] = (2 * off / (off.shape[0] * len(bottom)))[..., None]
    return Loss((off**2).mean(axis=0), {"T_bar": T_bar})


objectives = {"uneven pool": task.loss, "history": history, "energy": energy}
divisions, iterations, rounds = (1, 3, 1) if QUICK else (3, 20, 3)
watch = lambda done, count: print(f"{done} of {count}", end="\r", file=sys.stderr, flush=True)  # noqa: E731
front = pareto(task, objectives, divisions=divisions, iterations=iterations, rounds=rounds, watch=watch)

pool, underside, joules = 100 * np.sqrt(2 * front.values[:, 0]), np.sqrt(front.values[:, 1]), front.values[:, 2]
print("  weights             depth off [%]  history [K]   energy [J]")
for row, weights in enumerate(front.weights):
    shares = " ".join(f"{weight:5.2f}" for weight in weights)
    mark = "*" if front.best[row] else " "
    print(f"{mark} {shares}   {pool[row]:13.1f}   {underside[row]:10.1f}   {joules[row]:10.1f}")
folder = Path("out/pareto")
folder.mkdir(parents=True, exist_ok=True)
labels = ("depth of the pool, off the wanted [%]", "underside, off the wanted history [K]", "energy [J]")
values = np.column_stack([pool, underside, joules])
print(plot_front(folder / "front.png", values, front.best, labels=labels, title="melt pool, history, energy"))
print(
    f"success: {front.best.sum()} of {len(values)} solutions are on the front" if front.best.sum() > 1 else "no front"
)
