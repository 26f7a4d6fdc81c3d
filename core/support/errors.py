"""The catalogue of errors: each says what was wrong, the value, the user's line and the remedy."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from types import CodeType, FrameType

from .memo import cached
from .runtime import runtime

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LAYERS = (
    "core", "lang", "kernels", "xla_backend", "triton_backend", "mosaic_tpu", "mosaic_gpu", "cutlass_backend",
    "tilewright",
)  # fmt: skip


def _is_ours() -> tuple[str, ...]:
    # In a source tree each layer is a folder beside src/, reached through a symlink; in a wheel
    # all are folders of one package. Both spellings of the path appear in code objects.
    roots = {_PACKAGE, os.path.realpath(_PACKAGE)}
    here = os.path.dirname(os.path.realpath(os.path.dirname(os.path.abspath(__file__))))
    top = os.path.dirname(here)
    roots |= {os.path.join(top, layer) for layer in _LAYERS} | {os.path.join(top, "src", "tilewright")}
    return tuple(sorted(root + os.sep for root in roots if os.path.basename(root) in _LAYERS))


_OURS = _is_ours()
# Libraries that call functions of ours on behalf of the user.
_BETWEEN = tuple(f"{os.sep}site-packages{os.sep}{name}{os.sep}" for name in ("jax", "numpy", "scipy", "torch", "cupy"))


@cached()
def _is_internal_file(name: str) -> bool:
    return (
        name.startswith(_OURS)
        or name.startswith(("<tilewright", "<frozen "))
        or f"{os.sep}functools.py" in name
        or f"{os.sep}contextlib.py" in name
        or any(library in name for library in _BETWEEN)
        or any(name.startswith(folder) for folder in excluded)
    )


def is_internal(code: CodeType) -> bool:
    """Whether a code object belongs to this package, or to a library between, rather than to the user."""
    # Looked up by file: the hash of a code object goes over all of its code. The rest is what dataclasses make.
    return _is_internal_file(code.co_filename) or code.co_qualname.startswith("__create_fn__.")


# Folders of libraries that asked not to be named in messages.
excluded: set[str] = runtime.part("errors.excluded", set())


def exclude(path: str) -> None:
    """Have messages name no line of the files below a path."""
    excluded.add(path)
    _is_internal_file.cache_clear()


class Source:
    """A line of the user's code, resolved to text only when it is shown; the scopes and notes for XLA it ran in."""

    __slots__ = ("code", "lasti", "scope", "notes")
    code: CodeType
    lasti: int
    scope: str
    notes: tuple[tuple[str, str], ...]

    def __init__(self, code: CodeType, lasti: int, scope: str = "", notes: tuple[tuple[str, str], ...] = ()):
        self.code, self.lasti, self.scope, self.notes = code, lasti, scope, notes

    @property
    def line(self) -> int:
        for start, end, line in self.code.co_lines():
            if start <= self.lasti < end and line is not None:
                return line
        return self.code.co_firstlineno

    def __str__(self) -> str:
        return f"{self.code.co_filename}:{self.line} ({self.code.co_name})"


def user_source(scope: str = "", notes: tuple[tuple[str, str], ...] = ()) -> Source | None:
    """The innermost frame on the stack that is not this package's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:  # for each equation that is traced, so `is_internal` is written out
        code = frame.f_code
        if not (_is_internal_file(code.co_filename) or code.co_qualname.startswith("__create_fn__.")):
            return Source(code, frame.f_lasti, scope, notes)
        frame = frame.f_back
    return None


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line."""
    warnings.warn(text, category, skip_file_prefixes=(*_OURS, "<tilewright"))


def plural(count: int, noun: str) -> str:
    """A number of things, as messages have it.

    >>> plural(1, "axis"), plural(2, "start index")
    ('1 axis', '2 start indices')
    """
    if count == 1:
        return f"{count} {noun}"
    for ending, plural_ending in (("axis", "axes"), ("index", "indices"), ("entry", "entries"), ("ss", "sses")):
        if noun.endswith(ending):
            return f"{count} {noun.removesuffix(ending)}{plural_ending}"
    return f"{count} {noun}s"


