"""`jit`: trace a function once for each kind of arguments, compile it, and run that.

The backend of the runtime (`core/ir/backend.py`) compiles and runs. Calls on arrays and NumPy arrays alone (the flat
case) are dispatched by `core/jit/dispatch_cache.py`; pytrees and numbers take the general path, `Jit.call`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from ..api.transformations import struct_of
from ..ir.binding import EVAL, _current
from ..ir.extension_types import OpaqueType
from ..ir.passes import hoist
from ..ir.program import Program
from ..ir.types import ArrayType, RefType
from ..primitives.control_flow.jit_primitive import jit_p
from ..primitives.control_flow.subprograms import immutable
from ..support import pytree as tree
from ..support.compile_events import TRACE, logger, recorded
from ..support.config import current, watched
from ..support.errors import (
    ArgumentError,
    ArgumentTypeError,
    MeshError,
    NonArrayArgumentError,
    NonFiniteError,
    NonHashableStaticArgumentError,
    TracingError,
    TreeError,
    plural,
    user_source,
)
from ..support.lazy_imports import LazyModule
from ..support.runtime import runtime
from ..support.transfer_guard import HOST_TO_DEVICE, guard
from ..tracing.trace import Value, as_type, axis_environment, eval_program, trace_program, typeof
from .dispatch_cache import Known, array_key, dispatched, kind_of, placement, specialize
from .retrace_explanation import why
from .stages import CompilerOptions, JitDecorator, Lowered, Traced, Wrapped, flags_of

if TYPE_CHECKING:
    from ..random import key_reuse_checker
else:
    key_reuse_checker = LazyModule("..random.key_reuse_checker", __package__)


class Options(NamedTuple):
    """The arguments of `jit`, checked."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool = False
    device: Any = None
    in_shardings: Any = None
    out_shardings: Any = None
    compiler_options: tuple[tuple[str, Any], ...] = ()


class Entry:
    """A function traced for one kind of arguments."""

    __slots__ = ("closed", "program", "constants", "out_tree", "donated", "run", "lock")
    closed: Program
    out_tree: Any
    donated: tuple[bool, ...]
    program: Program
    constants: list[Any]

    def __init__(self, closed: Program, out_tree: Any, donated: tuple[bool, ...]):
        self.closed, self.out_tree, self.donated = closed, out_tree, donated
        self.program, self.constants = hoist(closed)
        self.run: Callable[..., Any] | None = None
        self.lock: threading.RLock = threading.RLock()  # while it is compiled, which runs none of the user's code

    @property
    def bound(self) -> bool:
        """Whether it takes, closes over or returns what is no array of the executable's own: Refs, opaque values."""
        program = self.program
        return any(isinstance(t, (RefType, OpaqueType)) for t in (*program.in_types, *program.out_types))

    @property
    def form(self) -> str:
        """How results are assembled, named for the forms that need no pytree."""
        zeros = (0,) * self.out_tree.num_leaves
        forms = {"one": 0, "tuple": zeros, "list": [*zeros]} if zeros else {}
        return next((name for name, form in forms.items() if self.out_tree == tree.structure(form)), "tree")


_shared = runtime.weak_cache("jit.known")


def _known_of(fun: Callable[..., Any], options: Options) -> Known:
    """What is known of a function, shared by all its `jit` wrappers with the same options."""
    if hasattr(fun, "__self__") and not isinstance(fun, types.FunctionType):
        return Known()  # bound methods are made afresh at each look-up
    try:
        known = _shared.setdefault(fun, {})
        return known.get(options) or known.setdefault(options, Known())
    except TypeError:  # not hashable, or without weak references
        return Known()


