"""The body language is closed, and every backend says of each entry what becomes of it."""

import importlib
import pkgutil

import numpy as np
import pytest

from tests.support.laws import CASES, operands
from tilewright import lang
from tilewright.core.ir.binding import under
from tilewright.core.ir.passes import primitives_of
from tilewright.core.ir.primitive import Primitive
from tilewright.core.ir.types import is_complex, is_key
from tilewright.core.primitives.catalogue import ALL
from tilewright.core.primitives.elementwise import arithmetic as ew
from tilewright.core.primitives.elementwise.bitwise import or_p, shift_left_p
from tilewright.core.primitives.movement.shape import broadcast_in_dim_p
from tilewright.core.primitives.refs import state_primitives as ref
from tilewright.core.primitives.special.functions import polygamma_p, zeta_p
from tilewright.core.primitives.spmd import collective
from tilewright.core.tracing.numpy_interpreter import NUMPY, evaluate
from tilewright.core.tracing.trace import trace_program, typeof
from tilewright.core.transforms.structural_primitives import spread
from tilewright.lang.call.primitive import kernel_call_p
from tilewright.lang.legalize import GONE, KEYS, REWRITES, integers, legalize
from tilewright.lang.legalize import special as functions
from tilewright.lang.legalize.opset import FAMILIES, MEANING, WARPGROUPS
from tilewright.lang.ops import machine_integers, remote_dma
from tilewright.lang.targets.target import TARGETS
from tilewright.lang.transforms import discharge as lang_discharge
from tilewright.lang.transforms.desugar import RULES as PLAIN
from tilewright.mosaic_gpu.rules import BACKEND as MOSAIC_GPU
from tilewright.mosaic_tpu.rules import BACKEND as MOSAIC_TPU
from tilewright.triton_backend.rules import BACKEND as TRITON
from tilewright.xla_backend.stablehlo import rules

BACKENDS = {"triton": TRITON, "mosaic_tpu": MOSAIC_TPU, "mosaic_gpu": MOSAIC_GPU}
of_each = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


def test_the_list_is_all_of_core_and_of_the_kernel_language():
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(lang.__path__, "tilewright.lang.")]
    own = {p for module in modules for p in getattr(module, "PRIMITIVES", ())} - {kernel_call_p}
    assert set(MEANING) == {*ALL, *own} and set(PLAIN) <= set(own) and kernel_call_p not in MEANING
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


def test_what_a_target_lacks_is_what_its_backend_refuses():
    for target in TARGETS.values():
        if target.kind == "tpu":
            assert set(target.refused) == {d for d in MOSAIC_TPU.dtypes if d.isidentifier()}
        elif target.gpu:
            assert {d for d in TRITON.dtypes if d.startswith("complex")} <= set(target.refused)


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


@pytest.mark.law
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


ENDS = np.r_[0.0, -0.0, 1:4, -1:-4:-1, 0.5, -0.5, 1e-10, -1e-6, 20, -20, 90, -90, 1e30, -1e30, np.inf, -np.inf, np.nan]
ORDERS = np.r_[0:4, 1.5]


@pytest.mark.law
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("primitive", functions.REWRITES, ids=repr)
def test_functions_that_are_rewritten_keep_their_values_at_ends(primitive, dtype):
    first = {zeta_p: [ORDERS], polygamma_p: [ORDERS], ew.nextafter_p: [ENDS]}.get(primitive, [])
    points = [a.ravel() for a in np.meshgrid(*first, ENDS)]
    with np.errstate(all="ignore"):
        args = [a.astype(dtype) for a in points]
        found, expected = (under(NUMPY, f, *args) for f in (functions.REWRITES[primitive], primitive.bind))
    tolerance = {"rtol": 2e-4, "atol": 1e-6} if dtype == "float32" else {"rtol": 3e-3, "atol": 1e-5}
    tolerance = {"rtol": 0} if primitive is ew.nextafter_p else tolerance
    np.testing.assert_allclose(found, expected, **tolerance)


EDGES = {"i": [0, 1, -1, 2, 7, 31, 32, 33, -128, 127, -5], "u": [0, 1, 2, 7, 8, 31, 32, 33, 255, 128, 5]}


@pytest.mark.law
@of_each
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
@pytest.mark.parametrize("primitive", sorted(integers.TOTAL, key=repr), ids=repr)
def test_integers_are_defined_everywhere(primitive, dtype, backend):
    """By 0, by -1, shifts of the width and more, with numbers that are known and that are not."""
    edges = np.asarray(EDGES[np.dtype(dtype).kind], dtype)
    edges = np.append(edges, np.iinfo(dtype).min).astype(dtype)
    x, y = (np.ascontiguousarray(a.reshape(-1)) for a in np.meshgrid(edges, edges))
    expected = primitive.numpy(x, y)
    program = trace_program(lambda a, b: [primitive.bind(a, b)], [typeof(x), typeof(y)], "two")
    np.testing.assert_array_equal(evaluate(legalize(program, backend), x, y)[0], expected)
    for number in np.unique(edges):
        one = trace_program(lambda a, n=number: [primitive.bind(a, spread(n, a.shape))], [typeof(edges)], "one")
        found = evaluate(legalize(one, backend), edges)[0]
        np.testing.assert_array_equal(found, primitive.numpy(edges, np.full_like(edges, number)))


@of_each
def test_a_number_that_is_known_to_be_inside_needs_no_care(backend):
    x = np.arange(8, dtype=np.uint32)

    def rotated(a):
        return [or_p.bind(shift_left_p.bind(a, spread(np.uint32(13), a.shape)), ew.div_p.bind(a, np.uint32(7)))]

    made = legalize(trace_program(rotated, [typeof(x)], "rotated"), backend)
    assert primitives_of(made) == {broadcast_in_dim_p, machine_integers.bits_up_p, machine_integers.quotient_p, or_p}


def test_xla_has_the_whole_list():
    """But for keys, exchanges over an axis that `vmap` has taken away by then, and what only devices' bodies hold."""
    made = {*lang_discharge.RULES, *PLAIN, *ref.PRIMITIVES, *remote_dma.PRIMITIVES}  # `spmd_exchange.py` has the last
    lacking = {p for p in MEANING if p not in rules() and p not in made and p.expand is None}
    lacking -= {*collective.PRIMITIVES, *WARPGROUPS}  # over a mesh XLA has exchanges; kernels for warpgroups it refuses
    assert lacking == {*KEYS, *machine_integers.PRIMITIVES}
