"""Where things are in the repository, and what its modules say."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GOLDEN = ROOT / "tests" / "golden"
DATA = ROOT / "tests" / "support" / "data"


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The nodes of a module's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text())))
