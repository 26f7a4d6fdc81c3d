"""Parts of Refs that are known only while the kernel runs, which copies take: `select_ref`, slices of traced size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array, ArrayLike, Index
from ...core.ir.types import INT32
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import eq_p, ne_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.ref_indexing import Resolved, is_static
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ShapeError, UnsupportedError
from .basic import when

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef


class Selected(refs.Part):
    """One of several parts of Refs, of one shape and dtype, by an index that may be traced."""

    __slots__ = ("choices", "number")
    number: Any
    choices: list[Any]

    def __init__(self, number: ArrayLike, choices: Sequence[Any]):
        self.number, self.choices = number, list(choices)

    @property
    def shape(self) -> Any:
        return self.choices[0].shape

    @property
    def dtype(self) -> Any:
        return self.choices[0].dtype

    def part(self, key: Index) -> Selected:
        return Selected(self.number, [c.part(key) for c in self.choices])

    def read(self, mask: Any = None, other: Any = None) -> Any:
        raise UnsupportedError("a Ref that select_ref gives is read", "copy it: `sync_copy(selected, scratch)`")

    def swap(self, value: Any, mask: Any = None) -> Any:
        raise UnsupportedError("a Ref that select_ref gives is stored to", "copy to it: `sync_copy(scratch, selected)`")


@public
def select_ref(idx: ArrayLike, *given: Any) -> Selected:
    """The Ref, or part of one (`ref.at[...]`), at place `idx` (an integer scalar) among several of one shape and dtype.

    Copies take it, as source, destination or semaphore. A place before the first is the first, one after the last the
    last. Raises `ArgumentError` for no Refs, `ShapeError` for Refs that differ.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import kernel_call, program_id, sync_copy
    >>> def body(x, y, o):
    ...     i = program_id(0)
    ...     sync_copy(select_ref(i, x, y), o.at[i])
    >>> call = kernel_call(body, tw.ShapeDtypeStruct((2, 3), "int32"), grid=2)
    >>> print(call(np.full(3, 1, np.int32), np.full(3, 2, np.int32)))
    [[1 1 1]
     [2 2 2]]
    """
    choices = [refs.view(ref) for ref in given]
    if not choices:
        raise ArgumentError("select_ref is given no Refs", "give those that it chooses from")
    kinds = {(tuple(c.shape), str(c.dtype)) for c in choices}
    if len(kinds) > 1:
        raise ShapeError(f"select_ref is given Refs of {sorted(kinds)}", "give Refs of one shape and dtype")
    return Selected(idx, choices)


def each_copy(parts: Sequence[Any], run: Callable[..., None]) -> None:
    """Call `run` on parts of Refs of static sizes, under `when`s, whose union is `parts`.

    Of a slice of `n` elements, where `n` is traced, there is one for each power of two in `n`.
    """
    views = [refs.view(part) for part in parts]
    for place, part in enumerate(views):
        if isinstance(part, Selected):
            last = np.int32(len(part.choices) - 1)
            chosen = max_p.bind(min_p.bind(int32_of(part.number), last), np.int32(0))
            for number, choice in enumerate(part.choices):
                rest = [*views[:place], choice, *views[place + 1 :]]
                when(eq_p.bind(chosen, np.int32(number)))(lambda rest=rest: each_copy(rest, run))
            return
    axes = [_traced(part) for part in views]
    if not any(axes):
        run(*views)
        return
    source, target = axes[:2]
    if len(source) != len(target) or any(axes[2:]):
        raise ShapeError(f"a copy of a part with {len(source)} axes of traced size to one with {len(target)}",
                         "give both `ds(start, size)` with one size")  # fmt: skip
    _by_powers(views, source[0], target[0], run)


def int32_of(i: ArrayLike) -> Any:
    """An integer, traced or not, as an int32 scalar."""
    return np.int32(i) if is_static(i) else convert_element_type(i, INT32)


def _traced(part: AnyRef) -> list[int]:
    """Which entries of a part of a Ref have a traced size."""
    entries = part.entries if isinstance(part, refs.RefView) else ()
    return [i for i, e in enumerate(entries) if e.size is not None and not is_static(e.size)]


def _by_powers(views: Sequence[Any], source: int, target: int, run: Callable[..., None]) -> None:
    size = int32_of(views[0].entries[source].size)
    most = min(views[0].ref.aval.shape[source], views[1].ref.aval.shape[target])
    for bit in reversed(range(most.bit_length())):
        power = 1 << bit
        before = and_p.bind(size, np.int32(-2 * power))  # what the greater powers have copied

        def piece(power: int = power, before: Array = before) -> None:
            cut = [_cut(part, axis, before, power) for part, axis in zip(views, (source, target), strict=False)]
            each_copy([*cut, *views[2:]], run)

        when(ne_p.bind(and_p.bind(size, np.int32(power)), np.int32(0)))(piece)


def _cut(part: AnyRef, axis: int, before: Array, power: int) -> Any:
    entries = list(part.entries)
    entry: Resolved = entries[axis]
    entries[axis] = replace(entry, start=add_p.bind(int32_of(entry.start), before), size=power)
    return refs.RefView(part.ref, entries)
