"""The primitives of functions with derivatives of the user's own.

Flat rules, as the traces call them:
    fun(*args) -> outs
    rule(primals, tangents) -> outs, tangents        custom_jvp; tangents may be `Zero` both ways
    fwd(primals, nonzero) -> outs, residuals, bwd    custom_vjp; `nonzero`: which arguments have tangents
    bwd(residuals, cts) -> cts of arguments          `Zero` both ways
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.array import ArrayLike
from ...ir.binding import Trace, current_trace, under
from ...ir.extension_types import has_values, is_opaque
from ...ir.primitive import OWN, AxisInfo, Linear, Primitive, Zero, all_zero
from ...ir.program import Effect, Effects, Program, Var
from ...support import pytree
from ...support.errors import DifferentiationError, UnsupportedError
from ...tracing.trace import axis_environment, eval_program, extended_axes, trace_program, typeof
from ...transforms.batching import batch_program
from ...transforms.cotangent_logs import collected, log
from ...transforms.jvp import jvp_flat
from ...transforms.linearize import linearize_flat
from ...transforms.rule_helpers import instantiate
from ...transforms.structural_primitives import add_tangents, moved
from ...transforms.transpose import transpose_program
from ..control_flow import program_primitive
from ..control_flow.subprograms import close, recounted, with_output_types
from ..reduction.reduce import reduce_sum_p
from ..spmd.varying_axes import axis_effects, ordered, psum_invariant_p, pvary

_CLOSED = "pass the value as an argument of the function, or use `closure_convert`"


def _traced(trace: Trace, fun: Callable[..., Any], args: Sequence[Any], name: str) -> tuple[Program, list[Any]]:
    return close(under(trace, trace_program, fun, [typeof(a) for a in args], name))


def _check_closed(nonzero: Sequence[bool], what: str) -> None:
    if any(nonzero):
        raise DifferentiationError(
            f"a {what} function closes over a value with respect to which it is differentiated", _CLOSED
        )


def _dims(flags: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(None if d is None else 0 for d in flags)


def _leading(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    return [x if d is None else moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True)]


def _element(x: ArrayLike, dim: int | None, size: int) -> Any:
    """The type of one element of a value batched at 0 or not at all."""
    type_ = typeof(x)
    return type_ if dim is None else type_.without_axis(0, size)


def _axes() -> tuple[Any, ...]:
    """The axes of `vmap` that rules of a call made here may name: it is batched over them, mapped or not."""
    found: list[Any] = []
    for name, _, *rest in axis_environment():
        if len(rest) > 1:  # of a kernel, whose cells do not see what is around it
            found.clear()
        elif not rest:
            found.append(name)
    return tuple(found)


def _effects(*_: Any, program: Program, axes: tuple[Any, ...], **__: Any) -> Effects:
    return program.effects | axis_effects(axes=axes)


def _shared(axis: AxisInfo, dims: Sequence[int | None], program: Program) -> bool:
    """Whether all elements along an axis share a call: no argument is mapped, and no result of the function."""
    if any(d is not None for d in dims):
        return False
    return Effect("axis", axis.name) not in program.effects or not any(
        d is not None for d in batch_program(program, axis, _dims(dims), False)[1])  # fmt: skip


def _check_shared(axis: AxisInfo, dims: Sequence[int | None], what: str) -> None:
    if any(d is not None for d in dims):
        raise UnsupportedError(
            f"{what} gives what differs along the axis {axis.name!r}, along which the arguments are the same",
            "pass an argument that is mapped over the axis",
        )


def _without(axes: tuple[Any, ...], axis: AxisInfo) -> tuple[Any, ...]:
    return tuple(name for name in axes if name != axis.name)


def _vectorized(
    axis: AxisInfo,
    fun: Callable[..., list[Any]],
    args: Sequence[Any],
    dims: Sequence[int | None],
    force: Callable[[int], Any],
) -> tuple[list[Any], tuple[int | None, ...]]:
    """Call a flat function on values batched at 0 or None; `force(number of outputs)` says which to batch anyway."""
    with extended_axes(axis.name, axis.size):
        program = trace_program(fun, [_element(x, d, axis.size) for x, d in zip(args, dims, strict=True)], "rule")
    program, constants = close(program)
    every = (*(None for _ in constants), *dims)
    batched, out_dims = batch_program(program, axis, every, force(len(program.outputs)))
    return eval_program(batched, *constants, *args), out_dims


def _transpose(cts: Sequence[Any], *args: Any, program: Program, **_: Any) -> list[Any]:
    """The transpose of a linear call is that of its function: the rules are for what is not linear."""
    linear = tuple(isinstance(a, Linear) for a in args)
    transposed = transpose_program(program, linear, tuple(type(ct) is not Zero for ct in cts))
    operands = [*(a for a, li in zip(args, linear, strict=True) if not li), *(ct for ct in cts if type(ct) is not Zero)]
    found = iter(eval_program(transposed, *operands))
    return [next(found) if li else None for li in linear]


# ---------------------------------------------------------------------------- custom_jvp_call


@dataclass(frozen=True, slots=True)
class CustomJVP:
    """A flat function and its jvp rule: `derive(primals, tangents) -> outs, tangents`, which may be `Zero`."""

    fun: Callable[..., Any]
    derive: Callable[..., Any]

    def record(self, trace: Trace, args: Sequence[Any]) -> Any:
        program, constants = _traced(trace, self.fun, args, "custom_jvp")
        params = {"program": program, "rule": self.derive, "num_consts": len(constants), "axes": _axes()}
        return under(trace, custom_jvp_call_p.bind, *constants, *args, **params)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, rule: Any, num_consts: int, **_: Any) -> Any:
    _check_closed([type(t) is not Zero for t in tangents[:num_consts]], "custom_jvp")
    return under(current_trace().splitting(), rule, primals[num_consts:], tangents[num_consts:])


class _BatchedJVP:
    """A flat jvp rule over arguments batched at 0 or not at all; everything it gives is batched, unless `shared`."""

    def __init__(self, rule: Any, axis: AxisInfo, dims: Sequence[int | None], shared: bool):
        self.rule, self.axis, self.dims, self.shared = rule, axis, tuple(dims), shared

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        n = len(primals)
        given = [t for t in tangents if type(t) is not Zero]
        dims = [*self.dims, *(d for t, d in zip(tangents, self.dims, strict=True) if type(t) is not Zero)]
        present: list[Any] = []

        def flat(*args: Any) -> list[Any]:
            rest = iter(args[n:])
            zeros = [Zero(typeof(p).tangent()) for p in args[:n]]
            each = [z if type(t) is Zero else next(rest) for t, z in zip(tangents, zeros, strict=True)]
            outs, out_tangents = self.rule(args[:n], each)
            present[:] = [type(t) is not Zero for t in out_tangents]
            return [*outs, *(t for t in out_tangents if type(t) is not Zero)]

        results, found = _vectorized(self.axis, flat, [*primals, *given], dims, lambda _: not self.shared)
        if self.shared:
            _check_shared(self.axis, found, "the jvp rule of a `custom_jvp` function")
        m = len(present)
        rest = iter(results[m:])
        return results[:m], [
            next(rest) if p else Zero(typeof(o).tangent()) for o, p in zip(results, present, strict=False)
        ]


def _batch_jvp(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, program: Program, rule: Any, num_consts: int,
    axes: Sequence[str],
) -> Any:  # fmt: skip
    shared = _shared(axis, dims, program)
    batched, _ = batch_program(program, axis, _dims(dims), not shared)
    new_rule = _BatchedJVP(rule, axis, _dims(dims[num_consts:]), shared)
    outs = custom_jvp_call_p.bind(*_leading(axis, args, dims), program=batched, rule=new_rule, num_consts=num_consts,
                                  axes=_without(axes, axis))  # fmt: skip
    return outs, [None if shared else 0] * len(outs)


custom_jvp_call_p: Primitive = program_primitive.holder(
    "custom_jvp_call", jvp=_jvp, transpose=_transpose, batch=_batch_jvp, effects=_effects,
    recounted=recounted("num_consts"),
)  # fmt: skip


# ---------------------------------------------------------------------------- custom_vjp_call


@dataclass(frozen=True, slots=True)
class CustomVJP:
    """A flat function and its forward rule, which gives the backward rule."""

    fun: Callable[..., Any]
    fwd: Callable[..., Any]

    def record(self, trace: Trace, args: Sequence[Any]) -> Any:
        program, constants = _traced(trace, self.fun, args, "custom_vjp")
        params = {"program": program, "fwd": self.fwd, "num_consts": len(constants), "axes": _axes()}
        return under(trace, custom_vjp_call_p.bind, *constants, *args, **params)

    def derive(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        nonzero = tuple(type(t) is not Zero for t in tangents)
        return linearize_rules(self.fwd, primals, nonzero)


def linearize_rules(fwd: Any, primals: Sequence[Any], nonzero: Sequence[bool]) -> Any:
    """Run the forward rule; the linear map is one equation whose transpose is the backward rule."""
    # Of a client's own type it is not known; the primitive that made the value sums, where that is to be done.
    vary = tuple(None if is_opaque(typeof(x)) else typeof(x).vary for x, nz in zip(primals, nonzero, strict=True) if nz)
    outs, residuals, bwd = fwd(primals, tuple(nonzero))
    types = [typeof(o).tangent() for o in outs]
    present = tuple(map(has_values, types))

    def linear(*tangents: Any) -> list[Any]:
        given = [instantiate(t) for t, nz in zip(tangents, nonzero, strict=True) if nz]
        found = iter(
            custom_lin_p.bind(
                *residuals, *given, bwd=bwd, num_res=len(residuals), nonzero=tuple(nonzero), out_types=tuple(types),
                vary=vary
            )
        )
        return [next(found) if p else Zero(t) for t, p in zip(types, present, strict=True)]

    return outs, linear


def _linearize(primals: Sequence[Any], nonzero: Sequence[bool], *, fwd: Any, num_consts: int, **_: Any) -> Any:
    _check_closed(nonzero[:num_consts], "custom_vjp")
    outs, linear = linearize_rules(fwd, primals[num_consts:], nonzero[num_consts:])
    return outs, lambda *tangents: linear(*tangents[num_consts:])


def _no_forward(*args: Any, **params: Any) -> Any:
    raise DifferentiationError(
        "forward-mode differentiation (jvp, jacfwd, linearize) of a `custom_vjp` function",
        "use reverse mode (grad, vjp, jacrev), or give the function a `custom_jvp` rule",
    )


class _BatchedForward:
    """A flat forward rule over arguments batched at 0 or not at all; outputs are batched, unless `shared`."""

    def __init__(self, fwd: Callable[..., Any], axis: AxisInfo, dims: Sequence[int | None], shared: bool):
        self.fwd, self.axis, self.dims, self.shared = fwd, axis, tuple(dims), shared

    def __call__(self, primals: Sequence[Any], nonzero: tuple[bool, ...]) -> tuple[list[Any], list[Any], Any]:
        run: list[Any] = []

        def flat(*args: Any) -> list[Any]:
            outs, residuals, bwd = self.fwd(args, nonzero)
            run[:] = len(outs), bwd
            return [*outs, *residuals]

        def force(n: int) -> tuple[bool, ...]:  # a residual such as a weight is not repeated
            return tuple(not self.shared and i < run[0] for i in range(n))

        results, dims = _vectorized(self.axis, flat, primals, self.dims, force)
        n, bwd = run
        if self.shared:
            _check_shared(self.axis, dims[:n], "the forward rule of a `custom_vjp` function")
        return results[:n], results[n:], _BatchedBackward(bwd, self.axis, self.dims, dims[n:], self.shared)


class _BatchedBackward:
    """A flat backward rule over arguments and residuals batched at 0 or not at all; `shared`: of a shared call."""

    def __init__(
        self, bwd: Callable[..., Any], axis: AxisInfo, dims: Sequence[int | None], residual_dims: Sequence[int | None],
        shared: bool = False,
    ):  # fmt: skip
        self.bwd, self.axis, self.dims, self.residual_dims, self.shared = bwd, axis, dims, residual_dims, shared

    def _one(self, ct: Zero) -> Any:
        """A zero cotangent of one element."""
        return ct if self.shared else Zero(ct.type.without_axis(0, self.axis.size))

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        k = len(residuals)
        given = [ct for ct in cts if type(ct) is not Zero]
        present: list[Any] = []
        told: list[Any] = []

        def flat(*args: Any) -> list[Any]:
            rest = iter(args[k:])
            each = [self._one(ct) if type(ct) is Zero else next(rest) for ct in cts]
            found, logs = collected(self.bwd, list(args[:k]), each)
            present[:] = [ct if type(ct) is Zero else None for ct in found]
            leaves, structure = pytree.flatten(logs)
            told[:] = [structure]
            return [*(ct for ct in found if type(ct) is not Zero), *leaves]

        dims = [*self.residual_dims, *(None if self.shared else 0 for _ in given)]
        results, found_dims = _vectorized(self.axis, flat, [*residuals, *given], dims, lambda _: not self.shared)
        rest = iter(zip(results, found_dims, strict=True))
        out: list[Any] = []
        for zero, dim in zip(present, self.dims, strict=True):
            if zero is not None:
                out.append(zero if dim is None else Zero(zero.type.with_axis(0, self.axis.size, self.axis.lies)))
            else:  # an argument that all elements share collects their cotangents
                ct, found = next(rest)
                out.append(reduce_sum_p.bind(ct, axes=(0,)) if dim is None and found is not None else ct)
        log(told[0].unflatten(ct for ct, _ in rest))
        return out


def _batch_vjp(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, program: Program, fwd: Callable[..., Any],
    num_consts: int, axes: Sequence[Any],
) -> Any:  # fmt: skip
    shared = _shared(axis, dims, program)
    batched, _ = batch_program(program, axis, _dims(dims), not shared)
    fwd = _BatchedForward(fwd, axis, _dims(dims[num_consts:]), shared)
    outs = custom_vjp_call_p.bind(*_leading(axis, args, dims), program=batched, fwd=fwd, num_consts=num_consts,
                                  axes=_without(axes, axis))  # fmt: skip
    return outs, [None if shared else 0] * len(outs)


custom_vjp_call_p: Primitive = program_primitive.holder(
    "custom_vjp_call", jvp=_no_forward, linearize=_linearize, transpose=_transpose, batch=_batch_vjp, effects=_effects,
    recounted=recounted("num_consts"),
)  # fmt: skip


# ---------------------------------------------------------------------------- custom_lin


def _lin_typing(*types: Any, out_types: Sequence[Any], **_: Any) -> list[Any]:
    return [t for t in out_types if has_values(t)]


def _lin_transpose(
    cts: Sequence[Any], *args: Any, bwd: Any, num_res: int, nonzero: Sequence[bool], out_types: Sequence[Any],
    vary: Sequence[Any],
) -> list[Any]:  # fmt: skip
    if any(isinstance(a, Linear) for a in args[:num_res]):
        raise DifferentiationError("a `custom_vjp` function is not linear, but was transposed", "use `vjp`")
    given = iter(cts)
    full = [next(given) if has_values(t) else Zero(t) for t in out_types]
    found = bwd(list(args[:num_res]), full)
    wanted = [ct for ct, nz in zip(found, nonzero, strict=True) if nz]
    return [*(None for _ in range(num_res)), *map(_of_all_devices, wanted, vary)]


def _of_all_devices(ct: Any, vary: frozenset[Any] | None) -> Any:
    """The cotangent of a value that devices of a mesh share is the sum of theirs; of one that was summed, itself.

    `vary` are the axes of the mesh along which the value differs, None where that is not known.
    """
    if ct is None or vary is None or type(ct) is Zero:
        return ct
    apart = typeof(ct).vary - vary
    return psum_invariant_p.bind(ct, axes=ordered(apart)) if apart else ct


def _lin_batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, bwd: Any, num_res: int, nonzero: Any, out_types: Any,
    vary: Any
) -> Any:
    tangent_dims = iter(_dims(dims[num_res:]))
    bwd = _BatchedBackward(bwd, axis, [next(tangent_dims) if nz else None for nz in nonzero], _dims(dims[:num_res]))
    types = tuple(t.with_axis(0, axis.size, axis.lies) for t in out_types)
    outs = custom_lin_p.bind(
        *_leading(axis, args, dims), bwd=bwd, num_res=num_res, nonzero=nonzero, out_types=types, vary=vary
    )
    return outs, [0] * len(outs)


custom_lin_p: Primitive = Primitive(
    "custom_lin",
    _lin_typing,
    jvp=_no_forward,
    transpose=_lin_transpose,
    batch=_lin_batch,
    numpy=_no_forward,
    expand=_no_forward,
    multiple=True, varies=OWN,
)


# ---------------------------------------------------------------------------- linear_call


def _linear_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, num_res: int, **params: Any) -> Any:
    outs = linear_call_p.bind(*primals, num_res=num_res, **params)
    given = [*primals[:num_res], *map(instantiate, tangents[num_res:])]
    moved_outs = linear_call_p.bind(*given, num_res=num_res, **params)
    if not all_zero(tangents[:num_res]):  # by the residuals it is a function like any other
        function = functools.partial(eval_program, params["program"])
        still = [Zero(typeof(x).tangent()) for x in primals[num_res:]]
        by_residuals = jvp_flat(function, primals, [*tangents[:num_res], *still])[1]
        moved_outs = [add_tangents(a, b) for a, b in zip(moved_outs, by_residuals, strict=True)]
    return outs, moved_outs


def _linear_linearize(primals: Sequence[Any], nonzero: Sequence[bool], *, num_res: int, **params: Any) -> Any:
    residuals = primals[:num_res]
    function = functools.partial(eval_program, params["program"])
    still = [False] * (len(primals) - num_res)
    outs, by_residuals = linearize_flat(function, primals, [*nonzero[:num_res], *still])

    def linear(*tangents: Any) -> list[Any]:
        outs = by_residuals(tangents)
        if all_zero(tangents[num_res:]):
            return outs
        given = linear_call_p.bind(*residuals, *map(instantiate, tangents[num_res:]), num_res=num_res, **params)
        return [add_tangents(a, b) for a, b in zip(given, outs, strict=True)]

    return outs, linear


def _linear_transpose(cts: Sequence[Any], *args: Any, program: Program, transposed: Program, num_res: int) -> list[Any]:
    found = linear_call_p.bind(
        *args[:num_res], *map(instantiate, cts), program=transposed, transposed=program, num_res=num_res
    )
    return [*(None for _ in range(num_res)), *found]


def _linear_batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, program: Program, transposed: Program, num_res: int
) -> Any:
    res = _dims(dims[:num_res])
    operands = [
        *_leading(axis, args[:num_res], dims[:num_res]),
        *(moved(axis, x, d, 0) for x, d in zip(args[num_res:], dims[num_res:], strict=True)),
    ]
    forward, _ = batch_program(program, axis, (*res, *(0 for _ in args[num_res:])), True)
    backward, _ = batch_program(transposed, axis, (*res, *(0 for _ in program.outputs)), True)
    outs = linear_call_p.bind(*operands, program=forward, transposed=backward, num_res=num_res)
    return outs, [0] * len(outs)


linear_call_p: Primitive = program_primitive.holder(
    "linear_call", jvp=_linear_jvp, transpose=_linear_transpose, batch=_linear_batch, linearize=_linear_linearize,
    recounted=recounted("num_res"),
)  # fmt: skip
PRIMITIVES = (custom_jvp_call_p, custom_vjp_call_p, custom_lin_p, linear_call_p)


def bind_linear_call(
    fun: Callable[..., list[Any]], transpose: Callable[..., list[Any]], residuals: Sequence[Any], linear: Sequence[Any]
) -> list[Any]:
    """Flat `fun(*residuals, *linear)` whose transpose is `transpose(*residuals, *cts)`."""
    together = frozenset().union(*(typeof(x).vary for x in (*residuals, *linear)))
    linear = [pvary(x, together) for x in linear] if together else linear
    res_types, in_types = [typeof(x) for x in residuals], [typeof(x) for x in linear]
    forward, constants = close(trace_program(fun, [*res_types, *in_types], "linear_call"))
    k = len(constants)
    const_types = [typeof(c) for c in constants]
    # Both Programs take the constants of both.
    ct_types = [t.tangent() for t in forward.out_types]
    backward = trace_program(lambda *a: transpose(*a[k:]), [*const_types, *res_types, *ct_types], "linear_transpose")
    backward, more = close(with_output_types(backward, [t.tangent() for t in in_types]))
    forward = forward.replace(inputs=(*(Var(typeof(x)) for x in more), *forward.inputs))
    operands = [*more, *constants, *residuals, *linear]
    return linear_call_p.bind(*operands, program=forward, transposed=backward, num_res=len(operands) - len(linear))
