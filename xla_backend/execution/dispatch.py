"""Running executables, and the evaluator of single primitives.

A *runner* takes the buffers of the arguments, one positional argument each, and gives Arrays.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.program import NO_EFFECTS, Eqn, Program, Var, subprograms
from ...core.ir.types import is_inexact
from ...core.jit.dispatch_cache import RUNS, placement
from ...core.jit.jit import keys_used
from ...core.random.key_lowering import holds_keys
from ...core.support import forks
from ...core.support.config import _local, current
from ...core.support.errors import ArgumentError, DeletedArrayError, NonFiniteError
from ...core.support.pytree import leaves
from ...core.support.runtime import runtime
from ...core.support.transfer_guard import DEVICE_TO_DEVICE, HOST_TO_DEVICE, guard
from ...core.tracing.trace import line_here, typed, typeof
from ..arrays import fast_path_codegen as code
from ..arrays.array import Array, execution_error
from ..arrays.transfer import as_numpy, buffers, handler, host_buffer, moved_to
from ..devices.client import all_devices, device_of
from ..host import malloc_tuning as memory
from ..jaxlib import shim
from .executable import Executable, compile_module, in_callback

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive

Runner = Callable[..., Any]

# ---------------------------------------------------------------------------- runners


def _failed(executable: Executable, error: Exception | None, given: Sequence[Any]) -> Exception:
    """The error to raise for a fault while executing; None for arguments that are found deleted, or twice, before."""
    module = executable.module
    for number, buffer in enumerate(given):
        if buffer.is_deleted():
            type = module.in_types[len(module.constants) + number]
            return DeletedArrayError(
                f"argument {number} of {module.name}, of type {type.show()}, was used after its buffer was donated "
                "or deleted",
                "use the result of the function that it was donated to, or leave it out of `donate_argnums`",
            )
    if error is None or "donate" in str(error) and len({id(b) for b in given}) < len(given):
        return DeletedArrayError(f"{module.name} was given the same array twice, once to be donated", "pass a copy")
    return execution_error(error)


def make_runner(executable: Executable, result: str = "list", unflatten: Callable[..., Any] | None = None) -> Runner:
    """A function from the arguments' buffers to Arrays.

    `result`: "one" for a single Array, "tuple" or "list" of Arrays, or "tree", built by `unflatten`.
    """
    place = executable.module.place
    if place is not None:
        failed = functools.partial(_failed, executable)
        run = place.runner(executable, result, unflatten, _execution(executable), failed)
    else:
        run = _runner(executable, result, unflatten, executable.pinned)
        if len(all_devices()) > 1:
            run = _following(executable, run, result, unflatten)
    settings = current()
    if settings.debug_nans or settings.debug_infs:
        return _checked(run, executable.module.name, settings.debug_nans, settings.debug_infs)
    return run


def _runner(executable: Executable, result: str, unflatten: Callable[..., Any] | None, committed: bool) -> Runner:
    module, device = executable.module, executable.device
    of_constants = module.in_types[: len(module.constants)]
    constants = buffers(module.constants, of_constants)
    if len(all_devices()) > 1:
        constants = [moved_to(b, t, device) for b, t in zip(constants, of_constants, strict=True)]
    arity = len(module.in_types) - len(constants)
    handlers = [handler(module.out_types[i], device, committed) for i in module.computed]
    execute = _execution(executable)
    names: dict[str, Any] = {
        "execute": execute, "handlers": handlers, "Array": Array, "new": object.__new__, "Fault": shim.RuntimeFault,
        "failed": functools.partial(_failed, executable), "unflatten": unflatten, "copy": shim.copy,
    }  # fmt: skip
    need = executable.host_bytes()
    if need >= memory.LARGE:
        names |= {"about_to_use": memory.about_to_use, "need": need}
    names |= {f"c{i}": buffer for i, buffer in enumerate(constants)}
    names |= {f"t{i}": type for i, type in enumerate(module.out_types)}
    forwarded, donated = tuple(module.forwarded.items()), tuple(sorted(module.donated))
    exec(
        code.runner(arity, len(constants), module.kept, forwarded, len(module.out_types), result, need >= memory.LARGE,
                    donated, module.has_effects),
        names,
    )  # fmt: skip
    return forks.guard(names["run"])


def _execution(executable: Executable) -> Callable[[Sequence[Any]], Any]:
    return _with_effects(executable) if executable.module.has_effects else executable.loaded.execute_sharded


def _following(executable: Executable, run: Runner, result: str, unflatten: Callable[..., Any] | None) -> Runner:
    """A runner that computes where its committed arguments are; the others follow."""
    module, home, pinned = executable.module, executable.device, executable.pinned
    types = module.in_types[len(module.constants) :]
    runners = {(home, pinned): run}

    def follow(*given: Any) -> Any:
        places = {home} if pinned else {device_of(b) for b in given if b._committed}
        if len(places) > 1:
            raise ArgumentError(
                f"the arguments of {module.name} are on several devices: {', '.join(sorted(map(str, places)))}",
                "move them to one device with `device_put`",
            )
        committed, device = bool(places), places.pop() if places else home
        if current().guards and any(device_of(b) is not device for b in given):
            what = f"an argument of {module.name} is on another device than {device}, where it runs"
            guard(DEVICE_TO_DEVICE, what, "`device_put` it there before the call")
        if (device, committed) not in runners:
            where = executable if device is home else compile_module(module, device)
            runners[device, committed] = _runner(where, result, unflatten, committed)
        moved = [moved_to(b, t, device, committed) for b, t in zip(given, types, strict=True)]
        return runners[device, committed](*moved)

    return follow


def _checked(run: Runner, name: str, nans: bool, infs: bool) -> Runner:
    """A runner that waits for its results and raises if they are not finite."""
    def checked(*given: Any) -> Any:
        out = run(*given)
        for x in leaves(out):
            check_finite(x, name, nans, infs)
        return out

    return checked


def check_finite(x: Array, name: str, nans: bool, infs: bool) -> None:
    """Raise if an array, or what this process holds of it, has a NaN (`nans`) or an infinity (`infs`)."""
    if not is_inexact(x.aval.dtype):
        return
    if not (x.is_fully_addressable or x.is_fully_replicated):
        for shard in x.addressable_shards:
            check_finite(shard.data, name, nans, infs)
        return
    values = as_numpy(x._buffer, x.aval) if x._kind is x.aval else x._numpy(True)
    found = "NaN" if nans and np.isnan(values).any() else "infinity" if infs and np.isinf(values).any() else ""
    if found:
        raise NonFiniteError(f"{name} gave {found}, in a result of type {x.aval.show()}",
                             "check its arguments; `debug_nans` and `debug_infs` turn this check on")  # fmt: skip


# ---------------------------------------------------------------------------- effects

PENDING_KEPT = 128
# Tokens of executions with effects that may still run.
_pending: list[Any] = runtime.part("dispatch.pending", [])


def _with_effects(executable: Executable) -> Callable[[Sequence[Any]], Any]:
    """Execute so that effects can be waited for, and that ordered ones wait for those before them."""
    execute = executable.loaded.execute_sharded
    ordered = executable.module.ordered

    def run(operands: Sequence[Any]) -> Any:
        # A callback that runs programs with effects itself cannot wait for the program that called it.
        if (ordered or len(_pending) >= PENDING_KEPT) and not in_callback():
            _drain()
        results = execute(operands, with_tokens=True)
        _pending.append(results.consume_token())
        return results

    return run


def _drain() -> None:
    while _pending:
        forks.check()
        try:
            token = _pending.pop(0)
        except IndexError:  # another thread took the last
            return
        token.block_until_ready()


def _finish() -> None:
    with contextlib.suppress(shim.RuntimeFault):
        _drain()


forks.at_exit(_finish)


def effects_barrier() -> None:
    """Wait until every effect of the programs started so far has happened."""
    try:
        _drain()
    except shim.RuntimeFault as error:
        raise execution_error(error) from None


# ---------------------------------------------------------------------------- one primitive at a time


def evaluate(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive to concrete values: compile a Program of this one equation, once, and run it."""
    config = _local.get() or runtime.config
    if not params and len(args) == 1 and type(args[0]) is Array:
        run = RUNS.get((primitive, config, args[0]._kind))
        if run is not None:
            return run(args[0]._buffer)
    kinds, given = [], []
    for x in args:
        if type(x) is Array:
            kinds.append(x._kind)
            given.append(x._buffer)
        else:
            t: Any = typeof(x)
            if config.guards and isinstance(x, np.ndarray):
                what = f"an operand of {primitive.name} is a NumPy array of shape {x.shape}"
                guard(HOST_TO_DEVICE, what, "`device_put` it before")
            kinds.append(t)
            given.append(host_buffer(x, t))
    if params:
        key = (primitive, config, *kinds, tuple(params.items()), tuple(map(type, params.values())))
    else:
        key = (primitive, config, *kinds)
    watched = config.debug_key_reuse and any(holds_keys(typeof(x)) for x in args)
    if watched:
        key = (*key, keys_used)  # which the way above does not find
    run = RUNS.get(key)
    if run is None:
        lying = placement(kinds)
        if primitive.eager and lying is not None:
            return primitive.numpy(*args, **params)
        run = RUNS.keep(key, _compiled(primitive, [typeof(x) for x in args], params, lying))
    out = run(*given)
    if watched:
        program = single(primitive, [typeof(x) for x in args], params)
        keys_used(program, args, out if primitive.multiple else [out], primitive.name)
    return out


