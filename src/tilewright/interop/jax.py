"""Functions and kernels of tilewright inside programs of jax.

    from tilewright.interop import jax as tj
    softmax = tj.call(tilewright.nn.fused.softmax)
    jax.jit(jax.grad(lambda x: softmax(x)[0, 0]))(x)

A function is traced to a Program here, and the Program is one equation of a jaxpr: the primitive `tilewright`. Its
rules are those of the Program: jax's `vmap`, `jvp` and transposition give Programs batched, linearised and transposed
by this package, and lowering prints one as StableHLO, which becomes a private function of jax's module. jax is
imported when a function that `call` made is first called, and by nothing else of the package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..compiler.ahead_of_time import machine_for
from ..compiler.pass_manager import walk
from ..compiler.pipeline import LOWER
from ..core.ir.passes import hoist
from ..core.ir.primitive import AxisInfo
from ..core.ir.program import Program
from ..core.ir.types import ArrayType, is_key, kind
from ..core.jit.jit import resolve_arguments
from ..core.support import pytree
from ..core.support.config import config, current
from ..core.support.errors import DtypeError, NonHashableStaticArgumentError, UnsupportedError, VersionError
from ..core.support.memo import cached, once
from ..core.support.version import JAXLIB
from ..core.tracing.trace import trace_program, typeof
from ..core.transforms.batching import batch_program
from ..core.transforms.linearize import linearized
from ..core.transforms.transpose import transpose_program
from ..lang.targets.target import target_of
from ..xla_backend.arrays.array import Array
from ..xla_backend.options.compile_options import Call, Settings, Unit

# ------------------------------------------------------------------------------------------------ the primitive


@once
def _primitive() -> Any:
    """The primitive, its rules given to jax."""
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    primitive = Primitive("tilewright")
    primitive.multiple_results = True
    primitive.def_impl(_run)
    primitive.def_abstract_eval(_types)
    batching.primitive_batchers[primitive] = _batch
    ad.primitive_jvps[primitive] = _jvp
    ad.primitive_transposes[primitive] = _transpose
    mlir.register_lowering(primitive, _lower)
    return primitive


def _bind(program: Program, operands: Sequence[Any]) -> list[Any]:
    return _primitive().bind(*operands, program=program)


@cached(4096)
def _jitted(program: Program) -> Callable[..., Any]:
    import jax

    return jax.jit(lambda *operands: _bind(program, operands))


def _run(*operands: Any, program: Program) -> list[Any]:
    return _jitted(program)(*operands)


def _types(*_: Any, program: Program) -> list[Any]:
    from jax.core import ShapedArray

    return [ShapedArray(t.shape, t.dtype, weak_type=t.weak_type) for t in program.out_types]


def _batch(operands: Sequence[Any], dims: Sequence[int | None], *, program: Program) -> tuple[list[Any], Any]:
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    batched, out_dims = batch_program(program, AxisInfo(size), tuple(dims))
    return _bind(batched, operands), out_dims


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program) -> tuple[list[Any], list[Any]]:
    """The primal Program, and the linear one on its residuals, so that jax can keep the two apart."""
    import jax
    from jax.interpreters import ad

    parts = linearized(program, tuple(type(t) is not ad.Zero for t in tangents))
    outs, residuals = parts.gather(primals, _bind(parts.primal, primals))
    moving = iter(_bind(parts.linear, [*residuals, *(t for t in tangents if type(t) is not ad.Zero)]))
    present = zip(outs, parts.out_nonzero, strict=True)
    return outs, [next(moving) if nonzero else ad.Zero(jax.typeof(x).to_tangent_aval()) for x, nonzero in present]


def _transpose(cotangents: Sequence[Any], *operands: Any, program: Program) -> list[Any]:
    from jax.interpreters import ad

    linear = tuple(ad.is_undefined_primal(x) for x in operands)
    nonzero = tuple(type(ct) is not ad.Zero for ct in cotangents)
    known = [x for x, li in zip(operands, linear, strict=True) if not li]
    given = [ct for ct, nz in zip(cotangents, nonzero, strict=True) if nz]
    found = iter(_bind(transpose_program(program, linear, nonzero), [*known, *given]))
    return [next(found) if li else None for li in linear]


def _settings(platform: str) -> Settings:
    """How Programs are lowered for a platform: kernels as custom calls for GPUs that jax has, else by XLA."""
    if platform == "cpu":
        return Settings()
    capability = _capability() if platform == "cuda" else None
    return Settings(target_of(platform) if capability is None else machine_for(capability), by_xla=capability is None)


def _capability() -> tuple[int, int] | None:
    """The compute capability of jax's GPUs, None where it has none: it may lower for what is elsewhere."""
    import jax

    try:
        major, minor = str(jax.local_devices(backend="cuda")[0].compute_capability).split(".")
    except RuntimeError:
        return None
    return int(major), int(minor)


