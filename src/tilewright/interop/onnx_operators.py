"""The operators of ONNX (https://onnx.ai/onnx/operators/), each a few lines on arrays.

    operator ::= rule(node, *operands) -> array or tuple of arrays

Operands that are known (NumPy's arrays: constants of the file, sizes, and what is made of them alone) are computed with
in NumPy, so that sizes and axes stay known while a program is traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .. import lax, nn
from .. import numpy as tnp
from ..core.ir.array import Array, DTypeLike
from ..core.ir.types import is_inexact
from ..core.support.errors import UnsupportedError
from ..scipy import special


@dataclass(frozen=True)
class Node:
    """A node of a graph: its operator's rule, the names of its operands and results, its attributes."""

    name: str
    rule: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    version: int

    def __getitem__(self, name: str) -> Any:
        return self.attributes.get(name)

    def get(self, name: str, default: Any) -> Any:
        """An attribute, or what it is where the model does not say."""
        return self.attributes.get(name, default)

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        results = self.rule(self, *operands)
        return results if isinstance(results, tuple) else (results,)

    def known(self, x: Any, what: str) -> np.ndarray:
        """An operand that says a size, an axis or a place.

        Raises:
          UnsupportedError: it is computed from the inputs' values.
        """
        if not isinstance(x, np.ndarray):
            raise UnsupportedError(f"ONNX {self.name}: {what} is computed from the inputs",
                                   "make it a constant of the model")  # fmt: skip
        return x


def _module(*operands: Any) -> Any:
    return np if all(x is None or isinstance(x, np.ndarray) for x in operands) else tnp


def _same(x: Any, dtype: DTypeLike) -> Any:
    return np.asarray(x, dtype) if isinstance(x, (np.ndarray, np.generic)) else x.astype(dtype)


# ---------------------------------------------------------------------------- elementwise


def _plain(name: str) -> Callable[..., Any]:
    """An operator that NumPy has under a name; the result has the operands' dtype but for truth values."""

    def rule(node: Node, *operands: Any) -> Any:
        out = getattr(_module(*operands), name)(*operands)
        return out if out.dtype == np.bool_ else _same(out, operands[-1].dtype)

    return rule


def _many(name: str) -> Callable[..., Any]:
    """An operator of two that takes any number."""

    def rule(node: Node, *operands: Any) -> Any:
        out, apply = operands[0], getattr(_module(*operands), name)
        for x in operands[1:]:
            out = apply(out, x)
        return _same(out, operands[0].dtype)

    return rule


def _activation(function: Callable[..., Any], **defaults: float) -> Callable[..., Any]:
    """An operator of one operand, with numbers among its attributes."""
    return lambda node, x: _same(function(tnp.asarray(x), **{k: node.get(k, v) for k, v in defaults.items()}), x.dtype)