class Jit:
    """What is behind a function that `jit` made: `function` is what the user calls. `ours`: see `Known`."""

    def __init__(self, fun: Callable[..., Any], options: Options, ours: bool = False):
        self._fun, self._options = fun, options
        self._name = getattr(fun, "__name__", type(fun).__name__)
        self._static = bool(options.static_argnums or options.static_argnames)
        self._ours = ours
        # None says nothing of a part, so that trees of None say nothing at all.
        self._placed = bool(tree.leaves((options.in_shardings, options.out_shardings)))
        self.known: Known = Known(ours) if ours else _known_of(fun, options)
        self.function: Any = self._make_function()

    def _make_function(self) -> Any:
        function = functools.update_wrapper(dispatched(self.known, self.call, self.known.runs), self._fun)
        for name in ("trace", "lower", "eval_shape", "clear_cache", "_cache_size"):
            setattr(function, name, getattr(self, name))
        function.__jit__ = self
        return function

    def __repr__(self) -> str:
        return f"<jit of {self._fun!r}>"

    # ------------------------------------------------------------ calling

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function on any arguments."""
        config = current()
        if config.disable_jit:
            dynamic, named, statics = self._split(args, kwargs)
            values, named = _merged(immutable(dynamic), immutable(named), statics)
            return self._fun(*values, **named)
        given = (args, kwargs)
        args, kwargs, statics = self._split(args, kwargs) if self._static else (args, kwargs, ())
        try:
            leaves, treedef = tree.registry.flatten((args, kwargs), None)
        except SystemError:
            raise tree.too_deep() from None
        if _current.get() is not EVAL:
            return self._bind(self._entry(leaves, treedef, statics, given), leaves, treedef)
        held = runtime.backend.held(leaves)
        if held is not None:
            kinds, buffers = held
        else:
            kinds, buffers = runtime.backend.kinds(leaves) or self._kinds(leaves, given), None
        key = (self.known, config, treedef, statics, *kinds)
        run = self.known.runs.get(key)
        if run is None:
            entry = self._entry(leaves, treedef, statics, given)
            if entry.bound:
                return self._bind(entry, leaves, treedef)
            place = placement(kinds)
            if self._placed:
                place = self._ins(treedef, place)
            run = self._prepare(key, leaves, treedef, entry, given, place)
        if config.watches:
            return self._watched(config, run, leaves, kinds, treedef, statics, given)
        return run(*(self._buffers(leaves, kinds) if buffers is None else buffers))

    def _kinds(self, leaves: list[Any], given: Sequence[Any]) -> list[Any]:
        try:
            return [*map(kind_of, leaves)]
        except NonArrayArgumentError:
            return self._types(leaves, given)  # which names the argument

    def _buffers(self, leaves: list[Any], kinds: Sequence[Any]) -> Sequence[Any]:
        """`kinds`: those of NumPy arrays and numbers are their types, and others are not read."""
        donates = self._options.donate_argnums or self._options.donate_argnames
        return runtime.backend.buffers(leaves, kinds, kept=not donates)

    def _prepare(
        self, key: Sequence[Any], leaves: list[Any], treedef: Any, entry: Entry, given: Sequence[Any], place: Any
    ) -> Callable[..., Any]:
        """Compile; enter what runs under the key, and under that of the fast path where there is one.

        `place`: how the arguments are to lie on a mesh, a sharding or None for each; None where nothing is said of it.
        """
        both = self._both(entry, place)
        if both is not None and self._options.device is None:
            module = self._module(entry, both)
            executable = runtime.backend.compile(module, self._options.device, self._options.compiler_options)
            run = runtime.backend.runner(executable, entry.form, entry.out_tree.unflatten)
            self._remember(key, treedef, given, leaves, run)
            return self.known.runs.keep(key, run)
        with entry.lock:  # threads that call a new function at once compile it once
            if entry.run is None:
                options, module = self._options, self._module(entry)
                if options.device is not None and module.place is not None:
                    raise MeshError(f"{self._name} is to run on the device {options.device}, and computes on a mesh",
                                    "leave out `device` or `backend`, or the mesh")  # fmt: skip
                executable = runtime.backend.compile(module, options.device, options.compiler_options)
                entry.run = runtime.backend.runner(executable, entry.form, entry.out_tree.unflatten)
        self._remember(key, treedef, given, leaves, entry.run)
        return self.known.runs.keep(key, entry.run)

    def _remember(
        self, key: Sequence[Any], treedef: Any, given: Sequence[Any], leaves: list[Any], run: Callable[..., Any]
    ) -> None:
        """Enter what runs on some arguments under the key that the fast path has for them, if it has one."""
        owner, config, *_ = key
        args, kwargs = given
        if kwargs or self._static or config.watches or treedef != tree.structure(((0,) * len(args), {})):
            return
        self.known.runs.keep(array_key(owner, config, leaves), run)
        if all(isinstance(x, Value | np.ndarray) for x in leaves):
            specialize(self.function, len(args))

    def _module(self, entry: Entry, place: Sequence[Any] | None = None, platform: str | None = None) -> Any:
        searched = current().debug_nans or current().debug_infs  # arguments are read again where a result is not finite
        donated = [i for i, d in enumerate(entry.donated) if d and not searched]
        how: dict[str, Any] = {} if platform is None else {"platform": platform}
        return runtime.backend.lower(entry.closed, self._name, donated, self._options.keep_unused, place, **how)

    # ------------------------------------------------------------ on a mesh

    def _ins(self, treedef: Any, lying: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """The required shardings of the arguments: `in_shardings`, else their own."""
        lying = lying or (None,) * treedef.num_leaves
        if self._options.in_shardings is None:
            return lying
        args, _ = treedef.unflatten(range(treedef.num_leaves))
        asked = flat_shardings(self._options.in_shardings, args, f"in_shardings of {self._name}")
        _decided(asked, "in_shardings")
        return tuple(s or now for s, now in zip(asked + (None,) * treedef.num_leaves, lying))

    def _outs(self, entry: Entry) -> tuple[Any, ...]:
        """The required shardings of the results; None leaves the choice to the compiler."""
        count = entry.out_tree.num_leaves
        if self._options.out_shardings is None:
            return (None,) * count
        results = entry.out_tree.unflatten(range(count))
        return _decided(flat_shardings(self._options.out_shardings, results, f"out_shardings of {self._name}"),
                        "out_shardings")  # fmt: skip

    def _both(self, entry: Entry, ins: Any) -> Any:
        """How arguments and results are to lie on a mesh; None where nothing is said of it."""
        if ins is None:
            return None
        both = ins, self._outs(entry)
        return both if any(s is not None for part in both for s in part) else None

    def _bind(self, entry: Entry, leaves: list[Any], treedef: Any) -> Any:
        if self._placed:  # within a program: constraints on what goes in and what comes out
            leaves = [x if s is None else s.constrain(x) for x, s in zip(leaves, self._ins(treedef), strict=True)]
        if self._options.inline:
            outs = eval_program(entry.program, *entry.constants, *leaves)
        else:
            donated = (False,) * len(entry.constants) + entry.donated
            outs = jit_p.bind(*entry.constants, *leaves, program=entry.program, name=self._name,
                              donated=donated if any(donated) else (), inline=False)  # fmt: skip
        if self._placed:
            outs = [x if s is None else s.constrain(x) for x, s in zip(outs, self._outs(entry), strict=True)]
        return entry.out_tree.unflatten(outs)

    def _watched(
        self, config: Any, run: Callable[..., Any], leaves: list[Any], kinds: Sequence[Any], treedef: Any,
        statics: Sequence[Any], given: Sequence[Any],
    ) -> Any:  # fmt: skip
        """Run with checks on; a result that is not finite is traced to its equation."""
        if config.guards:
            _guard(leaves, self._name)
        try:
            out = run(*self._buffers(leaves, kinds))
        except NonFiniteError as error:
            raise runtime.backend.located(self._entry(leaves, treedef, statics, given).closed, leaves, error) from None
        if config.debug_key_reuse:
            entry = self._entry(leaves, treedef, statics, given)
            keys_used(entry.program, (*entry.constants, *leaves), tree.leaves(out), self._name)
        return out

    # ------------------------------------------------------------ tracing

    def _entry(self, leaves: list[Any], treedef: Any, statics: Sequence[Any], given: Sequence[Any]) -> Entry:
        in_types = self._types(leaves, given)
        entries = self.known.entries
        key = (self.known, current(), treedef, statics, tuple(in_types), axis_environment())
        entry = entries.get(key)
        if entry is not None:
            return entry
        with self.known.making(key):
            entry = entries.get(key)
            if entry is None:
                if watched.explain_cache_misses and not self._ours:
                    self._tell_why(key)
                if current().no_tracing:
                    shown = ", ".join(t.show() for t in in_types)
                    raise TracingError(f"{self._name} would be traced for ({shown}), and no_tracing is set",
                                       "trace it before")  # fmt: skip
                flat, out_tree = self._flat(treedef, statics)
                with contextlib.nullcontext() if self._ours else recorded(TRACE, self._name):
                    program = trace_program(flat, in_types, self._name)  # here, so that nested calls take few frames
                if current().debug_key_reuse:
                    key_reuse_checker.consumed(program)
                entry = Entry(program, out_tree[0], self._donated(treedef, statics))
                # Constants that are traced values belong to the transformation under way, not to the function.
                if not any(getattr(c, "_trace", EVAL) is not EVAL for c in entry.constants):
                    entry = entries.keep(key, entry)
        return entry

    def _flat(self, treedef: Any, statics: Sequence[Any]) -> tuple[Callable[..., list[Any]], list[Any]]:
        """The function from leaves to leaves, and a list that a call of it adds the structure of the results to."""
        out_trees: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            args, kwargs = treedef.unflatten(leaves)
            args, kwargs = _merged(args, kwargs, statics)
            outs, out_tree = tree.flatten(self._fun(*args, **kwargs))
            out_trees.append(out_tree)
            for x in outs:
                self._check_output(x)
            return outs

        return flat, out_trees

    def _tell_why(self, key: Sequence[Any]) -> None:
        """Log why a call needs a trace."""
        known = [k for k in list(self.known.entries) if k[0] is self.known]
        reason = why(self._fun, key, known, list(_shared), _positional_names(self._fun))
        logger.warning(f"{self._name} is traced ({user_source()}): {reason}")

    def _check_output(self, x: Any) -> None:
        try:
            typeof(x)
        except NonArrayArgumentError as error:
            raise NonArrayArgumentError(
                f"a result of {self._name}: {error.what}", "return arrays, numbers or pytrees of them"
            ) from None

    def _types(self, leaves: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        try:
            return [typeof(x) for x in leaves]
        except NonArrayArgumentError:
            pass
        args, kwargs = given
        for number, value in enumerate(args):
            self._check_argument(self._argument_name(number), value, number in self._options.static_argnums)
        for name, value in kwargs.items():
            self._check_argument(name, value, name in self._options.static_argnames)
        raise AssertionError("an argument is not an array, and none is at fault")

    def _check_argument(self, name: str, value: Any, static: bool) -> None:
        if static:
            return
        for path, leaf in tree.leaves_with_path(value):
            try:
                typeof(leaf)
            except NonArrayArgumentError as error:
                where = name + tree.keystr(path)
                what = f"argument {where} of {self._name}: {error.what}"
                raise NonArrayArgumentError(what, error.remedy) from None

    def _argument_name(self, number: int) -> str:
        names = _positional_names(self._fun)
        return names[number] if number < len(names) else f"number {number}"

    # ------------------------------------------------------------ static and donated arguments

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Arguments without the static ones, and those as hashable `(place, type, value)`."""
        options = self._options
        places = {i % len(args) if i < 0 else i for i in options.static_argnums if -len(args) <= i < len(args)}
        statics = [(i, args[i]) for i in sorted(places)]
        statics += [(name, kwargs[name]) for name in sorted(kwargs) if name in options.static_argnames]
        for place, value in statics:
            try:
                hash(value)
            except TypeError:
                name = place if isinstance(place, str) else self._argument_name(place)
                raise NonHashableStaticArgumentError(
                    f"static argument {name} of {self._name} is {_short(value)} of type {type(value).__name__}, "
                    "which cannot be hashed",
                    "pass a tuple, a string, a number or a frozen dataclass, or an array that is not static",
                ) from None
        dynamic = tuple(x for i, x in enumerate(args) if i not in places)
        named = {name: x for name, x in kwargs.items() if name not in options.static_argnames}
        return dynamic, named, tuple((place, type(value), value) for place, value in statics)

    def _donated(self, treedef: Any, statics: Sequence[Any]) -> tuple[bool, ...]:
        """Which flat arguments are donated."""
        options = self._options
        if not (options.donate_argnums or options.donate_argnames):
            return (False,) * treedef.num_leaves
        children = treedef.children()
        positional, named = children[0].children(), children[1].children()
        names = sorted(children[1].node_data()[1] or ())
        taken = {place for place, _, _ in statics if isinstance(place, int)}
        count = len(positional) + len(taken)
        places = [i for i in range(count) if i not in taken]
        wanted = {i % count if i < 0 else i for i in options.donate_argnums} if count else set()
        flags: list[bool] = []
        for place, child in zip(places, positional, strict=True):
            flags += [place in wanted] * child.num_leaves
        for name, child in zip(names, named, strict=True):
            flags += [name in options.donate_argnames] * child.num_leaves
        return tuple(flags)

    # ------------------------------------------------------------ ahead of time

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for arguments given as arrays or by shape and dtype."""
        given = (args, kwargs)
        dynamic, named, statics = self._split(args, kwargs) if self._static else (args, kwargs, ())
        leaves, treedef = tree.flatten((dynamic, named))
        structs = [_as_struct(x) for x in leaves]
        entry = self._entry(structs, treedef, statics, given)
        lying = _decided(tuple(map(_stated, leaves)), "an argument")
        ins = self._ins(treedef, lying) if self._placed or any(lying) else None
        return Traced(self, entry, treedef, statics, self._both(entry, ins))

    def dynamic(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Arguments without the static ones."""
        return self._split(args, kwargs)[:2] if self._static else (args, kwargs)

    @staticmethod
    def whole(args: Sequence[Any], kwargs: Mapping[str, Any], statics: Sequence[Any]) -> tuple[Any, Any]:
        """Arguments with the static ones put back."""
        return _merged(args, kwargs, statics)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and print for arguments given as arrays or by shape and dtype; `.compile()` goes on."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the result."""
        entry = self.trace(*args, **kwargs)._entry
        return entry.out_tree.unflatten([struct_of(t) for t in entry.program.out_types])

    def clear_cache(self) -> None:
        """Forget what was traced and compiled."""
        self.known.clear()

    def _cache_size(self) -> int:
        return self.known.count()


