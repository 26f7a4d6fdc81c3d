"""Kernels on a GPU against torch's on the same machine: speed, and the time that a launch takes of the host.

    python -m benchmarks.gpu [--only matmul] [--seconds 480]

First the GPU is asked for what the emulator takes for granted (`gpu_facts`), then cases are measured, the most
important first (`gpu_cases`), by each route and in several forms (`gpu_forms`), against cuBLAS, torch, and
FlashAttention where it is installed.

Operands are random normal; each call takes the next of several sets of them, more than the cache holds; a number is the
median over calls, timed on the device, on whose stream the host has put all of them before the first begins. Results go
to `benchmarks/results/gpu_<name>.md`, with the machine and the date, after each case, so that a run that is stopped
leaves those that it has. What fails is told with its error: a case, or one of the ways in which it is measured. Cases
are measured in a process of their own (`apart`), which one of them may hang or end. No case begins that might end after
the seconds that are given, and those that are left out are named.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.util
import math
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import config, cutlass_backend, device_put, devices, jit
from tilewright.compiler.backend_selection import ROUTES as ROUTES_OF
from tilewright.errors import DriverError, TilewrightError, VersionError
from tilewright.interop import torch as interop
from tilewright.interop.driver import driver
from tilewright.interop.launch import machine_of
from tilewright.lang.targets.target import Target

from .cases import CUTLASS, Case, cases
from .emulator_conformance import FACTS, Bytes, Fact
from .isolation import Apart, serve
from .variants import Form, found_kernels, of_form

RESULTS = Path(__file__).resolve().parents[1] / "results"
COLD_BYTES = 2**28  # of operands before any comes again: several times the cache of a GPU
WARM, CALLS = 10, 50
AGREE = 0.01  # what values by two routes may differ by, of the largest
SECONDS = 480.0  # for all cases
AHEAD = 40_000_000  # cycles of the GPU in which the host puts calls on the stream
SIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "int8": 1}  # bytes of an element


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
        of = f"{self.case.wanted:g}" + (f" of {self.case.against}" if self.case.against else "")
        found = [f"{name} {value:.4g}" for name, value in self.values.items() if name != "tilewright"]
        others = ", ".join([*found, *(f"{name} failed: {why}" for name, why in self.failed.items())])
        sign = "<=" if self.case.unit == "us" else ">="
        wanted = [f"{sign} {of}", "yes" if self.met else "no"] if self.case.wanted else ["", ""]
        return [self.case.name, f"{self.values['tilewright']:.4g} {self.case.unit}", others, *wanted]


@dataclass(frozen=True)
class Seen:
    """What a GPU answered to a fact: what differs, or nothing."""

    case: Fact | Bytes
    differs: str

    def cells(self) -> list[str]:
        return [self.case.name, self.differs.replace("|", "/") or "as expected"]


@dataclass(frozen=True)
class Failure:
    """A case that ended in an error."""

    case: Case | Fact | Bytes
    error: Exception

    def cells(self) -> list[str]:
        told = [self.case.name, "failed", said(self.error), "", "no"]
        return told if isinstance(self.case, Case) else [self.case.name, f"failed: {said(self.error)}"]


def said(error: Exception) -> str:
    """An error in a cell."""
    return f"{type(error).__name__}: {error}".splitlines()[0].replace("|", "/")


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
        self.call, self.library = interop.call, interop.TorchLibrary()

    @property
    def name(self) -> str:
        return self.torch.cuda.get_device_name(0)

    @property
    def stream(self) -> int:
        return self.torch.cuda.current_stream().cuda_stream

    def pointer(self, x: Any) -> int:
        return x.data_ptr()

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.torch.empty(shape, dtype=getattr(self.torch, dtype), device="cuda")

    def bytes(self, held: bytes) -> Any:
        return self.torch.frombuffer(bytearray(held), dtype=self.torch.uint8).cuda()

    def array(self, x: np.ndarray) -> Any:
        return self.library.from_host(np.ascontiguousarray(x)).cuda()

    def host(self, x: Any) -> np.ndarray:
        return self.library.to_host(x.cpu())

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
        """The time of each call on the device, which begins when all of them wait for it."""
        event = self.torch.cuda.Event
        self.torch.cuda._sleep(AHEAD)
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in calls]
        for call, (start, end) in zip(calls, pairs, strict=True):
            start.record()
            call()
            end.record()
        self.torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e-3 for start, end in pairs]

    def wait(self) -> None:
        self.torch.cuda.synchronize()

    def placed(self, x: Any) -> Any:
        """An array as one of tilewright's on the same GPU, beside torch's in its memory."""
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        return device_put(self.host(x), devices("gpu")[0])

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
            found = measure()
            row.values.update({} if found is None else {name: found})
        except Exception as error:  # the other ways may be measured
            row.failed[name] = said(error)
    return row


def ways(device: Any, case: Case, **counts: int) -> Iterator[tuple[str, Callable[[], float | None]]]:
    """What a case is measured by besides itself, by name: routes, forms of its kernel, rivals; None: there is none."""
    yield from by_route(device, case, **counts) if case.routed else ()
    if case.in_xla:
        yield "in XLA's program", partial(by_xla, device, case, **counts)
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

    if case.routed == CUTLASS:  # another one's value is what its is held against
        first.append(("tilewright", device.call(case.function)(*operands)))
    for route in routes(case):
        yield f"by {route}", partial(run, route)


def by_xla(device: Any, case: Case, warm: int = WARM, count: int = CALLS) -> float:
    """A case as a program of XLA's that calls its kernels: the time of a call among many, by the host's clock."""
    operands = [device.placed(device.random(shape, case.dtype, False)) for shape in case.shapes]
    function = jit(case.function)

    def run(n: int) -> float:
        start = time.perf_counter()
        for made in [function(*operands) for _ in range(n)][-1:]:
            made.block_until_ready()
        return time.perf_counter() - start

    run(max(warm, 1))
    return case.value(run(count) / count)


def by_form(
    device: Any, case: Case, machine: Target, **counts: int
) -> Iterator[tuple[str, Callable[[], float | None]]]:  # fmt: skip
    """A case in the forms of its kernel that the machine has, of which each gives what the case does."""
    operands, wanted = [device.random(s, case.dtype, False) for s in case.shapes], list[Any]()

    def run(form: Form) -> float | None:
        function = of_form(device, case, machine, form)
        if function is None:
            return None
        wanted.extend([] if wanted else [device.call(case.function)(*operands)])
        apart = device.difference(function(*operands), wanted[0])
        if not apart <= AGREE:
            raise RuntimeError(f"its value differs by {apart:.2g}, which is more than {AGREE}")
        return measured(device, case, function, **counts)

    for name, form in case.forms:
        yield name, partial(run, form)


def routes(case: Case) -> list[str]:
    """The routes of a case that can be measured here."""
    try:
        cutlass_backend.check_installed()
    except VersionError:
        return [route for route in case.routed if route not in CUTLASS]
    return list(case.routed)


def begin(chosen: Sequence[Case], machine: Target) -> None:
    """Have all compilers begin with the kernels of cases, which they make while others are measured; CUTLASS's take
    NVRTC a minute each."""
    known = {route.name: route for route in ROUTES_OF[machine.kind]}
    for case in chosen:
        for route in routes(case):
            try:
                known[route].ready.start(found_kernels(case, machine), machine)
            except TilewrightError as error:  # which its row will tell too
                print(f"{case.name}, by {route}: {said(error)}", file=sys.stderr)


def within(
    seconds: float, chosen: Sequence[Any], measure: Callable[[Any], Row | Seen],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Row | Seen | Failure | str]:  # fmt: skip
    """The rows of cases, and at last the names of those for which, as long as one has taken, no time is left."""
    begun, longest = clock(), 0.0
    for n, case in enumerate(chosen):
        start = clock()
        if start - begun + longest > seconds:
            yield from (left.name for left in chosen[n:])
            return
        try:
            found: Row | Seen | Failure = measure(case)
        except Exception as error:  # those that follow may be measured, with the memory that its calls hold
            found = Failure(case, error.with_traceback(None))
        yield found
        longest = max(longest, clock() - start)


HEADINGS = ("case", "tilewright", "others", "wanted", "met")


def report(name: str, rows: Sequence[Row | Seen | Failure], date: datetime.date, left: Sequence[str] = ()) -> str:
    """The page of results, and what there was no time for."""
    lines = [f"# {name}, {date.isoformat()}", "", "Made by `make bench-gpu`; medians, on operands that are not in the "
             "cache.", ""]  # fmt: skip
    for headings, of_cases in ((HEADINGS, True), (("what the emulator takes for granted", "seen"), False)):
        found = [row.cells() for row in rows if isinstance(row.case, Case) == of_cases]
        if found:
            lines += [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}"]
            lines += [*(f"| {' | '.join(cells)} |" for cells in found), ""]
    return "\n".join([*lines, *([f"No time was left for: {', '.join(left)}.", ""] if left else [])])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that all cases may take")
    parser.add_argument("--serve", action="store_true", help="measure the cases that standard input names")
    given = parser.parse_args(arguments)
    chosen = [one for one in (*FACTS, *cases()) if given.only in one.name]
    if given.serve:
        serve(lambda: prepared(chosen))
        return
    begun = time.monotonic()
    process = Apart([sys.executable, "-m", "benchmarks.gpu", "--serve", "--only", given.only])
    try:
        started = process.start()
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    if "error" in started:
        raise SystemExit(started["error"])
    name, seconds = started["name"], given.seconds - (time.monotonic() - begun)
    path = None if given.only else RESULTS / f"gpu_{name.lower().replace(' ', '_')}.md"
    record(name, within(seconds, chosen, partial(measured_apart, process)), path)
    process.end()


def measured_apart(process: Apart, case: Case | Fact | Bytes) -> Row | Seen:
    """A case measured, or a fact asked for, by another process.

    Raises:
      RuntimeError: it failed there, or the process ended.
    """
    found = process.ask(case.name)
    if "error" in found:
        raise RuntimeError(found["error"])
    return Row(case, found["values"], found["failed"]) if isinstance(case, Case) else Seen(case, found["differs"])


def prepared(chosen: Sequence[Case | Fact | Bytes]) -> tuple[dict[str, Any], Callable[[str], dict[str, Any]]]:
    """The GPU's name, or why there is none; and what measures the case of a name.

    All compilers begin with the cases' kernels meanwhile: first with those that wait longest.
    """
    try:
        device = Torch()
    except (DriverError, VersionError) as error:
        return {"error": f"{type(error).__name__}: {error}", "lost": True}, lambda name: {}
    known, measured = {case.name: case for case in chosen}, [case for case in chosen if isinstance(case, Case)]
    measured.sort(key=lambda case: case.routed != CUTLASS)
    threading.Thread(target=begin, args=(measured, machine_of(0)), daemon=True).start()
    return {"name": device.name}, lambda name: answered(device, known[name])


def answered(device: Any, case: Case | Fact | Bytes) -> dict[str, Any]:
    """What was measured of a case, or seen, or its error; `lost`: the GPU can no longer be used by this process."""
    try:
        if isinstance(case, Case):
            made = row(device, case)
            found: dict[str, Any] = {"values": made.values, "failed": made.failed}
        else:
            driver().enter(0)
            found = {"differs": case.ask(device, machine_of(0))}
    except Exception as error:  # the next case may be measured
        found = {"error": said(error)}
    try:
        device.wait()
    except Exception as error:
        return {"error": said(error)} | found | {"lost": True}
    return found


def record(name: str, found: Iterable[Row | Seen | Failure | str], path: Path | None) -> None:
    """Print each row as it comes, and keep all that there are in a file."""
    rows, left = list[Row | Seen | Failure](), list[str]()
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
