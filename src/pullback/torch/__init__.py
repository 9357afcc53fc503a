"""Systems in PyTorch: steps and rollouts that autograd can differentiate.

    import pullback.torch as pbt

    q, v = pbt.rollout(system, q0, v0, controls, params={"mass": mass})
    loss(q, v).backward()

Tensors must have the System's precision and be on its device. They are not copied, neither on the CPU nor on CUDA,
except parameters, which are small and pass through the host.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError('pullback.torch needs PyTorch: pip install "pullback[torch]"') from error

from pullback.torch.algorithms import (
    acceleration,
    center_of_mass,
    center_of_mass_velocity,
    energy,
    forward_dynamics,
    inverse_dynamics,
    jacobian,
    kinematics,
    mass_matrix,
    momentum,
    sensors,
    velocity,
)
from pullback.torch.functions import rollout, step
from pullback.torch.loop import closed_loop, reset
from pullback.torch.module import Simulator

__all__ = [
    "Simulator",
    "acceleration",
    "center_of_mass",
    "center_of_mass_velocity",
    "closed_loop",
    "energy",
    "forward_dynamics",
    "inverse_dynamics",
    "jacobian",
    "kinematics",
    "mass_matrix",
    "momentum",
    "reset",
    "rollout",
    "sensors",
    "step",
    "velocity",
]
