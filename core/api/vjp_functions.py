"""The functions that `vjp` and `linearize` give: linear maps at a point, which are pytrees of their residuals.

So they cross `jit`, `vmap` and `scan` as any pytree does. Taken apart, such a function is the values that it needs (its
leaves) and the map with holes in their places (its structure, the same object for all that came from one trace).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.array import ArrayLike, Operand
from ..ir.binding import is_evaluating
from ..ir.extension_types import is_opaque
from ..ir.primitive import Zero
from ..ir.program import Var
from ..ir.types import FLOAT0, ArrayType, RefType, Type, is_complex, is_inexact
from ..primitives.elementwise.conversion import convert_element_type
from ..support import pytree as tree
from ..support.errors import ArgumentTypeError, DifferentiationError, ShapeError, TreeError, check_options
from ..tracing.array_conversion import as_array
from ..tracing.trace import typeof
from ..transforms.cotangent_logs import collected
from ..transforms.linearize import Known, LinearMap, is_literal
from ..transforms.rule_helpers import instantiate
from ..transforms.structural_primitives import add_tangents
from ..transforms.transpose import transpose_map

if TYPE_CHECKING:
    from ..support.pytree import PyTree, PyTreeDef


def cast(x: ArrayLike, type_: ArrayType) -> Any:
    """A tangent or cotangent in the dtype of a type."""
    found = typeof(x)
    if is_opaque(type_) or (found.dtype == type_.dtype and not found.weak_type):
        return x
    return convert_element_type(x, type_.dtype)


def weakened(x: Any, primal: Type) -> Any:
    """A derivative of a value, weak where the value is: a number's derivative is a number's again."""
    if not primal.weak_type or typeof(x).weak_type:
        return x
    return convert_element_type(x, primal.dtype, weak_type=True)


def _is_trivial(tangent: Type) -> bool:
    return not is_opaque(tangent) and tangent.dtype == FLOAT0


def materialize(ct: ArrayLike | Zero, primal: Type) -> Any:
    """The cotangent of an input, as an array."""
    if type(ct) is Zero and _is_trivial(ct.type):
        return np.zeros(ct.type.shape, FLOAT0)
    return _returned(weakened(instantiate(ct), primal))


def _returned(x: Any) -> Any:
    """A derivative as an array: never a scalar of NumPy's, which lacks methods of arrays."""
    return as_array(x) if isinstance(x, np.generic) or is_evaluating() and not is_opaque(typeof(x)) else x


def check_linear(values: Sequence[Any], primals: Sequence[Type], what: str, of: str) -> list[Any]:
    """Tangents of primals, or cotangents of outputs: of equal shape, and of the dtype of the tangent."""
    checked = []
    for x, primal in zip(values, primals, strict=True):
        expected = primal.tangent()
        if (isinstance(x, np.ndarray) and x.dtype == FLOAT0) or (_is_trivial(expected) and what == "cotangent"):
            checked.append(Zero(expected))
            continue
        found = typeof(x)
        if is_opaque(expected) or is_opaque(found):
            if found != expected:
                raise DifferentiationError(
                    f"a {what} has type {found.show()}, its {of} needs {expected.show()}", "give one of that type")
            checked.append(x)
            continue
        if found.shape != expected.shape:
            raise ShapeError(f"a {what} has type {found.show()}, its {of} {primal.show()}", "give them equal shapes")
        floats = is_inexact(found.dtype) and is_inexact(expected.dtype)
        floats = floats and is_complex(found.dtype) <= is_complex(expected.dtype)
        if found.dtype != expected.dtype and not (found.weak_type and floats):
            raise DifferentiationError(
                f"a {what} has type {found.show()}, its {of} needs {expected.show()}", f"cast the {what} with `astype`"
            )
        checked.append(cast(x, expected))
    return checked


def nested_flags(flags: Any, of: PyTreeDef, what: str) -> list[bool]:
    """One flag for each leaf of a structure, of a flag or of tuples of them; a tuple may stand for any container."""
    if isinstance(flags, bool):
        return [flags] * of.num_leaves
    children = tree.treedef_children(of)
    if isinstance(flags, dict) and tree.structure(flags, is_leaf=lambda x: x is not flags).num_leaves == len(children):
        flags = tuple(tree.leaves(flags, is_leaf=lambda x: x is not flags))
    if not isinstance(flags, (tuple, list)) or len(flags) != len(children):
        raise TreeError(f"{what} holds {flags!r} for {of}", "give True or False, or a tuple with one for each part")
    return [flag for part, child in zip(flags, children, strict=True) for flag in nested_flags(part, child, what)]


