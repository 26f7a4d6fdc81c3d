"""Random testing: programs, kernels, calls and wrong block specs, each finding made small and written as a script.

    python -m benchmarks fuzz specs --minutes 10
    python -m benchmarks fuzz programs --seed 1000 --minutes 60 --baseline-python ~/jax/bin/python
    python -m benchmarks fuzz kernels --count 500

`programs` nest transformations and are run eagerly, compiled and by jax; `calls` of array functions on other shapes
and dtypes are compared with jax; `kernels` are held against brute force, the interpreter and finite differences, and
walked in their forms for GPUs and TPUs; `specs` are wrong arguments of `kernel_call`, which errors of the catalogue
refuse. Seeds are numbers from `--seed` on. The exit status is 1 if something was found.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUITES: dict[str, tuple[str, bool]] = {  # class, and whether it takes the baseline's interpreter
    "programs": ("Programs", True),
    "kernels": ("Kernels", False),
    "calls": ("Calls", True),
    "specs": ("Specs", False),
}


def suite(name: str, python: str | None) -> Any:
    """A suite by its name: `run(seed)` gives a `Finding` or None."""
    kind, compared = SUITES[name]
    made = getattr(importlib.import_module(f"benchmarks.fuzzing.{name}"), kind)
    return made(python) if compared else made()


def run(name: str, python: str | None, seed: int, going: Callable[[int], bool], folder: Path) -> tuple[int, int]:
    """Run seeds while `going(count)`, printing what is found; how many ran, and how many findings there were."""
    tried, found, start = suite(name, python), 0, seed
    while going(seed - start):
        finding = tried.run(seed)
        if finding is not None:
            found += 1
            path = folder / f"{name}_{seed}.py"
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(f'"""{finding.what}"""\n\n{finding.script}')
            print(f"seed {seed}: {finding.what}\n  {path}", flush=True)
        seed += 1
    return seed - start, found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", choices=[*SUITES])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to draw (default 1)")
    parser.add_argument("--count", type=int, help="how many to draw, whatever time it takes")
    parser.add_argument("--baseline-python", help="an interpreter that has jax")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="where scripts of findings go")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    going = (lambda n: n < options.count) if options.count else (lambda _: time.monotonic() < end)
    count, found = run(options.suite, options.baseline_python, options.seed, going, options.folder)
    print(f"{options.suite}: {count} drawn, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