def _divide(node: Node, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return x / y
    xp = _module(x, y)  # of integers: towards zero
    return _same(xp.sign(x) * xp.sign(y) * (abs(x) // abs(y)), x.dtype)


def _power(node: Node, x: Any, y: Any) -> Any:
    return _same(_module(x, y).power(x, y), x.dtype)


def _modulo(node: Node, x: Any, y: Any) -> Any:
    xp = _module(x, y)
    return (xp.fmod if node.get("fmod", 0) else xp.mod)(x, y)


def _clip(node: Node, x: Any, low: Any = None, high: Any = None) -> Any:
    xp = _module(x, low, high)
    x = x if low is None else xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


def _parametric(node: Node, x: Any, slope: Any) -> Any:
    return tnp.where(x >= 0, x, x * slope)


def _gelu(node: Node, x: Any) -> Any:
    return nn.gelu(x, approximate=node.get("approximate", "none") == "tanh")


def _cast(node: Node, x: Any) -> Any:
    return _same(x, _dtype(node["to"]))


def _dtype(code: int) -> np.dtype:
    """The dtype by ONNX's number of it."""
    names = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
             10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
             16: "bfloat16", 17: "float8_e4m3fn", 19: "float8_e5m2"}  # fmt: skip
    if code not in names:
        raise UnsupportedError(f"ONNX's dtype number {code} is not here", "cast to a dtype of NumPy's in the model")
    return np.dtype(getattr(ml_dtypes, names[code], names[code]))


# ---------------------------------------------------------------------------- reductions


def _axes(node: Node, x: Any, axes: Any) -> tuple[int, ...] | None:
    """The axes of a reduction: an operand since version 18, an attribute before. None: all of them, () none."""
    given = node["axes"] if axes is None else node.known(axes, "the axes").tolist()
    if given:
        return tuple(int(a) % x.ndim for a in given)
    return () if node.get("noop_with_empty_axes", 0) else None


def _reduction(function: Callable[[Any, Any, Any, bool], Any]) -> Callable[..., Any]:
    def rule(node: Node, x: Any, axes: Any = None) -> Any:
        kept = bool(node.get("keepdims", 1))
        return _same(function(_module(x), x, _axes(node, x, axes), kept), x.dtype)

    return rule


def _least(dtype: DTypeLike) -> Any:
    return -np.inf if is_inexact(dtype) else False if dtype == np.bool_ else np.iinfo(dtype).min


def _most(dtype: DTypeLike) -> Any:
    return np.inf if is_inexact(dtype) else True if dtype == np.bool_ else np.iinfo(dtype).max


def _log_sum_exp(xp: Any, x: Any, axes: Any, kept: bool) -> Any:
    return special.logsumexp(x, axes, keepdims=kept)


def _place_of(name: str) -> Callable[..., Any]:
    """The place of the largest or smallest along an axis; of several the first, or the last."""

    def rule(node: Node, x: Array) -> Any:
        axis, find = node.get("axis", 0), getattr(tnp, name)
        kept = bool(node.get("keepdims", 1))
        if node.get("select_last_index", 0):
            return (x.shape[axis] - 1 - find(tnp.flip(x, axis), axis=axis, keepdims=kept)).astype(np.int64)
        return find(x, axis=axis, keepdims=kept).astype(np.int64)

    return rule


def _top(node: Node, x: Array, k: Any) -> Any:
    axis, count = node.get("axis", -1), int(node.known(k, "the count").reshape(()))
    moved = tnp.moveaxis(x, axis, -1)
    order = tnp.argsort(moved, axis=-1, descending=bool(node.get("largest", 1)), stable=True)[..., :count]
    values = tnp.take_along_axis(moved, order, -1)
    return tnp.moveaxis(values, -1, axis), tnp.moveaxis(order, -1, axis).astype(np.int64)


def _running(node: Node, x: Array, axis: Any) -> Any:
    (axis,) = node.known(axis, "the axis").reshape(1).tolist()
    back, without = node.get("reverse", 0), node.get("exclusive", 0)
    y = tnp.flip(x, axis) if back else x
    total = tnp.cumsum(y, axis=axis).astype(x.dtype)
    total = total - y if without else total
    return tnp.flip(total, axis) if back else total


# ---------------------------------------------------------------------------- products


def _gemm(node: Node, a: Any, b: Any, c: Any = None) -> Any:
    a, b = a.T if node.get("transA", 0) else a, b.T if node.get("transB", 0) else b
    out = node.get("alpha", 1.0) * (a @ b)
    return _same(out if c is None else out + node.get("beta", 1.0) * c, a.dtype)


def _einsum(node: Node, *operands: Any) -> Any:
    return tnp.einsum(node["equation"], *operands)


def _padding(node: Node, spatial: Sequence[int], window: Sequence[int], strides: Any, dilations: Any) -> Any:
    """The padding of a window (low, high of each axis)."""
    auto = node.get("auto_pad", "NOTSET")
    if auto == "NOTSET":
        pads = node.get("pads", [0] * 2 * len(spatial))
        return list(zip(pads[: len(spatial)], pads[len(spatial) :]))
    if auto == "VALID":
        return [(0, 0)] * len(spatial)
    found = []
    for n, w, s, d in zip(spatial, window, strides, dilations):
        total = max((math.ceil(n / s) - 1) * s + (w - 1) * d + 1 - n, 0)
        low = total // 2 if auto == "SAME_UPPER" else total - total // 2
        found.append((low, total - low))
    return found


def _convolution(node: Node, x: Array, w: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    pads = _padding(node, x.shape[2:], w.shape[2:], strides, dilations)
    groups = node.get("group", 1)
    out = lax.conv_general_dilated(x, w, strides, pads, rhs_dilation=dilations, feature_group_count=groups)
    return out if bias is None else out + bias.reshape(-1, *[1] * rank)


def _transposed_convolution(node: Node, x: Array, w: Any, bias: Any = None) -> Any:
    rank, groups = x.ndim - 2, node.get("group", 1)
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    more, wanted = node.get("output_padding", [0] * rank), node["output_shape"]
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilations)]
    full = [(n - 1) * s + r + 1 + m for n, s, r, m in zip(x.shape[2:], strides, reach, more)]
    auto, pads = node.get("auto_pad", "NOTSET"), node.get("pads", [0] * 2 * rank)
    if wanted or auto.startswith("SAME"):
        totals = [f - n for f, n in zip(full, wanted or [n * s for n, s in zip(x.shape[2:], strides)])]
        low, high = [t // 2 for t in totals], [t - t // 2 for t in totals]
        low, high = (low, high) if auto == "SAME_UPPER" else (high, low)
    else:
        low, high = pads[:rank], pads[rank:]
    given, made = w.shape[0] // groups, w.shape[1]
    kernel = w.reshape(groups, given, made, *w.shape[2:]).swapaxes(1, 2).reshape(groups * made, given, *w.shape[2:])
    kernel = tnp.flip(kernel, tuple(range(2, 2 + rank)))
    edges = [(r - a, r - b + m) for r, a, b, m in zip(reach, low, high, more)]
    out = lax.conv_general_dilated(x, kernel, [1] * rank, edges, lhs_dilation=strides, rhs_dilation=dilations,
                                   feature_group_count=groups)  # fmt: skip
    return out if bias is None else out + bias.reshape(-1, *[1] * rank)


# ---------------------------------------------------------------------------- windows and norms


def _windows(node: Node, x: Any) -> Any:
    """Window, strides, dilations and padding of a pooling, for all axes."""
    rank, window = x.ndim - 2, node["kernel_shape"]
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    pads = _padding(node, x.shape[2:], window, strides, dilations)
    if node.get("ceil_mode", 0):  # the last window may begin where it ends past the padding, but not in it
        for i, (n, w, s, d) in enumerate(zip(x.shape[2:], window, strides, dilations)):
            low, high = pads[i]
            reach = (w - 1) * d + 1
            count = math.ceil((n + low + high - reach) / s) + 1
            count -= (count - 1) * s >= n + low
            pads[i] = low, max((count - 1) * s + reach - n - low, high)
    return (1, 1, *window), (1, 1, *strides), (1, 1, *dilations), [(0, 0), (0, 0), *pads]


def _pooled(x: Array, start: Any, combine: Any, window: Any, strides: Any, dilations: Any, pads: Any) -> Any:
    return lax.reduce_window(x, np.asarray(start, x.dtype), combine, window, strides, pads, window_dilation=dilations)


def _max_pool(node: Node, x: Any) -> Any:
    if len(node.outputs) > 1:
        raise UnsupportedError("ONNX MaxPool: the indices of the maxima are not supported", "drop the second output")
    return _pooled(x, _least(x.dtype), lax.max, *_windows(node, x))


def _average_pool(node: Node, x: Any) -> Any:
    window, strides, dilations, pads = _windows(node, x)
    total = _pooled(x, 0, lax.add, window, strides, dilations, pads)
    ones = tnp.ones(x.shape, x.dtype)
    if node.get("count_include_pad", 0):  # the padding that the model asks for counts, what rounding up adds does not
        stated = _padding(node, x.shape[2:], window[2:], strides[2:], dilations[2:])
        ones = tnp.pad(ones, [(0, 0), (0, 0), *stated], constant_values=1)
        pads = [(a - c, b - d) for (a, b), (c, d) in zip(pads, [(0, 0), (0, 0), *stated])]
    return total / _pooled(ones, 0, lax.add, window, strides, dilations, pads)


def _global(name: str) -> Callable[..., Any]:
    return lambda node, x: getattr(tnp, name)(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _batch_norm(node: Node, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    if node.get("training_mode", 0):
        raise UnsupportedError("ONNX BatchNormalization in training mode is not here", "export the model for inference")
    by_channel = lambda v: v.reshape(1, -1, *[1] * (x.ndim - 2))  # noqa: E731
    factor = scale / tnp.sqrt(variance + node.get("epsilon", 1e-5))
    return _same(x * by_channel(factor) + by_channel(bias - mean * factor), x.dtype)


def _normalised(x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    mean = wide.mean(axes, keepdims=True)
    inverse = 1 / tnp.sqrt(((wide - mean) ** 2).mean(axes, keepdims=True) + epsilon)
    return (wide - mean) * inverse, mean, inverse


def _layer_norm(node: Node, x: Any, scale: Any, bias: Any = None) -> Any:
    first = node.get("axis", -1) % x.ndim
    out, mean, inverse = _normalised(x, tuple(range(first, x.ndim)), node.get("epsilon", 1e-5))
    out = _same(out, x.dtype) * scale
    return out if bias is None else out + bias, mean, inverse


def _instance_norm(node: Node, x: Any, scale: Any, bias: Any) -> Any:
    by_channel = lambda v: v.reshape(1, -1, *[1] * (x.ndim - 2))  # noqa: E731
    out = _normalised(x, tuple(range(2, x.ndim)), node.get("epsilon", 1e-5))[0]
    return _same(out, x.dtype) * by_channel(scale) + by_channel(bias)


def _group_norm(node: Node, x: Any, scale: Any, bias: Any) -> Any:
    groups, rest = node["num_groups"], x.shape[2:]
    out = _normalised(x.reshape(x.shape[0], groups, -1), (2,), node.get("epsilon", 1e-5))[0]
    if scale.shape[0] == groups != x.shape[1]:  # one for each group, before version 21
        scale, bias = (tnp.repeat(v, x.shape[1] // groups) for v in (scale, bias))
    by_channel = lambda v: v.reshape(1, -1, *[1] * len(rest))  # noqa: E731
    return _same(out.reshape(x.shape), x.dtype) * by_channel(scale) + by_channel(bias)


def _local_response(node: Node, x: Any) -> Any:
    size = node["size"]
    window = (1, size, *[1] * (x.ndim - 2))
    pads = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
    total = lax.reduce_window(x * x, np.asarray(0, x.dtype), lax.add, window, (1,) * x.ndim, pads)
    return x / (node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * total) ** node.get("beta", 0.75)


# ---------------------------------------------------------------------------- shapes and places


def _reshape(node: Node, x: Any, shape: Any) -> Any:
    sizes = node.known(shape, "the shape").tolist()
    if not node.get("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(node: Node, x: Any) -> Any:
    axis = node.get("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1 if x.size else math.prod(x.shape[axis:]))


def _squeeze(node: Node, x: Any, axes: Any = None) -> Any:
    return _module(x).squeeze(x, None if axes is None else tuple(node.known(axes, "the axes").tolist()))


def _unsqueeze(node: Node, x: Any, axes: Any) -> Any:
    return _module(x).expand_dims(x, tuple(node.known(axes, "the axes").tolist()))


def _transpose(node: Node, x: Any) -> Any:
    return _module(x).transpose(x, node["perm"])


def _concatenate(node: Node, *operands: Any) -> Any:
    return _module(*operands).concatenate(operands, axis=node["axis"])


def _split(node: Node, x: Any, sizes: Any = None) -> Any:
    axis = node.get("axis", 0)
    if sizes is None:
        count = node.get("num_outputs", len(node.outputs))
        step = -(-x.shape[axis] // count)
        places = list(range(step, step * count, step))
    else:
        places = np.cumsum(node.known(sizes, "the sizes"))[:-1].tolist()
    return tuple(_module(x).split(x, places, axis=axis))


def _slice(node: Node, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    starts, ends = node.known(starts, "the start").tolist(), node.known(ends, "the end").tolist()
    along = range(len(starts)) if axes is None else node.known(axes, "the axes").tolist()
    by = [1] * len(starts) if steps is None else node.known(steps, "the steps").tolist()
    index: list[Any] = [slice(None)] * x.ndim
    for a, start, end, step in zip(along, starts, ends, by):
        n = x.shape[a]
        low, high = (0, n) if step > 0 else (-1, n - 1)
        start, end = (min(max(v + n if v < 0 else v, low), high) for v in (start, end))
        index[a] = slice(start, None if end < 0 else end, step)
    return x[tuple(index)]


def _gather(node: Node, x: Any, indices: Any) -> Any:
    xp, axis = _module(x, indices), node.get("axis", 0)
    return xp.take(x, xp.where(indices < 0, indices + x.shape[axis], indices), axis=axis)


def _gather_elements(node: Node, x: Array, indices: Any) -> Any:
    axis = node.get("axis", 0)
    return tnp.take_along_axis(x, tnp.where(indices < 0, indices + x.shape[axis], indices), axis)


def _gather_places(node: Node, x: Any, indices: Any) -> Any:
    batch, depth = node.get("batch_dims", 0), indices.shape[-1]
    along = [tnp.arange(n).reshape(n, *[1] * (indices.ndim - 2 - i)) for i, n in enumerate(indices.shape[:batch])]
    return tnp.asarray(x)[(*along, *(indices[..., i] for i in range(depth)))]


def _pad(node: Node, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    widths, mode = node.known(pads, "the padding").tolist(), node.get("mode", "constant")
    along = range(x.ndim) if axes is None else [int(a) % x.ndim for a in node.known(axes, "the axes")]
    edges = [(0, 0)] * x.ndim
    for i, a in enumerate(along):
        edges[a] = (widths[i], widths[i + len(widths) // 2])
    if any(n < 0 for pair in edges for n in pair):
        x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(edges, x.shape))]
        edges = [(max(a, 0), max(b, 0)) for a, b in edges]
    if mode == "constant":
        return tnp.pad(x, edges, constant_values=0 if value is None else value.reshape(()))
    return tnp.pad(x, edges, mode=mode)


def _expand(node: Node, x: Any, shape: Any) -> Any:
    sizes = np.broadcast_shapes(x.shape, tuple(node.known(shape, "the shape").tolist()))
    return _module(x).broadcast_to(x, sizes)


def _tile(node: Node, x: Any, repeats: Any) -> Any:
    return _module(x).tile(x, tuple(node.known(repeats, "how often").tolist()))


def _shape_of(node: Node, x: Any) -> Any:
    return np.asarray(x.shape, np.int64)[node.get("start", 0) : node.get("end", None)]


def _constant(node: Node) -> Any:
    for name, dtype in (("value", None), ("value_int", np.int64), ("value_ints", np.int64),
                        ("value_float", np.float32), ("value_floats", np.float32)):  # fmt: skip
        if name in node.attributes:
            return np.asarray(node[name], dtype)
    raise UnsupportedError(f"an ONNX Constant of {', '.join(node.attributes)} is not here", "use a dense tensor")


def _constant_of_shape(node: Node, shape: Any) -> Any:
    value = node.get("value", np.zeros(1, np.float32))
    return np.full(node.known(shape, "the shape").tolist(), value.reshape(()), value.dtype)


def _range(node: Node, start: Any, limit: Any, delta: Any) -> Any:
    ends = [node.known(v, "an end") for v in (start, limit, delta)]
    return np.arange(*(v.item() for v in ends), dtype=ends[0].dtype)


def _one_hot(node: Node, indices: Any, depth: Any, values: Any) -> Any:
    count = int(node.known(depth, "the depth").reshape(()))
    places = tnp.where(indices < 0, indices + count, indices)
    hot = nn.one_hot(places, count, axis=node.get("axis", -1), dtype=np.bool_)
    return tnp.where(hot, values[1], values[0])


def _triangle(node: Node, x: Any, k: Any = None) -> Any:
    place = 0 if k is None else int(node.known(k, "the diagonal").reshape(()))
    return (tnp.triu if node.get("upper", 1) else tnp.tril)(x, place)


def _depth_to_space(node: Node, x: Any) -> Any:
    b, (n, c, h, w) = node["blocksize"], x.shape
    if node.get("mode", "DCR") == "DCR":
        out = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        out = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return out.reshape(n, c // (b * b), h * b, w * b)


def _space_to_depth(node: Node, x: Any) -> Any:
    b, (n, c, h, w) = node["blocksize"], x.shape
    by_depth = node.get("mode", "DCR") == "DCR"
    out = x.reshape(n, c, h // b, b, w // b, b).transpose(*(0, 3, 5, 1, 2, 4) if by_depth else (0, 1, 3, 5, 2, 4))
    return out.reshape(n, c * b * b, h // b, w // b)


def _resize(node: Node, x: Any, region: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """By the nearest element or linearly, with the centres of elements at halves, as images are scaled."""
    mode, centres = node.get("mode", "nearest"), node.get("coordinate_transformation_mode", "half_pixel")
    plain = not node["axes"] and not node.get("antialias", 0) and not node.get("exclude_outside", 0)
    if mode == "cubic" or centres not in ("half_pixel", "asymmetric") or not plain:
        raise UnsupportedError(f"ONNX Resize of mode {mode}, {centres}, or with other choices, is not here",
                               "use nearest or linear, half_pixel or asymmetric")  # fmt: skip
    if sizes is not None and sizes.size:
        shape = [int(n) for n in node.known(sizes, "the sizes")]
        factors = [n / m for n, m in zip(shape, x.shape)]
    else:
        factors = node.known(scales, "the scale").tolist()
        shape = [math.floor(n * f) for n, f in zip(x.shape, factors)]
    shift = 0.5 if centres == "half_pixel" else 0.0
    for axis, (n, f) in enumerate(zip(shape, factors)):
        if n != x.shape[axis]:
            place = np.clip((np.arange(n) + shift) / f - shift, 0, x.shape[axis] - 1)
            x = _between(x, axis, place) if mode == "linear" else tnp.take(x, _nearest(node, place), axis=axis)
    return x


def _nearest(node: Node, place: np.ndarray) -> np.ndarray:
    rounded = {"round_prefer_floor": lambda p: np.ceil(p - 0.5), "round_prefer_ceil": lambda p: np.floor(p + 0.5),
               "floor": np.floor, "ceil": np.ceil}  # fmt: skip
    return rounded[node.get("nearest_mode", "round_prefer_floor")](place).astype(np.int32)


def _between(x: Array, axis: int, place: np.ndarray) -> Any:
    """Elements at places between two others along an axis."""
    low = np.floor(place).astype(np.int32)
    part = (place - low).reshape(-1, *[1] * (x.ndim - 1 - axis)).astype(x.dtype)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    return tnp.take(x, low, axis=axis) * (1 - part) + tnp.take(x, high, axis=axis) * part


def _softmax_like(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, x: function(x, axis=node.get("axis", -1))


def _where(node: Node, test: Any, x: Any, y: Any) -> Any:
    return _module(test, x, y).where(test, x, y)


def _dropout(node: Node, x: Any, ratio: Any = None, training: Any = None) -> Any:
    if training is not None and bool(node.known(training, "whether it trains").any()):
        raise UnsupportedError("ONNX Dropout in training mode is not here", "export the model for inference")
    return (x, np.ones(x.shape, np.bool_)) if len(node.outputs) > 1 else x


OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: _plain(under) for name, under in {
        "Abs": "abs", "Neg": "negative", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Floor": "floor", "Ceil": "ceil",
        "Round": "round", "Sign": "sign", "Reciprocal": "reciprocal", "Sin": "sin", "Cos": "cos", "Tan": "tan",
        "Asin": "arcsin", "Acos": "arccos", "Atan": "arctan", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh",
        "Asinh": "arcsinh", "Acosh": "arccosh", "Atanh": "arctanh", "Add": "add", "Sub": "subtract", "Mul": "multiply",
        "Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
        "GreaterOrEqual": "greater_equal", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
        "Not": "logical_not", "IsNaN": "isnan", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
        "BitwiseXor": "bitwise_xor", "BitwiseNot": "bitwise_not", "MatMul": "matmul",
    }.items()},
    **{name: _many(under) for name, under in {"Max": "maximum", "Min": "minimum", "Sum": "add"}.items()},
    **{name: _activation(function, **defaults) for name, (function, defaults) in {
        "Relu": (nn.relu, {}), "Sigmoid": (nn.sigmoid, {}), "Softplus": (nn.softplus, {}), "Mish": (nn.mish, {}),
        "Softsign": (nn.soft_sign, {}), "Erf": (special.erf, {}), "Elu": (nn.elu, {"alpha": 1.0}),
        "Celu": (nn.celu, {"alpha": 1.0}), "HardSwish": (lambda x: x * tnp.clip(x / 6 + 0.5, 0, 1), {}),
        "LeakyRelu": (lambda x, alpha: tnp.where(x >= 0, x, alpha * x), {"alpha": 0.01}),
        "Selu": (lambda x, alpha, gamma: gamma * nn.elu(x, alpha),
                 {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}),
        "HardSigmoid": (lambda x, alpha, beta: tnp.clip(alpha * x + beta, 0, 1), {"alpha": 0.2, "beta": 0.5}),
        "ThresholdedRelu": (lambda x, alpha: tnp.where(x > alpha, x, 0), {"alpha": 1.0}),
    }.items()},
    "Mean": lambda node, *xs: _many("add")(node, *xs) / len(xs),
    "Div": _divide, "Pow": _power, "Mod": _modulo, "Clip": _clip, "PRelu": _parametric, "Gelu": _gelu, "Cast": _cast,
    "CastLike": lambda node, x, like: _same(x, like.dtype),
    **{name: _reduction(function) for name, function in {
        "ReduceSum": lambda xp, x, a, k: xp.sum(x, axis=a, keepdims=k),
        "ReduceMean": lambda xp, x, a, k: xp.mean(x, axis=a, keepdims=k),
        "ReduceMax": lambda xp, x, a, k: xp.max(x, axis=a, keepdims=k, initial=_least(x.dtype)),
        "ReduceMin": lambda xp, x, a, k: xp.min(x, axis=a, keepdims=k, initial=_most(x.dtype)),
        "ReduceProd": lambda xp, x, a, k: xp.prod(x, axis=a, keepdims=k),
        "ReduceL1": lambda xp, x, a, k: xp.sum(abs(x), axis=a, keepdims=k),
        "ReduceL2": lambda xp, x, a, k: xp.sqrt(xp.sum(x * x, axis=a, keepdims=k)),
        "ReduceSumSquare": lambda xp, x, a, k: xp.sum(x * x, axis=a, keepdims=k),
        "ReduceLogSum": lambda xp, x, a, k: xp.log(xp.sum(x, axis=a, keepdims=k)),
        "ReduceLogSumExp": _log_sum_exp,
    }.items()},
    "ArgMax": _place_of("argmax"), "ArgMin": _place_of("argmin"), "TopK": _top, "CumSum": _running,
    "Gemm": _gemm, "Einsum": _einsum, "Conv": _convolution, "ConvTranspose": _transposed_convolution,
    "MaxPool": _max_pool, "AveragePool": _average_pool, "GlobalAveragePool": _global("mean"),
    "GlobalMaxPool": _global("max"), "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm, "GroupNormalization": _group_norm, "LRN": _local_response,
    "Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Transpose": _transpose,
    "Concat": _concatenate, "Split": _split, "Slice": _slice, "Gather": _gather, "GatherElements": _gather_elements,
    "GatherND": _gather_places, "Pad": _pad, "Expand": _expand, "Tile": _tile, "Shape": _shape_of,
    "Size": lambda node, x: np.asarray(math.prod(x.shape), np.int64),
    "Constant": _constant, "ConstantOfShape": _constant_of_shape, "Range": _range, "OneHot": _one_hot,
    "Trilu": _triangle, "DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth, "Resize": _resize,
    "Softmax": _softmax_like(nn.softmax), "LogSoftmax": _softmax_like(nn.log_softmax), "Where": _where,
    "Dropout": _dropout, "Identity": lambda node, x: x,
}  # fmt: skip

# Operands that must be known though they may be floats, by operator: their positions.
KNOWN = {"Resize": (1, 2, 3), "OneHot": (1,), "Range": (0, 1, 2)}