class GradAccum:
    """What cotangents of one input are added to; `aval` is the type that they must have."""

    def __init__(self, aval: Any):
        self.aval = aval

    def accum(self, ct: Any) -> None:
        """Add a cotangent; `Zero` and None add nothing."""
        raise NotImplementedError


class NullAccum(GradAccum):
    """Of an input that nothing is differentiated by."""

    def accum(self, ct: ArrayLike | None) -> None:
        pass


class ValAccum(GradAccum):
    """The sum so far is `value`, a symbolic `Zero` at first."""

    def __init__(self, aval: Any):
        super().__init__(aval)
        self.value: Any = Zero(aval)

    def accum(self, ct: Any) -> None:
        if ct is not None and type(ct) is not Zero:
            self.value = add_tangents(self.value, check_linear([ct], [self.aval], "cotangent", "input")[0])


class RefAccum(GradAccum):
    """The sum is what the Ref `ref` holds."""

    def __init__(self, aval: ArrayType, ref: Any):
        super().__init__(aval)
        self.ref = ref

    def accum(self, ct: ArrayLike) -> None:
        if ct is not None and type(ct) is not Zero:
            self.ref[...] = self.ref[...] + check_linear([ct], [self.aval], "cotangent", "input")[0]


class _Hole:
    """Stands for a residual, by its number."""

    __slots__ = ("number", "type")

    def __init__(self, number: int, type: ArrayType):
        self.number, self.type = number, type


def _hollow(linear: LinearMap) -> tuple[LinearMap, list[Any]]:
    """The map with holes, and what was in them."""
    holes: dict[int, _Hole] = {}
    values: list[Any] = []

    def hollow(atom: Any) -> Any:
        if type(atom) is not Known or is_literal(atom.value):
            return atom
        if id(atom.value) not in holes:
            holes[id(atom.value)] = _Hole(len(values), atom.type)
            values.append(atom.value)
        return holes[id(atom.value)]

    eqns = tuple(e.replace(inputs=tuple(map(hollow, e.inputs))) for e in linear.eqns)
    return LinearMap(linear.inputs, eqns, linear.outputs), values


def _filled(linear: LinearMap, values: Sequence[Any]) -> LinearMap:
    known = [Known(x) for x in values]
    eqns = tuple(
        e.replace(inputs=tuple(known[a.number] if type(a) is _Hole else a for a in e.inputs)) for e in linear.eqns
    )
    return LinearMap(linear.inputs, eqns, linear.outputs)


class LinearFunction:
    """A linear map between pytrees: `in_types` and `in_tree` of the primal inputs, `out_types` and `out_tree` of the
    outputs."""

    in_types: tuple[Type, ...]
    in_tree: Any
    out_types: tuple[Type, ...]
    out_tree: Any

    def __init__(
        self, linear: LinearMap | None, in_types: Sequence[Type], in_tree: Any, out_types: Sequence[Type], out_tree: Any
    ):
        self._linear: Any = linear
        self._parts: Any = None
        self.in_types, self.in_tree = tuple(in_types), in_tree
        self.out_types, self.out_tree = tuple(out_types), out_tree

    @property
    def linear(self) -> LinearMap:
        if self._linear is None:
            self._linear = _filled(*self._parts)
        return self._linear

    def tree_flatten(self) -> tuple[list[Any], Any]:
        if self._parts is None:
            self._parts = _hollow(self._linear)
        hollow, values = self._parts
        return values, (_Same(hollow), self.in_types, self.in_tree, self.out_types, self.out_tree)

    @classmethod
    def tree_unflatten(cls, structure: Sequence[Any], values: Sequence[Any]) -> Any:
        made = cls(None, *structure[1:])
        made._parts = (structure[0].value, list(values))
        return made


class _Same:
    """Compares a value by its identity."""

    __slots__ = ("value",)

    def __init__(self, value: LinearMap):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True)
class GradValue:
    """Says to a pullback that the cotangent of an input is to be given, as it is by default."""


@dataclass(frozen=True)
class DontWant:
    """Says to a pullback that the cotangent of an input is not wanted, and need not be computed."""


@tree.register_static
@dataclass(frozen=True)
class GradRef:
    """Stands for a cotangent that was added to a Ref."""


@tree.register_static
@dataclass(frozen=True)
class DidntWant:
    """Stands for a cotangent that was not wanted."""


