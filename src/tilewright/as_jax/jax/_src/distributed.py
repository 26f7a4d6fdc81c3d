"""`jax._src.distributed`, which orbax asks for the coordination service of several processes."""

from __future__ import annotations

from typing import Any

from ....core.support.runtime import runtime
from ....xla_backend.devices.coordination import group
from ...missing import not_adapted


class State:
    """This process among those that compute together; alone it is the first, and has no service."""

    @property
    def client(self) -> Any:
        return group.store

    @property
    def process_id(self) -> int:
        return runtime.process_index

    @property
    def num_processes(self) -> int:
        return runtime.process_count


global_state = State()
__all__ = ["State", "global_state"]
__getattr__ = not_adapted("jax._src.distributed")
