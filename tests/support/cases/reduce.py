"""Cases of reductions."""

from typing import Any

from tests.support.cases import Case
from tilewright.core.ir.types import ArrayType, as_dtype
from tilewright.core.primitives.elementwise.arithmetic import add_p, mul_p
from tilewright.core.primitives.reduction import reduce as r
from tilewright.core.tracing.trace import trace_program

_AXES = [((3, 4), (0,)), ((3, 4), (1,)), ((2, 3, 4), (0, 2)), ((3, 4), (0, 1))]


def _type(shape: tuple[int, ...], dtype: str = "float32") -> ArrayType:
    return ArrayType(shape, as_dtype(dtype))


def _over(primitive: Any, dtypes: str, **how: Any) -> list[Case]:
    first, *others = dtypes.split()
    found = [Case(primitive, (_type(s, first),), {"axes": a}, **how, note=f"axes-{a}") for s, a in _AXES]
    return found + [Case(primitive, (_type((3, 4), d),), {"axes": (1,)}, **how) for d in others]


def _computation(*dtypes: str, body: Any) -> Any:
    scalars = [_type((), d) for d in dtypes]
    return trace_program(body, [*scalars, *scalars], "reduce")


_PLAIN = _computation("float32", body=lambda a, b: [add_p.bind(a, b)])
_PAIR = _computation("float32", "float32", body=lambda a, b, c, d: [add_p.bind(a, c), mul_p.bind(b, d)])

CASES = [
    *_over(r.reduce_sum_p, "float32 bfloat16 complex64 int32 uint8"),
    *_over(r.reduce_prod_p, "float32 bfloat16 complex64 int32", low=0.5),
    *_over(r.reduce_max_p, "float32 bfloat16 int32 bool uint8"),
    *_over(r.reduce_min_p, "float32 bfloat16 int32 bool uint8"),
    *_over(r.reduce_and_p, "int32 bool uint8"),
    *_over(r.reduce_or_p, "int32 bool uint8"),
    *_over(r.reduce_xor_p, "int32 bool uint8"),
    *[
        Case(p, (_type(shape, d),), {"axes": axes, "index_dtype": as_dtype("int32")}, high=4.0, note=f"axis-{axes[0]}")
        for p in (r.argmax_p, r.argmin_p)
        for shape, axes, d in [((5,), (0,), "float32"), ((3, 4), (1,), "int32"), ((3, 4), (0,), "bfloat16"),
                               ((2, 3), (1,), "bool"), ((2, 3), (1,), "uint8")]
    ],
    Case(r.reduce_sum_p, (_type((0, 3)),), {"axes": (0,)}, note="empty"),
    Case(r.reduce_prod_p, (_type((0, 3)),), {"axes": (0,)}, note="empty"),
    # Derivatives of these two are in tests/core/primitives/test_reduce.py: their computation is typed.
    Case(r.reduce_p, (_type((3, 4)), _type(())), {"computation": _PLAIN, "dimensions": (1,)}, grad=(False, False)),
    Case(r.reduce_p, (*(_type((2, 5)),) * 2, *(_type(()),) * 2), {"computation": _PAIR, "dimensions": (1,)},
         grad=(False,) * 4, note="pair"),
]  # fmt: skip
