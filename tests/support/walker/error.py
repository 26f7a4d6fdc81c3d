"""The one error of the walker."""


class WalkError(AssertionError):
    """The module does what its dialect does not define, or what the walker has no rule for."""
