"""`sort` of any number of arrays by one or several of them, and `top_k`.

The order is total: -0 equals 0, NaNs come last, complex numbers go by real then imaginary part; `top_k`
orders -0 before 0 and NaN last.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike, Operand
from ...ir.axis_relation import Loops, Relation, Whole, Work
from ...ir.primitive import NAMED, Primitive, Zero
from ...ir.static_ints import integer
from ...ir.types import INT32, UINT32, ArrayType, is_complex, is_float, is_key, is_unsigned
from ...support.call_errors import public
from ...support.errors import ArgumentError, DtypeError, ShapeError, plural
from ...tracing.trace import Value, shape_of, typeof
from ..elementwise.arithmetic import neg_p
from .gather_functions import take_along
from .shape import as_axis, broadcasted_iota, cut_axis

if TYPE_CHECKING:
    from ...support.pytree import PyTree

# ---------------------------------------------------------------------------- sort


def _sort_typing(*xs: ArrayType, dimension: int, is_stable: bool, num_keys: int) -> list[ArrayType]:
    shown = ", ".join(x.show() for x in xs)
    if not xs or len({x.shape for x in xs}) > 1:
        raise ShapeError(f"sort: the operands must have one shape, got {shown}", "broadcast them first")
    if not 0 <= dimension < xs[0].ndim:
        raise ShapeError(f"sort: dimension {dimension} is not an axis of {shown}")
    if not 1 <= num_keys <= len(xs):
        raise ArgumentError(f"sort: num_keys {num_keys} of {plural(len(xs), 'operand')}",
                            "at least one operand is a key")  # fmt: skip
    if any(is_key(x.dtype) for x in xs[:num_keys]):
        raise DtypeError(f"sort: random keys have no order; the operands are {shown}", "sort `random.key_data`")
    return list(xs)


def _ordered(x: Operand) -> list[Any]:
    """NumPy arrays whose order, first one first, is that of `x`."""
    if is_complex(x.dtype):
        return [*_ordered(x.real), *_ordered(x.imag)]
    if is_float(x.dtype):
        return [x.astype(np.float64) + 0.0]
    return [x.astype(np.int8 if x.dtype.itemsize == 1 and not is_unsigned(x.dtype) else x.dtype)]


def _sort_numpy(*xs: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    keys = [part for x in xs[:num_keys] for part in _ordered(x)]
    order = np.lexsort(keys[::-1], axis=dimension)
    return [np.take_along_axis(x, order, dimension) for x in xs]


def _sort_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int, **params: Any) -> Any:
    places = broadcasted_iota(UINT32, shape_of(primals[0]), dimension)
    *outs, order = sort_p.bind(*primals, places, dimension=dimension, **params)
    return outs, [_permuted(t, order, dimension, out) for t, out in zip(tangents, outs, strict=True)]


def _permuted(t: Array | Zero, order: Array, dimension: int, out: Array) -> Any:
    if type(t) is Zero:
        return Zero(typeof(out).tangent())
    return take_along(t, order, dimension)


def _sort_relation(ins: Sequence[Any], outs: Sequence[Any], *, dimension: int, **_: Any) -> Relation:
    loops = Loops()
    axes = loops.axes(ins[0].shape)
    return loops.relation([axes] * len(ins), [axes] * len(outs), dict.fromkeys(axes[dimension], Whole()))


sort_p: Primitive = Primitive(
    "sort", typing=_sort_typing, jvp=_sort_jvp, numpy=_sort_numpy, multiple=True, relation=_sort_relation,
    axes={"dimension": NAMED},
)  # fmt: skip


@public
def sort(operand: PyTree, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort an array along a dimension; or several arrays together, by the first `num_keys` of them.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.sort((jnp.array([2, 1, 2]), jnp.array([30, 20, 10])), num_keys=2)
    (Array([1, 2, 2], dtype=int32), Array([20, 10, 30], dtype=int32))
    """
    single = isinstance(operand, (Value, np.ndarray))
    operands = (operand,) if single else tuple(operand)
    if not operands:
        raise ArgumentError("sort: there are no arrays to sort", "pass one at least")
    dimension = as_axis(dimension, len(shape_of(operands[0])), "sort")
    outs = sort_p.bind(*operands, dimension=dimension, is_stable=bool(is_stable), num_keys=operator.index(num_keys))
    return outs[0] if single else tuple(outs)


