"""Which module stands for each of jax's.

A public one is the module of the same name here, or of the name in `PLACES`; one of jax's own insides is the module at
the same place in the folder `jax` beside this file. Those of `KERNELS` are in `pallas_ops`.
"""

from __future__ import annotations

from importlib.util import find_spec

HERE = __name__.rpartition(".")[0]  # tilewright.as_jax
PACKAGE = HERE.rpartition(".")[0]
ADAPTED = f"{HERE}.jax"
OPS = f"{HERE}.pallas_ops"
RENAMED = ADAPTED, OPS  # modules that have jax's name while they stand for one of jax's

PLACES = {
    "jax.experimental.pallas": f"{PACKAGE}.lang",
    "jax.experimental.pallas.mosaic_gpu": f"{PACKAGE}.lang.mosaic_gpu",
    "jax.experimental.pallas.tpu": f"{PACKAGE}.lang.tpu",
    "jax.experimental.pallas.triton": f"{PACKAGE}.lang.triton",
}
KERNELS = "jax.experimental.pallas.ops"
# Namespaces that are the same here; what is below them is too.
PUBLIC = frozenset((
    "ad_checkpoint", "custom_batching", "custom_derivatives", "debug", "distributed", "dlpack", "dtypes", "errors",
    "example_libraries", "experimental", "export", "ffi", "flatten_util", "image", "lax", "nn", "numpy", "ops",
    "profiler", "random", "ref", "scipy", "sharding", "stages", "test_util", "tree", "tree_util", "typing",
))  # fmt: skip


def place_of(name: str) -> str | None:
    """The name of the module that stands for one of jax's; None where there is none."""
    if name in PLACES:
        return PLACES[name]
    if name == KERNELS or name.startswith(f"{KERNELS}."):
        place = f"{OPS}{name.removeprefix(KERNELS)}"
        return place if _exists(place) else None
    rest = name.removeprefix("jax")
    adapted = f"{ADAPTED}{rest}"
    if _exists(adapted):
        return adapted
    public = f"{PACKAGE}{rest}"
    return public if rest[1:].partition(".")[0] in PUBLIC and _exists(public) else None


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # of its parent; a module without a spec
        return False
