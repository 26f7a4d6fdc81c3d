"""Tries an installed package: its files, a compiled kernel and its gradient, an export, the command."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright import export
from tilewright import lang as tl

assert "site-packages" in tw.__file__, tw.__file__
assert metadata.version("tilewright") == tw.__version__
folder = Path(tw.__file__).parent
for name in ("py.typed", "as_jax/tested.json", "cutlass_backend", "tuning/shipped"):
    assert (folder / name).exists(), name
assert list((folder / "cutlass_backend").glob("*.hpp")) and list((folder / "tuning" / "shipped").glob("*.json"))


def body(x, y, out):
    out[...] = x[...] * y[...]


def product(x, y):
    block = tl.BlockSpec((256,), lambda i: (i,))
    return tl.kernel_call(body, out_shape=x, grid=tl.cdiv(x.size, 256), in_specs=[block, block], out_specs=block)(x, y)


x, y = np.arange(1000.0, dtype=np.float32), np.full(1000, 3.0, np.float32)
np.testing.assert_array_equal(tw.jit(product)(x, y), x * y)
np.testing.assert_array_equal(tw.grad(lambda x: product(x, y).sum())(x), y)
again = export.deserialize(bytes(export.export(tw.jit(product))(x, y).serialize()))
np.testing.assert_array_equal(again.call(x, y), x * y)
done = subprocess.run([Path(sys.executable).parent / "tilewright", "--version"], capture_output=True, text=True)
assert tw.__version__ in done.stdout, done
assert "jax" not in sys.modules
