"""Operations within a block as machine code, against the interpreter, with guard pages around every buffer."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.support.machine_code import machine_code, needs_llvm
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.tracing.trace import trace_program, typeof
from tilewright.cpu_backend.llvm.compile import object_of
from tilewright.cpu_backend.lowering.kernel import code_of
from tilewright.cpu_backend.machine.features import features
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.targets.target import CPU

pytestmark = needs_llvm
X, NAN = (5, 7, 37), float("nan")
AVX512 = tuple(name for name in features().names if name.startswith("avx512"))


def kernel_of(body, shape, dtype, arrays):
    """The kernel of one call of a body over whole operands."""
    call = tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct(shape, dtype))
    program = trace_program(lambda *xs: [call(*xs)], [typeof(a) for a in arrays])
    return next(e.params["kernel"] for e in program.eqns if "kernel" in e.params)


def check(function, *arrays, exact=True):
    """Hold a function of whole blocks against the interpreter."""
    wanted = np.asarray(function(*map(tnp.asarray, arrays)))

    def body(*refs):
        *inputs, out = refs
        out[...] = function(*(r[...] for r in inputs))

    kernel = kernel_of(body, wanted.shape, wanted.dtype, arrays)
    (expected,) = interpret(kernel, *arrays)
    for high in (False, True):
        (found,) = machine_code(kernel, *arrays, high=high)
        assert found.dtype == expected.dtype
        found, wanted = (x.astype(np.float64) for x in (found, expected))
        np.testing.assert_allclose(found, wanted, rtol=0 if exact else 2e-5, atol=0 if exact else 1e-6)


def numbers(shape, dtype="float32", low=-4, high=5):
    return np.random.default_rng(0).integers(low, high, shape).astype(tnp.dtype(dtype))


@pytest.mark.law
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "uint8"])
def test_cumulative_operations(axis, dtype):
    def function(x):
        names = "cumsum", "cumprod", "cummax", "cummin"
        return tnp.stack([getattr(lax, n)(x, axis=axis, reverse=back) for n in names for back in (False, True)])

    check(function, numbers(X, dtype, *((0, 3) if dtype == "uint8" else (-2, 3))))


@pytest.mark.parametrize("shape", [(1,), (16,), (1, 1), (3, 1), (1, 40), (8, 33)])
def test_cumulative_sums_of_small_shapes(shape):
    for axis in range(len(shape)):
        check(lambda x, axis=axis: tnp.cumsum(x * 2 + 1, axis=axis), numbers(shape))


def test_cumulative_extrema_keep_nan_and_signed_zeros():
    x = np.array([[-0.0, 0.0, 1.0, NAN, 2.0], [-0.0, -0.0, NAN, 5.0, -1.0]], np.float32)
    check(lambda x: lax.cummax(x, axis=1), x)
    check(lambda x: 1 / lax.cumsum(x, axis=1), x[:, :2])


def test_cumulative_log_sums():
    check(lambda x: lax.cumlogsumexp(x, axis=1), numbers((4, 20)), exact=False)


def test_a_cumulative_sum_within_a_loop_and_a_carry():
    def function(x):
        return lax.fori_loop(0, 3, lambda i, c: tnp.cumsum(c, axis=1) * 0.5 + i.astype("float32"), x)

    check(function, numbers((4, 20)))


INDEX = np.array([3, 0, 6, 6, -1, 2], np.int32)


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_take(mode, axis, dtype):
    check(lambda x, i: tnp.take(x, i, axis=axis, mode=mode), numbers(X, dtype), INDEX)
    check(lambda x, i: tnp.take(x, i * 9, axis=axis, mode=mode), numbers(X, dtype), INDEX.reshape(2, 3))


@pytest.mark.parametrize("axis", [0, 1])
def test_take_along_axis(axis):
    x = numbers((6, 33))
    shape = (4, 33) if axis == 0 else (6, 50)
    check(lambda x, i: tnp.take_along_axis(x, i, axis), x, numbers(shape, "int32", 0, 6))


def test_gathers_by_several_arrays_and_of_windows():
    x, i, j = numbers((9, 12, 5)), numbers((4,), "int32", 0, 9), numbers((3, 1), "int32", 0, 12)
    check(lambda x, i, j: x[i, j], x, i, j)
    check(lambda x, i: x[i, :, i % 5], x, i)
    check(lambda x, i: x[:, i + 1, 2:4], x, i)
    check(lambda x, i: tw.vmap(lambda s: lax.dynamic_slice(x, (s, s, 0), (3, 4, 5)))(i), x, i)
    check(lambda x, i: (x * 2)[i] + tnp.sum(x, axis=0), x, i)


@pytest.mark.parametrize("how", ["add", "set"])
@pytest.mark.parametrize("mode", ["clip", "drop"])
def test_scatters(how, mode):
    x, i = numbers((9, 40)), np.array([3, 8, 3, -20, 11, 3], np.int32)
    one, row = numbers((6,)), numbers((6, 40))
    for function in (
        lambda x, i, u: getattr(x.at[i], how)(u, mode=mode),
        lambda x, i, u: getattr(x.at[:, i * 4], how)(u.T[:9] if u.ndim > 1 else u, mode=mode),
        lambda x, i, u: getattr(x.at[i, i + 5], how)(u[:, 0] if u.ndim > 1 else u, mode=mode),
    ):
        check(function, x, i, row)
    check(lambda x, i, u: getattr(x[0].at[i], how)(u, mode=mode), x, i, one)
    check(lambda x, i, u: lax.fori_loop(0, 3, lambda k, c: getattr(c.at[i + k], how)(u, mode=mode), x[0]), x, i, one)


def test_windows_are_scattered():
    x, i = numbers((9, 40)), np.array([3, 7, 30, 38], np.int32)

    def function(x, i, u):
        numbers = lax.ScatterDimensionNumbers((1, 2), (), (1,))
        return lax.scatter_add(x, i[:, None], u, numbers)

    check(function, x, i, numbers((4, 9, 3)))


@pytest.mark.parametrize("axis", [0, 1])
def test_indexed_additions_to_a_ref(axis):
    x, i = numbers((6, 6)), np.array([1, 3, 1, 1, 0, 3], np.int32)

    def body(x_ref, i_ref, o_ref):
        o_ref[...] = tnp.zeros_like(o_ref)
        i = i_ref[...]
        if axis:
            o_ref[:, i] += x_ref[...]
            o_ref[2, i] += x_ref[0]
        else:
            o_ref[i] += x_ref[...]
            o_ref[i, 5 - i] += x_ref[1]

    kernel = kernel_of(body, (6, 6), "float32", (x, i))
    for high in (False, True):
        np.testing.assert_array_equal(machine_code(kernel, x, i, high=high)[0], interpret(kernel, x, i)[0])


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "int16", "float16"])
def test_the_one_element_after_full_vectors_is_stored_alone(dtype):
    def body(x_ref, o_ref):
        o_ref[...] = tnp.ones_like(o_ref)
        o_ref[tl.ds(0, 33)] = (x_ref[...].astype("int32") * 2).astype(dtype)

    x = numbers((33,), dtype)
    kernel = kernel_of(body, (40,), dtype, (x,))
    np.testing.assert_array_equal(machine_code(kernel, x)[0], interpret(kernel, x)[0])


@pytest.mark.parametrize("shape", [(5, 7, 3), (16, 40, 33), (40, 1, 70)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_products_and_what_is_made_of_them(shape, dtype):
    m, k, n = shape
    x, y, bias = numbers((m, k), dtype), numbers((k, n), dtype), numbers((1, n), dtype)
    wide = "int32" if dtype == "int32" else "float32"

    def body(x_ref, y_ref, bias_ref, o_ref, sum_ref):
        product = tnp.dot(x_ref[...], y_ref[...], preferred_element_type=wide)
        sum_ref[...] = tnp.full(sum_ref.shape, 3, wide)
        sum_ref[...] += product  # in registers
        sum_ref[...] = sum_ref[...] * 2 + tnp.dot(x_ref[...], y_ref[...], preferred_element_type=wide)
        other = tnp.dot(x_ref[...] + 1, y_ref[...], preferred_element_type=wide)  # used twice: in memory
        o_ref[...] = (sum_ref[...] + other + tnp.max(other, axis=1, keepdims=True)).astype(dtype) + bias_ref[...]
        square = tnp.dot(o_ref[...], o_ref[...].T, preferred_element_type=wide)  # reads what it is stored to
        o_ref[...] = o_ref[...] + square[:, :1].astype(dtype)

    out = tw.ShapeDtypeStruct((m, n), dtype)
    call = tl.kernel_call(body, out_shape=out, scratch_shapes=[tl.VMEM((m, n), wide)])
    program = trace_program(lambda *xs: [call(*xs)], [typeof(a) for a in (x, y, bias)])
    kernel = next(e.params["kernel"] for e in program.eqns if "kernel" in e.params)
    (found,), (wanted,) = machine_code(kernel, x, y, bias), interpret(kernel, x, y, bias)
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-2 if dtype[0] == "b" else 0)


@pytest.mark.law
@pytest.mark.parametrize("axes", [(1, 0), (1, 1), (0, 0)])
@pytest.mark.parametrize(("m", "k", "n"), [(40, 600, 33), (67, 1024, 64), (33, 513, 7)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_products_of_many_terms_are_summed_by_blocks(m, k, n, axes, dtype):
    x, y = numbers((m, k) if axes[0] else (k, m), dtype), numbers((n, k) if axes[1] else (k, n), dtype)
    wide = "float64" if dtype == "float64" else "float32"

    def body(x_ref, y_ref, o_ref):
        contracted = (((axes[0],), (axes[1],)), ((), ()))
        o_ref[...] = lax.dot_general(x_ref[...], y_ref[...], contracted, preferred_element_type=wide) * 2 + 1

    with tw.config(enable_x64=True):
        kernel = kernel_of(body, (m, n), wide, (x, y))
        (found,) = machine_code(kernel, x, y)
    left, right = (a.astype(np.float64) for a in (x if axes[0] else x.T, y.T if axes[1] else y))
    np.testing.assert_allclose(found, left @ right * 2 + 1, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("off", [(), AVX512], ids=["all", "no AVX-512"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_quotients_and_remainders_of_integers(dtype, off):
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    ends = [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, info.max // 2 + 1, *([-1, -2] * (info.min < 0))]
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(ends, ends))
    few = rng.integers(info.min, info.max, (2, 4000), dtype, True)
    x, y = np.concatenate([x, few[0], few[0] // 3 * 3]), np.concatenate([y, few[1] >> (info.bits // 2), few[0] // 3])
    x, y = x.reshape(1, -1), y.reshape(1, -1)

    def body(x_ref, y_ref, q_ref, r_ref):
        q_ref[...], r_ref[...] = lax.div(x_ref[...], y_ref[...]), lax.rem(x_ref[...], y_ref[...])

    call = tl.kernel_call(body, out_shape=[tw.ShapeDtypeStruct(x.shape, dtype)] * 2)
    program = trace_program(lambda *xs: list(call(*xs)), [typeof(x), typeof(y)])
    kernel = next(e.params["kernel"] for e in program.eqns if "kernel" in e.params)
    for found, wanted in zip(machine_code(kernel, x, y, machine=features().without(*off)), interpret(kernel, x, y),
                             strict=True):  # fmt: skip
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.law
@pytest.mark.parametrize("off", [(), ("avx512vnni", "avxvnni"), AVX512], ids=["all", "no VNNI", "no AVX-512"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (9, 2, 16), (16, 40, 33), (3, 67, 70), (40, 1, 70)])
@pytest.mark.parametrize(("left", "right"), [
    ("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8"), ("int16", "int16"), ("int16", "uint8"),
])  # fmt: skip
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_short_integers(off, shape, left, right, transposed):
    m, k, n = shape
    rng = np.random.default_rng(0)
    x, y = (rng.integers(np.iinfo(d).min, np.iinfo(d).max, s, d, True)
            for d, s in ((left, (m, k)), (right, (n, k) if transposed else (k, n))))  # fmt: skip
    x[0], y[0] = np.iinfo(left).min, np.iinfo(right).min

    def body(x_ref, y_ref, o_ref):
        axes = (((1,), (1 if transposed else 0,)), ((), ()))
        o_ref[...] = lax.dot_general(x_ref[...], y_ref[...], axes, preferred_element_type="int32")

    kernel = kernel_of(body, (m, n), "int32", (x, y))
    found = machine_code(kernel, x, y, machine=features().without(*off))[0]
    np.testing.assert_array_equal(found, x.astype("int32") @ (y.T if transposed else y).astype("int32"))


@pytest.mark.skipif("avx512vnni" not in features().names, reason="of processors with VNNI")
def test_products_of_bytes_use_vnni():
    x = np.ones((16, 32), "int8")

    def body(x_ref, y_ref, o_ref):
        o_ref[...] = tnp.dot(x_ref[...], y_ref[...], preferred_element_type="int32")

    kernel = kernel_of(body, (16, 16), "int32", (x, np.ones((32, 16), "int8")))
    without = features().without("avx512vnni", "avxvnni")
    text = [object_of(code_of(kernel, CPU, m, threads=1).text, m, assembly=True) for m in (features(), without)]
    assert "vpdpbusd" in text[0]
    assert "vpdp" not in text[1] and "vpmaddwd" in text[1]


@pytest.mark.parametrize("dtype", ["int16", "uint8"])
def test_products_of_short_integers_whose_contracted_axis_is_not_contiguous(dtype):
    x, y = (np.arange(70, dtype=dtype).reshape(s) for s in ((10, 7), (10, 7)))

    def body(x_ref, y_ref, o_ref):
        o_ref[...] = lax.dot_general(x_ref[...].T, y_ref[...].astype("int8").astype("int16" if dtype == "int16" else
                                     "int8"), (((1,), (0,)), ((), ())), preferred_element_type="int32")  # fmt: skip

    kernel = kernel_of(body, (7, 7), "int32", (x, y))
    np.testing.assert_array_equal(machine_code(kernel, x, y)[0], x.T.astype("int32") @ y.astype("int32"))


def test_a_product_stored_over_its_own_operand():
    x = numbers((40, 40))

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        o_ref[...] = o_ref[...] @ x_ref[...] + 1
        o_ref[...] += x_ref[...] @ o_ref[...]

    kernel = kernel_of(body, x.shape, "float32", (x,))
    np.testing.assert_array_equal(machine_code(kernel, x)[0], interpret(kernel, x)[0])


def test_what_is_stored_and_then_added_to_is_stored_once():
    x = numbers((6, 40))

    def body(x_ref, o_ref, s_ref):
        s_ref[...] = x_ref[...]
        o_ref[...] = s_ref[...] * 3  # before the scratch changes
        s_ref[...] = x_ref[...] - 5
        o_ref[...] += s_ref[...]
        o_ref[tl.ds(1, 3)] += s_ref[tl.ds(0, 3)]

    call = tl.kernel_call(body, tw.ShapeDtypeStruct((6, 40), "float32"), scratch_shapes=[tl.VMEM((6, 40), "float32")])
    program = trace_program(lambda x: [call(x)], [typeof(x)])
    kernel = next(e.params["kernel"] for e in program.eqns if "kernel" in e.params)
    np.testing.assert_array_equal(machine_code(kernel, x)[0], interpret(kernel, x)[0])
