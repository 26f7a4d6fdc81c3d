"""Calls of Python on the host from within compiled programs.

    pure_callback(*args; callback, result_types, vmap_method)      may run any number of times, or never
    io_callback(*args; callback, result_types, ordered)            runs once for each execution
    debug_callback(*args; callback, ordered)                       runs once and gives nothing

`callback` takes NumPy arrays and gives a tuple of NumPy arrays. Ordered calls run in program order.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Operand
from ...ir.axis_relation import EFFECT, FREE
from ...ir.binding import is_evaluating
from ...ir.primitive import AxisInfo, Primitive
from ...ir.program import CALLBACK, ORDERED, Effects, Program
from ...ir.types import ArrayType, canonical_dtype
from ...support import pytree
from ...support.errors import (
    ArgumentError,
    ArgumentTypeError,
    CallbackError,
    NoDerivativeError,
    NonArrayArgumentError,
    UnsupportedError,
)
from ...tracing.array_conversion import make_array
from ...tracing.trace import as_type, trace_program, typeof
from ...transforms.structural_primitives import broadcast_batch, moved
from ..control_flow.scan import bind_scan
from ..movement.shape import concatenate, expand_dims, index_in_dim

if TYPE_CHECKING:
    from ...support.pytree import PyTreeDef

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


def _typing(*types: Any, result_types: Sequence[ArrayType], **_: Any) -> list[ArrayType]:
    return list(result_types)


def _nothing(*types: Any, **_: Any) -> list[ArrayType]:
    return []


def _effects(*types: Any, ordered: bool, **_: Any) -> Effects:
    return frozenset({ORDERED if ordered else CALLBACK})


def _numpy(*arrays: Any, callback: Callable[..., Any], **_: Any) -> Any:
    return list(callback(*arrays))


def no_derivative(name: str) -> Callable[..., Any]:
    def rule(*args: Any, **params: Any) -> Any:
        raise NoDerivativeError(
            f"{name} has no derivative: what Python does is not known",
            "give the function a `custom_jvp` or `custom_vjp` rule, or use `stop_gradient`",
        )

    return rule


def _one_by_one(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], primitive: Primitive, params: dict[str, Any]
) -> Any:
    """Call for one element after another, in a loop."""
    batched = [moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True) if d is not None]
    shared = [x for x, d in zip(args, dims, strict=True) if d is None]
    types = [*map(typeof, shared), *(typeof(x).with_shape(typeof(x).shape[1:]) for x in batched)]

    def body(*values: Any) -> Any:
        fixed, items = iter(values[: len(shared)]), iter(values[len(shared) :])
        return primitive.bind(*(next(fixed) if d is None else next(items) for d in dims), **params)

    program: Program = trace_program(body, types, primitive.name)
    outs = bind_scan(program, shared, [], batched, length=axis.size, reverse=False, unroll=1)
    return outs, [0] * len(outs)


def batch_by_method(
    primitive: Primitive, axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], params: dict[str, Any],
    more: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Call for a batch as `vmap_method` says; `more` are parameters that change where whole batches are given."""
    vmap_method, result_types = params["vmap_method"], params["result_types"]
    if vmap_method is None:
        raise UnsupportedError(
            f"{primitive.name} under `vmap` without a vmap_method", f"pass vmap_method=, one of {VMAP_METHODS}"
        )
    if vmap_method == "sequential":
        return _one_by_one(axis, args, dims, primitive, params)
    if vmap_method == "sequential_unrolled":
        rows = [
            primitive.bind(
                *(x if d is None else index_in_dim(x, i, d, keepdims=False) for x, d in zip(args, dims, strict=True)),
                **params,
            )
            for i in range(axis.size)
        ]
        columns = zip(*rows, strict=True)
        return [concatenate([expand_dims(y, (0,)) for y in column], 0) for column in columns], [0] * len(result_types)
    size = {"broadcast_all": axis.size, "expand_dims": 1}.get(vmap_method)  # of operands that have no batch

    def operand(x: Operand, d: int | None) -> Any:
        return moved(axis, x, d, 0) if d is not None else x if size is None else broadcast_batch(x, size)

    operands = list(map(operand, args, dims))
    wide = tuple(t.with_shape((axis.size, *t.shape)) for t in result_types)
    return primitive.bind(*operands, **params | (more or {}) | {"result_types": wide}), [0] * len(result_types)


