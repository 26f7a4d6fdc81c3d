"""`jax._src.tree_util`, for flax.nnx: which types are nodes of pytrees."""

from ....core.tree import is_tree_node
from ...missing import not_adapted


class _Nodes:
    """The types that are nodes, as a container to ask."""

    __contains__ = staticmethod(is_tree_node)


_registry = _Nodes()
__getattr__ = not_adapted("jax._src.tree_util")
