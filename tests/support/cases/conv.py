"""Cases of convolutions."""

from typing import Any

from tests.support.cases import Case
from tilewright.core.ir.types import ArrayType, as_dtype
from tilewright.core.primitives.contraction.conv import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_general_dilated_p,
)


def case(lhs: tuple, rhs: tuple, note: str, names: Any = None, dtype: Any = "float32", **options: Any) -> Case:
    space = len(lhs) - 2
    ones = (1,) * space
    how = {k: options.pop(k) for k in ("low", "high", "tolerance") if k in options}
    numbers = conv_dimension_numbers(lhs, rhs, names)
    assert isinstance(numbers, ConvDimensionNumbers)
    params = {
        "window_strides": ones, "padding": ((0, 0),) * space, "lhs_dilation": ones, "rhs_dilation": ones,
        "dimension_numbers": numbers, "feature_group_count": 1, "batch_group_count": 1, "precision": None,
        "preferred_element_type": None,
    }  # fmt: skip
    types = (ArrayType(lhs, as_dtype(dtype)), ArrayType(rhs, as_dtype(dtype)))
    return Case(conv_general_dilated_p, types, params | options, note=note, **how)


CASES = [
    case((2, 3, 6), (4, 3, 2), "line"),
    case((2, 5, 6, 3), (3, 2, 3, 4), "image", ("NHWC", "HWIO", "NHWC")),
    case((1, 2, 5, 5), (3, 2, 3, 3), "strided", window_strides=(2, 1), padding=((1, 1), (0, 2))),
    case((1, 2, 5, 5), (3, 2, 2, 2), "cropped", padding=((-1, 0), (2, -1))),
    case((2, 2, 4), (3, 2, 3), "transposed", lhs_dilation=(2,), padding=((2, 1),)),
    case((2, 2, 7), (3, 2, 3), "dilated", rhs_dilation=(2,), window_strides=(2,), padding=((1, 2),)),
    case((2, 4, 5), (6, 2, 3), "feature-groups", feature_group_count=2, padding=((1, 1),)),
    case((2, 3, 5), (6, 1, 2), "depthwise", feature_group_count=3),
    case((4, 2, 5), (6, 2, 3), "batch-groups", batch_group_count=2, window_strides=(2,), padding=((1, 0),)),
    case((3, 9, 5), (9, 3, 2), "threes-of-groups", feature_group_count=3),
    case((9, 3, 4), (9, 3, 2), "threes-of-batch-groups", batch_group_count=3, lhs_dilation=(2,)),
    case((2, 4, 5, 6), (3, 3, 3, 6), "grouped-image", ("NHWC", "HWIO", "NHWC"), feature_group_count=2),
    case((3, 4), (5, 4), "no-space"),
    case((1, 2, 3, 3, 3), (2, 2, 2, 2, 1), "volume"),
    case((5, 2, 3), (2, 3, 4), "mixed-axes", ("WNC", "WIO", "CWN")),
    case((1, 2, 3), (2, 2, 0), "no-kernel", padding=((1, 0),)),
    case((1, 1, 2), (1, 1, 3), "no-room"),
    case((2, 3, 6), (4, 3, 2), "f64", dtype="float64"),
    case((2, 3, 6), (4, 3, 2), "bf16", dtype="bfloat16", tolerance=2e-2),
    case((2, 3, 6), (4, 3, 2), "bf16-f32", dtype="bfloat16", preferred_element_type=as_dtype("float32")),
    case((2, 3, 6), (4, 3, 2), "complex", dtype="complex64"),
    case((2, 3, 6), (4, 3, 2), "i32", dtype="int32", low=-9, high=9),
]
