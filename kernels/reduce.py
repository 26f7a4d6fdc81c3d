"""Reductions beyond a monoid of one operand: indices of extrema, and any user's monoid.

The loops of the reduced axes carry: the best value so far beside its position, or the results themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array
from ..core.ir.primitive import Primitive
from ..core.ir.types import ArrayType, MemorySpace, RefType, is_float
from ..core.primitives.elementwise.arithmetic import add_p
from ..core.primitives.elementwise.bitwise import and_p, not_p, or_p
from ..core.primitives.elementwise.comparison import eq_p, gt_p, lt_p, ne_p, select_n_p
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.shape import reshape_p, transpose_p
from ..core.primitives.reduction import reduce as r
from ..core.tracing.trace import shape_of
from ..lang.ops.basic import when
from .bodies import cropped, loop_ends, on_elements, store
from .generate.loops import Cut, Loops, both
from .template import Params, Parts, Template, Types, filled, own

if TYPE_CHECKING:
    from ..core.primitives.refs.ref_views import AnyRef


def _over(key: str) -> Any:
    return lambda types, params: Loops(types[0].shape, carry=tuple(sorted(params[key])))


def _result_loops(cut: Cut) -> list[int]:
    """The loops that results have."""
    return [i for i in range(len(cut.tiles)) if i not in cut.loops.carry]


def position(primitive: Primitive) -> Template:
    """The template of argmax and argmin."""
    most = primitive is r.argmax_p
    extremum, worst, better = (r.reduce_max_p, r.lowest, gt_p) if most else (r.reduce_min_p, r.highest, lt_p)

    def parts(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        (x,), (out,) = types, outs
        (axis,) = params["axes"]
        source = cut.spec(range(x.ndim), x.shape, fill=worst(x.dtype) if cut.ragged(axis) else None)
        result = cut.spec(_result_loops(cut), out.shape)

        def body(x: AnyRef, o: AnyRef, best: AnyRef) -> None:
            block = x[...]
            start = convert_element_type(cut.id(axis) * np.int32(cut.tiles[axis]), o.dtype)
            value, place = extremum.bind(block, axes=(axis,)), add_p.bind(primitive.bind(block, **params), start)

            @when(cut.first())
            def _() -> None:
                best[...], o[...] = value, place

            @when(cut.id(axis) > 0)
            def _() -> None:
                old = best[...]
                wins = better.bind(value, old)
                if is_float(old.dtype):  # the first NaN wins over all that is not NaN
                    wins = and_p.bind(or_p.bind(wins, ne_p.bind(value, value)), eq_p.bind(old, old))
                best[...] = select_n_p.bind(wins, old, value)
                o[...] = select_n_p.bind(wins, o[...], place)

        shape = tuple(cut.tiles[i] for i in _result_loops(cut))
        return Parts(body, [source], [result], [RefType(ArrayType(shape, x.dtype), MemorySpace.VMEM)])

    return own("reduce", primitive, parts, _over("axes"), blockwise=True)


def _general(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    """Any monoid: the ragged tail is masked off, and an empty reduction is the initial value, its identity."""
    count, ndim = len(outs), types[0].ndim
    computation, axes = params["computation"], params["dimensions"]
    starts_spec = [cut.spec((), ()) for _ in range(count)]
    results = [cut.spec(_result_loops(cut), out.shape) for out in outs]
    if any(types[0].shape[a] == 0 for a in axes):
        return filled(results, lambda *starts: starts, starts_spec, range(count, 2 * count))

    def body(*refs: Any) -> None:
        arrays, starts, results = refs[:count], refs[count : 2 * count], refs[2 * count :]
        for here, sizes in loop_ends(cut, cut.loops.carry):

            @when(both(here, cut.first()))
            def _(sizes: Sequence[int] = sizes) -> None:
                blocks = [cropped(x[...], sizes) for x in arrays]
                store(results, r.reduce_p.bind(*blocks, *(s[...] for s in starts), **params))

            if any(cut.split(i) for i in cut.loops.carry):

                @when(both(here, not_p.bind(cut.first())))
                def _(sizes: Sequence[int] = sizes) -> None:
                    rows = [_leading(cropped(x[...], sizes), axes) for x in arrays]
                    part = r.halve(lambda a, b: on_elements(computation, [*a, *b]), rows)
                    store(results, on_elements(computation, [*(o[...] for o in results), *part]))

    return Parts(body, [*(cut.spec(range(ndim), t.shape) for t in types[:count]), *starts_spec], results)


def _leading(x: Array, axes: Sequence[int]) -> Any:
    """The reduced axes in front, as one."""
    shape = shape_of(x)
    others = tuple(i for i in range(len(shape)) if i not in axes)
    x = transpose_p.bind(x, permutation=(*axes, *others))
    rows = math.prod(shape[a] for a in axes)
    return reshape_p.bind(x, new_sizes=(rows, *(shape[i] for i in others)), dimensions=None)


TEMPLATES = {
    **{p: position(p) for p in (r.argmax_p, r.argmin_p)},
    r.reduce_p: own("reduce", r.reduce_p, _general, _over("dimensions")),
}
