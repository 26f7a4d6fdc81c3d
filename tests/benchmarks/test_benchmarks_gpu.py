"""The benchmarks on a GPU, small, on a driver that walks kernels on host memory; and what is made of the numbers."""

import datetime
import subprocess
import sys
import types
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from benchmarks.gpu import __main__ as bench
from benchmarks.gpu import cases, emulator_conformance, variants
from benchmarks.gpu.isolation import Apart
from tests.support.gpu.host_gpu import CudaArray, host_gpu, read
from tests.support.gpu.nvrtc_stand_in import forget, installed
from tilewright.compiler.backend_selection import MOSAIC_GPU
from tilewright.cutlass_backend.compiler import WORKERS
from tilewright.interop import arrays, driver
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_gpu import compiler

RNG = np.random.default_rng(0)


class HostDevice:
    """Arrays in host memory, and a clock that counts calls."""

    name = "Host GPU"

    def __init__(self):
        functional = types.SimpleNamespace(gelu=None)
        for name in ("softmax", "rms_norm", "layer_norm", "cross_entropy", "scaled_dot_product_attention"):
            setattr(functional, name, lambda x, *rest, **options: x)
        self.torch = types.SimpleNamespace(
            matmul=lambda x, y: x, compile=lambda f: f, nn=types.SimpleNamespace(functional=functional))  # fmt: skip
        self.seen = []

        self.stream = 7

    def array(self, x):
        return CudaArray(x)

    def host(self, x):
        return read(x)

    def empty(self, shape, dtype):
        return CudaArray(np.zeros(shape, dtype))

    def bytes(self, held):
        return CudaArray(np.frombuffer(held, np.uint8))

    def pointer(self, x):
        return x.pointer

    def difference(self, x, y):
        return float(np.abs(read(x).astype("f") - read(y).astype("f")).max())

    def call(self, function):
        called = arrays.call(function, stream=7)
        called.plain = function
        return called

    def random(self, shape, dtype, gradient):
        return CudaArray(RNG.standard_normal(shape, dtype=np.float32).astype("float16" if dtype == "float16" else "f"))

    def backward(self, function, operands):
        plain = getattr(function, "plain", None)
        if plain is None:
            return lambda: None
        gradient = arrays.call(lambda ct, *xs: tw.vjp(plain, *xs)[1](ct), stream=7)
        return lambda: gradient(operands[0], *operands)

    def device_seconds(self, calls):
        for call in calls:
            self.seen.append(call())
        return [0.5, 1.0, 8.0][: len(calls)]

    def placed(self, x):
        return tw.device_put(read(x))

    def wait(self):
        pass


gpu = pytest.fixture(host_gpu)


CASES = [c for c in bench.cases(128) if not c.routed and not c.forms]  # the others are of the same functions


@pytest.mark.parametrize("case", CASES, ids=[c.name.split(" ")[0] + str(i) for i, c in enumerate(CASES)])
def test_a_case_runs_and_launches(gpu, case):
    """What is timed of ours are launches and nothing else of the library: every case is kernels alone."""
    device = HostDevice()
    value = bench.measured(device, case, device.call(case.function), warm=1, count=3 if case.unit != "us" else 1)
    assert value > 0 and gpu.asked("launch")
    if case.unit != "us":
        assert value == case.value(1.0)  # the median of the clock's three


def test_a_row_has_the_rivals_and_the_copy():
    case = cases._rows("r", lambda x: x, lambda torch: lambda x: x, 4, 8)
    device = HostDevice()
    device.call = lambda f: f
    device.random = lambda shape, dtype, gradient: types.SimpleNamespace(clone=lambda: None)
    row = bench.row(device, case, warm=0, count=3)
    assert list(row.values) == ["tilewright", "copy", "torch", "torch.compile"]
    assert row.values["tilewright"] == row.values["copy"] == 4 * 8 * 2 * 2 * 1e-9 and row.met
    page = bench.report("Host GPU", [row], datetime.date(2026, 1, 2))
    assert page.startswith("# Host GPU, 2026-01-02\n") and ">= 0.85 of copy | yes |" in page


