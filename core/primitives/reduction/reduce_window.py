"""Reductions over sliding windows, and the two operations in their derivatives.

`select_and_gather_add` picks from each window the tangent at the place that the selection prefers (the
maximum, say); `select_and_scatter_add` is its transpose and adds each cotangent at that place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import Axes, Axis, Kind, Loops, Monoid, Reduced, Relation, Whole, Window, Work, inserted
from ...ir.passes import hoist
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.program import Program
from ...ir.types import ArrayType, kind
from ...support import pytree
from ...support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from ...tracing.numpy_interpreter import evaluate
from ...tracing.trace import Tracer, shape_of, trace_program, typeof
from ...transforms.batching import batch_flat
from ...transforms.jvp import expanded_jvp
from ...transforms.rule_helpers import linear_jvp
from ...transforms.structural_primitives import moved
from ..elementwise.arithmetic import add_p, max_p, min_p
from ..elementwise.comparison import ge_p, le_p, select_n_p
from ..elementwise.conversion import convert_element_type
from ..movement.shape import broadcast_in_dim, pad
from ..movement.shape import slice as slice_
from .reduce import MAXIMUM, MINIMUM, SUM, highest, lowest, monoid_of
from .reduce import _vectorised as vectorised

Dims = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


# ---------------------------------------------------------------------------- sizes


def dilated(size: int, dilation: int) -> int:
    """The size of an axis with `dilation - 1` holes between its elements."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def windows(
    sizes: Dims, window: Dims, strides: Dims, padding: Pads, base_dilation: Dims, window_dilation: Dims
) -> Dims:
    """How many windows fit along each axis."""
    found = []
    for n, k, s, (low, high), b, w in zip(sizes, window, strides, padding, base_dilation, window_dilation, strict=True):
        span = dilated(n, b) + low + high - dilated(k, w)
        found.append(0 if span < 0 else span // s + 1)
    return tuple(found)


def pads_of(name: str, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int]) -> Pads:
    """The padding that a name stands for: 'SAME' keeps size / stride (odd elements high), 'VALID' adds none."""
    if name.upper() == "VALID":
        return ((0, 0),) * len(sizes)
    if name.upper() not in ("SAME", "SAME_LOWER"):
        raise ArgumentError(f"padding {name!r} is not known", "use 'SAME', 'SAME_LOWER', 'VALID' or pairs (low, high)")
    pads = []
    for n, k, s in zip(sizes, window, strides, strict=False):
        total = max((-(-n // s) - 1) * s + k - n, 0)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if name.upper() == "SAME" else (more, less))
    return tuple(pads)


def padtype_to_pads(
    in_shape: Any, window_shape: Sequence[int], window_strides: Sequence[int], padding: str | Sequence[Any]
) -> list[tuple[int, int]]:
    """Padding by name or as pairs, as pairs.

    >>> padtype_to_pads((8, 8), (3, 3), (2, 2), "SAME")
    [(0, 1), (0, 1)]
    """
    if isinstance(padding, str):
        return list(pads_of(padding, *(tuple(map(int, s)) for s in (in_shape, window_shape, window_strides))))
    return [(int(low), int(high)) for low, high in padding]


# ---------------------------------------------------------------------------- typing


def _window_shape(
    name: str, x: ArrayType, window_dimensions: Dims, window_strides: Dims, padding: Pads,
    base_dilation: Dims | None = None, window_dilation: Dims | None = None,
) -> Dims:  # fmt: skip
    ones = (1,) * x.ndim
    base, holes = base_dilation or ones, window_dilation or ones
    options = {"window_dimensions": window_dimensions, "window_strides": window_strides, "padding": padding,
               "base_dilation": base, "window_dilation": holes}  # fmt: skip
    for option, value in options.items():
        if len(value) != x.ndim:
            raise ShapeError(f"{name} of {x.show()}: {option} is {value}", "give one entry for each axis")
        if option != "padding" and min(value, default=1) < 1:
            raise ArgumentError(f"{name} of {x.show()}: {option} {value}", "entries are at least 1")
    return windows(x.shape, window_dimensions, window_strides, padding, base, holes)


def _typing(name: str, kinds: Sequence[str]) -> Callable[..., ArrayType]:
    def typing(x: ArrayType, **params: Any) -> ArrayType:
        if kind(x.dtype) not in kinds:
            raise DtypeError(f"{name} of {x.show()}", f"it takes dtypes of the kinds {', '.join(kinds)}")
        return ArrayType(_window_shape(name, x, **params), x.dtype)

    return typing


# ---------------------------------------------------------------------------- relations

AXES = {"window_dimensions": 1, "window_strides": 1, "padding": (0, 0), "base_dilation": 1, "window_dilation": 1}


def slide_axis(loops: Loops, size: int, count: int, taps: int, stride: int, low: int, base: int, holes: int
               ) -> tuple[Axis, Axis, dict[int, Kind]]:  # fmt: skip
    """An operand's axis, a result's whose elements each see a window of it, and the kinds of their factors."""
    if base == 1:
        return loops.slide(size, count, Window(low, (taps - 1) * holes - low, stride, holes if taps > 1 else 1))
    (old, new), kinds = loops.whole(size, count)
    return old, new, kinds


def _slides(x: ArrayType, joined: Kind, params: dict[str, Any]) -> tuple[Axes, Axes, Loops, dict[int, Kind]]:
    """The axes of the operand and of the windows; the places in a window are joined in a way."""
    loops, ones, kinds = Loops(), (1,) * x.ndim, {}
    taps, strides, padding = params["window_dimensions"], params["window_strides"], params["padding"]
    base, holes = params.get("base_dilation") or ones, params.get("window_dilation") or ones
    counts = windows(x.shape, taps, strides, padding, base, holes)
    each = zip(x.shape, counts, taps, strides, [low for low, _ in padding], base, holes, strict=True)
    found = [slide_axis(loops, *one) for one in each]
    for _, _, more in found:
        kinds |= more
    kinds |= {f: joined for axis in loops.axes(taps) for f in axis}
    return tuple(old for old, _, _ in found), tuple(new for _, new, _ in found), loops, kinds


def _relation(joined: Kind) -> Callable[..., Relation]:
    """The relation of an operation with operands of equal layout, and a result with an element per window."""

    def relation(ins: Sequence[Any], outs: Sequence[Any], **params: Any) -> Relation:
        old, new, loops, kinds = _slides(ins[0], joined, params)
        return loops.relation([old if t.ndim else () for t in ins], [new] * len(outs), kinds)

    return relation


def _scattering(ins: Sequence[Any], outs: Sequence[Any], **params: Any) -> Relation:
    """Sources go to places in their windows that the operand chooses.

    Windows side by side are independent of each other; an axis that they cut across otherwise stays in one piece.
    """
    source, operand = ins
    old, new, _, cut = _slides(operand, Whole(), params)
    loops = Loops()
    sources: list[Axis] = []
    operands: list[Axis] = []
    kinds: dict[int, Kind] = {}
    taps, strides, padding = params["window_dimensions"], params["window_strides"], params["padding"]
    sides = zip(operand.shape, source.shape, old, new, taps, strides, padding, strict=True)
    for n, count, seen, window, tap, stride, (low, high) in sides:
        if n == count and seen == window and not cut.keys() & {*window}:
            sources.append(loops.axis(n))
            operands.append(sources[-1])
        elif tap == stride and n == count * tap and low == high == 0:
            (inner,), more = loops.whole(tap)
            sources.append(loops.axis(count))
            operands.append((*sources[-1], *inner))
            kinds |= more
        else:
            (first, second), more = loops.whole(count, n)
            sources.append(first)
            operands.append(second)
            kinds |= more
    return loops.relation([tuple(sources), tuple(operands)], [tuple(operands)], kinds)


# ---------------------------------------------------------------------------- meaning


def padded(x: np.ndarray, padding: Pads, dilation: Dims, fill: ArrayLike) -> np.ndarray:
    """Dilate by `dilation`, then pad or (where negative) crop each end."""
    shape = [dilated(n, d) for n, d in zip(x.shape, dilation, strict=True)]
    wide = np.full([n + max(a, 0) + max(b, 0) for n, (a, b) in zip(shape, padding, strict=True)], fill, x.dtype)
    inner = tuple(slice(max(a, 0), max(a, 0) + n, d) for n, (a, _), d in zip(shape, padding, dilation, strict=True))
    wide[inner] = x
    crop = tuple(slice(max(-a, 0), max(n - max(-b, 0), 0)) for n, (a, b) in zip(wide.shape, padding, strict=True))
    return wide[crop]


def _view(x: np.ndarray, fill: ArrayLike, params: dict[str, Any]) -> np.ndarray:
    """All windows: an array of shape (*places, elements of a window)."""
    ones = (1,) * x.ndim
    window, strides = params["window_dimensions"], params["window_strides"]
    holes = params.get("window_dilation") or ones
    x = padded(x, params["padding"], params.get("base_dilation") or ones, fill)
    places = windows(x.shape, window, strides, ((0, 0),) * x.ndim, ones, holes)
    if 0 in places or not x.ndim:
        return np.full((*places, math.prod(window)), fill if 0 in places else x, x.dtype)
    span = tuple(dilated(k, d) for k, d in zip(window, holes, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, span)
    view = view[tuple(slice(None, None, s) for s in (*strides, *holes))]
    return view.reshape(*places, math.prod(window))


def _zero(dtype: np.dtype[Any]) -> Any:
    return np.zeros((), dtype)[()]


def _wide(dtype: np.dtype[Any]) -> Any:
    """The dtype to sum in."""
    return np.dtype(np.float32) if kind(dtype) == "float" and dtype.itemsize < 4 else dtype


def _reducer(
    name: str, ufunc: Callable[..., Any], monoid: Monoid, kinds: Sequence[str], jvp: Callable[..., Any],
    transpose: Callable[..., Any] | None = None,
) -> Primitive:  # fmt: skip
    identity = monoid.neutral

    def numpy(x: np.ndarray, **params: Any) -> np.ndarray:
        wide = _wide(x.dtype)
        view = _view(x, identity(x.dtype), params).astype(wide)
        return ufunc.reduce(view, axis=-1, initial=np.asarray(identity(x.dtype)).astype(wide)[()])

    return Primitive(
        name, _typing(name, kinds), jvp=jvp, transpose=transpose, numpy=numpy, relation=_relation(Reduced(monoid)),
        axes=AXES,
    )  # fmt: skip


# ---------------------------------------------------------------------------- sums and extrema


def _sum_transpose(ct: Any, x: Linear, *, window_dimensions: Dims, window_strides: Dims, padding: Pads,
                   base_dilation: Dims, window_dilation: Dims) -> list[Any]:  # fmt: skip
    """Each element gets the sum of the cotangents of the windows it is in: a window sum again."""
    if type(ct) is Zero:
        return [None]
    pads = []
    for n, k, o, b, w, s, (low, _) in zip(
        x.shape, window_dimensions, shape_of(ct), base_dilation, window_dilation, window_strides, padding, strict=True
    ):
        before = dilated(k, w) - low - 1
        pads.append((before, dilated(n, b) + dilated(k, w) - 1 - dilated(o, s) - before))
    out = reduce_window_sum_p.bind(
        ct, window_dimensions=window_dimensions, window_strides=base_dilation, padding=tuple(pads),
        base_dilation=window_strides, window_dilation=window_dilation,
    )  # fmt: skip
    return [out]


def _extremum_jvp(primitive: Callable[[], Primitive], select: Primitive) -> Callable[..., Any]:
    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = primitive().bind(x, **params)
        if type(t) is Zero:
            return out, Zero(typeof(out).tangent())
        return out, select_and_gather_add_p.bind(t, x, select_prim=select, **params)

    return rule


NUMBER, ORDERED = ("int", "uint", "float", "complex"), ("bool", "int", "uint", "float")
reduce_window_sum_p: Primitive = _reducer(
    "reduce_window_sum", np.add, SUM, NUMBER, linear_jvp(lambda: reduce_window_sum_p), _sum_transpose
)
reduce_window_max_p: Primitive = _reducer(
    "reduce_window_max", np.maximum, MAXIMUM, ORDERED, _extremum_jvp(lambda: reduce_window_max_p, ge_p)
)
reduce_window_min_p: Primitive = _reducer(
    "reduce_window_min", np.minimum, MINIMUM, ORDERED, _extremum_jvp(lambda: reduce_window_min_p, le_p)
)


# ---------------------------------------------------------------------------- select, then gather or scatter


def _fill_of(select: Primitive, dtype: np.dtype[Any]) -> Any:
    return lowest(dtype) if select is ge_p else highest(dtype)


def _chosen(operand: np.ndarray, select: Primitive, params: dict[str, Any]) -> np.ndarray:
    """The place within each window that is selected: the first extremum."""
    view = _view(operand, _fill_of(select, operand.dtype), params)
    return (view.argmax(-1) if select is ge_p else view.argmin(-1))[..., None]


def _gather_typing(tangents: ArrayType, operand: ArrayType, *, select_prim: Primitive, **params: Any) -> ArrayType:
    if tangents.shape != operand.shape:
        raise ShapeError(
            f"select_and_gather_add of {tangents.show()} and {operand.show()}", "both have the operand's shape"
        )
    return ArrayType(_window_shape("select_and_gather_add", operand, **params), tangents.dtype)


def _gather_numpy(tangents: np.ndarray, operand: np.ndarray, *, select_prim: Primitive, **params: Any) -> np.ndarray:
    view = _view(tangents, _zero(tangents.dtype), params)
    return np.take_along_axis(view, _chosen(operand, select_prim, params), -1)[..., 0]


def _gather_expand(tangents: Sequence[Any], operand: Array, *, select_prim: Primitive, **params: Any) -> Any:
    """A window reduction of pairs, of which the preferred (or else the earlier) stays."""
    dtype, carried = typeof(operand).dtype, typeof(tangents).dtype
    scalars = [ArrayType((), dtype), ArrayType((), carried)]

    def prefer(x: Array, tx: Array, y: Array, ty: Array) -> list[Any]:
        keep = select_prim.bind(x, y)
        return [select_n_p.bind(keep, y, x), select_n_p.bind(keep, ty, tx)]

    computation = trace_program(prefer, scalars * 2, "prefer")
    starts = (_fill_of(select_prim, dtype), _zero(carried))
    return reduce_window_p.bind(operand, tangents, *starts, computation=computation, **params)[1]


def _gather_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    (t, x), (dt, _) = primals, tangents
    out = select_and_gather_add_p.bind(t, x, **params)
    if type(dt) is Zero:
        return out, Zero(typeof(out).tangent())
    return out, select_and_gather_add_p.bind(dt, x, **params)


def _gather_transpose(
    ct: Operand, tangents: Linear, operand: Array, *, select_prim: Primitive, window_dimensions: Dims,
    window_strides: Dims, padding: Pads, base_dilation: Dims, window_dilation: Dims,
) -> Any:  # fmt: skip
    if type(ct) is Zero:
        return [None, None]
    if set(base_dilation) | set(window_dilation) != {1} and base_dilation:
        raise UnsupportedError(
            f"the reverse derivative of a dilated window extremum (dilations {base_dilation}, {window_dilation})",
            "use `jvp`, or a window without dilation",
        )
    out = select_and_scatter_add_p.bind(
        ct, operand, select_prim=select_prim, window_dimensions=window_dimensions, window_strides=window_strides,
        padding=padding,
    )  # fmt: skip
    return [out, None]


select_and_gather_add_p: Primitive = Primitive(
    "select_and_gather_add",
    _gather_typing,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    relation=_relation(Whole()),
    axes=AXES,
    numpy=_gather_numpy,
    expand=_gather_expand,
)


def _scatter_typing(source: ArrayType, operand: ArrayType, *, select_prim: Primitive, **params: Any) -> ArrayType:
    places = _window_shape("select_and_scatter_add", operand, **params)
    if source.shape != places:
        raise ShapeError(
            f"select_and_scatter_add of {source.show()} into {operand.show()}, which has windows {places}",
            "give one value for each window",
        )
    return ArrayType(operand.shape, source.dtype)


def _scatter_numpy(source: np.ndarray, operand: np.ndarray, *, select_prim: Primitive, **params: Any) -> np.ndarray:
    size = operand.size
    index = _view(np.arange(1, size + 1).reshape(operand.shape), 0, params)
    place = np.take_along_axis(index, _chosen(operand, select_prim, params), -1)[..., 0]
    out = np.zeros(size + 1, _wide(source.dtype))
    np.add.at(out, place.reshape(-1), source.reshape(-1).astype(out.dtype))
    return out[1:].reshape(operand.shape)


def _scatter_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    (source, x), (ds, _) = primals, tangents
    out = select_and_scatter_add_p.bind(source, x, **params)
    if type(ds) is Zero:
        return out, Zero(typeof(out).tangent())
    return out, select_and_scatter_add_p.bind(ds, x, **params)


def _scatter_transpose(ct: Any, source: Any, operand: Array, **params: Any) -> Any:
    if type(ct) is Zero:
        return [None, None]
    ones = (1,) * len(shape_of(operand))
    return [select_and_gather_add_p.bind(ct, operand, base_dilation=ones, window_dilation=ones, **params), None]


select_and_scatter_add_p: Primitive = Primitive(
    "select_and_scatter_add",
    _scatter_typing,
    jvp=_scatter_jvp,
    transpose=_scatter_transpose,
    relation=_scattering,
    axes=AXES,
    work=Work(1, operand=0),
    numpy=_scatter_numpy,
)


# ---------------------------------------------------------------------------- any monoid


def _generic_typing(*types: ArrayType, computation: Program, **params: Any) -> list[ArrayType]:
    count = len(types) // 2
    arrays, starts = types[:count], types[count:]
    if any(a.shape != arrays[0].shape for a in arrays):
        raise ShapeError(f"reduce_window of {', '.join(a.show() for a in arrays)}", "arrays have one shape")
    if any(s.shape or s.dtype != a.dtype for a, s in zip(arrays, starts, strict=True)):
        shown = ", ".join(s.show() for s in starts)
        raise ShapeError(f"reduce_window starts from {shown}", "give a scalar of its dtype for each array")
    found = [t.dtype for t in computation.out_types if not t.shape]
    if found != [a.dtype for a in arrays]:
        shown = ", ".join(t.show() for t in computation.out_types)
        raise ShapeError(f"the computation of reduce_window gives ({shown})", "it must give the scalars that it takes")
    places = _window_shape("reduce_window", arrays[0], **params)
    return [ArrayType(places, a.dtype) for a in arrays]


def _by_offsets(
    *args: Any, computation: Program, window_dimensions: Dims, window_strides: Dims, padding: Pads, base_dilation: Dims,
    window_dilation: Dims,
) -> list[Any]:  # fmt: skip
    """Fold whole arrays: for each place in the window, the elements there of all windows; padding is left out."""
    count = len(args) // 2
    arrays, starts = args[:count], args[count:]
    config = [(low, high, d - 1) for (low, high), d in zip(padding, base_dilation, strict=True)]
    places = windows(shape_of(arrays[0]), window_dimensions, window_strides, padding, base_dilation, window_dilation)
    state = [broadcast_in_dim(s, places, ()) for s in starts]
    if 0 in places:
        return state
    wide = [pad(a, s, config) for a, s in zip(arrays, starts, strict=True)]
    inside = None
    if any(map(any, config)):
        inside = pad(broadcast_in_dim(np.True_, shape_of(arrays[0]), ()), np.False_, config)
    for offset in itertools.product(*map(range, window_dimensions)):
        begin = [o * d for o, d in zip(offset, window_dilation, strict=True)]
        end = [b + (n - 1) * s + 1 for b, n, s in zip(begin, places, window_strides, strict=True)]
        found = vectorised(computation, count, state, [slice_(w, begin, end, window_strides) for w in wide])
        if inside is None:
            state = found
        else:
            there = slice_(inside, begin, end, window_strides)
            state = [select_n_p.bind(there, old, new) for old, new in zip(state, found, strict=True)]
    return state


def _generic_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, computation: Program,
                   **params: Any) -> Any:  # fmt: skip
    count = len(args) // 2
    arrays, starts = args[:count], args[count:]
    if any(d is not None for d in dims[count:]):  # starts that differ along the batch
        return batch_flat(lambda *xs: _by_offsets(*xs, computation=computation, **params), axis, args, dims)
    dim = next(d for d in dims if d is not None)
    wide = [moved(axis, x, d, dim) for x, d in zip(arrays, dims[:count], strict=True)]
    params = {name: inserted(value, dim, AXES[name]) for name, value in params.items()}
    return reduce_window_p.bind(*wide, *starts, computation=computation, **params), [dim] * count


def _generic_numpy(*args: np.ndarray, computation: Program, **params: Any) -> list[np.ndarray]:
    count = len(args) // 2
    views = [_view(x, start, params) for x, start in zip(args[:count], args[count:], strict=True)]
    inside = _view(np.ones(args[0].shape, bool), np.False_, params)
    outs = [np.empty(v.shape[:-1], v.dtype) for v in views]
    for place in np.ndindex(*outs[0].shape):
        state = list(args[count:])
        for i in np.flatnonzero(inside[place]):
            state = evaluate(computation, *state, *(v[(*place, i)] for v in views))
        for out, value in zip(outs, state, strict=True):
            out[place] = value
    return outs


def _generic_runs(ins: Sequence[Any], *, computation: Program, **params: Any) -> int:
    return math.prod((*_window_shape("reduce_window", ins[0], **params), *params["window_dimensions"]))


reduce_window_p: Primitive = Primitive(
    "reduce_window",
    _generic_typing,
    jvp=expanded_jvp(_by_offsets, multiple=True),
    batch=_generic_batch,
    numpy=_generic_numpy,
    relation=_relation(Whole()),
    runs=_generic_runs,
    expand=_by_offsets,
    multiple=True,
)
PRIMITIVES = (
    reduce_window_sum_p, reduce_window_max_p, reduce_window_min_p, select_and_gather_add_p, select_and_scatter_add_p,
    reduce_window_p,
)  # fmt: skip

_MONOIDS = {
    add_p: (reduce_window_sum_p, SUM),
    max_p: (reduce_window_max_p, MAXIMUM),
    min_p: (reduce_window_min_p, MINIMUM),
}


def reduce_window(
    operand: ArrayLike,
    init_value: ArrayLike,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[Any] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Fold a function over sliding windows of a pytree of arrays of one shape.

    `computation(a, b)` takes and gives pytrees of scalars and must be associative, with `init_value` its
    identity. `padding` is 'VALID', 'SAME', 'SAME_LOWER' or a (low, high) pair for each axis.

    >>> import numpy as np
    >>> from tilewright.core.primitives.elementwise.arithmetic import add
    >>> reduce_window(np.arange(4), 0, add, (2,)).tolist()
    [1, 3, 5]
    """
    arrays, treedef = pytree.flatten(operand)
    starts = pytree.flatten_up_to(treedef, init_value)
    types = [typeof(a) for a in arrays]
    ndim = len(types[0].shape)
    ones = (1,) * ndim
    window = tuple(map(int, window_dimensions))
    strides, base, holes = (
        ones if v is None else tuple(map(int, v)) for v in (window_strides, base_dilation, window_dilation)
    )
    if isinstance(padding, str):
        span = tuple(dilated(k, d) for k, d in zip(window, holes, strict=False))  # lengths: see the typing rule
        padding = pads_of(padding, types[0].shape, span, strides)
    params = {"window_dimensions": window, "window_strides": strides, "base_dilation": base, "window_dilation": holes,
              "padding": tuple((int(a), int(b)) for a, b in padding)}  # fmt: skip

    def flat(*scalars: Any) -> list[Any]:
        half = len(scalars) // 2
        out = computation(pytree.unflatten(treedef, scalars[:half]), pytree.unflatten(treedef, scalars[half:]))
        return pytree.flatten_up_to(treedef, out)

    scalar_types = [ArrayType((), t.dtype) for t in types]
    program, constants = hoist(trace_program(flat, scalar_types * 2, "reduce_window"))
    if constants:
        raise ArgumentError(
            "the computation of reduce_window uses an array from outside", "pass it as one of the operands"
        )
    monoid = monoid_of(program)
    found = None if monoid is None else _MONOIDS.get(monoid)
    if found is not None and not isinstance(starts[0], Tracer):
        reducer, known = found
        dtype = types[0].dtype
        if bool(np.asarray(starts[0]).astype(dtype) == known.neutral(dtype)):
            return pytree.unflatten(treedef, [reducer.bind(arrays[0], **params)])
    starts = [convert_element_type(s, t.dtype) for s, t in zip(starts, types, strict=True)]
    return pytree.unflatten(treedef, reduce_window_p.bind(*arrays, *starts, computation=program, **params))


__all__ = [
    "padtype_to_pads", "reduce_window", "reduce_window_max_p", "reduce_window_min_p", "reduce_window_p",
    "reduce_window_sum_p", "select_and_gather_add_p", "select_and_scatter_add_p",
]  # fmt: skip
