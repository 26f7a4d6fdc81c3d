"""The public names of the package: namespaces, the kind of each name, its signature, docstring and family.

`python -m docs.website.public_names` counts the names without a docstring or an example.
"""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

# Each namespace of the reference: its contents, and the name in JAX where that differs.
NAMESPACES = {
    "tilewright": "transformations, compilation, devices, arrays",
    "tilewright.lang": "the kernel language",
    "tilewright.lang.cpu": "kernels as machine code for CPUs",
    "tilewright.lang.cutlass": "matrix products as CUTLASS kernels",
    "tilewright.lang.mosaic_gpu": "warpgroup kernels for Hopper and Blackwell",
    "tilewright.lang.tpu": "kernels for TPUs",
    "tilewright.lang.triton": "kernels for GPUs, by Triton",
    "tilewright.numpy": "NumPy's functions",
    "tilewright.numpy.fft": "discrete Fourier transforms",
    "tilewright.numpy.linalg": "linear algebra",
    "tilewright.lax": "primitive operations and control flow",
    "tilewright.lax.linalg": "matrix decompositions",
    "tilewright.nn": "activations, normalisation, attention",
    "tilewright.nn.fused": "fused layers and losses as kernels",
    "tilewright.nn.initializers": "initial values of weights",
    "tilewright.random": "random numbers from explicit keys",
    "tilewright.scipy.cluster.vq": "vector quantisation",
    "tilewright.scipy.fft": "cosine transforms",
    "tilewright.scipy.integrate": "integration of samples",
    "tilewright.scipy.interpolate": "interpolation on grids",
    "tilewright.scipy.linalg": "linear algebra, in SciPy's names",
    "tilewright.scipy.ndimage": "interpolation of images",
    "tilewright.scipy.optimize": "minimisation",
    "tilewright.scipy.signal": "convolution and spectral analysis",
    "tilewright.scipy.sparse.linalg": "iterative solvers",
    "tilewright.scipy.spatial.transform": "rotations",
    "tilewright.scipy.special": "special functions",
    "tilewright.scipy.stats": "statistics; each distribution is a module",
    "tilewright.image": "resampling of images",
    "tilewright.ops": "sums over segments",
    "tilewright.sharding": "meshes, shardings, per-device programs",
    "tilewright.distributed": "several processes",
    "tilewright.kernels.collective": "kernels that communicate",
    "tilewright.tuning": "autotuning",
    "tilewright.bench": "benchmarks",
    "tilewright.profiler": "profiles and memory reports",
    "tilewright.debug": "printing and callbacks from compiled code",
    "tilewright.experimental.checkify": "run-time checks as values",
    "tilewright.experimental.sparse": "sparse arrays",
    "tilewright.export": "serialised functions",
    "tilewright.checkpoints": "saved pytrees of arrays",
    "tilewright.ffi": "foreign functions",
    "tilewright.dlpack": "exchange of arrays",
    "tilewright.dtypes": "dtypes and promotion",
    "tilewright.stages": "stages of compilation",
    "tilewright.ref": "mutable arrays",
    "tilewright.ad": "options of pullbacks",
    "tilewright.custom_batching": "custom `vmap` rules",
    "tilewright.custom_derivatives": "custom derivative rules",
    "tilewright.tree": "pytrees",
    "tilewright.tree_util": "registration and paths of pytrees",
    "tilewright.flatten_util": "pytrees as vectors",
}


