"""The choice between machine code and XLA by cost, and the rates of the machine that it goes by."""

from __future__ import annotations

import ctypes
import warnings

import numpy as np
import pytest

import tilewright as tw
from tests.support.machine_code import needs_llvm
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.compiler import cpu_kernel_selection as calls
from tilewright.compiler import cpu_route_policy
from tilewright.core.support.config import current
from tilewright.core.tracing.trace import trace_program
from tilewright.cpu_backend.cost import rates as rates_
from tilewright.cpu_backend.cost.cells import in_cells
from tilewright.cpu_backend.cost.estimate import ALONE, Around, Machine, estimate
from tilewright.cpu_backend.llvm.compile import module_text
from tilewright.cpu_backend.runtime.library import loaded
from tilewright.experimental.serialize_executable import deserialize_and_load, serialize
from tilewright.kernels.fuse.flatten import flat
from tilewright.lang.call.primitive import kernel_call_p
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.xla_backend.host.disk_cache import CacheWarning, DiskCache

RATES = rates_.parsed("read=2e10,copy=1.4e10,in_place=4e10,streamed=2.5e10,near=6e10,fma=8e10,bytes=3.2e11")
MACHINE = Machine(RATES, 2**15, 2**21, 1, 16, 2**23)


def rows(body, matrices=1, shape=(2048, 1024), block=8, route=None):
    spec = tl.BlockSpec((block, shape[1]), lambda i: (i, 0))
    return tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct(shape, "float32"), grid=shape[0] // block, in_specs=[spec] * matrices,
        out_specs=spec, compiler_params=None if route is None else tl.cpu.CompilerParams(route=route))  # fmt: skip


def softmax(x_ref, o_ref):
    e = tnp.exp(x_ref[...] - tnp.max(x_ref[...], axis=1, keepdims=True))
    o_ref[...] = e / tnp.sum(e, axis=1, keepdims=True)


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2 + 1


def estimated(call, *shapes, machine=MACHINE, around=ALONE):
    structs = [tw.core.ir.types.ArrayType(s, np.dtype("float32")) for s in shapes or [(2048, 1024)]]
    (kernel,) = set(kernels_of(trace_program(lambda *xs: [call(*xs)], structs)))
    return estimate(kernel, machine, around)


def routes(f, *shapes):
    structs = [tw.ShapeDtypeStruct(s, "float32") for s in shapes or [(2048, 1024)]]
    return [route for _, route in tw.explain(f, *structs, compile=True).routes]


# ---------------------------------------------------------------------------- rates


def test_rates_as_text_and_back():
    assert rates_.parsed(RATES.text()) == RATES


@pytest.mark.parametrize("text", [
    "fma=1e9", RATES.text() + ",fma=2", RATES.text().replace("fma", "fmas"), RATES.text().replace("8e+10", "fast"),
    RATES.text().replace("8e+10", "-1"), RATES.text().replace("8e+10", "inf"), RATES.text().replace("8e+10", "nan"),
])  # fmt: skip
def test_rates_that_are_none_are_an_error(text):
    with pytest.raises(tw.errors.ConfigError, match="cpu_rates is"):
        rates_.rates(text, None)


def test_rates_are_measured_once_and_kept(tmp_path, monkeypatch):
    count = []
    monkeypatch.setattr(rates_, "measured", lambda: count.append(1) or RATES)
    monkeypatch.setattr(rates_, "_known", {})
    store = DiskCache(tmp_path / "kept")
    assert [rates_.rates("", store) for _ in range(2)] == [RATES, RATES] and len(count) == 1
    rates_._known.clear()  # another process
    assert rates_.rates("", DiskCache(tmp_path / "kept")) == RATES and len(count) == 1
    (file,) = (tmp_path / "kept").glob("cpu-rates-*")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    rates_._known.clear()
    with pytest.warns(CacheWarning, match="damaged"):
        assert rates_.rates("", store) == RATES and len(count) == 2
    store.store(rates_.name_of_machine(), b"fma=1")  # of another version
    rates_._known.clear()
    assert rates_.rates("", store) == RATES and len(count) == 3
    assert rates_.rates(RATES.text().replace("8e+10", "1e9"), store).fma == 1e9 and len(count) == 3


