"""Primitives that hold Programs or talk to the outside: their laws are tests of their own."""

import numpy as np

from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.custom.checkpoint import name_p, optimization_barrier_p

from . import Case

_F32 = ArrayType((2, 3), np.float32)

CASES = [
    Case(name_p, (_F32,), {"name": "x"}),
    Case(optimization_barrier_p, (_F32, ArrayType((), np.int32))),
]

_PROGRAMS = "holds Programs of fixed types; compared with plain Python under every transformation"
_AXES = "has a meaning only under vmap; compared with NumPy on the whole batch"
_HOST = "calls the host"

ELSEWHERE = {
    "cond": f"tests/core/primitives/test_control_flow.py: {_PROGRAMS}",
    "while": f"tests/core/primitives/test_control_flow.py: {_PROGRAMS}",
    "while_vjp": f"tests/core/primitives/test_loop_reversal.py: {_PROGRAMS}",
    "while_lin": f"tests/core/primitives/test_loop_reversal.py: {_PROGRAMS}",
    "scan": f"tests/core/primitives/test_control_flow.py: {_PROGRAMS}",
    "custom_jvp_call": f"tests/core/primitives/test_custom_derivatives.py: {_PROGRAMS}",
    "custom_vjp_call": f"tests/core/primitives/test_custom_derivatives.py: {_PROGRAMS}",
    "custom_lin": f"tests/core/primitives/test_custom_derivatives.py: {_PROGRAMS}",
    "linear_call": f"tests/core/primitives/test_custom_derivatives.py: {_PROGRAMS}",
    "checkpoint": f"tests/core/primitives/test_checkpoint.py: {_PROGRAMS}",
    "pure_callback": f"tests/core/primitives/test_host_callback.py: {_HOST}",
    "io_callback": f"tests/core/primitives/test_host_callback.py: {_HOST}",
    "debug_callback": f"tests/core/primitives/test_host_callback.py: {_HOST}",
    "all_gather_invariant": f"tests/sharding/eight/mapped.py: {_AXES}",
    **{
        name: f"tests/core/primitives/test_collective.py: {_AXES}"
        for name in (
            "psum",
            "pmax",
            "pmin",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "ppermute",
            "pbroadcast",
            "axis_index",
        )
    },
}
