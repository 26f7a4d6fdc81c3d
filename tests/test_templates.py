"""Every template, tiled: at least two cells on every axis that has two elements, tiles drawn, most of them ragged.

Interpreted and compiled against the NumPy meaning of the primitive; at whole-array tiles it is the primitive.
"""


import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.test_laws import CASES, as_list, differentiable, function_of, operands
from tilewright.core.api import jvp, vjp, vmap
from tilewright.core.evaluate import apply
from tilewright.core.trace import typeof
from tilewright.kernels import GLUE, TEMPLATES, check_complete
from tilewright.lang import interpret

TILED = [pytest.param(c, id=str(c)) for c in CASES if c.primitive in TEMPLATES]



def thinned(cases, by):
    """One case of each kind of elementwise operation; of the others all, or with `by` the first of each kind."""
    seen, out = set(), []
    for param in cases:
        case = param.values[0]
        elementwise = TEMPLATES[case.primitive].family == "elementwise"
        key = by(case) if elementwise or by is not dtypes else case
        if id(key) not in seen and key not in seen:
            seen.add(id(key) if key is case else key)
            out.append(param)
    return out


def dtypes(case):
    return (case.primitive, *(t.dtype for t in case.types))


def primitives(case):
    return case.primitive


def draw_tiles(data, loops):
    """At least two cells along every loop that may be cut, and a ragged end wherever the size allows it."""
    tiles = []
    for i, n in enumerate(loops.sizes):
        if i in loops.single:
            tiles.append(1)
            continue
        if i in loops.whole or n < 2:
            tiles.append(max(n, 1))
            continue
        ragged = [t for t in range(1, n) if n % t]
        tiles.append(data.draw(st.sampled_from(ragged or [t for t in range(1, n)])))
    return tuple(tiles)


def close(found, expected, case):
    for f, e in zip(as_list(found), as_list(expected), strict=True):
        f, e = np.asarray(f), np.asarray(e)
        assert f.dtype == e.dtype and f.shape == e.shape
        if e.dtype.kind in "biu":
            np.testing.assert_array_equal(f, e)
            continue
        coarse = str(e.dtype) in ("bfloat16", "float16") or "float8" in str(e.dtype)
        wide = np.complex128 if np.iscomplexobj(e) else np.float64
        rtol = 3e-2 if coarse else max(case.tolerance, 2e-5)
        np.testing.assert_allclose(f.astype(wide), e.astype(wide), rtol=rtol, atol=rtol)


def settings(n):
    return hypothesis.settings(max_examples=n, deadline=None, derandomize=True, database=None,
                               suppress_health_check=list(hypothesis.HealthCheck))  # fmt: skip


def test_every_primitive_is_a_template_or_glue():
    check_complete()
    assert not set(TEMPLATES) & set(GLUE)
    assert all(len(reason) > 20 for reason in GLUE.values())


@pytest.mark.parametrize("case", thinned(TILED, dtypes))
def test_interpreted_tiles_are_the_primitive(case):
    template, args = TEMPLATES[case.primitive], operands(case)
    types = [typeof(a) for a in args]

    @settings(2)
    @hypothesis.given(st.data())
    def check(data):
        tiles = draw_tiles(data, template.loops(types, case.params))
        kernel, order = template.build(*types, tiles=tiles, **case.params)
        close(template.unpacked(interpret(kernel, *(args[i] for i in order))), expected, case)

    expected = apply(case.primitive, args, case.params)
    check()


@pytest.mark.parametrize("case", [*thinned(TILED, primitives), *EXTRA])
def test_compiled_tiles_are_the_primitive(case):
    template, args = TEMPLATES[case.primitive], operands(case)
    types = [typeof(a) for a in args]

    @settings(1)
    @hypothesis.given(st.data())
    def check(data):
        tiles = draw_tiles(data, template.loops(types, case.params))
        close(template(*args, tiles=tiles, **case.params), apply(case.primitive, args, case.params), case)

    check()


@pytest.mark.parametrize("case", thinned(TILED, primitives))
def test_a_whole_array_tile_is_the_primitive(case):
    template = TEMPLATES[case.primitive]
    types = [typeof(a) for a in operands(case)]
    kernel = template.kernel(*types, tiles=template.whole(*types, **case.params), **case.params)
    assert kernel.cells <= 1
    names = [e.primitive.name for e in kernel.body.eqns if e.primitive.name not in ("get", "swap")]
    if all(np.prod(t.shape) for t in (*types, *template.results(types, case.params))):
        assert names == [case.primitive.name]


DERIVED = [p for p in thinned(TILED) if differentiable(p.values[0]) and str(p.values[0].types[0].dtype) == "float32"]


def tiled_function(case, data):
    """The template at drawn tiles as a function of the differentiated operands, the primitive alike, and those."""
    template, args = TEMPLATES[case.primitive], operands(case)
    types = [typeof(a) for a in args]
    tiles = draw_tiles(data, template.loops(types, case.params))
    mask = differentiable(case)
    plain, xs = function_of(case, args, mask, case.params)
    chosen = [i for i, m in enumerate(mask) if m]

    def tiled(*xs):
        full = list(args)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        outs = as_list(template(*full, tiles=tiles, **case.params))
        return [o for o in outs if np.issubdtype(o.dtype, np.inexact)]

    return tiled, plain, xs


@pytest.mark.parametrize("case", DERIVED)
def test_derivatives_of_tiles_are_those_of_the_primitive(case):
    @settings(1)
    @hypothesis.given(st.data())
    def check(data):
        tiled, plain, xs = tiled_function(case, data)
        rng = np.random.default_rng(0)
        ts = [rng.standard_normal(x.shape).astype(x.dtype) for x in xs]
        found, tangents = jvp(tiled, xs, ts)
        expected, wanted = jvp(plain, xs, ts)
        close(tangents, wanted, case)
        outs, pullback = vjp(tiled, *xs)
        _, wanted_pullback = vjp(plain, *xs)
        cts = [rng.standard_normal(o.shape).astype(o.dtype) for o in outs]
        close(pullback(cts), wanted_pullback(cts), case)

    check()


@pytest.mark.parametrize("case", DERIVED)
def test_vmap_of_tiles_is_that_of_the_primitive(case):
    @settings(1)
    @hypothesis.given(st.data())
    def check(data):
        tiled, plain, xs = tiled_function(case, data)
        stacked = [np.stack([x, x * np.asarray(0.5, x.dtype)]) for x in xs]
        close(vmap(tiled)(*stacked), vmap(plain)(*stacked), case)

    check()
