"""What notebooks show: tables of small arrays, pictures of kernels, reports."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import tilewright as tw
from tests.support.programs import MATRIX, WEIGHTS, matmul
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.sharding import AbstractMesh, NamedSharding, P


def parsed(value):
    """The HTML of a value, which must be well-formed."""
    return ET.fromstring(f"<root>{value._repr_html_()}</root>")


def cells(value):
    return [[cell.text for cell in row] for row in parsed(value).iter("tr")]


def test_small_arrays_are_tables():
    assert cells(tnp.arange(6.0).reshape(2, 3)) == [["0.", "1.", "2."], ["3.", "4.", "5."]]
    assert cells(tnp.array([1, -2])) == [["1", "-2"]]
    assert parsed(tnp.ones((2, 2), "bfloat16")).find(".//caption").text == "bf16[2,2]"
    assert cells(tnp.array([[1 + 2j]])) == [["1.+2.j"]]


@pytest.mark.parametrize("make", [
    lambda: tnp.ones(1000), lambda: tnp.ones(()), lambda: tnp.ones((2, 2, 2)), lambda: tnp.ones((0, 3)),
    lambda: tw.random.key(0),
])  # fmt: skip
def test_other_arrays_are_their_text(make):
    x = make()
    assert parsed(x).find("pre").text == repr(x)


def test_a_deleted_array_is_shown():
    x = tnp.ones(3)
    x.delete()
    assert "deleted" in x._repr_html_()


def test_pictures_are_drawn():
    picture = tl.visualize(matmul, MATRIX, WEIGHTS)
    assert picture.startswith("<svg") and "<svg" in picture._repr_html_()
    parsed(picture)


def test_the_page_with_a_slider_is_a_frame(tmp_path):
    shown = tl.visualize(matmul, MATRIX, WEIGHTS, path=tmp_path / "a.html")._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown


def test_explanations_have_tables_and_pictures():
    found = tw.explain(matmul, MATRIX, WEIGHTS, target="tpu:v5e")
    html = found._repr_html_()
    assert "<svg" in html and "bound by" in html and found.kernels[0].kernel.name in html
    assert "<svg" in found.kernels[0]._repr_html_() and "flops" in found.kernels[0]._repr_html_()


def test_tuning_reports_are_tables(tmp_path):
    store = tw.tuning.Store(tmp_path / "tuned.sqlite")
    report = tw.autotune(space={"n": [1, 2]}, store=store)(lambda x, n=1: x * n / n).tune(
        np.ones(8, np.float32), progress=False, isolate=False
    )
    rows = cells(report)
    assert rows[0] == ["configuration", "ms", "refused"] and {r[0] for r in rows[1:]} >= {"n=1"}


def test_profiles_are_tables():
    f, x = tw.jit(lambda x: tnp.tanh(x @ x)), tnp.ones((64, 64))
    f(x).block_until_ready()
    with tw.profile() as found:
        f(x).block_until_ready()
    rows = cells(found)
    assert rows[0][:2] == ["share", "time"] and len(rows) > 1
    assert "at the peak" in parsed(tw.memory_report(f, x)).find("pre").text


def test_shardings_are_grids_of_devices():
    mesh = tw.make_mesh((1, 1), ("rows", "columns"))
    sharding = NamedSharding(mesh, P("rows"))
    assert cells(sharding) == [[str(tw.devices()[0])]]
    assert "P('rows',)" in parsed(sharding).find(".//caption").text
    abstract = NamedSharding(AbstractMesh((2,), ("x",)), P("x"))
    assert parsed(abstract).find("pre").text == repr(abstract)
