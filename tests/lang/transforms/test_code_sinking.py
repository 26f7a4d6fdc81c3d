"""Branches of derivatives: run again where they were taken, with what they alone need, and stores given on to reads."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.authors import EVERY
from tests.support.corpus.runs import close
from tests.support.laws import numpy_meaning
from tests.support.random_kernels import Draw, judged
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.program import subprograms
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.core.primitives.control_flow.cond import cond_p
from tilewright.lang.autodiff.branches import RESIDUALS
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.transforms.code_sinking import forwarded, sunk

PLAIN = InterpretParams()


def body(x_ref, w_ref, o_ref, total, *, low):
    """Row blocks above the diagonal are skipped; the total, a softmax of what was seen, is written at the end."""
    j = tl.program_id(1)

    @tl.when(j == 0)
    def _():
        total[...] = tnp.zeros(total.shape)

    @tl.when(j <= tl.program_id(0) + low)
    def _():
        scores = tnp.dot(x_ref[...], w_ref[...])
        total[...] = total[...] * 0.5 + tnp.exp(tnp.tanh(scores) - scores.max(axis=1, keepdims=True))

    @tl.when(j == tl.num_programs(1) - 1)
    def _():
        o_ref[...] = tnp.tanh(total[...]) * total[...]


def call(x, w, n, low=0, **options):
    rows, columns = x.shape[0] // n, w.shape[1] // n
    return tl.kernel_call(
        functools.partial(body, low=low), tw.ShapeDtypeStruct((x.shape[0], columns), x.dtype), grid=(n, n), name="rows",
        in_specs=[tl.BlockSpec((rows, x.shape[1]), lambda i, j: (i, 0)),
                  tl.BlockSpec((x.shape[1], columns), lambda i, j: (0, j))],
        out_specs=tl.BlockSpec((rows, columns), lambda i, j: (i, 0)),
        scratch_shapes=[tl.VMEM((rows, columns), x.dtype)], dimension_semantics=["parallel", "arbitrary"],
        **options)(x, w)  # fmt: skip


def plain(x, w, n, low=0):
    rows, columns, outs = x.shape[0] // n, w.shape[1] // n, []
    for i in range(n):
        total = tnp.zeros((rows, columns))
        for j in range(min(i + low + 1, n)):
            scores = x[i * rows : (i + 1) * rows] @ w[:, j * columns : (j + 1) * columns]
            total = total * 0.5 + tnp.exp(tnp.tanh(scores) - scores.max(axis=1, keepdims=True))
        outs.append(tnp.tanh(total) * total)
    return tnp.concatenate(outs)


def gradient(f, *args, **options):
    return tw.grad(lambda *xs: tnp.sum(tnp.sin(f(*xs, 2, **options))), (0, 1))(*args)


@pytest.mark.parametrize("size", [4, 256])  # small ones keep what they need, large ones run again
def test_gradients_of_branches_that_keep_little_or_much(size):
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s, dtype=np.float32) / 4 for s in ((size, 8), (8, size))]
    with numpy_meaning():
        expected = gradient(plain, *args)
    close(tw.jit(functools.partial(gradient, call))(*args), expected, 1e-4)


def walk(program):
    for eqn in program.eqns:
        yield eqn
        for _, inner in subprograms(eqn):
            yield from walk(inner)


def test_what_a_large_branch_computes_stays_in_it():
    size = tw.ShapeDtypeStruct((512, 64), "float32"), tw.ShapeDtypeStruct((64, 512), "float32")
    derived = kernels_of(tw.make_jaxpr(functools.partial(gradient, call))(*size))
    (kernel,) = [k for k in derived if k.name == "rows_bwd"]
    state = 256 * 256 * 4
    assert state > RESIDUALS
    branches = [e for e in kernel.body.eqns if e.primitive is cond_p]
    assert not [e for e in kernel.body.eqns if e.primitive is dot_general_p]
    large = [sum(v.type.nbytes for v in e.outputs if v.type.nbytes >= state) for e in branches]
    assert max(large) <= 2 * state, "no more than the cotangents of the total and of the output leaves a branch"


def test_pieces_that_were_copied_are_read_where_they_are_used():
    """Of two buffers filled in turns nothing is left in the backward kernel but reads of the operand."""
    case = next(c for c in EVERY if c.name == "double_buffer")
    x = tw.ShapeDtypeStruct((512, 512), "float32")
    derived = kernels_of(tw.make_jaxpr(tw.grad(lambda x: tnp.sum(case.call(x, rows=16))))(x))
    (kernel,) = [k for k in derived if "_bwd" in k.name]
    assert not kernel.scratch


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_a_drawn_kernel_computes_what_it_did(seed):
    with tw.config(debug_checks=False):
        drawn = Draw(seed).kernel()
        raised, findings = judged(drawn)
        if raised is not None or not all(f.verdict == "proved" for f in findings if f.what == "in bounds"):
            return
        kernel = drawn.kernel
        local = kernel.body.inputs[kernel.splits[3] :]
        made = kernel.replace(body=sunk(forwarded(kernel.body, local)))
        close(interpret(made, *drawn.arrays, params=PLAIN), interpret(kernel, *drawn.arrays, params=PLAIN), 0)


def test_what_is_added_to_a_part_is_read_back_with_it():
    """Stores, additions and exchanges of parts of a scratch that overlap and that do not."""

    def parts(x, o, s):
        s[...] = tnp.zeros((4, 4))
        s[1] += x[0]
        s[2:4] += x[0:2]
        a = s[1] + s[3]
        s[1:3] += x[2:4]
        b = s[1] * 2
        s[0] = b
        s[...] += 1.0
        o[0], o[1], o[2], o[3] = a, b, s[0], s[2]

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    call = tl.kernel_call(parts, tw.ShapeDtypeStruct((4, 4), "float32"), scratch_shapes=[tl.VMEM((4, 4), "float32")])
    (kernel,) = kernels_of(tw.make_jaxpr(call)(x))
    made = forwarded(kernel.body, kernel.body.inputs[-1:])
    assert len(made.eqns) == len(kernel.body.eqns)
    got, wanted = (interpret(k, x, params=PLAIN) for k in (kernel.replace(body=made), kernel))
    np.testing.assert_array_equal(got[0], wanted[0])
    np.testing.assert_array_equal(got[0][0], x[0] + x[1])
