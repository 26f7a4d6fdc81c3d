"""`jax.version`: the version of jax that this package follows."""

from ...core.support.version import JAX_API as __version__

__version_info__: tuple[int, ...] = tuple(map(int, __version__.split(".")))
