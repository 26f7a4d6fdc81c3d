"""How the interpreter runs a kernel: what a user may ask for, and what the operations of a body may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from ...core.ir.array import DTypeLike
from ...core.ir.types import is_bool, is_complex, is_float
from ...core.support.call_errors import public
from ...core.support.config import config, current
from ...core.support.errors import ArgumentError, ArgumentTypeError, SemaphoreError, Source

_CHOICES = {"uninitialized_memory": ("nan", "zero"), "dma_execution_mode": ("on_wait", "eager")}


@public
@dataclass(frozen=True)
class InterpretParams:
    """Modes of the interpreter, for `kernel_call(..., interpret=InterpretParams(...))` and `lang.interpret`.

    `uninitialized_memory`: what unwritten memory reads as, "nan" (poison) or "zero". `dma_execution_mode`: an
    asynchronous copy happens when it is waited for ("on_wait", so that a missing wait shows) or when it starts
    ("eager"). `detect_races`: raise `RaceError` when two cells that differ on a parallel axis touch one location
    and one of them writes. `random_seed`: run parallel cells in a random order, the same for the same seed.
    `trace`: True prints a line for every cell that says which blocks move, a function is called with each line.
    `grid_point_recorder(ids)` is called before each cell.

    >>> InterpretParams(detect_races=True).uninitialized_memory
    'nan'
    """

    detect_races: bool = False
    uninitialized_memory: str = "nan"
    dma_execution_mode: str = "on_wait"
    random_seed: int | None = None
    trace: bool | Callable[[str], Any] = False
    grid_point_recorder: Callable[[tuple[int, ...]], Any] | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ArgumentError(
                    f"InterpretParams: {name} is {getattr(self, name)!r}",
                    f"give one of {', '.join(map(repr, choices))}",
                )


DEFAULT = InterpretParams()


def as_mode(interpret: bool | InterpretParams) -> bool | InterpretParams:
    """What `kernel_call(interpret=...)` was given, checked; where it is nothing, what the configuration says."""
    interpret = interpret or current().interpret
    if interpret is None or isinstance(interpret, (bool, np.bool_)):
        return bool(interpret)
    if isinstance(interpret, InterpretParams):
        return interpret
    raise ArgumentTypeError(f"kernel_call: interpret is {interpret!r}", "give True, False or InterpretParams(...)")


def force_tpu_interpret_mode(params: InterpretParams = DEFAULT) -> Any:
    """A `with` block whose kernels are interpreted: the setting `interpret`.

    >>> from tilewright.core.support.config import current
    >>> with force_tpu_interpret_mode():
    ...     current().interpret.detect_races
    False
    """
    return config(interpret=params)


def set_tpu_interpret_mode(params: InterpretParams | None = DEFAULT) -> None:
    """Have all kernels interpreted from here on; None: compiled again.

    >>> from tilewright.core.support.config import current
    >>> set_tpu_interpret_mode(InterpretParams(detect_races=True))
    >>> current().interpret.detect_races
    True
    >>> set_tpu_interpret_mode(None)
    """
    config.update("interpret", params)


def reset_tpu_interpret_mode_state() -> None:
    """Nothing: the interpreter keeps no state from one kernel to the next.

    >>> from tilewright import lang as tl
    >>> tl.tpu.reset_tpu_interpret_mode_state()
    """


def poison(shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    """An array of what unwritten memory reads as: NaN, the least integer, or the greatest where none is negative."""
    state = running()
    if state is not None and state.params.uninitialized_memory == "zero":
        return np.zeros(shape, dtype)
    if is_float(dtype) or is_complex(dtype):
        return np.full(shape, np.nan, dtype)
    if is_bool(dtype):
        return np.ones(shape, dtype)
    limits = ml_dtypes.iinfo(dtype)
    return np.full(shape, limits.min or limits.max, dtype)


def address(array: np.ndarray) -> int:
    """The address of an array, which identifies a Ref of a run."""
    return array.__array_interface__["data"][0]


# ---------------------------------------------------------------------------- a run under way


@dataclass
class Copy:
    """An asynchronous copy that has started: what is still to be done, and how many bytes it announces."""

    perform: Callable[[], None] | None
    nbytes: int
    source: Source | None


@dataclass
class Run:
    """An interpretation under way."""

    kernel: str
    params: InterpretParams = DEFAULT
    cell: tuple[int, ...] = ()
    source: Source | None = None  # of the equation at hand
    copies: dict[int, list[Copy]] = field(default_factory=dict)  # by address of the semaphore
    credit: dict[int, int] = field(default_factory=dict)  # bytes done and not yet waited for
    device: int = 0  # among those of the mesh
    together = False  # several devices are interpreted at once: `lang/interpret/multi_device.py`

    def enter(self, refs: Sequence[np.ndarray]) -> None:
        """A cell begins, whose body sees these Refs."""

    def start(self, semaphore: int, perform: Callable[[], None], nbytes: int) -> None:
        late = self.params.dma_execution_mode == "on_wait"
        if not late:
            perform()
        self.copies.setdefault(semaphore, []).append(Copy(perform if late else None, nbytes, self.source))

    def wait(self, semaphore: int, nbytes: int) -> None:
        """Finish copies, oldest first, until `nbytes` are there; those bytes are then spent."""
        queue = self.copies.get(semaphore, [])
        done = self.credit.get(semaphore, 0)
        while done < nbytes:
            if not queue:
                raise self.error(
                    f"waits for a copy of {nbytes} bytes, but only {done} were started on its semaphore",
                    "start each copy before it is waited for, with the same semaphore")  # fmt: skip
            copy = queue.pop(0)
            if copy.perform is not None:
                copy.perform()
            done += copy.nbytes
        self.credit[semaphore] = done - nbytes

    def await_count(self, semaphore: tuple[np.ndarray, Any], value: int) -> None:
        """Wait until a semaphore, which does not yet, holds a number."""
        sem, place = semaphore
        raise self.error(
            f"semaphore_wait waits for {value}, but the semaphore holds {int(sem[place])}, and nothing can signal it",
            "signal it first: cells run one after the other")  # fmt: skip

    def finish(self, semaphores: Mapping[str, np.ndarray]) -> None:
        """Every copy that was started has been waited for, and every semaphore is back at zero.

        One of a TPU keeps its count for the next kernel, which takes it to be zero.
        """
        for queue in self.copies.values():
            for copy in queue:
                self.source = copy.source
                raise self.error(
                    f"ends while a copy of {copy.nbytes} bytes is under way that nothing waited for",
                    "call `.wait()` on what `make_async_copy` gave",
                )
        for name, held in semaphores.items():
            if held.any():
                raise self.error(
                    f"ends while semaphore {name} holds {int(held[held != 0][0])}, which the next kernel starts with",
                    "wait for all that is signalled: `semaphore_wait(sem, semaphore_read(sem))` takes the rest",
                )

    def error(self, what: str, remedy: str) -> SemaphoreError:
        return SemaphoreError(f"kernel {self.kernel}, cell {self.cell}: {what}", remedy, self.source)


_run: ContextVar[Run | None] = ContextVar("tilewright_interpretation", default=None)


def running() -> Run | None:
    """The interpretation under way, if there is one."""
    return _run.get()


@contextmanager
def run_as(run: Run) -> Iterator[Run]:
    """Within it, `running()` is this one."""
    token = _run.set(run)
    try:
        yield run
    finally:
        _run.reset(token)
