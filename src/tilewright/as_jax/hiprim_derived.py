"""Rules of a client's primitive made of its other rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.api.vjp_functions import Pushforward
from ..core.ir.primitive import Linear, Zero
from ..core.support.errors import ArgumentTypeError
from ..core.tracing.trace import typeof
from ..core.transforms.linearize import LinearMap, linear_part
from ..core.transforms.rule_helpers import instantiate
from ..core.transforms.transpose import transpose_map
from .hiprim import HiPrim, Static, is_zero


def _map_of(prim: HiPrim, rule: Callable[..., Any], nonzero: Sequence[bool]) -> LinearMap:
    """The map that a rule, linear in its flat tangents, records; arguments without one are given a `Zero`."""
    types = [t.tangent() for t in prim.in_avals_flat]

    def flat(*given: Any) -> list[Any]:
        rest = iter(given)
        tangents = [next(rest) if nz else Zero(t) for t, nz in zip(types, nonzero, strict=True)]
        return prim.flat_out(rule(prim.in_tree.unflatten(tangents)))

    wanted = [Linear(t) for t, nz in zip(types, nonzero, strict=True) if nz]
    return linear_part(flat, wanted, [True] * len(wanted))[1]


def _cotangents(prim: HiPrim, rule: Callable[..., Any], nonzero: Sequence[bool], outgrad: Any) -> Any:
    """The cotangents of the arguments: the transposed map of a rule."""
    found = iter(transpose_map(_map_of(prim, rule, nonzero), prim.flat_out(outgrad)))
    return prim.in_tree.unflatten(next(found) if nz else None for nz in nonzero)


def _lin_of_jvp(self: HiPrim, nzs_in: Any, *primals: Any) -> Any:
    nonzero, outs = self.flat_in(nzs_in), []

    def rule(tangents: Sequence[Any]) -> Any:
        out, out_tangents = self.jvp(primals, tangents)
        outs[:] = self.flat_out(out)
        return out_tangents

    linear = _map_of(self, rule, nonzero)
    types = [t.tangent() for t, nz in zip(self.in_avals_flat, nonzero, strict=True) if nz]
    residuals = Pushforward(linear, types, Static(tuple(nonzero)), list(map(typeof, outs)), Static(None))
    return self.out_tree.unflatten(outs), residuals, self.out_tree.unflatten(not is_zero(v) for v in linear.outputs)


def _linearized_of_jvp(self: HiPrim, residuals: Any, *tangents: Any) -> Any:
    nonzero = residuals.in_tree.value
    given = [instantiate(t) for t, nz in zip(self.flat_in(tangents), nonzero, strict=True) if nz]
    return self.out_tree.unflatten(residuals.linear(given))


def jvp_from_lin(self: HiPrim, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The `jvp` of a primitive that has `lin` and `linearized`."""
    if type(self).lin is _lin_of_jvp:
        raise ArgumentTypeError(f"{type(self).__name__} has `jvp` of `lin` and `lin` of `jvp`", "write one of them")
    nzs = self.in_tree.unflatten(not is_zero(t) for t in self.flat_in(tangents))
    out, residuals, *rest = self.lin(nzs, *primals)
    return out, self.linearized(residuals, *rest[1:], *tangents)


def _forward_of_jvp(self: HiPrim, nzs_in: Any, *primals: Any) -> Any:
    return self(*primals), (primals, Static(tuple(self.flat_in(nzs_in))))


def _backward_of_jvp(self: HiPrim, res: Any, outgrad: Any) -> Any:
    primals, nonzero = res
    return _cotangents(self, lambda tangents: self.jvp(primals, tangents)[1], nonzero.value, outgrad)


def _forward_of_lin(self: HiPrim, nzs_in: Any, *primals: Any) -> Any:
    out, res, *rest = self.lin(nzs_in, *primals)
    return out, (res, tuple(rest[1:]), Static(tuple(self.flat_in(nzs_in)))), *rest[:1]


def _backward_of_lin(self: HiPrim, res: Any, outgrad: Any) -> Any:
    residuals, more, nonzero = res
    return _cotangents(self, lambda ts: self.linearized(residuals, *more, *ts), nonzero.value, outgrad)


class _Pair(NamedTuple):
    """Two rules, for two methods of a class: `first, second = pair`."""

    first: Callable[..., Any]
    second: Callable[..., Any]


linearize_from_jvp: _Pair = _Pair(_lin_of_jvp, _linearized_of_jvp)  # lin, linearized
vjp_from_jvp: _Pair = _Pair(_forward_of_jvp, _backward_of_jvp)  # vjp_fwd, vjp_bwd_retval
vjp_from_lin: _Pair = _Pair(_forward_of_lin, _backward_of_lin)  # vjp_fwd, vjp_bwd_retval
