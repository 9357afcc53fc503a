"""The exceptions users catch."""

from __future__ import annotations

import re
from collections.abc import Iterable


class PullbackError(ValueError):
    """Something given to Pullback cannot be used.

    The message names the element, world or step that is at fault and says what to do about it. It is one line, also
    where it quotes an array.

    worlds:  that were refused or have failed, where the others could go on without them; empty if it names none
    """

    def __init__(self, message: str = "", *, worlds: Iterable[int] = ()):
        super().__init__(re.sub(r"\s*\n\s*", " ", str(message)))
        self.worlds = tuple(int(world) for world in worlds)


class UnknownName(PullbackError, KeyError):
    """There is nothing of that name; also a KeyError, so that mappings work as mappings do."""

    __str__ = Exception.__str__  # KeyError would print its message in quotes


class SimulationError(PullbackError):
    """A motion that cannot go on.

    world:   in which that was so first, or None
    step:    that could not be done, counted from the state that was given; or None
    states:  the trajectory so far, as ``run.states`` has it: rows up to and with the state before that step, one per
             step or as many as were kept; or None
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
