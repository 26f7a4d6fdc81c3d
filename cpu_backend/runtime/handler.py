"""The handler of a kernel for XLA's foreign function interface, and the division of its cells among XLA's threads.

    cell(buffers, workspace, number)     what a kernel prints
    handler(call frame)                  copies of aliased operands, then every cell once

Cells are taken in chunks of fixed bounds from a counter, by the thread of the call and by as many tasks on XLA's pool
as have work. What a cell computes does not depend on which thread takes it, nor on their number. A state that tasks
share is freed by the last of them, as one may start after the call has ended; it finds no chunk left then.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..llvm.builder import Builder, Int, Value
from .abi import API_MAJOR, API_MINOR, METADATA_EXTENSION, SIZES, offset

# The state that tasks share: 8 bytes each.
_NEXT, _DONE, _REFERENCES, _TICKET, _BUFFERS, _WORKSPACE, _STATE = 0, 8, 16, 24, 32, 40, 48
SPINS = 2000  # turns of waiting before the thread gives its core away
_PAUSE = {"x86-64": "llvm.x86.sse2.pause", "aarch64": "llvm.aarch64.hint"}


@dataclass(frozen=True)
class Launch:
    """How a kernel's cells run.

    `operands` and `results` count buffers, the workspace not included; it is one more result of `workers` times
    `workspace` bytes, where that is not 0. `copies` are (operand, result, bytes) to be copied before.
    """

    operands: int
    results: int
    cells: int
    chunk: int
    workers: int
    workspace: int
    copies: tuple[tuple[int, int, int], ...] = ()

    @property
    def chunks(self) -> int:
        return -(-self.cells // self.chunk)


def _field(b: Builder, pointer: Value, offset_: int) -> Value:
    return b.offset(pointer, offset_, "i8")


def _pointer(b: Builder, pointer: Value, offset_: int) -> Value:
    return b.load(_field(b, pointer, offset_), "ptr")


def _atomic(b: Builder, op: str, pointer: Value, amount: int) -> Value:
    return b.value("i64", f"atomicrmw {op} ptr {pointer.text}, i64 {amount} seq_cst")


def _chunk(launch: Launch, b: Builder, number: Value, buffers: Value, workspace: Value) -> None:
    """The cells of one chunk."""
    first = number * launch.chunk
    end: Int = first + launch.chunk
    if launch.cells % launch.chunk:
        end = b.select(b.compare("sgt", end, launch.cells), launch.cells, end)
    with b.loop(first, end, empty=False) as loop:
        b.run_defined("cell", buffers, workspace, loop.index)


def _drain(launch: Launch) -> Builder:
    """Take chunks until there are none."""
    b = Builder("drain", [("ptr", "state")])
    (state,) = b.parameters
    ticket = _atomic(b, "add", _field(b, state, _TICKET), 1)
    loop, run, out = b.label(), b.label(), b.label()
    b.branch(b.compare("slt", ticket, launch.workers), loop, out)
    b.start(loop)
    buffers, base = _pointer(b, state, _BUFFERS), _pointer(b, state, _WORKSPACE)
    workspace = b.offset(base, ticket * launch.workspace, "i8")
    number = _atomic(b, "add", state, 1)
    b.branch(b.compare("slt", number, launch.chunks), run, out)
    b.start(run)
    _chunk(launch, b, number, buffers, workspace)
    _atomic(b, "add", _field(b, state, _DONE), 1)
    b.jump(loop)
    b.start(out)
    return b


def _release(b: Builder, state: Value) -> None:
    left = _atomic(b, "sub", _field(b, state, _REFERENCES), 1)
    with b.when(b.compare("eq", left, 1)):
        b.run("free", state)


def _task() -> Builder:
    b = Builder("task", [("ptr", "state")])
    (state,) = b.parameters
    b.run_defined("drain", state)
    _release(b, state)
    return b


def _wait(launch: Launch, b: Builder, state: Value, architecture: str) -> None:
    """Until every chunk is done; the core is given away after some turns."""
    spin, wait, give, rest, after = (b.label() for _ in range(5))
    before = b.block
    b.jump(spin)
    b.start(spin)
    turns, more = Value(f"%{b.name_of()}", "i64", b), Value(f"%{b.name_of()}", "i64", b)
    b.emit(f"{turns.text} = phi i64 [0, %{before}], [{more.text}, %{rest}]")
    done = b.value("i64", f"load atomic i64, ptr {_field(b, state, _DONE).text} seq_cst, align 8")
    b.branch(b.compare("eq", done, launch.chunks), after, wait)
    b.start(wait)
    b.emit(f"{more.text} = add i64 {turns.text}, 1")
    if architecture == "x86-64":
        b.run(_PAUSE[architecture])
    else:
        b.run(_PAUSE[architecture], b.constant(1, "i32"))
    b.branch(b.compare("sgt", turns, SPINS), give, rest)
    b.start(give)
    b.call("sched_yield", "i32")
    b.jump(rest)
    b.start(rest)
    b.jump(spin)
    b.start(after)


def _parallel(launch: Launch, architecture: str) -> Builder:
    """Run all cells on the threads of XLA's pool."""
    b = Builder("parallel", [("ptr", "frame"), ("ptr", "buffers"), ("ptr", "workspace")])
    frame, buffers, workspace = b.parameters
    api, context = (_pointer(b, frame, offset("XLA_FFI_CallFrame", n)) for n in ("api", "ctx"))
    asked, found = b.slot("i64", 4), b.slot("i64")
    b.store(b.constant(1, "i64"), found)
    arguments = "XLA_FFI_ThreadPool_NumThreads_Args"
    for at, value in ((0, b.constant(SIZES[arguments], "i64")), (8, b.constant(0, "i64")),
                      (offset(arguments, "ctx"), context), (offset(arguments, "num_threads"), found)):  # fmt: skip
        b.store(value, _field(b, asked, at))
    count = _pointer(b, api, offset("XLA_FFI_Api", "XLA_FFI_ThreadPool_NumThreads"))
    failed = b.value("ptr", f"call ptr {count.text}(ptr {asked.text})")
    threads = b.load(found, "i64")
    helpers = b.intrinsic("smin", threads - 1, min(launch.workers, launch.chunks) - 1)
    helpers = b.select(b.compare("eq", failed, Value("null", "ptr", b)), helpers, 0)
    state = b.call("malloc", "ptr", b.constant(_STATE, "i64"))
    none = b.compare("eq", state, Value("null", "ptr", b))

    def alone() -> None:
        with b.loop(0, launch.chunks, empty=False) as loop:
            _chunk(launch, b, loop.index, buffers, workspace)

    def shared() -> None:
        for at in (_NEXT, _DONE, _TICKET):
            b.store(b.constant(0, "i64"), _field(b, state, at))
        b.store(b.intrinsic("smax", helpers, 0) + 1, _field(b, state, _REFERENCES))
        b.store(buffers, _field(b, state, _BUFFERS))
        b.store(workspace, _field(b, state, _WORKSPACE))
        schedule = _pointer(b, api, offset("XLA_FFI_Api", "XLA_FFI_ThreadPool_Schedule"))
        arguments = "XLA_FFI_ThreadPool_Schedule_Args"
        call = b.slot("i64", 5)
        with b.loop(0, helpers):
            for at, value in ((0, b.constant(SIZES[arguments], "i64")), (8, b.constant(0, "i64")),
                              (offset(arguments, "ctx"), context), (offset(arguments, "data"), state),
                              (offset(arguments, "task"), Value("@task", "ptr", b))):  # fmt: skip
                b.store(value, _field(b, call, at))
            failed = b.value("ptr", f"call ptr {schedule.text}(ptr {call.text})")
            with b.when(b.compare("ne", failed, Value("null", "ptr", b))):
                _atomic(b, "sub", _field(b, state, _REFERENCES), 1)
        b.run_defined("drain", state)
        _wait(launch, b, state, architecture)
        _release(b, state)

    b.either(none, alone, shared)
    return b


