"""Pytrees, over jaxlib's registry (its own instance, so that jax in the same process keeps its own)."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jaxlib._jax import pytree as _pytree

from .errors import ArgumentError, ArgumentTypeError, TreeError

registry: Any = _pytree.PyTreeRegistry()
registry.__module__, registry.__name__ = __name__, "registry"  # pickled by reference, and so what holds structures
if TYPE_CHECKING:
    PyTreeDef = Any  # jaxlib's extension modules come without stubs
else:
    PyTreeDef = _pytree.PyTreeDef
DictKey: Any
SequenceKey: Any
DictKey, SequenceKey = _pytree.DictKey, _pytree.SequenceKey
GetAttrKey: Any
FlattenedIndexKey: Any
GetAttrKey, FlattenedIndexKey = _pytree.GetAttrKey, _pytree.FlattenedIndexKey
PyTree = Any  # nested containers of leaves; a value of any other type is a leaf
Leaf = Callable[[Any], bool] | None
KeyEntry = TypeVar("KeyEntry", bound=Hashable)
KeyPath = tuple[KeyEntry, ...]


def flatten(tree: PyTree, is_leaf: Leaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree, and its structure.

    Raises:
      TreeError: it is nested too deeply.

    >>> from tilewright import tree
    >>> leaves, structure = tree.flatten({'a': 1, 'b': (2, 3)})
    >>> leaves
    [1, 2, 3]
    """
    try:
        return registry.flatten(tree, is_leaf)
    except SystemError:  # of jaxlib's binding, which meets the limit of recursion in C
        raise too_deep() from None


def too_deep() -> TreeError:
    """The error of a pytree that is nested too deeply."""
    return TreeError("a pytree is nested more deeply than the interpreter's recursion limit in C allows",
                     "nest it less deeply: keep equal parts as arrays with a leading axis")  # fmt: skip


def unflatten(treedef: PyTreeDef, leaves: Sequence[Any]) -> Any:
    """The pytree of a structure and its leaves.

    >>> from tilewright import tree
    >>> structure = tree.structure({'a': 0, 'b': (0, 0)})
    >>> tree.unflatten(structure, [1, 2, 3])
    {'a': 1, 'b': (2, 3)}
    """
    return treedef.unflatten(leaves)


def leaves(tree: PyTree, is_leaf: Leaf = None) -> list[Any]:
    """The leaves of a pytree, left to right.

    >>> from tilewright import tree
    >>> tree.leaves({'b': (2, 3), 'a': 1})
    [1, 2, 3]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: PyTree, is_leaf: Leaf = None) -> PyTreeDef:
    """The structure of a pytree, its leaves forgotten.

    >>> from tilewright import tree
    >>> tree.structure([1, 2]) == tree.structure(['a', 'b'])
    True
    """
    return flatten(tree, is_leaf)[1]


def map(f: Callable[..., Any], tree: PyTree, *rest: Any, is_leaf: Leaf = None) -> Any:  # noqa: A001
    """Apply a function to the leaves of pytrees of one structure.

    >>> map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"x": 10, "y": (20, 30)})
    {'x': 11, 'y': (22, 33)}
    """
    first, treedef = flatten(tree, is_leaf)
    others = [flatten_up_to(treedef, r) for r in rest]
    return treedef.unflatten(f(*xs) for xs in zip(first, *others, strict=True))


def flatten_up_to(treedef: PyTreeDef, tree: PyTree) -> list[Any]:
    """The subtrees of `tree` at the leaves of a structure that is a prefix of its own."""
    try:
        return treedef.flatten_up_to(tree)
    except (ValueError, TypeError):
        raise TreeError(f"pytree structures differ{_difference(treedef, tree)}",
                        "give the trees the same keys, lengths and node types") from None  # fmt: skip


def _difference(expected: PyTreeDef, tree: PyTree, path: tuple[Any, ...] = ()) -> str:
    """Where and how a tree first differs from a structure that is to be a prefix of its own; "" where it does not."""
    if expected.node_data() is None and expected.num_leaves == 1:
        return ""
    children, one = flatten_with_path(tree, lambda x: x is not tree)
    if expected.node_data() != one.node_data() or len(expected.children()) != len(children):
        return f"{f' at {keystr(path)}' if path else ''}: expected {_described(expected)}, got {_described(one)}"
    differences = (_difference(inner, child, (*path, *key))
                   for inner, (key, child) in zip(expected.children(), children, strict=True))  # fmt: skip
    return next(filter(None, differences), "")


def _described(treedef: PyTreeDef) -> str:
    """A structure's outermost node in words."""
    data, count = treedef.node_data(), len(treedef.children())
    if data is None:
        return "a leaf" if treedef.num_leaves else "None"
    kind, keys = data
    if kind is dict:
        return f"a dict with {'the keys ' + ', '.join(map(repr, keys)) if keys else 'no keys'}"
    return "None" if kind is type(None) else f"a {kind.__name__} of length {count}"


