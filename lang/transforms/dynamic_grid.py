"""Grids whose sizes are computed: how far each axis goes at a call, and the kernel with every size static.

A Kernel's `extents` give, for the axes whose size is not known when it is built, a Program from the cell's ids and the
prefetched Refs to that size; the axis' entry in `grid` is then the most it may be, read off the index maps (the
operands end there) or stated by `dynamic(size, bound)`, else `UNBOUNDED`. `guarded` makes of such a kernel one of that
static grid, whose body runs in the cells within the extents alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.program import Program
from ...core.ir.types import INT32, is_integer
from ...core.primitives.elementwise.comparison import lt_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.refs.ref_views import view
from ...core.primitives.refs.state_primitives import Point, get_p
from ...core.support.errors import ArgumentError, ArgumentTypeError, KernelError, OutOfBoundsError, TilewrightError
from ...core.support.memo import cached
from ...core.tracing.numpy_interpreter import evaluate
from ...core.tracing.trace import eval_program, typeof
from ..analysis.affine import closed_form, needs_of, slice_of
from ..kernel.kernel import UNBOUNDED, Block, Kernel, trace_map
from ..ops.basic import when_all
from .rebuild import with_body


@dataclass(frozen=True, eq=False)
class DynamicSize:
    """A grid size that is computed, of at most `bound` (None: where the operands end)."""

    size: Any
    bound: int | None = None


def dynamic(size: ArrayLike, bound: int | None = None) -> DynamicSize:
    """A grid size that is computed (an integer scalar, traced or an array) and is at most `bound`.

    A traced size by itself is bounded by where the operands end, as affine index maps say. Raises an `ArgumentError`
    for a bound that is no positive int.

    >>> dynamic(3, bound=8).bound
    8
    """
    if bound is not None and (_static(bound) or 0) < 1:
        raise ArgumentError(f"dynamic: bound is {bound!r}", "give a positive int, or None")
    return DynamicSize(size, bound)


def named_axes(grid: int | Sequence[Any]) -> tuple[dict[Any, int], tuple[Any, ...]]:
    """The axes of a grid that have names, as in `(("rows", 4), 2)`, and its sizes; for `lax.axis_index` in the body."""
    entries = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    named = [isinstance(e, (tuple, list)) and len(e) == 2 and isinstance(e[0], str) for e in entries]
    names = {e[0]: axis for axis, (e, has) in enumerate(zip(entries, named, strict=True)) if has}
    return names, tuple(e[1] if has else e for e, has in zip(entries, named, strict=True))


def as_grid(grid: Sequence[Any]) -> tuple[tuple[int, ...], dict[int, Any]]:
    """A grid as a tuple of ints, and the sizes that are computed, as int32 scalars by axis."""
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    found, computed = [], {}
    for axis, size in enumerate(sizes):
        bound, known = UNBOUNDED, _static(size)
        if known is None:
            if isinstance(size, DynamicSize):
                bound, size = int(size.bound or UNBOUNDED), size.size
            computed[axis] = _scalar(size)
        elif known < 0:
            raise ArgumentError(
                f"kernel_call: the grid {sizes} has the negative size {known}", "grid sizes are zero or more"
            )
        found.append(bound if known is None else known)
    return tuple(found), computed


def _static(size: ArrayLike) -> int | None:
    """The value of a size that Python knows, or that is symbolic."""
    if getattr(size, "symbolic", False):
        return size
    if isinstance(size, np.ndarray) and not size.ndim:
        size = size[()]
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool):
        return int(size)
    return None


def _scalar(size: ArrayLike | None) -> Any:
    known = _static(size)
    if known is not None:
        return np.int32(known)
    try:
        type_ = typeof(size)
    except (TypeError, ValueError):
        type_ = None
    if type_ is None or type_.shape or not is_integer(type_.dtype):
        plain = type_ is None or isinstance(size, (bool, float, complex))
        shown = repr(size) if plain else f"an array of type {type_.show()}"  # type: ignore[union-attr]
        raise ArgumentTypeError(
            f"kernel_call: a size of the grid is {shown}",
            "grid sizes are ints, or integer scalars (traced, or arrays); `//` and `lang.cdiv` divide to an int"
        ) from None  # fmt: skip
    return convert_element_type(size, INT32)


def own_extents(rank: int, prefetch: Sequence[Any], axes: Sequence[int]) -> tuple[tuple[int, Program], ...]:
    """The extents of axes whose sizes are the first prefetched operands, in order."""
    return tuple(
        (axis, trace_map((1,) * rank, prefetch, lambda *args, k=k: [view(args[rank + k])[...]]))
        for k, axis in enumerate(axes)
    )


# ---------------------------------------------------------------------------- bounds


def bound_of(axis: int, grid: Sequence[int], blocks: Sequence[Block]) -> int:
    """The most cells along an axis for which known index maps stay within their operands and within what they read."""
    found = UNBOUNDED
    for atom, program, last in itertools.chain.from_iterable(map(_places, blocks)):
        forms = closed_form(slice_of(program, [atom]))
        if forms and forms[0].terms.get(axis) and all(k < len(grid) for k in forms[0].terms):
            found = min(found, _cells(forms[0].const, forms[0].terms, axis, last, grid))
    return max(found, 1)


def _places(block: Block) -> Iterator[tuple[Any, Program, int]]:
    """What an index map computes as a place: the block's, and those in prefetched operands; and the last one."""
    program = block.index_map
    if program is None:
        return
    for d, n in enumerate(block.array.shape):
        if n:
            yield program.outputs[d], program, block.axes[d].count(n) - 1
    for eqn in program.eqns:
        if eqn.primitive is get_p and not eqn.params.get("masked"):
            index = eqn.params["index"]
            for place, d in zip(eqn.inputs[1:], index.dynamic, strict=True):
                if type(index[d]) is Point:
                    yield place, program, eqn.inputs[0].type.shape[d] - 1