@needs_llvm
def test_the_functions_that_measure_do_what_they_say():
    _, code = loaded(module_text([*map(rates_._pass, rates_._PASSES), *map(rates_._multiply_adds, rates_._SUMS)]), None)
    x, y = rates_._aligned(4096), rates_._aligned(4096)
    x[:] = np.arange(1024)
    for name in ("copy", "streamed"):
        y[:] = 0
        kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        ctypes.CFUNCTYPE(None, *kinds)(code.symbols[name])(x.ctypes.data, y.ctypes.data, 1024)
        np.testing.assert_array_equal(y, x * 0.5 + 0.5)


@needs_llvm
def test_every_rate_is_measured(monkeypatch):
    monkeypatch.setattr(rates_, "FAR_BYTES", 2**21)
    monkeypatch.setattr(rates_, "ROUNDS", 100)
    monkeypatch.setattr(rates_, "REPEATS", 1)
    found = rates_.measured()
    assert rates_.parsed(found.text())


# ---------------------------------------------------------------------------- estimates


@pytest.mark.parametrize(("dtype", "code"), [("int8", False), ("uint8", True), ("int16", True), ("float32", False)])
def test_products_of_short_integers_are_machine_code_where_xla_has_no_library(dtype, code):
    def body(x_ref, y_ref, o_ref):
        o_ref[...] = tnp.dot(x_ref[...], y_ref[...], preferred_element_type=total)

    total = "float32" if dtype == "float32" else "int32"
    call = tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct((512, 512), total), grid=8,
        out_specs=tl.BlockSpec((64, 512), lambda i: (i, 0)),
        in_specs=[tl.BlockSpec((64, 512), lambda i: (i, 0)), tl.BlockSpec((512, 512), lambda i: (0, 0))])  # fmt: skip
    structs = [tw.core.ir.types.ArrayType((512, 512), np.dtype(dtype))] * 2
    (kernel,) = set(kernels_of(trace_program(lambda *xs: [call(*xs)], structs)))
    found = estimate(kernel, MACHINE)
    assert (found.machine_code < 0.9 * found.xla) is code
    if dtype == "int8":
        slow = Machine(rates_.parsed(RATES.text().replace("bytes=3.2e+11", "bytes=8e+10")), 2**15, 2**21, 1, 16, 2**23)
        assert estimate(kernel, slow).machine_code > 2 * found.machine_code


def test_machine_code_wins_where_reductions_make_xla_read_again():
    one = estimated(rows(softmax))
    assert one is not None and one.machine_code < 0.9 * one.xla
    four, eight = (estimated(rows(softmax, shape=(n, 1024)), (n, 1024)) for n in (2**14, 2**15))
    assert four is not None and eight is not None and eight.xla == pytest.approx(2 * four.xla, rel=0.01)
    assert eight.machine_code == pytest.approx(2 * four.machine_code, rel=0.01)


def test_elementwise_chains_are_a_draw():
    found = estimated(rows(double, shape=(1024, 512)), (1024, 512))
    assert found is not None and found.machine_code >= found.xla


def test_large_outputs_bypass_the_caches():
    large = estimated(rows(double, shape=(8192, 1024)), (8192, 1024))
    assert large is not None and large.machine_code < 0.9 * large.xla


def test_results_in_place_of_operands_cost_less():
    def call(aliases):
        spec = tl.BlockSpec((8, 1024), lambda i: (i, 0))
        return tl.kernel_call(double, out_shape=tw.ShapeDtypeStruct((8192, 1024), "float32"), grid=1024,
                              in_specs=[spec], out_specs=spec, input_output_aliases=aliases)

    one, other = (estimated(call(aliases), (8192, 1024)) for aliases in ({}, {0: 0}))
    assert one is not None and other is not None and other.xla < one.xla and other.machine_code < one.machine_code


