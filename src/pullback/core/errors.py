"""The exceptions users catch."""


class PullbackError(ValueError):
    """Something given to Pullback cannot be used.

    The message names the element, world or step that is at fault and says what to do about it.
    """


class UnknownName(PullbackError, KeyError):
    """There is nothing of that name; also a KeyError, so that mappings work as mappings do."""

    __str__ = Exception.__str__  # KeyError would print its message in quotes


class GradientOverflow(PullbackError):
    """Cotangents grew beyond what the precision holds, although the motion is finite."""
