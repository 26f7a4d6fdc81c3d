"""Convolutions: `conv_general_dilated` and the functions over it.

    out[b, o, s] = sum over i, w of  lhs_padded_dilated[b, i, s * stride + w * rhs_dilation] * rhs[o, i, w]

Both operands may be dilated (zeros between elements), batch and features may fall into groups, and
`ConvDimensionNumbers` says which axis of each array is which. As the operation is linear in each
operand, both derivatives are convolutions too, with dimension numbers, strides and dilations swapped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import Axis, Loops, Reduced, Relation, Work
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.types import ArrayType, as_dtype, canonical_dtype
from ...support.call_errors import public
from ...support.errors import ArgumentError, DtypeError, ShapeError
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import weak_as_operands
from ...transforms.structural_primitives import add_tangents, moveaxis
from ..elementwise.conversion import convert_element_type
from ..movement.shape import broadcast_in_dim, reshape, rev, transpose
from ..reduction.reduce import sums
from ..reduction.reduce_window import Dims, Pads, dilated, padded, pads_of, slide_axis, windows
from .dot_general import accumulator, canonical_precision, dot_general, result_dtype

Spec = tuple[int, ...]


class ConvDimensionNumbers(NamedTuple):
    """The axes of a convolution: each spec lists (batch, feature, space...), (out, in, space...) for the right."""

    lhs_spec: Spec
    rhs_spec: Spec
    out_spec: Spec


_NAMES = {"lhs": "NC", "rhs": "OI", "out": "NC"}


def _spec(text: str, role: str, ndim: int, space: str) -> Spec:
    first = _NAMES[role]
    if len(text) != ndim or len(set(text)) != ndim or set(first) - set(text) or set(space) - set(text):
        raise ArgumentError(
            f"dimension numbers {text!r} of the {role} array do not name {first!r} and {ndim - 2} axes of space once",
            "for images: ('NHWC', 'HWIO', 'NHWC')",
        )
    return (text.index(first[0]), text.index(first[1]), *(text.index(c) for c in space))


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Dimension numbers given as three strings such as `('NHWC', 'HWIO', 'NHWC')`, or None for NCHW, as axes.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC")).lhs_spec
    (0, 3, 1, 2)
    """
    ndim = len(lhs_shape)
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(rhs_shape) != ndim or ndim < 2:
        raise ShapeError(
            f"a convolution of ranks {ndim} and {len(rhs_shape)}",
            "both operands have a batch axis, a feature axis and the same number of axes of space",
        )
    if dimension_numbers is None:
        axes = tuple(range(ndim))
        return ConvDimensionNumbers(axes, axes, axes)
    if len(dimension_numbers) != 3:
        raise ArgumentError(
            f"dimension numbers {dimension_numbers!r} are not three", "for images: ('NHWC', 'HWIO', 'NHWC')"
        )
    if not all(isinstance(t, str) for t in dimension_numbers):
        return ConvDimensionNumbers(*(tuple(int(a) for a in spec) for spec in dimension_numbers))
    lhs, rhs, out = dimension_numbers
    space = "".join(c for c in rhs if c not in "OI")
    return ConvDimensionNumbers(
        _spec(lhs, "lhs", ndim, space), _spec(rhs, "rhs", ndim, space), _spec(out, "out", ndim, space)
    )


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Spec, Spec, Spec]:
    """Three strings such as `("NHWC", "HWIO", "NHWC")` as axes: batch, feature and space, or out, in and space.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    rank = (0,) * len(dimension_numbers[0])
    numbers = conv_dimension_numbers(rank, rank, tuple(dimension_numbers))
    return numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec


# ---------------------------------------------------------------------------- typing


def _sizes(shape: Sequence[int], axes: Sequence[int]) -> Dims:
    return tuple(shape[a] for a in axes)


def _typing(
    lhs: ArrayType, rhs: ArrayType, *, window_strides: Dims, padding: Pads, lhs_dilation: Dims, rhs_dilation: Dims,
    dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int, precision: Any,
    preferred_element_type: np.dtype[Any],
) -> ArrayType:  # fmt: skip
    name = f"convolution of {lhs.show()} with {rhs.show()}"
    if lhs.dtype != rhs.dtype:
        raise DtypeError(f"{name}: dtypes differ", "cast one operand with `astype`")
    space = lhs.ndim - 2
    lengths = {len(window_strides), len(padding), len(lhs_dilation), len(rhs_dilation)}
    if lhs.ndim != rhs.ndim or lengths != {space}:
        raise ShapeError(
            f"{name}: strides {window_strides}, padding {padding}, dilations {lhs_dilation}, {rhs_dilation}",
            f"operands have one rank, and each of these {space} entries",
        )
    if min((*window_strides, *lhs_dilation, *rhs_dilation), default=1) < 1:
        raise ArgumentError(f"{name}: strides and dilations must be at least 1", "use 1 for none")
    if min(feature_group_count, batch_group_count) < 1 or max(1, feature_group_count) * max(1, batch_group_count) > max(
        feature_group_count, batch_group_count
    ):
        raise ArgumentError(
            f"{name}: feature_group_count={feature_group_count}, batch_group_count={batch_group_count}",
            "counts are at least 1, and only one of the two may exceed 1",
        )
    (lb, lf, *ls), (ro, ri, *rs), out_spec = dimension_numbers
    batch, features, outs, ins = lhs.shape[lb], lhs.shape[lf], rhs.shape[ro], rhs.shape[ri]
    if features != ins * feature_group_count:
        raise ShapeError(
            f"{name}: {features} input features against {ins} of the kernel, in {feature_group_count} groups",
            "input features = the kernel's input features * feature_group_count",
        )
    if outs % (feature_group_count * batch_group_count) or batch % batch_group_count:
        raise ShapeError(f"{name}: {outs} output features or batch {batch} do not divide into the groups",
                         "make them multiples of the group count")  # fmt: skip
    sizes = windows(_sizes(lhs.shape, ls), _sizes(rhs.shape, rs), window_strides, padding, lhs_dilation, rhs_dilation)
    shape = [0] * lhs.ndim
    for axis, size in zip(out_spec, (batch // batch_group_count, outs, *sizes), strict=True):
        shape[axis] = size
    return ArrayType(tuple(shape), result_dtype(lhs.dtype, rhs.dtype, preferred_element_type))


# ---------------------------------------------------------------------------- derivatives


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    (x, w), (dx, dw) = primals, tangents
    out = conv_general_dilated_p.bind(x, w, **params)
    left = Zero(typeof(out).tangent()) if type(dx) is Zero else conv_general_dilated_p.bind(dx, w, **params)
    right = Zero(typeof(out).tangent()) if type(dw) is Zero else conv_general_dilated_p.bind(x, dw, **params)
    return out, add_tangents(left, right)


def _swapped(spec: Spec) -> Spec:
    return (spec[1], spec[0], *spec[2:])


def _merge(x: Operand, source: int, into: int) -> Any:
    """Make axis `source` the major part of axis `into` (numbered as in the result)."""
    x = moveaxis(x, source, into)
    shape = shape_of(x)
    return reshape(x, (*shape[:into], shape[into] * shape[into + 1], *shape[into + 2 :]))


def _unmerge(x: Operand, axis: int, major: int) -> Any:
    """Split an axis into (major, rest)."""
    shape = shape_of(x)
    return reshape(x, (*shape[:axis], major, shape[axis] // major, *shape[axis + 1 :]))


def _regroup(x: Operand, source: int, into: int, groups: int) -> Any:
    """Move the group part of axis `source` to be the major part of axis `into`."""
    if groups == 1:
        return x
    x = _unmerge(x, source, groups)
    return _merge(x, source, into)


def _transpose(ct: Operand, lhs: Operand | Linear, rhs: Operand | Linear, **params: Any) -> tuple[Any, Any]:
    if type(ct) is Zero:
        return None, None
    if type(lhs) is Linear:
        return _transpose_lhs(ct, lhs.type, rhs, **params), None  # type: ignore[arg-type]
    return None, _transpose_rhs(ct, lhs, rhs.type, **params)


def _same_dtype(ct: Operand, other: Operand) -> tuple[Any, Any, Any]:
    """The cotangent and the other operand in one dtype, and that dtype."""
    dtype = result_dtype(typeof(ct).dtype, typeof(other).dtype, None)
    return convert_element_type(ct, dtype), convert_element_type(other, dtype), dtype


def _space(shape: Sequence[int], spec: Spec, dilation: Dims) -> list[int]:
    return [dilated(shape[a], d) for a, d in zip(spec[2:], dilation, strict=True)]


def _transpose_lhs(
    ct: Operand, lhs: ArrayType, rhs: Operand, *, window_strides: Dims, padding: Pads, lhs_dilation: Dims,
    rhs_dilation: Dims, dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int,
    precision: Any, preferred_element_type: np.dtype[Any],
) -> Any:  # fmt: skip
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    groups = max(feature_group_count, batch_group_count)
    ct, rhs, _ = _same_dtype(ct, rhs)
    inputs = _space(lhs.shape, lhs_spec, lhs_dilation)
    kernel = _space(shape_of(rhs), rhs_spec, rhs_dilation)
    outs = _space(shape_of(ct), out_spec, window_strides)
    pads = tuple((k - low - 1, n + low - o) for n, k, o, (low, _) in zip(inputs, kernel, outs, padding, strict=True))
    rhs = rev(_regroup(rhs, rhs_spec[0], rhs_spec[1], groups), rhs_spec[2:])
    out = conv_general_dilated_p.bind(
        ct, rhs, window_strides=lhs_dilation, padding=pads, lhs_dilation=window_strides, rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out_spec, _swapped(rhs_spec), lhs_spec), feature_group_count=groups,
        batch_group_count=1, precision=precision and precision[::-1], preferred_element_type=None,
    )  # fmt: skip
    if batch_group_count > 1:
        out = _regroup(out, lhs_spec[1], lhs_spec[0], batch_group_count)
    return convert_element_type(out, lhs.dtype)


def _transpose_rhs(
    ct: Operand, lhs: Operand, rhs: ArrayType, *, window_strides: Dims, padding: Pads, lhs_dilation: Dims,
    rhs_dilation: Dims, dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int,
    precision: Any, preferred_element_type: np.dtype[Any],
) -> Any:  # fmt: skip
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    ct, lhs, _ = _same_dtype(ct, lhs)
    inputs = _space(shape_of(lhs), lhs_spec, lhs_dilation)
    kernel = _space(rhs.shape, rhs_spec, rhs_dilation)
    outs = _space(shape_of(ct), out_spec, window_strides)
    pads = tuple((low, o - n + k - low - 1) for n, k, o, (low, _) in zip(inputs, kernel, outs, padding, strict=True))
    numbers = ConvDimensionNumbers(_swapped(lhs_spec), _swapped(out_spec), _swapped(rhs_spec))
    out = conv_general_dilated_p.bind(
        lhs, ct, window_strides=rhs_dilation, padding=pads, lhs_dilation=lhs_dilation, rhs_dilation=window_strides,
        dimension_numbers=numbers, feature_group_count=batch_group_count, batch_group_count=feature_group_count,
        precision=precision, preferred_element_type=None,
    )  # fmt: skip
    return convert_element_type(out, rhs.dtype)


# ---------------------------------------------------------------------------- batching


def _merge_in_groups(x: Operand, batch: int, axis: int, groups: int) -> Any:
    """Merge the batch axis into axis `axis` (numbered without it) as (groups, batch, rest)."""
    x = moveaxis(x, batch, axis)  # (..., batch, groups * rest, ...)
    if groups > 1:
        x = moveaxis(_unmerge(x, axis + 1, groups), axis + 1, axis)  # (groups, batch, rest)
        x = _merge(x, axis, axis)
    return _merge(x, axis, axis)


def _split_from_groups(out: Operand, axis: int, size: int, groups: int) -> tuple[Any, int]:
    """Undo `_merge_in_groups`: the batch axis becomes axis `axis`."""
    if groups > 1:
        out = moveaxis(_unmerge(_unmerge(out, axis, groups), axis + 1, size), axis + 1, axis)  # (batch, groups, rest)
        return _merge(out, axis + 1, axis + 1), axis
    return _unmerge(out, axis, size), axis


def _of_nothing(args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]) -> Any:
    """The results of no convolutions."""
    pairs = zip(map(typeof, args), dims, strict=True)
    one = [ArrayType(tuple(n for i, n in enumerate(t.shape) if i != d), t.dtype) for t, d in pairs]
    out = _typing(*one, **params)
    return broadcast_in_dim(out.dtype.type(0), (0, *out.shape), ())


def _batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int, batch_group_count: int, **params: Any,
) -> tuple[Any, int]:  # fmt: skip
    """A batch of inputs joins the batch axis, of kernels the output features; of both, the groups grow."""
    (lhs, rhs), (dl, dr) = args, dims
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    counts = {"feature_group_count": feature_group_count, "batch_group_count": batch_group_count}
    params["dimension_numbers"] = dimension_numbers
    if axis.size == 0:  # there are no groups of nothing
        return _of_nothing((lhs, rhs), dims, params | counts), 0
    if dl is not None and dr is not None:
        grown, where = ("batch_group_count", 0) if batch_group_count > 1 else ("feature_group_count", 1)
        lhs = _merge(lhs, dl, lhs_spec[where])
        rhs = _merge(rhs, dr, rhs_spec[0])
        out = conv_general_dilated_p.bind(lhs, rhs, **params, **(counts | {grown: counts[grown] * axis.size}))
        return _split_from_groups(out, out_spec[1], axis.size, 1)
    if dr is None:
        lhs = _merge_in_groups(lhs, dl, lhs_spec[0], batch_group_count)  # type: ignore[arg-type]
        out = conv_general_dilated_p.bind(lhs, rhs, **params, **counts)
        return _split_from_groups(out, out_spec[0], axis.size, 1)
    groups = max(feature_group_count, batch_group_count)
    rhs = _merge_in_groups(rhs, dr, rhs_spec[0], groups)
    out = conv_general_dilated_p.bind(lhs, rhs, **params, **counts)
    return _split_from_groups(out, out_spec[1], axis.size, groups)


# ---------------------------------------------------------------------------- meaning


def _spread(x: np.ndarray, padding: Pads, dilation: Dims) -> np.ndarray:
    """Dilate and pad (or crop) the axes of space, which follow the first two."""
    full = ((0, 0), (0, 0), *padding)
    return padded(x, full, (1, 1, *dilation), 0)


def _numpy(
    lhs: np.ndarray, rhs: np.ndarray, *, window_strides: Dims, padding: Pads, lhs_dilation: Dims, rhs_dilation: Dims,
    dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int, precision: Any,
    preferred_element_type: np.dtype[Any],
) -> np.ndarray:  # fmt: skip
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    dtype = result_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
    x = _spread(lhs.astype(accumulator(dtype)).transpose(lhs_spec), padding, lhs_dilation)
    w = rhs.astype(accumulator(dtype)).transpose(rhs_spec)
    groups = max(feature_group_count, batch_group_count)
    split_axis = 1 if batch_group_count == 1 else 0
    outs = [
        _plain(part, kernel, window_strides, rhs_dilation)
        for part, kernel in zip(np.split(x, groups, split_axis), np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(outs, 1).transpose(np.argsort(out_spec)).astype(dtype)


def _plain(x: np.ndarray, w: np.ndarray, strides: Dims, holes: Dims) -> np.ndarray:
    """The convolution without groups or padding, of (batch, in, ...) with (out, in, ...)."""
    space, kernel = x.shape[2:], [dilated(n, d) for n, d in zip(w.shape[2:], holes, strict=True)]
    if any(k > n for n, k in zip(space, kernel, strict=True)) or 0 in kernel:
        shape = [max(0, (n - k) // s + 1) for n, k, s in zip(space, kernel, strides, strict=True)]
        return np.zeros((x.shape[0], w.shape[0], *shape), x.dtype)
    axes = tuple(range(2, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, axes) if axes else x
    view = view[(slice(None), slice(None), *(slice(None, None, s) for s in (*strides, *holes)))]
    batch, _, *out = view.shape[: x.ndim]
    order = (0, *axes, 1, *range(x.ndim, view.ndim))
    flat = view.transpose(order).reshape(batch * math.prod(out), x.shape[1] * math.prod(w.shape[2:]))
    result = flat @ w.reshape(w.shape[0], flat.shape[1]).T
    return np.moveaxis(result.reshape(batch, *out, w.shape[0]), -1, 1)


def _relation(
    ins: Sequence[Any], outs: Sequence[Any], *, window_strides: Dims, padding: Pads, lhs_dilation: Dims,
    rhs_dilation: Dims, dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int,
    **_: Any,
) -> Relation:  # fmt: skip
    """Groups and batch parallel, features and taps summed, space by windows; grouped axes follow two factors."""
    (lhs, rhs), (out,), loops, kinds = ins, outs, Loops(), {}
    (lb, lf, *ls), (ro, ri, *rs), (ob, of, *os) = dimension_numbers
    group = loops.axis(max(feature_group_count, batch_group_count))
    batch, features = loops.axis(out.shape[ob]), loops.axis(rhs.shape[ri])
    made = (*group, *loops.axis(rhs.shape[ro] // max(feature_group_count, batch_group_count)))
    of_batch, of_features = (group, ()) if batch_group_count > 1 else ((), group)
    left: dict[int, Axis] = {lb: (*of_batch, *batch), lf: (*of_features, *features)}
    right: dict[int, Axis] = {ro: made, ri: features}
    result: dict[int, Axis] = {ob: batch, of: made}
    taps = [loops.axis(rhs.shape[r]) for r in rs]
    kinds |= {f: Reduced(sums(outs[0].dtype)) for axis in (features, *taps) for f in axis}
    for a, r, o, tap, stride, (low, _high), base, holes in zip(
        ls, rs, os, taps, window_strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        left[a], result[o], more = slide_axis(
            loops, lhs.shape[a], out.shape[o], rhs.shape[r], stride, low, base, holes
        )  # fmt: skip
        right[r] = tap
        kinds |= more
    sides = [tuple(axes[d] for d in range(lhs.ndim)) for axes in (left, right, result)]
    return loops.relation(sides[:2], sides[2:], kinds)


conv_general_dilated_p: Primitive = Primitive(
    "conv_general_dilated", weak_as_operands(_typing), jvp=_jvp,
    transpose=_transpose, batch=_batch, numpy=_numpy, relation=_relation,
    work=Work(flops=2),
)  # fmt: skip
PRIMITIVES = (conv_general_dilated_p,)


# ---------------------------------------------------------------------------- functions


@public
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[Any],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: None = None,
) -> Array:
    """The convolution of an array with a kernel, with strides, padding, dilations and groups.

    `padding` is 'SAME', 'SAME_LOWER', 'VALID' or a (low, high) pair per axis of space; `dimension_numbers`
    three strings or None for ('NCHW', 'OIHW', 'NCHW'). Raises `ShapeError`, `DtypeError` or `ArgumentError`
    where operands and options are incompatible.

    >>> import numpy as np
    >>> image, kernel = np.ones((1, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)
    >>> conv_general_dilated(image, kernel, (1, 1), "SAME").shape
    (1, 4, 8, 8)
    """
    left, right = shape_of(lhs), shape_of(rhs)
    numbers = conv_dimension_numbers(left, right, dimension_numbers)
    space = len(left) - 2
    lhs_dilation = (1,) * space if lhs_dilation is None else tuple(map(int, lhs_dilation))
    rhs_dilation = (1,) * space if rhs_dilation is None else tuple(map(int, rhs_dilation))
    strides = tuple(map(int, window_strides))
    if isinstance(padding, str):
        if set(lhs_dilation) - {1}:
            raise ArgumentError(
                f"conv_general_dilated: padding {padding!r} with lhs_dilation {lhs_dilation}",
                "give pairs (low, high), or use `conv_transpose`",
            )
        kernel = tuple(dilated(right[a], d) for a, d in zip(numbers.rhs_spec[2:], rhs_dilation, strict=False))
        padding = pads_of(padding, _sizes(left, numbers.lhs_spec[2:]), kernel, strides)
    preferred = None if preferred_element_type is None else canonical_dtype(as_dtype(preferred_element_type))
    try:
        pads = tuple((int(low), int(high)) for low, high in padding)
    except TypeError:
        raise ArgumentError(
            f"conv_general_dilated: padding {padding!r}", "give 'SAME', 'VALID', or a pair (low, high) for each axis"
        ) from None
    return conv_general_dilated_p.bind(
        lhs, rhs, window_strides=strides, padding=pads, lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation, dimension_numbers=numbers, feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count), precision=canonical_precision(precision),
        preferred_element_type=preferred,
    )  # fmt: skip


@public
def conv(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str, precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """A convolution of NCHW with OIHW, with strides and padding by name.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.conv(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 3, 3, 3)), (2, 2), "SAME").shape
    (1, 4, 4, 4)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


