"""`debug.breakpoint`, driven through a pseudo-terminal as a person would."""

import io
import os
import select
import subprocess
import sys
import time

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp

PROGRAM = """\
import tilewright as tw
from tilewright import lax, numpy as tnp


def inner(y):
    held = {"twice": y * 2, "n": 3}
    tw.debug.breakpoint()
    return held["twice"]


def outer(x):
    w = x + 1
    return inner(w)


number = 5
print("jit:", tw.jit(outer)(tnp.asarray(1.0)))
print("grad:", tw.grad(tw.jit(outer))(2.0))
print("vmap:", tw.vmap(outer)(tnp.arange(2.0)))
print("scan:", lax.scan(lambda c, x: (c + inner(x), c), 0.0, tnp.asarray([7.0]))[0])
print("eager:", outer(tnp.asarray(4.0)))
tw.jit(outer)(tnp.asarray(9.0)).block_until_ready()
"""
# What is typed at each prompt, and what the answer holds.
TALK = [
    ("p y", "array(2., dtype=float32)"), ("pp held", "'twice': array(4., dtype=float32)"), ("p number", "5"),
    ("down", "the innermost frame"), ("up", "(13)outer()"), ("p w - x", "1.0"), ("list", "  13 ->     return inner(w)"),
    ("bt", "(17)<module>()"), ("args", "x = array(1., dtype=float32)"), ("up", "(17)<module>()"),
    ("up", "the outermost frame"), ("down", "(13)outer()"), ("d", "(7)inner()"), ("p nothing", "*** NameError"),
    ("help p", "print the value"), ("y + 1", "3.0"), ("c", "jit: 4.0"),
    ("p y", "array(3., dtype=float32)"), ("c", "grad: 2.0"),
    ("p y", "array(1., dtype=float32)"), ("continue", "Stopped"), ("p y", "array(2., dtype=float32)"),
    ("c", "vmap: [2. 4.]"), ("p y", "array(7., dtype=float32)"), ("c", "scan: 14.0"),
    ("p y", "Array(5., dtype=float32, weak_type=True)"), ("c", "eager: 10.0"),
    ("q", "BreakpointError: the program was ended at a breakpoint"),
]  # fmt: skip


class Terminal:
    """A program at the other end of a pseudo-terminal."""

    def __init__(self, path):
        pty = pytest.importorskip("pty")
        self.fd, other = pty.openpty()
        environment = os.environ | {"TERM": "dumb"}
        self.process = subprocess.Popen([sys.executable, str(path)], stdin=other, stdout=other, stderr=other,
                                        env=environment, start_new_session=True)  # fmt: skip
        os.close(other)

    def until(self, text, seconds=60):
        """What is written up to and with a text; all that is left, where the program ends before."""
        end, out = time.time() + seconds, b""
        while text.encode() not in out and time.time() < end:
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    out += os.read(self.fd, 4096)
                except OSError:
                    break
        return out.decode().replace("\r", "")

    def type(self, line):
        os.write(self.fd, line.encode() + b"\n")


def test_a_session(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    terminal = Terminal(path)
    start = terminal.until("(tdb) ")
    assert "program.py(7)inner()" in start and "   7 ->     tw.debug.breakpoint()" in start, start
    for typed, wanted in TALK:
        terminal.type(typed)
        answer = terminal.until("(tdb) " if typed != "q" else "\n\n\n", 20)
        assert wanted in answer, (typed, wanted, answer)
    assert "program.py:7 (inner)" in answer
    assert terminal.process.wait(60) == 1
    os.close(terminal.fd)


def stopped(commands, function, *args, **options):
    """What the debugger says to some commands."""
    out = io.StringIO()

    def here(x):
        tw.debug.breakpoint(stdin=io.StringIO(commands), stdout=out, **options)
        return x

    tw.tree.map(lambda x: x.block_until_ready(), function(here)(*args))
    tw.effects_barrier()
    return out.getvalue()


def test_files_in_place_of_a_terminal():
    said = stopped("p x\nup\nc\n", tw.jit, tnp.asarray(3.0), num_frames=1)
    assert "array(3., dtype=float32)" in said and "the outermost frame" in said
    said = stopped("bt\nc\n", tw.jit, tnp.asarray(3.0), filter_frames=False)
    assert f"{os.sep}jit.py(" in said and said.count("test_debugger.py(") >= 2
    assert "jit.py(" not in stopped("bt\nc\n", tw.jit, tnp.asarray(3.0))
    with pytest.raises(tw.errors.ExecutionError, match="ended at a breakpoint"):  # the end of the file
        stopped("p x\n", tw.jit, tnp.asarray(3.0))
    with pytest.raises(tw.errors.BreakpointError, match="ended"):
        stopped("quit\n", lambda f: f, tnp.asarray(3.0))


@pytest.mark.parametrize("interpret", [True, False])
def test_in_a_kernel(interpret):
    out = io.StringIO()

    def body(x_ref, o_ref):
        x = x_ref[...]
        tw.debug.breakpoint(stdin=io.StringIO("p x.sum()\nc\n"), stdout=out)
        o_ref[...] = 2 * x

    x = np.ones((8, 128), np.float32)
    call = tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)
    np.testing.assert_array_equal(call(x), 2 * x)
    tw.effects_barrier()
    assert "1024.0" in out.getvalue() and f"({body.__code__.co_firstlineno + 2})body()" in out.getvalue()


def test_bad_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(tw.errors.BreakpointError, match="without a terminal") as caught:
        tw.jit(lambda x: tw.debug.breakpoint())(1.0)
    assert caught.value.source.line == test_bad_input.__code__.co_firstlineno + 3
    with pytest.raises(ValueError, match="no backend 'web'"):
        tw.debug.breakpoint(backend="web")
