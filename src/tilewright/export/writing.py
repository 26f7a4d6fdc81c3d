"""Exports as bytes, in the format of `jax.export`."""

from __future__ import annotations

from typing import Any

from ..core.ir.types import ArrayType
from ..core.support.errors import ExportError, TreeError, UnsupportedError
from ..core.support.version import __version__
from . import flat, seal
from .checks import DisabledSafetyCheck
from .nodes import node_of
from .schema import AXIS_TYPES, CHECKS, CUSTOM, DICT, LEAF, LIST, NONE, NUMBERS, ON_DEVICE, SCHEMA, TUPLE, VERSION

KINDS: dict[type, int] = {type(None): NONE, tuple: TUPLE, list: LIST, dict: DICT}


def serialized(exported: Any, vjp_order: int = 0) -> bytearray:
    """An export as bytes, with the exports of its derivatives up to an order."""
    return seal.sealed(flat.written(SCHEMA, "Exported", _exported(exported, vjp_order)))


def _exported(e: Any, vjp_order: int) -> dict[str, Any]:
    unique = list(dict.fromkeys((*e.in_avals, *e.out_avals)))
    numbers = {t: i for i, t in enumerate(unique)}
    lie_in, lie_out = (lie or (None,) * count for lie, count in
                       ((e.in_shardings, len(e.in_avals)), (e.out_shardings, len(e.out_avals))))  # fmt: skip
    shardings: Any = dict.fromkeys(s for s in (*lie_in, *lie_out) if s is not None)
    meshes = {mesh: i for i, mesh in enumerate(dict.fromkeys(s.mesh for s in shardings))}
    lying = {None: 0} | {s: i + 1 for i, s in enumerate(shardings)}
    vjp = _exported(e.vjp(), vjp_order - 1) if vjp_order else None
    return {
        "version": VERSION, "name": e.fun_name, "in_tree": _tree(e.in_tree), "in_types": [*map(_type, e.in_avals)],
        "out_tree": _tree(e.out_tree), "out_types": [*map(_type, e.out_avals)],
        "in_shardings": [{}] * len(lie_in), "out_shardings": [{}] * len(lie_out),
        "platforms": [*e.platforms], "ordered_effects": [], "unordered_effects": [],
        "disabled_checks": [*map(_check, e.disabled_safety_checks)], "module": e.mlir_module_serialized,
        "calling": e.calling_convention_version, "kept": [*e.module_kept_var_idx], "refined": e.uses_global_constants,
        "vjp": vjp, "devices": e.nr_devices, "unique_types": [*map(_type, unique)], 
        "unique_meshes": [*map(_mesh, meshes)], "unique_shardings": [_sharding(s, meshes) for s in shardings],
        "in_numbers": [numbers[t] for t in e.in_avals],
        "out_numbers": [numbers[t] for t in e.out_avals], "in_sharding_numbers": [lying[s] for s in lie_in],
        "out_sharding_numbers": [lying[s] for s in lie_out], "written_by": f"tilewright {__version__}",
    }  # fmt: skip


def _type(type: ArrayType) -> dict[str, Any]:
    if type.dtype not in NUMBERS:
        raise ExportError(f"arrays of dtype {type.dtype} cannot be serialised", "convert them inside the function")
    return {"kind": 0, "shape": [*map(str, type.shape)], "dtype": NUMBERS[type.dtype], "memory_space": ON_DEVICE}


def _mesh(mesh: Any) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in mesh.axis_names):
        raise ExportError(f"{mesh} has axes whose names are no strings", "name them by strings")
    return {"sizes": [*mesh.axis_sizes], "names": [*mesh.axis_names],
            "types": [AXIS_TYPES.index(t) for t in mesh.axis_types]}  # fmt: skip


def _sharding(sharding: Any, meshes: dict[Any, int]) -> dict[str, Any]:
    if sharding.spec.marked:
        raise UnsupportedError(f"an export of arrays on {sharding}", "export a function of reshared ones: P(...)")
    spec = {"partitions": [{"axes": [*axes]} for axes in sharding.spec.dims]}
    return {"mesh": _mesh(sharding.mesh), "spec": spec, "memory_kind": sharding.kind,
            "mesh_number": meshes[sharding.mesh]}  # fmt: skip


def _tree(treedef: Any) -> dict[str, Any]:
    data = treedef.node_data()
    if data is None:
        return {"kind": LEAF}
    kind, extra = data
    found: dict[str, Any] = {"kind": KINDS.get(kind, CUSTOM), "children": [*map(_tree, treedef.children())] or None}
    if kind is dict:
        if not all(isinstance(k, str) for k in extra):
            raise TreeError(f"a dictionary with the keys {list(extra)}", "keys of exported trees are strings")
        found["names"] = [*extra] or None
    elif kind not in KINDS:
        node = node_of(kind)
        found |= {"custom_name": node.name, "custom_data": node.write(extra)}
    return found


def _check(check: DisabledSafetyCheck) -> dict[str, Any]:
    return {"kind": CHECKS.index(check.kind), "target": check.target or None}
