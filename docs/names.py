"""The page of names: every documented name of JAX, whether it is here, and if not, why.

`python -m docs.names` rewrites docs/names.md. The names are a list (names.json): those that JAX 0.11.2
documents, and those that are public and new in 0.12; what is here is asked of the package;
what is missing has its reason in `MISSING`, and what differs is told in `DIFFERS`. Answers to single kinds of operands
that differ are in differences.json, against which `python -m benchmarks.compatibility.agreement` holds every function.
"""

from __future__ import annotations

import fnmatch
import importlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.lang.kernel.missing_names import MOSAIC_GPU, PALLAS, TPU, TRITON

from .capabilities import table

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "names.md"
REFERENCE: dict[str, list[str]] = json.loads((FOLDER / "names.json").read_text())
ANSWERS: list[dict[str, Any]] = json.loads((FOLDER / "differences.json").read_text())

# Namespaces that have another name here.
PLACES = {
    "jax.extend": "tilewright.as_jax.jax.extend",
    "jax.experimental.pallas.mosaic_gpu": "tilewright.lang.mosaic_gpu",
    "jax.experimental.pallas.tpu": "tilewright.lang.tpu",
    "jax.experimental.pallas.triton": "tilewright.lang.triton",
    "jax.experimental.pallas": "tilewright.lang",
}

_EXTEND = "of JAX's own insides, and no library that was tried asks for it (see clients.md)"
_PALLAS = "jax.experimental.pallas"
ABSENT = {f"{_PALLAS}.mosaic_gpu": MOSAIC_GPU, f"{_PALLAS}.tpu": TPU, f"{_PALLAS}.triton": TRITON, _PALLAS: PALLAS}
# A pattern of names and why they are missing; the first that fits a name counts. One that fits none does no harm.
MISSING: list[tuple[str, str]] = [
    ("jax.lax.psend", "half of an exchange, which XLA has for GPUs alone: `lax.ppermute` is the whole one"),
    ("jax.lax.precv", "half of an exchange, which XLA has for GPUs alone: `lax.ppermute` is the whole one"),
    ("jax.lax.psum_scatter_start", "half of an asynchronous exchange: `lax.psum_scatter` is the whole one"),
    ("jax.custom_remat", "part of JAX's third implementation of `checkpoint`; policies by name do this here"),
    ("jax.Inline", "`jit(inline=)` is True or False: XLA decides what it inlines"),
    ("jax.no_execution", "use `eval_shape` or `jit(f).lower`, which run nothing"),
    ("jax.lax.dce_sink", "XLA drops what no result needs, also in JAX: return the value, or pass it to a callback"),
    ("jax.array_garbage_collection_guard", "a search for cycles of references, which `gc.set_debug` makes too"),
    ("jax.experimental.xla_metadata.*", "XLA's own hints; kernels say themselves what is one program"),
    *((f"{space}.{name}", reason) for space, absent in ABSENT.items() for name, reason in absent.items()),
    ("jax.extend.*", _EXTEND),
    ("jax.ffi.abstract_token", "ordered calls pass on a token by themselves"),
    ("jax.custom_vjp.defremat*", "part of JAX's third implementation of `checkpoint`; policies by name do this here"),
    ("jax.custom_vjp.defvjp_with_accums", "accumulators are of JAX's own insides: return cotangents, by `defvjp`"),
    ("jax.profiler.*rofile[LS_]*", "use `profiler.trace`, and `profile`, whose table is a value of Python"),
    ("jax.sharding.no_collectives", "use `explain`, which lists every collective with its bytes"),
    ("jax.profiler.register_subprocess", "a trace is of one process; each process writes its own"),
]
# Names that are here and do another thing, or less.
DIFFERS: list[tuple[str, str]] = [
    ("jax.jit", "`compiler_options` are XLA's flags and efforts; `backend` is a platform, as `device` is"),
    ("jax.checkpoint", "`concrete` is taken and ignored"),
    ("jax.checkpoint_policies.*offload*", "stores where the value is made: nothing is moved between memories"),
    ("jax.transfer_guard*", "`log` warns; numbers are not guarded; copies to the host are on CPUs too"),
    ("jax.enable_checks", "verifies Programs after every trace and every pass: the setting `debug_checks`"),
    ("jax.random.key", "`rbg` and `unsafe_rbg` draw as XLA's Philox on every platform; there is `philox`, too"),
    (
        "jax.lax.rng_bit_generator",
        "the same bits on every platform; of the ThreeFry of odd last axes others than XLA's",
    ),
    (
        "jax.lax.composite",
        "has derivatives and batches, those of its decomposition; where kernels are fused this is what is compiled",
    ),
    (
        "jax.random.c[ah]*ic*",
        "of logits or probabilities of half precision by noise of single precision, which JAX's is not",
    ),
    ("jax.custom_vjp", "a cotangent in a wider float is rounded to the dtype of its argument, where JAX passes it on"),
    ("jax.scipy.signal.istft", "as many times as samples, where SciPy and JAX give as many as the first axis has"),
    ("jax.nn.dot_product_attention", "the residual has a derivative, which JAX stops"),
    ("jax.lax.platform_dependent", "chosen while tracing, for the device or the target of `compile`"),
    ("jax.lax.empty", "zeros"),
    ("jax.Array.committed", "where there is one device, results of committed arrays are uncommitted"),
    ("jax.lax.after_all", "a token is an empty array; it takes any values, and a foreign call takes and gives none"),
    ("jax.lax.ragged_all_to_all", "a gather of all members' rows, on every target, also under `vmap`"),
    ("jax.lax.ragged_dot*", "no `group_offset`, which JAX does not implement either"),
    ("jax.nn.scaled_dot_general", "gradients are quantised products along their own contracted axes"),
    ("jax.ops.segment_prod", "has a derivative also where ids repeat"),
    ("jax.ad_checkpoint.checkpoint_name", "takes pytrees too"),
    ("jax.experimental.pallas.pallas_call", "`kernel_call`, with more arguments: see language.md"),
    ("jax.experimental.pallas.triton.*", "takes any target: see gpu.md"),
]


