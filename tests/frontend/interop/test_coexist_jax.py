"""One process with jax, imported first and last: arrays pass both ways without a copy, neither disturbs the other."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")

FIRST = """
    import jax, jax.numpy as jnp
    import tilewright as tw
"""
LAST = """
    import sys
    import tilewright as tw
    import numpy as np
    before = tw.jit(lambda v: v + v)(np.ones(3, np.float32))
    assert "jax" not in sys.modules
    import jax, jax.numpy as jnp
    assert (before + before).tolist() == [4, 4, 4]
"""
BODY = """
    import numpy as np
    from tilewright.xla_backend.arrays.array import Array, as_array

    x, j = as_array(np.arange(64, dtype=np.float32)), jnp.arange(64.0)

    # ours to jax
    for there in (jnp.asarray(x), jnp.from_dlpack(x)):
        assert isinstance(there, jax.Array) and there.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert isinstance(j + x, jax.Array) and isinstance(x + j, jax.Array)
    assert (j + x).tolist() == (2 * np.arange(64)).tolist()

    # jax's to ours
    here = as_array(j)
    assert type(here) is Array and here.unsafe_buffer_pointer() == j.unsafe_buffer_pointer()
    f = tw.jit(lambda v: v * 2)
    for _ in range(3):
        assert type(f(j)) is Array and f(j).tolist() == f(x).tolist()
    assert float(tw.grad(lambda v: (v * v) * 1.0)(jnp.float32(3))) == 6.0
    assert as_array(jnp.float32(1) * 1).weak_type == (jnp.float32(1) * 1).weak_type
    assert as_array(jnp.asarray(1.0)).weak_type == jnp.asarray(1.0).weak_type
    table = tw.jit(lambda v: v + j)
    assert table(x).tolist() == (2 * np.arange(64)).tolist()

    for dtype in ("bfloat16", "float8_e4m3fn", "int4", "bool", "complex64", "uint8"):
        theirs = jnp.ones(5, dtype)
        ours = as_array(theirs)
        assert ours.dtype == theirs.dtype and np.array_equal(np.asarray(ours), np.asarray(theirs)), dtype
        assert np.array_equal(np.asarray(jnp.asarray(ours)), np.asarray(theirs)), dtype

    # each still works on its own
    assert jax.jit(lambda v: jnp.sin(v) @ v)(jnp.ones(3)) > 0
    assert jax.tree.map(lambda a: a, {"a": x})["a"] is x
    with jax.enable_x64(True):
        assert jax.jit(lambda v: v + 1)(np.arange(3.0)).dtype == np.float64
    assert jax.jit(lambda v: v + 1)(np.arange(3.0)).dtype == np.float32
    jax.vmap(jax.grad(lambda v: jnp.sin(v)))(jnp.ones(3))
    jax.random.normal(jax.random.key(0), (3,))
    assert repr(as_array(np.eye(2))) == repr(jnp.eye(2))
    with tw.config(enable_x64=True):
        assert tw.jit(lambda v: v + 1)(np.arange(3.0)).dtype == np.float64
    del j, there, theirs
    assert here.tolist() == list(range(64)) and x.tolist() == list(range(64))
    print("both work")
"""


@pytest.mark.parametrize("start", [FIRST, LAST], ids=["jax first", "jax last"])
def test_in_one_process(start):
    code = textwrap.dedent(start) + textwrap.dedent(BODY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "both work" in done.stdout, done.stderr[-3000:]
