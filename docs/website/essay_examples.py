"""What the drawings of the essays are of: operations, a matrix product, a kernel with its adjoint, a softmax."""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.core.ir.program import Program
from tilewright.lang.kernel.kernel import Kernel


def _struct(*shape: int) -> tw.ShapeDtypeStruct:
    return tw.ShapeDtypeStruct(shape, "float32")


OPERATIONS: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("x @ y", lambda x, y: x @ y, (_struct(64, 32), _struct(32, 48))),
    ("x.max(axis=1)", lambda x: x.max(axis=1), (_struct(64, 32),)),
    ("cumsum(x, axis=1)", lambda x: tnp.cumsum(x, axis=1), (_struct(64, 32),)),
    ("x.T", lambda x: x.T, (_struct(64, 32),)),
    ("x.reshape(8, 8, 32)", lambda x: x.reshape(8, 8, 32), (_struct(64, 32),)),
    ("sums of 3 neighbours", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 1), "SAME"), (_struct(64, 32),)),
)
FUSED: tuple[Any, tuple[Any, ...]] = nn.softmax, (_struct(4096, 1024),)


def _product(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
    @tl.when(tl.program_id(2) == 0)
    def _() -> None:
        o_ref[...] = tnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] @ y_ref[...]


def _matmul(x: Any, y: Any) -> Any:
    return tl.kernel_call(
        _product, _struct(48, 32), grid=(3, 2, 4),
        in_specs=[tl.BlockSpec((16, 16), lambda i, j, s: (i, s)), tl.BlockSpec((16, 16), lambda i, j, s: (s, j))],
        out_specs=tl.BlockSpec((16, 16), lambda i, j, s: (i, j)),
    )(x, y)  # fmt: skip


def _scaled_tanh(x_ref: Any, w_ref: Any, o_ref: Any) -> None:
    o_ref[...] = tnp.tanh(x_ref[...]) * w_ref[...]


def _scaled(x: Any, w: Any) -> Any:
    rows = tl.BlockSpec((4, 4), lambda i: (i, 0))
    return tl.kernel_call(_scaled_tanh, _struct(8, 4), grid=2, in_specs=[rows, rows], out_specs=rows,
                          name="scaled_tanh")(x, w)  # fmt: skip


def _kernels(program: Program) -> list[Kernel]:
    return [eqn.params["kernel"] for eqn in program.eqns if eqn.primitive.name == "kernel_call"]


def matmul_kernel() -> Kernel:
    """A matrix product of 3 by 2 blocks, summed over 4."""
    return _kernels(tw.make_jaxpr(_matmul)(_struct(48, 64), _struct(64, 32)))[0]


def adjoint_kernels() -> list[Kernel]:
    """A kernel, and the one that is its derivative by its first operand in reverse mode."""
    program = tw.compile(tw.grad(lambda x, w: _scaled(x, w).sum()), _struct(8, 4), _struct(8, 4), stop="program")
    return _kernels(program)
