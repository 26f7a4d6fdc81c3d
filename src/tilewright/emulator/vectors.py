"""What the dialects vector and tpu compute: shapes, reductions, products, casts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from ..core.support.errors import EmulationError
from . import arith
from .core import Op, Rule, Run
from .values import convert_type

Function = Callable[..., Any]


# ---------------------------------------------------------------------------------------------- shapes


def _broadcast(op: Op) -> Run:
    return lambda x: np.broadcast_to(x, op.result.shape)


def _reshape(op: Op) -> Run:
    return lambda x: np.ascontiguousarray(x).reshape(op.result.shape)


def _transpose(op: Op) -> Run:
    permutation = op.ints("permutation")
    return lambda x: np.transpose(x, permutation)


def _iota(op: Op) -> Run:
    """Positions along some axes taken together, the first of them the slowest."""
    shape, axes = op.result.shape, op.ints("dimensions")
    value, step = np.zeros(shape, np.int64), 1
    for axis in reversed(axes):
        value += step * np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
        step *= shape[axis]
    value = value.astype(op.result.dtype)
    return lambda: value


def _concatenate(op: Op) -> Run:
    axis = op.int("dimension")
    return lambda *xs: np.concatenate(xs, axis)


def _repeat(op: Op) -> Run:
    axis, times = op.int("dimension"), op.int("times")
    return lambda x: np.concatenate([x] * times, axis)


def _rotate(op: Op) -> Run:
    """Elements moved up by an amount; along another axis, by `stride` more for each step of it."""
    axis, stride = op.int("dimension"), op.int("stride", 0)
    other = op.int("stride_dimension", 0)

    def run(x: Any, amount: Any) -> Any:
        if amount < 0:
            raise EmulationError(f"{op.name} by {int(amount)}")
        if not stride:
            return np.roll(x, int(amount), axis)
        rows = [np.roll(r, int(amount) + stride * i, axis) for i, r in enumerate(np.split(x, x.shape[other], other))]
        return np.concatenate(rows, other)

    return run


def _extract(op: Op) -> Run:
    place = tuple(op.ints("static_position"))

    def run(x: Any, *dynamic: Any) -> Any:
        at = _places(place, dynamic, x.shape)
        return np.asarray(x[at])

    return run


def _insert(op: Op) -> Run:
    place = tuple(op.ints("static_position"))

    def run(value: Any, x: Any, *dynamic: Any) -> Any:
        out = np.array(x)
        out[_places(place, dynamic, x.shape)] = value
        return out

    return run


def _places(static: tuple[int, ...], dynamic: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    given = iter(dynamic)
    places = tuple(int(next(given)) if p == np.iinfo(np.int64).min else p for p in static)
    if any(not 0 <= p < n for p, n in zip(places, shape)):
        raise EmulationError(f"element {places} of a vector of shape {shape}")
    return places


def _strided_window(op: Op, sizes: list[int]) -> tuple[slice, ...]:
    starts, steps = op.ints("offsets"), op.ints("strides")
    starts = starts + [0] * (len(sizes) - len(starts))
    steps = [1] * (len(sizes) - len(steps)) + steps
    return tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, sizes, steps))


def _extract_slice(op: Op) -> Run:
    window = _strided_window(op, op.ints("sizes"))
    for cut, n in zip(window, op.operands[0].shape):
        if cut.start < 0 or cut.stop > n:
            raise EmulationError(f"{op.name}: {cut} of an axis of {n}")
    return lambda x: x[window]


def _insert_slice(op: Op) -> Run:
    part, whole = op.operands[0].shape, op.operands[1].shape
    window = _strided_window(op, [1] * (len(whole) - len(part)) + list(part))

    def run(value: Any, x: Any) -> Any:
        out = np.array(x)
        out[window] = value
        return out

    return run


def _dynamic_gather(op: Op) -> Run:
    axes = op.ints("dimensions")

    def run(source: Any, indices: Any) -> Any:
        rest = [a for a in range(source.ndim) if a not in axes]
        flat = np.transpose(source, [*rest, *axes]).reshape(*(source.shape[a] for a in rest), -1)
        keys = np.indices(indices.shape)
        return flat[(*(keys[a] for a in rest), np.mod(indices, flat.shape[-1]))]

    return run


def _static_gather(op: Op) -> Run:
    axis, indices = op.int("dimension"), op.ints("indices")
    return lambda x: np.take(x, indices, axis)


def _create_mask(op: Op) -> Run:
    shape = op.result.shape

    def run(*bounds: Any) -> Any:
        mask = np.ones(shape, bool)
        for axis, (low, high) in enumerate(zip(bounds[: len(shape)], bounds[len(shape) :])):
            at = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
            mask &= (at >= low) & (at < high)
        return mask

    return run


# ---------------------------------------------------------------------------------------------- reductions

REDUCTIONS: dict[str, Function] = {
    "add": np.add, "mul": np.multiply, "minimumf": np.minimum, "maximumf": np.maximum, "minnumf": np.fmin,
    "maxnumf": np.fmax, "minsi": np.minimum, "maxsi": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "sum": np.add, "max": np.maximum, "min": np.minimum,
    "maxf": np.maximum, "minf": np.minimum,
    "minui": lambda x, y: np.minimum(arith.unsigned(x), arith.unsigned(y)).view(x.dtype),
    "maxui": lambda x, y: np.maximum(arith.unsigned(x), arith.unsigned(y)).view(x.dtype),
}  # fmt: skip


def _kind(op: Op) -> str:
    found = re.search(r"<(\w+)>", str(op.attribute("kind")))
    assert found is not None
    return found.group(1)


def reduced(f: Function, x: Any, axes: tuple[int, ...]) -> Any:
    """A reduction by halves, the axes kept with size 1."""
    for axis in axes:
        while x.shape[axis] > 1:
            half = x.shape[axis] // 2
            head, tail, odd = np.split(x, [half, 2 * half], axis)
            x = f(head, tail)
            x = np.concatenate([f(np.take(x, [0], axis), odd), np.delete(x, 0, axis)], axis) if odd.shape[axis] else x
    return x


def _multi_reduction(op: Op) -> Run:
    f, axes = REDUCTIONS[_kind(op)], tuple(op.ints("reduction_dims"))
    return lambda x, acc: f(acc, np.squeeze(reduced(f, x, axes), axes))


def _reduction(op: Op) -> Run:
    f = REDUCTIONS[_kind(op)]

    def run(x: Any, acc: Any = None) -> Any:
        value = reduced(f, x, (0,)).reshape(())
        return value if acc is None else f(acc, value)

    return run


def _reduce(op: Op) -> Run:
    f, axes = REDUCTIONS[_kind(op)], tuple(op.ints("dimensions"))
    return lambda x: reduced(f, x, axes)


def _index_of(kind: str, x: Any, axis: int) -> Any:
    return (np.argmax if kind.startswith("arg_max") else np.argmin)(x, axis)


def _reduce_index(op: Op) -> Run:
    kind, axis = _kind(op), op.int("axis")
    return lambda x: _index_of(kind, x, axis).astype(op.result.dtype)


def _all_reduce(op: Op) -> Run:
    """A reduction whose result stands at every place of the axis."""
    kind, axis = _kind(op), op.int("dim")
    if kind.startswith("arg"):
        return lambda x: np.broadcast_to(np.expand_dims(_index_of(kind, x, axis), axis), x.shape).astype(
            op.result.dtype
        )
    if kind not in REDUCTIONS:
        raise EmulationError(f"{op.name} of kind {kind}")
    return lambda x: np.broadcast_to(reduced(REDUCTIONS[kind], x, (axis,)), x.shape)


def _scan(op: Op) -> Run:
    f, axis = {"sum": np.cumsum, "max": np.maximum.accumulate, "min": np.minimum.accumulate}[_kind(op)], 0
    axis = op.int("dimension")

    def run(x: Any, mask: Any = None) -> Any:
        if mask is not None:
            raise EmulationError(f"{op.name} with a mask")
        return f(x, axis=axis).astype(op.result.dtype)

    return run


# ---------------------------------------------------------------------------------------------- products


def product(op: Op, x: Any, y: Any, acc: Any, subscripts: str, exact: bool) -> Any:
    """A contraction: integers exactly, floats in float32; of float32 unless `exact` after rounding to bfloat16."""
    if x.dtype.name.lstrip("u").startswith("int"):
        total = np.einsum(subscripts, x.astype(np.int64), y.astype(np.int64))
        return acc + total.astype(acc.dtype)
    if not exact:
        x, y = (v.astype(ml_dtypes.bfloat16) if v.dtype == np.float32 else v for v in (x, y))
    total = np.einsum(subscripts, arith.wide(x), arith.wide(y), optimize=True)
    return (total + arith.wide(acc)).astype(op.result.dtype)


def lists(text: str) -> list[list[int]]:
    return [[int(n) for n in re.findall(r"\d+", found)] for found in re.findall(r"\[([^\[\]]*)\]", text)]


def _matmul(op: Op) -> Run:
    exact = "precision" in op and "fp32" in op.text("precision")
    ranks = [len(t.shape) for t in op.operands[:2]]
    letters = [[chr(97 + a + r * 10) for a in range(rank)] for r, rank in enumerate(ranks)]
    if "dimension_numbers" in op:
        left, right, _, _, order, left_batch, right_batch = lists(str(op.attribute("dimension_numbers")))
        out = [letters[which][axis] for which, axis in zip(order[::2], order[1::2])]
    else:
        flipped = [op.flag("transpose_lhs"), op.flag("transpose_rhs")]
        left, right, left_batch, right_batch = [0 if flipped[0] else 1], [1 if flipped[1] else 0], [], []
        out = [letters[0][1 - left[0]], letters[1][1 - right[0]]]
    for a, b in zip([*left, *left_batch], [*right, *right_batch], strict=True):
        out = [letters[0][a] if c == letters[1][b] else c for c in out]
        letters[1][b] = letters[0][a]
    subscripts = f"{''.join(letters[0])},{''.join(letters[1])}->{''.join(out)}"
    return lambda x, y, acc: product(op, x, y, acc, subscripts, exact)


def _contract(op: Op) -> Run:
    maps = [ir.AffineMapAttr(m) for m in ir.ArrayAttr(op.attribute("indexing_maps"))]
    sides = [re.findall(r"d(\d+)", str(m).split("->")[1]) for m in maps]
    left, right, out = ("".join(chr(97 + int(d)) for d in side) for side in sides)
    if "kind" in op and _kind(op) != "add":
        raise EmulationError(f"{op.name} of kind {_kind(op)}")
    return lambda x, y, acc: product(op, x, y, acc, f"{left},{right}->{out}", True)


# ---------------------------------------------------------------------------------------------- casts and the rest


def repacked(x: Any, dtype: Any) -> Any:
    """The same bits in elements of another width: the rows of a narrow type lie packed in those of a wide one."""
    if x.dtype.itemsize == dtype.itemsize:
        return np.ascontiguousarray(x).view(dtype)
    *lead, rows, lanes = x.shape
    if x.dtype.itemsize > dtype.itemsize:
        many = x.dtype.itemsize // dtype.itemsize
        parts = np.ascontiguousarray(x).view(dtype).reshape(*lead, rows, lanes, many)
        return np.swapaxes(parts, -1, -2).reshape(*lead, rows * many, lanes)
    many = dtype.itemsize // x.dtype.itemsize
    parts = np.swapaxes(np.ascontiguousarray(x).reshape(*lead, rows // many, many, lanes), -1, -2)
    return np.ascontiguousarray(parts).view(dtype).reshape(*lead, rows // many, lanes)


def _bitcast(op: Op) -> Run:
    return lambda x: repacked(x, op.result.dtype)


def _rounded_integer(op: Op) -> Run:
    dtype = op.result.dtype
    n, zero = arith.bits(dtype), "zero" in op.text("rounding_mode")
    low, high = (0, 2**n - 1) if op.name.endswith("ui") else (-(2 ** (n - 1)), 2 ** (n - 1) - 1)
    return lambda x: arith.to_integer(arith.wide(x) if zero else np.rint(arith.wide(x)), dtype, low, high)


def round_to(x: Any, exponent: int, mantissa: int) -> Any:
    """float32 numbers rounded to a format with fewer bits, to nearest even; subnormals of it are kept."""
    bias = 2 ** (exponent - 1) - 1
    y = x.astype(np.float64)
    _, e = np.frexp(np.where(np.isfinite(y) & (y != 0), y, 1.0))
    unit = np.exp2(np.maximum(e - 1, 1 - bias) - mantissa)
    out = np.rint(y / unit) * unit
    limit = (2 - 2.0**-mantissa) * 2.0**bias
    out = np.where(np.abs(out) > limit, np.copysign(np.inf, y), out)
    return np.where(np.isfinite(y), out, y).astype(x.dtype)


def _reduce_precision(op: Op) -> Run:
    exponent, mantissa = op.int("exponent_bits"), op.int("mantissa_bits")
    return lambda x: round_to(x, exponent, mantissa)


def _pack(op: Op) -> Run:
    """Several vectors side by side in each word, the first in the lowest bits."""
    narrow = convert_type(ir.TypeAttr(op.attribute("target_type")).value).dtype
    dtype = op.result.dtype
    assert narrow is not None and dtype is not None
    width, word = 8 * narrow.itemsize, f"u{dtype.itemsize}"

    def run(*xs: Any) -> Any:
        total = np.zeros(op.result.shape, word)
        for i, x in enumerate(xs):
            total |= x.astype(narrow).view(f"u{narrow.itemsize}").astype(word) << np.asarray(i * width, word)
        return total.view(dtype)

    return run


def _unpack(op: Op) -> Run:
    narrow = convert_type(ir.TypeAttr(op.attribute("source_type")).value).dtype
    assert narrow is not None
    shift = op.int("index") * 8 * narrow.itemsize

    def run(x: Any) -> Any:
        word = arith.unsigned(x)
        low = (word >> word.dtype.type(shift)).astype(f"u{narrow.itemsize}")
        return low.view(narrow).astype(op.result.dtype)

    return run


def _assume_multiple(op: Op) -> Run:
    by = op.int("multiple")

    def run(x: Any) -> Any:
        if int(x) % by:
            raise EmulationError(f"{op.name}: {int(x)} is no multiple of {by}")
        return x

    return run


def _same(op: Op) -> Run:
    return lambda x: x


def _from_elements(op: Op) -> Run:
    return lambda *xs: np.array([x[()] for x in xs], op.result.dtype).reshape(op.result.shape)


RULES: dict[str, Rule] = {
    "vector.broadcast": _broadcast,
    "vector.shape_cast": _reshape,
    "vector.transpose": _transpose,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.extract_strided_slice": _extract_slice,
    "vector.insert_strided_slice": _insert_slice,
    "vector.from_elements": _from_elements,
    "vector.multi_reduction": _multi_reduction,
    "vector.reduction": _reduction,
    "vector.contract": _contract,
    "vector.bitcast": lambda op: lambda x: np.ascontiguousarray(x).view(op.result.number),
    "vector.fma": lambda op: lambda x, y, z: arith.typed(arith.fused_multiply_add(x, y, z), op.result),
    "tpu.reshape": _reshape,
    "tpu.transpose": _transpose,
    "tpu.iota": _iota,
    "tpu.concatenate": _concatenate,
    "tpu.repeat": _repeat,
    "tpu.dynamic_rotate": _rotate,
    "tpu.dynamic_gather": _dynamic_gather,
    "tpu.gather": _static_gather,
    "tpu.create_mask": _create_mask,
    "tpu.reduce": _reduce,
    "tpu.reduce_index": _reduce_index,
    "tpu.all_reduce": _all_reduce,
    "tpu.scan": _scan,
    "tpu.matmul": _matmul,
    "tpu.bitcast": _bitcast,
    "tpu.pack_elementwise": _pack,
    "tpu.unpack_elementwise": _unpack,
    "tpu.extf": arith.plain(lambda x: x),
    "tpu.truncf": arith.plain(lambda x: x),
    "tpu.sitofp": arith.of_signed(lambda x: x),
    "tpu.uitofp": arith.of_unsigned(lambda x: x),
    "tpu.fptosi": _rounded_integer,
    "tpu.fptoui": _rounded_integer,
    "tpu.reciprocal": arith.of_wide(np.reciprocal),
    "tpu.logistic": arith.of_wide(lambda x: 1 / (1 + np.exp(-x))),
    "tpu.weird": arith.plain(lambda x: ~np.isfinite(x)),
    "tpu.reduce_precision": _reduce_precision,
    "tpu.assume_multiple": _assume_multiple,
    "tpu.assume_layout": _same,
}
