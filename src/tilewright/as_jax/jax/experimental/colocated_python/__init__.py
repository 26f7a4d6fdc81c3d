"""`jax.experimental.colocated_python`, with the modules below it that orbax looks into."""

from collections.abc import Callable
from typing import Any

from .....experimental.colocated_python import colocated_cpu_devices, colocated_python, colocated_python_class
from ....missing import not_adapted

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]
__getattr__: Callable[..., Any]
__getattr__ = not_adapted("jax.experimental.colocated_python", submodules=("func", "serialization"))
