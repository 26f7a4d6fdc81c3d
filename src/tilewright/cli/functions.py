"""`tilewright explain FILE::NAME` and `tilewright visualize FILE::NAME`: a function of a file, looked at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ..explanation.report import explain
from ..export.command import function_and_types
from ..lang.frontend.visualize import visualize


def add_to(commands: Any) -> None:
    """Add the commands to those of `tilewright`."""
    text = "kernels, memory traffic, bottleneck and proofs of a function"
    one = commands.add_parser("explain", help=text)
    _add_function(one)
    one.add_argument("--target", help="a device such as cuda:sm_90 or tpu:v5e, for the roofline")
    one.add_argument("--compile", action="store_true", help="compile for the target, and report its resources")
    one.add_argument("--assembly", action="store_true", help="print the assembly of kernels that are machine code")
    one.add_argument("-o", "--out", type=Path, help="write the report to a .html or .txt file")
    two = commands.add_parser("visualize", help="a picture of the blocks of a function's first kernel")
    _add_function(two)
    two.add_argument("-o", "--out", type=Path, help="a .svg file, or a .html file with a slider (by default NAME.svg)")


def _add_function(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("function", metavar="FILE::NAME", help="a function in a Python file")
    parser.add_argument("--shape", action="append", default=[], metavar="f32[8,128]", help="an argument, in order")


def run_explain(options: argparse.Namespace, console: Console) -> int:
    """Print the report, or write it to a file."""
    function, args = function_and_types(options.function, options.shape)
    found = explain(function, *args, target=options.target, compile=options.compile, assembly=options.assembly)
    if options.out is not None:
        found.save(options.out)
        console.print(Text(f"{found.counts()}: {options.out}"), soft_wrap=True)
    else:
        console.print(Text(str(found)), soft_wrap=True)
    return 0


def run_visualize(options: argparse.Namespace, console: Console) -> int:
    """Draw the first kernel into a file."""
    function, args = function_and_types(options.function, options.shape)
    path = options.out or Path(f"{options.function.rpartition('::')[2]}.svg")
    visualize(function, *args, path=path)
    console.print(Text(f"drawn: {path}"), soft_wrap=True)
    return 0
