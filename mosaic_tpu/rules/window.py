"""Sliding windows: one strided slice for each place of the window, combined."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...core.primitive import Primitive
from ...core.primitives.compare import eq_p, ge_p, select_n_p
from ...core.primitives.convert import convert_element_type
from ...core.primitives.elementwise import add_p, max_p, min_p
from ...core.primitives.reduce import highest, lowest
from ...core.primitives.shape import pad
from ...core.primitives.shape import slice as slice_
from ...core.primitives.window import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_scatter_add_p,
)
from ...core.rules import spread
from ...core.types import ArrayType, is_float
from ..body import Body, Rule
from ..values import Value


def _places(
    x: Any, fill: Any, out_shape: Sequence[int], window_dimensions: Any, window_strides: Any, padding: Any,
    base_dilation: Any = None, window_dilation: Any = None,
) -> Iterator[tuple[tuple[int, ...], Any]]:  # fmt: skip
    """Each place of the window with the elements that windows have there."""
    ones = (1,) * len(out_shape)
    holes = window_dilation or ones
    pads = [(low, high, d - 1) for (low, high), d in zip(padding, base_dilation or ones, strict=True)]
    x = pad(x, fill, pads)
    for tap in itertools.product(*(range(n) for n in window_dimensions)):
        starts = tuple(t * d for t, d in zip(tap, holes, strict=True))
        ends = tuple(s + (n - 1) * step + 1 for s, n, step in zip(starts, out_shape, window_strides, strict=True))
        yield starts, slice_(x, starts, ends, window_strides)


def _fill(kind: str, dtype: Any) -> Any:
    if kind == "sum":
        return np.zeros((), dtype)[()]
    return np.asarray(lowest(dtype) if kind == "max" else highest(dtype), dtype)[()]


_COMBINE = {"sum": add_p.bind, "max": max_p.bind, "min": min_p.bind}


def _reduce_window(kind: str) -> Rule:
    def rule(b: Body, xs: list[Value], out: ArrayType, **params: Any) -> Value:
        def windows(x: Any) -> Any:
            x = convert_element_type(x, np.dtype(np.float32)) if is_float(x.dtype) else x
            total: Any = None
            for _, part in _places(x, _fill(kind, x.dtype), out.shape, **params):
                total = part if total is None else _COMBINE[kind](total, part)
            return convert_element_type(total, out.dtype)

        return b.traced(windows, xs)[0]

    return rule


def _select_and_scatter_add(b: Body, xs: list[Value], out: ArrayType, *, select_prim: Any, **params: Any) -> Value:
    kind = "max" if select_prim is ge_p else "min"
    shape = xs[0].shape

    def scattered(source: Any, operand: Any) -> Any:
        best: Any = None
        chosen: Any = spread(np.int32(0), shape)
        taps = list(_places(operand, _fill(kind, operand.dtype), shape, **params))
        for number, (_, part) in enumerate(taps):
            if best is not None:
                keep = select_prim.bind(best, part)
                chosen = select_n_p.bind(keep, spread(np.int32(number), shape), chosen)
                part = select_n_p.bind(keep, part, best)
            best = part
        wide = convert_element_type(source, np.dtype(np.float32)) if is_float(source.dtype) else source
        nothing = spread(np.zeros((), wide.dtype)[()], shape)
        total: Any = spread(np.zeros((), wide.dtype)[()], out.shape)
        for number, (starts, _) in enumerate(taps):
            here = eq_p.bind(chosen, spread(np.int32(number), shape))
            total = add_p.bind(total, _put(select_n_p.bind(here, nothing, wide), starts, out.shape, params))
        return convert_element_type(total, out.dtype)

    return b.traced(scattered, xs)[0]


def _put(x: Any, starts: Sequence[int], out_shape: Sequence[int], params: dict[str, Any]) -> Any:
    """What windows have at one place, where the operand has it."""
    pads = []
    for start, n, step, size, (low, _) in zip(starts, x.shape, params["window_strides"], out_shape, params["padding"],
                                              strict=True):  # fmt: skip
        first = start - low
        pads.append((first, size - first - ((n - 1) * step + 1), step - 1))
    return pad(x, np.zeros((), x.dtype)[()], pads)


RULES: dict[Primitive, Rule] = {
    reduce_window_sum_p: _reduce_window("sum"),
    reduce_window_max_p: _reduce_window("max"),
    reduce_window_min_p: _reduce_window("min"),
    select_and_scatter_add_p: _select_and_scatter_add,
}
