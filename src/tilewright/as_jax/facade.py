"""Packages of jax that are those of the same name here, and have other modules below them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .table import ADAPTED, PACKAGE, place_of


def facade(name: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package of jax: a module below it, or a name of ours; kept, so that it is found once."""
    ours, here = (place + name.removeprefix("jax") for place in (PACKAGE, ADAPTED))

    def find(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        place = place_of(f"{name}.{attribute}")
        try:
            found = getattr(sys.modules[ours], attribute) if place is None else import_module(place)
        except AttributeError:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}") from None
        setattr(sys.modules[here], attribute, found)
        return found

    return find
