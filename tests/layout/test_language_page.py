"""The language reference: its table is made from the operations, each run compiled and interpreted.

`pytest tests/layout/test_language_page.py --update-golden` rewrites the table.
"""

import inspect
import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import TilewrightError
from tilewright.lang import tpu, triton

BEGIN, END = "<!-- table: made by tests/layout/test_language_page.py -->\n", "<!-- end of table -->"
KINDS = {"float": "float32", "integer": "int32", "bool": "bool", "complex": "complex64"}
I32 = np.int32


def set_(ref: Any, value: Any) -> None:
    ref[...] = value.astype(ref.dtype) if hasattr(value, "astype") else value


def copy(x: Any, i: Any, o: Any, how: str) -> None:
    def inner(sem: Any) -> None:
        if how == "async_copy":
            tl.async_copy(x, o, sem).wait()
        else:
            made = tl.make_async_copy(x, o, sem)
            made.start()
            made.wait()

    tl.run_scoped(inner, tl.SemaphoreType.DMA)


def semaphore(x: Any, i: Any, o: Any) -> None:
    def inner(sem: Any) -> None:
        tl.semaphore_signal(sem, 3)
        tl.semaphore_wait(sem, 1)
        set_(o, tnp.full((8,), tl.semaphore_read(sem)))
        tl.semaphore_wait(sem, 2)

    tl.run_scoped(inner, tl.SemaphoreType.REGULAR)


def scoped(x: Any, i: Any, o: Any) -> None:
    def inner(ref: Any) -> None:
        ref[...] = x[...]
        o[...] = ref[...]

    tl.run_scoped(inner, tl.VMEM(x.shape, x.dtype))


def atomic(name: str) -> Any:
    def body(x: Any, i: Any, o: Any) -> None:
        o[...] = x[...]
        getattr(tl, name)(o, (i[...],), x[...])

    return body


def turned_round(ref: Any) -> None:
    ref[...] = ref[...][::-1]


def compare_and_swap(x: Any, i: Any, o: Any) -> None:
    o[...] = x[...]
    tl.atomic_cas(o, x[...][::-1], x[0])


def seeded(draw: Any) -> Any:
    def body(x: Any, i: Any, o: Any) -> None:
        tl.prng_seed(i[0], 7)
        set_(o, draw(i))

    return body


def conditional(x: Any, i: Any, o: Any) -> None:
    o[...] = x[...]
    tl.when(i[0] > 0)(lambda: o.__setitem__(0, x[1]))


def looped(x: Any, i: Any, o: Any) -> None:
    tl.loop(0, 8)(lambda k: o.__setitem__(k, x[k]))


def swapped(x: Any, i: Any, o: Any) -> None:
    o[...] = x[...]
    o[0] = tl.swap(o, 1, x[7])


def stored(x: Any, i: Any, o: Any) -> None:
    o[...] = x[...]
    tl.store(o, ..., x[0], mask=i[...] > 2)


def sliced(x: Any, i: Any, o: Any) -> None:
    o[...] = x[...]
    o[tl.ds(i[0], 2)] = x[:2]


def added(x: Any, i: Any, o: Any) -> None:
    o[...] = x[...]
    tl.addupdate(o, (i[...],), x[...])


def piped(x: Any, i: Any, o: Any) -> None:
    block = tl.BlockSpec((4,), lambda k: (k,))
    tl.emit_pipeline(lambda a, b: b.__setitem__(..., a[...]), grid=(2,), in_specs=[block], out_specs=[block])(x, o)


def checked(x: Any, i: Any, o: Any) -> None:
    tl.debug_check(i[0] >= 0, "negative")
    o[...] = x[...]


def printed(x: Any, i: Any, o: Any) -> None:
    tl.debug_print("{}", i[0])
    o[...] = x[...]


def unary(function: Any) -> Any:
    return lambda x, i, o: set_(o, function(x[...]))


def product(dot: Any, x: Any) -> Any:
    return tnp.resize(dot(x.reshape(2, 4), x.reshape(4, 2)), 8)


