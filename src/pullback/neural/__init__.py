"""Neural networks inside a System, which model what its equations leave out and are fitted together with them.

    from pullback import neural

    hybrid = neural.Residual(system, (32, 32), reads=("q", "v"), adds="force")
    pb.check_system(hybrid)

The result is a System like any other. PyTorch is imported when the first network is made.
"""

from pullback.neural.actuator import Actuator, ActuatorState, read_actuator
from pullback.neural.features import Ranges, Reads, Violations
from pullback.neural.files import load, save
from pullback.neural.fit import Fit, fit
from pullback.neural.hybrid import Front, Hybrid
from pullback.neural.law import Law
from pullback.neural.network import perceptron
from pullback.neural.recording import Recording, read_recordings
from pullback.neural.residual import Residual

__all__ = [
    "LSTM",
    "Actuator",
    "ActuatorState",
    "Fit",
    "Front",
    "Hybrid",
    "Law",
    "Ranges",
    "Reads",
    "Recording",
    "Residual",
    "Violations",
    "fit",
    "load",
    "perceptron",
    "read_actuator",
    "read_recordings",
    "save",
]


def __getattr__(name: str):
    """Imports LSTM on demand, because it is a torch class and torch is only imported when it is needed."""
    if name == "LSTM":
        from pullback.neural.recurrent import LSTM

        return LSTM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
