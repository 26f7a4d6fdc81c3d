"""Functions that are wrapped step by step, as `jax.extend.linear_util` has them.

A transformation wraps a function `f`: as a generator it yields the arguments for `f`, is sent the results, and yields
its own; one with `2` in its name takes `f` as its first argument.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from ..core.support.errors import ProgramError

if TYPE_CHECKING:
    from functools import partial


class StoreException(Exception):
    """A store was read before it was filled, or filled twice."""


class Store:
    """A place that is filled once."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def store(self, value: Any) -> None:
        if self._values:
            raise StoreException("the store is filled already")
        self._values.append(value)

    @property
    def val(self) -> Any:
        if not self._values:
            raise StoreException("the store is empty")
        return self._values[0]

    def reset(self) -> None:
        self._values.clear()

    def __bool__(self) -> bool:
        return bool(self._values)


class WrappedFun:
    """A function with the transformations around it; called by `call_wrapped`."""

    f: Callable[..., Any]
    params: dict[str, Any]
    debug_info: Any
    stores: tuple[Store, ...]
    f_transformed: partial[Any] | Callable[..., Any]

    def __init__(self, f: Callable[..., Any], params: dict[str, Any] | None = None, debug_info: Any = None,
                 stores: tuple[Store, ...] = (), f_transformed: Callable[..., Any] | None = None,
                 transforms: tuple[Hashable, ...] = ()):  # fmt: skip
        self.f, self.params, self.debug_info, self.stores = f, dict(params or {}), debug_info, stores
        self.f_transformed = functools.partial(f, **self.params) if f_transformed is None else f_transformed
        self.transforms = transforms

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def wrap(self, key: Hashable, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]], *stores: Store) -> Any:
        """The function with one more transformation around it."""
        return WrappedFun(self.f, self.params, self.debug_info, (*stores, *self.stores), wrapper(self.f_transformed),
                          (key, *self.transforms))  # fmt: skip

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        return self.f_transformed(*args, **kwargs)

    def with_unknown_names(self) -> WrappedFun:
        return self

    def __hash__(self) -> int:
        return hash((self.f, self.transforms))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and (self.f, self.transforms) == (other.f, other.transforms)


def wrap_init(f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None) -> WrappedFun:
    """A function that transformations can wrap."""
    return WrappedFun(f, params, debug_info)


def transformation2(gen: Callable[..., Any], fun: WrappedFun, *args: Any) -> WrappedFun:
    """Wrap with `gen(f, *args, *call_args)`."""
    return fun.wrap((gen, args), lambda f: functools.partial(gen, f, *args))


def transformation_with_aux2(
    gen: Callable[..., Any], fun: WrappedFun, *args: Any, use_eq_store: bool = False
) -> tuple[WrappedFun, Callable[[], Any]]:
    """Wrap with `gen(f, store, *args, *call_args)`; also gives what reads the store afterwards."""
    store = Store()
    wrapped = fun.wrap((gen, args), lambda f: functools.partial(gen, f, store, *args), store)
    return wrapped, lambda: store.val


def _drive(gen: Callable[..., Any], f: Callable[..., Any], args: tuple[Any, ...], call: Any, kwargs: Any) -> Any:
    """Run a generator around a function; gives what it yields last."""
    steps = gen(*args, *call, **kwargs)
    inner_args, inner_kwargs = next(steps)
    return steps.send(f(*inner_args, **inner_kwargs))


def _curried(gen: Callable[..., Any], wrap: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(gen)
    def transform(fun: WrappedFun, *args: Any) -> Any:
        return wrap(fun, *args)

    return transform


def transformation(gen: Callable[..., Any], fun: Any = None, *args: Any) -> Any:
    """Wrap with a generator that yields (args, kwargs), then the results. As a decorator it makes a transformation."""

    def wrap(fun: WrappedFun, *args: Any) -> WrappedFun:
        return fun.wrap((gen, args), lambda f: lambda *call, **kwargs: _drive(gen, f, args, call, kwargs))

    return _curried(gen, wrap) if fun is None else wrap(fun, *args)


def transformation_with_aux(gen: Callable[..., Any], fun: Any = None, *args: Any, **_: Any) -> Any:
    """Wrap with a generator whose last yield is (results, auxiliary); also gives what reads the latter afterwards."""

    def wrap(fun: WrappedFun, *args: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store = Store()

        def around(f: Callable[..., Any]) -> Callable[..., Any]:
            def called(*call: Any, **kwargs: Any) -> Any:
                out, aux = _drive(gen, f, args, call, kwargs)
                store.store(aux)
                return out

            return called

        return fun.wrap((gen, args), around, store), lambda: store.val

    return _curried(gen, wrap) if fun is None else wrap(fun, *args)


def merge_linear_aux(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[bool, Any]:
    """What the one of two stores holds that was filled, and whether it was the first."""
    try:
        found = first()
    except StoreException:
        return False, second()
    try:
        second()
    except StoreException:
        return True, found
    raise ProgramError("both stores are filled")


def cache(call: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    """The function itself: what is traced is kept by `jit`."""
    return call
