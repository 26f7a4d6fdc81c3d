"""Contractions: `dot_general`, which every matrix product becomes, and the functions over it.

The result of `dot_general` has the batch axes first, then the free axes of the left operand, then
those of the right. Its derivative with respect to either operand is again a `dot_general`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike, Operand
from ...ir.axis_relation import Loops, Reduced, Relation, Work
from ...ir.binding import with_out_sharding
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.promotion import promote_types
from ...ir.types import ArrayType, Dtype, as_dtype, canonical_dtype, is_complex, is_float, is_integer, is_key, kind
from ...support.config import current
from ...support.errors import ArgumentError, DtypeError, ShapeError
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...tracing.unreduced_scope import asked_open, split_alike
from ...transforms.structural_primitives import add_tangents
from ..elementwise.conversion import convert_element_type
from ..movement.shape import squeeze, transpose
from ..reduction.reduce import sums

Axes = tuple[int, ...]
DotDimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


class Precision(enum.Enum):
    """How exactly a matrix unit multiplies: `DEFAULT` is the fastest, `HIGHEST` full float32."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _PRECISIONS.get(value.lower()) if isinstance(value, str) else None

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    __str__ = __repr__


# Names of precisions and, as `DotAlgorithmPreset`, of algorithms: the least precision that gives what each promises.
_PRECISIONS = {
    "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
    **dict.fromkeys(
        "any_f8_any_f8_f32 any_f8_any_f8_f32_fast_accum any_f8_any_f8_any any_f8_any_f8_any_fast_accum f16_f16_f16 "
        "f16_f16_f32 bf16_bf16_bf16 bf16_bf16_f32".split(), Precision.DEFAULT,
    ),
    **dict.fromkeys("bf16_bf16_f32_x3 tf32_tf32_f32 tf32_tf32_f32_x3".split(), Precision.HIGH),
    **dict.fromkeys("bf16_bf16_f32_x6 bf16_bf16_f32_x9 f32_f32_f32 f64_f64_f64".split(), Precision.HIGHEST),
}  # fmt: skip


def _one_precision(value: Precision | str) -> Precision:
    if isinstance(value, Precision):
        return value
    if value is None:
        return Precision.DEFAULT
    found = _PRECISIONS.get(value.lower()) if isinstance(value, str) else getattr(value, "precision", None)
    if found is None:
        raise ArgumentError(f"precision {value!r} is not known", f"use a Precision or one of {sorted(_PRECISIONS)}")
    return found


def canonical_precision(precision: Any) -> tuple[Precision, Precision] | None:
    """Any spelling of a precision (a name, a `Precision`, a pair, None for the configured one) as a pair or None."""
    if precision is None:
        precision = current().default_matmul_precision
        if precision is None:
            return None
    if isinstance(precision, (tuple, list)):
        if len(precision) != 2:
            raise ArgumentError(f"precision {precision!r} is not a pair", "give one precision, or one for each operand")
        return (_one_precision(precision[0]), _one_precision(precision[1]))
    one = _one_precision(precision)
    return (one, one)


# ---------------------------------------------------------------------------- dimension numbers


class _Parts(NamedTuple):
    """The axes of the operands by role; `lhs_free` and `rhs_free` in increasing order."""

    lhs_contract: Axes
    rhs_contract: Axes
    lhs_batch: Axes
    rhs_batch: Axes
    lhs_free: Axes
    rhs_free: Axes


def free_axes(ndim: int, *taken: Sequence[int]) -> Axes:
    """The axes of an operand that are neither contracted nor batched, in order."""
    used = {axis for axes in taken for axis in axes}
    return tuple(axis for axis in range(ndim) if axis not in used)


def _parts(numbers: DotDimensionNumbers, lhs_ndim: int, rhs_ndim: int) -> _Parts:
    (lc, rc), (lb, rb) = numbers
    return _Parts(lc, rc, lb, rb, free_axes(lhs_ndim, lc, lb), free_axes(rhs_ndim, rc, rb))


def canonical_dimension_numbers(numbers: Sequence[Any], lhs_ndim: int, rhs_ndim: int) -> DotDimensionNumbers:
    """Dimension numbers as nested tuples of non-negative integers."""
    try:
        (lc, rc), (lb, rb) = numbers
        lc, lb = (tuple(int(a) + lhs_ndim if a < 0 else int(a) for a in axes) for axes in (lc, lb))
        rc, rb = (tuple(int(a) + rhs_ndim if a < 0 else int(a) for a in axes) for axes in (rc, rb))
    except (TypeError, ValueError):
        raise ArgumentError(
            f"dimension_numbers {numbers!r} are not of the form ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))",
            "give four sequences of axes so nested") from None  # fmt: skip
    return ((lc, rc), (lb, rb))


