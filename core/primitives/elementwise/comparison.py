"""Comparisons, selection and clamping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import FREE, POINTWISE, pointwise
from ...ir.elementwise_typing import ANY, FLOAT, ORDERED, check_kind, common_shape, same_dtype
from ...ir.primitive import Linear, Primitive, Zero
from ...ir.types import BOOL, INT32, INT64, ArrayType, is_bool, is_inexact
from ...support.errors import DtypeError, ShapeError
from ...support.memo import cached
from ...tracing.trace import Scalar, typeof
from ...transforms.rule_helpers import instantiate, like, zeros
from ...transforms.structural_primitives import add_tangents, spread, unbroadcast
from .bitwise import and_p, or_p
from .builders import function, nary, operands, unary

if TYPE_CHECKING:
    from .builders import Binary, Unary


# ---------------------------------------------------------------------------- comparisons


def _to_bool(dtype: np.dtype[Any]) -> Any:
    return BOOL


def _lexicographic(compare: Callable[..., Any], strict: Callable[..., Any]) -> Any:
    """An order of complex numbers from one of reals: by real part, then by imaginary part."""

    def ordered(x: Operand, y: Operand) -> Any:
        if x.dtype.kind != "c":
            return compare(x, y)
        return np.where(x.real == y.real, compare(x.imag, y.imag), strict(x.real, y.real))

    return ordered


eq_p: Primitive = nary("eq", (*ANY, "float0"), np.equal, result=_to_bool, flat=True)
ne_p: Primitive = nary("ne", (*ANY, "float0"), np.not_equal, result=_to_bool, flat=True)
lt_p: Primitive = nary("lt", ORDERED, _lexicographic(np.less, np.less), result=_to_bool, flat=True)
le_p: Primitive = nary("le", ORDERED, _lexicographic(np.less_equal, np.less), result=_to_bool, flat=True)
gt_p: Primitive = nary("gt", ORDERED, _lexicographic(np.greater, np.greater), result=_to_bool, flat=True)
ge_p: Primitive = nary("ge", ORDERED, _lexicographic(np.greater_equal, np.greater), result=_to_bool, flat=True)
is_finite_p: Primitive = unary("is_finite", FLOAT, np.isfinite, result=_to_bool, flat=True)


# ---------------------------------------------------------------------------- selection


@cached()
def _select_typing(which: ArrayType, *cases: ArrayType) -> ArrayType:
    if len(cases) == 0:
        raise ShapeError("select_n has no cases", "pass at least one array to select from")
    if not (is_bool(which.dtype) or which.dtype in (INT32, INT64)):
        raise DtypeError(f"select_n takes a bool or int32 selector, got {which.show()}", "cast it with `astype`")
    if is_bool(which.dtype) and len(cases) > 2:
        raise ShapeError(f"select_n with a bool selector takes at most two cases, got {len(cases)}", "use an int32 one")
    dtype = same_dtype("select_n", cases)
    check_kind("select_n", cases[0], ANY)
    return ArrayType(common_shape("select_n", (which, *cases)), dtype, all(c.weak_type for c in cases))


def _select(which: Operand, *cases: Any) -> Any:
    selector, out, *others = np.broadcast_arrays(which, *cases)
    for i, case in enumerate(others, 1):
        out = np.where(selector >= i, case, out)
    return out


def _select_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    which, *cases = primals
    out = select_n_p.bind(which, *cases)
    type_ = typeof(out)
    if all(type(t) is Zero for t in tangents[1:]) or not is_inexact(type_.dtype):
        return out, Zero(type_.tangent())
    return out, spread(select_n_p.bind(which, *map(instantiate, tangents[1:])), type_.shape)


def _select_transpose(ct: Operand, which: Array, *cases: Any) -> list[Any]:
    zero = zeros(typeof(ct))  # type: ignore[arg-type]
    parts = [select_n_p.bind(which, *(ct if i == j else zero for j in range(len(cases)))) for i in range(len(cases))]
    return [None] + [
        unbroadcast(part, case.type) if type(case) is Linear else None for part, case in zip(parts, cases, strict=True)
    ]


select_n_p: Primitive = Primitive(
    "select_n",
    lambda *types: _select_typing(*types),
    jvp=_select_jvp,
    transpose=_select_transpose,
    numpy=_select,
    relation=pointwise,
    work=FREE,
    kind=POINTWISE,
)


def _clamp_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    low, x, high = primals
    out = clamp_p.bind(low, x, high)
    type_ = typeof(out)
    total: Any = Zero(type_.tangent())
    if not is_inexact(type_.dtype):
        return out, total
    masks = (
        lambda: and_p.bind(gt_p.bind(low, x), lt_p.bind(low, high)),
        lambda: and_p.bind(lt_p.bind(low, x), lt_p.bind(x, high)),
        lambda: or_p.bind(lt_p.bind(high, x), lt_p.bind(high, low)),
    )
    for t, mask in zip(tangents, masks, strict=True):
        if type(t) is not Zero:
            total = add_tangents(total, spread(select_n_p.bind(mask(), like(t, 0), t), type_.shape))
    return out, total


clamp_p: Primitive = nary("clamp", ORDERED, lambda low, x, high: np.minimum(np.maximum(x, low), high), jvp=_clamp_jvp)


# ---------------------------------------------------------------------------- functions of jax.lax

eq: Binary = function(eq_p, 2, "Elementwise x == y, as booleans.")
ne: Binary = function(ne_p, 2, "Elementwise x != y, as booleans.")
lt: Binary = function(lt_p, 2, "Elementwise x < y, as booleans; complex numbers in lexicographic order.")
le: Binary = function(le_p, 2, "Elementwise x <= y, as booleans; complex numbers in lexicographic order.")
gt: Binary = function(gt_p, 2, "Elementwise x > y, as booleans; complex numbers in lexicographic order.")
ge: Binary = function(ge_p, 2, "Elementwise x >= y, as booleans; complex numbers in lexicographic order.")
is_finite: Unary = function(is_finite_p, 1, "Elementwise whether a float is neither infinite nor NaN.")

def clamp(min: Any, x: ArrayLike, max: Any) -> Array:  # noqa: A002
    """Elementwise x limited to [min, max]; the bounds are scalars or of the shape of x.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.clamp(0, jnp.array([-2, 5, 12]), 10)
    Array([ 0,  5, 10], dtype=int32)
    """
    if type(min) in Scalar or type(x) in Scalar or type(max) in Scalar:
        min, x, max = operands("clamp", min, x, max)  # noqa: A001
    return clamp_p.bind(min, x, max)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Elementwise `on_true` where `pred` (bool, a scalar or of their shape), else `on_false`.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([10, 20]))
    Array([ 1, 20], dtype=int32)
    """
    return select_n(pred, on_false, on_true)


def select_n(which: ArrayLike, *cases: Any) -> Array:
    """Elementwise `cases[which]`; `which` is bool or int32, a scalar or of the shape of the cases.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.select_n(jnp.array([2, 0]), jnp.array([1, 2]), jnp.array([3, 4]), jnp.array([5, 6]))
    Array([5, 2], dtype=int32)
    """
    return select_n_p.bind(which, *operands("select_n", *cases))


PRIMITIVES: tuple[Primitive, ...] = (eq_p, ne_p, lt_p, le_p, gt_p, ge_p, is_finite_p, select_n_p, clamp_p)

__all__ = [
    "clamp", "clamp_p", "eq", "eq_p", "ge", "ge_p", "gt", "gt_p", "is_finite", "is_finite_p", "le", "le_p", "lt",
    "lt_p", "ne", "ne_p", "select", "select_n", "select_n_p",
]  # fmt: skip
