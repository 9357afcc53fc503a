"""Robots: the frozen :class:`Model`, and :func:`load`, which reads one through MuJoCo's compiler."""

from pullback.model.load import load
from pullback.model.model import BALL, FREE, HINGE, JOINT_COORDINATES, JOINT_DOFS, SLIDE, Frames, Keyframe, Model

__all__ = ["BALL", "FREE", "HINGE", "JOINT_COORDINATES", "JOINT_DOFS", "SLIDE", "Frames", "Keyframe", "Model", "load"]
