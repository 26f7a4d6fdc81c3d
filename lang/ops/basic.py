"""What a kernel's body is written with, beside the array operations themselves."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import ArrayLike, Index
from ...core.ir.axis_relation import FREE, IDENTITY
from ...core.ir.elementwise_typing import INT
from ...core.ir.types import RefType, is_bool, is_integer
from ...core.primitives.control_flow.cond import cond
from ...core.primitives.elementwise.arithmetic import div_p, rem_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.builders import unary
from ...core.primitives.elementwise.comparison import ne_p
from ...core.primitives.external.staging import empty
from ...core.primitives.movement.shape import broadcast_in_dim
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.ref_indexing import Slice, dslice
from ...core.support import pytree
from ...core.support.call_errors import of_parameters, public
from ...core.support.errors import ArgumentError, ArgumentTypeError, KernelBodyError, ShapeError, check_options, plural
from ...core.tracing.trace import extended_axes, shape_of, typeof
from ...core.transforms.rule_helpers import zeros

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive
    from ...core.primitives.refs.ref_views import AnyRef


ds = dslice


@dataclass(frozen=True)
class Cell:
    """The cell that a body is being traced for."""

    kernel: str
    ids: tuple[Any, ...]
    grid: tuple[Any, ...]  # sizes, traced where they are computed
    trace: Any = None  # that of the body, where scratch made while tracing is added
    devices: tuple[tuple[Any, int], ...] = ()  # the axes of the mesh whose devices the body may speak of
    made: dict[str, Any] = field(default_factory=dict)  # what operations keep for the whole body
    mark: object = field(default_factory=object)  # identifies the cell

    def allocate(self, type: RefType) -> Any:
        """One more scratch of the kernel."""
        return self.trace.new_input(type)


_cell: ContextVar[Cell | None] = ContextVar("tilewright_cell", default=None)


def _only() -> int:
    """The place along an axis of size 1."""
    return 0


@contextlib.contextmanager
def in_cell(cell: Cell) -> Iterator[None]:
    """Within it, `program_id` and `num_programs` speak of `cell`."""
    token = _cell.set(cell)
    try:
        # An axis that nothing else is named by keeps Programs cached for other cells from being used here.
        with extended_axes(("cell", cell.mark), 1, _only):
            yield
    finally:
        _cell.reset(token)


def within_body() -> bool:
    """Whether the body of a kernel is being traced."""
    return _cell.get() is not None


def current_cell(what: str) -> Cell:
    """The cell that a body is being traced for; an error that names `what` outside of one."""
    cell = _cell.get()
    if cell is None:
        raise KernelBodyError(f"{what} was called outside a kernel", "call it in the body of a `kernel_call`")
    return cell


def _axis(axis: int, name: str) -> Cell:
    cell = current_cell(f"{name}({axis})")
    if not isinstance(axis, (int, np.integer)):
        raise ArgumentTypeError(f"kernel {cell.kernel}: {name}({axis!r})", "an axis is a Python integer")
    if not 0 <= axis < len(cell.grid):
        raise ArgumentError(
            f"kernel {cell.kernel}: {name}({axis}) of a grid with {plural(len(cell.grid), 'axis')} {cell.grid}",
            "axes are counted from 0, outermost first")  # fmt: skip
    return cell


@public
def program_id(axis: int) -> Any:
    """The index of this cell along a grid axis, an int32 scalar.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(o):
    ...     o[tl.program_id(0)] = tl.program_id(0) * 10
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((3,), "int32"), grid=3)())
    [ 0 10 20]
    """
    return _axis(axis, "program_id").ids[axis]


@public
def num_programs(axis: int) -> Any:
    """The size of a grid axis; an int32 scalar where it is computed.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(o):
    ...     o[tl.program_id(0)] = tl.num_programs(0) - tl.program_id(0)
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((3,), "int32"), grid=3)())
    [3 2 1]
    """
    return _axis(axis, "num_programs").grid[axis]


def unravel(t: ArrayLike, axes: Sequence[int], grid: Sequence[Any]) -> dict[int, Any]:
    """The ids along some axes of cell number `t` of those axes, in grid order; sizes may be traced."""
    ids: dict[int, Any] = {}
    for axis in reversed(axes):
        n = np.int32(grid[axis]) if isinstance(grid[axis], int) else grid[axis]
        ids[axis] = t if axis == axes[0] else rem_p.bind(t, n)
        t = t if axis == axes[0] else div_p.bind(t, n)
    return ids


@public
def cdiv(a: ArrayLike, b: Any) -> Any:
    """`a / b` rounded up: how many blocks of size `b` cover `a`.

    >>> cdiv(10, 4)
    3
    """
    return (a + b - 1) // b if isinstance(a, int) and isinstance(b, int) else -(-a // b)


@public
def next_power_of_2(x: int) -> int:
    """The least power of two that is at least `x`.

    >>> next_power_of_2(5)
    8
    """
    if x < 0:
        raise ArgumentError(f"next_power_of_2({x}): the argument is negative")
    return 1 if x == 0 else 2 ** (x - 1).bit_length()


@public
def align_to(x: int, a: int) -> int:
    """`x` rounded up to a multiple of `a`.

    >>> align_to(10, 4)
    12
    """
    return cdiv(x, a) * a


multiple_of_p: Primitive = unary(
    "multiple_of", INT, lambda x, multiple: x, flat=True, expand=lambda x, multiple: x, wide=False, kind=IDENTITY,
    work=FREE,
)  # fmt: skip
PRIMITIVES = (multiple_of_p,)


@public
def multiple_of(x: ArrayLike, values: ArrayLike) -> Any:
    """`x`, an integer that is a multiple of `values`: on a TPU, rows that start there are copied without a rotation.

    >>> multiple_of(16, 8)
    16
    """
    if isinstance(x, (int, np.integer)):
        return x
    for value in values if isinstance(values, (tuple, list)) else [values]:
        x = multiple_of_p.bind(x, multiple=int(value))
    return x


@public
def when(condition: ArrayLike) -> Callable[[Callable[[], Any]], None]:
    """Decorator: run a function of no arguments in the cells where `condition` holds.

    The condition is a boolean scalar, or an integer one, which holds where it is not 0. The function acts through Refs;
    what it returns is not used.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(o):
    ...     o[tl.program_id(0)] = 1
    ...     @tl.when(tl.program_id(0) == 2)
    ...     def _():
    ...         o[2] = 5
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((3,), "int32"), grid=3)())
    [1 1 5]
    """

    def decorate(function: Callable[[], Any]) -> None:
        of_parameters("when", function, 0, "write @when(condition) above a function of no arguments")
        if isinstance(condition, (bool, int)):
            if condition:
                function()
            return
        type_: Any = typeof(condition)
        if type_.shape or not (is_bool(type_.dtype) or is_integer(type_.dtype)):
            raise KernelBodyError(f"when: the condition is {type_.show()}", "give a boolean scalar")
        holds = condition if is_bool(type_.dtype) else ne_p.bind(condition, zeros(type_))

        def taken() -> tuple[()]:
            function()
            return ()

        cond(holds, taken, lambda: ())

    return decorate


def when_all(tests: Iterable[Any], function: Callable[[], Any]) -> None:
    """Run a function in the cells where all tests hold: in every cell, if there are none."""
    each = iter(tests)
    when(functools.reduce(and_p.bind, each, next(each, True)))(function)


_HINTS = ("cache_modifier", "eviction_policy", "volatile")


@public
def load(
    target: AnyRef, index: Index = Ellipsis, *, mask: ArrayLike | None = None,
    other: ArrayLike | None = None, **hints: Any,
) -> Any:  # fmt: skip
    """Read part of a Ref; where `mask` is false, `other` (unspecified without one).

    `target` is a Ref or `ref.at[...]`. The hints `cache_modifier`, `eviction_policy` and `volatile` change no value.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(x, o):
    ...     places = tnp.arange(4)
    ...     o[...] = tl.load(x, places, mask=places < 3, other=-1)
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((4,), "int32"))(tnp.arange(3)))
    [ 0  1  2 -1]
    """
    check_options("load", hints, ("mask", "other", *_HINTS))
    return refs.read(refs.view(target, index), mask, other)


@public
def store(target: AnyRef, *rest: Any, mask: ArrayLike | None = None, **hints: Any) -> None:
    """Write part of a Ref where `mask` is true: `store(ref, index, value)` or `store(ref.at[...], value)`.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(x, o):
    ...     o[...] = tnp.zeros(3, "int32")
    ...     tl.store(o, tnp.arange(3), x[...], mask=x[...] > 1)
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((3,), "int32"))(tnp.array([1, 2, 3])))
    [0 2 3]
    """
    check_options("store", hints, ("mask", *_HINTS))
    index, value = _index_value("store", rest)
    refs.write(refs.view(target, index), value, mask)


@public
def swap(target: AnyRef, *rest: Any, mask: Any = None, **hints: Any) -> Any:
    """Write part of a Ref and give what was there: `swap(ref, index, value)` or `swap(ref.at[...], value)`.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(o):
    ...     o[...] = tnp.arange(3)
    ...     o[0] = tl.swap(o, 2, 7)
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((3,), "int32"))())
    [2 1 7]
    """
    check_options("swap", hints, ("mask", *_HINTS))
    index, value = _index_value("swap", rest)
    return refs.swap(refs.view(target, index), value, mask)


@public
def addupdate(target: AnyRef, *rest: Any, mask: Any = None) -> None:
    """Add to part of a Ref: `addupdate(ref, index, value)`; repeated indices accumulate.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(o):
    ...     o[...] = tnp.zeros(3, "int32")
    ...     tl.addupdate(o, 1, 5)
    ...     tl.addupdate(o, 1, 5)
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((3,), "int32"))())
    [ 0 10  0]
    """
    index, value = _index_value("addupdate", rest)
    refs.addupdate(refs.view(target, index), value, mask)


def _index_value(name: str, rest: Sequence[Any]) -> tuple[Any, Any]:
    if len(rest) == 1:
        return Ellipsis, rest[0]
    if len(rest) == 2:
        return rest[0], rest[1]
    raise ArgumentError(f"{name} got {plural(len(rest) + 1, 'argument')}",
                        f"write {name}(ref, index, value) or {name}(ref.at[...], value)")  # fmt: skip


__all__ = [
    "Slice", "addupdate", "align_to", "cdiv", "ds", "dslice", "load", "multiple_of", "next_power_of_2", "num_programs",
    "program_id", "store", "swap", "when",
]  # fmt: skip


def empty_like(x: Any) -> Any:
    """A pytree of arrays of the shapes and dtypes of another's, whose elements are not specified.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> tl.empty_like(tw.ShapeDtypeStruct((2, 3), 'int32')).shape
    (2, 3)
    """
    return pytree.map(lambda leaf: empty(leaf.shape, leaf.dtype), x)


def broadcast_to(a: ArrayLike, shape: Sequence[int]) -> Any:
    """An array repeated along the axes that it lacks, and those of size 1. Raises `ShapeError` where it does not fit.

    >>> import numpy as np
    >>> print(broadcast_to(np.array([1, 2], np.int32), (2, 2)))
    [[1 2]
     [1 2]]
    """
    given, sizes = shape_of(a), tuple(shape)
    if len(given) > len(sizes) or any(n not in (1, m) for n, m in zip(given[::-1], sizes[::-1], strict=False)):
        raise ShapeError(f"broadcast_to: an array of shape {given} to {sizes}", "its last axes must be 1, or as there")
    return broadcast_in_dim(a, sizes, tuple(range(len(sizes) - len(given), len(sizes))))


def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The row-major strides, in elements, along each axis.

    >>> strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1]
    for size in reversed(tuple(shape)[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides[: len(shape)]))
