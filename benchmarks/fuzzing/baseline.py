"""jax in a process of its own, which answers what programs give: lines of JSON in and out.

Run by the baseline's interpreter as a script; it imports nothing of Tilewright.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


class Baseline:
    """The process; `ask` gives what a Program gives there, as an array or a text of the error."""

    def __init__(self, python: str):
        self.python = python
        self._start()

    def _start(self) -> None:
        command = [self.python, str(HERE / "baseline.py")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, program: dict[str, Any], seed: int) -> np.ndarray | str:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps({"program": program, "seed": seed}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:  # it crashed, which is no finding of ours
            self._start()
            return "the baseline's process ended"
        found = json.loads(line)
        return found["error"] if "error" in found else np.array(found["values"]).reshape(found["shape"])

    def close(self) -> None:
        self.process.kill()


def answer(request: dict[str, Any], run: Callable[..., Any]) -> dict[str, Any]:
    try:
        found = np.asarray(run(request), np.float64)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    return {"values": found.ravel().tolist(), "shape": found.shape}


def main() -> None:
    """Answer each line of standard input."""
    sys.path.insert(0, str(HERE))
    import expressions
    import jax

    jax.config.update("jax_enable_x64", True)

    def run(request: dict[str, Any]) -> Any:
        program = expressions.Program.of(request["program"])
        return expressions.function(program, jax)(*map(jax.numpy.asarray, expressions.operands(program, request["seed"])))

    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), run)), flush=True)


if __name__ == "__main__":
    main()
