"""Checks of derivatives against finite differences, under the names of `jax.test_util`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .core.api.transformations import jvp, vjp
from .core.ir.types import is_complex
from .core.support import pytree
from .core.support.errors import ArgumentError
from .core.tracing.trace import typeof

# Of the coarsest dtype among arguments and results: how far a derivative may be off, absolutely and relatively.
TOLERANCE = {2: 1e-1, 4: 2e-2, 8: 1e-5}
# The step of central differences: about the cube root of the dtype's rounding error.
STEP = {2: 1e-1, 4: 1e-2, 8: 1e-5}


def _precision(values: Any) -> int:
    """The bytes of the coarsest floating dtype (those of a real part)."""
    sizes = [typeof(x).dtype.itemsize // (2 if is_complex(typeof(x).dtype) else 1) for x in pytree.leaves(values)]
    return min(max(min(sizes, default=8), 2), 8)


def _host(values: Any) -> Any:
    """The leaves in double precision."""
    wide = (np.complex128 if is_complex(typeof(x).dtype) else np.float64 for x in pytree.leaves(values))
    return [np.asarray(x).astype(to) for x, to in zip(pytree.leaves(values), wide, strict=True)]


def _random_like(rng: np.random.Generator, values: Any) -> Any:
    """Directions: numbers of either sign from 0.5 to 1.5, so that no product of them is lost below the tolerance."""

    def numbers(shape: Any) -> Any:
        return rng.uniform(0.5, 1.5, shape) * rng.choice((-1.0, 1.0), shape)

    def draw(x: Any) -> Any:
        type_: Any = typeof(x)
        v = numbers(type_.shape)
        v = v + 1j * numbers(type_.shape) if is_complex(type_.dtype) else v
        return np.asarray(v).astype(type_.dtype)

    return pytree.map(draw, values)


def _moved(args: Any, tangents: Sequence[Any], by: float) -> Any:
    leaves = [
        np.asarray(x + by * t).astype(typeof(a).dtype)
        for a, x, t in zip(pytree.leaves(args), _host(args), _host(tangents), strict=True)
    ]
    return pytree.unflatten(pytree.structure(args), leaves)


def _against_differences(
    f: Callable[..., Any], args: Any, tangents: Sequence[Any], eps: float, check: Callable[[list[Any]], None]
) -> None:
    """Check a directional derivative against a central difference, in double precision after the calls of `f`.

    Where a step of `eps` leaves the domain of `f` or is too long for its curvature, a 32nd of it is tried.
    """

    def difference(step: float) -> list[Any]:
        high, low = _host(f(*_moved(args, tangents, step))), _host(f(*_moved(args, tangents, -step)))
        return [(a - b) / (2 * step) for a, b in zip(high, low, strict=True)]

    first = difference(eps)
    try:
        check(first)
    except AssertionError:
        check(difference(eps / 32))
    else:
        if any(np.isnan(x).any() for x in first):
            check(difference(eps / 32))


def _close(found: Sequence[Any], wanted: Sequence[Any], atol: float, rtol: float, what: str) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=atol, rtol=rtol, err_msg=what)


def _tolerance(given: Any, values: Any, size: int) -> float:
    """A tolerance: as it is given, for the dtypes of some values, or that of the coarsest dtype."""
    if not isinstance(given, Mapping):
        return TOLERANCE[size] if given is None else given
    of = {np.dtype(dtype): tolerance for dtype, tolerance in given.items()}
    return max((of[t] for t in {typeof(x).dtype for x in pytree.leaves(values)} if t in of), default=TOLERANCE[size])


def _settings(args: Any, outs: Any, atol: Any, rtol: Any, eps: Any) -> tuple[float, float, float]:
    size = _precision([*pytree.leaves(args), *pytree.leaves(outs)])
    atol, rtol = (_tolerance(t, (args, outs), size) for t in (atol, rtol))
    return atol, rtol, STEP[size] if eps is None else eps


def check_jvp(
    f: Callable[..., Any], f_jvp: Callable[..., Any], args: Any, atol: Any = None, rtol: Any = None,
    eps: float | None = None, err_msg: str = "",
) -> None:  # fmt: skip
    """Check `f_jvp(primals, tangents)` at `args`: the value against `f`, the tangent against a central difference.

    `eps` is the step. Raises `AssertionError` where they differ by more than `atol + rtol * |value|`; both tolerances
    and the step are chosen by dtype where they are not given.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> check_jvp(tnp.sin, lambda xs, ts: tw.jvp(tnp.sin, xs, ts), (1.0,))
    """
    args = tuple(args)
    tangents = _random_like(np.random.default_rng(0), args)
    out, out_t = f_jvp(args, tangents)
    atol, rtol, eps = _settings(args, out, atol, rtol, eps)
    where = f"{err_msg} " if err_msg else ""
    _close(_host(out), _host(f(*args)), atol, rtol, f"{where}JVP primal")
    _against_differences(f, args, tangents, eps, lambda found: _close(
        _host(out_t), found, atol, rtol, f"{where}JVP tangent"))  # fmt: skip


def check_vjp(
    f: Callable[..., Any], f_vjp: Callable[..., Any], args: Any, atol: Any = None, rtol: Any = None,
    eps: float | None = None, err_msg: str = "",
) -> None:  # fmt: skip
    """Check `f_vjp(*primals) -> (value, pullback)` at `args`, by its product with a central difference.

    Arguments and errors as `check_jvp`.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> check_vjp(tnp.sin, lambda *xs: tw.vjp(tnp.sin, *xs), (1.0,))
    """
    args = tuple(args)
    rng = np.random.default_rng(0)
    out, pullback = f_vjp(*args)
    atol, rtol, eps = _settings(args, out, atol, rtol, eps)
    where = f"{err_msg} " if err_msg else ""
    _close(_host(out), _host(f(*args)), atol, rtol, f"{where}VJP primal")
    tangents, cotangents = _random_like(rng, args), _random_like(rng, out)
    pulled = _host(pullback(cotangents))

    def product(xs: Any, ys: Any) -> Any:  # real, for of other derivatives than holomorphic ones no more is equal
        return np.array(sum((np.sum(x * y).real for x, y in zip(xs, ys, strict=True)), 0.0))

    found = product(pulled, _host(tangents))
    _against_differences(f, args, tangents, eps, lambda slopes: _close(
        [found], [product(_host(cotangents), slopes)], atol, rtol, f"{where}VJP cotangent projection"))  # fmt: skip


def check_grads(
    f: Callable[..., Any], args: Any, order: int, modes: Sequence[str] = ("fwd", "rev"), atol: Any = None,
    rtol: Any = None, eps: float | None = None,
) -> None:  # fmt: skip
    """Check the derivatives of `f` at `args` up to an order, in forward and reverse mode, against finite differences.

    `modes` is `"fwd"`, `"rev"` or both; a derivative of order n is checked in all n-fold orders of the modes. The rest
    and the errors as `check_jvp`.

    >>> from tilewright import numpy as tnp
    >>> check_grads(lambda x, y: tnp.sin(x) * y, (1.0, 2.0), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or set(modes) - {"fwd", "rev"}:
        raise ArgumentError(f"check_grads has no modes {modes!r}", "'fwd', 'rev' or both")
    if order < 1:
        raise ArgumentError(f"check_grads of order {order}", "an order of 1 or more")
    _check_order(f, tuple(args), order, modes, {"atol": atol, "rtol": rtol, "eps": eps}, "")


def _check_order(f: Any, args: Any, order: int, modes: Any, how: dict[str, Any], path: str) -> None:
    rng = np.random.default_rng(0)
    if "fwd" in modes:
        check_jvp(f, lambda xs, ts: jvp(f, xs, ts), args, err_msg=f"{path}fwd", **how)
        if order > 1:

            def forward(xs: Any, ts: Any) -> Any:
                return jvp(f, xs, ts)

            _check_order(forward, (args, _random_like(rng, args)), order - 1, modes, how, f"{path}fwd of ")
    if "rev" in modes:
        check_vjp(f, partial(vjp, f), args, err_msg=f"{path}rev", **how)
        if order > 1:
            cotangents = _random_like(rng, f(*args))

            def reverse(*xs: Any) -> Any:
                out, pullback = vjp(f, *xs)
                return out, pullback(cotangents)

            _check_order(reverse, args, order - 1, modes, how, f"{path}rev of ")


__all__ = ["check_grads", "check_jvp", "check_vjp"]
__dir__: Callable[[], list[str]] = __all__.copy
