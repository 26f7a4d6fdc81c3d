"""Target-specific operations: inline assembly, and the pipelining depth of a loop in a body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.axis_relation import IDENTITY, POINTWISE, pointwise
from ...core.ir.primitive import Primitive, Zero
from ...core.ir.types import INT32, ArrayType, as_dtype, canonical_dtype
from ...core.primitives.elementwise.builders import unary
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError, NoDerivativeError, ShapeError, UnsupportedError
from ...core.tracing.array_conversion import as_array
from ...core.tracing.trace import shape_of, typeof
from ...core.transforms.jvp import expanded_jvp
from ..kernel.block_spec import Buffered
from .basic import broadcast_to

DIALECTS = ("ptx", "amdgcn")


def _typing(*types: Any, dtypes: tuple[Any, ...], **_: Any) -> list[ArrayType]:
    shapes = {t.shape for t in types}
    if len(shapes) > 1:
        raise ShapeError(f"inline_asm: operands of the shapes {', '.join(map(str, sorted(shapes)))}",
                         "broadcast them to one shape")  # fmt: skip
    return [ArrayType(types[0].shape, dtype) for dtype in dtypes]


def meant(
    *operands: Any, meaning: Callable[..., Any] | None, asm: str, dtypes: tuple[Any, ...], **_: Any
) -> Sequence[Any]:
    """The results, by what the author says that the instructions compute."""
    if meaning is None:
        raise UnsupportedError(
            f"inline_asm {asm!r} runs only on the GPUs whose instructions it names",
            "say what it computes, `inline_asm(..., meaning=function)`: all other targets run that")  # fmt: skip
    found = meaning(*operands)
    found = found if isinstance(found, (tuple, list)) else [found]
    given = [(shape_of(x), typeof(x).dtype) for x in found]
    if given != [(shape_of(operands[0]), dtype) for dtype in dtypes]:
        raise ArgumentTypeError(
            f"inline_asm: its meaning gives {', '.join(typeof(x).show() for x in found)}, its results are "
            f"{', '.join(map(str, dtypes))} of the operands' shape", "let both say the same")  # fmt: skip
    return list(found)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    outs = inline_asm_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        return outs, [Zero(typeof(o).tangent()) for o in outs]
    if params["meaning"] is None:
        raise NoDerivativeError(f"inline_asm {params['asm']!r} has no derivative",
                                "say what it computes, `inline_asm(..., meaning=function)`")  # fmt: skip
    return outs, _derived(primals, tangents, **params)[1]


_derived = expanded_jvp(meant, multiple=True)
inline_asm_p: Primitive = Primitive(
    "inline_asm", _typing, jvp=_jvp, expand=meant, multiple=True, relation=pointwise, kind=POINTWISE,
    numpy=lambda *operands, **params: [np.asarray(x) for x in meant(*operands, **params)],
)  # fmt: skip


@public
def inline_asm(
    asm: str, *operands: Any, constraints: str, result_dtypes: Any, pack: int = 1, pure: bool = True,
    dialect: str = "ptx", meaning: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Instructions of a GPU applied to each element (to `pack` of them at once) of arrays of one shape.

    `asm` and `constraints` are as Triton's `inline_asm_elementwise` takes them, in PTX (`dialect="ptx"`, NVIDIA) or
    GCN assembly ("amdgcn", AMD). `result_dtypes` is a dtype, or several for several results. `meaning` is a function of
    the operands that computes the same with array operations: what the interpreter and all other targets run, and
    whose derivative this has. Without one those raise `UnsupportedError`, and derivatives `NoDerivativeError`.

    >>> import numpy as np
    >>> double = "add.s32 $0, $1, $1;"
    >>> print(inline_asm(double, np.arange(3, dtype=np.int32), constraints="=r,r", result_dtypes="int32",
    ...                  meaning=lambda x: x + x))
    [0 2 4]
    """
    if dialect not in DIALECTS or not isinstance(pack, int) or pack < 1:
        raise ArgumentError(f"inline_asm: dialect {dialect!r}, pack {pack!r}",
                            f"a dialect is one of {', '.join(DIALECTS)}, pack 1 or more")  # fmt: skip
    several = isinstance(result_dtypes, (tuple, list))
    dtypes = tuple(canonical_dtype(as_dtype(d)) for d in (result_dtypes if several else [result_dtypes]))
    arrays = [as_array(x) for x in operands]
    shape = np.broadcast_shapes(*map(shape_of, arrays)) if arrays else None
    if shape is None:
        raise ArgumentError("inline_asm is given no operands", "it works element by element: give one array or more")
    arrays = [x if shape_of(x) == shape else broadcast_to(x, shape) for x in arrays]
    found = inline_asm_p.bind(*arrays, asm=str(asm), constraints=str(constraints), dtypes=dtypes, pack=pack,
                              pure=bool(pure), dialect=dialect, meaning=meaning)  # fmt: skip
    return tuple(found) if several else found[0]


@public
def elementwise_inline_asm(
    asm: str, *, args: Sequence[Any], constraints: str, pack: int, result_shape_dtypes: Sequence[Any],
    meaning: Callable[..., Any] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """`inline_asm` in PTX under Pallas's name: the results, of the shapes and dtypes that are stated; errors as there.

    Raises `ShapeError` too, for results that do not have the operands' shape.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(x, o):
    ...     o[...], = tl.triton.elementwise_inline_asm(
    ...         "ex2.approx.f32 $0, $1;", args=[x[...]], constraints="=f,f", pack=1,
    ...         result_shape_dtypes=[tw.ShapeDtypeStruct((4,), "float32")], meaning=tnp.exp2)
    >>> call = tl.kernel_call(body, tw.ShapeDtypeStruct((4,), "float32"))
    >>> call(np.float32([0, 1, 2, 3])).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    shape = np.broadcast_shapes(*map(shape_of, args))
    wrong = [tuple(r.shape) for r in result_shape_dtypes if tuple(r.shape) != shape]
    if wrong:
        raise ShapeError(f"elementwise_inline_asm: operands of shape {shape}, a result of {wrong[0]}", "give one shape")
    dtypes = tuple(r.dtype for r in result_shape_dtypes)
    return inline_asm(asm, *args, constraints=constraints, result_dtypes=dtypes, pack=pack, meaning=meaning)


# ---------------------------------------------------------------------------- loops

staged_p: Primitive
staged_p = unary("staged", ("int",), lambda i, num_stages: i, flat=True, expand=lambda i, num_stages: i, kind=IDENTITY)


def staged(i: ArrayLike, num_stages: int | None) -> Any:
    """The index of a loop whose loads are issued `num_stages` iterations ahead, on targets that pipeline loops."""
    if num_stages is None:
        return i
    Buffered(num_stages)
    return staged_p.bind(as_array(i), num_stages=num_stages) if typeof(i).dtype == INT32 else i


PRIMITIVES = (inline_asm_p, staged_p)
