"""`jax._src.api_util`, for e3nn_jax and jax_md: which arguments are meant by position and which by name."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable
from typing import Any

from ...missing import not_adapted
from ..api_util import (
    argnums_partial,
    debug_info,
    flatten_axes,
    flatten_fun,
    flatten_fun_nokwargs,
    fun_signature,
    shaped_abstractify,
)


def _numbers(argnums: int | Iterable[int]) -> tuple[int, ...]:
    return tuple(map(operator.index, argnums if isinstance(argnums, Iterable) else (argnums,)))


def _names(argnames: str | Iterable[str]) -> tuple[str, ...]:
    return (argnames,) if isinstance(argnames, str) else tuple(argnames)


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: int | Iterable[int] | None, argnames: str | Iterable[str] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the same parameters: what is None is found from the other by the signature.

    >>> infer_argnums_and_argnames(inspect.signature(lambda x, n: x), None, "n")
    ((1,), ('n',))
    """
    numbers = None if argnums is None else _numbers(argnums)
    names = None if argnames is None else _names(argnames)
    either = [(i, name) for i, (name, parameter) in enumerate(sig.parameters.items())
              if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]  # fmt: skip
    if numbers is None:
        numbers = tuple(i for i, name in either if name in (names or ()))
    elif names is None:
        names = tuple(name for i, name in either if i in numbers)
    return numbers, names or ()


__all__: list[Any] = [
    "argnums_partial", "debug_info", "flatten_axes", "flatten_fun", "flatten_fun_nokwargs", "fun_signature",
    "infer_argnums_and_argnames", "shaped_abstractify",
]  # fmt: skip
__getattr__ = not_adapted("jax._src.api_util")
