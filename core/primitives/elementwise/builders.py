"""Makers of elementwise primitives: typing, derivative, relation and NumPy meaning from a few words of data each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import numpy as np

from ...ir.array import Array, ArrayLike
from ...ir.axis_relation import ONE, POINTWISE, TRANSCENDENTAL, Work, pointwise
from ...ir.elementwise_typing import nary_typing, widened
from ...ir.primitive import Primitive
from ...ir.types import ArrayType, Dtype, is_complex, kind
from ...support.errors import DtypeError, ShapeError
from ...tracing.trace import Scalar, typeof
from ...transforms.rule_helpers import like, nary_jvp, no_tangent
from ...transforms.structural_primitives import broadcast_in_dim_p, unbroadcasting

if TYPE_CHECKING:
    from functools import partial


_RANK = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


def real_dtype(dtype: Dtype) -> Dtype:
    """The dtype of the real part."""
    return np.zeros((), dtype).real.dtype if is_complex(dtype) else dtype


def complex_dtype(dtype: Dtype) -> Dtype:
    """The complex dtype whose parts have a floating dtype."""
    return np.dtype(np.complex128 if dtype == np.float64 else np.complex64)


# ---------------------------------------------------------------------------- makers


def unary(
    name: str,
    kinds: Sequence[str],
    numpy: Callable[..., Any] | None,
    partial: Callable[..., Any] | None = None,
    *,
    result: Callable[[Dtype], Dtype] | None = None,
    flat: bool = False,
    jvp: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
    expand: Callable[..., Any] | None = None,
    wide: bool = True,
    work: Work = ONE,
    kind: str = POINTWISE,
) -> Primitive:
    """An elementwise primitive of one operand.

    `partial(t, out, x, **params)` is the tangent of the result; `flat` says that the derivative is
    zero wherever it exists; neither means that there is no derivative, unless `jvp` is given whole.
    `transpose(ct, type, **params)` belongs to the linear ones. With `wide`, narrow floats are computed
    in float32.
    """
    if jvp is None:
        jvp = nary_jvp(lambda: p, partial) if partial else no_tangent(lambda: p) if flat else None
    p = Primitive(
        name,
        nary_typing(name, kinds, result),
        jvp=jvp,
        transpose=None if transpose is None else (lambda ct, x, **params: [transpose(ct, x.type, **params)]),
        numpy=widened(numpy) if wide and numpy else numpy,
        expand=expand,
        relation=pointwise,
        work=work,
        kind=kind,
    )
    return p


def nary(
    name: str,
    kinds: Sequence[str],
    numpy: Callable[..., Any] | None,
    partials: Sequence[Callable[..., Any] | None] | None = None,
    *,
    typing: Callable[..., ArrayType] | None = None,
    result: Callable[[Dtype], Dtype] | None = None,
    flat: bool = False,
    jvp: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
    expand: Callable[..., Any] | None = None,
    wide: bool = True,
    work: Work = ONE,
    kind: str = POINTWISE,
) -> Primitive:
    """An elementwise primitive of several operands of one dtype; the words are those of `unary`.

    `transpose(ct, *args, **params)` gives one cotangent per argument, each of the full shape: the
    sum over the implied broadcast of a scalar is added here.
    """
    if jvp is None:
        jvp = nary_jvp(lambda: p, *partials) if partials else no_tangent(lambda: p) if flat else None
    p = Primitive(
        name,
        typing or nary_typing(name, kinds, result),
        jvp=jvp,
        transpose=None if transpose is None else unbroadcasting(transpose),
        numpy=widened(numpy) if wide and numpy else numpy,
        expand=expand,
        relation=pointwise,
        work=work,
        kind=kind,
    )
    return p


curve: partial[Primitive]
curve = functools.partial(unary, work=TRANSCENDENTAL)  # a transcendental function of one operand, and of several
curves: partial[Primitive] = functools.partial(nary, work=TRANSCENDENTAL)


# ---------------------------------------------------------------------------- user-level functions


def operands(name: str, *args: Any) -> tuple[Any, ...]:
    """Operands of a lax function: Python scalars take the dtype of the arrays beside them."""
    for a in args:
        if type(a) not in Scalar:
            break
    else:
        widest = max(args, key=lambda a: _RANK[kind(typeof(a).dtype)])
        return tuple(like(widest, a) for a in args)
    out = list(args)
    for i, x in enumerate(args):
        if type(x) in Scalar:
            dtype = typeof(a).dtype
            if _RANK[kind(typeof(x).dtype)] > _RANK.get(kind(dtype), -1):
                raise DtypeError(
                    f"{name} takes operands of one dtype, got the number {x!r} beside {typeof(a).show()}",
                    "cast with `astype`, or use the function of that name in `tilewright.numpy`, which promotes",
                )
            out[i] = like(a, x)
    return tuple(out)


def stretched(error: ShapeError, *args: Any) -> list[Any]:
    """Operands of one rank with their axes of size 1 spread over the others' sizes; where that is no help, the error.

    So the functions of `lax` broadcast; their primitives take equal shapes.
    """
    shapes = [typeof(a).shape for a in args]
    whole = tuple(max(sizes, default=1) if 0 not in sizes else 0 for sizes in zip(*shapes, strict=False))
    if len(set(shapes)) == 1 or any(
        len(s) != len(whole) or any(n not in (1, m) for n, m in zip(s, whole, strict=True)) for s in shapes
    ):
        raise error
    return [broadcast_in_dim_p.bind(a, shape=whole, broadcast_dimensions=tuple(range(len(whole)))) for a in args]


class Unary(Protocol):
    """A function of one array."""

    __name__: str

    def __call__(self, x: ArrayLike) -> Array: ...


class Binary(Protocol):
    """A function of two arrays."""

    __name__: str

    def __call__(self, x: ArrayLike, y: ArrayLike) -> Array: ...


class Ternary(Protocol):
    """A function of three arrays."""

    __name__: str

    def __call__(self, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Array: ...


@overload
def function(primitive: Primitive, arity: Literal[1], doc: str, name: str | None = None) -> Unary: ...
@overload
def function(primitive: Primitive, arity: Literal[2], doc: str, name: str | None = None) -> Binary: ...
@overload
def function(primitive: Primitive, arity: Literal[3], doc: str, name: str | None = None) -> Ternary: ...
def function(primitive: Primitive, arity: int, doc: str, name: str | None = None) -> Any:
    """The `jax.lax` function of a primitive without parameters."""
    called = name or primitive.name
    if arity == 1:

        def one(x: ArrayLike) -> Any:
            return primitive.bind(x)

        result: Callable[..., Any] = one
    elif arity == 2:

        def two(x: ArrayLike, y: ArrayLike) -> Any:
            if type(x) in Scalar or type(y) in Scalar:
                x, y = operands(called, x, y)
            try:
                return primitive.bind(x, y)
            except ShapeError as error:
                return primitive.bind(*stretched(error, x, y))

        result = two
    else:

        def three(x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Any:
            args = operands(called, x, y, z)
            try:
                return primitive.bind(*args)
            except ShapeError as error:
                return primitive.bind(*stretched(error, *args))

        result = three
    result.__name__ = result.__qualname__ = called
    result.__doc__ = doc
    return result
