"""The poison law: of kernels of which all is proved nothing unspecified comes out, and what is refused does let it out.

Over all primitives on ragged blocks, and over bodies drawn at random: accumulators set or not, rows at computed places,
blocks carried to another block's cell, copies before their wait.
"""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.laws import CASES, operands
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.axis_relation import IDENTITY, POINTWISE
from tilewright.core.ir.types import is_bool, is_inexact, is_integer
from tilewright.core.support.errors import (
    KernelError,
    PaddingError,
    TilewrightError,
    UncoveredOutputError,
    UninitializedError,
)
from tilewright.lang.analysis import uninitialized
from tilewright.lang.analysis.ragged_tails import tails_contained
from tilewright.lang.kernel.block_spec import BlockSpec
from tilewright.lang.kernel.kernel import ragged_axes as tails_of
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.verify.verify import verify

F32 = np.float32

# ---------------------------------------------------------------------------- all primitives, on a ragged block


def plain(type_):
    return type(type_).__name__ == "ArrayType" and (is_bool(type_.dtype) or is_integer(type_.dtype)
                                                    or is_inexact(type_.dtype))  # fmt: skip


def ragged_axes(case):
    """Operands and axes that can be cut short by one element."""
    return [(k, a) for k, t in enumerate(case.types) for a, n in enumerate(t.shape) if n > 1]


def results(case):
    found = case.primitive.typing(*case.types, **case.params)
    return list(found) if case.primitive.multiple else [found]


def legal(case):
    """Whether it can be tried: arrays of numbers, none of them empty, no effects."""
    types = [*case.types, *results(case)] if all(map(plain, case.types)) else []
    return bool(types) and all(plain(t) and 0 not in t.shape for t in types) and case.primitive.effects is None


CUT = [pytest.param(c, id=str(c)) for c in CASES if legal(c) and ragged_axes(c)]


def kernel_of_case(case, number, axis, fill=None):
    """One cell: the primitive on whole blocks, of which one (and results like it) ends an element after its array."""
    types, shape = results(case), case.types[number].shape

    def block(t, short, **options):
        n = len(t.shape)
        shape = tuple(s - (a == axis) for a, s in enumerate(t.shape)) if short else t.shape
        spec = BlockSpec(t.shape, lambda: (0,) * n, **options) if n else BlockSpec()
        return tw.ShapeDtypeStruct(shape, t.dtype), spec

    ins = [block(t, k == number, **({"fill": fill} if k == number else {})) for k, t in enumerate(case.types)]
    outs = [block(t, t.shape == shape) for t in types]

    def body(*refs):
        found = case.primitive.bind(*(r[...] for r in refs[: len(ins)]), **case.params)
        for ref, value in zip(refs[len(ins) :], found if case.primitive.multiple else [found], strict=True):
            ref[...] = value

    return ins, tl.kernel_call(body, [s for s, _ in outs], in_specs=[s for _, s in ins], out_specs=[s for _, s in outs],
                               interpret=True)  # fmt: skip


def same(one, two):
    return all(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=is_inexact(np.asarray(a).dtype))
               for a, b in zip(one, two, strict=True))  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("case", CUT)
def test_what_is_proved_of_a_primitive_lets_no_poison_out(case):
    values = operands(case)
    for number, axis in ragged_axes(case):
        ins, call = kernel_of_case(case, number, axis)
        cut = [np.asarray(v)[tuple(slice(n) for n in s.shape)] for v, (s, _) in zip(values, ins, strict=True)]
        try:
            (kernel,) = kernels_of(tw.make_jaxpr(lambda *args, call=call: call(*args))(*cut))
        except TilewrightError:  # refused, or no operation of kernels
            continue
        if [f.verdict for f in verify(kernel) if f.what == "padding unread"] != ["proved"]:
            assert case.primitive.kind not in (POINTWISE, IDENTITY)  # so that the law says something
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            given = [kernel_of_case(case, number, axis, fill)[1](*cut) for fill in (0, 1)]
        assert same(*given), f"operand {number}, axis {axis}: proved, and what lies past the end comes out"


@pytest.mark.law
@pytest.mark.parametrize("case", CUT)
def test_what_is_proved_without_a_walk_the_walk_proves(case):
    values = operands(case)
    for number, axis in ragged_axes(case):
        ins, call = kernel_of_case(case, number, axis)
        cut = [np.asarray(v)[tuple(slice(n) for n in s.shape)] for v, (s, _) in zip(values, ins, strict=True)]
        try:
            (kernel,) = kernels_of(tw.make_jaxpr(lambda *args, call=call: call(*args))(*cut))
        except TilewrightError:
            continue
        ragged = {i: tails for i, b in enumerate(kernel.inputs) if (tails := tails_of(b))}
        if tails_contained(kernel, ragged):
            every = [(i, d) for i, axes in ragged.items() for d in axes]
            assert not uninitialized._walk(kernel, every, True).level, f"operand {number}, axis {axis}"


