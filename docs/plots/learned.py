"""The pictures of tasks in which a network learns: solves one and draws its curves side by side.

Run: python docs/plots/learned.py NAME
"""

import argparse
from pathlib import Path

from matplotlib.figure import Figure

from pullback.tasks import TASKS, Task, solve

COLOURS = {"real": "#2b313b", "measured": "#2b313b", "hybrid": "#2f6fde", "found": "#2f6fde"}
OTHERS = ("#e07b1a", "#3a9d5d")
IMAGES = Path(__file__).parents[1] / "images"


def draw(task: Task) -> Path:
    run = task.run(solve(task)[-1].x)
    curves = task.curves(run)
    figure = Figure(figsize=(4.75 * max(len(curves), 2), 3.6), layout="constrained")
    for axes, one in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves, strict=True):
        others = iter(OTHERS)
        for name, values in one.values.items():
            dashes = "--" if name in ("hybrid", "found") else "-"
            axes.plot(one.x, values, dashes, color=COLOURS.get(name) or next(others), label=name)
        axes.set(xlabel=one.xlabel, ylabel=one.ylabel, title=one.name)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    path = IMAGES / f"{task.name}.png"
    figure.savefig(path, dpi=110)
    print(f"{task.metric(run)[0]:.3g} {task.unit}: {path}")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of 'pullback tasks'")
    draw(TASKS[parser.parse_args().name]())