# ---------------------------------------------------------------------------- typing


@cached()
def _rank(dtype: np.dtype[Any]) -> tuple[int, int, int]:
    category = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}[kind(dtype)]
    preferred = str(dtype) in ("bfloat16", "float8_e5m2") or kind(dtype) == "int"
    return (category, dtype.itemsize, preferred)


def result_dtype(lhs: Any, rhs: Any, preferred: Any) -> Any:
    """The dtype of a contraction: `preferred` if given, else the wider of the operands' dtypes."""
    for dtype in (lhs, rhs):
        if is_key(dtype):
            raise DtypeError("dot_general does not take random keys", "use `random.key_data` to see a key's bits")
    own = max(lhs, rhs, key=_rank)
    if preferred is None:
        return own
    narrower = is_integer(own) and preferred.itemsize < own.itemsize
    if narrower or (is_complex(own) and not is_complex(preferred)):
        raise DtypeError(
            f"preferred_element_type {preferred} is narrower than {own}, the type of the operands",
            f"use {own} or wider, and cast the result",
        )
    return preferred


def _check_axes(axes: Axes, ndim: int, side: str, role: str) -> None:
    if any(a < 0 or a >= ndim for a in axes) or len(set(axes)) != len(axes):
        raise ShapeError(
            f"dot_general: {role} axes {axes} of the {side} operand are not distinct axes of an array of rank {ndim}",
            "name each axis once, from 0",
        )


@cached(4096)
def _typing(
    lhs: ArrayType, rhs: ArrayType, *, dimension_numbers: DotDimensionNumbers, precision: Sequence[Any] | None = None,
    preferred_element_type: np.dtype[Any] | None = None, open_axes: Any = None,
) -> ArrayType:  # fmt: skip
    (lc, rc), (lb, rb) = dimension_numbers
    for side, ndim, contract, batch in (("left", lhs.ndim, lc, lb), ("right", rhs.ndim, rc, rb)):
        _check_axes(contract, ndim, side, "contracting")
        _check_axes(batch, ndim, side, "batch")
        twice = sorted(set(contract) & set(batch))
        if twice:
            raise ShapeError(
                f"dot_general: axes {twice} of the {side} operand are both contracted and batched",
                "put each axis in one of the two",
            )
    for role, left, right in (("contracting", lc, rc), ("batch", lb, rb)):
        sizes = tuple(lhs.shape[a] for a in left), tuple(rhs.shape[a] for a in right)
        if sizes[0] != sizes[1]:
            raise ShapeError(
                f"dot_general: {role} sizes differ: {sizes[0]} of {lhs.show()} against {sizes[1]} of {rhs.show()}",
                "the axes summed over (and the batch axes) must have equal sizes on both sides",
            )
    parts = _parts(dimension_numbers, lhs.ndim, rhs.ndim)
    shape = [lhs.shape[a] for a in (*lb, *parts.lhs_free)] + [rhs.shape[a] for a in parts.rhs_free]
    dtype = result_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
    return ArrayType(tuple(shape), dtype, lhs.weak_type and rhs.weak_type and preferred_element_type is None)


# ---------------------------------------------------------------------------- derivatives and batching


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    x, y = primals
    dx, dy = tangents
    out = dot_general_p.bind(x, y, **params)
    left = Zero(typeof(out).tangent()) if type(dx) is Zero else dot_general_p.bind(dx, y, **params)
    right = Zero(typeof(out).tangent()) if type(dy) is Zero else dot_general_p.bind(x, dy, **params)
    return out, add_tangents(left, right)


