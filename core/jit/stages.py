"""The stages of `jit` ahead of time: traced, lowered, compiled."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, overload

from ..api.transformations import struct_of
from ..ir.array_layout import Format
from ..ir.program import Program
from ..support import pytree
from ..support.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ..support.runtime import runtime
from ..tracing.trace import typeof

if TYPE_CHECKING:
    from ..support.pytree import PyTreeDef

CompilerOptions = dict[str, Any]


class CompilerEffortLevel(enum.Enum):
    """How much work XLA puts into a program: the values of `compiler_options` that are named in `EFFORTS`.

    >>> CompilerEffortLevel("O1")
    <CompilerEffortLevel.O1: 19>
    """

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.__members__.get(value) if isinstance(value, str) else None


EFFORTS = ("optimization_level", "memory_fitting_level")  # of speed, and of memory
_PLAIN = (bool, int, float, str)


def flags_of(options: CompilerOptions | None) -> tuple[tuple[str, Any], ...]:
    """Flags of the compiler as pairs of a name and a string, a number or a boolean; efforts as XLA's numbers."""
    if not options:
        return ()
    if not isinstance(options, dict):
        raise ArgumentTypeError(f"compiler_options are {options!r}", "pass a dictionary of flags")
    return tuple(sorted((str(name), _flag(name, value)) for name, value in options.items()))


def _flag(name: str, value: Any) -> Any:
    if name not in EFFORTS:
        return value if isinstance(value, _PLAIN) else str(value)
    try:
        return CompilerEffortLevel(value).value
    except ValueError:
        levels = ", ".join(CompilerEffortLevel.__members__)
        raise ArgumentError(f"compiler_options {name}={value!r}", f"one of {levels}") from None


@dataclass(frozen=True)
class ArgInfo:
    """An argument of a traced function: its type, and whether its memory is given to the results."""

    aval: Any
    donated: bool

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype


class Wrapped[**P, R](Protocol):
    """What `jit` gives: a function with its stages ahead of time, which take shapes in the place of arrays too."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced: ...

    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any: ...

    def clear_cache(self) -> None: ...

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None, /) -> Wrapped[P, R]: ...
    @overload
    def __get__[S, **Q](
        self: Wrapped[Concatenate[S, Q], R], instance: S, owner: type[Any] | None = None, /
    ) -> Wrapped[Q, R]: ...
    def __get__(self, instance: object, owner: type[Any] | None = None, /) -> Any: ...


class JitDecorator(Protocol):
    """What `jit` gives without a function: a decorator."""

    def __call__[**P, R](self, fun: Callable[P, R], /) -> Wrapped[P, R]: ...


class _Known:
    """The description of arguments that all stages share."""

    _traced: Traced

    @property
    def args_info(self) -> Any:
        """The arguments, as a pytree of `ArgInfo`."""
        return self._traced.args_info

    @property
    def in_avals(self) -> Any:
        """The types of the arguments."""
        return self._traced.in_avals

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The flat arguments that are donated."""
        return self._traced.donate_argnums

    @property
    def out_info(self) -> Any:
        """The shapes and dtypes of the result."""
        return self._traced.out_info


