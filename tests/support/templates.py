"""Cases that templates are tested with, and what a template's kernels give."""

import numpy as np
import pytest

from tests.support.laws import CASES, as_list
from tilewright.core.tracing.trace import typeof
from tilewright.kernels import TEMPLATES
from tilewright.lang import interpret

CASES_OF = [c for c in CASES if c.primitive in TEMPLATES and "float64" not in str(c.params.get("new_dtype"))]


def is_elementwise(case):
    return TEMPLATES[case.primitive].family == "elementwise"


def first_by(key, cases=tuple(CASES_OF)):
    """The first case for each key, as parameters."""
    found = {}
    for case in cases:
        found.setdefault(key(case), case)
    return [pytest.param(c, id=str(c)) for c in found.values()]


def by_dtypes(case):
    return (case.primitive.name, *(t.dtype for t in case.types)) if is_elementwise(case) else id(case)


def by_kind(case):
    return (case.primitive.name, *(() if is_elementwise(case) else case.types[:1]))


def by_name(case):
    return case.primitive.name


def by_form(case):
    """By name, and what else changes the kernels: the kind of groups of a convolution."""
    return (case.primitive.name, *(case.params.get(f"{kind}_group_count", 1) > 1 for kind in ("feature", "batch")))


def interpreted(template, args, tiles, params, call=interpret, **options):
    """What a template's kernels give at some tiles, as the primitive gives it; `call` runs each."""
    built = template.build(*map(typeof, args), tiles=tiles, **options, **params)
    return template.unpacked(built.run(call, args))


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