def _compiled(
    primitive: Any, types: Sequence[Any], params: dict[str, Any], lying: tuple[Any, ...] | None = None
) -> Runner:
    if primitive.eager:
        return lambda *given: primitive.numpy(*map(np.asarray, given), **params)
    program = single(primitive, types, params)
    place = None if lying is None else (lying, (None,) * len(program.outputs))
    module = runtime.backend.lower(program, primitive.name, _donated(params), place=place, tiled=False)
    run = make_runner(compile_module(module), "list" if primitive.multiple else "one")
    settings = current()
    searched = (settings.debug_nans or settings.debug_infs) and any(True for _ in subprograms(program.eqns[0]))
    return _searching(run, program) if searched else run


def _searching(run: Runner, program: Program) -> Runner:
    """A runner that says where within a Program a value that is not finite came from."""
    def searching(*given: Any) -> Any:
        try:
            return run(*given)
        except NonFiniteError as error:
            types: list[Any] = program.in_types
            values = [Array(t, x) for t, x in zip(types, given, strict=True)]
            raise runtime.backend.located(program, values, error) from None

    return searching


def _donated(params: dict[str, Any]) -> tuple[int, ...]:
    flags = params.get("donated", ())
    return tuple(i for i, flag in enumerate(flags) if flag)


def single(primitive: Primitive, types: Sequence[Any], params: dict[str, Any]) -> Program:
    """The Program of one equation."""
    out = typed(primitive, types, params)
    effects = NO_EFFECTS if primitive.effects is None else primitive.effects(*types, **params)
    inputs = [Var(t) for t in types]
    outputs = [Var(t) for t in (out if primitive.multiple else (out,))]
    source = line_here() if current().source_lines else None
    return Program(inputs, [Eqn(primitive, inputs, outputs, params, effects, source)], outputs, name=primitive.name)
