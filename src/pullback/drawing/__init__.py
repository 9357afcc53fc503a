"""What there is to draw of a run, as plain data that every layer above can make and :mod:`pullback.view` shows."""

from pullback.drawing.drawing import LAYERS, Arrows, Drawing, draw_points
from pullback.drawing.robot import draw

__all__ = ["LAYERS", "Arrows", "Drawing", "draw", "draw_points"]
