"""The code in the README runs, and gives what it says; its picture is that of the result files."""

import re

import numpy as np
import pytest

from docs import ratios


@pytest.fixture(scope="module")
def block(root):
    (block,) = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    return block


@pytest.fixture(scope="module")
def names(block):
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    return names


def test_the_last_line_prints_what_it_says(block, capsys):
    exec(compile(block, "README.md", "exec"), {})
    last = block.splitlines()[-1]
    assert capsys.readouterr().out.splitlines()[-1] == last.partition("#")[2].strip()


def test_the_kernel_takes_any_length(names):
    for n in (1, 255, 256, 1000):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(names["add"](x, x + 1)), 2 * x + 1)


def test_the_derivative_and_the_batch(names):
    x = names["x"]
    np.testing.assert_allclose(np.asarray(names["slope"]), 8 * x)
    np.testing.assert_array_equal(np.asarray(names["rows"]), np.stack([2 * x, 0 * x]))


def test_a_result_of_out_of_bounds_elements_is_rejected(names):
    tw, tl = names["tw"], names["tl"]

    def total(x, out):
        out[...] = x[...].sum(keepdims=True)

    spec = tl.BlockSpec((256,), lambda i: (i,))
    each = tl.BlockSpec((1,), lambda i: (i,))
    sums = tl.kernel_call(total, tw.ShapeDtypeStruct((4,), "float32"), grid=4, in_specs=[spec], out_specs=each)
    with pytest.raises(tw.errors.PaddingError, match="fill=0") as rejected:
        sums(names["x"])
    assert __file__ in str(rejected.value)


def test_parallel_instances_that_write_one_block_are_rejected(names):
    tw, tl = names["tw"], names["tl"]
    spec, one = tl.BlockSpec((256,), lambda i: (i,)), tl.BlockSpec((256,), lambda i: (0,))
    call = tl.kernel_call(names["add_blocks"], tw.ShapeDtypeStruct((256,), "float32"), grid=4, in_specs=[spec, spec],
                          out_specs=one, dimension_semantics=("parallel",))  # fmt: skip
    with pytest.raises(tw.errors.RaceError):
        call(names["x"], names["x"])


def test_the_picture_is_that_of_the_results():
    assert ratios.PICTURE.read_text() == ratios.svg(), "python -m docs.ratios"
    assert all(len(cases) > 5 for cases in ratios.groups().values())


def test_it_fits_on_two_screens(root):
    text = (root / "README.md").read_text()
    assert len(text.splitlines()) <= 70 and text.count("![") == 1
