"""Networks inside a System: what the physics does not know is learned, and physics and weights are fitted together.

    from pullback import neural

    hybrid = neural.Residual(system, (32, 32), reads=("q", "v"), adds="force")
    pb.check_system(hybrid)

The result is a System like any other. PyTorch is imported when the first network is made.
"""

from pullback.neural.features import Ranges, Reads, Violations
from pullback.neural.files import load, save
from pullback.neural.fit import Fit, fit
from pullback.neural.hybrid import Front, Hybrid
from pullback.neural.network import perceptron
from pullback.neural.recording import Recording, read_recordings
from pullback.neural.residual import Residual

__all__ = [
    "Fit",
    "Front",
    "Hybrid",
    "Ranges",
    "Reads",
    "Recording",
    "Residual",
    "Violations",
    "fit",
    "load",
    "perceptron",
    "read_recordings",
    "save",
]
