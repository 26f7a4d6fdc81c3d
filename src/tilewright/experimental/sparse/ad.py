"""Derivatives with respect to sparse arrays: those of what is stored, as sparse arrays at the same places."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ... import numpy as jnp
from ...core.api import transformations
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, UnsupportedError, plural
from ...core.tracing.trace import shape_of
from .bcoo import BCOO
from .transform import is_sparse


def _derivative(transform: Callable[..., Any], fun: Callable[..., Any], argnums: Any, has_aux: bool, how: Any) -> Any:
    single = not isinstance(argnums, Sequence)
    chosen = tuple(operator.index(i) for i in ((argnums,) if single else argnums))

    @functools.wraps(fun)
    def derivative(*args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
        if any(not -len(args) <= i < len(args) for i in chosen):
            raise ArgumentError(f"argnums={argnums} of a function of {plural(len(args), 'argument')}",
                                "name arguments it has")  # fmt: skip
        places = [i % len(args) for i in chosen]
        given, structure = pytree.flatten([args[i] for i in places], is_sparse)

        def of_data(data: list[Any]) -> Any:
            leaves = [_at(x, d) if is_sparse(x) else d for x, d in zip(given, data, strict=True)]
            called = list(args)
            for i, x in zip(places, structure.unflatten(leaves), strict=True):
                called[i] = x
            return fun(*called, **kwargs)

        def as_given(found: Any) -> Any:
            """The derivatives by the data as those by the arguments, for each dense result."""
            leaves = [_at(x, d) if is_sparse(x) else d for x, d in zip(given, found, strict=True)]
            parts = structure.unflatten(leaves)
            return parts[0] if single else tuple(parts)

        data = [x.data if is_sparse(x) else x for x in given]
        return transform(of_data, has_aux=has_aux, **how)(data), as_given

    return derivative


def _at(mat: Any, data: Any) -> Any:
    """Other data at the places of a sparse array; more axes before those of its data become batch axes."""
    extra = len(shape_of(data)) - len(shape_of(mat.data))
    buffers, aux = mat.tree_flatten()
    if not extra:
        return type(mat).tree_unflatten(aux, (data, *buffers[1:]))
    if not isinstance(mat, BCOO):
        raise UnsupportedError(f"the Jacobian with respect to a {type(mat).__name__}", "convert it to BCOO")
    first = shape_of(data)[:extra]
    indices = jnp.broadcast_to(mat.indices, (*first, *shape_of(mat.indices)))
    return BCOO((data, indices), shape=(*first, *mat.shape), **mat._flags)


@public
def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`tilewright.value_and_grad`, by the stored elements of sparse arguments, as sparse arrays at the same places.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> sparse.value_and_grad(lambda m: m @ jnp.ones(2))(sparse.BCOO.fromdense(jnp.arange(2.0)))
    (Array(1., dtype=float32), BCOO(float32[2], nse=1))
    """
    derivative = _derivative(transformations.value_and_grad, fun, argnums, has_aux, kwargs)

    @functools.wraps(fun)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        (value, found), as_given = derivative(*args, **kwargs)
        return value, as_given(found)

    return value_and_gradient


@public
def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`tilewright.grad`, by the stored elements of sparse arguments, as sparse arrays at the same places.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> sparse.grad(lambda m, v: m @ v)(sparse.BCOO.fromdense(jnp.arange(2.0)), jnp.array([3.0, 4.0])).data
    Array([4.], dtype=float32)
    """
    return _without_value(_derivative(transformations.grad, fun, argnums, has_aux, kwargs), fun, has_aux)


def _without_value(derivative: Callable[..., Any], fun: Callable[..., Any], has_aux: bool) -> Callable[..., Any]:
    @functools.wraps(fun)
    def found_by(*args: Any, **kwargs: Any) -> Any:
        found, as_given = derivative(*args, **kwargs)
        return (as_given(found[0]), found[1]) if has_aux else as_given(found)

    return found_by


@public
def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`tilewright.jacfwd` of a function with one dense result, by the stored elements of sparse arguments.

    The result has the axes of the function's result as batch axes before those of the argument.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> x = sparse.BCOO.fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.jacfwd(lambda x: x @ np.float32([1, 10]))(x)
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _without_value(_derivative(transformations.jacfwd, fun, argnums, has_aux, kwargs), fun, has_aux)


@public
def jacrev(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`tilewright.jacrev` of a function with one dense result, by the stored elements of sparse arguments.

    The result has the axes of the function's result as batch axes before those of the argument.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> x = sparse.BCOO.fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.jacrev(lambda x: x @ np.float32([1, 10]))(x)
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _without_value(_derivative(transformations.jacrev, fun, argnums, has_aux, kwargs), fun, has_aux)


jacobian = jacrev

__all__ = ["grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]
