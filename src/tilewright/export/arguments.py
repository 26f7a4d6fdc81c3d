"""Arguments of which some sizes are symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.api.transformations import ShapeDtypeStruct
from ..core.ir.symbolic.scope import SymbolicScope, symbolic_shape
from ..core.support import pytree
from ..core.support.errors import ArgumentError
from ..core.tracing.trace import as_type


def symbolic_args_specs(
    args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None
) -> Any:
    """Arguments by shape and dtype, their sizes as texts say: a pytree, of which `shapes_specs` is a prefix.

    None leaves the sizes of an argument, `_` and `...` those of its axes. The symbols are of one scope. Raises as
    `symbolic_shape`.

    >>> import tilewright as tw
    >>> x, w = symbolic_args_specs((tw.numpy.ones((2, 8)), tw.numpy.ones((8, 3))), ("b, ...", None))
    >>> x.shape, w.shape
    ((b, 8), (8, 3))
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ArgumentError("constraints beside a scope", "give them to the SymbolicScope")
    leaves, structure = pytree.flatten(args)
    texts = pytree.broadcast_prefix(shapes_specs, args, is_leaf=lambda x: x is None or isinstance(x, str))
    types = [as_type(x) for x in leaves]
    found = [
        ShapeDtypeStruct(symbolic_shape(text, scope=scope, like=t.shape), t.dtype)
        for text, t in zip(texts, types, strict=True)
    ]
    return structure.unflatten(found)
