"""JAX's guides to Pallas on this package: each block of their code is run, and docs/pallas_guides.md made of it.

    python -m benchmarks.compatibility.pallas_guides ~/jax [--only tpu/matmul] [--limit SECONDS]

The argument is a checkout of JAX's repository. The blocks of a guide run in order, in a process of its own under the
name `jax`, with eight virtual CPU devices. A block whose kernels this machine has no way to run is run once more in
the interpreter, for the target that its guide is about.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tilewright import config

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pallas_guides.md"
RESULTS = Path(__file__).with_suffix(".json")
TARGETS = {"gpu/blackwell_matmul": "cuda:sm_100", "gpu": "cuda:sm_90", "": "tpu:v5e"}
GUIDES = ("quickstart", "pipelining", "grid_blockspec", "tpu/quickstart", "tpu/matmul", "tpu/pipelining", "tpu/sparse",
          "tpu/core_map", "tpu/distributed", "tpu/sparsecore", "gpu/quickstart", "gpu/pipelining",
          "gpu/collective_matmul", "gpu/blackwell_matmul")  # fmt: skip
FENCE = re.compile(r"^(?P<indent>[ \t]*)```(?:\{code-cell\}|python)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.M | re.S)
USUAL = """
import dataclasses, functools, itertools, math
from collections.abc import Callable, Sequence
from functools import partial
import jax, numpy as np
from jax import lax, numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu, tpu as pltpu
"""
HEAD = """# JAX's guides to Pallas

Made by `python -m benchmarks.compatibility.pallas_guides`: the code of JAX's guides to Pallas, run block by block
[under the name `jax`](clients.md) on a CPU, with eight virtual devices. What the CPU has no way to run is run in the
interpreter for the guide's target. Blocks that are no programs (signatures, pseudocode, pieces that use names that the
guide does not define) are not counted.

