"""`tilewright tune ...`: what was measured, listed, shown, dropped, carried to and from files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..core.errors import TuningError
from . import tables
from .report import shown
from .store import Problem, Store


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `tilewright`."""
    parser = commands.add_parser("tune", help="measurements that were kept: list, show, clear, export, merge")
    parser.add_argument("--store", help="the file they are in, by default the user's")
    acts = parser.add_subparsers(dest="act", required=True)
    acts.add_parser("list", help="each function with its shapes, trials and fastest configuration")
    for name, text in (("show", "every trial of a function"), ("clear", "drop the trials of a function, or all")):
        act = acts.add_parser(name, help=text)
        act.add_argument("function", nargs="?" if name == "clear" else None, help="its name, or a part of it")
    acts.add_parser("export", help="write the fastest of everything to a table").add_argument("file")
    acts.add_parser("merge", help="take tables in").add_argument("file", nargs="+")


def run(options: argparse.Namespace, console: Console) -> int:
    """Do what the command line says; 0 if that was possible."""
    store = Store(options.store)
    try:
        if options.act == "export":
            console.print(f"{tables.write(options.file, store)} entries written to {options.file}")
        elif options.act == "merge":
            for file in options.file:
                console.print(f"{tables.merge(tables.read(file), store)} entries of {file} taken in")
        elif options.act == "clear":
            names = dict.fromkeys(p.function for p, _ in _named(store, options.function or ""))
            console.print(f"{sum(store.forget(name) for name in names)} trials dropped")
        else:
            return _listed(store, options, console)
    except TuningError as error:
        console.print(Text(str(error), style="red"))
        return 1
    return 0


def _named(store: Store, name: str) -> Sequence[tuple[Problem, int]]:
    return [(p, count) for p, count in store.problems() if name in p.function.partition(":")[0]]


def _listed(store: Store, options: argparse.Namespace, console: Console) -> int:
    found = _named(store, getattr(options, "function", ""))
    if not found:
        console.print(f"nothing was measured yet (in {store.path})")
        return 0
    for problem, _ in found if options.act == "show" else ():
        console.print(Text(f"{problem.function}  {_shapes(problem)}  on {problem.device}", style="bold"))
        for configuration, seconds, why in store.trials(problem):
            console.print(Text(f"  {shown(configuration):<32} {_ms(seconds) if seconds else f'refused: {why}'}"))
    if options.act == "list":
        table = Table("function", "arguments", "trials", "fastest", "", box=None, padding=(0, 2))
        for problem, count in found:
            best = next(((c, s) for c, s, _ in store.trials(problem) if s is not None), None)
            fastest = ("-", "") if best is None else (shown(best[0]), _ms(best[1]))
            name = problem.function.partition(":")[0].rpartition(".")[2]
            table.add_row(Text(name), _shapes(problem), str(count), *fastest)
        console.print(table)
    return 0


def _shapes(problem: Problem) -> str:
    dtypes = problem.dtypes.split(",")
    return " ".join(f"{d}{list(s)}".replace(" ", "") for d, s in zip(dtypes, problem.shapes))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"