class _Struct:
    """Stands for an argument of a known type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ArrayType):
        self.aval = aval


def _as_struct(x: Any) -> Any:
    try:
        return _Struct(as_type(x))
    except NonArrayArgumentError:
        return x  # named with its path by `_types`


def _stated(x: Any) -> Any:
    """The sharding over a mesh that an argument has, or that is stated for it."""
    place: Any = getattr(x, "sharding", None)
    return place if hasattr(place, "constrain") and not place.mesh.empty else None


def flat_shardings(shardings: Any, values: Any, what: str) -> tuple[Any, ...]:
    """A sharding or None for each leaf of a tree, from a prefix of it with shardings, specs and None."""
    try:
        found = tree.broadcast_prefix(shardings, values)
    except TreeError as error:
        what = f"{what} is not a prefix of their structure: {error.what}"
        raise ArgumentTypeError(what, "give one for each, or one for all") from None
    found = [s if hasattr(s, "placed") else getattr(s, "sharding", s) for s in found]  # of a Format, its sharding
    for s in found:
        if s is not None and not hasattr(s, "placed"):
            raise ArgumentTypeError(f"{what} holds {s!r}", "use a NamedSharding, a PartitionSpec or None")
    return tuple(s if s is None else s.placed(what) for s in found)


def _decided(shardings: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """Shardings of arguments or results, none of which leaves a dimension to the compiler."""
    for s in shardings:
        if s is not None:
            s.check_decided(what)
    return shardings


def _merged(args: tuple[Any, ...], kwargs: dict[str, Any], statics: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments with the static ones back in place."""
    if not statics:
        return list(args), kwargs
    merged, kwargs = list(args), dict(kwargs)
    for place, _, value in statics:
        if isinstance(place, int):
            merged.insert(place, value)
        else:
            kwargs[place] = value
    return merged, kwargs


