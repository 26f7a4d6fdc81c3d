"""`jax._src.numpy`, for s2fft: the promotion of arguments."""

from ....missing import not_adapted

__getattr__ = not_adapted("jax._src.numpy", submodules=("util",))
