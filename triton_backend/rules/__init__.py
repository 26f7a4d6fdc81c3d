"""`RULES`: how each primitive that may stand in a body is printed; `UNSUPPORTED`: what no GPU program can do."""

from __future__ import annotations

from typing import Any

from . import access, contract, control, elementwise, index, reduce, shape, sort


def _same(e: Any, operands: Any, out: Any, **params: Any) -> Any:
    return operands[0]


RULES: dict[str, Any] = {
    **elementwise.RULES,
    **reduce.RULES,
    **shape.RULES,
    **index.RULES,
    **sort.RULES,
    **contract.RULES,
    **control.RULES,
    **access.RULES,
    "random_wrap": _same,  # keys are their words
    "random_unwrap": _same,
    "random_clone": _same,
}

_COMPLEX = "Triton's tensors have integer and float elements only, no complex ones"
_HOST = "a program on the device cannot call Python on the host"
_DEVICES = "a program reaches the memory of its own device alone; an exchange between devices is outside the kernel"
UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(("real", "imag", "complex", "conj"), _COMPLEX),
    **dict.fromkeys(("pure_callback", "io_callback"), _HOST),
    **dict.fromkeys(
        ("psum", "pmax", "pmin", "all_gather", "reduce_scatter", "all_to_all", "ppermute", "pbroadcast", "axis_index"),
        _DEVICES),
}  # fmt: skip
UNSUPPORTED_DTYPES: dict[str, str] = {
    **dict.fromkeys(("complex64", "complex128"), _COMPLEX),
    **dict.fromkeys(
        ("int4", "uint4", "int2", "uint2"), "the least element that a GPU loads or stores is a byte"),
}  # fmt: skip
