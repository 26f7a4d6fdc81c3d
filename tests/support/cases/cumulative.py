"""Cases of cumulative operations."""

from tests.support.cases import Case
from tilewright.core.ir.types import ArrayType, as_dtype
from tilewright.core.primitives.special import cumulative as c

_KINDS = {
    c.cumsum_p: "float32 bfloat16 complex64 int32 uint8",
    c.cumprod_p: "float32 bfloat16 complex64 int32",
    c.cummax_p: "float32 bfloat16 int32 bool",
    c.cummin_p: "float32 bfloat16 int32 bool",
    c.cumlogsumexp_p: "float32 bfloat16 complex64",
}

_LONG = ArrayType((2, 71, 2), as_dtype("float32"))

CASES = (
    [
        Case(p, (ArrayType(shape, as_dtype(dtype)),), {"axis": axis, "reverse": reverse}, note=f"{axis}-{reverse}")
        for p, dtypes in _KINDS.items()
        for shape, axis, reverse, names in [
            ((5,), 0, False, dtypes.split()[:1]),
            ((3, 6), 1, True, dtypes.split()),
            ((4, 2), 0, False, dtypes.split()[:1]),
        ]
        for dtype in names
    ]
    + [
        # Long enough for the scan by blocks, and not a whole number of them.
        Case(p, (_LONG,), {"axis": 1, "reverse": reverse}, low=0.5, high=1.5, note=f"blocks-{reverse}")
        for p in _KINDS
        for reverse in (False, True)
    ]
    + [Case(c.cumsum_p, (ArrayType((0, 2), as_dtype("float32")),), {"axis": 0, "reverse": False}, note="empty")]
)
