"""The table of settings.md, from `core/support/settings.py`.

    python -m docs.settings      writes it into the page
"""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.core.support.config import ENVIRONMENT
from tilewright.core.support.settings import ROWS

PAGE = Path(__file__).parent / "settings.md"
TABLE = re.compile(r"^\| setting \|.*?(?=\n\n)", re.M | re.S)


def table() -> str:
    """The table's text."""
    variables = {name: f"`{variable}`" for variable, name in ENVIRONMENT.items()}
    rows = [["setting", "environment", "default", "what it does"], ["---"] * 4]
    rows += [[f"`{name}`", variables.get(name, ""), str(row.default), row.doc] for name, row in ROWS.items()]
    return "\n".join(re.sub("  +(?=\\|)", " ", f"| {' | '.join(cells)} |") for cells in rows)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