def _lower(context: Any, *operands: Any, program: Program) -> list[Any]:
    """Print the Program, parse it in jax's context, and call it as a function of jax's module."""
    from jax.interpreters import mlir

    within = context.module_context
    platform = within.platforms[0]
    module = walk(LOWER, Unit(program, Call(program.name, keep_unused=True)), _settings(platform)).value
    if module.callbacks:
        raise UnsupportedError(f"{program.name} calls back to the host inside a program of jax",
                               "call the host by `jax.pure_callback`, outside of the function")  # fmt: skip
    parsed = mlir.ir.Module.parse(module.text)
    types = parsed.body.operations[0].type.results  # of `main`, which is printed first
    name = mlir.merge_mlir_modules(within.module, f"tilewright_{program.name}", parsed, within.symbol_table)
    callee: dict[str, Any] = {"callee": mlir.ir.FlatSymbolRefAttr.get(name)}
    results = iter(mlir.ir.Operation.create("func.call", types, operands, callee).results)
    passed = module.forwarded
    return [operands[passed[i]] if i in passed else next(results) for i in range(len(module.out_types))]


# ------------------------------------------------------------------------------------------------- the function


@dataclass(frozen=True)
class _Traced:
    program: Program
    constants: tuple[Any, ...]
    structures: tuple[Any, Any]  # of the result: jax's, and ours of its leaves


