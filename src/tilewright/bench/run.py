"""`benchmark`: functions timed in turn, round after round, so that a machine that slows down slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core.jit.jit import jit
from ..core.support import pytree
from ..core.support.errors import ArgumentError, ArgumentTypeError
from ..tuning.measure import closed
from .child import timed
from .machine import ceilings, clock, description
from .result import Result, Row

ROUND = 0.1  # seconds that a round of one function takes at least
BATCH = 3e-4  # seconds of calls that are timed together: less than a processor gives a program at a time
Call = Callable[[], Any]


def benchmark(
    f: Callable[..., Any], *args: Any, against: Mapping[str, Callable[..., Any]] | None = None, rounds: int = 15,
    name: str | None = None, compile: bool = True, **kwargs: Any,
) -> Result:  # fmt: skip
    """Time a function on some arguments, in turn with others (`against`, by name, on the same arguments).

    Functions are jitted, unless `compile` is False or they are jitted already; those of another library, such as
    NumPy's, are called as they are if they name it by `library = "numpy"` among their attributes. Each round times
    every function for a tenth of a second, in batches of calls. The rows have the seconds of a call in each round, and
    of one in the fastest batch, XLA's counts of operations and bytes, the bytes taken at the peak and the seconds of
    the first call.

    Raises:
      ArgumentError: fewer than two rounds, or two functions of one name. ArgumentTypeError: what is no function.

    >>> from tilewright import numpy as tnp
    >>> found = benchmark(lambda x: x @ x, tnp.ones((64, 64)), against={"twice": lambda x: x @ x @ x}, rounds=3)
    >>> [row.name for row in found.rows], found["twice"].flops > found.rows[0].flops
    (['<lambda>', 'twice'], True)
    """
    check_rounds(rounds)
    first = name or getattr(f, "__name__", "function")
    if not isinstance(against or {}, Mapping):
        raise ArgumentTypeError(f"benchmark: against is {against!r}", 'name the functions: `against={"other": g}`')
    functions = {first: f, **(against or {})}
    for each, g in functions.items():
        if not callable(g):
            raise ArgumentTypeError(f"benchmark: {each} is {g!r}", "give a function of the arguments")
    if len(functions) != 1 + len(against or {}):
        raise ArgumentError(f"two functions are named {first!r}", "pass name=")
    arrays, of = closed(args, kwargs)
    prepared = {n: _prepared(of(g), arrays, compile and not hasattr(g, "library")) for n, g in functions.items()}
    times, speed = in_turn({n: call for n, (call, _) in prepared.items()}, rounds)
    rows = [row_of(n, times[n], **known) for n, (_, known) in prepared.items()]
    return Result(tuple(rows), tuple(speed), ceilings(), description())


def check_rounds(rounds: int) -> None:
    """Refuse too few.

    Raises:
      ArgumentError: fewer than two.
    """
    if rounds < 2:
        raise ArgumentError(f"a benchmark of {rounds} rounds", "two at least; 15 by default")


def in_turn(calls: Mapping[str, Call], rounds: int) -> tuple[dict[str, list[tuple[float, float]]], list[float]]:
    """The mean and the least seconds of each call in each round, and the machine's speed in it."""
    counts = {name: batch(timed(call, 1, 0.0, wait)[0]) for name, call in calls.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    speed = []
    for number in range(rounds):
        order = list(calls.items())
        for name, call in order if number % 2 else reversed(order):
            times[name].append(timed(call, counts[name], ROUND, wait))
        speed.append(clock())
    return times, speed


def batch(seconds: float) -> int:
    """How many calls that take so long are timed together."""
    return max(1, int(BATCH / max(seconds, 1e-8)))


def row_of(name: str, times: Sequence[tuple[float, float]], **known: Any) -> Row:
    """A row of the mean and the least seconds in each round."""
    means, least = zip(*times, strict=True)
    return Row(name, tuple(means), least=tuple(least), **known)


def wait(out: Any) -> None:
    """Wait for what was computed, by whatever library."""
    for x in pytree.leaves(out):
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
        made = make(size)
        if not isinstance(made, tuple) or not made or not callable(made[0]):
            raise ArgumentTypeError(f"scaling: make({size!r}) gives {made!r}", "give a function and arguments: `f, x`")
        f, *args = made
        arrays, of = closed(args, {})
        prepared[size] = (name or getattr(f, "__name__", "function"), _prepared(of(f), arrays, True))
    if not prepared:
        raise ArgumentError("a benchmark of no sizes", "give some: [256, 512, 1024]")
    times, speed = in_turn({str(size): call for size, (_, (call, _)) in prepared.items()}, max(rounds, 2))
    rows = [row_of(n, times[str(s)], size=s, **known) for s, (n, (_, known)) in prepared.items()]
    return Result(tuple(rows), tuple(speed), ceilings(), description())
