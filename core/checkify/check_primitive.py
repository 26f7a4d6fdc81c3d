"""Checks of values as equations, and what they found as a value; `checkify` turns the first into the second.

    check(code, *payload; sites, debug)       fails where `code` is k + 1, at `sites[k]`
    Error ::= code, payload                   as above, with arrays; 0 is no failure

A site says what its failure is (`kind`), with which text, and where; the values that the text names are the site's part
of the payload. A batched check has a code and a payload with leading axes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.array import Array, ArrayLike, Operand
from ..ir.axis_relation import EFFECT, FREE
from ..ir.binding import is_evaluating
from ..ir.primitive import AxisInfo, Primitive
from ..ir.program import Effect, Effects
from ..ir.types import is_bool, is_key
from ..primitives.elementwise.bitwise import not_p
from ..primitives.elementwise.comparison import ne_p, select_n_p
from ..primitives.elementwise.conversion import convert_element_type
from ..primitives.keys.threefry import random_unwrap_p
from ..primitives.movement.dynamic_slice import dynamic_slice_p
from ..primitives.movement.shape import reshape_to
from ..primitives.reduction.reduce import argmax
from ..support import pytree as tree
from ..support.errors import (
    ArgumentTypeError,
    CheckError,
    FailedCheckError,
    NotFunctionalizedError,
    Source,
    UnthrownErrorWarning,
    user_source,
)
from ..tracing.trace import Tracer, shape_of, typeof
from ..transforms.rule_helpers import zeros
from ..transforms.structural_primitives import broadcast_batch, moved

CHECK = Effect("check")


@dataclass(frozen=True)
class Site:
    """A place in a program that can fail: the kind of its failure, the text, and what fills the text's fields.

    `tree` is the structure `(args, kwargs)` of those values, `types` their types. `where` is a text in front of it,
    whose fields the first values fill.
    """

    kind: type[CheckError]
    text: str
    tree: Any
    types: tuple[Any, ...]
    line: str
    source: Source | None = field(compare=False)
    where: str = ""

    def error(self, values: Sequence[Any]) -> CheckError:
        """The error that this site's failure with some values is."""
        values = [np.asarray(v)[()] for v in values]
        n = self.where.count("{}")
        args, kwargs = self.tree.unflatten(values[n:])
        what = self.where.format(*values[:n]) + self.text.format(*args, **kwargs)
        if self.kind is FailedCheckError:
            what += " (`check` failed)"
        return self.kind(what, "", self.source)


