"""Finding controls and parameters: single shooting with gradients, Gauss-Newton, CMA-ES beside them."""

from pullback.plan.estimate import Estimate, estimate
from pullback.plan.evolution import CMA
from pullback.plan.gauss_newton import GaussNewton
from pullback.plan.loop import CONVERGED, REACHED, SPENT, STALLED, Found, Progress, minimise
from pullback.plan.methods import LBFGS, SGD, Adam, Method

__all__ = [
    "CMA",
    "CONVERGED",
    "LBFGS",
    "REACHED",
    "SGD",
    "SPENT",
    "STALLED",
    "Adam",
    "Estimate",
    "Found",
    "GaussNewton",
    "Method",
    "Progress",
    "estimate",
    "minimise",
]
