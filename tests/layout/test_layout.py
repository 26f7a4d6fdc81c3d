"""The layout holds: sizes, layers, guards, symlinks, and what may be imported where."""

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import tilewright as tw
from tests.support.paths import ROOT, nodes_of, with_text
from tilewright.core.support import version
from tilewright.core.support.supported import SUPPORTED

LAYERS = ("core", "lang", "kernels", "xla_backend", "triton_backend", "mosaic_tpu", "mosaic_gpu", "cutlass_backend")
PRESENT = tuple(layer for layer in LAYERS if (ROOT / layer).is_dir())
FOLDERS = (*PRESENT, "src/tilewright", "tests", "benchmarks", "examples", "docs")
TEXT = {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ""}
MAX_LINES, MAX_MODULES = 800, 25
WIDE = {
    "src/tilewright/scipy/stats": "a public module for each distribution",
    "tests/support/corpus": "a module for each kernel",
}

# Notes to oneself, and places on one machine. Spelt so that this file does not match itself.
FORBIDDEN = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b|(?<![\w.:/-])/(?:home|root|Users|work|farm)/\w")
# jaxlib is internal and drifts: one shim in xla_backend, the pytree registry, and the backends' MLIR bindings.
JAXLIB = {
    "core/support/pytree.py", "core/support/version.py", "xla_backend/jaxlib/shim.py",
    "xla_backend/partitioning/shardy.py",
}  # fmt: skip
# What gives clients bindings of jaxlib.
JAXLIB |= {f"src/tilewright/as_jax/{name}" for name in (
    "lowering_context.py", "jax/_src/lib/mlir/__init__.py", "jax/_src/lib/mlir/dialects/__init__.py",
    "jax/extend/ifrt_programs.py", "jax/extend/mlir/__init__.py", "jax/extend/mlir/dialects/__init__.py",
)}  # fmt: skip
JAXLIB_LAYERS = {"triton_backend", "mosaic_tpu", "mosaic_gpu", "emulator"}
# What puts functions of ours into programs of jax, which the caller has then: imported inside functions.
JAX = {"src/tilewright/interop/jax.py"}

# What may be imported within functions: packages that need not be installed, or that take long to load.
OPTIONAL = {
    "matplotlib": "the extra `demo`",
    "cuda": "the extra `cuda`", "triton": "the extra `cuda`", "libtpu": "the extra `tpu`", "jax": "the caller's own",
    "torch": "the caller's own", "cupy": "the caller's own", "rich": "50 ms, and only for what is shown to people",
    "opt_einsum": "10 ms, and only for sums of products",
}  # fmt: skip
# And what one file imports late, with the reason.
LATE = {
    ("benchmarks/fusion.py", "numpy"): "an import from nothing may be what is measured",
    ("benchmarks/fusion.py", ".rounds"): "it loads this package, which the peer's process must not do",
    ("benchmarks/kernels.py", ".rounds"): "with it",
    ("benchmarks/dispatch.py", "numpy"): "nothing is imported before the library whose case it is",
    ("benchmarks/split_operations/__main__.py", "tilewright"): "not in the baseline's process",
    ("benchmarks/split_operations/__main__.py", "benchmarks.rounds"): "with it",
    ("benchmarks/spine.py", "numpy"): "one case measures an import from nothing",
    ("core/support/version.py", "jaxlib.version"): "it may be missing, which is what is checked there",
    ("core/support/version.py", ".errors"): "nothing of the package is imported before that check",
    ("core/support/version.py", ".supported"): "with it",
    ("src/tilewright/bench/command.py", "."): "SciPy, only for benchmarks",
    ("src/tilewright/tuning/autotuned.py", ".session"): "SciPy, only to search",
    ("xla_backend/devices/client.py", "."): "the clients of GPUs and TPUs, only where there may be such a device",
    ("xla_backend/execution/executable.py", "..devices"): "settings of GPUs, only for programs of these",
    ("xla_backend/host/memory_limit.py", "resource"): "Windows has none",
    ("xla_backend/jaxlib/shim.py", "jaxlib"): "SciPy's LAPACK takes a tenth of a second, only for linear algebra",
    ("xla_backend/jaxlib/shim.py", "jaxlib.mlir"): "50 ms, only for programs that call back into Python",
    ("xla_backend/jaxlib/shim.py", "jaxlib.mlir._mlir_libs"): "with it",
    ("xla_backend/jaxlib/shim.py", "jaxlib.mlir.dialects"): "with it",
}  # fmt: skip


