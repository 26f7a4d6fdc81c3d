"""Kernels on a GPU against torch's on the same machine: speed, and the time that a launch takes of the host.

    python -m benchmarks.gpu [--only matmul] [--seconds 480]

Operands are random normal; each call takes the next of several sets of them, more than the cache holds; a number is the
median over calls, timed on the device. Results go to `benchmarks/results/gpu_<name>.md`, with the machine and the date,
after each case, so that a run that is stopped leaves those that it has. What fails is told with its error: a case, or
one of the ways in which it is measured. Cases are measured in a process of their own (`apart`), which one of them may
hang or end. No case begins that might end after the seconds that are given, and those that are left out are named.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.util
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tilewright import ShapeDtypeStruct, compile, config, cutlass_backend, lax
from tilewright import numpy as tnp
from tilewright.core.types import ArrayType
from tilewright.errors import DriverError, TilewrightError, UnsupportedError, VersionError
from tilewright.interop import torch as interop
from tilewright.interop.driver import driver
from tilewright.interop.launch import machine_of
from tilewright.lang.kernel import Kernel
from tilewright.lang.mosaic_gpu import CompilerParams
from tilewright.lang.primitive import kernel_call_p
from tilewright.lang.target import Target
from tilewright.lang.visit import kernels_of
from tilewright.nn import fused, gelu
from tilewright.routes import CUTLASS, MOSAIC_GPU

from .apart import Apart, serve

RESULTS = Path(__file__).resolve().parent / "results"
COLD_BYTES = 2**28  # of operands before any comes again: several times the cache of a GPU
WARM, CALLS = 10, 50
ROUTES, AGREE = ("mosaic_gpu", "triton"), 0.01
PRODUCT_ROUTES = (*ROUTES, "cutlass")
UNITS = {"TFLOP/s": 1e-12, "GB/s": 1e-9}
SECONDS = 480.0  # for all cases
SIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "int8": 1}  # bytes of an element
# What Mosaic GPU is told of one kernel, by the name that the value has: blocks that make many tiles of results, in
# clusters (two on Blackwell multiply together); warpgroups that take turns. What a GPU does not have is left out.
TILES = {
    "one tile a block": CompilerParams(persistent=False, cluster=1),
    "pairs": CompilerParams(persistent=False, cluster=2),
    "many tiles": CompilerParams(persistent=True, cluster=1),
    "many tiles, pairs": CompilerParams(persistent=True, cluster=2),
    "many tiles, fours": CompilerParams(persistent=True, cluster=4),
}
TURNS = {"in turns": CompilerParams(ping_pong=True), "without turns": CompilerParams(ping_pong=False)}


@dataclass(frozen=True)
class Case:
    """What is measured: `amount` operations or bytes a call, `wanted` of `against` (a rival's name, or "" for units).

    `function` is of tilewright; `rivals` maps names to functions of torch, made by a function of the module.
    """

    name: str
    unit: str  # TFLOP/s, GB/s or us (of the host, a call)
    amount: float
    shapes: tuple[tuple[int, ...], ...]
    function: Callable[..., Any]
    rivals: Callable[[Any], dict[str, Callable[..., Any]]]
    wanted: float
    against: str = ""
    dtype: str = "bfloat16"
    gradient: bool = False  # the time of the backward pass alone
    routed: tuple[str, ...] = ()  # the routes of kernels that it is measured by too, whose values are compared
    forms: tuple[tuple[str, CompilerParams], ...] = ()  # of its one kernel, that it is measured in too

    def value(self, seconds: float) -> float:
        return seconds * 1e6 if self.unit == "us" else self.amount / seconds * UNITS[self.unit]


@dataclass(frozen=True)
class Row:
    """What was measured of a case: its unit's values by name, tilewright's own first, and the errors of what failed."""

    case: Case
    values: dict[str, float]
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def aim(self) -> float:
        return self.case.wanted * (self.values[self.case.against] if self.case.against else 1.0)

    @property
    def met(self) -> bool:
        ours = self.values["tilewright"]
        if self.case.against in self.failed:
            return False
        return ours <= self.aim if self.case.unit == "us" else ours >= self.aim

    def cells(self) -> list[str]:
        of = f"{self.case.wanted:g} of {self.case.against}" if self.case.against else f"{self.case.wanted:g}"
        found = [f"{name} {value:.4g}" for name, value in self.values.items() if name != "tilewright"]
        others = ", ".join([*found, *(f"{name} failed: {why}" for name, why in self.failed.items())])
        sign = "<=" if self.case.unit == "us" else ">="
        return [self.case.name, f"{self.values['tilewright']:.4g} {self.case.unit}", others, f"{sign} {of}",
                "yes" if self.met else "no"]  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """A case that ended in an error."""

    case: Case
    error: Exception

    def cells(self) -> list[str]:
        return [self.case.name, "failed", said(self.error), "", "no"]


def said(error: Exception) -> str:
    """An error in a cell."""
    return f"{type(error).__name__}: {error}".splitlines()[0].replace("|", "/")


def _copy(torch: Any, *inputs: int) -> dict[str, Callable[..., Any]]:
    """The copy that bandwidth is measured against: of one array, which is read and written."""
    return {"copy": lambda x, *rest: x.clone()}


def _attention(torch: Any) -> dict[str, Callable[..., Any]]:
    scaled = torch.nn.functional.scaled_dot_product_attention
    return {"torch": lambda q, k, v: scaled(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)}


def _causal(q: Any, k: Any, v: Any) -> Any:
    return fused.dot_product_attention(q, k, v, is_causal=True)


def _attention_causal(torch: Any) -> dict[str, Callable[..., Any]]:
    scaled = torch.nn.functional.scaled_dot_product_attention
    return {"torch": lambda *qkv: scaled(*(x.transpose(1, 2) for x in qkv), is_causal=True).transpose(1, 2)}


def _tf32(torch: Any) -> dict[str, Callable[..., Any]]:
    """The product by cuBLAS, which is told to round its operands to TF32 as well."""
    torch.backends.cuda.matmul.allow_tf32 = True
    return {"cuBLAS": lambda x, y: torch.matmul(x, y.T)}


def _float8(torch: Any) -> dict[str, Callable[..., Any]]:
    one = torch.ones((), device="cuda")
    scaled = torch._scaled_mm
    return {"cuBLAS": lambda x, y: scaled(x, y.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)}


def _turned(kind: str, scale: float) -> Callable[..., Any]:
    """A product summed along both operands' rows in a dtype, and scaled."""
    dimensions = (((1,), (1,)), ((), ()))

    def product(x: Any, y: Any) -> Any:
        made = lax.dot_general(x, y, dimensions, preferred_element_type=kind)
        return (made.astype("float32") * scale).astype("bfloat16")

    return product


def _rows(name: str, function: Callable[..., Any], rival: Callable[[Any], Callable[..., Any]], m: int, n: int,
          vectors: int = 0, written: bool = True) -> Case:  # fmt: skip
    def rivals(torch: Any) -> dict[str, Callable[..., Any]]:
        return {**_copy(torch), "torch": rival(torch), "torch.compile": torch.compile(rival(torch))}

    amount = 2 * m * n * (2 if written else 1)
    return Case(f"{name} {m} x {n}", "GB/s", amount, ((m, n), *[(n,)] * vectors), function, rivals, 0.85, "copy")


def _bias_gelu(x: Any, y: Any, b: Any) -> Any:
    return gelu(tnp.matmul(x, y, preferred_element_type="float32") + b.astype("float32")).astype(x.dtype)


def _cross_entropy(logits: Any) -> Any:
    return fused.cross_entropy(logits, tnp.zeros(logits.shape[:1], "int32"))


def _adamw(*arrays: Any) -> Any:
    """A step over a tree; parameters, gradients and both moments, in this order."""
    n = len(arrays) // 4
    p, g, m, v = (list(arrays[i * n : (i + 1) * n]) for i in range(4))
    new, state = fused.adamw(p, g, {"count": tnp.zeros((), "int32"), "m": m, "v": v}, learning_rate=1e-3)
    return *new, *state["m"], *state["v"]


def cases(scale: int = 1) -> list[Case]:
    """The cases; sizes are divided by `scale`.

    >>> [case.unit for case in cases(64)][:2]
    ['TFLOP/s', 'TFLOP/s']
    """
    n = width = 8192 // scale
    half = n // 2
    tokens, heads, h, m = 16384 // scale, max(16 // scale, 1), 128 // min(scale, 8), 16384 // scale
    qkv = ((1, tokens, heads, h),) * 3
    products = 4 * heads * tokens * tokens * h
    lengths = sorted({max(t // scale, 1) for t in (2048, 4096, 8192, 16384)})
    widths, odd = sorted({d // min(scale, 8) for d in (64, 128)}), 80 // min(scale, 8)
    size, shape, attention = 2**28 // scale**2, f"{tokens} x {heads} x {h}", fused.dot_product_attention
    leaves = [(size // 2,), (size // 4 + 1,), (size // 4 - 1,)]

    def functional(torch: Any) -> Any:
        return torch.nn.functional

    return [
        Case(f"matmul {n}^3", "TFLOP/s", 2 * n**3, ((n, n), (n, n)), lambda x, y: x @ y,
             lambda torch: {"cuBLAS": torch.matmul}, 0.85, "cuBLAS"),
        *(Case(f"matmul {m}^3 float16", "TFLOP/s", 2 * m**3, ((m, m), (m, m)), lambda x, y: x @ y,
               lambda torch: {"cuBLAS": torch.matmul}, 0.95, "cuBLAS", "float16", routed=PRODUCT_ROUTES,
               forms=tuple(TILES.items()) if m == n else ()) for m in (half, n)),
        Case(f"matmul {n}^3 float8", "TFLOP/s", 2 * n**3, ((n, n), (n, n)), _turned("float32", 1.0), _float8, 0.9,
             "cuBLAS", "float8_e4m3fn", routed=PRODUCT_ROUTES),
        Case(f"matmul {n}^3 int8", "TFLOP/s", 2 * n**3, ((n, n), (n, n)), _turned("int32", 1e-3),
             lambda torch: {"cuBLAS": lambda x, y: torch._int_mm(x, y.T)}, 0.9, "cuBLAS", "int8",
             routed=PRODUCT_ROUTES),
        Case(f"matmul {half}^3 float16, bias, gelu", "TFLOP/s", 2 * half**3, ((half, half), (half, half), (half,)),
             _bias_gelu, lambda torch: {"torch": lambda x, y, b: functional(torch).gelu(
                 torch.addmm(b, x, y), approximate="tanh")}, 0.95, "torch", "float16", routed=PRODUCT_ROUTES),
        *(Case(f"causal attention {t} x {heads} x {d}", "TFLOP/s", 2 * heads * t * t * d, ((1, t, heads, d),) * 3,
               _causal, _attention_causal, 640 if not gradient else 500, dtype="float16", gradient=gradient,
               routed=ROUTES, forms=() if gradient or t < lengths[-1] else tuple(TURNS.items()))
          for d in widths for t in lengths for gradient in (False, True)),
        Case(f"causal attention {lengths[-1]} x {heads} x {odd}", "TFLOP/s", 2 * heads * lengths[-1] ** 2 * odd,
             ((1, lengths[-1], heads, odd),) * 3, _causal, _attention_causal, 0.9, "torch", "float16", routed=ROUTES),
        Case(f"matmul {half}^3 float32, in TF32", "TFLOP/s", 2 * half**3, ((half, half), (half, half)),
             lambda x, y: x @ y.T, _tf32, 0.85, "cuBLAS", "float32", routed=ROUTES),
        Case(f"attention {shape}", "TFLOP/s", products, qkv, attention, _attention, 415),
        Case(f"attention backwards {shape}", "TFLOP/s", 2.5 * products, qkv, attention, _attention, 330, gradient=True),
        _rows("softmax", fused.softmax, lambda torch: lambda x: functional(torch).softmax(x, -1), m, width),
        _rows("RMS norm", fused.rms_norm,
              lambda torch: lambda x, s: functional(torch).rms_norm(x, s.shape, s), m, width, 1),
        _rows("layer norm", fused.layer_norm,
              lambda torch: lambda x, s, b: functional(torch).layer_norm(x, s.shape, s, b), m, width, 2),
        _rows("cross entropy", _cross_entropy, lambda torch: lambda x: functional(torch).cross_entropy(
            x, torch.zeros(len(x), dtype=torch.int64, device=x.device), reduction="none"), m, width, written=False),
        Case(f"AdamW {size} float32", "GB/s", 7 * 4 * size, (*leaves * 4,), _adamw, _copy, 0.85, "copy", "float32"),
        Case("a launch", "us", 1, ((1024,),), lambda x: x + 1, lambda torch: {"torch": lambda x: x + 1}, 6),
    ]  # fmt: skip


class Torch:
    """Torch's arrays and clock on the first GPU.

    Raises:
      VersionError: torch is not installed. DriverError: there is no GPU.
    """

    def __init__(self) -> None:
        driver().capability(0)
        if importlib.util.find_spec("torch") is None:
            raise VersionError("the benchmarks on a GPU measure against torch, which is not installed",
                               "pip install torch")  # fmt: skip
        self.torch: Any = importlib.import_module("torch")
        if not self.torch.cuda.is_available():
            raise DriverError("there is no GPU here that torch can use", "run it on a machine with a GPU")
        self.call = interop.call

    @property
    def name(self) -> str:
        return self.torch.cuda.get_device_name(0)

    def random(self, shape: tuple[int, ...], dtype: str, gradient: bool) -> Any:
        if SIZES[dtype] == 1:  # of which torch draws integers alone
            drawn = self.torch.randint(-8, 8, shape, dtype=self.torch.int8, device="cuda")
            return drawn.to(getattr(self.torch, dtype))
        return self.torch.randn(shape, dtype=getattr(self.torch, dtype), device="cuda", requires_grad=gradient)

    def backward(self, function: Callable[..., Any], operands: Sequence[Any]) -> Callable[[], Any]:
        """The backward pass of one call, which is made here."""
        out = function(*operands)
        ct = self.torch.randn_like(out)
        return lambda: self.torch.autograd.grad(out, operands, ct, retain_graph=True)

    def device_seconds(self, calls: Sequence[Callable[[], Any]]) -> list[float]:
        """The time of each call on the device."""
        event = self.torch.cuda.Event
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in calls]
        for call, (start, end) in zip(calls, pairs, strict=True):
            start.record()
            call()
            end.record()
        self.torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e-3 for start, end in pairs]

    def wait(self) -> None:
        self.torch.cuda.synchronize()

    def difference(self, x: Any, y: Any) -> float:
        """The largest difference of two results, relative to the largest number."""
        x, y = x.float(), y.float()
        return float((x - y).abs().max() / y.abs().max())


def turns(device: Any, case: Case, function: Callable[..., Any], count: int) -> list[Callable[[], Any]]:
    """Calls, each on the next set of operands."""
    size = sum(math.prod(s) for s in case.shapes) * SIZES[case.dtype]
    sets = [[device.random(s, case.dtype, case.gradient) for s in case.shapes]
            for _ in range(min(max(COLD_BYTES // size, 2), count))]  # fmt: skip
    made: list[Callable[[], Any]] = []
    for operands in sets:
        made.append(device.backward(function, operands) if case.gradient else lambda given=operands: function(*given))
    return [made[i % len(made)] for i in range(count)]


def measured(device: Any, case: Case, function: Callable[..., Any], warm: int = WARM, count: int = CALLS) -> float:
    """The unit's value of a function: of the median call on the device, or of the host's time for a call."""
    calls = turns(device, case, function, count)
    for call in calls[:warm]:
        call()
    device.wait()
    if case.unit != "us":
        return case.value(statistics.median(device.device_seconds(calls)))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for call in calls:
            call()
        times.append((time.perf_counter() - start) / len(calls))
        device.wait()
    return case.value(statistics.median(times))


def row(device: Any, case: Case, **counts: int) -> Row:
    """A case measured for tilewright and its rivals; an error of tilewright's own is raised, others are told."""
    row = Row(case, {"tilewright": measured(device, case, device.call(case.function), **counts)})
    for name, measure in ways(device, case, **counts):
        try:
            row.values[name] = measure()
        except Exception as error:  # the other ways may be measured
            row.failed[name] = said(error)
    return row


def ways(device: Any, case: Case, **counts: int) -> Iterator[tuple[str, Callable[[], float]]]:
    """What a case is measured by besides itself, by name: routes, forms of its kernel, rivals."""
    yield from by_route(device, case, **counts) if case.routed else ()
    yield from by_form(device, case, machine_of(0), **counts) if case.forms else ()
    for name, rival in case.rivals(device.torch).items():
        one = Case("copy", "GB/s", 2 * SIZES[case.dtype] * math.prod(case.shapes[0]), case.shapes[:1], case.function,
                   case.rivals, 0, dtype=case.dtype)  # fmt: skip
        yield name, partial(measured, device, one if name == "copy" else case, rival, **counts)


def by_route(device: Any, case: Case, **counts: int) -> Iterator[tuple[str, Callable[[], float]]]:
    """A case by each route of its kernels, whose values are compared with those of the first that gives some."""
    operands, first = [device.random(s, case.dtype, False) for s in case.shapes], list[tuple[str, Any]]()

    def run(route: str) -> float:
        with config(kernel_route=route):
            function = device.call(case.function)
            found = function(*operands)
            name, wanted = (*first, (route, found))[0]
            apart = 0.0 if not first else device.difference(found, wanted)
            if not apart <= AGREE:
                raise RuntimeError(f"{name} and {route} differ by {apart:.2g}, which is more than {AGREE}")
            first.append((route, found))
            return measured(device, case, function, **counts)

    for route in routes(case):
        yield f"by {route}", partial(run, route)


def told(case: Case, machine: Target, params: CompilerParams) -> Callable[..., Any]:
    """A case's one kernel, which takes its operands as they are, told something of its compilation.

    Raises:
      UnsupportedError: the kernel has no such form on the machine.
    """
    types = [ShapeDtypeStruct(shape, case.dtype) for shape in case.shapes]
    (kernel,) = found_kernels(case, machine)
    assert tuple(kernel.in_types) == tuple(ArrayType(t.shape, t.dtype) for t in types)
    changed = replace(kernel, settings=tuple({**dict(kernel.settings), "compiler_params": params}.items()))
    MOSAIC_GPU.module(changed, machine)
    return lambda *xs: kernel_call_p.bind(*xs, kernel=changed)[0]


def found_kernels(case: Case, machine: Target) -> list[Kernel]:
    """The kernels that a case's function becomes."""
    types = [ShapeDtypeStruct(shape, case.dtype) for shape in case.shapes]
    found = compile(case.function, *types, target=machine.name, stop="fuse")
    return list(kernels_of(getattr(found, "program", found)))


def by_form(
    device: Any, case: Case, machine: Target, **counts: int
) -> Iterator[tuple[str, Callable[[], float]]]:  # fmt: skip
    """A case in the forms of its kernel that the machine has."""
    for name, params in case.forms:
        try:
            function = told(case, machine, params)
        except UnsupportedError:
            continue
        yield name, partial(measured, device, case, device.call(function), **counts)


def routes(case: Case) -> list[str]:
    """The routes of a case that can be measured here."""
    try:
        cutlass_backend.check_installed()
    except VersionError:
        return [route for route in case.routed if route != "cutlass"]
    return list(case.routed)


def begin(chosen: Sequence[Case], machine: Target) -> None:
    """Have NVRTC begin with CUTLASS's products, which take it a minute each, while other cases are measured."""
    for case in chosen:
        if "cutlass" in routes(case):
            try:
                CUTLASS.ready.start(found_kernels(case, machine), machine)
            except TilewrightError as error:  # which its row will tell too
                print(f"{case.name}: {said(error)}", file=sys.stderr)


def within(
    seconds: float, chosen: Sequence[Case], measure: Callable[[Case], Row], clock: Callable[[], float] = time.monotonic
) -> Iterator[Row | Failure | str]:  # fmt: skip
    """The rows of cases, and at last the names of those for which, as long as one has taken, no time is left."""
    begun, longest = clock(), 0.0
    for n, case in enumerate(chosen):
        start = clock()
        if start - begun + longest > seconds:
            yield from (left.name for left in chosen[n:])
            return
        try:
            found: Row | Failure = measure(case)
        except Exception as error:  # those that follow may be measured, with the memory that its calls hold
            found = Failure(case, error.with_traceback(None))
        yield found
        longest = max(longest, clock() - start)


HEADINGS = ("case", "tilewright", "others", "wanted", "met")


def report(name: str, rows: Sequence[Row | Failure], date: datetime.date, left: Sequence[str] = ()) -> str:
    """The page of results, and what there was no time for."""
    lines = [f"# {name}, {date.isoformat()}", "", "Made by `make bench-gpu`; medians, on operands that are not in the "
             "cache.", "", f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}"]  # fmt: skip
    lines += [f"| {' | '.join(r.cells())} |" for r in rows]
    return "\n".join([*lines, *(["", f"No time was left for: {', '.join(left)}."] if left else [])]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that all cases may take")
    parser.add_argument("--serve", action="store_true", help="measure the cases that standard input names")
    given = parser.parse_args(arguments)
    chosen = [case for case in cases() if given.only in case.name]
    if given.serve:
        serve(lambda: prepared(chosen))
        return
    process = Apart([sys.executable, "-m", "benchmarks.gpu", "--serve", "--only", given.only])
    try:
        started = process.start()
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    if "error" in started:
        raise SystemExit(started["error"])
    chosen.sort(key=lambda case: "cutlass" in case.routed)  # those that wait for NVRTC last
    name = started["name"]
    path = None if given.only else RESULTS / f"gpu_{name.lower().replace(' ', '_')}.md"
    record(name, within(given.seconds, chosen, partial(measured_apart, process)), path)
    process.end()


def measured_apart(process: Apart, case: Case) -> Row:
    """A case measured by another process.

    Raises:
      RuntimeError: it failed there, or the process ended.
    """
    found = process.ask(case.name)
    if "error" in found:
        raise RuntimeError(found["error"])
    return Row(case, found["values"], found["failed"])


def prepared(chosen: Sequence[Case]) -> tuple[dict[str, Any], Callable[[str], dict[str, Any]]]:
    """The GPU's name, or why there is none; and what measures the case of a name."""
    try:
        device = Torch()
    except (DriverError, VersionError) as error:
        return {"error": f"{type(error).__name__}: {error}", "lost": True}, lambda name: {}
    known = {case.name: case for case in chosen}
    begin(chosen, machine_of(0))
    return {"name": device.name}, lambda name: answered(device, known[name])


def answered(device: Any, case: Case) -> dict[str, Any]:
    """What was measured of a case, or its error; `lost`: the GPU can no longer be used by this process."""
    try:
        made = row(device, case)
        found: dict[str, Any] = {"values": made.values, "failed": made.failed}
    except Exception as error:  # the next case may be measured
        found = {"error": said(error)}
    try:
        device.wait()
    except Exception as error:
        return {"error": said(error)} | found | {"lost": True}
    return found


def record(name: str, found: Iterable[Row | Failure | str], path: Path | None) -> None:
    """Print each row as it comes, and keep all that there are in a file."""
    rows, left = list[Row | Failure](), list[str]()
    for one in found:
        if isinstance(one, str):
            left.append(one)
        else:
            rows.append(one)
        print(f"no time for {one}" if isinstance(one, str) else " | ".join(one.cells()), flush=True)
        if path is not None:
            path.parent.mkdir(exist_ok=True)
            path.write_text(report(name, rows, datetime.date.today(), left))


if __name__ == "__main__":
    main()
