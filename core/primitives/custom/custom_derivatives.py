"""User-defined derivatives: `custom_jvp`, `custom_vjp` and functions built on them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...ir.array import ArrayLike
from ...ir.binding import current_trace, is_evaluating
from ...ir.extension_types import is_opaque
from ...ir.primitive import Zero
from ...ir.program import Program
from ...ir.types import ArrayType, is_float, is_inexact
from ...support import pytree
from ...support.call_errors import by_position
from ...support.errors import (
    ArgumentError,
    ArgumentTypeError,
    ControlFlowTypeError,
    DifferentiationError,
    ShapeError,
    plural,
)
from ...tracing.trace import Tracer, eval_program, of_line, trace_program, typeof
from ...transforms.cotangent_logs import log
from ...transforms.rule_helpers import instantiate
from ...transforms.structural_primitives import add_tangents
from ..control_flow.subprograms import close, convert, immutable
from .custom_derivative_primitives import CustomJVP, CustomVJP, bind_linear_call

if TYPE_CHECKING:
    from ...support.pytree import PyTree, PyTreeDef

__all__ = [
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]


class SymbolicZero:
    """A tangent or cotangent known to be zero, as rules with `symbolic_zeros=True` see it."""

    def __init__(self, aval: ArrayType):
        self.aval = aval

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.show()})"


@dataclass(frozen=True)
class CustomVJPPrimal:
    """An argument of a forward rule with `symbolic_zeros=True`: its value, and whether it is differentiated."""

    value: Any
    perturbed: bool


def custom_vjp_primal_tree_values(args: Any) -> Any:
    """The values of the arguments that a forward rule with `symbolic_zeros=True` takes.

    >>> custom_vjp_primal_tree_values({"x": CustomVJPPrimal(2.0, True)})
    {'x': 2.0}
    """
    return pytree.map(lambda leaf: leaf.value, args, is_leaf=lambda leaf: isinstance(leaf, CustomVJPPrimal))


def zero_from_primal(val: PyTree, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a pytree of values: arrays, or `SymbolicZero`s.

    >>> print(zero_from_primal(2.0))
    0.0
    """
    make = SymbolicZero if symbolic_zeros else lambda type_: instantiate(Zero(type_))
    return pytree.map(lambda x: make(typeof(x).tangent()), val)


def _seen(x: ArrayLike | Zero, symbolic: bool) -> Any:
    """A flat rule's tangent as the user's rule takes it."""
    if symbolic:
        return SymbolicZero(x.type) if type(x) is Zero else x
    return instantiate(x)


def _returned(x: ArrayLike | None, expected: ArrayType, what: str, wider: bool = False) -> Any:
    """What a user's rule gives as a (co)tangent, of the type that it must have; `wider`: or of another float's."""
    if x is None or isinstance(x, (Zero, SymbolicZero)) or not is_inexact(expected.dtype):
        return Zero(expected)
    found = typeof(x)
    if found.shape != expected.shape:
        raise ShapeError(
            f"{what} has type {found.show()}, expected {expected.show()}", "return one of the shape of its primal"
        )
    alike = wider and is_float(found.dtype) and is_float(expected.dtype)
    if found.dtype != expected.dtype and not found.weak_type and not alike:
        raise ControlFlowTypeError(
            f"{what} has type {found.show()}, expected {expected.show()}", "cast it with `astype`"
        )
    return convert(x, expected)


def _zero_leaf(x: ArrayLike | Zero | None) -> bool:
    return x is None or isinstance(x, (Zero, SymbolicZero))


def _at_leaves(structure: PyTreeDef, value: Any) -> list[Any] | None:
    """A rule's (co)tangents at the leaves of a structure, None for zeros; None if they are of another structure."""
    try:  # a None of the structure itself has no leaf, and stays None
        found = structure.flatten_up_to(value)
    except (TypeError, ValueError):
        return None
    return found if all(_zero_leaf(x) or pytree.all_leaves([x]) for x in found) else None


def _output(out: Any) -> Any:
    """The structure, shapes and dtypes of an output; of opaque types the types."""
    leaves, structure = pytree.flatten(out)
    types = (typeof(x) for x in leaves)
    return structure, [t if is_opaque(t) else (t.shape, t.dtype) for t in types]


def _told(output: Sequence[Any]) -> str:
    structure, types = output
    return f"{structure} of {', '.join(f'{t[1]}{list(t[0])}' if isinstance(t, tuple) else t.show() for t in types)}"