class Traced:
    """A function traced for arguments of known types."""

    in_tree: Any

    def __init__(
        self, function: Any, entry: Any, in_tree: PyTreeDef, statics: Sequence[Any], place: Sequence[Any] | None = None
    ):
        self._function, self._entry, self.in_tree, self._statics = function, entry, in_tree, statics
        self.place = place  # how inputs and results lie on a mesh, None if nothing is said of it

    @property
    def jaxpr(self) -> Program:
        """The Program, as those see it who read jaxprs."""
        return self.program

    @property
    def program(self) -> Program:
        """The Program."""
        return self._entry.closed

    @property
    def out_tree(self) -> Any:
        return self._entry.out_tree

    @property
    def out_info(self) -> Any:
        """The shapes and dtypes of the result."""
        return self.out_tree.unflatten([struct_of(t) for t in self._entry.program.out_types])

    @property
    def fun_name(self) -> str:
        return self._function._name

    @property
    def effects(self) -> Any:
        """What the function does beside giving its result."""
        return self._entry.program.effects

    @property
    def arg_types(self) -> tuple[Any, ...]:
        """The flat types of the arguments."""
        return self._entry.program.in_types[len(self._entry.constants) :]

    @property
    def in_avals(self) -> Any:
        """The types of the arguments."""
        return self.in_tree.unflatten(self.arg_types)

    @property
    def out_avals(self) -> Any:
        """The types of the result."""
        return self.out_tree.unflatten(self._entry.program.out_types)

    @property
    def args_info(self) -> Any:
        """The arguments, as a pytree of `ArgInfo`."""
        return self.in_tree.unflatten(map(ArgInfo, self.arg_types, self._entry.donated))

    def whole(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Arguments with the static ones that the function was traced for among them."""
        return self._function.whole(args, kwargs, self._statics)

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arrays among arguments, in the order of the Program's inputs; static arguments are none."""
        return pytree.flatten(self._function.dynamic(args, kwargs))[0]

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The flat arguments that are donated."""
        return self.call[1]

    @property
    def call(self) -> tuple[str, tuple[int, ...], bool]:
        """How the compiled function is called: its name, the inputs that are donated, whether unused ones stay."""
        donated = tuple(i for i, d in enumerate(self._entry.donated) if d)
        return self._function._name, donated, self._function._options.keep_unused

    @property
    def platform(self) -> str:
        """The platform of the default device."""
        return runtime.backend.platform()

    @property
    def device(self) -> Any:
        """The `device` argument of `jit`, None if not given."""
        return self._function._options.device

    @property
    def flags(self) -> tuple[tuple[str, Any], ...]:
        """The compiler options passed to `jit`."""
        return self._function._options.compiler_options

    def compiled(self, executable: Any) -> Compiled:
        """What calls the backend's executable of the function."""
        backend = runtime.backend
        run = backend.runner(executable, self._entry.form, self.out_tree.unflatten)
        return Compiled(self, executable, run, functools.partial(backend.buffers, kept=not self.donate_argnums))

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Print the Program for the backend, or for one other platform (`cpu`, `cuda`, `rocm`, `tpu`) as text only.

        Raises:
          ArgumentError: an unknown platform. UnsupportedError: several platforms.
        """
        if lowering_platforms is None:
            return Lowered(self, self._function._module(self._entry, self.place))
        names = tuple(lowering_platforms)
        if len(names) != 1:
            raise UnsupportedError(f"lower for the platforms {names}", "name one, or use `export.export`")
        return Lowered(self, self._function._module(self._entry, self.place, names[0]), names[0])


class Lowered(_Known):
    """A function as the text of a module."""

    in_tree: Any
    out_tree: Any

    def __init__(self, traced: Traced, module: Any, platform: str | None = None):
        self._traced, self._module, self._platform = traced, module, platform
        self.in_tree, self.out_tree = traced.in_tree, traced.out_tree

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The module as text: as MLIR prints it, with lines of the source if `debug_info`; or the compiler's own `hlo`.

        Raises `ArgumentError` for another dialect than `stablehlo` and `hlo`.
        """
        module = self.compiler_ir(dialect)
        if dialect == "hlo":
            return module.as_hlo_text()
        return module.operation.get_asm(enable_debug_info=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module as jaxlib's object: of the dialect `stablehlo`, or as the compiler's own `hlo`."""
        if dialect not in (None, "stablehlo", "hlo"):
            raise ArgumentError(f"there is no module of dialect {dialect!r}", "'stablehlo' or 'hlo'")
        return runtime.backend.compiler_ir(self._module, dialect or "stablehlo")

    def __str__(self) -> str:
        return self.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """The backend's estimates of the compiled program."""
        return self.compile().cost_analysis()

    def compile(self, compiler_options: CompilerOptions | None = None) -> Compiled:
        """Compile for the device, with flags of the compiler beside those that `jit` was given."""
        if self._platform is not None and self._platform != self._traced.platform:
            what = f"{self._traced.fun_name} was lowered for {self._platform}; devices here are {self._traced.platform}"
            raise UnsupportedError(what, "use `compile(f, ..., target=)`")
        flags = dict(self._traced.flags) | dict(flags_of(compiler_options))
        return self._traced.compiled(runtime.backend.compile(self._module, self._traced.device, flags_of(flags)))


class Compiled(_Known):
    """A function compiled for arguments of known types; called without its static arguments."""

    in_tree: Any
    out_tree: Any

    def __init__(self, traced: Traced, executable: Any, run: Callable[..., Any], buffers: Callable[..., Any]):
        self._traced, self._executable, self._run, self._buffers = traced, executable, run, buffers
        self.in_tree, self.out_tree = traced.in_tree, traced.out_tree
        self._types = traced.arg_types

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, treedef = pytree.flatten((args, kwargs))
        if treedef != self.in_tree:
            raise ArgumentTypeError(
                f"compiled for arguments of structure {self.in_tree}, called with {treedef}",
                "call it with the structure it was lowered for, static arguments left out",
            )
        for x, expected in zip(leaves, self._types, strict=True):
            found: Any = typeof(x)
            if found.shape != expected.shape or (found.dtype != expected.dtype and not found.weak_type):
                raise ArgumentTypeError(
                    f"compiled for an argument of type {expected.show()}, called with {found.show()}",
                    "call it with the types it was lowered for",
                )
        return self._run(*self._buffers(leaves, self._types))

    def as_text(self) -> str:
        """The optimised program."""
        return self._executable.as_text()

    __str__ = as_text

    @property
    def input_shardings(self) -> Any:
        """The shardings of the arguments, in the structure of `(args, kwargs)`."""
        return self.in_tree.unflatten(self._executable.shardings()[0])

    @property
    def output_shardings(self) -> Any:
        """The shardings of the results, in their structure."""
        return self.out_tree.unflatten(self._executable.shardings()[1])

    @property
    def input_formats(self) -> Any:
        """The shardings and memory layouts of the arguments, in the structure of `(args, kwargs)`."""
        return self.in_tree.unflatten(map(Format, self._executable.layouts()[0], self._executable.shardings()[0]))

    @property
    def output_formats(self) -> Any:
        """The shardings and memory layouts of the results, in their structure."""
        return self.out_tree.unflatten(map(Format, self._executable.layouts()[1], self._executable.shardings()[1]))

    def cost_analysis(self) -> dict[str, float]:
        """Estimates such as `flops` and `bytes accessed`."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """The bytes of arguments, outputs, temporary memory and code."""
        return self._executable.memory_analysis()

    def runtime_executable(self) -> Any:
        """The backend's executable."""
        return self._executable
