"""Notes for XLA: names with values that it keeps beside an operation, its `frontend_attributes`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..ir.array import ArrayLike
from ..ir.axis_relation import FREE, IDENTITY, pointwise
from ..ir.binding import is_evaluating
from ..ir.primitive import Primitive
from ..primitives.control_flow.jit_primitive import jit_p
from ..primitives.control_flow.subprograms import close
from ..support import pytree
from ..support.config import config, current
from ..support.errors import ArgumentError, ArgumentTypeError
from ..tracing.trace import trace_program, typeof
from ..transforms.rule_helpers import linear_jvp

Notes = tuple[tuple[str, str], ...]

tagged_p: Primitive = Primitive(
    "xla_metadata_value",
    typing=lambda x, *, entries: x,
    jvp=linear_jvp(lambda: tagged_p),
    transpose=lambda ct, x, *, entries: [ct],
    numpy=lambda x, *, entries: x,
    relation=pointwise,
    work=FREE,
    kind=IDENTITY,
)


def _notes(of: Mapping[str, Any]) -> Notes:
    if not isinstance(of, Mapping):
        raise ArgumentTypeError(f"notes for XLA are {of!r}", "give a dictionary of names with their values")
    for name, value in of.items():
        if not isinstance(value, (str, bool, int, float)):
            raise ArgumentTypeError(f"the note {name!r} for XLA is {value!r}", "give a text, a number or a boolean")
    return tuple(sorted((n, str(v).lower() if isinstance(v, bool) else str(v)) for n, v in of.items()))


def set_xla_metadata(x: ArrayLike | None = None, **kwargs: Any) -> Any:
    """The same values; the operation that gave each one has notes for XLA, derivatives' operations have none.

    Without values, a context or a decorator: all operations that are traced within have the notes, beside those of
    blocks around it.

    >>> import tilewright as tw
    >>> from tilewright import numpy as jnp
    >>> f = tw.jit(lambda x: set_xla_metadata(jnp.sin(x), breakpoint=True))
    >>> 'frontend_attributes={breakpoint="true"}' in f.lower(1.0).as_text("hlo")
    True
    """
    entries = _notes(kwargs)
    if x is None:
        return _noting(entries)
    return x if is_evaluating() else pytree.map(lambda leaf: tagged_p.bind(leaf, entries=entries), x)


@contextlib.contextmanager
def _noting(entries: Notes) -> Iterator[None]:
    """Within, what is traced has these notes; a name that has a value already takes the new one."""
    with config(xla_notes=tuple(sorted({**dict(current().xla_notes), **dict(entries)}.items()))):
        yield


def xla_metadata_call(f: Callable[..., Any] | None = None, /, **meta: Any) -> Any:
    """A function, or a decorator of one, whose call has notes for XLA, as have the calls of its derivatives.

    >>> import tilewright as tw
    >>> from tilewright import numpy as jnp
    >>> f = tw.jit(tw.grad(xla_metadata_call(jnp.sin, tag="block")))
    >>> f.lower(1.0).as_text("hlo").count('frontend_attributes={tag="block"}')
    2
    """
    return xla_metadata_call2(f, meta)


def xla_metadata_call2(
    f: Callable[..., Any] | None = None, /, metadata: Mapping[str, Any] | None = None, *, ad_metadata: Any = "same"
) -> Any:
    """As `xla_metadata_call`; derivatives have notes of their own, `ad_metadata`: "same", "drop" or a dictionary.

    Raises:
      ArgumentTypeError: notes that are no dictionary of texts, numbers and booleans.

    >>> import tilewright as tw
    >>> from tilewright import numpy as jnp
    >>> f = tw.jit(tw.grad(xla_metadata_call2(jnp.sin, {"tag": "x"}, ad_metadata="drop")))
    >>> f.lower(1.0).as_text("hlo").count('frontend_attributes={tag="x"}')
    1
    """
    function: Any = f
    if isinstance(f, Mapping) and metadata is None:
        function, metadata = None, f
    notes = _notes(metadata or {})
    if isinstance(ad_metadata, str) and ad_metadata not in ("same", "drop"):
        raise ArgumentError(f"ad_metadata={ad_metadata!r}", 'give "same", "drop" or a dictionary')
    of_derivative = None if ad_metadata == "same" else () if ad_metadata == "drop" else _notes(ad_metadata)

    def decorate(fun: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fun, updated=())
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if is_evaluating():
                return fun(*args, **kwargs)
            flat, in_tree = pytree.flatten((args, kwargs))
            out_tree: list[Any] = []

            def run(*leaves: Any) -> list[Any]:
                given, named = in_tree.unflatten(leaves)
                outs, structure = pytree.flatten(fun(*given, **named))
                out_tree.append(structure)
                return outs

            program, constants = close(trace_program(run, [typeof(x) for x in flat], "xla_metadata_call"))
            outs = jit_p.bind(*constants, *flat, program=program, name=program.name, donated=(), inline=False,
                              metadata=notes, ad_metadata=of_derivative)  # fmt: skip
            return out_tree[0].unflatten(outs)

        return wrapped

    return decorate if function is None else decorate(function)
