"""Elementwise operations of any rank: operands of one shape or scalars, of any dtypes, one result or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.primitive import Primitive
from ..core.primitives import compare, convert, elementwise, shape, special
from ..core.types import ArrayType
from .template import Cut, Loops, Parts, Template

# One call of the transcendental unit (or its library) each.
TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log1p logistic sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt cbrt pow "
    "atan2 erf erfc erf_inv lgamma digamma polygamma zeta igamma igammac igamma_grad_a regularized_incomplete_beta "
    "bessel_i0e bessel_i1e".split()
)


def _loops(types: Sequence[ArrayType], params: dict[str, Any]) -> Loops:
    return Loops(max((t.shape for t in types), key=len, default=()))


def _store(outs: Sequence[Any], found: Any, multiple: bool) -> None:
    for ref, value in zip(outs, found if multiple else [found], strict=True):
        ref[...] = value


def pointwise(primitive: Primitive, family: str = "elementwise", count: Any = None) -> Template:
    """The template of an operation whose results have the shape of its operands, scalars apart."""

    def cut(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any], cut: Cut) -> Parts:
        n = len(types)

        def body(*refs: Any) -> None:
            _store(refs[n:], primitive.bind(*(r[...] for r in refs[:n]), **params), primitive.multiple)

        def spec(t: ArrayType) -> Any:
            return cut.spec(range(t.ndim), t.shape)

        return Parts(body, [spec(t) for t in types], [spec(t) for t in outs])

    def work(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any]) -> tuple[int, int]:
        count = math.prod(outs[0].shape)
        return (0, count) if primitive.name in TRANSCENDENTAL else (count * len(outs), 0)

    return Template(family, primitive, _loops, cut, count or work)


def _bitcast_loops(types: Sequence[ArrayType], params: dict[str, Any]) -> Loops:
    """The axes that operand and result share; one of them may have another, innermost, that splits elements."""
    old, new = types[0].dtype.itemsize, params["new_dtype"].itemsize
    return Loops(types[0].shape[:-1] if new > old else types[0].shape)


def _bitcast_cut(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any], cut: Cut) -> Parts:
    def body(x: Any, o: Any) -> None:
        o[...] = convert.bitcast_convert_type_p.bind(x[...], **params)

    def spec(t: ArrayType) -> Any:
        n = len(cut.loops.sizes)
        return cut.spec([i if i < n else None for i in range(t.ndim)], t.shape)

    return Parts(body, [spec(types[0])], [spec(outs[0])])


def _no_work(types: Any, outs: Any, params: Any) -> tuple[int, int]:
    return 0, 0


bitcast = Template("elementwise", convert.bitcast_convert_type_p, _bitcast_loops, _bitcast_cut, _no_work)

TEMPLATES = {
    **{
        p: pointwise(p)
        for p in (*elementwise.PRIMITIVES, *special.PRIMITIVES, *compare.PRIMITIVES, *convert.PRIMITIVES, shape.copy_p)
        if p is not convert.bitcast_convert_type_p
    },
    convert.bitcast_convert_type_p: bitcast,
}
