"""The process of one library in `tilewright bench`: run by its path, so that it imports that library alone.

It is given a file, a function in it and a library's name. The function takes the library's array namespace and gives a
function and its arguments. Requests on standard input are the calls of a batch and the seconds of a round; answers are
lines of JSON on standard output.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

NAMESPACES = {"tilewright": "tilewright.numpy", "numpy": "numpy", "jax": "jax.numpy", "torch": "torch"}


def timed(call: Callable[[], Any], count: int, seconds: float, wait: Callable[[Any], Any]) -> tuple[float, float]:
    """The mean and the least seconds of a call, by batches of `count` calls for so many seconds, one at least.

    Other programs on the machine only ever add to the time of a batch. If batches are short, some of a round are not
    interrupted, and the least hardly changes with what else runs.
    """
    times, start = [], time.perf_counter()
    end, last = start + seconds, start
    while not times or last < end:
        for _ in range(count):
            out = call()
        wait(out)
        times.append(-last + (last := time.perf_counter()))
    return (last - start) / (len(times) * count), min(times) / count


class Wrong(Exception):
    """A file that is not as it should be: what is wrong, and what to write."""


def load(file: str, name: str) -> Callable[..., Any]:
    """A function of a file."""
    spec = importlib.util.spec_from_file_location("benchmarked", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmarked"] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        names = ", ".join(n for n, x in vars(module).items() if getattr(x, "__module__", None) == "benchmarked")
        raise Wrong(f"{os.path.basename(file)} has no function {name!r}", f"it has {names or 'none'}")
    return found


def wait(out: Any) -> None:
    """Wait for what was computed."""
    if isinstance(out, (list, tuple)):
        for x in out:
            wait(x)
    elif isinstance(out, dict):
        wait(list(out.values()))
    elif hasattr(out, "block_until_ready"):
        out.block_until_ready()
    elif hasattr(out, "is_cuda") and out.is_cuda:
        importlib.import_module("torch").cuda.synchronize()


def prepared(file: str, name: str, library: str) -> tuple[Callable[[], Any], Callable[[], dict[str, Any]]]:
    """What is timed, and what tells of it after its first call."""
    make = load(file, name)
    remedy = f"have {name}(np) return a function and its arguments, `return f, x, y`; or give a --shape for each"
    try:
        inspect.signature(make).bind(None)
    except TypeError:
        raise Wrong(f"{name}{inspect.signature(make)} takes other arguments than an array namespace", remedy) from None
    except ValueError:  # written in C
        pass
    try:
        found = make(importlib.import_module(NAMESPACES[library]))
    except Exception as error:
        own = f"{type(error).__name__}: {error}"
        raise Wrong(f"{name}({NAMESPACES[library]}) failed: {own}", f"mend it, or {remedy}") from None
    if not isinstance(found, (tuple, list)) or not found or not callable(found[0]):
        raise Wrong(f"{name} gives {type(found).__name__}, not a function and its arguments", remedy)
    f, *args = found
    if library in ("tilewright", "jax") and not hasattr(f, "lower"):
        f = importlib.import_module(library).jit(f)
    return (lambda: f(*args)), (lambda: {"types": types(args), **(known(f, args) if hasattr(f, "lower") else {})})


def types(args: Any) -> str:
    """The dtypes and shapes of the arrays among some arguments, as text."""
    if isinstance(args, dict):
        args = list(args.values())
    if isinstance(args, (list, tuple)):
        return " ".join(filter(None, map(types, args)))
    return f"{str(args.dtype).removeprefix('torch.')}{list(args.shape)}" if hasattr(args, "dtype") else ""


def known(f: Any, args: Any) -> dict[str, Any]:
    """XLA's counts of a jitted function: operations, bytes moved, bytes taken at the peak."""
    executable = f.lower(*args).compile()
    cost, memory = executable.cost_analysis(), executable.memory_analysis()
    peak = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return {"flops": cost.get("flops"), "bytes": cost.get("bytes accessed"), "peak": int(peak)}


def main(file: str, name: str, library: str) -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        call, told = prepared(file, name, library)
        start = time.perf_counter()
        wait(call())
        seconds = time.perf_counter() - start
        answers.write(json.dumps({"seconds": seconds, **told()}) + "\n")
    except Wrong as error:
        answers.write(json.dumps({"error": error.args[0], "remedy": error.args[1]}) + "\n")
        return
    except Exception as error:
        answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
        return
    for line in sys.stdin:
        count, seconds = line.split()
        answers.write(json.dumps({"seconds": timed(call, int(count), float(seconds), wait)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
