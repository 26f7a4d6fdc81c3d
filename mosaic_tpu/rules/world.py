"""What speaks to the world: printing, and what no kernel of a TPU can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..body import Body, Rule

_HOST = "a TPU core cannot call Python on the host while a kernel runs"
_MESH = "a kernel runs on one core, and knows no mesh of devices"
_COMPLEX = "a TPU's vector unit has no complex numbers"
_KEY = "a key is an opaque pair of words, which no register of a TPU holds"
UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(("pure_callback", "io_callback"), _HOST),
    **dict.fromkeys(("psum", "pmax", "pmin", "all_gather", "reduce_scatter", "all_to_all", "ppermute", "pbroadcast",
                     "axis_index"), _MESH),
    **dict.fromkeys(("real", "imag", "complex", "conj"), _COMPLEX),
    **dict.fromkeys(("random_wrap", "random_unwrap", "random_bits", "random_split", "random_seed", "random_fold_in",
                     "random_clone"), _KEY),
}  # fmt: skip


def _debug_callback(b: Body, xs: list[Any], outs: Sequence[Any], **params: Any) -> list[Any]:
    return []


RULES: dict[str, Rule] = {"debug_callback": _debug_callback}