def _transpose(
    ct: Operand, x: Operand | Linear, y: Operand | Linear, *, dimension_numbers: DotDimensionNumbers,
    precision: Sequence[Any] | None, preferred_element_type: np.dtype[Any], open_axes: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    swapped = precision and (precision[1], precision[0])
    if type(x) is Linear:
        if type(ct) is Zero:
            return None, None
        return _transpose_left(ct, x.type, y, dimension_numbers, precision, swapped=False), None  # type: ignore[arg-type]
    if type(ct) is Zero:
        return None, None
    (lc, rc), (lb, rb) = dimension_numbers
    return None, _transpose_left(ct, y.type, x, ((rc, lc), (rb, lb)), swapped, swapped=True)


def _transpose_left(
    ct: Operand, x_type: ArrayType, y: Operand, numbers: DotDimensionNumbers, precision: Sequence[Any] | None,
    swapped: bool,
) -> Any:  # fmt: skip
    """The cotangent of the operand of type `x_type`; `swapped` when it was the right one.

    `ct` has axes (batch, free of the left operand, free of the right one). The sum stays open where `x_type` says that
    cotangents are not summed.
    """
    parts = _parts(numbers, x_type.ndim, len(shape_of(y)))
    batch, x_free, y_free = len(parts.lhs_batch), len(parts.lhs_free), len(parts.rhs_free)
    start = batch if swapped else batch + x_free
    contract = (tuple(range(start, start + y_free)), parts.rhs_free)
    batched = (tuple(range(batch)), parts.rhs_batch)
    # Axes of the result: batch, free of x, contracted (in the order that they have in y); the last two change places
    # with the operands, which is done where it leaves nothing to transpose.
    order = sorted(range(len(parts.rhs_contract)), key=parts.rhs_contract.__getitem__)
    contracted = tuple(parts.lhs_contract[i] for i in order)
    source = (*parts.lhs_batch, *parts.lhs_free, *contracted)
    other = (*parts.lhs_batch, *contracted, *parts.lhs_free)
    reduced = frozenset() if x_type.placed is None else x_type.placed.spec.reduced
    if list(other) == sorted(other) and list(source) != sorted(source):
        flipped = precision and (precision[1], precision[0])
        swap = (contract[1], contract[0]), (batched[1], batched[0])
        return _cotangent(y, ct, swap, flipped, x_type.dtype, reduced)
    out = _cotangent(ct, y, (contract, batched), precision, x_type.dtype, reduced)
    return _transposed(out, tuple(sorted(range(len(source)), key=source.__getitem__)))


def _cotangent(
    lhs: Operand, rhs: Operand, numbers: DotDimensionNumbers, precision: Sequence[Any] | None, dtype: Dtype,
    open_axes: frozenset[Any],
) -> Any:  # fmt: skip
    """A contraction in the dtype of the operand that it is the cotangent of: for a real one the real part."""
    if is_complex(dtype) or not any(is_complex(typeof(x).dtype) for x in (lhs, rhs)):
        return _bound(lhs, rhs, numbers, precision, dtype, open_axes)
    return convert_element_type(_bound(lhs, rhs, numbers, precision, None, open_axes), dtype)


def _transposed(x: Operand, permutation: Axes) -> Any:
    if permutation == tuple(range(len(permutation))):
        return x
    return transpose(x, permutation)


def _shifted(axes: Axes, at: int) -> Axes:
    return tuple(a + (a >= at) for a in axes)


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, dimension_numbers: DotDimensionNumbers,
           **params: Any) -> tuple[Any, int]:  # fmt: skip
    """A batch axis of both operands becomes a batch axis; of one operand, a free axis: nothing is moved."""
    (x, y), (dx, dy) = args, dims
    (lc, rc), (lb, rb) = dimension_numbers
    if dx is not None:
        lc, lb = _shifted(lc, dx), _shifted(lb, dx)
    if dy is not None:
        rc, rb = _shifted(rc, dy), _shifted(rb, dy)
    parts = _parts(((lc, rc), (lb, rb)), len(shape_of(x)), len(shape_of(y)))
    if dx is not None and dy is not None:
        lb, rb, out = (dx, *lb), (dy, *rb), 0
    elif dx is not None:
        out = len(lb) + parts.lhs_free.index(dx)
    else:
        out = len(lb) + len(parts.lhs_free) + parts.rhs_free.index(dy)
    return dot_general_p.bind(x, y, dimension_numbers=((lc, rc), (lb, rb)), **params), out


# ---------------------------------------------------------------------------- meaning


def accumulator(dtype: DTypeLike) -> Any:
    """The dtype in which products are summed: at least float32, at least 32-bit integers."""
    if is_float(dtype) and dtype.itemsize < 4:
        return np.dtype(np.float32)
    if is_integer(dtype) and dtype.itemsize < 4:
        return np.dtype(np.uint32 if kind(dtype) == "uint" else np.int32)
    return dtype