def test_cells_in_order_cost_xla_a_loop():
    def running(x_ref, o_ref, sum_ref):
        @tl.when(tl.program_id(0) == 0)
        def _():
            sum_ref[...] = tnp.ones_like(sum_ref)

        sum_ref[...] = sum_ref[...] * x_ref[...]
        o_ref[...] = sum_ref[...]

    def call(block):
        spec = tl.BlockSpec((block, 1024), lambda i: (i, 0))
        return tl.kernel_call(running, out_shape=tw.ShapeDtypeStruct((2048, 1024), "float32"), grid=2048 // block,
                              in_specs=[spec], out_specs=spec, scratch_shapes=[tl.VMEM((block, 1024), "float32")])

    few, many = estimated(call(128)), estimated(call(1))
    assert few is not None and many is not None and many.xla > 1.5 * few.xla


def test_a_kernel_of_one_cell_has_one_core():
    def over_columns(x_ref, o_ref):
        o_ref[...] = x_ref[...] / tnp.sum(x_ref[...])

    machine = Machine(RATES, 2**15, 2**21, 4, 16, 2**23)
    many, one = estimated(rows(softmax), machine=machine), estimated(rows(over_columns, block=2048), machine=machine)
    assert many is not None and one is not None and one.machine_code > 2 * many.machine_code
    assert many.machine_code < many.xla and one.machine_code > one.xla


def test_what_xla_fuses_with_a_kernel_counts():
    alone, fused = estimated(rows(softmax)), estimated(rows(softmax), around=Around(2**24))
    assert alone is not None and fused is not None
    assert fused.xla == alone.xla and fused.machine_code > alone.machine_code
    call = rows(softmax)
    types = [tw.core.ir.types.ArrayType((2048, 1024), np.dtype("float32"))]

    def around(f):
        return sum(one.bytes for one in calls.surroundings(trace_program(lambda x: [f(x)], types)).values())

    array = 4 * 2**21
    assert around(call) == 0 and around(lambda x: call(x + 1)) == array
    assert around(lambda x: call(x + 1) * 2) == 2 * array
    assert around(lambda x: call((x + 1).reshape(-1).reshape(x.shape)).reshape(-1)) == array
    assert around(lambda x: (lambda y: call(y) @ y.T)(x + 1)) == 0  # what several read is in memory anyway
    assert around(lambda x: tw.jit(lambda y: call(y * 2))(x)) == array


def test_xla_repeats_dear_values_in_results_that_are_moved():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * tnp.sin(tnp.arange(1024, dtype="float32"))

    alone, moved = (estimated(rows(body), around=Around(0, moved)) for moved in (False, True))
    assert alone is not None and moved is not None
    assert moved.xla > 2 * alone.xla and moved.machine_code == alone.machine_code
    types = [tw.core.ir.types.ArrayType((2048, 1024), np.dtype("float32"))]
    for f, found in (
        (lambda x: rows(body)(x).T, True), (lambda x: rows(body)(x).reshape(-1), False),
        (lambda x: tnp.concatenate([rows(body)(x), x]), True), (lambda x: rows(body)(x) @ x.T, False),
        (lambda x: tnp.einsum("tnh,snh->nts", *[rows(body)(x).reshape(2048, 16, 64)] * 2), True),
    ):  # fmt: skip
        (one,) = calls.surroundings(trace_program(lambda x, f=f: [f(x)], types)).values()
        assert one.moved == found


def test_a_grid_of_computed_size_has_no_estimate():
    def f(n, x):
        spec = tl.BlockSpec((8, 1024), lambda i: (i, 0))
        return tl.kernel_call(double, out_shape=x, grid=(n,), in_specs=[spec], out_specs=spec)(x)

    types = [tw.core.ir.types.ArrayType((), np.dtype("int32")),
             tw.core.ir.types.ArrayType((2048, 1024), np.dtype("float32"))]  # fmt: skip
    (kernel,) = set(kernels_of(trace_program(lambda n, x: [f(n, x)], types)))
    assert estimate(kernel, MACHINE) is None


# ---------------------------------------------------------------------------- cells


