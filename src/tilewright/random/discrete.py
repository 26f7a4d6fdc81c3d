"""Samplers of counts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array, ArrayLike, DTypeLike
from ..core.ir.promotion import to_inexact
from ..core.jit.jit import jit
from ..core.primitives.control_flow.functions import while_loop
from ..core.primitives.control_flow.scan import scan
from ..core.primitives.elementwise import arithmetic, bitwise, comparison
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement import shape as shapes
from ..core.primitives.movement.shape import as_shape, broadcast_shapes
from ..core.primitives.reduction.reduce import reduce_or_p
from ..core.primitives.special import functions
from ..core.primitives.special.cumulative import cumsum
from ..core.support.call_errors import public
from ..core.support.errors import ShapeError
from ..core.tracing.array_conversion import as_array
from ..core.tracing.trace import dtype_of, shape_of
from .approximate import draw_poisson_near
from .basic import constant, draw_uniform
from .generators import generator
from .key import METHODS, Shape, chosen, float_dtype, int_dtype, one_key, sample_shape, split2

if TYPE_CHECKING:
    from ..core.primitives.elementwise.arithmetic import UnaryWithAccuracy
    from ..core.primitives.elementwise.builders import Unary


select: Callable[..., Array]
log: UnaryWithAccuracy
floor: Unary
select, log, floor = comparison.select, arithmetic.log, arithmetic.floor


def _any(x: Array) -> Any:
    return reduce_or_p.bind(x, axes=tuple(range(len(shape_of(x)))))


def _like(x: Any, value: Any) -> Any:
    return shapes.full_like(x, value)


# ---------------------------------------------------------------------------- geometric


@public
def geometric(
    key: ArrayLike, p: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: None = None
) -> Array:
    """The number of trials of probability `p` up to and with the first success.

    >>> import tilewright as tw
    >>> int(tw.random.geometric(tw.random.key(0), 1.0))
    1
    """
    key = one_key("geometric", key)
    return _geometric(key, p, sample_shape("geometric", shape, p), int_dtype("geometric", dtype))


@functools.partial(jit, static_argnums=(2, 3))
def _geometric(key: ArrayLike, p: Any, shape: Any, dtype: DTypeLike) -> Any:
    real = to_inexact(dtype_of(p))
    failure = shapes.broadcast_to(arithmetic.log1p(arithmetic.neg(convert_element_type(p, real))), shape)
    u = draw_uniform(key, 0.0, 1.0, shape, real)
    u = select(u == _like(u, 0), _like(u, 1), u)
    return convert_element_type(floor(log(u) / failure) + constant(real, 1), dtype)


# ---------------------------------------------------------------------------- Poisson


@public
def poisson(
    key: ArrayLike, lam: Any, shape: Shape | None = None, dtype: DTypeLike = None, *, method: str = "exact",
    out_sharding: None = None,
) -> Array:  # fmt: skip
    """Poisson counts of mean `lam`: by products of uniforms below 10 (Knuth), above by rejection (Hormann, 1993).

    `method='approximate'` draws them without a loop; their distribution differs by less than 1e-4 in total variation.

    >>> import tilewright as tw
    >>> int(tw.random.poisson(tw.random.key(0), 0.0))
    0
    """
    key = one_key("poisson", key)
    draw = draw_poisson_near if chosen("poisson's method", method, METHODS) == "approximate" else _poisson
    return draw(key, lam, sample_shape("poisson", shape, lam), int_dtype("poisson", dtype))


@functools.partial(jit, static_argnums=(2, 3))
def _poisson(key: ArrayLike, lam: Any, shape: Any, dtype: DTypeLike) -> Any:
    lam = shapes.broadcast_to(convert_element_type(lam, np.dtype(np.float32)), shape)
    small = (lam != lam) | (lam < np.float32(10))
    most = np.iinfo(dtype).max
    knuth = _poisson_by_products(key, select(small, lam, _like(lam, 0)), dtype, most)
    rejection = _poisson_by_rejection(key, select(small, _like(lam, 1e5), lam), dtype, most)
    out = select(small, knuth, rejection)
    return select(lam == _like(lam, 0), _like(out, 0), out)


def _counter(most: int) -> Any:
    return np.int32(min(most, np.iinfo(np.int32).max))


def _poisson_by_products(key: ArrayLike, lam: Any, dtype: DTypeLike, most: int) -> Any:
    """Uniforms multiplied until the product falls below exp(-lam)."""
    bound, shape = arithmetic.neg(lam), shape_of(lam)

    def unfinished(state: Any) -> Any:
        return _any(state[3] > bound) & (state[0] < _counter(most))

    def step(state: Any) -> Any:
        i, k, key, product = state
        key, subkey = split2(key)
        k = select(product > bound, k + constant(dtype, 1), k)
        return i + np.int32(1), k, key, product + log(draw_uniform(subkey, 0.0, 1.0, shape, np.dtype(np.float32)))

    init = (np.int32(0), shapes.full(shape, 0, dtype), key, _like(lam, 0))
    return while_loop(unfinished, step, init)[1] - constant(dtype, 1)


def _poisson_by_rejection(key: ArrayLike, lam: Any, dtype: DTypeLike, most: int) -> Any:
    shape, real = shape_of(lam), dtype_of(lam)
    log_lam = log(lam)
    b = 0.931 + 2.53 * arithmetic.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def unfinished(state: Any) -> Any:
        return _any(bitwise.not_p.bind(state[2])) & (state[0] < _counter(most))

    def step(state: Any) -> Any:
        i, out, accepted, key = state
        key, for_u, for_v = split2(key, 3)
        u = draw_uniform(for_u, 0.0, 1.0, shape, real) - 0.5
        v = draw_uniform(for_v, 0.0, 1.0, shape, real)
        room = 0.5 - arithmetic.abs(u)
        k = floor((2 * a / room + b) * u + lam + 0.43)
        s = log(v * inverse_alpha / (a / (room * room) + b))
        reject = (k < 0) | ((room < 0.013) & (v > room))
        exact = s <= -lam + k * log_lam - functions.lgamma(k + 1)
        accept = ((room >= 0.07) & (v <= v_r)) | (bitwise.not_p.bind(reject) & exact)
        return i + np.int32(1), select(accept, k, out), accepted | accept, key

    init = (np.int32(0), _like(lam, -1), shapes.full(shape, False, np.dtype(bool)), key)
    return convert_element_type(while_loop(unfinished, step, init)[1], dtype)


# ---------------------------------------------------------------------------- binomial


@public
def binomial(key: ArrayLike, n: Any, p: Any, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Binomial counts, as floats: successes in `n` trials of probability `p`.

    By sums of geometric values where n p <= 10, else by rejection (Hormann's BTRS, 1993); nan for invalid parameters.

    >>> import tilewright as tw
    >>> float(tw.random.binomial(tw.random.key(0), 10.0, 1.0))
    10.0
    """
    key = one_key("binomial", key)
    return _binomial(key, n, p, sample_shape("binomial", shape, n, p), float_dtype("binomial", dtype))