_ABSENT = object()


def reduce(function: Callable[[Any, Any], Any], tree: PyTree, initializer: Any = _ABSENT, is_leaf: Leaf = None) -> Any:
    """Fold a function over the leaves.

    >>> from tilewright import tree
    >>> tree.reduce(lambda total, x: total + x, {'a': 1, 'b': [2, 3]}, 0)
    6
    """
    if initializer is _ABSENT:
        return functools.reduce(function, leaves(tree, is_leaf))
    return functools.reduce(function, leaves(tree, is_leaf), initializer)


def reduce_associative(
    operation: Callable[[Any, Any], Any], tree: PyTree, *, identity: Any = _ABSENT, is_leaf: Leaf = None
) -> Any:
    """Fold an associative function over the leaves, pair by pair, so that the depth is the logarithm of their number.

    Raises `TreeError` for a tree without leaves where no identity is given.

    >>> reduce_associative(lambda a, b: a + b, [1, (2, 3), [4, 5, 6]])
    21
    """
    found = leaves(tree, is_leaf)
    if not found:
        if identity is _ABSENT:
            raise TreeError("reduce_associative of a tree without leaves", "give the `identity` of the operation")
        return identity
    while len(found) > 1:
        pairs = [operation(a, b) for a, b in zip(found[::2], found[1::2], strict=False)]
        found = pairs + found[len(found) & ~1 :]
    return found[0]


def all(tree: PyTree, *, is_leaf: Leaf = None) -> bool:  # noqa: A001
    """Whether every leaf is true.

    >>> from tilewright import tree
    >>> tree.all([True, (1, False)])
    False
    """
    return builtins_all(leaves(tree, is_leaf))


def builtins_all(values: Sequence[Any]) -> bool:
    """`all`, whose name this module gives to trees."""
    for v in values:
        if not v:
            return False
    return True


def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef, pytree_to_transpose: PyTree) -> Any:
    """Turn a tree of trees inside out; an inner structure of None is that of the first subtree.

    >>> from tilewright import tree
    >>> outer, inner = tree.structure([0, 0]), tree.structure({'a': 0})
    >>> tree.transpose(outer, inner, [{'a': 1}, {'a': 2}])
    {'a': [1, 2]}
    """
    outer, inner = outer_treedef, inner_treedef
    flat, treedef = flatten(pytree_to_transpose)
    if inner is None:
        inner = structure(flatten_up_to(outer, pytree_to_transpose)[0])
    if treedef.num_leaves != outer.num_leaves * inner.num_leaves:  # nodes may keep the structure of what they hold
        raise TreeError(f"pytree structure {treedef} is not {outer} of {inner}", "pass the structures that it has")
    size = inner.num_leaves
    rows = [flat[i : i + size] for i in range(0, len(flat), size)]
    return inner.unflatten(outer.unflatten(column) for column in zip(*rows, strict=True))