def _numpy(x: np.ndarray, y: np.ndarray, *, dimension_numbers: DotDimensionNumbers, precision: Any = None,
           preferred_element_type: np.dtype[Any] | None = None, open_axes: Any = None) -> np.ndarray:  # fmt: skip
    dtype = result_dtype(x.dtype, y.dtype, preferred_element_type)
    wide = accumulator(dtype)
    parts = _parts(dimension_numbers, x.ndim, y.ndim)
    left = x.astype(wide).transpose(*parts.lhs_batch, *parts.lhs_free, *parts.lhs_contract)
    right = y.astype(wide).transpose(*parts.rhs_batch, *parts.rhs_contract, *parts.rhs_free)
    batch = left.shape[: len(parts.lhs_batch)]
    m = left.shape[len(batch) : len(batch) + len(parts.lhs_free)]
    n = right.shape[right.ndim - len(parts.rhs_free) :]
    k = math.prod(x.shape[a] for a in parts.lhs_contract)
    out = left.reshape((*batch, math.prod(m), k)) @ right.reshape((*batch, k, math.prod(n)))
    return out.reshape((*batch, *m, *n)).astype(dtype)


def _relation(ins: Sequence[Any], outs: Sequence[Any], *, dimension_numbers: DotDimensionNumbers, **_: Any) -> Relation:
    (lc, rc), (lb, rb) = dimension_numbers
    loops = Loops()
    lhs = loops.axes(ins[0].shape)
    shared = {**dict(zip(rc, lc, strict=True)), **dict(zip(rb, lb, strict=True))}
    rhs = tuple(lhs[shared[a]] if a in shared else loops.axis(n) for a, n in enumerate(ins[1].shape))
    parts = _parts(dimension_numbers, len(lhs), len(rhs))
    out = (*(lhs[a] for a in (*lb, *parts.lhs_free)), *(rhs[a] for a in parts.rhs_free))
    return loops.relation([lhs, rhs], [out], {f: Reduced(sums(outs[0].dtype)) for a in lc for f in lhs[a]})


dot_general_p: Primitive = Primitive(
    "dot_general", _typing, jvp=_jvp, transpose=_transpose, batch=_batch, numpy=_numpy, relation=_relation,
    work=Work(flops=2),
)  # fmt: skip
PRIMITIVES = (dot_general_p,)


