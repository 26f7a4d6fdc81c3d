"""A module's text without places: MLIR's parser would note the line of the text for each operation.

That is a tenth of an executable on disk, and of the time that it takes to load.
"""

from __future__ import annotations

import re

# Lines that end an operation with results and do not say where it comes from.
_PLACELESS = re.compile(r'^((?:%|\}\)).*)(?<!\{)(?<!"\))(?<!:1\)\))$', re.MULTILINE)


def without_places(text: str) -> str:
    """The text with an unknown place for each operation that has none."""
    return _PLACELESS.sub(r"\1 loc(unknown)", text)
