"""A kernel applied to arrays, as one primitive; and its linear map of tangents, as another."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...core.ir.primitive import AxisInfo, Linear, Primitive, Zero, all_zero
from ...core.ir.program import Effect
from ...core.ir.types import is_inexact
from ...core.support.errors import DifferentiationError, ShapeError, UnsupportedError
from ...core.transforms.batching import batch_flat
from ...core.transforms.jvp import jvp_flat
from ...core.transforms.linearize import linearize_flat
from ...core.transforms.rule_helpers import instantiate
from ...core.transforms.structural_primitives import moved
from ..analysis.facts import analyse
from ..autodiff.checkpointing import budgeted
from ..autodiff.jvp_vjp import active_inputs, jvp_kernel, run_backward, strategy
from ..interpret.interpreter import interpret
from ..kernel.kernel import Kernel
from ..transforms.checkify import checked_call
from ..transforms.desugar import desugared, differentiable
from ..transforms.dynamic_grid import static
from ..transforms.symbolic_tiles import by_tiles
from ..transforms.vmap import batched_kernel
from ..verify.communication import communicates
from ..warpgroups.specs import mesh_of


def call(kernel: Kernel, *operands: Any) -> list[Any]:
    """The outputs of a kernel at some operands."""
    return kernel_call_p.bind(*operands, kernel=kernel)


def _call_typing(*types: Any, kernel: Kernel) -> list[Any]:
    wanted = kernel.in_types
    if len(types) != len(wanted) or any(
        (t.shape, t.dtype) != (w.shape, w.dtype) for t, w in zip(types, wanted, strict=True)
    ):
        given, needed = (", ".join(t.show() for t in ts) for ts in (types, wanted))
        raise ShapeError(f"kernel {kernel.name} takes ({needed}), got ({given})")
    return kernel.out_types


def of_floats(types: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """A tangent of each result: those of floats as they are given, in order, and zeros."""
    rest = iter(given)
    return [next(rest) if is_inexact(t.dtype) else Zero(t.tangent()) for t in types]


def _axes(kernel: Kernel) -> frozenset[Any]:
    """The axes of the mesh along which what a kernel does differs."""
    return frozenset(e.operand for e in kernel.body.effects if e.kind == "device")


def _derived(kernel: Kernel) -> Kernel:
    """The kernel to be differentiated."""
    if mesh_of(kernel) is not None:
        raise DifferentiationError(
            f"kernel {kernel.name} is written for warpgroups, and has no derivative of its own",
            "give the function that calls it a `custom_vjp`", kernel.source)  # fmt: skip
    if communicates(kernel):
        raise DifferentiationError(
            f"kernel {kernel.name} exchanges data with other devices, and has no derivative of its own",
            "give the function that calls it a `custom_vjp`", kernel.source)  # fmt: skip
    return differentiable(kernel)


def _call_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, kernel: Kernel) -> tuple[list[Any], list[Any]]:
    if kernel.symbolic:
        return jvp_flat(lambda *operands: by_tiles(kernel, call, operands), primals, tangents)
    kernel = _derived(kernel)
    active = active_inputs(kernel, [type(t) is not Zero for t in tangents])
    n = len(kernel.prefetch)
    given = [instantiate(tangents[n + i]) for i in active]
    results = call(jvp_kernel(kernel, active), *primals, *given)
    n_out = len(kernel.outputs)
    return results[:n_out], of_floats(kernel.out_types, results[n_out:])


def _call_linearize(primals: Sequence[Any], nonzero: tuple[bool, ...], *, kernel: Kernel) -> Any:
    if kernel.symbolic:
        outs, tangent_map = linearize_flat(lambda *operands: by_tiles(kernel, call, operands), primals, nonzero)
        return outs, lambda *tangents: tangent_map(tangents)
    why = "reverse mode, which stores what it reads again and sums over cells, needs"
    kernel = static(_derived(kernel), why, DifferentiationError)
    kernel = kernel if analyse(desugared(kernel)).phases else budgeted(kernel)
    active = active_inputs(kernel, nonzero)
    backward = strategy(kernel, active)
    results = call(backward.forward, *primals)
    outs, saved = results[: len(kernel.outputs)], results[len(kernel.outputs) :]
    n = len(kernel.prefetch)

    def linear(*tangents: Any) -> list[Any]:
        given = [instantiate(tangents[n + i]) for i in active]
        found = kernel_linear_p.bind(*primals, *saved, *given, kernel=kernel, active=active)
        return of_floats(kernel.out_types, found)

    return outs, linear


def _call_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, kernel: Kernel) -> Any:
    if mesh_of(kernel) is not None:
        raise UnsupportedError(
            f"kernel {kernel.name} is written for warpgroups, and is batched", "call it for each row (`lax.map`), or "
            "let its grid have an axis of the batch", kernel.source)  # fmt: skip
    if communicates(kernel) or axis.name in _axes(kernel):
        raise UnsupportedError(
            f"kernel {kernel.name} speaks of other devices, and is batched", "call it for each row (`lax.map`), or let "
            "it take the whole batch", kernel.source)  # fmt: skip
    n = len(kernel.prefetch)
    aliased = {n + i for i, _ in kernel.aliases}
    wanted = tuple(d is not None or i in aliased for i, d in enumerate(dims))
    operands = [moved(axis, x, d, 0) if w else x for x, d, w in zip(args, dims, wanted, strict=True)]
    outs = call(batched_kernel(kernel, axis.size, wanted), *operands)
    return outs, [0] * len(outs)


kernel_call_p: Primitive = Primitive(
    "kernel_call", _call_typing, jvp=_call_jvp, linearize=_call_linearize, batch=_call_batch, multiple=True,
    numpy=lambda *arrays, kernel: interpret(kernel, *arrays),
    effects=lambda *types, kernel: frozenset(Effect("axis", name) for name in _axes(kernel)),
    # Results differ along the axes along which operands do, and where the body speaks of devices along those too.
    varies=lambda vary, params: vary | _axes(params["kernel"]),
    checked=lambda walk, eqn, values: checked_call(walk, eqn, values, call),
    runs=lambda types, *, kernel: kernel.cells,
)  # fmt: skip

# ---------------------------------------------------------------------------- the linear map


def _counts(kernel: Kernel, active: tuple[int, ...]) -> tuple[int, int]:
    """How many operands are primal, and how many saved states follow."""
    return len(kernel.in_types), len(strategy(kernel, active).saved)


def _apply(*args: Any, kernel: Kernel, active: tuple[int, ...]) -> list[Any]:
    """The linear map by the jvp kernel."""
    n, s = _counts(kernel, active)
    results = call(jvp_kernel(kernel, active), *args[:n], *args[n + s :])
    return list(results[len(kernel.outputs) :])


def _transpose(cts: Sequence[Any], *args: Any, kernel: Kernel, active: tuple[int, ...]) -> list[Any]:
    n, s = _counts(kernel, active)
    if any(isinstance(a, Linear) for a in args[: n + s]):
        raise DifferentiationError(f"kernel {kernel.name} is not linear in its primal operands")
    full = of_floats(kernel.out_types, cts)
    if all_zero(full):
        return [None] * len(args)
    found = run_backward(call, kernel, active, args[:n], args[n : n + s], full)
    return [None] * (n + s) + [f if isinstance(a, Linear) else None for f, a in zip(found, args[n + s :], strict=True)]


def linear_primitive(
    name: str, apply: Callable[..., list[Any]], primals_of: Callable[..., int], typing: Callable[..., Any],
    transpose: Callable[..., Any],
) -> Primitive:  # fmt: skip
    """What `apply` computes, linear in the operands behind the first `primals_of(**params)`, as a primitive."""

    def linearize(primals: Sequence[Any], nonzero: Sequence[bool], **params: Any) -> Any:
        n = primals_of(**params)
        if any(nonzero[:n]):
            outs, linear = linearize_flat(functools.partial(apply, **params), primals, nonzero)
            return outs, lambda *tangents: linear(tangents)

        def itself(*tangents: Any) -> list[Any]:
            return made.bind(*primals[:n], *map(instantiate, tangents[n:]), **params)

        return made.bind(*primals, **params), itself

    made = Primitive(
        name, typing, transpose=transpose, linearize=linearize, numpy=apply, expand=apply, multiple=True,
        jvp=lambda primals, tangents, **params: jvp_flat(functools.partial(apply, **params), primals, tangents),
        batch=lambda axis, args, dims, **params: batch_flat(functools.partial(apply, **params), axis, args, dims),
    )  # fmt: skip
    return made


kernel_linear_p: Primitive = linear_primitive(
    "kernel_linear", _apply, lambda **params: sum(_counts(**params)),
    lambda *types, kernel, active: [t for t in kernel.out_types if is_inexact(t.dtype)], _transpose,
)  # fmt: skip
PRIMITIVES = (kernel_call_p,)
