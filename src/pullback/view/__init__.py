"""Looking at results: a motion in the browser, as a page, a film or a picture; a curve as a picture."""

from pullback.drawing import LAYERS, Drawing, draw, draw_points
from pullback.dynamics.drawing import body_gradients
from pullback.thermal.drawing import draw_heat
from pullback.view.export import export
from pullback.view.motion import draw_run, load_motion, save_motion
from pullback.view.plots import plot_curve, plot_front, plot_intervals, plot_lines
from pullback.view.replay import write_page, write_replay
from pullback.view.server import Viewer
from pullback.view.slices import plot_slice

draw_heat_run = draw_run  # its earlier name for heat

__all__ = [
    "LAYERS",
    "Drawing",
    "Viewer",
    "body_gradients",
    "draw",
    "draw_heat",
    "draw_heat_run",
    "draw_points",
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
