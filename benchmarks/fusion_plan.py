"""What fused plans move, by target, and how long planning takes beside tracing and lowering.

    python -m benchmarks.fusion_plan

Bytes are counted from the kernels' index maps, so they are the same on every machine. Times are medians over
processes: of a program's first time in a process (no disk cache; another program has loaded the target's compiler
before), and of its second, traced anew, when its plan is looked up. Lowering ends with the module's text; for a GPU the
kernels in it are compiled.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tilewright as tw
from tests.support.fusion_programs import SHOWN
from tilewright import numpy as tnp
from tilewright.compiler.pass_manager import walk
from tilewright.compiler.pipeline import LOWER, settings_ahead
from tilewright.kernels.fuse import fuse, plan
from tilewright.xla_backend.options.compile_options import Call, Unit

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


def seconds(f: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = f()
    return time.perf_counter() - start, found


def times(name: str, target: str) -> list[tuple[float, float, float]]:
    """Seconds to trace, plan and lower one program: the first time, and again."""
    tw.config.update("cache_dir", "")
    tw.compile(lambda x: tnp.tanh(x) * 2, tw.ShapeDtypeStruct((64, 128), "float32"), target=target, stop="module")
    function, args = SHOWN[name]
    found = []
    for _ in range(2):
        trace, program = seconds(lambda: tw.compile(lambda *xs: function(*xs), *args, target=target, stop="program"))
        planned, _ = seconds(lambda p=program: fuse(p, target))
        settings = settings_ahead(target)
        lowered, _ = seconds(lambda p=program, s=settings: walk(LOWER, Unit(p, Call()), s))  # its plan is known
        found.append((trace, planned, lowered))
    return found


def time_table() -> Iterator[str]:
    yield "| program | target | | trace, ms | plan, ms | lower, ms | plan / (trace + lower) |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name in SHOWN:
        for target in TIMED:
            command = [sys.executable, "-m", "benchmarks.fusion_plan", name, target]
            rounds = [json.loads(subprocess.check_output(command)) for _ in range(ROUNDS)]
            for turn, word in enumerate(("first", "again")):
                columns = zip(*(r[turn] for r in rounds), strict=True)
                trace, planned, lower = (1e3 * statistics.median(column) for column in columns)
                share = planned / (trace + lower)
                yield f"| {name} | {target} | {word} | {trace:.1f} | {planned:.1f} | {lower:.1f} | {share:.2f} |"


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(times(*sys.argv[1:])))
        return
    lines = ["# Fused plans", "", *bytes_table(), "", *time_table()]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
