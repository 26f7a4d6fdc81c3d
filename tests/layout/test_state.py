"""No module has a global that changes after import: what does is in the one runtime."""

import ast
import subprocess
import sys

from tests.support.paths import ROOT, nodes_of, with_text
from tilewright.core.ir.backend import Interceptors
from tilewright.core.support.runtime import Runtime

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
        for path in with_text(r"^\s+global\s", [*sources()])
        for node in nodes_of(path)
        if isinstance(node, ast.Global)
    ]
    assert not found, "keep it in core/support/runtime.py's `runtime`: a slot, or `runtime.part(name, state)`"


def test_no_cache_is_outside_the_runtime():
    found = []
    for path in with_text(r"\b(cache|lru_cache)\b", [*sources()]):
        if path.relative_to(ROOT).as_posix() == "core/support/memo.py":
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
    assert not found, "use `cached` or `once` of core/support/memo.py"


def test_the_runtime_has_no_more_slots():
    """What a lower layer needs of a higher one is a method of `Backend` or an entry of `Interceptors`."""
    assert Runtime.__slots__ == (
        "config", "backend", "interceptors", "process_index", "process_count", "parts", "facts", "_caches",
    )  # fmt: skip
    assert Interceptors._fields == ("mutable_refs", "opaque_values", "varying_axes", "sharded_types")
    assigned = {
        (path.relative_to(ROOT).as_posix(), node.attr)
        for path in with_text(r"\bruntime\.\w+\b[^=\n]*=", [*sources()])
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name) and node.value.id == "runtime"
    }  # fmt: skip
    assert assigned == {
        ("core/support/config.py", "config"),
        ("src/tilewright/distributed/__init__.py", "process_index"),
        ("src/tilewright/distributed/__init__.py", "process_count"),
    }


def test_lazy_modules_are_the_ones_that_types_are_checked_by():
    for path in with_text(r"LazyModule\(", [*sources()]):
        found = {"types": set(), "run": set()}
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                for line in node.body:
                    if isinstance(line, ast.ImportFrom):
                        places = [(("." * line.level + (line.module or "")).rstrip("."), a) for a in line.names]
                        found["types"] |= {(a.asname or a.name, f"{at}.{a.name}".lstrip(".")) for at, a in places}
                for line in node.orelse:
                    if isinstance(line, ast.Assign):
                        found["run"].add((line.targets[0].id, line.value.args[0].value.lstrip(".")))
        assert found["types"] == found["run"] and found["run"], path


# Classes that are assigned to while modules are imported, `Class.name = value`, by file; nothing may be added.
ASSIGNED_AT_IMPORT = {"lang/warpgroups/transfers.py": {"CopyPartition"}}

SPY = r"""
import builtins, importlib, pkgutil, sys
real, found = builtins.setattr, set()

def setattr(target, name, value):
    if isinstance(target, type):
        file = sys._getframe(1).f_code.co_filename
        if "/tilewright/" in file and "site-packages" not in file:
            found.add(f"{file.rpartition('/tilewright/')[2]}:{target.__name__}")
    real(target, name, value)

builtins.setattr = setattr
import tilewright
for module in pkgutil.walk_packages(tilewright.__path__, "tilewright."):
    try:
        importlib.import_module(module.name)
    except ImportError:
        pass  # an optional package is not here

print(*found, sep="\n")
"""


def test_no_class_gets_attributes_at_import():
    done = subprocess.run([sys.executable, "-c", SPY], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [], "write a mixin class"


def test_no_class_is_assigned_to_at_import():
    found = {}
    for path in sources():
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, (ast.Assign, ast.For, ast.If)):
                for node in ast.walk(statement):
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                        owner = ast.unparse(node.value)
                        if owner[0].isupper():
                            found.setdefault(path.relative_to(ROOT).as_posix(), set()).add(owner)
    assert found == ASSIGNED_AT_IMPORT, "write it in the class; an entry that is no more leaves the list"


# Every module is imported, then much is done; what modules hold is compared before and after.
SESSION = r"""
import functools, importlib, itertools, pkgutil, sys, threading, types, weakref
from contextvars import ContextVar
import numpy as np
import tilewright as tw
from tests.support.compilers import installed
from tests.support.held import changed, reached
from tilewright import lang as tl, lax, nn, numpy as tnp, random

for found in pkgutil.walk_packages(tw.__path__, "tilewright."):
    try:
        importlib.import_module(found.name)
    except ImportError:
        pass  # an optional package is not here

before = reached()

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
    for target in filter(installed, ("cuda:sm_90", "tpu:v5e")):
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

print(*changed(before, reached()), sep="\n")
print("planted")

class Slots:
    __slots__ = ("n",)

class Plain:
    __module__, shared = "tilewright", []

def remembers(x, seen=[]):
    pass

def closes(seen):
    return lambda: seen

def counts(number=itertools.count().__next__):
    pass

deep, slots, weak, array, inner = {"a": {"b": []}}, Slots(), weakref.WeakKeyDictionary(), np.zeros(2), bytearray(2)
variable, attributes = ContextVar("planted", default=0), closes(0)
tw.planted = types.SimpleNamespace(
    deep=deep, slots=slots, weak=weak, array=array, default=remembers, closure=closes(inner), owner=Plain,
    variable=variable, attributes=attributes, counts=counts, local=threading.local(), kept=functools.cache(closes))
before = reached()
deep["a"]["b"].append(1), setattr(slots, "n", 1), weak.__setitem__(Plain, 1), array.fill(1), variable.set(1)
remembers.__defaults__[0].append(1), inner.append(1), Plain.shared.append(1), setattr(attributes, "seen", 1)
print(*changed(before, reached()), sep="\n")
"""

PLANTED = {
    ".array", ".attributes", ".closure closes over seen", ".counts.__defaults__[0].__self__", ".deep['a']['b']",
    ".default.__defaults__[0]", ".kept", ".local", ".owner.shared", ".slots", ".variable", ".weak.data",
}  # fmt: skip


def test_a_session_changes_no_module_and_what_is_planted_is_seen():
    done = subprocess.run([sys.executable, "-c", SESSION], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    changed, seen = done.stdout.split("planted\n", 1)
    assert not changed.strip(), "keep it in core/support/runtime.py's `runtime`"
    found = {line.removeprefix("tilewright.planted") for line in seen.splitlines()}
    assert found >= PLANTED
