"""How much of what programs name of JAX is here, by how often they name it: of a table of names that were missing once.

    python -m docs.usage TABLE.md

The table has a line `References to public names: N; ... for M` and a row `| name | repositories | files | references |`
for each name that was not here. A name counts where it is here, or under the name `jax` (`tilewright.as_jax`).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tilewright.as_jax.table import place_of as module_of

from .names import found, place_of

ROW = re.compile(r"^\| (jax\.[\w.]+) \| \d+ \| \d+ \| (\d+) \|", re.M)
TOTAL = re.compile(r"References to public names: (\d+); tilewright has the name for (\d+)")


def resolves(name: str) -> bool:
    """Whether a name of JAX is here, or in the package under the name `jax`."""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        module = module_of(".".join(parts[:i]))
        if module is not None:
            return found(place_of(name)) or found(".".join([module, *parts[i:]]))
    return found(place_of(name))


def main(path: str) -> None:
    """Print the share of references whose name is here, and the names that are not."""
    text = Path(path).read_text()
    total, here = map(int, TOTAL.search(text).groups())  # type: ignore[union-attr]
    rows = {name: int(count) for name, count in ROW.findall(text)}
    missing = {name: count for name, count in rows.items() if not resolves(name)}
    now = here + sum(rows.values()) - sum(missing.values())
    print(f"{now} of {total} references: {now / total:.2%}")
    for name, count in sorted(missing.items(), key=lambda row: -row[1]):
        print(f"  {name} {count}")


if __name__ == "__main__":
    main(sys.argv[1])