# ---------------------------------------------------------------------------- functions


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Sequence[Any],
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: None = None,
) -> Array:
    """Contract and batch over chosen axes; the result has batch, left free, then right free axes.

    `dimension_numbers` is `((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))`. Sums of types under
    32 bits are kept in 32 bits; the result has `preferred_element_type`, or the wider operand's dtype.
    Raises `ShapeError` if sizes differ and `DtypeError` if the preferred type is too narrow.

    >>> import numpy as np
    >>> dot_general(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32), (((1,), (1,)), ((), ()))).shape
    (2, 4)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, dot_general, lhs, rhs, dimension_numbers, precision,
                                 preferred_element_type)  # fmt: skip
    numbers = canonical_dimension_numbers(dimension_numbers, len(shape_of(lhs)), len(shape_of(rhs)))
    preferred = None if preferred_element_type is None else canonical_dtype(as_dtype(preferred_element_type))
    return _bound(lhs, rhs, numbers, canonical_precision(precision), preferred, asked_open.get())


def _bound(
    lhs: Array, rhs: Array, numbers: DotDimensionNumbers, precision: Any, preferred: Any, left_open: frozenset[Any]
) -> Any:
    """A contraction whose sum stays open along those of some axes of a mesh that split it on both sides."""
    axes = left_open and left_open & split_alike(typeof(lhs), typeof(rhs), numbers[0])
    more = {"open_axes": axes} if axes else {}
    return dot_general_p.bind(
        lhs, rhs, dimension_numbers=numbers, precision=precision, preferred_element_type=preferred, **more
    )


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *args: Any,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: None = None,
) -> Array:
    """The product of vectors and matrices, or `dot_general` where `dimension_numbers` are given.

    Raises `ShapeError` for operands of other ranks.

    >>> import numpy as np
    >>> int(dot(np.arange(3), np.arange(3)))
    5
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, dot, lhs, rhs, *args, dimension_numbers=dimension_numbers,
                             precision=precision, preferred_element_type=preferred_element_type)  # fmt: skip
    if args:  # the older form dot(lhs, rhs, precision, preferred_element_type)
        precision, preferred_element_type = (*args, preferred_element_type)[:2]
    if dimension_numbers is None:
        left, right = shape_of(lhs), shape_of(rhs)
        if not (1 <= len(left) <= 2 and 1 <= len(right) <= 2 and left[-1] == right[0]):
            raise ShapeError(
                f"dot of shapes {left} and {right}",
                "give vectors or matrices with equal inner sizes, or dimension_numbers",
            )
        dimension_numbers = (((len(left) - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """The matrix product over the last two axes, all leading axes batched (and equal on both sides).

    >>> from tilewright import lax, numpy as jnp
    >>> lax.batch_matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    left, right = shape_of(lhs), shape_of(rhs)
    if min(len(left), len(right)) < 2 or len(left) != len(right):
        raise ShapeError(f"batch_matmul of shapes {left} and {right}", "give two arrays of one rank, at least 2")
    batch = tuple(range(len(left) - 2))
    return dot_general(lhs, rhs, (((len(left) - 1,), (len(left) - 2,)), (batch, batch)), precision)


def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """NumPy's matrix product: vectors are contracted, leading axes broadcast against each other.

    Dtypes are promoted. Raises `ShapeError` for scalars and for sizes that do not fit.

    >>> import numpy as np
    >>> matmul(np.ones((5, 1, 2, 3)), np.ones((4, 3, 2))).shape
    (5, 4, 2, 2)
    """
    a_type, b_type = typeof(a), typeof(b)
    if a_type.ndim == 0 or b_type.ndim == 0:
        raise ShapeError(
            f"matmul of shapes {a_type.shape} and {b_type.shape}: a scalar has no axis to sum over", "multiply with `*`"
        )
    dtype, _ = promote_types((a_type, b_type))  # type: ignore[arg-type]
    if a_type.dtype != dtype:
        a = convert_element_type(a, dtype)
    if b_type.dtype != dtype:
        b = convert_element_type(b, dtype)
    plan = _matmul_plan(a_type.shape, b_type.shape)
    a = squeeze(a, plan.a_squeeze) if plan.a_squeeze else a
    b = squeeze(b, plan.b_squeeze) if plan.b_squeeze else b
    out = dot_general(a, b, plan.numbers, precision, preferred_element_type)
    return _transposed(out, plan.permutation)


class _MatmulPlan(NamedTuple):
    a_squeeze: Axes
    b_squeeze: Axes
    numbers: DotDimensionNumbers
    permutation: Axes


def _matmul_plan(a: Axes, b: Axes) -> _MatmulPlan:
    """How to broadcast without copying: an axis of size 1 is squeezed away, and the other's becomes free."""
    k_a, k_b = len(a) - 1, max(len(b) - 2, 0)
    if a[k_a] != b[k_b]:
        raise ShapeError(
            f"matmul of shapes {a} and {b}: the inner sizes {a[k_a]} and {b[k_b]} differ",
            "transpose or reshape one operand",
        )
    rank = max(len(a), len(b), 2) - 2
    lead_a, lead_b = len(a) - 2, len(b) - 2
    squeeze: tuple[list[int], list[int]] = ([], [])
    batch: tuple[list[int], list[int]] = ([], [])
    names: dict[tuple[str, int], int] = {}  # axis of an operand -> leading axis of the result
    both: list[int] = []
    for out in range(rank):
        i, j = out - (rank - lead_a), out - (rank - lead_b)
        has_a, has_b = i >= 0 and lead_a > 0, j >= 0 and lead_b > 0
        if has_a and has_b and a[i] == b[j]:
            batch[0].append(i)
            batch[1].append(j)
            both.append(out)
        elif has_a and has_b and 1 not in (a[i], b[j]):
            raise ShapeError(f"matmul of shapes {a} and {b}: leading sizes {a[i]} and {b[j]} differ",
                             "leading axes must be equal or 1")  # fmt: skip
        elif has_a and not (has_b and a[i] == 1):
            names["a", i] = out
            if has_b:
                squeeze[1].append(j)
        else:
            names["b", j] = out
            if has_a:
                squeeze[0].append(i)
    if len(a) > 1:
        names["a", len(a) - 2] = rank
    if len(b) > 1:
        names["b", len(b) - 1] = rank + 1

    def place(axis: int, gone: list[int]) -> int:
        return axis - sum(g < axis for g in gone)

    contract = ((place(k_a, squeeze[0]),), (place(k_b, squeeze[1]),))
    batched = (tuple(place(i, squeeze[0]) for i in batch[0]), tuple(place(j, squeeze[1]) for j in batch[1]))
    order = both + [names[key] for key in sorted(names)]  # dot_general's axes: batch, free of a, free of b
    permutation = tuple(sorted(range(len(order)), key=order.__getitem__))
    return _MatmulPlan(tuple(squeeze[0]), tuple(squeeze[1]), (contract, batched), permutation)


__all__ = [
    "DotDimensionNumbers", "Precision", "batch_matmul", "dot", "dot_general", "dot_general_p",
]  # fmt: skip
