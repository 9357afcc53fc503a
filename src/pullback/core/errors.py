"""The one exception users catch."""


class PullbackError(ValueError):
    """Something given to Pullback cannot be used.

    The message names the element, world or step that is at fault and says what to do about it.
    """
