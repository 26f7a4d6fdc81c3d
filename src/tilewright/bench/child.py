"""The process of one library in `tilewright bench`: run by its path, so that it imports that library alone.

It is given a file, a function in it and a library's name. The function takes the library's array namespace and gives a
function and its arguments. Requests on standard input are numbers of calls, answers lines of JSON on standard output.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

NAMESPACES = {"tilewright": "tilewright.numpy", "numpy": "numpy", "jax": "jax.numpy", "torch": "torch"}


def load(file: str, name: str) -> Callable[..., Any]:
    """A function of a file."""
    spec = importlib.util.spec_from_file_location("benchmarked", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmarked"] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec.loader.exec_module(module)
    return getattr(module, name)


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


def prepared(file: str, name: str, library: str) -> Callable[[], Any]:
    """What is timed."""
    namespace = importlib.import_module(NAMESPACES[library])
    f, *args = load(file, name)(namespace)
    if library in ("tilewright", "jax") and not hasattr(f, "lower"):
        f = importlib.import_module(library).jit(f)
    return lambda: f(*args)


def main(file: str, name: str, library: str) -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        call = prepared(file, name, library)
        start = time.perf_counter()
        wait(call())
        answers.write(json.dumps({"seconds": time.perf_counter() - start}) + "\n")
    except Exception as error:
        answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
        return
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            out = call()
        wait(out)
        answers.write(json.dumps({"seconds": (time.perf_counter() - start) / int(line)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
