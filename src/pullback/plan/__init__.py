"""Finding controls and parameters: single shooting with gradients, CMA-ES beside it, iLQR."""

from pullback.plan.evolution import CMA
from pullback.plan.ilqr import ILQR
from pullback.plan.loop import REACHED, SPENT, STALLED, Found, Progress, minimise
from pullback.plan.methods import LBFGS, SGD, Adam, Method

__all__ = [
    "CMA", "ILQR", "LBFGS", "REACHED", "SGD", "SPENT", "STALLED", "Adam", "Found", "Method", "Progress", "minimise",
]  # fmt: skip
