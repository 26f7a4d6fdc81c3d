"""What follows a product, element by element, as C++: the function that CUTLASS's epilogue calls.

Each value of a body becomes one float or one truth of the thread that has the element. Floats of less than 32 bits are
computed in float32 and rounded after each operation, as everywhere else. What a value varies along is followed, so that
a vector is only taken for one along the axis that it lies on:

    Value ::= name, dtype, axes        an axis is that of the rows, that of the columns, or none
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.ir.primitive import Primitive
from ..core.ir.program import Eqn, Literal, Var
from ..core.ir.types import is_bool, is_float
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.control_flow.cond import cond_p
from ..core.primitives.custom.checkpoint import name_p
from ..core.primitives.elementwise import arithmetic as ew
from ..core.primitives.elementwise import bitwise
from ..core.primitives.elementwise import comparison as cmp
from ..core.primitives.elementwise import conversion as conv
from ..core.primitives.elementwise.arithmetic import RoundingMethod
from ..core.primitives.movement.shape import broadcast_in_dim_p, copy_p, reshape_p, squeeze_p, transpose_p
from ..core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p
from ..core.primitives.special.functions import erf_p, erfc_p
from ..lang import cutlass
from ..lang.gpu.normalize import PASSES
from ..lang.kernel.kernel import Kernel
from ..lang.legalize import Backend, KernelPasses, Unfit
from ..lang.targets.compiler_params import stated
from ..lang.targets.target import Target
from ..lang.tpu import approx_reciprocal_p

ROWS, COLUMNS = "rows", "columns"
Axes = tuple[str | None, ...]
# The C++ types of the dtypes that CUTLASS reads and writes here.
TYPES = {
    "float32": "float", "float16": "cutlass::half_t", "bfloat16": "cutlass::bfloat16_t",
    "float8_e4m3fn": "cutlass::float_e4m3_t", "float8_e5m2": "cutlass::float_e5m2_t",
    "int8": "int8_t", "uint8": "uint8_t",
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """See the module; the text is an expression without effects."""

    text: str
    dtype: np.dtype
    axes: Axes


_UNARY = {
    ew.neg_p: "-{0}", ew.abs_p: "fabsf({0})", ew.square_p: "{0} * {0}", ew.floor_p: "floorf({0})",
    ew.ceil_p: "ceilf({0})", ew.sqrt_p: "sqrtf({0})", ew.rsqrt_p: "rsqrtf({0})", ew.cbrt_p: "cbrtf({0})",
    ew.exp_p: "expf({0})", ew.exp2_p: "exp2f({0})", ew.expm1_p: "expm1f({0})", ew.log_p: "logf({0})",
    ew.log1p_p: "log1pf({0})", ew.logistic_p: "1.0f / (1.0f + expf(-{0}))", ew.tanh_p: "tanhf({0})",
    ew.sin_p: "sinf({0})", ew.cos_p: "cosf({0})", ew.tan_p: "tanf({0})", ew.asin_p: "asinf({0})",
    ew.acos_p: "acosf({0})", ew.atan_p: "atanf({0})", ew.sinh_p: "sinhf({0})", ew.cosh_p: "coshf({0})",
    ew.asinh_p: "asinhf({0})", ew.acosh_p: "acoshf({0})", ew.atanh_p: "atanhf({0})", erf_p: "erff({0})",
    erfc_p: "erfcf({0})", ew.sign_p: "tilewright::sign({0})", approx_reciprocal_p: "1.0f / {0}",
    cmp.is_finite_p: "isfinite({0})",
}  # fmt: skip
_BINARY = {
    ew.add_p: "{0} + {1}", ew.add_any_p: "{0} + {1}", ew.sub_p: "{0} - {1}", ew.mul_p: "{0} * {1}",
    ew.div_p: "{0} / {1}", ew.max_p: "tilewright::larger({0}, {1})", ew.min_p: "tilewright::smaller({0}, {1})",
    ew.pow_p: "powf({0}, {1})", ew.atan2_p: "atan2f({0}, {1})",
    cmp.eq_p: "{0} == {1}", cmp.ne_p: "{0} != {1}", cmp.lt_p: "{0} < {1}", cmp.le_p: "{0} <= {1}",
    cmp.gt_p: "{0} > {1}", cmp.ge_p: "{0} >= {1}",
}  # fmt: skip
_TRUTHS = {bitwise.not_p: "!{0}", bitwise.and_p: "{0} && {1}", bitwise.or_p: "{0} || {1}", bitwise.xor_p: "{0} != {1}"}
_SAME = frozenset((conv.stop_gradient_p, copy_p, name_p))
_RESHAPED = frozenset((reshape_p, squeeze_p))
_OTHERS = frozenset((
    ew.round_p, cmp.select_n_p, cmp.clamp_p, conv.convert_element_type_p, broadcast_in_dim_p,
    get_p, swap_p, addupdate_p, dot_general_p, cond_p, transpose_p,
))  # fmt: skip
RULES: dict[Primitive, Any] = {**_UNARY, **_BINARY, **_TRUTHS, **dict.fromkeys(_SAME | _RESHAPED | _OTHERS, "")}


def _passes(kernel: Kernel, target: Target) -> tuple[KernelPasses, ...]:
    """Those of all GPUs; C++ that an author gives is left as it is."""
    return ((),) if isinstance(stated(kernel), cutlass.Source) else (PASSES,)


BACKEND = Backend("a CUTLASS epilogue", RULES, {}, {}, _passes, exact=False)


class Printer:
    """The function of one element, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def named(self, text: str, dtype: np.dtype, axes: Axes) -> Value:
        """A value that is computed once."""
        name = f"v{len(self.lines)}"
        if is_bool(dtype):
            self.lines.append(f"bool {name} = {text};")
        elif is_float(dtype) and str(dtype) in TYPES:
            rounded = text if str(dtype) == "float32" else f"tilewright::rounded<{TYPES[str(dtype)]}>({text})"
            self.lines.append(f"float {name} = {rounded};")
        else:
            raise Unfit(f"its epilogue computes in {dtype}: convert to float32, or a shorter float")
        return Value(name, dtype, axes)

    def literal(self, atom: Literal) -> Value:
        number, dtype = atom.value, atom.type.dtype
        if is_bool(dtype):
            return Value("true" if number else "false", dtype, ())
        if np.isnan(number):
            return Value("tilewright::nan()", dtype, ())
        if np.isinf(number):
            return Value("tilewright::infinity()" if number > 0 else "(-tilewright::infinity())", dtype, ())
        text = f"{float(number)!r}f"
        return Value(f"({text})" if number < 0 or np.signbit(number) else text, dtype, ())

    def equation(self, eqn: Eqn, operands: Sequence[Value]) -> Value:
        """The value of an elementwise equation.

        Raises:
          Unfit: why it has no place in an epilogue.
        """
        primitive, out = eqn.primitive, eqn.outputs[0].type
        if primitive is broadcast_in_dim_p:
            return _broadcast(operands[0], eqn)
        if primitive in _RESHAPED:
            return _reshaped(operands[0], eqn)
        axes = _joined(operands, len(out.shape), primitive)
        if primitive in _SAME:
            return operands[0]
        texts = [x.text for x in operands]
        if primitive in _SPECIAL:
            return self.named(_SPECIAL[primitive](operands, **eqn.params), out.dtype, axes)
        truths = is_bool(operands[0].dtype)
        pattern = (_TRUTHS if truths else _UNARY | _BINARY).get(primitive)
        if truths and primitive in (cmp.eq_p, cmp.ne_p):
            pattern = _BINARY[primitive]
        if pattern is None or not (truths or is_float(operands[0].dtype)):
            raise Unfit(f"{primitive} of {operands[0].dtype} in its epilogue, which computes with floats: convert "
                        "before", eqn.source)  # fmt: skip
        return self.named(pattern.format(*texts), out.dtype, axes)


