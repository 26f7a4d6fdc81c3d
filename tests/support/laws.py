"""The laws of primitives as functions of a case, and the cases of every family.

Values and derivatives are computed by the NumPy meanings, and derivatives compared with finite differences.
"""

import contextlib
import importlib
import pkgutil
import zlib

import numpy as np

from tests.support import cases
from tilewright import config
from tilewright.core.api.transformations import jvp, vjp, vmap
from tilewright.core.ir.types import FLOAT0, is_bool, is_complex, is_float, is_inexact, is_key
from tilewright.core.support.runtime import runtime
from tilewright.core.tracing.numpy_interpreter import apply

MODULES = [importlib.import_module(f"tests.support.cases.{m.name}") for m in pkgutil.iter_modules(cases.__path__)]
CASES = [case for module in MODULES for case in getattr(module, "CASES", ())]
# Primitives whose laws are stated in tests of their own, with the reason.
ELSEWHERE = {name: reason for module in MODULES for name, reason in getattr(module, "ELSEWHERE", {}).items()}
WIDE = {"float32": "float64", "complex64": "complex128", "bfloat16": "float64", "float16": "float64"}


def rng_of(case, salt=0):
    return np.random.default_rng(zlib.crc32(f"{case}{case.params}".encode()) + salt)


def draw(rng, case, type_):
    shape, dtype = type_.shape, type_.dtype
    if is_bool(dtype):
        return rng.random(shape) < 0.5
    if is_complex(dtype):
        return (rng.uniform(case.low, case.high, shape) + 1j * rng.uniform(case.low, case.high, shape)).astype(dtype)
    if is_float(dtype):
        return np.asarray(rng.uniform(case.low, case.high, shape)).astype(dtype)
    low = 0 if "uint" in str(dtype) else int(np.floor(case.low))
    return rng.integers(low, int(np.ceil(case.high)) + 1, shape).astype(dtype)


def operands(case, salt=0):
    if case.operands is not None:
        return [np.asarray(x) for x in case.operands]
    rng = rng_of(case, salt)
    return [draw(rng, case, t) for t in case.types]


def widened(case, salt=0):
    """The case's operands in double precision, where derivatives can be checked by differences."""
    return [x.astype(WIDE.get(str(x.dtype), x.dtype)) for x in operands(case, salt)]


def normal(rng, like):
    """Standard normal values of a shape and dtype, in both parts of complex numbers."""
    values = rng.standard_normal(like.shape)
    return (values + 1j * rng.standard_normal(like.shape) if is_complex(like.dtype) else values).astype(like.dtype)


