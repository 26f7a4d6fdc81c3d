"""A kernel as the custom call `tpu_custom_call`: the serialised module, and its configuration for libtpu."""

from __future__ import annotations

import base64
import json
from typing import Any

from jaxlib.mlir import ir

from ..core.support.errors import ProgramError
from ..core.support.memo import cached
from ..lang.legalize import Legal, entry
from ..lang.targets.target import CustomCall, Target
from ..lang.transforms.fit_vmem import in_vmem
from .lower import mosaic_module
from .module import MosaicModule
from .rules import BACKEND
from .serialization import context, serialize

TARGET = "tpu_custom_call"
_VMEM = 1  # the number of vector memory among the memory spaces of XLA's TPU compiler


def pretty(text: str, name: str) -> str:
    """A module's text as MLIR prints it, verified.

    Raises:
      ProgramError: a text that is not MLIR, or breaks an operation's rules: a fault of the lowering.
    """
    with context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
            module.operation.verify()
        except ir.MLIRError as error:
            raise _invalid(name, error) from None
        return str(module)


def serialized(text: str, name: str) -> bytes:
    """The versioned bytecode of a module, as libtpu takes it."""
    try:
        return serialize(text)
    except ir.MLIRError as error:
        raise _invalid(name, error) from None


def _invalid(name: str, error: Exception) -> ProgramError:
    return ProgramError(f"kernel {name}: its Mosaic module is not valid: {error}", "report this kernel: it is a fault "
                        "of the lowering")  # fmt: skip


def backend_config(module: MosaicModule) -> str:
    """The JSON that rides on the custom call."""
    custom: dict[str, Any] = {
        "body": base64.b64encode(serialized(module.text, module.name)).decode(),
        "serialization_format": 1,
        "needs_layout_passes": module.needs_layout_passes,
        "cost_estimate": {
            "flops": module.flops, "transcendentals": module.transcendentals,
            "bytes_accessed": module.bytes_accessed, "remote_bytes_transferred": 0,
        },
    }  # fmt: skip
    if module.has_communication:
        custom["has_communication"] = True
    if module.collective_id is not None:
        custom["collective_id"] = module.collective_id
    config: dict[str, Any] = {"custom_call_config": custom}
    if module.vmem_limit is not None:
        config["scoped_memory_configs"] = [{"memory_space": _VMEM, "offset": 0, "size": module.vmem_limit}]
    return json.dumps(config)


@entry(BACKEND)
@cached(512)
def emit(kernel: Legal, machine: Target) -> CustomCall:
    """A kernel as a TPU's custom call.

    Raises:
      DtypeError: a dtype that a TPU's registers do not hold.
      UnsupportedError: an operation without a TPU form.
    """
    fitted = in_vmem(kernel.given, machine)
    module = mosaic_module(fitted.kernel, machine)
    finish = fitted.around(kernel.given, module.out_types, module.finish)
    text = backend_config(module).replace("\\", "\\5C").replace('"', "\\22")
    return CustomCall(TARGET, f'"{text}"', module.in_types, module.out_types, 1, module.aliases, module.prepare,
                      finish, module.name)  # fmt: skip
