"""`jax.experimental`: that of this package, with Pallas and what else has its place elsewhere here."""

from .... import experimental as _ours
from ...facade import facade

__all__ = _ours.__all__
__getattr__ = facade("jax.experimental")
