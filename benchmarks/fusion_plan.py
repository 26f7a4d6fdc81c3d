"""What fused plans move, by target, and how long planning takes beside tracing and lowering.

    python -m benchmarks.fusion_plan

Bytes are counted from the kernels' index maps, so they are the same on every machine. Planning is timed in this
process: the median over rounds of each stage, tracing and printing the module for the target with it. Kernels of
GPUs come from the disk cache after the first round, so that their times are the least that lowering takes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tilewright as tw
from tests.fusion_programs import SHOWN
from tilewright.kernels.fuse import fuse, plan
from tilewright.targets import compile_for

RESULTS = Path(__file__).resolve().parent / "results" / "fusion_plan.md"
TARGETS = ("cuda:sm_80", "cuda:sm_90", "cuda:sm_100", "rocm:gfx942", "tpu:v5e", "tpu:v6e")
TIMED = ("cuda:sm_90", "tpu:v5e")
ROUNDS = 5


def bytes_table() -> Iterator[str]:
    yield "| program | target | kernels | bytes, one kernel for each operation | bytes, fused | share |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, (function, args) in SHOWN.items():
        program = tw.compile(function, *args, stop="transformed")
        for target in TARGETS:
            fusion = plan(program, target, explained=True)
            account = fusion.account
            assert account is not None
            share = account.bytes_after / account.bytes_before
            count = len(fusion.every_kernel)
            yield f"| {name} | {target} | {count} | {account.bytes_before:,} | {account.bytes_after:,} | {share:.2f} |"


def seconds(f: Callable[[], Any]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def time_table() -> Iterator[str]:
    yield "| program | target | trace, ms | plan, ms | lower, ms | plan / (trace + lower) |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, (function, args) in SHOWN.items():
        for target in TIMED:
            rounds = []
            for _ in range(ROUNDS):
                trace = seconds(lambda f=function, xs=args: tw.jit(lambda *x: f(*x)).trace(*xs))
                program = tw.compile(function, *args, stop="transformed")
                planned = seconds(lambda p=program, t=target: fuse(p, t))
                module = seconds(lambda p=program, t=target: compile_for(t, p, "module"))
                rounds.append((trace, planned, max(module - planned, 0.0)))
            trace, planned, lower = (1e3 * statistics.median(column) for column in zip(*rounds, strict=True))
            share = planned / (trace + lower)
            yield f"| {name} | {target} | {trace:.0f} | {planned:.0f} | {lower:.0f} | {share:.2f} |"


def main() -> None:
    lines = ["# Fused plans", "", *bytes_table(), "", *time_table()]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
