"""The programs of the libraries' own front pages, as they come with what is installed; skipped where it is absent.

What a page leaves to the reader (imports, data) is said before its blocks, and what must hold after them.
"""

import doctest
import importlib.metadata
import re
import subprocess
import sys
from textwrap import dedent
from typing import NamedTuple

import pytest

from tests.support.paths import ROOT

BLOCK = re.compile(r"^ *``` *py(?:thon)? *\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


class Page(NamedTuple):
    """The blocks of a page that are whole programs, what goes before them, and what holds after them."""

    blocks: tuple[int, ...]
    after: str
    before: str = ""


PAGES = {
    "optax": Page(
        (0, 1, 2), "assert params['w'].shape == (2,) and (params['w'] != 1).all()",
        "import jax, jax.numpy as jnp, optax\nlearning_rate, num_weights, xs, ys = 0.1, 2, jnp.ones(2), jnp.array(5.0)",
    ),
    "flax": Page(
        (0, 1, 2),
        "rngs, x = nnx.Rngs(0), jax.numpy.ones((4, 3))\nassert MLP(3, 8, 2, rngs=rngs)(x).shape == (4, 2)\n"
        "assert CNN(rngs=rngs)(jax.numpy.ones((1, 28, 28, 1))).shape == (1, 10)\n"
        "assert AutoEncoder(rngs).encode(x[:, :2]).shape == (4, 10)",
        "import jax\nfrom functools import partial\nfrom flax import nnx",
    ),
    "equinox": Page((0, 1), "assert grads.weight.shape == (3, 2)"),
    "dm-haiku": Page(
        (0, 4, 5, 6), "assert y.shape == (1, 10) and prediction.shape == (1, 1) and grads",
        "import jax, jax.numpy as jnp, numpy as np\ninput_dataset = iter([(jnp.ones((2, 5)), jnp.array([1, 2]))] * 3)",
    ),
    "chex": Page(
        (0, 8), "moved = jax.tree_util.tree_map(lambda x: 2.0 * x, parameters)\nassert (moved.x == 2).all()\n"
        "import unittest\nassert unittest.TextTestRunner().run("
        "unittest.defaultTestLoader.loadTestsFromTestCase(ExampleTest)).wasSuccessful()",
        "import chex, jax, jax.numpy as jnp, tree",
    ),
    "distrax": Page(tuple(range(13)), "assert abs(jitted_kl(dist_0, dist_1) - 85.237) < 1e-2"),
    "numpyro": Page((0, 1, 2, 4, 5), "assert 2 < np.mean(samples_predictive['obs']) < 7"),
    "blackjax": Page((0,), "assert jnp.isfinite(state.logdensity)"),
    "diffrax": Page((0,), "assert jnp.allclose(solution.ys[-1], y0 * jnp.exp(-1.0), rtol=1e-4)"),
    "lineax": Page((0, 1), "assert jax.numpy.allclose(minimum, 1.0, atol=1e-4)"),
    "optimistix": Page((0,), "assert jnp.allclose(y1, y0 + jnp.tanh(y1) * dt, atol=1e-4)"),
    "ott-jax": Page(
        (0,), "assert jnp.allclose(out.matrix.sum(1), a, atol=1e-2)", "import matplotlib\nmatplotlib.use('agg')"
    ),
}  # fmt: skip


def program(block):
    """A block as a program; what follows prompts, where it has them."""
    text = dedent(block)
    return "".join(e.source for e in doctest.DocTestParser().get_examples(text)) if ">>> " in text else text


@pytest.mark.parametrize("library", PAGES)
def test_the_front_page(library):
    try:
        metadata = importlib.metadata.metadata(library)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{library} is not installed")
    page, blocks = PAGES[library], BLOCK.findall(metadata.get_payload() or metadata["Description"])
    code = "\n".join([page.before, *(program(blocks[i]) for i in page.blocks), page.after])
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.as_jax", "-c", code], capture_output=True, text=True, timeout=300,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