def whole(body, outs, *shapes):
    """The kernel of one cell of a body."""
    call = tl.kernel_call(body, [tw.ShapeDtypeStruct(s, "float32") for s in outs])
    types = [tw.core.ir.types.ArrayType(s, np.dtype("float32")) for s in shapes]
    (kernel,) = set(kernels_of(trace_program(lambda *xs: list(call(*xs)), types)))
    return kernel


def test_one_large_cell_is_cut_along_rows():
    found = in_cells(whole(softmax, [(4096, 512)], (4096, 512)))
    assert found.finish is None and found.kernel.grid == (32,)
    assert [b.shape for b in found.kernel.blocks] == [(128, 512)] * 2


def test_sums_over_rows_are_sums_of_the_parts():
    def body(x_ref, s_ref, y_ref, t_ref):
        y_ref[...] = x_ref[...] * s_ref[...]
        t_ref[...] = tnp.sum(x_ref[...], axis=0)

    kernel = whole(body, [(4096, 512), (512,)], (4096, 512), (512,))
    found = in_cells(kernel)
    assert found.finish is not None and found.kernel.cells == 64
    x = np.random.default_rng(0).standard_normal((4096, 512), np.float32)
    given = x, x[0]
    with tw.config(cpu_route="machine_code"):
        y, t = tw.jit(lambda *xs: kernel_call_p.bind(*xs, kernel=kernel))(*given)
    np.testing.assert_array_equal(y, x * x[0])
    np.testing.assert_allclose(t, x.astype(np.float64).sum(0), rtol=1e-4, atol=1e-3)


def test_what_needs_all_rows_stays_one_cell():
    def body(x_ref, y_ref):
        y_ref[...] = x_ref[...] / tnp.sum(x_ref[...], axis=0)

    assert in_cells(whole(body, [(4096, 512)], (4096, 512))).kernel.cells == 1
    small = whole(softmax, [(64, 512)], (64, 512))
    assert in_cells(small).kernel is small
    prime = whole(softmax, [(4099, 512)], (4099, 512))
    assert in_cells(prime).kernel is prime


def in_steps(steps, dtype="float32", finished=False):
    """A kernel of sums, maxima and doubled rows over blocks of rows in order."""

    def body(x_ref, s_ref, m_ref, y_ref):
        @tl.when(tl.program_id(0) == 0)
        def _():
            s_ref[...] = tnp.zeros_like(s_ref)
            m_ref[...] = tnp.full(m_ref.shape, -tnp.inf, m_ref.dtype)

        s_ref[...] += tnp.sum(x_ref[...], axis=0)
        m_ref[...] = tnp.maximum(m_ref[...], tnp.max(x_ref[...], axis=0))
        y_ref[...] = x_ref[...] * 2
        if finished:

            @tl.when(tl.program_id(0) == steps - 1)
            def _():
                s_ref[...] = tnp.sqrt(s_ref[...])

    block, row = tl.BlockSpec((64, 512), lambda i: (i, 0)), tl.BlockSpec((512,), lambda i: (0,))
    shape, sums = tw.ShapeDtypeStruct((64 * steps, 512), dtype), tw.ShapeDtypeStruct((512,), dtype)
    call = tl.kernel_call(body, (sums, sums, shape), grid=steps, in_specs=[block], out_specs=(row, row, block))
    type_ = tw.core.ir.types.ArrayType(shape.shape, tnp.dtype(dtype))
    (kernel,) = set(kernels_of(trace_program(lambda x: list(call(x)), [type_])))
    return kernel


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sums_over_steps_in_order_are_sums_of_stretches(dtype):
    kernel = in_steps(48, dtype)
    found = in_cells(kernel)
    assert found.finish is not None and found.kernel.grid == (16, 3)
    x = np.random.default_rng(0).standard_normal((48 * 64, 512), np.float32).astype(tnp.dtype(dtype))
    with tw.config(cpu_route="machine_code"):
        total, most, doubled = tw.jit(lambda x: kernel_call_p.bind(x, kernel=kernel))(x)
    assert total.dtype == most.dtype == doubled.dtype == x.dtype
    tolerance = 1e-3 if dtype == "float32" else 0.3
    np.testing.assert_allclose(np.float64(total), x.astype(np.float64).sum(0), rtol=1e-2, atol=tolerance)
    np.testing.assert_array_equal(most, x.max(0))
    np.testing.assert_array_equal(doubled, x * 2)


