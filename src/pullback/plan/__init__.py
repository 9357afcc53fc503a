"""Optimisation of controls and parameters: shooting with gradients, iLQR, Gauss-Newton, MPC; CMA-ES for comparison."""

from pullback.plan.estimate import Estimate, estimate
from pullback.plan.evolution import CMA
from pullback.plan.gauss_newton import GaussNewton
from pullback.plan.ilqr import ILQR
from pullback.plan.least_squares import (
    LeastSquares,
    Linearisation,
    Minibatches,
    Sampled,
    TorchResiduals,
    turn_quaternions,
)
from pullback.plan.loop import CONVERGED, REACHED, SPENT, STALLED, Progress, minimise
from pullback.plan.matrix_free import MatrixFreeGaussNewton
from pullback.plan.methods import LBFGS, SGD, Adam, Method
from pullback.plan.problem import ControlProblem, Expansion, Found, HeldControls, Problem, QuadraticLoss, Simulation
from pullback.plan.receding import Driven, Receding, receding

# Methods by name.
METHODS: dict[str, type[Method]] = {
    "lbfgs": LBFGS,
    "adam": Adam,
    "sgd": SGD,
    "ilqr": ILQR,
    "gauss-newton": GaussNewton,
    "matrix-free": MatrixFreeGaussNewton,
    "cma": CMA,
}

__all__ = [
    "CMA",
    "CONVERGED",
    "ILQR",
    "LBFGS",
    "METHODS",
    "REACHED",
    "SGD",
    "SPENT",
    "STALLED",
    "Adam",
    "ControlProblem",
    "Driven",
    "Estimate",
    "Expansion",
    "Found",
    "GaussNewton",
    "HeldControls",
    "LeastSquares",
    "Linearisation",
    "MatrixFreeGaussNewton",
    "Method",
    "Minibatches",
    "Problem",
    "Progress",
    "QuadraticLoss",
    "Receding",
    "Sampled",
    "Simulation",
    "TorchResiduals",
    "estimate",
    "minimise",
    "receding",
    "turn_quaternions",
]
