"""The transformations as users call them: pytrees in, pytrees out."""

from __future__ import annotations

import contextlib
import functools
import itertools
import reprlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ir.array import Array, ArrayLike
from ..ir.extension_types import MappingSpec, differentiable, is_opaque, mapped_types
from ..ir.primitive import AxisInfo, Linear
from ..ir.program import Program
from ..ir.types import ArrayType, RefType, as_dtype, is_complex, is_float, is_inexact
from ..primitives.movement.shape import copy_p, reshape, slice_in_dim
from ..support import pytree
from ..support.errors import (
    ArgumentError,
    ArgumentTypeError,
    BatchAxisError,
    NonDifferentiableDtypeError,
    NonScalarGradientError,
    TreeError,
    UnsupportedError,
    plural,
)
from ..support.runtime import runtime
from ..tracing.trace import Tracer, Value, as_type, extended_axes, trace_program, typeof
from ..transforms.batching import batch_flat, split_as_mapped
from ..transforms.jvp import jvp_flat
from ..transforms.linearize import LinearMap, Purpose, linear_part, linearize_flat
from ..transforms.rule_helpers import instantiate
from ..transforms.structural_primitives import moved, reduce_sum_p
from ..transforms.transpose import transpose_map
from .vjp_functions import VJP, Pushforward, check_linear, materialize, nested_flags


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """A shape and dtype in place of an array; a bare `PartitionSpec` as `sharding` is over the mesh in force.

    The set `manual_axis_type.varying` is of the axes of a mesh along which its values differ, within `shard_map`.

    Raises:
      UnsupportedError: `is_ref`, or axes along which it is reduced or not reduced yet.
      ArgumentError: a bare `PartitionSpec` without a mesh in force.
      ShapeError: a sharding with more entries than the shape.
      ArgumentTypeError: a text or a tuple as a size.

    >>> ShapeDtypeStruct((2, 3), "float32").size
    6
    """

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool = False
    sharding: Any = None
    manual_axis_type: Any = None
    is_ref: bool = False

    def __post_init__(self) -> None:
        if self.is_ref:
            raise UnsupportedError("ShapeDtypeStruct(is_ref=True)", "make a Ref with `new_ref`, or pass its type")
        if any(getattr(self.manual_axis_type, name, None) for name in ("reduced", "unreduced")):
            raise UnsupportedError(f"ShapeDtypeStruct(manual_axis_type={self.manual_axis_type!r})",
                                   "only `varying` has a meaning here")  # fmt: skip
        sizes = tuple(self.shape)
        if wrong := [n for n in sizes if isinstance(n, (str, tuple, list))]:
            raise ArgumentTypeError(
                f"ShapeDtypeStruct: {wrong[0]!r} in the shape {sizes!r} is not a size",
                "give integers, or symbolic sizes: `(b,) = export.symbolic_shape('b')` unpacks a tuple")  # fmt: skip
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "dtype", as_dtype(self.dtype))
        if hasattr(self.sharding, "partitions"):  # a bare PartitionSpec
            object.__setattr__(self, "sharding", self.sharding.placed("a ShapeDtypeStruct of the sharding"))
        if hasattr(self.sharding, "check_rank"):
            self.sharding.check_rank(sizes)

    def __repr__(self) -> str:
        more = [", weak_type=True"] * self.weak_type + [f", sharding={self.sharding}"] * (self.sharding is not None)
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype}{''.join(more)})"

    @classmethod
    def like(cls, x: ArrayLike) -> ShapeDtypeStruct:
        """The shape and dtype of an array, or of anything that stands for one, and the sharding that was named for it.

        >>> ShapeDtypeStruct.like(np.ones((2, 3), np.float32)).shape
        (2, 3)
        """
        type_ = as_type(x)
        sharding = getattr(x, "sharding", None) if getattr(x, "committed", True) else None
        if sharding is None and getattr(type_, "placed", None) is not None:
            sharding = type_.sharding  # of a traced value
        return cls(type_.shape, type_.dtype, type_.weak_type, sharding)

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """A copy with some of its fields changed."""
        return replace(self, **changes)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def __len__(self) -> int:
        return self.shape[0]


