"""JAX's options that are functions of `jax` too, and change nothing here: each sets its option within a block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ..core.support.config import config

NAMES = ("allow_f16_reductions", "array_garbage_collection_guard", "auto_pcast", "jax2tf_associative_scan_reductions",
         "legacy_prng_key", "no_execution", "remove_size_one_mesh_axis_from_type", "softmax_custom_jvp",
         "thread_guard")  # fmt: skip


def option(name: str) -> Callable[..., contextlib.AbstractContextManager[None]]:
    """The function of an option; its value is checked as `config.update` does.

    >>> with option("legacy_prng_key")("allow"):
    ...     pass
    """

    @contextlib.contextmanager
    def within(new_val: object = True) -> Iterator[None]:
        before = config.read(name)
        config.update(name, new_val)
        try:
            yield
        finally:
            config.update(name, before)

    within.__name__ = within.__qualname__ = name
    return within
