"""No module has a global that changes after import: what does is in the one runtime."""

import ast
import subprocess
import sys

from tests.support.paths import ROOT, nodes_of

PACKAGES = (
    "core", "lang", "kernels", "xla_backend", "triton_backend", "mosaic_tpu", "mosaic_gpu", "cutlass_backend",
    "src/tilewright",
)  # fmt: skip


def sources():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not any(part.is_symlink() for part in path.parents if part != ROOT):
                yield path


def test_no_function_rebinds_a_global():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, ast.Global)
    ]
    assert not found, "keep it in core/runtime.py's `runtime`: a slot, or `runtime.part(name, state)`"


def test_no_cache_is_outside_the_runtime():
    found = []
    for path in sources():
        if path.relative_to(ROOT).as_posix() == "core/caches.py":
            continue
        for node in nodes_of(path):
            named = (
                isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "functools"
            )
            imported = isinstance(node, ast.ImportFrom) and node.module == "functools"
            if (named and node.attr in ("cache", "lru_cache")) or (
                imported and {a.name for a in node.names} & {"cache", "lru_cache"}
            ):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found, "use `cached` or `once` of core/caches.py"


# Every module is imported, then much is done; what modules hold is compared before and after.
SESSION = """
import collections, functools, importlib, pkgutil, sys, warnings
import numpy as np
import tilewright as tw
from tilewright import lang as tl, lax, nn, numpy as tnp, random

for found in pkgutil.walk_packages(tw.__path__, "tilewright."):
    try:
        importlib.import_module(found.name)
    except ImportError:
        pass  # an optional package is not here
from tilewright.core.runtime import runtime

OWNED = {id(part) for part in runtime.parts.values()} | {id(cache) for _, cache in runtime.caches()} | {id(runtime)}
HOLDERS = (dict, list, set, bytearray, collections.deque)

def held(value):
    if id(value) in OWNED or isinstance(value, type(sys)):
        return None
    if isinstance(value, HOLDERS):
        inner = value.items() if isinstance(value, dict) else value
        return [tuple(map(id, x)) if isinstance(x, tuple) else id(x) for x in inner], len(value)
    if type(value).__module__.startswith("tilewright") and hasattr(value, "__dict__"):
        derived = {n for c in type(value).__mro__ for n, v in vars(c).items() if type(v) is functools.cached_property}
        return {n: (id(v), held(v)) for n, v in vars(value).items() if n not in derived}
    return id(value)

def everything():
    found = {}
    for name, module in sorted(sys.modules.items()):
        if name.startswith("tilewright"):
            for key, value in vars(module).items():
                if key.startswith("__"):
                    continue
                found[name, key] = held(value)
                if isinstance(value, type) and value.__module__ == name:
                    for inner, v in vars(value).items():
                        if not inner.startswith("__"):
                            found[name, key, inner] = held(v)
    return found

before = everything()

def work():
    x = tnp.ones((8, 8))
    f = tw.jit(lambda x: tnp.sum(tnp.tanh(x @ x)))
    f(x), tw.grad(f)(x), tw.vmap(lambda r: r.sum())(x), x[0], x + 1, x * x, -x, x % 2, tnp.sort(x), nn.softmax(x)
    random.normal(random.key(0), (3,)), lax.scan(lambda c, v: (c + v, c), 0.0, tnp.arange(3.0))
    lax.fori_loop(0, 3, lambda i, c: c + i, 0), lax.cond(True, lambda: 1.0, lambda: 2.0)
    np.add(x, x), np.sum(x), tnp.asarray(np.ones(5)), tnp.einsum("ij,jk->ik", x, x)

    def body(a, o):
        o[...] = a[...] * 2

    spec = tl.BlockSpec((4, 8), lambda i: (i, 0))
    k = tl.kernel_call(body, tw.ShapeDtypeStruct((8, 8), "float32"), grid=2, in_specs=[spec], out_specs=spec)
    k(x), tw.grad(lambda x: k(x).sum())(x), tw.vmap(k)(tnp.ones((2, 8, 8)))
    for target in ("cuda:sm_90", "tpu:v5e"):
        str(tw.compile(k, x, target=target, stop="module")), tw.compile(f, x, target=target, stop="kernels")
    str(tw.explain(k, x))
    with tw.config(enable_x64=True):
        tnp.ones(3) * 2
    tw.config.update("enable_x64", True), tw.config.update("enable_x64", False)
    tw.pure_callback(lambda a: a, tw.ShapeDtypeStruct((3,), "float32"), tnp.ones(3))
    tw.io_callback(lambda a: None, None, tnp.ones(3))
    tw.effects_barrier(), tw.devices("cpu"), tw.device_put(x)

work()
tw.clear_caches()
work()

def report():
    after = everything()
    for key in after:
        if after[key] != before.get(key):
            print(".".join(key), "is new" if key not in before else "changed")

report()
print("planted")
sys.modules["tilewright.core.trace"].TRACERS[int] = None
tw.planted = []
report()
"""


def test_a_session_changes_no_module_and_what_is_planted_is_seen():
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    changed, seen = done.stdout.split("planted\n", 1)
    assert not changed, "keep it in core/runtime.py's `runtime`"
    assert {"tilewright.planted is new", "tilewright.core.trace.TRACERS changed"} <= set(seen.splitlines())
