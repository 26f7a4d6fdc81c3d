"""`tilewright export`: a function of a file as an export, or as it is after a pass of compilation."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ..compiler.pipeline import PIPELINE, STAGES
from ..compiler.pipeline import compile as compile_to
from ..core.api.transformations import ShapeDtypeStruct
from ..core.ir.symbolic.scope import SymbolicScope, symbolic_shape
from ..core.support.errors import ArgumentError
from .exporting import export

_SPEC = re.compile(r"\s*([a-z]+[0-9a-z_]*)\s*\[(.*)\]\s*")
_SHORT = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


def add_to(commands: Any) -> None:
    """Enter the command."""
    text = "a function as StableHLO that other processes call, jax's among them"
    one = commands.add_parser("export", help=text)
    one.add_argument("function", metavar="FILE::NAME", help="a function in a Python file")
    one.add_argument("--shape", action="append", default=[], metavar="f32[b,128]", help="an argument, in order")
    one.add_argument("--constraint", action="append", default=[], metavar="'b >= 8'", help="what holds of the symbols")
    one.add_argument("--target", action="append", default=[], help="a platform, or a device such as tpu:v5e")
    one.add_argument("--vjp", type=int, default=0, metavar="ORDER", help="derivatives to write as well")
    passes = [p.name for p in PIPELINE]
    one.add_argument("--stop", choices=[*passes, *STAGES], metavar="PASS",
                     help=f"print the program after one of {', '.join(passes)}")  # fmt: skip
    one.add_argument("-o", "--out", type=Path, help="the file to write (by default NAME.stablehlo)")


def argument(text: str, scope: SymbolicScope) -> ShapeDtypeStruct:
    """An argument by its text.

    Raises:
      ArgumentError: the text is not of that form.

    >>> argument("f32[b,128]", SymbolicScope()).shape
    (b, 128)
    """
    found = _SPEC.fullmatch(text)
    if found is None:
        raise ArgumentError(f"--shape {text!r} is not a dtype with sizes", "write it as in f32[b,128] or bfloat16[8]")
    name, sizes = found.groups()
    short = re.fullmatch(r"([fiuc])(\d+)", name)
    dtype = "bfloat16" if name == "bf16" else _SHORT[short[1]] + short[2] if short else name
    return ShapeDtypeStruct(symbolic_shape(sizes, scope=scope) if sizes.strip() else (), dtype)


def arguments_of(function: Any, texts: Sequence[str], scope: SymbolicScope) -> list[ShapeDtypeStruct]:
    """The arguments of a function by their texts.

    Raises:
      ArgumentError: the function requires more of them, or takes fewer.

    >>> [a.shape for a in arguments_of(lambda x, y: x, ["f32[2]", "i32[]"], SymbolicScope())]
    [(2,), ()]
    """
    args = [argument(text, scope) for text in texts]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return args
    try:
        signature.bind(*args)
    except TypeError as error:
        call = f"{getattr(function, '__name__', 'the function')}{signature}"
        count = len(args) or "no"
        raise ArgumentError(f"{call} with {count} argument{'' if len(args) == 1 else 's'}: {error}",
                            "give each a --shape, in order: --shape 'f32[8,128]'") from None  # fmt: skip
    return args


def function_of(place: str) -> Any:
    """The function that FILE::NAME names.

    Raises:
      ArgumentError: there is no such file, or it has no such name.
    """
    path, name = file_and_name(place)
    file = str(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{file} is not a Python file", "FILE::NAME, where FILE ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.resolve().parent))  # as for a script: what lies beside it may be imported
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        names = [n for n, x in vars(module).items() if getattr(x, "__module__", None) == path.stem and callable(x)]
        near = difflib.get_close_matches(name, names, 1)
        remedy = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names) or 'none'}"
        raise ArgumentError(f"{file} has no function {name!r}", remedy)
    return found


def file_and_name(place: str) -> tuple[Path, str]:
    """The parts of FILE::NAME.

    Raises:
      ArgumentError: there is no such file, or no name.
    """
    file, _, name = place.partition("::")
    if not Path(file).is_file():
        raise ArgumentError(f"there is no file {file!r}", f"FILE::NAME takes a path from {os.getcwd()}")
    if not name:
        raise ArgumentError(f"{place!r} names no function", f"write {file}::NAME, with the name of a function in it")
    return Path(file), name


def function_and_types(place: str, shapes: Sequence[str]) -> tuple[Any, list[ShapeDtypeStruct]]:
    """The function that FILE::NAME names, and its arguments by their texts.

    Raises:
      ArgumentError: there is no such function, it takes other arguments, or a size is symbolic.
    """
    function = function_of(place)
    args = arguments_of(function, shapes, SymbolicScope(()))
    for text, arg in zip(shapes, args, strict=True):
        if not all(isinstance(n, int) for n in arg.shape):
            raise ArgumentError(f"--shape {text!r} has a symbolic size", "give numbers, as in f32[8,128]")
    return function, args


def run(options: argparse.Namespace, console: Console) -> int:
    """Export, or print; 0 where that went well."""
    function, scope = function_of(options.function), SymbolicScope(options.constraint)
    args = arguments_of(function, options.shape, scope)
    if options.stop:
        targets: Sequence[str | None] = options.target or [None]
        for target in targets:
            console.print(str(compile_to(function, *args, target=target, stop=options.stop)), markup=False,
                          highlight=False, soft_wrap=True)  # fmt: skip
        return 0
    made = export(function, platforms=options.target or None)(*args)
    data = made.serialize(options.vjp)
    out = options.out or Path(f"{made.fun_name}.stablehlo")
    out.write_bytes(data)
    console.print(f"{made}: {len(data):,} bytes in {out}", markup=False, highlight=False, soft_wrap=True)
    return 0
