"""JAX's type promotion lattice, with weak types for Python scalars.

Source: the lattice of JAX's "Type promotion semantics" document. Nodes are dtypes and the three weak
kinds `int*`, `float*`, `complex*`; the common type is the least upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..support.config import current
from ..support.errors import ArgumentError, DtypeError
from ..support.memo import cached
from .types import (
    BOOL,
    RARE_FLOATS,
    ArrayType,
    Dtype,
    as_dtype,
    bfloat16,
    canonical_dtype,
    float8_e4m3fn,
    float8_e5m2,
    int2,
    int4,
    is_key,
    itemsize_bits,
    kind,
    uint2,
    uint4,
)

_D = np.dtype
_U = [_D(f"uint{b}") for b in (8, 16, 32, 64)]
_I = [_D(f"int{b}") for b in (8, 16, 32, 64)]
_F16, _F32, _F64, _C64, _C128 = (_D(t) for t in ("float16", "float32", "float64", "complex64", "complex128"))

_RARE = [as_dtype(name) for name in RARE_FLOATS]

# Each node with the nodes directly above it.
LATTICE: dict[Any, list[Any]] = {
    BOOL: ["int*"],
    "int*": [_U[0], _I[0], uint2, uint4, int2, int4],
    uint2: [], uint4: [], int2: [], int4: [],
    _U[0]: [_U[1], _I[1]], _U[1]: [_U[2], _I[2]], _U[2]: [_U[3], _I[3]], _U[3]: ["float*"],
    _I[0]: [_I[1]], _I[1]: [_I[2]], _I[2]: [_I[3]], _I[3]: ["float*"],
    "float*": [float8_e4m3fn, float8_e5m2, *_RARE, bfloat16, _F16, "complex*"],
    float8_e4m3fn: [], float8_e5m2: [], **{rare: [] for rare in _RARE},
    bfloat16: [_F32], _F16: [_F32], _F32: [_F64, _C64], _F64: [_C128],
    "complex*": [_C64], _C64: [_C128], _C128: [],
}  # fmt: skip

_WEAK = {"bool": BOOL, "int": "int*", "uint": "int*", "float": "float*", "complex": "complex*"}
_WEAK_DTYPE = {"int*": _D("int64"), "float*": _D("float64"), "complex*": _D("complex128")}


def _above(node: Any, seen: set[Any]) -> set[Any]:
    if node not in seen:
        seen.add(node)
        for parent in LATTICE[node]:
            _above(parent, seen)
    return seen


_ABOVE = {node: frozenset(_above(node, set())) for node in LATTICE}


@cached()
def _least_upper_bound(nodes: frozenset[Any]) -> Any:
    common = frozenset.intersection(*(_ABOVE.get(n, frozenset((n,))) for n in nodes))
    least = [n for n in common if common <= _ABOVE.get(n, common)]
    return least[0] if least else None


@cached()
def _promote(types: tuple[tuple[Dtype, bool], ...], mode: str, x64: bool) -> tuple[Dtype, bool]:
    if any(is_key(dtype) for dtype, _ in types):
        if len({dtype for dtype, _ in types}) == 1:
            return types[0][0], False
        raise DtypeError("random keys do not mix with numbers", "use `random.key_data` to see a key's bits")
    if not types:
        raise ArgumentError("a common dtype of no arrays", "pass one at least")
    nodes = frozenset(_WEAK[kind(dtype)] if weak else dtype for dtype, weak in types)
    strong = [n for n in nodes if not isinstance(n, str)]
    if mode == "strict" and len(set(strong)) > 1:
        names = ", ".join(sorted(map(str, strong)))
        raise DtypeError(
            f"dtypes {names} are not the same, and numpy_dtype_promotion is 'strict'", "cast with `astype`"
        )
    node = _least_upper_bound(nodes)
    if node is None:
        names = ", ".join(sorted(map(str, strong)))
        raise DtypeError(f"dtypes {names} have no implicit common type", "cast one with `astype`")
    if mode == "strict" and strong and node != strong[0]:
        names = " and ".join(f"{dtype} (of a number without a dtype)" if weak else str(dtype) for dtype, weak in types)
        raise DtypeError(
            f"{names} are of unlike kinds, and numpy_dtype_promotion is 'strict'", "cast with `astype`"
        )
    if isinstance(node, str):
        # All-weak arguments keep the widest dtype among those of the winning kind.
        same = [dtype for dtype, _ in types if _WEAK[kind(dtype)] == node]
        dtype = max(same, key=lambda d: d.itemsize) if same else _WEAK_DTYPE[node]
        return canonical_dtype(dtype), True
    return canonical_dtype(node), node is BOOL and all(weak for _, weak in types)


def promote_types(types: Sequence[ArrayType]) -> tuple[Dtype, bool]:
    """The common dtype of some types, and whether it is weak."""
    config = current()
    key = tuple((t.dtype, t.weak_type) for t in types)
    return _promote(key, config.numpy_dtype_promotion, config.enable_x64)


def to_inexact(dtype: Dtype) -> Dtype:
    """The floating dtype that an integer or boolean dtype becomes in functions such as `sin`.

    That is float32, and of integers of 64 bits float64.
    """
    if kind(dtype) in ("float", "complex"):
        return dtype
    if is_key(dtype):
        raise DtypeError("a random key has no numeric value", "use `random.key_data`")
    return canonical_dtype(_F64 if itemsize_bits(dtype) == 64 else _F32)
