"""Writes one file of every kind that results come in, for tests that later versions read them.

python testing/old_files.py          # once per release: into tests/files/VERSION
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "tests/files"


def sphere(points: np.ndarray, wants_gradients: bool):
    """A badly scaled bowl, which takes some iterations."""
    from pullback.plan import Found

    scale = np.array([1.0, 10.0, 100.0])
    losses = np.sum(scale * (points - 1) ** 2, axis=1) / 2
    return Found(losses, scale * (points - 1) if wants_gradients else None, losses)


def minimised(folder: Path, iterations: int):
    from pullback.plan import LBFGS, minimise

    return minimise(sphere, np.zeros(3), LBFGS(), iterations=iterations, checkpoint=folder / "state.npz")


def trained(folder: Path, updates: int):
    from pullback.learn import SAPO, train

    method = SAPO(worlds=2, window=2, hidden=(4, 4), critic_passes=1, minibatches=1)
    return train("pendulum-1", method, updates=updates, starts=2, evaluations=1, out=folder)


def swept(folder: Path):
    from sweep_targets import warm_up

    from pullback.scale import sweep

    return sweep(warm_up, {"k": [0.4]}, iterations=3, out=folder / "sweep", workers=1)


def reached():
    """Poses on a line, of which those near zero can be reached."""
    poses = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    return poses, np.linalg.norm(poses, axis=1) < 0.7


def write(folder: Path) -> None:
    import pullback as pb
    from pullback.reach import ReachabilityMap
    from pullback.view import draw_run, save_motion

    folder.mkdir(parents=True)
    minimised(folder, 4)
    trained(folder, 2)
    swept(folder)
    system = pb.Articulated(pb.load(pb.robots.pendulum()), contact=None)
    run = pb.rollout(system, system.state(q=[0.5]), steps=3)
    save_motion(folder / "motion.npz", draw_run(run, title="old"), q=run.q)
    ReachabilityMap("R3", "svm").fit(*reached()).save(folder / "map.npz")
    shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    for left in [*folder.rglob(".lock"), *folder.rglob("*.png"), folder / "log.csv", folder / "settings.json"]:
        left.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from pullback.version import __version__

    write(FOLDER / __version__)
