"""Operations on split arrays, drawn at random: compile time and collective bytes, against jax.

    python -m benchmarks split_operations --baseline-python PYTHON     the interpreter that has jax
    python -m benchmarks split_operations --only cumsum

Each case is an operation and a split of its operands over eight virtual devices (one axis of eight, or axes of four
and two). One process for each library stays up and compiles a case when it is asked; the two take turns. Times are the
processor's, from tracing to the executable, with empty caches: the least of some rounds. Bytes are those of the
results of collectives in the compiled programs. Two tables go to `benchmarks/results`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.harness import RESULTS, ROOT
from benchmarks.split_operations.operations import OPERATIONS, Operation
from benchmarks.split_operations.reasons import MORE_BYTES, SLOWER, reason

COUNT, SEED, WANTED, DEVICES = 306, 32, 2.0, 8
MESHES = (((8,), ("a",)), ((4, 2), ("a", "b")))
WIDTHS = {"f64": 8, "s64": 8, "u64": 8, "c64": 8, "c128": 16, "pred": 1, "bf16": 2, "f16": 2, "s8": 1, "u8": 1}
COLLECTIVE = re.compile(
    r"= (\(.*?\)|\S+) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|ragged-all-to-all"
    r"|collective-broadcast)(?:-start)?\("
)


class Case(NamedTuple):
    """An operation and, for each operand, the mesh axes that split each of its dimensions."""

    operation: Operation
    mesh: int
    specs: tuple[tuple[tuple[str, ...], ...], ...]

    @property
    def name(self) -> str:
        specs = ", ".join(
            "(" + " ".join("".join(axes) or "-" for axes in spec) + ")" for spec in self.specs if any(spec))
        return f"{self.operation.name} {specs}"


def _spec(draw: random.Random, shape: Sequence[int], mesh: int) -> tuple[tuple[str, ...], ...]:
    """A split of an operand: each mesh axis divides one of the dimensions that it can, or none."""
    spec: list[tuple[str, ...]] = [()] * len(shape)
    for size, name in zip(*MESHES[mesh], strict=True):
        able = [d for d, n in enumerate(shape) if n % size == 0 and not spec[d]]
        if able and draw.random() < 0.85:
            spec[draw.choice(able)] = (name,)
    return tuple(spec)


def drawn(count: int = COUNT, seed: int = SEED) -> list[Case]:
    """The cases, each operation with several splits, none twice and none without a split."""
    draw, found = random.Random(seed), dict[Case, None]()
    for attempt in range(50 * count):
        if len(found) == count:
            break
        operation = OPERATIONS[attempt % len(OPERATIONS)]
        mesh = draw.randrange(len(MESHES))
        case = Case(operation, mesh, tuple(_spec(draw, shape, mesh) for shape, _ in operation.operands))
        if any(any(spec) for spec in case.specs):
            found[case] = None
    return list(found)


# ------------------------------------------------------------------------------------------------- a library's process


def moved(text: str) -> dict[str, list[int]]:
    """Of each kind of collective in a compiled program: how many there are, and the bytes of their results."""
    found: dict[str, list[int]] = {}
    for results, kind in COLLECTIVE.findall(text):
        total = 0
        for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", results):
            size = WIDTHS.get(dtype, 4)
            for n in filter(None, dims.split(",")):
                size *= int(n)
            total += size
        entry = found.setdefault(kind, [0, 0])
        entry[0] += 1
        entry[1] += total
    return found


def compile_case(jax: Any, case: Case) -> dict[str, Any]:
    """Compile a case with empty caches; the processor's seconds and what the program moves between devices."""
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    shape, names = MESHES[case.mesh]
    mesh = jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))
    types = [jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, PartitionSpec(*spec)))
             for (shape, dtype), spec in zip(case.operation.operands, case.specs, strict=True)]  # fmt: skip
    jax.clear_caches()
    start = time.process_time()
    executable = jax.jit(lambda *args: case.operation.run(jax, *args)).lower(*types).compile()
    seconds = time.process_time() - start
    return {"seconds": seconds, "moved": moved(executable.as_text())}


def child(library: str) -> None:
    """Compile the cases whose numbers come by the standard input, and print what was found."""
    if library == "tilewright":
        from tilewright import as_jax

        as_jax.install(quiet=True)
    import jax

    jax.config.update("jax_num_cpu_devices", DEVICES)
    cases, answers = drawn(), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = compile_case(jax, cases[int(line)])
        except Exception as e:  # an operation that one of them refuses is a row of the table
            found = {"error": f"{type(e).__name__}: {e}".splitlines()[0][:200]}
        print(json.dumps(found), file=answers, flush=True)


# ------------------------------------------------------------------------------------------------- both in turn


