"""jaxprs as text, in jax's form."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.as_jax.jaxpr_printer import NOTHING, SPACE, Group, Nest, laid_out
from tilewright.as_jax.jaxprs import make_jaxpr

X = np.ones(3, np.float32)
ARRAY = tnp.arange(3.0)
GOLDEN = {
    "one line": (tnp.sin, "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"),
    "several equations": (lambda x: (x * 2.0 + 1, x > 0), """\
{ lambda ; a:f32[3]. let
    b:f32[3] = mul a 2.0:f32[]
    c:f32[3] = add b 1.0:f32[]
    d:bool[3] = gt a 0.0:f32[]
  in (c, d) }"""),
    "constants": (lambda x: x + ARRAY, "{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = add b a in (c,) }"),
    "results that nothing reads": (lambda x: lax.top_k(x, 1)[0],
                                   "{ lambda ; a:f32[3]. let b:f32[1] _:i32[1] = top_k[axis=0 k=1] a in (b,) }"),
    "no equations": (lambda x: x, "{ lambda ; a:f32[3]. let  in (a,) }"),
    "no results": (lambda x: (), "{ lambda ; a:f32[3]. let  in () }"),
    "a program within": (lambda x: tw.jit(lambda y: tnp.sin(y) * 2)(x) + 1, """\
{ lambda ; a:f32[3]. let
    b:f32[3] = jit[
      name=<lambda>
      jaxpr={ lambda ; c:f32[3]. let
          d:f32[3] = sin c
          e:f32[3] = mul d 2.0:f32[]
        in (e,) }
    ] a
    f:f32[3] = add b 1.0:f32[]
  in (f,) }"""),
    "branches": (lambda x: lax.cond(x[0] > 0, lambda x: x, lambda x: -x, x), """\
{ lambda ; a:f32[3]. let
    b:f32[1] = slice[limit_indices=(1,) start_indices=(0,)] a
    c:f32[] = squeeze[dimensions=(0,)] b
    d:bool[] = gt c 0.0:f32[]
    e:i32[] = convert_element_type[new_dtype=int32 weak_type=False] d
    f:f32[3] = cond[
      branches=(
        { lambda ; g:f32[3]. let h:f32[3] = neg g in (h,) }
        { lambda ; i:f32[3]. let  in (i,) }
      )
    ] e a
  in (f,) }"""),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_text(name):
    f, expected = GOLDEN[name]
    jaxpr = make_jaxpr(f)(X)
    assert str(jaxpr) == repr(jaxpr.jaxpr) == expected


def test_equations():
    assert str(make_jaxpr(tnp.sin)(X).eqns[0]) == "b:f32[3] = sin a"


def test_groups_are_laid_out_by_width():
    text = Group(["f(", Nest(2, [NOTHING, "aaa", SPACE, Group(["bb", SPACE, "cc"])]), NOTHING, ")"])
    assert laid_out(text, 20) == "f(aaa bb cc)"
    assert laid_out(text, 9) == "f(\n  aaa\n  bb cc\n)"
    assert laid_out(text, 5) == "f(\n  aaa\n  bb\n  cc\n)"
