"""`jax.api_util`: arguments and results as flat lists."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...core.support import pytree
from ...core.tracing.trace import as_type
from ..linear_util import WrappedFun, transformation, transformation_with_aux
from ..missing import not_adapted
from .extend.core import DebugInfo

shaped_abstractify = as_type


@transformation_with_aux
def flatten_fun(in_tree: Any, *flat: Any) -> Iterator[Any]:
    """Wrap a function of (args, kwargs) as one of flat arguments and results; the auxiliary is the results' tree."""
    args, kwargs = in_tree.unflatten(flat)
    out = yield args, kwargs
    yield pytree.flatten(out)


@transformation_with_aux
def flatten_fun_nokwargs(in_tree: Any, *flat: Any) -> Iterator[Any]:
    """Wrap a function of args as one of flat arguments and results; the auxiliary is the results' tree."""
    out = yield in_tree.unflatten(flat), {}
    yield pytree.flatten(out)


def argnums_partial(fun: WrappedFun, dyn_argnums: Any, args: Sequence[Any], **_: Any) -> tuple[Any, tuple[Any, ...]]:
    """A function of the arguments at some positions, the others fixed; and the values at these positions."""
    numbers = [dyn_argnums] if isinstance(dyn_argnums, int) else list(dyn_argnums)
    numbers = [n % len(args) for n in numbers]

    @transformation
    def partial(*chosen: Any, **kwargs: Any) -> Iterator[Any]:
        full = list(args)
        for n, value in zip(numbers, chosen, strict=True):
            full[n] = value
        out = yield full, kwargs
        yield out

    return partial(fun), tuple(args[n] for n in numbers)


def safe_map(f: Callable[..., Any], *args: Any) -> list[Any]:
    """`map` as a list, of sequences of one length."""
    return [f(*xs) for xs in zip(*args, strict=True)]


def debug_info(name: str, fun: Any, args: Any = (), kwargs: Any = None, **fields: Any) -> DebugInfo:
    """What a function is called."""
    return DebugInfo(name, fun, args, kwargs, **fields)


def fun_signature(fun: Callable[..., Any]) -> inspect.Signature | None:
    """A function's signature; None where Python does not know it."""
    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """The axis of each leaf of a structure, given for its parts."""
    dummy = pytree.unflatten(treedef, [object()] * treedef.num_leaves)
    axes: list[Any] = []
    pytree.map(lambda axis, part: axes.extend([axis] * len(pytree.leaves(part))), axis_tree, dummy,
             is_leaf=lambda x: x is None)  # fmt: skip
    return axes


__all__ = [
    "argnums_partial", "debug_info", "flatten_axes", "flatten_fun", "flatten_fun_nokwargs", "fun_signature",
    "safe_map", "shaped_abstractify",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.api_util")
