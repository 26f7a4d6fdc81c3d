"""What authors of bodies write: constants made there, slices past the end, stores that repeat, misplaced calls."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.errors import (
    ArgumentError,
    ArgumentTypeError,
    BlockRankError,
    KernelBodyError,
    KernelError,
    OutOfBoundsError,
    PaddingError,
    ShapeError,
)

X = np.arange(16, dtype="f").reshape(4, 4)
TABLE, TWO = tnp.arange(4.0), tnp.float32(2)
WORDS = np.array([3, 1, 4, 1], "f")


def run(body, *args, out=(4, 4), **options):
    return np.asarray(tl.kernel_call(body, tw.ShapeDtypeStruct(out, "float32"), **options)(*(args or (X,))))


def refused(error, body, *words, out=(4, 4), **options):
    for interpret in (False, True):
        with pytest.raises(error) as caught:
            run(body, out=out, interpret=interpret, **options)
        for word in (*words, "test_body_mistakes.py", "remedy:"):
            assert word in str(caught.value), str(caught.value)


# ---------------------------------------------------------------------------- constants

SCALARS = {
    "float32": lambda: tnp.float32(2), "int32": lambda: tnp.int32(2), "array": lambda: tnp.array(2.0),
    "asarray": lambda: tnp.asarray(2.0, "float32"), "captured": lambda: TWO,
}  # fmt: skip
ARRAYS = {
    "floats": (lambda: tnp.array([1, 2, 3, 4.0]), [1, 2, 3, 4]),
    "of NumPy": (lambda: np.array([[1, 2], [3, 4]], "f").reshape(4), [1, 2, 3, 4]),
    "integers": (lambda: np.arange(4), [0, 1, 2, 3]),
    "booleans": (lambda: tnp.array([True, False, False, True]), [1, 0, 0, 1]),
    "halves": (lambda: tnp.array([1.5, -2, 0, 1.5], "bfloat16"), [1.5, -2, 0, 1.5]),
    "bytes": (lambda: np.array([1, -2, 0, 1], np.int8), [1, -2, 0, 1]),
    "rows": (lambda: tnp.array([[1.0], [2], [-0.0], [np.inf]]), [[1], [2], [0], [np.inf]]),
    "linspace": (lambda: tnp.linspace(0, 3, 4), [0, 1, 2, 3]),
    "all alike": (lambda: np.full(4, 7.0), [7, 7, 7, 7]),
}


def test_constants_made_in_a_body_are_literals_or_computed_there():
    """One kernel for all of them: what it is made of is checked to hold no array."""
    names = [*SCALARS, *ARRAYS]

    def body(x, o):
        for n, make in enumerate(SCALARS.values()):
            o[n] = x[...] * make()
        for n, (make, _) in enumerate(ARRAYS.values(), len(SCALARS)):
            o[n] = x[...] + make()

    wanted = np.stack([*(X * 2 for _ in SCALARS), *(X + np.array(v, "f") for _, v in ARRAYS.values())])
    for interpret in (False, True):
        found = run(body, out=wanted.shape, interpret=interpret)
        for n, name in enumerate(names):
            np.testing.assert_array_equal(found[n], wanted[n], name)


def test_constants_within_loops_branches_and_index_maps():
    def body(x, o):
        @tl.when(tl.program_id(0) >= tnp.int32(0))
        def _():
            def step(k, total):
                return total + tnp.array([1.0, 2, 3, 4]) * tnp.float32(0.5)

            o[...] = x[...] + tw.lax.fori_loop(0, 4, step, tnp.zeros((1, 4)))

    spec = tl.BlockSpec((1, 4), lambda i: (i * tnp.int32(1), 0))
    found = run(body, grid=4, in_specs=[spec], out_specs=spec)
    np.testing.assert_array_equal(found, X + 2 * np.array([1, 2, 3, 4], "f"))
    gradient = tw.grad(lambda x: tnp.sum(tl.kernel_call(body, tw.ShapeDtypeStruct((4, 4), "float32"), grid=4,
                                                        in_specs=[spec], out_specs=spec)(x)))(X)  # fmt: skip
    np.testing.assert_array_equal(gradient, np.ones((4, 4)))


def test_captured_arrays_say_how_to_pass_them():
    local = np.arange(4.0, dtype="f")
    for captured in (lambda: TABLE, lambda: WORDS, lambda: local, lambda default=local: default):
        refused(KernelBodyError, lambda x, o, c=captured: o.__setitem__(..., x[...] + c()), "closes over an array",
                "f32[4]", "`BlockSpec((4,), lambda *_: (0,))` in `in_specs`")  # fmt: skip
    refused(KernelBodyError, lambda x, o: o.__setitem__(..., np.arange(256.0).reshape(4, 64) @ tnp.ones((64, 4))),
            "f32[4,64]")  # fmt: skip


# ---------------------------------------------------------------------------- slices and stores

SLICES = {
    "a slice past the end": lambda x, o: o.__setitem__(..., x[3:7, :]),
    "a slice that starts past the end": lambda x, o: o.__setitem__(..., x[5:, :]),
    "a slice before the start": lambda x, o: o.__setitem__(..., x[-5:, :]),
    "a run past the end": lambda x, o: o.__setitem__(..., x[tl.ds(3, 4), :]),
    "a row past the end": lambda x, o: o.__setitem__(..., x[4, :]),
    "a store past the end": lambda x, o: o.__setitem__((slice(0, 8), slice(None)), x[...]),
    "a view past the end": lambda x, o: o.__setitem__(..., x.at[1:].at[2:5][...]),
}


@pytest.mark.parametrize("name", SLICES)
def test_static_slices_of_refs_stay_within(name):
    refused(OutOfBoundsError, SLICES[name], "is out of bounds for axis 0 of a Ref of shape")


def test_slices_within_and_steps():
    def body(x, o):
        o[0:2, :] = x[-2:, :]
        o[2:4, ::2] = x[:4:2, 0:2]
        o[2:, 1::2] = x[1:-1, :-2]

    wanted = np.concatenate([X[-2:], np.zeros((2, 4), "f")])
    wanted[2:4, ::2], wanted[2:, 1::2] = X[:4:2, 0:2], X[1:-1, :-2]
    np.testing.assert_array_equal(run(body), wanted)


def test_stores_repeat_only_what_the_author_says():
    refused(ShapeError, lambda x, o: o.__setitem__(..., tnp.sum(x[...], axis=1)), "(4,)", "(4, 4)", "keepdims=True")
    refused(ShapeError, lambda x, o: tl.store(o, ..., x[0]), "(4,)", "broadcast_to(value, (4, 4))")
    refused(ShapeError, lambda x, o: tl.addupdate(o, ..., x[0]), "(4,)")
    said = {
        "keepdims": lambda x, o: o.__setitem__(..., tnp.sum(x[...], axis=1, keepdims=True)),
        "broadcast": lambda x, o: o.__setitem__(..., tnp.broadcast_to(x[0], (4, 4))),
        "an axis of size 1": lambda x, o: o.__setitem__(..., x[0][None]),
        "a number": lambda x, o: o.__setitem__(..., 0),
        "an axis of size 1 of the Ref": lambda x, o: [o.__setitem__(slice(k, k + 1), x[0]) for k in range(4)] and None,
    }
    row = np.broadcast_to(X[0], (4, 4))
    wanted = dict(zip(said, (np.repeat(X.sum(1, keepdims=True), 4, 1), row, row, np.zeros((4, 4)), row), strict=True))
    for name, body in said.items():
        np.testing.assert_array_equal(run(body), wanted[name], name)


# ---------------------------------------------------------------------------- padding


def test_a_block_that_holds_only_what_lies_past_the_end_is_refused():
    def body(x, o):
        for r in range(3):
            o[0, 0] = x[r, 0]

    options = {"grid": 3, "out_specs": tl.BlockSpec((1, 1), lambda i: (0, 0)), "out": (1, 1)}
    cut = {"in_specs": [tl.BlockSpec((3, 4), lambda i: (i, 0))]}
    x = np.arange(32, dtype="f").reshape(8, 4)
    with pytest.raises(PaddingError, match=r"reaches output o\[0, 0\] in cell \(2,\)"):
        run(body, x, **options, **cut)
    filled = {"in_specs": [tl.BlockSpec((3, 4), lambda i: (i, 0), fill=5)]}
    assert run(body, x, **options, **filled) == 5


def test_element_indices_count_from_the_padding():
    def windows(place):
        spec = tl.BlockSpec((tl.Element(6, (1, 1)),), place, fill=0)
        return run(lambda x, o: o.__setitem__(..., x[...][None]), np.arange(1, 9, dtype="f"), out=(2, 6), grid=2,
                   in_specs=[spec], out_specs=tl.BlockSpec((1, 6), lambda i: (i, 0)))  # fmt: skip

    assert windows(lambda i: (i * 4,)).tolist() == [[0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 0]]
    with pytest.raises(OutOfBoundsError) as caught:
        windows(lambda i: (i * 4 - 1,))
    for words in ("elements -2 to 3", "has 8, with 1 before it and 1 after it", "from 0 to 4"):
        assert words in str(caught.value)


def _copied(at, x, o, sem):
    copy = tl.make_async_copy(x.at[at], o, sem)
    copy.start()
    copy.wait()


LATE = {
    "read": lambda at, x, o, sem: o.__setitem__(..., x[at]),
    "load": lambda at, x, o, sem: o.__setitem__(..., tl.load(x, (at, slice(None)))),
    "part": lambda at, x, o, sem: o.__setitem__(..., x.at[at].at[tl.ds(0, 4)][...]),
    "store": lambda at, x, o, sem: o.__setitem__(tl.ds(at.start - 4, 4), x[:4]),
    "copy": _copied,
}


@pytest.mark.parametrize("name", LATE)
def test_slices_that_start_too_late_are_found(name):
    """By data: unknown, an error when interpreted; by ids: refused."""
    x = np.arange(16, dtype="f").reshape(8, 2)

    def call(start, body_start, **options):
        def body(s, x, o, sem):
            o[...] = tnp.zeros_like(o)
            LATE[name](tl.ds(body_start(s), 4), x, o, sem)

        far = tl.BlockSpec(memory_space=tl.ANY) if name == "copy" else tl.BlockSpec((8, 2), lambda i: (0, 0))
        return tl.kernel_call(
            body, tw.ShapeDtypeStruct((4, 2), "float32"), grid=(1,), scratch_shapes=[tl.SemaphoreType.DMA],
            in_specs=[tl.BlockSpec(memory_space=tl.SMEM), far], out_specs=tl.BlockSpec((4, 2), lambda i: (0, 0)),
            **options,
        )(np.array([start], "int32"), x)  # fmt: skip

    expected = x[4:] if name != "store" else x[:4]
    assert np.array_equal(call(4, lambda s: s[0], interpret=True), expected)
    assert np.array_equal(call(4, lambda s: s[0]), expected)
    with pytest.raises(OutOfBoundsError, match="along axis 0 of a Ref"):
        call(5, lambda s: s[0], interpret=True)
    with pytest.raises(KernelError, match="places in bounds"):
        call(4, lambda s: s[0], strict=True)
    with pytest.raises(OutOfBoundsError, match="not within the"):
        call(4, lambda s: tl.program_id(0) + 5)


# ---------------------------------------------------------------------------- messages

MISPLACED = {
    "T": (KernelBodyError, lambda x, o: o.__setitem__(..., x.T), "read it first"),
    "reshape": (KernelBodyError, lambda x, o: o.__setitem__(..., x.reshape(16)), "read it first"),
    "sum": (KernelBodyError, lambda x, o: o.__setitem__(..., x.sum()), "read it first"),
    "astype": (KernelBodyError, lambda x, o: o.__setitem__(..., x.astype("int32").astype("float32")), "read it first"),
    "the value of when": (KernelBodyError, lambda x, o: o.__setitem__(..., tl.when(True)(lambda: 1)), "`when` gives"),
    "run_scoped": (ArgumentTypeError, lambda x, o: tl.run_scoped(lambda scratch: None), "one type for each parameter"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISPLACED)
def test_misplaced_calls_say_what_to_write(name):
    error, body, words = MISPLACED[name]
    refused(error, body, words)


def test_arguments_that_belong_elsewhere():
    with pytest.raises(ArgumentError, match=r"lang.triton.CompilerParams\(num_warps=4\)"):
        run(lambda x, o: None, num_warps=4)
    with pytest.raises(ArgumentTypeError, match="fill is 'zero'"):
        tl.BlockSpec((4,), lambda i: (i,), fill="zero")
    with pytest.raises(BlockRankError, match="a list is as many operands"):
        run(lambda x, o: None, [1.0, 2.0], in_specs=[tl.BlockSpec((2,), lambda: (0,))])
