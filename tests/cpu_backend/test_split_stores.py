"""Stores of concatenated values, as stores of their parts, and dear rows that are repeated."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.support.machine_code import machine_code, needs_llvm
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.movement.shape import concatenate_p
from tilewright.core.tracing.trace import trace_program
from tilewright.cpu_backend.lowering.kernel import code_of
from tilewright.cpu_backend.lowering.split_stores import split_stores
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import CPU

F32 = np.dtype(np.float32)


def joined(x_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = tnp.concatenate([x[:, 3:] * 2, x[:, :3] + 1], 1)


def stacked(x_ref, o_ref):
    o_ref[...] = tnp.concatenate([x_ref[1:] - 1, x_ref[:1]], 0)


def in_place(x_ref, o_ref):
    o_ref[...] = x_ref[...]
    o_ref[...] = tnp.concatenate([o_ref[:, 4:], o_ref[:, :4]], 1)


def used_twice(x_ref, o_ref):
    both = tnp.concatenate([x_ref[:, 3:], x_ref[:, :3]], 1)
    o_ref[...] = both + both[::-1]


def repeated(x_ref, o_ref):
    o_ref[...] = x_ref[...] * tnp.sin(x_ref[:1] * 2)


def kernel(body, rows):
    spec = tl.BlockSpec((4, 21), lambda i: (i, 0))
    call = tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct((rows, 21), F32), grid=tl.cdiv(rows, 4),
                          in_specs=[spec], out_specs=spec)  # fmt: skip
    (found,) = set(kernels_of(trace_program(lambda x: [call(x)], [ArrayType((rows, 21), F32)])))
    return found


def concatenations(found):
    return sum(e.primitive is concatenate_p for e in found.body.eqns)


@needs_llvm
@pytest.mark.parametrize("rows", [8, 12])
@pytest.mark.parametrize("body", [joined, stacked, in_place, used_twice, repeated])
def test_values_are_those_of_the_interpreter(body, rows):
    found, x = kernel(body, rows), np.random.default_rng(0).standard_normal((rows, 21), np.float32)
    for high in (False, True):
        (made,) = machine_code(found, x, high=high)
        np.testing.assert_allclose(made, interpret(found, x)[0], rtol=1e-6, atol=1e-6)


@needs_llvm
def test_blocks_that_reach_past_the_end():
    found, x = kernel(joined, 10), np.random.default_rng(0).standard_normal((10, 21), np.float32)
    np.testing.assert_array_equal(machine_code(found, x)[0], interpret(found, x)[0])


def test_only_stores_that_alone_want_the_value_are_split():
    assert concatenations(kernel(joined, 8)) == 1 and concatenations(split_stores(kernel(joined, 8))) == 0
    assert concatenations(split_stores(kernel(used_twice, 8))) == 1
    plain = kernel(repeated, 8)
    assert split_stores(plain) is plain


def test_a_dear_row_is_computed_once():
    text = "\n".join(code_of(kernel(repeated, 8), CPU).nest)
    assert "keep float32[1, 21]" in text
