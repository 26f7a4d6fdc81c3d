"""Reading and writing arrays at computed indices, by the primitives of dynamic_slice.py and gather_scatter.py."""

from __future__ import annotations

from ...ir.primitive import Primitive
from . import dynamic_slice as _slicing
from . import gather_scatter as _indexed
from .dynamic_slice import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
)
from .gather_dimension_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from .gather_functions import gather, index_take
from .gather_scatter import (
    gather_p,
    scatter_add_p,
    scatter_apply_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from .scatter_functions import scatter, scatter_add, scatter_apply, scatter_max, scatter_min, scatter_mul, scatter_sub

PRIMITIVES: tuple[Primitive, ...] = (*_slicing.PRIMITIVES, *_indexed.PRIMITIVES)

__all__ = [
    "PRIMITIVES", "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "dynamic_index_in_dim",
    "dynamic_slice", "dynamic_slice_in_dim", "dynamic_slice_p", "dynamic_update_index_in_dim", "dynamic_update_slice",
    "dynamic_update_slice_in_dim", "dynamic_update_slice_p", "gather", "gather_p", "index_take", "scatter",
    "scatter_add", "scatter_add_p", "scatter_apply", "scatter_apply_p", "scatter_max", "scatter_max_p", "scatter_min",
    "scatter_min_p", "scatter_mul", "scatter_mul_p", "scatter_p", "scatter_sub", "scatter_sub_p",
]  # fmt: skip
