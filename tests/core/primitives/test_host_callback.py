"""Python called from compiled programs: values, order, batching, errors."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright.core.ir.types import bfloat16
from tilewright.core.primitives.external.host_callback import VMAP_METHODS
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    CallbackError,
    DifferentiationError,
    ExecutionError,
    TilewrightError,
    UnsupportedError,
)

ROW = tw.ShapeDtypeStruct((3,), np.float32)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def add(a, b):
    return np.asarray(a + b, np.float32)


@pytest.mark.parametrize("wrap", [lambda f: f, tw.jit], ids=["eager", "jit"])
def test_pure_callback(wrap):
    f = wrap(
        lambda x: tw.pure_callback(
            lambda a: {"s": np.sin(a), "n": np.int32(a.size)}, {"s": ROW, "n": tw.ShapeDtypeStruct((), np.int32)}, x
        )
    )
    out = f(X[0])
    np.testing.assert_allclose(out["s"], np.sin(X[0]), rtol=1e-6)
    assert int(out["n"]) == 3


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float16, bfloat16, bool, np.complex64])
def test_dtypes(dtype):
    x = np.array([0, 1, 1], dtype)
    np.testing.assert_array_equal(tw.jit(lambda x: tw.pure_callback(lambda a: a[::-1], x, x))(x), x[::-1])


@pytest.mark.parametrize("method", VMAP_METHODS)
def test_vmap_methods(method):
    shapes = []

    def host(a, b):
        shapes.append((a.shape, b.shape))
        return add(a, b)

    f = tw.jit(tw.vmap(lambda a, b: tw.pure_callback(host, ROW, a, b, vmap_method=method), (0, None)))
    np.testing.assert_array_equal(f(X, X[0]), X + X[0])
    batched = {"expand_dims": [((2, 3), (1, 3))], "broadcast_all": [((2, 3), (2, 3))],
               "legacy_vectorized": [((2, 3), (3,))]}  # fmt: skip
    assert shapes == batched.get(method, [((3,), (3,))] * 2)


def test_ordered_effects_run_in_program_order():
    log = []

    def note(offset):
        return lambda v: log.append(offset + int(v))

    def step(c, t):
        tw.io_callback(note(0), None, c, ordered=True)
        lax.cond(t > 1, lambda: tw.debug.callback(note(100), c, ordered=True), lambda: None)
        return c + 1, None

    @tw.jit
    def inner(z):
        tw.io_callback(note(1000), None, z, ordered=True)
        return z + 1

    def advance(c):
        tw.debug.callback(note(2000), c, ordered=True)
        return c + 2

    @tw.jit
    def program(n):
        tw.io_callback(note(-10), None, n, ordered=True)
        c, _ = lax.scan(step, n, np.arange(4))
        c = inner(inner(c))
        return lax.while_loop(lambda c: c < 12, advance, c)

    for start in (3, 7):
        log.clear()
        program(start).block_until_ready()
        tw.effects_barrier()
        expected = [start - 10, start, start + 1, start + 2, start + 102, start + 3, start + 103]
        expected += [1000 + start + 4, 1000 + start + 5, *(2000 + c for c in range(start + 6, 12, 2))]
        assert log == expected


def test_calls_between_programs_keep_their_order():
    log = []
    f = tw.jit(lambda x: tw.io_callback(lambda v: log.append(int(v)), None, x, ordered=True))
    for i in range(20):
        f(i)
    tw.effects_barrier()
    assert log == list(range(20))


def test_results_of_io_callback_and_unused_calls():
    count = []

    def host():
        count.append(1)
        return np.int32(len(count))

    def unused(x):
        tw.pure_callback(lambda: count.append(1) or np.int32(0), tw.ShapeDtypeStruct((), np.int32))
        return tw.io_callback(host, tw.ShapeDtypeStruct((), np.int32)) + x

    f = tw.jit(unused)
    assert [int(f(0)), int(f(0))] == [1, 2]  # the pure call, whose result nobody uses, is dropped


def test_arguments_may_be_kept():
    kept = []
    tw.jit(lambda x: tw.debug.callback(kept.append, x * 2.0))(X)
    tw.effects_barrier()
    for _ in range(3):
        tw.jit(lambda x: x * 3.0)(X).block_until_ready()
    np.testing.assert_array_equal(kept[0], X * 2.0)


def test_debug_print(capsys):
    tw.jit(lambda x: tw.debug.print("x = {x} {:.2f} {{}}", x[0], x=x[1:]))(X[0])
    tw.jit(tw.vmap(lambda x: tw.debug.print("row {}", x, ordered=True)))(X)
    assert float(tw.jit(tw.grad(lambda x: (tw.debug.print("at {}", x), x * x)[1]))(3.0)) == 6.0
    tw.effects_barrier()
    assert capsys.readouterr().out.splitlines() == ["x = [1. 2.] 0.00 {}", "row [0. 1. 2.]", "row [3. 4. 5.]", "at 3.0"]


def test_printing_and_calling_back_in_two_calls(capsys):
    """Options first; of the second call every keyword is an argument."""
    seen = []
    tw.jit(lambda x: tw.debug.print(ordered=True)("{ordered}", ordered=x))(2.0)
    tw.jit(lambda x: tw.debug.callback(ordered=True)(lambda v: seen.append(float(v)), v=x))(3.0)
    tw.effects_barrier()
    assert capsys.readouterr().out == "2.0\n" and seen == [3.0]


def test_exceptions_surface():
    def fail(a):
        raise ZeroDivisionError("from the host")

    with pytest.raises(TilewrightError, match="from the host"):
        tw.jit(lambda x: tw.pure_callback(fail, ROW, x))(X[0]).block_until_ready()


def test_results_in_lists_for_tuples_have_the_declared_structure():
    out = tw.jit(lambda x: tw.pure_callback(lambda a: [[a], a], {"sum": ROW, "rest": (ROW,)}, x))(X[0])
    assert sorted(out) == ["rest", "sum"] and isinstance(out["rest"], tuple)


def cut(x):
    return tw.pure_callback(lambda a: a[:2], ROW, x)


def scalar_call(x, **how):
    return tw.pure_callback(lambda a: np.float32(a.sum()), tw.ShapeDtypeStruct((), np.float32), x, **how)


@pytest.mark.parametrize(
    "error, text, call",
    [
        (CallbackError, r"f32\[2\], not f32\[3\]", lambda: tw.jit(cut)(X[0])),
        (CallbackError, r"returned", lambda: tw.jit(lambda x: tw.pure_callback(lambda a: (a, a), ROW, x))(X[0])),
        (CallbackError, r"i32\[3\], not f32\[3\]", lambda: tw.pure_callback(lambda a: a.astype(np.int32), ROW, X[0])),
        (CallbackError, "returned", lambda: tw.pure_callback(lambda a: (a, a), ROW, X[0])),
        (DifferentiationError, "custom_jvp", lambda: tw.grad(scalar_call)(X[0])),
        (UnsupportedError, "vmap_method", lambda: tw.vmap(scalar_call)(X)),
        (ArgumentError, "vmap_method", lambda: scalar_call(X, vmap_method="vectorized")),
        (UnsupportedError, "ordered", lambda: tw.vmap(lambda x: tw.io_callback(print, None, x, ordered=True))(X)),
        (ArgumentError, "format", lambda: tw.debug.print("{}", 1, 2)),
        (ArgumentTypeError, "nothing to call", lambda: tw.debug.print(x=1)),
        (ArgumentTypeError, "nothing to call", lambda: tw.debug.callback(None, 1)),
        (ArgumentError, "format", lambda: tw.debug.print("{y}", x=2)),
    ],
)
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        tw.block_until_ready(call())
    assert "remedy:" in str(caught.value) and (error is not CallbackError or str(caught.value).count("at:") == 1)


def test_an_error_of_a_callback_is_shown_as_the_user_wrote_it():
    def refuse(x):
        raise ValueError("not this one")

    call = tw.jit(lambda x: tw.pure_callback(refuse, tw.ShapeDtypeStruct((2,), "float32"), x))
    with pytest.raises(ExecutionError, match="not this one") as caught:
        call(np.ones(2, np.float32)).block_until_ready()
    assert "in refuse" in str(caught.value) and "xla_backend" not in str(caught.value)


@pytest.mark.parametrize("wrap", [lambda f: f, tw.jit], ids=["eager", "jit"])
def test_static_values_reach_debug_callbacks_as_they_are(wrap, capsys):
    seen = []

    @wrap
    def f(x):
        tw.debug.print("{x} {dtype} {name}", x=x, dtype=x.dtype, name="abc")
        tw.debug.callback(lambda *values: seen.append(values), x.dtype, x, None, "abc")
        return x

    f(tw.numpy.float32(2.0))
    tw.effects_barrier()
    assert capsys.readouterr().out == "2.0 float32 abc\n"
    assert seen == [(np.dtype("float32"), 2.0, None, "abc")]


def test_programs_without_operands_and_results_run_for_their_effects(capsys):
    @tw.jit
    def nothing():
        tw.debug.print("nothing")

    @tw.jit
    def loop(x):
        return lax.fori_loop(0, 3, lambda i, x: (tw.debug.print("{}", i), x)[1], x)

    nothing()
    tw.effects_barrier()
    assert capsys.readouterr().out == "nothing\n"
    assert loop(2.0) == 2.0
    tw.effects_barrier()
    assert capsys.readouterr().out == "0\n1\n2\n"
