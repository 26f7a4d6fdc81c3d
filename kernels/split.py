"""Into how many runs a long sum is divided where it has too few cells to keep a target's cores at work."""

from __future__ import annotations

from ..lang.ops import cdiv

LEAST = 4  # steps of a run: fewer, and filling and emptying it takes as long as the steps


def runs_of(cells: int, steps: int, units: int, moved: int, partial: int) -> tuple[int, ...]:
    """Numbers of runs worth trying, the best first; none where the sum is better left in one.

    Args:
      cells: those that run at once without.
      steps: of the sum in each.
      units: cores that share the cells.
      moved: bytes of the operands.
      partial: bytes of the results in the dtype of the sums: each run writes them, and they are read again.

    >>> runs_of(cells=2, steps=64, units=132, moved=2**24, partial=2**14)
    (16, 8, 4, 2)
    >>> runs_of(cells=100, steps=64, units=132, moved=2**24, partial=2**14)
    ()
    """
    if units < 2 * cells or not partial:
        return ()
    most = min(units // cells, steps // LEAST, moved // (2 * partial))
    tried = [cdiv(steps, cdiv(steps, most >> k)) for k in range(most.bit_length() - 1)]
    return tuple(dict.fromkeys(n for n in tried if n > 1))
