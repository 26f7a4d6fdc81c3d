"""Objects as they are kept on disk: with a header that says of which generator and for which features they are.

    file ::= MAGIC  digest of features (64 characters)  newline  version of the generator  newline  object

The folder, its checksums, and that files appear whole or not at all are the cache's of the front end (`Store`).
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from ..machine.features import Features

MAGIC = b"TILEWRIGHT-CPU1\n"
NAME = "cpu-[0-9a-f]{64}"


class Store(Protocol):
    """A private folder of checksummed files by name."""

    def load(self, name: str) -> bytes | None: ...

    def store(self, name: str, payload: bytes) -> None: ...


def name_of(text: str, features: Features, version: str) -> str:
    """The name of the object of a module."""
    return "cpu-" + hashlib.sha256("\0".join((features.digest, version, text)).encode()).hexdigest()


def _header(features: Features, version: str) -> bytes:
    return MAGIC + f"{features.digest}\n{version}\n".encode()


def pack(data: bytes, features: Features, version: str) -> bytes:
    return _header(features, version) + data


def unpack(kept: bytes, features: Features, version: str) -> bytes | None:
    """The object of a file; None where it is for another machine or of another generator."""
    header = _header(features, version)
    return kept[len(header) :] if kept.startswith(header) else None