@public
def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """Sort keys along a dimension, and values along with them.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.sort_key_val(jnp.array([3, 1]), jnp.array([30, 10]))
    (Array([1, 3], dtype=int32), Array([10, 30], dtype=int32))
    """
    return sort((keys, values), dimension, is_stable, 1)


def argsort(x: ArrayLike, dimension: int = -1, is_stable: bool = True, dtype: DTypeLike = INT32) -> Any:
    """The order that sorts an array along a dimension."""
    dimension = as_axis(dimension, len(shape_of(x)), "argsort")
    return sort((x, broadcasted_iota(dtype, shape_of(x), dimension)), dimension, is_stable, 1)[1]


# ---------------------------------------------------------------------------- top_k


def _top_k_typing(x: ArrayType, *, k: int, axis: int) -> list[ArrayType]:
    if is_key(x.dtype) or is_complex(x.dtype):
        raise DtypeError(f"top_k: values of {x.show()} have no order", "use real numbers")
    if not 0 <= axis < x.ndim or not 0 <= k <= x.shape[axis]:
        raise ShapeError(f"top_k: k = {k} along axis {axis} does not fit the operand {x.show()}", "0 <= k <= size")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [x.with_shape(shape), ArrayType(shape, INT32, x.weak_type)]


def _top_k_numpy(x: Operand, *, k: int, axis: int) -> Any:
    key = x
    if is_float(x.dtype):
        bits = np.ascontiguousarray(x.astype(np.float64)).view(np.int64)
        key = bits ^ ((bits >> 63) & np.iinfo(np.int64).max)  # IEEE's total order as integers
    elif x.dtype.itemsize == 1:
        key = x.astype(np.int16)
    order = np.argsort(~key, axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


def _top_k_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, k: int, axis: int) -> Any:
    values, places = top_k_p.bind(*primals, k=k, axis=axis)
    return [values, places], [_permuted(tangents[0], places, axis, values), Zero(typeof(places).tangent())]


def _top_k_relation(ins: Sequence[Any], outs: Sequence[Any], *, k: int, axis: int) -> Relation:
    found = cut_axis(ins, outs[:1], axis)
    return replace(found, results=found.results * 2)


top_k_p: Primitive = Primitive(
    "top_k", typing=_top_k_typing, jvp=_top_k_jvp, numpy=_top_k_numpy, multiple=True, relation=_top_k_relation,
    work=Work(1, operand=0), axes={"axis": NAMED},
)  # fmt: skip


@public
def top_k(operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True) -> list[Any]:
    """The `k` greatest values along an axis, greatest first, and their indices; of equals, the earlier first always.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.top_k(jnp.array([3, 9, 4]), 2)
    [Array([9, 4], dtype=int32), Array([1, 2], dtype=int32)]
    """
    return top_k_p.bind(operand, k=integer(k, "k", "top_k"), axis=as_axis(axis, len(shape_of(operand)), "top_k"))


@public
def approx_max_k(
    operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
) -> list[Any]:  # fmt: skip
    """The `k` greatest values along a dimension and their indices; here always exact, whatever the recall asked.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.approx_max_k(jnp.array([3.0, 9.0, 4.0]), 2)
    [Array([9., 4.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    if not 0.0 < recall_target <= 1.0:
        raise ArgumentError(f"approx_max_k: recall_target {recall_target} is not within (0, 1]")
    return top_k(operand, k, axis=reduction_dimension)


@public
def approx_min_k(
    operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
) -> list[Any]:  # fmt: skip
    """The `k` least values along a dimension and their indices; here always exact, whatever the recall asked.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.approx_min_k(jnp.array([3.0, 9.0, 4.0]), 2)
    [Array([3., 4.], dtype=float32), Array([0, 2], dtype=int32)]
    """
    values, places = approx_max_k(neg_p.bind(operand), k, reduction_dimension, recall_target)
    return [neg_p.bind(values), places]


PRIMITIVES: tuple[Primitive, ...] = (sort_p, top_k_p)

__all__ = [
    "approx_max_k", "approx_min_k", "sort", "sort_key_val", "sort_p", "top_k", "top_k_p",
]  # fmt: skip