def call(
    function: Callable[..., Any] | None = None, *, static_argnames: str | Sequence[str] = ()
) -> Callable[..., Any]:
    """A function of tilewright as one of jax: arrays and pytrees of jax in and out, and every transformation of jax.

    The function is traced once for each kind of arguments, as under `jit`, and for each value of the arguments
    `static_argnames`, such as block sizes and strings. What it closes over may be arrays of either library. Without
    `function` it is a decorator.

    Raises:
      ArgumentError: a name in `static_argnames` that the function does not take.
      VersionError: jax is not installed.
      NonHashableStaticArgumentError: a static argument that is not hashable.
      NonArrayArgumentError: an argument that is not an array, a number or a pytree of them.
      DtypeError: an array of a dtype that tilewright has not, such as jax's random keys.
      UnsupportedError: the function has effects, which jax could not put in order.

    >>> import jax
    >>> from tilewright import numpy as tnp
    >>> norm = call(lambda x: tnp.sqrt((x * x).sum()))
    >>> print(jax.jit(jax.grad(norm))(jax.numpy.array([3.0, 4.0])))
    [0.6 0.8]
    """
    if function is None:
        return functools.partial(call, static_argnames=static_argnames)
    numbers, names = resolve_arguments(function, None, static_argnames, "static")
    known: dict[Any, _Traced] = {}

    @functools.wraps(function, assigned=("__name__", "__qualname__", "__doc__", "__module__"), updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        jax = _jax()
        static: dict[Any, Any] = {i: args[i] for i in numbers if i < len(args)}
        args = tuple(x for i, x in enumerate(args) if i not in static)
        static |= {name: kwargs.pop(name) for name in names if name in kwargs}
        fixed = _hashable(static)
        leaves, outer = jax.tree.flatten((args, kwargs))
        leaves, inner = pytree.flatten(leaves)
        operands = [_operand(jax, x) for x in leaves]
        with config(enable_x64=bool(jax.config.jax_enable_x64)):
            types = tuple(map(_type, operands))
            key = (outer, inner, types, fixed, current())
            found = known.get(key)
            if found is None:
                found = _trace(jax, _with_static(function, static), (outer, inner), types)
                if not any(isinstance(c, jax.core.Tracer) for c in found.constants):
                    known[key] = found
            with jax.ensure_compile_time_eval():
                constants = [_operand(jax, c) for c in found.constants]
            results = _bind(found.program, [*constants, *operands])
        outer, inner = found.structures
        return jax.tree.unflatten(outer, inner.unflatten(results))

    return wrapped


def _with_static(function: Callable[..., Any], static: dict[Any, Any]) -> Callable[..., Any]:
    """The function of its other arguments: `static` has values by position and by name."""
    if not static:
        return function
    placed = {i: x for i, x in static.items() if isinstance(i, int)}
    named = {name: x for name, x in static.items() if isinstance(name, str)}

    def of_others(*args: Any, **kwargs: Any) -> Any:
        rest = iter(args)
        count = len(args) + len(placed)
        return function(*(placed[i] if i in placed else next(rest) for i in range(count)), **named, **kwargs)

    return of_others


def _hashable(static: dict[Any, Any]) -> Any:
    """Static arguments as a part of a key, of which 1 and 1.0 are two."""
    try:
        hash(found := tuple((name, type(value), value) for name, value in static.items()))
    except TypeError:
        raise NonHashableStaticArgumentError(f"the static arguments {static} are not all hashable",
                                             "pass numbers, strings or tuples") from None  # fmt: skip
    return found


def register_arrays() -> None:
    """Let jax's functions take arrays of tilewright as they are: `jax.numpy.sin(x)`, `jax.jit(f)(x)`; once a process.

    jax takes an object that is not its own as a pytree or not at all, so an `Array` becomes a pytree of one leaf, the
    same memory as an array of jax. From then on `jax.tree.map` of a tree with Arrays in it gives arrays of jax.
    """
    _register(_jax())


@once
def _register(jax: Any) -> None:
    jax.tree_util.register_pytree_node(Array, lambda x: ((x.__jax_array__(),), None), lambda _, leaves: leaves[0])


def _jax() -> Any:
    try:
        import jax
    except ImportError:
        raise VersionError("jax is not installed", f"pip install 'jax=={JAXLIB}', which fits this jaxlib") from None
    return jax


def _operand(jax: Any, x: Any) -> Any:
    if isinstance(x, jax.Array):
        return x
    typeof(x)  # raises what names it
    return jax.numpy.asarray(x)


def _type(x: Any) -> ArrayType:
    try:
        kind(x.dtype)
    except (KeyError, TypeError):
        raise DtypeError(f"an array of jax of dtype {x.dtype} has no counterpart here",
                         "pass the words of keys, `jax.random.key_data(key)`; cast other dtypes") from None  # fmt: skip
    return ArrayType(tuple(x.shape), x.dtype, x.aval.weak_type)


def _trace(jax: Any, function: Callable[..., Any], structures: tuple[Any, Any], types: Sequence[Any]) -> _Traced:
    outer, inner = structures
    out: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = jax.tree.unflatten(outer, inner.unflatten(leaves))
        results, out_outer = jax.tree.flatten(function(*args, **kwargs))
        results, out_inner = pytree.flatten(results)
        out[:] = out_outer, out_inner
        return results

    named = getattr(function, "func", function)
    name = getattr(named, "__name__", type(named).__name__)
    program, constants = hoist(trace_program(flat, types, name))
    if program.effects:
        raise UnsupportedError(f"{name} has effects ({', '.join(e.show() for e in program.effects)})",
                               "print and call back by jax's own means, outside of the function")  # fmt: skip
    for t in program.out_types:
        if is_key(t.dtype):
            raise DtypeError(f"{name} gives random keys", "give their words, `random.key_data(key)`")
    return _Traced(program, tuple(constants), (out[0], out[1]))


__all__ = ["call", "register_arrays"]
__dir__: Callable[[], list[str]] = __all__.copy
