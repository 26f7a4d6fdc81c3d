"""All benchmarks by one command.

    python -m benchmarks                                    lists the suites
    python -m benchmarks spine fft --rounds 5 --only "eager a + b"
    python -m benchmarks tuning --budget 30                 a suite that is a script takes its own options
    python -m benchmarks compare OLD.json NEW.json          what got slower, as `tilewright bench compare` says

Results go to `benchmarks/results/`, with the description of the machine. Eight rounds of each side are the least from
which `compare` can tell a change.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.bench import compare as changes

from . import rounds

HERE = Path(__file__).resolve().parent
NO_SUITES = ("harness", "rounds")


def suites() -> dict[str, tuple[str, bool]]:
    """Each suite with what it says of itself, and whether it is a list of cases against a baseline."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        if path.stem not in NO_SUITES and not path.stem.startswith("__"):
            text = path.read_text()
            of_cases = "\nCASES" in text and "__main__" not in text
            if of_cases or "__main__" in text:
                found[path.stem] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0], of_cases
    for script in (HERE / name / "__main__.py" for name in ("cpu", "flagging", "machine_code", "split_operations")):
        found[script.parent.name] = (ast.get_docstring(ast.parse(script.read_text())) or "").partition("\n")[0], False
    return found


def run_cases(suite: str, options: argparse.Namespace) -> int:
    """Measure the cases of a suite, and show and keep each when it is measured."""
    from rich.console import Console
    from rich.progress import Progress

    cases = importlib.import_module(f"benchmarks.{suite}").CASES
    cases = [c for c in cases if not options.only or any(text in c.name for text in options.only)]
    pythons = {"tilewright": sys.executable, "jax": options.baseline_python}
    console, found = Console(), []
    width = max((len(case.name) for case in cases), default=0)
    with tempfile.TemporaryDirectory() as cache, Progress(console=console) as progress:
        task = progress.add_task("", total=2 * options.rounds * len(cases))
        for n, case in enumerate(cases, 1):
            progress.update(task, description=case.name)
            tick = lambda: progress.advance(task)  # noqa: E731
            found.append(rounds.run_case(suite, case, options.rounds, pythons, cache, tick))
            progress.update(task, completed=2 * options.rounds * n)
            rounds.show(found[-1], console, width)
            if not found[-1].error:
                rounds.write(suite, found[-1:])
    if any(one.error for one in found):
        return 2
    return 1 if options.check and not all(one.met for one in found) else 0


def compare(old: str, new: str) -> int:
    """Say what changed between two files of results, beyond the noise; 1 where something got slower."""
    before, after = rounds.kept(old), rounds.kept(new)
    slower = 0
    for name in [name for name in after if name in before]:
        for change in changes(before[name], after[name]):
            slower += change.verdict == "slower"
            print(f"{name}: {change}")
    return int(slower > 0)


def main(arguments: Sequence[str]) -> int:
    known = suites()
    if arguments[:1] == ["compare"] and len(arguments) == 3:
        return compare(*arguments[1:])
    if arguments and arguments[0] in known and not known[arguments[0]][1]:
        sys.argv = [f"python -m benchmarks.{arguments[0]}", *arguments[1:]]
        runpy.run_module(f"benchmarks.{arguments[0]}", run_name="__main__", alter_sys=True)
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("suites", nargs="*", help="none: list them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="cases whose name contains this")
    parser.add_argument("--baseline-python", default=sys.executable, help="the interpreter that has jax")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a wanted ratio is missed")
    options = parser.parse_args(arguments)
    cases = [name for name, (_, of_cases) in known.items() if of_cases]
    for name in options.suites:
        if name not in cases:
            parser.error(f"{name!r} is no suite of cases: one of {', '.join(cases)}")
    if not options.suites:
        width = max(map(len, known))
        print("\n".join(f"{name:<{width}}  {what}" for name, (what, _) in known.items()))
    return max((run_cases(suite, options) for suite in options.suites), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
