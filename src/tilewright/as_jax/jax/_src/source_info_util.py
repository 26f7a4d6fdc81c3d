"""`jax._src.source_info_util`, for the kernels that come with jax: whose lines messages name."""

from __future__ import annotations

from ....core.support.errors import exclude as register_exclusion
from ....core.support.errors import excluded
from ...missing import not_adapted


def register_inclusion(path: str) -> None:
    """Have messages name the lines of the files below a path."""
    excluded.discard(path)


__all__ = ["register_exclusion", "register_inclusion"]
__getattr__ = not_adapted("jax._src.source_info_util")
