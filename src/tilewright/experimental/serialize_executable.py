"""Compiled programs as bytes, under the names of `jax.experimental.serialize_executable`.

    bytes ::= MAGIC  length of the head (8 bytes)  head as JSON  constants as `numpy.save` writes them  XLA's executable

They hold machine code: load only what you trust. They are for the jaxlib, the kind of device and, on a CPU, the kind of
processor that they were made on; `tilewright.export` is for everything else.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.ir.types import FLOAT0, KEY_DTYPES, ArrayType, as_dtype
from ..core.jit.stages import Compiled
from ..core.support import pytree as tree
from ..core.support.config import config
from ..core.support.errors import ArgumentTypeError, ExportError, ExportVersionError
from ..core.support.runtime import runtime
from ..core.support.version import JAXLIB, __version__
from ..core.tracing.trace import typeof
from ..xla_backend.arrays.transfer import buffers, physical
from ..xla_backend.devices.client import as_device, client, default_device
from ..xla_backend.execution import dispatch
from ..xla_backend.execution.executable import CACHE_VERSION, Executable, compiled_for
from ..xla_backend.host.disk_cache import cpu_features
from ..xla_backend.jaxlib import shim
from ..xla_backend.pipeline.stablehlo_module import Module

MAGIC = b"TILEWRIGHT-EXECUTABLE1\n"


def _environment(device: Any) -> list[str]:
    kind = cpu_features() if device.platform == "cpu" else device.device_kind
    return [CACHE_VERSION, __version__, JAXLIB, device.platform, str(kind)]


def _told(type: ArrayType) -> list[Any]:
    name = "float0" if type.dtype == FLOAT0 else str(getattr(type.dtype, "name", type.dtype))
    return [list(type.shape), name, type.weak_type]


def _type(told: Sequence[Any]) -> ArrayType:
    shape, name, weak = told
    dtype = FLOAT0 if name == "float0" else KEY_DTYPES[name] if name in KEY_DTYPES else as_dtype(name)
    return ArrayType(tuple(shape), dtype, weak)


class Loaded:
    """A compiled program that was loaded: called as what it was made of, with its analyses."""

    in_tree: Any
    out_tree: Any

    def __init__(self, executable: Executable, in_tree: Any, out_tree: Any):
        self.in_tree, self.out_tree, self._executable = in_tree, out_tree, executable
        self._types = executable.module.in_types[len(executable.module.constants) :]
        self._run: Callable[..., Any] = dispatch.make_runner(executable, "tree", out_tree.unflatten)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, found = tree.flatten((args, kwargs))
        types = [typeof(x) for x in leaves]
        if found != self.in_tree or any(
            (a.shape, a.dtype) != (b.shape, b.dtype) for a, b in zip(types, self._types, strict=True)
        ):
            shown = ", ".join(t.show() for t in types)
            raise ArgumentTypeError(f"compiled for ({', '.join(t.show() for t in self._types)}) in {self.in_tree}, "
                                    f"called with ({shown}) in {found}", "call it with these types")  # fmt: skip
        return self._run(*buffers(leaves, self._types))

    def as_text(self) -> str:
        """The optimised program."""
        return self._executable.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """Estimates such as `flops` and `bytes accessed`."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """The bytes of arguments, outputs, temporary memory and code."""
        return self._executable.memory_analysis()


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """A compiled function as bytes, with the structures of its arguments and of its result.

    Raises:
      ArgumentTypeError: something that is not compiled. ExportError: a program with callbacks, or on a mesh.

    >>> import tilewright as tw
    >>> compiled = tw.jit(lambda x: x * 2).lower(tw.ShapeDtypeStruct((2,), "float32")).compile()
    >>> loaded = deserialize_and_load(*serialize(compiled))
    >>> loaded(tw.numpy.ones(2)).tolist()
    [2.0, 2.0]
    """
    executable = compiled.runtime_executable() if isinstance(compiled, Compiled) else None
    if not isinstance(executable, Executable):
        raise ArgumentTypeError(f"serialize of a {type(compiled).__name__}",
                                "pass what `jit(f).lower(...).compile()` gives")  # fmt: skip
    executable = _by_xla(executable)
    module = executable.module
    if module.callbacks or module.keep_alive or module.place is not None:
        what = "runs on a mesh" if module.place is not None else "calls functions of this process"
        raise ExportError(f"{module.name} {what}, and cannot be serialised", "compile it where it runs")
    arrays = io.BytesIO()
    for buffer in buffers(module.constants, module.in_types[: len(module.constants)]):
        held = shim.to_numpy(buffer)
        np.save(arrays, held.reshape(-1).view(np.uint8) if held.ndim else held.reshape(1).view(np.uint8))
    head = {
        "environment": _environment(executable.device), "name": module.name, "kept": module.kept,
        "in_types": [*map(_told, module.in_types)], "out_types": [*map(_told, module.out_types)],
        "forwarded": list(module.forwarded.items()), "donated": sorted(module.donated),
        "constants": len(module.constants), "platform": module.platform, "bytes": len(arrays.getvalue()),
    }  # fmt: skip
    text = json.dumps(head).encode()
    code = executable.serialize()
    return MAGIC + struct.pack("<Q", len(text)) + text + arrays.getvalue() + code, compiled.in_tree, compiled.out_tree


def _by_xla(executable: Executable) -> Executable:
    """The executable, with XLA in place of machine code that only this process has loaded.

    Raises an `ExportError` for a kernel that asks for machine code.
    """
    if not _has_machine_code(executable.module):
        return executable
    with config(cpu_route="xla"):
        module = executable.module.again(executable.device) if executable.module.again else executable.module
    if _has_machine_code(module):
        raise ExportError(f"{module.name} has a kernel as machine code, and cannot be serialised",
                          'let it have `CompilerParams(route="xla")`')  # fmt: skip
    return runtime.backend.compile(module, executable.device)


def _has_machine_code(module: Module) -> bool:
    emitted = module.reports.get("emit") if module.reports else None
    return emitted is not None and any(route.startswith("machine code") for _, route in emitted.routes)


def deserialize_and_load(
    serialized: bytes, in_tree: Any, out_tree: Any, backend: Any = None, execution_devices: Sequence[Any] | None = None
) -> Loaded:
    """What `serialize` was given, ready to be called on the default device or on the one named.

    Raises:
      ExportVersionError: bytes that are none of `serialize`, or were made by another version or for another device.

    >>> import tilewright as tw
    >>> compiled = tw.jit(lambda x: x + 1).lower(1.0).compile()
    >>> print(deserialize_and_load(*serialize(compiled))(2.0))
    3.0
    """
    if not serialized.startswith(MAGIC):
        raise ExportVersionError(f"these {len(serialized)} bytes are no compiled program", "pass what `serialize` gave")
    device = default_device() if not execution_devices else as_device(execution_devices[0])
    begin = len(MAGIC) + 8
    try:
        (size,) = struct.unpack_from("<Q", serialized, len(MAGIC))
        head = json.loads(serialized[begin : begin + size])
    except (struct.error, ValueError):
        raise ExportVersionError("the bytes of a compiled program are cut short", "write them whole") from None
    if head["environment"] != _environment(device):
        made, here = (", ".join(e[:4]) for e in (head["environment"], _environment(device)))
        raise ExportVersionError(f"{head['name']} was compiled for ({made}), and this is ({here}) or another processor",
                                 "compile it here, or use `tilewright.export`")  # fmt: skip
    place = begin + size
    file = io.BytesIO(serialized[place : place + head["bytes"]])
    in_types = tuple(map(_type, head["in_types"]))
    constants = tuple(_array(np.load(file), physical(t)) for t in in_types[: head["constants"]])
    module = Module(
        "", head["name"], constants, tuple(map(physical, in_types[: len(constants)])) + in_types[len(constants) :],
        tuple(map(_type, head["out_types"])), tuple(head["kept"]), dict(map(tuple, head["forwarded"])),
        frozenset(head["donated"]), platform=head["platform"],
    )  # fmt: skip
    try:
        code = serialized[place + head["bytes"] :]
        loaded = shim.deserialize(client(device.platform), code, *compiled_for(module, device))
    except shim.RuntimeFault as error:
        raise ExportVersionError(f"{head['name']} cannot be loaded: {error}", "compile it here") from None
    return Loaded(Executable(module, loaded, device), in_tree, out_tree)


def _array(data: np.ndarray, type: ArrayType) -> np.ndarray:
    return data.view(type.dtype).reshape(type.shape)


__all__ = ["Loaded", "deserialize_and_load", "serialize"]
__dir__: Callable[[], list[str]] = __all__.copy