def flatten_with_path(
    tree: PyTree, is_leaf: Callable[..., Any] | None = None, is_leaf_takes_path: bool = False
) -> tuple[Any, PyTreeDef]:
    """The pairs (path, leaf) of a pytree, and its structure; `is_leaf` may take the path before the node.

    >>> from tilewright import tree
    >>> pairs, structure = tree.flatten_with_path({'a': [1]})
    >>> [(str(path[0]), str(path[1]), leaf) for path, leaf in pairs]
    [("['a']", '[0]', 1)]
    """
    predicate = is_leaf if is_leaf is None or is_leaf_takes_path else (lambda _path, x: is_leaf(x))
    pairs, treedef = registry.flatten_with_path(tree, predicate)
    return [(tuple(path), leaf) for path, leaf in pairs], treedef


def leaves_with_path(tree: PyTree, is_leaf: Any = None, is_leaf_takes_path: bool = False) -> list[tuple[Any, Any]]:
    """The leaves of a pytree with the path to each.

    >>> from tilewright import tree, tree_util
    >>> [(tree_util.keystr(path), leaf) for path, leaf in tree.leaves_with_path({'a': (1, 2)})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(
    f: Callable[..., Any], tree: PyTree, *rest: Any, is_leaf: Any = None, is_leaf_takes_path: bool = False
) -> Any:
    """Apply `f(path, leaf, ...)` to the leaves of pytrees of one structure.

    >>> from tilewright import tree, tree_util
    >>> tree.map_with_path(lambda path, x: f'{tree_util.keystr(path)} is {x}', {'a': 1})
    {'a': "['a'] is 1"}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [flatten_up_to(treedef, r) for r in rest]
    return treedef.unflatten(f(path, *xs) for (path, *xs) in zip((p for p, _ in pairs), (x for _, x in pairs), *others))


def keystr(keys: Sequence[Any], *, simple: bool = False, separator: str = "") -> str:
    """A path as text, such as `['layers'][0].weight`.

    >>> from tilewright import tree_util
    >>> (path, _), = tree_util.tree_leaves_with_path({'layers': [1.0]})
    >>> tree_util.keystr(path)
    "['layers'][0]"
    """
    return separator.join(_simple(k) if simple else str(k) for k in keys)


def _simple(key: Any) -> str:
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def broadcast(prefix_tree: PyTree, full_tree: Any, is_leaf: Leaf = None) -> Any:
    """Repeat the leaves of a prefix tree over the leaves of a full one.

    >>> from tilewright import tree
    >>> tree.broadcast([1, 2], [(0, 0), {'a': 0}])
    [(1, 1), {'a': 2}]
    """
    return unflatten(structure(full_tree, is_leaf), broadcast_prefix(prefix_tree, full_tree, is_leaf))


def broadcast_prefix(prefix: PyTree, full: Any, is_leaf: Leaf = None) -> list[Any]:
    """The leaves of a prefix tree, one for each leaf of the full tree."""
    result: list[Any] = []

    def add(leaf: Any, subtree: Any) -> None:
        result.extend([leaf] * structure(subtree, is_leaf).num_leaves)

    none_leaf = (lambda x: x is None) if is_leaf is None else (lambda x: x is None or is_leaf(x))
    prefix_leaves, treedef = flatten(prefix, none_leaf)
    for leaf, subtree in zip(prefix_leaves, flatten_up_to(treedef, full), strict=True):
        add(leaf, subtree)
    return result


def all_leaves(iterable: Iterable[Any], is_leaf: Leaf = None) -> bool:
    """Whether every element is a leaf.

    >>> from tilewright import tree_util
    >>> tree_util.all_leaves([1, 2]), tree_util.all_leaves([1, (2,)])
    (True, False)
    """
    found = [structure(x, is_leaf) for x in iterable]
    return builtins_all([s.num_nodes == s.num_leaves == 1 for s in found])