def _batch_pure(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    return batch_by_method(pure_callback_p, axis, args, dims, params)


def _batch_io(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    if params["ordered"]:
        raise UnsupportedError(
            "an ordered io_callback under `vmap`: its elements have no order", "pass ordered=False, or use `lax.map`"
        )
    return _one_by_one(axis, args, dims, io_callback_p, params)


def _jvp_debug(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return debug_callback_p.bind(*primals, **params), []


def _everywhere(types: Any, outs: Sequence[Any], **_: Any) -> list[list[tuple[Any, ...]]]:
    """Each device calls the function with whole arrays, and has its whole results."""
    return [[()] * t.ndim for t in outs]


pure_callback_p: Primitive = Primitive(
    "pure_callback", _typing, jvp=no_derivative("pure_callback"), batch=_batch_pure, numpy=_numpy, multiple=True,
    work=FREE, places=_everywhere,
)  # fmt: skip
io_callback_p: Primitive = Primitive(
    "io_callback",
    _typing,
    jvp=no_derivative("io_callback"),
    batch=_batch_io,
    effects=_effects,
    work=FREE,
    kind=EFFECT,
    numpy=_numpy,
    multiple=True,
)
debug_callback_p: Primitive = Primitive(
    "debug_callback",
    _nothing,
    jvp=_jvp_debug,
    effects=_effects,
    work=FREE,
    kind=EFFECT,
    numpy=_numpy,
    multiple=True,
    batch=lambda axis, args, dims, **params: _one_by_one(axis, args, dims, debug_callback_p, params),
)
PRIMITIVES = (pure_callback_p, io_callback_p, debug_callback_p)


# ---------------------------------------------------------------------------- functions


def check_vmap_method(name: str, vmap_method: str | None) -> None:
    """Raise `ArgumentError` for a way to call for batches that there is not."""
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ArgumentError(f"{name} has no vmap_method {vmap_method!r}", f"pass one of {VMAP_METHODS}")


class _Flat:
    """A user's function over flat NumPy arrays, its results checked against their types."""

    def __init__(self, function: Callable[..., Any], in_tree: PyTreeDef, out_tree: PyTreeDef, keep: bool):
        self.function, self.in_tree, self.out_tree, self.keep = function, in_tree, out_tree, keep
        self.__name__ = getattr(function, "__name__", "callback")

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        # The buffers are the program's own and are used again after the call.
        args, kwargs = self.in_tree.unflatten([np.array(a) if self.keep else np.asarray(a) for a in arrays])
        out = self.function(*args, **kwargs)
        if self.out_tree is None:
            return ()
        leaves, found = pytree.flatten(out)
        if len(leaves) != self.out_tree.num_leaves:  # lists for tuples are taken
            raise CallbackError(
                f"the callback {self.__name__} returned {found}, not {self.out_tree}",
                "return the structure of result_shape_dtypes",
            )
        return tuple(np.asarray(x) for x in leaves)


def checked_results(callback: Callable[..., Any], types: Sequence[ArrayType], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Call a flat callback; its results as contiguous arrays of these types, or an error that says what differs."""
    results = callback(*arrays)
    checked = []
    name = getattr(callback, "__name__", "callback")
    for i, (x, t) in enumerate(zip(results, types, strict=True)):
        x = np.asarray(x)
        dtype = canonical_dtype(x.dtype)
        if x.shape != t.shape or dtype != t.dtype:
            raise CallbackError(
                f"result {i} of the callback {name} is {ArrayType(x.shape, dtype).show()}, not {t.show()}",
                "return what result_shape_dtypes says",
            )
        checked.append(np.ascontiguousarray(x.astype(t.dtype, copy=False)).reshape(t.shape))
    return tuple(checked)


def _flat(
    callback: Callable[..., Any], result_shape_dtypes: Any, args: Sequence[Any], kwargs: Mapping[str, Any], keep: bool
) -> Any:
    if not callable(callback):
        raise ArgumentError(f"the callback is {callback!r}", "pass a function")
    leaves, in_tree = pytree.flatten((args, kwargs))
    for x in leaves:
        typeof(x)
    structs, out_tree = pytree.flatten(result_shape_dtypes)
    return leaves, _Flat(callback, in_tree, out_tree, keep), tuple(as_type(s).strong() for s in structs), out_tree


def _now(flat: _Flat, types: Sequence[ArrayType], leaves: Sequence[Any]) -> list[Any]:
    """Outside of any transformation the call needs no program."""
    arrays = [np.asarray(x).astype(typeof(x).dtype, copy=False) for x in leaves]
    return [make_array(np.array(x), t) for x, t in zip(checked_results(flat, types, arrays), types, strict=True)]


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects on NumPy arrays, from within a compiled program.

    `result_shape_dtypes` is a pytree of things with `shape` and `dtype`, of the structure of the result. Under
    `vmap` the function sees, by `vmap_method`: one element at a time ("sequential", "sequential_unrolled"), or
    whole batches along a leading axis, unbatched arguments with a leading axis of one ("expand_dims") or
    repeated ("broadcast_all"). Raises `CallbackError` where the result is not what was said.

    >>> import numpy as np, tilewright as tw
    >>> shape = tw.ShapeDtypeStruct((), np.float32)
    >>> print(tw.jit(lambda x: tw.pure_callback(np.sin, shape, x))(0.0))
    0.0
    """
    check_vmap_method("pure_callback", vmap_method)
    leaves, flat, types, out_tree = _flat(callback, result_shape_dtypes, args, kwargs, keep=False)
    if is_evaluating():
        return out_tree.unflatten(_now(flat, types, leaves))
    return out_tree.unflatten(pure_callback_p.bind(*leaves, callback=flat, result_types=types, vmap_method=vmap_method))


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function that has side effects on NumPy arrays, once for each time the program runs.

    With `ordered=True` such calls run in program order. Errors as `pure_callback`.

    >>> import tilewright as tw
    >>> seen = []
    >>> tw.jit(lambda x: tw.io_callback(lambda v: seen.append(float(v)), None, x, ordered=True))(2.0)
    >>> tw.effects_barrier(); seen
    [2.0]
    """
    leaves, flat, types, out_tree = _flat(callback, result_shape_dtypes, args, kwargs, keep=True)
    if is_evaluating():
        return out_tree.unflatten(_now(flat, types, leaves))
    return out_tree.unflatten(io_callback_p.bind(*leaves, callback=flat, result_types=types, ordered=ordered))


def debug_callback(
    callback: Callable[..., Any] | None = None, *args: Any, ordered: bool = False, partitioned: bool = False,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a Python function for its side effects, on the values that the program computes; its result is dropped.

    It takes part in no derivative, and under `vmap` sees one element at a time. Arguments that are no arrays, such as
    dtypes and strings, are passed on as they are. Without a callback it gives the function of one and its arguments,
    `debug_callback(ordered=True)(f, x)`. Raises `ArgumentTypeError` for other arguments without a callback.

    >>> import tilewright as tw
    >>> tw.debug.callback(lambda x: print("x is", x), 2.0)
    x is 2.0
    """
    if callback is None:
        _only_options("debug_callback", args, kwargs)
        return lambda callback, *args, **kwargs: _called_back(callback, args, kwargs, ordered)
    return _called_back(callback, args, kwargs, ordered)


def _only_options(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if args or kwargs:
        given = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())])
        raise ArgumentTypeError(f"{name} is given {given}, and nothing to call", f"{name}(ordered=True)(...) takes it")


def _called_back(callback: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], ordered: bool) -> None:
    leaves, flat, _, _ = _flat(*_without_static(callback, args, kwargs), keep=True)
    flat.out_tree = None
    if is_evaluating():
        _now(flat, (), leaves)
    else:
        debug_callback_p.bind(*leaves, callback=flat, ordered=ordered)


def _without_static(
    callback: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, None, Any, dict[str, Any]]:
    """A callback and its arguments; where some are no arrays, a callback that has these, and the others."""
    leaves, tree = pytree.flatten((args, kwargs))
    static = {i: x for i, x in enumerate(leaves) if not _is_array(x)}
    if not static:
        return callback, None, args, kwargs

    def call(*arrays: Any) -> Any:
        values = iter(arrays)
        args, kwargs = tree.unflatten([static[i] if i in static else next(values) for i in range(len(leaves))])
        return callback(*args, **kwargs)

    return call, None, [x for i, x in enumerate(leaves) if i not in static], {}


def _is_array(x: Any) -> bool:
    try:
        typeof(x)
    except NonArrayArgumentError:
        return False
    return True


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values that the program computes, formatted as by `str.format`.

    Without a format it gives the function of one and its arguments, `debug_print(ordered=True)("{x}", x=x)`. Raises
    `ArgumentError` where format and arguments do not fit.

    >>> import tilewright as tw
    >>> tw.debug.print("x = {x:.2f}", x=2.0)
    x = 2.00
    """
    if fmt is None:
        _only_options("debug_print", args, kwargs)
        return lambda fmt, *args, **kwargs: _printed(fmt, args, kwargs, ordered, skip_format_check)
    return _printed(fmt, args, kwargs, ordered, skip_format_check)


def _printed(fmt: str, args: Sequence[Any], kwargs: dict[str, Any], ordered: bool, skip_format_check: bool) -> None:
    if not isinstance(fmt, str):
        raise ArgumentError(f"the format of debug.print is {fmt!r}", "pass a string, as in debug.print('{}', x)")
    if not skip_format_check:
        _check_format(fmt, len(args), kwargs)

    def show(*values: Any, **named: Any) -> None:
        print(fmt.format(*values, **named) + "\n", end="")  # one write: lines of several devices stay apart

    show.format = fmt  # what a device prints by itself
    _called_back(show, args, kwargs, ordered)


def _check_format(fmt: str, count: int, kwargs: Mapping[str, Any]) -> None:
    fields = [name for _, name, _, _ in string.Formatter().parse(fmt) if name is not None]
    numbered = iter(range(len(fields)))
    used = {name.split(".")[0].split("[")[0] or str(next(numbered)) for name in fields}
    given = {*map(str, range(count)), *kwargs}
    if used != given:
        raise ArgumentError(
            f"the format of debug.print names {sorted(used)}, its arguments are {sorted(given)}",
            "name each argument in the format, as in debug.print('x = {}', x)",
        )
