"""What speaks to the world: printing and checking on the device, and what no kernel of a TPU can do."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import BOOL, ArrayType
from ...core.primitives.contraction.fft import fft_p
from ...core.primitives.control_flow.while_loop import while_lin_p
from ...core.primitives.custom.custom_derivative_primitives import custom_lin_p
from ...core.primitives.elementwise.conversion import complex_p, conj_p, imag_p, real_p
from ...core.primitives.external.host_callback import debug_callback_p, io_callback_p, pure_callback_p
from ...core.primitives.reduction.reduce import reduce_and_p
from ...core.primitives.spmd import collective
from ...lang.legalize.opset import FACTORED, WARPGROUPS
from ...lang.ops.debug import Check
from ..body import Body, Rule
from ..text import SSA
from ..values import Value
from .reduce import RULES as REDUCE
from .scalar_memory import word_of

HOST = "a TPU core cannot call Python on the host while a kernel runs"
_FACTORED = "it factors a matrix column by column; XLA does it, outside of the kernel"
_FOURIER = "it exchanges elements along full axes; XLA does it, outside of the kernel"
_MESH = "a kernel runs on one core, without a mesh of devices"
_COMPLEX = "a TPU's vector unit has no complex numbers"
UNSUPPORTED: dict[Primitive, str] = {
    **dict.fromkeys((pure_callback_p, io_callback_p), HOST),
    **dict.fromkeys(collective.PRIMITIVES, _MESH),
    **dict.fromkeys((real_p, imag_p, complex_p, conj_p), _COMPLEX),
    **dict.fromkeys(sorted(FACTORED, key=repr), _FACTORED),
    fft_p: _FOURIER,
    **dict.fromkeys(WARPGROUPS, "a TPU has no warpgroups"),
    while_lin_p: "a derivative that exists in reverse only is never computed forwards",
    custom_lin_p: "a derivative that exists in reverse only is never computed forwards",
}  # fmt: skip


def _debug_callback(b: Body, xs: list[Any], outs: Sequence[Any], *, callback: Any, **params: Any) -> list[Any]:
    function = getattr(callback, "function", callback)
    args, named = callback.in_tree.unflatten(xs) if hasattr(callback, "in_tree") else (xs, {})
    fmt = getattr(function, "format", None)
    if isinstance(fmt, str):
        _print(b, fmt, args, named)
    elif isinstance(function, Check):
        _check(b, function, args[0])
    else:
        raise b.backend.refusal(
            b.name, debug_callback_p, b.source, f"{HOST}, but for `debug_print` and `debug_check`"
        )
    return []


def _print(b: Body, fmt: str, args: Sequence[Value], named: dict[str, Value]) -> None:
    """One line of the device's log, every element in its place; format specifications are the host's."""
    numbers = iter(range(len(args)))
    text, words = "", []
    for literal, name, _, _ in string.Formatter().parse(fmt):
        text += literal.replace("{", "{{").replace("}", "}}")
        if name is None:
            continue
        value = named[name] if name in named else args[int(name) if name else next(numbers)]
        elements = [word_of(b, value, i) for i in range(value.type.size)] if value.shape else [b.scalar(value)]
        words += [_as_number(b, e) for e in elements]
        text += _brackets(value.shape)
    b.w.ops("tpu.log", words, [], f"tag = {quoted(text)}, formatted = {'true' if words else 'false'}")


def _as_number(b: Body, x: SSA) -> SSA:
    return b.w.op("arith.extui", [x], None, "i32") if x.element == "i1" else x


def _brackets(shape: Sequence[int]) -> str:
    if not shape:
        return "{}"
    return f"[{' '.join(_brackets(shape[1:]) for _ in range(shape[0]))}]"


def quoted(text: str) -> str:
    """A string as an MLIR attribute."""
    plain = "".join(c if c.isprintable() and c.isascii() and c not in '"\\' else f"\\{ord(c) & 0xFF:02X}" for c in text)
    return f'"{plain}"'


def _check(b: Body, check: Check, condition: Value) -> None:
    """Stop the core where a condition does not hold."""
    if condition.shape:
        axes = tuple(range(len(condition.shape)))
        condition = REDUCE[reduce_and_p](b, [condition], ArrayType((), BOOL), axes=axes)
    b.w.ops("cf.assert", [b.scalar(condition)], [], f"msg = {quoted(f'kernel {check.kernel}: {check.text}')}")


RULES: dict[Primitive, Rule] = {debug_callback_p: _debug_callback}
