"""`jax._src.tree_util`, for flax: which types are nodes of pytrees, and where one tree is no prefix of another; for
jaxlie: how nodes are taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from ....core.support import pytree
from ....core.support.errors import TreeError
from ....core.support.pytree import flatten_one_level as flatten_one_level
from ...missing import not_adapted


class _Node:
    """How values of a type that is a node are taken apart and put together; what is not children is their structure."""

    @staticmethod
    def to_iter(tree: Any) -> tuple[list[Any], Any]:
        """The children of a node, and its structure."""
        return pytree.flatten(tree, lambda x: x is not tree)

    @staticmethod
    def from_iter(structure: Any, children: Iterable[Any]) -> Any:
        """A node of these children."""
        return structure.unflatten(list(children))


class _Nodes:
    """The types that are nodes, as a mapping."""

    __contains__ = staticmethod(pytree.is_tree_node)

    def __getitem__(self, kind: type) -> type[_Node]:
        if kind not in self:
            raise KeyError(kind)
        return _Node


_registry = _Nodes()


def prefix_errors(prefix_tree: Any, full_tree: Any) -> list[Callable[[str], TreeError]]:
    """The places where a tree is no prefix of another: each a function from the tree's name to the error.

    >>> print(prefix_errors([1, [2]], [1, 2])[0]("in_axes").what)
    in_axes[1] is of the structure PyTreeDef([*]), and the full tree is of PyTreeDef(*) there
    """
    return [partial(_error, *found) for found in _differences((), prefix_tree, full_tree)]


def _differences(path: tuple[Any, ...], prefix: Any, full: Any) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    if pytree.all_leaves([prefix]):
        return
    pairs, found = pytree.flatten_with_path(prefix, lambda x: x is not prefix)
    parts, wanted = pytree.flatten(full, lambda x: x is not full)
    if found != wanted:
        yield path, pytree.structure(prefix), pytree.structure(full)
        return
    for (key, inner), part in zip(pairs, parts, strict=True):
        yield from _differences((*path, *key), inner, part)


def _error(path: tuple[Any, ...], found: Any, wanted: Any, name: str) -> TreeError:
    return TreeError(f"{name}{pytree.keystr(path)} is of the structure {found}, and the full tree is of {wanted} there",
                     "pass a prefix of the full tree")  # fmt: skip


__getattr__ = not_adapted("jax._src.tree_util")
