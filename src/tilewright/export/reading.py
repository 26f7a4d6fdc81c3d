"""Exports from bytes in the format of `jax.export`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.ir.symbolic.scope import SymbolicScope, parse
from ..core.ir.types import ArrayType
from ..core.sharding.mesh import AbstractMesh, AxisType, NamedSharding, PartitionSpec
from ..core.support import pytree
from ..core.support.errors import (
    ArgumentTypeError,
    ExportError,
    ExportVersionError,
    TilewrightError,
    UnsupportedError,
)
from . import flat, seal
from .checks import DisabledSafetyCheck
from .exported import Exported
from .nodes import node_of
from .schema import AXIS_TYPES, CALLING, CHECKS, CUSTOM, DICT, DTYPES, LEAF, SCHEMA, VERSION
from .writing import KINDS

_TYPES = {number: type for type, number in KINDS.items()}


def deserialize(blob: bytes | bytearray) -> Exported:
    """The export that bytes hold, written by this package or by `jax.export`.

    Loading runs nothing; calling it runs its program, so the bytes are to be trusted as a program is. Bytes that this
    package wrote end with a checksum, which is compared first.

    Raises:
      ExportVersionError: bytes that are damaged or no export, or of a version that is not known. TreeError: nodes of a
        type that is not registered.

    >>> import tilewright as tw
    >>> from tilewright import export
    >>> data = export.export(tw.jit(lambda x: x * 2))(tw.ShapeDtypeStruct((3,), "float32")).serialize()
    >>> export.deserialize(data).call(tw.numpy.ones(3)).tolist()
    [2.0, 2.0, 2.0]
    """
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise ArgumentTypeError(f"deserialize takes the bytes of an export, got {type(blob).__name__}",
                                "read the file first: `Path(name).read_bytes()`")  # fmt: skip
    tables, vouched = seal.opened(blob)
    try:
        table = flat.read(SCHEMA, "Exported", tables)
        if not vouched:
            seal.check_unsealed(table["written_by"] or "")
        return _from_table(table)
    except TilewrightError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        # Of an export that nothing vouches for, such as one of jax's, any field may be missing or of another length.
        raise ExportVersionError(f"these {len(blob)} bytes are no export: {error}",
                                 "pass what `Exported.serialize()` gave") from None  # fmt: skip


def _from_table(t: dict[str, Any]) -> Exported:
    version, calling, writer = t["version"] or 0, t["calling"] or 0, t["written_by"] or "an unknown program"
    if t["name"] is None or t["module"] is None or t["in_tree"] is None or t["out_tree"] is None:
        raise ExportVersionError("these bytes are no export: it has no name, program or trees",
                                 "pass what `Exported.serialize()` gave")  # fmt: skip
    if version > VERSION or not CALLING[0] <= calling <= CALLING[1]:
        raise ExportVersionError(
            f"an export of {t['name']} of version {version}, calling convention {calling}, written by {writer}; known "
            f"are versions up to {VERSION} and conventions {CALLING[0]} to {CALLING[1]}",
            "export the function again, by a version of the same time as this one")  # fmt: skip
    scope = SymbolicScope()
    unique = [*(_read_type(x, scope) for x in t["unique_types"] or ())]
    ins, outs = (
        [_entry(unique, i, "type") for i in t[f"{side}_numbers"]] if t[f"{side}_numbers"]
        else [_read_type(x, scope) for x in t[f"{side}_types"] or ()]
        for side in ("in", "out")
    )  # fmt: skip
    devices = t["devices"] or t["devices_short"] or 1
    meshes = [*map(_read_mesh, t["unique_meshes"] or ())]
    lying = [None, *(_read_sharding(s, meshes) for s in t["unique_shardings"] or ())]
    lie_in, lie_out = (
        tuple(_entry(lying, i, "sharding") for i in t[f"{side}_sharding_numbers"] or ()) for side in ("in", "out")
    )
    if devices > 1 and not any((*lie_in, *lie_out)):
        raise ExportError(f"{t['name']} was exported for {devices} devices, and does not say its argument shardings",
                          "export it with `in_shardings`, by a version of the same time as this one")  # fmt: skip
    if t["ordered_effects"] or t["unordered_effects"]:
        names = ", ".join(x["name"] for x in (*(t["ordered_effects"] or ()), *(t["unordered_effects"] or ())))
        raise ExportError(f"{t['name']} has effects: {names}", "export it without callbacks")
    vjp = t["vjp"]
    return Exported(
        fun_name=t["name"], in_tree=_read_tree(t["in_tree"]), in_avals=tuple(ins), out_tree=_read_tree(t["out_tree"]),
        out_avals=tuple(outs), nr_devices=devices, in_shardings=lie_in, out_shardings=lie_out,
        platforms=tuple(t["platforms"] or ()),
        disabled_safety_checks=tuple(_read_check(x) for x in t["disabled_checks"] or ()),
        mlir_module_serialized=t["module"], calling_convention_version=calling,
        module_kept_var_idx=tuple(t["kept"] or ()), uses_global_constants=bool(t["refined"]), scope=scope,
        make_vjp=None if vjp is None else lambda _: _from_table(vjp),
    )  # fmt: skip


def _read_type(x: dict[str, Any], scope: SymbolicScope) -> ArrayType:
    if x["kind"]:
        raise ExportVersionError(f"an export with a type of kind {x['kind']}", "export the function again")
    return ArrayType(tuple(parse(d, scope) for d in x["shape"] or ()), _entry(DTYPES, x["dtype"] or 0, "dtype"))


def _read_mesh(x: dict[str, Any]) -> AbstractMesh:
    types = tuple(_entry(AXIS_TYPES, i, "kind of axis") or AxisType.Auto for i in x["types"] or ()) or None
    return AbstractMesh(tuple(x["sizes"] or ()), tuple(x["names"] or ()), types)


def _read_sharding(x: dict[str, Any], meshes: Sequence[AbstractMesh]) -> NamedSharding | None:
    """How an array lies; None where that is on one device."""
    spec, mesh = x["spec"], _entry(meshes, x["mesh_number"] or 0, "mesh")
    if spec["reduced"] or spec["unreduced"]:
        raise UnsupportedError("an export of arrays that are `reduced` or `unreduced`", "export it without them")
    kind = None if x["memory_kind"] == "device" else x["memory_kind"]
    dims = (tuple(d["axes"] or ()) for d in spec["partitions"] or ())
    return None if mesh.empty else NamedSharding(mesh, PartitionSpec(*dims), kind)


def _read_tree(x: dict[str, Any]) -> Any:
    children: Sequence[Any] = [_read_tree(c) for c in x["children"] or ()]
    kind = x["kind"] or LEAF
    if kind == LEAF:
        data = None
    elif kind == DICT:
        data = (dict, x["names"] or [])
    elif kind == CUSTOM:
        node = node_of(x["custom_name"])
        data = (node.type, node.read(x["custom_data"] or b""))
    elif kind in _TYPES:
        data = (_TYPES[kind], None)
    else:
        raise ExportVersionError(f"a tree with a node of kind {kind}", "export the function again")
    return pytree.PyTreeDef.from_node_data_and_children(pytree.registry, data, children)


def _read_check(x: dict[str, Any]) -> DisabledSafetyCheck:
    return DisabledSafetyCheck(_entry(CHECKS, x["kind"] or 0, "disabled check"), x["target"] or "")


def _entry(table: Sequence[Any], number: int, what: str) -> Any:
    if not 0 <= number < len(table):
        raise ExportVersionError(f"an export with a {what} of the number {number}, of {len(table)}",
                                 "export the function again")  # fmt: skip
    return table[number]