def test_the_routes_of_a_case_are_measured_and_compared():
    case = bench.cases(64)[0]
    assert case.routed == cases.ROUTES and "float16" in case.name
    device = HostDevice()
    routes = []
    device.call = lambda f: lambda *xs: routes.append(tw.config.kernel_route) or len(routes)
    device.random = lambda shape, dtype, gradient: shape
    device.difference = lambda x, y: 0.0
    found = {name: run() for name, run in bench.by_route(device, case, warm=0, count=1)}
    assert list(found) == ["by mosaic_gpu", "by triton"] and set(routes) == {"mosaic_gpu", "triton"}
    device.difference = lambda x, y: np.nan
    with pytest.raises(RuntimeError, match="mosaic_gpu and triton differ by nan"):
        [run() for _, run in bench.by_route(device, case, warm=0, count=1)]


def test_the_first_cases_run_in_a_program_of_xlas():
    first = cases.cases(64)[:3]
    assert [case.in_xla for case in first] == [True] * 3
    found = dict(bench.ways(HostDevice(), first[0], warm=0, count=1))
    run = found["in XLA's program"]()
    assert run is not None and run > 0


def test_nvrtc_begins_with_the_products_where_cutlass_is_installed(monkeypatch, tmp_path):
    by_cutlass = [case for case in bench.cases(8) if case.routed == cases.CUTLASS]
    plain, activated = (next(c for c in by_cutlass if name in c.name) for name in ("float16, by", "bias, gelu, by"))
    assert [c.name for c in bench.cases(8)][-len(by_cutlass) :] == [c.name for c in by_cutlass]  # they wait the longest
    installed(monkeypatch, tmp_path)
    try:
        assert bench.routes(plain) == ["cutlass"]
        bench.begin([plain, activated], target_of("cuda:sm_90"))
        assert len(WORKERS.known) == 2
    finally:
        forget()


def test_the_most_important_is_measured_first():
    names = [case.name for case in bench.cases()]
    assert len(names) == len(set(names))
    assert names[:3] == ["matmul 8192^3 float16", "matmul 4096^3 float16", "causal attention 16384 x 16 x 128"]
    for tokens in (2048, 4096, 8192, 16384):
        for width in (64, 128):
            assert {f"causal attention{back} {tokens} x 16 x {width}" for back in ("", " backwards")} <= set(names)


def test_others_attention_is_that_of_torch_and_what_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "flash_attn", types.SimpleNamespace(
        __spec__=object(), flash_attn_func=lambda q, k, v, causal: ("flash", causal)))  # fmt: skip
    device = HostDevice()
    found = cases._attention(device.torch, causal=True)
    assert list(found) == ["torch", "cuDNN", "torch's FlashAttention", "FlashAttention 2"]
    assert found["FlashAttention 2"](1, 2, 3) == "flash"


FORMED = {case.name.split(", ")[1]: case for case in bench.cases() if case.forms}


@pytest.mark.parametrize("target, wanted", [
    ("cuda:sm_90", {"blocks": list(cases.TILES), "turns": list(cases.TURNS)}),
    # No clusters of four there, and no turns.
    ("cuda:sm_100", {"blocks": list(cases.TILES)[:-1], "turns": ["without turns"]}),
])  # fmt: skip
def test_the_forms_of_a_kernel_are_measured_where_the_machine_has_them(target, wanted):
    device, seen = HostDevice(), []
    device.call = lambda f: lambda *xs: seen.append(f)
    device.random, device.difference = lambda shape, dtype, gradient: shape, lambda x, y: 0.0
    for what, names in wanted.items():
        runs = bench.by_form(device, FORMED[what], target_of(target), warm=0, count=1)
        assert [name for name, run in runs if run() is not None] == names


def test_a_kernel_told_something_is_the_same_one():
    case, machine = FORMED["blocks"], target_of("cuda:sm_90")
    params = cases.CompilerParams(persistent=False)
    kernel = variants.only_kernel(case, machine, params)
    (plain,) = variants.found_kernels(case, machine)
    assert dict(kernel.settings)["compiler_params"] == params and kernel.body == plain.body