def _check_callable(fun: Callable[..., Any]) -> None:
    if not callable(fun):
        what = f"a transformation takes a function, got {reprlib.repr(fun)} of type {type(fun).__name__}"
        raise ArgumentTypeError(what, "pass the function itself: grad(f)(x) for grad(f(x))")


def _like(fun: Callable[..., Any]) -> Callable[[Any], Any]:
    """A decorator that gives a function the name of another, where that has one."""
    _check_callable(fun)
    named = [name for name in ("__name__", "__doc__", "__module__") if isinstance(getattr(fun, name, None), str)]
    return functools.wraps(fun, assigned=named, updated=())


def _traced(aux: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The traced values of an auxiliary result, which may hold anything, and what puts others in their places."""
    leaves, treedef = pytree.flatten(aux)
    places = [i for i, x in enumerate(leaves) if isinstance(x, Tracer)]

    def replaced(values: Sequence[Any]) -> Any:
        full = list(leaves)
        for i, value in zip(places, values, strict=True):
            full[i] = value
        return treedef.unflatten(full)

    return [leaves[i] for i in places], replaced


def struct_of(type: Any) -> Any:
    """What stands for a value of a type: its shape and dtype, or the type itself where it has none."""
    if is_opaque(type):
        return type
    return ShapeDtypeStruct(type.shape, type.dtype, type.weak_type, sharding=type.placed)


class Flat:
    """A function of flat arguments; the structure of its result is known after a call as `out_tree`."""

    fun: Callable[..., Any]
    in_tree: Any
    kwargs: bool
    has_aux: bool

    def __init__(self, fun: Callable[..., Any], in_tree: pytree.PyTreeDef, kwargs: bool = False, has_aux: bool = False):
        _check_callable(fun)
        self.fun, self.in_tree, self.kwargs, self.has_aux = fun, in_tree, kwargs, has_aux
        self.out_tree: Any = None
        self.aux: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        tree_in = self.in_tree.unflatten(leaves)
        out = self.fun(*tree_in[0], **tree_in[1]) if self.kwargs else self.fun(*tree_in)
        if self.has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                found = typeof(out).show() if isinstance(out, Value) else type(out).__name__
                raise ArgumentTypeError(f"with has_aux=True the function returns a pair, and returned {found}",
                                        "return (output, auxiliary)")  # fmt: skip
            out, self.aux = out
        flat, self.out_tree = pytree.flatten(out)
        for x in flat:
            typeof(x)
        return flat


# ---------------------------------------------------------------------------- forward and reverse mode


def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The value of a function and the directional derivative along `tangents`.

    `primals` and `tangents` are sequences of the function's positional arguments. Raises `ShapeError` or
    `DifferentiationError` where a tangent does not match its primal.

    >>> import tilewright as tw
    >>> tw.jvp(lambda x: x * x, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise ArgumentTypeError("jvp takes primals and tangents as tuples or lists", "write jvp(f, (x,), (t,))")
    flat, in_tree = pytree.flatten(tuple(primals))
    flat_tangents, tangent_tree = pytree.flatten(tuple(tangents))
    if in_tree != tangent_tree:
        raise TreeError(f"primals and tangents differ in structure: {in_tree} and {tangent_tree}", "make them alike")
    f = Flat(fun, in_tree, has_aux=has_aux)
    aux: list[Any] = []

    def with_aux(*args: Any) -> list[Any]:
        outs = f(*args)
        traced, replaced = _traced(f.aux)
        aux[:] = [len(outs), replaced]
        return [*outs, *traced]

    checked = check_linear(flat_tangents, [typeof(x) for x in flat], "tangent", "primal")
    outs, out_tangents = jvp_flat(with_aux, flat, checked)
    n, replaced = aux
    found = [materialize(t, typeof(x)) for t, x in zip(out_tangents[:n], outs)]
    result = f.out_tree.unflatten(outs[:n]), f.out_tree.unflatten(found)
    return (*result, replaced(outs[n:])) if has_aux else result


def _linearized(
    fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool, why: Purpose = Purpose.TRANSPOSE,
    chosen: Sequence[bool] | None = None,
) -> Any:  # fmt: skip
    """Common to linearize, vjp and grad: (flat outs, linear map, out tree, in tree, aux)."""
    flat, in_tree = pytree.flatten(tuple(primals))
    for x in flat:
        typeof(x)
    f = Flat(fun, in_tree, has_aux=has_aux)
    count: list[Any] = []

    def with_aux(*args: Any) -> list[Any]:
        outs = f(*args)
        traced, replaced = _traced(f.aux)
        count[:] = [len(outs), replaced]
        return [*outs, *traced]

    nonzero = [differentiable(typeof(x)) for x in flat]
    if chosen is not None:
        nonzero = [d and c for d, c in zip(nonzero, chosen, strict=True)]
    outs, linear = linearize_flat(with_aux, flat, nonzero, why)
    n, replaced = count
    linear = LinearMap(linear.inputs, linear.eqns, linear.outputs[:n])
    return outs[:n], linear, f.out_tree, in_tree, replaced(outs[n:])


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, in_nzs: Any = None) -> Any:
    """The value of a function at `primals` and its derivative there as a linear function of tangents.

    `in_nzs` says as in `vjp` by which inputs; the tangents of others count as zero.

    >>> import tilewright as tw
    >>> y, f_jvp = tw.linearize(lambda x: x * x, 3.0)
    >>> print(y, f_jvp(2.0))
    9.0 12.0
    """
    chosen = None if in_nzs is None else nested_flags(in_nzs, pytree.structure(primals), "in_nzs")
    outs, linear, out_tree, in_tree, aux = _linearized(fun, primals, has_aux, Purpose.APPLY, chosen)
    pushforward = Pushforward(linear, _types(primals), in_tree, list(map(typeof, outs)), out_tree)
    result = out_tree.unflatten(outs), pushforward
    return (*result, aux) if has_aux else result


def _types(values: Sequence[Any]) -> list[Any]:
    return [typeof(x) for x in pytree.leaves(tuple(values))]


def _no_reduce_axes(axes: Sequence[Any]) -> None:
    if axes:
        raise UnsupportedError(f"reduce_axes={axes!r} is not supported", "apply `lax.psum` to the gradients")


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = (),
        saveable_args: Any = True, in_nzs: Sequence[int] | None = None) -> Any:  # fmt: skip
    """The value of a function and the function from output cotangents to input cotangents.

    `saveable_args` is True, or says of each argument, or of each part of one in tuples nested as it is, whether the
    pullback may hold it; those that it may not are put back before it is called (`pullback.args_res[i] = ...`).
    `in_nzs` says in the same way which inputs are differentiated by. Raises `TreeError` where these do not fit.

    `pullback.with_refs(...)` says of each input whether its cotangent is given (`ad.GradValue()`), left out
    (`ad.DontWant()`), or added to a Ref, as that of an input that is a Ref has to be.

    >>> import tilewright as tw
    >>> y, pullback = tw.vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> [float(ct) for ct in pullback(1.0)]
    [4.0, 3.0]
    >>> total = tw.new_ref(1.0)
    >>> pullback.with_refs(total, tw.ad.DontWant())(1.0)
    (GradRef(), DidntWant())
    >>> total
    Ref(5., dtype=float32)
    """
    _no_reduce_axes(reduce_axes)
    flat, in_tree = pytree.flatten(primals)
    run, values, refs = _over_values(lambda *leaves: fun(*in_tree.unflatten(leaves)), flat, [True] * len(flat))
    if not refs:
        run, values = fun, primals
    elif has_aux:
        run = _aux_last(run)
    chosen = None if in_nzs is None else nested_flags(in_nzs, in_tree, "in_nzs")
    outs, linear, out_tree, _, aux = _linearized(run, values, has_aux, chosen=chosen)
    saveable = None if saveable_args is True else nested_flags(saveable_args, in_tree, "saveable_args")
    given = tuple(map(id, pytree.leaves(values)))
    pullback = VJP(linear, _types(values), in_tree, list(map(typeof, outs)), out_tree, tuple(refs), given, saveable)
    value = out_tree.unflatten(outs)
    if refs:
        value, held = value
        for i, x in zip(refs, held, strict=True):
            flat[i][...] = x
    return (value, pullback, aux) if has_aux else (value, pullback)


def _over_values(fun: Callable[..., Any], flat: Sequence[Any], chosen: Sequence[bool]) -> Any:
    """A function as one of what Refs among its operands hold, its operands, and which of them were Refs."""
    if not any([getattr(type(x), "is_mutable_ref", False) for x in flat]):
        return fun, flat, ()
    return runtime.interceptors.mutable_refs.over_values(fun, flat, chosen)


def _aux_last(run: Callable[..., Any]) -> Callable[..., Any]:
    """((out, aux), held) as ((out, held), aux)."""

    def moved_last(*args: Any) -> Any:
        (out, aux), held = run(*args)
        return (out, held), aux

    return moved_last


def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()) -> Callable[[Any], tuple[Any, ...]]:
    """The transpose of a linear function; `primals` give only shapes and dtypes. A pytree, which `jit` may return.

    Raises:
      NonDifferentiableDtypeError: `primals` that are neither floats nor complex numbers.

    >>> import tilewright as tw
    >>> [float(x) for x in tw.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)]
    [6.0]
    """
    _no_reduce_axes(reduce_axes)
    flat, in_tree = pytree.flatten(tuple(primals))
    types = [as_type(x) for x in flat]
    for t in types:
        if not is_opaque(t) and not is_inexact(t.dtype):
            raise NonDifferentiableDtypeError(f"linear_transpose of an input of type {t.show()}", "cast to float")

    def transposed(cotangent: pytree.PyTree) -> tuple[Any, ...]:
        f = Flat(fun, in_tree)
        _, linear = linear_part(f, [Linear(t) for t in types], [True] * len(types))
        cts, ct_tree = pytree.flatten(cotangent)
        if ct_tree != f.out_tree:
            raise TreeError(f"the cotangent has structure {ct_tree}, the output {f.out_tree}", "make them alike")
        cts = check_linear(cts, [v.type for v in linear.outputs], "cotangent", "output")
        return in_tree.unflatten([instantiate(ct) for ct in transpose_map(linear, cts)])

    return pytree.Partial(transposed)


def _argnums(argnums: int | Sequence[int], count: int, what: str) -> tuple[tuple[int, ...], bool]:
    single = not isinstance(argnums, (tuple, list))
    numbers = (argnums,) if single else tuple(argnums)
    for i in numbers:
        if not isinstance(i, (int, np.integer)):
            raise ArgumentTypeError(f"{what}: argnums {argnums!r} are not integers", "give an int or a tuple of ints")
        if not -count <= i < count:
            raise ArgumentError(f"{what} with argnums={argnums!r} of a call with "
                                f"{plural(count, 'positional argument')}",
                                "pass the differentiated arguments by position")  # fmt: skip
    return tuple(int(i) % count for i in numbers), single


def _check_input_dtype(x: ArrayLike, holomorphic: bool, allow_int: bool, what: str) -> None:
    if is_opaque(typeof(x)):
        return
    dtype = typeof(x).dtype
    if isinstance(typeof(x), RefType):
        raise ArgumentTypeError(f"{what} by a Ref of {typeof(x).array.show()}",
                                "use `vjp` and its pullback's `with_refs`, or other `argnums`")  # fmt: skip
    if holomorphic and not is_complex(dtype):
        raise NonDifferentiableDtypeError(
            f"{what} with holomorphic=True of an input of dtype {dtype}", "pass complex inputs"
        )
    if not holomorphic and is_complex(dtype) and what == "jacfwd":  # a pullback of real outputs is defined
        raise NonDifferentiableDtypeError(
            f"{what} of an input of dtype {dtype}", "pass holomorphic=True, or real inputs"
        )
    if not is_inexact(dtype) and not allow_int:
        raise NonDifferentiableDtypeError(
            f"{what} needs floating-point inputs, got {typeof(x).show()}",
            "cast to float, or pass allow_int=True",
        )


def value_and_grad[**P, R](
    fun: Callable[P, R], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False, reduce_axes: Sequence[Any] = (),
) -> Callable[P, tuple[R, Any]]:  # fmt: skip
    """A function that gives `fun`'s scalar value and its gradient with respect to `argnums`.

    Raises `NonScalarGradientError` where the output is not a scalar and `NonDifferentiableDtypeError`
    where an input or the output is not floating point.

    >>> import tilewright as tw
    >>> value, slope = tw.value_and_grad(lambda x: x ** 3)(2.0)
    >>> print(value, slope)
    8.0 12.0
    """

    _no_reduce_axes(reduce_axes)
    function: Callable[..., Any] = fun

    @_like(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        numbers, single = _argnums(argnums, len(args), "grad")
        selected = [args[i] for i in numbers]
        for x in pytree.leaves(selected):
            _check_input_dtype(x, holomorphic, allow_int, "grad")

        def partial(*chosen: Any) -> Any:
            full = list(args)
            for i, value in zip(numbers, chosen, strict=True):
                full[i] = value
            return function(*full, **kwargs)

        outs, linear, out_tree, in_tree, aux = _linearized(partial, selected, has_aux)
        ct = _unit_cotangent(outs, out_tree, holomorphic)
        cts = map(materialize, transpose_map(linear, [ct]), _types(selected))
        grads = in_tree.unflatten([as_array(g) for g in cts])
        value = as_array(outs[0])
        return ((value, aux) if has_aux else value), (grads[0] if single else tuple(grads))

    return wrapped


def as_array(x: ArrayLike) -> Any:
    """A number that a function gave back as it came, as an array."""
    return x if isinstance(x, (Value, np.ndarray)) or is_opaque(typeof(x)) else copy_p.bind(x)


def _unit_cotangent(outs: Sequence[Any], out_tree: pytree.PyTreeDef, holomorphic: bool) -> Any:
    if not pytree.treedef_is_leaf(out_tree) or len(outs) != 1:
        raise NonScalarGradientError(
            f"grad of a function that returns {len(outs)} arrays in the structure {out_tree}",
            "return one scalar, and the rest as `(scalar, rest)` with has_aux=True; or use `vjp`",
        )
    type_ = typeof(outs[0])
    if type_.shape != ():
        raise NonScalarGradientError(
            f"grad of a function whose output has type {type_.show()}",
            "return a scalar (a sum, say), or use `jacrev`",
        )
    dtype = type_.dtype
    if not (is_complex(dtype) if holomorphic else is_float(dtype)):
        hint = "pass holomorphic=True for a complex output" if is_complex(dtype) else "make the output floating point"
        raise NonDifferentiableDtypeError(f"grad of a function whose output has dtype {dtype}", hint)
    return instantiate_one(ArrayType((), dtype))


def instantiate_one(type_: ArrayType) -> Any:
    """A scalar 1 of a type."""
    return type_.dtype.type(1)


def grad[**P](
    fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False, reduce_axes: Sequence[Any] = (),
) -> Callable[P, Any]:  # fmt: skip
    """A function that gives the gradient of the scalar function `fun` with respect to `argnums`.

    Errors as `value_and_grad`.

    >>> import tilewright as tw
    >>> print(tw.grad(lambda x: x ** 3)(2.0))
    12.0
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @_like(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapped


# ---------------------------------------------------------------------------- Jacobians


def _basis(flat: Sequence[Any]) -> list[Any]:
    """For each leaf, the rows of the identity that belong to it: (total size, *shape)."""
    types = [typeof(x) for x in flat]
    total = sum(t.size for t in types)
    rows, start = [], 0
    for t in types:
        row = np.zeros((total, t.size), t.dtype)
        row[np.arange(start, start + t.size), np.arange(t.size)] = 1
        rows.append(row.reshape(total, *t.shape))
        start += t.size
    return rows


def selected(fun: Callable[..., Any], argnums: Any, args: Sequence[Any], kwargs: Any, what: str) -> Any:
    numbers, single = _argnums(argnums, len(args), what)

    def partial(*chosen: Any) -> Any:
        full = list(args)
        for i, value in zip(numbers, chosen, strict=True):
            full[i] = value
        return fun(*full, **kwargs)

    return partial, tuple(args[i] for i in numbers), single


def jacfwd[**P](
    fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[P, Any]:
    """A function that gives the Jacobian of `fun`, by forward mode: one pass per input element.

    >>> import tilewright as tw
    >>> print(tw.jacfwd(lambda x: x * x)(tw.numpy.array([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        partial, chosen, single = selected(fun, argnums, args, kwargs, "jacfwd")
        flat, in_tree = pytree.flatten(chosen)
        for x in flat:
            _check_input_dtype(x, holomorphic, False, "jacfwd")

        def pushforward(*tangents: Any) -> Any:
            _, *rest = jvp(partial, chosen, in_tree.unflatten(tangents), has_aux)
            return tuple(rest) if has_aux else rest[0]

        out = vmap(pushforward, out_axes=(-1, None) if has_aux else -1)(*_basis(flat))
        columns = out[0] if has_aux else out
        result = pytree.map(lambda c: _split(c, flat, in_tree, single, last=True), columns)
        return (result, out[1]) if has_aux else result

    return _like(fun)(wrapped)


def jacrev[**P](
    fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:  # fmt: skip
    """A function that gives the Jacobian of `fun`, by reverse mode: one pass per output element.

    >>> import tilewright as tw
    >>> print(tw.jacrev(lambda x: x * x)(tw.numpy.array([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        partial, chosen, single = selected(fun, argnums, args, kwargs, "jacrev")
        for x in pytree.leaves(chosen):
            _check_input_dtype(x, holomorphic, allow_int, "jacrev")
        y, pullback, *aux = vjp(partial, *chosen, has_aux=has_aux)
        flat, out_tree = pytree.flatten(y)
        for out in flat:
            if not holomorphic and is_complex(typeof(out).dtype):
                raise NonDifferentiableDtypeError(f"jacrev of a function with an output of type {typeof(out).show()}",
                                                  "pass holomorphic=True for a complex output")  # fmt: skip
        rows = vmap(lambda *cts: pullback(out_tree.unflatten(cts)))(*_basis(flat))
        per_leaf = [_split(row, flat, out_tree, False, last=False) for row in pytree.leaves(rows)]
        in_tree = pytree.structure(chosen)
        outer = pytree.structure(y)
        columns = [pytree.leaves(p) for p in per_leaf]
        jacobians = [in_tree.unflatten([c[i] for c in columns]) for i in range(outer.num_leaves)]
        result = outer.unflatten([j[0] if single else j for j in jacobians])
        return (result, *aux) if has_aux else result

    return _like(fun)(wrapped)


jacobian = jacrev


def _split(block: Array, flat: Sequence[Any], treedef: pytree.PyTreeDef, single: bool, last: bool) -> Any:
    """Cut a Jacobian's long axis (last, or first) into one block per leaf and give it the leaf's shape."""
    parts, start = [], 0
    shape = typeof(block).shape
    axis = len(shape) - 1 if last else 0
    for x in flat:
        t = typeof(x)
        part = slice_in_dim(block, start, start + t.size, axis=axis)
        parts.append(reshape(part, (*shape[:-1], *t.shape) if last else (*t.shape, *shape[1:])))
        start += t.size
    result = treedef.unflatten(parts)
    return result[0] if single else result


def hessian[**P](
    fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[P, Any]:
    """A function that gives the matrix of second derivatives of `fun`: forward over reverse.

    >>> import tilewright as tw
    >>> print(tw.hessian(lambda x: x[0] * x[1] ** 2)(tw.numpy.array([1.0, 3.0])))
    [[0. 6.]
     [6. 2.]]
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


# ---------------------------------------------------------------------------- batching


def vmap[**P, R](
    fun: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0, axis_name: Hashable | None = None,
    axis_size: int | None = None, spmd_axis_name: Any = None, sum_match: bool = False,
) -> Callable[P, R]:  # fmt: skip
    """A function that maps `fun` over an axis of its arguments.

    `in_axes` and `out_axes` are ints, None, or pytree prefixes of them. `spmd_axis_name` names the mesh axes that split
    the mapped axis, for constraints and `shard_map` within. An output whose `out_axes` is None must not depend on the
    mapped axis; with `sum_match` the sum over that axis is given. Of a mapped Ref each call of `fun` has its own part,
    to read and to write. Raises `BatchAxisError` where the mapped axes differ in size or no argument is mapped,
    `ArgumentTypeError` for axes that are no ints.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x, y: x * y, in_axes=(0, None))(tw.numpy.arange(3.0), 2.0))
    [0. 2. 4.]
    """
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, dict):
        raise ArgumentTypeError(f"vmap in_axes={in_axes!r}", "an int, None, or a tuple with an entry for each argument")

    @_like(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat, in_tree = pytree.flatten((args, kwargs))
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise BatchAxisError(
                f"vmap in_axes has {plural(len(in_axes), 'entry')} for {plural(len(args), 'argument')}",
                "give one per argument",
            )
        axes = _axes_of(in_axes, args, "in_axes") + [0] * len(pytree.leaves(kwargs))
        size, dims = _mapped_size(flat, axes, axis_size)
        f = Flat(fun, in_tree, kwargs=True)
        lies = (typeof(x).along(d) for x, d in zip(flat, dims, strict=True) if d is not None)
        axis = AxisInfo(size, axis_name, spmd_axis_name, next((s for s in lies if s is not None), None))
        run, given, refs = _over_values(f, flat, [d is not None for d in dims])
        outs, found = batch_flat((lambda *rows: list(itertools.chain(*run(*rows)))) if refs else run, axis, given, dims)
        for i in reversed(refs):
            flat[i][...] = moved(axis, outs.pop(), found.pop(), dims[i])
        types = [typeof(x) if d is None else typeof(x).without_axis(d, size) for x, d in zip(outs, found, strict=True)]
        row = f.out_tree.unflatten(types)
        wanted = _axes_of(tuple(out_axes) if type(row) is tuple and type(out_axes) is list else out_axes, row,
                          "out_axes", 1)  # fmt: skip
        results = [_placed(axis, x, d, w, sum_match) for x, d, w in zip(outs, found, wanted, strict=True)]
        return f.out_tree.unflatten(results)

    return wrapped


def _axes_of(axes: Any, full: Any, what: str, added: int = 0) -> list[Any]:
    """The axis of each leaf; `added`: how many axes each node has beside its own."""
    found: list[Any] = []
    try:
        given, structure = pytree.flatten(axes, lambda x: x is None)
        for axis, part in zip(given, pytree.flatten_up_to(structure, full), strict=True):
            for node in pytree.leaves(part, lambda x: type(x) in mapped_types):
                own = axis is not None and mapped_types.get(type(node))
                found += pytree.broadcast_prefix(own[added](node, axis) if own else axis, node)
            _check_batch_axis(axis, part, what, added)
    except TreeError as error:
        raise BatchAxisError(
            f"vmap {what}={axes!r} is not a prefix of the values' structure: {error.what}",
            "name each of their keys, or give one axis for a subtree",
        ) from None
    for axis in found:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, (int, np.integer, MappingSpec))):
            raise ArgumentTypeError(f"vmap {what} holds {axis!r}", "use ints and None")
    return found


def _check_batch_axis(axis: Any, part: Any, what: str, added: int) -> None:
    """Of nodes that have `n_batch`, as sparse arrays, no other axes than these can be mapped."""
    if not isinstance(axis, int):
        return
    for node in pytree.leaves(part, _has_batch_axes):
        if _has_batch_axes(node) and not 0 <= axis < node.n_batch + added:
            raise BatchAxisError(f"vmap {what}={axis} of a {type(node).__name__} with n_batch={node.n_batch}",
                                 "map one of its batch axes, which come first")  # fmt: skip


def _has_batch_axes(x: Any) -> bool:
    return hasattr(type(x), "n_batch")


def _mapped_size(flat: Sequence[Any], axes: Sequence[Any], given: int | None) -> tuple[int, list[int | None]]:
    sizes: dict[int, list[str]] = {}
    dims: list[int | None] = []
    for x, axis in zip(flat, axes, strict=True):
        if axis is None:
            dims.append(None)
            continue
        if is_opaque(type_ := typeof(x)):
            dims.append(type_.mapping_at(axis))
            continue
        shape = type_.shape
        if not -len(shape) <= axis < len(shape):
            raise BatchAxisError(
                f"vmap over axis {axis} of an argument of type {type_.show()}", "map an axis that it has"
            )
        dims.append(axis % len(shape))
        sizes.setdefault(shape[axis], []).append(type_.show())
    if given is not None:
        sizes.setdefault(given, []).append("axis_size")
    if len(sizes) > 1:
        shown = "; ".join(f"size {size}: {', '.join(names[:3])}" for size, names in sizes.items())
        raise BatchAxisError(
            f"vmap over axes of unequal size ({shown})", "give the mapped axes one size, or map fewer (None)"
        )
    if not sizes:
        raise BatchAxisError("vmap with no mapped argument", "set an in_axes entry to an int, or pass axis_size")
    return next(iter(sizes)), dims


def _placed(axis: AxisInfo, x: Array, dim: int | None, wanted: Any, sum_match: bool) -> Any:
    if wanted is None:
        if dim is not None and sum_match:
            return reduce_sum_p.bind(x, axes=(dim,))
        if dim is not None:
            raise BatchAxisError("vmap with out_axes=None of an output that depends on the mapped axis",
                                 "use an int, or reduce over the axis")  # fmt: skip
        return x
    if is_opaque(typeof(x)):
        return moved(axis, x, dim, wanted)
    ndim = len(typeof(x).shape) + (dim is None)
    if not -ndim <= wanted < ndim:
        raise BatchAxisError(
            f"vmap out_axes={wanted} for an output of rank {ndim - 1}", "an axis of the batched output"
        )
    return split_as_mapped(axis, moved(axis, x, dim, wanted % ndim), wanted % ndim)


# ---------------------------------------------------------------------------- Programs


def make_jaxpr(
    fun: Callable[..., Any], static_argnums: int | Sequence[int] = (), axis_env: Any = None, return_shape: bool = False
) -> Callable[..., Any]:
    """A function that gives the Program of `fun` at the types of its arguments.

    `axis_env` names axes, with their sizes, that collectives in `fun` may use.

    >>> import tilewright as tw
    >>> print(tw.make_jaxpr(lambda x: x * 2.0)(1.0))
    program(a:f32[]) {
      b:f32[] = mul a 2.0:f32[]
      return b
    }
    """
    _check_callable(fun)
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fixed = {i % len(args): args[i] for i in static}
        dynamic = [a for i, a in enumerate(args) if i not in fixed]

        def partial(*rest: Any, **kw: Any) -> Any:
            given = iter(rest)
            return fun(*[fixed[i] if i in fixed else next(given) for i in range(len(args))], **kw)

        with contextlib.ExitStack() as stack:
            for name, size in axis_env or ():
                stack.enter_context(extended_axes(name, size))
            program, out_tree = program_of(partial, dynamic, kwargs)
        if not return_shape:
            return program
        return program, out_tree.unflatten([struct_of(t) for t in program.out_types])

    return wrapped


def program_of(fun: Callable[..., Any], args: Sequence[Any], kwargs: Any = None) -> tuple[Program, Any]:
    """The Program of a function at given arguments (arrays or structs), and its output structure."""
    flat, in_tree = pytree.flatten((tuple(args), dict(kwargs or {})))
    f = Flat(fun, in_tree, kwargs=True)
    return trace_program(f, [as_type(x) for x in flat], "program"), f.out_tree


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes that a function's outputs would have, without computing them.

    >>> import tilewright as tw
    >>> tw.eval_shape(lambda x: x @ x.T, tw.ShapeDtypeStruct((2, 3), "float32")).shape
    (2, 2)
    """
    _check_callable(fun)
    structs, out_tree = [], None

    def arrays(*args: Any, **kwargs: Any) -> list[Any]:  # a shape that the function gives is its own answer
        nonlocal structs, out_tree
        leaves, out_tree = pytree.flatten(fun(*args, **kwargs))
        structs = [x if isinstance(x, ShapeDtypeStruct) else None for x in leaves]
        return [x for x, struct in zip(leaves, structs, strict=True) if struct is None]

    program, _ = program_of(arrays, args, kwargs)
    types = iter(program.out_types)
    return out_tree.unflatten([struct_of(next(types)) if struct is None else struct for struct in structs])
