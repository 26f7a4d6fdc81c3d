"""Why a function is traced again: what of a call no earlier call of it had."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..support import pytree


def why(
    fun: Callable[..., Any], key: Sequence[Any], known: Iterable[Any], others: Iterable[Callable[..., Any]],
    names: Sequence[str],
) -> str:  # fmt: skip
    """What makes a call's key new, next to the nearest of the keys known of the function.

    A key is (owner, configuration, tree of the arguments, static ones, types, names of mapped axes). `others` are the
    functions known; `names` are those of the parameters.
    """
    known = list(known)
    if not known:
        return _first(fun, others)
    return min((_differences(key, old, names) for old in known), key=len)[0]


def _first(fun: Callable[..., Any], others: Iterable[Callable[..., Any]]) -> str:
    code = getattr(fun, "__code__", None)
    same = [f for f in others if f is not fun and code is not None and getattr(f, "__code__", None) is code]
    if not same:
        return "it is called for the first time"
    named = _closure_difference(fun, same[-1])
    return (
        f"it is another function object, made by the same lines as one that was traced before{named}; make it once, "
        "outside of the loop or function that makes it, and pass what differs as an argument"
    )


def _closure_difference(new: Callable[..., Any], old: Callable[..., Any]) -> str:
    if not isinstance(new, types.FunctionType) or not new.__closure__:
        return ""
    pairs = zip(new.__code__.co_freevars, new.__closure__, old.__closure__ or (), strict=False)
    different = [name for name, a, b in pairs if _content(a) is not _content(b)]
    return f" (what it closes over as {', '.join(different)} differs)" if different else ""


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty as yet
        return None


def _differences(new: Sequence[Any], old: Sequence[Any], names: Sequence[str]) -> list[str]:
    """What differs between two keys, the most telling first."""
    _, config, treedef, statics, in_types, axes = new
    _, old_config, old_treedef, old_statics, old_types, old_axes = old
    found = []
    if treedef != old_treedef:
        found.append(f"the arguments' tree is {treedef}, and was {old_treedef}")
    elif in_types != old_types:
        paths = [path for path, _ in pytree.leaves_with_path(treedef.unflatten(range(treedef.num_leaves)))]
        pairs = zip(paths, in_types, old_types, strict=True)
        found += [f"{_named(p, names)} is {a.show()}, and was {b.show()}" for p, a, b in pairs if a != b]
    found += _static_differences(statics, old_statics, names)
    if config is not old_config:
        values = vars(config).items()
        found += [f"setting {k} is {v!r}, and was {getattr(old_config, k)!r}" for k, v in values
                  if v != getattr(old_config, k)]  # fmt: skip
    if axes != old_axes:
        found.append(f"mapped axes are {axes}, and were {old_axes}")
    return ["; ".join(found) or "an earlier trace of it was forgotten", *found]


def _static_differences(new: Sequence[Any], old: Sequence[Any], names: Sequence[str]) -> list[str]:
    before = {place: value for place, _, value in old}
    return [
        f"static argument {_parameter(place, names)} is {value!r}, and was {before.get(place)!r}"
        for place, _, value in new
        if place not in before or before[place] != value
    ]


def _named(path: Sequence[Any], names: Sequence[str]) -> str:
    """An argument by the name of its parameter, and the path within it; the tree is (positional, named)."""
    kind, first, *rest = path
    place = first.idx if hasattr(first, "idx") else first.key
    return f"argument {_parameter(place, names)}{pytree.keystr(rest)}"


def _parameter(place: int | str, names: Sequence[str]) -> str:
    return place if isinstance(place, str) else names[place] if place < len(names) else f"number {place}"
