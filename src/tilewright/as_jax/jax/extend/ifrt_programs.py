"""`jax.extend.ifrt_programs`: programs that jaxlib hands to a runtime as they are; orbax imports it for Pathways."""

from jaxlib._jax import ifrt_programs

from ...missing import not_adapted

__all__ = ["ifrt_programs"]
__getattr__ = not_adapted("jax.extend.ifrt_programs")
