"""`run_scoped`: memory that a part of a body has for itself.

It is scratch of the kernel, undefined on entry: `undefine(ref)` says so, and gives the interpreter its poison.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...core.ir.array import Operand
from ...core.ir.axis_relation import EFFECT, FREE
from ...core.ir.primitive import Primitive
from ...core.ir.program import writes
from ...core.ir.types import MemorySpace, RefType
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentTypeError
from ..kernel.block_spec import as_scratch
from .basic import current_cell
from .interpret_params import poison


def _numpy(ref: Operand, *, zero: bool) -> list[Any]:
    ref[...] = 0 if zero else poison(ref.shape, ref.dtype)
    return []


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    for ref in (*primals, *tangents):
        if isinstance(getattr(ref, "aval", None), RefType):
            undefine_p.bind(ref, **params)
    return [], []


_EFFECTS = frozenset({writes(0)})
undefine_p: Primitive = Primitive(
    "undefine", lambda ref, *, zero: [], jvp=_jvp, effects=lambda *types, **params: _EFFECTS, numpy=_numpy,
    multiple=True, work=FREE, kind=EFFECT,
)  # fmt: skip
PRIMITIVES = (undefine_p,)


def allocate(what: str, scratch: Any, axes: Any = ()) -> Any:
    """A Ref that lives as long as the body, undefined where this is called (a semaphore: zero).

    In a kernel for warpgroups those along `axes` share it.
    """
    type_, cell = as_scratch(scratch), current_cell(what)
    ref = cell.allocate(type_)
    if "mesh" in cell.made:
        cell.made["mesh"].allocated(what, scratch, ref, axes)
        return ref
    undefine_p.bind(ref, zero=type_.space is MemorySpace.SEMAPHORE)
    return ref


@public
def run_scoped(f: Callable[..., Any], *types: Any, collective_axes: Sequence[Any] = (), **kw_types: Any) -> Any:
    """Call `f` with fresh Refs of the given types, as `scratch_shapes` states them; gives what `f` returns.

    The Refs are undefined at first and are not to be used after the call. In a kernel for several warpgroups, memory
    and barriers are of all of them, which `collective_axes` says by naming their axis; an accumulator is of each.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(x, o):
    ...     def double(total):
    ...         total[...] = x[...] + x[...]
    ...         o[...] = total[...]
    ...     tl.run_scoped(double, tl.VMEM((2,), 'float32'))
    >>> out = tw.ShapeDtypeStruct((2,), 'float32')
    >>> tl.kernel_call(body, out)(np.float32([1, 2])).tolist()
    [2.0, 4.0]
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"run_scoped: {f!r} is no function",
            'give the function, then a type for each of its Refs: `run_scoped(f, VMEM((8,), "float32"))`',
        )
    leaves, structure = pytree.flatten((types, kw_types), is_leaf=lambda x: hasattr(x, "shape"))
    args, kwargs = structure.unflatten([allocate("run_scoped", t, collective_axes) for t in leaves])
    try:
        inspect.signature(f).bind(*args, **kwargs)
    except TypeError as wrong:
        raise ArgumentTypeError(
            f"run_scoped: {getattr(f, '__name__', f)}{inspect.signature(f)} is given {len(args)} Refs"
            f"{''.join(f', {name}' for name in kwargs)}: {wrong}",
            'give run_scoped one type for each parameter: `run_scoped(f, VMEM((8,), "float32"))`',
        ) from None
    except ValueError:  # a callable that does not tell
        pass
    return f(*args, **kwargs)


@public
def with_scoped(*types: Any, collective_axes: Sequence[Any] = (), **kw_types: Any) -> Callable[..., Callable[..., Any]]:
    """Decorator: a function that is called with fresh Refs after its own arguments; types and errors as `run_scoped`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import VMEM, kernel_call
    >>> @with_scoped(VMEM((3,), "float32"))
    ... def body(x, o, twice):
    ...     twice[...] = x[...] * 2
    ...     o[...] = twice[...]
    >>> print(kernel_call(body, tw.ShapeDtypeStruct((3,), "float32"))(np.ones(3, np.float32)))
    [2. 2. 2.]
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            given = functools.partial(f, *args, **kwargs)
            return run_scoped(given, *types, collective_axes=collective_axes, **kw_types)

        return call

    return decorate
