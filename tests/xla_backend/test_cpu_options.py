"""What is done to programs for the CPU: each can be switched off by name, which changes the text and no value."""

import numpy as np
import pytest

import tilewright as tw
from benchmarks.cpu_options import CASES as CASES_TIMED
from tests.support.paths import DOCS
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.core.primitives.movement.shape import transpose_p
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.xla_backend.cpu_passes.options import OPTIONS
from tilewright.xla_backend.kernels.cpu_lowering import lowered

X = np.random.default_rng(0).standard_normal((32, 16), np.float32)
Y = np.random.default_rng(1).standard_normal((32, 24), np.float32)


def gram(x, y):
    """x.T @ y, a block of rows at a time: a sum of products over the cells."""

    def body(x, y, o):
        @tl.when(tl.program_id(0) == 0)
        def _():
            o[...] = tnp.zeros_like(o)

        o[...] += x[...].T @ y[...]

    return tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct((16, 24), "float32"), grid=4,
        in_specs=[tl.BlockSpec((8, 16), lambda i: (i, 0)), tl.BlockSpec((8, 24), lambda i: (i, 0))],
        out_specs=tl.BlockSpec((16, 24), lambda i: (0, 0)),
    )(x, y)  # fmt: skip


def turned(x, y):
    """(x.T @ y).T by blocks of rows of x.T."""

    def body(x, y, o):
        o[...] = (x[...].T @ y[...]).T

    return tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct((24, 16), "float32"), grid=2,
        in_specs=[tl.BlockSpec((32, 8), lambda i: (0, i)), tl.BlockSpec((32, 24), lambda i: (0, 0))],
        out_specs=tl.BlockSpec((24, 8), lambda i: (0, i)),
    )(x, y)  # fmt: skip


def stencil(x, y):
    """The sum of an element's neighbours, from windows that overlap."""

    def body(x, o):
        whole = x[...]
        o[...] = whole[0:8] + whole[1:9] + whole[2:10]

    return tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct((16,), "float32"), grid=2,
        in_specs=[tl.BlockSpec((tl.Element(10),), lambda i: (i * 8,))], out_specs=tl.BlockSpec((8,), lambda i: (i,)),
    )(x[:18, 0])  # fmt: skip


CASES = {
    "products": lambda x, y: tnp.transpose(x) @ y,
    "few_rows": lambda x, y: tnp.sum(tnp.tile(x, (4, 4)), 0),
    "placeless": lambda x, y: x * 2,
    "merged_sums": gram,
    "exchanged": turned,
    "scan_windows": lambda x, y: tnp.cumsum(x, 1),
    "narrow_windows": stencil,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_changes_the_program_and_no_value(name):
    found, texts = [], []
    for without in ("", name):
        with tw.config(cpu_without=without):
            compiled = tw.jit(CASES[name]).lower(X, Y).compile()
            found.append(np.asarray(compiled(X, Y)))
            texts.append(compiled.as_text())
    assert texts[0] != texts[1]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-4)


@pytest.mark.law
@pytest.mark.parametrize("shape", [(3, 1), (5, 17), (2, 3, 300)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("scan", ["cumsum", "cummax", "cummin"])
def test_scans_by_windows(scan, reverse, shape):
    x = np.random.default_rng(0).integers(-99, 99, shape).astype("float32")
    running = {"cumsum": np.cumsum, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}[scan]
    for axis in range(x.ndim):
        given = np.flip(x, axis) if reverse else x
        wanted = np.flip(running(given, axis), axis) if reverse else running(given, axis)
        np.testing.assert_array_equal(getattr(tw.lax, scan)(x, axis=axis, reverse=reverse), wanted)


def test_a_call_of_a_function_follows_the_setting():
    f = tw.jit(lambda x, y: tnp.transpose(x) @ y)
    with tw.config(cpu_without="products"):
        assert "LayoutConstraint" not in f.lower(X, Y).as_text()
    assert "LayoutConstraint" in f.lower(X, Y).as_text()


def test_the_programs_of_kernels_without_each():
    (summed,), (exchanged,) = (list(kernels_of(tw.make_jaxpr(f)(X, Y))) for f in (gram, turned))

    def names(kernel, off=()):
        return [eqn.primitive for eqn in lowered(kernel, frozenset(off)).program.eqns]

    assert not any(e.params["dimension_numbers"][1][0] for e in lowered(summed).program.eqns
                   if e.primitive is dot_general_p)  # fmt: skip
    assert any(e.params["dimension_numbers"][1][0] for e in lowered(summed, frozenset(["merged_sums"])).program.eqns
               if e.primitive is dot_general_p)  # fmt: skip
    assert names(exchanged).count(transpose_p) < names(exchanged, ["exchanged"]).count(transpose_p)


def test_a_name_that_is_none_of_them():
    with tw.config(cpu_without="products, rows"), pytest.raises(errors.ConfigError, match="names 'rows'"):
        tw.jit(lambda x: x + 1)(X)


def test_every_option_is_timed():
    assert {case.name for case in CASES_TIMED} == OPTIONS.keys()


def test_the_page_lists_every_option():
    text = (DOCS / "settings.md").read_text()
    assert [name for name, what in OPTIONS.items() if f"- `{name}`: {what}." not in text] == []
