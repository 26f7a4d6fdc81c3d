"""What operations do to power series: rules for `core/jet/taylor_mode.py`, in tables.

    rule(trace, primals, series, **params) -> outs, series of outs        as a primitive gives one or several

`series` has for each operand its terms x_1 .. x_K, or None where they are all zero. Recurrences: A. Griewank and A.
Walther, "Evaluating Derivatives", 2nd edition, tables 13.1 and 13.2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..api.associative_scan import associative_scan
from ..ir.array import Array, ArrayLike
from ..ir.primitive import Primitive, Zero
from ..ir.program import Program, Var
from ..ir.types import is_complex, is_inexact
from ..primitives.contraction.conv import conv_general_dilated_p
from ..primitives.contraction.dot_general import dot_general_p
from ..primitives.contraction.fft import fft_p
from ..primitives.control_flow.cond import bind_cond, cond_p
from ..primitives.control_flow.jit_primitive import jit_p
from ..primitives.control_flow.scan import bind_scan, cut, scan_p
from ..primitives.control_flow.while_loop import bind_while, while_p
from ..primitives.custom.checkpoint import checkpoint_p, name_p, optimization_barrier_p
from ..primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p, linear_call_p
from ..primitives.elementwise import arithmetic as el
from ..primitives.elementwise import comparison as compare
from ..primitives.elementwise import conversion as convert
from ..primitives.movement import dynamic_slice, shape, sort
from ..primitives.movement import gather_scatter as indexed
from ..primitives.reduction import reduce_window as window
from ..primitives.reduction.reduce import argmax_p, argmin_p, reduce_max_p, reduce_min_p, reduce_prod_p, reduce_sum_p
from ..primitives.special import cumulative as cum
from ..primitives.special import functions as sp
from ..primitives.spmd import collective
from ..tracing.trace import eval_program, trace_program, typeof
from ..transforms.linearize import linearize_flat
from ..transforms.rule_helpers import instantiate, like, zeros
from ..transforms.structural_primitives import add_tangents

if TYPE_CHECKING:
    from .taylor_mode import JetTrace

Series = list[Any] | None
Rule = Callable[..., Any]


def zero_terms(x: ArrayLike, order: int) -> list[Any]:
    """The terms of a value that does not change."""
    return [zeros(typeof(x).tangent())] * order  # type: ignore[arg-type]


def _total(parts: Sequence[Any]) -> Any:
    return functools.reduce(add_tangents, parts)


def _times(x: Array, number: float) -> Any:
    return x if number == 1 else el.mul_p.bind(x, like(x, number))


# ---------------------------------------------------------------------------- kinds of rules


def _linear(
    primitive: Primitive, trace: JetTrace, primals: Sequence[Any], series: Sequence[Series], **params: Any
) -> Any:
    """What is linear piece by piece: the derivative at the primals takes each term by itself."""

    def run(*args: Any) -> list[Any]:
        out = primitive.bind(*args, **params)
        return out if primitive.multiple else [out]

    moves = [terms is not None for terms in series]
    outs, linear = linearize_flat(run, primals, moves)
    still = [Zero(typeof(x).tangent()) for x in primals]
    rows = [
        linear([z if terms is None else terms[k] for z, terms in zip(still, series, strict=True)])
        for k in range(trace.order)
    ]
    changes = [type(v) is Var for v in linear.outputs]
    found = [[instantiate(row[i]) for row in rows] if c else None for i, c in enumerate(changes)]
    return (outs, found) if primitive.multiple else (outs[0], found[0])


def _bilinear(
    primitive: Primitive, trace: JetTrace, primals: Sequence[Any], series: Sequence[Series], **params: Any
) -> Any:
    """What is linear in each of two operands: the terms are convolved."""
    (x, y), (xs, ys) = primals, series
    bind = functools.partial(primitive.bind, **params)
    out = bind(x, y)
    if ys is None or xs is None:
        return out, [bind(x, t) for t in ys] if xs is None else [bind(t, y) for t in xs]  # type: ignore[union-attr]
    a, b = [x, *xs], [y, *ys]
    return out, [_total([bind(a[i], b[k - i]) for i in range(k + 1)]) for k in range(1, trace.order + 1)]


def _solved(
    primitive: Primitive, partials: Sequence[Callable[..., Any] | None], trace: JetTrace, primals: Sequence[Any],
    series: Sequence[Series], **params: Any,
) -> Any:  # fmt: skip
    """What has partial derivatives G_i(*operands, out): `y' = sum of G_i x_i'`, solved term by term.

    The k-th term of y needs the terms of G below k, and so those of y.
    """
    out = primitive.bind(*primals, **params)
    found: list[Any] = []
    for k in range(1, trace.order + 1):
        known = [*([t if t is None else t[: k - 1] for t in series]), found[: k - 1]]
        parts = []
        for partial, terms in zip(partials, series, strict=True):
            if terms is None:
                continue
            if partial is None:
                raise trace.missing(primitive)
            (slope,), (slopes,) = trace.flat(lambda *a, f=partial: [f(*a, **params)], k - 1, [*primals, out], known)
            row = [slope, *(slopes if slopes is not None else [])]
            parts += [
                _times(el.mul_p.bind(terms[j - 1], row[k - j]), j / k) for j in range(1, k + 1) if k - j < len(row)
            ]
        found.append(_total(parts))
    return out, found


def _composed(
    function: Callable[..., Any], trace: JetTrace, primals: Sequence[Any], series: Sequence[Series], **params: Any
) -> Any:
    """Operations decomposed into others."""
    outs, terms = trace.flat(lambda *a: [function(*a, **params)], trace.order, primals, series)
    return outs[0], terms[0]


def _div(trace: JetTrace, primals: Sequence[Any], series: Sequence[Series]) -> Any:
    (a, b), (a_terms, b_terms) = primals, series
    quotients = [el.div_p.bind(a, b)]
    for k in range(1, trace.order + 1):
        parts = [] if a_terms is None else [a_terms[k - 1]]
        if b_terms is not None:
            parts += [el.neg_p.bind(el.mul_p.bind(b_terms[j - 1], quotients[k - j])) for j in range(1, k + 1)]
        quotients.append(el.div_p.bind(_total(parts), b))
    return quotients[0], quotients[1:]


def _abs(trace: JetTrace, primals: Sequence[Any], series: Sequence[Series]) -> Any:
    if not is_complex(typeof(primals[0]).dtype):
        return _linear(el.abs_p, trace, primals, series)

    def size(x: Array) -> Any:
        re, im = convert.real(x), convert.imag(x)
        return el.sqrt(el.add(el.mul(re, re), el.mul(im, im)))

    return _composed(size, trace, primals, series)


# ---------------------------------------------------------------------------- Programs


def _call(trace: JetTrace, primals: Sequence[Any], series: Sequence[Series], *, program: Program, **_: Any) -> Any:
    return trace.flat(functools.partial(eval_program, program), trace.order, primals, series)


def _grouped(order: int, flat: Sequence[Any], moves: Sequence[bool]) -> tuple[list[Any], list[Series]]:
    """Primals and series from a list in which each value that moves is followed by its terms."""
    rest = iter(flat)
    primals, series = [], []
    for m in moves:
        primals.append(next(rest))
        series.append([next(rest) for _ in range(order)] if m else None)
    return primals, series


def _spread(order: int, primals: Sequence[Any], series: Sequence[Series], moves: Sequence[bool]) -> list[Any]:
    flat = []
    for x, terms, m in zip(primals, series, moves, strict=True):
        flat.append(x)
        if m:
            flat += zero_terms(x, order) if terms is None else terms
    return flat


def _inexact(types: Sequence[Any]) -> list[bool]:
    return [is_inexact(t.dtype) for t in types]


def _series_program(trace: JetTrace, program: Program, moves: Sequence[bool]) -> Program:
    """A Program over values and terms; the outputs of inexact types have terms."""
    order = trace.order
    types = [t for v, m in zip(program.inputs, moves, strict=True) for t in [v.type, *([v.type.strong()] * order * m)]]

    def fun(*args: Any) -> list[Any]:
        primals, series = _grouped(order, args, moves)
        outs, terms = trace.flat(functools.partial(eval_program, program), order, primals, series)
        return _spread(order, outs, terms, _inexact(program.out_types))

    return trace_program(fun, types, f"jet_{program.name}")


def _cond(trace: JetTrace, primals: Sequence[Any], series: Sequence[Series], *, branches: Sequence[Program]) -> Any:
    moves = [terms is not None for terms in series[1:]]
    operands = _spread(trace.order, primals[1:], series[1:], moves)
    outs = bind_cond(primals[0], operands, [_series_program(trace, b, moves) for b in branches])
    return _grouped(trace.order, outs, _inexact(branches[0].out_types))


def _scan(
    trace: JetTrace, primals: Sequence[Any], series: Sequence[Series], *, program: Program, num_consts: int,
    num_carry: int, **how: Any,
) -> Any:  # fmt: skip
    given = [terms is not None for terms in series]
    carried = _inexact(program.out_types[:num_carry])
    moves = [*given[:num_consts], *carried, *given[num_consts + num_carry :]]
    body = _series_program(trace, program, moves)
    parts = [
        _spread(trace.order, x, t, m)
        for x, t, m in zip(*(cut(values, num_consts, num_carry) for values in (primals, series, moves)), strict=True)
    ]
    outs = bind_scan(body, *parts, **how)
    return _grouped(trace.order, outs, _inexact(program.out_types))


def _while(
    trace: JetTrace, primals: Sequence[Any], series: Sequence[Series], *, cond_program: Program, body_program: Program,
    cond_nconsts: int, body_nconsts: int, **more: Any,
) -> Any:  # fmt: skip
    order = trace.order
    cond_consts, consts, carry = cut(primals, cond_nconsts, body_nconsts)
    _, consts_t, carry_t = cut(series, cond_nconsts, body_nconsts)
    carried = _inexact(body_program.out_types)
    given = [terms is not None for terms in consts_t]
    body = _series_program(trace, body_program, [*given, *carried])

    def going(*args: Any) -> list[Any]:
        return eval_program(cond_program, *args[:cond_nconsts], *_grouped(order, args[cond_nconsts:], carried)[0])

    cond = trace_program(going, [*cond_program.in_types[:cond_nconsts], *body.out_types], "cond")
    outs = bind_while(cond, body, cond_consts, _spread(order, consts, consts_t, given),
                      _spread(order, carry, carry_t, carried))  # fmt: skip
    return _grouped(order, outs, carried)


# ---------------------------------------------------------------------------- the tables


def _product(x: Array, axes: Sequence[int]) -> Any:
    """The product along axes, by halves."""
    for axis in sorted(axes, reverse=True):
        while (n := typeof(x).shape[axis]) > 1:
            left = shape.slice_in_dim(x, 0, n // 2, axis=axis)
            right = shape.slice_in_dim(x, n // 2, 2 * (n // 2), axis=axis)
            half = el.mul(left, right)
            x = half if n % 2 == 0 else shape.concatenate([half, shape.slice_in_dim(x, n - 1, n, axis=axis)], axis)
        x = shape.squeeze(x, (axis,)) if n else reduce_prod_p.bind(x, axes=(axis,))
    return x


def _log_sums(x: Array, axis: int, reverse: bool) -> Any:
    top = convert.stop_gradient(shape.broadcast_in_dim_p.bind(
        reduce_max_p.bind(x, axes=(axis,)), shape=typeof(x).shape,
        broadcast_dimensions=tuple(d for d in range(typeof(x).ndim) if d != axis),
    ))  # fmt: skip
    return el.add(el.log(cum.cumsum(el.exp(el.sub(x, top)), axis, reverse)), top)


# Linear, or linear piece by piece, in the operands that have a derivative.
LINEAR = (
    el.add_p, el.add_any_p, el.sub_p, el.neg_p, el.max_p, el.min_p, el.rem_p, el.sign_p, el.floor_p, el.ceil_p,
    el.round_p, el.nextafter_p, compare.select_n_p, compare.clamp_p, compare.eq_p, compare.ne_p, compare.lt_p,
    compare.le_p, compare.gt_p, compare.ge_p, compare.is_finite_p, convert.convert_element_type_p,
    convert.bitcast_convert_type_p, convert.reduce_precision_p, convert.real_p, convert.imag_p, convert.complex_p,
    convert.conj_p, convert.stop_gradient_p, reduce_sum_p, reduce_max_p, reduce_min_p, argmax_p, argmin_p,
    cum.cumsum_p, cum.cummax_p, cum.cummin_p, sort.sort_p, sort.top_k_p, indexed.gather_p, indexed.scatter_p,
    indexed.scatter_add_p, indexed.scatter_sub_p, dynamic_slice.dynamic_slice_p, dynamic_slice.dynamic_update_slice_p,
    window.reduce_window_sum_p, window.reduce_window_max_p, window.reduce_window_min_p, window.select_and_gather_add_p,
    window.select_and_scatter_add_p, fft_p, name_p, optimization_barrier_p, linear_call_p, collective.psum_p,
    collective.ppermute_p, collective.all_gather_p, collective.all_gather_invariant_p, collective.all_to_all_p,
    collective.psum_scatter_p, collective.pbroadcast_p, *(p for p in shape.PRIMITIVES if p.jvp is not None),
)  # fmt: skip

BILINEAR = (el.mul_p, dot_general_p, conv_general_dilated_p)

_ROOT_PI = math.sqrt(math.pi)

# The derivatives by each operand, as functions of the operands and the result; None: there is none.
SLOPES: dict[Primitive, tuple[Callable[..., Any] | None, ...]] = {
    el.exp_p: (lambda x, y, **_: y,),
    el.exp2_p: (lambda x, y, **_: _times(y, math.log(2)),),
    el.expm1_p: (lambda x, y, **_: y + 1,),
    el.log_p: (lambda x, y, **_: 1 / x,),
    el.log1p_p: (lambda x, y, **_: 1 / (1 + x),),
    el.sqrt_p: (lambda x, y, **_: 0.5 / y,),
    el.rsqrt_p: (lambda x, y, **_: -0.5 * y / x,),
    el.cbrt_p: (lambda x, y, **_: 1 / (3 * y * y),),
    el.logistic_p: (lambda x, y, **_: y * (1 - y),),
    el.sin_p: (lambda x, y, **_: el.cos(x),),
    el.cos_p: (lambda x, y, **_: -el.sin(x),),
    el.tan_p: (lambda x, y, **_: 1 + y * y,),
    el.asin_p: (lambda x, y, **_: el.rsqrt(1 - x * x),),
    el.acos_p: (lambda x, y, **_: -el.rsqrt(1 - x * x),),
    el.atan_p: (lambda x, y, **_: 1 / (1 + x * x),),
    el.sinh_p: (lambda x, y, **_: el.cosh(x),),
    el.cosh_p: (lambda x, y, **_: el.sinh(x),),
    el.tanh_p: (lambda x, y, **_: 1 - y * y,),
    el.asinh_p: (lambda x, y, **_: el.rsqrt(x * x + 1),),
    el.acosh_p: (lambda x, y, **_: el.rsqrt((x - 1) * (x + 1)),),
    el.atanh_p: (lambda x, y, **_: 1 / (1 - x * x),),
    el.integer_pow_p: (lambda x, out, y: y * el.integer_pow(x, y - 1),),
    el.pow_p: (lambda x, a, y: a * el.pow(x, a - 1), lambda x, a, y: el.log(x) * y),
    el.atan2_p: (lambda y, x, out: x / (x * x + y * y), lambda y, x, out: -y / (x * x + y * y)),
    sp.erf_p: (lambda x, y, **_: 2 / _ROOT_PI * el.exp(-x * x),),
    sp.erfc_p: (lambda x, y, **_: -2 / _ROOT_PI * el.exp(-x * x),),
    sp.erf_inv_p: (lambda x, y, **_: _ROOT_PI / 2 * el.exp(y * y),),
    sp.lgamma_p: (lambda x, y, **_: sp.digamma(x),),
    sp.digamma_p: (lambda x, y, **_: sp.polygamma(el.sign(x * 0) + 1, x),),
    sp.polygamma_p: (None, lambda m, x, y: sp.polygamma(m + 1, x)),
    sp.igamma_p: (None, lambda a, x, y: el.exp(-x + (a - 1) * el.log(x) - sp.lgamma(a))),
    sp.igammac_p: (None, lambda a, x, y: -el.exp(-x + (a - 1) * el.log(x) - sp.lgamma(a))),
    sp.bessel_i0e_p: (lambda x, y, **_: sp.bessel_i1e(x) - el.sign(x) * y,),
    sp.bessel_i1e_p: (lambda x, y, **_: sp.bessel_i0e(x) - y * (el.sign(x) + 1 / x),),
}

COMPOSED: dict[Primitive, Callable[..., Any]] = {
    el.square_p: lambda x: el.mul(x, x),
    el.one_minus_square_p: lambda x: el.mul(1 - x, 1 + x),
    reduce_prod_p: _product,
    cum.cumprod_p: lambda x, axis, reverse: associative_scan(el.mul, x, reverse=reverse, axis=axis),
    cum.cumlogsumexp_p: _log_sums,
}

RULES: dict[Primitive, Rule] = {
    **{p: functools.partial(_linear, p) for p in LINEAR},
    **{p: functools.partial(_bilinear, p) for p in BILINEAR},
    **{p: functools.partial(_solved, p, slopes) for p, slopes in SLOPES.items()},
    **{p: functools.partial(_composed, function) for p, function in COMPOSED.items()},
    **dict.fromkeys((jit_p, checkpoint_p, custom_jvp_call_p, custom_vjp_call_p), _call),
    el.div_p: _div,
    el.abs_p: _abs,
    cond_p: _cond,
    scan_p: _scan,
    while_p: _while,
}
