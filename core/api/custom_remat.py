"""`custom_remat`: a function with its own rules for what `checkpoint` stores of it and how it is computed again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.array import Array
from ..ir.binding import is_evaluating
from ..ir.primitive import AxisInfo, Zero
from ..ir.program import Program
from ..primitives.control_flow import program_primitive as held
from ..primitives.control_flow.subprograms import close, immutable
from ..primitives.custom.checkpoint import KEPT, REMADE, name_p
from ..primitives.custom.custom_derivatives import custom_vjp
from ..support import pytree
from ..support.errors import ArgumentTypeError
from ..tracing.trace import eval_program, trace_program, typeof
from ..transforms.batching import batch_flat, batch_program
from ..transforms.jvp import jvp_flat
from ..transforms.rule_helpers import instantiate
from ..transforms.structural_primitives import moved, reduce_sum_p

if TYPE_CHECKING:
    from ..ir.primitive import Primitive


__all__ = ["custom_remat"]


@dataclass(frozen=True)
class _Rules:
    """The rules over flat operands and outputs; what they keep are pytrees.

    `forward(policy, args) -> outs, kept`, `again(kept, args) -> outs, residuals`, `backward(residuals, cts) -> cts`.
    """

    forward: Callable[..., Any]
    again: Callable[..., Any]
    backward: Callable[..., Any]


def _remade(program: Program, count: int, rules: _Rules, policy: Callable[..., Any], *operands: Any) -> Any:
    """What `checkpoint` differentiates in the place of the function."""
    constants, args = operands[:count], operands[count:]
    _, kept = rules.forward(policy, args)
    kept = pytree.map(lambda x: name_p.bind(x, name=KEPT), kept)
    whole = custom_vjp(lambda _, *args: eval_program(program, *constants, *args))
    whole.defvjp(lambda kept, *args: rules.again(kept, args),
                 lambda residuals, cts: (None, *rules.backward(residuals, cts)))  # fmt: skip
    return whole(kept, *args)


def _mapped(axis: AxisInfo, fun: Callable[..., Any], dims: Sequence[int | None], *args: Any) -> Any:
    """A function of pytrees over a batch axis, which leads in all that it gives."""
    flat, structure = pytree.flatten(args)
    out: list[Any] = []

    def run(*leaves: Any) -> list[Any]:
        results, found = pytree.flatten(fun(*structure.unflatten(leaves)))
        out[:] = [found]
        return results

    results, found = batch_flat(run, axis, flat, dims)
    return out[0].unflatten([moved(axis, x, d, 0) for x, d in zip(results, found, strict=True)])


def _batched(rules: _Rules, axis: AxisInfo, dims: Sequence[int | None]) -> _Rules:
    def leading(kept: Sequence[Any] | None) -> list[int]:
        return [0] * len(pytree.leaves(kept))

    def forward(policy: Callable[..., Any], args: Sequence[Any]) -> Any:
        return _mapped(axis, functools.partial(rules.forward, policy), dims, args)

    def again(kept: Any, args: Sequence[Any]) -> Any:
        return _mapped(axis, rules.again, [*leading(kept), *dims], kept, args)

    def backward(residuals: Array, cts: Sequence[Any]) -> list[Any]:
        found = _mapped(axis, rules.backward, leading((residuals, cts)), residuals, cts)
        return [reduce_sum_p.bind(ct, axes=(0,)) if d is None else ct for ct, d in zip(found, dims, strict=True)]

    return _Rules(forward, again, backward)


def _batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, program: Program, count: int, rules: _Rules,
    remade: Callable[..., Any],
) -> Any:  # fmt: skip
    operands = [x if d is None else moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True)]
    flags = tuple(None if d is None else 0 for d in dims)
    batched, _ = batch_program(program, axis, flags, True)
    outs = _bind(batched, operands, count, _batched(rules, axis, flags[count:]))
    return outs, [0] * len(outs)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, **_: Any) -> Any:
    return jvp_flat(functools.partial(eval_program, program), primals, tangents)


custom_remat_p: Primitive = held.holder("custom_remat", jvp=_jvp, batch=_batch, expand=held.expand)


def _bind(program: Program, operands: Sequence[Any], count: int, rules: _Rules) -> list[Any]:
    params = {"program": program, "count": count, "rules": rules}
    return custom_remat_p.bind(*operands, **params, **{REMADE: functools.partial(_remade, *params.values())})


def custom_remat(
    f: Callable[..., Any], f_fwd: Callable[..., Any], f_rem: Callable[..., Any], f_bwd: Callable[..., Any],
) -> Callable[..., Any]:  # fmt: skip
    """A function that says itself what `checkpoint` stores of it and how it is computed again.

    `f_fwd(policy, *args) -> out, kept` runs in the forward pass; `kept`, a pytree of arrays, is stored.
    `f_rem(kept, *args) -> out, residuals` runs in the backward pass, and then `f_bwd(residuals, ct)`, which gives a
    tuple with a cotangent for each argument, None for zero. Outside of `checkpoint`, within its loops and branches,
    and in forward mode it is `f`. Raises `ArgumentTypeError` where a rule gives no pair.

    >>> import tilewright as tw
    >>> from tilewright import numpy as jnp
    >>> sin = tw.custom_remat(jnp.sin, lambda policy, x: (jnp.sin(x), jnp.cos(x)), lambda c, x: (jnp.sin(x), c),
    ...                       lambda c, ct: (c * ct,))
    >>> print(tw.grad(tw.checkpoint(lambda x: sin(sin(x))))(0.0))
    1.0
    """

    @functools.wraps(f, updated=())
    def wrapped(*args: Any) -> Any:
        if is_evaluating():
            return f(*immutable(args))
        flat, in_tree = pytree.flatten(args)
        types = [typeof(x) for x in flat]
        out_tree: list[Any] = []

        def run(*leaves: Any) -> list[Any]:
            outs, structure = pytree.flatten(f(*in_tree.unflatten(leaves)))
            out_tree.append(structure)
            return outs

        def flat_pair(rule: Callable[..., Any], first: Any, leaves: Sequence[Any]) -> Any:
            pair = rule(first, *in_tree.unflatten(leaves))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ArgumentTypeError(f"a rule of custom_remat gave {type(pair).__name__}",
                                        "give the output and what is kept")  # fmt: skip
            return out_tree[0].flatten_up_to(pair[0]), pair[1]

        def backward(residuals: Array, cts: Sequence[Any]) -> list[Any]:
            found = f_bwd(residuals, out_tree[0].unflatten(cts))
            given = pytree.broadcast_prefix(tuple(found), in_tree.unflatten(types))
            return [instantiate(Zero(t.tangent())) if ct is None else ct for ct, t in zip(given, types, strict=True)]

        program, constants = close(trace_program(run, types, getattr(f, "__name__", "custom_remat")))
        rules = _Rules(functools.partial(flat_pair, f_fwd), functools.partial(flat_pair, f_rem), backward)
        return out_tree[0].unflatten(_bind(program, [*constants, *flat], len(constants), rules))

    return wrapped
