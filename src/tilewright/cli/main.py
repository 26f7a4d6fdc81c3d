"""The command `tilewright`: its commands, and errors without a traceback."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..as_jax import clients
from ..bench import command as bench_command
from ..core.support.config import config
from ..core.support.errors import TilewrightError
from ..core.support.version import __version__
from ..export import command as export_command
from ..tuning import command as tune_command
from . import completion, doctor, functions, launch

_PACKAGE = str(Path(__file__).resolve().parents[1])

COMMANDS: dict[str, Callable[[argparse.Namespace, Console], int]] = {
    "doctor": doctor.run,
    "explain": functions.run_explain,
    "visualize": functions.run_visualize,
    "tune": tune_command.run,
    "bench": bench_command.run,
    "export": export_command.run,
    "launch": lambda options, console: launch.run(options),
    "clients": clients.run,
}


def _reported(run: Callable[[argparse.Namespace, Console], int], options: argparse.Namespace, console: Console) -> int:
    """Run a command; an error is printed without a traceback, and gives 2. Warnings are printed once, at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            code = run(options, console)
        except KeyboardInterrupt:
            console.print(Text("interrupted", style="red"))
            code = 130
        except Exception as error:
            if config.traceback_filtering == "off":
                raise
            console.print(Text("\n".join(lines_of(error)), style="red"), soft_wrap=True)
            code = 2
    for text in dict.fromkeys(str(w.message) for w in caught):
        console.print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)
    return code


def lines_of(error: Exception) -> list[str]:
    """An error as the command line prints it: what, the user's line, and the remedy."""
    if isinstance(error, TilewrightError):
        ours = error.source is None or _is_command(error.source.code.co_filename)
        return [error.what, *(() if ours else (f"at: {error.source}",)), f"remedy: {error.remedy}"]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((_PACKAGE, "<"))]
    where = [f"at: {frames[-1].filename}:{frames[-1].lineno} ({frames[-1].name})"] if frames else []
    full = "TILEWRIGHT_TRACEBACK_FILTERING=off shows the traceback"
    return [f"{type(error).__name__}: {error}", *where, full]


def _is_command(file: str) -> bool:
    """Whether a file is the script that runs this command, which may be called by a relative path."""
    return os.path.abspath(file) == os.path.abspath(sys.argv[0])


def parser_of() -> argparse.ArgumentParser:
    """The parser of all commands."""
    about = "Kernels in Python, and the array framework on them."
    parser = argparse.ArgumentParser(prog="tilewright", description=about)
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    adders = (doctor, functions, tune_command, bench_command, launch, export_command, clients, completion)
    for module in adders:
        module.add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with arguments as given on the command line.

    >>> main(["--version"])
    tilewright 0.2.0
    0
    """
    parser = parser_of()
    arguments = sys.argv[1:] if arguments is None else arguments
    known = [*COMMANDS, "completion"]
    if arguments and arguments[0] not in known and (near := difflib.get_close_matches(arguments[0], known, 1)):
        parser.error(f"there is no command {arguments[0]!r}; did you mean {near[0]!r}?")
    options = parser.parse_args(arguments)
    if options.version:
        print(f"tilewright {__version__}")
        return 0
    if options.command == "completion":
        print(completion.script(options.shell, parser), end="")
        return 0
    if options.command is not None:
        return _reported(COMMANDS[options.command], options, Console())
    parser.print_help(sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