# ---------------------------------------------------------------------------- bodies drawn at random

X = np.arange(1, 71, dtype=F32).reshape(10, 7)


def first(f, axis=1):
    tl.when(tl.program_id(axis) == 0)(f)


def put(ref, value):
    ref[...] = value


def masked(x):
    ids = tl.program_id(1) * 4 + tnp.arange(4)
    rows = tl.program_id(0) * 4 + tnp.arange(4)
    return tnp.where((ids < 7) & (rows < 10)[:, None], x[...], 0)


def in_rows(x, s):
    def row(i, carry):
        s[i] = s[i] + x[i]
        return carry

    lax.fori_loop(0, 4, row, 0)


def some_rows(s):
    """As many rows as the id says are set."""
    lax.fori_loop(0, tl.program_id(0) + 1, lambda i, c: s.__setitem__(i, ZERO(4, F32)) or c, 0)


def row_sums(s, t):
    t[0] = lax.fori_loop(0, 4, lambda i, v: v + s[i], ZERO(4, F32))


def through_a_scope(s, t):
    def act(u):
        first(lambda: put(u, s[...]), 0)
        put(t, u[...] * 2)

    tl.run_scoped(act, tl.VMEM((4, 4), F32))


def copied(x, s, sem, early):
    """A block by a copy that is waited for now or later; gives what is to be done later."""
    copy = tl.make_async_copy(x, s, sem)
    copy.start()
    return copy.wait if early else copy.wait() or (lambda: None)


ZERO, LATE = tnp.zeros, "t = late copy of s"
STATEMENTS = {
    "s = 0 first": lambda x, o, s, t: first(lambda: put(s, ZERO((4, 4), F32))),
    "s = 0 in the first row": lambda x, o, s, t: first(lambda: put(s, ZERO((4, 4), F32)), 0),
    "s = 0": lambda x, o, s, t: put(s, ZERO((4, 4), F32)),
    "s[:2] = 0": lambda x, o, s, t: s.__setitem__(slice(0, 2), ZERO((2, 4), F32)),
    "s += x": lambda x, o, s, t: put(s, s[...] + x[...]),
    "s += masked x": lambda x, o, s, t: put(s, s[...] + masked(x)),
    "s += x by rows": lambda x, o, s, t: in_rows(x, s),
    "s += sum of x": lambda x, o, s, t: put(s, s[...] + x[...].sum()),
    "s += sum of masked x": lambda x, o, s, t: put(s, s[...] + masked(x).sum()),
    "s = x where first": lambda x, o, s, t: put(s, tnp.where(tl.program_id(1) == 0, x[...], s[...])),
    "row of s at the id": lambda x, o, s, t: s.__setitem__(tl.program_id(0), x[0]),
    "row of s at data": lambda x, o, s, t: tl.store(
        s, (tl.ds(x[0, 0].astype("int32"), 1),), ZERO((1, 4), F32), mask=tnp.ones((1, 4), bool)),
    "s = t": lambda x, o, s, t: put(s, t[...]),
    "t = x": lambda x, o, s, t: put(t, x[...]),
    "t = 0 first": lambda x, o, s, t: first(lambda: put(t, ZERO((4, 4), F32))),
    "t = s shifted": lambda x, o, s, t: put(t, tnp.concatenate([s[1:], s[:1]])),
    "t = window of s": lambda x, o, s, t: put(
        t, lax.reduce_window(s[...], F32(0), lax.add, (1, 3), (1, 1), "SAME")),
    "o = s": lambda x, o, s, t: put(o, s[...]),
    "o = s + x": lambda x, o, s, t: put(o, s[...] + x[...]),
    "o += t": lambda x, o, s, t: put(o, o[...] + t[...]),
    "o = 0 first": lambda x, o, s, t: first(lambda: put(o, ZERO((4, 4), F32))),
    "swap": lambda x, o, s, t: put(t, tl.swap(s, ..., x[...])),
    "s = 0 on the diagonal": lambda x, o, s, t: tl.when(tl.program_id(0) == tl.program_id(1))(
        lambda: put(s, ZERO((4, 4), F32))),
    "two rows of s at the id": lambda x, o, s, t: s.__setitem__(tl.ds(tl.program_id(1) * 2, 2), masked(x)[:2]),
    "some rows of s": lambda x, o, s, t: some_rows(s),
    "t = sum of the rows of s": lambda x, o, s, t: row_sums(s, t),
    "t = s or x by the id": lambda x, o, s, t: put(
        t, lax.cond(tl.program_id(1) > 0, lambda: s[...], lambda: x[...] * 1)),
    "t += s at once": lambda x, o, s, t: tl.atomic_add(t, (slice(None), slice(None)), s[...]) is None,
    "t = running sums of s": lambda x, o, s, t: put(t, tnp.cumsum(s[...], axis=1)),
    "t = s through a scope": lambda x, o, s, t: through_a_scope(s, t),
    "o = t at the last": lambda x, o, s, t: tl.when(tl.program_id(1) == 1)(lambda: put(o, t[...])),
    "t = copy of s": lambda x, o, s, t: tl.run_scoped(lambda sem: copied(s, t, sem, False), tl.SemaphoreType.DMA),
    LATE: lambda x, o, s, t: tl.run_scoped(
        lambda sem: (lambda later: put(o, t[...]) or later())(copied(s, t, sem, True)), tl.SemaphoreType.DMA),
}  # fmt: skip


