"""Products of matrices: by the tensor cores, of tiles in shared memory, and of fragments on the left.

A product is issued where it is used: what it is added to is what the tensor cores start from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.elementwise.arithmetic import add_any_p, add_p
from ...lang.legalize import Unfit
from ..mma_types import depth, kind_of
from ..products import WIDEST
from ..values import Fragment, Layout, Product, halves
from .elementwise import RULES as ELEMENTWISE

if TYPE_CHECKING:
    from ..lower import Lowering


def _dot(e: Lowering, operands: list[Any], out: ArrayType, dimension_numbers: Sequence[Any], precision: Any,
         preferred_element_type: Any, **params: Any) -> Any:  # fmt: skip
    (left, right), (batch, _) = dimension_numbers
    a, b = operands
    if batch or len(left) != 1 or len(a.shape) != 2 or len(b.shape) != 2:
        raise Unfit("a product that is not of two matrices: sum along one axis, and let the grid have those of a batch")
    kind, (n, k), step = kind_of(a.dtype, b.dtype, precision), (out.shape[1], a.shape[left[0]]), depth(a.dtype)
    unit = 16 if kind.family == "i8" else 8
    if out.shape[0] != e.rows or n % unit or n > WIDEST or k % step:
        raise Unfit(f"a product of {out.shape[0]} x {k} x {n}: rows are {e.rows} elsewhere, columns a multiple of "
                    f"{unit} up to {WIDEST}, sums over a multiple of {step}")  # fmt: skip
    found = Product(Layout(out.shape, 0, 1), kind.result, (a, b), (left[0], right[0]))
    if out.dtype == kind.result:
        return found
    if not halves(out.dtype) or not halves(a.dtype):
        raise Unfit(f"a product in {out.dtype}: sum in float32, integers in int32 (`preferred_element_type`)")
    made = e.settled(found)
    return e.make(made.layout, out.dtype, lambda r, j: e.element(made, made.layout, r, j))


def _add(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A sum, one term of which may be a product that starts from the other."""

    def added(e: Lowering, operands: list[Any], out: ArrayType, **params: Any) -> Any:
        for x, y in (operands, operands[::-1]):
            open_ = isinstance(x, Product) and x.once and x.made is None
            if open_ and isinstance(y, Fragment) and y.layout == x.layout:
                return e.added(x, y)
        return rule(e, operands, out, **params)

    return added


RULES: dict[Primitive, Callable[..., Any]] = {
    dot_general_p: _dot,
    **{p: _add(ELEMENTWISE[p]) for p in (add_p, add_any_p)},
}
