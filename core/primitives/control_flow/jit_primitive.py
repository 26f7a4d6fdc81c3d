"""The `jit` primitive: a Program called as one unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...ir.passes import eliminate_dead
from ...ir.primitive import AxisInfo, Linear, Zero
from ...ir.program import Eqn, Program
from ...transforms.batching import batch_program
from ...transforms.cotangent_logs import log
from ...transforms.jvp import jvp_program
from ...transforms.linearize import linearized
from ...transforms.transpose import transpose_telling
from . import program_primitive

if TYPE_CHECKING:
    from ...ir.primitive import Primitive


@dataclass(frozen=True)
class Composite:
    """What a call of a composite is for compilers: an operation of their own, with attributes; `key` compares these."""

    name: str
    version: int
    attributes: Mapping[str, Any] = field(compare=False)
    key: Any = field(repr=False)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.attributes.items())
        return f"{self.name}.v{self.version}({given})"


def _rest(params: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    # A transformed call reads its operands again later (or never), so it donates none, and is no composite.
    return {k: v for k, v in params.items() if k != "composite"} | {"donated": (), "name": prefix + params["name"]}


def _of_derivative(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a call that has notes for XLA (`core/jit/xla_metadata.py`), with those for derivatives."""
    of_derivative = params.get("ad_metadata")
    return params if of_derivative is None else params | {"metadata": of_derivative, "ad_metadata": None}


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, **params: Any) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    derived, present = jvp_program(program, nonzero)
    given = [t for t in tangents if type(t) is not Zero]
    outs = jit_p.bind(*primals, *given, program=derived, **_rest(params, "jvp_"))
    n = len(program.outputs)
    rest = iter(outs[n:])
    return outs[:n], [
        next(rest) if p else Zero(a.type.tangent()) for a, p in zip(program.outputs, present, strict=True)
    ]


def _linearize(primals: Sequence[Any], nonzero: tuple[bool, ...], *, program: Program, **params: Any) -> Any:
    parts = linearized(program, nonzero)
    results = jit_p.bind(*primals, program=parts.primal, **_rest(params))
    outs, residuals = parts.gather(primals, results)

    def linear(*tangents: Any) -> list[Any]:
        given = [t for t in tangents if type(t) is not Zero]
        found = iter(jit_p.bind(*residuals, *given, program=parts.linear, **_of_derivative(_rest(params, "linear_"))))
        types = (a.type.tangent() for a in program.outputs)
        return [next(found) if p else Zero(t) for p, t in zip(parts.out_nonzero, types, strict=True)]

    return outs, linear


def _transpose(cts: Sequence[Any], *args: Any, program: Program, **params: Any) -> list[Any]:
    linear = tuple(isinstance(a, Linear) for a in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    transposed, told = transpose_telling(program, linear, nonzero)
    operands = [*(a for a, li in zip(args, linear, strict=True) if not li), *(ct for ct in cts if type(ct) is not Zero)]
    found = iter(jit_p.bind(*operands, program=transposed, **_rest(params, "transpose_")))
    results = [next(found) if li else None for li in linear]
    if told is not None:
        log(told.unflatten(found))
    return results


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, program: Program, **params: Any) -> Any:
    batched, out_dims = batch_program(program, axis, tuple(dims))
    return jit_p.bind(*args, program=batched, **_rest(params, "vmap_")), out_dims


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn | None:
    if "composite" in eqn.params:
        return eqn
    program, live = eliminate_dead(eqn.params["program"], used, keep_inputs=False)
    inputs = [a for a, u in zip(eqn.inputs, live, strict=True) if u]
    outputs = [v for v, u in zip(eqn.outputs, used, strict=True) if u]
    return eqn.replace(inputs=tuple(inputs), outputs=tuple(outputs), effects=program.effects,
                       params=eqn.params | {"program": program, "donated": ()})  # fmt: skip


def _recounted(params: dict[str, Any], widths: Sequence[int]) -> dict[str, Any]:
    donated = zip(params["donated"], widths, strict=False)  # empty where nothing is
    return params | {"donated": tuple(flag for flag, width in donated for _ in range(width))}


jit_p: Primitive = program_primitive.holder(
    "jit", jvp=_jvp, linearize=_linearize, transpose=_transpose, batch=_batch, dce=_dce, recounted=_recounted,
)  # fmt: skip
PRIMITIVES = (jit_p,)