def drawn(names, order, out, **options):
    """A kernel of ragged blocks that does these things, and then stores what it has."""

    def body(x, o, s, t):
        for name in names:
            STATEMENTS[name](x, o, s, t)
        if not any(name.startswith("o ") for name in names):
            put(o, s[...])

    fill = options.pop("fill", None)
    maps = {"blocks": lambda i, j: (i, j), "turned": lambda i, j: (2 - i, 1 - j)}
    outs = {"blocks": ((10, 7), lambda i, j: (i, j)), "rows": ((10, 4), lambda i, j: (i, 0)),
            "whole": ((12, 8), lambda i, j: (i, j))}  # fmt: skip
    shape, index = outs[out]
    return lambda x: tl.kernel_call(
        body, tw.ShapeDtypeStruct(shape, F32), grid=(3, 2), in_specs=[tl.BlockSpec((4, 4), maps[order], fill=fill)],
        out_specs=tl.BlockSpec((4, 4), index), scratch_shapes=[tl.VMEM((4, 4), F32)] * 2, **options)(x)  # fmt: skip


bodies = st.lists(st.sampled_from(sorted(STATEMENTS)), min_size=2, max_size=6)


def outcome(names, order, out):
    """What is said of a body: proved, unknown, or the error."""
    try:
        (kernel,) = kernels_of(tw.make_jaxpr(drawn(names, order, out))(X))
    except (PaddingError, UncoveredOutputError, UninitializedError) as error:
        return error
    kinds = ("padding unread", "written before it is read")
    return "unknown" if any(f.verdict == "unknown" for f in verify(kernel) if f.what in kinds) else "proved"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies, st.sampled_from(["blocks", "turned"]), st.sampled_from(["blocks", "rows", "whole"]))
def test_what_is_proved_of_a_body_lets_no_poison_out(names, order, out):
    said = outcome(names, order, out)
    if said == "proved":
        assert np.isfinite(np.asarray(drawn(names, order, out, interpret=True)(X))).all(), names
    elif isinstance(said, UninitializedError):
        if LATE in names:  # what is read before the wait is what was there
            return
        assert np.isnan(np.asarray(drawn(names, order, out, interpret=True, fill=0)(X))).any(), names
    elif isinstance(said, PaddingError):
        zero = tl.InterpretParams(uninitialized_memory="zero")
        assert np.isnan(np.asarray(drawn(names, order, out, interpret=zero, fill=np.nan)(X))).any(), names


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies, st.sampled_from(["blocks", "rows"]))
def test_what_is_proved_is_the_same_compiled(names, out):
    names = ["s = 0 first", *names]
    if outcome(names, "blocks", out) == "proved":
        got, want = (np.asarray(drawn(names, "blocks", out, interpret=i)(X)) for i in (False, True))
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_the_draw_has_all_outcomes():
    assert outcome(["s = 0 first", "s += x", "o = s"], "blocks", "blocks") == "proved"  # what is past the end is last
    assert outcome(["s = 0 first", "s += x", "o = s"], "turned", "blocks") == "unknown"
    assert outcome(["s = 0", "s += x"], "blocks", "blocks") == "proved"
    assert isinstance(outcome(["s += x"], "blocks", "blocks"), UninitializedError)
    assert isinstance(outcome(["s = 0", "s += sum of x"], "blocks", "rows"), PaddingError)
    with pytest.raises(KernelError):
        drawn(["s = 0 first", "s += x", "o = s"], "turned", "blocks", strict=True)(X)
