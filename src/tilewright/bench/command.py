"""`tilewright bench`: a function of a file in several libraries, or two results compared."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from .. import numpy as tnp
from ..core.ir.types import is_inexact
from ..core.support.errors import ArgumentError
from ..export.command import function_and_types


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `tilewright`."""
    parser = commands.add_parser("bench", help="time FILE::NAME, alone or in several libraries, or: compare OLD NEW")
    parser.add_argument("what", nargs="+", help="FILE::NAME, or `compare` and two JSON files")
    parser.add_argument("--shape", action="append", default=[], metavar="f32[8,128]",
                        help="an argument, in order: the function itself is timed on random values")  # fmt: skip
    parser.add_argument("--peers", help="libraries, with commas; by default all that are installed")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--save", action="append", default=[], help="a .json, .csv, .txt or .png file")


def run(options: argparse.Namespace, console: Console) -> int:
    """Do what the command line says; 1 where something got slower, or cannot be done."""
    from . import changes, peers, result
    from . import run as run_

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
        if options.shape:
            function, types = function_and_types(what, options.shape)
            rows = run_.benchmark(function, *map(_filled, types), rounds=options.rounds)
        else:
            rows = peers.benchmark_file(what, options.peers.split(",") if options.peers else None, options.rounds)
        console.print(Text(f"{what}\n{rows}"), soft_wrap=True)
        for path in options.save:
            rows.save(path)
    return 0


def _filled(type_: Any) -> Any:
    """An argument of a shape and dtype: normally distributed, or integers from 0 to 7."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(type_.shape) if is_inexact(type_.dtype) else rng.integers(0, 8, type_.shape)
    return tnp.asarray(values.astype(type_.dtype))
