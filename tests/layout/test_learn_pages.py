"""The pages that lead from other libraries: the names in their tables exist, there and here."""

import re

import jax
import jax.experimental.checkify
import jax.experimental.sparse
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plgpu

import tilewright as tw
from tests.support.paths import DOCS
from tilewright import lang, lax, nn

HERE = {"tw": tw, "tl": lang, "tnp": tw.numpy, "lax": lax, "nn": nn, "np": np, "x": tw.numpy.zeros(3)}
THERE = {"jax": jax, "jnp": jnp, "np": np, "pl": pl, "pltpu": pltpu, "plgpu": plgpu}
PAGES = sorted((DOCS / "learn").glob("from_*.md"))
NAME = re.compile(r"`([A-Za-z_]+(?:\.[A-Za-z_]\w*)+)")


def names(page, column):
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")][2:]
    return {name for row in rows for name in NAME.findall(row.split(" | ")[column])}


def missing(found, roots):
    out = []
    for name in found:
        first, *rest = name.split(".")
        value = roots.get(first)
        for part in rest if value is not None else []:
            if part == "at":  # the rest are methods of what indexing gives
                break
            value = getattr(value, part, None)
        if value is None:
            out.append(name)
    return out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_names_here(page):
    found = names(page, 1)
    assert len(found) > 10 and missing(found, HERE) == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem in ("from_pallas", "from_jax", "from_numpy")],
                         ids=lambda p: p.stem)  # fmt: skip
def test_names_there(page):
    found = {name for name in names(page, 0) if name.split(".")[0] in THERE}
    assert len(found) > 10 and missing(found, THERE) == []