class TilewrightError(Exception):
    """Base of every error this package raises on bad input.

    `what` states the fault with the offending value; `remedy` says what to write instead. The user's
    line is found on the stack unless `source` names one.
    """

    what: str
    remedy: str
    source: Source | None

    def __init__(self, what: str, remedy: str = "", source: Source | None = None):
        self.what, self.remedy = what, remedy
        self.source = source or user_source()
        parts = [what]
        if self.source is not None:
            parts.append(f"  at: {self.source}")
        if remedy:
            parts.append(f"  remedy: {remedy}")
        super().__init__("\n".join(parts))


class ShapeError(TilewrightError, ValueError, TypeError):
    """Shapes that do not fit together. (A `ValueError` and a `TypeError`, as users of either expect.)"""


class InconclusiveDimensionError(ShapeError):
    """A question about a symbolic size that what is known of its symbols does not answer."""


class DtypeError(TilewrightError, TypeError, ValueError):
    """A dtype that an operation does not take, or dtypes that have no common type."""


class ArgumentError(TilewrightError, ValueError, TypeError):
    """An argument whose value is outside what the function accepts. (A `TypeError` as well: users expect either.)"""


class AxisError(ArgumentError, IndexError):
    """An axis that the array does not have, or that is named twice."""


class IntegerOverflowError(TilewrightError, OverflowError):
    """A Python integer that its dtype cannot hold."""


class ArgumentTypeError(TilewrightError, TypeError, ValueError):
    """An argument of a Python type that the function does not take. (A `ValueError` as well.)"""


class NonArrayArgumentError(ArgumentTypeError):
    """A value that is not an array, a number or a pytree of them."""


class NonHashableStaticArgumentError(TilewrightError, ValueError, TypeError):
    """A static argument that cannot be hashed."""


class TracingError(TilewrightError, TypeError):
    """A traced value or a random key was used in a way that its tracing does not allow: the base of those below."""


class ConcretizationError(TracingError):
    """A traced value was used where Python needs its actual value."""


class TracerBoolError(ConcretizationError):
    """Python control flow on a traced value."""


class TracerArrayConversionError(ConcretizationError):
    """A traced value was handed to NumPy."""


class TracerIntegerConversionError(ConcretizationError):
    """A traced value was used as a Python integer or an index of a Python sequence."""


class IndexingError(TilewrightError, IndexError):
    """An index that does not fit its array."""


class SliceStepError(IndexingError, ValueError):
    """A slice whose step is zero."""


class BooleanIndexError(ConcretizationError, IndexingError):
    """A traced array of booleans was used as an index, which makes a shape depend on values."""


class LeakedTracerError(TracingError):
    """A traced value outlived the transformation that made it."""


class KeyReuseError(TracingError):
    """A random key was used a second time while `debug_key_reuse` is set."""


class DifferentiationError(TilewrightError, TypeError, ValueError):
    """Something that has no derivative was differentiated."""


class NoDerivativeError(DifferentiationError, NotImplementedError):
    """An operation without a derivative rule was differentiated."""


class NonScalarGradientError(DifferentiationError):
    """`grad` of a function whose output is not a scalar."""


class NonDifferentiableDtypeError(DifferentiationError):
    """`grad` with respect to, or of, an integer or boolean value."""


class BatchAxisError(TilewrightError, ValueError):
    """`vmap` over axes that are absent or of unequal size."""


class UnboundAxisError(TilewrightError, NameError):
    """A named axis that no enclosing `vmap` or mesh defines."""


class MeshAxisError(TilewrightError, ValueError):
    """A mesh axis that the mesh does not have, or that is used twice."""


class ShardingTypeError(TilewrightError, TypeError, ValueError):
    """An operation on arrays with sharded types whose output sharding is ambiguous."""


class MeshError(TilewrightError, ValueError):
    """Meshes that do not fit: larger than there are devices, of other devices than another one in the same program."""