class Library:
    """A process that compiles cases when it is asked."""

    def __init__(self, name: str, python: str) -> None:
        path = [str(ROOT), *([str(ROOT / "src")] if name == "tilewright" else [])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "TILEWRIGHT_CACHE_DIR": "",
                       "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}  # fmt: skip
        command = [python, "-m", "benchmarks.split_operations", "--child", name]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip

    def ask(self, number: int) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        print(number, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline() or '{"error": "the process ended"}')

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Row(NamedTuple):
    """A case compiled by both: seconds, bytes and numbers of collectives, or an error."""

    name: str
    seconds: tuple[float, float]
    bytes: tuple[int, int]
    collectives: tuple[str, str]
    error: str = ""

    @property
    def ratio(self) -> float:
        return self.seconds[0] / self.seconds[1]


def measure(cases: Sequence[tuple[int, Case]], python: str, rounds: int) -> Iterator[Row]:
    """Compile every case with both libraries, in turn."""
    libraries = Library("tilewright", sys.executable), Library("jax", python)
    for n in (0, 1, 2):  # what is loaded at the first use
        for library in libraries:
            library.ask(n)
    for number, case in cases:
        found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        for _ in range(rounds):
            for side, library in zip(found, libraries, strict=True):
                side.append(library.ask(number))
        errors = [next((f["error"] for f in side if "error" in f), "") for side in found]
        if any(errors):
            yield Row(case.name, (0.0, 0.0), (0, 0), ("", ""), " | ".join(errors))
            continue
        ours, other = (min(f["seconds"] for f in side) for side in found)
        last = [side[-1]["moved"] for side in found]
        total = [sum(size for _, size in one.values()) for one in last]
        shown = [", ".join(f"{count} {kind}" for kind, (count, _) in one.items()) or "local" for one in last]
        yield Row(case.name, (ours, other), (total[0], total[1]), (shown[0], shown[1]))
    for library in libraries:
        library.close()


def summaries(rows: Sequence[Row]) -> dict[str, str]:
    """The tables by the name of their file: what compiles too slowly, and what moves more bytes than jax."""
    good = [row for row in rows if not row.error]
    ratios = [row.ratio for row in good]
    slow = sorted((row for row in good if row.ratio > WANTED), key=lambda row: -row.ratio)
    more = sorted((row for row in good if row.bytes[0] > row.bytes[1]), key=lambda row: row.bytes[1] - row.bytes[0])
    fewer = sum(row.bytes[0] < row.bytes[1] for row in good)
    known = (MORE_BYTES, more), (SLOWER, slow)
    unexplained = [sum(not reason(why, r.name) for r in rows) for why, rows in known]
    times = [
        f"{len(good)} cases; compile time against jax: median {statistics.median(ratios):.2f}, "
        f"at most {max(ratios):.2f}, {len(slow)} above {WANTED:.0f}, {unexplained[1]} without a reason.",
        "",
        f"| compile time over {WANTED:.0f} times jax's | tilewright | jax | ratio | reason |",
        "| --- | --: | --: | --: | --- |",
        *(f"| {r.name} | {r.seconds[0]:.3f} s | {r.seconds[1]:.3f} s | {r.ratio:.2f} | {reason(SLOWER, r.name)} |"
          for r in slow),
    ]
    moved = [
        f"{len(good)} cases; collective bytes: fewer than jax in {fewer}, more in {len(more)}, {unexplained[0]} "
        "without a reason.",
        "",
        "| more bytes than jax | tilewright | jax | collectives | of jax | reason |",
        "| --- | --: | --: | --- | --- | --- |",
        *(f"| {r.name} | {r.bytes[0]:,} | {r.bytes[1]:,} | {r.collectives[0]} | {r.collectives[1]} "
          f"| {reason(MORE_BYTES, r.name)} |" for r in more),
    ]
    if bad := [row for row in rows if row.error]:
        times += ["", "Refused by one of them (tilewright; jax):", "", *(f"- {r.name}: {r.error}" for r in bad)]
    return {"split_operations": "\n".join(times), "split_operations_bytes": "\n".join(moved)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", choices=("tilewright", "jax"), help=argparse.SUPPRESS)
    parser.add_argument("--baseline-python", default=sys.executable, help="the interpreter that has jax")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], help="cases whose name contains this")
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    cases = [(n, case) for n, case in enumerate(drawn())
             if not options.only or any(text in case.name for text in options.only)]  # fmt: skip
    rows = []
    for row in measure(cases, options.baseline_python, options.rounds):
        rows.append(row)
        print(row.error or f"{row.ratio:5.2f} {row.bytes[0]:>8} {row.bytes[1]:>8}", row.name, flush=True)
    tables = summaries(rows)
    print("\n\n".join(tables.values()))
    if not options.only:
        from benchmarks.rounds import machine

        about = ", ".join(f"{k} {v}" for k, v in machine().items())
        for name, text in tables.items():
            run = f"`python -m benchmarks split_operations`; {about}."
            (RESULTS / f"{name}.md").write_text(f"# {name}\n\n{run}\n\n{text}\n")


if __name__ == "__main__":
    main()
