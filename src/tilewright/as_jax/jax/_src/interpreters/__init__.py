"""`jax._src.interpreters`, for jaxoplanet and tests of jaxopt and diffrax."""

from ....missing import not_adapted

__getattr__ = not_adapted("jax._src.interpreters", submodules=("ad", "batching"))