@public
def conv_with_general_padding(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str | Sequence[Any],
    lhs_dilation: Sequence[int] | None, rhs_dilation: Sequence[int] | None, precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """A convolution of NCHW with OIHW, with strides, padding and dilations.

    >>> from tilewright import lax, numpy as jnp
    >>> image, kernel = jnp.ones((1, 3, 8, 8)), jnp.ones((4, 3, 3, 3))
    >>> lax.conv_with_general_padding(image, kernel, (1, 1), ((1, 1), (0, 0)), (1, 1), (1, 1)).shape
    (1, 4, 8, 6)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


_CHANNELS_LAST = {
    rank: (f"N{space}C", f"{space}IO", f"N{space}C") for rank, space in ((2, ""), (3, "H"), (4, "HW"), (5, "HWD"))
}


def _transposed_pads(kernel: int, stride: int, padding: str) -> tuple[int, int]:
    """The padding of the dilated input under which the sizes are those before the strided convolution."""
    if padding == "SAME":
        total = kernel + stride - 2
        low = kernel - 1 if stride > kernel - 1 else -(-total // 2)
    elif padding == "VALID":
        total, low = kernel + stride - 2 + max(kernel - stride, 0), kernel - 1
    else:
        raise ArgumentError(f"conv_transpose: padding {padding!r} is not known", "use 'SAME', 'VALID' or pairs")
    return (low, total - low)


@public
def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Sequence[Any],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """The transposed convolution (fractionally strided): channels last by default.

    `transpose_kernel` swaps the kernel's features and flips its space, which makes this the derivative of the
    convolution with that kernel. With `use_consistent_padding`, pairs are those of that convolution.

    >>> import numpy as np
    >>> conv_transpose(np.ones((1, 4, 2), np.float32), np.ones((3, 2, 5), np.float32), (2,), "SAME").shape
    (1, 8, 5)
    """
    left, right = shape_of(lhs), shape_of(rhs)
    if dimension_numbers is None:
        if len(left) not in _CHANNELS_LAST:
            raise ShapeError(f"conv_transpose of rank {len(left)} has no default axes", "give dimension_numbers")
        dimension_numbers = _CHANNELS_LAST[len(left)]
    numbers = conv_dimension_numbers(left, right, dimension_numbers)
    dilation = (1,) * (len(left) - 2) if rhs_dilation is None else tuple(map(int, rhs_dilation))
    kernel = [dilated(right[a], d) for a, d in zip(numbers.rhs_spec[2:], dilation, strict=True)]
    if isinstance(padding, str):
        padding = [_transposed_pads(k, s, padding) for k, s in zip(kernel, strides, strict=True)]
    elif use_consistent_padding:
        padding = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(kernel, padding, strict=True)]
    if transpose_kernel:
        order = list(range(len(right)))
        out, ins = numbers.rhs_spec[:2]
        order[out], order[ins] = ins, out
        rhs = transpose(rev(rhs, numbers.rhs_spec[2:]), order)
    return conv_general_dilated(
        lhs, rhs, (1,) * (len(left) - 2), padding, strides, dilation, numbers, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


@public
def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[Any],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: None = None,
) -> Array:
    """The windows of a convolution as features: input feature major, then the place within the window.

    >>> import numpy as np
    >>> conv_general_dilated_patches(np.ones((1, 2, 5), np.float32), (3,), (1,), "VALID").shape
    (1, 6, 3)
    """
    shape, dtype = shape_of(lhs), typeof(lhs).dtype
    if dimension_numbers is not None and not isinstance(dimension_numbers, ConvDimensionNumbers):
        dimension_numbers = conv_dimension_numbers(shape, (1,) * len(shape), dimension_numbers)
    numbers = conv_dimension_numbers(shape, shape, dimension_numbers)
    size, features = math.prod(filter_shape), shape[numbers.lhs_spec[1]]
    kernel = np.eye(size).astype(dtype).reshape(size, 1, *filter_shape)
    kernel = np.tile(kernel, (features, *(1,) * (kernel.ndim - 1))).transpose(np.argsort(numbers.rhs_spec))
    return conv_general_dilated(
        lhs, kernel, window_strides, padding, lhs_dilation, rhs_dilation, numbers, features,
        precision=precision, preferred_element_type=preferred_element_type, out_sharding=out_sharding,
    )  # fmt: skip


@public
def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[Any],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """A convolution with a kernel of its own at every output place.

    `rhs` has the output's axes of space where a kernel has its own, and input features times window as inputs.

    >>> from tilewright import lax, numpy as jnp
    >>> kernels = jnp.ones((4, 1 * 3 * 3, 6, 6))
    >>> lax.conv_general_dilated_local(jnp.ones((1, 1, 8, 8)), kernels, (1, 1), "VALID", (3, 3)).shape
    (1, 4, 6, 6)
    """
    numbers = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation,
        ConvDimensionNumbers(numbers.lhs_spec, numbers.rhs_spec, numbers.lhs_spec), precision,
    )  # fmt: skip
    left, right = numbers.lhs_spec, numbers.rhs_spec
    out = dot_general(rhs, patches, (((right[1],), (left[1],)), (right[2:], left[2:])), precision)
    space = tuple(range(len(left) - 2))  # axes of `out`: space, output feature, batch
    order = (len(space) + 1, len(space), *space)
    return transpose(out, tuple(order[numbers.out_spec.index(d)] for d in range(len(order))))


__all__ = [
    "ConvDimensionNumbers", "conv", "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local",
    "conv_general_dilated_p", "conv_general_dilated_patches", "conv_general_permutations", "conv_transpose",
    "conv_with_general_padding",
]  # fmt: skip
