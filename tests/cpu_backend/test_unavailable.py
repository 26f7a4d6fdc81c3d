"""Machines without machine code: the other route. Objects on disk that are damaged or another machine's: made anew."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.support.machine_code import needs_llvm
from tilewright import lang as tl
from tilewright.compiler import cpu_kernel_selection
from tilewright.cpu_backend.llvm.builder import Builder
from tilewright.cpu_backend.llvm.compile import generator_version, module_text, object_of
from tilewright.cpu_backend.lowering.rules import REFUSED, WARPGROUPS
from tilewright.cpu_backend.machine.features import features
from tilewright.cpu_backend.objects.store import name_of, pack
from tilewright.cpu_backend.runtime.library import loaded


def doubled(factor: float) -> Any:
    """A kernel of a factor, so that no other test has compiled it."""

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * factor

    params = tl.cpu.CompilerParams(route="machine_code")
    return tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct((4, 6), "float32"), compiler_params=params)


@pytest.mark.parametrize(("name", "given", "text", "factor"), [
    ("missing", lambda: "llvmlite is not installed", "llvmlite is not installed", 2.25),
    ("features", lambda: dataclasses.replace(features(), why="an unknown processor"), "an unknown processor", 2.5),
    ("reason", lambda: "no objects of this system are known", "no objects of this system", 2.75),
])  # fmt: skip
def test_where_there_is_no_machine_code_xla_computes_and_explain_says_why(monkeypatch, name, given, text, factor):
    found = given()
    monkeypatch.setattr(cpu_kernel_selection, name, lambda: found)
    x = np.ones((4, 6), np.float32)
    call = doubled(factor)
    np.testing.assert_array_equal(tw.jit(call)(x), x * factor)
    assert text in str(tw.explain(call, x, compile=True))


class Kept(dict):
    load, store = dict.get, dict.__setitem__


def module(value: float) -> str:
    b = Builder("run", [("ptr", "p")])
    b.linkage = ""
    b.store(b.load(b.parameters[0], "float") * value, b.parameters[0])
    return module_text([b])


@needs_llvm
@pytest.mark.parametrize(("damage", "value"), [
    (lambda good: good[:200], 3.25),
    (lambda good: b"", 3.5),
    (lambda good: b"MZ" + good[2:], 3.75),
    (lambda good: good[:18] + b"\xff\xff" + good[20:], 4.25),
])  # fmt: skip
def test_a_kept_object_that_does_not_load_is_compiled_again(damage, value):
    text, version = module(value), generator_version()
    good = object_of(text, features())
    name = name_of(text, features(), version)
    kept = Kept({name: pack(damage(good), features(), version)})
    assert loaded(text, kept)[1].symbols["run"]
    assert kept[name] == pack(good, features(), version)


def test_the_docs_list_every_operation_that_xla_computes():
    text = (Path(__file__).resolve().parents[2] / "docs" / "cpu.md").read_text()
    _, _, section = text.partition("## What XLA computes all the same")
    table = section.partition("\n## ")[0]
    listed = {name for line in table.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert listed == {str(p) for p in REFUSED if p not in WARPGROUPS}


@needs_llvm
def test_a_kept_object_of_another_machine_is_compiled_again():
    text, version = module(4.5), generator_version()
    name = name_of(text, features(), version)
    kept = Kept({name: pack(b"not for this one", features().without("fma"), version)})
    assert loaded(text, kept)[1].symbols["run"]
    assert kept[name] == pack(object_of(text, features()), features(), version)
