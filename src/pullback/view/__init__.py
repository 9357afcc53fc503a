"""Looking at results: a motion as a page for any browser, a curve as a picture."""

from pullback.view.plots import plot_curve, plot_intervals
from pullback.view.replay import write_replay

__all__ = ["plot_curve", "plot_intervals", "write_replay"]
