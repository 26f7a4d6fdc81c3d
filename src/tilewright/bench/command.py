"""`tilewright bench`: a function of a file in several libraries, or two results compared."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from ..core.support.errors import ArgumentError


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `tilewright`."""
    parser = commands.add_parser("bench", help="time FILE::NAME in several libraries, or: compare OLD NEW")
    parser.add_argument("what", nargs="+", help="FILE::NAME, or `compare` and two JSON files")
    parser.add_argument("--peers", help="libraries, with commas; by default all that are installed")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--save", action="append", default=[], help="a .json, .csv, .txt or .png file")


def run(options: argparse.Namespace, console: Console) -> int:
    """Do what the command line says; 1 where something got slower, or cannot be done."""
    from . import changes, peers, result

    if options.what[0] == "compare":
        if len(options.what) != 3:
            count = len(options.what) - 1
            raise ArgumentError(f"compare takes two files, got {count}", "tilewright bench compare OLD.json NEW.json")
        old, new = (result.load(path) for path in options.what[1:])
        found = changes.compare(old, new)
        for what, before, after in changes.other_machine(old, new):
            console.print(Text(f"not the same {what}: {before}, and now {after}", style="yellow"))
        if not found:
            console.print(Text("the two have no row in common", style="yellow"))
        for change in found:
            console.print(Text(str(change), style={"slower": "red", "faster": "green"}.get(change.verdict, "")))
        return int(any(change.verdict == "slower" for change in found))
    for path in options.save:
        result.check_path(path)
    for what in options.what:
        rows = peers.benchmark_file(what, options.peers.split(",") if options.peers else None, options.rounds)
        console.print(Text(f"{what}\n{rows}"), soft_wrap=True)
        for path in options.save:
            rows.save(path)
    return 0