# group: {name: (what it is, where its kinds of dtypes come from ("" for none), a body that uses it)}
ANY_KIND = tuple(KINDS)
NONE: tuple[str, ...] = ()
TABLE: dict[str, dict[str, tuple[Any, tuple[str, ...], Any]]] = {
    "The grid": {
        "program_id": (tl.program_id, NONE, lambda x, i, o: set_(o, x[...] + tl.program_id(0))),
        "num_programs": (tl.num_programs, NONE, lambda x, i, o: set_(o, x[...] + tl.num_programs(0))),
        "when": (tl.when, NONE, conditional),
        "loop": (tl.loop, NONE, looped),
        "emit_pipeline": (tl.emit_pipeline, ANY_KIND, piped),
        "cdiv": (tl.cdiv, NONE, lambda x, i, o: set_(o, x[...] + tl.cdiv(i[0], 3))),
        "align_to": (tl.align_to, NONE, lambda x, i, o: set_(o, x[...] + tl.align_to(5, 4))),
        "next_power_of_2": (tl.next_power_of_2, NONE, lambda x, i, o: set_(o, x[...] + tl.next_power_of_2(5))),
        "multiple_of": (tl.multiple_of, NONE, lambda x, i, o: set_(o, x[...] + tl.multiple_of(i[0], 1))),
    },
    "Parts of Refs": {
        "load": (tl.load, ANY_KIND, lambda x, i, o: set_(o, tl.load(x, (i[...],), mask=i[...] > 2, other=x[0]))),
        "store": (tl.store, ANY_KIND, stored),
        "swap": (tl.swap, ANY_KIND, swapped),
        "addupdate": (tl.addupdate, ANY_KIND, added),
        "ds, dslice": (tl.ds, ANY_KIND, sliced),
        "run_scoped": (tl.run_scoped, ANY_KIND, scoped),
        "with_scoped": (tl.with_scoped, ANY_KIND, lambda x, i, o: tl.with_scoped(o.aval)(
            lambda mine: (set_(mine, x[...]), set_(o, mine[...])) and None)()),
        "run_state": (tl.run_state, ANY_KIND, lambda x, i, o: set_(o, tl.run_state(turned_round)(x[...]))),
    },
    "Atomic operations": {
        **{f"atomic_{k}": (getattr(tl, f"atomic_{k}"), ANY_KIND, atomic(f"atomic_{k}"))
           for k in ("add", "max", "min", "and", "or", "xor", "xchg")},
        "atomic_cas": (tl.atomic_cas, ANY_KIND, compare_and_swap),
    },
    "Copies and semaphores": {
        "make_async_copy": (tl.make_async_copy, ANY_KIND, lambda x, i, o: copy(x, i, o, "make_async_copy")),
        "async_copy": (tl.async_copy, ANY_KIND, lambda x, i, o: copy(x, i, o, "async_copy")),
        "sync_copy": (tl.sync_copy, ANY_KIND, lambda x, i, o: tl.sync_copy(x, o)),
        "select_ref": (tl.select_ref, ANY_KIND, lambda x, i, o: tl.sync_copy(tl.select_ref(1, o, x), o)),
        "semaphore_signal": (tl.semaphore_signal, NONE, semaphore),
        "semaphore_wait": (tl.semaphore_wait, NONE, semaphore),
        "semaphore_read": (tl.semaphore_read, NONE, semaphore),
    },
    "Random numbers": {
        "prng_seed": (tl.prng_seed, NONE, seeded(lambda i: tl.stateful_uniform((8,)))),
        "prng_random_bits": (tl.prng_random_bits, NONE, seeded(lambda i: tl.prng_random_bits((8,)) % 8)),
        "stateful_bits": (tl.stateful_bits, NONE, seeded(lambda i: tl.stateful_bits((8,)) % 8)),
        "stateful_uniform": (tl.stateful_uniform, ("float",), seeded(lambda i: tl.stateful_uniform((8,)))),
        "stateful_normal": (tl.stateful_normal, ("float",), seeded(lambda i: tl.stateful_normal((8,)))),
        "stateful_bernoulli": (tl.stateful_bernoulli, NONE, seeded(lambda i: tl.stateful_bernoulli(0.5, (8,)))),
        "counter_bits": (tl.counter_bits, NONE, seeded(lambda i: tl.counter_bits((8,), i[0]) % 8)),
        "counter_uniform": (tl.counter_uniform, ("float",), seeded(lambda i: tl.counter_uniform((8,), i[0], 3))),
        "counter_normal": (tl.counter_normal, ("float",), seeded(lambda i: tl.counter_normal((8,), i[0]))),
        "counter_bernoulli": (tl.counter_bernoulli, NONE, seeded(lambda i: tl.counter_bernoulli(0.5, (8,), i[0]))),
    },
    "Low precision and counts": {
        "stochastic_round": (tl.stochastic_round, ("float",), lambda x, i, o: set_(
            o, tl.stochastic_round(x[...], i[...].astype("uint32"), "bfloat16"))),
        "unpack": (tl.unpack, ("integer",), lambda x, i, o: set_(o, tl.unpack(x[...], 16)[:8])),
        "pack": (tl.pack, ("integer",), lambda x, i, o: set_(o, tnp.resize(tl.pack(x[...], 4), 8))),
        "dot_scaled": (tl.dot_scaled, ("float",), lambda x, i, o: set_(o, tl.dot_scaled(
            x[...].reshape(2, 4).astype("bfloat16"), None, "bf16", x[...].reshape(4, 2).astype("float16"), None, "fp16"
        ).reshape(4)[tnp.arange(8) % 4])),
        "histogram": (tl.histogram, ("integer",), unary(lambda x: tl.histogram(x, 8))),
    },
    "Seeing and checking": {
        "debug_print": (tl.debug_print, NONE, printed),
        "debug_check": (tl.debug_check, NONE, checked),
    },
    "In `tl.tpu`": {
        "roll": (tpu.roll, ANY_KIND, unary(lambda x: tpu.roll(x, 3, 0))),
        "reciprocal": (tpu.reciprocal, ("float", "complex"), unary(lambda x: tpu.reciprocal(x + x.dtype.type(1)))),
        "broadcast_to": (tl.broadcast_to, ANY_KIND, unary(lambda x: tl.broadcast_to(x, x.shape))),
        "bitcast": (tpu.bitcast, ANY_KIND, unary(lambda x: tpu.bitcast(tpu.bitcast(x, "uint32"), x.dtype))),
        "pack_elementwise": (tpu.pack_elementwise, ("integer",), unary(
            lambda x: tpu.pack_elementwise([x, x], packed_dtype="int16").astype(x.dtype))),
        "unpack_elementwise": (tpu.unpack_elementwise, ("integer",), unary(
            lambda x: tpu.unpack_elementwise(x, index=1, packed_dtype="int16", unpacked_dtype=x.dtype))),
    },
    "In `tl.triton`": {
        "dot": (triton.dot, ANY_KIND, unary(lambda x: product(triton.dot, x))),
        "approx_tanh": (triton.approx_tanh, ANY_KIND, unary(triton.approx_tanh)),
        "max_contiguous": (triton.max_contiguous, NONE, unary(lambda x: triton.max_contiguous(x, 8))),
        "inline_asm": (triton.inline_asm, ("float",), unary(lambda x: triton.inline_asm(
            "neg.f32 $0, $1;", x, constraints="=f,f", result_dtypes="float32", meaning=lambda x: -x))),
        "debug_barrier": (triton.debug_barrier, NONE, lambda x, i, o: triton.debug_barrier() or set_(o, x[...])),
    },
    "Array operations, among others": {
        "numpy.matmul": (tnp.matmul, ANY_KIND, unary(lambda x: product(tnp.matmul, x))),
        "numpy.sum": (tnp.sum, ANY_KIND, unary(lambda x: tnp.sum(x) * tnp.ones(8))),
        "numpy.max": (tnp.max, ANY_KIND, unary(lambda x: tnp.where(tnp.max(x) == x, x, x[0]))),
        "numpy.argmax": (tnp.argmax, ANY_KIND, unary(lambda x: tnp.full((8,), tnp.argmax(x)))),
        "numpy.cumsum": (tnp.cumsum, ANY_KIND, unary(tnp.cumsum)),
        "numpy.sort": (tnp.sort, ANY_KIND, unary(tnp.sort)),
        "numpy.take": (tnp.take, ANY_KIND, lambda x, i, o: set_(o, tnp.take(x[...], i[...]))),
        "numpy.where": (tnp.where, ANY_KIND, lambda x, i, o: set_(o, tnp.where(i[...] > 2, x[...], x[0]))),
        "lax.fori_loop": (lax.fori_loop, ANY_KIND, unary(lambda x: lax.fori_loop(0, 3, lambda k, s: s[::-1], x))),
        "lax.while_loop": (lax.while_loop, ANY_KIND, unary(
            lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1][::-1]), (0, x))[1])),
        "lax.scan": (lax.scan, ANY_KIND, unary(lambda x: lax.scan(lambda s, v: (v, s), x[0], x)[1])),
        "lax.cond": (lax.cond, ANY_KIND, lambda x, i, o: set_(
            o, lax.cond(i[0] > 0, lambda v: v[::-1], lambda v: v, x[...]))),
    },
}  # fmt: skip
ROWS = [(name, *row) for group in TABLE.values() for name, row in group.items()]


