"""Reductions over any axes: sums, products, extrema and bits, positions of extrema, and any user's monoid.

The loops of the reduced axes carry. Sums and products of narrow floats are kept in float32 between cells, as the
primitive keeps them within one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.primitive import AxisInfo, Primitive
from ..core.primitives import reduce as r
from ..core.primitives.compare import and_p, eq_p, gt_p, lt_p, ne_p, not_p, or_p, select_n_p, xor_p
from ..core.primitives.convert import convert_element_type
from ..core.primitives.elementwise import add_p, max_p, min_p, mul_p
from ..core.primitives.shape import broadcast_in_dim_p, reshape_p, slice_p, transpose_p
from ..core.rules import moved
from ..core.trace import eval_program, shape_of, trace_program
from ..core.types import ArrayType, MemorySpace, RefType, is_bool, is_float
from ..core.vmap import batch_program
from ..lang.kernel import Kernel
from ..lang.ops import when
from ..lang.target import Target
from .template import Cut, Loops, Parts, Template, both

FLOAT32 = np.dtype(np.float32)


def constant(value: Any) -> Callable[[Any], Any]:
    return lambda dtype: np.asarray(value).astype(dtype)[()]


def _ones(dtype: Any) -> Any:
    """All bits set: the identity of a conjunction."""
    return np.bool_(True) if dtype == np.bool_ else np.invert(np.zeros((), dtype))[()]


# primitive: the identity of its monoid, and the monoid
MONOIDS: dict[Primitive, tuple[Callable[[Any], Any], Primitive]] = {
    r.reduce_sum_p: (constant(0), add_p),
    r.reduce_prod_p: (constant(1), mul_p),
    r.reduce_max_p: (r.lowest, max_p),
    r.reduce_min_p: (r.highest, min_p),
    r.reduce_and_p: (_ones, and_p),
    r.reduce_or_p: (constant(0), or_p),
    r.reduce_xor_p: (constant(0), xor_p),
}


def kept(ndim: int, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i in range(ndim) if i not in axes)


def full(value: Any, shape: Sequence[int]) -> Any:
    return broadcast_in_dim_p.bind(value, shape=tuple(shape), broadcast_dimensions=()) if shape else value


def accumulator(dtype: Any) -> Any:
    """The dtype that sums of a dtype are kept in."""
    return FLOAT32 if is_float(dtype) and dtype.itemsize < 4 else dtype


def _axes(params: dict[str, Any]) -> tuple[int, ...]:
    return params["axes"] if "axes" in params else params["dimensions"]


def _loops(types: Sequence[ArrayType], params: dict[str, Any]) -> Loops:
    return Loops(types[0].shape, carry=tuple(sorted(_axes(params))))


def _work(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any]) -> tuple[int, int]:
    return math.prod(types[0].shape) * len(outs), 0


def _result_shape(cut: Cut) -> tuple[int, ...]:
    return tuple(cut.tiles[i] for i in range(len(cut.tiles)) if i not in cut.loops.carry)


def _result_spec(cut: Cut, out: ArrayType) -> Any:
    return cut.spec(kept(len(cut.loops.sizes), cut.loops.carry), out.shape)


def _empty(types: Sequence[ArrayType], params: dict[str, Any]) -> bool:
    return any(types[0].shape[a] == 0 for a in _axes(params))


def _split(cut: Cut) -> bool:
    return any(cut.split(i) for i in cut.loops.carry)


def monoid(primitive: Primitive) -> Template:
    """The template of a reduction by a known monoid."""
    identity, combine = MONOIDS[primitive]

    def cut(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any], cut: Cut) -> Parts:
        (x,), (out,) = types, outs
        shape = _result_shape(cut)
        result = _result_spec(cut, out)
        if _empty(types, params):  # nothing to read: the identity

            def nothing(o: Any) -> None:
                o[...] = full(identity(out.dtype), shape)

            return Parts(nothing, [], [result], args=())
        ragged = any(cut.ragged(i) for i in cut.loops.carry)
        source = cut.spec(range(x.ndim), x.shape, fill=identity(x.dtype) if ragged else None)
        if not _split(cut):

            def whole(x: Any, o: Any) -> None:
                o[...] = convert_element_type(primitive.bind(x[...], **params), out.dtype)

            return Parts(whole, [source], [result])
        wide = accumulator(x.dtype) if combine in (add_p, mul_p) else x.dtype

        def step(x: Any, state: Any) -> None:
            @when(cut.first())
            def _() -> None:
                state[...] = full(identity(wide), shape)

            part = primitive.bind(convert_element_type(x[...], wide), **params)
            state[...] = combine.bind(state[...], part)

        if wide == out.dtype:
            return Parts(step, [source], [result])

        def widened(x: Any, o: Any, state: Any) -> None:
            step(x, state)

            @when(cut.last())
            def _() -> None:
                o[...] = convert_element_type(state[...], out.dtype)

        return Parts(widened, [source], [result], [RefType(ArrayType(shape, wide), MemorySpace.VMEM)])

    return Template("reduce", primitive, _loops, cut, _work)


def position(primitive: Primitive) -> Template:
    """The template of argmax and argmin: the best value so far beside its position."""
    most = primitive is r.argmax_p
    extremum, worst, better = (r.reduce_max_p, r.lowest, gt_p) if most else (r.reduce_min_p, r.highest, lt_p)

    def cut(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any], cut: Cut) -> Parts:
        (x,), (out,) = types, outs
        (axis,) = params["axes"]
        shape = _result_shape(cut)
        source = cut.spec(range(x.ndim), x.shape, fill=worst(x.dtype) if cut.ragged(axis) else None)
        result = _result_spec(cut, out)
        if not _split(cut):

            def whole(x: Any, o: Any) -> None:
                o[...] = primitive.bind(x[...], **params)

            return Parts(whole, [source], [result])

        def body(x: Any, o: Any, best: Any) -> None:
            block = x[...]
            value = extremum.bind(block, axes=(axis,))
            start = convert_element_type(cut.id(axis) * np.int32(cut.tiles[axis]), out.dtype)
            place = add_p.bind(primitive.bind(block, **params), start)

            @when(cut.first())
            def _() -> None:
                best[...], o[...] = value, place

            @when(cut.id(axis) > 0)
            def _() -> None:
                old = best[...]
                wins = better.bind(value, old)
                if is_float(x.dtype):  # the first NaN wins over all that is not NaN
                    wins = and_p.bind(or_p.bind(wins, ne_p.bind(value, value)), eq_p.bind(old, old))
                best[...] = select_n_p.bind(wins, old, value)
                o[...] = select_n_p.bind(wins, o[...], place)

        return Parts(body, [source], [result], [RefType(ArrayType(shape, x.dtype), MemorySpace.VMEM)])

    return Template("reduce", primitive, _loops, cut, _work)


def _general_cut(types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any], cut: Cut) -> Parts:
    """Any monoid: what lies past the end is replaced by the starts, its identity."""
    count = len(outs)
    shape, ndim = _result_shape(cut), types[0].ndim
    computation, axes = params["computation"], params["dimensions"]
    starts_spec = [cut.spec((), ()) for _ in range(count)]
    results = [_result_spec(cut, out) for out in outs]
    if _empty(types, params):

        def nothing(*refs: Any) -> None:
            for start, o in zip(refs[:count], refs[count:], strict=True):
                o[...] = full(start[...], shape)

        return Parts(nothing, starts_spec, results, args=range(count, 2 * count))
    sources = [cut.spec(range(ndim), t.shape) for t in types[:count]]

    def body(*refs: Any) -> None:
        arrays, starts, results = refs[:count], refs[count : 2 * count], refs[2 * count :]

        def store(values: Sequence[Any]) -> None:
            for o, value in zip(results, values, strict=True):
                o[...] = value

        for here, sizes in ends(cut, cut.loops.carry):

            @when(both(here, cut.first()))
            def _(sizes: Sequence[int] = sizes) -> None:
                store(r.reduce_p.bind(*_cropped(arrays, sizes), *(s[...] for s in starts), **params))

            if _split(cut):

                @when(both(here, not_p.bind(cut.first())))
                def _(sizes: Sequence[int] = sizes) -> None:
                    rows = [_leading(x, axes) for x in _cropped(arrays, sizes)]
                    part = r.halve(lambda a, b: elementwise(computation, [*a, *b]), rows)
                    store(elementwise(computation, [*(o[...] for o in results), *part]))

    return Parts(body, [*sources, *starts_spec], results)


def ends(cut: Cut, loops: Sequence[int]) -> list[tuple[Any, tuple[int, ...]]]:
    """The kinds of cells: a condition, and how much of their tiles lies within the sizes of some loops."""
    found: list[tuple[Any, tuple[int, ...]]] = [(True, cut.tiles)]
    for a in loops:
        if not cut.ragged(a):
            continue
        left = cut.loops.sizes[a] % cut.tiles[a]
        last = cut.id(a) == cut.counts[a] - 1
        at_end = [(both(c, last) if cut.split(a) else c, (*s[:a], left, *s[a + 1 :])) for c, s in found]
        found = at_end + ([(both(c, not_p.bind(last)), s) for c, s in found] if cut.split(a) else [])
    return found


def _cropped(refs: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    return [cropped(ref[...], sizes) for ref in refs]


def cropped(x: Any, sizes: Sequence[int]) -> Any:
    """The first elements of an array along each axis."""
    if shape_of(x) == tuple(sizes):
        return x
    return slice_p.bind(x, start_indices=(0,) * len(sizes), limit_indices=tuple(sizes), strides=None)


def _leading(x: Any, axes: Sequence[int]) -> Any:
    """The reduced axes in front, as one."""
    shape = shape_of(x)
    others = kept(len(shape), axes)
    x = transpose_p.bind(x, permutation=(*axes, *others))
    rows = math.prod(shape[a] for a in axes)
    return reshape_p.bind(x, new_sizes=(rows, *(shape[i] for i in others)), dimensions=None)


def elementwise(computation: Any, values: Sequence[Any]) -> list[Any]:
    """A scalar computation on the elements of arrays of one shape."""
    program = computation
    for size in reversed(shape_of(values[0])):  # the innermost axis first, each in front of those before
        program, dims = batch_program(program, AxisInfo(size), (0,) * len(values))
        program = _in_front(program, dims, size)
    return eval_program(program, *values)


def _in_front(program: Any, dims: Sequence[int | None], size: int) -> Any:
    if all(d == 0 for d in dims):
        return program

    def fun(*xs: Any) -> list[Any]:
        return [moved(AxisInfo(size), x, d, 0) for x, d in zip(eval_program(program, *xs), dims, strict=True)]

    return trace_program(fun, program.in_types, program.name)


def total(rows: ArrayType, out: ArrayType, target: Target) -> Kernel:
    """The kernel that adds up the rows of an array, in order, to a result of its own dtype; its blocks are small."""
    template, params = TEMPLATES[r.reduce_or_p if is_bool(out.dtype) else r.reduce_sum_p], {"axes": (0,)}
    loops = template.loops([rows], params)
    sizes = [(n,) if target.whole_arrays else target.tile_sizes(n, loops, i) for i, n in enumerate(loops.sizes)]
    cut = loops.cut(tuple(s[0] for s in sizes))
    return template.of_parts(template.cut([rows], [out], params, cut), [rows], [out], cut)


general = Template("reduce", r.reduce_p, _loops, _general_cut, _work)

TEMPLATES = {
    **{p: monoid(p) for p in MONOIDS},
    **{p: position(p) for p in (r.argmax_p, r.argmin_p)},
    r.reduce_p: general,
}
