"""AdamW over a tree: moments, bias correction, decay and the new parameters in one pass over memory.

`m = b1 m + (1 - b1) g`, `v = b2 v + (1 - b2) g^2`, `p -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay p)`
(Loshchilov and Hutter, 2019, arXiv:1711.05101). One kernel a leaf with three results, each in the place of its operand
where it is donated.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.support import pytree
from ...core.tracing.trace import shape_of, trace_program, typeof
from ...lang.call.custom_partition import partitioned_p
from ...lang.call.kernel_call import kernel_call
from ...lang.kernel.block_spec import SMEM, BlockSpec
from ...lang.ops.basic import cdiv
from ...lang.partition.custom_rule import Partition
from ...lang.targets.target import Target, current_target
from ..cost import Cost
from .base import FLOAT32, Operation, like, nbytes, work_dtype

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef
    from ...core.support.pytree import PyTree

GPU_TILE = 1024  # elements of a program on a GPU


def init(params: Any) -> dict[str, Any]:
    """The state before the first step: zero moments (float32 at least) in the tree of the parameters, and the count.

    >>> import numpy as np
    >>> sorted(init({"w": np.ones(2, np.float32)}))
    ['count', 'm', 'v']
    """

    def zeros(p: Operand) -> Any:
        return jnp.zeros(shape_of(p), work_dtype(p))

    return {"count": jnp.zeros((), jnp.int32), "m": pytree.map(zeros, params), "v": pytree.map(zeros, params)}


def _formula(
    p: Array, g: Array, m: Array, v: Array, c1: Array, c2: Array, lr: Array, b1: float, b2: float, epsilon: float,
    decay: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    g = g.astype(m.dtype)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    wide = p.astype(m.dtype)
    return (wide - lr * (m * c1 / (jnp.sqrt(v * c2) + epsilon) + decay * wide)).astype(p.dtype), m, v


def _leaf(
    p: Array, g: Array, m: Array, v: Array, factors: Array, fixed: tuple[float, ...], target: Target
) -> list[Any]:
    """The step of a leaf; of an array that a mesh splits each device takes that of its part."""
    if not math.prod(shape_of(p)):
        return [p, m, v]

    step = functools.partial(_flat, fixed=fixed, target=target)
    names = tuple(f"d{i}" for i in range(len(shape_of(p))))
    rule = Partition.of((names, names, names, names, (None,)), (names,) * 3, lambda axes, *parts: step(*parts))
    operands = (p, g, m, v, factors)
    return partitioned_p.bind(*operands, program=trace_program(step, [*map(typeof, operands)], "adamw"), rule=rule)


def _flat(
    p: Array, g: Array, m: Array, v: Array, factors: Array, fixed: tuple[float, ...], target: Target
) -> list[Any]:
    size = math.prod(shape_of(p))
    held = 2 * nbytes(p, g, m, v, p, m, v) // size
    target = current_target(target)
    fits = max(target.block_bytes // held // target.lanes, 1) * target.lanes
    tile = size if target.whole_arrays else min(size, GPU_TILE if target.gpu else fits)
    block, numbers = BlockSpec((tile,), lambda i: (i,)), BlockSpec((3,), lambda i: (0,), memory_space=SMEM)

    def body(p: AnyRef, g: AnyRef, m: AnyRef, v: AnyRef, factors: AnyRef, *outs: Any) -> None:
        made = _formula(p[...], g[...], m[...], v[...], factors[0], factors[1], factors[2], *fixed)
        for out, x in zip(outs, made, strict=True):
            out[...] = x

    flat = [x.reshape(size) for x in (p, g, m, v)]
    made = kernel_call(
        body, [like(x, (size,)) for x in (p, m, v)], grid=cdiv(size, tile), in_specs=[block] * 4 + [numbers],
        out_specs=[block] * 3, input_output_aliases={0: 0, 2: 1, 3: 2}, name="adamw",
    )(*flat, factors)  # fmt: skip
    return [x.reshape(shape_of(p)) for x in made]


def _factors(count: Array, learning_rate: ArrayLike, b1: float, b2: float) -> Any:
    t = count.astype(jnp.float32)
    decays = [1 / (1 - FLOAT32.type(b) ** t) for b in (b1, b2)]
    return jnp.stack([*decays, jnp.asarray(learning_rate, jnp.float32)])


def _walk(
    step: Callable[..., Any], params: Any, grads: Any, state: PyTree, learning_rate: ArrayLike, b1: float, b2: float
) -> tuple[Any, Any]:
    count = jnp.asarray(state["count"]) + np.int32(1)
    factors = _factors(count, learning_rate, b1, b2)
    leaves, structure = pytree.flatten(params)
    rest = [pytree.flatten(t)[0] for t in (grads, state["m"], state["v"])]
    made = [step(*(jnp.asarray(x) for x in four), factors) for four in zip(leaves, *rest, strict=True)]
    p, m, v = (structure.unflatten([x[i] for x in made]) for i in range(3))
    return p, {"count": count, "m": m, "v": v}


def adamw(
    params: Any, grads: Any, state: dict[str, Any], *, learning_rate: ArrayLike, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-8, weight_decay: float = 1e-4, target: str | None = None,
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """One step of AdamW over a tree: the new parameters and the new state; `learning_rate` may be traced.

    >>> import numpy as np
    >>> params = {"w": np.ones(2, np.float32)}
    >>> new, state = adamw(params, params, init(params), learning_rate=0.1, weight_decay=0.)
    >>> print(np.asarray(new["w"]).round(4))
    [0.9 0.9]
    """
    fixed = (b1, b2, epsilon, weight_decay)

    def step(p: Array, g: Array, m: Array, v: Array, factors: Array) -> Any:
        return _leaf(p, g, m, v, factors.astype(m.dtype), fixed, target)

    return _walk(step, params, grads, state, learning_rate, b1, b2)


def reference(
    params: PyTree, grads: PyTree, state: dict[str, Any], *, learning_rate: ArrayLike,
    b1: float = 0.9, b2: float = 0.999, epsilon: float = 1e-8, weight_decay: float = 1e-4,
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    def step(p: Array, g: Array, m: Array, v: Array, factors: Array) -> Any:
        first, second, rate = (factors[i].astype(m.dtype) for i in range(3))
        return _formula(p, g, m, v, first, second, rate, b1, b2, epsilon, weight_decay)

    return _walk(step, params, grads, state, learning_rate, b1, b2)


def cost(params: Any, grads: Any, state: Any, **options: Any) -> Cost:
    size = sum(math.prod(shape_of(p)) for p in pytree.leaves(params))
    moments = [*pytree.leaves(state["m"]), *pytree.leaves(state["v"])]
    return Cost(14 * size, size, 2 * nbytes(*pytree.leaves(params), *moments) + nbytes(*pytree.leaves(grads)))


OPERATIONS = (Operation("adamw", adamw, reference, cost),)