class _Call:
    """One call of a function with rules: its differentiated arguments, flattened, and how to put all back.

    Traced arrays among the arguments that are not differentiated lead the flat arguments, so that rules may
    run after the trace that made them.
    """

    def __init__(self, fun: Callable[..., Any], args: Sequence[Any], fixed: frozenset[int]):
        self.fun, self.count = fun, len(args)
        self.places = [i for i in range(len(args)) if i not in fixed]
        self.fixed_places = [i for i in range(len(args)) if i in fixed]
        leaves, self.fixed_tree = pytree.flatten([args[i] for i in self.fixed_places])
        self.traced = [i for i, x in enumerate(leaves) if isinstance(x, Tracer)]
        extra = [leaves[i] for i in self.traced]
        self.fixed_leaves = [None if isinstance(x, Tracer) else x for x in leaves]
        flat, self.in_tree = pytree.flatten(tuple(args[i] for i in self.places))
        self.extra = len(extra)
        self.flat = [*extra, *(immutable(flat) if is_evaluating() else flat)]
        for x in flat:
            typeof(x)
        self.out_tree: Any = None
        self.own: Any = None  # the structure and types of what the function itself gave, where it ran

    def taken(self) -> list[Any]:
        """The flat arguments, which the call keeps no longer: its rules outlive the trace."""
        flat, self.flat = self.flat, []
        return flat

    def fixed(self, flat: Sequence[Any]) -> list[Any]:
        leaves = list(self.fixed_leaves)
        for i, x in zip(self.traced, flat, strict=False):
            leaves[i] = x
        return self.fixed_tree.unflatten(leaves)

    def merged(self, flat: Sequence[Any], wrap: Callable[[Sequence[Any]], Sequence[Any]] = lambda x: x) -> list[Any]:
        """The user's positional arguments."""
        args: list[Any] = [None] * self.count
        for i, x in zip(self.fixed_places, self.fixed(flat), strict=True):
            args[i] = x
        for i, x in zip(self.places, self.in_tree.unflatten(wrap(flat[self.extra :])), strict=True):
            args[i] = x
        return args

    def outputs(self, out: Any, rule: str) -> list[Any]:
        """The flat outputs that a rule gives for those of the function."""
        leaves, self.out_tree = pytree.flatten(out)
        shown = _output(out)
        if self.own not in (None, shown):
            raise ControlFlowTypeError(f"{rule} gives the output {_told(shown)}, the function {_told(self.own)}",
                                       "return the function's output first")  # fmt: skip
        return leaves

    def __call__(self, *flat: Any) -> list[Any]:
        out = self.fun(*self.merged(flat))
        self.own = _output(out)
        leaves, self.out_tree = pytree.flatten(out)
        return leaves

    def check_fixed(self, nonzero: Sequence[bool]) -> None:
        if any(nonzero[: self.extra]):
            raise DifferentiationError(
                "an argument named in nondiff_argnums is being differentiated",
                "leave it out of nondiff_argnums, or use `stop_gradient`",
            )


def rule_setter(self: Any, name: str) -> Any:
    """The method of that name of the function within, where that takes rules of another kind (`def_vmap`)."""
    if not name.startswith("def"):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    return getattr(self.fun, name)


class _Custom:
    """What `custom_jvp` and `custom_vjp` share."""

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        functools.update_wrapper(self, fun, updated=())  # type: ignore[arg-type]
        self.fun = fun
        try:
            self.signature = inspect.signature(fun)
        except (ValueError, TypeError):
            self.signature = None
        names = list(self.signature.parameters) if self.signature else []
        if isinstance(fun, functools.partial):
            self.signature = None  # arguments bound by name count as given by name alone
        for name in nondiff_argnames:
            if name not in names:
                raise ArgumentError(f"{self._name} has no argument {name!r}", f"the arguments are {', '.join(names)}")
        self.nondiff_argnums = frozenset(nondiff_argnums) | {names.index(n) for n in nondiff_argnames}

    @property
    def _name(self) -> str:
        return getattr(self.fun, "__name__", repr(self.fun))

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        if self.signature is not None:
            args = by_position(self.signature, args, kwargs, self._name)
        fixed = frozenset(i % len(args) for i in self.nondiff_argnums) if args else frozenset()
        return _Call(self.fun, args, fixed)

    def _missing(self, method: str) -> DifferentiationError:
        return DifferentiationError(f"{self._name} was given no rule", f"call its `{method}` first")

    __getattr__ = rule_setter

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)  # type: ignore[arg-type]