def operands(kind: str) -> tuple[np.ndarray, np.ndarray]:
    x = np.array([3, 1, 4, 1, 5, 0, 2, 6])
    return (x % 2 if kind == "bool" else x).astype(KINDS[kind]), np.array([2, 5, 2, 0, 7, 1, 3, 3], I32)


def run(body: Any, kind: str, interpret: bool) -> np.ndarray:
    x, i = operands(kind)
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((8,), x.dtype), grid=(1,), interpret=interpret, name="line")
    return np.asarray(call(x, i))


def taken(kinds: tuple[str, ...], body: Any) -> list[str]:
    """The kinds of dtypes with which a body runs."""
    found = []
    for kind in kinds:
        try:
            run(body, kind, True)
            found.append(kind)
        except (TilewrightError, TypeError, ValueError):
            pass
    return found


def meaning(function: Any) -> str:
    doc = inspect.getdoc(function) or ""
    first = " ".join(doc.split("\n\n")[0].split())
    return first.replace("|", "\\|")


def table() -> str:
    lines = []
    for group, entries in TABLE.items():
        lines += [f"### {group}", "", "| operation | meaning | dtypes | interpreter | CPU |", "|---|---|---|---|---|"]
        for name, (function, kinds, body) in entries.items():
            found = taken(kinds, body)
            shown = "all" if len(found) == len(KINDS) else ", ".join(found) if found else "-"
            names = ", ".join(f"`{n}`" for n in name.split(", "))
            lines.append(f"| {names} | {meaning(function)} | {shown} | yes | yes |")
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("name, function, kinds, body", ROWS, ids=[r[0] for r in ROWS])
def test_every_line_runs_compiled_and_interpreted(name, function, kinds, body):
    kind = (taken(kinds, body) or ["float"])[-1]
    np.testing.assert_allclose(run(body, kind, False), run(body, kind, True), rtol=1e-5, atol=1e-5)
    assert meaning(function), f"{name} has no docstring"


def test_the_table_is_up_to_date(root, request):
    page = root / "docs" / "language.md"
    text = page.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    made = f"{head}{BEGIN}\n{table()}\n{END}{tail}"
    if request.config.getoption("--update-golden"):
        page.write_text(made)
    assert page.read_text() == made, "docs/language.md is out of date: run this test with --update-golden"


def test_every_name_is_on_the_page(root):
    text = (root / "docs" / "language.md").read_text()
    internal = {"Block", "Kernel", "kernel_call_p", "interpret", "Slice", "Blocked", "MemorySpace", "no_block_spec",
                "Squeezed", "CostEstimate", "estimate_cost", "GridSpec", "SEMAPHORE", "cpu", "empty", "empty_like",
                "strides_from_shape"}  # fmt: skip
    missing = [n for n in tl.__all__ if n not in internal and not re.search(rf"`@?(\w*=|tl\.)*{n}\b", text)]
    assert not missing