def as_list(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


def wide_params(case):
    narrow = {np.dtype(k) if k != "bfloat16" else k: v for k, v in WIDE.items()}
    return {k: np.dtype(narrow.get(v, v)) if isinstance(v, np.dtype) else v for k, v in case.params.items()}


def differentiable(case):
    if case.primitive.jvp is None and case.primitive.linearize is None:
        return None
    if any(is_key(t.dtype) for t in case.types):
        return None
    mask = case.grad if case.grad is not None else tuple(is_inexact(t.dtype) for t in case.types)
    return mask if any(mask) else None


@contextlib.contextmanager
def numpy_meaning(wide=True):
    """Within it every operation is its primitive's NumPy meaning, in double precision: nothing is compiled."""
    runtime.backend.evaluate = apply
    try:
        with config(enable_x64=wide):
            yield
    finally:
        del runtime.backend.evaluate


def function_of(case, args, mask, params):
    """The primitive as a function of its differentiated operands, giving its inexact outputs."""
    chosen = [i for i, m in enumerate(mask) if m]

    def f(*xs):
        full = list(args)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        outs = as_list(case.primitive.bind(*full, **params))
        return [o for o in outs if is_inexact(o.dtype if hasattr(o, "dtype") else np.asarray(o).dtype)]

    return f, [args[i] for i in chosen]


def assert_close(a, b, rtol=1e-5, atol=1e-6):
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == FLOAT0:
        return
    if is_inexact(a.dtype):
        wide = np.complex128 if np.iscomplexobj(a) else np.float64
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(a, b)


def batchable(case):
    """Whether there is a batching rule: the primitive's own, or the one that its relation implies."""
    return bool(case.types) and (case.primitive.batch is not None or case.primitive.relation is not None)

# ------------------------------------------------------------------------------------------------------------ laws


def compiled_is_the_numpy_meaning(case):
    args = operands(case)
    expected = as_list(apply(case.primitive, args, case.params))
    found = as_list(case.primitive.bind(*args, **case.params))
    for f, e in zip(found, expected, strict=True):
        assert f.dtype == e.dtype and f.shape == e.shape
        coarse = str(e.dtype) in ("bfloat16", "float16") or "float8" in str(e.dtype)
        assert_close(f, e, rtol=3e-2 if coarse else case.tolerance, atol=1e-2 if coarse else case.tolerance)


def jvp_is_the_finite_difference(case):
    """Along directions that are complex where the operands are."""
    args, params = widened(case), wide_params(case)
    f, xs = function_of(case, args, differentiable(case), params)
    rng = rng_of(case, 1)
    ts = [normal(rng, x) for x in xs]
    _, tangents = jvp(f, xs, ts)
    h = 1e-6
    above = f(*[x + h * t for x, t in zip(xs, ts, strict=True)])
    below = f(*[x - h * t for x, t in zip(xs, ts, strict=True)])
    for t, a, b in zip(tangents, above, below, strict=True):
        assert_close(t, (np.asarray(a) - np.asarray(b)) / (2 * h), rtol=1e-4, atol=1e-4)


def vjp_is_the_transpose_of_jvp(case):
    """Complex numbers are paired by Re(x * y): a map between real and complex is linear over the reals only."""
    args, params = widened(case), wide_params(case)
    f, xs = function_of(case, args, differentiable(case), params)
    rng = rng_of(case, 2)
    ts = [normal(rng, x) for x in xs]
    outs, pullback = vjp(f, *xs)
    cts = [normal(rng, np.asarray(o)) for o in outs]
    _, tangents = jvp(f, xs, ts)
    forward = sum(np.sum(np.asarray(c) * np.asarray(t)) for c, t in zip(cts, tangents, strict=True))
    backward = sum(np.sum(np.asarray(c) * t) for c, t in zip(pullback(cts), ts, strict=True))
    assert_close(np.real(forward), np.real(backward), rtol=1e-8, atol=1e-8)


def batched(case, salts, dims, args):
    """Operands with a batch axis of three at `dims`, and the unbatched ones."""
    many = [operands(case, s) for s in salts]
    return [np.stack([m[i] for m in many], axis=d) if d is not None else args[i] for i, d in enumerate(dims)], many


def vmap_is_a_loop(case):
    args = operands(case)
    n = len(args)
    every = tuple((0 if i % 2 == 0 else np.ndim(args[i])) for i in range(n))
    patterns = {every, *(tuple(0 if i == j else None for i in range(n)) for j in range(n))}
    for dims in patterns:
        stacked, many = batched(case, (0, 1, 2), dims, args)
        outs = as_list(vmap(lambda *a: case.primitive.bind(*a, **case.params), in_axes=dims)(*stacked))
        rows = []
        for m in many:
            one = [m[i] if d is not None else args[i] for i, d in enumerate(dims)]
            rows.append(as_list(apply(case.primitive, one, case.params)))
        for k, out in enumerate(outs):
            assert_close(out, np.stack([row[k] for row in rows]))


def vmap_of_jvp_is_jvp_of_vmap(case):
    params = wide_params(case)
    f, xs = function_of(case, widened(case), differentiable(case), params)
    rng = rng_of(case, 3)
    stacked = [np.stack([x, x]) for x in xs]
    ts = [normal(rng, x) for x in stacked]
    one = vmap(lambda x, t: jvp(f, x, t))(stacked, ts)
    two = jvp(vmap(f), stacked, ts)
    for a, b in zip(as_list(one[0]) + as_list(one[1]), as_list(two[0]) + as_list(two[1]), strict=True):
        assert_close(a, b)
