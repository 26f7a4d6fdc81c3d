"""Batching rules of the user's own: `custom_vmap` and `sequential_vmap`.

custom_vmap(*constants, *args; program, rule, count) -> outputs of program        `count`: how many constants
rule(axis, args, batched) -> outs, batched outs        flat; what is batched is so along axis 0
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.binding import is_evaluating
from ..ir.primitive import AxisInfo, Zero
from ..ir.program import Program
from ..primitives.control_flow import program_primitive
from ..primitives.control_flow.subprograms import close, immutable
from ..primitives.custom.custom_derivatives import rule_setter
from ..support import pytree
from ..support.call_errors import by_position
from ..support.errors import ArgumentTypeError, BatchAxisError, DifferentiationError, UnsupportedError
from ..tracing.trace import outside_of_axis, trace_program, typeof
from ..transforms.jvp import jvp_flat, jvp_program
from ..transforms.rule_helpers import instantiate
from ..transforms.structural_primitives import moved
from .associative_scan import map as sequential_map

if TYPE_CHECKING:
    from ..ir.primitive import Primitive
    from ..support.pytree import PyTreeDef


__all__ = ["custom_vmap", "sequential_vmap"]

Flags = tuple[bool, ...]
Rule = Callable[[AxisInfo, Sequence[Any], Sequence[bool]], tuple[list[Any], list[bool]]]


# ---------------------------------------------------------------------------- the primitive


def _jvp_rule(rule: Rule, nonzero: Flags) -> Rule:
    """The rule of the derivative: a primal and its tangent are batched together."""

    def derived(axis: AxisInfo, args: Sequence[Any], batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        n = len(nonzero)
        places = [i for i, nz in enumerate(nonzero) if nz]
        either = list(batched[:n])
        for i, b in zip(places, batched[n:], strict=True):
            either[i] |= b
        primals = [moved(axis, x, 0 if b else None, 0) if e else x
                   for x, b, e in zip(args[:n], batched[:n], either, strict=True)]  # fmt: skip
        tangents: list[Any] = [Zero(typeof(x).tangent()) for x in primals]
        for i, t, b in zip(places, args[n:], batched[n:], strict=True):
            tangents[i] = moved(axis, t, 0 if b else None, 0) if either[i] else t
        flags: list[bool] = []

        def run(*args: Any) -> list[Any]:
            outs, flags[:] = rule(axis, args, either)
            return outs

        outs, out_tangents = jvp_flat(run, primals, tangents)
        return [*outs, *map(instantiate, out_tangents)], [*flags, *flags]

    return derived


def _pushforward(
    primals: Sequence[Any], tangents: Sequence[Any], program: Program, rule: Rule, count: int
) -> tuple[list[Any], list[Any]]:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    if any(nonzero[:count]):
        raise DifferentiationError(
            "a custom_vmap function closes over a value with respect to which it is differentiated",
            "pass the value as an argument of the function",
        )
    derived, _ = jvp_program(program, nonzero, True)
    given = [t for t in tangents if type(t) is not Zero]
    outs = custom_vmap_p.bind(*primals, *given, program=derived, rule=_jvp_rule(rule, nonzero[count:]), count=count)
    n = len(program.outputs)
    return outs[:n], outs[n:]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return _pushforward(primals, tangents, **params)


def _linearize(primals: Sequence[Any], nonzero: Flags, **params: Any) -> Any:
    return custom_vmap_p.bind(*primals, **params), lambda *tangents: _pushforward(primals, tangents, **params)[1]


def _transpose(cts: Sequence[Any], *args: Any, **_: Any) -> list[Any]:
    raise DifferentiationError(
        "reverse-mode differentiation of a `custom_vmap` function: its rule says nothing of transposes",
        "wrap it in a `custom_vjp` whose rules call it, or use forward mode",
    )


def _batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, program: Program, rule: Rule, count: int
) -> Any:
    if any(d is not None for d in dims[:count]):
        raise UnsupportedError("a custom_vmap function closes over a batched value",
                               "pass the value as an argument of the function")  # fmt: skip
    operands = [x if d is None else moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True)]
    with outside_of_axis(axis.name):  # whose values the rule is given whole
        outs, batched = rule(axis, operands[count:], [d is not None for d in dims[count:]])
    return outs, [0 if b else None for b in batched]


custom_vmap_p: Primitive = program_primitive.holder(
    "custom_vmap", jvp=_jvp, linearize=_linearize, transpose=_transpose, batch=_batch, expand=program_primitive.expand
)


# ---------------------------------------------------------------------------- functions


class custom_vmap:
    """A function whose batched form under `vmap` is given by a rule, set with `def_vmap`.

    `rule(axis_size, in_batched, *args)` gets, for each argument, a tree of booleans that says what has a batch axis; it
    is the leading one. It gives the output and a tree of booleans like it. Forward mode differentiates function and
    rule; reverse mode needs a `custom_vjp` around it (`DifferentiationError`). Raises `UnsupportedError` on a call
    before a rule is set, `BatchAxisError` where a rule's output is not like the function's.

    >>> import tilewright as tw
    >>> from tilewright import numpy as jnp
    >>> @tw.custom_batching.custom_vmap
    ... def f(x, y):
    ...     return x + y
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, xs, ys):
    ...     return xs * ys, True
    >>> print(f(2.0, 3.0), tw.vmap(f)(jnp.arange(3.0), jnp.arange(3.0)))
    5.0 [0. 1. 4.]
    """

    def __init__(self, fun: Callable[..., Any]):
        functools.update_wrapper(self, fun, updated=())
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; gives it back, as a decorator does."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    @property
    def _name(self) -> str:
        return getattr(self.fun, "__name__", repr(self.fun))

    __getattr__ = rule_setter

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.vmap_rule is None:
            raise UnsupportedError(f"{self._name} was given no rule for vmap", "call its `def_vmap` first")
        if is_evaluating():
            return self.fun(*immutable(args), **immutable(kwargs))
        if kwargs:
            args = by_position(inspect.signature(self.fun), args, kwargs, self._name)
        flat, in_tree = pytree.flatten(args)
        out_trees: list[Any] = []

        def traced(*leaves: Any) -> list[Any]:
            outs, structure = pytree.flatten(self.fun(*in_tree.unflatten(leaves)))
            out_trees.append(structure)
            return outs

        program, constants = close(trace_program(traced, [typeof(x) for x in flat], self._name))
        rule = functools.partial(self._flat_rule, in_tree, out_trees[0])
        outs = custom_vmap_p.bind(*constants, *flat, program=program, rule=rule, count=len(constants))
        return out_trees[0].unflatten(outs)

    def _flat_rule(
        self, in_tree: PyTreeDef, out_tree: PyTreeDef, axis: AxisInfo, args: Sequence[Any], batched: Sequence[bool]
    ) -> tuple[list[Any], list[bool]]:
        flags = list(in_tree.unflatten(batched))
        pair = self.vmap_rule(axis.size, flags, *in_tree.unflatten(args))  # type: ignore[misc]
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ArgumentTypeError(f"the vmap rule of {self._name} returned {type(pair).__name__}",
                                    "return a pair (output, which of it is batched)")  # fmt: skip
        outs, found = pytree.flatten(pair[0])
        out_flags, flag_tree = pytree.flatten(pair[1])
        for what, structure in (("an output", found), ("flags", flag_tree)):
            if structure != out_tree:
                raise BatchAxisError(f"the vmap rule of {self._name} returns {what} {structure}, its function an output"
                                     f" {out_tree}", "make them alike")  # fmt: skip
        for x, flag in zip(outs, out_flags, strict=True):
            if flag and typeof(x).shape[:1] != (axis.size,):
                raise BatchAxisError(f"the vmap rule of {self._name} returns {typeof(x).show()} as batched over"
                                     f" {axis.size} elements", "put the batch axis first")  # fmt: skip
        return outs, [bool(flag) for flag in out_flags]


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """A function that `vmap` calls in a loop, one element after another, for what does not batch.

    >>> import tilewright as tw
    >>> from tilewright import numpy as jnp
    >>> print(tw.vmap(tw.custom_batching.sequential_vmap(lambda x: x * 2))(jnp.arange(3)))
    [0 2 4]
    """
    f = custom_vmap(f)

    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> Any:
        leaves, structure = pytree.flatten(args)
        flags = pytree.leaves(in_batched)

        def one(mapped: Sequence[Any]) -> Any:
            rest = iter(mapped)
            return f(*structure.unflatten([next(rest) if b else x for x, b in zip(leaves, flags, strict=True)]))

        out = sequential_map(one, [x for x, b in zip(leaves, flags, strict=True) if b])
        return out, pytree.map(lambda _: True, out)

    f.def_vmap(rule)
    return f
