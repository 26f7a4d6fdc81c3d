"""Gated MLPs, `(act(x @ gate) * (x @ up)) @ down`: SiLU for SwiGLU, GELU for GeGLU (Shazeer, 2020, arXiv:2002.05202).

One kernel makes both products of a block and their gated product, so that neither is stored; its derivative makes them
again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright import lax
from tilewright import numpy as jnp

from ...core.errors import ShapeError
from ...core.trace import shape_of
from ...lang.block import BlockSpec
from ...lang.call import kernel_call
from ...lang.ops import cdiv
from ..cost import Cost
from .operation import Operation, as_rows, like, nbytes, row_spec, row_tile, work_dtype


def _silu(x: Any) -> Any:
    return x * lax.logistic(x)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + jnp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def _product(x: Any, w: Any, work: Any) -> Any:
    return lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=work)


def _hidden(activation: Callable[[Any], Any], name: str, x: Any, gate: Any, up: Any, target: Any) -> Any:
    (m, d), n = shape_of(x), shape_of(gate)[1]
    work = work_dtype(x, gate)
    rows, columns = row_tile(m, d * work.itemsize, target), row_tile(n, d * work.itemsize, target)

    def body(x: Any, gate: Any, up: Any, out: Any) -> None:
        made = activation(_product(x[...], gate[...], work)) * _product(x[...], up[...], work)
        out[...] = made.astype(out.dtype)

    weights = BlockSpec((d, columns), lambda i, j: (0, j))
    return kernel_call(
        body, like(x, (m, n)), grid=(cdiv(m, rows), cdiv(n, columns)), in_specs=[row_spec(rows, d), weights, weights],
        out_specs=BlockSpec((rows, columns), lambda i, j: (i, j)), name=name,
    )(x, gate, up)  # fmt: skip


def _checked(x: Any, gate: Any, up: Any, down: Any, what: str) -> None:
    shapes = [shape_of(a) for a in (x, gate, up, down)]
    s, g, u, o = shapes
    if not s or len(g) != 2 or g != u or len(o) != 2 or s[-1] != g[0] or o[0] != g[1]:
        raise ShapeError(f"{what} of {shapes}", "shapes are (..., d), (d, n), (d, n), (n, o)")


def _mlp(activation: Callable[[Any], Any], name: str) -> tuple[Any, Any]:
    def function(x: Any, gate: Any, up: Any, down: Any, *, target: Any = "cpu") -> Any:
        x, gate, up, down = (jnp.asarray(a) for a in (x, gate, up, down))
        _checked(x, gate, up, down, name)
        leading = shape_of(x)[:-1]
        if 0 in (*shape_of(x), *shape_of(gate)):
            return reference(x, gate, up, down)
        hidden = _hidden(activation, name, as_rows(x), gate, up, target)
        work = work_dtype(x, down)
        return _product(hidden, down, work).astype(x.dtype).reshape(*leading, shape_of(down)[1])

    def reference(x: Any, gate: Any, up: Any, down: Any) -> Any:
        work = work_dtype(x, gate)
        rows = x.reshape(math.prod(shape_of(x)[:-1]), shape_of(x)[-1])
        hidden = (activation(_product(rows, gate, work)) * _product(rows, up, work)).astype(x.dtype)
        return _product(hidden, down, work).astype(x.dtype).reshape(*shape_of(x)[:-1], shape_of(down)[1])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{name}: `(act(x @ gate) * (x @ up)) @ down`, (..., d), (d, n), (d, n), (n, o).

    Raises ShapeError where the shapes do not fit.

    >>> import numpy as np
    >>> x = np.ones((2, 3), np.float32)
    >>> {name}(x, np.ones((3, 4), np.float32), np.ones((3, 4), np.float32), np.ones((4, 3), np.float32)).shape
    (2, 3)
    """
    return function, reference


def cost(x: Any, gate: Any, up: Any, down: Any) -> Cost:
    rows, (d, n) = math.prod(shape_of(x)[:-1]), shape_of(gate)
    hidden = rows * n
    out = rows * shape_of(down)[1]
    moved = nbytes(x, gate, up, down) + 2 * hidden * x.dtype.itemsize + out * x.dtype.itemsize
    return Cost(hidden * (4 * d + 4 + 2 * shape_of(down)[1]), hidden, moved)


swiglu, _swiglu_reference = _mlp(_silu, "swiglu")
geglu, _geglu_reference = _mlp(_gelu, "geglu")

OPERATIONS = (
    Operation("swiglu", swiglu, _swiglu_reference, cost),
    Operation("geglu", geglu, _geglu_reference, cost),
)
