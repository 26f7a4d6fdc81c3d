"""The tables of the body language on the pages, made from the list and the backends' tables.

`python -m docs.capabilities` rewrites them in docs/; each stands between two comments that name it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tilewright.lang.legalize import Backend
from tilewright.lang.legalize.opset import FAMILIES, MEANING
from tilewright.mosaic_tpu.rules import BACKEND as TPU
from tilewright.triton_backend.rules import BACKEND as GPU

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
TARGETS = {"GPU (Triton)": GPU, "TPU (Mosaic)": TPU}
WAYS = {"printed": "yes", "rewritten": "decomposed", "refused": "no"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def language() -> str:
    """Every entry of the language with its meaning, and what becomes of it on each target."""
    parts = []
    for family, entries in FAMILIES.items():
        rows = [
            [f"`{p}`", text.replace("|", "\\|"), *(WAYS[b.way(p)] for b in TARGETS.values())]
            for p, text in entries.items()
        ]
        parts.append(f"### {family[0].upper()}{family[1:]}\n\n" + table(["entry", "meaning", *TARGETS], rows))
    return "\n".join(parts)


def short() -> str:
    """How many entries go each way on each target."""
    rows = []
    for name, backend in TARGETS.items():
        ways = [backend.way(p) for p in MEANING]
        rows.append([name, *(str(ways.count(way)) for way in WAYS)])
    return table(["operations of bodies", "with a rule", "decomposed", "refused, with a reason"], rows)


def of_backend(backend: Backend) -> Callable[[], str]:
    """What a target refuses, by reason, and what it makes of other entries."""

    def made() -> str:
        by_reason: dict[str, list[str]] = {}
        for primitive, reason in backend.refused.items():
            by_reason.setdefault(reason, []).append(f"`{primitive}`")
        for dtype, reason in backend.dtypes.items():
            if dtype.isidentifier():
                by_reason.setdefault(reason, []).append(f"`{dtype}`")
        refused = table(["refused", "because"], [[", ".join(names), reason] for reason, names in by_reason.items()])
        others = ", ".join(f"`{p}`" for p in MEANING if backend.way(p) == "rewritten")
        return f"{refused}\nDecomposed: {others}.\n"

    return made


PARTS: dict[str, Callable[[], str]] = {
    "body language": language, "operations of bodies": short, "operations on GPUs": of_backend(GPU),
    "operations on TPUs": of_backend(TPU),
}  # fmt: skip


def filled(text: str) -> tuple[str, list[str]]:
    """A page with its tables made anew, and the names of those that it has."""
    found = []
    for name, make in PARTS.items():
        pattern = rf"(<!-- {name}: made by docs/capabilities\.py -->\n).*?(<!-- end of {name} -->)"
        if re.search(pattern, text, re.S):
            made = make()
            text = re.sub(pattern, lambda m: f"{m[1]}{made}{m[2]}", text, flags=re.S)  # noqa: B023  # used at once
            found.append(name)
    return text, found


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text())[0])


if __name__ == "__main__":
    main()
