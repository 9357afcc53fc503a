"""The picture of the page swimmer: a motion held out, and the drag that was learned beside that of MuJoCo's water.

Run: python docs/plots/swimmer.py [--learned FILE]      (which neural.save wrote; without it, the network is fitted)
"""

import argparse
from pathlib import Path

import mujoco
import numpy as np
import torch
from matplotlib.figure import Figure

import pullback as pb
from pullback import neural
from pullback.tasks import swimmer

COLOURS = {"real": "#2b313b", "with the network": "#2f6fde", "without water": "#e07b1a"}
IMAGE = Path(__file__).parents[1] / "images" / "swimmer.png"
SPEEDS = np.linspace(-0.6, 0.6, 41)  # of a link across its axis [m/s]


def fitted() -> neural.Residual:
    recordings = [neural.Recording(states, controls) for states, controls in swimmer.experiment()[0]]
    options = {"windows": (10, 40), "iterations": 40, "most_windows": 64, "penalty": 1e-8}
    return neural.fit(swimmer.hybrid(), recordings, **options).system


def tails(system: neural.Residual) -> dict[str, np.ndarray]:
    """Where the last link ends (steps + 1, 2) [m] in a motion held out."""
    real, controls = swimmer.experiment()[1][0]
    start, found = system.state(real.q[0], real.v[0]), {"real": real.q}
    for name, one in (("with the network", system), ("without water", system.system)):
        found[name] = pb.rollout(one, start, controls[:, None]).q[:, 0]
    return {name: swimmer._ends(q)[:, -1] for name, q in found.items()}


def drag(system: neural.Residual) -> dict[str, np.ndarray]:
    """Force across a link that moves across its axis alone [N]: of the network, and of MuJoCo's water."""
    net = system.trained()
    rows = np.zeros((len(SPEEDS), swimmer.LINKS, 5))
    rows[..., 1], rows[..., 3] = SPEEDS[:, None] / swimmer.SPEED, 1.0
    with torch.no_grad():
        learned = swimmer.FORCE * net(torch.tensor(rows.reshape(len(SPEEDS), -1))).numpy()[:, 4]
    model = mujoco.MjModel.from_xml_string(swimmer.swimmer_file(swimmer.DENSITY, swimmer.VISCOSITY))
    data, real = mujoco.MjData(model), []
    for speed in SPEEDS:
        data.qvel[:] = 0.0
        data.qvel[1] = speed
        mujoco.mj_forward(model, data)
        real.append(data.qfrc_fluid[1] / swimmer.LINKS)
    return {"real": np.array(real), "with the network": learned}


def draw(system: neural.Residual) -> None:
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    paths = tails(system)
    for name, path in paths.items():
        style = {"color": COLOURS[name], "linestyle": "--" if name == "with the network" else "-", "label": name}
        left.plot(swimmer.DT * np.arange(len(path)), path[:, 0], **style)
    for name, force in drag(system).items():
        right.plot(SPEEDS, force, color=COLOURS[name], linestyle="--" if name != "real" else "-", label=name)
    left.set(xlabel="time [s]", ylabel="end of the last link, along x [m]", title="a motion held out")
    right.set(xlabel="speed of a link across its axis [m/s]", ylabel="force [N]", title="drag of a link")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learned", type=Path)
    given = parser.parse_args().learned
    draw(fitted() if given is None else neural.load(given, swimmer.hybrid()))
