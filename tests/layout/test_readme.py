"""The code in the README runs, and gives what it says."""

import re

import numpy as np
import pytest


@pytest.fixture(scope="module")
def blocks(root):
    return re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)


@pytest.fixture(scope="module")
def names(blocks):
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    return names


def test_the_first_kernel_is_a_program_of_its_own(blocks, capsys):
    exec(compile(blocks[0], "README.md", "exec"), {})
    code = [line for line in blocks[0].splitlines() if "print" in line]
    assert capsys.readouterr().out.strip() == code[-1].partition("#")[2].strip()


def test_the_first_kernel_takes_any_length(names):
    for n in (1, 255, 256, 1000):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(names["add"](x, x + 1)), 2 * x + 1)


def test_the_fused_kernel(names):
    x, w = names["x"], names["w"]
    z = x @ w
    want = 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    np.testing.assert_allclose(np.asarray(names["y"]), want, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(names["batch"]), np.stack([want] * 3), rtol=1e-5)
    # Where z is 72, gelu is the identity to float32's precision, and so d/dw is a sum of x over rows.
    np.testing.assert_allclose(np.asarray(names["dw"]), np.broadcast_to(x.sum(0)[:, None], w.shape), rtol=1e-5)
    assert names["report"].best.configuration["rows"] in (32, 64, 128)


def test_what_it_says_of_what_lies_past_the_end(names):
    tw, tl = names["tw"], names["tl"]

    def total(x, out):
        out[...] = x[...].sum(keepdims=True)

    spec = tl.BlockSpec((64,), lambda i: (i,))
    each = tl.BlockSpec((1,), lambda i: (i,))
    sums = tl.kernel_call(total, tw.ShapeDtypeStruct((2,), "float32"), grid=2, in_specs=[spec], out_specs=each)
    with pytest.raises(tw.errors.PaddingError, match="fill=0") as refused:
        sums(names["x"][:, 0])
    assert __file__ in str(refused.value)
