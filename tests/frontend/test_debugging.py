"""The tools that tell what a program does: each sees the right line."""

import inspect

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
