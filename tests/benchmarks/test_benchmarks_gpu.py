"""The benchmarks on a GPU, small, on a driver that walks kernels on host memory; and what is made of the numbers."""

import datetime
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from benchmarks import gpu as bench
from benchmarks.apart import Apart
from tests.support.host_gpu import CudaArray, host_gpu
from tests.support.nvrtc_stand_in import forget, installed
from tilewright.cutlass_backend.compiler import workers
from tilewright.interop import arrays, driver
from tilewright.lang.target import target_of

RNG = np.random.default_rng(0)


class HostDevice:
    """Arrays in host memory, and a clock that counts calls."""

    name = "Host GPU"

    def __init__(self):
        functional = types.SimpleNamespace()
        for name in ("softmax", "rms_norm", "layer_norm", "cross_entropy", "scaled_dot_product_attention"):
            setattr(functional, name, lambda x, *rest, **options: x)
        self.torch = types.SimpleNamespace(
            matmul=lambda x, y: x, compile=lambda f: f, nn=types.SimpleNamespace(functional=functional))  # fmt: skip
        self.seen = []

    def call(self, function):
        called = arrays.call(function, stream=7)
        called.plain = function
        return called

    def random(self, shape, dtype, gradient):
        return CudaArray(RNG.standard_normal(shape, dtype=np.float32))

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

    def wait(self):
        pass


gpu = pytest.fixture(host_gpu)


CASES = [c for c in bench.cases(128) if not c.routed]  # the others are of the same functions


@pytest.mark.parametrize("case", CASES, ids=[c.name.split(" ")[0] + str(i) for i, c in enumerate(CASES)])
def test_a_case_runs_and_launches(gpu, case):
    """What is timed of ours are launches and nothing else of the library: every case is kernels alone."""
    device = HostDevice()
    value = bench.measured(device, case, device.call(case.function), warm=1, count=3 if case.unit != "us" else 1)
    assert value > 0 and gpu.asked("launch")
    if case.unit != "us":
        assert value == case.value(1.0)  # the median of the clock's three


def test_a_row_has_the_rivals_and_the_copy():
    case = bench._rows("r", lambda x: x, lambda torch: lambda x: x, 4, 8)
    device = HostDevice()
    device.call = lambda f: f
    device.random = lambda shape, dtype, gradient: types.SimpleNamespace(clone=lambda: None)
    row = bench.row(device, case, warm=0, count=3)
    assert list(row.values) == ["tilewright", "copy", "torch", "torch.compile"]
    assert row.values["tilewright"] == row.values["copy"] == 4 * 8 * 2 * 2 * 1e-9 and row.met
    page = bench.report("Host GPU", [row], datetime.date(2026, 1, 2))
    assert page.startswith("# Host GPU, 2026-01-02\n") and ">= 0.85 of copy | yes |" in page


def test_the_routes_of_a_case_are_measured_and_compared():
    case = bench.cases(64)[1]
    assert case.routed == bench.PRODUCT_ROUTES and "float16" in case.name
    device = HostDevice()
    routes = []
    device.call = lambda f: lambda *xs: routes.append(tw.config.kernel_route) or len(routes)
    device.random = lambda shape, dtype, gradient: shape
    device.difference = lambda x, y: 0.0
    found = {name: run() for name, run in bench.by_route(device, case, warm=0, count=1)}
    assert list(found) == [f"by {route}" for route in bench.routes(case)]
    assert set(routes) == set(bench.routes(case)) >= {"mosaic_gpu", "triton"}
    device.difference = lambda x, y: np.nan
    with pytest.raises(RuntimeError, match="mosaic_gpu and triton differ by nan"):
        [run() for _, run in bench.by_route(device, case, warm=0, count=1)]


def test_nvrtc_begins_with_the_products_where_cutlass_is_installed(monkeypatch, tmp_path):
    plain = bench.cases(8)[1]
    (activated,) = [case for case in bench.cases(8) if "bias, gelu" in case.name]
    installed(monkeypatch, tmp_path)
    try:
        assert bench.routes(plain) == list(bench.PRODUCT_ROUTES)
        bench.begin([plain, activated, bench.cases(8)[0]], target_of("cuda:sm_90"))
        assert len(workers().known) == 2
    finally:
        forget()


@pytest.mark.parametrize("target, wanted", [
    ("cuda:sm_90", [list(bench.TILES), list(bench.TURNS)]),
    ("cuda:sm_100", [list(bench.TILES)[:-1], ["without turns"]]),  # no clusters of four there, and no turns
])  # fmt: skip
def test_the_forms_of_a_kernel_are_measured_where_the_machine_has_them(target, wanted):
    cases = [case for case in bench.cases() if case.forms]
    device, seen = HostDevice(), []
    device.call = lambda f: lambda *xs: seen.append(f)
    device.random = lambda shape, dtype, gradient: shape
    for case, names in zip((cases[0], cases[-1]), wanted):
        found = {name: run() for name, run in bench.by_form(device, case, target_of(target), warm=0, count=1)}
        assert list(found) == names
    types = [tw.ShapeDtypeStruct(shape, cases[0].dtype) for shape in cases[0].shapes]
    made = {str(tw.compile(f, *types, target=target, stop="program")) for f in seen[: len(wanted[0])]}
    assert len(made) == 1  # one kernel, which is compiled in several ways
    (kernel,) = bench.kernels_of(tw.compile(seen[0], *types, target=target, stop="program"))
    assert dict(kernel.settings)["compiler_params"] == bench.TILES["one tile a block"]


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
    case = replace(bench.cases(64)[0], rivals=lambda torch: {"cuBLAS": lambda x, y: 1 / 0, "other": lambda x, y: x})
    device = HostDevice()
    device.call = lambda f: f
    device.random = lambda shape, dtype, gradient: np.zeros(shape, np.float32)
    answer = bench.answered(device, case)
    assert answer["failed"] == {"cuBLAS": "ZeroDivisionError: division by zero"} and "lost" not in answer
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
from apart import serve
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
    case = bench.cases()[-1]
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
