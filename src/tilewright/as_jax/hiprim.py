"""`HiPrim`: primitives that clients define as classes, whose methods are the rules.

All primitives of this kind are one of ours, `call_hi_primitive`, with the client's object as its parameter. Its rules
take flat values; they call the methods with the trees of values that the client's types say.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.api.transformations import vmap
from ..core.api.vjp_functions import GradAccum, NullAccum, ValAccum
from ..core.ir.extension_types import flat_parts, is_opaque, opaque_types
from ..core.ir.primitive import OWN, AxisInfo, Linear, Zero
from ..core.ir.program import Effects, Eqn
from ..core.ir.types import ArrayType
from ..core.primitives.custom.custom_derivative_primitives import linearize_rules
from ..core.support import pytree
from ..core.support.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ..core.tracing.trace import Tracer, typeof
from ..core.transforms.batching import batch_flat
from ..core.transforms.linearize import Purpose, purpose
from ..core.transforms.structural_primitives import moved, reduce_sum_p
from .primitive import Primitive

if TYPE_CHECKING:
    from ..core.support.pytree import PyTreeDef


def is_zero(x: Any) -> bool:
    return type(x) is Zero


def _bare(type_: Any) -> Any:
    """A type without what it says of a mesh."""
    return type_.strong().plain if isinstance(type_, ArrayType) else type_


def _holds_tracers(x: Any) -> bool:
    """Whether an object of a client's own class holds traced arrays."""
    return type(x) in opaque_types and any(isinstance(part, Tracer) for part in flat_parts(typeof(x), x))


@pytree.register_static
class Static:
    """A value in a tree of residuals that is no array."""

    def __init__(self, value: Any):
        self.value = value