@tree.register_static
@dataclass(frozen=True)
class NotNeeded:
    """Stands for an argument that the pullback does not read."""


@tree.register_static
@dataclass(frozen=True)
class NotSaveable:
    """Stands for an argument that the pullback reads but does not hold: it is put back before a call."""


def _stands_for(x: Any) -> bool:
    return isinstance(x, (NotNeeded, NotSaveable))


@tree.register_pytree_node_class
class VJP(LinearFunction):
    """The pullback that `vjp` gives: a cotangent of the output to the tuple of those of the inputs.

    Inputs whose numbers are `refs` were Refs. What they held at the end are more outputs of the map. `args_res` are the
    arguments that it reads as they were, in tuples nested as the arguments are, `NotNeeded()` where it does not;
    `opaque_residuals` are the other values that it holds. Both may be changed.
    """

    structured_residuals = ()
    _tells = False

    def __init__(
        self, linear: LinearMap | None, in_types: Sequence[Type], in_tree: PyTreeDef, out_types: Sequence[Type],
        out_tree: PyTreeDef, refs: tuple[int, ...] = (), arguments: Sequence[int] = (),
        saveable: Sequence[bool] | None = None,
    ):  # fmt: skip
        super().__init__(linear, in_types, in_tree, out_types, out_tree)
        self.refs = refs
        self._arguments = arguments  # the `id`s of their values, of which the map holds those that it reads
        self._sources: tuple[tuple[bool, int], ...] = ()  # of each hole: an argument or another value, and its number
        if saveable is not None:
            self._divide(saveable)

    def _divide(self, saveable: Sequence[bool] | None = None) -> None:
        """The map's parts, computed once."""
        if self._parts is not None:
            return
        hollow, values = _hollow(self._linear)
        places = {name: i for i, name in enumerate(self._arguments)}
        read: dict[int, Any] = {}
        rest: list[Any] = []
        sources = []
        for x in values:
            i = places.get(id(x))
            sources.append((False, len(rest)) if i is None else (True, i))
            if i is None:
                rest.append(x)
            else:
                read[i] = x if saveable is None or saveable[i] else NotSaveable()
        leaves = [read.get(i, NotNeeded()) for i in range(len(self.in_types))]
        nested = self.in_tree.walk(lambda children, _: tuple(children), lambda x: x, leaves)
        self._parts, self._sources, self._linear = (hollow, [list(nested), rest]), tuple(sources), None

    @property
    def args_res(self) -> list[Any]:
        self._divide()
        return self._parts[1][0]

    @args_res.setter
    def args_res(self, value: Sequence[Any]) -> None:
        self._divide()
        self._parts = self._parts[0], [value, self._parts[1][1]]

    @property
    def opaque_residuals(self) -> list[Any]:
        self._divide()
        return self._parts[1][1]

    @opaque_residuals.setter
    def opaque_residuals(self, value: Any) -> None:
        self._divide()
        self._parts = self._parts[0], [self._parts[1][0], value]

    @property
    def out_nzs(self) -> tuple[bool, ...]:
        """Of each output, whether its tangent depends on the inputs'."""
        outputs = (self._linear if self._parts is None else self._parts[0]).outputs
        return tuple(type(v) is Var for v in outputs)

    def replace(self, **changes: Any) -> VJP:
        """The same pullback with another `args_res` or `opaque_residuals`."""
        check_options("replace of a pullback", changes, ("args_res", "opaque_residuals"))
        self._divide()
        made = copy.copy(self)
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    @property
    def linear(self) -> LinearMap:
        if self._parts is None:
            return self._linear
        hollow, (args_res, rest) = self._parts
        leaves = tree.leaves(args_res, is_leaf=_stands_for)
        missing = [i for of_args, i in self._sources if of_args and isinstance(leaves[i], NotSaveable)]
        if missing:
            paths = tree.flatten_with_path(self.in_tree.unflatten(range(len(leaves))))[0]
            names = ", ".join(f"args{tree.keystr(paths[i][0])}" for i in missing)
            raise DifferentiationError(f"a pullback lacks what it reads of {names}, which `saveable_args` left out",
                                       "put the values back: `pullback.args_res[i] = ...`")  # fmt: skip
        return _filled(hollow, [leaves[i] if of_args else rest[i] for of_args, i in self._sources])

    def tree_flatten(self) -> tuple[Any, Any]:
        self._divide()
        hollow, values = self._parts
        types = self.in_types, self.in_tree, self.out_types, self.out_tree
        return values, (_Same(hollow), *types, self.refs, self._sources, self._tells)

    @classmethod
    def tree_unflatten(cls, structure: Sequence[Any], values: Sequence[Any]) -> VJP:
        hollow, in_types, in_tree, out_types, out_tree, refs, sources, tells = structure
        made = cls(None, in_types, in_tree, out_types, out_tree, refs)
        made._parts, made._sources, made._tells = (hollow.value, list(values)), sources, tells
        return made

    def __call__(self, cotangent: PyTree) -> Any:
        return self._pull(cotangent, [GradValue()] * len(self.in_types))

    def with_refs(self, *targets: Any) -> Callable[[Any], Any]:
        """The pullback that puts cotangents where `targets`, in the structure of the inputs, say.

        `GradValue()` has a cotangent returned, `DontWant()` leaves it out, and a Ref has it added, in place. For an
        input that was a Ref, the target holds at first the cotangent of what it held at the end.

        Raises:
          TreeError: targets of another structure than the inputs.
          ArgumentTypeError: something else as a target, or a Ref of another shape or dtype.
        """
        flat, found = tree.flatten(targets)
        if found != self.in_tree:
            raise TreeError(f"targets of `with_refs` have structure {found}, the inputs {self.in_tree}",
                            "give a Ref, `GradValue()` or `DontWant()` for each array")  # fmt: skip
        for target, primal in zip(flat, self.in_types, strict=True):
            _check_target(target, primal.cotangent())
        return functools.partial(self._pull, targets=flat)

    @property
    def with_logs(self) -> VJP:
        """The pullback that gives a pair: the cotangents, and a dictionary of what backward rules told."""
        made = copy.copy(self)
        made._tells = True
        return made

    def _pull(self, cotangent: PyTree, targets: Sequence[Any]) -> Any:
        if self._tells:
            return collected(self._cotangents, cotangent, targets)
        return self._cotangents(cotangent, targets)

    def _cotangents(self, cotangent: PyTree, targets: Sequence[Any]) -> Any:
        for i in self.refs:
            if isinstance(targets[i], GradValue):
                raise DifferentiationError(
                    f"input {i} was a Ref of {self.in_types[i].show()}, whose cotangent is no value",
                    "name a Ref to add it to, `pullback.with_refs(...)`, or `ad.DontWant()`",
                )
        if self.refs:
            cotangent = cotangent, [self._held_cotangent(i, targets[i]) for i in self.refs]
        flat, found = tree.flatten(cotangent)
        if found != self.out_tree:
            raise TreeError(f"the cotangent has structure {found}, the output {self.out_tree}", "make them alike")
        unwanted = [isinstance(t, DontWant) for t in targets]
        cts = transpose_map(self.linear, check_linear(flat, self.out_types, "cotangent", "output"),
                            [not u for u in unwanted] if any(unwanted) else None)  # fmt: skip
        return self.in_tree.unflatten(map(self._put, range(len(cts)), cts, targets))

    def _held_cotangent(self, i: int, target: Any) -> Any:
        type = self.in_types[i].cotangent()
        return np.zeros(type.shape, type.dtype) if isinstance(target, DontWant) else target[...]

    def _put(self, i: int, ct: Operand | Zero, target: Any) -> Any:
        if isinstance(target, DontWant):
            return DidntWant()
        if isinstance(target, GradValue):
            return materialize(ct, self.in_types[i])
        if i in self.refs:
            target[...] = materialize(ct, self.in_types[i])
        else:
            RefAccum(self.in_types[i], target).accum(ct)
        return GradRef()


def _check_target(target: Any, wanted: Type) -> None:
    if isinstance(target, (GradValue, DontWant)):
        return
    found = typeof(target)
    if not isinstance(found, RefType) or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        raise ArgumentTypeError(f"a target of type {found.show()} of `with_refs` for a cotangent of {wanted.show()}",
                                "name a Ref of that shape and dtype, `GradValue()` or `DontWant()`")  # fmt: skip


@tree.register_pytree_node_class
class Pushforward(LinearFunction):
    """The function that `linearize` gives: tangents of the inputs to that of the output."""

    def __call__(self, *tangents: Any) -> Any:
        flat, found = tree.flatten(tangents)
        if found != self.in_tree:
            raise TreeError(f"tangents have structure {found}, primals {self.in_tree}", "make them alike")
        outs = self.linear(check_linear(flat, self.in_types, "tangent", "primal"))
        found = (weakened(instantiate(t), p) for t, p in zip(outs, self.out_types, strict=True))
        return self.out_tree.unflatten(map(_returned, found))
