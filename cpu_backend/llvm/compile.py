"""Objects of LLVM IR by llvmlite, which generates code only: the text is as good as an optimiser would make it.

llvmlite is imported when a kernel is compiled, not before: that takes 0.3 s.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

from ...core.support.errors import CompileError, VersionError
from ...core.support.memo import once
from ..machine.features import Features
from .builder import Builder

VERSION = 1  # of the generator: part of the name of what is kept on disk


@once
def missing() -> str | None:
    """Why no code can be generated here; None where it can."""
    try:
        version = importlib.metadata.version("llvmlite")
    except importlib.metadata.PackageNotFoundError:
        return "llvmlite, which generates machine code, is not installed: `pip install llvmlite`"
    return None if int(version.split(".")[1]) >= 45 or int(version.split(".")[0]) else f"llvmlite {version} is too old"


@once
def _binding() -> Any:
    why = missing()
    if why is not None:
        raise VersionError(why, "install llvmlite 0.45 or later")
    import llvmlite.binding as llvm  # noqa: PLC0415

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def generator_version() -> str:
    """What the code depends on besides the text and the machine, without importing LLVM."""
    try:
        return f"{VERSION} llvmlite {importlib.metadata.version('llvmlite')}"
    except importlib.metadata.PackageNotFoundError:
        return f"{VERSION}"


def _machine(features: Features) -> Any:
    llvm = _binding()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=features.cpu, features=features.attributes, opt=2, jit=True, reloc="pic", codemodel="small"
    )


def module_text(functions: Sequence[Builder]) -> str:
    """One module of functions."""
    declared = sorted(set().union(*(f.declared for f in functions)))
    tables = {name: text for f in functions for name, text in f.tables.items()}
    return "\n".join([*declared, *tables.values(), *(f.text() for f in functions), "!0 = !{i32 1}\n"])


def object_of(text: str, features: Features, assembly: bool = False) -> Any:
    """The object file of a module as bytes, or its assembly as text; raises a `CompileError` for a wrong one."""
    llvm = _binding()
    try:
        module = llvm.parse_assembly(text)
        machine = _machine(features)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
        return machine.emit_assembly(module) if assembly else machine.emit_object(module)
    except RuntimeError as error:
        raise CompileError(f"LLVM does not take a module: {str(error).strip()}", "report the kernel") from None
