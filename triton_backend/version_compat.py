"""Differences between the texts that releases of Triton parse.

The printer writes the dialect of Triton 3.6. An adapter rewrites its text for a later release, before it is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..core.support.supported import numbers

Adapter = Callable[[str], str]
_DESCRIPTOR = re.compile(r"!tt\.tensordesc<tensor<([^<>]*)>>")


def flat_descriptors(text: str) -> str:
    """`!tt.tensordesc<tensor<64x64xf16>>` as `!tt.tensordesc<64x64xf16>`, which Triton 3.8 and later require."""
    return _DESCRIPTOR.sub(r"!tt.tensordesc<\1>", text)


ADAPTERS: tuple[tuple[tuple[int, ...], Adapter], ...] = (((3, 8), flat_descriptors),)  # the first release that needs it


def adapted(text: str, version: str) -> str:
    """The text of a program as a release of Triton parses it.

    >>> adapted("!tt.tensordesc<tensor<64x64xf16>>", "3.7.1"), adapted("!tt.tensordesc<tensor<64x64xf16>>", "3.8.0")
    ('!tt.tensordesc<tensor<64x64xf16>>', '!tt.tensordesc<64x64xf16>')
    """
    for first, adapter in ADAPTERS:
        if numbers(version) >= first:
            text = adapter(text)
    return text