def _metadata(b: Builder, extension: Value) -> None:
    """Say which version of the interface the handler is of."""
    found = _pointer(b, extension, offset("XLA_FFI_Metadata_Extension", "metadata"))
    version = _field(b, found, offset("XLA_FFI_Metadata", "api_version"))
    for at, number, type_ in (("struct_size", SIZES["XLA_FFI_Api_Version"], "i64"), ("extension_start", 0, "i64"),
                              ("major_version", API_MAJOR, "i32"), ("minor_version", API_MINOR, "i32")):  # fmt: skip
        b.store(b.constant(number, type_), _field(b, version, offset("XLA_FFI_Api_Version", at)))
    b.store(b.constant(0, "i32"), _field(b, found, offset("XLA_FFI_Metadata", "traits")))
    b.store(b.constant(0, "i64"), _field(b, found, offset("XLA_FFI_Metadata", "state_type_id")))


def _buffers(launch: Launch, b: Builder, frame: Value) -> tuple[Value, Value]:
    """The addresses of operands and results, one after the other, and that of the workspace."""
    total = launch.operands + launch.results
    found, workspace = b.slot("ptr", max(total, 1)), Value("null", "ptr", b)
    lists = [
        _pointer(b, frame, offset("XLA_FFI_CallFrame", side) + offset(f"XLA_FFI_{side.title()}", side))
        for side in ("args", "rets")
    ]
    for i in range(total + bool(launch.workspace)):
        side, number = (0, i) if i < launch.operands else (1, i - launch.operands)
        address = _pointer(b, _pointer(b, lists[side], 8 * number), offset("XLA_FFI_Buffer", "data"))
        if i == total:
            workspace = address
        else:
            b.store(address, _field(b, found, 8 * i))
    return found, workspace


def handler(launch: Launch, architecture: str) -> list[Builder]:
    """The functions around `cell`; `handler` is seen from outside."""
    b = Builder("handler", [("ptr", "frame")])
    (frame,) = b.parameters
    null = Value("null", "ptr", b)
    extension = _pointer(b, frame, offset("XLA_FFI_CallFrame", "extension_start"))
    look, meta, run = b.label(), b.label(), b.label()
    b.branch(b.compare("eq", extension, null), run, look)
    b.start(look)
    kind = b.load(_field(b, extension, offset("XLA_FFI_InternalExtension", "type")), "i32")
    b.branch(b.compare("eq", kind, METADATA_EXTENSION), meta, run)
    b.start(meta)
    _metadata(b, extension)
    b.emit("ret ptr null")
    b.start(run)
    buffers, workspace = _buffers(launch, b, frame)
    for operand, result, size in launch.copies:
        source, target = (_pointer(b, buffers, 8 * i) for i in (operand, launch.operands + result))
        with b.when(b.compare("ne", source, target)):
            b.call("memcpy", "ptr", target, source, b.constant(size, "i64"))
    functions: list[Builder] = []
    if launch.workers > 1 and launch.chunks > 1:
        functions = [_drain(launch), _task(), _parallel(launch, architecture)]
        b.run_defined("parallel", frame, buffers, workspace)
    elif launch.cells:
        with b.loop(0, launch.chunks, empty=False) as loop:
            _chunk(launch, b, loop.index, buffers, workspace)
    b.result, b.linkage = ("ptr", "ptr null"), ""
    return [*functions, b]
