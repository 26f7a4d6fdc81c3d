"""Pytrees under the names of `jax.tree_util`."""

from collections.abc import Callable

from .core.support.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    Partial,
    PyTreeDef,
    SequenceKey,
    all_leaves,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from .core.support.pytree import all as tree_all
from .core.support.pytree import broadcast as tree_broadcast
from .core.support.pytree import flatten as tree_flatten
from .core.support.pytree import flatten_with_path as tree_flatten_with_path
from .core.support.pytree import leaves as tree_leaves
from .core.support.pytree import leaves_with_path as tree_leaves_with_path
from .core.support.pytree import map as tree_map
from .core.support.pytree import map_with_path as tree_map_with_path
from .core.support.pytree import reduce as tree_reduce
from .core.support.pytree import reduce_associative as tree_reduce_associative
from .core.support.pytree import registry as default_registry
from .core.support.pytree import structure as tree_structure
from .core.support.pytree import transpose as tree_transpose
from .core.support.pytree import unflatten as tree_unflatten

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef", "SequenceKey",
    "all_leaves", "default_registry", "flatten_one_level", "flatten_one_level_with_keys", "is_tree_node", "keystr",
    "register_dataclass", "register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys",
    "register_pytree_with_keys_class", "register_static", "tree_all", "tree_broadcast", "tree_flatten",
    "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce",
    "tree_reduce_associative",
    "tree_structure", "tree_transpose", "tree_unflatten", "treedef_children", "treedef_is_leaf", "treedef_tuple",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
