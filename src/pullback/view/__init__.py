"""Looking at results: a motion in the browser, as a page, a film or a picture; a curve as a picture."""

from pullback.view.drawing import LAYERS, Drawing, draw
from pullback.view.export import export
from pullback.view.heat import draw_heat, draw_heat_run
from pullback.view.motion import draw_run, load_motion, save_motion
from pullback.view.plots import plot_curve, plot_front, plot_intervals, plot_lines
from pullback.view.pushes import body_gradients
from pullback.view.replay import write_page, write_replay
from pullback.view.server import Viewer
from pullback.view.slices import plot_slice

__all__ = [
    "LAYERS",
    "Drawing",
    "Viewer",
    "body_gradients",
    "draw",
    "draw_heat",
    "draw_heat_run",
    "draw_run",
    "export",
    "load_motion",
    "plot_curve",
    "plot_front",
    "plot_intervals",
    "plot_lines",
    "plot_slice",
    "save_motion",
    "write_page",
    "write_replay",
]
