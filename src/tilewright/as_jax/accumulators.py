"""What collects the cotangents of one input of a client's primitive."""

from __future__ import annotations

from typing import Any

from ..core.linear import add_tangents
from ..core.primitive import Zero
from ..core.pullback import check_linear


class GradAccum:
    """What a cotangent is added to; `aval` is the type that it must have."""

    def __init__(self, aval: Any):
        self.aval = aval

    def accum(self, ct: Any) -> None:
        """Add a cotangent; `Zero` and None add nothing."""
        raise NotImplementedError


class NullAccum(GradAccum):
    """Of an input that nothing is differentiated by."""

    def accum(self, ct: Any) -> None:
        pass


class ValAccum(GradAccum):
    """The sum so far is `value`, a symbolic `Zero` at first."""

    def __init__(self, aval: Any):
        super().__init__(aval)
        self.value: Any = Zero(aval)

    def accum(self, ct: Any) -> None:
        if ct is not None and type(ct) is not Zero:
            self.value = add_tangents(self.value, check_linear([ct], [self.aval], "cotangent", "input")[0])
