"""The names private to jax that libraries import; who needs each module is in its first line.

A module is here because a library imports it and has no public way to the same; nothing else is.
"""

from ...missing import not_adapted

__getattr__ = not_adapted(
    "jax._src",
    submodules=(
        "ad_util", "api", "api_util", "array", "checkify", "compiler", "core", "dispatch", "distributed", "dtypes",
        "flattree", "interpreters", "lax", "lib", "mesh", "numpy", "pjit", "public_test_util", "shard_map",
        "source_info_util", "test_util", "traceback_util", "tree_util", "util", "xla_bridge",
    ),
)  # fmt: skip
