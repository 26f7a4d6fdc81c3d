"""The tables of a serialised export, as `jax.export` lays them out: field by field, in the order of their numbers."""

from __future__ import annotations

from typing import Any

from ..core.ir.types import FLOAT0, KEY_DTYPES, as_dtype
from ..core.sharding.mesh import AxisType

VERSION = 12  # of the tables, raised when a field is added
CALLING = (9, 10)  # versions of the calling convention that are known

SCHEMA: dict[str, tuple[tuple[str, Any], ...]] = {
    "PyTreeDef": (
        ("kind", "b"), ("children", ["PyTreeDef"]), ("names", ["str"]), ("custom_name", "str"),
        ("custom_data", "bytes"),
    ),
    "AbstractDevice": (("kind", "str"), ("cores", "I"), ("platform", "str")),
    "AbstractMesh": (
        ("sizes", ["I"]), ("names", ["str"]), ("types", ["b"]), ("device", "AbstractDevice"),
    ),
    "PartitionSpecOneAxis": (("axes", ["str"]),),
    "PartitionSpec": (
        ("partitions", ["PartitionSpecOneAxis"]), ("reduced", ["str"]), ("unreduced", ["str"]),
    ),
    "NamedSharding": (
        ("mesh", "AbstractMesh"), ("spec", "PartitionSpec"), ("memory_kind", "str"), ("mesh_number", "I"),
    ),
    "AbstractValue": (("kind", "b"), ("shape", ["str"]), ("dtype", "b"), ("memory_space", "b")),
    "Sharding": (("kind", "b"), ("hlo", "bytes"), ("named", "NamedSharding")),
    "Effect": (("name", "str"),),
    "DisabledSafetyCheck": (("kind", "b"), ("target", "str")),
    "Exported": (
        ("version", "H"), ("name", "str"), ("in_tree", "PyTreeDef"), ("in_types", ["AbstractValue"]),
        ("out_tree", "PyTreeDef"), ("out_types", ["AbstractValue"]), ("devices_short", "h"),
        ("in_shardings", ["Sharding"]), ("out_shardings", ["Sharding"]), ("platforms", ["str"]),
        ("ordered_effects", ["Effect"]), ("unordered_effects", ["Effect"]),
        ("disabled_checks", ["DisabledSafetyCheck"]), ("module", "bytes"), ("calling", "H"), ("kept", ["H"]),
        ("refined", "?"), ("vjp", "Exported"), ("devices", "I"), ("unique_types", ["AbstractValue"]),
        ("unique_meshes", ["AbstractMesh"]), ("unique_shardings", ["NamedSharding"]), ("in_numbers", ["I"]),
        ("out_numbers", ["I"]), ("in_sharding_numbers", ["I"]), ("out_sharding_numbers", ["I"]), ("written_by", "str"),
    ),
}  # fmt: skip

LEAF, NONE, TUPLE, LIST, DICT, CUSTOM = range(6)  # kinds of nodes of trees
CHECKS = ("platform", "custom_call", "shape_assertions")  # kinds of checks that may be disabled
ON_DEVICE = 1  # a memory space
AXIS_TYPES = (None, AxisType.Auto, AxisType.Explicit, AxisType.Manual)  # by their numbers

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", "bfloat16", "int4", "uint4", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", None, "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip
DTYPES: tuple[Any, ...] = (
    *(FLOAT0 if name is None else as_dtype(name) for name in _NAMES), *(KEY_DTYPES[n] for n in ("fry", "rbg", "urbg"))
)  # fmt: skip
NUMBERS: dict[Any, int] = {dtype: i for i, dtype in enumerate(DTYPES)}
