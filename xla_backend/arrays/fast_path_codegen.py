"""The Python that is generated: fast paths of dispatched functions, and runners of executables.

Both are source for one number of operands, so that a call does nothing but look up, execute and wrap.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from ...core.support.memo import cached

# Identity checks, one look-up by the key of core/jit/dispatch_cache.py, and the runner. Operands
# that are no arrays are recognised by their class, since raising AttributeError for it would take longer than the call.
_FAST = """
def call({parameters}):
    if {arrays} and trace() is EVAL{nothing_else}:
        run = runs((owner, local() or runtime.config, {kinds}))
        if run is not None:
            return run({buffers})
{plain}{host}    return slow({given}, {named})
"""
# Calls on NumPy arrays among Arrays. Other values, and dtypes and shapes met for the first time, have no key.
_HOST = """    elif trace() is EVAL and not rest and not kwargs:
{types}        run = runs((owner, local() or runtime.config, {kinds}))
        if run is not None:
            return run({buffers})
"""
# Calls on an array and Python values. What cannot be hashed, or raises when asked for its truth value, has no key.
_PLAIN = """    elif type(a0) is Array and trace() is EVAL{nothing_else}:
        try:
            run = bound((owner, local() or runtime.config, a0._kind, {values}))
        except Exception:
            run = None
        if run is not None:
            return run(a0._buffer)
"""


@cached()
def fast_path(arity: int, plain: bool, operator: bool, host: bool = False) -> CodeType:
    """The code of a function that `core/jit/dispatch_cache.py` dispatches, for `arity` operands.

    `plain`: Python values may follow the first operand. `operator`: it is never called on anything but so many.
    `host`: operands may be NumPy arrays.
    """
    names = [f"a{i}" for i in range(arity)]
    every, nothing_else = ", ".join(names), "" if operator else " and not rest and not kwargs"
    values = "".join(f"type({n}), {n} or repr({n}), " for n in names[1:])
    buffers = ", ".join(f"{n}._buffer" for n in names)
    source = _FAST.format(
        parameters=every + ", /" if operator else "".join(f"{n}=ABSENT, " for n in names)
        + "/, *rest, **kwargs",
        arrays=" and ".join(f"type({n}) is Array" for n in names),
        nothing_else=nothing_else,
        kinds=", ".join(f"{n}._kind" for n in names),
        buffers=buffers,
        plain=_PLAIN.format(values=values, nothing_else=nothing_else) if plain and arity > 1 else "",
        host=_host(names) if host else "",
        given=f"({every},)" if operator else f"(*[a for a in ({every},) if a is not ABSENT], *rest)",
        named="{}" if operator else "kwargs",
    )  # fmt: skip
    found: dict[str, Any] = {"ABSENT": None}
    exec(compile(source, "<tilewright fast path>", "exec"), found)
    return found["call"].__code__


def _host(names: list[str]) -> str:
    types = "".join(
        f"        t{n} = {n}._kind if type({n}) is Array else types(({n}.dtype, {n}.shape)) "
        f"if type({n}) is ndarray else None\n"
        for n in names
    )
    buffers = ", ".join(f"{n}._buffer if type({n}) is Array else copy({n}, t{n})" for n in names)
    return _HOST.format(types=types, kinds=", ".join(f"t{n}" for n in names), buffers=buffers)


_RUN = """
def run({parameters}):
{first}    try:
        {unpack}execute(({operands})).consume_with_handlers(handlers)
    except Fault as error:
        raise failed(error, ({parameters_tuple})) from None
{wrap}    return {result}
"""


def with_forwarded(buffers: list[str], forwarded: dict[int, int]) -> str:
    """Lines that mark the buffers which are results of a program as well."""
    return "".join(f"    {buffers[i]}.is_shared = True\n" for i in sorted({*forwarded.values()}))


def owned(buffers: list[str], donated: tuple[int, ...]) -> str:
    """Lines that copy donated buffers which are another array's too."""
    return "".join(f"    if hasattr({buffers[i]}, 'is_shared'): {buffers[i]} = copy({buffers[i]})\n" for i in donated)


@cached(4096)
def runner(
    arity: int, constants: int, kept: tuple[int, ...], forwarded: tuple[tuple[int, int], ...], outs: int, result: str,
    large: bool, donated: tuple[int, ...], effects: bool,
) -> CodeType:  # fmt: skip
    """The compiled source of a runner, shared by all executables of one form; `large`: it says what memory it needs."""
    parameters = [f"b{i}" for i in range(arity)]
    every = [f"c{i}" for i in range(constants)] + parameters
    passed = dict(forwarded)
    computed = [i for i in range(outs) if i not in passed]
    wrap = with_forwarded(every, passed) + "".join(
        f"    r{i} = new(Array); r{i}.aval = r{i}._kind = t{i}; "
        f"r{i}._buffer = {every[passed[i]] if i in passed else f'o{i}'}\n"
        for i in range(outs)
    )
    results = "".join(f"r{i}, " for i in range(outs))
    source = _RUN.format(
        first=owned(every, donated) + ("    about_to_use(need)\n" if large else ""),
        parameters=", ".join(parameters),
        parameters_tuple="".join(p + ", " for p in parameters),
        unpack="".join(f"o{i}, " for i in computed) + ("= " if computed else ""),
        operands="".join(every[i] + ", " for i in kept),
        wrap=wrap,
        result={"one": "r0", "tuple": f"({results})", "list": f"[{results}]"}.get(result, f"unflatten(({results}))"),
    )
    if not (computed or kept or effects):
        source = f"def run({', '.join(parameters)}):\n{wrap}    return {source.rsplit('return ', 1)[1]}"
    return compile(source, "<tilewright runner>", "exec")
