"""Answers programs and calls by jax: a script of the baseline's interpreter, which imports nothing of Tilewright."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import jax
from baseline import answered, call_by
from expressions import Program, array, function, operands

SPACES = ("numpy", "numpy.fft", "numpy.linalg", "lax", "lax.linalg", "nn", "ops", "scipy.special", "scipy.linalg",
          "scipy.stats", "scipy.signal", "scipy.ndimage", "scipy.fft")  # fmt: skip


def run(line: str) -> Any:
    """The result of a request."""
    request = json.loads(line)
    jax.config.update("jax_enable_x64", "program" in request)
    if "call" in request:
        return call_by(jax, request["call"], array)
    program = Program.of(request["program"])
    return function(program, jax)(*map(jax.numpy.asarray, operands(program, request["seed"])))


if __name__ == "__main__":
    for space in SPACES:
        importlib.import_module(f"jax.{space}")
    for line in sys.stdin:
        print(json.dumps(answered(run, line, jax.tree.leaves)), flush=True)
