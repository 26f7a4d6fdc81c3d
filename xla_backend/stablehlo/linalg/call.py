"""Calls of solver libraries from StableHLO: matrices column by column, attributes, and NaN where a call failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.ir.primitive import Primitive
from ....core.ir.program import Program
from ....core.ir.types import INT32, ArrayType, is_complex
from ....core.primitives.elementwise.comparison import eq_p, ge_p, select_n_p
from ....core.primitives.elementwise.conversion import complex_p
from ....core.primitives.linalg.common import real_of
from ....core.primitives.movement.shape import broadcast_in_dim
from ....core.support.errors import UnsupportedError
from ....core.support.memo import cached
from ....core.tracing.numpy_interpreter import apply
from ....core.tracing.trace import shape_of, trace_program, typeof
from ....core.transforms.structural_primitives import spread
from ..emit import Emitter, Operand

if TYPE_CHECKING:
    from ....core.ir.array import Array

Rule = Callable[..., Any]


def flag(value: bool) -> str:
    return "true" if value else "false"


def letter(name: str) -> str:
    """A character argument of LAPACK's."""
    return f"{ord(name)} : ui8"


def call(
    e: Emitter, target: str, operands: Sequence[Operand], outs: Sequence[ArrayType], matrix: int,
    config: dict[str, str] | None = None, aliases: Sequence[tuple[int, int]] = (),
) -> list[Operand]:  # fmt: skip
    """Print a call by XLA's FFI. Arrays of `matrix` axes are matrices; `aliases`: (operand, result) in one memory."""
    settings = ", ".join(f"{name} = {value}" for name, value in (config or {}).items())
    many = len(outs) != 1
    shared = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if many else ''}], operand_index = {i}, "
        "operand_tuple_indices = []>"
        for i, o in aliases
    )
    attributes = [
        f'call_target_name = "{target}"', "api_version = 4 : i32", f"backend_config = {{{settings}}}",
        "has_side_effect = false", f"operand_layouts = [{_layouts([o.type for o in operands], matrix)}]",
        f"result_layouts = [{_layouts(outs, matrix)}]",
    ]  # fmt: skip
    if shared:
        attributes.append(f"output_operand_aliases = [{shared}]")
    return e.ops("stablehlo.custom_call", operands, outs, ", ".join(attributes))


def _layouts(types: Sequence[ArrayType], matrix: int) -> str:
    return ", ".join(_layout(t.ndim, t.ndim == matrix) for t in types)


@cached()
def _layout(rank: int, columns_first: bool) -> str:
    """The axes of an array, the one that moves fastest first: of a matrix that of rows."""
    if not rank:
        return "dense<> : tensor<0xindex>"
    order = list(reversed(range(rank)))
    if columns_first:
        order[:2] = [rank - 2, rank - 1]
    return f"dense<[{', '.join(map(str, order))}]> : tensor<{rank}xindex>"


def inline(e: Emitter, fun: Callable[..., Any], operands: Sequence[Operand]) -> list[Operand]:
    """Print what a function of the core's primitives makes of some operands."""

    def flat(*args: Any) -> list[Any]:
        out = fun(*args)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    program: Program = trace_program(flat, [o.type for o in operands], "linalg")
    return e.inline(e.expanded(program), operands)


def expanded(primitive: Primitive) -> Rule:
    """The rule that prints a primitive's expansion."""

    def rule(e: Emitter, operands: Sequence[Operand], outs: Sequence[Any], **params: Any) -> Any:
        found = inline(e, lambda *args: primitive.expand(*args, **params), operands)  # type: ignore[misc]
        return found if primitive.multiple else found[0]

    return rule


def info_of(x: Operand) -> ArrayType:
    """The type of what a routine says of each matrix: 0 where it went well."""
    return ArrayType(x.shape[:-2], INT32)


def checked(result: Array, info: Array, negative_only: bool = False) -> Any:
    """A result with NaN where a routine failed; with `negative_only` only where it could not begin."""
    type_: Any = typeof(result)
    shape = shape_of(info)
    fine = (ge_p if negative_only else eq_p).bind(info, spread(np.int32(0), shape))
    fine = broadcast_in_dim(fine, type_.shape, tuple(range(len(shape))))
    nan = np.asarray(complex(np.nan, np.nan) if type_.dtype.kind == "c" else np.nan).astype(type_.dtype)[()]
    return select_n_p.bind(fine, spread(nan, type_.shape), result)


def all_checked(e: Emitter, info: Operand, results: Sequence[Operand]) -> list[Operand]:
    """The results of a routine, each with NaN where it failed."""
    return inline(e, lambda info, *xs: [checked(x, info) for x in xs], [info, *results])


def eigen(
    e: Emitter, x: Operand, outs: Sequence[ArrayType], left: bool, right: bool, routine: Callable[[Any], Any]
) -> list[Operand]:
    """Eigenvalues, and the vectors asked for; NaN where the routine failed.

    `routine` takes the types of its results and gives these; the values of a real matrix are two results, their parts.
    """
    real = not is_complex(x.dtype)
    part, vectors = ArrayType(x.shape[:-1], real_of(x.dtype)), ArrayType(x.shape, outs[0].dtype)
    *values, lefts, rights, info = routine([*([part] * 2 if real else outs[:1]), vectors, vectors, info_of(x)])
    if real:
        values = inline(e, complex_p.bind, values)
    return all_checked(e, info, [*values, *([lefts] if left else ()), *([rights] if right else ())])


def empty(primitive: Primitive, operands: Sequence[Operand], outs: Sequence[ArrayType]) -> bool:
    """Whether nothing is to be computed: some operand or all results have no elements."""
    return any(o.type.size == 0 for o in operands) or all(t.size == 0 for t in outs)


def constants(
    e: Emitter, primitive: Primitive, operands: Sequence[Operand], outs: Sequence[ArrayType], params: dict[str, Any]
) -> list[Operand]:
    """What a primitive gives for operands without elements, by its NumPy meaning."""
    found = apply(primitive, [np.zeros(o.shape, o.dtype) for o in operands], params)
    return [e.constant(x, t) for x, t in zip(found if primitive.multiple else [found], outs, strict=True)]


def unsupported(primitive: Primitive, where: str, remedy: str = "compute it on the CPU") -> Rule:
    """The rule that says that a target has no routine."""

    def rule(*args: Any, **params: Any) -> Any:
        raise UnsupportedError(f"{primitive.name} has no routine on {where}", remedy)

    return rule