def files(*suffixes: str) -> list[Path]:
    """Every file of the repository with one of the suffixes, each once (symlinked folders are not entered)."""
    found = [p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"]  # a linked work tree has such a file
    for folder in FOLDERS:
        for parent, folders, names in os.walk(ROOT / folder):
            folders[:] = [f for f in folders if f != "__pycache__" and not f.endswith(".egg-info")]
            found += [Path(parent) / name for name in names]
    return sorted(p for p in found if p.suffix in suffixes and not p.name.startswith(".cover"))


def package_files() -> list[Path]:
    return [p for p in files(".py") if p.relative_to(ROOT).parts[0] in (*PRESENT, "src")]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def imported(path: Path) -> set[str]:
    """Absolute names of the modules that a file of the package imports, anywhere in it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = parts[1:] if parts[0] == "src" else ("tilewright", *parts)
    package = module[:-1]
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            found = ".".join((*base, *([node.module] if node.module else [])))
            # From the package itself, what is imported are its modules.
            names |= {f"tilewright.{a.name}" for a in node.names} if found == "tilewright" else {found}
    return names


def inner_imports(path: Path) -> set[str]:
    """The modules that a file imports within functions, relative ones as they are written."""
    inner = {
        node
        for function in nodes_of(path)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    names: set[str] = set()
    for node in inner:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            names.add("." * node.level + (node.module or ""))
    return names


def run(code: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    # -c puts the working folder first on sys.path, which is the trap that the guards are for.
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def test_no_file_is_over_800_lines():
    sizes = {relative(p): len(p.read_text().splitlines()) for p in files(".py", ".md")}
    assert {name: n for name, n in sizes.items() if n > MAX_LINES} == {}


def test_no_folder_has_over_25_modules():
    sizes = Counter(relative(p.parent) for p in files(".py"))
    assert {folder for folder, n in sizes.items() if n > MAX_MODULES} == set(WIDE)


def test_every_package_says_what_it_is_for():
    inits = [p for p in package_files() if p.name == "__init__.py"]
    assert [relative(p) for p in inits if not ast.get_docstring(ast.parse(p.read_text()))] == []


def test_files_that_are_named_exist():
    """Paths from the root in pages, comments and strings; the changelog and results of other projects are history."""
    path = re.compile(rf"(?<![\w/.*-])((?:{'|'.join(FOLDERS)})/(?:[\w-]+/)*[\w-]+\.(?:py|md|json|hpp|txt|svg))\b")
    texts = [p for p in files(".py", ".md", ".toml", "") if p.name != "CHANGELOG.md" and "compatibility" not in p.parts]
    missing = {
        f"{relative(text)}: {name}"
        for text in texts
        for name in path.findall(text.read_text())
        if not (ROOT / name).exists() and not Path(name).stem.isupper()
    }
    assert missing == set()


@pytest.mark.parametrize("layer", PRESENT)
def test_layer_is_a_committed_symlink(layer):
    link = ROOT / "src" / "tilewright" / layer
    assert link.is_symlink() and os.readlink(link) == f"../../{layer}"


@pytest.mark.parametrize("layer", PRESENT)
def test_bare_import_of_a_layer_is_refused(layer):
    done = run(f"import {layer}")
    assert done.returncode != 0
    assert f"import tilewright.{layer}, not {layer}" in done.stderr


def test_no_package_at_the_root():
    assert not (ROOT / "__init__.py").exists() and not (ROOT / "conftest.py").exists()


def test_every_folder_of_the_package_has_an_init():
    # A folder without one is a namespace package: in an installed wheel, but not to pytest and type checkers.
    missing = {relative(p.parent) for p in package_files() if not (p.parent / "__init__.py").exists()}
    assert missing == set()


def test_nothing_imports_jax():
    paths = with_text(r"^\s*(import|from)\s+jax\b", package_files())
    offenders = {relative(p): n for p in paths for n in imported(p) if n.split(".")[0] == "jax"}
    assert {name for name in offenders if name not in JAX} == set()


def test_running_does_not_import_jax():
    done = run(
        "import sys, tilewright as tw, tilewright.numpy as tnp, tilewright.interop.jax as tj\n"
        "tj.call(tnp.sin)\n"
        "x = tnp.arange(6.0).reshape(2, 3)\n"
        "f = tw.jit(lambda x: (x @ x.T).sum())\n"
        "f(x), tw.grad(f)(x), repr(x + 1)\n"
        "print(sorted(m for m in sys.modules if m == 'jax' or m.startswith('jax.')))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_jaxlib_is_touched_in_few_places():
    allowed = {relative(p) for p in package_files() if JAXLIB_LAYERS.intersection(p.relative_to(ROOT).parts)} | JAXLIB
    paths = with_text(r"^\s*(import|from)\s+jaxlib\b", package_files())
    offenders = {relative(p): n for p in paths for n in imported(p) if n.split(".")[0] == "jaxlib"}
    assert {name for name in offenders if name not in allowed} == set()


def test_layers_do_not_import_the_front_door():
    # What imports core only is for bodies of kernels too; the rest of the front door is above the layers.
    below = (*PRESENT, "numpy", "lax", "random")
    found = {}
    for path in package_files():
        depth = len(path.relative_to(ROOT).parts)  # as many dots reach the package itself
        other = rf"^\s*(from\s+\.{{{depth}}}(?!\.|({'|'.join(below)})\b)|(from|import)\s+tilewright\b)"
        if path.relative_to(ROOT).parts[0] in PRESENT and with_text(other, [path]):
            names = {n.removeprefix("tilewright.") for n in imported(path) if re.fullmatch(r"tilewright\.\w+", n)}
            found[relative(path)] = names - {*below}
    assert {name: names for name, names in found.items() if names} == {}


def test_imports_are_at_the_top():
    """But of optional packages, and where there is a reason: such imports must not hide circles of modules."""
    paths = with_text(r"^[ \t]+(import|from)\s", [p for p in files(".py") if p.relative_to(ROOT).parts[0] != "tests"])
    late = {(relative(path), name) for path in paths for name in inner_imports(path)}
    assert {(path, name) for path, name in late if name.split(".")[0] not in OPTIONAL} == set(LATE)


def test_every_test_is_in_the_folder_of_what_it_tests():
    assert [p.name for p in (ROOT / "tests").glob("test_*.py")] == []


def test_what_tests_share_is_in_tests_support():
    paths = [*(ROOT / "tests").rglob("*.py")]
    assert with_text(r"^(from|import) tests\b.*\btest_", paths) == []


def test_no_notes_to_self_and_no_places_of_one_machine():
    offenders = {}
    for path in files(*TEXT):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if FORBIDDEN.search(line):
                offenders[f"{relative(path)}:{number}"] = line.strip()
    assert offenders == {}


def test_requirements_agree_with_the_table_of_supported_versions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = {r for group in (project["dependencies"], *extras.values()) for r in group}
    for package, support in SUPPORTED.items():
        found = {r for r in required if re.split("[=<>]", r)[0] == package}
        assert found == {support.requirement}, package
    for follower in ("jax-cuda13-pjrt", "jax-cuda13-plugin", "jax"):  # released together with jaxlib
        assert SUPPORTED["jaxlib"].requirement.replace("jaxlib", follower) in required
    assert version.__version__ == project["version"]
    assert f"\nversion: {version.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_licence_of_every_requirement_is_listed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [r for group in (project["dependencies"], *(extras[e] for e in extras if e != "test")) for r in group]
    listed = (ROOT / "THIRD_PARTY.md").read_text()
    assert [r for r in required if not re.search(rf"\b{re.split('[=<>]', r)[0]}\b", listed)] == []


@pytest.mark.parametrize("which, number", [("oldest", 0), ("newest", -1)])
def test_versions_that_are_tested_agree_with_the_table(which, number):
    lines = (ROOT / ".ci" / "versions" / f"{which}.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    followers = {"jax", "jax-cuda13-pjrt", "jax-cuda13-plugin"}
    assert {"jaxlib", "triton", "libtpu", *followers} == set(pins)
    for package, pin in pins.items():
        assert pin == SUPPORTED["jaxlib" if package in followers else package].tested[number], package


def test_another_jaxlib_is_refused_with_the_pip_line(tmp_path):
    (tmp_path / "jaxlib").mkdir()
    (tmp_path / "jaxlib" / "__init__.py").write_text("")
    (tmp_path / "jaxlib" / "version.py").write_text("__version__ = '0.4.1'\n")
    path = f"{tmp_path}{os.pathsep}{ROOT / 'src'}"
    done = run("import tilewright", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode != 0
    assert "VersionError" in done.stderr and "0.4.1" in done.stderr
    assert "pip install 'jaxlib==" in done.stderr


def test_the_import_leaves_the_kernel_language_for_when_it_is_used():
    done = run(
        "import sys, tilewright, tilewright.numpy\n"
        "print([m for m in sys.modules if m.startswith(('tilewright.lang', 'tilewright.kernels', 'tilewright.nn'))])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_every_name_of_a_late_module_of_numpy_is_a_name_of_numpy():
    late = {name: import_module(f"tilewright.numpy.{name}") for name in tw.numpy._LATER}
    assert {name: " ".join(module.__all__) for name, module in late.items()} == tw.numpy._LATER
    names = [(module, name) for module in late.values() for name in module.__all__]
    assert [name for module, name in names if getattr(tw.numpy, name) is not getattr(module, name)] == []
    assert {name for _, name in names} <= set(tw.numpy.__all__)
