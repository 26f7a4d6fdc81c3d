"""Fused programs held against plain ones."""

import numpy as np
from hypothesis import strategies as st

import tilewright as tw
from tilewright.core.ir.verifier import check_program
from tilewright.core.tracing.numpy_interpreter import evaluate
from tilewright.core.tracing.trace import eval_program
from tilewright.kernels.cost import bytes_moved
from tilewright.kernels.fuse import plan
from tilewright.lang.verify.verify import verify


def traced(function, *args):
    return tw.compile(function, *args, stop="transformed")


def close(found, expected):
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        f, e = np.asarray(f), np.asarray(e)
        assert f.dtype == e.dtype and f.shape == e.shape
        if e.dtype.kind in "biu":
            np.testing.assert_array_equal(f, e)
            continue
        coarse = 3e-2 if e.dtype.itemsize < 4 else 2e-4
        f, e = f.astype(np.complex128), e.astype(np.complex128)
        finite = np.abs(e[np.isfinite(e)])
        np.testing.assert_allclose(f, e, rtol=coarse, atol=coarse * max(1.0, finite.max(initial=0.0)))


def small_tiles(loops):
    """Two cells or more along every loop that may be cut, ragged where that can be."""
    found = []
    for i, n in enumerate(loops.sizes):
        ragged = [t for t in range(2, n) if n % t]
        found.append(n if i in loops.whole or n < 2 else ragged[0] if ragged else max(n // 2, 1))
    return tuple(found)


def drawn_tiles(data):
    def choose(loops):
        return tuple(n if i in loops.whole else data.draw(st.integers(1, n)) for i, n in enumerate(loops.sizes))

    return choose


def check_fused(program, args, target="tpu:v5e", tiles=None, interpreted=True, compiled=True, kernels=True):
    fusion = plan(program, target, tiles)
    check_program(fusion.program)
    for one in fusion.every_kernel:
        assert bytes_moved(one.kernel) == one.bytes
        assert all(f.verdict == "proved" for f in verify(one.kernel, strict=True))
    assert not kernels or fusion.every_kernel
    given = [np.asarray(a) for a in args]
    expected = evaluate(program, *given)
    if interpreted:
        close(evaluate(fusion.program, *given), expected)
    if compiled:
        close(tw.jit(lambda *xs: eval_program(fusion.program, *xs))(*args), expected)
    return fusion



def ones(*shape, dtype=np.float32):
    return np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype(dtype)


def names(program):
    return [e.primitive.name for e in program.eqns]
