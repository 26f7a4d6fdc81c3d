"""`jax.experimental.colocated_python.func`, which orbax imports and asks for names that may be missing."""

from collections.abc import Callable
from typing import Any

from ....missing import not_adapted

__getattr__: Callable[..., Any] = not_adapted("jax.experimental.colocated_python.func")
