"""Lowering rules that clients write in MLIR: what such a rule calls, and the module that it writes.

A rule is called within a function of a module of its own, with a value for each operand. The module goes into programs
as an exported function does (`call_exported`), so that every platform that XLA compiles for has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo

from ..core.ir.array import DTypeLike
from ..core.ir.program import Program
from ..core.ir.types import ArrayType, as_dtype, canonical_dtype
from ..core.primitives.external.host_callback import io_callback_p, pure_callback_p
from ..core.support.errors import UnsupportedError
from ..core.support.runtime import runtime
from ..core.tracing.trace import trace_program, typed, typeof
from ..xla_backend.arrays.transfer import physical
from ..xla_backend.jaxlib import shim
from ..xla_backend.stablehlo.emit import dense, tensor

# ---------------------------------------------------------------------------- types, attributes, constants


def aval_to_ir_type(*given: Any) -> ir.Type:
    """The MLIR type of arrays of a type, the last argument; what comes before it (a context) is not needed."""
    return ir.Type.parse(tensor(physical(given[-1])))


def aval_to_ir_types(*given: Any) -> tuple[ir.Type, ...]:
    """The MLIR types of arrays of a type: one."""
    return (aval_to_ir_type(*given),)


def dtype_to_ir_type(dtype: DTypeLike) -> ir.Type:
    """The MLIR type of the elements of arrays of a dtype."""
    return ir.RankedTensorType(aval_to_ir_type(ArrayType((), as_dtype(dtype)))).element_type


def ir_constant(value: Any, **_: Any) -> ir.Value:
    """A constant of the function that is written."""
    type = ArrayType(np.shape(value), canonical_dtype(getattr(value, "dtype", typeof(value).dtype)))
    text = f"dense<{dense(np.asarray(value), type.dtype)}> : {tensor(type)}"
    return stablehlo.ConstantOp(ir.Attribute.parse(text)).result


def dense_int_elements(values: Iterable[int]) -> ir.DenseIntElementsAttr:
    """Integers as an attribute of 64-bit elements."""
    return ir.DenseIntElementsAttr.get(np.asarray(values, np.int64))


def dense_int_array(values: Iterable[int]) -> ir.DenseI64ArrayAttr:
    """Integers as an array attribute."""
    return ir.DenseI64ArrayAttr.get(list(values))


def i32_attr(value: int) -> ir.IntegerAttr:
    """An integer attribute of 32 bits."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)


