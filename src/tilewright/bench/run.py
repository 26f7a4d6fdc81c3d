"""`benchmark`: functions timed in turn, round after round, so that a machine that slows down slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core import tree
from ..core.errors import ArgumentError
from ..core.jit import jit
from ..tuning.measure import closed
from .machine import ceilings, description, yardstick
from .result import Result, Row

ROUND = 5e-3  # seconds that a round of one function takes at least
Call = Callable[[], Any]


def benchmark(
    f: Callable[..., Any], *args: Any, against: Mapping[str, Callable[..., Any]] | None = None, rounds: int = 15,
    name: str | None = None, compile: bool = True, **kwargs: Any,
) -> Result:  # fmt: skip
    """Time a function on some arguments, in turn with others (`against`, by name, on the same arguments).

    Functions are jitted, unless `compile` is False or they are jitted already; those of another library, such as
    NumPy's, are called as they are if they name it by `library = "numpy"` among their attributes. Each round times
    every function once, by as many calls as fill five milliseconds. The rows have the seconds of a call in each round,
    XLA's counts of operations and bytes, the bytes taken at the peak and the seconds of the first call.

    Raises:
      ArgumentError: fewer than two rounds, or two functions of one name.

    >>> from tilewright import numpy as tnp
    >>> found = benchmark(lambda x: x @ x, tnp.ones((64, 64)), against={"twice": lambda x: x @ x @ x}, rounds=3)
    >>> [row.name for row in found.rows], found["twice"].flops > found.rows[0].flops
    (['<lambda>', 'twice'], True)
    """
    if rounds < 2:
        raise ArgumentError(f"a benchmark of {rounds} rounds", "two at least; 15 by default")
    first = name or getattr(f, "__name__", "function")
    functions = {first: f, **(against or {})}
    if len(functions) != 1 + len(against or {}):
        raise ArgumentError(f"two functions are named {first!r}", "pass name=")
    arrays, of = closed(args, kwargs)
    prepared = {n: _prepared(of(g), arrays, compile and not hasattr(g, "library")) for n, g in functions.items()}
    times, speed = in_turn({n: call for n, (call, _) in prepared.items()}, rounds)
    rows = [Row(n, tuple(times[n]), **known) for n, (_, known) in prepared.items()]
    return Result(tuple(rows), tuple(speed), ceilings(), description())


def in_turn(calls: Mapping[str, Call], rounds: int) -> tuple[dict[str, list[float]], list[float]]:
    """The seconds of each call in each round, and the machine's speed in it."""
    counts = {name: max(1, int(ROUND / max(_once(call, 1), 1e-8))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    speed = []
    for number in range(rounds):
        order = list(calls.items())
        for name, call in order if number % 2 else reversed(order):
            times[name].append(_once(call, counts[name]))
        speed.append(yardstick())
    return times, speed


def _once(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        out = call()
    wait(out)
    return (time.perf_counter() - start) / count


def wait(out: Any) -> None:
    """Wait for what was computed, by whatever library."""
    for x in tree.leaves(out):
        if hasattr(x, "block_until_ready"):
            x.block_until_ready()


def _prepared(f: Callable[..., Any], arrays: Sequence[Any], compiled: bool) -> tuple[Call, dict[str, Any]]:
    """What is timed, after its first call, and what is known of it."""
    known: dict[str, Any] = {}
    function = jit(f) if compiled else f
    start = time.perf_counter()
    wait(function(*arrays))
    known["compile"] = time.perf_counter() - start
    if compiled:
        executable = function.lower(*arrays).compile()
        cost, memory = executable.cost_analysis(), executable.memory_analysis()
        known["flops"], known["bytes"] = cost.get("flops"), cost.get("bytes accessed")
        known["peak"] = int(memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes)
    return (lambda: function(*arrays)), known


def scaling(
    make: Callable[[int], tuple[Any, ...]], sizes: Iterable[int], *, rounds: int = 9, name: str | None = None
) -> Result:
    """Time a function at several sizes: `make(size)` gives the function and its arguments. The rows have a `size`.

    Raises:
      ArgumentError: no sizes.

    >>> from tilewright import numpy as tnp
    >>> found = scaling(lambda n: (tnp.sort, tnp.ones((n,))), [8, 16], rounds=2)
    >>> [row.size for row in found.rows]
    [8, 16]
    """
    prepared = {}
    for size in sizes:
        f, *args = make(size)
        arrays, of = closed(args, {})
        prepared[size] = (name or getattr(f, "__name__", "function"), _prepared(of(f), arrays, True))
    if not prepared:
        raise ArgumentError("a benchmark of no sizes", "give some: [256, 512, 1024]")
    times, speed = in_turn({str(size): call for size, (_, (call, _)) in prepared.items()}, max(rounds, 2))
    rows = [Row(n, tuple(times[str(s)]), size=s, **known) for s, (n, (_, known)) in prepared.items()]
    return Result(tuple(rows), tuple(speed), ceilings(), description())
