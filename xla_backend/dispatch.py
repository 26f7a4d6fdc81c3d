"""Running executables: generated functions of fixed arity, and the evaluator of single primitives.

A *runner* takes the buffers of the arguments, one positional argument each, and gives Arrays. Its source
is generated for the number of arguments and results, so that a call does nothing but execute and wrap.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import config as config_module
from ..core.caches import cached
from ..core.errors import ArgumentError, DeletedArrayError, NonFiniteError
from ..core.ir import NO_EFFECTS, Eqn, Program, Var
from ..core.trace import typeof
from ..core.types import is_inexact
from . import shim
from .array import Array, execution_error
from .client import all_devices, default_device, device_of
from .executable import Executable, compile_module, in_callback
from .placed import lower_for
from .transfer import buffers, handler, host_buffer, moved_to

EAGER_KEPT = 4096
Runner = Callable[..., Any]

# ---------------------------------------------------------------------------- runners

_SOURCE = """
def run({parameters}):
    try:
        {unpack}execute(({operands})).consume_with_handlers(handlers)
    except Fault as error:
        raise failed(error, ({parameters_tuple})) from None
{wrap}    return {result}
"""


@cached()
def _code(
    arity: int, constants: int, kept: tuple[int, ...], forwarded: tuple[tuple[int, int], ...], outs: int, result: str
) -> Any:
    """The compiled source of a runner, shared by all executables of one form."""
    parameters = [f"b{i}" for i in range(arity)]
    every = [f"c{i}" for i in range(constants)] + parameters
    passed = dict(forwarded)
    computed = [i for i in range(outs) if i not in passed]
    wrap = "".join(
        f"    r{i} = new(Array); r{i}.aval = t{i}; r{i}._buffer = {every[passed[i]] if i in passed else f'o{i}'}\n"
        for i in range(outs)
    )
    results = "".join(f"r{i}, " for i in range(outs))
    source = _SOURCE.format(
        parameters=", ".join(parameters),
        parameters_tuple="".join(p + ", " for p in parameters),
        unpack="".join(f"o{i}, " for i in computed) + ("= " if computed else ""),
        operands="".join(every[i] + ", " for i in kept),
        wrap=wrap,
        result={"one": "r0", "tuple": f"({results})", "list": f"[{results}]"}.get(result, f"unflatten(({results}))"),
    )
    if not computed and not kept:
        source = f"def run({', '.join(parameters)}):\n{wrap}    return {source.rsplit('return ', 1)[1]}"
    return compile(source, "<tilewright runner>", "exec")


def _failed(executable: Executable, error: Exception, given: Sequence[Any]) -> Exception:
    """The error to raise for a fault while executing: deleted arguments have their own."""
    module = executable.module
    for number, buffer in enumerate(given):
        if buffer.is_deleted():
            type = module.in_types[len(module.constants) + number]
            return DeletedArrayError(
                f"argument {number} of {module.name}, of type {type.show()}, was used after its buffer was donated "
                "or deleted",
                "use the result of the function that it was donated to, or leave it out of `donate_argnums`",
            )
    if "donate" in str(error) and len({id(b) for b in given}) < len(given):
        return DeletedArrayError(f"{module.name} was given the same array twice, once to be donated", "pass a copy")
    return execution_error(error)


def make_runner(executable: Executable, result: str = "list", unflatten: Any = None) -> Runner:
    """A function from the arguments' buffers to Arrays.

    `result`: "one" for a single Array, "tuple" or "list" of Arrays, or "tree", built by `unflatten`.
    """
    run = _runner(executable, result, unflatten)
    if len(all_devices()) > 1:
        run = _following(executable, run, result, unflatten)
    settings = config_module.current()
    if settings.debug_nans or settings.debug_infs:
        return _checked(run, executable.module.name, settings.debug_nans, settings.debug_infs)
    return run


def _runner(executable: Executable, result: str, unflatten: Any) -> Runner:
    module, device = executable.module, executable.device
    of_constants = module.in_types[: len(module.constants)]
    constants = buffers(module.constants, of_constants)
    if len(all_devices()) > 1:
        constants = [moved_to(b, t, device) for b, t in zip(constants, of_constants, strict=True)]
    arity = len(module.in_types) - len(constants)
    handlers = [handler(module.out_types[i], device) for i in module.computed]
    execute = executable.loaded.execute_sharded
    if module.has_effects:
        execute = _with_effects(executable)
    names: dict[str, Any] = {
        "execute": execute, "handlers": handlers, "Array": Array, "new": object.__new__, "Fault": shim.RuntimeFault,
        "failed": functools.partial(_failed, executable), "unflatten": unflatten,
    }  # fmt: skip
    names |= {f"c{i}": buffer for i, buffer in enumerate(constants)}
    names |= {f"t{i}": type for i, type in enumerate(module.out_types)}
    forwarded = tuple(module.forwarded.items())
    exec(_code(arity, len(constants), module.kept, forwarded, len(module.out_types), result), names)
    return names["run"]


def _following(executable: Executable, run: Runner, result: str, unflatten: Any) -> Runner:
    """A runner that computes where its arguments are; those on the default device follow the others."""
    module, home = executable.module, executable.device
    types = module.in_types[len(module.constants) :]
    runners = {home: run}

    def follow(*given: Any) -> Any:
        places = {device_of(b) for b in given} - {home, default_device()}
        if len(places) > 1:
            raise ArgumentError(
                f"the arguments of {module.name} are on several devices: {', '.join(sorted(map(str, places)))}",
                "bring them together with `device_put`",
            )
        device = places.pop() if places else home
        if device not in runners:
            runners[device] = _runner(compile_module(module, device), result, unflatten)
        return runners[device](*[moved_to(b, t, device) for b, t in zip(given, types, strict=True)])

    return follow


def _checked(run: Runner, name: str, nans: bool, infs: bool) -> Runner:
    """A runner that waits for its results and raises if they are not finite."""
    from ..core.tree import leaves

    def checked(*given: Any) -> Any:
        out = run(*given)
        for x in leaves(out):
            check_finite(x, name, nans, infs)
        return out

    return checked


def check_finite(x: Array, name: str, nans: bool, infs: bool) -> None:
    """Raise if an array has a NaN (`nans`) or an infinity (`infs`)."""
    if not is_inexact(x.aval.dtype):
        return
    values = x._numpy()
    found = "NaN" if nans and np.isnan(values).any() else "infinity" if infs and np.isinf(values).any() else ""
    if found:
        raise NonFiniteError(f"{name} gave {found}, in a result of type {x.aval.show()}",
                             "look at its arguments; `debug_nans` and `debug_infs` turn this check on")  # fmt: skip


# ---------------------------------------------------------------------------- effects

PENDING_KEPT = 128
_pending: list[Any] = []  # tokens of executions with effects that may still run


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
        try:
            token = _pending.pop(0)
        except IndexError:  # another thread took the last
            return
        token.block_until_ready()


@atexit.register
def _finish() -> None:
    with contextlib.suppress(shim.RuntimeFault):
        _drain()


def effects_barrier() -> None:
    """Wait until every effect of the programs started so far has happened."""
    try:
        _drain()
    except shim.RuntimeFault as error:
        raise execution_error(error) from None


# ---------------------------------------------------------------------------- one primitive at a time


class _Eager:
    """The runners of single primitives under one configuration."""

    __slots__ = ("config", "runners")

    def __init__(self, config: Any):
        self.config = config
        self.runners: dict[Any, Runner] = {}


_states: dict[Any, _Eager] = {}
_state = _Eager(None)


def _switch(config: Any) -> _Eager:
    global _state
    state = _states.get(config)
    if state is None:
        state = _states[config] = _Eager(config)
    state.config = config  # an equal object: compared by identity from now on
    _state = state
    return state


def evaluate(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive to concrete values: compile a Program of this one equation, once, and run it."""
    config = config_module._local.get() or config_module._global
    state = _state
    if state.config is not config:
        state = _switch(config)
    if not params and len(args) == 1 and type(args[0]) is Array:
        run = state.runners.get((primitive, (args[0].aval,)))
        if run is not None:
            return run(args[0]._buffer)
    types, given = [], []
    for x in args:
        if type(x) is Array:
            types.append(x.aval)
            given.append(x._buffer)
        else:
            t: Any = typeof(x)
            types.append(t)
            given.append(host_buffer(x, t))
    if params:
        key = (primitive, tuple(types), tuple(params.items()), tuple(map(type, params.values())))
    else:
        key = (primitive, tuple(types))
    run = state.runners.get(key)
    if run is None:
        run = _compiled(primitive, types, params)
        if len(state.runners) >= EAGER_KEPT:
            del state.runners[next(iter(state.runners))]
        state.runners[key] = run
    return run(*given)


def _compiled(primitive: Any, types: Sequence[Any], params: dict[str, Any]) -> Runner:
    module = lower_for(None, single(primitive, types, params), primitive.name, _donated(params))
    return make_runner(compile_module(module), "list" if primitive.multiple else "one")


def _donated(params: dict[str, Any]) -> Sequence[int]:
    flags = params.get("donated", ())
    return [i for i, flag in enumerate(flags) if flag]


def single(primitive: Any, types: Sequence[Any], params: dict[str, Any]) -> Program:
    """The Program of one equation."""
    out = primitive.typing(*types, **params)
    effects = NO_EFFECTS if primitive.effects is None else primitive.effects(*types, **params)
    inputs = [Var(t) for t in types]
    outputs = [Var(t) for t in (out if primitive.multiple else (out,))]
    return Program(inputs, [Eqn(primitive, inputs, outputs, params, effects)], outputs, name=primitive.name)


def clear() -> None:
    """Forget the runners of single primitives."""
    global _state
    _states.clear()
    _state = _Eager(None)