def test_steps_that_stretches_do_not_divide_or_that_use_their_sums_stay():
    assert in_cells(kernel := in_steps(47)).kernel is kernel
    assert in_cells(kernel := in_steps(48, finished=True)).kernel is kernel


# ---------------------------------------------------------------------------- the choice


@needs_llvm
def test_the_faster_route_is_taken_and_explained():
    with tw.config(cpu_rates=RATES.text()):
        (chosen,) = routes(rows(softmax))
        (left,) = routes(rows(double, shape=(1024, 512)), (1024, 512))
        small = routes(rows(softmax, shape=(32, 1024)), (32, 1024))
    assert chosen.startswith("machine code of this CPU") and "as machine code, " in chosen and "by XLA" in chosen
    assert left.startswith("XLA, vectorised over cells; estimated ")
    assert small == ["XLA, vectorised over cells"]


@needs_llvm
def test_a_choice_follows_the_rates():
    slow = RATES.text().replace("fma=8e+10", "fma=1e+06")  # memory costs nothing, beside arithmetic

    def worse(x_ref, o_ref):
        o_ref[...] = tnp.log1p(x_ref[...]) + tnp.sum(x_ref[...], axis=1, keepdims=True)

    with tw.config(cpu_rates=slow):
        assert routes(rows(worse))[0].startswith("XLA")


@needs_llvm
@pytest.mark.parametrize(("setting", "route", "code"), [
    ("machine_code", None, True), ("xla", None, False), ("xla", "machine_code", True), ("machine_code", "xla", False),
    (None, "machine_code", True), (None, "xla", False), (None, None, False),
])  # fmt: skip
def test_a_route_can_be_forced(setting, route, code):
    with tw.config(cpu_route=setting):
        (found,) = routes(rows(softmax, shape=(16, 128), route=route), (16, 128))
    assert found.startswith("machine code of this CPU") == code


@needs_llvm
def test_what_has_no_machine_code_says_why():
    def body(x_ref, o_ref):
        o_ref[...] = tnp.sort(x_ref[...], axis=1) / tnp.sum(tnp.sin(x_ref[...]), axis=1, keepdims=True)

    (found,) = routes(rows(body))
    assert found.startswith("XLA") and "; not machine code: " in found and "estimated" in found


def test_memory_that_nothing_has_written_is_xlas():
    (kernel,) = kernels_of(trace_program(lambda x: [rows(softmax)(x)],
                                         [tw.core.ir.types.ArrayType((2048, 1024), np.dtype("float32"))]))  # fmt: skip
    assert cpu_route_policy.route_of(kernel, frozenset()) == "cost"
    assert cpu_route_policy.route_of(kernel, frozenset({"zeros"})) == "xla"


@needs_llvm
def test_code_that_takes_long_to_compile_is_xlas(monkeypatch):
    monkeypatch.setattr(calls, "LINE_SECONDS", 1.0)
    (found,) = routes(rows(softmax))
    assert "more than it saves in 1,000 calls" in found and found.startswith("XLA")
    assert routes(rows(softmax, route="machine_code"))[0].startswith("machine code")


@needs_llvm
def test_a_kernel_that_is_called_often_is_compiled_for_all_its_calls(monkeypatch):
    monkeypatch.setattr(calls, "LINE_SECONDS", 3 * calls.LINE_SECONDS)  # narrow vectors have more to gain, too
    few = rows(softmax, shape=(128, 1024))
    with tw.config(cpu_rates=RATES.text()):
        (once,) = routes(few, (128, 1024))
        (often,) = routes(lambda *xs: [few(x) for x in xs], *[(128, 1024)] * 9)
    assert once.startswith("XLA") and often.startswith("machine code")


