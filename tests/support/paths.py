"""Where things are in the repository, and what its modules say."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GOLDEN = ROOT / "tests" / "golden"
DATA = ROOT / "tests" / "support" / "data"


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The nodes of a module's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text())))


def with_text(pattern: str, paths: list[Path]) -> list[Path]:
    """The modules whose text has a match: only these need be parsed, which takes long for all of them."""
    return [path for path in paths if re.search(pattern, path.read_text(), re.M)]
