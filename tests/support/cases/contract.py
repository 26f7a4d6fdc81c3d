"""Cases of contractions."""

from typing import Any

from tests.support.cases import Case
from tilewright.core.ir.types import ArrayType, as_dtype
from tilewright.core.primitives.contraction.dot_general import Precision, dot_general_p


def _case(left: tuple, right: tuple, contract: Any, batch: Any = ((), ()), dtypes: Any = ("float32", "float32"),
          preferred: Any = None, precision: Any = None, **how: Any) -> Case:  # fmt: skip
    types = (ArrayType(left, as_dtype(dtypes[0])), ArrayType(right, as_dtype(dtypes[1])))
    params = {
        "dimension_numbers": (contract, batch),
        "precision": precision,
        "preferred_element_type": None if preferred is None else as_dtype(preferred),
    }
    return Case(dot_general_p, types, params, **how)


_MATRIX = ((2, 3), (3, 4), ((1,), (0,)))
CASES = [
    _case(*_MATRIX, note="matrix"),
    _case((3,), (3,), ((0,), (0,)), note="inner"),
    _case((2,), (3,), ((), ()), note="outer"),
    _case((2, 3), (4, 3), ((1,), (1,)), precision=(Precision.HIGHEST, Precision.HIGHEST), note="transposed"),
    _case((2, 3, 4), (2, 4, 5), ((2,), (1,)), ((0,), (0,)), note="batched"),
    _case((4, 2, 3), (5, 4, 2), ((0,), (1,)), ((1,), (2,)), note="batch-inside"),
    _case((2, 3, 4), (4, 5, 2), ((0, 2), (2, 0)), note="two-axes-crossed"),
    _case((2, 3, 4, 2), (3, 2, 4), ((2,), (2,)), ((3, 1), (1, 0)), note="two-batch-crossed"),
    _case((2, 0), (0, 3), ((1,), (0,)), note="empty-sum"),
    _case(*_MATRIX, dtypes=("float64", "float64"), note="f64"),
    _case(*_MATRIX, dtypes=("complex64", "complex64"), note="complex"),
    _case(*_MATRIX, dtypes=("bfloat16", "bfloat16"), tolerance=2e-2, note="bf16"),
    _case(*_MATRIX, dtypes=("float16", "float16"), tolerance=2e-3, note="f16"),
    _case(*_MATRIX, dtypes=("bfloat16", "bfloat16"), preferred="float32", note="bf16-f32"),
    _case(*_MATRIX, dtypes=("float8_e4m3fn", "float8_e5m2"), preferred="float32", grad=(False, False), note="f8-f32"),
    _case(*_MATRIX, dtypes=("bfloat16", "float32"), note="mixed"),
    _case(*_MATRIX, dtypes=("int8", "int8"), preferred="int32", low=-100, high=100, note="i8-i32"),
    _case(*_MATRIX, dtypes=("int8", "int8"), low=-100, high=100, note="i8"),
    _case(*_MATRIX, dtypes=("uint32", "uint32"), low=0, high=100, note="u32"),
    _case(*_MATRIX, dtypes=("bool", "bool"), note="bool"),
]
