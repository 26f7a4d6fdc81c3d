"""Tuning: nothing is measured unasked, what is measured is kept, what is wrong is refused."""

import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from tilewright import errors
from tilewright import lang as tl
from tilewright.tuning import Store, autotune


def body(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0


def doubled(x, *, block=128):
    spec = tl.BlockSpec((block,), lambda i: (i,))
    return tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct(x.shape, x.dtype), grid=x.size // block, in_specs=[spec],
                          out_specs=spec)(x)  # fmt: skip


X = np.arange(1024, dtype=np.float32)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "tuning.sqlite")


def test_the_fastest_right_configuration_is_kept_and_used(store):
    seen = []

    @autotune(space={"block": [64, 128, 3]}, store=store)
    def f(x, *, block=128):
        seen.append(block)
        return doubled(x, block=block) if block != 3 else x * 3.0

    assert np.array_equal(f(X), 2 * X) and set(seen) == {128}
    report = f.tune(X, progress=False)
    assert [t.seconds is None for t in report.trials] == [False, False, True]
    assert "differs from the reference" in report.trials[-1].why
    assert "3 configurations" in str(report) and "refused" in str(report)
    seen.clear()
    assert np.array_equal(f(X), 2 * X) and seen == [report.best.configuration["block"]]
    assert f.best(X[:1000]) == report.best.configuration  # the same bucket
    assert f.best(np.zeros(5000, np.float32)) == report.best.configuration  # the nearest one
    assert f.best(X.astype(np.int32)) == {"block": 128}  # another dtype: the default
    assert f.best(X.reshape(4, 256)) == {"block": 128}  # another rank: the default


def test_memory_prunes_and_failures_are_isolated(store):
    @autotune(space=[{"block": 1024}, {"block": 64}, {"block": 7}], store=store, memory=4096)
    def f(x, *, block=64):
        if block == 7:
            raise RuntimeError("broken")
        return doubled(x, block=block)

    report = f.tune(X, progress=False)
    why = {t.configuration["block"]: t.why for t in report.trials}
    assert why[64] is None and "over 4096" in why[1024] and "broken" in why[7]


def test_requiring_measurements(store):
    @autotune(space={"block": [64]}, store=store, required=True)
    def f(x, *, block=64):
        return doubled(x, block=block)

    with pytest.raises(errors.NotTunedError, match="no measurements"):
        f(X)
    f.tune(X, progress=False)
    assert np.array_equal(f(X), 2 * X)


def test_nothing_that_works_is_an_error(store):
    f = autotune(space={"block": [3]}, store=store, reference=lambda x: x)(doubled)
    with pytest.raises(errors.TuningError, match="no configuration"):
        f.tune(X, progress=False)


def test_a_second_process_finds_the_result(tmp_path):
    code = tmp_path / "tuned.py"
    code.write_text(
        "import sys, numpy as np\n"
        "from tilewright.tuning import Store, autotune\n"
        "@autotune(space={'k': [1, 2]}, store=Store(sys.argv[1]), required=True)\n"
        "def f(x, *, k=1):\n    return x * 2\n"
        "if sys.argv[2] == 'tune':\n    f.tune(np.ones(8, 'float32'), progress=False)\n"
        "print(sorted(f.best(np.ones(8, 'float32'))))\n"
    )
    for action in ("tune", "use"):
        out = subprocess.run(
            [sys.executable, code, tmp_path / "db.sqlite", action], capture_output=True, text=True, check=True
        )
        assert out.stdout.split() == ["['k']"]


def test_an_unusable_database_only_warns(tmp_path):
    path = tmp_path / "broken.sqlite"
    path.write_text("this is not a database" * 100)
    f = autotune(space={"block": [64]}, store=Store(path))(doubled)
    with pytest.warns(UserWarning, match="cannot be used"):
        assert f.best(X) == {"block": 128}


def test_under_jit_the_known_configuration_is_used(store):
    f = autotune(space={"block": [64, 256]}, store=store)(doubled)
    best = f.tune(X, progress=False).best.configuration
    text = str(tw.compile(lambda x: f(x), X, stop="program"))
    assert f"block ({best['block']})" in text
    with pytest.raises(errors.ArgumentError, match="inside a transformation"):
        tw.jit(lambda x: f.tune(x))(X)


@pytest.mark.parametrize("space", [{"blok": [1, 2]}, [{"block": 1}, {"blok": 2}]])
def test_a_space_names_parameters_of_the_function(space):
    with pytest.raises(errors.ArgumentError, match=r"'blok', which double does not take(.|\s)*parameters are x, block"):

        @tw.autotune(space=space)
        def double(x, *, block=1):
            return x * 2
