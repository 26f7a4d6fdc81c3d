"""`jax._src.ad_util`, for lineax: the primitive behind `stop_gradient`, and zeros."""

from ....core.ir.primitive import Zero
from ....core.transforms.rule_helpers import instantiate
from ....core.transforms.structural_primitives import add_any_p, add_tangents
from ...missing import not_adapted
from ...primitive import Primitive

add_jaxvals_p = add_any_p
add_jaxvals = add_any_p.bind
instantiate_zeros = instantiate
# `stop_gradient` binds no primitive here; a rule registered for this one is never asked.
stop_gradient_p = Primitive("stop_gradient")

__all__ = ["Zero", "add_jaxvals", "add_jaxvals_p", "add_tangents", "instantiate_zeros", "stop_gradient_p"]
__getattr__ = not_adapted("jax._src.ad_util")