def _joined(operands: Sequence[Value], rank: int, primitive: Primitive) -> Axes:
    found: list[str | None] = [None] * rank
    for x in operands:
        for d, axis in enumerate(x.axes):
            if axis is not None and found[d] not in (None, axis):
                raise Unfit(f"{primitive} in its epilogue takes one operand along rows, another along columns: "
                            "broadcast each along its own axis (`x[:, None]`)")  # fmt: skip
            found[d] = found[d] or axis
    return tuple(found)


def _broadcast(x: Value, eqn: Eqn) -> Value:
    axes: list[str | None] = [None] * len(eqn.params["shape"])
    for axis, d in zip(x.axes, eqn.params["broadcast_dimensions"], strict=False):
        axes[d] = axis
    return Value(x.text, x.dtype, tuple(axes))


def _reshaped(x: Value, eqn: Eqn) -> Value:
    """Axes of one element come or go."""
    old, new = (a.type.shape for a in (eqn.inputs[0], eqn.outputs[0]))
    kept = [axis for axis, n in zip(x.axes or (None,) * len(old), old, strict=True) if n != 1]
    if [n for n in old if n != 1] != [n for n in new if n != 1]:
        raise Unfit(f"a reshape of {old} to {new} in its epilogue: add or drop axes of 1 alone", eqn.source)
    rest = iter(kept)
    return Value(x.text, x.dtype, tuple(None if n == 1 else next(rest) for n in new))


def _round(operands: Sequence[Value], rounding_method: Any) -> str:
    even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return f"{'rintf' if even else 'roundf'}({operands[0].text})"


def _select(operands: Sequence[Value]) -> str:
    if len(operands) != 3 or not is_bool(operands[0].dtype):
        raise Unfit("its epilogue selects among more than two values: choose by `where` within `where`")
    which, no, yes = (x.text for x in operands)
    return f"{which} ? {yes} : {no}"


def _clamp(operands: Sequence[Value]) -> str:
    low, x, high = (v.text for v in operands)
    return f"tilewright::smaller(tilewright::larger({low}, {x}), {high})"


def _converted(operands: Sequence[Value], new_dtype: np.dtype[Any], weak_type: bool) -> str:
    (x,) = operands
    if is_bool(np.dtype(new_dtype)):
        return f"{x.text} != 0.0f"
    return f"{x.text} ? 1.0f : 0.0f" if is_bool(x.dtype) else x.text


_SPECIAL: Mapping[Primitive, Callable[..., str]] = {
    ew.round_p: _round, cmp.select_n_p: _select, cmp.clamp_p: _clamp, conv.convert_element_type_p: _converted,
}  # fmt: skip


def value_of(p: Printer, atom: Any, known: Mapping[Var, Value]) -> Value:
    """The value of an atom.

    Raises:
      Unfit: it is none of an element, such as the id of a cell.
    """
    if type(atom) is Literal:
        return p.literal(atom)
    if atom not in known:
        raise Unfit("its epilogue computes with the place of its block (`program_id`), and CUTLASS has tiles of its "
                    "own: give what depends on it as an operand")  # fmt: skip
    return known[atom]