def treedef_tuple(treedefs: Sequence[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees.

    >>> from tilewright import tree_util
    >>> one = tree_util.tree_structure([0, 0])
    >>> tree_util.treedef_tuple((one, one)).num_leaves
    4
    """
    return _pytree.treedef_tuple(registry, list(treedefs))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of a tree's children.

    >>> from tilewright import tree_util
    >>> structure = tree_util.tree_structure([1, (2, 3)])
    >>> [s.num_leaves for s in tree_util.treedef_children(structure)]
    [1, 2]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is one leaf.

    >>> from tilewright import tree_util
    >>> tree_util.treedef_is_leaf(tree_util.tree_structure(1)), tree_util.treedef_is_leaf(tree_util.tree_structure([1]))
    (True, False)
    """
    return treedef.num_nodes == 1


def flatten_one_level(tree: PyTree) -> tuple[Iterable[Any], Hashable]:
    """The children of a node, and the rest of it; raises `TreeError` for a leaf.

    >>> flatten_one_level({"a": [1, 2], "b": 3})
    (([1, 2], 3), ('a', 'b'))
    """
    return _one_level(registry.flatten_one_level(tree), tree)


def flatten_one_level_with_keys(tree: PyTree) -> tuple[Iterable[tuple[Any, Any]], Hashable]:
    """The children of a node with their keys, and the rest of it; raises `TreeError` for a leaf.

    >>> flatten_one_level_with_keys([5, 6])
    (((SequenceKey(idx=0), 5), (SequenceKey(idx=1), 6)), None)
    """
    return _one_level(registry.flatten_one_level_with_keys(tree), tree)


def _one_level(found: Sequence[Any] | None, tree: PyTree) -> Any:
    if found is None:
        raise TreeError(f"{tree!r} of type {type(tree).__name__} is a leaf", "pass a node of a pytree")
    children, data = found
    return tuple(children), data


def is_tree_node(typ: type) -> bool:
    """Whether values of a type are nodes of pytrees, by registration or as named tuples.

    >>> is_tree_node(dict), is_tree_node(int)
    (True, False)
    """
    return registry.is_node(typ)


def static(**kwargs: Any) -> Any:
    """A field of a dataclass that is part of the structure, not a leaf; arguments as `dataclasses.field`.

    >>> import dataclasses
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Scale:
    ...     by: float
    ...     name: str = static(default="scale")
    >>> leaves(Scale(2.0))
    [2.0]
    """
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


# ---------------------------------------------------------------------------- user nodes


def register_pytree_node(
    nodetype: type[Any], flatten_func: Callable[..., Any], unflatten_func: Callable[..., Any],
    flatten_with_keys_func: Any = None,
) -> None:  # fmt: skip
    """Make a class a pytree node, given how to take it apart and how to make it again.

    >>> from tilewright import tree_util
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))
    >>> tree_util.tree_leaves(Pair(1, 2))
    [1, 2]
    """
    registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(
    nodetype: type[Any], flatten_with_keys: Callable[..., Any], unflatten_func: Callable[..., Any],
    flatten_func: Any = None,
) -> None:  # fmt: skip
    """`register_pytree_node` whose children carry keys.

    >>> from tilewright import tree_util
    >>> class Named:
    ...     def __init__(self, value):
    ...         self.value = value
    >>> keyed = lambda n: (((tree_util.GetAttrKey('value'), n.value),), None)
    >>> tree_util.register_pytree_with_keys(Named, keyed, lambda _, children: Named(*children))
    >>> [(tree_util.keystr(path), leaf) for path, leaf in tree_util.tree_leaves_with_path(Named(1))]
    [('.value', 1)]
    """

    def plain(tree: PyTree) -> Any:
        children, data = flatten_with_keys(tree)
        return [child for _, child in children], data

    registry.register_node(nodetype, flatten_func or plain, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: Any) -> Any:
    """Class decorator: a pytree node by its `tree_flatten` and `tree_unflatten` methods.

    >>> from tilewright import tree_util
    >>> @tree_util.register_pytree_node_class
    ... class Box:
    ...     def __init__(self, value):
    ...         self.value = value
    ...     def tree_flatten(self):
    ...         return (self.value,), None
    ...     @classmethod
    ...     def tree_unflatten(cls, _, children):
    ...         return cls(*children)
    >>> tree_util.tree_leaves(Box(3))
    [3]
    """
    registry.register_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten, None)
    return cls


def register_pytree_with_keys_class(cls: Any) -> Any:
    """Class decorator: a pytree node by `tree_flatten_with_keys` and `tree_unflatten`.

    >>> from tilewright import tree_util
    >>> @tree_util.register_pytree_with_keys_class
    ... class Keyed:
    ...     def __init__(self, value):
    ...         self.value = value
    ...     def tree_flatten_with_keys(self):
    ...         return ((tree_util.GetAttrKey('value'), self.value),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, _, children):
    ...         return cls(*children)
    >>> [(tree_util.keystr(path), leaf) for path, leaf in tree_util.tree_leaves_with_path(Keyed(1))]
    [('.value', 1)]
    """
    plain = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten, plain)
    return cls


