"""StableHLO of host callbacks: one custom call each, which finds its Python function by number.

Ordered callbacks take and give the function's token, an i32 that nothing reads, so that each depends on the
one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....core.primitives.external.host_callback import checked_results, debug_callback_p, io_callback_p, pure_callback_p
from ....core.support.errors import UnsupportedError
from ..emit import Emitter, Operand

TARGETS = {
    "cpu": "xla_ffi_python_cpu_callback",
    "cuda": "xla_ffi_python_gpu_callback",
    "rocm": "xla_ffi_python_gpu_callback",
}


def _emit(
    e: Emitter,
    operands: Sequence[Operand],
    outs: Sequence[Any],
    callback: Callable[..., Any],
    effect: bool,
    ordered: bool,
) -> list[Operand]:
    types = tuple(outs)
    if e.platform not in TARGETS:
        raise UnsupportedError(f"host callbacks on platform {e.platform}", "call the function outside of the program")

    def host(*arrays: Any) -> tuple[Any, ...]:
        if ordered:
            return (arrays[0], *checked_results(callback, types, arrays[1:]))
        return checked_results(callback, types, arrays)

    operands = [*([e.token] if ordered else []), *operands]
    index = len(e.callbacks)
    e.callbacks.append(host)
    results_types = [*([e.token.type] if ordered else []), *outs]
    # XLA asks where what has effects, or gives nothing, is done.
    meshes = e.meshes if effect or not results_types else None
    where = meshes.first_device(len(results_types)) if meshes is not None and not e.within_mesh else ""

    def call(given: list[Operand]) -> list[Operand]:
        return e.ops(
            "stablehlo.custom_call",
            given,
            results_types,
            f'call_target_name = "{TARGETS[e.platform]}", api_version = 4 : i32, '
            f"backend_config = {{index = {index} : ui64}}, has_side_effect = {str(effect).lower()}",
            more=where,
        )

    free = meshes.free_axes() if meshes is not None and e.within_mesh else ()
    if meshes is not None and free:
        if outs:
            raise UnsupportedError(f"a callback with effects and results in a map that leaves {free} to the compiler",
                                   "map over all axes of the mesh, or use `pure_callback`")  # fmt: skip
        results = meshes.on_first(e, operands, results_types, call)
    else:
        results = call(operands)
    if ordered:
        e.token = results.pop(0)
    return results


def _pure(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, callback: Callable[..., Any], **_: Any
) -> list[Operand]:
    return _emit(e, operands, outs, callback, effect=False, ordered=False)


def _effectful(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, callback: Callable[..., Any], ordered: bool, **_: Any
) -> list[Operand]:
    return _emit(e, operands, outs, callback, effect=True, ordered=ordered)


RULES = {pure_callback_p: _pure, io_callback_p: _effectful, debug_callback_p: _effectful}
