"""The CPU time to compile each kernel of the corpus to machine code, and to load it from disk.

A kernel is lowered to LLVM IR once, as only the first time is not from a cache; code generation and loading are the
least of a few times. `from disk` finds the object by the digest of its IR, checks it and loads it, without LLVM.
"""

from __future__ import annotations

import datetime
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS
from tests.support.corpus.runs import KERNELS, operands
from tilewright.bench.machine import description
from tilewright.core.support import pytree
from tilewright.core.tracing.trace import trace_program, typeof
from tilewright.cpu_backend.llvm.compile import generator_version, object_of
from tilewright.cpu_backend.lowering.kernel import code_of
from tilewright.cpu_backend.machine.features import features
from tilewright.cpu_backend.objects.loader import load
from tilewright.cpu_backend.objects.store import name_of, pack, unpack
from tilewright.errors import UnsupportedError
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import CPU
from tilewright.xla_backend.host.disk_cache import DiskCache

TIMES = 5
WANTED = {"compiled": 40.0, "from disk": 1.0}  # milliseconds, of the median


@dataclass(frozen=True)
class Times:
    """Milliseconds that a kernel takes, and what was generated."""

    name: str
    lines: int
    size: int
    lowered: float
    generated: float
    loaded: float
    from_disk: float

    @property
    def compiled(self) -> float:
        return self.lowered + self.generated + self.loaded


def _least(run: Callable[[], Any], times: int = TIMES) -> tuple[float, Any]:
    """The least CPU time of a few calls in milliseconds, and the last result."""
    best, found = float("inf"), None
    for _ in range(times):
        start = time.process_time()
        found = run()
        best = min(best, (time.process_time() - start) * 1e3)
    return best, found


def corpus() -> Iterator[tuple[str, Kernel]]:
    """The kernels of the corpus at their largest sizes."""
    for name, one in KERNELS.items():
        size = max(one.SIZES, key=lambda size: sum(x.size for x in pytree.leaves(operands(one, size))))
        leaves, structure = pytree.flatten(tuple(operands(one, size)))

        def call(*xs: Any, one: Any = one, size: Any = size, structure: Any = structure) -> list[Any]:
            return pytree.leaves(one.call(*structure.unflatten(xs), **size.blocks))

        program = trace_program(call, [typeof(x) for x in leaves])
        yield from ((name, kernel) for kernel in dict.fromkeys(kernels_of(program)))


def measured() -> Iterator[Times]:
    """The times of each kernel that has machine code."""
    machine, version = features(), generator_version()
    object_of("", machine)  # imports LLVM
    with tempfile.TemporaryDirectory() as folder:
        store = DiskCache(Path(folder) / "kept")
        for name, kernel in corpus():
            try:
                lowered, code = _least(lambda kernel=kernel: code_of(kernel, CPU), 1)
            except UnsupportedError:
                continue
            generated, data = _least(lambda text=code.text: object_of(text, machine))
            loaded, _ = _least(lambda data=data: load(data))
            store.store(name_of(code.text, machine, version), pack(data, machine, version))

            def kept(text: str = code.text) -> Any:
                found = store.load(name_of(text, machine, version))
                data = None if found is None else unpack(found, machine, version)
                assert data is not None
                return load(data)

            from_disk, _ = _least(kept)
            yield Times(name, code.text.count("\n"), len(data), lowered, generated, loaded, from_disk)


def table(found: list[Times]) -> str:
    """The result file: medians against what is wanted, then each kernel."""
    about = ", ".join(f"{k} {v}" for k, v in (description() | {"date": str(datetime.date.today())}).items())
    head = ("kernel", "lines of IR", "object", "lowering", "LLVM", "loading", "compiled", "from disk")

    def row(name: str, lines: float, size: float, *times: float) -> tuple[str, ...]:
        return name, f"{lines:,.0f}", f"{size / 1024:.1f} KB", *(f"{t:.2f} ms" for t in times)

    values = [(t.lines, t.size, t.lowered, t.generated, t.loaded, t.compiled, t.from_disk) for t in found]
    medians = [statistics.median(column) for column in zip(*values, strict=True)]
    rows = [row("**median**", *medians), *(row(t.name, *one) for t, one in zip(found, values, strict=True))]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ("---", *["--:"] * (len(head) - 1)), *rows))
    wanted = ", ".join(f"{name} in {most:g} ms" for name, most in WANTED.items())
    run = f"`python -m benchmarks cpu --compile`; {about}. {len(found)} kernels; wanted of the median: {wanted}."
    return f"# cpu_compile\n\n{run}\n\n{text}\n"


def write() -> str:
    """Measure, and write the result file; returns its text."""
    text = table(list(measured()))
    (RESULTS / "cpu_compile.md").write_text(text)
    return text
