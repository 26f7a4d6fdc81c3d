"""Types of pytree nodes that exports may have in their arguments and results, by a name that is serialised."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.support import pytree
from ..core.support.errors import ArgumentError, TreeError
from ..core.support.runtime import runtime


class Node(NamedTuple):
    """How nodes of a type are serialised."""

    type: type
    name: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


def _write_keys(keys: Any) -> bytes:
    if not all(isinstance(k, str) for k in keys):
        raise TreeError(f"an OrderedDict with the keys {list(keys)}", "keys of exported trees are strings")
    return json.dumps(list(keys)).encode()


_ORDERED = Node(collections.OrderedDict, "collections.OrderedDict", _write_keys, lambda data: tuple(json.loads(data)))
_nodes: dict[Any, Node] = runtime.part("export.nodes", {_ORDERED.type: _ORDERED, _ORDERED.name: _ORDERED})


def node_of(key: Any) -> Node:
    """The node of a type or of a name.

    Raises:
      TreeError: it is not registered.
    """
    if key not in _nodes:
        raise TreeError(f"{key!r} is no type of nodes that exports know",
                        "use register_pytree_node_serialization or register_namedtuple_serialization")  # fmt: skip
    return _nodes[key]


def _entered(node: Node) -> None:
    for key in (node.type, node.name):
        if key in _nodes:
            raise ArgumentError(f"{key!r} is registered already, as {_nodes[key].name} of {_nodes[key].type.__name__}",
                                "register a type and a name once")  # fmt: skip
    _nodes[node.type] = _nodes[node.name] = node


def register_pytree_node_serialization(
    nodetype: type, *, serialized_name: str, serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any], from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type:  # fmt: skip
    """Have exports take and give nodes of a type that is registered as a pytree; gives the type.

    What the node holds beside its children becomes bytes and comes back from them; nodes are built from that, and
    `from_children` is not called. Raises `ArgumentError` for a type or a name that is registered already, or a type
    that is no pytree.

    >>> import tilewright as tw
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _ = tw.tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), "sum"), lambda _, c: Pair(*c))
    >>> register_pytree_node_serialization(
    ...     Pair, serialized_name="doc.Pair", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
    ... ).__name__
    'Pair'
    """
    if not pytree.is_tree_node(nodetype):
        raise ArgumentError(f"{nodetype.__name__} is not registered as a pytree", "register it first")
    _entered(Node(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata))
    return nodetype


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Have exports take and give a type of named tuples; gives the type. Raises `ArgumentError` as the other one.

    >>> from typing import NamedTuple
    >>> Point = NamedTuple("Point", [("x", float), ("y", float)])
    >>> register_namedtuple_serialization(Point, serialized_name="doc.Point").__name__
    'Point'
    """
    names = getattr(nodetype, "_fields", None)
    if not issubclass(nodetype, tuple) or names is None:
        raise ArgumentError(f"{nodetype.__name__} is no named tuple", "use register_pytree_node_serialization")

    def read(data: bytes) -> None:
        if json.loads(data) != list(names):
            raise TreeError(f"{nodetype.__name__} has the fields {list(names)}, in the export {json.loads(data)}",
                            "use the type that the function was exported with")  # fmt: skip

    _entered(Node(nodetype, serialized_name, lambda _: json.dumps(list(names)).encode(), read))
    return nodetype
