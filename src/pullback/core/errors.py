"""The exceptions users catch."""

from __future__ import annotations

import re
from collections.abc import Iterable


class PullbackError(ValueError):
    """An input that Pullback cannot use.

    The message is one line that names the element, world or step at fault and says what to do about it.

    worlds:  those at fault, if the other worlds could continue without them; empty if none are named
    """

    def __init__(self, message: str = "", *, worlds: Iterable[int] = ()):
        super().__init__(re.sub(r"\s*\n\s*", " ", str(message)))
        self.worlds = tuple(int(world) for world in worlds)


class UnknownName(PullbackError, KeyError):
    """An unknown name. Also a KeyError, so that mappings work as usual."""

    __str__ = Exception.__str__  # KeyError would print its message in quotes


class SimulationError(PullbackError):
    """A simulation that failed, such as a motion that blew up.

    world:   the first world that failed, or None
    step:    the step that failed, counted from the initial state; or None
    states:  the trajectory so far, in the form of ``run.states``: the states (or, with checkpoints, the kept ones) up
             to the one before that step; or None
    """

    def __init__(
        self,
        message: str = "",
        *,
        world: int | None = None,
        step: int | None = None,
        states=None,
        worlds: Iterable[int] = (),
    ):
        super().__init__(message, worlds=worlds if world is None else {world, *worlds})
        self.world, self.step, self.states = world, step, states


class GradientOverflow(SimulationError):
    """Cotangents grew beyond what the precision holds, although the motion is finite."""
