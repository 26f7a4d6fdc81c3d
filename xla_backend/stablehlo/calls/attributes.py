"""Values of Python as attributes of MLIR: of foreign calls, and of composites."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from ....core.ir.types import ArrayType
from ....core.support.errors import ArgumentTypeError
from ..emit import dense, element, tensor


def quoted(text: str) -> str:
    """A string as an MLIR attribute."""
    return '"' + text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A") + '"'


def attribute(value: object, where: str) -> str:
    """A value as an MLIR attribute: Python's integers have 64 bits and its floats too, NumPy's scalars their own."""
    match value:
        case bool() | np.bool_():
            return str(bool(value)).lower()
        case str():
            return quoted(value)
        case np.generic() if value.dtype.kind in "iu":
            return f"{int(value)} : {element(value.dtype)}"
        case np.generic() if value.dtype.kind == "f" or value.dtype == ml_dtypes.bfloat16:
            return f"0x{value.tobytes()[::-1].hex().upper()} : {element(value.dtype)}"
        case int() | float():
            return attribute(np.int64(value) if isinstance(value, int) else np.float64(value), where)
        case Mapping():
            return f"{{{', '.join(f'{quoted(k)} = {attribute(v, f'{where}.{k}')}' for k, v in value.items())}}}"
        case tuple() | list() | np.ndarray():
            array = np.asarray(value)
            if array.ndim == 1 and array.dtype.kind in "iufb":
                return _vector(array)
    raise ArgumentTypeError(f"the attribute {where} is {value!r} of type {type(value).__name__}",
                            "a number, a NumPy scalar, a string, a vector of numbers or a dictionary")  # fmt: skip


def _vector(array: np.ndarray) -> str:
    kind = "i1" if array.dtype == bool else element(array.dtype).removeprefix("u")
    if array.dtype == bool:
        items = [str(bool(x)).lower() for x in array]
    elif array.dtype.kind == "f":
        items = [f"0x{x.tobytes()[::-1].hex().upper()}" for x in array]
    else:
        items = [str(int(x)) for x in array]
    return f"array<{kind}: {', '.join(items)}>" if items else f"array<{kind}>"


def of_composite(value: object, where: str) -> str:
    """A value as an attribute of a `stablehlo.composite`: sequences of attributes, arrays as constants, dtypes."""
    match value:
        case Mapping():
            return f"{{{', '.join(f'{quoted(k)} = {of_composite(v, f"{where}.{k}")}' for k, v in value.items())}}}"
        case tuple() | list():
            return f"[{', '.join(of_composite(v, f'{where}[{i}]') for i, v in enumerate(value))}]"
        case np.ndarray():
            return f"dense<{dense(value, value.dtype)}> : {tensor(ArrayType(value.shape, value.dtype))}"
        case np.dtype():
            return element(value)
        case bytes():
            return quoted(value.decode())
    return attribute(value, where)
