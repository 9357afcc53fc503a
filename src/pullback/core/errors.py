"""The exceptions users catch."""

import re


class PullbackError(ValueError):
    """Something given to Pullback cannot be used.

    The message names the element, world or step that is at fault and says what to do about it. It is one line, also
    where it quotes an array.
    """

    def __init__(self, message: str = ""):
        super().__init__(re.sub(r"\s*\n\s*", " ", str(message)))


class UnknownName(PullbackError, KeyError):
    """There is nothing of that name; also a KeyError, so that mappings work as mappings do."""

    __str__ = Exception.__str__  # KeyError would print its message in quotes


class GradientOverflow(PullbackError):
    """Cotangents grew beyond what the precision holds, although the motion is finite."""
