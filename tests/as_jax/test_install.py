"""The package under the name `jax`: modules, metadata, errors, scripts. Each in a process of its own."""

import subprocess
import sys

import pytest

from tests.as_jax.own_process import check, run
from tests.support.paths import ROOT


def test_modules_are_this_packages():
    check("""
import tilewright as tw
import jax, jax.numpy as jnp, jax.scipy.special, jax.nn.initializers, jax.tree_util
from jax import lax, random, Array, P
from jax.experimental import pallas as pl, sparse
import jax.experimental.pallas.tpu as pltpu
from jax.experimental.pallas import triton as plgpu
assert jnp is tw.numpy and lax is tw.lax and jax.scipy.special is tw.scipy.special
assert jax.jit is tw.jit and Array is tw.Array and jax.config is tw.config
assert pl is tw.lang and pltpu is tw.lang.tpu and plgpu is tw.lang.triton and sparse is tw.experimental.sparse
assert jax.__version__ == "0.11.2" and jax.__version_info__ == (0, 11, 2)
import importlib.metadata, importlib.util
assert importlib.metadata.version("jax") == "0.11.2"
assert importlib.util.find_spec("jax.numpy") is not None
assert float(jax.jit(jax.grad(lambda x: jnp.sin(x) * x))(1.0)) == float(tw.grad(lambda x: jnp.sin(x) * x)(1.0))
jax.config.update("jax_enable_x64", True)
assert jnp.ones(2).dtype == "float64" and not hasattr(jnp.ones(2), "__jax_array__")
import numpy as np
zeros = np.zeros_like(jnp.ones(2))
zeros[0] = 1  # NumPy's functions give NumPy's arrays, its operators ours
assert type(np.sin(jnp.ones(2))) is np.ndarray and type(zeros * jnp.ones(2)) is Array
assert str(jax.jit(lambda x: x * 2).trace(1.0).jaxpr).startswith("{ lambda ; a:f64[]. let b:f64[] = mul")
assert np.argsort(jnp.array([2.0, 1.0]), 0, kind="stable").tolist() == np.take(jnp.arange(2), [1, 0]).tolist()
""")


def test_import_jax_loads_the_modules_that_tools_look_for_names_in():
    check("""
import sys
import jax
import tilewright as tw
assert sys.modules["jax.tree_util"] is tw.tree_util is jax.tree_util
assert sys.modules["jax.numpy"] is tw.numpy and sys.modules["jax.lax"] is tw.lax
""")


def test_a_kernel_in_the_names_of_mosaic_gpu():
    check("""
import numpy as np
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

def body(x_gmem, o_gmem, x_smem, o_smem, barrier):
    i = jax.lax.axis_index("rows")
    plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(i * 64, 64)], x_smem, barrier)
    plgpu.barrier_wait(barrier)
    o_smem[...] = plgpu.layout_cast(x_smem[...], plgpu.Layout.WG_STRIDED((64, 32), vec_size=2)) + 1
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[pl.ds(i * 64, 64)])
    plgpu.wait_smem_to_gmem(0, wait_read_only=True)

tile = plgpu.SMEM((64, 32), jnp.float32, transforms=(plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128)))
x = jnp.arange(128 * 32, dtype=jnp.float32).reshape(128, 32)
add_one = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(2,), grid_names=("rows",),
                       scratch_types=[tile, tile, plgpu.Barrier()], interpret=True)
np.testing.assert_array_equal(add_one(x), x + 1)
""")


def test_unknown_names_say_that_they_are_not_adapted():
    out = check("""
import jax, jax.core
assert not hasattr(jax.core, "find_top_trace") and not hasattr(jax, "nothing_of_the_kind")
for code in ("jax.core.pp_jaxpr", "from jax.core import pp_jaxpr", "import jax._src.interpreters.mlir",
             "from jax._src import literals", "import jax.nothing"):
    try:
        exec(code)
    except (AttributeError, ImportError) as error:
        print(type(error).__name__, error.what)
""")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["NotAdaptedNameError", *["NotAdaptedModuleError"] * 4]
    assert "jax.core.pp_jaxpr is of jax's own insides" in lines[0] and "jax.core has no pp_jaxpr" in lines[1]
    assert "private to jax" in lines[2] and "private to jax" in lines[3]


def test_the_real_jax_is_not_replaced():
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-c", "import jax, tilewright.as_jax as a\na.install()"], capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}, timeout=120,
    )  # fmt: skip
    assert "RealJaxError: the real jax is loaded already, from" in done.stderr and done.returncode


def test_uninstall_puts_everything_back():
    pytest.importorskip("jax")
    done = subprocess.run([sys.executable, "-c", """
import sys
import numpy as np
import tilewright as tw
from tilewright import as_jax
from tilewright.as_jax.aliases import ALIASES

def state():
    x = tw.numpy.ones(3)
    names = [(owner.__name__, name, vars(owner).get(name)) for owner, name, _ in ALIASES]
    return names, type(np.sin(x)), hasattr(x, "__jax_array__"), tw.config.parallel_writes, [*sys.meta_path]

for _ in range(2):
    before, modules = state(), {n for n in sys.modules if n.split(".")[0] == "jax"}
    as_jax.install(quiet=True)
    import jax, jax.core, jax.numpy
    assert jax.core.__name__ == "jax.core" and jax.numpy is tw.numpy
    assert jax.make_jaxpr(lambda x: x + 1)(1.0).jaxpr.invars and type(np.sin(jax.numpy.ones(3))) is np.ndarray
    as_jax.uninstall()
    assert state() == before and {n for n in sys.modules if n.split(".")[0] == "jax"} == modules
import jax
print(type(jax.numpy.asarray(tw.numpy.ones(3))).__module__, "tilewright" in jax.__file__)
"""], capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        timeout=120)  # fmt: skip
    assert not done.returncode, done.stderr
    assert done.stdout.split() == ["jaxlib._jax", "False"]


def test_scripts_modules_and_arguments(tmp_path):
    (tmp_path / "beside.py").write_text("import jax\nname = jax.__name__\n")
    (tmp_path / "script.py").write_text("import sys, beside\nprint(sys.argv[1:], __name__, beside.name)\n")
    assert run("script.py", "--fast", folder=tmp_path).stdout == "['--fast'] __main__ jax\n"
    assert run("-m", "script", "x", folder=tmp_path).stdout == "['x'] __main__ jax\n"
    assert run().returncode == 2 and "usage" in run("-m").stderr


def test_private_attributes_of_arrays_and_shardings_that_libraries_read():
    check("""
import jax, numpy as np, jax.numpy as jnp
x = jnp.arange(3)
assert x._committed is x.committed
assert type(x._value) is np.ndarray and x._value.tolist() == [0, 1, 2]
s = jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x"))
assert s._device_assignment == (jax.devices()[0],)
""")
