"""The notebooks of docs/notebooks: run top to bottom, stored with their outputs, shown as pages of the site.

`python -m docs.website.notebooks` runs all and stores what they show; with paths, those alone.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
_MEASURED = re.compile(r"0x[0-9a-f]+")


def paths() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def run_cell(source: str, names: dict[str, Any], label: str) -> list[dict[str, Any]]:
    """Run a cell as Jupyter does: what it prints, and the value of a last line that is an expression."""
    tree = ast.parse(source, label)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, label, "exec"), names)
        if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), label, "eval"), names)
        elif last is not None:
            exec(compile(ast.Module([last], []), label, "exec"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(_MEASURED.sub("0x...", repr(value)))}
        shown = getattr(value, "_repr_html_", None)
        if shown is not None:
            data["text/html"] = _lines(shown())
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def run(notebook: dict[str, Any], label: str) -> dict[str, Any]:
    """The notebook with the outputs of its cells, run in order in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            cell["outputs"] = run_cell("".join(cell["source"]), names, f"{label}, cell {number}")
    return notebook


def markdown(path: Path) -> str:
    """A notebook as a page: its text, its code, and the outputs as they are stored."""
    parts = []
    for cell in read(path)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                parts.append(f"<div class='output'>\n{_flat(''.join(data['text/html']))}\n</div>")
            else:
                text = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f"```text\n{text}\n```")
    name = path.relative_to(FOLDER.parent).as_posix()
    return "\n\n".join([*parts, f"*This page is the notebook `docs/{name}`.*"]) + "\n"


def _flat(html: str) -> str:
    """HTML without blank lines, which would end a block of HTML in Markdown."""
    return re.sub(r"\n\s*\n", "\n&#8203;\n", html)


def pages() -> Iterator[tuple[str, str]]:
    """Path within docs and text of the pages."""
    for path in paths():
        yield f"notebooks/{path.stem}.md", markdown(path)


def main(names: list[str]) -> None:
    if not names:  # each in a process of its own, as in Jupyter
        for path in paths():
            print(path.name, file=sys.stderr)
            subprocess.run([sys.executable, "-m", "docs.website.notebooks", str(path)], check=True)
    for path in map(Path, names):
        path.write_text(json.dumps(run(read(path), path.name), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
