"""Finding controls and parameters: single shooting with gradients, iLQR, both also tick by tick; CMA-ES beside them."""

from pullback.plan.evolution import CMA
from pullback.plan.ilqr import ILQR
from pullback.plan.loop import REACHED, SPENT, STALLED, Found, Progress, minimise
from pullback.plan.methods import LBFGS, SGD, Adam, Method
from pullback.plan.receding import Driven, receding

__all__ = [
    "CMA",
    "ILQR",
    "LBFGS",
    "REACHED",
    "SGD",
    "SPENT",
    "STALLED",
    "Adam",
    "Driven",
    "Found",
    "Method",
    "Progress",
    "minimise",
    "receding",
]