def test_a_sum_in_one_run_and_in_several():
    case, machine = FORMED["sum in runs"], target_of("cuda:sm_90")
    assert [k.name for k in variants.found_kernels(case, machine)][0] == "contract_split"
    device = HostDevice()
    device.call = lambda f: f
    types = [tw.ShapeDtypeStruct(shape, "float16") for shape in case.shapes]
    alone = variants.in_one_run(device, case, machine)
    (kernel,) = variants.kernels_of(tw.compile(alone, *types, target="cuda:sm_90", stop="program"))
    assert kernel.name == "contract" and kernel.out_types[0].shape == (64, 128)


def test_descriptors_of_the_host_give_the_same(gpu):
    case = cases._formed(cases._half(64), "descriptors", cases.DESCRIPTORS)
    device, seen = HostDevice(), []
    device.difference = lambda x, y: seen.append((read(x), read(y))) or 0.0
    found = {name: run() for name, run in bench.by_form(device, case, target_of("cuda:sm_90"), warm=1, count=3)}
    assert list(found) == list(cases.DESCRIPTORS) and len(seen) == 2
    for values, wanted in seen:
        np.testing.assert_allclose(values.astype("f"), wanted.astype("f"), rtol=1e-2, atol=1e-1)
    encoded = gpu.asked("encode")
    assert encoded and all(entry[2] == 6 for entry in encoded)  # float16, by CUDA's number


def test_elements_of_descriptors_by_the_drivers_numbers(gpu):
    enumeration = pytest.importorskip("cuda.bindings.driver").CUtensorMapDataType
    known = {"bfloat16": "BFLOAT16", "float16": "FLOAT16", "float32": "FLOAT32", "tf32": "TFLOAT32", "int8": "UINT8",
             "float8_e5m2": "UINT8", "int32": "INT32"}  # fmt: skip
    for element, name in known.items():
        variants.encoded(variants.Box(0, (64, 8), (2, 128), (64, 8), element, True), 0)
        assert gpu.asked("encode")[-1][2] == int(getattr(enumeration, f"CU_TENSOR_MAP_DATA_TYPE_{name}"))


@pytest.mark.targets
@pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]")
def test_what_does_not_make_descriptors_is_assembled(tmp_path):
    case, machine = cases._half(1024), target_of("cuda:sm_90")
    kernel = variants.only_kernel(case, machine, cases.CompilerParams(persistent=False, cluster=1))
    _, code = MOSAIC_GPU.ready.compiled_kernel(kernel, machine)
    ptx = variants.without_making(code.assembly)
    assert "tensormap.replace" in code.assembly and "tensormap.replace" not in ptx and "cp_fenceproxy" not in ptx
    assert "fence.proxy.tensormap" in ptx
    (tmp_path / "kernel.ptx").write_text(ptx)
    assembler = Path(find_spec("triton").submodule_search_locations[0]) / "backends/nvidia/bin/ptxas"
    subprocess.run([assembler, "-arch=sm_90a", "-o", tmp_path / "kernel.cubin", tmp_path / "kernel.ptx"], check=True)


@pytest.mark.parametrize("number", [0, 2, 6])
def test_facts_are_asked_of_the_gpu(gpu, number):
    fact = emulator_conformance.FACTS[number]
    assert bench.answered(HostDevice(), fact) == {"differs": ""}


def test_what_differs_of_a_fact_is_told(gpu):
    fact, device = emulator_conformance.FACTS[2], HostDevice()
    device.host = lambda x: read(x) + (np.arange(128) == 5)
    assert "128 of 16384 numbers differ, the first at (0, 5)" in bench.answered(device, fact)["differs"]
    (told,) = [f for f in emulator_conformance.FACTS if isinstance(f, emulator_conformance.Bytes)]
    assert "of 3 descriptors differ" in bench.answered(HostDevice(), told)["differs"]  # the walker writes none
    page = bench.report("Host GPU", [bench.Seen(fact, ""), bench.Failure(told, ValueError("a | b"))],
                        datetime.date(2026, 1, 2))  # fmt: skip
    assert f"| {fact.name} | as expected |" in page and f"| {told.name} | failed: ValueError: a / b |" in page


def test_no_case_begins_that_may_end_too_late():
    chosen, now, seconds = bench.cases(64)[:5], [0.0], iter([100, 30, 40, 5])

    def measure(case):
        now[0] += next(seconds)
        return bench.Row(case, {"tilewright": 1.0, "cuBLAS": 1.0})

    *rows, fourth, fifth = bench.within(260, chosen, measure, lambda: now[0])
    assert [r.case for r in rows] == chosen[:3] and [fourth, fifth] == [c.name for c in chosen[3:]]
    page = bench.report("Host GPU", rows, datetime.date(2026, 1, 2), [fourth, fifth])
    assert f"No time was left for: {fourth}, {fifth}." in page