def test_xla_computes_once_what_a_kernel_and_its_derivative_multiply():
    structs = [tw.ShapeDtypeStruct(s, "float32") for s in ((2048, 256), (256, 512), (256, 512), (512, 256))]
    slopes = tw.grad(lambda *a: (tw.nn.swiglu(*a) ** 2).sum(), (0, 1, 2))
    found = calls.surroundings(flat(tw.compile(slopes, *structs, stop="transformed")))
    products = 2 * 2 * 2048 * 256 * 512
    assert {k.name: a.flops for k, a in found.items()} == {"swiglu": products / 2, "swiglu_backward": products / 2}
    (kernel, one), *_ = found.items()
    assert estimate(kernel, MACHINE, one).xla < estimate(kernel, MACHINE).xla


@needs_llvm
@pytest.mark.parametrize("part", [False, True])
def test_operands_that_stay_are_not_copied_for_results_in_their_place(part):
    def body(x_ref, o_ref):
        rows_ = slice(0, 4) if part else slice(None)
        o_ref[rows_] = x_ref[rows_] * 2

    spec = tl.BlockSpec((8, 256), lambda i: (i, 0))
    call = tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct((64, 256), "float32"), grid=8, in_specs=[spec], out_specs=spec,
        input_output_aliases={0: 0}, compiler_params=tl.cpu.CompilerParams(route="machine_code"))  # fmt: skip
    x = np.random.default_rng(0).standard_normal((64, 256), np.float32)
    wanted = np.where(part & (np.arange(64) % 8 >= 4), 1, 2)[:, None] * x
    for donated in ((), (0,)):
        given = tnp.asarray(x)
        compiled = tw.jit(call, donate_argnums=donated).lower(given).compile()
        assert part or ("output_to_operand_aliasing" in compiled.as_text()) == bool(donated)
        np.testing.assert_array_equal(compiled(given), wanted)
        assert given.is_deleted() == bool(donated)


@needs_llvm
def test_bits_of_narrow_floats_are_xlas():
    def body(x_ref, o_ref):
        bits = tw.lax.bitcast_convert_type(x_ref[...].astype("bfloat16"), "uint16")
        o_ref[...] = bits.astype("float32") / tnp.sum(tnp.exp(x_ref[...]), axis=1, keepdims=True)

    (found,) = routes(rows(body))
    assert found.startswith("XLA") and "the bits of 16-bit floats" in found


@needs_llvm
def test_an_internal_error_is_xlas_with_a_warning(monkeypatch):
    def broken(*args):
        raise KeyError("broken")

    monkeypatch.setattr(calls, "code_of", broken)
    x = np.random.default_rng(0).standard_normal((2048, 1024), np.float32)
    with tw.config(cpu_rates=RATES.text()):
        assert current().debug_checks
        with pytest.raises(KeyError):
            tw.jit(rows(softmax))(x)
        with tw.config(debug_checks=False), pytest.warns(RuntimeWarning, match="an internal error, KeyError"):
            found = tw.jit(rows(softmax))(x)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-4)


@needs_llvm
def test_both_routes_give_the_same():
    x = np.random.default_rng(0).standard_normal((2048, 1024), np.float32)
    with tw.config(cpu_rates=RATES.text()), warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = tw.jit(rows(softmax))(x)
        gradient = tw.jit(tw.grad(lambda x: (rows(softmax)(x) * x).sum()))(x)
    with tw.config(cpu_route="xla"):
        np.testing.assert_allclose(chosen, tw.jit(rows(softmax))(x), rtol=1e-5)
        wanted = tw.jit(tw.grad(lambda x: (rows(softmax)(x) * x).sum()))(x)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-7)


@needs_llvm
def test_serialised_programs_have_no_machine_code():
    x = np.random.default_rng(0).standard_normal((2048, 1024), np.float32)
    with tw.config(cpu_rates=RATES.text()):
        compiled = tw.jit(rows(softmax)).lower(x).compile()
        assert "cpu-" in compiled.as_text()
        loaded = deserialize_and_load(*serialize(compiled))
    assert "custom-call" not in loaded.as_text()
    np.testing.assert_allclose(loaded(x), compiled(x), rtol=1e-5)
    asked = tw.jit(rows(softmax, route="machine_code")).lower(x).compile()
    with pytest.raises(tw.errors.ExportError, match="machine code"):
        serialize(asked)
