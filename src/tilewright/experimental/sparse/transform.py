"""`sparsify`: a function of dense arrays as one of sparse and dense arrays, primitive by primitive.

The function is traced at the shapes of its arguments; its Program is then walked, with a rule for each primitive that a
sparse array reaches. What no sparse array reaches is done as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import lax
from ... import numpy as jnp
from ...core.ir.array import DTypeLike
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, run
from ...core.ir.types import ArrayType, is_inexact
from ...core.jit.jit import jit
from ...core.primitives.contraction.conv import conv_general_dilated_p
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.subprograms import known
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.custom.checkpoint import checkpoint_p, name_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.elementwise import conversion as conv
from ...core.primitives.movement import shape as shp
from ...core.primitives.movement.dynamic_slice import dynamic_slice_p
from ...core.primitives.movement.gather_scatter import gather_p
from ...core.primitives.reduction.reduce import reduce_sum_p
from ...core.primitives.special import functions as spc
from ...core.support import pytree
from ...core.support.call_errors import public, told
from ...core.support.errors import UnsupportedError
from ...core.tracing.trace import Value, bind_eqn, trace_program, typeof
from .arithmetic import (
    at_places,
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
)
from .base import TODENSE, Array, JAXSparse, dense_needed
from .bcoo import BCOO, full_buffers
from .bcsr import BCSR, bcsr_dot_general
from .layout import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_update_layout,
)

Rule = Callable[..., Any]


def is_sparse(x: Any) -> bool:
    """Whether a value is an array of a sparse format."""
    return isinstance(x, JAXSparse)


def _type(x: Any) -> ArrayType:
    if not is_sparse(x):
        return typeof(x)  # type: ignore[return-value]
    if not isinstance(x, (BCOO, BCSR)):
        raise UnsupportedError(f"sparsify of a {type(x).__name__}", "convert it to BCOO")
    return ArrayType(x.shape, x.dtype, getattr(typeof(x.data), "weak_type", False))


# ------------------------------------------------------------------------------------------- the walk


def evaluate(program: Program, args: Sequence[Any]) -> list[Any]:
    """Walk a Program with sparse arrays among the values."""
    return run(program, _step, args)


def _step(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
    formats = {type(v) for v in values if is_sparse(v)}
    if not formats:
        return bind_eqn(eqn, values)
    rules = BCSR_RULES if BCSR in formats else RULES
    rule = rules.get(eqn.primitive)
    if rule is None:
        what = f"sparsify: {eqn.primitive.name} of {', '.join(sorted(t.__name__ for t in formats))}"
        raise dense_needed(what) if eqn.primitive in DENSE else UnsupportedError(
            f"{what} has no rule", "use what the page on sparse arrays lists, or `todense()` first")
    out = rule(*values, **eqn.params)
    return out if eqn.primitive.multiple else (out,)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function that takes BCOO and BCSR arrays where `f` takes dense ones, and gives sparse results where it can.

    Sums, products, transposes, slices, joining, broadcasting, functions that are 0 at 0 and control flow keep arrays
    sparse. `use_tracer` makes no difference.

    Raises:
      UnsupportedError: an operation that would need, or give, a dense array.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> f = sparse.sparsify(lambda m, v: 2 * jnp.log1p(m.T) @ v)
    >>> f(sparse.eye(2), jnp.ones(2))
    Array([1.3862944, 1.3862944], dtype=float32)
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat, in_tree = pytree.flatten((args, kwargs), is_sparse)
        found: list[Any] = []

        def run_flat(*values: Any) -> list[Any]:
            given, named = in_tree.unflatten(values)
            outs, out_tree = pytree.flatten(f(*given, **named), is_sparse)
            found[:] = [out_tree]
            return outs

        program = trace_program(run_flat, [_type(x) for x in flat], getattr(f, "__name__", "sparsify"))
        flat = [x if is_sparse(x) or isinstance(x, Value) else jnp.asarray(x) for x in flat]
        return found[0].unflatten(evaluate(program, flat))

    return wrapped


# ------------------------------------------------------------------------------------------- elementwise


def _with[T: JAXSparse](mat: T, data: Array) -> T:
    """Other data at the same places: the same array of indices, by which they are known to be the same."""
    buffers, aux = mat.tree_flatten()
    return type(mat).tree_unflatten(aux, (data, *buffers[1:]))


def _linear(primitive: Primitive) -> Rule:
    def rule(x: BCOO, **params: Any) -> BCOO:
        return _with(x, primitive.bind(x.data, **params))

    return rule


def _added_up(x: BCOO) -> BCOO:
    """The array with elements of one place added up, as functions that are not linear need it."""
    return x if x.unique_indices else x.sum_duplicates(nse=x.nse, remove_zeros=False)


def _zero_at_zero(primitive: Primitive) -> Rule:
    """A function that is 0 at 0, of what is stored."""

    def rule(x: BCOO, **params: Any) -> BCOO:
        x = _added_up(x)
        return _with(x, primitive.bind(x.data, **params))

    return rule


def _integer_pow(x: BCOO, *, y: int) -> BCOO:
    if y <= 0:
        raise dense_needed(f"a sparse array to the power of {y}")
    return _zero_at_zero(ew.integer_pow_p)(x, y=y)


def _pow(x: Any, y: Array) -> BCOO:
    exponent = None if is_sparse(y) else known(y)
    if exponent is None or np.ndim(exponent) or not exponent > 0:
        raise dense_needed(f"a power with exponent {y if is_sparse(y) else exponent}")
    x = _added_up(x)
    return _with(x, ew.pow_p.bind(x.data, y))


def _add(x: Any, y: Any) -> Any:
    if is_sparse(x) and is_sparse(y):
        if x.shape != y.shape:
            raise UnsupportedError(f"sum of sparse arrays of shapes {x.shape} and {y.shape}", "broadcast them first")
        if x.indices is y.indices and x.n_dense == y.n_dense:
            return _with(x, x.data + y.data)
        x, y = (bcoo_update_layout(m, n_batch=min(x.n_batch, y.n_batch), n_dense=min(x.n_dense, y.n_dense))
                for m in (x, y))  # fmt: skip
        pairs = zip(full_buffers(x), full_buffers(y), strict=True)
        return BCOO(tuple(jnp.concatenate(list(p), x.n_batch) for p in pairs), shape=x.shape)
    mat, dense = (x, y) if is_sparse(x) else (y, x)
    if jnp.shape(dense) != mat.shape:
        raise dense_needed(f"sum of {mat} and a dense array of shape {jnp.shape(dense)}")
    return mat.todense() + dense


def _or(x: Any, y: Any) -> Any:
    """Of truth values, whose sums are these."""
    if x.dtype != np.bool_:
        raise UnsupportedError(f"bitwise operations on sparse arrays of {x.dtype}", "`todense()` first")
    return _add(x, y)


def _sub(x: Any, y: Any) -> Any:
    if not (is_sparse(x) and is_sparse(y)):
        raise dense_needed("difference of a sparse array and a dense one")
    return _add(x, _with(y, -y.data))


def _mul(x: Any, y: Any) -> BCOO:
    if is_sparse(x) and is_sparse(y):
        if x.indices is y.indices and x.unique_indices and x.data.shape == y.data.shape:
            return _with(x, x.data * y.data)
        return bcoo_multiply_sparse(x, y)
    mat, dense = (x, y) if is_sparse(x) else (y, x)
    return _with(mat, bcoo_multiply_dense(mat, dense))


def _div(x: Any, y: Any) -> BCOO:
    if is_sparse(y):
        raise dense_needed("division by a sparse array")
    if not is_inexact(x.dtype):
        x = _added_up(x)
    divisor = at_places(x, jnp.asarray(y), 1)
    return _with(x, ew.div_p.bind(*jnp.broadcast_arrays(x.data, divisor)))


def _reduce_sum(x: BCOO, *, axes: Sequence[int]) -> Any:
    found = bcoo_reduce_sum(x, axes=axes)
    return found if found.shape else jnp.sum(found.data, dtype=found.dtype)


def _transpose(x: BCOO, *, permutation: Sequence[int]) -> BCOO:
    return x.transpose(permutation)


def _reshape(x: BCOO, *, new_sizes: Sequence[int], dimensions: None = None) -> BCOO:
    return bcoo_reshape(x, new_sizes=new_sizes)


def _broadcast(x: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> BCOO:
    return bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=broadcast_dimensions)


def _concatenate(*operands: Any, dimension: int) -> BCOO:
    if not all(map(is_sparse, operands)):
        raise dense_needed("sparse and dense arrays joined")
    return bcoo_concatenate(operands, dimension=dimension)


def _slice(x: BCOO, *, start_indices: Any, limit_indices: Any, strides: Any) -> BCOO:
    return bcoo_slice(x, start_indices=start_indices, limit_indices=limit_indices, strides=strides)


def _dynamic_slice(x: BCOO, *starts: Array, slice_sizes: Sequence[int]) -> BCOO:
    return bcoo_dynamic_slice(x, starts, slice_sizes)


def _gather(x: Any, starts: Any, **params: Any) -> BCOO:
    if is_sparse(starts):
        raise dense_needed("indices in a sparse array")
    return bcoo_gather(x, starts, **params)


def _dot_general(x: Any, y: Any, *, dimension_numbers: Any, preferred_element_type: DTypeLike = None, **_: Any) -> Any:
    return bcoo_dot_general(x, y, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type)


# ------------------------------------------------------------------------------------------- control flow


def _call(*args: Any, program: Program, **_: Any) -> list[Any]:
    return evaluate(program, args)


def _cond(index: Any, *operands: Any, branches: Sequence[Program], **_: Any) -> list[Any]:
    def branch(program: Program) -> Rule:
        return lambda *xs: evaluate(program, xs)

    return lax.switch(index, [branch(b) for b in branches], *operands)


def _while(
    *args: Any, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int, **_: Any
) -> list[Any]:
    ours, body, init = args[:cond_nconsts], args[cond_nconsts:][:body_nconsts], args[cond_nconsts + body_nconsts :]
    return lax.while_loop(lambda c: evaluate(cond_program, [*ours, *c])[0],
                          lambda c: evaluate(body_program, [*body, *c]), list(init))  # fmt: skip


def _scan(
    *args: Any, program: Program, num_consts: int, num_carry: int, length: int, reverse: bool, unroll: int, **_: Any
) -> list[Any]:
    consts, init, xs = args[:num_consts], args[num_consts:][:num_carry], args[num_consts + num_carry :]
    if any(map(is_sparse, xs)):
        raise UnsupportedError("scan over the rows of a sparse array", "close over it, or `todense()` first")

    def body(carry: Any, x: Any) -> tuple[Any, Any]:
        outs = evaluate(program, [*consts, *carry, *x])
        return outs[:num_carry], outs[num_carry:]

    carry, ys = lax.scan(body, list(init), list(xs), length=length, reverse=reverse, unroll=unroll)
    return [*carry, *ys]


def _named(x: Any, *, name: str) -> Any:
    return x.todense() if name == TODENSE else _with(x, name_p.bind(x.data, name=name))


_LINEAR = (conv.conj_p, conv.imag_p, conv.real_p, conv.stop_gradient_p, ew.neg_p, shp.copy_p)
_ZERO_AT_ZERO = (
    conv.convert_element_type_p, ew.abs_p, ew.asin_p, ew.asinh_p, ew.atan_p, ew.atanh_p, ew.cbrt_p, ew.ceil_p,
    ew.expm1_p, ew.floor_p, ew.log1p_p,
    ew.round_p, ew.sign_p, ew.sin_p, ew.sinh_p, ew.sqrt_p, ew.square_p, ew.tan_p, ew.tanh_p, spc.erf_p, spc.erf_inv_p,
    spc.bessel_i1e_p,
)  # fmt: skip
# What is not 0 at 0: the result would be dense.
DENSE = frozenset((
    ew.acos_p, ew.acosh_p, ew.cos_p, ew.cosh_p, ew.exp_p, ew.exp2_p, ew.log_p, ew.logistic_p, ew.one_minus_square_p,
    ew.rsqrt_p,
    spc.bessel_i0e_p, spc.erfc_p, cmp.eq_p, cmp.ne_p, cmp.lt_p, cmp.le_p, cmp.gt_p, cmp.ge_p, bitwise.xor_p,
    bitwise.not_p,
))  # fmt: skip

RULES: Mapping[Primitive, Rule] = {
    **{p: _linear(p) for p in _LINEAR},
    **{p: _zero_at_zero(p) for p in _ZERO_AT_ZERO},
    ew.integer_pow_p: _integer_pow, ew.pow_p: _pow, ew.add_p: _add, ew.sub_p: _sub, ew.mul_p: _mul, ew.div_p: _div,
    bitwise.or_p: _or,
    reduce_sum_p: _reduce_sum, shp.transpose_p: _transpose, shp.reshape_p: _reshape,
    shp.broadcast_in_dim_p: _broadcast, shp.concatenate_p: _concatenate, shp.slice_p: _slice,
    shp.rev_p: lambda x, dimensions: bcoo_rev(x, dimensions),
    shp.squeeze_p: lambda x, dimensions: bcoo_squeeze(x, dimensions=dimensions),
    dynamic_slice_p: _dynamic_slice, gather_p: _gather, dot_general_p: _dot_general,
    conv_general_dilated_p: lambda x, y, **params: bcoo_conv_general_dilated(x, y, **params),
    name_p: _named, **dict.fromkeys((jit_p, checkpoint_p, custom_jvp_call_p, custom_vjp_call_p), _call),
    cond_p: _cond, while_p: _while, scan_p: _scan,
}  # fmt: skip


def _csr_dot_general(x: Any, y: Any, *, dimension_numbers: Any, preferred_element_type: Any = None, **_: Any) -> Any:
    return bcsr_dot_general(x, y, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type)


def _as_bcoo(rule: Rule) -> Rule:
    """The rule of BCOO for BCSR, whose result is BCOO."""

    def run(*args: Any, **params: Any) -> Any:
        return rule(*(x.to_bcoo() if isinstance(x, BCSR) else x for x in args), **params)

    return run


def _by_rows(rule: Rule) -> Rule:
    """The rule of BCOO for BCSR, whose result is BCSR where it has two sparse axes."""

    def run(*args: Any, **params: Any) -> Any:
        found = _as_bcoo(rule)(*args, **params)
        return BCSR.from_bcoo(found) if found.n_sparse == 2 else found

    return run


_OF_DATA = (*_LINEAR, *_ZERO_AT_ZERO, ew.integer_pow_p, ew.pow_p, name_p)
_CALLS = (jit_p, checkpoint_p, custom_jvp_call_p, custom_vjp_call_p, cond_p, while_p, scan_p)
BCSR_RULES: Mapping[Primitive, Rule] = {
    **{p: rule if p in (*_OF_DATA, *_CALLS) else _as_bcoo(rule) for p, rule in RULES.items()},
    shp.broadcast_in_dim_p: _by_rows(_broadcast), shp.concatenate_p: _by_rows(_concatenate),
    dot_general_p: _csr_dot_general,
}  # fmt: skip


# ------------------------------------------------------------------------------------------- methods


def _binary(name: str, function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    compiled = jit(sparsify(lambda x, y: function(y, x) if swapped else function(x, y)))
    return told(lambda self, other: compiled(self, other if is_sparse(other) else jnp.asarray(other)), name)


def _both(name: str, function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A binary operator, and the one that Python calls on its right operand."""
    return _binary(f"__{name}__", function), _binary(f"__r{name}__", function, swapped=True)


