"""`jax._src.flattree`, for libraries that wrap functions: a pytree taken apart, with its structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ....core.support import pytree
from ...missing import not_adapted


@dataclass(frozen=True)
class FlatTree:
    """The leaves of a pytree and its structure; `map` and `update` give another of the same structure.

    >>> flatten({"a": 1, "b": [2]}).map(lambda x: 10 * x).unflatten()
    {'a': 10, 'b': [20]}
    """

    vals: tuple[Any, ...]
    tree: Any

    def __len__(self) -> int:
        return len(self.vals)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.vals)

    def __getitem__(self, i: Any) -> Any:
        return self.vals[i]

    def update(self, vals: Iterable[Any]) -> FlatTree:
        """The tree with other leaves; as many."""
        vals = tuple(vals)
        self.tree.unflatten(vals)  # which checks their number
        return FlatTree(vals, self.tree)

    def map(self, f: Callable[[Any], Any]) -> FlatTree:
        """The tree of `f` of each leaf."""
        return self.update(map(f, self.vals))

    def map2(self, other: Iterable[Any], f: Callable[[Any, Any], Any]) -> FlatTree:
        """The tree of `f` of each leaf and its counterpart."""
        return self.update(f(x, y) for x, y in zip(self.vals, other, strict=True))

    def unzip2(self) -> tuple[FlatTree, FlatTree]:
        """Two trees of a tree of pairs."""
        return self.map(lambda pair: pair[0]), self.map(lambda pair: pair[1])

    def unflatten(self) -> Any:
        """The pytree."""
        return self.tree.unflatten(self.vals)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> FlatTree:
    """A pytree taken apart.

    >>> flatten([1, (2, 3)]).vals
    (1, 2, 3)
    """
    leaves, structure = pytree.flatten(tree, is_leaf)
    return FlatTree(tuple(leaves), structure)


__getattr__ = not_adapted("jax._src.flattree")
