"""Bodies written for tiles: their tiles chosen, and the same result at any, in every form and on every target."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.compilers import needs
from tests.support.gpu.walker import check_all, check_mosaic, check_triton
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.lang.targets.target import target_of

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((70, 50)).astype("f"), RNG.standard_normal((50, 33)).astype("f")
OFFSETS = np.array([0, 3, 3, 20, 70], np.int32)
TARGETS = ("cuda:sm_90", "cuda:sm_100", "rocm:gfx942", "tpu:v5e", "tpu:v6e")


@tl.auto("m k, k n -> m n")
def matmul(x, y):
    return x @ y


@tl.auto("m n -> m n", whole="n")
def softmax(x):
    e = tnp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@tl.auto("m n -> m", reduce="max")
def largest(x):
    return x.max(axis=1)


@tl.auto("m n -> m n, n")
def both(x, *, place):
    kept = tnp.where(place("n")[None, :] <= place("m")[:, None], x, 0)
    return kept, kept.sum(axis=0)


@tl.auto("b:m d -> b d")
def segments(x):
    return x.sum(axis=0)


@tl.auto("b:m d, d e -> b m e", most={"m": 50})
def projected(x, w):
    return x @ w


def padded(x):
    """Rows of batches side by side, zeros past the end of each."""
    out = np.zeros((4, 50, x.shape[1]), "f")
    for b, (low, high) in enumerate(zip(OFFSETS, OFFSETS[1:], strict=False)):
        out[b, : high - low] = x[low:high]
    return out


E = np.exp(X - X.max(1, keepdims=True))
CASES = {
    "product": (matmul, (X, Y), (X @ Y,), {"m": 16, "n": 16, "k": 16}),
    "softmax": (softmax, (X,), (E / E.sum(1, keepdims=True),), {"m": 16}),
    "largest": (largest, (X,), (X.max(1),), {"m": 8, "n": 16}),
    "segments": (segments, (OFFSETS, X), (np.stack([X[a:b].sum(0) for a, b in zip(OFFSETS, OFFSETS[1:])]),), {"m": 8}),
    "projected": (projected, (OFFSETS, X, Y), (padded(X @ Y),), {"m": 16, "e": 16}),
}  # fmt: skip


def close(found, expected):
    found = found if isinstance(found, (tuple, list)) else [found]
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(f), e, rtol=1e-5, atol=1e-5 * np.abs(e).max())


@pytest.mark.parametrize("name", CASES)
def test_any_tiles_give_the_same(name):
    call, args, expected, tiles = CASES[name]
    close(call(*args), expected)
    close(call(*args, tiles=tiles), expected)
    close(call(*args, tiles=tiles, interpret=True), expected)
    for check, target in ((check_triton, "cuda:sm_90"), (check_mosaic, "tpu:v5e")):
        with tw.config(kernel_target=target):
            assert check_all(check, call, *args, target=target, rtol=1e-4) == 1


@pytest.mark.parametrize("name", ["product", "segments"])
def test_derivatives_and_batches(name):
    call, args, _, tiles = CASES[name]
    x, rest = args[-1] if name == "segments" else args[0], args[1:] if name == "product" else ()
    lead = args[:1] if name == "segments" else ()

    def loss(x, tiles=tiles):
        return tnp.sum(tnp.square(call(*lead, x, *rest, tiles=tiles)))

    if name == "product":
        expected = 2 * (X @ Y) @ Y.T
    else:
        sums = CASES[name][2][0]
        expected = 2 * np.repeat(sums, np.diff(OFFSETS), 0)
    np.testing.assert_allclose(tw.grad(loss)(x), expected, rtol=1e-4, atol=1e-4)
    batched = tw.vmap(lambda x: call(*lead, x, *rest, tiles=tiles))(np.stack([x, -x]))
    close(batched[1], [-np.asarray(call(*args))])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("reduce", ["min", "max", "sum"])
def test_what_lies_past_the_end_changes_no_reduction(reduce, dtype):
    """A last tile that is not whole is filled up with the neutral element of the dtype, whatever its kind."""
    x = np.arange(100, 140).reshape(4, 10).astype(dtype) - np.dtype(dtype).type(0 if dtype == "uint8" else 120)
    call = tl.auto("m n -> m", reduce=reduce)(lambda x: getattr(tnp, reduce)(x, axis=1).astype(x.dtype))
    np.testing.assert_array_equal(call(x, tiles={"m": 4, "n": 4}), getattr(np, reduce)(x, axis=1).astype(dtype))


def test_several_results_and_places():
    def reference(x):
        kept = np.where(np.arange(50)[None] <= np.arange(70)[:, None], x, 0)
        return kept, kept.sum(0)

    for options in ({}, {"tiles": {"m": 70, "n": 16}}, {"tiles": {"m": 70, "n": 16}, "interpret": True}):
        close(both(X, **options), reference(X))


def test_a_narrow_result_is_summed_in_float32():
    @tl.auto("m k -> m")
    def sums(x):
        return x.sum(axis=1)

    x = np.full((16, 4096), 1.01, "float16")
    found = np.asarray(sums(x, tiles={"m": 16, "k": 16})).astype("f")
    np.testing.assert_allclose(found, x.astype("f").sum(1), rtol=2e-3)


def test_the_choice_follows_the_target():
    big = tw.ShapeDtypeStruct((4096, 4096), "bfloat16")
    for target in TARGETS:
        tiles = matmul.choices(big, big, target=target)[0]
        machine = target_of(target)
        assert (
            2 * 2 * (tiles["m"] * tiles["k"] + tiles["k"] * tiles["n"] + tiles["m"] * tiles["n"]) <= machine.block_bytes
        )
        assert min(tiles.values()) >= 32, (target, tiles)
        if target.startswith("tpu"):
            assert tiles["m"] * tiles["n"] >= 512 * 512
    assert matmul.choices(X, Y)[0] == {"m": 70, "n": 33, "k": 50}  # small arrays on the CPU are one cell
    assert softmax.choices(big, target="tpu:v5e")[0]["n"] == 4096


@pytest.mark.parametrize("target", [pytest.param(t, marks=[pytest.mark.targets] * (n not in (0, 3))) for n, t in
                                    enumerate(TARGETS)])  # fmt: skip
def test_every_target_compiles_what_is_chosen(target):
    needs(target)
    for call, args, _, _ in CASES.values():
        assert len(tw.compile(call, *args, target=target).resources) == 1


def test_the_tuner_takes_the_choices(tmp_path):
    store = tw.tuning.Store(tmp_path / "tuned.sqlite")
    tuned = tw.autotune(space=lambda *args: matmul.configurations(*args)[:3], store=store)(matmul)
    report = tuned.tune(X, Y, progress=False, isolate=False)
    assert len(report.trials) == 4 and {} in [t.configuration for t in report.trials], "the defaults, and the three"
    assert report.best.configuration in [{}, *matmul.configurations(X, Y)[:3]]
    close(tuned(X, Y), (X @ Y,))


def test_what_does_not_go_together():
    x = X[:8]
    for axes, words in (("m k", "write them as"), ("m m -> m", "stands twice"), ("m -> m k", "no operand"),
                        ("m-k -> m", "axes are names"), ("b:m d -> m d", "and not their batch")):  # fmt: skip
        with pytest.raises(errors.ArgumentError, match=words):
            tl.auto(axes)(lambda x: x)
    with pytest.raises(errors.ArgumentError, match="reduce is 'mean'"):
        tl.auto("m -> m", reduce="mean")(lambda x: x)
    with pytest.raises(errors.ArgumentError, match=r"names \['q'\]"):
        tl.auto("m -> m", space={"q": [8]})(lambda x: x)
    with pytest.raises(errors.ShapeError, match="axis k is 50, and 8"):
        matmul(X, x)
    with pytest.raises(errors.ShapeError, match="give an axis for each"):
        softmax(x[0])
    with pytest.raises(errors.ArgumentError, match="2 operands for 1"):
        softmax(x, x)
    with pytest.raises(errors.ShapeError, match="the body gives"):
        tl.auto("m n -> n m")(lambda x: x)(x)
    with pytest.raises(errors.ArgumentError, match="tiles has"):
        softmax(x, tiles={"k": 4})
    with pytest.raises(errors.ArgumentError, match="no tiles of wide fit"):

        @tl.auto("m n -> m n", whole="m n".split())
        def wide(x):
            return x

        wide.choices(tw.ShapeDtypeStruct((8192, 8192), "float32"), target="cuda:sm_90")
