"""`jax.experimental.pallas.ops` where jax is not installed: kernels of this package under those names and signatures.

Block sizes, numbers of warps and stages are taken and not used: the target's own are.
"""