"""
REASONS: Sequence[tuple[str, str]] = (  # a pattern of the error, and why it is not run
    (
        "tpu_sc|SparseCore|sparsecore: A|core_map: AssertionError: $",
        "kernels run on TensorCores only, not on SparseCores",
    ),
    ("Please run this notebook with TPU", "the guide asserts that the device is a TPU"),
    ("prefetched operand 0", "the guide's kernel reads one element past the end of a prefetched operand"),
    ("RaceError.*comes back to a block", "the guide's example of a wrong kernel, which is an error here"),
    ("RaceError", "warpgroups of the guide's kernel store each other's results without a barrier between them"),
    ("TPUMemorySpace|'devices'", "a name that JAX has no more"),
    ("shapes for broadcasting: .32768|reshape to .8, 4096", "goes on from the result of a block that fails"),
    ("distributed: TimeoutError", "an array of 4 GB takes longer than the limit on a CPU"),
    ("delay_release", "a keyword that JAX moved to `BlockSpec` since"),
    ("TimeoutError", "products that the guide times on a TPU take longer than the limit on a CPU"),
)


class Block(NamedTuple):
    """What became of a block of code, which begins at a line of its guide."""

    line: int
    how: str  # "runs", "interpreted", "no program", "follows" (one that failed) or "fails"
    error: str = ""


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """The blocks of Python of a guide: cells of notebooks, fenced code and sessions of the interpreter."""
    for found in FENCE.finditer(text):
        indent = len(found["indent"])
        lines = [line[indent:] for line in found["code"].split("\n")]
        if any(line.startswith(">>> ") for line in lines):
            lines = [line[4:] for line in lines if line.startswith((">>>", "..."))]
        while lines and lines[0].startswith(":"):  # options of a cell
            del lines[0]
        if lines[0] == "---":
            del lines[: lines.index("---", 1) + 1]
        yield text.count("\n", 0, found.start()) + 1, "\n".join(lines)


def binds(code: str) -> set[str]:
    """The names that a block defines."""
    found = set[str]()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(name.asname or name.name).partition(".")[0] for name in node.names}
    return found


def run_here(guide: str, path: Path, limit: int) -> None:
    """Run the blocks of a guide in this process, and print what becomes of each as a line of JSON."""
    warnings.simplefilter("ignore")
    module = sys.modules[guide] = ModuleType(guide)  # dataclasses look their module up
    space = vars(module)
    exec(USUAL, space)
    lost = set[str]()
    for line, code in blocks(path.read_text()):
        try:
            names = binds(code)
        except SyntaxError:
            print(json.dumps(Block(line, "no program")), flush=True)
            continue
        found = run_block(guide, line, code, space, limit)
        name = re.match(r"NameError: name '(\w+)'", found.error)
        if name and name[1] in lost:
            found = found._replace(how="follows")
        elif name or re.search(r"is Ellipsis|no out_shape", found.error):
            found = found._replace(how="no program")
        if found.how not in ("runs", "interpreted"):
            lost |= names - space.keys()
        print(json.dumps(found), flush=True)


def run_block(guide: str, line: int, code: str, space: dict[str, Any], limit: int) -> Block:
    """Run a block as it is; where the CPU has no way to, in the interpreter for the target of its guide."""
    target = next(t for name, t in TARGETS.items() if guide.startswith(name))
    name = f"<{guide}:{line}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    ways: list[tuple[str, dict[str, Any]]] = [
        ("runs", {}), ("interpreted", {"interpret": True, "kernel_target": target}),
    ]  # fmt: skip
    errors: list[str] = []
    for how, settings in ways:
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            with config(**settings), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, name, "exec"), space)
            return Block(line, how)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}"[:400])
            if not errors[-1].startswith("UnsupportedError"):
                break
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return Block(line, "fails", errors[-1])


def reason(guide: str, block: Block) -> str:
    """Why a block fails; its error where that is not stated."""
    return next(
        (why for pattern, why in REASONS if re.search(pattern, f"{guide}: {block.error}")), f"`{block.error[:120]}`"
    )


def page(results: Mapping[str, Sequence[Block]]) -> str:
    """The table of the guides, and below it the blocks that fail, with reasons."""
    lines = ["| guide | programs | run | of these interpreted | fail | need a block that fails |",
             "| --- | --: | --: | --: | --: | --: |"]  # fmt: skip
    failing: list[str] = []
    for guide, found in results.items():
        n = Counter(block.how for block in found)
        counts = (len(found) - n["no program"], n["runs"] + n["interpreted"], n["interpreted"], n["fails"],
                  n["follows"])  # fmt: skip
        lines.append(f"| {' | '.join([guide, *map(str, counts)])} |")
        failing += [f"- {guide}.md, line {b.line}: {reason(guide, b)}" for b in found if b.how == "fails"]
    return HEAD + "\n".join([*lines, "", "## What fails, and why", "", *failing]) + "\n"


def late(*_: Any) -> None:
    raise TimeoutError


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="a checkout of JAX's repository")
    parser.add_argument("--only", help="the guides whose names have this in them")
    parser.add_argument("--limit", type=int, default=60, help="seconds of the CPUs for each block (default 60)")
    parser.add_argument("--guide", help=argparse.SUPPRESS)  # in the process of one guide
    options = parser.parse_args()
    folder = options.checkout.resolve() / "docs" / "pallas"
    if options.guide:
        signal.signal(signal.SIGPROF, late)
        return run_here(options.guide, folder / f"{options.guide}.md", options.limit)
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for guide in (g for g in GUIDES if options.only is None or options.only in g):
        command = [sys.executable, "-m", "tilewright.as_jax", __file__, str(options.checkout), "--guide", guide,
                   "--limit", str(options.limit)]  # fmt: skip
        done = subprocess.run(command, env={**os.environ, "JAX_NUM_CPU_DEVICES": "8"}, capture_output=True, text=True)
        known[guide] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        for block in (Block(*b) for b in known[guide]):
            print(f"{guide}.md:{block.line}: {block.how} {block.error.partition(chr(10))[0]}", flush=True)
        RESULTS.write_text(json.dumps({g: known[g] for g in GUIDES if g in known}, indent=1) + "\n")
        PAGE.write_text(page({g: [Block(*b) for b in known[g]] for g in GUIDES if g in known}))


if __name__ == "__main__":
    main()
