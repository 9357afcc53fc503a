"""The picture of a task's page: how its loss and its metric fall, with gradients and without.

Runs the two commands that the page prints,

    pullback optimize NAME --out out/curves/NAME
    pullback optimize NAME --method cma --out out/curves/NAME-cma        (with --iterations N where --cma says so)

and draws both, over iterations and over wall-clock, into docs/images/task_NAME.png. Iterations of one method take
about the same time each (one motion forward and backward, or one population of motions), so the time of a run is spread
evenly over them. What is killed goes on where it was.

Run: python docs/plots/task_curves.py NAME [--cma N]
"""

import argparse
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

TEXT, GRID = "#2b313b", "#e3e6eb"
COLOURS = {"gradients": "#2f6fde", "CMA-ES": "#e07b1a"}
IMAGES = Path(__file__).parents[1] / "images"


def optimise(name: str, *options: str) -> tuple[dict, np.ndarray, np.ndarray]:
    """Summary, losses and metrics of one run."""
    folder = Path("out/curves") / "-".join([name, *options[1:2]])
    command = [sys.executable, "-m", "pullback.cli", "optimize", name, *options, "--out", str(folder), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):  # solved, or not within the iterations
        sys.exit(done.returncode)
    found = np.load(folder / "result.npz")
    return json.loads(done.stdout), found["losses"], found["metrics"]


def draw(name: str, runs: dict[str, tuple[dict, np.ndarray, np.ndarray]]) -> Path:
    figure = Figure(figsize=(9.5, 6.2), layout="constrained")
    plots = figure.subplots(2, 2, sharex="col", sharey="row")
    summary = runs["gradients"][0]
    for label, (found, losses, metrics) in runs.items():
        count = np.arange(1, len(losses) + 1)
        legend = f"{label}: {found['evaluations']:,} motions, {found['seconds']:.2g} s"
        legend += "" if found["solved"] else ", not solved"
        for row, values in enumerate((losses, metrics)):
            for column, across in enumerate((count, count / len(count) * found["seconds"])):
                marker = "o" if len(count) <= 40 else ""
                plots[row, column].plot(
                    across, values, color=COLOURS[label], marker=marker, markersize=3, linewidth=1.4, label=legend
                )
    for axes in plots[1]:
        axes.axhline(summary["target"], color=TEXT, linewidth=1, linestyle=":", label=f"target: {summary['target']:g}")
    plots[0, 0].set_ylabel("loss")
    plots[1, 0].set_ylabel(textwrap.fill(f"metric [{summary['unit']}]", 32))
    plots[1, 0].set_xlabel("iteration")
    plots[1, 1].set_xlabel("wall-clock [s]")
    for axes in plots.flat:
        axes.loglog()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(True, color=GRID)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8, labelcolor=TEXT)
    plots[1, 1].legend(fontsize=8, frameon=False)
    title = textwrap.fill(f"{name}: {summary['about']}", 80)
    figure.suptitle(title, color=TEXT, fontsize=12, fontweight="bold")
    path = IMAGES / f"task_{name}.png"
    figure.savefig(path, dpi=100)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of 'pullback tasks'")
    parser.add_argument("--cma", metavar="N", help="iterations of CMA-ES (default: the task's own)")
    given = parser.parse_args()
    limit = ("--iterations", given.cma) if given.cma else ()
    runs = {"gradients": optimise(given.name), "CMA-ES": optimise(given.name, "--method", "cma", *limit)}
    for label, (found, _, _) in runs.items():
        verdict = f"{found['metric']:.3g} {found['unit']}, {'solved' if found['solved'] else 'not solved'}"
        print(f"{label}: {verdict} after {found['iterations']} iterations, {found['evaluations']} motions, "
              f"{found['seconds']:.2g} s", flush=True)  # fmt: skip
    print(draw(given.name, runs))
