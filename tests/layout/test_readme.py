"""The code in the README runs, and gives what it says."""

import re

import numpy as np


def test_readme_kernel(root):
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    x, w = names["x"], names["w"]
    z = x @ w
    want = 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    np.testing.assert_allclose(np.asarray(names["y"]), want, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(names["batch"]), np.stack([want] * 3), rtol=1e-5)
    # Where z is 64, gelu is the identity to float32's precision, and so d/dw is a sum of x over rows.
    np.testing.assert_allclose(np.asarray(names["dw"]), np.broadcast_to(x.sum(0)[:, None], w.shape), rtol=1e-5)
