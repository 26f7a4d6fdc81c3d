"""The body language is closed, and every backend says of each entry what becomes of it."""

import importlib
import pkgutil

import numpy as np
import pytest

from tests.core.test_laws import CASES, operands
from tilewright import lang
from tilewright.core.evaluate import evaluate
from tilewright.core.primitive import Primitive
from tilewright.core.primitives.catalogue import ALL
from tilewright.core.rewrite import primitives_of
from tilewright.core.trace import trace_program, typeof
from tilewright.core.types import is_complex, is_key
from tilewright.lang.language import FAMILIES, MEANING
from tilewright.lang.legalize import GONE, REWRITES, legalize
from tilewright.lang.plain import RULES as PLAIN
from tilewright.lang.primitive import kernel_call_p
from tilewright.mosaic_tpu.rules import BACKEND as MOSAIC_TPU
from tilewright.triton_backend.rules import BACKEND as TRITON

BACKENDS = {"triton": TRITON, "mosaic_tpu": MOSAIC_TPU}
of_each = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


def test_the_list_is_all_of_core_and_of_the_kernel_language():
    modules = [importlib.import_module(m.name) for m in pkgutil.iter_modules(lang.__path__, "tilewright.lang.")]
    own = {p for module in modules for p in getattr(module, "PRIMITIVES", ())} - {kernel_call_p}
    assert set(MEANING) == {*ALL, *own} and set(PLAIN) <= own
    assert sum(map(len, FAMILIES.values())) == len(MEANING)
    assert set(REWRITES) | GONE <= set(MEANING)


@of_each
def test_every_entry_has_one_way(backend):
    assert set(backend.rules) | set(backend.refused) <= set(MEANING)
    assert not set(backend.rules) & set(backend.refused)
    without = [p for p in MEANING if backend.way(p) == "refused" and p not in backend.refused]
    assert without == [], "neither a rule nor a reason"


@of_each
def test_reasons_say_why(backend):
    reasons = [*backend.refused.values(), *backend.dtypes.values()]
    assert all(len(r) > 20 and " yet" not in r for r in reasons if r != "float0 has no bits")


def test_an_entry_without_a_rule_or_a_reason_is_refused():
    """What the test of the tables looks for."""
    assert TRITON.way(Primitive("nameless", lambda x: x)) == "refused"
    assert TRITON.way(Primitive("sin", lambda x: x)) == "refused"  # a name is not a primitive
    assert TRITON.way(Primitive("twice", lambda x: x, expand=lambda x: x + x)) == "rewritten"


REAL = [c for c in CASES if not any(is_complex(t.dtype) for t in c.types)]


def once(case, args):
    """A Program of a case's primitive alone."""

    def call(*xs):
        out = case.primitive.bind(*xs, **case.params)
        return list(out) if case.primitive.multiple else [out]

    return trace_program(call, [typeof(x) for x in args], "once")


@of_each
def test_rewriting_ends_in_what_is_printed(backend):
    for case in REAL:
        if backend.way(case.primitive) != "refused":
            made = legalize(once(case, operands(case)), backend)
            assert primitives_of(made) <= set(backend.rules), case


# Those that some backend leaves to be rewritten; the rest is its own to test.
REWRITTEN = [c for c in REAL if c.primitive in REWRITES or c.primitive.expand is not None]


@of_each
@pytest.mark.parametrize("case", REWRITTEN, ids=str)
def test_what_is_rewritten_keeps_its_value(case, backend):
    args = operands(case)
    program = once(case, args)
    made = legalize(program, backend)
    if any(is_key(t.dtype) for t in program.out_types):
        assert primitives_of(made) <= set(backend.rules)
        return
    for got, expected in zip(evaluate(made, *args), evaluate(program, *args), strict=True):
        got, expected = np.asarray(got), np.asarray(expected)
        assert got.shape == expected.shape and got.dtype == expected.dtype
        if got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, expected)
        else:
            rtol = {2: 3e-2, 1: 0.15}.get(got.dtype.itemsize, 2e-4)
            atol = max(rtol / 10, 1e-2) if got.dtype.itemsize < 4 else 2e-5
            np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=rtol, atol=atol)
