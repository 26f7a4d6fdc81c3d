"""Whether the parts of an array cover it exactly once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Bounds = tuple[tuple[int, int], ...]  # first and past the last element of each dimension
MOST_PAIRS = 1 << 24  # of parts that lie askew and are compared with each other


def fault(shape: tuple[int, ...], parts: Sequence[Bounds]) -> str:
    """What is wrong with the parts of an array of a shape, "" if they cover each of its elements exactly once.

    >>> fault((4,), [((0, 2),), ((2, 4),)]), fault((4,), [((0, 2),)]), fault((4,), [((0, 3),), ((2, 3),)])
    ('', 'cover 2 of its 4 elements', 'overlap')
    """
    for bounds in parts:
        if len(bounds) != len(shape):
            return f"have {len(bounds)} dimensions"
        if not all(0 <= a < b <= n for (a, b), n in zip(bounds, shape, strict=True)):
            return f"reach from {[a for a, _ in bounds]} to {[b for _, b in bounds]}"
    size, covered = math.prod(shape), sum(math.prod(b - a for a, b in bounds) for bounds in parts)
    if covered < size:
        return f"cover {covered} of its {size} elements"
    return "overlap" if covered > size or _overlap(list(parts), 0) else ""


def _overlap(parts: list[Bounds], dimension: int) -> bool:
    """Whether any two parts, of which all earlier dimensions coincide, have an element in common."""
    if len(parts) < 2:
        return False
    if dimension == len(parts[0]):
        return True
    groups: dict[tuple[int, int], list[Bounds]] = {}
    for bounds in parts:
        groups.setdefault(bounds[dimension], []).append(bounds)
    spans = sorted(groups)
    if all(spans[i][1] <= spans[i + 1][0] for i in range(len(spans) - 1)):  # a grid, as meshes make it
        return any(_overlap(group, dimension + 1) for group in groups.values())
    return len(parts) ** 2 > MOST_PAIRS or _any_pair(np.array([b[dimension:] for b in parts]))


def _any_pair(bounds: np.ndarray) -> bool:
    """Whether any two of parts, given as `[part, dimension, first or past the last]`, have an element in common."""
    first, past = bounds[:, None, :, 0], bounds[:, None, :, 1]
    meet = np.maximum(first, first.swapaxes(0, 1)) < np.minimum(past, past.swapaxes(0, 1))
    return bool(np.count_nonzero(meet.all(-1)) > len(bounds))
