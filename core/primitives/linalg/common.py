"""What the primitives of linear algebra share: checks of types, batching, relations, and meaning matrix by matrix.

Each operand is a batch of matrices or vectors: leading axes that all operands share, then axes of its own. The leading
axes are parallel and the others whole, so `vmap` adds a leading axis and nothing else changes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.array import ArrayLike, DTypeLike
from ...ir.axis_relation import Kind, Loops, Relation, Whole
from ...ir.promotion import to_inexact
from ...ir.types import INT32, ArrayType, is_complex, is_float, is_inexact
from ...support.errors import DtypeError, ShapeError
from ...support.memo import once
from ...tracing.trace import typeof
from ..elementwise.conversion import cast

FACTORED = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))


@once
def scipy_linalg() -> Any:
    """SciPy's linear algebra, imported when first needed: it takes a tenth of a second."""
    return importlib.import_module("scipy.linalg")


def real_of(dtype: DTypeLike) -> Any:
    """The dtype of a number's real part."""
    return np.zeros((), dtype).real.dtype


def complex_of(dtype: DTypeLike) -> Any:
    """The complex dtype of the same precision."""
    return dtype if is_complex(dtype) else np.dtype(np.complex128 if dtype == np.float64 else np.complex64)


# ---------------------------------------------------------------------------- checks


def check_dtype(name: str, *types: ArrayType) -> None:
    """Raise `DtypeError` unless the operands have one dtype, of those that LAPACK factors."""
    for t in types:
        if t.dtype not in FACTORED:
            remedy = "cast with `astype`" if is_inexact(t.dtype) else "cast with `astype`, as `numpy.linalg` does"
            raise DtypeError(f"{name} takes float32, float64, complex64 or complex128, got {t.show()}", remedy)
        if t.dtype != types[0].dtype:
            raise DtypeError(f"{name} takes operands of one dtype, got {types[0].show()} and {t.show()}",
                             "cast with `astype`")  # fmt: skip


def check_matrix(name: str, x: ArrayType) -> tuple[tuple[int, ...], int, int]:
    """The leading axes, rows and columns of matrices; `ShapeError` if there are less than two axes."""
    if x.ndim < 2:
        raise ShapeError(f"{name} takes matrices, in the last two axes, got {x.show()}", "add axes, or reshape")
    return x.shape[:-2], x.shape[-2], x.shape[-1]


def check_square(name: str, x: ArrayType) -> tuple[tuple[int, ...], int]:
    """The leading axes and the size of square matrices; `ShapeError` if they are not square."""
    batch, rows, columns = check_matrix(name, x)
    if rows != columns:
        raise ShapeError(f"{name} takes square matrices, got {x.show()}", "the last two axes must have equal sizes")
    return batch, rows


def check_batch(name: str, batch: Sequence[int], other: Sequence[int], x: ArrayType) -> None:
    """Raise `ShapeError` unless an operand's leading axes are those of the first."""
    if tuple(batch) != tuple(other):
        raise ShapeError(f"{name}: the leading axes of {x.show()} are not {tuple(batch)}, those of the first operand",
                         "broadcast them first")  # fmt: skip


# ---------------------------------------------------------------------------- dtypes that no library factors


def is_narrow(dtype: DTypeLike) -> bool:
    """Whether numbers of a dtype are floats of less than 32 bits."""
    return is_float(dtype) and dtype.itemsize < 4


def through_float32(f: Callable[..., Any], *operands: Any) -> Any:
    """`f` of operands of one dtype; of narrow floats it is computed in float32, and rounded once."""
    dtypes = {typeof(x).dtype for x in operands}
    if len(dtypes) > 1 or not is_narrow(dtype := dtypes.pop()):
        return f(*operands)
    return cast(f(*(cast(x, np.dtype(np.float32)) for x in operands)), dtype)


def with_fractions(x: ArrayLike) -> Any:
    """Integers and booleans as floats of the default dtype."""
    dtype = typeof(x).dtype
    return x if is_inexact(dtype) else cast(x, to_inexact(dtype), typeof(x).weak_type)


# ---------------------------------------------------------------------------- relations


def matrixwise(*own: int) -> Callable[..., Relation]:
    """The relation of an operation on batches; `own`: how many axes of the first operand each matrix or vector has."""

    def rule(ins: Sequence[ArrayType], outs: Sequence[ArrayType], **params: Any) -> Relation:
        loops = Loops()
        count = ins[0].ndim - own[0]
        shared = loops.axes(ins[0].shape[:count])
        whole = [(*shared, *loops.axes(t.shape[count:])) for t in (*ins, *outs)]
        lead = {f for axis in shared for f in axis}
        kinds: dict[int, Kind] = {f: Whole() for f in range(len(loops.sizes)) if f not in lead}
        return loops.relation(whole[: len(ins)], whole[len(ins) :], kinds)

    return rule


# ---------------------------------------------------------------------------- meaning


def each(
    typing: Callable[..., Any], fun: Callable[..., Any], own: Sequence[int], finite: bool = True
) -> Callable[..., Any]:
    """The NumPy meaning of an operation, from that on one matrix.

    `own` is how many axes one matrix or vector has, for each operand. Where `fun` raises LinAlgError or ValueError, or
    an operand is not finite though it has to be, the floating results are NaN.
    """

    def meaning(*xs: Any, **params: Any) -> Any:
        found = typing(*[ArrayType(x.shape, x.dtype) for x in xs], **params)
        types = found if isinstance(found, list) else [found]
        count = xs[0].ndim - own[0]
        batch = xs[0].shape[:count]
        outs = [np.zeros(t.shape, t.dtype) for t in types]
        for index in np.ndindex(*batch):
            one = [x[index] for x in xs]
            usable = not finite or all(np.isfinite(x).all() for x in one)
            for out, part in zip(outs, _one(fun if usable else _failing, one, params, types, count), strict=True):
                out[index] = part
        return outs if isinstance(found, list) else outs[0]

    return meaning


def _one(
    fun: Callable[..., Any], xs: Sequence[Any], params: dict[str, Any], types: Sequence[ArrayType], count: int
) -> list[Any]:
    failed = [np.full(t.shape[count:], np.nan if is_inexact(t.dtype) else 0).astype(t.dtype) for t in types]
    try:
        out = fun(*xs, **params)
    except (np.linalg.LinAlgError, ValueError):
        return failed
    return list(out) if isinstance(out, (list, tuple)) else [out]


def _failing(*xs: np.ndarray, **params: Any) -> Any:
    raise np.linalg.LinAlgError("not finite")


def permutation_of(pivots: np.ndarray, size: int) -> np.ndarray:
    """The permutation of a sequence of swaps of element i with element `pivots[i]`."""
    found = np.arange(size, dtype=INT32)
    for i, p in enumerate(pivots):
        found[[i, p]] = found[[p, i]]
    return found
