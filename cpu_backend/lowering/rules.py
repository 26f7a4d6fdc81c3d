"""`RULES`: what the equations of a body become; `REFUSED`: what no machine code of a CPU does, each with its reason.

A rule takes the `Body`, operands as nodes (Refs as memories), the types of the results and the parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program
from ...core.ir.types import INT32
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.contraction.fft import fft_p
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.custom.checkpoint import checkpoint_p, name_p, optimization_barrier_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p, linear_call_p
from ...core.primitives.elementwise import conversion as conv
from ...core.primitives.external.host_callback import debug_callback_p, io_callback_p, pure_callback_p
from ...core.primitives.movement import gather_scatter
from ...core.primitives.movement import shape as shp
from ...core.primitives.movement.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from ...core.primitives.movement.sort import sort_p, top_k_p
from ...core.primitives.reduction import reduce as red
from ...core.primitives.refs.state_primitives import Index, Span, addupdate_p, get_p, swap_p, whole
from ...core.primitives.special import cumulative
from ...core.primitives.spmd import collective
from ...lang.kernel.kernel import Kernel
from ...lang.legalize import Backend, KernelPass
from ...lang.legalize.opset import FACTORED, WARPGROUPS
from ...lang.ops import remote_dma
from ...lang.ops.atomics import atomic_cas_p
from ...lang.ops.basic import multiple_of_p
from ...lang.ops.inline_asm import staged_p
from ...lang.ops.mesh_axes import device_index_p
from ...lang.targets.target import Target
from ...lang.tpu import approx_reciprocal_p
from ...lang.transforms.desugar import desugared
from ...lang.transforms.dynamic_grid import static
from . import elementwise
from .access import At
from .body import Body, Rule
from .expression_graph import (
    STORED,
    Accumulate,
    Cumulative,
    Dot,
    Fold,
    Iota,
    Load,
    Map,
    Memory,
    Monoid,
    Node,
    Number,
    Product,
    Reduce,
    View,
)
from .indexed import gather, scatter, scatter_add
from .refusal import refuse
from .split_stores import split_stores

# ---------------------------------------------------------------------------- elements


def _mapped(rule: elementwise.Rule, primitive: Primitive) -> Rule:
    def made(e: Body, operands: Sequence[Node], outs: Sequence[Any], **params: Any) -> list[Node]:
        (out,) = outs
        if params.get("accuracy") is not None:
            raise refuse(f"{primitive} is asked for an accuracy of its own")
        given = {k: v for k, v in params.items() if k in ("rounding_method",)}
        cost = elementwise.COST.get(primitive, 1) * (2 if str(out.dtype) == "float64" else 1)
        return [Map(out.shape, out.dtype, tuple(operands), rule=rule, params=given, cost=cost)]

    return made


def _bitcast(e: Body, operands: Sequence[Node], outs: Sequence[Any], **_: Any) -> list[Node]:
    (x,), (out,) = operands, outs
    if np.dtype(x.dtype).itemsize != np.dtype(out.dtype).itemsize:
        raise refuse(f"the bits of {x.dtype} as {out.dtype}, of another width")
    return [Map(out.shape, out.dtype, (x,), rule=elementwise.bitcast)]


def _same(e: Body, operands: Sequence[Node], outs: Sequence[Any], **_: Any) -> list[Node]:
    return list(operands)


def _reciprocal(b: Any, x: Any, **_: Any) -> Any:
    return 1.0 / x


# ---------------------------------------------------------------------------- shapes


def _view(x: Node, shape: Sequence[int], places: Sequence[tuple[int | None, int, int]]) -> Node:
    if isinstance(x, Number):
        return Number(tuple(shape), x.dtype, value=x.value)
    return View(tuple(shape), x.dtype, (x,), places=tuple(places))


def _broadcast(
    e: Body, operands: Sequence[Node], outs: Sequence[Any], broadcast_dimensions: Any, **_: Any
) -> list[Node]:
    x, out = operands[0], outs[0]
    places = [(None, 0, 0) if n == 1 else (d, 0, 1) for n, d in zip(x.shape, broadcast_dimensions, strict=True)]
    if x.shape and x.shape[-1] > 1 and broadcast_dimensions[-1] == len(out.shape) - 1 and out.size > x.size:
        e.keep_dear(x)  # rows that are repeated
    return [_view(x, out.shape, places)]


def _reshape(e: Body, operands: Sequence[Node], outs: Sequence[Any], **_: Any) -> list[Node]:
    x, out = operands[0], outs[0]
    long = [d for d, n in enumerate(out.shape) if n != 1]
    if [n for n in x.shape if n != 1] == [out.shape[d] for d in long]:
        axes = iter(long)
        return [_view(x, out.shape, [(None, 0, 0) if n == 1 else (next(axes), 0, 1) for n in x.shape])]
    if isinstance(x, Number):
        return [Number(out.shape, x.dtype, value=x.value)]
    return [e.kept(x, out.shape)]


def _transpose(e: Body, operands: Sequence[Node], outs: Sequence[Any], permutation: Any, **_: Any) -> list[Node]:
    return [_view(operands[0], outs[0].shape, [(permutation.index(d), 0, 1) for d in range(len(permutation))])]


def _rev(e: Body, operands: Sequence[Node], outs: Sequence[Any], dimensions: Any) -> list[Node]:
    x = operands[0]
    return [_view(x, x.shape, [(d, n - 1, -1) if d in dimensions else (d, 0, 1) for d, n in enumerate(x.shape)])]


def _slice(
    e: Body, operands: Sequence[Node], outs: Sequence[Any], start_indices: Any, strides: Any, **_: Any
) -> list[Node]:
    steps = strides or (1,) * len(start_indices)
    places = [(d, int(s), int(k)) for d, (s, k) in enumerate(zip(start_indices, steps, strict=True))]
    return [_view(operands[0], outs[0].shape, places)]


def _split(e: Body, operands: Sequence[Node], outs: Sequence[Any], sizes: Any, axis: int) -> list[Node]:
    starts = itertools.accumulate(sizes, initial=0)
    return [
        _view(operands[0], out.shape, [(d, start if d == axis else 0, 1) for d in range(len(out.shape))])
        for out, start in zip(outs, starts, strict=False)
    ]  # fmt: skip


def _dynamic_slice(e: Body, operands: Sequence[Node], outs: Sequence[Any], **_: Any) -> list[Node]:
    x, *starts = operands
    out = outs[0]
    moved = [d for d, (n, m) in enumerate(zip(x.shape, out.shape, strict=True)) if n != m]
    places = tuple((d, 0, 1) for d in range(len(x.shape)))
    given = (x, *(starts[d] for d in moved))
    return [View(out.shape, x.dtype, given, places=places, starts=tuple((d, i) for i, d in enumerate(moved, 1)))]


def _iota(e: Body, operands: Sequence[Node], outs: Sequence[Any], dimension: int, **_: Any) -> list[Node]:
    return [Iota(outs[0].shape, outs[0].dtype, axis=dimension)]


def _parts(e: Body, out: Any, parts: Sequence[tuple[Node, tuple[int, ...], tuple[int, ...]]]) -> list[Node]:
    """An array of parts, each with the place of its first element and the distances of its elements."""
    memory = e.allocate(out.dtype, out.shape)
    for node, starts, strides in parts:
        if node.size:
            index = Index(Span(s, n, k) for s, n, k in zip(starts, node.shape, strides, strict=True))
            e.store(memory, index, node, (), None, False)
    e.flush()
    memory.fixed = True
    return [e.load(memory)]


def _concatenate(e: Body, operands: Sequence[Node], outs: Sequence[Any], dimension: int) -> list[Node]:
    ndim, starts = len(outs[0].shape), itertools.accumulate((x.shape[dimension] for x in operands), initial=0)
    return _parts(e, outs[0], [
        (x, tuple(start if d == dimension else 0 for d in range(ndim)), (1,) * ndim)
        for x, start in zip(operands, starts, strict=False)
    ])  # fmt: skip


def _pad(e: Body, operands: Sequence[Node], outs: Sequence[Any], padding_config: Any) -> list[Node]:
    x, value = operands
    out = outs[0]
    if any(low < 0 or high < 0 for low, high, _ in padding_config):
        raise refuse("padding that cuts")
    around = _view(value, out.shape, ())
    starts, steps = tuple(low for low, _, _ in padding_config), tuple(inner + 1 for *_, inner in padding_config)
    zero = (0,) * len(out.shape)
    return _parts(e, out, [(around, zero, tuple(1 for _ in zero)), (x, starts, steps)])


def _update_slice(e: Body, operands: Sequence[Node], outs: Sequence[Any], **_: Any) -> list[Node]:
    x, part, *starts = operands
    memory = e.allocate(x.dtype, x.shape)
    e.store(memory, whole(x.shape), x, (), None, False)
    index = Index(Span(0 if n == m else None, m) for n, m in zip(x.shape, part.shape, strict=True))
    moved = [s for s, n, m in zip(starts, x.shape, part.shape, strict=True) if n != m]
    if part.size:
        e.store(memory, index, part, moved, None, False)
    e.flush()
    memory.fixed = True
    return [e.load(memory)]


# ---------------------------------------------------------------------------- reductions


def _reduction(name: str) -> Rule:
    def made(e: Body, operands: Sequence[Node], outs: Sequence[Any], axes: Any, **_: Any) -> list[Node]:
        x, out = operands[0], outs[0]
        if x.dtype != out.dtype:
            x = Map(x.shape, out.dtype, (x,), rule=elementwise.RULES[conv.convert_element_type_p])
        axes = tuple(a % len(x.shape) for a in axes)
        if all(x.shape[a] == 1 for a in axes):
            kept = iter(range(len(out.shape)))
            return [
                _view(x, out.shape, [(None, 0, 0) if d in axes else (next(kept), 0, 1) for d in range(len(x.shape))])
            ]
        node = Reduce(out.shape, out.dtype, (x,), axes=axes, monoid=Monoid(name))
        e.pending.append(Fold(node))
        return [node]

    return made


def _cumulative(name: str) -> Rule:
    def made(e: Body, operands: Sequence[Node], outs: Sequence[Any], axis: int, reverse: bool) -> list[Node]:
        (x,), (out,) = operands, outs
        if axis == len(x.shape) - 1 and not isinstance(x, (Load, Number, Iota)) and x.size:
            e.keep(x)  # the elements of a row are wanted one by one
        node = Accumulate(out.shape, out.dtype, (x,), axis=axis, monoid=Monoid(name), reverse=reverse)
        e.pending.append(Cumulative(node))
        return [node]

    return made


def _dot(e: Body, operands: Sequence[Node], outs: Sequence[Any], dimension_numbers: Any, **_: Any) -> list[Node]:
    (contracted, batch), out = dimension_numbers, outs[0]
    if str(out.dtype) not in ("float32", "float64", "bfloat16", "float16", "int32"):
        raise refuse(f"a product whose elements are {out.dtype}")
    for x in operands:
        if np.dtype(out.dtype).kind == "i" and np.dtype(x.dtype).kind not in "iu" or str(x.dtype) == "bool":
            raise refuse(f"a product of {x.dtype} whose elements are {out.dtype}")
    (lc, rc), (lb, rb) = contracted, batch
    sums = [root.value for root in e.pending if isinstance(root, Fold)]
    for x in operands:
        if isinstance(x, Map) and x.dtype == out.dtype and any(x in total.operands for total in sums):
            e.keep(x)  # in the pass that sums it, as the exponentials of rows
    node = Dot(out.shape, out.dtype, tuple(operands), contracted=(tuple(lc), tuple(rc)), batch=(tuple(lb), tuple(rb)))
    e.pending.append(Product(node))
    return [node]


# ---------------------------------------------------------------------------- memory


def _operands(index: Index, rest: Sequence[Node], masked: bool) -> tuple[Sequence[Node], Node | None]:
    n = len(index.dynamic)
    return rest[:n], rest[n] if masked else None


def _get(e: Body, operands: Sequence[Any], outs: Sequence[Any], index: Index, masked: bool = False) -> list[Node]:
    memory, *rest = operands
    return [e.get(memory, index, rest, masked)]


def _swap(e: Body, operands: Sequence[Any], outs: Sequence[Any], index: Index, masked: bool = False) -> list[Node]:
    memory, value, *rest = operands
    positions, mask = _operands(index, rest, masked)
    old = e.get(memory, index, positions if mask is None else [*positions, mask], masked)
    e.store(memory, index, value, positions, mask, False)
    return [old]


def _addupdate(e: Body, operands: Sequence[Any], outs: Sequence[Any], index: Index, masked: bool = False) -> list[Node]:
    memory, value, *rest = operands
    positions, mask = _operands(index, rest, masked)
    e.store(memory, index, value, positions, mask, True)
    return []


# ---------------------------------------------------------------------------- control


def _call(e: Body, operands: Sequence[Any], outs: Sequence[Any], program: Program, **_: Any) -> list[Any]:
    return e.run(program, operands)


def _settled(e: Body, operands: Sequence[Any]) -> None:
    for x in operands:
        if isinstance(x, Node):
            e.settle(x)
    e.barrier()


def _put(e: Body, memories: Sequence[Memory], values: Sequence[Node]) -> None:
    for memory, value in zip(memories, values, strict=True):
        e.store(memory, whole(memory.shape), value, (), None, False)
    e.flush()


def _results(e: Body, memories: Sequence[Memory]) -> list[Node]:
    for memory in memories:
        memory.fixed = True
    return [e.load(m) for m in memories]


def _cond(e: Body, operands: Sequence[Any], outs: Sequence[Any], branches: Sequence[Program]) -> list[Node]:
    which, *rest = operands
    _settled(e, operands)
    number, b = e.scalar(which), e.b
    memories = [e.allocate(t.dtype, t.shape) for t in outs]

    def branch(program: Program) -> None:
        with e.emit.nest.inside("branch"), e.region():
            _put(e, memories, e.run(program, rest))
            e.flush()

    def among(first: int) -> None:
        if first == len(branches) - 1:
            branch(branches[first])
            return
        here = b.compare("eq", number, 0) if which.dtype == bool else b.compare("sle", number, first)
        b.either(here, lambda: branch(branches[first]), lambda: among(first + 1))

    among(0)
    return _results(e, memories)


def _scan(
    e: Body, operands: Sequence[Any], outs: Sequence[Any], program: Program, num_consts: int, num_carry: int,
    length: int, reverse: bool, **_: Any,
) -> list[Node]:  # fmt: skip
    _settled(e, operands)
    consts = operands[:num_consts]
    carry, xs = operands[num_consts : num_consts + num_carry], operands[num_consts + num_carry :]
    states = [e.allocate(t.dtype, t.shape) for t in outs[:num_carry]]
    ys = [e.allocate(t.dtype, t.shape) for t in outs[num_carry:]]
    _put(e, states, carry)
    _settled(e, xs)
    if length:
        with e.emit.nest.inside(f"loop of {length}, in order"), e.b.loop(0, length, empty=False) as loop, e.region():
            turn = length - 1 - loop.index if reverse else loop.index
            here = At(turn)
            number = e.emit.held(e.b.cast("trunc", turn, "i32"), INT32)
            slices = [_row(e, x, number) for x in xs]
            given = [*consts, *(e.load(m) for m in states), *slices]
            found = e.run(program, given)
            rows = [_place(m, here, e) for m in ys]
            _put(e, [*states, *rows], found)
            e.flush()
    return _results(e, [*states, *ys])


def _row(e: Body, x: Node, turn: Node) -> Node:
    """One element along the first axis."""
    places = ((None, 0, 0), *((d - 1, 0, 1) for d in range(1, len(x.shape))))
    return View(x.shape[1:], x.dtype, (x, turn), places=places, starts=((0, 1),))


def _place(memory: Memory, here: At, e: Body) -> Memory:
    scalar = STORED[str(memory.dtype)]
    base = e.b.offset(memory.base, e.emit.mul(here.base, memory.strides[0]), scalar)
    return Memory(memory.name, memory.dtype, memory.shape[1:], memory.strides[1:], base)


def _while(
    e: Body, operands: Sequence[Any], outs: Sequence[Any], cond_program: Program, body_program: Program,
    cond_nconsts: int, body_nconsts: int, **_: Any,
) -> list[Node]:  # fmt: skip
    _settled(e, operands)
    n, b = cond_nconsts + body_nconsts, e.b
    tests, consts, carry = operands[:cond_nconsts], operands[cond_nconsts:n], operands[n:]
    kept = [x for x in carry if not isinstance(x, Memory)]
    states = [e.allocate(x.dtype, x.shape) for x in kept]
    _put(e, states, kept)
    head, inside, after = b.label(), b.label(), b.label()

    def state() -> list[Any]:
        held = iter(states)
        return [x if isinstance(x, Memory) else e.load(next(held)) for x in carry]

    b.jump(head)
    b.start(head)
    with e.region():
        (going,) = e.run(cond_program, [*tests, *state()])
        test = e.scalar(going)
        b.branch(test, inside, after)
        b.start(inside)
    with e.emit.nest.inside("loop with a computed condition"), e.region():
        found = [x for x in e.run(body_program, [*consts, *state()]) if not isinstance(x, Memory)]
        _put(e, states, found)
        b.jump(head)
    b.start(after)
    return _results(e, states)


RULES: dict[Primitive, Rule] = {
    **{p: _mapped(rule, p) for p, rule in elementwise.RULES.items()},
    approx_reciprocal_p: _mapped(_reciprocal, approx_reciprocal_p),
    conv.bitcast_convert_type_p: _bitcast,
    **dict.fromkeys((shp.copy_p, multiple_of_p, name_p, optimization_barrier_p, staged_p), _same),
    shp.broadcast_in_dim_p: _broadcast, shp.reshape_p: _reshape, shp.squeeze_p: _reshape, shp.transpose_p: _transpose,
    shp.rev_p: _rev, shp.slice_p: _slice, shp.split_p: _split, shp.iota_p: _iota, shp.concatenate_p: _concatenate,
    shp.pad_p: _pad, dynamic_slice_p: _dynamic_slice, dynamic_update_slice_p: _update_slice,
    red.reduce_sum_p: _reduction("add"), red.reduce_prod_p: _reduction("mul"), red.reduce_max_p: _reduction("max"),
    red.reduce_min_p: _reduction("min"), red.reduce_and_p: _reduction("and"), red.reduce_or_p: _reduction("or"),
    red.reduce_xor_p: _reduction("xor"),
    cumulative.cumsum_p: _cumulative("add"), cumulative.cumprod_p: _cumulative("mul"),
    cumulative.cummax_p: _cumulative("max"), cumulative.cummin_p: _cumulative("min"),
    gather_scatter.gather_p: gather, gather_scatter.scatter_p: scatter, gather_scatter.scatter_add_p: scatter_add,
    dot_general_p: _dot, get_p: _get, swap_p: _swap, addupdate_p: _addupdate,
    jit_p: _call, custom_jvp_call_p: _call, custom_vjp_call_p: _call, linear_call_p: _call, checkpoint_p: _call,
    cond_p: _cond, scan_p: _scan, while_p: _while,
}  # fmt: skip
_HOST = "a kernel's machine code does not call the host"
_DEVICES = "a kernel reaches this device's memory alone"
_STEPS = "it works through a whole axis, each element by others; XLA's route has it"
REFUSED: dict[Primitive, str] = {
    **dict.fromkeys((debug_callback_p, io_callback_p, pure_callback_p), _HOST),
    **dict.fromkeys((*collective.PRIMITIVES, device_index_p, *remote_dma.PRIMITIVES), _DEVICES),
    **dict.fromkeys(sorted(FACTORED, key=repr), "XLA's solvers do it, around the kernel"),
    **dict.fromkeys(WARPGROUPS, "a CPU has no warpgroups"),
    **dict.fromkeys((sort_p, top_k_p, fft_p), _STEPS),
    atomic_cas_p: "cells of a parallel axis are not compared and exchanged here",
}  # fmt: skip


def _plain(kernel: Kernel, target: Target) -> Kernel:
    """The kernel over a static grid, in plain accesses, with stores of concatenated values split."""
    return split_stores(desugared(static(kernel, "machine code of a CPU needs")))


_PASSES = (KernelPass("desugar", "desugared", _plain),)
_COMPLEX = "a vector's lanes are numbers, not pairs"
BACKEND = Backend("machine code of a CPU", RULES, REFUSED, dict.fromkeys(("complex64", "complex128"), _COMPLEX),
                  lambda kernel, target: (_PASSES,))  # fmt: skip
