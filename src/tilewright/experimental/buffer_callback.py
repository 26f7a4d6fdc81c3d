"""Python functions that fill a program's memory in place, under the names of `jax.experimental.buffer_callback`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.primitives.external.ffi_call import ForeignCall, buffer_callback_p
from ..core.primitives.external.host_callback import check_vmap_method
from ..core.support import pytree
from ..core.support.errors import ArgumentError
from ..core.tracing.trace import as_type
from ..xla_backend.jaxlib.shim import Buffer, ExecutionContext, ExecutionStage


class InputBuffer:
    """An argument's memory, which is not to be written to: other programs may read it."""

    __slots__ = ("_buffer",)

    def __init__(self, buffer: Any):
        self._buffer = buffer

    @property
    def dtype(self) -> Any:
        return self._buffer.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        return self._buffer.shape

    @property
    def ndim(self) -> int:
        return self._buffer.ndim

    writeable = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._buffer.__array__().view()
        array.flags.writeable = False
        return array.astype(dtype) if dtype is not None and dtype != array.dtype else array.copy() if copy else array

    @property
    def __cuda_array_interface__(self) -> Any:
        return self._buffer.__cuda_array_interface__

    def __dlpack__(self, **how: Any) -> Any:
        return self._buffer.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self._buffer.__dlpack_device__()


class _Flat:
    """A user's function of flat buffers: the context, the arguments, the results."""

    def __init__(self, function: Callable[..., Any], in_tree: Any, out_tree: Any, shared: frozenset[int]):
        self.function, self.in_tree, self.out_tree, self.shared = function, in_tree, out_tree, shared
        self.__name__ = getattr(function, "__name__", "callback")

    def __call__(self, context: Any, *buffers: Any) -> None:
        count = self.in_tree.num_leaves
        given = [b if i in self.shared else InputBuffer(b) for i, b in enumerate(buffers[:count])]
        args, kwargs = self.in_tree.unflatten(given)
        self.function(context, self.out_tree.unflatten(buffers[count:]), *args, **kwargs)


def buffer_callback(
    callback: Callable[..., None], result_shape_dtypes: Any, *, has_side_effect: bool = False,
    vmap_method: str | None = None, input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls `callback(context, results, *args)` on the program's own memory, without copies.

    `results` are of the structure of `result_shape_dtypes`, and the callback fills them: `numpy.asarray(out)[...] = x`
    on the CPU, DLPack or `__cuda_array_interface__` on a GPU. Arguments are read only, but for those that
    `input_output_aliases` names, by their flat numbers. `vmap_method` is as in `pure_callback`. An error of the
    callback is an `ExecutionError` where its results are used, whose `raised` is the callback's own.

    >>> import numpy as np, tilewright as tw
    >>> def double(context, out, x):
    ...     np.multiply(np.asarray(x), 2, out=np.asarray(out))
    >>> call = buffer_callback(double, tw.ShapeDtypeStruct((3,), np.float32))
    >>> tw.jit(call)(np.ones(3, np.float32)).tolist()
    [2.0, 2.0, 2.0]
    """
    check_vmap_method("buffer_callback", vmap_method)
    if not callable(callback):
        raise ArgumentError(f"the callback is {callback!r}", "pass a function")
    structs, out_tree = pytree.flatten(result_shape_dtypes)
    types = tuple(as_type(s).strong() for s in structs)
    aliases = tuple(sorted((input_output_aliases or {}).items()))
    how = ForeignCall(getattr(callback, "__name__", "callback"), "{}", has_side_effect, aliases)

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = pytree.flatten((args, kwargs))
        flat = _Flat(callback, in_tree, out_tree, frozenset(i for i, _ in aliases))
        outs = buffer_callback_p.bind(*leaves, call=how, callback=flat, result_types=types, vmap_method=vmap_method)
        return out_tree.unflatten(outs)

    return call


__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]
__dir__: Callable[[], list[str]] = __all__.copy
