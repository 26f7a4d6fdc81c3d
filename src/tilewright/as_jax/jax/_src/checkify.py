"""`jax._src.checkify`, for flax.nnx: the public module, where there is one."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("jax.experimental.checkify"), name)
