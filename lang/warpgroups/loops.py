"""Loops over parts of a grid, divided among the blocks or warpgroups of a mesh."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array, ArrayLike
from ...core.primitives.control_flow.while_loop import fori_loop
from ...core.primitives.elementwise.arithmetic import div_p, rem_p
from ...core.primitives.elementwise.comparison import lt_p, select_n_p
from ...core.primitives.spmd.collective import axis_index, axis_size
from ...core.support.errors import ArgumentError
from ..ops.basic import unravel
from .common import thread_cell

if TYPE_CHECKING:
    from ...core.support.pytree import PyTree


@dataclass(frozen=True)
class NDLoopInfo:
    """An iteration of `nd_loop`: the grid indices, the iteration's number, and the number of iterations."""

    index: tuple[Any, ...]
    local_index: Any
    num_local_steps: Any = None


def nd_loop(
    grid: Sequence[Any], *, collective_axes: Any, tiling: Sequence[int] | None = None, init_carry: Any = None
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: run a function for each index of a grid, distributed round-robin along `collective_axes`.

    The function takes an `NDLoopInfo`; with `init_carry` also `carry=`, of which it gives the next one, and the
    decorated name is the last. With `tiling` the places of a tile of these sizes come one after the other. Sizes may be
    traced, int32. Raises an `ArgumentError` where tiles do not divide the grid.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def number(o):
    ...     @plgpu.nd_loop((2, 3), collective_axes="sm")
    ...     def _(info):
    ...         o[info.index] = info.local_index
    >>> call = plgpu.kernel(number, out_type=tw.ShapeDtypeStruct((2, 3), "int32"), grid=(4,), grid_names=("sm",),
    ...                     interpret=True)
    >>> print(np.asarray(call()))
    [[0 0 0]
     [0 1 1]]
    """
    thread_cell("nd_loop")
    sizes = tuple(grid)
    tiles = tuple(tiling) if tiling is not None else (1,) * len(sizes)
    known = [(n, t) for n, t in zip(sizes, tiles, strict=False) if isinstance(n, int)]
    if len(tiles) != len(sizes) or any(n % t for n, t in known):
        raise ArgumentError(f"nd_loop: tiling {tiles} of the grid {sizes}", "give tiles that divide the grid")
    total, first, step = math.prod(sizes), axis_index(collective_axes), axis_size(collective_axes)
    even = isinstance(total, int) and total % step == 0
    count = total // step if even else div_p.bind(total - first + np.int32(step - 1), np.int32(step))
    outer = tuple(n // t for n, t in zip(sizes, tiles, strict=True))

    def decorate(function: Callable[..., Any]) -> Any:
        def turn(local: Array, carry: PyTree) -> Any:
            places = unravel(first + local * np.int32(step), range(2 * len(sizes)), (*outer, *tiles))
            index = tuple(places[d] * np.int32(t) + places[len(sizes) + d] for d, t in enumerate(tiles))
            info = NDLoopInfo(index, local, count)
            if init_carry is None:
                function(info)
                return carry
            return function(info, carry=carry)

        return fori_loop(0, count, turn, () if init_carry is None else init_carry)

    return decorate


def dynamic_scheduling_loop(
    grid_names: Sequence[str], thread_axis: Any = None, cluster_axes: Sequence[Any] = (), init_carry: Any = None
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: run a function for the places of a grid that this block is given: here each block has its own one.

    The function takes an `NDLoopInfo`, and with `init_carry` also `carry=`, as in `nd_loop`; `grid_names` are the axes
    of the grid. `thread_axis` and `cluster_axes` change nothing here.

    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(o):
    ...     @plgpu.dynamic_scheduling_loop(("i", "j"))
    ...     def _(info):
    ...         i, j = info.index
    ...         o[i, j] = 10 * i + j
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((2, 3), "int32"), grid=(2, 3), grid_names=("i", "j"),
    ...                     interpret=True)
    >>> call().tolist()
    [[0, 1, 2], [10, 11, 12]]
    """
    thread_cell("dynamic_scheduling_loop")
    names = tuple(grid_names) if isinstance(grid_names, (tuple, list)) else (grid_names,)
    info = NDLoopInfo(tuple(axis_index(name) for name in names), np.int32(0))

    def decorate(function: Callable[..., Any]) -> Any:
        return function(info) if init_carry is None else function(info, carry=init_carry)

    return decorate


def planar_snake(lin_idx: Any, shape: tuple[Any, Any], minor_dim: int, tile_width: int) -> tuple[Any, Any]:
    """The tile of a plane in iteration `lin_idx`: snake order in bands of `tile_width` along `minor_dim`.

    >>> [tuple(map(int, planar_snake(np.int32(i), (4, 2), 0, 2))) for i in range(8)]
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (3, 1), (2, 0), (3, 0)]
    """
    if minor_dim not in (0, 1):
        raise ArgumentError(f"planar_snake: minor_dim is {minor_dim!r}", "give 0 or 1")
    minor, major = np.int32(shape[minor_dim]), np.int32(shape[1 - minor_dim])
    width = np.int32(tile_width)
    full = minor // width * width * major  # iterations in complete bands

    def within(start: ArrayLike, wide: Any, band: ArrayLike) -> tuple[Any, Any]:
        along, across = rem_p.bind(start, wide), div_p.bind(start, wide)
        back = rem_p.bind(band, np.int32(2))
        return band * width + along, across + back * (major - np.int32(1) - np.int32(2) * across)

    band = div_p.bind(lin_idx, width * major)
    whole = within(rem_p.bind(lin_idx, width * major), width, band)
    last = within(lin_idx - full, np.maximum(minor % width, np.int32(1)), minor // width)
    inside = lt_p.bind(lin_idx, full)
    found = [select_n_p.bind(inside, b, a) for a, b in zip(whole, last, strict=True)]
    along, across = found
    return (along, across) if minor_dim == 0 else (across, along)
