"""jax's `thread_resources`: the mesh in force of a `with mesh:` block, where libraries read it."""

from types import SimpleNamespace
from typing import Any

from ..sharding import get_mesh


class _Environment(SimpleNamespace):
    @property
    def physical_mesh(self) -> Any:
        return get_mesh()


thread_resources = SimpleNamespace(env=_Environment())
