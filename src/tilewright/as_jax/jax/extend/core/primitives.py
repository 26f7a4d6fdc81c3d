"""`jax.extend.core.primitives`: the primitives of this package, under the names of jax's."""

from __future__ import annotations

from typing import Any

from .....core.ir.primitive import Primitive
from .....core.primitives.catalogue import ALL
from ....missing import not_adapted

_BY_NAME = {f"{primitive.name}_p": primitive for primitive in ALL}
# Those that have another name here.
_OTHERS = {"add_jaxvals_p": "add_any_p", "remat_p": "checkpoint_p"}
# Calls that programs here never have (each is a `jit`), for libraries that keep a rule for each kind of call.
_BY_NAME |= {f"{name}_p": Primitive(name, lambda *types, **params: []) for name in ("call", "closed_call")}
_missing = not_adapted("jax.extend.core.primitives")


def __getattr__(name: str) -> Any:
    found = _BY_NAME.get(_OTHERS.get(name, name))
    return _missing(name) if found is None else found


def __dir__() -> list[str]:
    return sorted({*_BY_NAME, *_OTHERS})