def register_dataclass(
    nodetype: type[Any], data_fields: Sequence[str] | None = None, meta_fields: Sequence[Any] | None = None,
    drop_fields: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """Make a dataclass a pytree node; `meta_fields` (those marked `static` by default) are its structure.

    Raises:
      ArgumentTypeError: one of `data_fields` and `meta_fields` without the other; none for what is no dataclass.
      ArgumentError: they are not all fields of `__init__` but for `drop_fields`, each once.

    >>> import dataclasses
    >>> from tilewright import tree_util
    >>> @tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> tree_util.tree_map(lambda v: 2 * v, Point(1.0, 2.0))
    Point(x=2.0, y=4.0)
    """
    fields = dataclasses.fields(nodetype) if dataclasses.is_dataclass(nodetype) else ()
    dropped = {drop_fields} if isinstance(drop_fields, str) else {*drop_fields}
    name = nodetype.__name__
    if (data_fields is None) != (meta_fields is None) or (data_fields is None and not fields):
        what = f"register_dataclass of {name} with data_fields={data_fields}, meta_fields={meta_fields}"
        raise ArgumentTypeError(what, "give both, or none for a dataclass")
    if data_fields is None:
        kept = [f for f in fields if f.name not in dropped]
        meta_fields = [f.name for f in kept if f.metadata.get("static")]
        data_fields = [f.name for f in kept if not f.metadata.get("static")]
    given = [*data_fields, *meta_fields]
    wanted = {f.name for f in fields if f.init} - dropped
    wrong = sorted({n for n in given if given.count(n) > 1} | (wanted ^ {*given} if fields else set()))
    if wrong:
        raise ArgumentError(f"register_dataclass of {name}: {', '.join(wrong)} among its fields",
                            "name each field that `__init__` takes once; `drop_fields` are the others")  # fmt: skip
    registry.register_dataclass_node(nodetype, list(data_fields), list(meta_fields))
    return nodetype


def register_static(cls: Any) -> Any:
    """Class decorator: a node without leaves; the object itself, hashable, is the structure.

    >>> from tilewright import tree_util
    >>> @tree_util.register_static
    ... class Mode(str):
    ...     pass
    >>> tree_util.tree_leaves({'mode': Mode('fast'), 'x': 1})
    [1]
    """
    registry.register_node(cls, lambda x: ((), x), lambda x, _: x, None)
    return cls


class Partial(functools.partial):
    """`functools.partial` as a pytree whose leaves are the arguments bound here, not those of one within it."""

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **keywords: Any) -> Partial:
        whole = _Whole(func) if isinstance(func, functools.partial) else func  # else Python would merge the two
        return super().__new__(cls, whole, *args, **keywords)


@dataclasses.dataclass(frozen=True, eq=False)
class _Whole:
    """A partial function as a function, equal to it and to what is equal to it."""

    function: functools.partial

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.function(*args, **keywords)

    def __eq__(self, other: object) -> bool:
        return self.function == (other.function if isinstance(other, _Whole) else other)

    def __hash__(self) -> int:
        return hash(self.function)


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)
register_pytree_with_keys(
    collections.OrderedDict,
    lambda d: ([(DictKey(k), v) for k, v in d.items()], tuple(d)),
    lambda keys, values: collections.OrderedDict(zip(keys, values, strict=True)),
)
register_pytree_with_keys(
    collections.defaultdict,
    lambda d: ([(DictKey(k), d[k]) for k in sorted(d)], (d.default_factory, tuple(sorted(d)))),
    lambda data, values: collections.defaultdict(data[0], zip(data[1], values, strict=True)),
)
