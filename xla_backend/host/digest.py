"""A short text that stands for long ones."""

from __future__ import annotations

import hashlib


def digest(*parts: str | bytes | memoryview) -> str:
    """A text that is the same only where all of these parts are, each by itself."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()
