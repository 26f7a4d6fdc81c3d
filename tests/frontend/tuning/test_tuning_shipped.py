"""The tables of tuning results that come with the package."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import nn
from tilewright.core.support.version import JAXLIB, __version__
from tilewright.tuning import autotuned, tables

OPERATIONS = (nn.fused.dot_product_attention, nn.fused.linear_cross_entropy)


def test_every_entry_is_for_a_function_of_the_fused_library_as_it_is_now():
    known = {autotuned._identity(f.__wrapped__.fun): f.__wrapped__ for f in OPERATIONS}
    for problem, configuration, _ in tables.shipped():
        assert problem.versions == f"{__version__}/{JAXLIB}"
        assert problem.function in known, "made again by `python -m benchmarks shipped`"
        assert known[problem.function]._fits(configuration), (problem, configuration)


def test_the_identity_of_a_function_is_its_code(tmp_path):
    def of(number, source):
        path = tmp_path / f"m{number}.py"
        path.write_text(source)
        namespace = {"__name__": "m"}
        exec(compile(source, str(path), "exec"), namespace)
        return autotuned._identity(namespace["f"])

    plain = of(0, "def f(x):\n    return x * 2\n")
    assert plain == of(1, 'def f(x):\n    """Twice."""\n\n    # a comment\n    return (x  * 2)  # another\n')
    assert plain != of(2, "def f(x):\n    return x * 3\n")


def test_symbolic_sizes_use_the_defaults():
    @tw.autotune(space={"block": [2, 4, 8]})
    def double(x, *, block=2):
        return x * block

    (b,) = tw.export.symbolic_shape("b")
    exported = tw.export.export(tw.jit(lambda x: double(x)))(tw.ShapeDtypeStruct((b, 3), "float32"))
    assert exported.call(np.ones((5, 3), np.float32)).tolist() == [[2.0] * 3] * 5


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "SHIPPED", tmp_path / "shipped")
    tables.SHIPPED.mkdir()
    tables.shipped.cache_clear()
    yield tables.SHIPPED / "here.json"
    monkeypatch.undo()
    tables.shipped.cache_clear()


def test_calls_use_what_is_shipped_until_something_was_decided_here(tmp_path, table):
    @tw.autotune(space={"block": [2, 4, 8]})
    def double(x, *, block=2):
        return x * 2

    x = np.arange(8, dtype=np.float32)
    with tw.config(cache_dir=str(tmp_path / "made")):
        assert double.keep({"block": 4}, x) and double.store.record(
            double.problem(x), [({"block": 4}, 1e-3, None, None)]
        )
        assert tables.write(table, double.store) == 1
    with tw.config(cache_dir=str(tmp_path / "used")):
        double.chosen.clear()
        assert double.best(x) == {"block": 4}
        assert double.best(np.zeros(1000, np.float32)) == {"block": 4}, "the nearest"
        assert double.keep({"block": 8}, x) and double.best(x) == {"block": 8}