def site(
    kind: type[CheckError], text: str, source: Source | None, args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[Site, list[Any]]:  # fmt: skip
    """A site and the values in its message."""
    leaves, structure = tree.flatten((tuple(args), kwargs or {}))
    leaves = [random_unwrap_p.bind(x) if is_key(typeof(x).dtype) else x for x in leaves]
    return Site(kind, text, structure, tuple(typeof(x).strong() for x in leaves), str(source), source), leaves


# ---------------------------------------------------------------------------- the value


class Error:
    """What a checked function found: no failure, or the first one; a pytree, so that it passes through `jit`.

    `get` gives the text of the failure, or None; `throw` raises it. One that holds a failure and is dropped unasked
    warns with `UnthrownErrorWarning`.
    """

    __slots__ = ("code", "payload", "sites", "asked")
    code: Any
    payload: tuple[Any, ...]
    sites: tuple[Site, ...]

    def __init__(self, code: Any, payload: Sequence[Any], sites: tuple[Site, ...]):
        self.code, self.payload, self.sites = code, tuple(payload), sites
        self.asked = not sites or isinstance(code, Tracer) or not hasattr(code, "dtype")

    def get_exception(self) -> CheckError | None:
        """The failure as an exception that names the line; None where there is none. Batched: all of them."""
        self.asked: bool = True
        if not self.sites:
            return None
        codes = np.asarray(self.code)
        failed = [(at, self._one(int(codes[at]), at)) for at in np.ndindex(*codes.shape) if codes[at]]
        if codes.ndim == 0 or not failed:
            return failed[0][1] if failed else None
        lines = [f"at mapped index {', '.join(map(str, at))}: {error.what}" for at, error in failed]
        return CheckError("\n".join(lines), "", failed[0][1].source)

    def _one(self, code: int, at: tuple[int, ...]) -> CheckError:
        before = sum(len(s.types) for s in self.sites[: code - 1])
        here = self.sites[code - 1]
        return here.error([np.asarray(x)[at] for x in self.payload[before : before + len(here.types)]])

    def get(self) -> str | None:
        """The text of the failure, or None."""
        error = self.get_exception()
        return None if error is None else error.what

    def throw(self) -> None:
        """Raise the failure, if there is one; within a function that is checked again, a check."""
        check_error(self)

    def __repr__(self) -> str:
        return f"Error({'traced' if isinstance(self.code, Tracer) else self.get()})"

    __str__ = __repr__

    def __del__(self) -> None:
        if self.asked or sys.is_finalizing():
            return
        ready = getattr(self.code, "is_ready", None)
        if ready is None or ready():  # what is not computed yet is not waited for here
            error = self.get_exception()
            if error is not None:
                where = ("checkify", 0) if error.source is None else (error.source.code.co_filename, error.source.line)
                text = f"a check failed, and its Error was dropped unasked: {error.what}\n  remedy: call `err.throw()`"
                warnings.warn_explicit(text, UnthrownErrorWarning, *where)


def _flatten(error: Error) -> tuple[tuple[Any, ...], tuple[Site, ...]]:
    error.asked = True  # whoever has the leaves makes another of them
    return ((error.code, *error.payload) if error.sites else ()), error.sites


def _unflatten(sites: tuple[Site, ...], leaves: Sequence[Any]) -> Error:
    code, *payload = leaves if sites else (None,)
    return Error(code, payload, sites)


tree.register_pytree_node(Error, _flatten, _unflatten)

# ---------------------------------------------------------------------------- the primitive


def _typing(*types: Any, **_: Any) -> list[Any]:
    return []


def _effects(*types: Any, **_: Any) -> Effects:
    return frozenset({CHECK})


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return check_p.bind(*primals, **params), []


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    whole = [broadcast_batch(x, axis.size) if d is None else moved(axis, x, d, 0)
             for x, d in zip(args, dims, strict=True)]  # fmt: skip
    return check_p.bind(*whole, **params), []


def _numpy(code: Operand, *payload: Any, sites: tuple[Site, ...], debug: bool) -> list[Any]:
    failure = None if debug else Error(code, payload, sites).get_exception()
    if failure is not None:
        raise failure
    return []


def _expand(*args: Any, sites: tuple[Site, ...], debug: bool) -> list[Any]:
    """What a compiled program has of a check: nothing, of one for debugging."""
    if not debug:
        raise NotFunctionalizedError(
            f"a check is compiled that `checkify` has not made part of the program: {sites[0].text!r}",
            "apply `checkify.checkify` to the function before `jit`, `scan` and the like", sites[0].source)  # fmt: skip
    return []


check_p: Primitive = Primitive(
    "check", _typing, jvp=_jvp, batch=_batch, numpy=_numpy, expand=_expand, effects=_effects, multiple=True, work=FREE,
    kind=EFFECT, eager=True,
)  # fmt: skip

# ---------------------------------------------------------------------------- functions


def _bind(error: Error, debug: bool) -> None:
    error.asked = True
    if is_evaluating():
        _numpy(error.code, *error.payload, sites=error.sites, debug=debug)
    elif error.sites:
        check_p.bind(error.code, *error.payload, sites=error.sites, debug=debug)


def _predicate(pred: ArrayLike, name: str) -> Any:
    if not isinstance(pred, (bool, np.bool_)):
        type_ = typeof(pred)
        if type_.shape or not is_bool(type_.dtype):
            raise ArgumentTypeError(
                f"{name} takes a scalar boolean, got {type_.show()}", "reduce it, as with `numpy.all`")  # fmt: skip
    return pred


def failing(pred: ArrayLike) -> Any:
    """The code of a single site: 1 where a predicate is false."""
    if isinstance(pred, (bool, np.bool_)):
        return np.int32(not pred)
    return convert_element_type(not_p.bind(pred), np.dtype(np.int32))


def _check(name: str, pred: ArrayLike, msg: str, debug: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if not isinstance(msg, str):
        raise ArgumentTypeError(f"the message of {name} is {msg!r}", "pass a string, as of `str.format`")
    found, values = site(FailedCheckError, msg, user_source(), args, kwargs)
    _bind(Error(failing(_predicate(pred, name)), values, (found,)), debug)


def check(pred: ArrayLike, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Fail with a message where the scalar `pred` is false; the message is formatted as by `str.format`.

    Outside of a transformation it raises at once. Within, `checkify` makes it part of what the function returns; a
    compiled function that `checkify` was not applied to raises `NotFunctionalizedError`, but for `debug=True`, where
    the check is left out. In the body of a kernel the failure tells the cell.

    Raises:
      FailedCheckError: `pred` is known and false.
      ArgumentTypeError: a predicate that is no boolean scalar, or a message that is no string.

    >>> from tilewright.experimental import checkify
    >>> checkify.check(1 < 2, "{} is not less", 1)
    """
    _check("check", pred, msg, debug, fmt_args, fmt_kwargs)


def debug_check(pred: ArrayLike, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check` where the function is checked by `checkify`, and nothing elsewhere.

    >>> from tilewright.experimental import checkify
    >>> checkify.debug_check(False, "nobody asks")
    """
    _check("debug_check", pred, msg, True, fmt_args, fmt_kwargs)


def check_error(error: Error) -> None:
    """Raise what an `Error` holds; within a function that `checkify` is applied to, make it one of its checks.

    Raises:
      CheckError: the error holds a failure, of its kind (`FailedCheckError`, `NaNError`, ...).

    >>> from tilewright.experimental import checkify
    >>> error, out = checkify.checkify(lambda x: x)(1.0)
    >>> checkify.check_error(error)
    """
    if not isinstance(error, Error):
        raise ArgumentTypeError(f"check_error takes an Error, got {error!r}", "pass what a checked function returned")
    _bind(error, False)


# ---------------------------------------------------------------------------- several failures

ZERO = np.int32(0)


def no_failure(sites: Sequence[Site]) -> list[Any]:
    """Code and payload of sites of which none has failed; nothing for no sites."""
    return [ZERO, *(zeros(t) for s in sites for t in s.types)] if sites else []


def merged(old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """Code and payload of the same sites at two times: the first failure counts."""
    failed = ne_p.bind(old[0], ZERO)
    return [select_n_p.bind(failed, n, o) for o, n in zip(old, new, strict=True)]


def first_of(code: ArrayLike, payload: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Of codes and payloads with leading axes the first that tell of a failure."""
    shape = shape_of(code)
    if not shape:
        return code, list(payload)
    n, count = len(shape), int(np.prod(shape))
    at = argmax(convert_element_type(reshape_to(code, (count,)), np.dtype(bool)), 0)

    def pick(x: Array) -> Any:
        inner = shape_of(x)[n:]
        rows = reshape_to(x, (count, *inner))
        row = dynamic_slice_p.bind(rows, at, *[ZERO] * len(inner), slice_sizes=(1, *inner))
        return reshape_to(row, inner)

    return pick(code), [pick(x) for x in payload]
