"""All that is worked out about a kernel, in one object, which checks, lowerings, derivatives and costs read."""

from __future__ import annotations

from functools import cached_property

from ...core.support.memo import cached
from ..kernel.kernel import Kernel
from .loop_carried import Carries
from .ranges import Place, wrong_places
from .reductions import Phases, split
from .uninitialized import Leaks, leaks


class Analysis(Carries):
    """The analyses of a kernel, each computed on first use."""

    @cached_property
    def phases(self) -> Phases | None:
        """The three parts of a kernel whose carries only add up; None for any other."""
        return split(self)

    @cached_property
    def leaks(self) -> Leaks:
        """What comes out of what is unspecified: ragged ends of inputs, memory that nothing has written."""
        return leaks(self.kernel)

    @cached_property
    def places(self) -> tuple[tuple[int, Place | None], ...]:
        """For each Ref accessed at computed indices, an index that may be out of bounds; None if none may be."""
        return tuple(wrong_places(self.kernel))


@cached(2048)
def analyse(kernel: Kernel) -> Analysis:
    """What is known of a kernel."""
    return Analysis(kernel)