def test_a_run_that_is_stopped_leaves_what_it_has(tmp_path, capsys):
    chosen, path = bench.cases(64)[:4], tmp_path / "results" / "gpu.md"
    outcomes = iter([1.0, ValueError("values differ | by 2\nand more"), 2.0, KeyboardInterrupt()])

    def measure(case):
        found = next(outcomes)
        if isinstance(found, BaseException):
            raise found
        return bench.Row(case, {"tilewright": found, "cuBLAS": 1.0})

    with pytest.raises(KeyboardInterrupt):
        bench.record("Host GPU", bench.within(480, chosen, measure), path)
    page = path.read_text()
    assert [case.name in page for case in chosen] == [True, True, True, False]
    assert f"| {chosen[1].name} | failed | ValueError: values differ / by 2 |" in page
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_way_that_fails_is_told_beside_the_others():
    case = bench.cases(64)[0]
    case = replace(case, routed=(), rivals=lambda torch: {"cuBLAS": lambda x, y: 1 / 0, "other": lambda x, y: x})
    device = HostDevice()
    device.call = lambda f: f
    device.random = lambda shape, dtype, gradient: np.zeros(shape, np.float32)
    answer = bench.answered(device, case)
    assert answer["failed"]["cuBLAS"] == "ZeroDivisionError: division by zero" and "lost" not in answer
    row = bench.Row(case, answer["values"], answer["failed"])
    assert "cuBLAS failed: ZeroDivisionError: division by zero" in row.cells()[2] and not row.met


def test_a_case_that_fails_or_loses_the_gpu_is_an_error():
    case, device = bench.cases(64)[0], HostDevice()
    device.call = lambda f: lambda *xs: 1 / 0
    assert bench.answered(device, case) == {"error": "ZeroDivisionError: division by zero"}
    device.wait = lambda: [][0]
    assert bench.answered(device, case) == {"error": "ZeroDivisionError: division by zero", "lost": True}


SERVES = """
import os, sys, time
from isolation import serve
ways = {"add": lambda: {"values": 3}, "hang": lambda: time.sleep(99), "end": lambda: os._exit(7),
        "lose": lambda: {"error": "gone", "lost": True}}
serve(lambda: ({"name": os.getpid()}, lambda question: print("noise") or ways[question]()))
"""


def test_a_case_that_hangs_or_ends_its_process_is_one_that_fails(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(bench.__file__).parent))
    process = Apart([sys.executable, "-c", SERVES])
    first = process.start()["name"]
    assert process.ask("add") == {"values": 3}
    with pytest.raises(RuntimeError, match="ended with 7"):
        process.ask("end")
    assert process.ask("lose") == {"error": "gone", "lost": True} and process.process is None
    assert process.start()["name"] != first
    process.seconds = 0.5
    with pytest.raises(RuntimeError, match="no answer in 0 s|no answer in 1 s"):
        process.ask("hang")
    process.seconds = 60.0
    assert process.ask("add") == {"values": 3}
    process.end()


def test_a_launch_is_better_when_shorter():
    (case,) = [case for case in bench.cases() if case.unit == "us"]
    assert bench.Row(case, {"tilewright": 5.0}).met and not bench.Row(case, {"tilewright": 7.0}).met
    assert case.value(3e-6) == pytest.approx(3)


def test_operands_take_turns():
    device = HostDevice()
    made = []
    device.random = lambda shape, dtype, gradient: made.append(shape) or len(made)
    case = bench.cases(64)[0]
    calls = bench.turns(device, case, lambda *xs: xs, 4)
    assert [c() for c in calls] == [(1, 2), (3, 4), (5, 6), (7, 8)]


def test_without_a_gpu_it_says_so(capsys):
    try:
        driver.driver().capability(0)
    except tw.errors.TilewrightError:
        with pytest.raises(SystemExit, match="(DriverError|VersionError): .*"):
            bench.main([])
    else:
        pytest.skip("there is a GPU")
