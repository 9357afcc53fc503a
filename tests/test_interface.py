"""mypy over the public interface; and what it reads there is also run, so that types are those of run time."""

import subprocess
import sys
from pathlib import Path

import interface
import numpy as np

from pullback import plan

ROOT = Path(__file__).parents[1]


def test_types():
    """``[tool.mypy]`` in pyproject.toml has the settings."""
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_interface_as_users_write_it():
    assert interface.robot_and_gradient() > 0
    assert interface.own_system() < 1e-6
    found = interface.planned()
    assert found.stopped == plan.REACHED or found.losses[-1] < found.losses[0]
    assert np.all(interface.by_torch().numpy() != 0)