class CommunicationError(TilewrightError, RuntimeError):
    """A program on a mesh exchanges what nobody wrote, while the setting `communication` is "error"."""


class AddressableError(TilewrightError, RuntimeError):
    """The values of an array were asked for of which this process holds only a part."""


class ProcessError(TilewrightError, RuntimeError):
    """Base of the errors about groups of processes: initialised twice, too late, or not at all."""


class ForkError(ProcessError):
    """A computation in a forked child of a process that has used a device."""


class CoordinatorError(ProcessError, ConnectionError):
    """The coordinator cannot be reached, is gone, or waited for a process that did not come."""


class ProcessMismatchError(ProcessError, AssertionError):
    """Processes of a group diverge: different programs, order, values or versions."""


class ImmutableArrayError(TilewrightError, TypeError):
    """In-place assignment to an array."""


class DeletedArrayError(TilewrightError, RuntimeError):
    """An array whose buffer was donated or deleted."""


class ConfigError(TilewrightError, AttributeError, ValueError):
    """An unknown configuration name or a value it does not take."""


class ProgramError(TilewrightError, TypeError):
    """A Program that breaks the rules of the IR; a fault of a pass, not of the user."""


class TreeError(TilewrightError, ValueError, TypeError):
    """Pytrees whose structures do not match."""


class ControlFlowTypeError(TilewrightError, TypeError, ValueError):
    """Branches that return different types, or a loop whose body changes the type of what it carries."""


class FailureError(TilewrightError, RuntimeError):
    """A compiler, a device or a callback failed: the base of the faults from outside of the traced program."""


class CallbackError(FailureError):
    """A host callback that returned something else than it was declared to."""


class UnsupportedError(TilewrightError, NotImplementedError):
    """An operation that has no rule where one is needed."""


class OpaqueValueError(TilewrightError, TypeError, AttributeError):
    """A value of a client's own type, where only arrays go, or mapped in a way that its type does not know."""


class KernelError(TilewrightError, ValueError):
    """Base of the errors about kernels."""


class BlockRankError(KernelError):
    """A block shape, index map and array that disagree in rank."""


class OutOfBoundsError(KernelError, IndexError):
    """A block or an access out of bounds of its array."""


class RaceError(KernelError):
    """Two cells, or two devices, that touch the same memory, one of them writing, and nothing orders the two."""


class InputWriteError(KernelError):
    """A body that writes to an operand of its kernel that is no output."""


class SemaphoreError(KernelError):
    """A wait for what nothing started or signals, or a copy that was started and never waited for."""


class DeadlockError(SemaphoreError):
    """The devices of a mesh wait for each other, and none can go on."""


class UncoveredOutputError(KernelError):
    """An output of a kernel that its cells do not wholly write."""


class UninitializedError(KernelError):
    """A kernel whose outputs hold what it read from memory that no cell had written."""


class PaddingError(KernelError):
    """What lies past the end of an operand, which is unspecified without `fill`, reaches an output of a kernel."""


class KernelBodyError(KernelError, TypeError):
    """A kernel body that does what no kernel can: returns a value, closes over a traced array, leaves the language."""


class BlockTilingError(KernelError):
    """A block that a target's memory cannot be cut into: its sizes are no multiples of the tiles, nor whole axes."""


class EmulationError(KernelError):
    """An emitted program that does what its dialect does not define, or what the emulator has no rule for."""


class ResourceError(KernelError, MemoryError):
    """A kernel needs more of a target's fast memory or registers than there is, or a program more of its memory."""


class CompileError(FailureError):
    """The target's compiler refused a program."""


class DriverError(FailureError):
    """A device was asked for, and there is no driver for it, no device, or none that can be used."""


class BenchmarkError(TilewrightError, ValueError):
    """A file that is no result of a benchmark, or a function that fails in a library it is measured in."""


class ProfilerError(TilewrightError, RuntimeError, ValueError):
    """A recording or server of the profiler is begun twice, or ended without one."""


class ForeignArrayError(TilewrightError, ValueError):
    """Base of the errors about arrays of other libraries that a kernel cannot be launched on."""


