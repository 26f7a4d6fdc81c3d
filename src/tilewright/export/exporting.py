"""`export`: from a function and the types of its arguments to an `Exported`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..compiler import lazy_layers
from ..compiler.pass_manager import walk
from ..compiler.pipeline import LOWER, PIPELINE, Request, settings_of_platform
from ..core.api.transformations import vjp
from ..core.ir.passes import primitives_of, vocabulary
from ..core.ir.types import FLOAT0
from ..core.jit.jit import jit
from ..core.primitives.external.call_exported import call_exported_p
from ..core.primitives.external.ffi_call import ffi_call_p
from ..core.primitives.movement.shape import full
from ..core.sharding.mesh import AbstractMesh
from ..core.support import pytree
from ..core.support.compile_events import LOWER as LOWERED
from ..core.support.compile_events import recorded
from ..core.support.errors import ArgumentError, ExportError, UnsupportedError
from ..core.support.lazy_imports import is_loaded
from ..xla_backend.devices.client import default_device
from ..xla_backend.jaxlib import shim
from ..xla_backend.options.compile_options import Place, Settings, Unit
from ..xla_backend.pipeline.portable_module import Branch, check_symbols, is_symbolic, text_of, used
from .checks import DisabledSafetyCheck
from .exported import Exported
from .schema import CALLING


def default_export_platform() -> str:
    """The platform of the default device: `cpu`, `cuda`, `rocm` or `tpu`.

    >>> default_export_platform() in ("cpu", "cuda", "rocm", "tpu")
    True
    """
    return {"gpu": "cuda"}.get(default_device().platform, default_device().platform)


def _branch(request: Request, settings: Settings) -> tuple[Branch, Any]:
    """A function as the program of one platform; and how it was traced."""
    unit, traced = PIPELINE[0].run(request, settings, {})
    if _on_mesh(unit):
        if is_symbolic(unit.program):
            raise UnsupportedError(f"{unit.call.name} runs on a mesh, and has arguments of symbolic sizes",
                                   "export it for sizes that are known, or for one device")  # fmt: skip
        settings = replace(settings, device=None)  # the devices are those of the process that calls it
    if is_symbolic(unit.program):
        settings = replace(settings, tiled=False)
    return Branch(walk(LOWER[:-1], unit, settings).value, settings), traced


def _on_mesh(unit: Unit) -> bool:
    return unit.place is not None or (is_loaded(lazy_layers.mesh) and lazy_layers.partition.on_mesh(unit.program))


def _check_calls(unit: Unit, checks: Sequence[DisabledSafetyCheck]) -> None:
    """Refuse calls of functions that are registered in this process alone."""
    if ffi_call_p not in primitives_of(unit.program):
        return
    for program in (unit.program, *vocabulary(unit.program).programs):
        for eqn in program.eqns:
            target = eqn.params["call"].target if eqn.primitive is ffi_call_p else None
            if target is not None and DisabledSafetyCheck.custom_call(target) not in checks:
                raise ExportError(
                    f"{unit.call.name} calls {target!r}, which is registered in this process",
                    f"disabled_checks=[DisabledSafetyCheck.custom_call({target!r})], and register it where the export "
                    "is called")  # fmt: skip


def export(
    fun_jit: Callable[..., Any], *, platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:  # fmt: skip
    """What makes an `Exported` of a function of `jit`, for arguments given as arrays or by shape and dtype.

    Sizes may be symbolic: see `symbolic_shape`. `platforms` are `cpu`, `cuda`, `rocm` and `tpu`, by default that of
    this process; a target such as `tpu:v5e` or `cuda:sm_90` is its platform with the kernels as that device's own code,
    where the platform alone leaves them to XLA.

    Raises:
      ArgumentError: an unknown platform. ExportError: a function with callbacks, or one whose sizes are not determined
      by the arguments. InconclusiveDimensionError: a step that needs to know more of a size. UnsupportedError: an
      operation, or a program on a mesh, that is given symbolic sizes.

    >>> import tilewright as tw
    >>> from tilewright import export
    >>> (b,) = export.symbolic_shape("b")
    >>> e = export.export(tw.jit(lambda x: x.sum(0)))(tw.ShapeDtypeStruct((b, 3), "float32"))
    >>> print(e)
    <lambda>(f32[b,3]) -> (f32[3]) for cpu
    >>> e.call(tw.numpy.ones((5, 3))).tolist()
    [5.0, 5.0, 5.0]
    """
    if isinstance(platforms, str):
        raise ArgumentError(f"platforms is {platforms!r}", "pass a sequence of names")
    names = [default_export_platform()] if platforms is None else [*platforms]
    asked = dict(settings_of_platform(name) for name in names)
    if not asked or len(asked) != len(names):
        raise ArgumentError(f"platforms are {names}", "name one or more platforms, each once")
    function = fun_jit if hasattr(fun_jit, "__jit__") else jit(fun_jit)

    def exported(*args: Any, **kwargs: Any) -> Exported:
        return _exported(Request(function, args, kwargs), asked, tuple(disabled_checks))

    return exported


def _exported(request: Request, asked: dict[str, Settings], checks: tuple[DisabledSafetyCheck, ...]) -> Exported:
    branches, traced = [], None
    for settings in asked.values():
        branch, traced = _branch(request, settings)
        _check_calls(branch.unit, checks)
        branches.append(branch)
    assert traced is not None
    unit = branches[0].unit
    ins, outs = (tuple(t.plain for t in types) for types in (traced.arg_types, unit.out_types))
    place = unit.place or Place((None,) * len(unit.in_types), (None,) * len(outs))
    lie_in, lie_out = place.ins[len(unit.constants) :], place.outs
    check_symbols(ins, outs)
    scope = next((d.scope for t in ins for d in t.shape if type(d) is not int), None)
    kept = used(branches)
    made = Exported(
        fun_name=traced.fun_name, in_tree=traced.in_tree, in_avals=ins, out_tree=traced.out_tree, out_avals=outs,
        platforms=tuple(asked), mlir_module_serialized=b"", module_kept_var_idx=kept, disabled_safety_checks=checks,
        uses_global_constants=len(asked) > 1 or scope is not None or _calls_refined(unit.program),
        calling_convention_version=CALLING[1], scope=scope,
        nr_devices=place.count, in_shardings=(*map(_abstract, lie_in),), out_shardings=(*map(_abstract, lie_out),),
        make_vjp=lambda e: _vjp(e, request, traced, asked, (lie_in, lie_out)),
    )  # fmt: skip
    with recorded(LOWERED, made.fun_name):
        module = shim.portable(text_of(branches, kept, scope, made.names()))
    return replace(made, mlir_module_serialized=module)


def _calls_refined(program: Any) -> bool:
    """Whether an export is called whose sizes are to be worked out."""
    return any(
        eqn.params["exported"].uses_global_constants
        for inner in (program, *vocabulary(program).programs)
        for eqn in inner.eqns
        if eqn.primitive is call_exported_p
    )


def _abstract(sharding: Any) -> Any:
    """A sharding without devices, nor their kind, which files do not have."""
    mesh = sharding and sharding.mesh
    return sharding and sharding.update(mesh=AbstractMesh(mesh.axis_sizes, mesh.axis_names, mesh.axis_types))


def _vjp(e: Exported, request: Request, traced: Any, asked: dict[str, Settings], lie: Any) -> Exported:
    """The export of a function's derivative, of flat arguments."""
    count, tangents = len(e.in_avals), tuple(t.tangent() for t in e.in_avals)
    moving = [i for i, t in enumerate(tangents) if t.dtype != FLOAT0]

    def derivative(*leaves: Any) -> Any:
        def flat(*moved: Any) -> list[Any]:
            values = [*leaves[:count]]
            for i, x in zip(moving, moved, strict=True):
                values[i] = x
            args, kwargs = traced.whole(*e.in_tree.unflatten(values))
            return pytree.leaves(request.function(*args, **kwargs))

        _, pullback = vjp(flat, *(leaves[i] for i in moving))
        found = dict(zip(moving, pullback([*leaves[count:]]), strict=True))
        # Those of integers have no elements; on a device they are booleans.
        return [found[i] if i in found else full(t.shape, False) for i, t in enumerate(tangents)]

    derivative.__name__ = f"{e.fun_name}_vjp"
    types = (*e.in_avals, *(t.tangent() for t in e.out_avals))
    lies = {"in_shardings": (*lie[0], *lie[1]), "out_shardings": [*lie[0]]} if any((*lie[0], *lie[1])) else {}
    made = _exported(Request(jit(derivative, **lies), types, {}), asked, tuple(e.disabled_safety_checks))
    return replace(made, out_avals=tangents)