class custom_jvp[**P, R](_Custom):
    """A function whose derivative is given by a rule for tangents, set with `defjvp` or `defjvps`.

    `nondiff_argnums` (or `nondiff_argnames`) are passed to the rule first, as they are. Raises
    `DifferentiationError` on a call before a rule is set.

    >>> import tilewright as tw
    >>> @tw.custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 3.0 * x * t
    >>> print(tw.grad(f)(2.0))
    6.0
    """

    symbolic_zeros: bool

    def __init__(
        self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp[F: Callable[..., Any]](self, jvp: F, symbolic_zeros: bool = False) -> F:
        """Set the rule `jvp(*nondiff, primals, tangents) -> out, tangent_out`; gives it back, as a decorator does."""
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule for each argument, `jvp_i(t, out, *primals) -> tangent_out`; None where there is no derivative."""
        if self.nondiff_argnums:
            raise ArgumentError("defjvps does not go with nondiff_argnums", "use `defjvp`")

        function: Any = self

        def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            out = function(*primals)
            total = pytree.map(lambda o: Zero(typeof(o).tangent()), out)
            for rule, t in zip(jvps, tangents, strict=True):
                if rule is not None and not all(isinstance(x, SymbolicZero) for x in pytree.leaves(t)):
                    term = rule(
                        pytree.map(lambda x: instantiate(Zero(x.aval)) if isinstance(x, SymbolicZero) else x, t),
                        out,
                        *primals,
                    )
                    total = pytree.map(add_tangents, total, term, is_leaf=_zero_leaf)
            return out, total

        self.defjvp(jvp, symbolic_zeros=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.jvp is None:
            raise self._missing("defjvp")
        call = self._call(args, kwargs)
        outs = current_trace().custom_jvp(CustomJVP(call, functools.partial(self._rule, call)), call.taken())
        return call.out_tree.unflatten(outs)

    def _rule(self, call: _Call, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        call.check_fixed([type(t) is not Zero for t in tangents])
        seen = [_seen(t, self.symbolic_zeros) for t in tangents[call.extra :]]
        own, given = call.in_tree.unflatten(primals[call.extra :]), call.in_tree.unflatten(seen)
        pair = of_line(None, self.jvp, *call.fixed(primals), own, given)  # type: ignore[arg-type]
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ArgumentTypeError(
                f"the jvp rule of {self._name} returned {type(pair).__name__}",
                "return a pair (primal output, tangent output)",
            )
        outs = call.outputs(pair[0], f"the jvp rule of {self._name}")
        found = _at_leaves(call.out_tree, pair[1])
        if found is None:
            raise ControlFlowTypeError(
                f"the jvp rule of {self._name} returns an output {call.out_tree} and a tangent "
                f"{pytree.structure(pair[1], _zero_leaf)}", "make them alike")  # fmt: skip
        what = f"a tangent from the jvp rule of {self._name}"
        return outs, [_returned(t, typeof(o).tangent(), what) for t, o in zip(found, outs, strict=True)]


class custom_vjp[**P, R](_Custom):
    """A function whose reverse-mode derivative is given by two rules, set with `defvjp`.

    `fwd(*args) -> out, residuals` and `bwd(*nondiff, residuals, ct) -> cts`, a tuple with one for each
    differentiated argument (None for zero). Forward mode of it raises `DifferentiationError`.

    >>> import tilewright as tw
    >>> @tw.custom_vjp
    ... def f(x):
    ...     return x * x
    >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (3.0 * x * ct,))
    >>> print(tw.grad(f)(2.0))
    6.0
    """

    symbolic_zeros: bool

    def __init__(
        self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = self.tells = False

    def defvjp(
        self,
        fwd: Callable[..., tuple[R, Any]],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules."""
        self.fwd, self.bwd, self.symbolic_zeros, self.tells = fwd, bwd, symbolic_zeros, False

    def defvjp_with_logs(self, fwd: Callable[..., Any], bwd: Callable[..., Any], **how: Any) -> None:
        """Set the rules, of which `bwd` gives a pair: the cotangents, and a dictionary of what it tells, or None.

        `pullback.with_logs(ct)` returns the logs of rules; otherwise they are dropped.
        """
        self.defvjp(fwd, bwd, **how)
        self.tells: bool = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.fwd is None:
            raise self._missing("defvjp")
        call = self._call(args, kwargs)
        rules = _Rules(self, call)
        outs = current_trace().custom_vjp(CustomVJP(call, rules.forward), call.taken())
        return call.out_tree.unflatten(outs)


_NUMBERS = frozenset((bool, int, float, complex))


