"""The tools that tell what a program does: each sees the right line."""

import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp

A = tnp.asarray


def line_of(function, text):
    """The number of the line of a function that holds a text."""
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


# ---------------------------------------------------------------------------- debug_nans, debug_infs


def logs(x):
    y = tnp.sin(x)
    z = tnp.log(y - 2.0)
    return z * 2


def turns(x):
    def body(total, y):
        total = total + tw.jit(logs)(y)
        return total, total

    return lax.scan(body, 0.0, x)[1]


def waits(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, lax.cond(s[0] == 2, logs, tnp.sin, s[1])), (0, x))


def roots(x):
    y = tnp.sqrt(x)
    return tnp.sum(y)


@pytest.mark.parametrize(
    ("wrapped", "argument", "function", "text", "what"),
    [
        (logs, 1.0, logs, "tnp.log", "log gave NaN"),
        (tw.jit(logs), 1.0, logs, "tnp.log", "log gave NaN"),
        (tw.jit(tw.vmap(logs)), [1.0, 2.0], logs, "tnp.log", "log gave NaN"),
        (tw.jit(turns), [1.0, 2.0], logs, "tnp.log", "log gave NaN"),
        (tw.jit(waits), 1.0, logs, "tnp.log", "log gave NaN"),
        (turns, [1.0, 2.0], logs, "tnp.log", "log gave NaN"),
        (tw.jit(tw.grad(roots)), [0.0, 1.0], roots, "tnp.sqrt", "div gave infinity"),
        (tw.grad(tw.jit(roots)), [0.0, 1.0], roots, "tnp.sqrt", "div gave infinity"),
        (tw.grad(lambda x: tnp.sum(turns(x) * 0)), [1.0], logs, "tnp.log", "log gave NaN"),
    ],
)
def test_what_is_not_finite_is_found_in_compiled_programs(wrapped, argument, function, text, what):
    wrapped(A(argument))  # without the setting nothing is raised
    with tw.debug_nans(), tw.debug_infs():
        with pytest.raises(tw.errors.NonFiniteError, match=what) as caught:
            wrapped(A(argument))
    assert caught.value.source.line == line_of(function, text)


def test_donated_arguments_are_searched_too():
    with tw.debug_nans(), pytest.raises(tw.errors.NonFiniteError, match="log gave NaN") as caught:
        tw.jit(logs, donate_argnums=0)(A(1.0))
    assert caught.value.source.line == line_of(logs, "tnp.log")


def test_transformed_equations_keep_their_lines():
    """The equations that derivatives and batching make are of the line of what they are made from."""

    @tw.custom_vjp
    def own(x):
        return x * 3.0

    def forward(x):
        return own(x), x

    def backward(x, ct):
        return (ct * 3.0 + x,)

    own.defvjp(forward, backward)

    def f(x):
        y = tnp.tanh(x)
        z = own(y)
        return tnp.sum(z)

    program = tw.make_jaxpr(tw.grad(f))(tnp.ones(3))
    lines = {e.source.line for e in program.eqns}
    rules = {line_of(forward, "own(x)"), line_of(backward, "ct * 3")}
    assert lines == {line_of(f, "tanh"), line_of(f, "sum")} | rules
    batched = tw.make_jaxpr(tw.vmap(tw.jit(f)))(tnp.ones((2, 3)))
    inner = batched.eqns[0].params["program"]
    assert {e.source.line for e in inner.eqns} >= {line_of(f, "tanh"), line_of(f, "sum")}


# ---------------------------------------------------------------------------- tracers that outlive their trace

KEPT = []


def keeps(x):
    y = tnp.sin(x)
    KEPT.append(y)
    return y * 2


WRAPS = {"jit": tw.jit, "map": lambda f: lambda x: lax.map(f, x), "grad": lambda f: tw.grad(lambda x: tw.jit(f)(x[0]))}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_leaked_tracers_are_found_where_they_are_made(wrap):
    with tw.check_tracer_leaks(), pytest.raises(tw.errors.LeakedTracerError, match="sin|made at") as caught:
        wrap(lambda x: keeps(x))(tnp.ones(3))
    assert caught.value.source.line == line_of(keeps, "tnp.sin")
    KEPT.clear()
    with tw.checking_leaks():
        wrap(lambda x: tnp.sin(x) * 2)(tnp.ones(3))


