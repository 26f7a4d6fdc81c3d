"""Primitives as clients make them: an empty one first, then its rules, one registration at a time.

A client's primitive is one of ours, whose rules are set after it was made. The registries (`primitive_jvps` and the
like) are views of the rules that primitives carry, the package's own among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from ..core.ir import primitive as core
from ..core.ir.program import CALLBACK, NO_EFFECTS, Effects
from ..core.support.errors import ArgumentTypeError, UnsupportedError
from ..core.support.runtime import runtime

_known: list[Primitive] = runtime.part("as_jax.primitives", [])


class _IsPrimitive(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (cls is Primitive and isinstance(instance, core.Primitive))


class Primitive(core.Primitive, metaclass=_IsPrimitive):
    """`jax.extend.core.Primitive`: named, and given its rules by `def_impl`, `def_abstract_eval` and the registries."""

    _multiple = False  # `multiple_results` of a subclass

    def __init__(self, name: str):
        super().__init__(name, self._types, multiple=self._multiple)
        vars(self).pop("impl", None)  # which would hide the method of a subclass
        self.effects = self._effects if type(self).abstract_eval is not Primitive.abstract_eval else None
        _known.append(self)

    def __init_subclass__(cls) -> None:
        multiple = cls.__dict__.get("multiple_results")
        if isinstance(multiple, bool):
            cls._multiple = multiple
            del cls.multiple_results

    # A frozen dataclass of ours is not frozen here: its rules come one by one.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__

    @property
    def multiple_results(self) -> bool:
        return self.multiple

    @multiple_results.setter
    def multiple_results(self, value: bool) -> None:
        self.multiple = value

    def abstract_eval(self, *types: Any, **params: Any) -> tuple[Any, Any]:
        """The types of its results, and its effects; a subclass may define it, and `impl`, as methods."""
        raise UnsupportedError(f"{self.name} has no rule for the types of its results", "call its `def_abstract_eval`")

    def _types(self, *types: Any, **params: Any) -> Any:
        return self.abstract_eval(*types, **params)[0]

    def _effects(self, *types: Any, **params: Any) -> Effects:
        return frozenset((CALLBACK,)) if self.abstract_eval(*types, **params)[1] else NO_EFFECTS

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """Say what computes it on arrays."""
        self.impl: Callable[..., Any] = impl
        return impl

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Say what types its results have."""
        self.abstract_eval = lambda *types, **params: (rule(*types, **params), NO_EFFECTS)
        self.typing, self.effects = rule, None
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Say what types its results have, and what effects it has."""
        self.abstract_eval = rule
        self.typing, self.effects = self._types, self._effects
        return rule

    def def_bind_with_trace(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        raise UnsupportedError("def_bind_with_trace has no adapter", "give the primitive rules for each transformation")


def own(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its own around a rule, which may be registered more than once."""

    def ours(*args: Any, **params: Any) -> Any:
        return rule(*args, **params)

    return ours


class Registry(MutableMapping[Any, Any]):
    """Rules of one kind by primitive: a view of what primitives carry in the field `kind`.

    `to` makes our rule of a client's. Reading gives back what a client registered, and for the package's own primitives
    what `of` makes of our rule.
    """

    kind: str
    to: Any
    of: Any

    def __init__(self, kind: str, to: Any = None, of: Any = lambda rule: rule):
        self.kind, self.to, self.of = kind, own if to is None else to, of

    def __setitem__(self, primitive: Any, rule: Any) -> None:
        if not isinstance(primitive, core.Primitive):
            raise ArgumentTypeError(f"a rule was registered for {primitive!r}, which is no primitive",
                                    "make one with `jax.extend.core.Primitive`")  # fmt: skip
        ours = self.to(rule)
        ours.__client__ = rule
        object.__setattr__(primitive, self.kind, ours)

    def __getitem__(self, primitive: Any) -> Any:
        rule = getattr(primitive, self.kind, None)
        if rule is None:
            raise KeyError(primitive)
        return rule.__client__ if hasattr(rule, "__client__") else self.of(rule)

    def __delitem__(self, primitive: Any) -> None:
        self[primitive]
        object.__setattr__(primitive, self.kind, None)

    def __contains__(self, primitive: object) -> bool:
        return getattr(primitive, self.kind, None) is not None

    def __iter__(self) -> Iterator[Any]:
        return (p for p in _known if p in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