def i64_attr(value: int) -> ir.IntegerAttr:
    """An integer attribute of 64 bits."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def flatten_ir_values(values: Iterable[Any]) -> list[ir.Value]:
    """MLIR values, operations with results, and sequences of these, as one list of values."""
    return list(_values(values))


def _values(found: Any) -> Iterator[ir.Value]:
    if isinstance(found, ir.Value):
        yield found
    else:
        for x in found.results if hasattr(found, "results") else found:
            yield from _values(x)


def _layout(axes: Sequence[int]) -> ir.Attribute:
    return ir.DenseIntElementsAttr.get(np.asarray(axes, np.int64), type=ir.IndexType.get(), shape=[len(axes)])


def custom_call(
    call_target_name: str, *, result_types: Sequence[ir.Type], operands: Sequence[ir.Value],
    backend_config: str | bytes | Mapping[str, ir.Attribute] = "", has_side_effect: bool = False,
    result_shapes: Sequence[ir.Value] | None = None, called_computations: Sequence[str] = (), api_version: int = 2,
    operand_output_aliases: Mapping[int, int] | None = None, operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None, result_tilings: Any = None,
    extra_attributes: Mapping[str, ir.Attribute] | None = None,
) -> stablehlo.CustomCallOp:  # fmt: skip
    """A call of a function that was registered with XLA (`ffi.register_ffi_target`)."""
    if result_shapes is not None or result_tilings is not None:
        raise UnsupportedError("mlir.custom_call: result_shapes and result_tilings", "leave them None")
    if isinstance(backend_config, Mapping):
        config: Any = ir.DictAttr.get(dict(backend_config)) if api_version == 4 else ir.StringAttr.get("")
    else:
        config = ir.StringAttr.get(backend_config)
    aliases = [stablehlo.OutputOperandAlias.get([] if len(result_types) == 1 else [o], i, [])
               for i, o in (operand_output_aliases or {}).items()]  # fmt: skip
    layouts = {} if operand_layouts is None else {"operand_layouts": ir.ArrayAttr.get([*map(_layout, operand_layouts)])}
    if result_layouts is not None:
        layouts["result_layouts"] = ir.ArrayAttr.get([*map(_layout, result_layouts)])
    call = stablehlo.CustomCallOp(
        list(result_types), list(operands), call_target_name=ir.StringAttr.get(call_target_name),
        has_side_effect=ir.BoolAttr.get(has_side_effect), backend_config=config, api_version=i32_attr(api_version),
        called_computations=ir.ArrayAttr.get([*map(ir.FlatSymbolRefAttr.get, called_computations)]),
        output_operand_aliases=ir.ArrayAttr.get(aliases), **layouts,
    )  # fmt: skip
    more = dict(extra_attributes or {})
    if isinstance(backend_config, Mapping) and api_version != 4:
        more["mhlo.backend_config"] = ir.DictAttr.get(dict(backend_config))
    for name, value in more.items():
        call.operation.attributes[name] = value
    return call


# ---------------------------------------------------------------------------- writing a module


@dataclasses.dataclass
class ModuleContext:
    """The module that a rule writes into."""

    context: ir.Context
    module: ir.Module
    platforms: tuple[str, ...]
    functions: int = 0  # how many were added to it
    callbacks: list[Any] = dataclasses.field(default_factory=list)  # Python functions that it calls, by number
    keepalives: list[Any] = dataclasses.field(default_factory=list)

    def add_keepalive(self, value: Any) -> None:
        """Keep something as long as the module."""
        self.keepalives.append(value)


@dataclasses.dataclass
class LoweringRuleContext:
    """What a rule is told: its primitive, the types of operands and results, and the module."""

    module_context: ModuleContext
    primitive: Any
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    tokens_in: Any = None
    name_stack: str = ""

    @property
    def platforms(self) -> tuple[str, ...]:
        return self.module_context.platforms

    def replace(self, **changes: Any) -> LoweringRuleContext:
        """The context with parts of it changed."""
        return dataclasses.replace(self, **changes)


class Written:
    """A module that a rule has written, as `call_exported` takes it."""

    platforms: tuple[str, ...] = ("cpu",)
    uses_global_constants: bool = False

    fun_name: Any
    in_avals: tuple[Any, ...]
    out_avals: Sequence[Any]
    callbacks: list[Any]
    keepalives: list[Any]

    def __init__(self, about: LoweringRuleContext):
        self.fun_name, self.in_avals, self.out_avals = about.primitive.name, tuple(about.avals_in), about.avals_out
        self.module_kept_var_idx: tuple[int, ...] = tuple(range(len(self.in_avals)))
        context = about.module_context
        self.mlir_module_serialized: bytes = shim.portable(str(context.module))
        self.callbacks, self.keepalives = context.callbacks, context.keepalives

    def typing(self, types: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.out_avals)

    def branch(self, platform: str) -> int:
        return 0


def written(primitive: Any, rule: Callable[..., Any], types: Sequence[Any], params: Any, platform: str) -> Written:
    """What a rule writes for operands of some types.

    Raises:
      UnsupportedError: it is no valid StableHLO, or gives another number of values than the primitive has results.
    """
    found = typed(primitive, types, params)
    outs = list(found) if primitive.multiple else [found]
    with shim.new_context() as context, ir.Location.unknown(context):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([aval_to_ir_type(t) for t in types], [aval_to_ir_type(t) for t in outs]))
        main.attributes["sym_visibility"] = ir.StringAttr.get("public")
        with ir.InsertionPoint(main.add_entry_block()):
            about = LoweringRuleContext(ModuleContext(context, module, (platform,)), primitive, types, outs)
            values = flatten_ir_values([rule(about, *main.arguments, **params)])
            func.ReturnOp(values)
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            what = f"the lowering of {primitive.name}, written in MLIR, gives no valid module: {error}"
            raise UnsupportedError(what, "give values of the types `ctx.avals_out`") from None
        return Written(about)


def call_function(about: LoweringRuleContext, fun: Callable[..., Any], values: Sequence[ir.Value],
                  params: Mapping[str, Any]) -> list[ir.Value]:  # fmt: skip
    """Within a rule: the results of a function of arrays."""
    def flat(*args: Any) -> Sequence[Any]:
        out = fun(*args, **params)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    program = trace_program(flat, [t.plain for t in about.avals_in], getattr(fun, "__name__", "function"))
    return call_program(about, program, values)


def call_program(about: LoweringRuleContext, program: Program, values: Sequence[ir.Value]) -> list[ir.Value]:
    """Within a rule: the results of a Program, whose functions are added to the module."""
    context = about.module_context
    module = runtime.backend.lower(program, program.name, keep_unused=True, tiled=False)
    prefix = f"part_{context.functions}_"
    context.functions += 1
    for text in shim.functions(shim.portable(module.text), prefix, len(context.callbacks))[0]:
        context.module.body.append(ir.Operation.parse(text))
    context.callbacks += module.callbacks
    types = [aval_to_ir_type(t) for t in program.out_types]
    return list(func.CallOp(types, ir.FlatSymbolRefAttr.get(f"{prefix}main"), list(values)).results)


def emit_python_callback(
    ctx: LoweringRuleContext, callback: Callable[..., Any], token: Any, operands: Sequence[ir.Value],
    operand_avals: Sequence[Any], result_avals: Sequence[Any], *, has_side_effect: bool, returns_token: bool = True,
    partitioned: bool = False, sharding: Any = None,
) -> tuple[list[ir.Value], None, Any]:  # fmt: skip
    """Within a rule: the results of a Python function of NumPy arrays, no token, and what has to be kept.

    Raises:
      UnsupportedError: for a token, or a sharding.
    """
    if token is not None or partitioned or sharding is not None:
        raise UnsupportedError("mlir.emit_python_callback: a token, or a sharding", "leave them None")
    types = tuple(t.plain for t in result_avals)
    how = {"ordered": False} if has_side_effect else {"vmap_method": None}
    primitive = io_callback_p if has_side_effect else pure_callback_p

    def called(*args: Any) -> Any:
        return primitive.bind(*args, callback=callback, result_types=types, **how)

    program = trace_program(called, [t.plain for t in operand_avals], "callback")
    return call_program(ctx, program, operands), None, callback