def test_what_is_not_leaked():
    """Functions with derivatives of their own, loops and branches keep nothing."""

    @tw.custom_vjp
    def own(x):
        return tnp.sin(x)

    own.defvjp(lambda x: (own(x), x), lambda x, ct: (ct * tnp.cos(x),))

    def f(x):
        x = tw.nn.relu(own(x)) + tw.nn.softmax(x)
        x = lax.cond(x[0] > 0, tw.checkpoint(lambda x: x * 2), lambda x: x, x)
        return tnp.sum(lax.scan(lambda c, y: (c + own(y), tw.jit(own)(c)), 0.0, x)[1])

    with tw.check_tracer_leaks():
        for way in (tw.jit(f), tw.jit(tw.grad(f)), tw.grad(f)):
            way(tnp.ones(3))
        for way in (tw.vmap(tw.jit(f)), tw.jit(tw.vmap(tw.grad(f)))):
            way(tnp.ones((2, 3)))


def test_using_a_leaked_tracer_tells_where_it_was_made():
    tw.jit(lambda x: keeps(x))(tnp.ones(3))
    with pytest.raises(tw.errors.LeakedTracerError, match=f"test_debugging.py:{line_of(keeps, 'tnp.sin')}"):
        KEPT[0] + 1
    KEPT.clear()


# ---------------------------------------------------------------------------- transfers


def test_guards_of_transfers():
    f = tw.jit(lambda x: x + 1)
    host, device = np.ones(3, np.float32), tnp.ones(3)
    with tw.transfer_guard_host_to_device("disallow"):
        f(device).tolist()
        for implicit in (lambda: f(host), lambda: device + host, lambda: lax.sin(host)):
            with pytest.raises(tw.errors.ExecutionError, match="transfer_guard_host_to_device is 'disallow'") as caught:
                implicit()
            assert caught.value.source.code.co_filename == __file__
        tw.device_put(host)
    with tw.transfer_guard_device_to_host("disallow"):
        f(host)
        for asked in (np.asarray, lambda x: float(x[0]), lambda x: bool(x[0]), str):
            with pytest.raises(tw.errors.ExecutionError, match="transfer_guard_device_to_host is 'disallow'"):
                asked(device)
        assert tw.device_get(device).tolist() == [1, 1, 1]
    with tw.transfer_guard("disallow_explicit"):
        for explicit in (lambda: tw.device_get(device), lambda: tw.device_put(host)):
            with pytest.raises(tw.errors.ExecutionError, match="disallow_explicit"):
                explicit()
    with tw.transfer_guard("disallow"), tw.transfer_guard_host_to_device("allow"):
        f(host)
    with tw.transfer_guard_device_to_host("log"), pytest.warns(UserWarning, match="go to the host"):
        device.tolist()
    with pytest.raises(tw.errors.ConfigError, match="does not take 'never'"):
        tw.transfer_guard_device_to_host("never").__enter__()


def test_residuals_tell_their_lines(capsys):
    def f(x):
        y = tnp.sin(x)
        return tnp.sum(y)

    tw.ad_checkpoint.print_saved_residuals(f, tnp.ones(3))
    assert f"output of cos from {__file__}:{line_of(f, 'tnp.sin')} (f)" in capsys.readouterr().out


# ---------------------------------------------------------------------------- tracebacks

FAILS = """
import tilewright as tw
from tilewright import numpy as tnp


def inner(x):
    return tnp.ones(3) + tnp.ones(4)


@tw.jit
def outer(x):
    return inner(x)


tw.grad(lambda x: outer(x)[0])(1.0)
"""


@pytest.mark.parametrize("mode", ["auto", "off", "quiet_remove_frames"])
def test_tracebacks_show_the_users_frames(tmp_path, mode):
    path = tmp_path / "fails.py"
    path.write_text(FAILS)
    environment = os.environ | {"TILEWRIGHT_TRACEBACK_FILTERING": mode}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=120)
    frames = re.findall(r'File "(.*?)", line (\d+), in (\S+)', done.stderr)
    own = [(int(line), name) for file, line, name in frames if file == str(path)]
    assert own == [(15, "<module>"), (15, "<lambda>"), (12, "outer"), (7, "inner")]
    assert (len(frames) > len(own)) == (mode == "off")
    assert ("left out" in done.stderr) == (mode == "auto")
    assert "ShapeError: Incompatible shapes for broadcasting: (3,), (4,)" in done.stderr


def test_names_and_lines_reach_the_compiled_program():
    def f(x):
        with tw.named_scope("layer"):
            y = tnp.sin(x)
        return tw.named_call(lambda y: y * 2, name="twice")(y)

    with tw.config(source_lines=True):
        lowered = tw.jit(f).lower(tnp.ones(3))
        text = lowered.compile().as_text()
    assert 'op_name="layer/sin"' in text and 'op_name="twice/mul"' in text
    shown = lowered.as_text(debug_info=True)
    (place,) = re.findall(r'loc\("layer/sin"\((#loc\d+)\)\)', shown)
    assert f'{place} = loc("{__file__}":{line_of(f, "tnp.sin")}:1)' in shown
    assert "loc(" not in lowered.as_text()
