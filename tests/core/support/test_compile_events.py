"""What is told of traces and compilations: counts, the log, listeners, and why a function is traced again."""

import logging

import pytest

import tilewright as tw
from tilewright import numpy as tnp
from tilewright.core.support.compile_events import listen


def told(caplog, *calls):
    """The reasons logged while the calls are made."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="tilewright"), tw.explain_cache_misses():
        for call in calls:
            call()
    return [r.getMessage().split(": ", 1)[1] for r in caplog.records]


def function():
    @tw.jit
    def f(x, y=1.0):
        return x * y

    return f


X3, X4 = tnp.ones(3), tnp.ones(4)


def test_the_first_call(caplog):
    f = function()
    assert "first time" in told(caplog, lambda: f(X3))[0] or "same lines" in told(caplog, lambda: f(X4))[0]
    assert told(caplog, lambda: f(X3)) == []


@pytest.mark.parametrize("second, reason", [
    (lambda f: f(X4), "argument x is f32[4], and was f32[3]"),
    (lambda f: f(tnp.ones(3, int)), "argument x is i32[3], and was f32[3]"),
    (lambda f: f(X3, {"a": X3}["a"]), "tree is"),
])  # fmt: skip
def test_what_differs_from_an_earlier_call(caplog, second, reason):
    f = function()
    f(X3)
    assert reason in told(caplog, lambda: second(f))[0]


def test_leaves_are_named_by_their_path(caplog):
    f = tw.jit(lambda tree: tree["a"][0] + 1)
    f({"a": [X3]})
    assert told(caplog, lambda: f({"a": [X4]})) == ["argument tree['a'][0] is f32[4], and was f32[3]"]


def test_static_arguments_and_settings(caplog):
    f = tw.jit(lambda x, n: x * n, static_argnums=1)
    f(X3, 2)
    assert told(caplog, lambda: f(X3, 3)) == ["static argument n is 3, and was 2"]
    with tw.default_matmul_precision("highest"):
        assert "setting default_matmul_precision is 'highest', and was None" in told(caplog, lambda: f(X3, 2))[0]


def test_a_function_made_anew_in_a_loop(caplog):
    def made(k):
        return tw.jit(lambda x: x + k)

    first = made(1000)
    first(X3)
    (reason,) = told(caplog, lambda: made(2000)(X3))
    assert "another function object, made by the same lines" in reason and "closes over as k" in reason


def test_the_log_names_each_step(caplog):
    f = tw.jit(lambda x: tnp.cos(x) * 0.125 + 3.5)
    with caplog.at_level(logging.WARNING, logger="tilewright"), tw.log_compiles():
        f(X3)
    text = caplog.text
    assert "traced <lambda> in" in text and "made a module of <lambda>" in text
    assert "compiled" in text or "loaded" in text or "same program" in text
    caplog.clear()
    tw.jit(lambda x: x - 0.375)(X3)
    assert not caplog.records and not tw.config.log_compiles


def test_watching_compiles_nothing_again():
    f = function()
    f(X3)
    before = tw.stats()
    with tw.log_compiles(), tw.explain_cache_misses():
        f(X3)
    assert tw.stats() == before


def test_counts_and_listeners():
    seen, before = [], tw.stats()
    end = listen(lambda kind, name, seconds: seen.append((kind, name)))
    try:
        tw.jit(lambda x: x * 7.25)(X3)
    finally:
        end()
    tw.jit(lambda x: x * 8.25)(X3)
    after = tw.stats()
    assert [kind for kind, _ in seen][:2] == ["trace", "lower"] and {name for _, name in seen} == {"<lambda>"}
    assert after["trace"].times - before["trace"].times == 2
    assert sum(after[k].times - before[k].times for k in ("compile", "load", "hit")) == 2
    assert after["trace"].seconds > before["trace"].seconds