class HiPrim:
    """A primitive of a client's own.

    A class derived from it sets `in_avals` (a tree of types for each argument), `out_aval` (a tree of types) and
    `params` (hashable values, which become attributes) before it calls this constructor. Its methods are its rules;
    `expand` has to be there, the others only for the transformations that are used.
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Hashable]
    effects: Effects = frozenset()
    skip_linearization_on_zero_tangents = False

    in_avals_flat: list[Any]
    in_tree: PyTreeDef
    out_avals_flat: list[Any]
    out_tree: PyTreeDef

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"{type(self).__name__}.__init__ did not set `self.{name}`")
        self.in_avals_flat, self.in_tree = pytree.flatten(tuple(self.in_avals))
        self.out_avals_flat, self.out_tree = pytree.flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def __call__(self, *args: Any) -> Any:
        flat = self.flat_in(args)
        for found, expected in zip(map(typeof, flat), self.in_avals_flat, strict=True):
            if _bare(found) != _bare(expected):
                raise ArgumentTypeError(f"{self!r} of {found.show()} was made for {expected.show()}",
                                        "make it for the types of the arguments: `jax.typeof`")  # fmt: skip
        if any(map(_holds_tracers, flat)):  # within the `expand` of another one
            return self.expand(*args)
        return self.out_tree.unflatten(call_hi_primitive_p.bind(*flat, _prim=self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self.params.items(), self.effects))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and (self.params, self.effects, *self._types()) == (
            other.params, other.effects, *other._types())  # fmt: skip

    def _types(self) -> tuple[Any, ...]:
        return self.in_avals_flat, self.out_avals_flat, self.in_tree, self.out_tree

    def flat_in(self, args: Any) -> list[Any]:
        """The leaves of arguments, or of one value for each of them."""
        return pytree.flatten_up_to(self.in_tree, tuple(args))

    def flat_out(self, out: Any) -> list[Any]:
        """The leaves of a result, or of one value for each of them."""
        return pytree.flatten_up_to(self.out_tree, out)

    def _lacks(self, *methods: str) -> UnsupportedError:
        return UnsupportedError(f"{type(self).__name__} has no {' and '.join(f'`{m}`' for m in methods)}",
                                "define it in the class of the primitive")  # fmt: skip

    # ------------------------------------------------------------ what a client defines

    def check(self, *in_avals: Any) -> None:
        """Raise where the types do not go together."""

    def expand(self, *args: Any) -> Any:
        """The result, computed by other operations."""
        raise self._lacks("expand")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """The result and what the backward rule needs; then optionally which results have tangents, and more for it."""
        raise self._lacks("vjp_fwd")

    def vjp_bwd(self, res: Any, *rest: Any) -> Any:
        """Add cotangents to accumulators, from the residuals and the cotangent of the result."""
        outgrad, *accums = rest
        cts = self.vjp_bwd_retval(res, outgrad)
        children = pytree.treedef_children(self.in_tree)
        if not isinstance(cts, (tuple, list)) or len(cts) != len(children):
            raise ArgumentTypeError(f"vjp_bwd_retval of {type(self).__name__} gave {type(cts).__name__}",
                                    f"return a tuple of {len(children)} cotangents, one for each argument")  # fmt: skip
        for ct, into, child in zip(cts, accums, children, strict=True):
            if ct is not None:
                for accum, x in zip(pytree.leaves(into), pytree.flatten_up_to(child, ct), strict=True):
                    accum.accum(x)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """A cotangent for each argument; None for zero."""
        raise self._lacks("vjp_bwd_retval", "vjp_bwd")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The result and its tangent."""
        raise self._lacks("jvp")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """The result and what `linearized` needs."""
        raise self._lacks("lin")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangent of the result, linear in those of the arguments."""
        raise self._lacks("linearized")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> Any:
        """Add cotangents to the accumulators that stand for the arguments in which it is linear."""
        raise self._lacks("transpose")

    def batch(self, axis_data: AxisInfo, args: Any, dims: Any) -> Any:
        """The result of batched arguments, and where its batch axes are."""
        out_dim = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: AxisInfo, dims: Any, /) -> Any:
        """Where the batch axes of the result are."""
        raise self._lacks("batch_dim_rule", "batch")

    def dce(self, used_outs: Any) -> Any:
        """Which arguments are used, which results given, and the primitive that is left (None: none)."""
        some = any(pytree.leaves(used_outs))
        return some, some, self if some else None


# ---------------------------------------------------------------------------- its rules, on flat values


def _spread(given: Any, structure: Any, whole: Any) -> list[Any]:
    """A prefix of a tree, such as one bool for all, at each leaf."""
    return pytree.broadcast_prefix(given, structure.unflatten(whole))


def _typing(*types: Any, _prim: HiPrim) -> list[Any]:
    return list(_prim.out_avals_flat)


def _expand(*args: Any, _prim: HiPrim) -> list[Any]:
    return _prim.flat_out(_prim.expand(*_prim.in_tree.unflatten(args)))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, _prim: HiPrim) -> Any:
    unflatten = _prim.in_tree.unflatten
    out, out_tangent = _prim.jvp(unflatten(primals), unflatten(tangents))
    outs = _prim.flat_out(out)
    return outs, [_or_zero(t, o) for t, o in zip(_prim.flat_out(out_tangent), outs, strict=True)]


def _or_zero(tangent: Any, out: Any) -> Any:
    return Zero(typeof(out).tangent()) if tangent is None else tangent


def _linearize(primals: Sequence[Any], nonzero: Sequence[bool], *, _prim: HiPrim) -> Any:
    nzs = _prim.in_tree.unflatten(nonzero)
    if purpose() is Purpose.APPLY:
        out, residuals, *rest = _prim.lin(nzs, *_prim.in_tree.unflatten(primals))

        def map_tangents(*tangents: Any) -> list[Any]:
            found = _prim.linearized(residuals, *rest[1:], *_prim.in_tree.unflatten(tangents))
            return [_or_zero(t, o) for t, o in zip(_prim.flat_out(found), outs, strict=True)]

        outs = _prim.flat_out(out)
        return outs, map_tangents
    present: list[bool] = []

    def forward(args: Sequence[Any], nonzero: Sequence[bool]) -> Any:
        out, *kept = _prim.vjp_fwd(nzs, *_prim.in_tree.unflatten(args))
        present[:] = _spread(kept[1] if len(kept) > 1 else True, _prim.out_tree, _prim.flat_out(out))
        residuals, structure = pytree.flatten((kept[0], *kept[2:]))
        return _prim.flat_out(out), residuals, functools.partial(_backward, _prim, nonzero, structure)

    outs, linear = linearize_rules(forward, primals, nonzero)

    def those_with_tangents(*tangents: Any) -> list[Any]:
        found = zip(linear(*tangents), present, outs, strict=True)
        return [t if nz else Zero(typeof(o).tangent()) for t, nz, o in found]

    return outs, those_with_tangents


def _backward(
    prim: HiPrim, nonzero: Sequence[bool], structure: Any, residuals: Sequence[Any], cts: Sequence[Any]
) -> list[Any]:
    types = [t.tangent() for t in prim.in_avals_flat]
    accums = [ValAccum(t) if nz else NullAccum(t) for t, nz in zip(types, nonzero, strict=True)]
    prim.vjp_bwd(*structure.unflatten(residuals), prim.out_tree.unflatten(cts), *prim.in_tree.unflatten(accums))
    return [a.value if isinstance(a, ValAccum) else Zero(a.aval) for a in accums]


def _transpose(cts: Sequence[Any], *args: Any, _prim: HiPrim) -> list[Any]:
    given = [ValAccum(a.type.tangent()) if type(a) is Linear else a for a in args]
    _prim.transpose(_prim.out_tree.unflatten(cts), *_prim.in_tree.unflatten(given))
    return [a.value if isinstance(a, ValAccum) else None for a in given]


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, _prim: HiPrim) -> Any:
    unflatten = _prim.in_tree.unflatten
    dims = [t.mapping_at(d) if is_opaque(t := typeof(x)) and d is not None else d
            for x, d in zip(args, dims, strict=True)]  # fmt: skip
    out, out_dims = _prim.batch(axis, unflatten(args), unflatten(dims))
    return _prim.flat_out(out), _prim.flat_out(out_dims)


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn | None:
    prim = eqn.params["_prim"]
    ins, outs, left = prim.dce(prim.out_tree.unflatten(used))
    if left is None:
        return None
    ins, outs = _spread(ins, prim.in_tree, eqn.inputs), _spread(outs, prim.out_tree, eqn.outputs)
    inputs = tuple(a for a, u in zip(eqn.inputs, ins, strict=True) if u)
    outputs = tuple(v for v, u in zip(eqn.outputs, outs, strict=True) if u)
    return eqn.replace(inputs=inputs, outputs=outputs, params={"_prim": left})


def _made() -> Primitive:
    primitive = Primitive("call_hi_primitive")
    primitive.multiple, primitive.places = True, OWN
    primitive.typing, primitive.expand, primitive.jvp, primitive.linearize = _typing, _expand, _jvp, _linearize
    primitive.transpose, primitive.batch, primitive.dce = _transpose, _batch, _dce
    primitive.effects = lambda *types, _prim: _prim.effects
    primitive.def_impl(_expand)  # so that `expand` sees the values where nothing is traced
    return primitive


call_hi_primitive_p: Primitive = _made()

# ---------------------------------------------------------------------------- over an axis


class VmapOf(HiPrim):
    """A primitive over an axis of its arguments: its own rules, batched."""

    prim: HiPrim
    axis_data: AxisInfo
    in_dims: Any
    out_dim: Any
    axis: AxisInfo
    ins: list[Any]
    outs: list[Any]

    def __init__(self, prim: HiPrim, axis_data: AxisInfo, in_dims: Any, out_dim: Any):
        ins, outs = prim.flat_in(in_dims), prim.flat_out(out_dim)
        self.axis, self.ins, self.outs = axis_data, ins, outs
        self.in_avals: tuple[Any, ...] = prim.in_tree.unflatten(map(self._wide, prim.in_avals_flat, ins))
        self.out_aval: Any = prim.out_tree.unflatten(map(self._wide, prim.out_avals_flat, outs))
        self.params: dict[str, Hashable] = dict(prim=prim, axis_data=axis_data, in_dims=tuple(ins), out_dim=tuple(outs))
        super().__init__()

    def _wide(self, type_: Any, dim: Any) -> Any:
        return type_ if dim is None else type_.with_axis(dim, self.axis.size, self.axis.lies)

    def _over(self, fun: Callable[..., Any], values: Sequence[Any], dims: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """A flat function of batched values: results, and where their axes are; symbolic zeros stay such."""
        args = [Zero(x.type.without_axis(d, self.axis.size)) if is_zero(x) and d is not None else x
                for x, d in zip(values, dims, strict=True)]  # fmt: skip
        return batch_flat(fun, self.axis, args, [None if is_zero(x) else d for x, d in zip(args, dims, strict=True)])

    def _put(self, x: Any, found: Any, wanted: Any, what: str) -> Any:
        """A result with its axis where it is wanted."""
        if is_zero(x):
            return Zero(self._wide(x.type, wanted))
        if wanted is None:
            if found is not None:
                raise ArgumentError(
                    f"the {what} of {self.prim!r} gives a batched value where its result is none",
                    "say so in `batch_dim_rule`, or define `batch`")  # fmt: skip
            return x
        return x if found == wanted else moved(self.axis, x, found, wanted)

    def expand(self, *args: Any) -> Any:
        in_axes = self.prim.in_tree.unflatten(self.ins)
        return vmap(self.prim.expand, in_axes, self.prim.out_tree.unflatten(self.outs), self.axis.name, self.axis.size,
                    self.axis.spmd)(*args)  # fmt: skip

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        prim, n = self.prim, len(self.ins)

        def flat(*values: Any) -> list[Any]:
            outs, out_tangents = _jvp(values[:n], values[n:], _prim=prim)
            return [*outs, *out_tangents]

        found = self._over(flat, [*self.flat_in(primals), *self.flat_in(tangents)], self.ins * 2)
        placed = [self._put(x, d, to, "rule jvp") for x, d, to in zip(*found, self.outs * 2, strict=True)]
        m = len(self.outs)
        return self.out_tree.unflatten(placed[:m]), self.out_tree.unflatten(placed[m:])

    def _first(self, rule: Callable[..., Any], what: str, nzs_in: Any, args: Any) -> Any:
        """`lin` or `vjp_fwd`."""
        prim, kept = self.prim, []

        def flat(*values: Any) -> list[Any]:
            out, residuals, *rest = rule(nzs_in, *prim.in_tree.unflatten(values))
            leaves, structure = pytree.flatten((residuals, *rest[1:]))
            kept[:] = structure, rest[:1] or [True]
            return [*prim.flat_out(out), *leaves]

        values, dims = self._over(flat, self.flat_in(args), self.ins)
        m = len(self.outs)
        outs = [self._put(x, d, to, what) for x, d, to in zip(values, dims, self.outs, strict=False)]
        return self.out_tree.unflatten(outs), (values[m:], Static((kept[0], dims[m:]))), *kept[1]

    def vjp_fwd(self, nzs_in: Any, *args: Any) -> Any:
        return self._first(self.prim.vjp_fwd, "rule vjp_fwd", nzs_in, args)

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        return self._first(self.prim.lin, "rule lin", nzs_in, primals)

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        prim, (values, static) = self.prim, residuals
        (structure, dims), n = static.value, len(values)

        def flat(*given: Any) -> list[Any]:
            kept = structure.unflatten(given[:n])
            return prim.flat_out(prim.linearized(*kept, *prim.in_tree.unflatten(given[n:])))

        found = self._over(flat, [*values, *self.flat_in(tangents)], [*dims, *self.ins])
        placed = [self._put(x, d, to, "map linearized") for x, d, to in zip(*found, self.outs, strict=True)]
        return self.out_tree.unflatten(placed)

    def vjp_bwd(self, res: Any, *rest: Any) -> Any:
        (values, static), outgrad, *accums = res, *rest
        (structure, dims), n = static.value, len(values)
        into: list[GradAccum] = self.flat_in(accums)
        nonzero = [not isinstance(a, NullAccum) for a in into]

        def flat(*given: Any) -> list[Any]:
            return _backward(self.prim, nonzero, structure, given[:n], given[n:])

        found = self._over(flat, [*values, *self.flat_out(outgrad)], [*dims, *self.outs])
        for accum, ct, dim, to in zip(into, *found, self.ins, strict=True):
            if not is_zero(ct):  # an argument that all elements share collects their cotangents
                ct = moved(self.axis, ct, dim, 0 if to is None else to)
                accum.accum(reduce_sum_p.bind(ct, axes=(0,)) if to is None else ct)

    def batch_dim_rule(self, axis_data: AxisInfo, dims: Any, /) -> Any:
        inner = [d if None in (d, own) else d - (own < d) for d, own in zip(self.flat_in(dims), self.ins, strict=True)]
        found = self.prim.flat_out(self.prim.batch_dim_rule(axis_data, self.prim.in_tree.unflatten(inner)))
        outs = [d if None in (d, own) else d + (own <= d) for d, own in zip(found, self.outs, strict=True)]
        return self.out_tree.unflatten(outs)
