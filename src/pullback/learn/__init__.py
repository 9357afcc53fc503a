"""Learning policies through the simulator.

from pullback.learn import evaluate, train

training = train("ant", minutes=2)
print(evaluate(training.policy, "ant", plant="mujoco").summary())
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError('pullback.learn needs PyTorch: pip install "pullback[learn]"') from error

from pullback.learn.diagnostics import Diagnosis, Horizon, diagnose
from pullback.learn.evaluation import Evaluation, evaluate
from pullback.learn.first_order import BPTT, SAPO, SHAC
from pullback.learn.learner import Learner, Method
from pullback.learn.mbpo import MBPO
from pullback.learn.policy import Policy
from pullback.learn.ppo import PPO
from pullback.learn.record import record
from pullback.learn.sac import SAC
from pullback.learn.training import METHODS, Training, train

__all__ = [
    "BPTT", "MBPO", "METHODS", "PPO", "SAC", "SAPO", "SHAC", "Diagnosis", "Evaluation", "Horizon", "Learner", "Method",
    "Policy", "Training", "diagnose", "evaluate", "record", "train",
]  # fmt: skip