def place_of(name: str) -> str:
    """Where a name of JAX would be here."""
    for there, here in PLACES.items():
        if name == there or name.startswith(there + "."):
            return here + name[len(there) :]
    return "tilewright" + name.removeprefix("jax")


def found(path: str) -> bool:
    """Whether there is something at a dotted path of the package."""
    parts = path.split(".")
    value: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return False
    return True


def fitting(name: str, rules: Sequence[tuple[str, str]]) -> str | None:
    """What the first rule that fits a name says."""
    return next((text for pattern, text in rules if fnmatch.fnmatchcase(name, pattern)), None)


def names() -> Iterator[tuple[str, str, bool]]:
    """Every documented name: its namespace, itself, and whether it is here."""
    for space, members in REFERENCE.items():
        for member in members:
            yield space, member, found(place_of(f"{space}.{member}"))


def rows() -> list[tuple[str, str, str, str]]:
    """Namespace, name, `here`, `differs` or `not here`, and what there is to say."""
    out = []
    for space, member, here in names():
        text = fitting(f"{space}.{member}", DIFFERS if here else MISSING)
        state = "not here" if not here else "here" if text is None else "differs"
        out.append((space, member, state, text or ""))
    return out


def _answer(entry: dict[str, Any]) -> list[str]:
    return [", ".join(f"`{name}`" for name in entry["names"]), ", ".join(entry.get("given", ["all"])), entry["why"]]


def _grouped(reasons: dict[tuple[str, str], list[str]]) -> list[list[str]]:
    return [[f"`{space}`", ", ".join(members), text] for (space, text), members in reasons.items()]


def page() -> str:
    """The text of the page."""
    found_rows = rows()
    count = len(found_rows)
    here = sum(state != "not here" for _, _, state, _ in found_rows)
    parts = [
        "# Names\n\nMade by `python -m docs.names`: every name that JAX 0.11.2 documents, and each "
        "that 0.12 adds.\n"
        f"Of {count} names {here} are here, under the same name below `tilewright` (Pallas below `tilewright.lang`).\n"
        "A name that is here takes and gives what the reference's does, unless it is among those that differ."
        "\n\n"
    ]
    summary = []
    for space in REFERENCE:
        states = [state for s, _, state, _ in found_rows if s == space]
        summary.append([f"`{space}`", *(str(states.count(s)) for s in ("here", "differs", "not here"))])
    parts.append(table(["namespace", "here", "differs", "not here"], summary))
    parts.append("\n## Those that differ\n\n")
    different = [[f"`{s}.{m}`", text] for s, m, state, text in found_rows if state == "differs"]
    parts.append(table(["name", "how"], different))
    parts.append(
        "\n## Answers that differ\n\nWhere JAX's answer is not that of NumPy or SciPy, ours is theirs. Besides, for "
        "some operands (`odd`: zeros, NaN and\ninfinities):\n\n"
    )
    parts.append(table(["functions", "operands", "answers"], [_answer(entry) for entry in ANSWERS]))
    parts.append("\n## Those that are not here\n\n")
    reasons: dict[tuple[str, str], list[str]] = {}
    for space, member, state, text in found_rows:
        if state == "not here":
            reasons.setdefault((space, text), []).append(f"`{member}`")
    parts.append(table(["namespace", "names", "why"], _grouped(reasons)))
    parts.append("\n## Names of Pallas that are not here\n\nDocumented or not; each is an error that says this.\n\n")
    reasons = {}
    for space, absent in ABSENT.items():
        for name, text in absent.items():
            reasons.setdefault((space, text), []).append(f"`{name}`")
    parts.append(table(["namespace", "names", "instead"], _grouped(reasons)))
    parts.append("\n## Those that are here\n\n")
    present: dict[str, list[str]] = {}
    for space, member, state, _ in found_rows:
        if state != "not here":
            present.setdefault(space, []).append(f"`{member}`")
    parts.append(table(["namespace", "names"], [[f"`{space}`", ", ".join(known)] for space, known in present.items()]))
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
