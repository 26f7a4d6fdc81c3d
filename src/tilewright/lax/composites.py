"""Functions that carry a name of their own in programs: `jax.lax.composite`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.ir.binding import is_evaluating
from ..core.primitives.control_flow.jit_primitive import Composite, jit_p
from ..core.primitives.control_flow.subprograms import close, flat_arguments, trace_body
from ..core.support.errors import ArgumentTypeError


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function that computes what `decomposition` does, and is one operation under a name in compiled programs.

    Positional arguments are arrays, keyword arguments are attributes: numbers, texts, NumPy's arrays and dtypes, and
    sequences and dictionaries of these; None is left out. Compilers may know the operation by its name, which has a
    namespace; others compile the decomposition. Derivatives and batches are those of the decomposition.

    Raises:
      ArgumentTypeError: a name that is no text, or an attribute that is traced.

    >>> import tilewright as tw
    >>> double = composite(lambda x: x + x, name="my.double")
    >>> print(double(2.0))
    4.0
    >>> 'stablehlo.composite "my.double"' in tw.jit(double).lower(2.0).as_text()
    True
    """
    if not isinstance(name, str) or not name:
        raise ArgumentTypeError(f"composite: the name is {name!r}", "pass a string, such as 'my.tangent'")

    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        given = {key: value for key, value in attributes.items() if value is not None}
        kind = Composite(name, version, given, tuple((k, _key(v, f"{name}.{k}")) for k, v in given.items()))

        def body(*operands: Any) -> Any:
            return decomposition(*operands, **given)

        if is_evaluating():
            return body(*args)
        leaves, structure, types = flat_arguments(args)
        body.__name__ = name
        program, out_structure = trace_body(body, structure, types, name)
        program, constants = close(program)
        outs = jit_p.bind(*constants, *leaves, program=program, name=name, donated=(), inline=False, composite=kind)
        return out_structure.unflatten(outs)

    return call


def _key(value: Any, where: str) -> Any:
    """What two attributes are compared by."""
    match value:
        case Mapping():
            return tuple((k, _key(v, f"{where}.{k}")) for k, v in value.items())
        case tuple() | list():
            return tuple(_key(v, where) for v in value)
        case np.ndarray():
            return str(value.dtype), value.shape, value.tobytes()
    try:
        return type(value), hash(value), value
    except TypeError:
        raise ArgumentTypeError(f"composite: the attribute {where} is {value!r}, which has no hash",
                                "pass arrays as positional arguments, or NumPy's as attributes") from None  # fmt: skip
