"""What all tests share: where helper modules are, and how hypothesis runs."""

import signal
import sys
from pathlib import Path

import mujoco
import warp as wp
from hypothesis import HealthCheck, settings

# benchmarks/peers.py builds Pinocchio's model of a robot; it is an oracle here.
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

signal.signal(signal.SIGINT, signal.default_int_handler)  # else what is started in the background never hears ctrl-C
wp.config.log_level = wp.LOG_WARNING  # no notes of compilations in what tests read
mujoco.set_mju_user_warning(lambda message: None)  # read from the data instead; it would write MUJOCO_LOG.TXT
# Derandomised: a failure is the same on every machine. Kernels may compile in the first example, so no deadline.
settings.register_profile(
    "pullback", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("pullback")