@dataclass(frozen=True)
class Entry:
    """A public name and its value."""

    space: str
    name: str
    value: Any

    @cached_property
    def kind(self) -> str:
        """`function`, `class`, `error`, `module` or `value`."""
        v = self.value
        if isinstance(v, types.ModuleType):
            return "module"
        if isinstance(v, type):
            scalar = isinstance(getattr(v, "dtype", None), np.dtype)  # such as `float32`
            plain = scalar or issubclass(v, (BaseException, enum.Enum, np.generic)) or typing.is_typeddict(v)
            return "error" if issubclass(v, BaseException) else "value" if plain else "class"
        generic = isinstance(v, (typing.TypeAliasType, types.UnionType, types.GenericAlias))
        return "function" if callable(v) and not generic and _documented(v) else "value"

    @cached_property
    def doc(self) -> str:
        """Its docstring without indentation; of a value that of its type's instances is not taken."""
        return inspect.cleandoc(self.value.__doc__ or "") if self.kind in ("function", "class", "error") else ""

    @property
    def sentence(self) -> str:
        """The first paragraph of the docstring as one line."""
        return " ".join(self.doc.partition("\n\n")[0].split())

    @property
    def example(self) -> bool:
        """Whether the docstring has an example that runs."""
        return bool(doctest.DocTestParser().get_examples(self.doc))

    @cached_property
    def family(self) -> str:
        """The module that defines it, as a title."""
        module = getattr(self.value, "__module__", "") or ""
        stem = module.rpartition(".")[2].lstrip("_") if module.startswith("tilewright.") else ""
        return stem.replace("_", " ").capitalize()

    @cached_property
    def signature(self) -> str:
        """The call with parameters and defaults, or nothing where Python knows none."""
        try:
            found = inspect.signature(self.value)
        except (TypeError, ValueError):
            return ""
        return _call(self.name, found)


def _documented(v: Any) -> bool:
    return isinstance(v, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)) or (
        bool(getattr(v, "__doc__", None)) and v.__doc__ != type(v).__doc__
    )


def _default(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    text = repr(value)
    return "..." if " at 0x" in text or len(text) > 60 else text


def _annotation(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else str(value)
    return text.replace("typing.", "").replace("collections.abc.", "")


def _parameter(p: inspect.Parameter) -> str:
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    typed = f": {_annotation(p.annotation)}" if p.annotation is not p.empty else ""
    if p.default is p.empty:
        return f"{stars}{p.name}{typed}"
    return f"{p.name}{typed}{' = ' if typed else '='}{_default(p.default)}"


def _call(name: str, signature: inspect.Signature, width: int = 88) -> str:
    """A call as Python writes it, a parameter a line where it is long."""
    parts, kinds = [], [p.kind for p in signature.parameters.values()]
    for i, p in enumerate(signature.parameters.values()):
        if p.kind is p.KEYWORD_ONLY and p.VAR_POSITIONAL not in kinds and p.KEYWORD_ONLY not in kinds[:i]:
            parts.append("*")
        if p.kind is not p.POSITIONAL_ONLY and i and kinds[i - 1] is p.POSITIONAL_ONLY:
            parts.append("/")
        parts.append(_parameter(p))
    if kinds and kinds[-1] is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    result = signature.return_annotation
    gives = f" -> {_annotation(result)}" if result is not signature.empty else ""
    line = f"{name}({', '.join(parts)}){gives}"
    return line if len(line) <= width else f"{name}(\n" + "".join(f"    {p},\n" for p in parts) + f"){gives}"


def names_of(space: str) -> list[str]:
    """The public names of a namespace: its `__all__`, or what it defines."""
    module = importlib.import_module(space)
    found = getattr(module, "__all__", None)
    if found is None:
        found = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == space]
    return sorted({n for n in found if not n.startswith("_")}, key=str.casefold)


def entries(space: str) -> Iterator[Entry]:
    """The names of a namespace that are no modules."""
    module = importlib.import_module(space)
    for name in names_of(space):
        entry = Entry(space, name, getattr(module, name))
        if entry.kind != "module":
            yield entry


def lacking() -> dict[str, list[str]]:
    """The functions and classes without a docstring, and the functions without an example, by full name.

    A function of several names is listed once, under the first.
    """
    seen: set[int] = set()
    found: dict[str, list[str]] = {"docstring": [], "example": []}
    for space in NAMESPACES:
        for entry in entries(space):
            if entry.kind == "value" or id(entry.value) in seen:
                continue
            seen.add(id(entry.value))
            if not entry.doc and entry.value.__module__.startswith("tilewright"):  # not of jaxlib
                found["docstring"].append(f"{space}.{entry.name}")
            if entry.kind == "function" and not entry.example:
                found["example"].append(f"{space}.{entry.name}")
    return found


def main() -> None:
    """Print the counts and the names."""
    total = {f"{space}.{e.name}" for space in NAMESPACES for e in entries(space)}
    print(f"{len(total)} public names in {len(NAMESPACES)} namespaces")
    for what, names in lacking().items():
        print(f"{len(names)} without {what}", *names, sep="\n  ", file=sys.stdout)


if __name__ == "__main__":
    main()
