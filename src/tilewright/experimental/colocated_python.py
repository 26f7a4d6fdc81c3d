"""Functions and objects of Python that run where the devices of their arguments are.

Every device belongs to a process that runs Python, so that is this process: a function is called at once, with the
arrays as they are.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.api.transformations import ShapeDtypeStruct
from ..core.sharding.mesh import Mesh
from ..core.support import pytree
from ..core.support.errors import ArgumentError
from ..devices import devices as devices_of
from ..xla_backend.arrays.array import Array

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]
__dir__: Callable[[], list[str]] = __all__.copy


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices beside some devices, in their order, or a mesh of them; those of the CPU are their own.

    Raises:
      ArgumentError: a process has fewer CPU devices than it has of these.

    >>> import tilewright as tw
    >>> colocated_cpu_devices(tw.devices("cpu")) == tw.devices("cpu")
    True
    """
    if isinstance(devices_or_mesh, Mesh):
        beside = np.array(colocated_cpu_devices(devices_or_mesh.devices.flat), object)
        return Mesh(beside.reshape(devices_or_mesh.devices.shape), devices_or_mesh.axis_names,
                    axis_types=devices_or_mesh.axis_types)  # fmt: skip
    free: dict[int, Iterator[Any]] = {}
    found = [d if d.platform == "cpu" else next(free.setdefault(d.process_index, _of_process(d.process_index)), None)
             for d in devices_or_mesh]  # fmt: skip
    if None in found:
        raise ArgumentError(f"a process has fewer CPU devices than others among {list(devices_or_mesh)}",
                            "set `num_cpu_devices` to as many, before the first computation")  # fmt: skip
    return found


def _of_process(index: int) -> Iterator[Any]:
    return (d for d in devices_of("cpu") if d.process_index == index)


class _Stated(NamedTuple):
    """What is said of a function's calls: the types of arguments, those of results by them, the devices."""

    in_specs: Any = None
    out_specs_fn: Callable[..., Any] | None = None
    devices: tuple[Any, ...] | None = None

    def and_also(self, **stated: Any) -> _Stated:
        given = {name: value for name, value in stated.items() if value is not None}
        for name in given:
            if getattr(self, name) is not None:
                raise ArgumentError(f"`{name}` is stated already", f"leave out `{name}`")
        return self._replace(**given)


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function of pytrees of arrays that runs where these are; `f.specialize(...)` states more of it.

    `specialize(in_specs, out_specs_fn, devices)` gives a function whose arguments have the types of `in_specs`, a
    pytree for `(args, kwargs)`, whose results have those that `out_specs_fn` gives for these, and which runs beside
    `devices`. A function without arguments needs `devices`.

    Raises:
      ArgumentError: what is no array among arguments and results, arguments on different devices, no arguments and
        no devices, or types that are not as stated.

    >>> from tilewright import numpy as tnp
    >>> add = colocated_python(lambda x: x + 1)
    >>> add(tnp.arange(3)).tolist()
    [1, 2, 3]
    """
    return _specialized(fun, _Stated())


def _specialized(fun: Callable[..., Any], stated: _Stated) -> Any:
    name = getattr(fun, "__name__", type(fun).__name__)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = _specs((args, kwargs), f"an argument of {name}")
        if stated.devices is None:
            _need_devices(given, name)
        if stated.in_specs is not None:
            _hold(given, stated.in_specs, f"the arguments of {name}")
        result = fun(*args, **kwargs)
        made = _specs(result, f"a result of {name}")
        if stated.out_specs_fn is not None:
            _hold(made, stated.out_specs_fn(*given[0], **given[1]), f"the results of {name}")
        return result

    def specialize(
        in_specs: Any = None, out_specs_fn: Callable[..., Any] | None = None, devices: Sequence[Any] | None = None
    ) -> Any:
        devices = None if devices is None else tuple(devices)
        return _specialized(fun, stated.and_also(in_specs=in_specs, out_specs_fn=out_specs_fn, devices=devices))

    call.specialize = specialize
    return call


def _specs(values: Any, what: str) -> Any:
    """The types of arrays, and where they are."""

    def spec(x: Any) -> Any:
        if type(x) is not Array:
            raise ArgumentError(f"{what} is of type {type(x).__name__}", "pass and return arrays that are no tracers")
        return ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)

    return pytree.map(spec, values)


def _need_devices(given: Any, name: str) -> None:
    found = {frozenset(x.sharding.device_set) for x in pytree.leaves(given)}
    if len(found) != 1:
        what = "lie on different devices" if found else "are none, so nothing says where it runs"
        raise ArgumentError(f"the arguments of {name} {what}", f"say where: {name}.specialize(devices=...)")


def _hold(found: Any, stated: Any, what: str) -> None:
    """Raise where types are not as stated."""
    types = [[(x.shape, x.dtype) for x in pytree.leaves(one)] for one in (found, stated)]
    if pytree.structure(found) != pytree.structure(stated) or types[0] != types[1]:
        raise ArgumentError(f"{what} are {found}, and {stated} is stated", "state the types that they have")


def colocated_python_class(cls: type) -> type:
    """A class whose objects are made at the first call of a method, where the arrays are; methods are as functions.

    >>> from tilewright import numpy as tnp
    >>> @colocated_python_class
    ... class Sum:
    ...     def __init__(self):
    ...         self.total = 0
    ...     def add(self, x):
    ...         self.total = self.total + x
    ...         return self.total
    >>> found = Sum()
    >>> [float(found.add(tnp.ones(()))) for _ in range(2)]
    [1.0, 2.0]
    """

    class Colocated:
        @functools.wraps(cls.__init__)
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made = _Once(functools.partial(cls, *args, **kwargs))
            for name, method in inspect.getmembers(cls, inspect.isfunction):
                if name not in ("__init__", "__del__", "__reduce__", "__reduce_ex__"):
                    setattr(self, name, colocated_python(_method(made, method)))

    Colocated.__name__, Colocated.__qualname__, Colocated.__doc__ = cls.__name__, cls.__qualname__, cls.__doc__
    return Colocated


class _Once:
    """What a function makes, made when it is first asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make, self.lock = make, threading.Lock()

    def __call__(self) -> Any:
        with self.lock:
            if not hasattr(self, "made"):
                self.made = self.make()
        return self.made


def _method(made: _Once, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return method(made(), *args, **kwargs)

    return call
