"""Names that JAX has under `jax.experimental`, each module imported when it is first used."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.primitives.external.host_callback import io_callback
from ..core.support.lazy_imports import later as _later

if TYPE_CHECKING:
    from . import (
        buffer_callback,
        checkify,
        colocated_python,
        compilation_cache,
        jet,
        layout,
        mesh_utils,
        multihost_utils,
        ode,
        pjit,
        random,
        serialize_executable,
        shard_map,
        sparse,
    )

_MODULES = (
    "buffer_callback", "checkify", "colocated_python", "compilation_cache", "jet", "layout", "mesh_utils",
    "multihost_utils", "ode", "pjit", "random", "serialize_executable", "shard_map", "sparse",
)  # fmt: skip

if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, {name: f".{name}" for name in _MODULES})

__all__ = [
    "buffer_callback", "checkify", "colocated_python", "compilation_cache", "io_callback", "jet", "layout",
    "mesh_utils", "multihost_utils", "ode", "pjit", "random", "serialize_executable", "shard_map", "sparse",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
