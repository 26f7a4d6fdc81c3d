"""Sums over thousands of rows, which XLA's library for them computes wrongly where several are fused, are right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import export
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.custom.checkpoint import optimization_barrier_p
from tilewright.core.tracing.trace import trace_program
from tilewright.xla_backend.cpu_passes.sums import (
    OWN_LOOPS,
    Reductions,
    behind_barriers,
    compiler_options,
    reductions_of,
)

NONE = frozenset()


def norm(x):
    d = x - tnp.mean(x, 1, keepdims=True)
    return d * tw.lax.rsqrt(tnp.mean(d * d, 1, keepdims=True) + 1e-5)


def cotangent(x, g, f=norm):
    return tw.vjp(f, x)[1](g)[0]


def arrays(rows, columns, seed=0):
    draw = np.random.default_rng(seed)
    return tuple(draw.standard_normal((rows, columns), np.float32) for _ in range(2))


def close(found, wanted):
    scale = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(found, wanted, atol=1e-4 * scale)


# ---------------------------------------------------------------------------- values

STEPS = {
    "center": lambda a, b, y, rows: a - rows(a),
    "scale": lambda a, b, y, rows: a * tw.lax.rsqrt(rows(a * a) + 1e-2),
    "gate": lambda a, b, y, rows: b * rows(a * y),
    "residual": lambda a, b, y, rows: a + b * rows(a),
    "largest": lambda a, b, y, rows: a - tnp.max(a, 1, keepdims=True) * 0.5,
}  # fmt: skip
Steps = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 3)), min_size=1, max_size=4)


@settings(max_examples=12)
@given(steps=Steps, rows=st.sampled_from([1024, 4096, 5000]), columns=st.sampled_from([8, 32, 64, 100]))
@example(steps=[("residual", 0), ("scale", 1)], rows=5000, columns=100)
@example(steps=[("center", 0), ("scale", 1), ("center", 2)], rows=4096, columns=32)
def test_gradients_of_reductions_along_rows(steps, rows, columns):
    x, g = arrays(rows, columns)
    y = arrays(rows, columns, 1)[0]

    def made(x):
        values = [x]
        for name, which in steps:
            mean = lambda a: tnp.mean(a, 1, keepdims=True)  # noqa: E731
            values.append(STEPS[name](values[-1], values[which % len(values)], y, mean))
        return values[-1]

    def gradient(x, g):
        return tw.vjp(made, x)[1](g)[0]

    close(tw.jit(gradient)(x, g), by_numpy(gradient, x, g))


@pytest.mark.parametrize("columns", [16, 64])
def test_the_gradient_of_a_norm(columns):
    x, g = arrays(4096, columns)
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    unit = (wide - wide.mean(1, keepdims=True)) * scale
    wanted = scale * (g - g.mean(1, keepdims=True) - unit * (g * unit).mean(1, keepdims=True))
    np.testing.assert_allclose(tw.jit(cotangent)(x, g), wanted, atol=1e-5)


def test_a_function_that_is_called_again_and_again():
    x, g = arrays(4096, 64)

    @tw.jit
    def centred(x):
        return x - tnp.mean(x, 1, keepdims=True)

    function = lambda x: centred(centred(norm(centred(x))))  # noqa: E731
    close(tw.jit(lambda x, g: cotangent(x, g, function))(x, g), by_numpy(lambda x, g: cotangent(x, g, function), x, g))


@pytest.mark.parametrize("shape", ["4096, 16", "4096, 64", "b, 64"])
def test_exports(shape):
    structs = export.symbolic_args_specs([tw.ShapeDtypeStruct((1, 1), np.float32)] * 2, [shape, shape])
    kept = export.deserialize(export.export(tw.jit(cotangent))(*structs).serialize())
    x, g = arrays(4096, 16 if "16" in shape else 64)
    close(kept.call(x, g), by_numpy(cotangent, x, g))


# ---------------------------------------------------------------------------- the pass


def traced(function, *shapes):
    return trace_program(lambda *xs: [function(*xs)], [ArrayType(s, np.dtype(np.float32)) for s in shapes])


def barriers(program):
    return sum(e.primitive is optimization_barrier_p for e in program.eqns)


def test_large_reductions_have_barriers_and_small_ones_loops():
    large, small = (reductions_of(traced(cotangent, s, s)) for s in ((4096, 64), (4096, 16)))
    few = reductions_of(traced(cotangent, *[(1024, 64)] * 2))
    assert large.unsafe and large.isolated and not compiler_options(large, NONE)
    assert small.unsafe and not small.isolated and compiler_options(small, NONE) == (OWN_LOOPS,)
    assert not few.unsafe and not compiler_options(few, NONE)


def test_a_program_within_counts_as_often_as_it_is_called():
    centred = tw.jit(lambda x: x - tnp.mean(x, 1, keepdims=True))
    found = reductions_of(traced(lambda x: centred(centred(centred(x))), (4096, 8)))
    assert found == Reductions(3, 4096, 4096 * 8, False)


def test_barriers_are_behind_reductions_of_many_rows():
    program = traced(lambda x: tnp.mean(x - tnp.mean(x, 1, keepdims=True), 0), (4096, 64))
    assert barriers(program) == 0 and barriers(behind_barriers(program)) == 1
    plain = traced(lambda x: x + 1, (4096, 64))
    assert behind_barriers(plain) is plain
