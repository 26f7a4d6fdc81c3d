"""Implicit solves: `custom_linear_solve` and `custom_root`, whose derivatives do not look into the solver.

linear_solve(*constants, *b; matvec, vecmat, program, transpose_solve, size) -> *x, *aux
each Program takes the constants and `size` vectors: `program` solves; `vecmat` and `transpose_solve` may be None
(forward mode only)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.array import Array, ArrayLike
from ...ir.binding import current_trace
from ...ir.primitive import AxisInfo, Linear, Zero, all_zero
from ...ir.program import Program
from ...support import pytree as tree
from ...support.errors import ArgumentTypeError, ControlFlowTypeError, DifferentiationError
from ...tracing.trace import eval_program, trace_program, typeof
from ...transforms.batching import batch_program
from ...transforms.jvp import jvp_flat
from ...transforms.linearize import linearize_flat
from ...transforms.rule_helpers import instantiate
from ...transforms.structural_primitives import add_tangents, moved
from ...transforms.transpose import transpose_program
from ..control_flow import program_primitive as held
from ..control_flow.subprograms import check_match, hoisted, with_output_types
from ..elementwise.arithmetic import neg_p
from ..spmd.varying_axes import mesh_axes, pvary
from .custom_derivative_primitives import CustomJVP

if TYPE_CHECKING:
    from ...ir.primitive import Primitive
    from ...support.pytree import PyTreeDef


__all__ = ["custom_linear_solve", "custom_root"]

Programs = dict[str, Any]


def _negative(t: Array) -> Any:
    return t if type(t) is Zero else neg_p.bind(t)


# ---------------------------------------------------------------------------- the primitive


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, matvec: Program, size: int, **params: Any) -> Any:
    """A x = b gives A dx = db - dA x: one more solve with the same operator."""
    params |= {"matvec": matvec, "size": size}
    outs = linear_solve_p.bind(*primals, **params)
    constants, x = primals[:-size], outs[:size]
    right = list(tangents[-size:])
    if not all_zero(tangents[:-size]):
        still = [Zero(typeof(v).tangent()) for v in x]
        moves = jvp_flat(functools.partial(eval_program, matvec), [*constants, *x], [*tangents[:-size], *still])[1]
        right = [add_tangents(db, _negative(m)) for db, m in zip(right, moves, strict=True)]
    aux = [Zero(typeof(o).tangent()) for o in outs[size:]]
    if all_zero(right):
        return outs, [*right, *aux]
    return outs, [*linear_solve_p.bind(*constants, *map(instantiate, right), **params)[:size], *aux]


def _transpose(
    cts: Sequence[Any], *args: Any, matvec: Program, vecmat: Program | None, program: Program,
    transpose_solve: Program | None, size: int,
) -> list[Any]:  # fmt: skip
    constants = args[:-size]
    if any(isinstance(c, Linear) for c in constants):
        raise DifferentiationError("a linear solve is not linear in what its operator closes over", "use `vjp`")
    if transpose_solve is None:
        raise DifferentiationError(
            "reverse-mode differentiation of `custom_linear_solve` without `transpose_solve`",
            "pass `transpose_solve`, or symmetric=True",
        )
    found = linear_solve_p.bind(
        *constants, *map(instantiate, cts[:size]), matvec=vecmat, vecmat=matvec, program=transpose_solve,
        transpose_solve=program, size=size,
    )  # fmt: skip
    return [*(None for _ in constants), *found[:size]]


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, size: int, **programs: Any) -> Any:
    split = len(args) - size
    operands = [x if d is None else moved(axis, x, d, 0) for x, d in zip(args[:split], dims, strict=False)]
    operands += [moved(axis, x, d, 0) for x, d in zip(args[split:], dims[split:], strict=True)]
    flags = (*(None if d is None else 0 for d in dims[:split]), *(0,) * size)
    batched = {k: p if p is None else batch_program(p, axis, flags, True)[0] for k, p in programs.items()}
    outs = linear_solve_p.bind(*operands, size=size, **batched)
    return outs, [0] * len(outs)


linear_solve_p: Primitive
linear_solve_p = held.holder("linear_solve", jvp=_jvp, transpose=_transpose, batch=_batch, expand=held.expand)


# ---------------------------------------------------------------------------- functions

_REMEDY = "return a value of the structure, shapes and dtypes of `b`"


def _traced(function: Callable[..., Any], structure: PyTreeDef, types: Sequence[Any], what: str, has_aux: bool) -> Any:
    """A function of one pytree that gives another of the same types, as a Program; with the structure of `aux`."""
    found: dict[str, Any] = {}

    def flat(*leaves: Any) -> list[Any]:
        out, aux = function(structure.unflatten(leaves)), None
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise ArgumentTypeError(f"{what} with has_aux=True returned {type(out).__name__}",
                                        "return a pair (value, auxiliary)")  # fmt: skip
            out, aux = out
        outs, found["tree"] = tree.flatten(out)
        found["count"] = len(outs)
        aux_leaves, found["aux"] = tree.flatten(aux)
        return [*outs, *aux_leaves]

    program = trace_program(flat, types, what.replace(" ", "_"))
    n = found["count"]
    check_match(f"`b` and what {what} gives", _REMEDY, (structure, types), (found["tree"], program.out_types[:n]),
                ("in b", f"from {what}"), "x")  # fmt: skip
    return with_output_types(program, [*(t.strong() for t in types), *program.out_types[n:]]), found["aux"]


def _varying(leaves: Sequence[Any], structure: PyTreeDef, *functions: Callable[[Any], Any]) -> list[Any]:
    """The leaves of a pytree, varying along the mesh axes along which functions of it do, by what they close over."""
    if not mesh_axes():
        return list(leaves)

    def types(function: Callable[[Any], Any]) -> Sequence[Any]:
        flat = functools.partial(_leaves, function, structure)
        return trace_program(flat, [typeof(x) for x in leaves], "varying").out_types

    vary = frozenset().union(*(t.vary for function in functions for t in types(function)))
    return [pvary(x, vary) for x in leaves]


def _leaves(function: Callable[[Any], Any], structure: Any, *leaves: Any) -> list[Any]:
    return tree.leaves(function(structure.unflatten(leaves)))


def _callables(name: str, **functions: Any) -> None:
    for what, function in functions.items():
        if not callable(function):
            raise ArgumentTypeError(f"{name} takes functions, got {what}={function!r}", f"pass a callable as `{what}`")


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution x of the linear system `matvec(x) = b` by `solve(matvec, b)`, with derivatives of the system.

    Derivatives, forward and reverse, solve the same system (or its transpose, by `transpose_solve(vecmat, b)`) with
    another right-hand side, and never look into `solve`. `b` is a pytree, x one like it. With `symmetric`, `solve` also
    solves the transpose. With `has_aux`, solves return pairs (x, auxiliary), and so does this. Raises
    `ControlFlowTypeError` where a function returns other types than those of `b`.

    >>> from tilewright import lax, numpy as jnp
    >>> a = jnp.array([[2., 0.], [0., 4.]])
    >>> print(lax.custom_linear_solve(lambda x: a @ x, jnp.ones(2), lambda _, b: jnp.linalg.solve(a, b)))
    [0.5  0.25]
    """
    _callables("custom_linear_solve", matvec=matvec, solve=solve)
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    leaves, structure = tree.flatten(b)
    leaves = _varying(leaves, structure, matvec, functools.partial(solve, matvec))
    types = [typeof(x) for x in leaves]
    operator, _ = _traced(matvec, structure, types, "matvec", False)
    solver, aux = _traced(functools.partial(solve, matvec), structure, types, "solve", has_aux)
    if transpose_solve is None:
        (operator, solver), constants = hoisted([operator, solver])
        programs: Programs = {"matvec": operator, "vecmat": None, "program": solver, "transpose_solve": None}
    elif symmetric:
        (operator, solver), constants = hoisted([operator, solver])
        programs = {"matvec": operator, "vecmat": operator, "program": solver, "transpose_solve": solver}
    else:
        (closed,), values = hoisted([operator])
        back = transpose_program(closed, (*(False for _ in values), *(True for _ in leaves)))

        def vecmat(ct: Any) -> Any:
            return structure.unflatten(eval_program(back, *values, *tree.leaves(ct)))

        transposed, _ = _traced(vecmat, structure, types, "vecmat", False)
        backward, _ = _traced(functools.partial(transpose_solve, vecmat), structure, types, "transpose_solve", has_aux)
        found, constants = hoisted([operator, transposed, solver, backward])
        programs = dict(zip(("matvec", "vecmat", "program", "transpose_solve"), found, strict=True))
    outs = linear_solve_p.bind(*constants, *leaves, **programs, size=len(leaves)) if leaves else []
    x = structure.unflatten(outs[: len(leaves)])
    return (x, aux.unflatten(outs[len(leaves) :])) if has_aux else x


