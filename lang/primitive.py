"""`kernel_call_p`: a kernel applied to arrays, as one primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ShapeError
from ..core.primitive import AxisInfo, Primitive
from .kernel import Kernel


def _typing(*types: Any, kernel: Kernel) -> list[Any]:
    wanted = kernel.in_types
    if len(types) != len(wanted) or any(
        (t.shape, t.dtype) != (w.shape, w.dtype) for t, w in zip(types, wanted, strict=True)
    ):
        given, needed = (", ".join(t.show() for t in ts) for ts in (types, wanted))
        raise ShapeError(f"kernel {kernel.name} takes ({needed}), got ({given})")
    return kernel.out_types


def _numpy(*arrays: Any, kernel: Kernel) -> list[Any]:
    from .interpret import interpret

    return interpret(kernel, *arrays)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, kernel: Kernel) -> Any:
    from .differentiate import kernel_jvp
    from .plain import differentiable

    return kernel_jvp(differentiable(kernel), primals, tangents)


def _linearize(primals: Sequence[Any], nonzero: tuple[bool, ...], *, kernel: Kernel) -> Any:
    from .differentiate import kernel_linearize
    from .plain import differentiable

    return kernel_linearize(differentiable(kernel), primals, nonzero)


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, kernel: Kernel) -> Any:
    from .vectorize import kernel_batch

    return kernel_batch(kernel, axis, args, dims)


kernel_call_p = Primitive(
    "kernel_call", _typing, jvp=_jvp, linearize=_linearize, batch=_batch, numpy=_numpy, multiple=True
)
PRIMITIVES = (kernel_call_p,)
