"""`tilewright tune ...`: what was measured, listed, shown, dropped, carried to and from files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ..core.support.console_rows import print_rows
from . import tables
from .report import shown
from .space import Configuration
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
    if options.act == "export":
        console.print(f"{tables.write(options.file, store)} entries written to {options.file}")
    elif options.act == "merge":
        for file in options.file:
            console.print(f"{tables.merge(tables.read(file), store)} entries of {file} taken in")
    elif options.act == "clear":
        if not options.function and store.remove_damaged():
            console.print(f"{store.path} was damaged, and is removed", soft_wrap=True)
            return 0
        names = dict.fromkeys(p.function for p, _ in _named(store, options.function)) if options.function else [None]
        console.print(f"{sum(store.forget(name) for name in names)} trials dropped")
    else:
        _listed(store, options, console)
    return 0


def _named(store: Store, name: str) -> Sequence[tuple[Problem, int]]:
    return [(p, count) for p, count in store.problems() if name in p.function.partition(":")[0]]


def _listed(store: Store, options: argparse.Namespace, console: Console) -> None:
    name = getattr(options, "function", "")
    found = _named(store, name)
    if not found:
        console.print(f"nothing was measured yet{f' of {name!r}' if name else ''} (in {store.path})", soft_wrap=True)
    elif options.act == "show":
        for problem, _ in found:
            _show(store, problem, console)
    else:
        rows = []
        for problem, count in found:
            name = problem.function.partition(":")[0].rpartition(".")[2]
            trials = [(c, s) for c, s, _ in store.trials(problem) if s is not None]
            cells = [x for c in (_chosen(store, problem), trials[0][0] if trials else None) for x in _cells(c, trials)]
            chosen, fastest = (" ".join(filter(None, cells[i : i + 2])) for i in (0, 2))
            rows.append([name, _shapes(problem), str(count), chosen, fastest])
        print_rows(console, ("function", "arguments", "trials", "chosen", "fastest"), rows)


def _chosen(store: Store, problem: Problem) -> Configuration | None:
    """What calls use, as far as the store says."""
    known = store.best(problem)
    return None if known is None else known[0]


def _cells(configuration: Configuration | None, trials: Sequence[tuple[Configuration, float]]) -> tuple[str, str]:
    if configuration is None:
        return "-", ""
    return shown(configuration), next((_ms(s) for c, s in trials if c == configuration), "")


def _show(store: Store, problem: Problem, console: Console) -> None:
    console.print(Text(f"{problem.function}  {_shapes(problem)}  on {problem.device}", style="bold"), soft_wrap=True)
    chosen = _chosen(store, problem)
    for configuration, seconds, why in store.trials(problem):
        told = _ms(seconds) if seconds else f"refused: {why}"
        mark = "  chosen" if configuration == chosen else ""
        console.print(Text(f"  {shown(configuration):<32} {told}{mark}"), soft_wrap=True)


def _shapes(problem: Problem) -> str:
    dtypes = problem.dtypes.split(",")
    return " ".join(f"{d}{list(s)}".replace(" ", "") for d, s in zip(dtypes, problem.shapes))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"