class _Rules:
    """The flat rules of one call of a `custom_vjp`."""

    def __init__(self, custom: custom_vjp, call: _Call):
        self.custom, self.call = custom, call
        self.types = [typeof(x).tangent() for x in call.flat]

    def forward(self, primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        call, custom = self.call, self.custom
        call.check_fixed(nonzero)

        def marked(flat: Sequence[Any]) -> Sequence[Any]:
            return [CustomVJPPrimal(x, p) for x, p in zip(flat, nonzero[call.extra :], strict=True)]

        args = call.merged(primals, marked) if custom.symbolic_zeros else call.merged(primals)
        pair = of_line(None, custom.fwd, *args)  # type: ignore[arg-type]
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ArgumentTypeError(
                f"the forward rule of {custom._name} returned {type(pair).__name__}",
                "return a pair (output, residuals)",
            )
        outs = call.outputs(pair[0], f"the forward rule of {custom._name}")
        residuals, held_tree = pytree.flatten(pair[1])
        numbers = [x if type(x) in _NUMBERS else None for x in residuals]  # which stay what they are
        arrays = [x for x, number in zip(residuals, numbers, strict=True) if number is None]
        backward = functools.partial(self._backward, call.out_tree, held_tree, numbers)
        return outs, [*primals[: call.extra], *arrays], backward

    def _backward(
        self, out_tree: PyTreeDef, held_tree: PyTreeDef, numbers: Sequence[Any], residuals: Sequence[Any],
        cts: Sequence[Any],
    ) -> list[Any]:  # fmt: skip
        """The backward rule of one run of the forward rule, which supplied the first three."""
        call, custom = self.call, self.custom
        ct = out_tree.unflatten([_seen(x, custom.symbolic_zeros) for x in cts])
        arrays = iter(residuals[call.extra :])
        held = held_tree.unflatten([next(arrays) if number is None else number for number in numbers])
        found = of_line(None, custom.bwd, *call.fixed(residuals), held, ct)  # type: ignore[arg-type]
        if custom.tells:
            if not isinstance(found, (tuple, list)) or len(found) != 2:
                raise ArgumentTypeError(f"the backward rule of {custom._name} returned {type(found).__name__}",
                                        "return a pair (cotangents, log entries)")  # fmt: skip
            found, told = found
            log(told)
        children = pytree.treedef_children(call.in_tree)
        if not isinstance(found, (tuple, list)) or len(found) != len(children):
            shown = f"a tuple of {len(found)}" if isinstance(found, tuple) else type(found).__name__
            raise ArgumentTypeError(
                f"the backward rule of {custom._name} returned {shown}, for {plural(len(children), 'argument')}",
                "return a tuple with one cotangent for each differentiated argument",
            )
        what = f"a cotangent from the backward rule of {custom._name}"
        out: list[Any] = [Zero(t) for t in self.types[: call.extra]]
        for value, child in zip(found, children, strict=True):
            for x, t in zip(self._leaves(value, child), self.types[len(out) :], strict=False):
                ct = _returned(x, t, what, wider=True)
                # A zero that is said counts as any value: rules before this one are called.
                out.append(instantiate(ct) if x is None and is_inexact(t.dtype) else ct)
        return out

    def _leaves(self, value: ArrayLike | None, child: PyTreeDef) -> list[Any]:
        if _zero_leaf(value) or not child.num_leaves:  # what is said of an argument without arrays counts for nothing
            return [None] * child.num_leaves
        leaves = _at_leaves(child, value)
        if leaves is None:
            raise ControlFlowTypeError(
                f"the backward rule of {self.custom._name} returns a cotangent {pytree.structure(value, _zero_leaf)} "
                f"for an argument {child}", "return one of the argument's structure")  # fmt: skip
        return leaves


# ---------------------------------------------------------------------------- built on them


@pytree.register_static
class _Pullback:
    """A user's pullback as a Program, held in a tree of residuals without being a leaf."""

    def __init__(self, program: Program, out_tree: PyTreeDef, count: int):
        self.program, self.out_tree, self.count = program, out_tree, count


def _converted(fun: Callable[..., Any], args: Sequence[Any]) -> tuple[Program, Any, Any]:
    flat, in_tree = pytree.flatten(tuple(args))
    out_tree: list[Any] = []

    def traced(*leaves: Any) -> list[Any]:
        outs, structure = pytree.flatten(fun(*in_tree.unflatten(leaves)))
        out_tree.append(structure)
        return outs

    program = trace_program(traced, [typeof(x) for x in flat], getattr(fun, "__name__", "converted"))
    return program, in_tree, out_tree[0]


def custom_gradient(fun: Callable[..., Any] | None = None, *, with_logs: bool = False) -> Callable[..., Any]:
    """Decorate a function that returns its value together with its pullback, a function of the output's cotangent.

    With `with_logs` the pullback gives a pair, as the backward rule of `custom_vjp.defvjp_with_logs` does.

    >>> import tilewright as tw
    >>> @tw.custom_gradient
    ... def f(x):
    ...     return x * x, lambda ct: 3.0 * x * ct
    >>> print(tw.grad(f)(2.0))
    6.0
    """
    if fun is None:
        return functools.partial(custom_gradient, with_logs=with_logs)

    @custom_vjp
    @functools.wraps(fun, updated=())
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def forward(*args: Any) -> Any:
        out, pullback = fun(*args)
        example = pytree.map(lambda o: instantiate(Zero(typeof(o).tangent())), out)
        program, _, out_tree = _converted(pullback, [example])
        # What the pullback closes over travels as residuals, so that it can be differentiated again.
        program, values = close(program)
        return out, (values, _Pullback(program, out_tree, len(args)))

    def backward(residuals: PyTree, ct: ArrayLike) -> Any:
        values, held = residuals
        result = held.out_tree.unflatten(eval_program(held.program, *values, *pytree.leaves(ct)))
        cts, told = result if with_logs else (result, None)
        cts = (cts,) if held.count == 1 and not isinstance(cts, tuple) else tuple(cts)
        return (cts, told) if with_logs else cts

    (wrapped.defvjp_with_logs if with_logs else wrapped.defvjp)(forward, backward)
    return wrapped


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A function that takes what `fun` closes over as arguments, and those values.

    Gives `converted(*args, *values)` and the list of the traced floating-point `values`, so that a rule of
    `custom_vjp` can be given them as arguments.

    >>> import tilewright as tw
    >>> converted, values = tw.closure_convert(lambda x: 2.0 * x, 1.0)
    >>> print(converted(3.0, *values))
    6.0
    """
    program, in_tree, out_tree = _converted(fun, example_args)
    moves = [isinstance(x, Tracer) and is_inexact(typeof(x).dtype) for x in program.values]
    pairs = list(zip(program.constants, program.values, moves, strict=True))
    held = [(v, x) for v, x, m in pairs if not m]
    n = len(in_tree.unflatten(range(in_tree.num_leaves)))
    open_program = program.replace(
        inputs=(*(v for v, _, m in pairs if m), *program.inputs),
        constants=tuple(v for v, _ in held),
        values=tuple(x for _, x in held),
    )

    def converted(*args: Any) -> Any:
        own, values = args[:n], args[n:]
        leaves, structure = pytree.flatten(tuple(own))
        if structure != in_tree or len(values) != sum(moves):
            raise ArgumentTypeError(
                f"a converted function was called with {structure} and {len(values)} values that it closed over",
                f"call it as on its example, {in_tree}, and on the {sum(moves)} values")  # fmt: skip
        return out_tree.unflatten(eval_program(open_program, *values, *leaves))

    return converted, [x for _, x, m in pairs if m]


def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """`fun(residual_args, linear_args)`, linear in its second argument, whose transpose is given.

    `fun_transpose(residual_args, ct)` gives a tree like `linear_args`.

    >>> import tilewright as tw
    >>> from tilewright.core.primitives.custom.custom_derivatives import linear_call
    >>> f = lambda x: linear_call(lambda r, x: r * x, lambda r, ct: 5.0 * ct, 2.0, x)
    >>> print(f(3.0), tw.grad(f)(3.0))
    6.0 5.0
    """
    residuals, res_tree = pytree.flatten(residual_args)
    linear, in_tree = pytree.flatten(linear_args)
    k = len(residuals)
    out_trees: list[Any] = []

    def forward(*flat: Any) -> list[Any]:
        outs, structure = pytree.flatten(fun(res_tree.unflatten(flat[:k]), in_tree.unflatten(flat[k:])))
        out_trees.append(structure)
        return outs

    def backward(*flat: Any) -> list[Any]:
        cts, structure = pytree.flatten(fun_transpose(res_tree.unflatten(flat[:k]), out_trees[0].unflatten(flat[k:])))
        if structure != in_tree:
            raise ControlFlowTypeError(
                f"the transpose given to linear_call returns {structure}, its argument is {in_tree}",
                "return a tree like the linear arguments",
            )
        return cts

    outs = bind_linear_call(forward, backward, residuals, linear)
    return out_trees[0].unflatten(outs)
