"""`Exported`: a function as a program that other processes can call, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..core.ir.binding import is_evaluating
from ..core.ir.symbolic.dim import evaluated
from ..core.ir.symbolic.solve import check_constraints, solved
from ..core.ir.types import FLOAT0, ArrayType, is_key
from ..core.jit.jit import jit
from ..core.primitives.custom.custom_derivatives import custom_vjp
from ..core.primitives.external.call_exported import call_exported_p
from ..core.primitives.keys.threefry import random_unwrap_p, random_wrap_p
from ..core.sharding.mesh import AbstractMesh, Mesh, NamedSharding
from ..core.sharding.mesh_in_force import get_mesh
from ..core.sharding.sharding_in_types import auto_axes
from ..core.support import pytree
from ..core.support.errors import ExportError, TreeError
from ..core.support.memo import cached
from ..core.tracing.trace import typeof
from ..xla_backend.arrays.transfer import physical
from ..xla_backend.devices.client import default_device
from ..xla_backend.jaxlib import shim
from .checks import DisabledSafetyCheck
from .writing import serialized


def _over(sharding: NamedSharding | None, mesh: Any) -> Any:
    """A sharding over another mesh of the same axes."""
    return sharding if sharding is None or mesh is None else sharding.update(mesh=mesh)


def _placement(x: Any) -> Any:
    """How a value lies on a mesh, as far as it or its type tells."""
    return getattr(x, "_placed", None) or typeof(x).placed


@cached(256)
def _program(exported: Exported, mesh: Any) -> Any:
    """The function of flat arguments that an export on a mesh is."""
    def call(*given: Any) -> Any:
        return auto_axes(exported._within)(mesh, *given)

    call.__name__ = exported.fun_name
    return jit(call, in_shardings=exported.in_shardings_jax(mesh), out_shardings=[*exported.out_shardings_jax(mesh)])


@dataclass(frozen=True, eq=False)
class Exported:
    """A function as StableHLO, with what is needed to call it; made by `export`, or by `deserialize`.

    `in_tree` and `in_avals` are the structure of `(args, kwargs)` and the flat types, whose sizes may be symbolic;
    `out_tree` and `out_avals` those of the result. `platforms` are those that the program is for, of `cpu`, `cuda`,
    `rocm` and `tpu`; where they are several, the first argument of the module is the number of one. The module takes
    the arguments at `module_kept_var_idx`. With `uses_global_constants` its sizes have to be worked out before it is
    compiled. On a mesh `in_shardings` and `out_shardings` say how the flat arguments and results lie on the axes of one
    of `nr_devices`. The fields are named as in `jax.export.Exported`.
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[ArrayType, ...]
    out_tree: Any
    out_avals: tuple[ArrayType, ...]
    platforms: tuple[str, ...]
    mlir_module_serialized: bytes = field(repr=False)
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    calling_convention_version: int
    disabled_safety_checks: Sequence[DisabledSafetyCheck] = ()
    nr_devices: int = 1
    in_shardings: tuple[NamedSharding | None, ...] = ()
    out_shardings: tuple[NamedSharding | None, ...] = ()
    scope: Any = field(default=None, repr=False)
    make_vjp: Callable[[Exported], Exported] | None = field(default=None, repr=False)
    ordered_effects: tuple[Any, ...] = ()
    unordered_effects: tuple[Any, ...] = ()
    callbacks: ClassVar[tuple[Any, ...]] = ()

    def mlir_module(self) -> str:
        """The program as text."""
        return shim.from_portable(self.mlir_module_serialized)

    def __str__(self) -> str:
        ins, outs = (", ".join(t.show() for t in types) for types in (self.in_avals, self.out_avals))
        return f"{self.fun_name}({ins}) -> ({outs}) for {', '.join(self.platforms)}"

    # ------------------------------------------------------------ on a mesh

    def in_shardings_jax(self, mesh: Any = None) -> tuple[NamedSharding | None, ...]:
        """How the flat arguments lie, over a mesh with devices where one is given."""
        return tuple(_over(s, mesh) for s in self.in_shardings)

    def out_shardings_jax(self, mesh: Any = None) -> tuple[NamedSharding | None, ...]:
        """How the flat results lie, over a mesh with devices where one is given."""
        return tuple(_over(s, mesh) for s in self.out_shardings)

    def _axes(self, values: Sequence[Any]) -> Any:
        """The mesh that it was exported for, with the devices of values, or else of the mesh in force.

        Raises:
          ExportError: these are not so many devices.
        """
        stated = next(s.mesh for s in (*self.in_shardings, *self.out_shardings) if s is not None)
        given: Any = next((p.mesh for p in (_placement(x) for x in values) if p is not None), None) or get_mesh()
        if given.size != self.nr_devices and not (given.empty and not is_evaluating()):
            raise ExportError(f"{self.fun_name} was exported for {self.nr_devices} devices, and is called on "
                              f"{given.size}", "bring an argument to a mesh of that many: `device_put(x, "
                              "e.in_shardings_jax(mesh)[0])`")  # fmt: skip
        if given.empty and self.nr_devices == 1:
            given = Mesh([default_device()], "x")
        if not isinstance(given, Mesh):
            return AbstractMesh(stated.axis_sizes, stated.axis_names)
        return Mesh(given.devices.reshape(stated.axis_sizes), stated.axis_names)

    def _on_mesh(self, given: Sequence[Any]) -> Sequence[Any]:
        """The flat results on a mesh, arrays of keys as their words."""
        mesh = self._axes(given)
        if is_evaluating():
            return _program(self, mesh)(*given)
        return auto_axes(self._within)(mesh, *given)

    def _within(self, mesh: Any, *given: Any) -> Sequence[Any]:
        ends = zip(given, self.in_shardings, strict=True)
        outs = call_exported_p.bind(*(x if s is None else _over(s, mesh).constrain(x) for x, s in ends), exported=self)
        return [x if s is None else _over(s, mesh).constrain(x) for x, s in zip(outs, self.out_shardings, strict=True)]

    # ------------------------------------------------------------ derivatives, bytes

    def has_vjp(self) -> bool:
        """Whether there is an export of the derivative."""
        return self.make_vjp is not None

    def vjp(self) -> Exported:
        """The export of the derivative: of the flat arguments and the flat cotangents of the results.

        It gives the flat cotangents of the arguments. Raises `ExportError` where there is none.
        """
        if self.make_vjp is None:
            raise ExportError(f"the export of {self.fun_name} has no derivative",
                              "serialise it with `serialize(vjp_order=1)`")  # fmt: skip
        return self.make_vjp(self)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The export as bytes, in the format of `jax.export`; with derivatives of reverse mode up to an order.

        Raises:
          ExportError: there is no derivative of that order. TreeError: nodes of a type that is not registered.
        """
        return serialized(self, vjp_order)

    # ------------------------------------------------------------ calling

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, from any program or none: nothing of it is traced again.

        Reverse mode needs the derivative to be there. Raises `TreeError` for arguments of another structure, and
        `ExportError` for sizes, dtypes or a platform that it was not exported for.
        """
        leaves, in_tree = pytree.registry.flatten((args, kwargs), None)
        if in_tree != self.in_tree:
            raise TreeError(f"{self.fun_name} was exported for arguments of the structure {self.in_tree}, and is "
                            f"called with {in_tree}", "call it with that structure")  # fmt: skip
        if is_evaluating():
            return self.out_tree.unflatten(self.flat(*leaves))
        return self.out_tree.unflatten(self._differentiable()(*leaves))

    def flat(self, *leaves: Any) -> list[Any]:
        """Call the function on flat arguments; it gives flat results."""
        self.typing([typeof(x) for x in leaves])  # type: ignore[misc]
        given = [random_unwrap_p.bind(x) if is_key(t.dtype) else x for x, t in zip(leaves, self.in_avals, strict=True)]
        on_mesh = any((*self.in_shardings, *self.out_shardings))
        outs = self._on_mesh(given) if on_mesh else call_exported_p.bind(*given, exported=self)
        return [random_wrap_p.bind(x, impl=t.dtype) if is_key(t.dtype) else x
                for x, t in zip(outs, self.out_avals, strict=True)]  # fmt: skip

    def _differentiable(self) -> Any:
        @custom_vjp
        def call(*leaves: Any) -> Any:
            return self.flat(*leaves)

        def forward(*leaves: Any) -> Any:
            return call(*leaves), leaves

        def backward(leaves: Any, cts: Any) -> Any:
            derivative = self.vjp()
            run = derivative._differentiable() if derivative.has_vjp() else derivative.flat
            return tuple(run(*leaves, *cts))

        call.defvjp(forward, backward)
        return call

    # ------------------------------------------------------------ types

    def names(self) -> list[str]:
        """What the flat arguments are called in messages."""
        paths = pytree.leaves_with_path(self.in_tree.unflatten(range(len(self.in_avals))))
        return [("args" if p[0].idx == 0 else "kwargs") + pytree.keystr(p[1:]) for p, _ in paths]

    def values(self, types: Sequence[ArrayType]) -> dict[str, Any]:
        """The values of the symbols for arguments of some types.

        Raises:
          ExportError: the arguments are not such as the function was exported for.
        """
        sizes = []
        for name, came, stated in zip(self.names(), types, self.in_avals, strict=True):
            stated, came = physical(stated), physical(came)
            if len(stated.shape) != len(came.shape) or stated.dtype != came.dtype:
                raise ExportError(f"{self.fun_name}: {name} is {came.show()}, and was exported as {stated.show()}",
                                  "pass an array of that rank and dtype")  # fmt: skip
            sizes += [(f"{self.fun_name}: {name}.shape[{axis}]", s, c)
                      for axis, (s, c) in enumerate(zip(stated.shape, came.shape, strict=True))]  # fmt: skip
        found = solved(sizes)
        if self.scope is not None:
            check_constraints(self.scope, found)
        return found

    def typing(self, given: Sequence[ArrayType]) -> list[ArrayType]:
        """The types of the results, for arguments of some types; arrays of keys as their words."""
        values = self.values(given)
        types = [t if t.dtype == FLOAT0 else physical(t) for t in self.out_avals]
        return [t.with_shape(evaluated(d, values) for d in t.shape) for t in types]

    def branch(self, platform: str) -> int:
        """The number of a platform.

        Raises:
          ExportError: the function was not exported for it.
        """
        if platform in self.platforms:
            return self.platforms.index(platform)
        if DisabledSafetyCheck.platform() in self.disabled_safety_checks:
            return 0
        raise ExportError(f"{self.fun_name} was exported for {', '.join(self.platforms)}, and is called on {platform}",
                          f"export it with platforms=[..., {platform!r}]")  # fmt: skip