class HostArrayError(ForeignArrayError, TypeError):
    """An array in host memory where one on a device is needed."""


class DeviceMismatchError(ForeignArrayError):
    """Arrays on two devices, given to one kernel."""


class StridesError(ForeignArrayError):
    """An array whose elements are not contiguous in row-major order."""


class AlignmentError(ForeignArrayError):
    """An array whose first element lies at an address that a kernel cannot take."""


class FreedArrayError(ForeignArrayError):
    """An array of another library whose memory was freed."""


class ExecutionError(FailureError):
    """A program that failed while it ran, for example in a host callback, whose own error is `raised`."""

    raised: BaseException | None = None


class NonFiniteError(TilewrightError, FloatingPointError):
    """A result with NaN or infinity while `debug_nans` or `debug_infs` is set."""


class BreakpointError(TilewrightError, RuntimeError):
    """A `debug.breakpoint` without a terminal, or one at which the program was ended."""


class CheckError(TilewrightError, ValueError):
    """A check that `checkify` made part of a program has failed: the base of its kinds."""


class FailedCheckError(CheckError):
    """A `checkify.check` whose predicate was false."""


class NaNError(CheckError):
    """An operation that gave NaN in a function checked with `nan_checks`."""


class OOBError(CheckError, IndexError):
    """An index outside of its array in a function checked with `index_checks`."""


class DivisionByZeroError(CheckError, ZeroDivisionError):
    """A division by zero in a function checked with `div_checks`."""


class NotFunctionalizedError(TilewrightError, ValueError):
    """A `checkify.check` in a compiled program that `checkify` was not applied to."""


class UnthrownErrorWarning(UserWarning):
    """An `Error` of `checkify` that holds a failure was dropped, and nobody had asked it."""


class CheckpointError(TilewrightError, RuntimeError):
    """Base of the errors about checkpoints."""


class CheckpointWriteError(CheckpointError, OSError):
    """A checkpoint could not be written: a full disk, or one that is read-only."""


class DamagedCheckpointError(CheckpointError, ValueError):
    """A checkpoint that is not whole: a part is missing, truncated or altered."""


class CheckpointMismatchError(CheckpointError, ValueError):
    """A checkpoint of another tree, or whose leaves have other shapes or dtypes, than is to be restored."""


class ExportError(TilewrightError, ValueError):
    """A function that cannot be exported, or an export that is not for this call: its sizes, platform or structure."""


class ExportVersionError(ExportError):
    """An export of a version that cannot be read here, or bytes that are none."""


class ForeignFunctionError(TilewrightError, ValueError):
    """A function of a foreign library that is not registered, or is not called as it is made."""


class VersionError(TilewrightError, ImportError):
    """A package that is missing or of another version than this one works with."""


class UntestedVersionWarning(UserWarning):
    """A package of a version that should work but that the tests have not run with."""


class RealJaxError(TilewrightError, ImportError):
    """This package was to take the name `jax`, and the real jax is loaded already."""


class NotAdaptedError(TilewrightError):
    """Something of jax's own insides that has no adapter here: the base of the two below."""


class NotAdaptedNameError(NotAdaptedError, AttributeError):
    """A name of a module of jax that has no adapter here."""


class NotAdaptedModuleError(NotAdaptedError, ModuleNotFoundError):
    """A module of jax that has no adapter here."""


class TuningError(TilewrightError, RuntimeError):
    """No configuration of a tuned function compiles and gives the reference's result."""


class NotTunedError(TilewrightError, LookupError):
    """A function that is required to be tuned was called with arguments nobody has tuned it for."""


def check_options(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise an `ArgumentTypeError` that names the options there are, where one is given that there is not."""
    unknown = sorted(set(given).difference(known))
    if unknown:
        raise ArgumentTypeError(
            f"{what} got the option{'s' * (len(unknown) > 1)} {', '.join(unknown)}, which it does not have",
            f"its options are {', '.join(sorted(known))}")  # fmt: skip