def _unary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    compiled = jit(sparsify(function))
    return told(lambda self: compiled(self), name)


class BCSROperators:
    """The products and the indexing of BCSR."""

    __matmul__, __rmatmul__ = _both("matmul", jnp.matmul)

    @public
    def __getitem__(self: Any, index: Any) -> Any:
        found = sparsify(lambda x: x.at[index].get(mode="clip"))(self)
        return found if is_sparse(found) or found.size else BCOO.fromdense(found, nse=0)

    @public
    def __iter__(self: Any) -> Any:
        return (self[i] for i in range(len(self)))


class BCOOOperators(BCSROperators):
    """The operators of BCOO, and its methods that are those of dense arrays."""

    __add__, __radd__ = _both("add", jnp.add)
    __sub__, __rsub__ = _both("sub", jnp.subtract)
    __mul__, __rmul__ = _both("mul", jnp.multiply)
    __truediv__, __rtruediv__ = _both("truediv", jnp.divide)
    __rpow__ = _binary("__rpow__", jnp.power, swapped=True)
    __gt__ = _binary("__gt__", jnp.greater)
    __ge__ = _binary("__ge__", jnp.greater_equal)
    __lt__ = _binary("__lt__", jnp.less)
    __le__ = _binary("__le__", jnp.less_equal)
    __eq__ = _binary("__eq__", jnp.equal)
    __ne__ = _binary("__ne__", jnp.not_equal)
    __abs__ = _unary("__abs__", jnp.abs)
    __neg__ = _unary("__neg__", jnp.negative)
    __pos__ = _unary("__pos__", jnp.positive)

    @public
    def __pow__(self: Any, exponent: Any) -> Any:
        return sparsify(lambda x: jnp.power(x, exponent))(self)

    @public
    def sum(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The sum of elements over axes, sparse but where it is over all."""
        return sparsify(lambda x: jnp.sum(x, *args, **kwargs))(self)

    @public
    def reshape(self: Any, *args: Any, **kwargs: Any) -> BCOO:
        """The array in another shape."""
        return sparsify(lambda x: x.reshape(*args, **kwargs))(self)

    @public
    def astype(self: Any, *args: Any, **kwargs: Any) -> BCOO:
        """The array with another dtype."""
        return sparsify(lambda x: x.astype(*args, **kwargs))(self)

    update_layout = told(bcoo_update_layout, "update_layout")


__all__ = ["sparsify"]