def _cells(const: int, terms: dict[int, int], axis: int, last: int, grid: Sequence[int]) -> int:
    """How many ids along an axis keep `const + sum(terms)` between 0 and `last`, others where that is least binding."""
    step = terms[axis]
    others = ((grid[a] - 1, k) for a, k in terms.items() if a != axis and grid[a] != UNBOUNDED)
    end = const + sum(k * most for most, k in others if k * step < 0)
    return (last - end if step > 0 else end) // abs(step) + 1


# ---------------------------------------------------------------------------- static forms


def by_ids(kernel: Kernel, program: Program) -> tuple[int, ...]:
    """The grid axes whose ids an extent depends on: those that `vmap` added."""
    return tuple(sorted(a for a in needs_of(program, len(kernel.grid)) if a != "data"))


@cached(512)
def guarded(kernel: Kernel, axes: tuple[int, ...]) -> Kernel:
    """The kernel with a body that does nothing in cells past the extents of some axes; `extents` as before."""
    extents = [(a, p) for a, p in kernel.extents if a in axes]
    if not extents:
        return kernel

    def body(
        ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        tests = (lt_p.bind(ids[axis], *eval_program(program, *ids, *prefetched)) for axis, program in extents)
        when_all(tests, lambda: eval_program(kernel.body, *ids, *prefetched, *inputs, *outputs, *scratch))

    return with_body(kernel, body)


def static(kernel: Kernel, why: str, error: type[TilewrightError] = KernelError) -> Kernel:
    """The kernel over the static grid that bounds it, cells past its extents doing nothing.

    Raises an error that says `why` a bound is needed where an axis has none.
    """
    for axis in kernel.computed:
        if kernel.grid[axis] == UNBOUNDED:
            raise kernel.error(
                error, f"axis {axis} of the grid {kernel.grid_text} has a traced size that no index map bounds, and "
                f"{why} a static bound",
                "state one: `grid=(..., lang.dynamic(size, bound=n), ...)`; the axes count from 0")  # fmt: skip
    return guarded(kernel, kernel.computed).replace(extents=()) if kernel.extents else kernel


Inside = Callable[[tuple[int, ...]], bool]


def actual(kernel: Kernel, prefetched: Sequence[np.ndarray]) -> tuple[Kernel, Inside | None]:
    """The kernel over the grid that prefetched values make, and which of its cells there are (None: all)."""
    grid = list(kernel.grid)
    limits: list[tuple[int, tuple[int, ...], np.ndarray]] = []
    for axis, program in kernel.extents:
        axes = by_ids(kernel, program)
        table = np.zeros([kernel.grid[a] for a in axes], np.int64)
        for place in np.ndindex(*table.shape):
            known = dict(zip(axes, place, strict=True))
            ids = [known.get(a, 0) for a in range(len(grid))]
            table[place] = max(int(evaluate(program, *map(np.int32, ids), *prefetched)[0]), 0)
        size = int(table.max(initial=0))
        if size > kernel.grid[axis]:
            raise kernel.error(
                OutOfBoundsError, f"axis {axis} of the grid {kernel.grid_text} has size {size} in this call",
                f"at most {kernel.grid[axis]} cells lie within the operands or the stated bound")  # fmt: skip
        grid[axis] = size
        if axes:
            limits.append((axis, axes, table))

    def inside(ids: tuple[int, ...]) -> bool:
        return all(ids[axis] < table[tuple(ids[a] for a in axes)] for axis, axes, table in limits)

    return kernel.replace(grid=tuple(grid), extents=()), inside if limits else None
