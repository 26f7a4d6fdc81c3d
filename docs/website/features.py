"""The table of features on the start page; `python -m docs.website.features` writes it.

`tests/layout/test_features.py` checks the columns of Tilewright and Pallas.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.capabilities import table

PAGE = Path(__file__).resolve().parents[1] / "index.md"
PART = re.compile(r"(<!-- features: made by docs/website/features\.py -->\n).*?(<!-- end of features -->)", re.S)

HEAD = ("", "Tilewright", "JAX", "Pallas", "Triton")
# Each feature with what the four have of it, in the order of `HEAD`.
FEATURES = {
    "kernels that you write": ("yes", "no: XLA decides what is fused", "yes", "yes"),
    "kernels run on the CPU": ("compiled", "-", "interpreted", "interpreted"),
    "reverse-mode derivative of a kernel": ("yes", "-", "no", "no"),
    "`vmap` of a kernel": ("yes", "-", "yes", "no"),
    "results that depend on out-of-bounds elements": ("rejected", "-", "undetected", "undetected"),
    "parallel program instances that write one block": ("rejected", "-", "undetected", "undetected"),
    "autotuning": ("yes", "no", "no", "yes"),
    "report of memory traffic, bottleneck and proofs": ("yes", "no", "no", "no"),
    "targets": ("CPU, NVIDIA, AMD, TPU", "CPU, NVIDIA, AMD, TPU", "NVIDIA, TPU", "NVIDIA, AMD"),
    "has run on a GPU or a TPU": ("no", "yes", "yes", "yes"),
}


def filled(text: str) -> str:
    """The page with its table made anew."""
    made = table(HEAD, ((feature, *found) for feature, found in FEATURES.items()))
    return PART.sub(lambda m: f"{m[1]}\n{made}\n{m[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
