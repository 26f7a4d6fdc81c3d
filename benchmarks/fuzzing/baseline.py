"""jax in a process of its own, which answers what programs and calls give: lines of JSON in and out.

Run by the baseline's interpreter as a script; it imports nothing of Tilewright.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


class Baseline:
    """The process; `ask` gives the leaves of a result there, or a text of the error."""

    def __init__(self, python: str):
        self.python = python
        self._start()

    def _start(self) -> None:
        command = [self.python, str(HERE / "baseline.py")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, **request: Any) -> list[dict[str, Any]] | str:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:  # it crashed, which is no finding of ours
            self._start()
            return "the baseline's process ended"
        found = json.loads(line)
        return found if isinstance(found, str) else [leaf | {"values": unpacked(leaf)} for leaf in found]

    def close(self) -> None:
        """End the process."""
        self.process.kill()


def leaf(x: Any) -> dict[str, Any]:
    """An array as its dtype, its shape and a list of float64 (pairs of complex numbers)."""
    x = np.asarray(x)
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return {"dtype": str(x.dtype), "shape": list(x.shape), "values": wide.ravel().view(np.float64).tolist()}


def unpacked(leaf: dict[str, Any]) -> np.ndarray:
    """The values of a leaf as an array, with an axis of two behind for complex numbers."""
    pairs = (2,) if leaf["dtype"].startswith("complex") else ()
    return np.array(leaf["values"], np.float64).reshape((*leaf["shape"], *pairs))


def answered(
    run: Callable[[Any], Any], request: Any, leaves: Callable[[Any], list[Any]]
) -> list[dict[str, Any]] | str:
    """The leaves of `run(request)`, or the text of the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = leaves(run(request))
            return [leaf(x) for x in found if hasattr(x, "shape") or isinstance(x, int | float | complex)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]


def call_by(lib: Any, call: dict[str, Any], array: Callable[[dict[str, Any]], Any]) -> Any:
    """Make a call: of a name below the library, on arrays that are described and other values."""
    f = lib
    for part in call["name"].split("."):
        f = getattr(f, part)
    made = lambda v: array(v) if isinstance(v, dict) else v  # noqa: E731
    return f(*map(made, call["args"]), **{k: made(v) for k, v in call["kwargs"].items()})


def main() -> None:
    """Answer each line of standard input."""
    sys.path.insert(0, str(HERE))
    import importlib

    import expressions
    import jax

    for name in ("numpy", "numpy.fft", "numpy.linalg", "lax", "lax.linalg", "nn", "ops", "scipy.special",
                 "scipy.linalg", "scipy.stats", "scipy.signal", "scipy.ndimage", "scipy.fft"):  # fmt: skip
        importlib.import_module(f"jax.{name}")

    def run(line: str) -> Any:
        request = json.loads(line)
        jax.config.update("jax_enable_x64", "program" in request)
        if "call" in request:
            return call_by(jax, request["call"], expressions.array)
        program = expressions.Program.of(request["program"])
        arrays = expressions.operands(program, request["seed"])
        return expressions.function(program, jax)(*map(jax.numpy.asarray, arrays))

    for line in sys.stdin:
        print(json.dumps(answered(run, line, jax.tree.leaves)), flush=True)


if __name__ == "__main__":
    main()