@functools.partial(jit, static_argnums=(3, 4))
def _binomial(key: ArrayLike, count: Any, prob: Any, shape: Any, dtype: DTypeLike) -> Any:
    real = to_inexact(dtype_of(prob))
    count, prob = (shapes.broadcast_to(convert_element_type(v, real), shape) for v in (count, prob))
    flipped = bitwise.not_p.bind(prob < 0.5)
    q = select(flipped, 1.0 - prob, prob)
    bad_count, nan = (count != count) | (count < 0.0), q != q
    infinite = arithmetic.abs(count) == _like(count, np.inf)
    bad = nan | (q < 0.0)
    q = select(bad, _like(q, 0.01), arithmetic.abs(q))  # -0 is 0
    count = select(bad_count | infinite, _like(count, 0), count)
    few = count * q <= 10.0
    count = floor(count)
    most = _counter(np.iinfo(np.int32).max)
    inverted = _binomial_by_geometric(key, select(few, count, _like(count, 0)), q, most)
    rejection = _binomial_by_rejection(
        key, select(few, _like(count, 10000.0), count), select(few, _like(q, 0.5), q), most
    )
    out = convert_element_type(select(few, inverted, rejection), dtype)
    invalid = bad | bad_count
    out = select(invalid, _like(out, np.nan), out)
    out = select(infinite & bitwise.not_p.bind(invalid), _like(out, np.inf), out)
    keep = bitwise.not_p.bind(flipped) | bad_count | nan | infinite
    return select(keep, out, convert_element_type(count, dtype) - out)


def _binomial_by_geometric(key: ArrayLike, count: Any, prob: Any, most: Any) -> Any:
    """How many geometric values add up to at most `count`."""
    shape, real = shape_of(prob), dtype_of(prob)
    log_failure = arithmetic.log1p(arithmetic.neg(prob))

    def unfinished(state: Any) -> Any:
        return _any(state[2] <= count) & (state[0] < most)

    def step(state: Any) -> Any:
        i, number, total, key = state
        subkey, key = split2(key)
        number = select(total <= count, number + 1, number)
        trials = arithmetic.ceil(log(draw_uniform(subkey, 0.0, 1.0, shape, real)) / log_failure)
        return i + np.int32(1), number, total + trials, key

    zero = _like(prob, 0)
    return while_loop(unfinished, step, (np.int32(0), zero, zero, key))[1] - 1


