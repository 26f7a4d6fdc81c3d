"""Reading and writing arrays at computed positions: the primitives of slicing.py and indexed.py."""

from __future__ import annotations

from ..primitive import Primitive
from . import indexed as _indexed
from . import slicing as _slicing
from .gather import gather, index_take
from .indexed import (
    gather_p,
    scatter_add_p,
    scatter_apply_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from .positions import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from .scatter import scatter, scatter_add, scatter_apply, scatter_max, scatter_min, scatter_mul, scatter_sub
from .slicing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
)

PRIMITIVES: tuple[Primitive, ...] = (*_slicing.PRIMITIVES, *_indexed.PRIMITIVES)

__all__ = [
    "PRIMITIVES", "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "dynamic_index_in_dim",
    "dynamic_slice", "dynamic_slice_in_dim", "dynamic_slice_p", "dynamic_update_index_in_dim", "dynamic_update_slice",
    "dynamic_update_slice_in_dim", "dynamic_update_slice_p", "gather", "gather_p", "index_take", "scatter",
    "scatter_add", "scatter_add_p", "scatter_apply", "scatter_apply_p", "scatter_max", "scatter_max_p", "scatter_min",
    "scatter_min_p", "scatter_mul", "scatter_mul_p", "scatter_p", "scatter_sub", "scatter_sub_p",
]  # fmt: skip
