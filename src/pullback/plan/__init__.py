"""Finding controls and parameters: shooting with gradients, iLQR, Gauss-Newton, also tick by tick; CMA-ES beside."""

from pullback.plan.estimate import Estimate, estimate
from pullback.plan.evolution import CMA
from pullback.plan.gauss_newton import GaussNewton
from pullback.plan.ilqr import ILQR
from pullback.plan.loop import CONVERGED, REACHED, SPENT, STALLED, Progress, minimise
from pullback.plan.methods import LBFGS, SGD, Adam, Method
from pullback.plan.problem import ControlProblem, Expansion, Found, HeldControls, Problem, QuadraticLoss, Simulation
from pullback.plan.receding import Driven, Receding, receding

__all__ = [
    "CMA",
    "CONVERGED",
    "ILQR",
    "LBFGS",
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
    "Method",
    "Problem",
    "Progress",
    "QuadraticLoss",
    "Receding",
    "Simulation",
    "estimate",
    "minimise",
    "receding",
]
