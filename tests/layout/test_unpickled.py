"""Nothing that is read from a disk or a port is unpickled or evaluated as Python."""

import ast

import pytest

from tests.support.paths import ROOT, nodes_of

MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "copyreg", "code"}
CALLS = {"eval", "exec", "execfile", "__import__"}
# Where Python is run, and what: none of it comes from a file of data or from another program.
ALLOWED = {
    ("xla_backend/arrays/fast_path_codegen.py", "exec"): "code generated for a number of operands",
    ("xla_backend/execution/dispatch.py", "exec"): "with it",
    ("xla_backend/execution/sharded_execution.py", "exec"): "with it",
    ("src/tilewright/debugging/debugger.py", "eval"): "what the user types at the debugger's prompt",
    ("src/tilewright/as_jax/__main__.py", "exec"): "the argument of `-c`",
    ("src/tilewright/tuning/worker.py", "pickle"): "values between a process and the child that it started, by pipes",
}
LAYERS = ("core", "lang", "kernels", "xla_backend", "cpu_backend", "triton_backend", "mosaic_tpu", "mosaic_gpu",
          "cutlass_backend", "src/tilewright")  # fmt: skip


def found_in(path):
    """What a file uses of them."""
    for node in nodes_of(path):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            yield from (n for n in names if not getattr(node, "level", 0) and n.split(".")[0] in MODULES)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node.func.id
        elif isinstance(node, ast.keyword) and (node.arg, getattr(node.value, "value", None)) == ("allow_pickle", True):
            yield "allow_pickle=True"
        elif isinstance(node, ast.Attribute) and (getattr(node.value, "id", ""), node.attr) in (
            ("torch", "load"), ("yaml", "load"), ("builtins", "eval"), ("builtins", "exec"),
        ):  # fmt: skip
            yield f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize("layer", LAYERS)
def test_nothing_is_unpickled_or_evaluated(layer):
    files = [p for p in (ROOT / layer).rglob("*.py") if not any(q.is_symlink() for q in (p, *p.parents))]
    assert files
    uses = {(p.relative_to(ROOT).as_posix(), what) for p in files for what in found_in(p)}
    assert uses - ALLOWED.keys() == set()
    assert {key for key in ALLOWED if key[0].startswith(f"{layer}/")} - uses == set(), "no longer used: take it off"


def test_the_scan_finds_what_it_looks_for(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("import pickle as p\nfrom marshal import loads\neval('1')\nnp.load(f, allow_pickle=True)\n"
                    "torch.load(f)\n")  # fmt: skip
    assert sorted(found_in(path)) == ["allow_pickle=True", "eval", "marshal", "pickle", "torch.load"]
