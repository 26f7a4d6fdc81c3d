"""A debugger that stops within compiled programs: `debug.breakpoint`.

Where the function is traced, the user's frames are noted: their lines, and their variables, of which the traced ones
are operands of a callback. When the program runs, the callback fills in the values and reads commands from a terminal.
"""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TextIO

from ..core.ir.types import ArrayType
from ..core.primitives.external.host_callback import debug_callback
from ..core.support import pytree
from ..core.support.errors import ArgumentError, BreakpointError, Source, is_internal
from ..core.tracing.trace import Tracer, typeof

AROUND = 5  # lines shown before and after the one at hand


class _Frame:
    """A frame of the user's stack, with the places of its traced variables among the callback's operands."""

    def __init__(self, frame: FrameType, operands: list[Any]):
        code = frame.f_code
        self.file, self.line, self.name = code.co_filename, frame.f_lineno, code.co_name
        self.globals = frame.f_globals
        self.source = Source(code, frame.f_lasti)
        # Those of a module are its globals, and not of interest to what is compiled.
        found = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
        self.locals = {name: _held(value, operands) for name, value in found.items()}

    def values(self, operands: Sequence[Any]) -> dict[str, Any]:
        """The frame's variables, given the operands' values."""
        return {name: rebuild(operands) for name, rebuild in self.locals.items()}

    def show(self) -> str:
        return f"> {self.file}({self.line}){self.name}()"

    def lines(self, around: int = AROUND) -> list[str]:
        """The source around the frame's line, which is marked."""
        numbers = range(max(1, self.line - around), self.line + around + 1)
        found = [(n, linecache.getline(self.file, n)) for n in numbers]
        return [f"{n:4d} {'->' if n == self.line else '  '} {text.rstrip()}" for n, text in found if text]


def _held(value: Any, operands: list[Any]) -> Callable[[Sequence[Any]], Any]:
    """What gives a variable again: traced arrays within it become operands, all else stays as it is."""
    try:
        leaves, structure = pytree.flatten(value)
    except Exception:  # no pytree, such as a dictionary whose keys have no order
        return lambda _: value
    places = {i: len(operands) + n for n, i in enumerate(i for i, x in enumerate(leaves) if _is_traced(x))}
    if not places:
        return lambda _: value
    operands += [leaves[i] for i in places]
    return lambda given: structure.unflatten([given[places[i]] if i in places else x for i, x in enumerate(leaves)])


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tracer) and isinstance(typeof(x), ArrayType) and not x._trace.done


def _frames(operands: list[Any], filtered: bool, limit: int | None) -> list[_Frame]:
    """The frames of the caller, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    found: list[_Frame] = []
    while frame is not None and (limit is None or len(found) < limit):
        if not (filtered and is_internal(frame.f_code)):
            found.append(_Frame(frame, operands))
        frame = frame.f_back
    return found


class _Debugger(cmd.Cmd):
    """Commands on the frames of one stop."""

    prompt = "(tdb) "

    def __init__(self, frames: list[tuple[_Frame, dict[str, Any]]], stdin: TextIO | None, stdout: TextIO | None):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames, self.at = frames, 0

    def say(self, text: str) -> None:
        self.stdout.write(text + "\n")
        self.stdout.flush()

    @property
    def frame(self) -> _Frame:
        return self.frames[self.at][0]

    def preloop(self) -> None:
        self.say("Stopped at a breakpoint; `help` lists the commands.")
        self.where()

    def where(self) -> None:
        self.say("\n".join([self.frame.show(), *self.frame.lines(2)]))

    def value(self, text: str) -> Any:
        frame, variables = self.frames[self.at]
        return eval(text, {**frame.globals, **variables})  # as in any debugger: the user's own words

    def shown(self, text: str, show: Callable[[Any], str]) -> None:
        try:
            self.say(show(self.value(text)))
        except Exception as error:
            self.say(f"*** {type(error).__name__}: {error}")

    # ------------------------------------------------------------ commands

    def do_p(self, arg: str) -> None:
        """p expression: print the value of an expression"""
        self.shown(arg, repr)

    def do_pp(self, arg: str) -> None:
        """pp expression: print the value of an expression, laid out"""
        self.shown(arg, pprint.pformat)

    def do_args(self, arg: str) -> None:
        """args: print the variables of the frame"""
        for name, value in self.frames[self.at][1].items():
            self.say(f"{name} = {value!r}")

    def do_list(self, arg: str) -> None:
        """list: print the source around the frame's line"""
        self.say("\n".join(self.frame.lines()))

    def do_bt(self, arg: str) -> None:
        """bt: print the frames, the innermost last"""
        for number, (frame, _) in reversed([*enumerate(self.frames)]):
            self.say(("* " if number == self.at else "  ") + frame.show()[2:])

    def move(self, to: int) -> None:
        if not 0 <= to < len(self.frames):
            self.say("*** the outermost frame" if to > 0 else "*** the innermost frame")
            return
        self.at = to
        self.where()

    def do_up(self, arg: str) -> None:
        """up: go to the frame that called this one"""
        self.move(self.at + 1)

    def do_down(self, arg: str) -> None:
        """down: go to the frame that this one called"""
        self.move(self.at - 1)

    def do_continue(self, arg: str) -> bool:
        """continue: let the program run on"""
        return True

    def do_quit(self, arg: str) -> bool:
        """quit: end the program with an error"""
        raise BreakpointError("the program was ended at a breakpoint", "`continue` lets it run on", self.frame.source)

    def default(self, line: str) -> None:
        self.shown(line, repr)

    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit
    do_u, do_d, do_l, do_a, do_where = do_up, do_down, do_list, do_args, do_bt


def breakpoint(
    *, backend: str | None = None, filter_frames: bool = True, num_frames: int | None = None, ordered: bool = False,
    token: Any = None, stdin: TextIO | None = None, stdout: TextIO | None = None,
) -> None:  # fmt: skip
    """Stop where the program runs and read commands: `p`, `pp`, `up`, `down`, `list`, `bt`, `args`, `continue`, `quit`.

    It works in eager code and within `jit`, `grad`, loops and interpreted kernels; under `vmap` it stops for each
    element. The frames are those of the trace, the `num_frames` innermost ones, without this package's own unless
    `filter_frames=False`; traced arrays are seen as NumPy arrays. `stdin` and `stdout` are files to use in place of the
    terminal.

    Raises:
      BreakpointError: there is no terminal, or the program was ended by `quit`.

    >>> import io, tilewright as tw
    >>> def f(x):
    ...     tw.debug.breakpoint(stdin=io.StringIO("p x + 1\\ncontinue\\n"), num_frames=1)
    ...     return x
    >>> y = f(2.0)
    Stopped at a breakpoint...
    """
    if backend not in (None, "cli"):
        raise ArgumentError(f"debug.breakpoint has no backend {backend!r}", "it reads from the terminal: 'cli'")
    if stdin is None and not (sys.stdin is not None and sys.stdin.isatty()):
        raise BreakpointError(
            "debug.breakpoint without a terminal: the standard input is none",
            "run the program in a terminal, pass `stdin=`, or use `debug.print` and `debug.callback`")  # fmt: skip
    operands: list[Any] = []
    frames = _frames(operands, filter_frames, num_frames)

    def stop(*values: Any) -> None:
        found = [(frame, frame.values(values)) for frame in frames]
        if found:
            _Debugger(found, stdin, stdout).cmdloop()

    debug_callback(stop, *operands, ordered=ordered)
