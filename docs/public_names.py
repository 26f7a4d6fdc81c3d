"""The literal `__all__` of every namespace: what checkers, editors and `dir` take for its public names.

    python -m docs.public_names            writes them
    python -m docs.public_names --check    fails where one is out of date

A namespace exports what its module binds, under `TYPE_CHECKING` too: imports from this package, definitions and
assignments, except names with a leading underscore. `DEFINING` modules export their own definitions alone.
"""

from __future__ import annotations

import ast
import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import tilewright
from tilewright.scipy import stats

REEXPORTING = (
    "", "bench", "core", "cutlass_backend", "debug", "example_libraries", "experimental", "experimental.sparse", "lax",
    "mosaic_gpu", "mosaic_tpu", "numpy", "scipy", "scipy.special", "scipy.stats", "triton_backend", "tuning",
)  # fmt: skip
DEFINING = (
    "flatten_util", "interop.jax", "numpy.fft", *(f"scipy.stats.{name}" for name in stats._DISTRIBUTIONS.split()),
)  # fmt: skip
MACHINERY = {"__all__", "__dir__", "__getattr__"}
DIR = "__dir__: Callable[[], list[str]] = __all__.copy"


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that bind a module's names, those under `if TYPE_CHECKING:` among them."""
    for node in body:
        if isinstance(node, ast.If):
            yield from statements(node.body)
        else:
            yield node


def bound_by(node: ast.stmt, module: str, imports: bool) -> Iterator[str]:
    """The names that a statement binds; those of an import of another package are no names of ours."""
    match node:
        case ast.ImportFrom(level=level) if level and imports:
            for alias in node.names:
                if alias.name == "*":
                    package = importlib.import_module(module).__package__
                    yield from importlib.import_module("." * level + (node.module or ""), package).__all__
                else:
                    yield alias.asname or alias.name
        case ast.Assign():
            for target in node.targets:
                yield from (leaf.id for leaf in ast.walk(target) if isinstance(leaf, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def public_names(module: str, imports: bool) -> list[str]:
    """The public names that a module's text binds."""
    tree = ast.parse(path_of(module).read_text())
    names = {name for node in statements(tree.body) for name in bound_by(node, module, imports)}
    return sorted(n for n in names - MACHINERY if n[0] != "_" or (n[:2] == n[-2:] == "__"))


def targets_of(node: ast.stmt) -> list[str]:
    """What an assignment assigns to."""
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    return [ast.unparse(target) for target in node.targets] if isinstance(node, ast.Assign) else []


def path_of(module: str) -> Path:
    """The file of a module."""
    return Path(importlib.import_module(module).__file__ or "").resolve()


def with_names(text: str, names: list[str]) -> str:
    """A module's text with a literal `__all__`, and a `__dir__` that lists it."""
    line = f"__all__ = [{', '.join(map(quoted, names))}]"
    if len(line) > 120:
        items = textwrap.fill(", ".join(map(quoted, names)) + ",", 116, break_long_words=False, break_on_hyphens=False)
        line = f"__all__ = [\n{textwrap.indent(items, ' ' * 4)}\n]  # fmt: skip"
    body = ast.parse(text).body
    old = [n for n in body if {"__all__", "__dir__"} & {*targets_of(n)}]
    lines = text.rstrip().splitlines()
    first = min((node.lineno for node in old), default=len(lines) + 2) - 1
    last = max((node.end_lineno or 0 for node in old), default=first)
    before, after = "\n".join(lines[:first]), "\n".join(lines[last:])
    gap = "" if old else "\n\n" if isinstance(body[-1], ast.FunctionDef | ast.ClassDef) else "\n"
    return f"{before}\n{gap}{line}\n{DIR}\n" + (f"{after}\n" if after else "")


def quoted(name: str) -> str:
    return f'"{name}"'


def outdated() -> dict[Path, str]:
    """The files whose `__all__` is out of date, with the text that they should have."""
    modules = [(name, True) for name in REEXPORTING] + [(name, False) for name in DEFINING]
    found = {}
    for name, imports in modules:
        module = f"{tilewright.__name__}.{name}".rstrip(".")
        path = path_of(module)
        text = with_names(path.read_text(), public_names(module, imports))
        if text != path.read_text():
            found[path] = text
    return found


def main(check: bool) -> int:
    """Write what is out of date, or only name it; the exit status."""
    changed = outdated()
    for path, text in changed.items():
        print(path)
        if not check:
            path.write_text(text)
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