_STIRLING = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.010411265261972, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: Any) -> Any:
    """log(k!) less Stirling's approximation of it: a table to 9, then the series."""
    real = dtype_of(k)
    within = floor(arithmetic.min(arithmetic.max(k, _like(k, 0)), _like(k, 9)))
    square = (within + 1) * (within + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (within + 1)
    large = (k + 1) * (k + 1)
    series = select(k <= 9, series, (1 / 12 - (1 / 360 - 1 / 1260 / large) / large) / (k + 1))
    for i, value in enumerate(_STIRLING):
        series = select((k <= 9) & (within == i), _like(k, constant(real, value)), series)
    return series


def _binomial_by_rejection(key: ArrayLike, count: Any, prob: Any, most: Any) -> Any:
    shape, real = shape_of(prob), dtype_of(prob)
    deviation = arithmetic.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c = count * prob + 0.5
    v_r = 0.92 - 4.2 / b
    r = prob / (1 - prob)
    alpha = (2.83 + 5.1 / b) * deviation
    m = floor((count + 1) * prob)

    def unfinished(state: Any) -> Any:
        return _any(bitwise.not_p.bind(state[2])) & (state[0] < most)

    def step(state: Any) -> Any:
        i, out, accepted, key = state
        key, for_u, for_v = split2(key, 3)
        u = draw_uniform(for_u, 0.0, 1.0, shape, real)
        v = draw_uniform(for_v, 0.0, 1.0, shape, real)
        u = u - 0.5
        room = 0.5 - arithmetic.abs(u)
        k = floor((2 * a / room + b) * u + c)
        reject = (k < 0) | (k > count)
        bound = (
            (m + 0.5) * log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m) + _stirling_tail(count - m) - _stirling_tail(k) - _stirling_tail(count - k)
        )  # fmt: skip
        exact = log(v * alpha / (a / (room * room) + b)) <= bound
        accept = ((room >= 0.07) & (v <= v_r)) | (bitwise.not_p.bind(reject) & exact)
        return i + np.int32(1), select(accept, k, out), accepted | accept, key

    init = (np.int32(0), _like(prob, -1), shapes.full(shape, False, np.dtype(bool)), key)
    return while_loop(unfinished, step, init)[1]


# ---------------------------------------------------------------------------- multinomial


@public
def multinomial(
    key: ArrayLike, n: Any, p: Any, *, shape: Shape | None = None, dtype: DTypeLike = None, unroll: int | bool = 1
) -> Array:
    """How often each outcome comes, of `n` trials: outcomes lie along the last axis of their probabilities `p`.

    `shape` is that of the batch, to which `n` and the other axes of `p` broadcast; the result has one axis more. Each
    outcome in turn is a binomial of the trials that are left; `unroll` is that of its `lax.scan`. The dtype is a float.

    >>> import tilewright as tw
    >>> tw.random.multinomial(tw.random.key(0), 5.0, tw.numpy.array([0.0, 1.0, 0.0])).tolist()
    [0.0, 5.0, 0.0]
    """
    dtype = float_dtype("multinomial", dtype)
    if not shape_of(p):
        raise ShapeError("multinomial: the probabilities are one number", "give one for each outcome, along an axis")
    n, p = as_array(n), as_array(p)
    batch = broadcast_shapes(shape_of(n), shape_of(p)[:-1]) if shape is None else as_shape(shape, "multinomial")
    for found in (shape_of(n), shape_of(p)[:-1]):
        if broadcast_shapes(found, batch) != batch:
            raise ShapeError(f"multinomial: parameters of shape {found}, and a shape of {batch}", "a larger `shape`")
    return _multinomial(one_key("multinomial", key), n, p, batch, dtype, unroll)


@functools.partial(jit, static_argnums=(3, 4, 5))
def _multinomial(key: ArrayLike, n: Any, p: Any, batch: Shape, dtype: DTypeLike, unroll: Any) -> Any:
    outcomes = shape_of(p)[-1]
    trials = shapes.broadcast_to(convert_element_type(n, dtype), batch)
    p = shapes.broadcast_to(convert_element_type(p, dtype), (*batch, outcomes))
    left = cumsum(p, axis=len(batch), reverse=True)
    ratios = select(left == _like(left, 0), _like(p, 0), p / select(left == _like(left, 0), _like(left, 1), left))
    columns = shapes.transpose(ratios, (len(batch), *range(len(batch))))

    def step(rest: Any, row: Any) -> Any:
        ratio, subkey = row
        count = binomial(subkey, rest, arithmetic.min(ratio, _like(ratio, 1)), batch, dtype)
        return rest - count, count

    _, counts = scan(step, trials, (columns, generator(key).split(key, (outcomes,))), unroll=unroll)
    return shapes.transpose(counts, (*range(1, len(batch) + 1), 0))
