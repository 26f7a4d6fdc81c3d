"""Functions that are split over a mesh by their author's rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..core.api.transformations import ShapeDtypeStruct
from ..core.primitives.spmd.varying_axes import mesh_axes
from ..core.sharding.mesh import AbstractMesh, NamedSharding, PartitionSpec
from ..core.sharding.mesh_in_force import get_mesh
from ..core.support import pytree as tree
from ..core.support.errors import ArgumentError, UnsupportedError
from ..core.tracing.trace import trace_program, typeof
from ..lang.call.custom_partition import partitioned_p
from ..lang.partition.custom_rule import WHOLE, Axes, Partition

__all__ = ["custom_partitioning"]
__dir__: Callable[[], list[str]] = __all__.copy

Specs = tuple[PartitionSpec, ...]


class custom_partitioning:  # noqa: N801  (a decorator to its users)
    """A function that is split over a mesh by its author's rule.

    `def_partition(partition, sharding_rule="i j, j k -> i k")` states the rule: names for the dimensions of arguments
    and results; dimensions of one name are split together. `partition(mesh, arg_shapes, result_shape)` gets structs
    with the shardings that propagation has found, and returns `(mesh, function, result_shardings, arg_shardings)`. The
    arguments are resharded as it says, and each device calls the function on its parts. Without a mesh the function
    itself is called.

    Raises:
      ArgumentError: a call before `def_partition`, or a rule that does not fit the arguments.
      UnsupportedError: no `sharding_rule`, or one with factors in parentheses.

    >>> from tilewright import numpy as tnp
    >>> @custom_partitioning
    ... def double(x):
    ...     return x * 2
    >>> _ = double.def_partition(lambda mesh, args, out: (mesh, double.fun, out.sharding, (args[0].sharding,)),
    ...                          sharding_rule="... -> ...")
    >>> double(tnp.ones(2)).tolist()
    [2.0, 2.0]
    """

    static_argnums: tuple[int] | tuple[int, ...]

    def __init__(self, fun: Callable[..., Any], static_argnums: int | Sequence[int] = ()):
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.static_argnums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self.partition: Callable[..., Any] | None = None
        self.sharding_rule: Any = None
        self.whole: frozenset[str] = frozenset()

    def def_partition(
        self, partition: Callable[..., Any], infer_sharding_from_operands: Any = None,
        propagate_user_sharding: Any = None, decode_shardings: bool = True, sharding_rule: Any = None, *,
        reduction_factors: Sequence[str] = (), need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (), **factor_sizes: int,
    ) -> Callable[..., Any]:  # fmt: skip
        """State how the function is split; see the class.

        `sharding_rule` is a text, or a function of the mesh and of the types of arguments and results that returns one.
        A name that no result has is summed by the function that `partition` returns. Names in
        `need_replication_factors` are not split. The other arguments belong to another partitioner and are ignored.
        """
        if sharding_rule is None:
            raise UnsupportedError(f"custom_partitioning of {self._name} without a sharding_rule",
                                   'name the dimensions, as in sharding_rule="i j, j k -> i k"')  # fmt: skip
        self.partition, self.sharding_rule = partition, sharding_rule
        self.whole = frozenset(need_replication_factors)
        return partition

    @property
    def _name(self) -> str:
        return getattr(self.fun, "__name__", "function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.partition is None:
            raise ArgumentError(f"a call of custom_partitioning({self._name}) without a rule", "call `def_partition`")
        if kwargs:
            bound = inspect.signature(self.fun).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        fixed = {i: args[i] for i in self.static_argnums}
        moving = tuple(a for i, a in enumerate(args) if i not in fixed)
        leaves, in_tree = tree.flatten(moving)
        found: dict[str, Any] = {}

        def flat(*values: Any) -> list[Any]:
            given = iter(in_tree.unflatten(values))
            outs, found["tree"] = tree.flatten(self.fun(*[fixed[i] if i in fixed else next(given)
                                                          for i in range(len(args))]))  # fmt: skip
            return outs

        types = [typeof(x) for x in leaves]
        program = trace_program(flat, [t.plain for t in types], self._name)
        if program.constants:
            what = f"custom_partitioning of {self._name}, which captures arrays"
            raise UnsupportedError(what, "pass them as arguments")
        rule = self._rule(program, tuple(fixed.values()), in_tree, found["tree"])
        return found["tree"].unflatten(partitioned_p.bind(*leaves, program=program, rule=rule))

    def _rule(self, program: Any, fixed: tuple[Any, ...], in_tree: Any, out_tree: Any) -> Partition:
        types = program.in_types, program.out_types
        text = self.sharding_rule
        if callable(text):
            text = text(*fixed, get_mesh(), *types)
        if not isinstance(text, str) or "(" in text:
            raise UnsupportedError(f"the sharding_rule {text!r} of {self._name}",
                                   "give a text in which each dimension has one name")  # fmt: skip
        sides = text.split("->")
        if len(sides) != 2:
            raise ArgumentError(f"the sharding_rule {text!r} of {self._name}", 'write "i j, j k -> i k"')
        ins, outs = (self._names(text, side, ts) for side, ts in zip(sides, types, strict=True))
        place = functools.partial(self._placed, fixed, in_tree, out_tree, *types)

        def part(axes: Axes, *parts: Any) -> Any:
            mesh = AbstractMesh(tuple(mesh_axes().values()), tuple(mesh_axes()))
            own = [tuple(PartitionSpec(*[axes.get(n) or None for n in names]) for names in side)
                   for side in (rule.ins, rule.outs)]  # fmt: skip
            *placed, function = place(mesh, *own)
            if placed != own:
                raise UnsupportedError(f"a derivative or batch of {self._name}, whose partition moves its operands",
                                       "return the shardings that `partition` was given")  # fmt: skip
            return function(*parts)

        rule = Partition.of(ins, outs, part, place)
        return rule

    def _names(self, text: str, side: str, types: Sequence[Any]) -> list[list[str | None]]:
        """The names of the dimensions of each array, of which `...` stands for the leading ones."""
        words = [t.split() for t in side.replace("...", " ... ").split(",")]
        if len(words) != len(types):
            raise ArgumentError(f"the sharding_rule {text!r} of {self._name} for {len(types)} arrays", "one for each")
        found: list[list[str | None]] = []
        for names, t in zip(words, types, strict=True):
            if "..." in names:
                at, count = names.index("..."), t.ndim - len(names) + 1
                names = [*names[:at], *(f"batch{count - i}" for i in range(count)), *names[at + 1 :]]
            if len(names) != t.ndim:
                raise ArgumentError(f"the sharding_rule {text!r} of {self._name} for an array of type {t.show()}",
                                    "name each dimension")  # fmt: skip
            found.append([None if n in self.whole or n == WHOLE else n for n in names])
        return found

    def _placed(self, fixed: tuple[Any, ...], in_tree: Any, out_tree: Any, in_types: Any, out_types: Any, mesh: Any,
                ins: Specs, outs: Specs) -> tuple[Specs, Specs, Callable[..., Any]]:  # fmt: skip
        """The specs of arguments and results that `partition` asks for, and the function of each device's parts."""
        assert self.partition is not None
        args, results = (
            structure.unflatten([ShapeDtypeStruct(t.shape, t.dtype, sharding=NamedSharding(mesh, s))
                                 for t, s in zip(types, specs, strict=True)])
            for structure, types, specs in ((in_tree, in_types, ins), (out_tree, out_types, outs))
        )  # fmt: skip
        _, function, result_shardings, arg_shardings = self.partition(*fixed, mesh, args, results)

        def parts(*values: Any) -> list[Any]:
            return tree.leaves(function(*in_tree.unflatten(values)))

        given = (_specs(arg_shardings, args), _specs(result_shardings, results))
        return *given, parts


def _specs(shardings: Any, values: Any) -> Specs:
    found = tree.broadcast_prefix(shardings, values)
    return tuple(PartitionSpec() if s is None else getattr(s, "spec", s) for s in found)