def _step(function: Program, solve: Callable[..., Any], structure: PyTreeDef, *leaves: Any) -> list[Any]:
    """The solution of the system that the derivative of a function at x is, with x before its right-hand side."""
    n = len(leaves) // 2
    _, linear = linearize_flat(functools.partial(eval_program, function), leaves[:n], [True] * n)

    def tangent_of(z: Array) -> Any:
        return structure.unflatten(map(instantiate, linear(tree.leaves(z))))

    found, found_tree = tree.flatten(solve(tangent_of, structure.unflatten(leaves[n:])))
    if found_tree != structure:
        raise ControlFlowTypeError(f"tangent_solve returned {found_tree} for a system of {structure}", _REMEDY)
    return found


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: ArrayLike,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """A root x of `f`, found by `solve(f, initial_guess)`, with derivatives by the implicit function theorem.

    `f` maps a pytree to one of the same types and may close over traced values, with respect to which the root is
    differentiated: `f(x, p) = 0` gives `dx = -(df/dx)^-1 (df/dp) dp`. `tangent_solve(g, y)` gives z with `g(z) = y`
    for a linear g; for reverse mode it has to be linear in y and transposable, such as `custom_linear_solve` is. The
    derivative with respect to the guess is zero. With `has_aux`, `solve` returns a pair (x, auxiliary), and so does
    this. Raises `ControlFlowTypeError` where f or a solve returns other types.

    >>> import tilewright as tw
    >>> from tilewright import lax
    >>> def root(a):
    ...     newton = lambda f, x: lax.fori_loop(0, 9, lambda _, x: x - f(x) / tw.grad(f)(x), x)
    ...     return lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> print(root(4.0), tw.grad(root)(4.0))
    2.0 0.25
    """
    _callables("custom_root", f=f, solve=solve, tangent_solve=tangent_solve)
    guess, structure = tree.flatten(initial_guess)
    guess = _varying(guess, structure, f, functools.partial(solve, f))
    types = [typeof(x) for x in guess]
    n = len(guess)
    function, _ = _traced(f, structure, types, "f", False)
    solver, aux = _traced(functools.partial(solve, f), structure, types, "solve", has_aux)
    of_root = [t.strong() for t in types]
    step = trace_program(functools.partial(_step, function, tangent_solve, structure),
                         [*of_root, *(t.tangent() for t in of_root)], "tangent_solve")  # fmt: skip
    (function, solver, step), constants = hoisted([function, solver, step])

    def root(*args: Any) -> list[Any]:
        return current_trace().custom_jvp(CustomJVP(functools.partial(eval_program, solver), derive), args)

    def derive(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outs = root(*primals)
        x, held = outs[:n], primals[:-n]
        still = [Zero(typeof(o).tangent()) for o in outs]
        if all_zero(tangents[:-n]):
            return outs, still
        moves = jvp_flat(functools.partial(eval_program, function), [*held, *x], [*tangents[:-n], *still[:n]])[1]
        right = [instantiate(_negative(m)) for m in moves]
        return outs, [*eval_program(step, *held, *x, *right), *still[n:]]

    outs = root(*constants, *guess) if guess else []
    x = structure.unflatten(outs[:n])
    return (x, aux.unflatten(outs[n:])) if has_aux else x
