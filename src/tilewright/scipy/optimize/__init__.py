"""`jax.scipy.optimize`'s names: minima of functions of a vector."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ... import lax
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError
from ...numpy.elementwise import conj, imag, real
from ...numpy.join import concatenate, split
from ...numpy.util import (
    Array,
    astype,
    computation_dtype,
    dtype_of,
    is_complex,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)
from .bfgs import OptimizeResults, minimize_bfgs, minimize_lbfgs

_METHODS = {"bfgs": minimize_bfgs, "l-bfgs-experimental-do-not-rely-on-this": minimize_lbfgs}


@public
def minimize(
    fun: Callable[..., Array],
    x0: Array,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """The minimum of `fun(x, *args)`, a differentiable scalar function of a real vector, near `x0`.

    `method` is "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", whose vectors may be complex. `tol` is the norm of
    the gradient to stop at. `options`: maxiter, norm, gtol and line_search_maxiter; of L-BFGS maxiter, norm, maxcor,
    ftol, gtol, maxfun, maxgrad and maxls. Works under `jit` and `vmap`, and in forward mode. With `x0` of bfloat16 or
    float16 `fun` is called with float32, and the results are rounded. Raises `ShapeError` where x0 is not a vector and
    `ArgumentError` for other methods or options.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.optimize import minimize
    >>> found = minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(2), method="BFGS")
    >>> print(found.x, found.success)
    [3. 3.] True
    """
    if not isinstance(args, tuple):
        raise ArgumentTypeError(f"minimize takes args as a tuple, got {type(args).__name__}", "write args=(a,)")
    (x0,) = promote_dtypes_inexact(value(x0, "minimize"))
    if len(shape_of(x0)) != 1:
        raise ShapeError(f"minimize with x0 of shape {shape_of(x0)}", "pass a vector, as `ravel_pytree` makes")
    if not isinstance(method, str) or method.lower() not in _METHODS:
        raise ArgumentError(f"minimize with method={method!r}", f"one of {', '.join(_METHODS)}")
    run = _METHODS[method.lower()]
    if is_complex(dtype_of(x0)):
        if run is not minimize_lbfgs:
            raise DtypeError(f"minimize with x0 of dtype {dtype_of(x0)} by {method}",
                             "use L-BFGS, or pass real and imaginary parts as one real vector")  # fmt: skip
        parts = concatenate([real(x0), imag(x0)])
        found = minimize(lambda v: fun(_complex(v), *args), parts, method=method, tol=tol, options=options)
        return found._replace(x=_complex(found.x), jac=conj(_complex(found.jac)))
    known = list(inspect.signature(run).parameters)[2:]
    options = dict(options or {})
    for name in options:
        if name not in known:
            raise ArgumentError(f"minimize with the option {name!r} for {method}", f"one of {', '.join(known)}")
    if tol is not None:
        options.setdefault("gtol", tol)
    dtype, work = dtype_of(x0), computation_dtype(dtype_of(x0))
    if dtype == work:
        return run(lambda x: fun(x, *args), strong(x0), **options)
    found = run(lambda x: astype(fun(x, *args), work), astype(x0, work), **options)
    return pytree.map(lambda x: astype(x, dtype) if dtype_of(x) == work else x, found)


def _complex(parts: Array) -> Array:
    """The complex vector of whose real and imaginary parts a vector is made."""
    return lax.complex(*split(parts, 2))


__all__ = ["OptimizeResults", "minimize"]
__dir__: Callable[[], list[str]] = __all__.copy