def keys_used(program: Program, values: Sequence[Any], results: Sequence[Any], by: str) -> None:
    """Note which random keys a Program used up that ran on values, and raise for one that was used up before."""
    key_reuse_checker.ran(program, values, results, by)


def _guard(leaves: Sequence[Any], name: str) -> None:
    """Warn of NumPy arrays among arguments, which each call copies to the device, or raise."""
    for x in leaves:
        if isinstance(x, np.ndarray):
            what = f"an argument of {name} is a NumPy array of shape {x.shape}"
            guard(HOST_TO_DEVICE, what, "`device_put` it once, before the call")


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


# ---------------------------------------------------------------------------- the decorator


def _positional_names(fun: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (ValueError, TypeError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _named_places(fun: Callable[..., Any]) -> list[str]:
    """The names of the parameters that may be given by position or by name, "" for those that may not."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (ValueError, TypeError):
        return []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [p.name if p.kind is p.POSITIONAL_OR_KEYWORD else "" for p in positional]


def resolve_arguments(
    fun: Callable[..., Any], nums: int | Sequence[int] | None, names: Sequence[str] | None, what: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers and names of arguments, each completed by the other from the function's signature."""
    if nums is None and names is None:
        return (), ()
    places = _named_places(fun)
    numbers = None if nums is None else ((nums,) if isinstance(nums, int) else tuple(nums))
    chosen = None if names is None else ((names,) if isinstance(names, str) else tuple(names))
    for number in numbers or ():
        if not isinstance(number, int) or isinstance(number, bool):
            raise ArgumentTypeError(
                f"{what}_argnums holds {number!r}, which is not an integer", "give positions as integers"
            )
    _check_places(fun, numbers or (), chosen or (), what)
    if chosen is None:
        chosen = tuple(places[i] for i in numbers or () if -len(places) <= i < len(places) and places[i])
    elif numbers is None:
        numbers = tuple(places.index(name) for name in chosen if name in places)
    return tuple(sorted(set(numbers or ()))), tuple(sorted(set(chosen)))


def _check_places(fun: Callable[..., Any], numbers: Sequence[int], names: Sequence[str], what: str) -> None:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (ValueError, TypeError):
        if names and what == "donate":
            raise ArgumentError(f"donate_argnames of {_short(fun)}, whose signature is not known",
                                "pass donate_argnums") from None  # fmt: skip
        return
    kinds = {p.kind for p in parameters}
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    label = getattr(fun, "__name__", "the function")
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        for number in numbers:
            if not -len(positional) <= number < len(positional):
                raise ArgumentError(
                    f"{what}_argnums holds {number}, and {label} takes "
                    f"{plural(len(positional), 'positional argument')}",
                    f"a number from 0 to {len(positional) - 1}",
                )
    known = {p.name: p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters}
    more = inspect.Parameter.VAR_KEYWORD in kinds
    for name in names:
        if not known.get(name, more):
            raise ArgumentError(f"{what}_argnames holds {name!r}, which {label} does not take by name",
                                f"one of {[n for n, named in known.items() if named]}")  # fmt: skip


@overload
def jit[**P, R](
    fun: Callable[P, R], *, static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None, donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None, keep_unused: bool = False, device: Any = None,
    inline: bool = False, in_shardings: Any = None, out_shardings: Any = None, backend: str | None = None,
    compiler_options: CompilerOptions | None = None,
) -> Wrapped[P, R]: ...  # fmt: skip
@overload
def jit(
    fun: None = None, *, static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None, donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None, keep_unused: bool = False, device: Any = None,
    inline: bool = False, in_shardings: Any = None, out_shardings: Any = None, backend: str | None = None,
    compiler_options: CompilerOptions | None = None,
) -> JitDecorator: ...  # fmt: skip
def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    inline: bool = False,
    in_shardings: Any = None,
    out_shardings: Any = None,
    backend: str | None = None,
    compiler_options: CompilerOptions | None = None,
) -> Any:
    """Compile a function; it is traced once for each kind of arguments.

    Static arguments are passed to the function as they are and have to be hashable; each value is
    traced anew. Donated arguments give their memory to the results and cannot be used afterwards. With `inline` a call
    within another traced function leaves its equations there. `backend` is a
    platform whose first device runs the function, as `device` names one. `compiler_options` are flags of XLA's compiler
    by their names (`xla_...`).

    `in_shardings` and `out_shardings` say how arguments and results lie on a mesh: shardings, specs over the mesh in
    force or None, in prefixes of the trees of (dynamic) arguments and results. An argument that lies otherwise is
    brought there; what is not said the compiler decides.

    Raises:
      MeshError: meshes of different devices in one program, or a mesh beside `device` or `backend`.
      NonHashableStaticArgumentError: a static argument that cannot be hashed.
      NonArrayArgumentError: an argument that is neither static nor a pytree of arrays and numbers.

    >>> double = jit(lambda x: 2 * x)
    >>> float(double(1.5))
    3.0
    """
    if fun is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            donate_argnames=donate_argnames, keep_unused=keep_unused, device=device, inline=inline,
            in_shardings=in_shardings, out_shardings=out_shardings, backend=backend, compiler_options=compiler_options,
        )  # fmt: skip
    if not callable(fun):
        raise ArgumentTypeError(
            f"jit takes a function, got {_short(fun)} of type {type(fun).__name__}", "pass a callable"
        )
    if inspect.isgeneratorfunction(fun):
        raise ArgumentTypeError(f"jit takes a function, got the generator function {_short(fun)}",
                                "return a list of what it yields")  # fmt: skip
    static = resolve_arguments(fun, static_argnums, static_argnames, "static")
    donate = resolve_arguments(fun, donate_argnums, donate_argnames, "donate")
    if both := {*static[1]} & {*donate[1]}:
        names = ", ".join(sorted(both))
        raise ArgumentError(f"jit: {names} is static and donated", "donate arrays that are not static")
    if device is not None and backend is not None:
        raise ArgumentError(f"jit: device={device!r} and backend={backend!r} are both given", "give one of the two")
    where, flags = backend if device is None else device, flags_of(compiler_options)
    if where is not None and (in_shardings is not None or out_shardings is not None):
        raise ArgumentError(f"jit: {where!r} to run on, with in_shardings or out_shardings", "give one of the two")
    return Jit(fun, Options(*static, *donate, keep_unused, inline, where, in_shardings, out_shardings, flags)).function
